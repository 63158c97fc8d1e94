/* tests/data/text_test.cc - files to windows: which bytes, which split, which order, and every refusal. */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/log.h"
#include "zinf/data/file_list.h"
#include "zinf/data/text.h"

namespace fs = std::filesystem;

namespace {

class Text : public ::testing::Test {
  protected:
    void SetUp() override
    {
        std::string t = (fs::temp_directory_path() / "zinf_text_XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(t.data()));
        dir_ = t;
    }
    void TearDown() override
    {
        zinf_text_close(text_);
        fs::remove_all(dir_);
    }

    std::string put(const std::string &name, const std::string &bytes)
    {
        fs::path p = dir_ / name;
        fs::create_directories(p.parent_path());
        std::ofstream(p, std::ios::binary) << bytes;
        return p.string();
    }

    int open(const std::string &data, uint32_t seq, const char *eval_data = nullptr, uint64_t seed = 1)
    {
        zinf_text_close(text_);
        st_ = {};
        struct zinf_log log = {
            ZINF_LOG_DEBUG, [](void *ctx, zinf_log_level, const char *line) { *(std::string *)ctx += line; }, &said_};
        zinf_text_opts o = {};
        o.data = data.c_str();
        o.eval_data = eval_data;
        o.seq = seq;
        o.seed = seed;
        o.vocab = 256;
        o.log = &log;
        return zinf_text_open(&o, &text_, &st_);
    }

    uint64_t samples(zinf_split s) { return source()->nr_samples(source()->ctx, s); }
    const zinf_source *source() { return zinf_text_source(text_); }

    /* Tokens of a sample as text; targets are checked to be the tokens one further. */
    std::string window(zinf_split split, uint64_t index, uint32_t seq)
    {
        std::vector<int32_t> tokens(seq, -7), targets(seq, -7);
        st_ = {};
        EXPECT_EQ(0, source()->fetch(source()->ctx, split, index, tokens.data(), targets.data(), nullptr, &st_))
            << st_.text;
        for (uint32_t i = 0; i + 1 < seq; i++)
            EXPECT_EQ(targets[i], tokens[i + 1]);
        last_target_ = targets[seq - 1];
        return std::string(tokens.begin(), tokens.end());
    }

    fs::path dir_;
    zinf_text *text_ = nullptr;
    zinf_status st_ = {};
    std::string said_;
    int last_target_ = 0;
};

std::string bytes(size_t n)
{
    std::string s;
    for (size_t i = 0; i < n; i++)
        s += (char)(1 + i * i * 31 % 255);
    return s;
}

TEST_F(Text, WindowsTileTheFileAndTheRestIsDropped)
{
    std::string all = bytes(50 * 16 + 16);      /* the 51st window has no last target */
    ASSERT_EQ(0, open(put("a.txt", all), 16)) << st_.text;
    ASSERT_EQ(45u, samples(ZINF_TRAIN));
    ASSERT_EQ(5u, samples(ZINF_EVAL));
    for (uint64_t i = 0; i < 5; i++) {
        EXPECT_EQ(all.substr((45 + i) * 16, 16), window(ZINF_EVAL, i, 16));
        EXPECT_EQ((unsigned char)all[(46 + i) * 16], last_target_);
    }
}

TEST_F(Text, EveryEpochVisitsEachTrainingWindowOnceInAnotherOrder)
{
    std::string all = bytes(100 * 8 + 1);
    ASSERT_EQ(0, open(put("a.txt", all), 8));
    std::set<std::string> want;
    for (uint64_t i = 0; i < 90; i++)
        want.insert(all.substr(i * 8, 8));
    ASSERT_EQ(90u, want.size());
    std::vector<std::string> order[3];
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        for (uint64_t i = 0; i < 90; i++)
            order[epoch].push_back(window(ZINF_TRAIN, epoch * 90 + i, 8));
        EXPECT_EQ(want, std::set<std::string>(order[epoch].begin(), order[epoch].end()));
    }
    EXPECT_NE(order[0], order[1]);
    EXPECT_NE(order[1], order[2]);
    EXPECT_EQ(order[1][7], window(ZINF_TRAIN, 97, 8)) << "a pure function of the index";
    ASSERT_EQ(0, open((dir_ / "a.txt").string(), 8, nullptr, 2));
    std::vector<std::string> other;
    for (uint64_t i = 0; i < 90; i++)
        other.push_back(window(ZINF_TRAIN, i, 8));
    EXPECT_NE(order[0], other) << "another seed";
}

TEST_F(Text, WindowsLongerThanAPieceOfReading)
{
    std::string all = bytes(3 * 9000 + 1);
    ASSERT_EQ(0, open(put("a.txt", all), 9000));
    EXPECT_EQ(all.substr(18000, 9000), window(ZINF_EVAL, 0, 9000));
    EXPECT_EQ((unsigned char)all[27000], last_target_);
}

TEST_F(Text, AFolderIsItsFilesInTheOrderOfTheirPaths)
{
    put("b/z.txt", "wxyz");
    put("a.txt", "abc");
    put("b/c/m.txt", "MNOPQ");
    put("c.txt", "0123456789");
    ASSERT_EQ(0, open(dir_.string(), 3, nullptr)) << st_.text;
    /* abc MNOPQ wxyz 0123456789 = 22 bytes: 7 windows, 1 held out */
    EXPECT_EQ(6u, samples(ZINF_TRAIN));
    EXPECT_EQ("678", window(ZINF_EVAL, 0, 3));
    std::set<std::string> got;
    for (int i = 0; i < 6; i++)
        got.insert(window(ZINF_TRAIN, (uint64_t)i, 3));
    EXPECT_EQ((std::set<std::string>{ "abc", "MNO", "PQw", "xyz", "012", "345" }), got);
}

TEST_F(Text, MoreFilesThanStayOpen)
{
    std::string all;
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%03d", i);
        std::string part = bytes((size_t)(i % 7) + 1);
        put(name, part);
        all += part;
    }
    ASSERT_EQ(0, open(dir_.string(), 20));
    uint64_t n = samples(ZINF_TRAIN);
    for (uint64_t i = 0; i < samples(ZINF_EVAL); i++)
        EXPECT_EQ(all.substr((n + i) * 20, 20), window(ZINF_EVAL, i, 20));
}

