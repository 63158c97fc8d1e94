/* tests/checkpoint/portable_test.cc - portable checkpoints: equal when read back, refused when damaged, replaced, listed. */
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/portable_case.h"
#include "tests/checkpoint/temp_dir.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/checkpoint/portable_dir.h"
#include "zinf/checkpoint/safetensors.h"

namespace {

using Strings = std::vector<std::string>;

class Portable : public TempDir {
  protected:
    bool has(const zinf_status &st, const std::string &word) { return std::string(st.text).find(word) != std::string::npos; }
    std::string parent() const { return dir_; }
    zinf_status st = {};
};

TEST_F(Portable, AnySegmentsFromAnyThreadsReadBack)
{
    for (uint32_t seed = 0; seed < 12; seed++) {
        PortableCase c(seed, 1 + seed * 5003, seed % 3 ? 3 : 1);
        zinf_status s = {};
        ASSERT_EQ(0, c.save(parent(), "step-" + std::to_string(seed), seed, &s, 1 + seed % 4)) << s.text;
        EXPECT_EQ(seed, c.load(path("step-" + std::to_string(seed)), &s)) << s.text;
        EXPECT_EQ((std::set<std::string>{ "checkpoint.json", "state.safetensors" }), names("step-" + std::to_string(seed)));
    }
    EXPECT_EQ(12u, names().size());
}

TEST_F(Portable, TheStateIsASafetensorsFile)
{
    PortableCase c(1);
    ASSERT_EQ(0, c.save(parent(), "a", 1, &st)) << st.text;
    zinf_st_file *f = nullptr;
    ASSERT_EQ(0, zinf_st_open(path("a/state.safetensors").c_str(), &f, &st)) << st.text;
    EXPECT_EQ(3 * c.params.size(), zinf_st_nr_tensors(f));
    const zinf_st_tensor *t = zinf_st_find(f, ("exp_avg_sq." + c.names[4]).c_str());
    ASSERT_NE(nullptr, t);
    EXPECT_STREQ("F32", t->dtype);
    float v = 0;
    ASSERT_EQ(0, zinf_st_read(f, t, 4 * 123, &v, 4, &st));
    EXPECT_EQ(PortableCase::value(1, 4, 2, 123), v);
    zinf_st_close(f);
}

TEST_F(Portable, TheParentIsMadeAndItsSlashesDoNotMatter)
{
    PortableCase c(2);
    ASSERT_EQ(0, c.save(path("checkpoints//"), "a", 1, &st)) << st.text;
    EXPECT_EQ(1, c.load(path("checkpoints/a//"), &st)) << st.text;
    EXPECT_EQ(-ENOENT, c.save(path("none/checkpoints"), "a", 1, &st));
}

TEST_F(Portable, ReadsFromManyThreadsAtOnce)
{
    PortableCase c(3);
    ASSERT_EQ(0, c.save(parent(), "a", 5, &st, 3)) << st.text;
    zinf_portable *p = nullptr;
    ASSERT_EQ(0, zinf_portable_load(path("a").c_str(), &p, &st)) << st.text;
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (uint32_t t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            std::mt19937 rng(t);
            for (int i = 0; i < 200; i++) {
                uint64_t first = rng() % c.elems(4), n = rng() % std::min<uint64_t>(500, c.elems(4) - first + 1);
                std::vector<float> got(n + 1), want = c.values(5, 4, t % 3, first, n);
                wrong[t] += zinf_portable_read(p, c.names[4].c_str(), (zinf_portable_kind)(t % 3), first, got.data(), n,
                                               nullptr) != 0 ||
                            !std::equal(want.begin(), want.end(), got.begin());
            }
        });
    for (auto &t : threads)
        t.join();
    EXPECT_EQ(std::vector<int>(4, 0), wrong);
    float v;
    EXPECT_EQ(-EINVAL, zinf_portable_read(p, c.names[0].c_str(), ZINF_MASTER, 15, &v, 1, &st));
    EXPECT_EQ(-EINVAL, zinf_portable_read(p, c.names[0].c_str(), ZINF_MASTER, UINT64_MAX, &v, 2, nullptr));
    EXPECT_EQ(-EINVAL, zinf_portable_read(p, "other", ZINF_MASTER, 0, &v, 1, nullptr));
    zinf_portable_unload(p);
}

