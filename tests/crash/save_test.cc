/* tests/crash/save_test.cc - a checkpoint saved while training goes on is the state of its step, and costs nothing
 * that stays. */
#include <gtest/gtest.h>

#include <cstring>

#include "tests/crash/tiny_run.h"
#include "zinf/base/memory.h"
#include "zinf/checkpoint/portable.h"

namespace {

using zinf_crash::Names;
using zinf_crash::Result;
using zinf_crash::Slurp;
using zinf_crash::Tiny;

class Save : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    run_.work = zinf_crash::MakeWork("save");
    ASSERT_FALSE(run_.work.empty());
    run_.bf16 = GetParam();
    run_.keep_state = false;
  }
  void TearDown() override { zinf_crash::RemoveTree(run_.work); }

  Tiny At(const std::string &name) {
    Tiny r = run_;
    r.saves = run_.work + "/" + name;
    r.out = run_.work + "/" + name + "-weights";
    EXPECT_EQ(0, mkdir(r.saves.c_str(), 0700));
    return r;
  }

  Tiny run_;
};

TEST_P(Save, WhileStepsGoOnIsTheStateOfARunThatStoppedThere) {
  Tiny on = At("on");
  on.save_every = 1;
  on.hooks.delay_us = 200;               // operations overlap in other ways each time
  on.hooks.delay_seed = 7;
  Result r = zinf_crash::Run(on);
  ASSERT_EQ(0, r.rc) << r.message;
  for (uint64_t step : {1u, 3u, 4u, 7u, 10u}) {
    std::string name = "step-000000" + std::string(step < 10 ? "0" : "") + std::to_string(step);
    Tiny stop = At("stop-" + std::to_string(step));
    stop.iterations = step <= 3 ? step : step + 2;         // iterations 4 and 5 are skipped
    stop.save_every = step;
    stop.offload = step % 2 ? "cpu" : "nvme";
    stop.host_memory = 64u << 20;
    Result s = zinf_crash::Run(stop);
    ASSERT_EQ(0, s.rc) << s.message;
    std::string want = Slurp(stop.saves + "/" + name + "/state.safetensors");
    EXPECT_FALSE(want.empty()) << name;
    EXPECT_TRUE(want == Slurp(on.saves + "/" + name + "/state.safetensors")) << name;
  }
}

// What is saved against what is exported: two ways out of the same state.
TEST_P(Save, MastersAreTheExportedWeights) {
  Tiny r = At("both");
  r.iterations = 6;
  r.save_every = 4;                      // the last update, 6 iterations less 2 skips
  Result x = zinf_crash::Run(r);
  ASSERT_EQ(0, x.rc) << x.message;
  zinf_portable *p = nullptr;
  zinf_status st = {};
  ASSERT_EQ(0, zinf_portable_load((r.saves + "/step-00000004").c_str(), &p, &st)) << st.text;
  std::string weights = zinf_crash::Weights(r);
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  std::vector<float> master(72 * 32), m(master.size());
  ASSERT_EQ(0, zinf_portable_read(p, name.c_str(), ZINF_MASTER, 0, master.data(), master.size(), &st)) << st.text;
  ASSERT_EQ(0, zinf_portable_read(p, name.c_str(), ZINF_EXP_AVG, 0, m.data(), m.size(), &st)) << st.text;
  zinf_portable_unload(p);
  EXPECT_NE(0, std::count_if(m.begin(), m.end(), [](float f) { return f != 0; }));
  // In the file as the run's dtype: bf16 is the upper half, rounded to nearest even.
  std::string bytes;
  for (float f : master) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if (GetParam()) u = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    bytes.append(reinterpret_cast<const char *>(&u), GetParam() ? 2 : 4);
  }
  EXPECT_NE(std::string::npos, weights.find(bytes));
}

TEST_P(Save, TenLeaveAsMuchMemoryAndAsManyFilesAsOne) {
  Tiny r = At("ten");
  r.iterations = 14;
  r.save_every = 1;
  r.keep = 2;
  size_t files_after[2] = {0, 0};
  uint64_t rss_after[2] = {0, 0}, saves = 0;
  Result x = zinf_crash::Run(r, nullptr, [&](zinf_trainer *t, const zinf_step &s) {
    zinf_status st = {};
    EXPECT_EQ(0, zinf_trainer_flush(t, &st)) << st.text;      // the save in the background is over
    saves = s.step;
    if (s.step == 2 || s.step == 12) {
      files_after[s.step == 12] = Names("/proc/self/fd").size();
      rss_after[s.step == 12] = zinf_rss_nbytes();
    }
    return true;
  });
  ASSERT_EQ(0, x.rc) << x.message;
  EXPECT_EQ(12u, saves);
  EXPECT_EQ(files_after[0], files_after[1]);
  EXPECT_EQ(std::vector<std::string>({"step-00000011", "step-00000012"}), Names(r.saves));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)rss_after;                       // freed memory is kept on purpose
#else
  // One checkpoint is 700 KiB: ten that were kept would show.
  EXPECT_LT(rss_after[1], rss_after[0] + (1u << 20));
#endif
}

INSTANTIATE_TEST_SUITE_P(Dtype, Save, ::testing::Bool(), [](const auto &info) { return info.param ? "Bf16" : "Fp32"; });

}  // namespace