TEST_F(Text, HiddenBinaryLinkedAndEmptyFilesAreLeftOutAndCounted)
{
    std::string outside = put("../zinf_text_outside_" + dir_.filename().string(), "OUTSIDE OUTSIDE");
    put("a.txt", "hello world, hello");
    put(".hidden", "secret");
    put(".git/x", "secret");
    put("image.bin", std::string("P\0NG", 4));
    put("empty.txt", "");
    fs::create_symlink(outside, dir_ / "link.txt");
    fs::create_directory_symlink("/", dir_ / "root");
    ASSERT_EQ(0, mkfifo((dir_ / "pipe").c_str(), 0600));
    zinf_file_list l;
    zinf_status st = {};
    ASSERT_EQ(0, zinf_file_list_open(dir_.c_str(), &l, &st)) << st.text;
    EXPECT_EQ(1u, l.nr_files);
    EXPECT_EQ(18u, l.nbytes);
    EXPECT_EQ(2u, l.nr_hidden);
    EXPECT_EQ(1u, l.nr_binary);
    EXPECT_EQ(2u, l.nr_links);
    EXPECT_EQ(1u, l.nr_special);
    EXPECT_EQ(1u, l.nr_empty);
    zinf_file_list_close(&l);
    ASSERT_EQ(0, open(dir_.string(), 4));
    EXPECT_NE(std::string::npos, said_.find("2 hidden, 1 binary, 2 links, 1 special")) << said_;
    fs::remove(outside);
}

TEST_F(Text, EvalDataIsAStreamOfItsOwn)
{
    std::string train = bytes(41), eval = "evaluation!";
    std::string e = put("eval.txt", eval);
    ASSERT_EQ(0, open(put("train.txt", train), 4, e.c_str())) << st_.text;
    EXPECT_EQ(10u, samples(ZINF_TRAIN));
    EXPECT_EQ(2u, samples(ZINF_EVAL));
    EXPECT_EQ("eval", window(ZINF_EVAL, 0, 4));
    EXPECT_EQ("uati", window(ZINF_EVAL, 1, 4));
}

