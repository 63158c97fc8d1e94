/* tests/crash/full_drive_test.cc - a drive without room, at every stage: one clear line, nothing half-made under a final
 * name, nothing of the state lost.
 *
 * The drive is a tmpfs in a mount namespace of this process. Room runs out in bytes or in inodes; the second kind makes
 * each new file fail in turn. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "tests/crash/tiny_run.h"
#include "zinf/checkpoint/portable.h"

namespace {

using zinf_crash::Names;
using zinf_crash::Result;
using zinf_crash::Tiny;

// Why there is no namespace of our own; "" = there is one. Asked once, before any thread is made.
std::string EnterNamespace() {
  unsigned uid = getuid(), gid = getgid();
  if (unshare(CLONE_NEWNS)) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) return std::string("no mount namespace of its own: ") + strerror(errno);
    zinf_crash::Spill("/proc/self/setgroups", "deny");
    if (!zinf_crash::Spill("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") ||
        !zinf_crash::Spill("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1"))
      return "no user namespace of its own";
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr))
    return std::string("mounts stay shared: ") + strerror(errno);
  return "";
}

class FullDrive : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { why_ = new std::string(EnterNamespace()); }
  static void TearDownTestSuite() { delete why_; }
  void SetUp() override {
    if (!why_->empty()) GTEST_SKIP() << *why_;
    run_.work = zinf_crash::MakeWork("full");
    small_ = run_.work + "/small";
    ASSERT_EQ(0, mkdir(small_.c_str(), 0700));
    if (mount("zinf-test", small_.c_str(), "tmpfs", 0, "size=1m")) GTEST_SKIP() << "no tmpfs: " << strerror(errno);
    mounted_ = true;
    ASSERT_EQ(0, mkdir((run_.work + "/whole-saves").c_str(), 0700));
    Tiny whole = run_;
    whole.out = run_.work + "/whole";
    whole.saves = run_.work + "/whole-saves";
    whole.save_every = 2;
    Result r = zinf_crash::Run(whole);
    ASSERT_EQ(0, r.rc) << r.message;
    weights_ = zinf_crash::Weights(whole);
    zinf_crash::RemoveTree(run_.work + "/drive");
    ASSERT_EQ(0, mkdir((run_.work + "/drive").c_str(), 0700));
  }
  void TearDown() override {
    if (mounted_) umount2(small_.c_str(), MNT_DETACH);
    zinf_crash::RemoveTree(run_.work);
  }

  // A new, empty file system of this size; nr_inodes 0 = as many as one likes.
  void Mount(uint64_t nbytes, unsigned nr_inodes) {
    ASSERT_EQ(0, umount2(small_.c_str(), MNT_DETACH)) << strerror(errno);
    std::string o = "size=" + std::to_string(nbytes) + ",nr_inodes=" + std::to_string(nr_inodes);
    ASSERT_EQ(0, mount("zinf-test", small_.c_str(), "tmpfs", 0, o.c_str())) << strerror(errno);
  }
  void MakeRoom() {
    ASSERT_EQ(0, mount("zinf-test", small_.c_str(), "tmpfs", MS_REMOUNT, "size=256m,nr_inodes=0")) << strerror(errno);
  }

  // The run ends with ENOSPC and one line that names where.
  void ExpectFull(const Result &r, const std::string &where) {
    EXPECT_EQ(-ENOSPC, r.rc) << where << ": " << r.message;
    EXPECT_NE(std::string::npos, r.message.find(small_)) << where << ": " << r.message;
    EXPECT_EQ(std::string::npos, r.message.find('\n')) << where;
  }
  // The state is whole: with room, the run goes on to the bits of the one that always had room.
  void ExpectGoesOn(const Result &r, const std::string &where) {
    ASSERT_EQ(1u, r.dirs.size()) << where;
    MakeRoom();
    Tiny on = Export(run_);
    on.resume = r.dirs;
    Result end = zinf_crash::Run(on);
    ASSERT_EQ(0, end.rc) << where << ": " << end.message;
    EXPECT_TRUE(weights_ == zinf_crash::Weights(on)) << where;
    zinf_crash::RemoveTree(run_.work + "/drive");
    ASSERT_EQ(0, mkdir((run_.work + "/drive").c_str(), 0700));
  }
  Tiny Export(Tiny r) {
    r.out = run_.work + "/out-" + std::to_string(count_++);
    return r;
  }
  // Every name in saves/ is a whole checkpoint, and nothing else is there.
  void ExpectOnlyWhole(const std::string &where) {
    for (const auto &n : Names(small_)) {
      zinf_portable *p = nullptr;
      zinf_status st = {};
      EXPECT_NE('.', n[0]) << where << ": " << n;
      EXPECT_EQ(0, zinf_portable_load((small_ + "/" + n).c_str(), &p, &st)) << where << ": " << st.text;
      zinf_portable_unload(p);
    }
  }

  static std::string *why_;
  Tiny run_;
  std::string small_, weights_;
  bool mounted_ = false;
  int count_ = 0;
};
std::string *FullDrive::why_;

uint64_t BlocksOf(const std::string &dir) {
  struct statvfs v;
  return statvfs(dir.c_str(), &v) ? 0 : static_cast<uint64_t>(v.f_blocks - v.f_bfree) * v.f_frsize;
}

TEST_F(FullDrive, StartUpLeavesNothingAndSaysWhere) {
  Mount(256u << 20, 0);
  Tiny r = Export(run_);
  r.drive = small_;
  r.iterations = 1;
  Result fits = zinf_crash::Run(r);
  ASSERT_EQ(0, fits.rc) << fits.message;
  uint64_t need = BlocksOf(small_), nr_failed = 0;
  for (uint64_t nbytes = 4096; nbytes < need; nbytes += (nbytes < 65536 ? 8192 : need / 8) & ~4095ull) {
    Mount(nbytes, 0);
    Result x = zinf_crash::Run(r);
    ExpectFull(x, std::to_string(nbytes) + " bytes");
    EXPECT_TRUE(Names(small_).empty()) << nbytes << " bytes";
    nr_failed++;
  }
  EXPECT_GE(nr_failed, 10u);
  unsigned nr = 1;
  for (; nr < 32; nr++) {              // the root folder is one
    Mount(256u << 20, nr);
    Tiny out = Export(r);
    Result x = zinf_crash::Run(out);
    if (!x.rc) break;
    ExpectFull(x, std::to_string(nr) + " inodes");
    EXPECT_TRUE(Names(small_).empty()) << nr << " inodes";
  }
  EXPECT_GE(nr, 5u);                   // folder, lock, state, record
  EXPECT_LT(nr, 32u);
}

TEST_F(FullDrive, StepsAndCommitsNeedNoMoreRoom) {
  Mount(256u << 20, 0);
  Tiny r = Export(run_);
  r.drive = small_;
  int fd = -1;
  std::string filler = small_ + "/filler";
  Result x = zinf_crash::Run(r, nullptr, [&](zinf_trainer *, const zinf_step &s) {
    if (s.iteration == 1) {
      std::string chunk(1 << 20, 'x');
      fd = open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      for (ssize_t n = 1; n > 0;) n = write(fd, chunk.data(), chunk.size());
      for (ssize_t n = 1; n > 0;) n = write(fd, chunk.data(), 4096);
      EXPECT_EQ(ENOSPC, errno);
    }
    return true;
  });
  EXPECT_NE(-1, fd);
  close(fd);
  EXPECT_EQ(0, x.rc) << x.message;
  EXPECT_TRUE(weights_ == zinf_crash::Weights(r));
}

TEST_F(FullDrive, ACheckpointThatDoesNotFitEndsTheRunAndTheStateStays) {
  uint64_t one = 0;
  for (const auto &n : Names(run_.work + "/whole-saves/step-00000002"))
    one += zinf_crash::Slurp(run_.work + "/whole-saves/step-00000002/" + n).size();
  ASSERT_GT(one, 4096u);
  const uint64_t sizes[] = {4096, 65536, one / 2, one, one + (1u << 20), 2 * one + (1u << 20)};
  for (uint64_t nbytes : sizes) {
    std::string where = std::to_string(nbytes) + " bytes";
    Mount(nbytes, 0);
    Tiny r = Export(run_);
    r.saves = small_;
    r.save_every = 2;
    Result x = zinf_crash::Run(r);
    ExpectFull(x, where);
    EXPECT_NE(std::string::npos, x.message.find("checkpoint")) << x.message;
    EXPECT_NE(0, access(r.Out().c_str(), F_OK)) << where;
    ExpectOnlyWhole(where);
    ExpectGoesOn(x, where);
  }
  // .step-N.tmp, lock, state.safetensors, checkpoint.json: the last is missed in the background, told at the next save.
  for (unsigned nr = 1; nr <= 4; nr++) {
    std::string where = std::to_string(nr) + " inodes";
    Mount(64u << 20, nr);
    Tiny r = Export(run_);
    r.saves = small_;
    r.save_every = 2;
    Result x = zinf_crash::Run(r);
    ExpectFull(x, where);
    EXPECT_TRUE(Names(small_).empty()) << where;
    ExpectGoesOn(x, where);
  }
}

TEST_F(FullDrive, AnExportThatDoesNotFitLeavesNoFileUnderItsName) {
  const std::pair<uint64_t, unsigned> sizes[] = {{4096, 0},      {16384, 0},    {weights_.size() / 2, 0},
                                                 {64u << 20, 1}, {64u << 20, 2}, {64u << 20, 3}};
  for (const auto &[nbytes, nr] : sizes) {
    std::string where = std::to_string(nbytes) + " bytes, " + std::to_string(nr) + " inodes";
    Mount(nbytes, nr);
    Tiny r = run_;
    r.out = small_ + "/model";
    Result x = zinf_crash::Run(r);
    ExpectFull(x, where);
    for (const auto &n : Names(r.out)) {
      EXPECT_TRUE(n != "model.safetensors" || zinf_crash::Slurp(r.out + "/" + n) == weights_) << where << ": " << n;
      EXPECT_NE("config.json", n) << where;
    }
    ExpectGoesOn(x, where);
  }
}

TEST_F(FullDrive, AReadOnlyDriveIsNamedAndKeepsItsState) {
  Mount(256u << 20, 0);
  Tiny r = Export(run_);
  r.drive = small_;
  r.iterations = 5;
  Result x = zinf_crash::Run(r);
  ASSERT_EQ(0, x.rc) << x.message;
  ASSERT_EQ(0, mount("zinf-test", small_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr)) << strerror(errno);
  Tiny fresh = Export(r), on = Export(r), saves = Export(run_), out = run_;
  on.resume = x.dirs;
  on.iterations = 12;
  saves.saves = small_ + "/saves";
  saves.save_every = 2;
  out.out = small_ + "/model";
  for (const Tiny &t : {fresh, on, saves, out}) {
    Result y = zinf_crash::Run(t);
    EXPECT_EQ(-EROFS, y.rc) << y.message;
    EXPECT_NE(std::string::npos, y.message.find(small_)) << y.message;
    EXPECT_EQ(std::string::npos, y.message.find('\n'));
  }
  MakeRoom();
  Result end = zinf_crash::Run(on);
  ASSERT_EQ(0, end.rc) << end.message;
  EXPECT_TRUE(weights_ == zinf_crash::Weights(on));
}

}  // namespace
