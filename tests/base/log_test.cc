/* tests/base/log_test.cc - levels, one line per message, the sink. */
#include "zinf/base/log.h"

#include <errno.h>

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using Lines = std::vector<std::pair<zinf_log_level, std::string>>;

void Keep(void *ctx, zinf_log_level level, const char *line) { static_cast<Lines *>(ctx)->emplace_back(level, line); }

}  // namespace

TEST(Log, DropsWhatIsAboveItsLevel)
{
    Lines lines;
    struct zinf_log log = { ZINF_LOG_WARN, Keep, &lines };

    zinf_log(&log, ZINF_LOG_ERROR, "e");
    zinf_log(&log, ZINF_LOG_WARN, "w %d", 3);
    zinf_log(&log, ZINF_LOG_INFO, "i");
    zinf_log(&log, ZINF_LOG_DEBUG, "d");
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0], std::make_pair(ZINF_LOG_ERROR, std::string("e")));
    EXPECT_EQ(lines[1], std::make_pair(ZINF_LOG_WARN, std::string("w 3")));
}

TEST(Log, OneMessageIsOneLine)
{
    Lines lines;
    struct zinf_log log = { ZINF_LOG_DEBUG, Keep, &lines };

    zinf_log(&log, ZINF_LOG_INFO, "%s", "a\nb\rc");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].second, "a b c");
}

TEST(Log, ALongLineShowsThatItWasCut)
{
    Lines lines;
    struct zinf_log log = { ZINF_LOG_DEBUG, Keep, &lines };

    zinf_log(&log, ZINF_LOG_INFO, "%s: it is full", std::string(5000, 'x').c_str());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].second.size(), 1023u);
    EXPECT_NE(lines[0].second.find("xx...xx"), std::string::npos);
    EXPECT_EQ(lines[0].second.substr(lines[0].second.size() - 13), "x: it is full");
}

TEST(Log, WithoutASinkItGoesToStandardErrorWithItsLevel)
{
    struct zinf_log log = { ZINF_LOG_INFO, nullptr, nullptr };

    ::testing::internal::CaptureStderr();
    zinf_log(&log, ZINF_LOG_ERROR, "disk %s", "full");
    zinf_log(&log, ZINF_LOG_INFO, "fine");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "zinf: error: disk full\nzinf: fine\n");
}

TEST(Log, NoLogDropsEverything)
{
    ::testing::internal::CaptureStderr();
    zinf_log(nullptr, ZINF_LOG_ERROR, "unheard");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Log, ParsesItsLevels)
{
    const char *names[] = { "error", "warn", "info", "debug" };
    zinf_log_level level = ZINF_LOG_ERROR;

    for (int i = 0; i < 4; i++) {
        ASSERT_EQ(zinf_log_level_parse(names[i], &level), 0);
        EXPECT_EQ(level, i);
    }
    for (const char *bad : { "", "warning", "INFO", "1" })
        EXPECT_EQ(zinf_log_level_parse(bad, &level), -EINVAL) << bad;
    EXPECT_EQ(level, ZINF_LOG_DEBUG);
}
