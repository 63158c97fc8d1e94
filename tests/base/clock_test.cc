/* tests/base/clock_test.cc - the system clock does not go back, and a stopped one can take its place. */
#include "zinf/base/clock.h"

#include <gtest/gtest.h>

TEST(Clock, NeverGoesBack)
{
    uint64_t last = zinf_now_ns(&zinf_clock_system);

    for (int i = 0; i < 1000; i++) {
        uint64_t now = zinf_now_ns(&zinf_clock_system);

        ASSERT_GE(now, last);
        last = now;
    }
}

TEST(Clock, SleepIsNeverShort)
{
    for (uint64_t ns : { 0u, 1u, 100000u, 2000000u }) {
        uint64_t start = zinf_now_ns(&zinf_clock_system);

        zinf_clock_system.sleep_ns(zinf_clock_system.ctx, ns);
        EXPECT_GE(zinf_now_ns(&zinf_clock_system) - start, ns);
    }
}

TEST(Clock, ATestCanStopTime)
{
    uint64_t now = 5;
    zinf_clock stopped = {
        [](void *ctx) { return *static_cast<uint64_t *>(ctx); },
        [](void *ctx, uint64_t ns) { *static_cast<uint64_t *>(ctx) += ns; },
        &now,
    };

    EXPECT_EQ(zinf_now_ns(&stopped), 5u);
    stopped.sleep_ns(stopped.ctx, 7);
    EXPECT_EQ(zinf_now_ns(&stopped), 12u);
}
