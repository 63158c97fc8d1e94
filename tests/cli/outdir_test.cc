/* tests/cli/outdir_test.cc - what may become a run's folder, and that looking harms nothing. */
#include "zinf/cli/outdir.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::Exists;
using zinf_test::Names;
using zinf_test::ReadFile;
using zinf_test::Snapshot;
using zinf_test::WriteFile;

class Outdir : public zinf_test::CliTest {
protected:
    ~Outdir() override { zinf_outdir_close(&o); }

    int Check(const std::string &name, bool overwrite = false)
    {
        zinf_outdir_close(&o);
        st = {};
        return zinf_outdir_check(path(name).c_str(), overwrite, &o, &st);
    }
    void MakeRun(const std::string &name)
    {
        ASSERT_EQ(0, Check(name)) << st.text;
        ASSERT_EQ(0, zinf_outdir_take(&o, &st)) << st.text;
        WriteFile(o.run, "{}\n");
        WriteFile(o.log, "{}\n");
        ASSERT_EQ(0, mkdir(o.model, 0700));
        WriteFile(std::string(o.model) + "/model.safetensors", "weights");
        WriteFile(std::string(o.model) + "/config.json", "{}");
        zinf_outdir_close(&o);
    }
    void ExpectText(const std::string &piece) { EXPECT_NE(std::string::npos, std::string(st.text).find(piece)) << st.text; }

    zinf_outdir o = [] { zinf_outdir x = {}; x.lock_fd = -1; return x; }();
    zinf_status st = {};
};

TEST_F(Outdir, AbsentIsMadeOnlyWhenTaken)
{
    ASSERT_EQ(0, Check("run")) << st.text;
    EXPECT_FALSE(Exists(path("run")));
    ASSERT_EQ(0, zinf_outdir_take(&o, &st)) << st.text;
    EXPECT_TRUE(Names(path("run")).empty());
    EXPECT_EQ(path("run") + "/log.jsonl", o.log);
    EXPECT_EQ(path("run") + "/model", o.model);
}

TEST_F(Outdir, TrailingSlashAndEmptyFolderAreFine)
{
    ASSERT_EQ(0, Check("run/")) << st.text;
    ASSERT_EQ(0, mkdir(path("empty").c_str(), 0700));
    ASSERT_EQ(0, Check("empty")) << st.text;
    EXPECT_EQ(0, zinf_outdir_take(&o, &st)) << st.text;
}

TEST_F(Outdir, ParentMustExistAndBeAFolder)
{
    EXPECT_EQ(-ENOENT, Check("a/b"));
    ExpectText("make that folder first");
    EXPECT_EQ(-ENOTDIR, Check("text.txt/b"));
    EXPECT_EQ(-ENOTDIR, Check("text.txt"));
    ExpectText("is not a folder");
}

TEST_F(Outdir, ForeignFilesAreNeverTaken)
{
    ASSERT_EQ(0, mkdir(path("other").c_str(), 0700));
    WriteFile(path("other/thesis.txt"), "years of work");
    for (bool overwrite : {false, true}) {
        EXPECT_EQ(-EEXIST, Check("other", overwrite));
        ExpectText("holds files that are not a run");
    }
    EXPECT_EQ("years of work", ReadFile(path("other/thesis.txt")));
}

TEST_F(Outdir, RunIsReplacedOnlyWhenTold)
{
    MakeRun("run");
    auto before = Snapshot(path("run"));
    EXPECT_EQ(-EEXIST, Check("run"));
    ExpectText("--overwrite");
    ASSERT_EQ(0, Check("run", true)) << st.text;
    EXPECT_EQ(before, Snapshot(path("run")));           /* looking changes nothing */
    ASSERT_EQ(0, zinf_outdir_take(&o, &st)) << st.text;
    EXPECT_EQ(std::set<std::string>{"run.json"}, Names(path("run")));
}

