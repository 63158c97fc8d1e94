/* tests/kernels/lanes_test.cc - the exponential of the kernels against the library's in double, over all of its
 * range. */
#include "kernels/cpu/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

/* One lane of the vector, so that no vector crosses a call. */
float Exp(float x) { return zinf_v_exp(zinf_v_set(x))[0]; }

double UlpOf(double y)
{
    int exponent;
    std::frexp(y, &exponent);
    return std::ldexp(1.0, std::max(exponent - 24, -149));
}

} // namespace

TEST(Exp, IsWithinTwoUlpsEverywhere)
{
    double worst = 0;
    float at = 0;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 997) {
        float x = zinf_f32_from_bits((uint32_t)bits);
        if (!(x >= -104.0f && x <= 88.7228f))
            continue;
        double want = std::exp((double)x), error = std::fabs(Exp(x) - want) / UlpOf(want);
        if (!(error <= worst)) {
            worst = error;
            at = x;
        }
    }
    EXPECT_LE(worst, 2.0) << "at " << at;
}

TEST(Exp, Edges)
{
    const float inf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(1, Exp(0));
    EXPECT_EQ(1, Exp(-0.0f));
    EXPECT_EQ(0, Exp(-inf));
    EXPECT_EQ(0, Exp(-104.1f));
    EXPECT_EQ(0, Exp(-3e38f));
    EXPECT_EQ(inf, Exp(88.73f));
    EXPECT_EQ(inf, Exp(3e38f));
    EXPECT_EQ(inf, Exp(inf));
    EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(std::isnan(Exp(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exp, OneLaneDoesNotDisturbAnother)
{
    zinf_v8 x = { 1, -200, 0, 200, -1, NAN, 5, -INFINITY };
    zinf_v8 y = zinf_v_exp(x);
    for (int i = 0; i < 8; i++) {
        float alone = Exp(x[i]), got = y[i];
        EXPECT_EQ(zinf_f32_bits(alone), zinf_f32_bits(got)) << i;
    }
}