TEST_F(Portable, WithoutMomentsNoneAreRead)
{
    PortableCase c(4, 100, 1);
    ASSERT_EQ(0, c.save(parent(), "a", 5, &st)) << st.text;
    zinf_portable *p = nullptr;
    ASSERT_EQ(0, zinf_portable_load(path("a").c_str(), &p, &st)) << st.text;
    float v;
    EXPECT_EQ(-EINVAL, zinf_portable_read(p, c.names[2].c_str(), ZINF_EXP_AVG, 0, &v, 1, &st));
    EXPECT_TRUE(has(st, "exp_avg.")) << st.text;
    zinf_portable_unload(p);
}

TEST_F(Portable, AnotherModelDoesNotMatch)
{
    PortableCase c(5), other(5);
    ASSERT_EQ(0, c.save(parent(), "a", 1, &st)) << st.text;
    zinf_portable *p = nullptr;
    ASSERT_EQ(0, zinf_portable_load(path("a").c_str(), &p, &st)) << st.text;
    auto match = [&](uint32_t nr) {
        st = {};
        return zinf_portable_match(p, other.pointers.data(), nr, nullptr, &st);
    };
    EXPECT_EQ(0, match(7));
    EXPECT_EQ(-EINVAL, match(6));
    EXPECT_TRUE(has(st, "layer.6.weight")) << st.text;
    other.params[0].dims[0] = 5;
    other.params[0].dims[1] = 3;
    EXPECT_EQ(-EINVAL, match(7));
    EXPECT_TRUE(has(st, "layer.0.weight") && has(st, "[3,5]") && has(st, "[5,3]")) << st.text;
    other.params[0] = c.params[0];
    other.params[3].name = "layer.3.bias";
    EXPECT_EQ(-EINVAL, match(7));
    EXPECT_TRUE(has(st, "layer.3.bias")) << st.text;
    zinf_portable_unload(p);
}

/* ---- writing what is wrong ------------------------------------------------------------------------------------------ */

class Writing : public Portable {
  protected:
    void open(uint32_t nr_segments, const char *name = "a")
    {
        zinf_portable_opts o = c_.opts(dir_.c_str(), name, nr_segments);
        ASSERT_EQ(0, zinf_portable_open(&o, &w_, &st)) << st.text;
    }
    void TearDown() override
    {
        zinf_portable_close(w_);
        Portable::TearDown();
    }
    PortableCase c_{ 6, 100 };
    zinf_portable_writer *w_ = nullptr;
    float v_[100] = {};
};

TEST_F(Writing, OnlyWholeSegmentsOfTheModelAreTaken)
{
    open(2);
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 2, 0, ZINF_MASTER, 0, v_, 1, nullptr));
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 0, 7, ZINF_MASTER, 0, v_, 1, nullptr));
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 0, 0, (zinf_portable_kind)3, 0, v_, 1, nullptr));
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 0, 0, ZINF_MASTER, 14, v_, 2, nullptr));
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 0, 0, ZINF_MASTER, UINT64_MAX, v_, 2, nullptr));
    ASSERT_EQ(0, zinf_portable_write(w_, 0, 0, ZINF_MASTER, 0, v_, 2, &st)) << st.text;
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 0, 0, ZINF_MASTER, 3, v_, 2, nullptr));
    EXPECT_EQ(-EINVAL, zinf_portable_write(w_, 0, 0, ZINF_EXP_AVG, 2, v_, 2, nullptr));
    EXPECT_EQ(0, zinf_portable_write(w_, 0, 0, ZINF_MASTER, 2, v_, 2, &st)) << st.text;
}

