/* tests/kernels/convert_test.cc - bulk conversions against the scalar ones, and those against their rules. */
#include "kernels/convert.h"

#include <gtest/gtest.h>

#include "tests/kernels/test_data.h"

namespace
{

using zinf_test::Isas;
using zinf_test::Lengths;
using zinf_test::Placed;
using zinf_test::Random;

constexpr zinf_dtype kDtypes[] = { ZINF_F32, ZINF_BF16, ZINF_F16 };

std::vector<uint16_t> AllHalves()
{
    std::vector<uint16_t> all(65536);
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    return all;
}

/* fp32 patterns: every sign, exponent and upper fraction with the lower bits that decide a rounding, and random. */
std::vector<uint32_t> Patterns()
{
    const uint32_t low[] = { 0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x7fff, 0x8000, 0x8001, 0xffff };
    std::vector<uint32_t> all;
    for (uint32_t top = 0; top < 65536; top++)
        for (uint32_t l : low)
            all.push_back(top << 16 | l);
    Random random(7);
    for (int i = 0; i < 1 << 20; i++)
        all.push_back(random.Bits());
    return all;
}

class ConvertIsa : public ::testing::TestWithParam<zinf_isa>
{
};
INSTANTIATE_TEST_SUITE_P(Every, ConvertIsa, ::testing::ValuesIn(Isas()), zinf_test::IsaName);

TEST_P(ConvertIsa, EveryHalfBecomesFp32AsInBase)
{
    std::vector<uint16_t> halves = AllHalves();
    std::vector<float> from_bf16(65536), from_f16(65536);
    zinf_convert_range(GetParam(), from_bf16.data(), ZINF_F32, halves.data(), ZINF_BF16, 65536);
    zinf_convert_range(GetParam(), from_f16.data(), ZINF_F32, halves.data(), ZINF_F16, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        ASSERT_EQ(zinf_f32_bits(from_bf16[i]), i << 16) << i;
        ASSERT_EQ(zinf_f32_bits(from_f16[i]), zinf_f32_bits(zinf_f16_to_f32((uint16_t)i))) << i;
    }
}

TEST_P(ConvertIsa, EveryHalfReturnsUnchangedOrAsQuietNan)
{
    std::vector<uint16_t> halves = AllHalves(), back(65536);
    std::vector<float> wide(65536);
    for (zinf_dtype dtype : { ZINF_BF16, ZINF_F16 }) {
        uint16_t exponent = dtype == ZINF_BF16 ? 0x7f80 : 0x7c00, quiet = dtype == ZINF_BF16 ? 0x40 : 0x200;
        zinf_convert_range(GetParam(), wide.data(), ZINF_F32, halves.data(), dtype, 65536);
        zinf_convert_range(GetParam(), back.data(), dtype, wide.data(), ZINF_F32, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            bool nan = (i & 0x7fff) > exponent;
            ASSERT_EQ(back[i], nan ? (i | quiet) : i) << zinf_dtype_name(dtype) << " " << i;
        }
    }
}

TEST_P(ConvertIsa, BetweenHalvesRoundsOnceThroughFp32)
{
    std::vector<uint16_t> halves = AllHalves(), to_f16(65536), to_bf16(65536);
    zinf_convert_range(GetParam(), to_f16.data(), ZINF_F16, halves.data(), ZINF_BF16, 65536);
    zinf_convert_range(GetParam(), to_bf16.data(), ZINF_BF16, halves.data(), ZINF_F16, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        ASSERT_EQ(to_f16[i], zinf_f32_to_f16(zinf_bf16_to_f32((uint16_t)i))) << i;
        ASSERT_EQ(to_bf16[i], zinf_f32_to_bf16(zinf_f16_to_f32((uint16_t)i))) << i;
    }
}

TEST_P(ConvertIsa, NarrowingEqualsBaseOverStratifiedPatterns)
{
    std::vector<uint32_t> patterns = Patterns();
    std::vector<uint16_t> bf16(patterns.size()), f16(patterns.size());
    zinf_convert_range(GetParam(), bf16.data(), ZINF_BF16, patterns.data(), ZINF_F32, patterns.size());
    zinf_convert_range(GetParam(), f16.data(), ZINF_F16, patterns.data(), ZINF_F32, patterns.size());
    for (size_t i = 0; i < patterns.size(); i++) {
        ASSERT_EQ(bf16[i], zinf_f32_to_bf16(zinf_f32_from_bits(patterns[i]))) << std::hex << patterns[i];
        ASSERT_EQ(f16[i], zinf_f32_to_f16(zinf_f32_from_bits(patterns[i]))) << std::hex << patterns[i];
    }
}

/* The nearest of the two neighbours, the even one of a tie: checked in double, where all three are exact. */
TEST_P(ConvertIsa, NarrowingTakesTheNearestAndTheEvenOfATie)
{
    std::vector<uint32_t> patterns = Patterns();
    std::vector<uint16_t> half(patterns.size());
    for (zinf_dtype dtype : { ZINF_BF16, ZINF_F16 }) {
        auto wide = [&](uint32_t h) -> double {
            return dtype == ZINF_BF16 ? zinf_bf16_to_f32((uint16_t)h) : zinf_f16_to_f32((uint16_t)h);
        };
        const uint32_t largest = dtype == ZINF_BF16 ? 0x7f7f : 0x7bff;
        zinf_convert_range(GetParam(), half.data(), dtype, patterns.data(), ZINF_F32, patterns.size());
        for (size_t i = 0; i < patterns.size(); i++) {
            double x = std::fabs((double)zinf_f32_from_bits(patterns[i] & 0x7fffffff));
            uint32_t h = half[i] & 0x7fff;
            ASSERT_EQ(half[i] >> 15, patterns[i] >> 31);
            if (std::isnan(x) || std::isinf(x)) {
                ASSERT_EQ(h > largest + 1, std::isnan(x)) << std::hex << patterns[i];
                ASSERT_GT(h, largest);
                continue;
            }
            double step = wide(largest) - wide(largest - 1);
            if (h > largest) {
                /* Infinity stands where the next finite value would be, and has the even pattern. */
                ASSERT_GE(x, wide(largest) + step / 2) << std::hex << patterns[i];
                continue;
            }
            double at = wide(h), above = h == largest ? at + step : wide(h + 1),
                   below = h == 0 ? -wide(1) : wide(h - 1);
            ASSERT_LE(std::fabs(x - at), std::fabs(above - x)) << std::hex << patterns[i];
            ASSERT_LE(std::fabs(x - at), std::fabs(x - below)) << std::hex << patterns[i];
            if (h & 1) {
                ASSERT_NE(x - at, above - x) << std::hex << patterns[i];
                ASSERT_NE(at - x, x - below) << std::hex << patterns[i];
            }
        }
    }
}

TEST_P(ConvertIsa, GoldenNumbers)
{
    const uint32_t in[] = {
        0x3f808000u /* 1.00390625 */, 0x3f818000u, 0x7f800001u, 0xff800001u, 0x7f800000u, 0x7f7fffffu, 0x80000001u
    };
    const uint16_t bf16[] = { 0x3f80, 0x3f82, 0x7fc0, 0xffc0, 0x7f80, 0x7f80, 0x8000 };
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
        std::vector<uint32_t> src(17, in[i]);
        std::vector<uint16_t> dst(17);
        zinf_convert_range(GetParam(), dst.data(), ZINF_BF16, src.data(), ZINF_F32, 17);
        for (uint16_t h : dst)
            ASSERT_EQ(h, bf16[i]) << std::hex << in[i];
    }
    const float wide[] = { 65504.0f,           65519.99f,     65520.0f,     1.0f + 1.0f / 2048,
                           1.0f + 3.0f / 2048, 5.9604645e-8f, 2.9802322e-8f };
    const uint16_t f16[] = { 0x7bff, 0x7bff, 0x7c00, 0x3c00, 0x3c02, 0x0001, 0x0000 };
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        std::vector<float> src(17, wide[i]);
        std::vector<uint16_t> dst(17);
        zinf_convert_range(GetParam(), dst.data(), ZINF_F16, src.data(), ZINF_F32, 17);
        for (uint16_t h : dst)
            ASSERT_EQ(h, f16[i]) << wide[i];
    }
}

