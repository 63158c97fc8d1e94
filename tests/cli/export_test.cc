/* tests/cli/export_test.cc - zinf export gives the bytes that the run itself would have exported, whatever it is given. */
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
using zinf_test::kForever;
using zinf_test::Names;
using zinf_test::Process;
using zinf_test::ReadFile;
using zinf_test::Snapshot;
using zinf_test::Words;
using zinf_test::WriteFile;
using zinf_test::Zinf;

class ExportCommand : public CliTest {
protected:
    Words Export(const std::string &from, const std::string &to) const
    {
        return {Zinf(), "export", "--from", path(from), "--out", path(to)};
    }
    std::string Exported(const std::string &to) const { return ReadFile(path(to) + "/model.safetensors"); }
};

TEST_F(ExportCommand, FromRunAndCheckpointAndAfterClean)
{
    Pass(Train("run", 4, {"--save-every", "2"}));
    auto run = Snapshot(path("run")), drive = Stored(drive_);
    EXPECT_EQ("exported to " + path("state") + "\n", Pass(Export("run", "state")).out);
    EXPECT_TRUE(Exported("state") == Weights("run"));
    EXPECT_EQ(ReadFile(path("run/model/config.json")), ReadFile(path("state/config.json")));
    Pass(Export("run", "state"));       /* over an export of before */
    Pass(Export("run/checkpoints/step-00000002", "two"));
    EXPECT_TRUE(Exported("two") == WeightsAfter(2));
    Pass(Export("run/checkpoints/step-00000004", "four"));
    EXPECT_TRUE(Exported("four") == Weights("run"));
    EXPECT_TRUE(run == Snapshot(path("run"))) << "an export changes nothing of the run";
    EXPECT_TRUE(drive == Stored(drive_));

    Pass({Zinf(), "clean", path("run")});
    Pass(Export("run", "cleaned"));     /* its newest checkpoint */
    EXPECT_TRUE(Exported("cleaned") == Weights("run"));
    fs::remove_all(path("run/checkpoints"));
    ExpectRefusal(Exec(Export("run", "nothing")), 2, {path("run"), "no checkpoint", path("run") + "/model"});
    EXPECT_FALSE(Exists(path("nothing")));
}

TEST_F(ExportCommand, FromAStoppedRunWithoutEndingIt)
{
    StopAfter(2, SIGINT, Train("run", kForever));
    int steps = LastStep("run");
    Pass(Export("run", "hf"));
    EXPECT_TRUE(Exported("hf") == WeightsAfter(steps));
    Pass(Resume("run", {"--steps", std::to_string(steps + 2)}));
    EXPECT_TRUE(Weights("run") == WeightsAfter(steps + 2));
}

TEST_F(ExportCommand, Fp32IsExact)
{
    Pass(Train("run", 3, {"--set", "bf16.enabled=false", "--save-every", "3"}));
    Pass(Export("run", "state"));
    Pass(Export("run/checkpoints/step-00000003", "saved"));
    EXPECT_TRUE(Exported("state") == Weights("run"));
    EXPECT_TRUE(Exported("saved") == Weights("run"));
}

TEST_F(ExportCommand, LivingRunIsLeftAlone)
{
    Process p(Train("run", kForever), {});
    ASSERT_TRUE(p.WaitForOutput("\nstep 1/")) << p.Wait().err;
    ExpectRefusal(Exec(Export("run", "hf")), 2, {StateDir("run"), "in use by process ", "stop it first"});
    EXPECT_FALSE(Exists(path("hf")));
    p.Kill(SIGTERM);
    EXPECT_EQ(143, p.Wait().code);
    Pass(Export("run", "hf"));
}

TEST_F(ExportCommand, Refusals)
{
    ExpectRefusal(Exec({Zinf(), "export", "--from", drive_}), 2, {"--out is missing"});
    ExpectRefusal(Exec({Zinf(), "export", "--out", drive_}), 2, {"--from is missing"});
    ExpectRefusal(Exec(Export("none", "hf")), 2, {path("none")});
    ExpectRefusal(Exec(Export("drive", "hf")), 2, {drive_});
    Pass(Train("run", 1));
    ASSERT_EQ(0, mkdir(path("mine").c_str(), 0700));
    WriteFile(path("mine/thesis.txt"), "years of work");
    ExpectRefusal(Exec(Export("run", "mine")), 2, {path("mine")});
    ExpectRefusal(Exec(Export("run", "no/hf")), 2, {path("no")});
    EXPECT_EQ(std::set<std::string>{"thesis.txt"}, Names(path("mine")));
    EXPECT_FALSE(Exists(path("hf")));
}

}  // namespace
