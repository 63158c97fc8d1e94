/* tests/cli/resume_test.cc - a run that ended early goes on to the weights of the run that never stopped; what cannot be gone on
 * with is said in one line, and nothing of it is lost. */
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
using zinf_test::How;
using zinf_test::Json;
using zinf_test::kForever;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::Process;
using zinf_test::ReadFile;
using zinf_test::Repo;
using zinf_test::Snapshot;
using zinf_test::Words;
using zinf_test::WriteFile;
using zinf_test::Zinf;

Words Steps(int n, Words more = {})
{
    more.insert(more.begin(), {"--steps", std::to_string(n)});
    return more;
}

class ResumeCommand : public CliTest {
protected:
    /* The log of one run in several goes: each goes on after the step that its resume line says. */
    void ExpectLogInOrder(const std::string &log, int last, int resumes) const
    {
        int at = 0, seen = 0;

        for (const auto &line : Lines(ReadFile(log))) {
            Json event(line);
            if (event.String("event") == "step") {
                EXPECT_EQ(++at, event.Number("step")) << line;
            } else if (event.String("event") == "resume") {
                EXPECT_LE(event.Number("step"), at) << line;
                at = static_cast<int>(event.Number("step"));
                seen++;
            }
        }
        EXPECT_EQ(last, at);
        EXPECT_EQ(resumes, seen);
    }
};

class AfterSignal : public ResumeCommand, public ::testing::WithParamInterface<int> {};

TEST_P(AfterSignal, NothingIsRepeatedFromAnywhere)
{
    How here, there;
    Words relative = {Zinf(), "train", "--config", Repo("examples/configs/byte-llama-nvme.json"), "--model",
                      Repo("examples/models/byte-llama-tiny.json"), "--data", "text.txt", "--seq-len", "32", "--steps",
                      std::to_string(kForever), "--out", "run", "--log", "far.jsonl", "--set", "zinf.nvme_paths=[\"drive\"]"};

    here.dir = dir_;
    there.dir = "/";
    Outcome o = StopAfter(3, GetParam(), relative, here);
    EXPECT_EQ(128 + GetParam(), o.code);
    fs::create_symlink("far.jsonl", path("log"));
    std::vector<std::string> lines = Lines(ReadFile(path("far.jsonl")));
    int stopped = static_cast<int>(Json(lines.back()).Number("step"));
    EXPECT_GE(stopped, 3);
    EXPECT_EQ("zinf: stopped by signal " + std::to_string(GetParam()) + " after step " + std::to_string(stopped) +
                  "; nothing will be repeated by: zinf train --resume --out run\n", o.err);
    EXPECT_FALSE(Exists(path("run/model")));
    EXPECT_EQ(1u, Names(drive_).size());

    o = Pass(Resume("run", Steps(stopped + 3)), there);
    EXPECT_TRUE(Holds(o.out, "going on after step " + std::to_string(stopped) + "\n")) << o.out;
    EXPECT_EQ(1u, Names(drive_).size());
    lines = Lines(ReadFile(path("far.jsonl")));
    Json resumed(lines[static_cast<size_t>(stopped)]);
    EXPECT_EQ("resume", resumed.String("event"));
    EXPECT_EQ(stopped, resumed.Number("step"));
    ExpectLogInOrder(path("far.jsonl"), stopped + 3, 1);
    EXPECT_EQ("end", Json(lines.back()).String("event"));
    EXPECT_EQ(stopped + 3, Json(lines.back()).Number("steps"));
    EXPECT_TRUE(Weights("run") == WeightsAfter(stopped + 3));
}

INSTANTIATE_TEST_SUITE_P(Every, AfterSignal, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto &info) { return info.param == SIGINT ? "Interrupt" : "Terminate"; });

TEST_F(ResumeCommand, KilledTwiceInTheMiddle)
{
    Outcome o = StopAfter(3, SIGKILL, Train("run", kForever));
    EXPECT_EQ(SIGKILL, o.signal);
    int durable = static_cast<int>(LastOf("run", "step", "durable_step")), first = LastStep("run");
    EXPECT_GE(durable, first - 1) << "durability is \"step\"";

    /* Its line for the step after the first resumed one: something was trained in between. */
    o = StopAfter(first + 2, SIGKILL, Resume("run"));
    EXPECT_EQ(SIGKILL, o.signal);
    EXPECT_GE(LastOf("run", "resume", "step"), durable);
    EXPECT_LE(LastOf("run", "resume", "step"), first + 1);      /* its line may be what the kill came before */
    int second = LastStep("run");
    Pass(Resume("run", Steps(second + 2)));
    EXPECT_GE(LastOf("run", "resume", "step"), second - 1);
    EXPECT_TRUE(Weights("run") == WeightsAfter(second + 2));
}