TEST_P(ConvertIsa, EveryPairLengthAndOffsetEqualsScalarAndStaysInside)
{
    Random random(3);
    for (zinf_dtype to : kDtypes) {
        for (zinf_dtype from : kDtypes) {
            for (uint64_t n : Lengths()) {
                for (uint64_t offset = 0; offset < 16; offset++) {
                    Placed<unsigned char> src(n * zinf_dtype_nbytes(from), offset * zinf_dtype_nbytes(from));
                    Placed<unsigned char> got(n * zinf_dtype_nbytes(to), (15 - offset) * zinf_dtype_nbytes(to));
                    Placed<unsigned char> want(n * zinf_dtype_nbytes(to), 0);
                    for (uint64_t i = 0; i < src.nbytes(); i++)
                        src[i] = (unsigned char)random.Bits();
                    zinf_convert_range(ZINF_ISA_SCALAR, want.get(), to, src.get(), from, n);
                    zinf_convert_range(GetParam(), got.get(), to, src.get(), from, n);
                    ASSERT_TRUE(got.SameBytes(want))
                        << zinf_dtype_name(from) << " to " << zinf_dtype_name(to) << " n " << n;
                    ASSERT_TRUE(got.GuardsIntact())
                        << zinf_dtype_name(from) << " to " << zinf_dtype_name(to) << " n " << n;
                }
            }
        }
    }
}

TEST_P(ConvertIsa, BetweenHalvesWorksInPlace)
{
    std::vector<uint16_t> in_place = AllHalves(), apart(65536);
    zinf_convert_range(GetParam(), apart.data(), ZINF_F16, in_place.data(), ZINF_BF16, 65536);
    zinf_convert_range(GetParam(), in_place.data(), ZINF_F16, in_place.data(), ZINF_BF16, 65536);
    EXPECT_EQ(in_place, apart);
}

} // namespace