TEST_F(Writing, AMissingSegmentIsNamedAndNothingIsLeft)
{
    auto segments = c_.cut();
    open((uint32_t)segments.size());
    ASSERT_EQ(0, c_.write_all(w_, { segments.begin(), segments.end() - 1 }, 1, 1, &st)) << st.text;
    EXPECT_EQ(-EINVAL, zinf_portable_finish(w_, "{\"step\":1}", &st));
    EXPECT_TRUE(has(st, c_.names[segments.back().param])) << st.text;
    EXPECT_TRUE(has(st, "element " + std::to_string(segments.back().first))) << st.text;
    zinf_portable_close(w_);
    w_ = nullptr;
    EXPECT_TRUE(names().empty());
}

TEST_F(Writing, AnElementTwiceIsRefused)
{
    auto segments = c_.cut();
    open((uint32_t)segments.size() + 1);
    ASSERT_EQ(0, c_.write_all(w_, segments, 1, 1, &st)) << st.text;
    ASSERT_EQ(0, zinf_portable_write(w_, (uint32_t)segments.size(), 4, ZINF_EXP_AVG, 50, v_, 1, &st)) << st.text;
    EXPECT_EQ(-EINVAL, zinf_portable_finish(w_, "{\"step\":1}", &st));
    EXPECT_TRUE(has(st, "exp_avg." + c_.names[4])) << st.text;
}

TEST_F(Writing, SegmentsMayBeFewerAndEmpty)
{
    auto segments = c_.cut();
    open((uint32_t)segments.size() + 3);
    ASSERT_EQ(0, c_.write_all(w_, segments, 4, 1, &st)) << st.text;
    ASSERT_EQ(0, zinf_portable_write(w_, (uint32_t)segments.size(), 1, ZINF_MASTER, 0, v_, 0, &st)) << st.text;
    ASSERT_EQ(0, zinf_portable_finish(w_, " {\"step\": 4,\n\"more\": [1, {}]} ", &st)) << st.text;
    EXPECT_EQ(4, c_.load(path("a"), &st)) << st.text;
    EXPECT_EQ(-EINVAL, zinf_portable_finish(w_, "{}", nullptr));
    zinf_portable_close(w_);
    w_ = nullptr;
    EXPECT_EQ(4, c_.load(path("a"), &st)) << st.text;
}

TEST_F(Writing, WhatIsSaidOfTheRunIsAnObject)
{
    std::string deep = "1";
    for (int i = 0; i < 64; i++)
        deep = "{\"a\":" + deep + "}";
    for (const std::string &meta : { std::string("7"), std::string(""), std::string("{\"step\":1"), std::string("{}, \"x\": {}"),
                                     std::string("\xef\xbb\xbf{}"), deep }) {
        auto segments = c_.cut();
        st = {};
        open((uint32_t)segments.size());
        ASSERT_EQ(0, c_.write_all(w_, segments, 4, 1, &st)) << st.text;
        EXPECT_EQ(-EINVAL, zinf_portable_finish(w_, meta.c_str(), &st)) << meta;
        zinf_portable_close(w_);
        w_ = nullptr;
        EXPECT_TRUE(names().empty());
    }
}

TEST_F(Writing, ClosedWithoutFinishLeavesNothing)
{
    auto segments = c_.cut();
    open((uint32_t)segments.size());
    ASSERT_EQ(0, c_.write_all(w_, segments, 1, 2, &st)) << st.text;
    EXPECT_EQ(std::set<std::string>{ ".a.tmp" }, names());
    zinf_portable_close(w_);
    w_ = nullptr;
    EXPECT_TRUE(names().empty());
}

TEST_F(Writing, NamesThatCannotBe)
{
    for (const std::string &name : { std::string(), std::string("."), std::string(".."), std::string(".a"), std::string("a/b"),
                                     std::string(201, 'x') }) {
        zinf_portable_opts o = c_.opts(dir_.c_str(), name.c_str(), 1);
        EXPECT_EQ(-EINVAL, zinf_portable_open(&o, &w_, &st)) << name;
        EXPECT_EQ(-EINVAL, zinf_portable_remove(dir_.c_str(), name.c_str(), nullptr)) << name;
    }
    EXPECT_TRUE(names().empty());
    EXPECT_EQ(0, c_.save(dir_, std::string(200, 'x'), 1, &(st = {}))) << st.text;
}

