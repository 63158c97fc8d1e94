/* kernels/convert.h - element types into one another, in bulk: the same bits as zinf/base/dtype.h on every ISA. */
#ifndef ZINF_KERNELS_CONVERT_H_
#define ZINF_KERNELS_CONVERT_H_

#include <stdint.h>

#include "zinf/base/cpu.h"
#include "zinf/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst[i] = src[i] in dst_dtype, i < n, on the calling thread. Element alignment is enough. dst and src do not overlap,
 * or are equal and of types of one size. Equal types copy the bits; fp16 from and to bf16 goes through fp32, which is
 * exact on the way in, so it rounds once. isa must be available. */
void zinf_convert_range(enum zinf_isa isa, void *dst, enum zinf_dtype dst_dtype, const void *src,
                        enum zinf_dtype src_dtype, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CONVERT_H_ */
