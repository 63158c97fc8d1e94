/* tests/engine/resume_test.cc - what a run leaves on the drives is a checkpoint: going on from it gives the bits of a run that was
 * never stopped, with skipped iterations in the middle, for every durability. */


#include "tests/engine/run_helper.h"

using zinf_test::Bench;
using zinf_test::ReadFile;
using zinf_test::Settings;

namespace {

class Resume : public ::testing::TestWithParam<bool> {
 protected:
  Settings Base() const {
    Settings s;
    s.bf16 = GetParam();
    s.hooks.nan_first = 4, s.hooks.nan_last = 5;    // iterations 4 and 5 are skipped
    return s;
  }

  struct Run {
    int rc = 0;
    std::string message, weights;
    std::vector<std::string> state_dirs;
    uint64_t first_step = 0, durable = 0;
    std::vector<double> losses;
  };

  // Trains until iteration `until`, on top of what `from` left. flush: as a run that ends in order does.
  Run Train(const Settings &s, uint64_t until, const Run *from, bool flush, const std::string &checkpoint = "",
            uint64_t save_every = 0) {
    Run out;
    zinf_status st = {};
    zinf_trainer *t = nullptr;
    std::string config = bench_.Config(s), model = bench_.dir() + "/model.json", text = bench_.dir() + "/text.txt";
    std::vector<const char *> sets, dirs;
    for (const auto &x : s.sets) sets.push_back(x.c_str());
    zinf_trainer_opts o = {};
    o.config_text = config.c_str();
    o.sets = sets.data();
    o.nr_sets = static_cast<uint32_t>(sets.size());
    o.model = model.c_str();
    o.data = text.c_str();
    o.seq_len = 32;
    std::string saves = bench_.dir() + "/saves";
    mkdir(saves.c_str(), 0700);
    o.checkpoint_dir = saves.c_str();
    o.save_every = save_every;
    if (from) {
      for (const auto &d : from->state_dirs) dirs.push_back(d.c_str());
      o.resume_dirs = dirs.data();
      o.nr_resume_dirs = static_cast<uint32_t>(dirs.size());
    }
    if (!checkpoint.empty()) o.load_checkpoint = checkpoint.c_str();
    out.rc = zinf_trainer_open_hooked(&o, &s.hooks, &t, &st);
    if (!out.rc) {
      zinf_run_info info;
      zinf_trainer_info(t, &info);
      out.first_step = info.first_step;
    }
    zinf_step step = {};
    while (!out.rc && step.iteration < until) {
      out.rc = zinf_trainer_step(t, &step, &st);
      if (!out.rc) out.losses.push_back(step.loss);
    }
    out.durable = step.durable_step;
    std::string dir = bench_.dir() + "/out-" + std::to_string(count_++);
    if (!out.rc && flush) out.rc = zinf_trainer_export(t, dir.c_str(), &st);
    for (uint32_t i = 0; t && zinf_trainer_state_dir(t, i); i++) out.state_dirs.push_back(zinf_trainer_state_dir(t, i));
    zinf_trainer_close(t);
    out.message = st.text;
    if (!out.rc && flush) out.weights = ReadFile(dir + "/model.safetensors");
    return out;
  }

