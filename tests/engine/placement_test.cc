/* tests/engine/placement_test.cc - P1: on one machine, for one numeric plan, placement never changes a bit. */
#include "tests/engine/run_helper.h"

using zinf_test::Bench;
using zinf_test::Outcome;
using zinf_test::Settings;

namespace {

std::string Describe(const Settings &s) {
  return s.offload + " " + s.io + (s.bf16 ? " bf16" : " fp32") + " threads " + std::to_string(s.threads) + " device " +
         std::to_string(s.device_memory) + " host " + std::to_string(s.host_memory);
}

class Placement : public ::testing::TestWithParam<bool> {
 protected:
  // The oracle: everything on the device, one operation at a time, one thread.
  Settings Reference() const {
    Settings s;
    s.offload = "none";
    s.serial = true;
    s.threads = 1;
    s.bf16 = GetParam();
    return s;
  }
  void ExpectSame(const Outcome &want, const Settings &s) {
    Outcome got = bench_.Run(s);
    ASSERT_EQ(0, got.rc) << Describe(s) << ": " << got.message;
    EXPECT_TRUE(want.weights == got.weights) << Describe(s);
    EXPECT_EQ(want.losses, got.losses) << Describe(s);
    EXPECT_EQ(want.norms, got.norms) << Describe(s);
    EXPECT_EQ(want.eval_loss, got.eval_loss) << Describe(s);
  }
  Bench bench_;
};

TEST_P(Placement, TiersBackendsThreadsAndBudgetsGiveTheSameBits) {
  Outcome want = bench_.Run(Reference());
  ASSERT_EQ(0, want.rc) << want.message;
  EXPECT_LT(want.losses.back(), want.losses.front());
  for (const char *offload : {"none", "cpu", "nvme"}) {
    Settings s = Reference();
    s.serial = false;
    s.offload = offload;
    Outcome roomy = bench_.Run(s);
    ASSERT_EQ(0, roomy.rc) << roomy.message;
    for (const char *io : {"io_uring", "threads", "mem"}) {
      if (s.offload != "nvme" && std::string(io) != "threads") continue;   // no drive, no backend
      for (int threads : {1, 2}) {
        for (bool tight : {false, true}) {
          s.io = io;
          s.threads = threads;
          s.device_memory = s.host_memory = 0;
          if (tight) {
            // One thread's minimum; two threads need one more worker's scratch.
            s.threads = 1;
            s.device_memory = roomy.info.minimum_nbytes[0];
            s.host_memory = roomy.info.minimum_nbytes[1];
            s.threads = threads;
            if (threads == 2) s.device_memory += 2 << 20;
          }
          ExpectSame(want, s);
        }
      }
    }
  }
}

TEST_P(Placement, MixedTiersGiveTheSameBits) {
  Outcome want = bench_.Run(Reference());
  for (const char *offload : {"none/cpu", "none/nvme", "cpu/nvme", "nvme/cpu"}) {
    Settings s = Reference();
    s.serial = false;
    s.threads = 2;
    s.offload = offload;
    ExpectSame(want, s);
  }
}

TEST_P(Placement, TiedEmbeddingsGiveTheSameBitsEverywhere) {
  Settings s = Reference();
  s.tied = true;
  Outcome want = bench_.Run(s);
  ASSERT_EQ(0, want.rc) << want.message;
  s.serial = false;
  s.threads = 2;
  for (const char *offload : {"none", "cpu", "nvme"}) {
    s.offload = offload;
    ExpectSame(want, s);
  }
}

TEST_P(Placement, RandomDelaysAndPoisonedSlotsGiveTheSerialBits) {
  Outcome want = bench_.Run(Reference());
  for (uint64_t seed = 1; seed <= 6; seed++) {
    Settings s = Reference();
    s.serial = false;
    s.threads = 2;
    s.offload = seed % 3 == 0 ? "cpu" : "nvme";
    s.hooks.poison = true;
    s.hooks.delay_us = 2000;
    s.hooks.delay_seed = seed;
    ExpectSame(want, s);
  }
}

TEST_P(Placement, BlockSizeIsASpeedKnobOnly) {
  Outcome want = bench_.Run(Reference());
  for (const char *block : {"4096", "8192", "65536"}) {
    Settings s = Reference();
    s.serial = false;
    s.offload = "nvme";
    s.sets = {std::string("zinf.block_elems=") + block};
    ExpectSame(want, s);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtype, Placement, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "Bf16" : "Fp32"; });

}  // namespace
