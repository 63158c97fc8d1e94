/* kernels/cpu/convert.c - bulk conversion: whole vectors first, the rest with the scalar conversions of zinf/base. */
#include "kernels/convert.h"

#include <string.h>

#include "kernels/cpu/vector.h"

static float load(const void *src, enum zinf_dtype dtype, uint64_t i)
{
    switch (dtype) {
    case ZINF_F32:
        return ((const float *)src)[i];
    case ZINF_BF16:
        return zinf_bf16_to_f32(((const uint16_t *)src)[i]);
    default:
        return zinf_f16_to_f32(((const uint16_t *)src)[i]);
    }
}

static void convert_scalar(void *dst, enum zinf_dtype dst_dtype, const void *src, enum zinf_dtype src_dtype,
                           uint64_t from, uint64_t n)
{
    switch (dst_dtype) {
    case ZINF_F32:
        for (uint64_t i = from; i < n; i++)
            ((float *)dst)[i] = load(src, src_dtype, i);
        return;
    case ZINF_BF16:
        for (uint64_t i = from; i < n; i++)
            ((uint16_t *)dst)[i] = zinf_f32_to_bf16(load(src, src_dtype, i));
        return;
    default:
        for (uint64_t i = from; i < n; i++)
            ((uint16_t *)dst)[i] = zinf_f32_to_f16(load(src, src_dtype, i));
        return;
    }
}

void zinf_convert_range(enum zinf_isa isa, void *dst, enum zinf_dtype dst_dtype, const void *src,
                        enum zinf_dtype src_dtype, uint64_t n)
{
    const struct zinf_vector_ops *ops = zinf_vector_ops_get(isa);

    if (n == 0)
        return;
    if (dst_dtype == src_dtype) {
        memmove(dst, src, n * zinf_dtype_nbytes(dst_dtype));
        return;
    }
    convert_scalar(dst, dst_dtype, src, src_dtype, ops ? ops->convert(dst, dst_dtype, src, src_dtype, n) : 0, n);
}