  Bench bench_;
  int count_ = 0;
};

TEST_P(Resume, EveryPlaceToStopGoesOnWithTheSameBits) {
  Run whole = Train(Base(), 9, nullptr, true);
  ASSERT_EQ(0, whole.rc) << whole.message;
  for (const char *durability : {"\"step\"", "{\"every\": 3}"}) {
    for (uint64_t stop = 1; stop <= 8; stop++) {
      Settings s = Base();
      s.sets = {std::string("zinf.durability=") + durability};
      Run first = Train(s, stop, nullptr, false);          // closed with updates pending: as good as killed
      ASSERT_EQ(0, first.rc) << first.message;
      Run second = Train(s, 9, &first, true);
      ASSERT_EQ(0, second.rc) << durability << " stopped after " << stop << ": " << second.message;
      EXPECT_TRUE(whole.weights == second.weights) << durability << " stopped after " << stop;
    }
  }
}

TEST_P(Resume, AFlushedRunRepeatsNothing) {
  Run first = Train(Base(), 6, nullptr, true);
  ASSERT_EQ(0, first.rc) << first.message;
  Run second = Train(Base(), 9, &first, true);
  ASSERT_EQ(0, second.rc) << second.message;
  EXPECT_EQ(4u, second.first_step);          // six iterations, two of them skipped
  EXPECT_EQ(3u, second.losses.size());
  Run whole = Train(Base(), 9, nullptr, true);
  EXPECT_TRUE(whole.weights == second.weights);
}

TEST_P(Resume, OtherBudgetsBackendsAndThreadsGoOnWithTheSameBits) {
  Run whole = Train(Base(), 9, nullptr, true);
  Run first = Train(Base(), 5, nullptr, false);
  Settings s = Base();
  s.threads = 1;
  s.io = "threads";
  s.device_memory = 24u << 20;
  s.host_memory = 8u << 20;
  Run second = Train(s, 9, &first, true);
  ASSERT_EQ(0, second.rc) << second.message;
  EXPECT_TRUE(whole.weights == second.weights);
}

TEST_P(Resume, WhatIsMissingOrDamagedIsNamed) {
  Run first = Train(Base(), 3, nullptr, false);
  ASSERT_EQ(0, first.rc) << first.message;
  std::string state = first.state_dirs[0] + "/state-0", bytes = ReadFile(state);
  // One flipped bit anywhere that is read is found before it is used.
  std::string flipped = bytes;
  for (size_t i = 5; i < flipped.size(); i += 4096) flipped[i] ^= 16;
  zinf_test::WriteFile(state, flipped);
  Run damaged = Train(Base(), 9, &first, true);
  EXPECT_EQ(-EBADMSG, damaged.rc) << damaged.message;
  EXPECT_NE(std::string::npos, damaged.message.find("state-0")) << damaged.message;
  zinf_test::WriteFile(state, bytes.substr(0, bytes.size() - 4096));
  Run shorter = Train(Base(), 9, &first, true);
  EXPECT_NE(0, shorter.rc);
  EXPECT_NE(std::string::npos, shorter.message.find("state-0")) << shorter.message;
  ASSERT_EQ(0, unlink(state.c_str()));
  Run missing = Train(Base(), 9, &first, true);
  EXPECT_EQ(-ENOENT, missing.rc);
  EXPECT_NE(std::string::npos, missing.message.find("state-0")) << missing.message;
  zinf_test::WriteFile(state, bytes);
  Run again = Train(Base(), 9, &first, true);
  EXPECT_EQ(0, again.rc) << again.message;
}

TEST_P(Resume, DurabilityNoneLeavesNothingToResume) {
  Settings s = Base();
  s.sets = {"zinf.durability=none"};
  Run first = Train(s, 3, nullptr, true);
  ASSERT_EQ(0, first.rc) << first.message;
  EXPECT_EQ(0u, first.durable);
  Run whole = Train(Base(), 3, nullptr, true);
  EXPECT_TRUE(whole.weights == first.weights);       // durability never changes a bit
  EXPECT_NE(0, access(first.state_dirs[0].c_str(), F_OK));
}

TEST_P(Resume, CheckpointsLoadIntoAnyLayout) {
  Run whole = Train(Base(), 9, nullptr, true);
  for (const char *offload : {"nvme", "cpu", "none"}) {
    Settings s = Base();
    s.offload = offload;
    Run saved = Train(s, 7, nullptr, true, "", 2);
    ASSERT_EQ(0, saved.rc) << offload << ": " << saved.message;
    for (const char *to : {"nvme", "cpu", "none"}) {
      s.offload = to;
      Run loaded = Train(s, 9, nullptr, true, bench_.dir() + "/saves/step-00000004");
      ASSERT_EQ(0, loaded.rc) << offload << " -> " << to << ": " << loaded.message;
      EXPECT_EQ(4u, loaded.first_step);
      EXPECT_TRUE(whole.weights == loaded.weights) << offload << " -> " << to;
    }
  }
}

TEST_P(Resume, FiftySkipsInARowEndTheRun) {
  Settings s = Base();
  s.hooks.nan_first = 3;
  s.hooks.nan_last = 1000;
  s.micro = 1, s.accumulation = 1;
  Run r = Train(s, 100, nullptr, false);
  EXPECT_EQ(-EDOM, r.rc);
  EXPECT_EQ(51u, r.losses.size());
  EXPECT_EQ(2u, r.durable);
}

INSTANTIATE_TEST_SUITE_P(Dtype, Resume, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "Bf16" : "Fp32"; });

}  // namespace
