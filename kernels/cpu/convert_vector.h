/* kernels/cpu/convert_vector.h - bulk conversion in vectors; for each vector_<isa>.c. */
#ifndef ZINF_KERNELS_CPU_CONVERT_VECTOR_H_
#define ZINF_KERNELS_CPU_CONVERT_VECTOR_H_

#include "kernels/cpu/simd.h"

V_INLINE uint64_t convert_pair(void *dst, enum zinf_dtype dst_dtype, const void *src, enum zinf_dtype src_dtype,
                               uint64_t n)
{
    uint64_t i = 0;

    for (; n - i >= V_LANES; i += V_LANES)
        vf_store_as(dst, dst_dtype, i, vf_load_as(src, src_dtype, i));
    return i;
}

V_INLINE uint64_t convert_to(void *dst, enum zinf_dtype dst_dtype, const void *src, enum zinf_dtype src_dtype,
                             uint64_t n)
{
    switch (src_dtype) {
    case ZINF_F32:
        return convert_pair(dst, dst_dtype, src, ZINF_F32, n);
    case ZINF_BF16:
        return convert_pair(dst, dst_dtype, src, ZINF_BF16, n);
    default:
        return convert_pair(dst, dst_dtype, src, ZINF_F16, n);
    }
}

static V_TARGET uint64_t convert_vector(void *dst, enum zinf_dtype dst_dtype, const void *src,
                                        enum zinf_dtype src_dtype, uint64_t n)
{
    switch (dst_dtype) {
    case ZINF_F32:
        return convert_to(dst, ZINF_F32, src, src_dtype, n);
    case ZINF_BF16:
        return convert_to(dst, ZINF_BF16, src, src_dtype, n);
    default:
        return convert_to(dst, ZINF_F16, src, src_dtype, n);
    }
}

#endif /* ZINF_KERNELS_CPU_CONVERT_VECTOR_H_ */
