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

TEST(Status, OfALineThatIsTooLongTheReasonIsKept)
{
    for (size_t n : {460u, 490u, 497u, 498u, 499u, 500u, 2000u, 20000u}) {
        zinf_status st = {};
        std::string name(n, 'x'), whole = "log /" + name + ": it is full";

        zinf_fail(&st, -EINVAL, "log /%s: %s", name.c_str(), "it is full");
        std::string got = st.text;
        if (whole.size() < sizeof(st.text)) {
            EXPECT_EQ(whole, got);
            continue;
        }
        EXPECT_EQ(sizeof(st.text) - 1, got.size());
        EXPECT_EQ(0u, got.find("log /xxx"));
        EXPECT_NE(std::string::npos, got.find("x...x"));
        EXPECT_EQ(got.size() - 12, got.find(": it is full")) << got;
    }
}

TEST(Status, ALineIsShortenedBetweenCharacters)
{
    for (int shift = 0; shift < 4; shift++) {
        zinf_status st = {};
        std::string name(static_cast<size_t>(shift), 'x'), bare;

        for (int i = 0; i < 400; i++)
            name += "\xe6\x97\xa5";     /* three bytes */
        zinf_fail(&st, -EINVAL, "%s: full", name.c_str());
        std::string got = st.text;
        size_t gap = got.find("...");
        ASSERT_NE(std::string::npos, gap);
        EXPECT_EQ(0u, (gap - static_cast<size_t>(shift)) % 3);
        EXPECT_EQ(0u, (got.size() - gap - 3 - 6) % 3);
        EXPECT_LT(got.size(), sizeof(st.text));
        EXPECT_GT(got.size(), sizeof(st.text) - 8);
    }
}

TEST(Status, ALineBreakFromOutsideDoesNotSplitTheLine)
{
    zinf_status st = {};

    zinf_fail(&st, -ENOENT, "%s: missing", "a\nb\rc\x1b[31m\x7f");
    EXPECT_STREQ(st.text, "a b c [31m : missing");
}
