/* kernels/cpu/vector.h - the vector forms of the element-wise kernels, one const table per instruction set.
 *
 * A vector form takes the whole vectors of a range and says how many elements that was; the caller gives the rest to
 * the scalar form. Both round every operation alike, so where the seam falls cannot be seen in the result. */
#ifndef ZINF_KERNELS_CPU_VECTOR_H_
#define ZINF_KERNELS_CPU_VECTOR_H_

#include <stdint.h>

#include "kernels/update.h"
#include "zinf/base/cpu.h"
#include "zinf/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_vector_ops {
    uint64_t (*convert)(void *dst, enum zinf_dtype dst_dtype, const void *src, enum zinf_dtype src_dtype, uint64_t n);
    uint64_t (*update)(const struct zinf_update *u, uint32_t *bad);
    /* lanes[j], j < 64, becomes fma(x, x, lanes[j]) over whole rows of 64 rounded elements x, which are stored to dst
     * (dtype) and to as_f32 where not NULL. *max_abs becomes the largest bit pattern without sign, of x and itself. */
    uint64_t (*round_squares)(void *dst, enum zinf_dtype dtype, float *as_f32, const float *src, uint64_t n,
                              float *lanes, uint32_t *max_abs);
    /* acc[i] += row[i] */
    uint64_t (*add)(float *acc, const void *row, enum zinf_dtype dtype, uint64_t n);
};

/* NULL: there is no vector form here for this isa, the scalar one does it all. */
const struct zinf_vector_ops *zinf_vector_ops_get(enum zinf_isa isa);

#if defined(__x86_64__)
extern const struct zinf_vector_ops zinf_vector_avx2, zinf_vector_avx512;
#elif defined(__aarch64__)
extern const struct zinf_vector_ops zinf_vector_neon;
#endif

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_VECTOR_H_ */