TEST_F(Writing, TwoParametersOfOneNameAreRefusedBeforeAnythingIsMade)
{
    c_.params[2].name = c_.params[4].name;
    std::string parent = path("new");
    zinf_portable_opts o = c_.opts(parent.c_str(), "a", 1);
    EXPECT_EQ(-EINVAL, zinf_portable_open(&o, &w_, &st));
    EXPECT_TRUE(names().empty());
}

TEST_F(Writing, OneWriterOfAName)
{
    open(1);
    zinf_portable_writer *second = nullptr;
    zinf_portable_opts o = c_.opts(dir_.c_str(), "a", 1);
    EXPECT_EQ(-EBUSY, zinf_portable_open(&o, &second, &st));
    EXPECT_EQ(nullptr, second);
    o = c_.opts(dir_.c_str(), "b", 1);
    EXPECT_EQ(0, zinf_portable_open(&o, &second, &(st = {}))) << st.text;
    EXPECT_EQ((std::set<std::string>{ ".a.tmp", ".b.tmp" }), names());
    zinf_portable_close(second);
}

/* ---- the same name -------------------------------------------------------------------------------------------------- */

TEST_F(Portable, TheSameNameIsReplaced)
{
    PortableCase small(7, 10), big(8, 3000);
    for (int64_t g = 1; g <= 4; g++) {
        ASSERT_EQ(0, (g % 2 ? small : big).save(parent(), "a", g, &st)) << st.text;
        EXPECT_EQ(g, (g % 2 ? small : big).load(path("a"), &st)) << st.text;
        EXPECT_EQ(std::set<std::string>{ "a" }, names());
        EXPECT_EQ(2u, names("a").size());
    }
}

TEST_F(Portable, ARunningLoadKeepsTheOneItOpened)
{
    PortableCase c(9);
    ASSERT_EQ(0, c.save(parent(), "a", 1, &st)) << st.text;
    zinf_portable *p = nullptr;
    ASSERT_EQ(0, zinf_portable_load(path("a").c_str(), &p, &st)) << st.text;
    ASSERT_EQ(0, c.save(parent(), "a", 2, &st)) << st.text;
    float v = 0;
    ASSERT_EQ(0, zinf_portable_read(p, c.names[4].c_str(), ZINF_MASTER, 77, &v, 1, &st)) << st.text;
    EXPECT_EQ(PortableCase::value(1, 4, 0, 77), v);
    zinf_portable_unload(p);
}

TEST_F(Portable, FoldersOfOthersAreNotReplacedOrRemoved)
{
    PortableCase c(10);
    std::filesystem::create_directory(path("a"));
    put("a/notes.txt", "mine");
    EXPECT_EQ(-EEXIST, c.save(parent(), "a", 1, &st));
    EXPECT_TRUE(has(st, "/a")) << st.text;
    EXPECT_EQ(-EEXIST, zinf_portable_remove(parent().c_str(), "a", nullptr));
    put("b", "a file");
    EXPECT_EQ(-EEXIST, c.save(parent(), "b", 1, nullptr));
    std::filesystem::create_directory(path("d"));
    put("d/state.safetensors", "somebody's");
    EXPECT_EQ(-EEXIST, c.save(parent(), "d", 1, nullptr));
    std::filesystem::create_directory(path(".e.tmp"));
    put(".e.tmp/notes.txt", "mine");
    EXPECT_EQ(-EEXIST, c.save(parent(), "e", 1, nullptr));
    EXPECT_TRUE(PortableCase::list(parent(), true).empty());
    EXPECT_EQ("mine", get("a/notes.txt"));
    EXPECT_EQ("mine", get(".e.tmp/notes.txt"));
    EXPECT_EQ("somebody's", get("d/state.safetensors"));
    EXPECT_EQ((std::set<std::string>{ "a", "b", "d", ".e.tmp" }), names());
    std::filesystem::create_directory(path("f"));
    EXPECT_EQ(0, c.save(parent(), "f", 1, &(st = {}))) << st.text;
}

