/* tests/report/progress_test.cc - the line of a step, on a terminal and in a file. */
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "swapper/schedule.h"
#include "zinf/report/progress.h"
#include "zinf/zinf.h"

namespace {

const uint64_t kMib = 1ull << 20;

zinf_step make_step(uint64_t step)
{
    zinf_step s = {};
    s.step = step;
    s.loss = 3.14159;
    s.grad_norm = 0.917;
    s.lr = 3e-4;
    s.seconds = 2;
    s.tokens_per_s = 812.4;
    s.tflops = 1.93;
    s.bound = ZINF_LANE_NVME_WRITE;
    s.bound_fraction = 0.94;
    s.lane[ZINF_LANE_NVME_READ].nbytes = 2820000000;
    s.lane[ZINF_LANE_NVME_WRITE].nbytes = 2760000000;
    return s;
}

zinf_run_info make_info(uint64_t device, uint64_t host)
{
    zinf_run_info i = {};
    i.budget_nbytes[ZINF_TIER_DEVICE] = device;
    i.budget_nbytes[ZINF_TIER_HOST] = host;
    i.peak_nbytes[ZINF_TIER_DEVICE] = device - device / 8;
    i.peak_nbytes[ZINF_TIER_HOST] = host - host / 4;
    return i;
}

std::string line(const zinf_step &s, const zinf_run_info &i, uint64_t nr_steps, double eta_s)
{
    char buf[512];
    EXPECT_EQ(buf, zinf_progress_line(&s, &i, nr_steps, eta_s, buf, sizeof(buf)));
    return buf;
}

TEST(ProgressLine, HasWhatTheStepHas)
{
    EXPECT_EQ("step 12/200 loss 3.1416 norm 0.917 lr 3.0e-04 | 812 tok/s 1.9 TFLOP/s | nvme 1.41r 1.38w GB/s | "
              "bound: nvme-write 94% | device 896.0 MiB/1.0 GiB ram 1.5/2.0 GiB | eta 3m12s",
              line(make_step(12), make_info(1024 * kMib, 2048 * kMib), 200, 192));
}

TEST(ProgressLine, SmallRunsHaveSmallUnits)
{
    zinf_step s = make_step(3);
    s.tflops = 0.0123;
    s.clipped = true;
    s.lane[ZINF_LANE_NVME_READ].nbytes = 28200000;
    s.lane[ZINF_LANE_NVME_WRITE].nbytes = 27600000;
    EXPECT_EQ("step 3/9 loss 3.1416 norm 0.917 clipped lr 3.0e-04 | 812 tok/s 12.3 GFLOP/s | nvme 14r 14w MB/s | "
              "bound: nvme-write 94% | device 14.0/16.0 MiB ram 30.0/40.0 MiB | eta 59s",
              line(s, make_info(16 * kMib, 40 * kMib), 9, 59));
}

TEST(ProgressLine, WhatIsNotKnownIsNotShown)
{
    zinf_step s = make_step(5);
    s.lane[ZINF_LANE_NVME_READ].nbytes = s.lane[ZINF_LANE_NVME_WRITE].nbytes = 0;
    s.tflops = 0;
    s.bound = -1;
    EXPECT_EQ("step 5 loss 3.1416 norm 0.917 lr 3.0e-04 | 812 tok/s | device 7.0/8.0 MiB ram 6.0/8.0 MiB",
              line(s, make_info(8 * kMib, 8 * kMib), 0, -1));
    s.bound = ZINF_API_LANES;
    s.loss = NAN;
    EXPECT_EQ(0u, line(s, make_info(8 * kMib, 8 * kMib), 0, NAN).find("step 5 loss nan"));
}

TEST(ProgressLine, TimesOfEveryLength)
{
    const struct { double s; const char *text; } times[] = {
        { 0, "eta 0s" }, { 59.4, "eta 59s" }, { 59.6, "eta 1m00s" }, { 3599, "eta 59m59s" }, { 3661, "eta 1h01m" },
        { 90000, "eta 1d01h" },
    };
    for (const auto &t : times) {
        std::string l = line(make_step(1), make_info(kMib, kMib), 2, t.s);
        EXPECT_EQ(t.text, l.substr(l.rfind("eta")));
    }
}

TEST(ProgressLine, IsCutToItsBuffer)
{
    zinf_step s = make_step(1);
    zinf_run_info i = make_info(kMib, kMib);
    std::string whole = line(s, i, 2, 1);
    for (size_t n = 1; n < whole.size() + 3; n++) {
        std::string buf(n + 8, '#');
        zinf_progress_line(&s, &i, 2, 1, buf.data(), n);
        EXPECT_EQ(whole.substr(0, n - 1), std::string(buf.c_str()));
        EXPECT_EQ("########", buf.substr(n)) << n;
    }
    char none = 'x';
    EXPECT_EQ(&none, zinf_progress_line(&s, &i, 2, 1, &none, 0));
    EXPECT_EQ('x', none);
}

std::string printed(bool terminal, uint64_t every)
{
    zinf_run_info i = make_info(kMib, kMib);
    ::testing::internal::CaptureStdout();
    zinf_progress *p = zinf_progress_open(terminal, 0, every);
    for (uint64_t n = 0; n <= 100; n++)
        zinf_progress_setup(p, "initialising", n, 100);
    zinf_progress_set_steps(p, 7);
    for (uint64_t n = 1; n <= 7; n++) {
        zinf_step s = make_step(n);
        zinf_progress_step(p, &s, &i);
        if (n == 4)
            zinf_progress_say(p, "evaluation");
    }
    zinf_progress_close(p);
    return ::testing::internal::GetCapturedStdout();
}

size_t count(const std::string &text, const std::string &word)
{
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        n++;
    return n;
}

TEST(Progress, AFileGetsPlainLines)
{
    std::string out = printed(false, 0);
    EXPECT_EQ(4u, count(out, "initialising")) << out;
    EXPECT_EQ(7u, count(out, "step "));
    EXPECT_EQ(12u, count(out, "\n"));
    EXPECT_EQ(std::string::npos, out.find_first_of("\r\033"));
    EXPECT_NE(std::string::npos, out.find("evaluation\nstep 5/7"));
    EXPECT_NE(std::string::npos, out.find("step 1/7 ")) << out;
    EXPECT_NE(std::string::npos, out.find("eta 12s\n")) << "six steps of 2 s are left after the first: " << out;
}

TEST(Progress, EveryThirdStepAndTheLast)
{
    std::string out = printed(false, 3);
    EXPECT_EQ(3u, count(out, "step "));
    for (const char *step : { "step 3/7", "step 6/7", "step 7/7" })
        EXPECT_NE(std::string::npos, out.find(step)) << out;
}

TEST(Progress, ATerminalIsRedrawnInPlace)
{
    std::string out = printed(true, 3);
    EXPECT_EQ(8u, count(out, "\rstep ")) << "every step, and once more below what was said";
    EXPECT_NE(std::string::npos, out.find("\r\033[Kevaluation\n\rstep 4/7")) << out;
    EXPECT_EQ(2u, count(out, "\n")) << "after what was said, and at the end";
    EXPECT_EQ('\n', out.back());
    for (size_t at = out.find('\r'); at != std::string::npos; at = out.find('\r', at + 1))
        EXPECT_LE(out.find_first_of("\033\n", at) - at, 80u) << "no line wraps";
}

TEST(Progress, CloseTakesNull) { zinf_progress_close(nullptr); }

}  // namespace
