/* kernels/norm.h - rounding a gradient and measuring it in one read; and sums that may run on either side.
 * The order of additions is fixed by struct zinf_norm_out in kernels/device.h and is the same bits on every ISA. */
#ifndef ZINF_KERNELS_NORM_H_
#define ZINF_KERNELS_NORM_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "zinf/base/cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst (dtype) = src rounded to nearest even; out describes the rounded values. as_f32 != NULL also keeps the rounded
 * value as fp32 there (the embedding gradient, whose home is fp32; may be src); dst may be NULL then. dst may be src
 * when dtype is F32. A chunk sum that is NaN is the NaN 0x7fc00000. isa must be available. */
void zinf_round_norm_range(enum zinf_isa isa, void *dst, enum zinf_dtype dtype, float *as_f32, const float *src,
                           uint64_t n, struct zinf_norm_out *out);
void zinf_round_norm_pool(enum zinf_isa isa, struct zinf_pool *pool, void *dst, enum zinf_dtype dtype, float *as_f32,
                          const float *src, uint64_t n, struct zinf_norm_out *out);
/* Chunk sums added in double, in order. */
double zinf_norm_total(const float *chunk_sums, uint64_t nr_chunks, double sum_so_far);

/* grad[ids[i], :] += rows[i, :] (fp32 += dtype), rows of equal id in ascending i; `order` is scratch for n uint32, so
 * n <= 2^32. Every id is in [0, nr_rows). first = the gradient is zeroed before (nr_rows x width). Cut over the pool by
 * columns, so bits do not depend on threads. */
void zinf_add_rows_pool(enum zinf_isa isa, struct zinf_pool *pool, float *grad, uint64_t nr_rows, uint64_t width,
                        bool first, const void *rows, enum zinf_dtype dtype, const int32_t *ids, uint64_t n,
                        uint32_t *order);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_NORM_H_ */
