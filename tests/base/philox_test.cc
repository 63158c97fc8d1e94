/* tests/base/philox_test.cc - known answers, independence of the order of drawing, moments, and bijections. */
#include "zinf/base/philox.h"

#include <math.h>

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace {

/* Known answers of Philox4x32-10 published with the paper (zeros, ones, digits of pi). */
struct Vector {
    uint32_t ctr[4], key[2], out[4];
};
const Vector kVectors[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

}  // namespace

TEST(Philox, KnownAnswers)
{
    for (const Vector &v : kVectors) {
        uint32_t out[4];

        zinf_philox4x32(v.key, v.ctr, out);
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(out[i], v.out[i]);
    }
}

TEST(Philox, NamesHashAsFnv1a)
{
    EXPECT_EQ(zinf_hash_name(""), 0xcbf29ce484222325ull);
    EXPECT_EQ(zinf_hash_name("a"), 0xaf63dc4c8601ec8cull);
    EXPECT_EQ(zinf_hash_name("foobar"), 0x85944171f73967e8ull);
}

TEST(Philox, UniformLiesInTheOpenUnitIntervalEvenly)
{
    const int n = 200000;
    double sum = 0, squares = 0;
    int bins[16] = {};

    for (int i = 0; i < n; i++) {
        double u = zinf_uniform(42, 7, (uint64_t)i);

        ASSERT_GT(u, 0);
        ASSERT_LT(u, 1);
        sum += u;
        squares += u * u;
        bins[(int)(u * 16)]++;
    }
    /* Five standard errors. */
    EXPECT_NEAR(sum / n, 0.5, 5 * sqrt(1.0 / 12 / n));
    EXPECT_NEAR(squares / n, 1.0 / 3, 5 * sqrt(4.0 / 45 / n));
    for (int b : bins)
        EXPECT_NEAR(b, n / 16, 5 * sqrt(n / 16.0));
}

TEST(Philox, NormalHasItsMoments)
{
    const size_t n = 200000;
    std::vector<float> x(n);
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, pairs = 0;

    zinf_normal_fill(42, 7, 0, n, 3, 2, x.data());
    for (size_t i = 0; i < n; i++) {
        double z = ((double)x[i] - 3) / 2;

        m1 += z;
        m2 += z * z;
        m3 += z * z * z;
        m4 += z * z * z * z;
        if (i % 2)
            pairs += z * ((double)x[i - 1] - 3) / 2;
    }
    EXPECT_NEAR(m1 / n, 0, 5 * sqrt(1.0 / n));
    EXPECT_NEAR(m2 / n, 1, 5 * sqrt(2.0 / n));
    EXPECT_NEAR(m3 / n, 0, 5 * sqrt(15.0 / n));
    EXPECT_NEAR(m4 / n, 3, 5 * sqrt(96.0 / n));
    EXPECT_NEAR(pairs / (n / 2), 0, 5 * sqrt(2.0 / n));
}

TEST(Philox, NormalFillIsTheSameHoweverItIsCut)
{
    const uint64_t first = 1001, n = 777;
    std::vector<float> whole(n), cut(n);

    zinf_normal_fill(5, 6, first, n, 0, 1, whole.data());
    for (uint64_t step : { 1, 2, 3, 7, 64, 100 }) {
        std::fill(cut.begin(), cut.end(), NAN);
        for (uint64_t i = 0; i < n; i += step)
            zinf_normal_fill(5, 6, first + i, std::min(step, n - i), 0, 1, &cut[i]);
        EXPECT_EQ(cut, whole) << step;
    }
    zinf_normal_fill(5, 6, first, 0, 0, 1, nullptr);   /* nothing asked, nothing written */
}

TEST(Philox, SeedStreamAndKindOfDrawAllMatter)
{
    std::vector<float> a(64), b(64);
    std::set<double> seen;

    for (uint64_t seed : { 1ull, 2ull, 1ull << 32, 1ull << 63 })
        for (uint64_t stream : { 1ull, 2ull, 1ull << 32, 1ull << 63 })
            for (uint64_t index : { 1ull, 2ull, 1ull << 32, 1ull << 63 })
                seen.insert(zinf_uniform(seed, stream, index));
    EXPECT_EQ(seen.size(), 64u);
    zinf_normal_fill(1, 1, 0, 64, 0, 1, a.data());
    zinf_normal_fill(1, 2, 0, 64, 0, 1, b.data());
    EXPECT_NE(a, b);
    zinf_normal_fill(2, 1, 0, 64, 0, 1, b.data());
    EXPECT_NE(a, b);
}

TEST(Permute, IsABijection)
{
    for (uint64_t n : { 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 100, 1000, 4096, 4097, 20000 }) {
        std::vector<bool> hit(n);

        for (uint64_t i = 0; i < n; i++) {
            uint64_t p = zinf_permute(9, 3, n, i);

            ASSERT_LT(p, n);
            ASSERT_FALSE(hit[p]) << n << " " << i;
            hit[p] = true;
        }
    }
}

TEST(Permute, WorksAtTheFullWidth)
{
    std::set<uint64_t> seen;

    for (uint64_t n : std::vector<uint64_t>{ UINT64_MAX, 1ull << 63, (1ull << 63) + 1, (1ull << 33) + 5 })
        for (uint64_t i : { uint64_t(0), uint64_t(1), n / 2, n - 1 })
            EXPECT_LT(zinf_permute(1, 1, n, i), n);
    for (uint64_t i = 0; i < 1000; i++)
        seen.insert(zinf_permute(1, 1, UINT64_MAX, i));
    EXPECT_EQ(seen.size(), 1000u);
}

TEST(Permute, EveryOrderOfThreeComesUpAboutEquallyOften)
{
    const int nr_seeds = 6000;
    int count[27] = {};

    for (uint64_t seed = 0; seed < nr_seeds; seed++)
        count[zinf_permute(seed, 0, 3, 0) * 9 + zinf_permute(seed, 0, 3, 1) * 3 + zinf_permute(seed, 0, 3, 2)]++;
    for (int order : { 0 * 9 + 1 * 3 + 2, 0 * 9 + 2 * 3 + 1, 1 * 9 + 0 * 3 + 2, 1 * 9 + 2 * 3 + 0, 2 * 9 + 0 * 3 + 1,
                       2 * 9 + 1 * 3 + 0 })
        EXPECT_NEAR(count[order], nr_seeds / 6, 5 * sqrt(nr_seeds / 6.0)) << order;
}

TEST(Permute, NeighboursDoNotStayTogetherAndSeedsDiffer)
{
    const uint64_t n = 10000;
    int together = 0, fixed = 0, same = 0;

    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t p = zinf_permute(1, 0, n, i), q = zinf_permute(1, 0, n, i + 1);

        together += q == p + 1;
        fixed += p == i;
        same += p == zinf_permute(2, 0, n, i);
        same += p == zinf_permute(1, 1, n, i);
    }
    /* Each has expectation 1 or 2. */
    EXPECT_LT(together, 12);
    EXPECT_LT(fixed, 12);
    EXPECT_LT(same, 14);
}
