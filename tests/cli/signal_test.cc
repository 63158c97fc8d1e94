/* tests/cli/signal_test.cc - a run that is told to stop keeps what it has; told twice, it ends at once. */
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::CliTest;
using zinf_test::Exec;
using zinf_test::Exists;
using zinf_test::Holds;
using zinf_test::Json;
using zinf_test::kForever;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::Process;
using zinf_test::ReadFile;
using zinf_test::Words;

/* Nothing on the drives outlives such a run. */
const Words kNotDurable = {"--set", "zinf.durability=none"};

class Stop : public CliTest, public ::testing::WithParamInterface<int> {};

TEST_P(Stop, FirstSignalKeepsTheWeights)
{
    Process p(Train("run", kForever, kNotDurable), {});
    ASSERT_TRUE(p.WaitForOutput("\nstep 3/")) << p.Wait().err;
    p.Kill(GetParam());
    Outcome o = p.Wait();

    EXPECT_EQ(128 + GetParam(), o.code) << o.err;
    EXPECT_FALSE(p.LeftChildren());
    EXPECT_TRUE(Names(drive_).empty()) << *Names(drive_).begin();
    Json end(Lines(ReadFile(path("run/log.jsonl"))).back());
    ASSERT_EQ("end", end.String("event"));
    std::string steps = std::to_string(static_cast<uint64_t>(end.Number("steps")));
    EXPECT_GE(end.Number("steps"), 3);
    EXPECT_EQ("zinf: stopped by signal " + std::to_string(GetParam()) + " after step " + steps + "; its weights are in " +
                  path("run/model") + "\n", o.err);
    EXPECT_TRUE(Holds(o.out, "loss first -> last")) << o.out;       /* the table, too */

    /* The weights are those of that step, as if no more had been asked for. */
    Outcome again = Exec(Train("again", std::stoi(steps)));
    ASSERT_EQ(0, again.code) << again.err;
    EXPECT_TRUE(Weights("run") == Weights("again"));
}

INSTANTIATE_TEST_SUITE_P(Every, Stop, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto &info) { return info.param == SIGINT ? "Interrupt" : "Terminate"; });

class Signals : public CliTest {
protected:
    /* Ended by two signals; what is on the drive stays there. */
    void EndAtOnce(const Words &more)
    {
        Process p(Train("run", kForever, more), {});
        ASSERT_TRUE(p.WaitForOutput("\nstep 3/")) << p.Wait().err;
        p.Kill(SIGSTOP);        /* both are pending before it goes on */
        p.Kill(SIGINT);
        p.Kill(SIGTERM);
        p.Kill(SIGCONT);
        Outcome o = p.Wait();
        EXPECT_TRUE(o.code == 128 + SIGINT || o.code == 128 + SIGTERM) << o.code << o.err;
        EXPECT_FALSE(p.LeftChildren());
        EXPECT_EQ("", o.err);
        EXPECT_FALSE(Holds(o.out, "loss first -> last")) << o.out;
        EXPECT_FALSE(Exists(path("run/model")));
    }
};

TEST_F(Signals, SecondEndsAtOnceAndTheNextRunClearsUp)
{
    EndAtOnce(kNotDurable);
    ASSERT_EQ(1u, Names(drive_).size());
    Outcome o = Exec(Train("run", 1, {"--overwrite", "--set", "zinf.keep_state=false"}));
    EXPECT_EQ(0, o.code) << o.err;
    EXPECT_TRUE(Holds(o.out, "cleared ")) << o.out;
    EXPECT_TRUE(Names(drive_).empty()) << *Names(drive_).begin();
}

/* The same with durability: nothing was in order, and nothing is lost. */
TEST_F(Signals, AfterASecondTheRunGoesOn)
{
    EndAtOnce({});
    std::string state = StateDir("run");
    int steps = LastStep("run") + 2;
    Pass(Train("other", 1, {"--set", "zinf.keep_state=false"}));        /* sweeps the drive */
    EXPECT_TRUE(Exists(state));
    Pass(Resume("run", {"--steps", std::to_string(steps)}));
    EXPECT_TRUE(Weights("run") == WeightsAfter(steps));
}

/* A long step is given up. How long one takes here is measured first, and read from the log after. */
TEST_F(Signals, LongStepIsGivenUp)
{
    auto accumulate = [](int n) {
        return Words{"--set", "gradient_accumulation_steps=" + std::to_string(n), "--set", "zinf.device_memory=256MiB", "--set",
                     "zinf.host_memory=256MiB"};
    };
    Pass(Train("short", 2, accumulate(64)));
    double seconds = LastOf("short", "step", "seconds");
    Words more = accumulate(std::min(20000, static_cast<int>(64 * 4 / seconds) + 1));
    Outcome o = StopAfter(1, SIGTERM, Train("run", kForever, more));
    EXPECT_EQ(143, o.code) << o.err;
    EXPECT_FALSE(Exists(path("run/model")));
    /* What a step takes is judged by the one before: two such, one to end and one to flush, or it is given up. */
    std::vector<double> took;
    for (const auto &line : Lines(ReadFile(path("run/log.jsonl"))))
        took.push_back(Json(line).Number("seconds"));
    ASSERT_FALSE(took.empty());
    if (Holds(o.err, "will be repeated by") && !Holds(o.err, "nothing")) {
        EXPECT_GT(2 * took.back(), 5);
        EXPECT_EQ("zinf: stopped by signal 15; 1 step will be repeated by: zinf train --resume --out " + path("run") + "\n", o.err);
    } else {
        EXPECT_TRUE(Holds(o.err, "; nothing will be repeated by: ")) << o.err;
        EXPECT_LE(2 * std::min(took.back(), took[took.size() - std::min<size_t>(2, took.size())]), 5);
    }
    /* The commit before is whole: the weights are those before the first step, or after it. */
    Pass({zinf_test::Zinf(), "export", "--from", path("run"), "--out", path("hf")});
    EXPECT_EQ(ReadFile(path("short/model/model.safetensors")).size(), ReadFile(path("hf/model.safetensors")).size());
}

TEST_F(Signals, UnfinishedRunIsSaidToBeOne)
{
    EndAtOnce({});
    Outcome o = Exec({zinf_test::Zinf(), "report", path("run")});
    ExpectRefusal(o, 2, {path("run/log.jsonl"), "did not finish"});
}

TEST_F(Signals, LivingRunIsNotOverwritten)
{
    Process p(Train("run", kForever), {});
    ASSERT_TRUE(p.WaitForOutput("\nstep 1/")) << p.Wait().err;
    ExpectRefusal(Exec(Train("run", 1, {"--overwrite"})), 2, {path("run"), "still going"});
    p.Kill(SIGTERM);
    EXPECT_EQ(143, p.Wait().code);
    EXPECT_TRUE(Exists(StateDir("run")));
    Pass(Train("run", 1, {"--overwrite"}));
}

}  // namespace
