/* tests/cli/checkpoint_test.cc - named checkpoints: saved anywhere, loaded anywhere; and weights alone as a start. */
#include <gtest/gtest.h>
#include <signal.h>

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
using zinf_test::ReadFile;
using zinf_test::Repo;
using zinf_test::Snapshot;
using zinf_test::Words;
using zinf_test::WriteFile;
using zinf_test::Zinf;

Words operator+(Words a, const Words &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

class Checkpoints : public CliTest {
protected:
    static Words On(const std::string &device) { return Offload(device) + Words{"--set", "zinf.host_memory=64MiB"}; }
    std::string Save(const std::string &run, int step) const
    {
        char name[32];
        snprintf(name, sizeof(name), "/checkpoints/step-%08d", step);
        return path(run) + name;
    }
};

class SavedOn : public Checkpoints, public ::testing::WithParamInterface<const char *> {};

TEST_P(SavedOn, LoadsOnEveryOther)
{
    Outcome o = Pass(Train("from", 6, On(GetParam()) + Words{"--save-every", "2", "--keep", "2"}));
    EXPECT_EQ((std::set<std::string>{"step-00000004", "step-00000006"}), Names(path("from/checkpoints")));
    EXPECT_EQ((std::set<std::string>{"checkpoint.json", "state.safetensors"}), Names(Save("from", 4)));
    EXPECT_TRUE(Holds(o.out, "saved " + Save("from", 4))) << o.out;
    std::string whole = WeightsAfter(6);
    EXPECT_TRUE(Weights("from") == whole) << "saving changes no bit";

    for (const char *device : {"nvme", "cpu", "none"}) {
        std::string to = std::string("to-") + device;
        Words more = On(device) + Words{"--checkpoint", Save("from", 4)};
        if (std::string(device) == "nvme")
            more = more + Words{"--set", "zinf.device_memory=" + std::to_string(Minimum("device"))};
        o = Pass(Train(to, 6, more));
        EXPECT_TRUE(Holds(o.out, "going on after step 4 of " + Save("from", 4) + "\n")) << o.out;
        EXPECT_EQ(5, Json(Lines(ReadFile(path(to) + "/log.jsonl")).front()).Number("step"));
        EXPECT_TRUE(Weights(to) == whole) << GetParam() << " -> " << device;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, SavedOn, ::testing::Values("nvme", "cpu", "none"),
                         [](const auto &info) { return std::string(info.param); });

/* What --resume goes on with where no drive holds the state. */
TEST_F(Checkpoints, KilledRunInRamGoesOnFromTheNewest)
{
    Outcome o = StopAfter(5, SIGKILL, Train("run", kForever, On("cpu") + Words{"--save-every", "2"}));
    EXPECT_EQ(SIGKILL, o.signal);
    int steps = LastStep("run") + 2;
    Pass(Resume("run", {"--steps", std::to_string(steps)}));
    double from = LastOf("run", "resume", "step");
    EXPECT_GE(from, 2);
    EXPECT_EQ(0, static_cast<int>(from) % 2);
    EXPECT_TRUE(Weights("run") == WeightsAfter(steps));
    for (const auto &name : Names(path("run/checkpoints")))
        EXPECT_EQ(0u, name.rfind("step-", 0)) << "an unfinished one stays: " << name;
}

/* With another offload from there, too: from then on the drive has the state. */
TEST_F(Checkpoints, RunInRamGoesOnOnTheDrive)
{
    Pass(Train("run", 4, On("cpu") + Words{"--save-every", "2"}));
    Pass(Resume("run", Offload("nvme") + Words{"--steps", "5"}));
    EXPECT_TRUE(Exists(StateDir("run")));
    Pass(Resume("run", {"--steps", "6"}));
    EXPECT_EQ(5, LastOf("run", "resume", "step"));
    EXPECT_TRUE(Weights("run") == WeightsAfter(6));
}

/* A signal on a run in RAM leaves its weights, and its checkpoints. */
TEST_F(Checkpoints, StoppedRunInRam)
{
    Outcome o = StopAfter(3, SIGTERM, Train("run", kForever, On("none") + Words{"--save-every", "1", "--keep", "1"}));
    EXPECT_EQ(143, o.code);
    EXPECT_TRUE(Holds(o.err, "its weights are in " + path("run/model"))) << o.err;
    int steps = LastStep("run");
    EXPECT_EQ((std::set<std::string>{fs::path(Save("run", steps)).filename()}), Names(path("run/checkpoints")));
    EXPECT_TRUE(Weights("run") == WeightsAfter(steps));
}

TEST_F(Checkpoints, DamagedOrUnfitOnesAreRefused)
{
    Pass(Train("from", 2, On("cpu") + Words{"--save-every", "1"}));
    auto refused = [&](const std::string &from, const Words &more, const Words &pieces, int code) {
        auto drive = Names(drive_);
        ExpectRefusal(Exec(Train("to", 3, Words{"--checkpoint", from} + more)), code, pieces);
        EXPECT_FALSE(Exists(path("to")));
        EXPECT_EQ(drive, Names(drive_)) << "something is left on the drive";
    };
    refused(path("none"), {}, {path("none")}, 2);
    refused(path("from"), {}, {path("from")}, 2);
    refused(Save("from", 1), {"--init-from", path("from/model")}, {"--checkpoint", "--init-from"}, 2);

    std::string model = ReadFile(Repo("examples/models/byte-llama-tiny.json"));
    size_t at = model.find("\"intermediate_size\": 176");
    ASSERT_NE(std::string::npos, at);
    WriteFile(path("wide.json"), std::string(model).replace(at + 21, 3, "192"));
    Words wide = Train("to", 3, {"--checkpoint", Save("from", 1)});
    wide[5] = path("wide.json");
    ExpectRefusal(Exec(wide), 2, {Save("from", 1), "mlp.", "192", "176"});

    std::string state = ReadFile(Save("from", 2) + "/state.safetensors"), bad = state;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 16);
    WriteFile(Save("from", 2) + "/state.safetensors", bad);
    refused(Save("from", 2), {}, {Save("from", 2), "damaged"}, 1);
    ExpectRefusal(Exec(Resume("from", {"--steps", "3"})), 1, {Save("from", 2), "damaged"});

    /* Without the newest the one before is what is left. */
    fs::remove_all(Save("from", 2));
    Pass(Resume("from", {"--steps", "3"}));
    EXPECT_EQ(1, LastOf("from", "resume", "step"));
    EXPECT_TRUE(Weights("from") == WeightsAfter(3));
}

TEST_F(Checkpoints, WeightsAloneStartEverythingElseAnew)
{
    Pass(Train("first", 3));
    Outcome o = Pass(Train("second", 2, {"--init-from", path("first/model")}));
    EXPECT_FALSE(Holds(o.out, "going on after")) << o.out;
    Json first(Lines(ReadFile(path("second/log.jsonl"))).front());
    EXPECT_EQ(1, first.Number("step"));
    EXPECT_LT(first.Number("loss"), Json(Lines(ReadFile(path("first/log.jsonl"))).front()).Number("loss"));
    EXPECT_FALSE(Weights("second") == WeightsAfter(5)) << "moments do not come along";

    Words its_own = Train("own", 2, {"--init-from", path("first/model")});
    ASSERT_EQ("--model", its_own[4]);
    its_own.erase(its_own.begin() + 4, its_own.begin() + 6);
    Pass(its_own);
    EXPECT_TRUE(Weights("own") == Weights("second")) << "the folder of the weights describes the model";

    /* The same start in RAM, and from the state of the run on the drive. */
    Pass(Train("ram", 2, On("cpu") + Words{"--init-from", path("first/model")}));
    EXPECT_TRUE(Weights("second") == Weights("ram"));
    Pass(Resume("second", {"--steps", "3"}));
    Pass(Train("three", 3, On("none") + Words{"--init-from", path("first/model")}));
    EXPECT_TRUE(Weights("second") == Weights("three"));
}

TEST_F(Checkpoints, WeightsThatDoNotFitAreNamed)
{
    Pass(Train("first", 1));
    auto drive = Stored(drive_);
    std::string model = ReadFile(Repo("examples/models/byte-llama-tiny.json"));
    size_t at = model.find("\"intermediate_size\": 176");
    ASSERT_NE(std::string::npos, at);
    WriteFile(path("wide.json"), std::string(model).replace(at + 21, 3, "192"));
    Words wide = Train("second", 1, {"--init-from", path("first/model")});
    wide[5] = path("wide.json");
    ExpectRefusal(Exec(wide), 2, {path("first/model"), "model.layers.0.mlp.", "176", "192"});
    ExpectRefusal(Exec(Train("second", 1, {"--init-from", path("none")})), 2, {path("none")});
    ExpectRefusal(Exec(Train("second", 1, {"--init-from", drive_})), 2, {drive_, "model.safetensors"});
    EXPECT_FALSE(Exists(path("second")));
    EXPECT_TRUE(drive == Stored(drive_));
}

}  // namespace