TEST_F(ResumeCommand, FinishedRunGoesOnWithMoreSteps)
{
    Pass(Train("run", 3));
    Pass(Resume("run"));        /* nothing left to do: evaluation and weights once more */
    EXPECT_TRUE(Weights("run") == WeightsAfter(3));
    Pass(Resume("run", Steps(5)));
    EXPECT_TRUE(Weights("run") == WeightsAfter(5));
    ExpectLogInOrder(path("run/log.jsonl"), 5, 2);
    EXPECT_EQ(5, Json(ReadFile(path("run/run.json"))).Number("content.steps"));
}

/* A line that a full drive cut is no reason to spoil the next one. */
TEST_F(ResumeCommand, TornLogLineIsEnded)
{
    Pass(Train("run", 2));
    WriteFile(path("run/log.jsonl"), ReadFile(path("run/log.jsonl")) + "{\"event\":\"st");
    Pass(Resume("run", Steps(3)));
    EXPECT_EQ(2, LastOf("run", "resume", "step"));
    EXPECT_EQ(3, LastStep("run"));
}

TEST_F(ResumeCommand, OptionsAreInheritedOrGivenAnew)
{
    WriteFile(path("other.txt"), std::string(300, 'x'));
    WriteFile(path("config.json"), ReadFile(Repo("examples/configs/byte-llama-nvme.json")));
    Words train = Train("run", 4, {"--eval-every", "2", "--eval-data", path("other.txt"), "--save-every", "3", "--keep", "1", "--set",
                                   "zinf.seed=77", "--set", "zinf.host_memory=48MiB"});
    train[3] = path("config.json");
    Pass(train);
    ASSERT_EQ((std::set<std::string>{"step-00000003"}), Names(path("run/checkpoints")));
    fs::remove(path("config.json"));        /* the run has its text */

    std::string device = std::to_string(Minimum("device"));
    Pass(Resume("run", Steps(7, {"--set", "zinf.io_backend=threads", "--set", "zinf.host_memory=32MiB", "--set",
                                 "zinf.device_memory=" + device, "--set", "zinf.block_elems=4096", "--keep", "2"})));
    Json end(Lines(ReadFile(path("run/log.jsonl"))).back());
    EXPECT_EQ("threads", end.String("io_backend"));
    EXPECT_EQ(std::stod(device), end.Number("budget_bytes.device"));
    EXPECT_EQ(32.0 * (1 << 20), end.Number("budget_bytes.host"));
    EXPECT_EQ((std::set<std::string>{"step-00000003", "step-00000006"}), Names(path("run/checkpoints")));
    std::string evals;
    for (const auto &line : Lines(ReadFile(path("run/log.jsonl"))))
        if (Json(line).String("event") == "eval") {
            evals += std::to_string(static_cast<int>(Json(line).Number("step"))) + " ";
            EXPECT_EQ(9 * 32, Json(line).Number("tokens"));
        }
    EXPECT_EQ("2 4 6 7 ", evals);

    /* The next resume has the options of this one, each key once. */
    Json run(ReadFile(path("run/run.json")));
    EXPECT_EQ(7, run.Number("content.steps"));
    EXPECT_EQ(2, run.Number("content.eval_every"));
    EXPECT_EQ(2, run.Number("content.keep"));
    EXPECT_EQ("zinf.seed=77", run.String("content.sets.1"));
    EXPECT_EQ("zinf.host_memory=32MiB", run.String("content.sets.3"));
    EXPECT_FALSE(run.Has("content.sets.6"));
    EXPECT_TRUE(Weights("run") == WeightsAfter(7, {"--set", "zinf.seed=77", "--eval-data", path("other.txt")}));
}

