/* kernels/cpu/norm_vector.h - rounding with squares and adding a row, in vectors; for each vector_<isa>.c. */
#ifndef ZINF_KERNELS_CPU_NORM_VECTOR_H_
#define ZINF_KERNELS_CPU_NORM_VECTOR_H_

#include "kernels/cpu/simd.h"

enum { NORM_LANES = 64, NORM_VECTORS = NORM_LANES / V_LANES };

/* Stores x rounded to dtype where it is wanted; returns it as fp32. */
V_INLINE vf round_store(void *dst, enum zinf_dtype dtype, uint64_t i, vf x)
{
    if (dtype == ZINF_F32) {
        if (dst)
            vf_store((float *)dst + i, x);
        return x;
    }
    if (dtype == ZINF_BF16) {
        vu h = vu_bf16_from_f32(x);

        if (dst)
            vu_store_u16((uint16_t *)dst + i, h);
        return vf_from_bits(vu_shl16(h));
    }
    vhalf h = vh_from_f32(x);

    if (dst)
        vh_store((uint16_t *)dst + i, h);
    return vh_to_f32(h);
}

V_INLINE uint64_t round_squares_loop(void *dst, enum zinf_dtype dtype, float *as_f32, const float *src, uint64_t n,
                                     float *lanes, uint32_t *max_abs)
{
    vf sum[NORM_VECTORS];
    vu max = vu_set1(*max_abs), no_sign = vu_set1(0x7fffffffu);
    uint64_t i = 0;

#pragma GCC unroll 16
    for (int k = 0; k < NORM_VECTORS; k++)
        sum[k] = vf_load(lanes + k * V_LANES);
    for (; n - i >= NORM_LANES; i += NORM_LANES) {
#pragma GCC unroll 16
        for (int k = 0; k < NORM_VECTORS; k++) {
            uint64_t at = i + (uint64_t)k * V_LANES;
            vf x = round_store(dst, dtype, at, vf_load(src + at));

            if (as_f32)
                vf_store(as_f32 + at, x);
            sum[k] = vf_fma(x, x, sum[k]);
            max = vu_max(max, vu_and(vf_bits(x), no_sign));
        }
    }
#pragma GCC unroll 16
    for (int k = 0; k < NORM_VECTORS; k++)
        vf_store(lanes + k * V_LANES, sum[k]);
    *max_abs = vu_max_lane(max);
    return i;
}

static V_TARGET uint64_t round_squares_vector(void *dst, enum zinf_dtype dtype, float *as_f32, const float *src,
                                              uint64_t n, float *lanes, uint32_t *max_abs)
{
    switch (dtype) {
    case ZINF_F32:
        return round_squares_loop(dst, ZINF_F32, as_f32, src, n, lanes, max_abs);
    case ZINF_BF16:
        return round_squares_loop(dst, ZINF_BF16, as_f32, src, n, lanes, max_abs);
    default:
        return round_squares_loop(dst, ZINF_F16, as_f32, src, n, lanes, max_abs);
    }
}

V_INLINE uint64_t add_loop(float *acc, const void *row, enum zinf_dtype dtype, uint64_t n)
{
    uint64_t i = 0;

    for (; n - i >= V_LANES; i += V_LANES)
        vf_store(acc + i, vf_add(vf_load(acc + i), vf_load_as(row, dtype, i)));
    return i;
}

static V_TARGET uint64_t add_vector(float *acc, const void *row, enum zinf_dtype dtype, uint64_t n)
{
    switch (dtype) {
    case ZINF_F32:
        return add_loop(acc, row, ZINF_F32, n);
    case ZINF_BF16:
        return add_loop(acc, row, ZINF_BF16, n);
    default:
        return add_loop(acc, row, ZINF_F16, n);
    }
}

#endif /* ZINF_KERNELS_CPU_NORM_VECTOR_H_ */
