/* kernels/cpu/lanes.h - eight floats at a time, in the compiler's vector types, for files that are built once per
 * instruction set.
 *
 * A file that includes this is compiled twice: plain (ZINF_ISA_SCALAR; the compiler lowers vectors to what every
 * processor of the architecture has) and with -mavx2 -mfma -mf16c and ZINF_LANES_AVX2 defined. Everything but
 * zinf_v_fma and the products that use it is made of IEEE operations in one fixed order, so both builds give the
 * same bits. */
#ifndef ZINF_KERNELS_CPU_LANES_H_
#define ZINF_KERNELS_CPU_LANES_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zinf/base/dtype.h"

#ifdef ZINF_LANES_AVX2
#include <immintrin.h>
#define ZINF_VARIANT(name) name##_avx2
#else
#define ZINF_VARIANT(name) name##_scalar
#endif

#define ZINF_INLINE static inline __attribute__((always_inline))

typedef float    zinf_v8 __attribute__((vector_size(32)));
typedef int32_t  zinf_i8 __attribute__((vector_size(32)));
typedef uint32_t zinf_u8 __attribute__((vector_size(32)));
typedef uint16_t zinf_h8 __attribute__((vector_size(16)));

ZINF_INLINE zinf_v8 zinf_v_set(float x)
{
    return (zinf_v8){ x, x, x, x, x, x, x, x };
}

ZINF_INLINE zinf_v8 zinf_v_load(const float *p)
{
    zinf_v8 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

ZINF_INLINE void zinf_v_store(float *p, zinf_v8 v)
{
    memcpy(p, &v, sizeof(v));
}

/* The first n < 8 lanes; the others are zero on a load and left alone by a store. */
#ifdef ZINF_LANES_AVX2
ZINF_INLINE __m256i zinf_v_mask(uint64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ZINF_INLINE zinf_v8 zinf_v_load_n(const float *p, uint64_t n)
{
    return (zinf_v8)_mm256_maskload_ps(p, zinf_v_mask(n));
}

ZINF_INLINE void zinf_v_store_n(float *p, zinf_v8 v, uint64_t n)
{
    _mm256_maskstore_ps(p, zinf_v_mask(n), (__m256)v);
}
#else
ZINF_INLINE zinf_v8 zinf_v_load_n(const float *p, uint64_t n)
{
    zinf_v8 v = { 0 };

    for (uint64_t i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}

ZINF_INLINE void zinf_v_store_n(float *p, zinf_v8 v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        p[i] = v[i];
}
#endif

/* mask lanes are all ones or all zeros */
ZINF_INLINE zinf_v8 zinf_v_select(zinf_i8 mask, zinf_v8 yes, zinf_v8 no)
{
    return (zinf_v8)((mask & (zinf_i8)yes) | (~mask & (zinf_i8)no));
}

/* a > b ? a : b and a < b ? a : b: when either is NaN the result is b. */
ZINF_INLINE zinf_v8 zinf_v_max(zinf_v8 a, zinf_v8 b)
{
#ifdef ZINF_LANES_AVX2
    return (zinf_v8)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return zinf_v_select(a > b, a, b);
#endif
}

ZINF_INLINE zinf_v8 zinf_v_min(zinf_v8 a, zinf_v8 b)
{
#ifdef ZINF_LANES_AVX2
    return (zinf_v8)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return zinf_v_select(a < b, a, b);
#endif
}

/* Fused where the instruction set has it, two roundings elsewhere: for products only. */
ZINF_INLINE zinf_v8 zinf_v_fma(zinf_v8 a, zinf_v8 b, zinf_v8 c)
{
#ifdef ZINF_LANES_AVX2
    return (zinf_v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

ZINF_INLINE float zinf_v_sum(zinf_v8 v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

ZINF_INLINE float zinf_v_max_lane(zinf_v8 v)
{
    float m = v[0];

    for (int i = 1; i < 8; i++)
        m = v[i] > m ? v[i] : m;
    return m;
}

/* e^x within 2 units in the last place (denormal results within one denormal step); 0 below -104, Inf above 88.73,
 * NaN stays NaN. x = n ln2 + r with |r| <= ln2 / 2, Taylor's series to r^7 (its rest is under 2^-27), then 2^n in
 * two factors so that neither leaves the range of a float. What gives 0 (a masked score) is kept away from the
 * multiplications: an underflow can cost a hundred cycles. */
ZINF_INLINE zinf_v8 zinf_v_exp(zinf_v8 x)
{
    const float magic = 12582912.0f;                        /* 1.5 * 2^23: adding it rounds to an integer */
    zinf_v8 t, n, r, p;
    zinf_i8 i, half, gone;

    gone = x < zinf_v_set(-104.0f);
    x = (zinf_v8)(~gone & (zinf_i8)x);
    x = zinf_v_min(zinf_v_set(89.0f), x);
    t = x * 1.44269504f + magic;
    n = t - magic;
    r = x - n * 0.693359375f;                               /* 355/512: exact for |n| < 2^15 */
    r = r + n * 2.12194440e-4f;                             /* 355/512 - ln2 */
    p = r * (1.0f / 5040.0f) + (1.0f / 720.0f);
    p = p * r + (1.0f / 120.0f);
    p = p * r + (1.0f / 24.0f);
    p = p * r + (1.0f / 6.0f);
    p = p * r + 0.5f;
    p = (r + p * (r * r)) + 1.0f;
    i = (zinf_i8)t - 0x4b400000;                            /* the bits of magic */
    half = i >> 1;
    p = (p * (zinf_v8)((half + 127) << 23)) * (zinf_v8)((i - half + 127) << 23);
    return (zinf_v8)(~gone & (zinf_i8)p);
}

ZINF_INLINE zinf_v8 zinf_v_from_bf16(zinf_h8 h)
{
    return (zinf_v8)(__builtin_convertvector(h, zinf_u8) << 16);
}

ZINF_INLINE zinf_v8 zinf_v_from_f16(zinf_h8 h)
{
#ifdef ZINF_LANES_AVX2
    return (zinf_v8)_mm256_cvtph_ps((__m128i)h);
#else
    zinf_v8 v;

    for (int i = 0; i < 8; i++)
        v[i] = zinf_f16_to_f32(h[i]);
    return v;
#endif
}

/* Elements [i, i + n) of a buffer of any type, n <= 8. dtype is a constant where it is called, so no branch is left. */
ZINF_INLINE zinf_v8 zinf_v_load_as(const void *p, enum zinf_dtype dtype, uint64_t i, uint64_t n)
{
    zinf_h8 h = { 0 };

    if (dtype == ZINF_F32)
        return n == 8 ? zinf_v_load((const float *)p + i) : zinf_v_load_n((const float *)p + i, n);
    if (n == 8)
        memcpy(&h, (const uint16_t *)p + i, sizeof(h));
    else
        memcpy(&h, (const uint16_t *)p + i, n * 2);
    return dtype == ZINF_BF16 ? zinf_v_from_bf16(h) : zinf_v_from_f16(h);
}

#endif /* ZINF_KERNELS_CPU_LANES_H_ */