TEST_F(Outdir, ForeignFileAmongTheWeightsIsSeenBeforeAnythingIsRemoved)
{
    MakeRun("run");
    WriteFile(path("run/model/notes"), "mine");
    auto before = Snapshot(path("run"));
    EXPECT_EQ(-EEXIST, Check("run", true));
    ExpectText("model/notes");
    EXPECT_EQ(before, Snapshot(path("run")));
}

TEST_F(Outdir, LivingRunKeepsItsFolder)
{
    MakeRun("run");
    ASSERT_EQ(0, Check("run", true)) << st.text;

    zinf_outdir second = {};
    zinf_status why = {};
    EXPECT_EQ(-EBUSY, zinf_outdir_check(path("run").c_str(), true, &second, &why));
    EXPECT_NE(std::string::npos, std::string(why.text).find("still going")) << why.text;
    zinf_outdir_close(&o);
    why = {};
    ASSERT_EQ(0, zinf_outdir_check(path("run").c_str(), true, &second, &why)) << why.text;
    zinf_outdir_close(&second);
}

TEST_F(Outdir, WhatAppearsBetweenCheckAndTakeIsNotCleared)
{
    ASSERT_EQ(0, Check("run", true)) << st.text;
    ASSERT_EQ(0, mkdir(path("run").c_str(), 0700));
    WriteFile(path("run/log.jsonl"), "theirs");
    EXPECT_EQ(-EEXIST, zinf_outdir_take(&o, &st));
    EXPECT_EQ("theirs", ReadFile(path("run/log.jsonl")));
}

TEST_F(Outdir, LogIsCheckedWithoutBeingMade)
{
    EXPECT_EQ(0, zinf_outdir_check_log(path("new.jsonl").c_str(), &st)) << st.text;
    EXPECT_FALSE(Exists(path("new.jsonl")));
    EXPECT_EQ(0, zinf_outdir_check_log(path("text.txt").c_str(), &st)) << st.text;
    EXPECT_EQ(-EISDIR, zinf_outdir_check_log(drive_.c_str(), &st));
    st = {};
    EXPECT_EQ(-ENOENT, zinf_outdir_check_log(path("no/log").c_str(), &st));
    ExpectText("--log");
}

TEST_F(Outdir, FindNeedsARun)
{
    MakeRun("run");
    ASSERT_EQ(0, zinf_outdir_find(path("run").c_str(), &o, &st)) << st.text;
    EXPECT_EQ(path("run") + "/log.jsonl", o.log);
    EXPECT_EQ(-1, o.lock_fd);
    for (const std::string &dir : {drive_, path("none"), path("text.txt")}) {
        st = {};
        EXPECT_GT(0, zinf_outdir_find(dir.c_str(), &o, &st)) << dir;
        ExpectText(dir + " is not a run folder");
    }
}

TEST_F(Outdir, OneRunAtATimeEnters)
{
    zinf_outdir second = {};
    zinf_status why = {};

    MakeRun("run");
    auto before = Snapshot(path("run"));
    ASSERT_EQ(0, zinf_outdir_enter(path("run").c_str(), &o, &st)) << st.text;
    EXPECT_EQ(-EBUSY, zinf_outdir_enter(path("run").c_str(), &second, &why));
    EXPECT_NE(std::string::npos, std::string(why.text).find("still going")) << why.text;
    zinf_outdir_close(&o);
    why = {};
    EXPECT_EQ(0, zinf_outdir_enter(path("run").c_str(), &second, &why)) << why.text;
    zinf_outdir_close(&second);
    EXPECT_EQ(-ENOENT, zinf_outdir_enter(path("none").c_str(), &o, &st));
    EXPECT_EQ(before, Snapshot(path("run")));
}

TEST_F(Outdir, LongPathIsRefused)
{
    EXPECT_EQ(-ENAMETOOLONG, Check(std::string(600, 'x')));
}

}  // namespace
