/* kernels/cpu/simd.h - a vector of fp32 and one of uint32, in three instruction sets and one vocabulary.
 *
 * The including file defines one of ZINF_SIMD_AVX2, ZINF_SIMD_AVX512, ZINF_SIMD_NEON. Functions carry the target as an
 * attribute, so the files need no flags and nothing compiled for a larger processor can leak out of them. Every
 * operation here is one IEEE operation per lane (or pure bits): that is what makes the instruction sets agree. */
#ifndef ZINF_KERNELS_CPU_SIMD_H_
#define ZINF_KERNELS_CPU_SIMD_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "zinf/base/dtype.h"

#if defined(ZINF_SIMD_AVX2)
#include <immintrin.h>
#define V_TARGET __attribute__((target("avx2,fma,f16c")))
#elif defined(ZINF_SIMD_AVX512)
#include <immintrin.h>
#define V_TARGET __attribute__((target("avx512f,avx2,fma,f16c")))
#elif defined(ZINF_SIMD_NEON)
#include <arm_neon.h>
#define V_TARGET
#else
#error "define ZINF_SIMD_AVX2, ZINF_SIMD_AVX512 or ZINF_SIMD_NEON first"
#endif

#define V_INLINE static inline __attribute__((always_inline)) V_TARGET

#if defined(ZINF_SIMD_AVX2)

typedef __m256 vf;
typedef __m256i vu;
enum { V_LANES = 8 };

