/* tests/swapper/schedule_long_test.cc - ten thousand random models; run by name. */
#include <gtest/gtest.h>

#include "tests/swapper/schedule_cases.h"

namespace {

TEST(ScheduleLong, RandomCasesBuildAndCheckOrAreRefusedByTheRightNumber)
{
    EXPECT_GT(zinf_test::RunProperty(1000, 10000), 3000);
}

}  // namespace
