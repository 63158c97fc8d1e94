/* tests/engine/trainer_test.cc - the trainer as a user meets it: what it learns, what it refuses, what it never does. */
#include <cmath>
#include <cstring>

#include "tests/engine/run_helper.h"

using zinf_test::Bench;
using zinf_test::Outcome;
using zinf_test::Settings;

namespace {

TEST(Trainer, AccumulationDoesNotChangeTheGradient) {
  Bench bench;
  std::vector<double> norms, losses;
  for (auto shape : {std::pair<int, int>{8, 1}, {4, 2}, {2, 4}, {1, 8}}) {
    Settings s;
    s.bf16 = false;
    s.micro = shape.first;
    s.accumulation = shape.second;
    s.steps = 1;
    Outcome o = bench.Run(s);
    ASSERT_EQ(0, o.rc) << o.message;
    norms.push_back(o.norms[0]);
    losses.push_back(o.losses[0]);
  }
  for (size_t i = 1; i < norms.size(); i++) {
    EXPECT_NEAR(1, norms[i] / norms[0], 1e-6);
    EXPECT_NEAR(1, losses[i] / losses[0], 1e-6);
  }
}

TEST(Trainer, ClippingUsesTheNormOfTheGradientThatIsApplied) {
  // SGD without decay moves by lr x clipped gradient: two limits far below the norm scale the first step exactly.
  Bench bench;
  Settings s;
  s.bf16 = false;
  s.optimizer = "SGD";
  s.steps = 1;
  s.lr = 0;
  s.sets = {"optimizer.params.weight_decay=0"};
  Outcome still = bench.Run(s);
  ASSERT_EQ(0, still.rc) << still.message;
  s.lr = 0.5;
  std::vector<double> moved;
  for (double clip : {0.0, 1e-2, 2e-2}) {
    s.clip = clip;
    Outcome o = bench.Run(s);
    ASSERT_EQ(0, o.rc) << o.message;
    ASSERT_EQ(still.norms[0], o.norms[0]);
    ASSERT_EQ(still.weights.size(), o.weights.size());
    // Past the header both files hold fp32 values at the same places.
    uint64_t header;
    memcpy(&header, o.weights.data(), 8);
    double sum = 0;
    for (size_t i = 8 + header; i + 4 <= o.weights.size(); i += 4) {
      float a, b;
      memcpy(&a, still.weights.data() + i, 4);
      memcpy(&b, o.weights.data() + i, 4);
      sum += (static_cast<double>(a) - b) * (static_cast<double>(a) - b);
    }
    moved.push_back(std::sqrt(sum));
  }
  EXPECT_NEAR(1, moved[0] / (0.5 * still.norms[0]), 1e-4);
  EXPECT_NEAR(1, moved[1] / (0.5 * 1e-2), 1e-3);
  EXPECT_NEAR(1, moved[2] / (0.5 * 2e-2), 1e-3);
}

TEST(Trainer, OneByteUnderTheMinimumIsRefusedAndTheMinimumTrains) {
  Bench bench;
  Settings s;
  Outcome roomy = bench.Run(s);
  ASSERT_EQ(0, roomy.rc) << roomy.message;
  for (int tier = 0; tier < 2; tier++) {
    Settings tight = s;
    uint64_t min = roomy.info.minimum_nbytes[tier];
    uint64_t &budget = tier == 0 ? tight.device_memory : tight.host_memory;
    const char *key = tier == 0 ? "zinf.device_memory" : "zinf.host_memory";
    // With automatic blocks the smallest possible host budget belongs to the smallest block.
    tight.sets = {"zinf.block_elems=65536"};
    budget = min;
    Outcome at = bench.Run(tight);
    if (tier == 1 && at.rc) budget = 0, at = bench.Run(tight), min = at.info.minimum_nbytes[1], budget = min, at = bench.Run(tight);
    ASSERT_EQ(0, at.rc) << at.message;
    EXPECT_TRUE(roomy.weights == at.weights);
    EXPECT_LE(at.info.peak_nbytes[tier], min);
    budget = at.info.minimum_nbytes[tier] - 1;
    Outcome under = bench.Run(tight);
    EXPECT_EQ(-EINVAL, under.rc);
    EXPECT_NE(std::string::npos, under.message.find(key)) << under.message;
    EXPECT_NE(std::string::npos, under.message.find(std::to_string(at.info.minimum_nbytes[tier]))) << under.message;
    EXPECT_TRUE(under.losses.empty());
  }
}

TEST(Trainer, PeaksNeverPassTheBudget) {
  Bench bench;
  for (const char *offload : {"none", "cpu", "nvme"}) {
    Settings s;
    s.offload = offload;
    s.device_memory = s.host_memory = 24u << 20;
    Outcome o = bench.Run(s);
    ASSERT_EQ(0, o.rc) << o.message;
    for (int tier = 0; tier < 2; tier++) {
      EXPECT_LE(o.info.peak_nbytes[tier], o.info.use_nbytes[tier]) << offload;
      EXPECT_LE(o.info.use_nbytes[tier], o.info.budget_nbytes[tier]) << offload;
    }
  }
}

TEST(Trainer, EveryOptimizerTrainsFromTheDrive) {
  Bench bench;
  for (const char *optimizer : {"AdamW", "Adam", "SGD"}) {
    for (bool bf16 : {false, true}) {
      Settings s;
      s.optimizer = optimizer;
      s.bf16 = bf16;
      s.lr = std::string(optimizer) == "SGD" ? 0.5 : 3e-3;
      s.steps = 12;
      if (std::string(optimizer) == "Adam") s.sets = {"optimizer.params.adam_w_mode=false"};
      Outcome o = bench.Run(s);
      ASSERT_EQ(0, o.rc) << optimizer << ": " << o.message;
      EXPECT_LT(o.losses.back(), o.losses.front()) << optimizer << (bf16 ? " bf16" : " fp32");
    }
  }
}

TEST(Trainer, WritesOnlyTwelveBytesPerParameterAndStep) {
  Bench bench;
  Settings s;
  s.sets = {"zinf.durability=none"};       // a commit adds one small record
  s.steps = 4;
  Outcome few = bench.Run(s);
  s.steps = 9;
  Outcome many = bench.Run(s);
  ASSERT_EQ(0, few.rc) << few.message;
  ASSERT_EQ(0, many.rc) << many.message;
  // Units are padded to whole chunks, so compare with the extents: one of the two per block and step.
  uint64_t per_step = (many.info.drive_written_nbytes - few.info.drive_written_nbytes) / 5;
  EXPECT_EQ(many.info.use_nbytes[ZINF_TIER_NVME] / 2, per_step);
  s.sets = {};
  Outcome durable = bench.Run(s);
  ASSERT_EQ(0, durable.rc) << durable.message;
  EXPECT_TRUE(many.weights == durable.weights);
  EXPECT_LE(durable.info.drive_written_nbytes - many.info.drive_written_nbytes, 12u * 4096);
}

TEST(Trainer, AnIoErrorEndsTheRunWithPathAndOffset) {
  Bench bench;
  Settings s;
  s.io = "fault";
  Outcome o = bench.Run(s);
  EXPECT_NE(0, o.rc);       // "fault" is a test backend: not for users
  EXPECT_NE(std::string::npos, o.message.find("io_backend")) << o.message;
}

TEST(Trainer, AHugeLearningRateStopsBeforeItDestroysTheState) {
  Bench bench;
  Settings s;
  s.bf16 = false;
  s.optimizer = "SGD";
  s.lr = 1e30;
  s.clip = 0;
  s.steps = 60;
  Outcome o = bench.Run(s);
  EXPECT_EQ(-EDOM, o.rc);
  EXPECT_NE(std::string::npos, o.message.find("not finite")) << o.message;
  EXPECT_NE(std::string::npos, o.message.find("model.")) << o.message;
}

TEST(Trainer, TwoTrainersInOneProcessDoNotMeet) {
  Bench a, b;
  Settings s;
  Outcome alone = a.Run(s);
  s.sets = {"zinf.nvme_paths=[\"" + a.dir() + "/drive\"]"};
  Outcome other = b.Run(s);
  ASSERT_EQ(0, alone.rc) << alone.message;
  ASSERT_EQ(0, other.rc) << other.message;
  EXPECT_TRUE(alone.weights == other.weights);
}

}  // namespace
