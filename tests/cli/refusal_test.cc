/* tests/cli/refusal_test.cc - what zinf does not do: one line that says what to change, the right exit code, nothing harmed. */
#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::CliTest;
using zinf_test::Exec;
using zinf_test::Exists;
using zinf_test::How;
using zinf_test::kNotPossible;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::ObeyPermissions;
using zinf_test::Outcome;
using zinf_test::ReadFile;
using zinf_test::Repo;
using zinf_test::Snapshot;
using zinf_test::Words;
using zinf_test::WriteFile;
using zinf_test::Zinf;

class Refusal : public CliTest {
protected:
    /* zinf train with one word of Train replaced. */
    Words TrainWith(const std::string &option, const std::string &value) const
    {
        Words w = Train("run", 1);
        for (size_t i = 0; i + 1 < w.size(); i++)
            if (w[i] == option)
                w[i + 1] = value;
        return w;
    }
    void Refused(const Words &words, const Words &pieces, int code = 2)
    {
        ExpectRefusal(Exec(words), code, pieces);
        EXPECT_FALSE(Exists(path("run"))) << "a refused start made its folder";
        EXPECT_TRUE(Names(drive_).empty());
    }
    std::string Model(const std::string &from, const std::string &to) const
    {
        std::string text = ReadFile(Repo("examples/models/byte-llama-tiny.json"));
        size_t at = text.find(from);
        EXPECT_NE(std::string::npos, at) << from;
        WriteFile(path("model.json"), text.replace(at, from.size(), to));
        return path("model.json");
    }
};

TEST_F(Refusal, CommandLine)
{
    Refused({Zinf(), "trian"}, {"unknown command trian", "did you mean train?"});
    Refused({Zinf(), "two\nlines"}, {"unknown command two lines"});
    Refused(Train("run", 1, {"--overwite"}), {"--overwite", "did you mean --overwrite?"});
    Refused({Zinf(), "train", "--config", "c", "--data", "d"}, {"--model is missing"});
    Refused({Zinf(), "train"}, {"--config is missing"});
    Refused(Train("run", 1, {"word"}), {"\"word\""});
    Refused(Train("run", 0), {"--steps", "\"0\""});
    Refused(Train("run", 1, {"--log"}), {"--log needs a value: FILE"});
    Refused({Zinf(), "report"}, {"name the folders"});
    Refused({Zinf(), "report", "--same-weights", drive_}, {"two or more"});
    Refused({Zinf(), "report", drive_}, {drive_, "is not a run folder"});
    Refused({Zinf(), "config", "--list", "models?"}, {"--list"});
    Refused({Zinf(), "config"}, {"--explain", "--list"});
    Refused({Zinf(), "doctor", "--set", "zinf.seed=1"}, {"--config"});
}

TEST_F(Refusal, NoCommandIsHelpAndUsage)
{
    Outcome o = Exec({Zinf()});
    EXPECT_EQ(2, o.code);
    EXPECT_NE(std::string::npos, o.out.find("usage: zinf COMMAND"));
    for (const char *command : {"train", "report", "doctor", "config"}) {
        o = Exec({Zinf(), command, "--help"});
        EXPECT_EQ(0, o.code) << command;
        EXPECT_EQ(0u, o.out.rfind(std::string("usage: zinf ") + command, 0)) << o.out;
    }
    EXPECT_EQ(0, Exec({Zinf(), "--version"}).code);
}

TEST_F(Refusal, LogLevelFromTheEnvironment)
{
    How how;
    how.env["ZINF_LOG"] = "loud";
    ExpectRefusal(Exec(Train("run", 1), how), 2, {"ZINF_LOG=loud", "debug"});
}

TEST_F(Refusal, Configuration)
{
    WriteFile(path("c.json"), "{\n  \"train_batch_size\": 4,\n  \"gradient_cliping\": 1.0\n}\n");
    Refused(TrainWith("--config", path("c.json")), {path("c.json") + ":3:", "gradient_cliping", "gradient_clipping"});
    WriteFile(path("c.json"), "{\n  \"train_batch_size\": 4,,\n}\n");
    Refused(TrainWith("--config", path("c.json")), {path("c.json") + ":2:"});
    Refused(Train("run", 1, {"--set", "zinf.device_memroy=1GiB"}), {"zinf.device_memroy", "zinf.device_memory"});
    Refused(Train("run", 1, {"--set", "zinf.device_memory=lots"}), {"zinf.device_memory", "lots"});
    Refused(Train("run", 1, {"--set", "gradient_clipping"}), {"--set gradient_clipping", "key=value"});
    Refused({Zinf(), "config", "--explain", path("c.json")}, {path("c.json") + ":2:"});
}

