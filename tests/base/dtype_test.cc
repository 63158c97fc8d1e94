/* tests/base/dtype_test.cc - conversions over all 65,536 half-precision patterns and the values between them. */
#include "zinf/base/dtype.h"

#include <errno.h>
#include <math.h>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

bool IsNan16(uint16_t h) { return (h & 0x7fff) > 0x7c00; }
bool IsNanBf16(uint16_t h) { return (h & 0x7fff) > 0x7f80; }

/* The value of a pattern by the definition of the format. */
double Value16(uint16_t h)
{
    int exp = (h >> 10) & 31, frac = h & 1023;
    double v = exp == 0 ? ldexp(frac, -24) : ldexp(1024 + frac, exp - 25);

    return h & 0x8000 ? -v : v;
}

}  // namespace

TEST(Dtype, NamesAndSizes)
{
    EXPECT_EQ(zinf_dtype_nbytes(ZINF_F32), 4u);
    EXPECT_EQ(zinf_dtype_nbytes(ZINF_BF16), 2u);
    EXPECT_EQ(zinf_dtype_nbytes(ZINF_F16), 2u);
    EXPECT_STREQ(zinf_dtype_name(ZINF_BF16), "bf16");
    EXPECT_STREQ(zinf_dtype_safetensors(ZINF_F16), "F16");
}

TEST(Dtype, ParsesBothSpellingsAndNothingElse)
{
    for (int i = 0; i < ZINF_NR_DTYPES; i++) {
        zinf_dtype t = ZINF_NR_DTYPES;

        EXPECT_EQ(zinf_dtype_parse(zinf_dtype_name((zinf_dtype)i), &t), 0);
        EXPECT_EQ(t, i);
        t = ZINF_NR_DTYPES;
        EXPECT_EQ(zinf_dtype_parse(zinf_dtype_safetensors((zinf_dtype)i), &t), 0);
        EXPECT_EQ(t, i);
    }
    zinf_dtype t = ZINF_F32;

    for (const char *bad : { "", "fp", "fp322", "f32", "Bf16", "int8" })
        EXPECT_EQ(zinf_dtype_parse(bad, &t), -EINVAL) << bad;
}

TEST(DtypeF16, EveryPatternHasItsValueAndComesBack)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = zinf_f16_to_f32(h);

        if (IsNan16(h)) {
            ASSERT_TRUE(isnan(f)) << i;
            ASSERT_EQ(zinf_f32_bits(f), (uint32_t)(h & 0x8000) << 16 | 0x7fc00000u | (uint32_t)(h & 0x3ff) << 13) << i;
            ASSERT_EQ(zinf_f32_to_f16(f), h | 0x200) << i;
            continue;
        }
        if ((h & 0x7fff) == 0x7c00)
            ASSERT_TRUE(isinf(f)) << i;
        else
            ASSERT_EQ((double)f, Value16(h)) << i;
        ASSERT_EQ(signbit(f) != 0, (h & 0x8000) != 0) << i;
        ASSERT_EQ(zinf_f32_to_f16(f), h) << i;
    }
}

TEST(DtypeF16, BetweenTwoNeighboursTheNearerWinsAndATieGoesToEven)
{
    for (uint32_t i = 0; i < 0x7bff; i++) {
        uint16_t lo = (uint16_t)i, hi = (uint16_t)(i + 1), even = i % 2 ? hi : lo;
        float mid = (float)((Value16(lo) + Value16(hi)) / 2);   /* exact */

        for (uint16_t sign : { 0, 0x8000 }) {
            float s = sign ? -1.0f : 1.0f;

            ASSERT_EQ(zinf_f32_to_f16(s * mid), sign | even) << i;
            ASSERT_EQ(zinf_f32_to_f16(s * nextafterf(mid, 0)), sign | lo) << i;
            ASSERT_EQ(zinf_f32_to_f16(s * nextafterf(mid, INFINITY)), sign | hi) << i;
        }
    }
}

