/* tests/report/jsonl_test.cc - every line is one JSON object with its keys, and a summary survives the log. */
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "swapper/schedule.h"
#include "zinf/config/json.h"
#include "zinf/report/jsonl.h"

namespace {

class Log : public ::testing::Test {
  protected:
    void SetUp() override
    {
        std::string t = (std::filesystem::temp_directory_path() / "zinf_log_XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(t.data()));
        dir_ = t;
        path_ = dir_ + "/log.jsonl";
    }
    void TearDown() override { std::filesystem::remove_all(dir_); }

    std::vector<std::string> lines() const
    {
        std::ifstream f(path_);
        std::vector<std::string> out;
        for (std::string l; std::getline(f, l);)
            out.push_back(l);
        return out;
    }

    std::string dir_, path_;
    zinf_status st_ = {};
};

zinf_step make_step()
{
    zinf_step s = {};
    s.step = 12;
    s.iteration = 13;
    s.loss = 3.25;
    s.grad_norm = 0.1;
    s.clipped = true;
    s.lr = 3e-4;
    s.tokens = 4096;
    s.seconds = 1.5;
    s.tokens_per_s = 2730.6;
    s.tflops = 0.5;
    s.lane[ZINF_LANE_NVME_READ] = { 1.1, 0.1, 1073741824 };
    s.lane[ZINF_LANE_COMPUTE] = { 1.4, 0, 7 };
    s.bound = ZINF_LANE_COMPUTE;
    s.bound_fraction = 0.94;
    s.drive_read_nbytes = 1ull << 53;
    s.drive_written_nbytes = 9876543210;
    return s;
}

zinf_run_summary make_summary()
{
    zinf_run_summary s = {};
    snprintf(s.name, sizeof(s.name), "run \"one\"");
    snprintf(s.offload, sizeof(s.offload), "nvme");
    s.steps = 300;
    s.tokens = 307200;
    s.first_loss = 5.5452;
    s.last_loss = 1.0 / 3;
    s.eval_loss = 1.9;
    s.seconds = 61.25;
    s.tokens_per_s = 5015.5;
    for (int t = 0; t < 3; t++) {
        s.budget_nbytes[t] = 1000u + (unsigned)t;
        s.peak_nbytes[t] = 900u + (unsigned)t;
    }
    s.base_rss_nbytes = 20 << 20;
    s.peak_rss_nbytes = 99 << 20;
    s.drive_read_nbytes = 123456789012;
    s.drive_written_nbytes = 98765432101;
    s.direct = true;
    snprintf(s.io_backend, sizeof(s.io_backend), "io_uring");
    snprintf(s.device, sizeof(s.device), "cpu avx2 gemm=own");
    snprintf(s.run_dir, sizeof(s.run_dir), "/out");
    snprintf(s.log_path, sizeof(s.log_path), "/out/log.jsonl");
    snprintf(s.weights_path, sizeof(s.weights_path), "/out/model");
    return s;
}

TEST_F(Log, StepsHaveTheirKeys)
{
    zinf_jsonl *j = nullptr;
    zinf_step s = make_step();
    zinf_run_info info = {};
    info.peak_nbytes[ZINF_TIER_HOST] = 77;
    ASSERT_EQ(0, zinf_jsonl_open(path_.c_str(), false, &j, &st_)) << st_.text;
    ASSERT_EQ(0, zinf_jsonl_step(j, &s, &info, &st_)) << st_.text;
    s.loss = NAN;
    s.bound = -1;
    ASSERT_EQ(0, zinf_jsonl_step(j, &s, &info, &st_));
    ASSERT_EQ(0, zinf_jsonl_eval(j, 12, 2.5, 1000, &st_));
    ASSERT_EQ(3u, lines().size()) << "each line is there at once";
    ASSERT_EQ(0, zinf_jsonl_close(j, &st_));
    std::vector<std::string> l = lines();
    zinf_json_doc doc = {};
    ASSERT_EQ(0, zinf_json_parse(l[0].data(), l[0].size(), "line", false, &doc, &st_)) << st_.text;
    const zinf_json *o = doc.root;
    EXPECT_STREQ("step", zinf_json_get(o, "event")->string);
    EXPECT_EQ(12, zinf_json_get(o, "step")->integer);
    EXPECT_EQ(13, zinf_json_get(o, "iteration")->integer);
    EXPECT_EQ(3.25, zinf_json_get(o, "loss")->number);
    EXPECT_EQ(0.1, zinf_json_get(o, "grad_norm")->number);
    EXPECT_TRUE(zinf_json_get(o, "clipped")->boolean);
    EXPECT_EQ(3e-4, zinf_json_get(o, "lr")->number);
    EXPECT_EQ(4096, zinf_json_get(o, "tokens")->integer);
    EXPECT_EQ(1.5, zinf_json_get(o, "seconds")->number);
    EXPECT_EQ(2730.6, zinf_json_get(o, "tokens_per_s")->number);
    EXPECT_EQ(0.5, zinf_json_get(o, "tflops")->number);
    const zinf_json *lanes = zinf_json_get(o, "lanes");
    ASSERT_EQ((uint32_t)ZINF_NR_LANES, lanes->nr_items);
    const zinf_json *read = zinf_json_get(lanes, "nvme_read"), *compute = zinf_json_get(lanes, "compute");
    EXPECT_EQ(1.1, zinf_json_get(read, "busy_s")->number);
    EXPECT_EQ(0.1, zinf_json_get(read, "stall_s")->number);
    EXPECT_EQ(1073741824, zinf_json_get(read, "bytes")->integer);
    EXPECT_EQ(nullptr, zinf_json_get(compute, "bytes")) << "a lane that moves nothing";
    EXPECT_EQ(77, zinf_json_get(zinf_json_get(o, "peak_bytes"), "host")->integer);
    EXPECT_EQ(1ll << 53, zinf_json_get(o, "drive_read_bytes")->integer);
    EXPECT_EQ(9876543210, zinf_json_get(o, "drive_written_bytes")->integer);
    EXPECT_STREQ("compute", zinf_json_get(o, "bound")->string);
    EXPECT_EQ(0.94, zinf_json_get(o, "bound_fraction")->number);
    zinf_json_free(&doc);
    ASSERT_EQ(0, zinf_json_parse(l[1].data(), l[1].size(), "line", false, &doc, &st_)) << st_.text;
    EXPECT_EQ(ZINF_JSON_NULL, zinf_json_get(doc.root, "loss")->type) << "JSON has no NaN";
    EXPECT_EQ(ZINF_JSON_NULL, zinf_json_get(doc.root, "bound")->type);
    zinf_json_free(&doc);
    EXPECT_EQ("{\"event\":\"eval\",\"step\":12,\"eval_loss\":2.5,\"tokens\":1000}", l[2]);
}

TEST_F(Log, ASummarySurvives)
{
    zinf_jsonl *j = nullptr;
    zinf_run_summary want = make_summary(), early = want, got;
    early.steps = 1;
    zinf_step s = make_step();
    zinf_run_info info = {};
    ASSERT_EQ(0, zinf_jsonl_open(path_.c_str(), false, &j, &st_));
    ASSERT_EQ(0, zinf_jsonl_end(j, &early, &st_));
    ASSERT_EQ(0, zinf_jsonl_step(j, &s, &info, &st_));
    ASSERT_EQ(0, zinf_jsonl_end(j, &want, &st_));
    ASSERT_EQ(0, zinf_jsonl_eval(j, 1, 1, 1, &st_));
    ASSERT_EQ(0, zinf_jsonl_close(j, &st_));
    memset(&got, 0xff, sizeof(got));
    ASSERT_EQ(0, zinf_jsonl_summary(path_.c_str(), &got, &st_)) << st_.text;
    EXPECT_STREQ(want.name, got.name);
    EXPECT_STREQ(want.offload, got.offload);
    EXPECT_EQ(want.steps, got.steps) << "the last end counts";
    EXPECT_EQ(want.tokens, got.tokens);
    EXPECT_EQ(want.first_loss, got.first_loss);
    EXPECT_EQ(want.last_loss, got.last_loss) << "numbers read back exactly";
    EXPECT_EQ(want.eval_loss, got.eval_loss);
    EXPECT_EQ(want.seconds, got.seconds);
    EXPECT_EQ(want.tokens_per_s, got.tokens_per_s);
    for (int t = 0; t < 3; t++) {
        EXPECT_EQ(want.budget_nbytes[t], got.budget_nbytes[t]);
        EXPECT_EQ(want.peak_nbytes[t], got.peak_nbytes[t]);
    }
    EXPECT_EQ(want.base_rss_nbytes, got.base_rss_nbytes);
    EXPECT_EQ(want.peak_rss_nbytes, got.peak_rss_nbytes);
    EXPECT_EQ(want.drive_read_nbytes, got.drive_read_nbytes);
    EXPECT_EQ(want.drive_written_nbytes, got.drive_written_nbytes);
    EXPECT_TRUE(got.direct);
    EXPECT_STREQ(want.io_backend, got.io_backend);
    EXPECT_STREQ(want.device, got.device);
    EXPECT_STREQ(want.run_dir, got.run_dir);
    EXPECT_STREQ(want.log_path, got.log_path);
    EXPECT_STREQ(want.weights_path, got.weights_path);
}

TEST_F(Log, NoEvaluationIsNaN)
{
    zinf_jsonl *j = nullptr;
    zinf_run_summary s = make_summary(), got;
    s.eval_loss = NAN;
    ASSERT_EQ(0, zinf_jsonl_open(path_.c_str(), false, &j, &st_));
    ASSERT_EQ(0, zinf_jsonl_end(j, &s, &st_));
    ASSERT_EQ(0, zinf_jsonl_close(j, &st_));
    ASSERT_EQ(0, zinf_jsonl_summary(path_.c_str(), &got, &st_));
    EXPECT_TRUE(std::isnan(got.eval_loss));
}

TEST_F(Log, AppendsOrBeginsAnew)
{
    zinf_jsonl *j = nullptr;
    const struct { bool append; size_t nr_lines; } opens[] = { { true, 1 }, { true, 2 }, { false, 1 } };
    for (const auto &o : opens) {
        ASSERT_EQ(0, zinf_jsonl_open(path_.c_str(), o.append, &j, &st_)) << st_.text;
        ASSERT_EQ(0, zinf_jsonl_eval(j, 1, 1, 1, &st_));
        EXPECT_EQ(o.nr_lines, lines().size());
        ASSERT_EQ(0, zinf_jsonl_close(j, &st_));
    }
}

TEST_F(Log, ARunThatDidNotFinishHasNoSummary)
{
    zinf_run_summary got;
    std::ofstream(path_)
        << "{\"event\":\"eval\",\"step\":1}\n{\"event\":\"step\",\"note\":\"{\\\"event\\\":\\\"end\\\"\"}\n";
    EXPECT_EQ(-ENOENT, zinf_jsonl_summary(path_.c_str(), &got, &st_));
    EXPECT_NE(nullptr, strstr(st_.text, "did not finish")) << st_.text;
    zinf_status none = {}, cut = {};
    EXPECT_EQ(-ENOENT, zinf_jsonl_summary((dir_ + "/none").c_str(), &got, &none));
    std::ofstream(path_) << "{\"event\":\"end\",\"steps\":3";
    EXPECT_EQ(-EINVAL, zinf_jsonl_summary(path_.c_str(), &got, &cut)) << "a line cut by a crash";
}

TEST_F(Log, AFullDriveIsAnErrorThatNamesTheLog)
{
    zinf_jsonl *j = nullptr;
    if (access("/dev/full", W_OK))
        GTEST_SKIP() << "no /dev/full here";
    ASSERT_EQ(0, zinf_jsonl_open("/dev/full", true, &j, &st_)) << st_.text;
    EXPECT_EQ(-ENOSPC, zinf_jsonl_eval(j, 1, 1, 1, &st_));
    EXPECT_NE(nullptr, strstr(st_.text, "/dev/full")) << st_.text;
    zinf_jsonl_close(j, nullptr);
    EXPECT_EQ(-ENOENT, zinf_jsonl_open((dir_ + "/no/log").c_str(), false, &j, nullptr));
    EXPECT_EQ(nullptr, j);
    EXPECT_EQ(0, zinf_jsonl_close(nullptr, nullptr));
}

}  // namespace