TEST_F(Refusal, FilesThatAreNotThere)
{
    std::string none = path("none");
    for (const char *option : {"--config", "--model", "--data"})
        Refused(TrainWith(option, none), {none, "No such file"});
    Refused(Train("run", 1, {"--eval-data", none}), {none, "No such file"});
    Refused(Train("run", 1, {"--log", path("none/log")}), {"--log", path("none")});
    Refused(TrainWith("--out", path("none/run")), {"--out", none, "make that folder first"});
    Refused({Zinf(), "doctor", "--path", none}, {none, "No such file"});
    Refused({Zinf(), "doctor", "--config", none}, {none, "No such file"});
    Refused({Zinf(), "doctor", "--json", "--path", none}, {none, "No such file"});
    Refused({Zinf(), "report", none}, {none, "No such file"});
}

TEST_F(Refusal, ModelThatIsNotSupported)
{
    Refused(TrainWith("--model", Model("\"silu\"", "\"gelu\"")), {path("model.json") + ":14", "hidden_act", "silu"});
    Refused(TrainWith("--model", Model("\"vocab_size\": 256", "\"vocab_size\": 255")), {"vocab_size", "256", "255"});
    Refused(TrainWith("--model", Model("\"llama\"", "\"rwkv\"")), {path("model.json") + ":3", "model_type", "llama"});
    Refused(TrainWith("--seq-len", "257"), {"--seq-len", "257", "256"});
}

TEST_F(Refusal, TextTooShort)
{
    WriteFile(path("short.txt"), "short");
    Refused(TrainWith("--data", path("short.txt")), {path("short.txt"), "5 bytes", "65", "--eval-data"});
    Refused(Train("run", 1, {"--eval-data", path("short.txt")}), {path("short.txt"), "5 bytes", "33"});
    ASSERT_EQ(0, mkdir(path("empty").c_str(), 0700));
    Refused(TrainWith("--data", path("empty")), {path("empty"), "no text"});
}

TEST_F(Refusal, DriveFolders)
{
    auto paths = [](const std::string &dir) { return Words{"--set", "zinf.nvme_paths=" + dir}; };
    Refused(Train("run", 1, paths("[]")), {"zinf.nvme_paths"});
    Refused(Train("run", 1, paths("[\"" + path("none") + "\"]")), {path("none"), "zinf.nvme_paths", "No such file"});
    Refused(Train("run", 1, paths("[\"" + path("text.txt") + "\"]")), {path("text.txt"), "zinf.nvme_paths", "Not a directory"});
    Refused(Train("run", 1, paths("[\"" + drive_ + "\",\"" + drive_ + "\"]")), {drive_, "zinf.nvme_paths"});
}

TEST_F(Refusal, FoldersThatCannotBeWritten)
{
    std::string closed = path("closed");
    How how;
    how.prepare = ObeyPermissions;
    ASSERT_EQ(0, mkdir(closed.c_str(), 0500));
    Outcome o = Exec(Train("run", 1, {"--set", "zinf.nvme_paths=[\"" + closed + "\"]"}), how);
    if (o.code == kNotPossible)
        GTEST_SKIP() << "root cannot give up its privileges here";
    ExpectRefusal(o, 2, {closed, "zinf.nvme_paths", "Permission denied"});
    ExpectRefusal(Exec(TrainWith("--out", closed + "/run"), how), 2, {"--out", closed, "Permission denied"});
    ExpectRefusal(Exec(TrainWith("--out", closed), how), 2, {"--out", closed, "Permission denied"});
    ExpectRefusal(Exec(Train("run", 1, {"--log", closed + "/log"}), how), 2, {"--log", closed, "Permission denied"});
    ExpectRefusal(Exec({Zinf(), "doctor", "--path", closed}, how), 2, {closed, "Permission denied"});
    EXPECT_FALSE(Exists(path("run")));
    EXPECT_TRUE(Names(closed).empty());
}

