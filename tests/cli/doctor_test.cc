/* tests/cli/doctor_test.cc - what zinf doctor finds, for people and for programs. */
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <string>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::CliTest;
using zinf_test::DenyIoUring;
using zinf_test::Exec;
using zinf_test::How;
using zinf_test::Json;
using zinf_test::kNotPossible;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::Repo;
using zinf_test::Words;
using zinf_test::Zinf;

bool Holds(const std::string &text, const std::string &piece) { return text.find(piece) != std::string::npos; }

bool IsA(const std::string &dir, long magic)
{
    struct statfs s;

    return !statfs(dir.c_str(), &s) && s.f_type == magic;
}

class Doctor : public CliTest {
protected:
    Outcome Ok(Words more, const How &how = {})
    {
        Words words = {Zinf(), "doctor"};
        words.insert(words.end(), more.begin(), more.end());
        Outcome o = Exec(words, how);
        EXPECT_EQ(0, o.code) << o.err;
        EXPECT_EQ("", o.err);
        return o;
    }
};

TEST_F(Doctor, TellsPeople)
{
    Outcome o = Ok({"--path", drive_});
    for (const char *section : {"\ncpu\n", "\nmemory\n", "\nio\n", "\npath\n"})
        EXPECT_TRUE(Holds(o.out, section)) << section << o.out;
    for (const char *fact : {"  version ", "  chosen                 cpu ", "  io_uring ", "  io_uring_why ", "  libaio ",
                             "  o_direct ", "  o_direct_why ", "  alignment ", "  available "})
        EXPECT_TRUE(Holds(o.out, fact)) << fact << o.out;
    EXPECT_TRUE(Names(drive_).empty()) << "the trial file stays";
}

TEST_F(Doctor, TellsProgramsTheSame)
{
    Outcome o = Ok({"--json", "--path", drive_});
    ASSERT_EQ(1u, Lines(o.out).size()) << o.out;
    Json j(o.out);
    EXPECT_FALSE(j.String("zinf.version").empty());
    EXPECT_GE(j.Number("cpu.processors"), 1);
    EXPECT_EQ(0u, j.String("cpu.chosen").rfind("cpu ", 0));
    EXPECT_GT(j.Number("memory.available"), 0);
    EXPECT_EQ(j.Bool("io.io_uring"), j.String("io.chosen") == "io_uring") << o.out;
    EXPECT_EQ(drive_, j.String("paths.0.path"));
    EXPECT_GE(j.Number("paths.0.alignment"), 1);
    EXPECT_GT(j.Number("paths.0.free"), 0);
    EXPECT_FALSE(j.Has("paths.1"));
    EXPECT_FALSE(j.Has("budgets"));
}

TEST_F(Doctor, LooksAtEveryDriveOfAConfiguration)
{
    Words words = {"--json", "--config", Repo("examples/configs/byte-llama-nvme.json"), "--set",
                   "zinf.nvme_paths=[\"" + drive_ + "\",\"" + dir_ + "\"]", "--set", "zinf.host_memory=auto"};
    Json j(Ok(words).out);
    EXPECT_EQ(drive_, j.String("paths.0.path"));
    EXPECT_EQ(dir_, j.String("paths.1.path"));
    EXPECT_FALSE(j.Has("paths.2"));
    EXPECT_EQ(24 << 20, j.Number("budgets.device_memory"));
    EXPECT_EQ("auto", j.String("budgets.host_memory"));
    words.push_back("--path");
    words.push_back(path("drive"));
    Json more(Ok(words).out);
    EXPECT_EQ(drive_, more.String("paths.2.path"));
}

TEST_F(Doctor, Tmpfs)
{
    std::string dir = "/dev/shm/zinf-doctor-XXXXXX";
    if (!IsA("/dev/shm", TMPFS_MAGIC) || !mkdtemp(&dir[0]))
        GTEST_SKIP() << "/dev/shm is no tmpfs that can be written";
    Json j(Ok({"--json", "--path", dir}).out);
    EXPECT_EQ("tmpfs", j.String("paths.0.file_system"));
    EXPECT_FALSE(j.String("paths.0.o_direct_why").empty());
    EXPECT_TRUE(Names(dir).empty());
    EXPECT_EQ(0, rmdir(dir.c_str()));
}

TEST_F(Doctor, Ext4)
{
    if (!IsA(drive_, EXT4_SUPER_MAGIC))
        GTEST_SKIP() << "the test's folder is not on ext4";
    Json j(Ok({"--json", "--path", drive_}).out);
    EXPECT_EQ("ext4", j.String("paths.0.file_system"));
    EXPECT_TRUE(j.Bool("paths.0.o_direct")) << j.String("paths.0.o_direct_why");
    EXPECT_GE(j.Number("paths.0.alignment"), 512);
}

TEST_F(Doctor, InstructionSetFromTheEnvironment)
{
    How how;
    how.env["ZINF_ISA"] = "scalar";
    Json j(Ok({"--json"}, how).out);
    EXPECT_EQ(0u, j.String("cpu.chosen").rfind("cpu scalar", 0)) << j.String("cpu.chosen");

    how.env["ZINF_ISA"] = "nonsense";
    ExpectRefusal(Exec({Zinf(), "doctor"}, how), 2, {"ZINF_ISA=nonsense", "scalar", "avx2"});
    ExpectRefusal(Exec({Zinf(), "doctor", "--json"}, how), 2, {"ZINF_ISA=nonsense"});
    ExpectRefusal(Exec(Train("run", 1), how), 2, {"ZINF_ISA=nonsense"});
}

TEST_F(Doctor, SaysWhyIoUringIsNotUsed)
{
    How how;
    how.prepare = DenyIoUring;
    Words words = {Zinf(), "doctor", "--json"};
    Outcome o = Exec(words, how);
    if (o.code == kNotPossible)
        GTEST_SKIP() << "this system does not let a process deny itself system calls";
    ASSERT_EQ(0, o.code) << o.err;
    EXPECT_EQ("", o.err);
    Json j(o.out);
    EXPECT_FALSE(j.Bool("io.io_uring"));
    EXPECT_FALSE(j.String("io.io_uring_why").empty());
    EXPECT_NE("io_uring", j.String("io.chosen"));
}

}  // namespace
