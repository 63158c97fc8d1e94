/* tests/cli/clean_test.cc - whose state on a drive is removed, by clean, by --overwrite, by nobody. */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/cli/cli_run.h"

namespace {

namespace fs = std::filesystem;

using zinf_test::CliTest;
using zinf_test::Exec;
using zinf_test::Exists;
using zinf_test::Holds;
using zinf_test::Json;
using zinf_test::kForever;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::Process;
using zinf_test::ReadFile;
using zinf_test::Snapshot;
using zinf_test::Words;
using zinf_test::WriteFile;
using zinf_test::Zinf;

class CleanCommand : public CliTest {
protected:
    Words Clean(const Words &runs) const
    {
        Words words = {Zinf(), "clean"};
        for (const auto &run : runs)
            words.push_back(path(run));
        return words;
    }
    std::map<std::string, std::string> WithoutRunFile(const std::string &run) const
    {
        auto files = Snapshot(path(run));
        files.erase(path(run) + "/run.json");
        return files;
    }
};

TEST_F(CleanCommand, RemovesTheStateAndNothingElse)
{
    Pass(Train("one", 2, {"--save-every", "1"}));
    Pass(Train("two", 2));
    std::string state = StateDir("one"), other = StateDir("two");
    auto run = WithoutRunFile("one"), drive = Stored(other);
    Outcome o = Pass(Clean({"one"}));
    EXPECT_TRUE(Holds(o.out, "removed " + state + "\n")) << o.out;
    EXPECT_FALSE(Exists(state));
    EXPECT_TRUE(run == WithoutRunFile("one")) << "log, weights and checkpoints stay";
    EXPECT_TRUE(drive == Stored(other));
    EXPECT_FALSE(Json(ReadFile(path("one/run.json"))).Has("content.state_dirs.0"));

    o = Pass(Clean({"one"}));           /* again: nothing left to do */
    EXPECT_FALSE(Holds(o.out, "removed ")) << o.out;
    EXPECT_TRUE(run == WithoutRunFile("one"));
    Pass({Zinf(), "report", path("one")});
    Pass(Resume("one", {"--steps", "3"}));      /* from its newest checkpoint */
    EXPECT_TRUE(Weights("one") == WeightsAfter(3));
    Pass(Clean({"one", "two"}));
    EXPECT_TRUE(Names(drive_).empty());
    ExpectRefusal(Exec(Resume("two")), 2, {path("two"), "nothing to resume"});
}

TEST_F(CleanCommand, InterruptedOneIsEnded)
{
    Pass(Train("run", 1));
    std::string state = StateDir("run");
    fs::rename(state, drive_ + "/." + state.substr(drive_.size() + 1));     /* a deletion's first act */
    Pass(Clean({"run"}));
    Outcome o = Pass(Train("next", 1, {"--set", "zinf.keep_state=false"}));
    EXPECT_TRUE(Holds(o.out, "cleared ")) << o.out;
    EXPECT_TRUE(Names(drive_).empty());
}

TEST_F(CleanCommand, DriveThatIsNotThereIsWaitedFor)
{
    Pass(Train("run", 1));
    std::string file = ReadFile(path("run/run.json"));
    fs::rename(drive_, path("unmounted"));
    ExpectRefusal(Exec(Clean({"run"})), 2, {drive_, "mount the drive"});
    EXPECT_EQ(file, ReadFile(path("run/run.json")));
    fs::rename(path("unmounted"), drive_);
    Pass(Clean({"run"}));
    EXPECT_TRUE(Names(drive_).empty());
}

TEST_F(CleanCommand, LivingRunIsLeftAlone)
{
    Process p(Train("run", kForever), {});
    ASSERT_TRUE(p.WaitForOutput("\nstep 1/")) << p.Wait().err;
    ExpectRefusal(Exec(Clean({"run"})), 2, {path("run"), "still going"});
    ASSERT_EQ(0, mkdir(path("copy").c_str(), 0700));
    WriteFile(path("copy/run.json"), ReadFile(path("run/run.json")));
    ExpectRefusal(Exec(Clean({"copy"})), 2, {StateDir("run"), "in use by process "});
    ExpectRefusal(Exec(Train("copy", 1, {"--overwrite"})), 2, {StateDir("run"), "in use by process "});
    EXPECT_EQ(1u, Names(drive_).size()) << "the start that was refused took its state along";
    p.Kill(SIGTERM);
    EXPECT_EQ(143, p.Wait().code);
    int steps = LastStep("run") + 1;
    Pass(Resume("run", {"--steps", std::to_string(steps)}));
    EXPECT_TRUE(Weights("run") == WeightsAfter(steps));
}

TEST_F(CleanCommand, Refusals)
{
    ExpectRefusal(Exec(Clean({})), 2, {"name the folders"});
    ExpectRefusal(Exec(Clean({"none"})), 2, {path("none"), "is not a run folder"});
    ExpectRefusal(Exec(Clean({"drive"})), 2, {drive_, "is not a run folder"});
    ASSERT_EQ(0, mkdir(path("mine").c_str(), 0700));
    WriteFile(path("mine/run.json"), "{}");
    ExpectRefusal(Exec(Clean({"mine"})), 1, {path("mine/run.json"), "damaged"});
    EXPECT_EQ("{}", ReadFile(path("mine/run.json")));
}

TEST_F(CleanCommand, OverwriteRemovesTheOldRunAndNoOther)
{
    Pass(Train("other", 2, {"--save-every", "1"}));
    auto other = Snapshot(path("other")), drive = Stored(StateDir("other"));
    Pass(Train("run", 3, {"--save-every", "1"}));
    ASSERT_TRUE(Exists(path("run/checkpoints")));
    std::string state = StateDir("run");
    WriteFile(path("run/checkpoints/notes.txt"), "mine");
    Pass(Train("run", 4, {"--overwrite", "--save-every", "4"}));
    EXPECT_FALSE(Exists(state));
    EXPECT_EQ((std::set<std::string>{"notes.txt", "step-00000004"}), Names(path("run/checkpoints")));
    EXPECT_TRUE(Exists(StateDir("run")));
    EXPECT_EQ(2u, Names(drive_).size());
    EXPECT_TRUE(other == Snapshot(path("other")));
    EXPECT_TRUE(drive == Stored(StateDir("other")));

    /* From its own checkpoint into its own folder. */
    Pass(Train("run", 6, {"--overwrite", "--checkpoint", path("run/checkpoints/step-00000004")}));
    EXPECT_TRUE(Weights("run") == WeightsAfter(6));
    EXPECT_EQ((std::set<std::string>{"notes.txt"}), Names(path("run/checkpoints")));
    EXPECT_EQ(2u, Names(drive_).size());
}

TEST_F(CleanCommand, TwoRunsOnOneDriveAtOnce)
{
    Process a(Train("a", kForever), {});
    ASSERT_TRUE(a.WaitForOutput("\nstep 1/")) << a.Wait().err;
    Process b(Train("b", kForever, {"--set", "zinf.seed=5"}), {});
    ASSERT_TRUE(b.WaitForOutput("\nstep 2/")) << b.Wait().err;
    EXPECT_EQ(2u, Names(drive_).size());
    a.Kill(SIGKILL);
    b.Kill(SIGTERM);
    EXPECT_EQ(SIGKILL, a.Wait().signal);
    EXPECT_EQ(143, b.Wait().code);
    int steps_a = LastStep("a") + 1, steps_b = LastStep("b") + 1;
    Process again(Resume("a", {"--steps", std::to_string(steps_a)}), {});
    Pass(Resume("b", {"--steps", std::to_string(steps_b)}));
    Outcome o = again.Wait();
    EXPECT_EQ(0, o.code) << o.err;
    EXPECT_EQ(2u, Names(drive_).size());
    EXPECT_TRUE(Weights("a") == WeightsAfter(steps_a));
    EXPECT_TRUE(Weights("b") == WeightsAfter(steps_b, {"--set", "zinf.seed=5"}));
}

}  // namespace
