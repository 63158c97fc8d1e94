/* tests/crash/damage_test.cc - drives that lie, fail, or lose their files: found at the next read,
 * named, and nothing else is lost. */
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "io/fault_io.h"
#include "swapper/record.h"
#include "tests/crash/tiny_run.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/engine/verdict.h"

namespace {

using zinf_crash::Names;
using zinf_crash::Result;
using zinf_crash::Slurp;
using zinf_crash::Spill;
using zinf_crash::Tiny;

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    run_.work = zinf_crash::MakeWork("damage");
    ASSERT_FALSE(run_.work.empty());
  }
  void TearDown() override { zinf_crash::RemoveTree(run_.work); }

  // The weights of a run that nothing happened to, in a folder of its own.
  std::string Whole(const Tiny &like) {
    Tiny w = like;
    w.hooks = {};
    w.host_memory = 64u << 20;
    w.drive = run_.work + "/whole-drive";
    w.saves = run_.work + "/whole-saves";
    w.out = run_.work + "/whole-" + std::to_string(count_++);
    mkdir(w.drive.c_str(), 0700), mkdir(w.saves.c_str(), 0700);
    Result r = zinf_crash::Run(w);
    EXPECT_EQ(0, r.rc) << r.message;
    zinf_crash::RemoveTree(w.drive);
    return zinf_crash::Weights(w);
  }
  Tiny Export(Tiny r) {
    r.out = run_.work + "/out-" + std::to_string(count_++);
    return r;
  }
  static bool Said(const Result &r, const std::string &what) {
    for (const auto &line : r.log)
      if (line.find(what) != std::string::npos) return true;
    return false;
  }

  // Of one direction in a whole run.
  uint32_t CountRequests(const Tiny &like, zinf_io_dir dir) {
    zinf_io_fault_script script = {};
    zinf_io_fault_log log;
    zinf_io_fault_log_init(&log);
    script.log = &log;
    Tiny r = Export(like);
    r.hooks.io_ops = &zinf_io_fault_ops;
    r.hooks.io_arg = &script;
    Result x = zinf_crash::Run(r);
    EXPECT_EQ(0, x.rc) << x.message;
    uint32_t total = 0;
    for (size_t i = 0; i < log.nr; i++)
      total += log.entries[i].event == ZINF_IO_FAULT_TAKEN && log.entries[i].dir == dir;
    zinf_io_fault_log_free(&log);
    ClearDrive();
    return total;
  }
  void ClearDrive() {
    for (const auto &name : Names(run_.work + "/drive")) zinf_crash::RemoveTree(run_.work + "/drive/" + name);
  }

  Tiny run_;
  int count_ = 0;
};

