/* tests/swapper/schedule_long_test.cc - ten thousand random models; run by name. */
#include <gtest/gtest.h>

#include "tests/swapper/schedule_cases.h"

namespace {

TEST(ScheduleLong, RandomCasesBuildAndCheckOrAreRefusedByTheRightNumber)
{
    std::map<std::pair<zinf_test::Link, zinf_test::Link>, int> pairs;
    EXPECT_GT(zinf_test::RunProperty(1000, 10000, &pairs), 3000);
    EXPECT_EQ(100u, pairs.size());
}

}  // namespace
