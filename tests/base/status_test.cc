/* tests/base/status_test.cc - one line, and the first failure is kept. */
#include "zinf/base/status.h"

#include <errno.h>

#include <string>

#include <gtest/gtest.h>

TEST(Status, FillsCodeAndText)
{
    zinf_status st = {};

    EXPECT_EQ(zinf_fail(&st, -ENOSPC, "need %d, have %s", 5, "three"), -ENOSPC);
    EXPECT_EQ(st.rc, -ENOSPC);
    EXPECT_STREQ(st.text, "need 5, have three");
}

TEST(Status, KeepsTheFirstFailure)
{
    zinf_status st = {};

    zinf_fail(&st, -EIO, "first");
    EXPECT_EQ(zinf_fail(&st, -ENOMEM, "second"), -ENOMEM);
    EXPECT_EQ(st.rc, -EIO);
    EXPECT_STREQ(st.text, "first");
}

TEST(Status, NullIsFine)
{
    EXPECT_EQ(zinf_fail(nullptr, -EINVAL, "nobody asked"), -EINVAL);
}

TEST(Status, LongTextIsCutToFit)
{
    zinf_status st = {};
    std::string name(2000, 'x');

    zinf_fail(&st, -EINVAL, "%s", name.c_str());
    EXPECT_EQ(std::string(st.text), std::string(sizeof(st.text) - 1, 'x'));
}

TEST(Status, ALineBreakFromOutsideDoesNotSplitTheLine)
{
    zinf_status st = {};

    zinf_fail(&st, -ENOENT, "%s: missing", "a\nb\rc");
    EXPECT_STREQ(st.text, "a b c: missing");
}
