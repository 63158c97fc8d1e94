/* tests/kernels/norm_test.cc - rounding with a norm, and embedding rows: against their definitions written plainly. */
#include "kernels/norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/test_data.h"

namespace
{

using zinf_test::Isas;
using zinf_test::Placed;
using zinf_test::Random;

constexpr zinf_dtype kDtypes[] = { ZINF_F32, ZINF_BF16, ZINF_F16 };

float Widen(zinf_dtype dtype, const void *p, uint64_t i)
{
    if (dtype == ZINF_F32)
        return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return dtype == ZINF_BF16 ? zinf_bf16_to_f32(h) : zinf_f16_to_f32(h);
}

void Narrow(zinf_dtype dtype, void *p, uint64_t i, float x)
{
    if (dtype == ZINF_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = dtype == ZINF_BF16 ? zinf_f32_to_bf16(x) : zinf_f32_to_f16(x);
}

/* The definition in kernels/device.h, word for word. */
std::vector<float> NaiveSums(const std::vector<float> &x)
{
    std::vector<float> sums;
    for (size_t first = 0; first < x.size(); first += 4096) {
        float lanes[64] = {};
        for (size_t j = 0; j < std::min<size_t>(4096, x.size() - first); j++)
            lanes[j % 64] = std::fma(x[first + j], x[first + j], lanes[j % 64]);
        for (int step : { 32, 16, 8, 4, 2, 1 })
            for (int l = 0; l < step; l++)
                lanes[l] += lanes[l + step];
        sums.push_back(lanes[0]);
    }
    return sums;
}

struct Rounded {
    std::vector<float> sums;
    uint64_t nr_nonfinite, first_nonfinite;
};

Rounded Round(zinf_isa isa, zinf_pool *pool, void *dst, zinf_dtype dtype, float *as_f32, const float *src, uint64_t n)
{
    Rounded r = { std::vector<float>((n + 4095) / 4096 + 1, -1.0f), 77, 77 };
    zinf_norm_out out = { r.sums.data(), 77, 77 };
    if (pool)
        zinf_round_norm_pool(isa, pool, dst, dtype, as_f32, src, n, &out);
    else
        zinf_round_norm_range(isa, dst, dtype, as_f32, src, n, &out);
    EXPECT_EQ(r.sums.back(), -1.0f) << "a sum more than there are chunks";
    r.sums.pop_back();
    r.nr_nonfinite = out.nr_nonfinite;
    r.first_nonfinite = out.first_nonfinite;
    return r;
}

bool SameBits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && (a.empty() || memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class NormIsa : public ::testing::TestWithParam<zinf_isa>
{
};
INSTANTIATE_TEST_SUITE_P(Every, NormIsa, ::testing::ValuesIn(Isas()), zinf_test::IsaName);

TEST_P(NormIsa, EveryLengthOffsetAndTypeIsTheDefinitionBitForBit)
{
    std::vector<uint64_t> lengths = zinf_test::Lengths();
    lengths.insert(lengths.end(), { 4096, 8192 + 63, 3 * 4096 + 130 });
    for (zinf_dtype dtype : kDtypes) {
        for (uint64_t n : lengths) {
            for (uint64_t offset = 0; offset<16; offset += n> 5000 ? 5 : 1) {
                Placed<float> src(n, offset), as_f32(n, 15 - offset);
                Placed<unsigned char> dst(n * zinf_dtype_nbytes(dtype), offset * zinf_dtype_nbytes(dtype));
                Placed<unsigned char> want(n * zinf_dtype_nbytes(dtype), 0);
                std::vector<float> rounded(n);
                Random random(n * 16 + offset);
                for (uint64_t i = 0; i < n; i++) {
                    src[i] = random.Value(-30, 8);
                    Narrow(dtype, want.get(), i, src[i]);
                    rounded[i] = Widen(dtype, want.get(), i);
                }
                Rounded both = Round(GetParam(), nullptr, dst.get(), dtype, as_f32.get(), src.get(), n);
                SCOPED_TRACE(::testing::Message() << zinf_dtype_name(dtype) << " n " << n << " offset " << offset);
                ASSERT_TRUE(SameBits(both.sums, NaiveSums(rounded)));
                ASSERT_EQ(both.nr_nonfinite, 0u);
                ASSERT_EQ(both.first_nonfinite, UINT64_MAX);
                ASSERT_TRUE(dst.SameBytes(want));
                ASSERT_TRUE(dst.GuardsIntact() && as_f32.GuardsIntact());
                ASSERT_TRUE(n == 0 || memcmp(as_f32.get(), rounded.data(), n * 4) == 0);

                Rounded alone = Round(GetParam(), nullptr, nullptr, dtype, src.get(), src.get(), n);
                ASSERT_TRUE(SameBits(alone.sums, both.sums));
                ASSERT_TRUE(src.SameBytes(as_f32));
                Rounded again = Round(GetParam(), nullptr, src.get(), ZINF_F32, nullptr, src.get(), n);
                ASSERT_TRUE(SameBits(again.sums, both.sums));
                ASSERT_TRUE(src.SameBytes(as_f32));
            }
        }
    }
}

TEST_P(NormIsa, TotalIsNearTheNormInDouble)
{
    const uint64_t n = 100000;
    std::vector<float> x(n);
    std::vector<uint16_t> half(n);
    Random random(9);
    double exact = 0;
    for (uint64_t i = 0; i < n; i++) {
        x[i] = random.Value(-12, -2);
        double r = zinf_bf16_to_f32(zinf_f32_to_bf16(x[i]));
        exact += r * r;
    }
    Rounded r = Round(GetParam(), nullptr, half.data(), ZINF_BF16, nullptr, x.data(), n);
    /* 64 additions to a lane and 6 of the tree, each within 2^-24 of a sum of positive numbers. */
    EXPECT_NEAR(zinf_norm_total(r.sums.data(), r.sums.size(), 0.0), exact, exact * std::ldexp(70.0, -24));
}

TEST(NormTotal, AddsInOrderInDoubleToWhatThereWas)
{
    const float sums[] = { 1e30f, 1.0f, -1e30f, 0.25f };
    EXPECT_EQ(zinf_norm_total(sums, 4, 0.5), ((0.5 + (double)1e30f + 1.0) - (double)1e30f) + 0.25);
    EXPECT_EQ(zinf_norm_total(nullptr, 0, 3.5), 3.5);
}

TEST_P(NormIsa, CountsWhatIsNotFiniteAndNamesTheFirst)
{
    const uint64_t n = 3 * 4096 + 70;
    for (zinf_dtype dtype : kDtypes) {
        for (uint64_t at : { (uint64_t)0, (uint64_t)63, (uint64_t)64, (uint64_t)4095, (uint64_t)4096, (uint64_t)9000,
                             n - 7, n - 1 }) {
            for (float bad : { INFINITY, -INFINITY, (float)NAN, zinf_f32_from_bits(0xff800001u) }) {
                std::vector<float> x(n, 0.5f);
                std::vector<unsigned char> dst(n * 4);
                x[at] = bad;
                x[n - 1] = INFINITY;
                Rounded r = Round(GetParam(), nullptr, dst.data(), dtype, nullptr, x.data(), n);
                ASSERT_EQ(r.nr_nonfinite, at == n - 1 ? 1u : 2u) << at;
                ASSERT_EQ(r.first_nonfinite, at);
                float sum = r.sums[at / 4096];
                bool nan = std::isnan(x[at]) || std::isnan(sum);
                ASSERT_EQ(zinf_f32_bits(sum), nan ? 0x7fc00000u : 0x7f800000u);
            }
        }
    }
}

TEST_P(NormIsa, OverflowOfTheRoundingCountsAsNotFinite)
{
    std::vector<float> x(200, 1.0f);
    std::vector<uint16_t> half(200);
    x[150] = 70000.0f;
    EXPECT_EQ(Round(GetParam(), nullptr, half.data(), ZINF_BF16, nullptr, x.data(), 200).nr_nonfinite, 0u);
    Rounded r = Round(GetParam(), nullptr, half.data(), ZINF_F16, nullptr, x.data(), 200);
    EXPECT_EQ(r.nr_nonfinite, 1u);
    EXPECT_EQ(r.first_nonfinite, 150u);
}

TEST_P(NormIsa, InPlaceRoundingStillCountsAfterOverwriting)
{
    std::vector<float> x(5000, 1.0f);
    x[70] = 70000.0f;
    x[4999] = NAN;
    Rounded r = Round(GetParam(), nullptr, nullptr, ZINF_F16, x.data(), x.data(), 5000);
    EXPECT_EQ(r.nr_nonfinite, 2u);
    EXPECT_EQ(r.first_nonfinite, 70u);
    EXPECT_TRUE(std::isinf(x[70]));
    EXPECT_TRUE(std::isnan(x[4999]));
}

class Pools : public ::testing::TestWithParam<uint32_t>
{
protected:
    void SetUp() override
    {
        zinf_status st = {};
        ASSERT_EQ(zinf_pool_open(GetParam(), &pool_, &st), 0) << st.text;
    }
    void TearDown() override { zinf_pool_close(pool_); }
    zinf_pool *pool_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Threads, Pools, ::testing::Range(1u, 5u));

TEST_P(Pools, RoundNormEqualsOneRange)
{
    const uint64_t n = 41 * 4096 + 11;
    std::vector<float> x(n);
    Random random(4);
    for (float &v : x)
        v = random.Value(-20, 4);
    x[5 * 4096 + 3] = x[30 * 4096] = x[n - 1] = INFINITY;
    for (zinf_isa isa : Isas()) {
        std::vector<uint16_t> one(n), many(n);
        Rounded a = Round(isa, nullptr, one.data(), ZINF_BF16, nullptr, x.data(), n);
        Rounded b = Round(isa, pool_, many.data(), ZINF_BF16, nullptr, x.data(), n);
        EXPECT_TRUE(SameBits(a.sums, b.sums));
        EXPECT_EQ(one, many);
        EXPECT_EQ(b.nr_nonfinite, 3u);
        EXPECT_EQ(b.first_nonfinite, 5 * 4096 + 3u);
        Rounded none = Round(isa, pool_, nullptr, ZINF_F32, nullptr, nullptr, 0);
        EXPECT_EQ(none.nr_nonfinite, 0u);
        EXPECT_EQ(none.first_nonfinite, UINT64_MAX);
    }
}

TEST_P(Pools, AddRowsEqualsALoopInOrder)
{
    const uint64_t nr_rows = 37;
    for (zinf_isa isa : Isas()) {
        for (zinf_dtype dtype : kDtypes) {
            for (uint64_t width : { 1, 7, 63, 64, 100, 1030, 9001 }) {
                for (uint64_t n : { 0, 1, 2, 300 }) {
                    if (width == 9001 && n > 2)
                        continue;
                    SCOPED_TRACE(::testing::Message() << zinf_isa_name(isa) << " " << zinf_dtype_name(dtype)
                                                      << " width " << width << " n " << n);
                    Random random(width + n);
                    std::vector<unsigned char> rows(n * width * zinf_dtype_nbytes(dtype) + 4);
                    std::vector<int32_t> ids(n);
                    std::vector<uint32_t> order(n);
                    for (uint64_t i = 0; i < n * width; i++)
                        Narrow(dtype, rows.data(), i, random.Value(-12, 4));
                    for (int32_t &id : ids)
                        id = (int32_t)std::min(random.Below(nr_rows), random.Below(nr_rows));
                    for (bool first : { true, false }) {
                        Placed<float> want(nr_rows * width, 0), got(nr_rows * width, 1);
                        for (uint64_t i = 0; i < nr_rows * width; i++)
                            want[i] = got[i] = random.Value(-3, 3);
                        if (first)
                            memset(want.get(), 0, want.nbytes());
                        for (uint64_t i = 0; i < n; i++)
                            for (uint64_t c = 0; c < width; c++)
                                want[(uint64_t)ids[i] * width + c] += Widen(dtype, rows.data(), i * width + c);
                        zinf_add_rows_pool(isa, pool_, got.get(), nr_rows, width, first, rows.data(), dtype, ids.data(),
                                           n, order.data());
                        ASSERT_TRUE(got.SameBytes(want)) << first;
                        ASSERT_TRUE(got.GuardsIntact());
                    }
                    for (uint64_t i = 1; i < n; i++)
                        ASSERT_TRUE(ids[order[i - 1]] < ids[order[i]] ||
                                    (ids[order[i - 1]] == ids[order[i]] && order[i - 1] < order[i]));
                }
            }
        }
    }
}

TEST_P(Pools, ManyRowsOfOneTokenAddInAscendingOrder)
{
    /* 1 is lost beside 2^24 unless the ones are added up first: the sum tells the order. */
    const uint64_t n = 1001;
    std::vector<float> rows(n, 1.0f), grad(1, 0.0f);
    std::vector<int32_t> ids(n, 0);
    std::vector<uint32_t> order(n);
    rows[n - 1] = 16777216.0f;
    zinf_add_rows_pool(ZINF_ISA_SCALAR, pool_, grad.data(), 1, 1, true, rows.data(), ZINF_F32, ids.data(), n,
                       order.data());
    EXPECT_EQ(grad[0], 16777216.0f + 1000.0f);
    std::swap(rows[0], rows[n - 1]);
    zinf_add_rows_pool(ZINF_ISA_SCALAR, pool_, grad.data(), 1, 1, true, rows.data(), ZINF_F32, ids.data(), n,
                       order.data());
    EXPECT_EQ(grad[0], 16777216.0f);
}

} // namespace