TEST_F(ResumeCommand, SaysWhenItIsNotBitExact)
{
    How scalar;
    scalar.env["ZINF_ISA"] = "scalar";
    Pass(Train("run", 2));
    Outcome o = Exec(Resume("run", Steps(3, {"--set", "optimizer.params.lr=0.0005"})));
    EXPECT_EQ(0, o.code) << o.err;
    EXPECT_EQ("zinf: warning: not bit-exact with the run before: lr 0.001 -> 0.00050000000000000001\n", o.err);
    EXPECT_EQ(0.0005, LastOf("run", "step", "lr"));

    /* The changed rate is the run's own from here on. */
    Pass(Resume("run", Steps(4)));
    EXPECT_EQ(0.0005, LastOf("run", "step", "lr"));
    o = Exec({Zinf(), "doctor"});
    if (Holds(o.out, "scalar"))
        return;
    o = Exec(Resume("run", Steps(5)), scalar);
    EXPECT_EQ(0, o.code) << o.err;
    EXPECT_EQ(1u, Lines(o.err).size()) << o.err;
    EXPECT_EQ(0u, o.err.rfind("zinf: warning: not bit-exact with the run before: device ", 0)) << o.err;
    EXPECT_TRUE(Holds(o.err, "scalar")) << o.err;
}

TEST_F(ResumeCommand, SaysThatTextHasGrown)
{
    Pass(Train("run", 2));
    Pass({"/bin/sh", "-c", "cat \"$0\" >> \"$1\"", Repo("examples/configs/byte-llama-nvme.json"), path("text.txt")});
    Outcome o = Exec(Resume("run", Steps(3)));
    EXPECT_EQ(0, o.code) << o.err;
    EXPECT_EQ(0u, o.err.rfind("zinf: warning: not bit-exact with the run before: train_samples ", 0)) << o.err;
    EXPECT_EQ(1u, Lines(o.err).size()) << o.err;
    Pass({Zinf(), "export", "--from", path("run"), "--out", path("exported")});
}

/* ---- what is refused ---- */

class ResumeRefusal : public ResumeCommand {
protected:
    void SetUp() override { Pass(Train("run", 2)); }
    /* After any refusal the run goes on as if nothing had been asked. */
    void Refused(const Words &words, const Words &pieces, int code = 2)
    {
        auto run = Snapshot(path("run")), drive = Stored(drive_);
        ExpectRefusal(Exec(words), code, pieces);
        EXPECT_TRUE(run == Snapshot(path("run"))) << "run folder touched";
        EXPECT_TRUE(drive == Stored(drive_)) << "drive touched";
    }
    void ExpectItGoesOn()
    {
        Pass(Resume("run", Steps(4)));
        EXPECT_TRUE(Weights("run") == WeightsAfter(4));
    }
};

TEST_F(ResumeRefusal, OptionsThatExcludeEachOther)
{
    Refused(Resume("run", {"--overwrite"}), {"--resume", "--overwrite"});
    Refused(Resume("run", {"--init-from", path("run/model")}), {"--resume", "--init-from"});
    Refused(Resume("run", {"--checkpoint", path("run")}), {"--resume", "--checkpoint"});
}

TEST_F(ResumeRefusal, FolderThatHoldsNoRun)
{
    Refused(Resume("none"), {path("none"), "is not a run folder", "No such file"});
    Refused(Resume("drive"), {drive_, "is not a run folder", "run.json"});
    Refused(Resume("text.txt"), {path("text.txt"), "is not a run folder"});
    EXPECT_FALSE(Exists(path("none")));
}

TEST_F(ResumeRefusal, DamagedRunFile)
{
    std::string good = ReadFile(path("run/run.json"));
    for (size_t at : {size_t{12}, good.size() / 2, good.size() - 2}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 4);
        WriteFile(path("run/run.json"), bad);
        Refused(Resume("run"), {path("run/run.json"), "damaged"}, 1);
        Refused({Zinf(), "clean", path("run")}, {path("run/run.json"), "damaged"}, 1);
        Refused({Zinf(), "export", "--from", path("run"), "--out", path("hf")}, {path("run/run.json"), "damaged"}, 1);
        Refused(Train("run", 1, {"--overwrite"}), {path("run/run.json"), "damaged"}, 1);
    }
    WriteFile(path("run/run.json"), good);
    ExpectItGoesOn();
}