TEST_F(Refusal, OutThatHoldsSomethingElse)
{
    ASSERT_EQ(0, mkdir(path("mine").c_str(), 0700));
    WriteFile(path("mine/thesis.txt"), "years of work");
    auto before = Snapshot(path("mine"));
    for (const char *more : {"--serial", "--overwrite"})
        ExpectRefusal(Exec(Train("mine", 1, {more})), 2, {"--out", path("mine"), "choose a new folder"});
    ExpectRefusal(Exec(Train("text.txt", 1)), 2, {"--out", "is not a folder"});
    EXPECT_EQ(before, Snapshot(path("mine")));
}

/* Whatever a start is refused for, and however it fails before step 1: the run that --out holds stays as it was. */
TEST_F(Refusal, OldRunOutlivesARefusedStart)
{
    Outcome o = Exec(Train("old", 2));
    ASSERT_EQ(0, o.code) << o.err;
    auto before = Snapshot(path("old")), drive = Stored(drive_);
    std::string minimum = std::to_string(Minimum("device") - 1);

    ExpectRefusal(Exec(Train("old", 1)), 2, {"--overwrite"});
    EXPECT_EQ(before, Snapshot(path("old")));
    EXPECT_TRUE(drive == Stored(drive_));
    const Words refused[] = {
        {"--set", "zinf.device_memory=" + minimum},
        {"--set", "zinf.nvme_paths=[\"" + path("none") + "\"]"},
        {"--set", "zinf.unknown=1"},
        {"--eval-data", path("none")},
        {"--log", path("none/log")},
        {"--log", path("old")},
    };
    for (Words more : refused) {
        more.push_back("--overwrite");
        ExpectRefusal(Exec(Train("old", 1, more)), 2, {});
        EXPECT_EQ(before, Snapshot(path("old"))) << more[1];
        EXPECT_TRUE(drive == Stored(drive_)) << more[1];
    }
}

/* A file system of one MiB over the drive's folder, for this process and what it starts only. */
bool MountTmpfs(const std::string &drive, const char *options)
{
    uid_t uid = geteuid();
    char map[32];

    if (unshare(CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)))
        return false;
    if (uid) {
        FILE *f = fopen("/proc/self/uid_map", "w");
        snprintf(map, sizeof(map), "0 %u 1", static_cast<unsigned>(uid));
        if (!f || fputs(map, f) < 0 || fclose(f))
            return false;
    }
    return !mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) && !mount("tmpfs", drive.c_str(), "tmpfs", 0, options);
}

TEST_F(Refusal, FullDriveIsARunTimeFailureAndLeavesNothing)
{
    How how;
    how.prepare = [this] { return MountTmpfs(drive_, "size=1m"); };
    /* The listing is made inside, where the file system is. */
    Words words = {"/bin/sh", "-c", "\"$@\"; rc=$?; ls -A \"$0\" >&3; exit $rc", drive_};
    words[2] = "exec 3>'" + path("left") + "'; " + words[2];
    Words train = Train("run", 1);
    words.insert(words.end(), train.begin(), train.end());
    Outcome o = Exec(words, how);
    if (o.code == kNotPossible)
        GTEST_SKIP() << "this system lets no one mount in a name space of their own";
    EXPECT_EQ(1, o.code) << o.err;
    std::string last = Lines(o.err).back();
    EXPECT_EQ(0u, last.rfind("zinf: " + drive_ + "/zinf-", 0)) << o.err;
    EXPECT_NE(std::string::npos, last.find("free space")) << o.err;
    for (const auto &line : Lines(o.err))       /* a file system without O_DIRECT is worth a warning */
        EXPECT_TRUE(line == last || line.rfind("zinf: warning: ", 0) == 0) << line;
    EXPECT_EQ("", ReadFile(path("left")));
    EXPECT_FALSE(Exists(path("run")));
}

TEST_F(Refusal, OutputThatCannotBeWritten)
{
    How how;
    how.prepare = [] { return freopen("/dev/full", "w", stdout) != nullptr && dup2(fileno(stdout), 1) == 1; };
    Outcome o = Exec({Zinf(), "doctor"}, how);
    EXPECT_EQ(1, o.code);
    EXPECT_EQ(0u, o.err.rfind("zinf: standard output could not be written", 0)) << o.err;
    EXPECT_EQ(1u, Lines(o.err).size()) << o.err;
}

}  // namespace