/* ---- damage --------------------------------------------------------------------------------------------------------- */

class Damaged : public Portable {
  protected:
    void SetUp() override
    {
        Portable::SetUp();
        ASSERT_EQ(0, c_.save(dir_, "a", 3, &st)) << st.text;
        state_ = get("a/state.safetensors");
        json_ = get("a/checkpoint.json");
    }
    int load()
    {
        zinf_portable *p = nullptr;
        st = {};
        int rc = zinf_portable_load(path("a").c_str(), &p, &st);
        EXPECT_EQ(rc == 0, p != nullptr);
        zinf_portable_unload(p);
        return rc;
    }
    int flipped(const std::string &file, const std::string &good, size_t bit)
    {
        /* In place: some file systems flush a file that is truncated and written anew. */
        auto set = [&](char byte) {
            std::fstream f(path(file), std::ios::binary | std::ios::in | std::ios::out);
            f.seekp((std::streamoff)(bit / 8)).put(byte);
        };
        set((char)(good[bit / 8] ^ (1 << bit % 8)));
        int rc = load();
        set(good[bit / 8]);
        return rc;
    }
    PortableCase c_{ 11, 300 };
    std::string state_, json_;
};

TEST_F(Damaged, ABitOfTheHeaderOrTheJsonIsFoundAndItsFileNamed)
{
    std::mt19937 rng(1);
    size_t header = 8 + (unsigned char)state_[0] + ((unsigned char)state_[1] << 8);
    for (size_t byte = 0; byte < header; byte++) {
        ASSERT_EQ(-EBADMSG, flipped("a/state.safetensors", state_, byte * 8 + rng() % 8)) << "byte " << byte;
        ASSERT_TRUE(has(st, "a/state.safetensors") && has(st, "header")) << st.text;
    }
    for (size_t byte = 0; byte < json_.size(); byte++) {
        ASSERT_EQ(-EBADMSG, flipped("a/checkpoint.json", json_, byte * 8 + rng() % 8)) << "byte " << byte;
        ASSERT_TRUE(has(st, "a/checkpoint.json")) << st.text;
    }
    EXPECT_EQ(0, load()) << st.text;
}

TEST_F(Damaged, ABitOfTheDataIsFoundAndItsTensorNamed)
{
    size_t at = 8 + (unsigned char)state_[0] + ((unsigned char)state_[1] << 8);
    static const char *const kinds[] = { "master.", "exp_avg.", "exp_avg_sq." };
    std::mt19937 rng(2);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < c_.params.size(); at += 4 * c_.elems(i++))
            for (uint64_t e = 0; e < c_.elems(i); e += 1 + rng() % 30) {
                ASSERT_EQ(-EBADMSG, flipped("a/state.safetensors", state_, at * 8 + e * 32 + rng() % 32));
                ASSERT_TRUE(has(st, " of " + (kinds[k] + c_.names[i]))) << st.text;
            }
    EXPECT_EQ(state_.size(), at);
}

TEST_F(Damaged, TruncatedLongerOrMissing)
{
    for (size_t n : { (size_t)0, (size_t)7, (size_t)100, state_.size() - 1 }) {
        put("a/state.safetensors", state_.substr(0, n));
        EXPECT_EQ(-EBADMSG, load());
        EXPECT_TRUE(has(st, "state.safetensors") && has(st, std::to_string(state_.size()))) << st.text;
        EXPECT_TRUE(PortableCase::list(dir_, false).empty());
    }
    put("a/state.safetensors", state_ + "x");
    EXPECT_EQ(-EBADMSG, load());
    std::filesystem::remove(path("a/state.safetensors"));
    EXPECT_EQ(-ENOENT, load());
    EXPECT_TRUE(has(st, "a/state.safetensors")) << st.text;
    put("a/state.safetensors", state_);
    std::filesystem::remove(path("a/checkpoint.json"));
    EXPECT_EQ(-ENOENT, load());
    EXPECT_TRUE(has(st, "a/checkpoint.json")) << st.text;
    EXPECT_TRUE(PortableCase::list(dir_, true).empty());
    EXPECT_EQ(state_, get("a/state.safetensors"));
    std::filesystem::remove_all(path("a"));
    EXPECT_EQ(-ENOENT, load());
    put("a", "a file");
    EXPECT_EQ(-ENOTDIR, load());
}