TEST_F(ResumeRefusal, StateThatIsGone)
{
    std::string state = StateDir("run");
    fs::rename(state, path("away"));
    Refused(Resume("run"), {state, "No such file"});
    Refused({Zinf(), "export", "--from", path("run"), "--out", path("hf")}, {state, "No such file"});
    fs::rename(path("away"), state);
    fs::rename(state + "/record-0", path("record"));
    Refused(Resume("run"), {state + "/record-0", "No such file"});
    fs::rename(path("record"), state + "/record-0");
    fs::rename(state + "/state-0", path("state"));
    Refused(Resume("run"), {state + "/state-0", "No such file"});
    fs::rename(path("state"), state + "/state-0");
    ExpectItGoesOn();
}

TEST_F(ResumeRefusal, DamagedRecords)
{
    std::string record = StateDir("run") + "/record-0", good = ReadFile(record), bad = good;
    for (size_t i = 0; i < bad.size(); i += 512)
        bad[i] = static_cast<char>(bad[i] ^ 1);
    WriteFile(record, bad);
    Refused(Resume("run"), {record, "damaged", "checkpoint"}, 1);
    WriteFile(record, good);
    ExpectItGoesOn();
}

TEST_F(ResumeRefusal, StateOfALivingRun)
{
    Process p(Train("alive", kForever), {});
    ASSERT_TRUE(p.WaitForOutput("\nstep 1/")) << p.Wait().err;
    ExpectRefusal(Exec(Resume("alive")), 2, {path("alive"), "still going"});
    /* A copy of the folder names the same state. */
    ASSERT_EQ(0, mkdir(path("copy").c_str(), 0700));
    WriteFile(path("copy/run.json"), ReadFile(path("alive/run.json")));
    ExpectRefusal(Exec(Resume("copy")), 2, {StateDir("alive"), "in use by process ", "stop it first"});
    p.Kill(SIGTERM);
    EXPECT_EQ(143, p.Wait().code);
    int steps = LastStep("alive") + 1;
    Pass(Resume("alive", Steps(steps)));
    EXPECT_TRUE(Weights("alive") == WeightsAfter(steps));
}

TEST_F(ResumeRefusal, ConfigurationThatCannotGoOnWithIt)
{
    Words cpu = Offload("cpu");
    cpu.insert(cpu.end(), {"--set", "zinf.host_memory=64MiB"});
    Refused(Resume("run", cpu), {StateDir("run"), "nvme", "checkpoint"});
    Refused(Resume("run", {"--set", "zinf.durability=none"}), {StateDir("run"), "durability"});
    Refused(Resume("run", {"--set", "zinf.host_memory=4096"}), {"zinf.host_memory", "minimum"});
    Refused(Resume("run", {"--set", "zinf.unknown=1"}), {"zinf.unknown"});
    Refused(Resume("run", {"--set", "bf16.enabled=false"}), {"the state on the drives", "bytes of a weight"});
    Refused(Resume("run", {"--model", Repo("examples/models/byte-llama-5m.json")}), {"the state on the drives"});
    Refused(Resume("run", {"--data", path("none")}), {"--data", path("none")});
    Refused(Resume("run", {"--config", path("none")}), {path("none")});
    ExpectItGoesOn();
}

TEST_F(ResumeRefusal, ModelOrDataThatHasMoved)
{
    WriteFile(path("model.json"), ReadFile(Repo("examples/models/byte-llama-tiny.json")));
    Words train = Train("moved", 2);
    train[5] = path("model.json");
    Pass(train);
    fs::rename(path("model.json"), path("elsewhere.json"));
    Refused(Resume("moved"), {"--model", path("model.json"), "No such file"});
    Pass(Resume("moved", Steps(3, {"--model", path("elsewhere.json")})));
    Pass(Resume("moved", Steps(4)));
    EXPECT_TRUE(Weights("moved") == WeightsAfter(4));
}

TEST_F(ResumeRefusal, NothingToGoOnWith)
{
    Pass(Train("gone", 2, {"--set", "zinf.keep_state=false"}));
    Refused(Resume("gone"), {path("gone"), "nothing to resume"});
    Pass(Train("flux", 2, {"--set", "zinf.durability=none"}));
    Refused(Resume("flux"), {path("flux"), "nothing to resume"});
    Words cpu = Offload("cpu");
    cpu.insert(cpu.end(), {"--set", "zinf.host_memory=64MiB"});
    Pass(Train("ram", 2, cpu));
    Refused(Resume("ram"), {path("ram"), "nothing to resume"});
}

}  // namespace