V_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
V_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
V_INLINE vf vf_set1(float a) { return _mm256_set1_ps(a); }
V_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
V_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
V_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
V_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
V_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
V_INLINE vu vf_bits(vf a) { return _mm256_castps_si256(a); }
V_INLINE vf vf_from_bits(vu a) { return _mm256_castsi256_ps(a); }
V_INLINE vu vu_set1(uint32_t a) { return _mm256_set1_epi32((int)a); }
V_INLINE vu vu_add(vu a, vu b) { return _mm256_add_epi32(a, b); }
V_INLINE vu vu_and(vu a, vu b) { return _mm256_and_si256(a, b); }
V_INLINE vu vu_or(vu a, vu b) { return _mm256_or_si256(a, b); }
V_INLINE vu vu_shl16(vu a) { return _mm256_slli_epi32(a, 16); }
V_INLINE vu vu_shr16(vu a) { return _mm256_srli_epi32(a, 16); }
V_INLINE vu vu_max(vu a, vu b) { return _mm256_max_epu32(a, b); }
/* yes where x is NaN, else no */
V_INLINE vu vu_if_nan(vf x, vu yes, vu no)
{
    return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
V_INLINE vu vu_load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)); }
V_INLINE vu vu_load_s16(const int16_t *p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p)); }
/* Stores the low halves; the high halves are 0. */
V_INLINE void vu_store_u16(void *p, vu a)
{
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
}
typedef __m128i vhalf;
V_INLINE vhalf vh_load(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
V_INLINE void vh_store(uint16_t *p, vhalf a) { _mm_storeu_si128((__m128i *)p, a); }
V_INLINE vf vh_to_f32(vhalf a) { return _mm256_cvtph_ps(a); }
V_INLINE vhalf vh_from_f32(vf a) { return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

/* Two vectors at a time, 16 bits work in whole registers: a third fewer operations than widening each. After the swap
 * of the middle quarters, unpacking and packing (which stay within 128 bits) keep elements in order. */
#define V_OWN_PAIRS 1
typedef struct {
    vf a, b;
} vf2;
V_INLINE __m256i v_load_swapped(const void *p)
{
    return _mm256_permute4x64_epi64(_mm256_loadu_si256((const __m256i *)p), 0xd8);
}
V_INLINE vf2 vf2_load_bf16(const uint16_t *p)
{
    __m256i x = v_load_swapped(p), zero = _mm256_setzero_si256();
    vf2 r = { vf_from_bits(_mm256_unpacklo_epi16(zero, x)), vf_from_bits(_mm256_unpackhi_epi16(zero, x)) };
    return r;
}
V_INLINE vf2 vf2_join(const uint16_t *hi, const int16_t *lo)
{
    __m256i l = v_load_swapped(lo);
    __m256i h = _mm256_add_epi16(v_load_swapped(hi), _mm256_srai_epi16(l, 15)); /* the borrow of a negative lo */
    vf2 r = { vf_from_bits(_mm256_unpacklo_epi16(l, h)), vf_from_bits(_mm256_unpackhi_epi16(l, h)) };
    return r;
}
V_INLINE void v_store_packed(void *p, vu a, vu b)
{
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
}
V_INLINE void vf2_split(vf2 x, uint16_t *hi, int16_t *lo)
{
    vu a = vf_bits(x.a), b = vf_bits(x.b), half = vu_set1(0x8000), low = vu_set1(0xffff);

    v_store_packed(hi, vu_shr16(vu_add(a, half)), vu_shr16(vu_add(b, half)));
    v_store_packed(lo, vu_and(a, low), vu_and(b, low));
}

#elif defined(ZINF_SIMD_AVX512)

typedef __m512 vf;
typedef __m512i vu;
enum { V_LANES = 16 };

V_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
V_INLINE vf vf_set1(float a) { return _mm512_set1_ps(a); }
V_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
V_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
V_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
V_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
V_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE vu vf_bits(vf a) { return _mm512_castps_si512(a); }
V_INLINE vf vf_from_bits(vu a) { return _mm512_castsi512_ps(a); }
V_INLINE vu vu_set1(uint32_t a) { return _mm512_set1_epi32((int)a); }
V_INLINE vu vu_add(vu a, vu b) { return _mm512_add_epi32(a, b); }
V_INLINE vu vu_and(vu a, vu b) { return _mm512_and_si512(a, b); }
V_INLINE vu vu_or(vu a, vu b) { return _mm512_or_si512(a, b); }
V_INLINE vu vu_shl16(vu a) { return _mm512_slli_epi32(a, 16); }
V_INLINE vu vu_shr16(vu a) { return _mm512_srli_epi32(a, 16); }
V_INLINE vu vu_max(vu a, vu b) { return _mm512_max_epu32(a, b); }
V_INLINE vu vu_if_nan(vf x, vu yes, vu no)
{
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), no, yes);
}
V_INLINE vu vu_load_u16(const uint16_t *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
V_INLINE vu vu_load_s16(const int16_t *p) { return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
V_INLINE void vu_store_u16(void *p, vu a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a)); }
/* Stores the low halves, whatever the high ones are. */
V_INLINE void vu_store_low(void *p, vu a) { vu_store_u16(p, a); }
typedef __m256i vhalf;
V_INLINE vhalf vh_load(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
V_INLINE void vh_store(uint16_t *p, vhalf a) { _mm256_storeu_si256((__m256i *)p, a); }
V_INLINE vf vh_to_f32(vhalf a) { return _mm512_cvtph_ps(a); }
V_INLINE vhalf vh_from_f32(vf a) { return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

#else /* NEON */

typedef float32x4_t vf;
typedef uint32x4_t vu;
enum { V_LANES = 4 };

V_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
V_INLINE void vf_store(float *p, vf a) { vst1q_f32(p, a); }
V_INLINE vf vf_set1(float a) { return vdupq_n_f32(a); }
V_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
V_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
V_INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
V_INLINE vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
V_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
V_INLINE vu vf_bits(vf a) { return vreinterpretq_u32_f32(a); }
V_INLINE vf vf_from_bits(vu a) { return vreinterpretq_f32_u32(a); }
V_INLINE vu vu_set1(uint32_t a) { return vdupq_n_u32(a); }
V_INLINE vu vu_add(vu a, vu b) { return vaddq_u32(a, b); }
V_INLINE vu vu_and(vu a, vu b) { return vandq_u32(a, b); }
V_INLINE vu vu_or(vu a, vu b) { return vorrq_u32(a, b); }
V_INLINE vu vu_shl16(vu a) { return vshlq_n_u32(a, 16); }
V_INLINE vu vu_shr16(vu a) { return vshrq_n_u32(a, 16); }
V_INLINE vu vu_max(vu a, vu b) { return vmaxq_u32(a, b); }
V_INLINE vu vu_if_nan(vf x, vu yes, vu no) { return vbslq_u32(vceqq_f32(x, x), no, yes); }
V_INLINE vu vu_load_u16(const uint16_t *p) { return vmovl_u16(vld1_u16(p)); }
V_INLINE vu vu_load_s16(const int16_t *p) { return vreinterpretq_u32_s32(vmovl_s16(vld1_s16(p))); }
V_INLINE void vu_store_u16(void *p, vu a) { vst1_u16((uint16_t *)p, vmovn_u32(a)); }
/* Stores the low halves, whatever the high ones are. */
V_INLINE void vu_store_low(void *p, vu a) { vu_store_u16(p, a); }
typedef uint16x4_t vhalf;
V_INLINE vhalf vh_load(const uint16_t *p) { return vld1_u16(p); }
V_INLINE void vh_store(uint16_t *p, vhalf a) { vst1_u16(p, a); }
V_INLINE vf vh_to_f32(vhalf a) { return vcvt_f32_f16(vreinterpret_f16_u16(a)); }
V_INLINE vhalf vh_from_f32(vf a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }

#endif

/* bf16 in the low half of each lane, as zinf_f32_to_bf16: to nearest even, NaN quiet. */
V_INLINE vu vu_bf16_from_f32(vf x)
{
    vu u = vf_bits(x), top = vu_shr16(u);
    vu rounded = vu_shr16(vu_add(vu_add(u, vu_set1(0x7fff)), vu_and(top, vu_set1(1))));

    return vu_if_nan(x, vu_or(top, vu_set1(0x40)), rounded);
}

V_INLINE uint32_t vu_max_lane(vu a)
{
    uint32_t lane[V_LANES], max = 0;

    memcpy(lane, &a, sizeof(lane));
    for (int i = 0; i < V_LANES; i++)
        max = lane[i] > max ? lane[i] : max;
    return max;
}

/* Elements i.. of p, which holds dtype, as fp32, and back. dtype is known when compiled. */
V_INLINE vf vf_load_as(const void *p, enum zinf_dtype dtype, uint64_t i)
{
    if (dtype == ZINF_F32)
        return vf_load((const float *)p + i);
    if (dtype == ZINF_BF16)
        return vf_from_bits(vu_shl16(vu_load_u16((const uint16_t *)p + i)));
    return vh_to_f32(vh_load((const uint16_t *)p + i));
}

V_INLINE void vf_store_as(void *p, enum zinf_dtype dtype, uint64_t i, vf x)
{
    if (dtype == ZINF_F32)
        vf_store((float *)p + i, x);
    else if (dtype == ZINF_BF16)
        vu_store_u16((uint16_t *)p + i, vu_bf16_from_f32(x));
    else
        vh_store((uint16_t *)p + i, vh_from_f32(x));
}

#ifndef V_OWN_PAIRS
typedef struct {
    vf a, b;
} vf2;
V_INLINE vf vf_join(const uint16_t *hi, const int16_t *lo)
{
    return vf_from_bits(vu_add(vu_shl16(vu_load_u16(hi)), vu_load_s16(lo)));
}
V_INLINE vf2 vf2_join(const uint16_t *hi, const int16_t *lo)
{
    vf2 r = { vf_join(hi, lo), vf_join(hi + V_LANES, lo + V_LANES) };
    return r;
}
V_INLINE void vf_split(vf x, uint16_t *hi, int16_t *lo)
{
    vu_store_u16(hi, vu_shr16(vu_add(vf_bits(x), vu_set1(0x8000))));
    vu_store_low(lo, vf_bits(x));
}
V_INLINE void vf2_split(vf2 x, uint16_t *hi, int16_t *lo)
{
    vf_split(x.a, hi, lo);
    vf_split(x.b, hi + V_LANES, lo + V_LANES);
}
#endif

/* Two vectors of elements, from i on. */
V_INLINE vf2 vf2_load_as(const void *p, enum zinf_dtype dtype, uint64_t i)
{
#ifdef V_OWN_PAIRS
    if (dtype == ZINF_BF16)
        return vf2_load_bf16((const uint16_t *)p + i);
#endif
    vf2 r = { vf_load_as(p, dtype, i), vf_load_as(p, dtype, i + V_LANES) };
    return r;
}

#endif /* ZINF_KERNELS_CPU_SIMD_H_ */