/* A file of another checkpoint of the same model: sound by itself. */
TEST_F(Damaged, FilesOfTwoCheckpointsDoNotMix)
{
    ASSERT_EQ(0, c_.save(dir_, "b", 4, &st)) << st.text;
    put("a/state.safetensors", get("b/state.safetensors"));
    EXPECT_EQ(-EBADMSG, load());
}

/* ---- the list ------------------------------------------------------------------------------------------------------- */

TEST_F(Portable, ListedByStepNotByName)
{
    PortableCase c(12, 10);
    EXPECT_TRUE(PortableCase::list(path("none"), true).empty());
    const std::vector<std::pair<const char *, int64_t>> saved = { { "step-9", 9 }, { "step-100", 100 }, { "best", 50 },
                                                                 { "again", 9 } };
    for (const auto &s : saved)
        ASSERT_EQ(0, c.save(parent(), s.first, s.second, &st)) << st.text;
    std::filesystem::create_directory(path("other"));
    put("file", "x");
    EXPECT_EQ((Strings{ "again", "step-9", "best", "step-100" }), PortableCase::list(parent(), true));
    ASSERT_EQ(0, zinf_portable_remove(parent().c_str(), "best", &st)) << st.text;
    EXPECT_EQ((Strings{ "again", "step-9", "step-100" }), PortableCase::list(parent(), true));
    EXPECT_EQ(-ENOENT, zinf_portable_remove(parent().c_str(), "best", nullptr));
    EXPECT_EQ((std::set<std::string>{ "again", "step-9", "step-100", "other", "file" }), names());
}

TEST_F(Portable, OnlyWhatNobodyWritesIsSwept)
{
    PortableCase c(13, 10);
    auto segments = c.cut();
    zinf_portable_opts o = c.opts(dir_.c_str(), "live", (uint32_t)segments.size());
    zinf_portable_writer *w = nullptr;
    ASSERT_EQ(0, zinf_portable_open(&o, &w, &st)) << st.text;
    for (const char *name : { ".dead.tmp", ".new.tmp", ".x.gone" })
        std::filesystem::create_directory(path(name));
    put(".dead.tmp/state.safetensors", "half of it");
    put(".dead.tmp/lock", "");
    put(".x.gone/checkpoint.json", "");
    EXPECT_TRUE(PortableCase::list(dir_, false).empty());
    EXPECT_EQ(4u, names().size());
    EXPECT_TRUE(PortableCase::list(dir_, true).empty());
    EXPECT_EQ(std::set<std::string>{ ".live.tmp" }, names());
    ASSERT_EQ(0, c.write_all(w, segments, 2, 1, &st)) << st.text;
    ASSERT_EQ(0, zinf_portable_finish(w, "{\"step\":2}", &st)) << st.text;
    zinf_portable_close(w);
    EXPECT_EQ(Strings{ "live" }, PortableCase::list(dir_, true));
    EXPECT_EQ(2, c.load(path("live"), &st)) << st.text;
}

TEST_F(Portable, AnUnfinishedOneIsWrittenAnew)
{
    PortableCase c(14, 10);
    std::filesystem::create_directory(path(".a.tmp"));
    put(".a.tmp/state.safetensors", std::string(100000, 'x'));
    put(".a.tmp/checkpoint.json.tmp", "{");
    ASSERT_EQ(0, c.save(dir_, "a", 2, &st)) << st.text;
    EXPECT_EQ(2, c.load(path("a"), &st)) << st.text;
    EXPECT_EQ(2u, names("a").size());
}

