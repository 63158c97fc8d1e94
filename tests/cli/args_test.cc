/* tests/cli/args_test.cc - command lines from a table. */
#include "zinf/cli/args.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

class Args : public ::testing::Test {
protected:
    int Parse(std::vector<std::string> words, bool positional = false)
    {
        zinf_arg args[] = {
            { "out", ZINF_ARG_STRING, &out, "DIR", "where", 0, 0, false },
            { "steps", ZINF_ARG_U64, &steps, "N", "how many", 1, 1000, false },
            { "seed", ZINF_ARG_U64, &seed, "N", "any", 0, 0, false },
            { "serial", ZINF_ARG_FLAG, &serial, nullptr, "one at a time", 0, 0, false },
            { "set", ZINF_ARG_LIST, &sets, "K=V", "override", 0, 0, false },
            { "config", ZINF_ARG_STRING, &config, "FILE", "needed", 0, 0, need_config },
        };
        kept_ = std::move(words);
        argv_.clear();
        for (auto &w : kept_)
            argv_.push_back(&w[0]);
        st = {};
        return zinf_args_parse(args, sizeof(args) / sizeof(args[0]), positional ? &rest : nullptr,
                               static_cast<int>(argv_.size()), argv_.data(), &st);
    }
    void ExpectRefused(std::vector<std::string> words, const std::string &text)
    {
        EXPECT_EQ(-EINVAL, Parse(std::move(words)));
        EXPECT_EQ(text, st.text);
    }
    ~Args() override
    {
        zinf_args_free(&sets);
        zinf_args_free(&rest);
    }

    const char *out = nullptr, *config = nullptr;
    uint64_t steps = 7, seed = 7;
    bool serial = false, need_config = false;
    zinf_arg_list sets = {}, rest = {};
    zinf_status st = {};

private:
    std::vector<std::string> kept_;
    std::vector<char *> argv_;
};

TEST_F(Args, ValueFollowsOrIsJoined)
{
    ASSERT_EQ(0, Parse({"--out", "a", "--steps=12", "--serial"})) << st.text;
    EXPECT_STREQ("a", out);
    EXPECT_EQ(12u, steps);
    EXPECT_TRUE(serial);
    EXPECT_EQ(7u, seed);      /* not given: untouched */
}

TEST_F(Args, JoinedValueMayHoldAnything)
{
    ASSERT_EQ(0, Parse({"--out=--a=b=c", "--set=x=1", "--set", "y=[\"--z\"]"})) << st.text;
    EXPECT_STREQ("--a=b=c", out);
    ASSERT_EQ(2u, sets.nr);
    EXPECT_STREQ("x=1", sets.items[0]);
    EXPECT_STREQ("y=[\"--z\"]", sets.items[1]);
}

TEST_F(Args, PositionalWordsWhereTaken)
{
    ASSERT_EQ(0, Parse({"one", "--serial", "two", "-"}, true)) << st.text;
    ASSERT_EQ(3u, rest.nr);
    EXPECT_STREQ("two", rest.items[1]);
    EXPECT_STREQ("-", rest.items[2]);
    ExpectRefused({"one"}, "unexpected word \"one\"; see --help");
}

TEST_F(Args, UnknownNamesTheNearest)
{
    ExpectRefused({"--step", "3"}, "unknown option --step; did you mean --steps?");
    ExpectRefused({"--sreial=1"}, "unknown option --sreial; did you mean --serial?");
    ExpectRefused({"--wholly-other"}, "unknown option --wholly-other; see --help");
    ExpectRefused({"-s"}, "unknown option -s; options begin with two dashes, see --help");
}

TEST_F(Args, ValueMissing)
{
    ExpectRefused({"--out"}, "--out needs a value: DIR");
    ExpectRefused({"--out", "--serial"}, "--out needs a value: DIR; if it is --serial, write --out=--serial");
    ExpectRefused({"--out="}, "--out is empty");
    ExpectRefused({"--serial=yes"}, "--serial takes no value");
}

TEST_F(Args, TwiceIsRefusedExceptForLists)
{
    ExpectRefused({"--out", "a", "--out", "b"}, "--out is given twice");
    ExpectRefused({"--serial", "--serial"}, "--serial is given twice");
    EXPECT_EQ(0, Parse({"--set", "a=1", "--set", "a=1"}));
}

TEST_F(Args, NumbersAreWholeAndInRange)
{
    for (const char *bad : {"0", "1001", "-3", "+3", " 3", "3 ", "3.5", "0x10", "many", "99999999999999999999"})
        ExpectRefused({"--steps", bad}, std::string("--steps needs a whole number from 1 to 1000, not \"") + bad + "\"");
    EXPECT_EQ(7u, steps);
    ASSERT_EQ(0, Parse({"--steps", "1000", "--seed", "18446744073709551615"})) << st.text;
    EXPECT_EQ(1000u, steps);
    EXPECT_EQ(UINT64_MAX, seed);
}

TEST_F(Args, RequiredIsNamed)
{
    need_config = true;
    ExpectRefused({"--serial"}, "--config FILE is missing; see --help");
    EXPECT_EQ(0, Parse({"--config", "c.json"}));
}

}  // namespace