TEST_F(Text, TooShortSaysHowManyBytesAreNeeded)
{
    std::string p = put("a.txt", bytes(64));
    EXPECT_EQ(-EINVAL, open(p, 32));
    EXPECT_NE(nullptr, strstr(st_.text, "64 bytes")) << st_.text;
    EXPECT_NE(nullptr, strstr(st_.text, "at least 65")) << st_.text;
    EXPECT_EQ(nullptr, text_);
    put("a.txt", bytes(65));
    EXPECT_EQ(0, open(p, 32)) << st_.text;
    std::string e = put("e.txt", bytes(32));
    EXPECT_EQ(-EINVAL, open(p, 32, e.c_str()));
    EXPECT_NE(nullptr, strstr(st_.text, "at least 33")) << st_.text;
}

TEST_F(Text, NothingToReadIsAnError)
{
    EXPECT_EQ(-EINVAL, open(put("empty.txt", ""), 4));
    EXPECT_EQ(-EINVAL, open(dir_.string(), 4)) << "a folder with an empty file";
    EXPECT_NE(nullptr, strstr(st_.text, "no text")) << st_.text;
    EXPECT_EQ(-ENOENT, open((dir_ / "missing").string(), 4));
    EXPECT_NE(nullptr, strstr(st_.text, "missing")) << st_.text;
    EXPECT_EQ(-EINVAL, open("/dev/null", 4));
}

TEST_F(Text, VocabularyMustHoldEveryByte)
{
    zinf_text_opts o = {};
    std::string p = put("a.txt", bytes(100));
    o.data = p.c_str();
    o.seq = 4;
    o.vocab = 255;
    EXPECT_EQ(-EINVAL, zinf_text_open(&o, &text_, &st_));
    EXPECT_NE(nullptr, strstr(st_.text, "256")) << st_.text;
}

TEST_F(Text, BytesAbove127ArePositiveTokens)
{
    ASSERT_EQ(0, open(put("a.txt", std::string(9, '\xff')), 4));
    std::vector<int32_t> tokens(4), targets(4);
    ASSERT_EQ(0, source()->fetch(source()->ctx, ZINF_EVAL, 0, tokens.data(), targets.data(), nullptr, &st_));
    EXPECT_EQ(std::vector<int32_t>(4, 255), tokens);
    EXPECT_EQ(std::vector<int32_t>(4, 255), targets);
}

TEST_F(Text, AFileThatChangesItsSizeIsAnErrorThatNamesIt)
{
    std::string p = put("a.txt", bytes(1000));
    ASSERT_EQ(0, open(p, 10));
    std::vector<int32_t> tokens(10), targets(10);
    for (off_t size : { 10, 5000 }) {
        ASSERT_EQ(0, truncate(p.c_str(), size));
        zinf_status st = {};
        EXPECT_EQ(-EIO, source()->fetch(source()->ctx, ZINF_EVAL, 3, tokens.data(), targets.data(), nullptr, &st));
        EXPECT_NE(nullptr, strstr(st.text, "a.txt")) << st.text;
    }
}

TEST_F(Text, OnlyLegalRequestsAreAnswered)
{
    ASSERT_EQ(0, open(put("a.txt", bytes(1000)), 10));
    std::vector<int32_t> tokens(10), targets(10);
    float input = 0;
    EXPECT_EQ(-EINVAL, source()->fetch(source()->ctx, ZINF_EVAL, samples(ZINF_EVAL), tokens.data(), targets.data(),
                                       nullptr, nullptr));
    EXPECT_EQ(-EINVAL, source()->fetch(source()->ctx, ZINF_TRAIN, 0, nullptr, targets.data(), &input, nullptr));
    EXPECT_EQ(0,
              source()->fetch(source()->ctx, ZINF_TRAIN, UINT64_MAX, tokens.data(), targets.data(), nullptr, nullptr));
}

}  // namespace
