/* tests/cli/limits_test.cc - what surrounds a run: streams that are closed, limits of the process, long names and odd ones. */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::CliTest;
using zinf_test::Exec;
using zinf_test::Exists;
using zinf_test::Holds;
using zinf_test::How;
using zinf_test::kForever;
using zinf_test::kNotPossible;
using zinf_test::kSanitized;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::Process;
using zinf_test::ReadFile;
using zinf_test::Snapshot;
using zinf_test::Words;
using zinf_test::Zinf;

class Limits : public CliTest {
protected:
    static How Under(int resource, rlim_t limit)
    {
        How how;
        how.prepare = [resource, limit] {
            rlimit r = {limit, limit};
            return !setrlimit(static_cast<__rlimit_resource_t>(resource), &r);
        };
        return how;
    }
};

/* The numbers 0 to 2 must never become those of a drive's file: a progress line would be written into the state. */
TEST_F(Limits, StandardStreamsThatAreClosedAreNoOtherFiles)
{
    Words words = {"/bin/sh", "-c",
                   "\"$@\" <&- >&- 2>&- & p=$!; until grep -q '\"step\":2' \"$0\" 2>/dev/null; do kill -0 $p || exit 9; done; "
                   "for i in 0 1 2; do readlink /proc/$p/fd/$i; done; kill -9 $p; wait $p; exit 0",
                   path("run/log.jsonl")};
    Words train = Train("run", kForever);
    words.insert(words.end(), train.begin(), train.end());
    Outcome o = Exec(words);
    EXPECT_EQ(0, o.code) << o.err;
    EXPECT_EQ("/\n/\n/\n", o.out);
}

TEST_F(Limits, EveryCommandSaysThatItsOutputIsLost)
{
    How how;
    how.prepare = [] { return close(1) == 0; };
    for (const char *word : {"--help", "--version", "doctor"}) {
        Outcome o = Exec({Zinf(), word}, how);
        EXPECT_EQ(1, o.code) << word;
        EXPECT_EQ(0u, o.err.rfind("zinf: standard output could not be written", 0)) << o.err;
    }
}

TEST_F(Limits, FilesThatMayNotGrowAreAnErrorAndLeaveNothing)
{
    for (rlim_t limit : {rlim_t{4096}, rlim_t{1000000}}) {
        Outcome o = Exec(Train("run", 1), Under(RLIMIT_FSIZE, limit));
        EXPECT_EQ(0, o.signal) << limit;
        EXPECT_NE(0, o.code) << limit;
        ASSERT_FALSE(Lines(o.err).empty()) << limit;
        EXPECT_TRUE(Holds(Lines(o.err).back(), "File too large")) << o.err;
        EXPECT_TRUE(Names(drive_).empty()) << limit;
        EXPECT_FALSE(Exists(path("run")));
    }
}

/* OpenBLAS would try for ever to map its work space. */
TEST_F(Limits, AddressSpaceThatIsTooSmallForOpenBlasIsToldBeforeTheFirstStep)
{
    constexpr rlim_t kLimit = 360u << 20;

    if (kSanitized)
        GTEST_SKIP() << "sanitizers need address space of their own";
    if (!Holds(Exec({Zinf(), "doctor"}).out, "gemm=openblas"))
        GTEST_SKIP() << "this build multiplies by itself";
    Outcome o = Exec(Train("run", 1), Under(RLIMIT_AS, kLimit));
    ExpectRefusal(o, 1, {"OpenBLAS needs", "ulimit -v", "ZINF_GEMM=own"});
    EXPECT_TRUE(Names(drive_).empty());

    How own = Under(RLIMIT_AS, kLimit);
    own.env["ZINF_GEMM"] = "own";
    o = Exec(Train("run", 1), own);
    EXPECT_EQ(0, o.code) << o.err;
}

TEST_F(Limits, LogWithALongNameIsWhereItWasAskedFor)
{
    std::string folder = dir_;
    for (int i = 0; i < 4; i++) {
        folder += "/" + std::string(200, static_cast<char>('a' + i));
        ASSERT_EQ(0, mkdir(folder.c_str(), 0700));
    }
    Pass(Train("run", 1, {"--log", folder + "/log"}));
    EXPECT_TRUE(Exists(folder + "/log"));
    EXPECT_TRUE(Holds(Pass({Zinf(), "report", path("run")}).out, folder + "/log"));
    Pass(Resume("run", {"--steps", "2"}));
    EXPECT_EQ(std::set<std::string>{"log"}, Names(folder));
    ExpectRefusal(Exec(Train("other", 1, {"--log", "/" + std::string(5000, 'x')})), 2, {"--log", "longer than"});
}

/* run.json could not hold the name, and a resume would not find the file. */
TEST_F(Limits, NamesThatAreNotUtf8AreRefusedBeforeAnythingIsReplaced)
{
    const std::string odd = dir_ + "/b\xff";
    ASSERT_EQ(0, mkdir(odd.c_str(), 0700));
    ASSERT_EQ(0, mkdir((odd + "/drive").c_str(), 0700));
    Pass({"/bin/cp", path("text.txt"), odd + "/text.txt"});
    Pass(Train("run", 1));
    auto before = Snapshot(path("run"));
    auto drive = Stored(drive_);

    Words data = Train("run", 1, {"--overwrite"});
    for (size_t i = 0; i + 1 < data.size(); i++)
        if (data[i] == "--data")
            data[i + 1] = odd + "/text.txt";
    ExpectRefusal(Exec(data), 2, {"--data", "not UTF-8"});
    ExpectRefusal(Exec(Train("run", 1, {"--overwrite", "--log", odd + "/log"})), 2, {"--log", "not UTF-8"});
    How there;
    there.dir = odd;
    Outcome o = Exec(Train("run", 1, {"--overwrite", "--set", "zinf.nvme_paths=[\"drive\"]"}), there);
    EXPECT_EQ(2, o.code);
    ASSERT_FALSE(Lines(o.err).empty());
    EXPECT_TRUE(Holds(Lines(o.err).back(), "zinf.nvme_paths")) << o.err;
    EXPECT_TRUE(Holds(Lines(o.err).back(), "not UTF-8")) << o.err;
    EXPECT_TRUE(Names(odd + "/drive").empty());
    EXPECT_EQ(before, Snapshot(path("run")));
    EXPECT_TRUE(drive == Stored(drive_));
}

/* A folder with a record is nobody's garbage, so a run must be known by its --out before it has one. */
TEST_F(Limits, StateOnADriveIsNamedBeforeItHasARecord)
{
    for (int i = 0; i < 6; i++) {
        std::string out = "run" + std::to_string(i);
        auto before = Names(drive_);
        Process p(Train(out, kForever), {});
        bool seen = false;
        while (!seen) {
            for (const auto &name : Names(drive_)) {
                std::string record = drive_ + "/" + name + "/record-0";
                seen |= name[0] != '.' && !before.count(name) && Exists(record) && Holds(ReadFile(record), "ZINFREC1");
            }
        }
        p.Kill(SIGKILL);
        p.Wait();
        ASSERT_TRUE(Exists(path(out + "/run.json"))) << i;
        Pass({Zinf(), "clean", path(out)});
        EXPECT_EQ(before, Names(drive_));
    }
}

}  // namespace