TEST(DtypeF16, TheEndsOfTheRange)
{
    EXPECT_EQ(zinf_f32_to_f16(65504.0f), 0x7bff);
    EXPECT_EQ(zinf_f32_to_f16(nextafterf(65520.0f, 0)), 0x7bff);
    EXPECT_EQ(zinf_f32_to_f16(65520.0f), 0x7c00);
    EXPECT_EQ(zinf_f32_to_f16(3e38f), 0x7c00);
    EXPECT_EQ(zinf_f32_to_f16(-INFINITY), 0xfc00);
    EXPECT_EQ(zinf_f32_to_f16(0x1p-25f), 0x0000);
    EXPECT_EQ(zinf_f32_to_f16(nextafterf(0x1p-25f, 1)), 0x0001);
    EXPECT_EQ(zinf_f32_to_f16(1e-45f), 0x0000);
    EXPECT_EQ(zinf_f32_to_f16(-1e-45f), 0x8000);
}

TEST(DtypeBf16, EveryPatternComesBackAndNansAreQuiet)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = zinf_bf16_to_f32(h);

        ASSERT_EQ(zinf_f32_bits(f), i << 16);
        if (IsNanBf16(h)) {
            ASSERT_TRUE(isnan(f)) << i;
            ASSERT_EQ(zinf_f32_to_bf16(f), h | 0x40) << i;
        } else {
            ASSERT_EQ(zinf_f32_to_bf16(f), h) << i;
        }
    }
}

TEST(DtypeBf16, BetweenTwoNeighboursTheNearerWinsAndATieGoesToEven)
{
    for (uint32_t i = 0; i < 0x7f80; i++) {
        for (uint32_t sign : { 0u, 0x8000u }) {
            uint32_t lo = sign | i, hi = sign | (i + 1), even = i % 2 ? hi : lo, mid = lo << 16 | 0x8000u;

            ASSERT_EQ(zinf_f32_to_bf16(zinf_f32_from_bits(mid)), even) << i;
            ASSERT_EQ(zinf_f32_to_bf16(zinf_f32_from_bits(mid - 1)), lo) << i;
            ASSERT_EQ(zinf_f32_to_bf16(zinf_f32_from_bits(mid + 1)), hi) << i;
        }
    }
}

TEST(DtypeBf16, NanThatLivesInTheLowBitsStaysNan)
{
    EXPECT_TRUE(IsNanBf16(zinf_f32_to_bf16(zinf_f32_from_bits(0x7f800001u))));
    EXPECT_TRUE(IsNanBf16(zinf_f32_to_bf16(zinf_f32_from_bits(0xff80ffffu))));
    EXPECT_TRUE(IsNanBf16(zinf_f32_to_bf16(zinf_f32_from_bits(0x7fffffffu))));
}

#if defined(__x86_64__)
namespace {
__attribute__((target("avx,f16c"))) uint16_t HardwareTo16(float f)
{
    return (uint16_t)_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT), 0);
}
__attribute__((target("avx,f16c"))) uint32_t HardwareBitsFrom16(uint16_t h)
{
    return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(_mm_cvtph_ps(_mm_cvtsi32_si128(h))));
}
}  // namespace

TEST(DtypeF16, EqualsTheProcessorsOwn)
{
    if (!__builtin_cpu_supports("avx2"))
        GTEST_SKIP() << "no F16C";
    for (uint32_t i = 0; i < 65536; i++)
        ASSERT_EQ(zinf_f32_bits(zinf_f16_to_f32((uint16_t)i)), HardwareBitsFrom16((uint16_t)i)) << i;
    for (uint32_t top = 0; top < 65536; top++)
        for (uint32_t low : { 0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x7fffu, 0x8000u, 0xffffu }) {
            float f = zinf_f32_from_bits(top << 16 | low);

            ASSERT_EQ(zinf_f32_to_f16(f), HardwareTo16(f)) << top << " " << low;
        }
}
#endif