/* ---- a file system that cannot swap two names ----------------------------------------------------------------------- */

class InTwo : public Portable {
  protected:
    void SetUp() override
    {
        Portable::SetUp();
        ASSERT_EQ(0, c_.save(dir_, "a", 1, &st)) << st.text;
        fd_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
        ASSERT_GE(fd_, 0);
    }
    void TearDown() override
    {
        close(fd_);
        Portable::TearDown();
    }
    void rename(const char *from, const char *to) { std::filesystem::rename(path(from), path(to)); }
    PortableCase c_{ 15, 50 };
    int fd_ = -1;
};

TEST_F(InTwo, Replaces)
{
    ASSERT_EQ(0, c_.save(path("side"), "b", 2, &st)) << st.text;
    zinf_claim claim;
    bool published = false;
    ASSERT_EQ(0, zinf_portable_claim(fd_, "a", &claim));
    for (const char *f : { "/state.safetensors", "/checkpoint.json" })
        std::filesystem::create_hard_link(path("side/b") + f, path(".a.tmp") + f);
    ASSERT_EQ(0, zinf_portable_publish(fd_, "a", false, &published));
    EXPECT_TRUE(published);
    zinf_portable_unlock(&claim);
    EXPECT_EQ(2, c_.load(path("a"), &st)) << st.text;
    EXPECT_EQ((std::set<std::string>{ "a", "side" }), names());
}

TEST_F(InTwo, BetweenTheRenamesTheOldOneIsLoadedAndGivenItsNameBack)
{
    rename("a", ".a.old");
    EXPECT_EQ(1, c_.load(path("a"), &st)) << st.text;
    EXPECT_EQ(std::set<std::string>{ ".a.old" }, names());
    EXPECT_EQ(Strings{ "a" }, PortableCase::list(dir_, false));
    EXPECT_EQ(std::set<std::string>{ "a" }, names());
    EXPECT_EQ(1, c_.load(path("a"), &st)) << st.text;
}

TEST_F(InTwo, AWriterInBetweenIsNotDisturbed)
{
    zinf_claim claim;
    ASSERT_EQ(0, zinf_portable_claim(fd_, "a", &claim));
    rename("a", ".a.old");
    EXPECT_EQ(Strings{ "a" }, PortableCase::list(dir_, true));
    EXPECT_EQ((std::set<std::string>{ ".a.old", ".a.tmp" }), names());
    zinf_portable_release(&claim);
    EXPECT_EQ(Strings{ "a" }, PortableCase::list(dir_, true));
    EXPECT_EQ(std::set<std::string>{ "a" }, names());
}

TEST_F(InTwo, AfterTheSecondRenameTheOldOneIsSwept)
{
    rename("a", ".a.old");
    ASSERT_EQ(0, c_.save(path("side"), "b", 2, &st)) << st.text;
    std::filesystem::rename(path("side/b"), path("a"));
    EXPECT_EQ(2, c_.load(path("a"), &st)) << st.text;
    EXPECT_EQ(Strings{ "a" }, PortableCase::list(dir_, true));
    EXPECT_EQ((std::set<std::string>{ "a", "side" }), names());
    EXPECT_EQ(2, c_.load(path("a"), &st)) << st.text;
}

TEST_F(InTwo, SavingAgainAfterACrashReplacesTheHiddenOne)
{
    rename("a", ".a.old");
    ASSERT_EQ(0, c_.save(dir_, "a", 5, &st)) << st.text;
    EXPECT_EQ(5, c_.load(path("a"), &st)) << st.text;
    EXPECT_EQ(std::set<std::string>{ "a" }, names());
}

TEST_F(InTwo, RemovingTakesTheHiddenOneToo)
{
    rename("a", ".a.old");
    ASSERT_EQ(0, zinf_portable_remove(dir_.c_str(), "a", &st)) << st.text;
    EXPECT_TRUE(names().empty());
    EXPECT_EQ(-ENOENT, c_.load(path("a"), &(st = {})));
}

}  // namespace
