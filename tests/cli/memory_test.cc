/* tests/cli/memory_test.cc - the budgets are the memory: a whole run's peak RSS against what it says it needs. */
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::CliTest;
using zinf_test::Exec;
using zinf_test::Json;
using zinf_test::kSanitized;
using zinf_test::Lines;
using zinf_test::Outcome;
using zinf_test::ReadFile;
using zinf_test::Repo;
using zinf_test::Words;
using zinf_test::Zinf;

class Memory : public CliTest {
protected:
    void SetUp() override
    {
        if (kSanitized)
            GTEST_SKIP() << "a sanitizer's shadow and red zones are memory of their own";
    }
    void Check(const std::string &out, const Words &more, double state_over_device)
    {
        Words words = {Zinf(), "train", "--config", Repo("examples/configs/quickstart.json"), "--model",
                       Repo("examples/models/byte-llama-5m.json"), "--data", path("text.txt"), "--seq-len", "256", "--steps",
                       "3", "--out", path(out), "--set", "zinf.nvme_paths=[\"" + drive_ + "\"]"};
        words.insert(words.end(), more.begin(), more.end());
        Outcome o = Exec(words);
        ASSERT_EQ(0, o.code) << o.err;
        Json end(Lines(ReadFile(path(out) + "/log.jsonl")).back());
        double arenas = end.Number("budget_bytes.device") + end.Number("budget_bytes.host");
        double base = end.Number("base_rss_bytes"), peak = end.Number("peak_rss_bytes");
        EXPECT_LE(base, 32.0 * (1 << 20));
        EXPECT_LE(peak, (arenas + base) * 1.05) << "arenas " << arenas << " base " << base;
        EXPECT_GT(peak, end.Number("peak_bytes.device") + end.Number("peak_bytes.host"));
        EXPECT_GE(4.88e6 * 12, state_over_device * end.Number("budget_bytes.device"));
    }
};

/* Model state is four times the device budget and one and a half times the host budget. */
TEST_F(Memory, StateOnNvme) { Check("nvme", {}, 4); }

TEST_F(Memory, StateInRam)
{
    Words more = Offload("cpu");
    more.insert(more.end(), {"--set", "zinf.host_memory=128MiB"});
    Check("cpu", more, 4);
}

}  // namespace
