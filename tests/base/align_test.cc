/* tests/base/align_test.cc - rounding, and arithmetic that says when it does not fit. */
#include "zinf/base/align.h"

#include <gtest/gtest.h>

TEST(Align, RoundsToAnyMultiple)
{
    for (uint64_t align : { 1u, 3u, 64u, 4096u, 6000u }) {
        for (uint64_t n = 0; n < 3 * align + 2; n += 1 + align / 7) {
            uint64_t up = zinf_align_up(n, align), down = zinf_align_down(n, align);

            EXPECT_EQ(up % align, 0u);
            EXPECT_EQ(down % align, 0u);
            EXPECT_GE(up, n);
            EXPECT_LT(up - n, align);
            EXPECT_LE(down, n);
            EXPECT_LT(n - down, align);
            EXPECT_EQ(zinf_div_up(n, align), up / align);
        }
    }
}

TEST(Align, DivUpDoesNotOverflow)
{
    EXPECT_EQ(zinf_div_up(UINT64_MAX, 1), UINT64_MAX);
    EXPECT_EQ(zinf_div_up(UINT64_MAX, 2), UINT64_MAX / 2 + 1);
}

TEST(Align, MinAndMax)
{
    EXPECT_EQ(zinf_min_u64(3, UINT64_MAX), 3u);
    EXPECT_EQ(zinf_max_u64(3, UINT64_MAX), UINT64_MAX);
}

TEST(Align, ProductAndSumSayWhenTheyDoNotFit)
{
    uint64_t v = 0;

    EXPECT_TRUE(zinf_mul_u64(1ull << 32, (1ull << 32) - 1, &v));
    EXPECT_EQ(v, 0xffffffff00000000ull);
    EXPECT_FALSE(zinf_mul_u64(1ull << 32, 1ull << 32, &v));
    EXPECT_TRUE(zinf_add_u64(UINT64_MAX - 1, 1, &v));
    EXPECT_EQ(v, UINT64_MAX);
    EXPECT_FALSE(zinf_add_u64(UINT64_MAX, 1, &v));
}
