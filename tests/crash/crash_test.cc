/* tests/crash/crash_test.cc - kill -9 at random moments, go on, kill again, until the run ends by itself: always the bits
 * of the run that was never killed.
 *
 * ZINF_CRASH_KILLS in the environment, or --kills=N, is the number of kills (default 24); ZINF_CRASH_SEED, or --seed=N,
 * chooses the moments. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <memory>
#include <random>

#include "swapper/record.h"
#include "swapper/store.h"
#include "tests/crash/reached.h"
#include "tests/crash/tiny_run.h"
#include "zinf/checkpoint/portable.h"

namespace {

using zinf_crash::Names;
using zinf_crash::Reached;
using zinf_crash::Slurp;

int nr_kills = 24;
unsigned seed = 20240531;

int64_t Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

std::string VictimPath() {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
  return path.substr(0, path.rfind('/') + 1) + "victim";
}

// A victim that was started. Killed by Kill, or ends by itself.
class Victim {
 public:
  explicit Victim(const std::vector<std::string> &args) : start_(Now()) {
    int marks[2], errors[2];
    if (pipe2(marks, O_CLOEXEC) || pipe2(errors, O_CLOEXEC)) abort();
    std::vector<std::string> all = {VictimPath()};
    all.insert(all.end(), args.begin(), args.end());
    all.push_back("marks=3");
    std::vector<char *> argv;
    for (auto &a : all) argv.push_back(&a[0]);
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      // The copies come first: a number may be that of the other's source.
      int m = fcntl(marks[1], F_DUPFD, 10), e = fcntl(errors[1], F_DUPFD, 10);
      if (dup2(m, 3) < 0 || dup2(e, 2) < 0) _exit(127);
      close(m), close(e);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(marks[1]), close(errors[1]);
    marks_ = marks[0], errors_ = errors[0];
  }
  ~Victim() {
    if (pid_ > 0) Kill();
    close(marks_), close(errors_);
  }

  // True when one more was reached; false at the end of the process or after timeout_ns (< 0: none).
  bool Next(int64_t timeout_ns = -1) {
    pollfd p = {marks_, POLLIN, 0};
    timespec t = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    Reached r;
    if (ppoll(&p, 1, timeout_ns < 0 ? nullptr : &t, nullptr) <= 0) return false;
    if (read(marks_, &r, sizeof(r)) != static_cast<ssize_t>(sizeof(r))) return false;
    reached_.push_back(r);
    at_.push_back(Now() - start_);
    return true;
  }
  // Waits for the end; what is still in the pipe is read. Returns the status of waitpid.
  int Wait() {
    while (Next()) {
    }
    char buf[512];
    for (ssize_t n; (n = read(errors_, buf, sizeof(buf))) > 0;) message_.append(buf, static_cast<size_t>(n));
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) status = -1;
    pid_ = -1;
    return status;
  }
  int Kill() {
    kill(pid_, SIGKILL);
    return Wait();
  }

  const std::vector<Reached> &reached() const { return reached_; }
  const std::vector<int64_t> &at() const { return at_; }   // ns since the start
  const std::string &message() const { return message_; }

 private:
  int64_t start_;
  pid_t pid_;
  int marks_, errors_;
  std::vector<Reached> reached_;
  std::vector<int64_t> at_;
  std::string message_;
};

// Which kind of run is killed.
struct Kind {
  const char *name, *dtype, *durability, *sync;
  uint64_t every, save_every;
};
const Kind kinds[] = {
    {"Bf16", "bf16", "\"step\"", "process", 1, 2},
    {"Fp32", "fp32", "\"step\"", "process", 1, 3},
    {"Bf16Every3", "bf16", "{\"every\": 3}", "process", 3, 1},    // repeats steps: the same names are saved again
    {"Bf16Power", "bf16", "\"step\"", "power", 1, 4},
    {"Fp32Every3Power", "fp32", "{\"every\": 3}", "power", 3, 2},
};

constexpr uint64_t kIterations = 12;

std::vector<std::string> Args(const std::string &work, const Kind &k) {
  return {work, std::string("dtype=") + k.dtype, std::string("durability=") + k.durability,
          std::string("sync=") + k.sync, "iterations=" + std::to_string(kIterations), "save_every=" + std::to_string(k.save_every)};
}

// The run that is never killed: what it took, what it saved, what it ended with.
struct Whole {
  std::string work;
  std::vector<int64_t> at;
  std::string weights;
  ~Whole() { zinf_crash::RemoveTree(work); }
};

std::unique_ptr<Whole> RunWhole(const Kind &k) {
  auto w = std::make_unique<Whole>();
  w->work = zinf_crash::MakeWork("whole");
  Victim v(Args(w->work, k));
  int status = v.Wait();
  EXPECT_EQ(0, status) << v.message();
  w->at = v.at();
  w->weights = Slurp(w->work + "/export/model.safetensors");
  EXPECT_FALSE(w->weights.empty());
  EXPECT_GT(w->at.size(), kIterations);
  return w;
}

// One folder that is killed in, over and over.
class Chain {
 public:
  Chain(const Kind &k, const Whole &whole, std::mt19937 *random)
      : kind_(k), whole_(whole), random_(*random), work_(zinf_crash::MakeWork("crash")) {}
  ~Chain() {
    if (!testing::Test::HasFailure()) zinf_crash::RemoveTree(work_);
  }

  // True: a kill hit it. False: it ended by itself.
  bool Once(bool may_kill) {
    std::vector<std::string> args = Args(work_, kind_);
    std::string state = StateDir();
    if (!state.empty()) args.push_back("resume=" + state), checkpoint_.clear();
    else if (!checkpoint_.empty()) args.push_back("load=" + checkpoint_);   // the drive was lost
    Victim v(args);
    if (may_kill && WaitForMoment(&v)) {
      int status = v.Kill();
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        CheckAfterKill(v);
        return true;
      }
      EXPECT_EQ(0, status) << v.message();
      return false;
    }
    EXPECT_EQ(0, v.Wait()) << v.message();
    return false;
  }

  // Its drive is gone: what is saved is all there is.
  bool LoseDrive() {
    std::vector<std::string> whole = Checkpoints();
    if (whole.empty()) return false;
    checkpoint_ = work_ + "/saves/" + whole.back();
    generation_ = 0;
    zinf_crash::RemoveTree(work_ + "/drive");
    return mkdir((work_ + "/drive").c_str(), 0700) == 0;
  }

  void CheckEnd() {
    EXPECT_TRUE(whole_.weights == Slurp(work_ + "/export/model.safetensors")) << Where();
    EXPECT_EQ(std::vector<std::string>({"config.json", "model.safetensors"}), Names(work_ + "/export")) << Where();
    EXPECT_EQ(1u, Names(work_ + "/drive").size()) << Where();
    CheckCheckpoints();
    for (const auto &n : Names(work_ + "/saves")) EXPECT_NE('.', n[0]) << Where() << n << " was left behind";
  }

 private:
  std::string Where() const { return std::string(kind_.name) + " in " + work_ + ": "; }

  // A random point in a random one of the intervals between things reached; a fifth of them anywhere in time.
  bool WaitForMoment(Victim *v) {
    const auto &at = whole_.at;
    if (random_() % 5 == 0) {
      int64_t end = Now() + static_cast<int64_t>(random_() % static_cast<uint64_t>(at.back()));
      for (int64_t left; (left = end - Now()) > 0;)
        if (!v->Next(left) && end > Now()) return false;
      return true;
    }
    size_t k = random_() % (at.size() - 1);
    for (size_t i = 0; i < k; i++)
      if (!v->Next()) return false;
    int64_t from = k ? at[k - 1] : 0, length = at[k] - from;
    timespec t = {0, static_cast<long>(random_() % static_cast<uint64_t>(std::min<int64_t>(length + 1, 900000000)))};
    nanosleep(&t, nullptr);
    return true;
  }

  // The folder with a record, if there is one.
  std::string StateDir() {
    for (const auto &n : Names(work_ + "/drive"))
      if (n[0] == 'z' && zinf_store_has_record((work_ + "/drive/" + n).c_str(), nullptr)) return work_ + "/drive/" + n;
    return "";
  }

  std::vector<std::string> Checkpoints() {
    char **names = nullptr;
    uint32_t nr = 0;
    zinf_status st = {};
    EXPECT_EQ(0, zinf_portable_list((work_ + "/saves").c_str(), false, &names, &nr, &st)) << st.text;
    std::vector<std::string> out(names, names + nr);
    for (uint32_t i = 0; i < nr; i++) free(names[i]);
    free(names);
    return out;
  }

  // Every name stands for a whole checkpoint, and it is the state of its step.
  void CheckCheckpoints() {
    std::vector<std::string> whole = Checkpoints();
    for (const auto &n : Names(work_ + "/saves"))
      EXPECT_TRUE(n[0] == '.' || std::count(whole.begin(), whole.end(), n)) << Where() << n << " is not whole";
    for (const auto &n : whole) {
      zinf_portable *p = nullptr;
      zinf_status st = {};
      EXPECT_EQ(0, zinf_portable_load((work_ + "/saves/" + n).c_str(), &p, &st)) << Where() << st.text;
      zinf_portable_unload(p);
      std::string file = "/saves/" + n + "/state.safetensors";
      EXPECT_TRUE(Slurp(whole_.work + file) == Slurp(work_ + file)) << Where() << n;
    }
  }

  void CheckAfterKill(const Victim &v) {
    EXPECT_LE(Names(work_ + "/drive").size(), 1u) << Where() << "files of more than one run";
    CheckCheckpoints();
    uint64_t last = 0, opened = UINT64_MAX;
    bool flushes = false;
    for (const auto &r : v.reached()) {
      last = r.kind == 's' || r.kind == 'o' ? r.iteration : last;
      opened = r.kind == 'o' ? r.iteration : opened;
      flushes = flushes || r.kind == 'x';
    }
    std::string state = StateDir();
    EXPECT_TRUE(opened == UINT64_MAX || !state.empty()) << Where() << "the record is gone";
    if (state.empty()) return;
    zinf_record rec;
    zinf_status st = {};
    uint32_t nr_valid = 0;
    ASSERT_EQ(0, zinf_record_load(state.c_str(), 0, UINT64_MAX, &rec, &nr_valid, &st)) << Where() << st.text;
    uint64_t generation = rec.generation;
    zinf_record_free(&rec);
    // C or C + 1: a step returns with what came before it committed, and the next one commits it.
    if (opened != UINT64_MAX) {
      uint64_t c = std::max(opened, last ? (last - 1) / kind_.every * kind_.every : 0);
      uint64_t next = flushes || last % kind_.every == 0 ? last : c;
      EXPECT_TRUE(generation == c || generation == next)
          << Where() << "record " << generation << " after iteration " << last << ", opened at " << opened;
    }
    EXPECT_GE(generation, generation_) << Where() << "went backwards";
    generation_ = generation;
  }

  const Kind kind_;
  const Whole &whole_;
  std::mt19937 &random_;
  std::string work_, checkpoint_;
  uint64_t generation_ = 0;
};

class Crash : public ::testing::TestWithParam<Kind> {};

TEST_P(Crash, KilledAnywhereEndsWithTheSameBits) {
  const Kind &k = GetParam();
  const size_t nr_kinds = sizeof(kinds) / sizeof(kinds[0]);
  // bf16 with a commit in every step gets what the others leave.
  int share = nr_kills / static_cast<int>(nr_kinds + 1), todo = share, killed = 0, resumed = 0, lost = 0;
  if (std::string(k.name) == kinds[0].name) todo = nr_kills - share * static_cast<int>(nr_kinds - 1);
  if (!todo) GTEST_SKIP() << "no kills are left for it: raise ZINF_CRASH_KILLS";
  std::mt19937 random(seed + static_cast<unsigned>(k.every * 100 + k.save_every));
  auto whole = RunWhole(k);
  while (killed < todo && !HasFailure()) {
    Chain chain(k, *whole, &random);
    for (int in_chain = 0;; in_chain++) {
      if (!chain.Once(killed < todo)) break;
      killed++;
      resumed += in_chain > 0;
      if (HasFailure()) return;
      if (random() % 6 == 0) lost += chain.LoseDrive();
    }
    chain.CheckEnd();
  }
  RecordProperty("kills", killed);
  printf("%s: %d kills, %d of them of runs that went on from one before, %d drives lost\n", k.name, killed, resumed,
         lost);
}

INSTANTIATE_TEST_SUITE_P(Every, Crash, ::testing::ValuesIn(kinds),
                         [](const auto &info) { return std::string(info.param.name); });

}  // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char *e = getenv("ZINF_CRASH_KILLS")) nr_kills = atoi(e);
  if (const char *e = getenv("ZINF_CRASH_SEED")) seed = static_cast<unsigned>(atoi(e));
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a.rfind("--kills=", 0) == 0) nr_kills = atoi(a.c_str() + 8);
    if (a.rfind("--seed=", 0) == 0) seed = static_cast<unsigned>(atoi(a.c_str() + 7));
  }
  return RUN_ALL_TESTS();
}
