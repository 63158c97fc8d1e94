/* tests/base/size_test.cc - byte counts as people write them, and as we write them back. */
#include "zinf/base/size.h"

#include <errno.h>

#include <string>

#include <gtest/gtest.h>

namespace {

struct Case {
    const char *text;
    uint64_t nbytes;
};

std::string Format(uint64_t n)
{
    char buf[16];

    return zinf_size_format(n, buf, sizeof(buf));
}

}  // namespace

TEST(Size, Parses)
{
    const Case cases[] = {
        { "0", 0 }, { "4096", 4096 }, { "4096B", 4096 }, { "1 b", 1 },
        { "1KB", 1000 }, { "1KiB", 1024 }, { "1K", 1024 }, { "1k", 1024 },
        { "64 MiB", 64ull << 20 }, { "24GiB", 24ull << 30 }, { "24gib", 24ull << 30 }, { "24G", 24ull << 30 },
        { "3GB", 3000000000ull }, { "2TiB", 2ull << 40 }, { "2TB", 2000000000000ull }, { "2T", 2ull << 40 },
        { "1.5GB", 1500000000ull }, { "0.5KiB", 512 }, { "1.25 MiB", 1310720 }, { "  7 KiB \t", 7168 },
        { "0.3KiB", 307 }, { "1.0KB", 1000 }, { "007K", 7168 },
        { "0.000000000000000001TiB", 0 }, { "0.999999999999999999TB", 999999999999ull },
        { "18446744073709551615", UINT64_MAX }, { "16777215.999999TiB", 18446744073708452104ull },
    };

    for (const Case &c : cases) {
        uint64_t n = 12345;

        EXPECT_EQ(zinf_size_parse(c.text, &n), 0) << c.text;
        EXPECT_EQ(n, c.nbytes) << c.text;
    }
}

TEST(Size, RefusesWhatIsNoSizeAndLeavesTheResultAlone)
{
    const char *bad[] = { "", " ", "B", "KiB", "-1", "+1", "0x10", "1e6", "1.5", "1.5B", "1.", "1.K", ".5K", "1..5K",
                          "1.5.5K", "1 0", "1 KiBs", "1KIBI", "1Ki", "1KiB 2", "1PiB", "1K K", "nan", "inf", "1,5K",
                          "0.1234567890123456789K", "auto" };

    for (const char *text : bad) {
        uint64_t n = 12345;

        EXPECT_EQ(zinf_size_parse(text, &n), -EINVAL) << text;
        EXPECT_EQ(n, 12345u) << text;
    }
}

TEST(Size, SaysWhenItDoesNotFit)
{
    const char *large[] = { "18446744073709551616", "16777216TiB", "18446744073709551615K", "99999999999999999999999",
                            "16777215.9999999999999999TiB1" };
    uint64_t n = 12345;

    for (int i = 0; i < 4; i++)
        EXPECT_EQ(zinf_size_parse(large[i], &n), -ERANGE) << large[i];
    EXPECT_EQ(zinf_size_parse(large[4], &n), -EINVAL);
    EXPECT_EQ(n, 12345u);
}

TEST(Size, Formats)
{
    EXPECT_EQ(Format(0), "0 B");
    EXPECT_EQ(Format(1023), "1023 B");
    EXPECT_EQ(Format(1024), "1.0 KiB");
    EXPECT_EQ(Format(24ull << 20), "24.0 MiB");
    EXPECT_EQ(Format((24ull << 20) + (24ull << 20) / 48), "24.5 MiB");
    EXPECT_EQ(Format((1ull << 20) - 1), "1.0 MiB");
    EXPECT_EQ(Format((1ull << 30) - 1), "1.0 GiB");
    EXPECT_EQ(Format(UINT64_MAX), "16.0 EiB");
}

TEST(Size, NoFormattedSizeNeedsMoreThanSixteenBytes)
{
    for (uint64_t n = 1; n; n <<= 1) {
        EXPECT_LT(Format(n - 1).size(), 16u);
        EXPECT_EQ(Format(n - 1).find("1024.0"), std::string::npos);
    }
}

TEST(Size, WhatIsFormattedParsesBackClosely)
{
    for (uint64_t n : { 5ull, 1500ull, 70000ull, 24ull << 20, 123456789012ull }) {
        uint64_t back = 0;

        ASSERT_EQ(zinf_size_parse(Format(n).c_str(), &back), 0) << Format(n);
        EXPECT_NEAR((double)back, (double)n, 0.05 * (double)n);
    }
}
