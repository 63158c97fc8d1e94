/* tests/cli/train_test.cc - a run from the command line to its files: log, weights, table, and what is left behind. */
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/cli/cli_run.h"
#include "zinf/checkpoint/safetensors.h"

namespace {

using zinf_test::CliTest;
using zinf_test::DenyIoUring;
using zinf_test::Holds;
using zinf_test::How;
using zinf_test::Json;
using zinf_test::kNotPossible;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::ReadFile;
using zinf_test::Exec;
using zinf_test::Words;
using zinf_test::WriteFile;
using zinf_test::Zinf;

class TrainCommand : public CliTest {
protected:
    /* Budgets at the minimum: every slot class has just what one operation needs. */
    Words Tight() const
    {
        return {"--set", "zinf.device_memory=" + std::to_string(Minimum("device")), "--set",
                "zinf.host_memory=" + std::to_string(Minimum("host"))};
    }
    void Ok(const Words &words, const How &how = {})
    {
        Outcome o = Exec(words, how);
        ASSERT_EQ(0, o.code) << o.err << o.out;
        EXPECT_EQ("", o.err);
        last_ = o;
    }
    Outcome last_;
};

constexpr int kSteps = 5;

/* One run is enough to look at from every side. */
class OneRun : public TrainCommand {
protected:
    void SetUp() override
    {
        Words more = Tight();
        Ok(FiveSteps("run", more));
    }
    Words FiveSteps(const std::string &out, const Words &more) const { return Train(out, kSteps, more); }
};

TEST_F(OneRun, FoldersHoldWhatTheyShould)
{
    EXPECT_EQ((std::set<std::string>{"log.jsonl", "model", "run.json"}), Names(path("run")));
    EXPECT_EQ((std::set<std::string>{"config.json", "model.safetensors"}), Names(path("run/model")));
    std::string state = StateDir("run");
    EXPECT_EQ(0u, state.rfind(drive_ + "/zinf-", 0)) << state;
    EXPECT_EQ(std::set<std::string>{state.substr(drive_.size() + 1)}, Names(drive_));
    EXPECT_EQ((std::set<std::string>{"lock", "record-0", "state-0"}), Names(state));
    Json run(ReadFile(path("run/run.json")));
    EXPECT_EQ(kSteps, run.Number("content.steps"));
    EXPECT_EQ(32, run.Number("content.seq_len"));
    EXPECT_EQ(path("text.txt"), run.String("content.data"));
}

TEST_F(OneRun, LogHasALinePerStepAndAnEnd)
{
    std::vector<std::string> lines = Lines(ReadFile(path("run/log.jsonl")));
    ASSERT_EQ(kSteps + 2u, lines.size());       /* steps, one evaluation, end */
    for (int i = 0; i < kSteps; i++) {
        Json step(lines[i]);
        EXPECT_EQ("step", step.String("event"));
        EXPECT_EQ(i + 1, step.Number("step"));
        EXPECT_EQ(i + 1, step.Number("iteration"));
        EXPECT_GT(step.Number("loss"), 0);
        EXPECT_GT(step.Number("grad_norm"), 0);
        EXPECT_EQ(step.Number("grad_norm") > 1, step.Bool("clipped"));
        EXPECT_EQ(1e-3, step.Number("lr"));
        EXPECT_EQ(4 * 32, step.Number("tokens"));
        for (const char *key : {"seconds", "tokens_per_s", "tflops", "bound_fraction"})
            EXPECT_GT(step.Number(key), 0) << key;
        for (const char *lane : {"nvme_read", "nvme_write", "h2d", "d2h", "compute", "cpu", "comm", "sync"})
            for (const char *what : {".busy_s", ".stall_s"})
                EXPECT_GE(step.Number(std::string("lanes.") + lane + what), 0) << lane << what;
        EXPECT_GT(step.Number("lanes.nvme_read.bytes"), 0) << "tight budgets: weights come from the drive";
        /* The update of the step before runs in this one. */
        EXPECT_EQ(i > 0, step.Number("lanes.nvme_write.bytes") > 0) << "step " << i + 1;
        for (const char *tier : {"device", "host", "nvme"})
            EXPECT_GT(step.Number(std::string("peak_bytes.") + tier), 0) << tier;
        EXPECT_GT(step.Number("drive_written_bytes"), 0);
        EXPECT_TRUE(step.Has("lanes." + step.String("bound"))) << step.String("bound");
    }
    Json eval(lines[kSteps]), first(lines[0]), last(lines[kSteps - 1]), end(lines[kSteps + 1]);
    EXPECT_EQ("eval", eval.String("event"));
    EXPECT_EQ(kSteps, eval.Number("step"));
    EXPECT_EQ("end", end.String("event"));
    EXPECT_EQ("run", end.String("name"));
    EXPECT_EQ("nvme", end.String("offload"));
    EXPECT_EQ(kSteps, end.Number("steps"));
    EXPECT_EQ(kSteps * 4 * 32, end.Number("tokens"));
    EXPECT_EQ(first.Number("loss"), end.Number("first_loss"));
    EXPECT_EQ(last.Number("loss"), end.Number("last_loss"));
    EXPECT_EQ(eval.Number("eval_loss"), end.Number("eval_loss"));
    EXPECT_LT(end.Number("last_loss"), end.Number("first_loss"));
    for (const char *tier : {"device", "host"})
        EXPECT_LE(end.Number(std::string("peak_bytes.") + tier), end.Number(std::string("budget_bytes.") + tier)) << tier;
    EXPECT_GT(end.Number("drive_read_bytes"), 0);
    EXPECT_GT(end.Number("drive_written_bytes"), last.Number("drive_written_bytes"));     /* the last update's */
    EXPECT_TRUE(end.Has("o_direct"));
    EXPECT_NE("none", end.String("io_backend"));
}

TEST_F(OneRun, WeightsAreASoundCheckpoint)
{
    zinf_status st = {};
    zinf_st_file *f = nullptr;
    ASSERT_EQ(0, zinf_st_open(path("run/model/model.safetensors").c_str(), &f, &st)) << st.text;
    EXPECT_STREQ("pt", zinf_st_metadata(f, "format"));
    EXPECT_EQ(2u * 9 + 3, zinf_st_nr_tensors(f));       /* 9 per layer; embedding, last norm, head */
    const zinf_st_tensor *t = zinf_st_find(f, "model.layers.1.self_attn.k_proj.weight");
    ASSERT_TRUE(t);
    EXPECT_STREQ("BF16", t->dtype);
    ASSERT_EQ(2u, t->nr_dims);
    EXPECT_EQ(32u, t->dims[0]);
    EXPECT_EQ(64u, t->dims[1]);
    zinf_st_close(f);
    Json config(ReadFile(path("run/model/config.json")));
    EXPECT_EQ("llama", config.String("model_type"));
    EXPECT_EQ(64, config.Number("hidden_size"));
}

TEST_F(OneRun, OutputIsPlainLinesAndATable)
{
    EXPECT_EQ(std::string::npos, last_.out.find_first_of("\r\033")) << last_.out;
    for (int i = 1; i <= kSteps; i++)
        EXPECT_TRUE(Holds(last_.out, "\nstep " + std::to_string(i) + "/" + std::to_string(kSteps) + " durable " +
                                          std::to_string(i - 1) + " loss ")) << last_.out;
    EXPECT_TRUE(Holds(last_.out, "weights and optimizer state  nvme")) << last_.out;      /* the placement report */
    std::string table = last_.out.substr(last_.out.find("  offload "));
    for (const char *label : {"loss first -> last", "tokens/s", "peak device memory", "peak host memory", "read from drives",
                              "written to drives", "I/O backend", "O_DIRECT"})
        EXPECT_TRUE(Holds(table, label)) << label << "\n" << table;
    for (const char *name : {"run", "run/log.jsonl", "run/model"})
        EXPECT_TRUE(Holds(table, " " + path(name) + "\n")) << name << "\n" << table;
}

TEST_F(OneRun, SerialAndIoUringRefusedGiveTheSameBytes)
{
    How denied;
    denied.prepare = DenyIoUring;
    Words serial = Tight();
    serial.push_back("--serial");
    Ok(FiveSteps("serial", serial));
    EXPECT_TRUE(Weights("run") == Weights("serial"));

    Outcome o = Exec(FiveSteps("denied", {}), denied);
    if (o.code == kNotPossible)
        GTEST_SKIP() << "this system does not let a process deny itself system calls";
    ASSERT_EQ(0, o.code) << o.err;
    ASSERT_EQ(1u, Lines(o.err).size()) << o.err;
    EXPECT_EQ(0u, o.err.rfind("zinf: warning: ", 0)) << o.err;
    EXPECT_TRUE(Holds(o.err, "io_uring")) << o.err;
    EXPECT_TRUE(Holds(o.err, "trying ")) << o.err;
    Json end(Lines(ReadFile(path("denied/log.jsonl"))).back());
    EXPECT_NE("io_uring", end.String("io_backend"));
    EXPECT_TRUE(Weights("run") == Weights("denied"));
}

TEST_F(TrainCommand, ReportComparesOffloads)
{
    Words report = {Zinf(), "report", "--same-weights"};
    for (const char *device : {"nvme", "cpu", "none"}) {
        Ok(Train(device, 3, Offload(device)));
        report.push_back(device);
    }
    How here;
    here.dir = dir_;
    Ok(report, here);
    EXPECT_TRUE(Holds(last_.out, "weights: identical, byte for byte, in all 3 runs")) << last_.out;
    for (const char *label : {"offload", "tokens/s", "  of the fastest"})
        EXPECT_TRUE(Holds(last_.out, label)) << last_.out;

    /* From elsewhere, and after the folder has moved. */
    std::filesystem::rename(path("cpu"), path("moved"));
    Ok({Zinf(), "report", "--same-weights", path("nvme"), path("moved"), path("none")});
    Ok({Zinf(), "report", path("moved")});
    EXPECT_TRUE(Holds(last_.out, path("moved/model"))) << last_.out;

    std::string weights = Weights("none");
    weights.back() = static_cast<char>(weights.back() ^ 1);
    WriteFile(path("none/model/model.safetensors"), weights);
    Outcome o = Exec({Zinf(), "report", "--same-weights", path("nvme"), path("moved"), path("none")});
    EXPECT_TRUE(Holds(o.out, "weights: DIFFERENT")) << o.out;
    ExpectRefusal(o, 1, {"none", "did not end with the same weights"});
}

TEST_F(TrainCommand, ReportFollowsALogElsewhere)
{
    How here;
    here.dir = dir_;
    Ok(Train("run", 2, {"--log", "elsewhere.jsonl"}), here);
    EXPECT_EQ((std::set<std::string>{"model", "run.json"}), Names(path("run")));
    EXPECT_EQ(4u, Lines(ReadFile(path("elsewhere.jsonl"))).size());
    Ok({Zinf(), "report", path("run")});
    EXPECT_TRUE(Holds(last_.out, path("elsewhere.jsonl"))) << last_.out;
}

TEST_F(TrainCommand, EvaluatesWhenTold)
{
    WriteFile(path("other.txt"), std::string(300, 'x'));
    Ok(Train("run", 5, {"--eval-every", "2", "--eval-data", path("other.txt")}));
    std::string steps;
    for (const auto &line : Lines(ReadFile(path("run/log.jsonl")))) {
        Json event(line);
        if (event.String("event") != "eval")
            continue;
        steps += std::to_string(static_cast<int>(event.Number("step"))) + " ";
        EXPECT_EQ(9 * 32, event.Number("tokens"));      /* whole windows of 300 bytes */
    }
    EXPECT_EQ("2 4 5 ", steps);
}

TEST_F(TrainCommand, OverwriteReplacesAFinishedRun)
{
    Ok(Train("run", 2));
    std::string two = Weights("run");
    std::string state = StateDir("run");
    Ok(Train("run", 3, {"--overwrite"}));
    EXPECT_EQ(1u, Names(drive_).size()) << "the old run's state is gone";
    EXPECT_NE(state, StateDir("run"));
    EXPECT_EQ(3u + 2, Lines(ReadFile(path("run/log.jsonl"))).size());
    EXPECT_FALSE(two == Weights("run"));
}

TEST_F(TrainCommand, StateThatIsNotToBeKeptIsGone)
{
    Ok(Train("run", 2, {"--set", "zinf.keep_state=false"}));
    EXPECT_TRUE(Names(drive_).empty()) << *Names(drive_).begin();
    EXPECT_FALSE(Json(ReadFile(path("run/run.json"))).Has("content.state_dirs.0"));
}

TEST_F(TrainCommand, NotesAreNoErrors)
{
    Ok(Train("run", 1, {"--set", "wall_clock_breakdown=true"}));
    EXPECT_TRUE(Holds(last_.out, "wall_clock_breakdown")) << last_.out;
}

TEST_F(TrainCommand, AtTheMinimumItTrainsAndOneByteUnderIsRefused)
{
    for (const char *what : {"device", "host"}) {
        uint64_t minimum = Minimum(what);
        std::string key = std::string("zinf.") + what + "_memory";
        Outcome o = Exec(Train("under", 1, {"--set", key + "=" + std::to_string(minimum - 1)}));
        ExpectRefusal(o, 2, {key, "needs 1 more byte", "minimum " + std::to_string(minimum), std::to_string(minimum - 1)});
        EXPECT_FALSE(zinf_test::Exists(path("under")));
        Ok(Train(what, 1, {"--set", key + "=" + std::to_string(minimum)}));
    }
}

}  // namespace