// Bits of a file, anywhere in it.
class Flips {
 public:
  Flips(const std::string &path, unsigned seed) : path_(path), bytes_(Slurp(path)), random_(seed) {}
  ~Flips() { Spill(path_, bytes_); }
  void Next(size_t from = 0, size_t to = SIZE_MAX) {
    std::string b = bytes_;
    to = std::min(to, b.size());
    at_ = from + random_() % (to - from);
    b[at_] = static_cast<char>(b[at_] ^ (1 << random_() % 8));
    ASSERT_TRUE(Spill(path_, b));
  }
  void Undo() { ASSERT_TRUE(Spill(path_, bytes_)); }
  size_t at() const { return at_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::string path_, bytes_;
  std::mt19937 random_;
  size_t at_ = 0;
};

// ---- bits ----

TEST_F(Damage, ABitOfTheStateIsFoundWhenItIsReadAndOthersDoNoHarm) {
  for (bool bf16 : {true, false}) {
    Tiny first = Export(run_);
    first.bf16 = bf16;
    first.iterations = 6;
    Result r = zinf_crash::Run(first);
    ASSERT_EQ(0, r.rc) << r.message;
    ASSERT_EQ(1u, r.dirs.size());
    Tiny next = first;
    next.iterations = 7;
    std::string want = Whole(next), record = Slurp(r.dirs[0] + "/record-0"), state = Slurp(r.dirs[0] + "/state-0");
    next.resume = r.dirs;
    int found = 0;
    const int nr = 40;
    for (int i = 0; i < nr; i++) {
      Flips f(r.dirs[0] + "/state-0", 1000u + static_cast<unsigned>(i));
      f.Next();
      Tiny on = Export(next);
      Result x = zinf_crash::Run(on);
      if (x.rc) {
        EXPECT_EQ(-EBADMSG, x.rc) << x.message;
        EXPECT_NE(std::string::npos, x.message.find(r.dirs[0] + "/state-0 at offset")) << x.message;
        found++;
      } else {                          // in an extent that no record names, or between pieces
        EXPECT_TRUE(want == zinf_crash::Weights(on)) << "bit at " << f.at();
      }
      zinf_crash::RemoveTree(on.out);
      // What the run wrote meanwhile is taken back.
      ASSERT_TRUE(Spill(r.dirs[0] + "/record-0", record));
      ASSERT_TRUE(Spill(r.dirs[0] + "/state-0", state));
    }
    EXPECT_GT(found, nr / 5);
    EXPECT_LT(found, nr);
    ClearDrive();
  }
}

TEST_F(Damage, ABitOfTheRecordIsNamedAndTheOneBeforeIsUsed) {
  Tiny first = Export(run_);
  first.iterations = 6;
  Result r = zinf_crash::Run(first);
  ASSERT_EQ(0, r.rc) << r.message;
  std::string path = r.dirs[0] + "/record-0", state = Slurp(r.dirs[0] + "/state-0");
  zinf_record rec;
  zinf_status st = {};
  ASSERT_EQ(0, zinf_record_load(r.dirs[0].c_str(), 0, UINT64_MAX, &rec, nullptr, &st)) << st.text;
  size_t used = zinf_record_nbytes(&rec), slot = rec.slot;
  zinf_record_free(&rec);
  Tiny next = first;
  next.iterations = 7;
  std::string want = Whole(next), record = Slurp(path);
  next.resume = r.dirs;
  for (int i = 0; i < 30; i++) {
    Flips f(path, 2000u + static_cast<unsigned>(i));
    f.Next(slot * f.size() / 2, slot * f.size() / 2 + used);
    Tiny on = Export(next);
    Result x = zinf_crash::Run(on);
    EXPECT_TRUE(Said(x, path)) << "bit at " << f.at() << " was not told of";
    // The flush before the end left the older record's extents alone, so that it is still whole.
    EXPECT_EQ(0, x.rc) << x.message;
    EXPECT_TRUE(want == zinf_crash::Weights(on)) << "bit at " << f.at();
    zinf_crash::RemoveTree(on.out);
    ASSERT_TRUE(Spill(r.dirs[0] + "/state-0", state));
  }
  // Both: refused, named, and not deleted.
  std::string both = record;
  for (size_t at : {size_t{40}, both.size() / 2 + 40}) both[at] = static_cast<char>(both[at] ^ 1);
  ASSERT_TRUE(Spill(path, both));
  Result x = zinf_crash::Run(Export(next));
  EXPECT_EQ(-EBADMSG, x.rc) << x.message;
  EXPECT_NE(std::string::npos, x.message.find(path)) << x.message;
  EXPECT_EQ(both, Slurp(path));
  EXPECT_EQ(state, Slurp(r.dirs[0] + "/state-0"));
}

TEST_F(Damage, ABitOfACheckpointIsFoundWhenItIsLoaded) {
  Tiny first = Export(run_);
  first.iterations = 4;
  first.nan_first = first.nan_last = 0;
  first.save_every = 3;
  Result r = zinf_crash::Run(first);
  ASSERT_EQ(0, r.rc) << r.message;
  std::string dir = run_.Saves() + "/step-00000003";
  ASSERT_EQ(std::vector<std::string>({"checkpoint.json", "state.safetensors"}), Names(dir));
  for (const char *name : {"checkpoint.json", "state.safetensors"}) {
    Flips f(dir + "/" + name, 3000);
    for (int i = 0; i < 100; i++) {
      f.Next();
      zinf_portable *p = nullptr;
      zinf_status st = {};
      int rc = zinf_portable_load(dir.c_str(), &p, &st);
      EXPECT_NE(0, rc) << name << ": bit at " << f.at();
      EXPECT_NE(std::string::npos, std::string(st.text).find(dir)) << st.text;
      zinf_portable_unload(p);
    }
    Tiny on = Export(run_);
    on.load = dir;
    Result x = zinf_crash::Run(on);
    EXPECT_NE(0, x.rc) << name;
    EXPECT_NE(std::string::npos, x.message.find(dir)) << x.message;
  }
}

// ---- failing requests ----

class Faults : public Damage, public ::testing::WithParamInterface<zinf_io_dir> {};

TEST_P(Faults, TheRunEndsWithPathAndOffsetAndGoesOnFromTheRecordBefore) {
  Tiny base = run_;
  base.iterations = 7;
  base.sync = "power";
  std::string want = Whole(base);
  uint32_t total = CountRequests(base, GetParam());
  ASSERT_GT(total, 5u);

  for (uint32_t n = 1; n <= total; n += std::max(1u, total / 13)) {
    zinf_io_fault_rule rule = {};
    rule.dirs = ZINF_IO_FAULT_DIR(GetParam());
    rule.first = n;
    rule.max_nr = 1;
    rule.action = ZINF_IO_FAULT_RESULT;
    rule.arg = GetParam() == ZINF_IO_WRITE && n % 2 ? -ENOSPC : -EIO;      // a drive that copies on write may be full
    zinf_io_fault_script script = {};
    script.rules = &rule;
    script.nr_rules = 1;
    Tiny r = Export(base);
    r.hooks.io_ops = &zinf_io_fault_ops;
    r.hooks.io_arg = &script;
    Result x = zinf_crash::Run(r);
    std::string where = "request " + std::to_string(n) + " of " + std::to_string(total);
    EXPECT_EQ(rule.arg, x.rc) << where << ": " << x.message;
    EXPECT_EQ(std::string::npos, x.message.find('\n')) << where;
    EXPECT_NE(std::string::npos, x.message.find(run_.work + "/drive/zinf-")) << where << ": " << x.message;
    EXPECT_TRUE(GetParam() == ZINF_IO_SYNC || x.message.find("offset") != std::string::npos)
        << where << ": " << x.message;
    // Failed before the first record: nothing is kept. After it: the record stays, and goes on.
    std::vector<std::string> left = Names(run_.work + "/drive");
    ASSERT_EQ(x.dirs.empty() ? 0u : 1u, left.size()) << where;
    Tiny on = Export(base);
    if (!left.empty()) {
      on.resume = {run_.work + "/drive/" + left[0]};
      zinf_record rec;
      zinf_status st = {};
      ASSERT_EQ(0, zinf_record_load(on.resume[0].c_str(), 0, UINT64_MAX, &rec, nullptr, &st))
          << where << ": " << st.text;
      zinf_verdict v;
      ASSERT_EQ(0, zinf_verdict_decode(rec.payload, rec.payload_nbytes, &v, &st)) << st.text;
      EXPECT_GE(v.applied, x.durable) << where;
      zinf_record_free(&rec);
    }
    Result end = zinf_crash::Run(on);
    ASSERT_EQ(0, end.rc) << where << ": " << end.message;
    EXPECT_TRUE(want == zinf_crash::Weights(on)) << where;
    ClearDrive();
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Faults, ::testing::Values(ZINF_IO_READ, ZINF_IO_WRITE, ZINF_IO_SYNC),
                         [](const auto &info) {
                           return std::string(info.param == ZINF_IO_READ    ? "Read"
                                              : info.param == ZINF_IO_WRITE ? "Write"
                                                                            : "Sync");
                         });

TEST_F(Damage, ABitFlippedOnTheWayInIsFoundByThePassThatUsesIt) {
  Tiny base = run_;
  base.iterations = 6;
  base.nan_first = base.nan_last = 0;
  // With the least memory nothing stays in RAM that can be read again.
  Tiny probe = Export(base);
  probe.iterations = 1;
  zinf_run_info info = {};
  ASSERT_EQ(0, zinf_crash::Run(probe, nullptr, [&](zinf_trainer *t, const zinf_step &) {
              zinf_trainer_info(t, &info);
              return true;
            }).rc);
  ClearDrive();
  base.device_memory = info.minimum_nbytes[0];
  base.host_memory = info.minimum_nbytes[1];
  uint32_t total = CountRequests(base, ZINF_IO_READ);
  ASSERT_GT(total, 50u);
  for (uint32_t n = 1; n <= total; n += total / 25) {
    zinf_io_fault_rule rule = {};
    rule.dirs = ZINF_IO_FAULT_DIR(ZINF_IO_READ);
    rule.first = n;
    rule.max_nr = 1;
    rule.action = ZINF_IO_FAULT_FLIP;
    zinf_io_fault_script script = {};
    script.rules = &rule;
    script.nr_rules = 1;
    Tiny r = Export(base);
    r.hooks.io_ops = &zinf_io_fault_ops;
    r.hooks.io_arg = &script;
    Result x = zinf_crash::Run(r);
    EXPECT_EQ(-EBADMSG, x.rc) << "read " << n << ": " << x.message;
    EXPECT_NE(std::string::npos, x.message.find("state-0 at offset")) << x.message;
    ClearDrive();
  }
}

// ---- folders ----

TEST_F(Damage, TwoRunsOnOnePathBothEndRight) {
  std::string want[2];
  Tiny r[2] = {Export(run_), Export(run_)};
  for (int i = 0; i < 2; i++) {
    r[i].bf16 = i == 0;
    r[i].saves = run_.work + "/saves-" + std::to_string(i);
    r[i].save_every = 2;
    ASSERT_EQ(0, mkdir(r[i].saves.c_str(), 0700));
    want[i] = Whole(r[i]);
  }
  Result out[2];
  std::thread other([&] { out[1] = zinf_crash::Run(r[1]); });
  out[0] = zinf_crash::Run(r[0]);
  other.join();
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(0, out[i].rc) << out[i].message;
    EXPECT_TRUE(want[i] == zinf_crash::Weights(r[i])) << i;
  }
  EXPECT_EQ(2u, Names(run_.work + "/drive").size());
}

TEST_F(Damage, AFolderInUseCannotBeResumed) {
  Result second;
  Tiny r = Export(run_);
  Result first = zinf_crash::Run(r, nullptr, [&](zinf_trainer *t, const zinf_step &s) {
    if (s.iteration == 3) {
      Tiny on = Export(run_);
      on.resume = {zinf_trainer_state_dir(t, 0)};
      second = zinf_crash::Run(on);
    }
    return true;
  });
  EXPECT_EQ(-EBUSY, second.rc);
  EXPECT_NE(std::string::npos, second.message.find("process " + std::to_string(getpid()))) << second.message;
  EXPECT_EQ(0, first.rc) << first.message;
  EXPECT_TRUE(Whole(run_) == zinf_crash::Weights(r));
}

TEST_F(Damage, AStartClearsFoldersWithoutARecordAndNoOther) {
  Tiny a = Export(run_);
  a.finish = false;
  a.iterations = 5;
  Result kept = zinf_crash::Run(a);
  ASSERT_EQ(0, kept.rc) << kept.message;
  std::string garbage = run_.work + "/drive/zinf-01234567-89ab-4def-8123-456789abcdef", hidden = run_.work +
      "/drive/.zinf-11234567-89ab-4def-8123-456789abcdef", foreign = run_.work + "/drive/zinf-notes";
  for (const auto &d : {garbage, hidden, foreign}) {
    ASSERT_EQ(0, mkdir(d.c_str(), 0700));
    ASSERT_TRUE(Spill(d + "/lock", "1 host boot\n") && Spill(d + "/state-0", std::string(100000, 'x')));
  }
  Tiny b = Export(run_);
  b.iterations = 1;
  Result other = zinf_crash::Run(b);
  ASSERT_EQ(0, other.rc) << other.message;
  EXPECT_TRUE(Said(other, "in 2 folders of runs that did not end well"));
  EXPECT_NE(0, access(garbage.c_str(), F_OK));
  EXPECT_NE(0, access(hidden.c_str(), F_OK));
  EXPECT_EQ(0, access((foreign + "/state-0").c_str(), F_OK));
  Tiny on = Export(run_);
  on.resume = kept.dirs;
  Result end = zinf_crash::Run(on);
  ASSERT_EQ(0, end.rc) << end.message;
  EXPECT_TRUE(Whole(run_) == zinf_crash::Weights(on));
}

TEST_F(Damage, AResumeThatIsRefusedDeletesNothing) {
  Tiny a = Export(run_);
  a.iterations = 5;
  Result kept = zinf_crash::Run(a);
  ASSERT_EQ(0, kept.rc) << kept.message;
  std::string record = Slurp(kept.dirs[0] + "/record-0"), state = Slurp(kept.dirs[0] + "/state-0");
  Tiny b = Export(run_);
  ASSERT_EQ(0, mkdir((run_.work + "/second").c_str(), 0700));
  b.drive = run_.work + "/second";
  b.iterations = 1;
  Result second = zinf_crash::Run(b);
  ASSERT_EQ(0, second.rc) << second.message;
  for (int i = 0; i < 4; i++) {
    Tiny on = Export(run_);
    on.resume = kept.dirs;
    if (i == 0) on.resume.push_back(second.dirs[0]);             // one drive too many
    if (i == 1) Spill(kept.dirs[0] + "/record-0", record.substr(0, 100));
    if (i == 2) on.bf16 = false;                                 // another layout
    if (i == 3) on.keep_state = false, on.iterations = 100, on.nan_first = 6, on.nan_last = 1000;    // fails on the way
    Result x = zinf_crash::Run(on);
    EXPECT_NE(0, x.rc) << i;
    EXPECT_FALSE(x.message.empty()) << i;
    EXPECT_EQ(state.size(), Slurp(kept.dirs[0] + "/state-0").size()) << i << ": " << x.message;
    EXPECT_EQ(0, access((second.dirs[0] + "/state-0").c_str(), F_OK)) << i;
    ASSERT_TRUE(Spill(kept.dirs[0] + "/record-0", record) && Spill(kept.dirs[0] + "/state-0", state));
  }
  Tiny on = Export(run_);
  on.resume = kept.dirs;
  Result end = zinf_crash::Run(on);
  ASSERT_EQ(0, end.rc) << end.message;
  EXPECT_TRUE(Whole(run_) == zinf_crash::Weights(on));
}

TEST_F(Damage, AFailedRunKeepsItsStateWhateverKeepStateSays) {
  Tiny r = Export(run_);
  r.keep_state = false;
  r.iterations = 100;
  r.nan_first = 6, r.nan_last = 1000;
  Result x = zinf_crash::Run(r);
  EXPECT_EQ(-EDOM, x.rc) << x.message;
  ASSERT_EQ(1u, x.dirs.size());
  EXPECT_EQ(0, access((x.dirs[0] + "/record-0").c_str(), F_OK));
  Tiny fine = Export(run_);
  fine.keep_state = false;
  Result y = zinf_crash::Run(fine);
  ASSERT_EQ(0, y.rc) << y.message;
  EXPECT_NE(0, access(y.dirs[0].c_str(), F_OK));
}

TEST_F(Damage, AFolderRemovedWhileTrainingIsToldAtTheEnd) {
  for (bool keep : {true, false}) {
    Tiny r = Export(run_);
    r.keep_state = keep;
    Result x = zinf_crash::Run(r, nullptr, [&](zinf_trainer *t, const zinf_step &s) {
      if (s.iteration == 3) zinf_crash::RemoveTree(zinf_trainer_state_dir(t, 0));
      return true;
    });
    EXPECT_EQ(0, x.rc) << x.message;                 // its files live as long as they are open
    EXPECT_TRUE(Whole(run_) == zinf_crash::Weights(r));
    EXPECT_TRUE(Said(x, x.dirs[0])) << keep;
    Tiny on = Export(run_);
    on.resume = x.dirs;
    Result gone = zinf_crash::Run(on);
    EXPECT_EQ(-ENOENT, gone.rc);
    EXPECT_NE(std::string::npos, gone.message.find(x.dirs[0])) << gone.message;
  }
}

TEST_F(Damage, AFolderOfCheckpointsRemovedWhileTrainingEndsTheRunAndTheStateStays) {
  Tiny r = Export(run_);
  r.save_every = 2;
  Result x = zinf_crash::Run(r, nullptr, [&](zinf_trainer *t, const zinf_step &s) {
    if (s.iteration == 6) {
      zinf_status st = {};
      EXPECT_EQ(0, zinf_trainer_flush(t, &st)) << st.text;
      zinf_crash::RemoveTree(r.Saves());
      EXPECT_TRUE(Spill(r.Saves(), "a file"));
    }
    return true;
  });
  EXPECT_NE(0, x.rc);
  EXPECT_NE(std::string::npos, x.message.find(r.Saves())) << x.message;
  Tiny on = Export(run_);
  on.resume = x.dirs;
  Result end = zinf_crash::Run(on);
  ASSERT_EQ(0, end.rc) << end.message;
  EXPECT_TRUE(Whole(run_) == zinf_crash::Weights(on));
}

}  // namespace
