/* tests/io/fault_test.cc - what the queue makes of a backend that misbehaves, over every backend that can be below. */
#include "io/fault_io.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>

#include "io/queue.h"
#include "tests/io/io_testing.h"

using namespace zinf_test;

namespace {

using Rules = std::vector<zinf_io_fault_rule>;

zinf_io_fault_rule Rule(zinf_io_fault_action action, uint32_t first, uint32_t every, int64_t arg = 0, uint32_t dirs = 0,
                        uint32_t max_nr = 0)
{
    zinf_io_fault_rule r = {};
    r.dirs = dirs;
    r.first = first;
    r.every = every;
    r.max_nr = max_nr;
    r.action = action;
    r.arg = arg;
    return r;
}

class IoFault : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override
    {
        std::string why = Refusal(GetParam());
        if (!why.empty())
            GTEST_SKIP() << why;
        zinf_io_fault_log_init(&log_);
    }
    void TearDown() override
    {
        if (!IsSkipped())
            zinf_io_fault_log_free(&log_);
    }
    const zinf_io_fault_script *Script(const Rules &rules)
    {
        rules_ = rules;
        script_.inner = FindOps(GetParam());
        script_.inner_arg = BackendArg(GetParam());
        script_.rules = rules_.data();
        script_.nr_rules = static_cast<uint32_t>(rules_.size());
        script_.log = &log_;
        return &script_;
    }
    /* Writes and reads nbytes back through the faults, in requests of 8 KiB, and compares. */
    void RoundTrip(const Rules &rules, uint32_t depth = 8, size_t nbytes = 1 << 20)
    {
        Opened q(Options(Script(rules), depth, 8192));
        File file(dir.file("f"), ZINF_FILE_CREATE);
        Buffer out(nbytes, 8), in(nbytes);
        zinf_status st = {};
        ASSERT_EQ(q.rc, 0) << q.st.text;
        ASSERT_EQ(file.rc, 0) << file.st.text;
        out.FillRandom(nbytes);
        ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), nbytes, 0, &st), 0) << st.text;
        ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_SYNC, nullptr, 0, 0, &st), 0) << st.text;
        ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), nbytes, 0, &st), 0) << st.text;
        ASSERT_EQ(memcmp(in.data(), out.data(), nbytes), 0);
        zinf_io_queue_totals(q.q, &totals);
    }
    /* One op that must fail with rc; returns its line. */
    std::string MustFail(const Rules &rules, zinf_io_dir d, int rc)
    {
        LogLines lines;
        zinf_io_queue_opts opts = Options(Script(rules), 4, 8192);
        opts.log = lines.log();
        Opened q(opts);
        File file(dir.file("g"), ZINF_FILE_CREATE);
        Buffer buf(32768);
        zinf_status st = {};
        EXPECT_EQ(q.rc, 0) << q.st.text;
        EXPECT_EQ(zinf_file_preallocate(&file.f, 65536, nullptr, nullptr, &st), 0) << st.text;
        EXPECT_EQ(zinf_io_run(q.q, &file.f, d, buf.data(), buf.size(), 8192, &st), rc);
        EXPECT_EQ(zinf_io_queue_pending(q.q), 0u);
        EXPECT_EQ(lines.lines.size(), 1u);
        EXPECT_EQ(lines.Count(st.text), 1u);
        unlink(dir.file("g").c_str());
        return st.text;
    }
    TempDir dir;
    zinf_io_totals totals = {};
    zinf_io_fault_log log_;
    zinf_io_fault_script script_ = {};
    Rules rules_;
};

/* Pain 43, 46. */
TEST_P(IoFault, EveryThirdRequestShortIsResumed)
{
    RoundTrip({Rule(ZINF_IO_FAULT_SHORT, 3, 3)});
    EXPECT_GT(totals.nr_resumed, 50u);
}

TEST_P(IoFault, InterruptedRefusedAndEmptyResultsAreRetried)
{
    RoundTrip({Rule(ZINF_IO_FAULT_RESULT, 2, 5, -EINTR), Rule(ZINF_IO_FAULT_RESULT, 3, 7, -EAGAIN),
               Rule(ZINF_IO_FAULT_RESULT, 4, 11, 0), Rule(ZINF_IO_FAULT_SHORT, 1, 4)});
    EXPECT_GT(totals.nr_retried, 20u);
}

TEST_P(IoFault, DelayedAndReorderedCompletionsAreMatched)
{
    script_.reorder_seed = 17;
    RoundTrip({Rule(ZINF_IO_FAULT_DELAY, 1, 3, 5), Rule(ZINF_IO_FAULT_SHORT, 2, 3)});
    bool reordered = false;
    uint64_t last = 0;
    for (size_t i = 0; i < log_.nr; i++)
        if (log_.entries[i].event == ZINF_IO_FAULT_DONE) {
            reordered |= log_.entries[i].id < last;
            last = log_.entries[i].id;
        }
    EXPECT_TRUE(reordered);
}

/* Pain 44: in flight is what was taken, never more than the depth. */
TEST_P(IoFault, SubmitThatTakesThreeOfEightLosesNothing)
{
    script_.accept_max = 3;
    RoundTrip({});
    size_t taken = 0, inflight = 0, most = 0;
    for (size_t i = 0; i < log_.nr; i++) {
        taken += log_.entries[i].event == ZINF_IO_FAULT_TAKEN;
        inflight += log_.entries[i].event == ZINF_IO_FAULT_TAKEN ? 1 : -1;
        most = std::max(most, inflight);
    }
    EXPECT_EQ(inflight, 0u);
    EXPECT_GE(taken, 128u);
    EXPECT_LE(most, 8u);
    EXPECT_FALSE(log_.lost);
}

TEST_P(IoFault, SubmitThatFailsNowAndThenIsTriedAgain)
{
    for (int rc : {-EAGAIN, -EINTR}) {
        script_.submit_rc = rc;
        script_.submit_every = 2;
        RoundTrip({}, 1, 65536);
        unlink(dir.file("f").c_str());
    }
}

TEST_P(IoFault, SubmitThatAlwaysFailsIsAnErrorAndNotALoop)
{
    script_.submit_rc = -EAGAIN;
    script_.submit_every = 1;
    EXPECT_NE(MustFail({}, ZINF_IO_READ, -EAGAIN).find("errno 11"), std::string::npos);
    script_.submit_rc = -EINVAL;
    MustFail({}, ZINF_IO_WRITE, -EINVAL);
}

TEST_P(IoFault, ErrorNamesPathOffsetAndErrno)
{
    std::string line = MustFail({Rule(ZINF_IO_FAULT_RESULT, 2, 0, -EIO)}, ZINF_IO_READ, -EIO);
    EXPECT_NE(line.find("read of " + dir.file("g") + " at offset 16384 (8192 bytes)"), std::string::npos) << line;
    EXPECT_NE(line.find("errno 5"), std::string::npos) << line;
    line = MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, -ENOSPC)}, ZINF_IO_WRITE, -ENOSPC);
    EXPECT_NE(line.find("free space"), std::string::npos) << line;
    line = MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 0, -EIO)}, ZINF_IO_SYNC, -EIO);
    EXPECT_NE(line.find("sync of " + dir.file("g")), std::string::npos) << line;
}

/* One op of several fails; the others are right, and so is the queue afterwards. */
TEST_P(IoFault, OneErrorLeavesTheOthersAlone)
{
    const size_t nr = 16, unit = 16384;
    Opened q(Options(Script({Rule(ZINF_IO_FAULT_RESULT, 7, 0, -EIO)}), 4, 8192));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer out(nr * unit), in(nr * unit);
    zinf_io_op ops[nr] = {}, *done[nr];
    zinf_status st = {};
    size_t nr_failed = 0;

    ASSERT_EQ(zinf_file_preallocate(&file.f, nr * unit, nullptr, nullptr, &st), 0) << st.text;
    out.FillRandom(4);
    for (size_t i = 0; i < nr; i++) {
        ops[i].file = &file.f;
        ops[i].dir = ZINF_IO_WRITE;
        ops[i].buf = out.data() + i * unit;
        ops[i].nbytes = unit;
        ops[i].off_bytes = i * unit;
        zinf_io_queue_submit(q.q, &ops[i]);
    }
    ASSERT_EQ(zinf_io_queue_reap(q.q, done, nr, nr, -1, &st), static_cast<int>(nr));
    EXPECT_EQ(st.rc, -EIO);
    for (size_t i = 0; i < nr; i++) {
        nr_failed += ops[i].rc == -EIO;
        zinf_status one = {};
        if (ops[i].rc) {
            ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data() + i * unit, unit, i * unit, &one), 0)
                << one.text;
        }
    }
    EXPECT_EQ(nr_failed, 1u);
    zinf_status after = {};
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), nr * unit, 0, &after), 0) << after.text;
    EXPECT_EQ(memcmp(in.data(), out.data(), nr * unit), 0);
}

/* Two ops fail and are reaped one by one: each time st says something. */
TEST_P(IoFault, EveryFailedOpComesWithALine)
{
    Opened q(Options(Script({Rule(ZINF_IO_FAULT_RESULT, 1, 1, -EIO)}), 8, 8192));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer buf(65536);
    zinf_io_op ops[3] = {}, *done[1];

    for (auto &op : ops) {
        op.file = &file.f;
        op.dir = ZINF_IO_WRITE;
        op.buf = buf.data();
        op.nbytes = buf.size();
        op.off_bytes = static_cast<uint64_t>(&op - ops) * buf.size();
        zinf_io_queue_submit(q.q, &op);
    }
    for (int i = 0; i < 3; i++) {
        zinf_status st = {};
        ASSERT_EQ(zinf_io_queue_reap(q.q, done, 1, 1, -1, &st), 1);
        EXPECT_EQ(done[0]->rc, -EIO);
        EXPECT_EQ(st.rc, -EIO);
        EXPECT_NE(std::string(st.text).find(dir.file("f")), std::string::npos) << st.text;
    }
    EXPECT_EQ(zinf_io_queue_pending(q.q), 0u);
}

TEST_P(IoFault, NoProgressIsAnErrorAndNotALoop)
{
    EXPECT_NE(MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, 0)}, ZINF_IO_WRITE, -EIO).find("no progress"),
              std::string::npos);
    EXPECT_NE(MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, 0)}, ZINF_IO_READ, -EIO).find("no progress"),
              std::string::npos);
    EXPECT_NE(MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, 100)}, ZINF_IO_READ, -EIO).find("at offset"),
              std::string::npos);
    MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, -EINTR)}, ZINF_IO_READ, -EINTR);
    MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, -EAGAIN)}, ZINF_IO_SYNC, -EAGAIN);
    MustFail({Rule(ZINF_IO_FAULT_RESULT, 1, 1, 1 << 20)}, ZINF_IO_READ, -EIO);      /* more than was asked for */
}

TEST_P(IoFault, LostCompletionTimesOutAndCloseReturns)
{
    Opened q(Options(Script({Rule(ZINF_IO_FAULT_NEVER, 2, 0)}), 4, 8192));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer buf(32768);
    zinf_io_op op = {}, *done[1];
    zinf_status st = {};

    op.file = &file.f;
    op.dir = ZINF_IO_WRITE;
    op.buf = buf.data();
    op.nbytes = buf.size();
    zinf_io_queue_submit(q.q, &op);
    EXPECT_EQ(zinf_io_queue_reap(q.q, done, 1, 1, 30, &st), 0);
    EXPECT_EQ(zinf_io_queue_reap(q.q, done, 0, 1, 0, &st), 0);
    EXPECT_EQ(zinf_io_queue_pending(q.q), 1u);
    EXPECT_EQ(st.rc, 0) << st.text;
}

TEST_P(IoFault, FlippedBitAndLostWriteShowOnlyInTheData)
{
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer out(8192), in(8192);
    zinf_status st = {};

    out.FillRandom(8);
    Opened q(Options(
        Script({Rule(ZINF_IO_FAULT_FLIP, 1, 0), Rule(ZINF_IO_FAULT_LOSE, 2, 0, 0, ZINF_IO_FAULT_DIR(ZINF_IO_WRITE))}),
        4, 8192));
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), 8192, 0, &st), 0) << st.text;     /* FLIP: no read */
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), 8192, 0, &st), 0) << st.text;
    EXPECT_EQ(memcmp(in.data(), out.data(), 8192), 0);
    in.Fill(0);
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, in.data(), 8192, 0, &st), 0) << st.text;      /* lost */
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), 8192, 0, &st), 0) << st.text;
    EXPECT_EQ(memcmp(in.data(), out.data(), 8192), 0);
    Opened flip(Options(Script({Rule(ZINF_IO_FAULT_FLIP, 2, 0)}), 4, 8192));
    ASSERT_EQ(zinf_io_run(flip.q, &file.f, ZINF_IO_WRITE, out.data(), 8192, 0, &st), 0) << st.text;
    ASSERT_EQ(zinf_io_run(flip.q, &file.f, ZINF_IO_READ, in.data(), 8192, 0, &st), 0) << st.text;
    EXPECT_EQ(in.data()[0], out.data()[0] ^ 1);
    EXPECT_EQ(memcmp(in.data() + 1, out.data() + 1, 8191), 0);
}

TEST_P(IoFault, LogHoldsOpsAndSyncPointsInOrder)
{
    Opened q(Options(Script({Rule(ZINF_IO_FAULT_RESULT, 1, 0, -EINTR, ZINF_IO_FAULT_DIR(ZINF_IO_SYNC))}), 4, 8192));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer buf(8192);
    zinf_status st = {};

    log_.keep_data = true;
    buf.FillRandom(3);
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, buf.data(), 8192, 16384, &st), 0) << st.text;
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_SYNC, nullptr, 0, 0, &st), 0) << st.text;
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, buf.data(), 4096, 20480, &st), 0) << st.text;
    const struct { zinf_io_dir d; zinf_io_fault_event e; int64_t res; } want[] = {
        {ZINF_IO_WRITE, ZINF_IO_FAULT_TAKEN, 0}, {ZINF_IO_WRITE, ZINF_IO_FAULT_DONE, 8192},
        {ZINF_IO_SYNC, ZINF_IO_FAULT_TAKEN, 0},  {ZINF_IO_SYNC, ZINF_IO_FAULT_DONE, -EINTR},
        {ZINF_IO_SYNC, ZINF_IO_FAULT_TAKEN, 0},  {ZINF_IO_SYNC, ZINF_IO_FAULT_DONE, 0},
        {ZINF_IO_READ, ZINF_IO_FAULT_TAKEN, 0},  {ZINF_IO_READ, ZINF_IO_FAULT_DONE, 4096},
    };
    ASSERT_EQ(log_.nr, std::size(want));
    for (size_t i = 0; i < log_.nr; i++) {
        EXPECT_EQ(log_.entries[i].dir, want[i].d) << i;
        EXPECT_EQ(log_.entries[i].event, want[i].e) << i;
        EXPECT_EQ(log_.entries[i].res, want[i].res) << i;
        EXPECT_EQ(log_.entries[i].fd, file.f.fd) << i;
    }
    EXPECT_EQ(log_.entries[0].off_bytes, 16384u);
    ASSERT_NE(log_.entries[0].data, nullptr);
    buf.FillRandom(3);
    EXPECT_EQ(memcmp(log_.entries[0].data, buf.data(), 8192), 0);
}

/* ---- random transfers against an array of bytes ---- */

struct Model {
    std::vector<unsigned char> bytes;
    uint64_t block;

    /* [first, end) of the blocks that an op touches. */
    std::pair<uint64_t, uint64_t> Blocks(uint64_t off, size_t n) const
    {
        return {off / block * block, (off + n + block - 1) / block * block};
    }
    void Write(uint64_t off, const unsigned char *p, size_t n)
    {
        auto [from, to] = Blocks(off, n);
        std::fill(bytes.begin() + static_cast<long>(from), bytes.begin() + static_cast<long>(to), 0);
        std::copy(p, p + n, bytes.begin() + static_cast<long>(off));
    }
};

class RandomRun {
public:
    RandomRun(zinf_io_queue *q, const zinf_file *f, uint64_t file_nbytes, uint64_t seed, int efd)
        : q_(q), f_(f), nbytes_(file_nbytes), rng_(seed), efd_(efd)
    {
        m_.bytes.assign(file_nbytes, 0);
        m_.block = f->direct ? std::max(f->off_align, f->mem_align) : 1;
    }
    /* A handful of transfers that share no block, all at once, then all checked. */
    void Round()
    {
        std::vector<std::pair<uint64_t, uint64_t>> busy;
        ops_.clear();
        bufs_.clear();
        for (int i = 0; i < 12; i++) {
            size_t n = rng_() % (rng_() % 4 ? 3000 : 100000);
            uint64_t off = rng_() % (nbytes_ - n);
            if (rng_() % 2) {
                off = off / 4096 * 4096;
                n = n / 4096 * 4096;
            }
            auto b = m_.Blocks(off, n);
            bool clash = false;
            for (auto &o : busy)
                clash |= b.first < o.second && o.first < b.second;
            if (clash || n == 0)
                continue;
            busy.push_back(b);
            Add(off, n);
        }
        for (auto &op : ops_)
            zinf_io_queue_submit(q_, &op);
        ReapAll();
        Check();
    }

private:
    void Add(uint64_t off, size_t n)
    {
        zinf_io_op op = {};
        bufs_.push_back(std::make_unique<Buffer>(n, rng_() % 3 ? 0 : rng_() % 600));
        op.file = f_;
        op.dir = rng_() % 2 ? ZINF_IO_WRITE : ZINF_IO_READ;
        op.buf = bufs_.back()->data();
        op.nbytes = n;
        op.off_bytes = off;
        if (op.dir == ZINF_IO_WRITE) {
            bufs_.back()->FillRandom(rng_());
            m_.Write(off, bufs_.back()->data(), n);
        }
        ops_.push_back(op);
    }
    void ReapAll()
    {
        zinf_io_op *done[5];
        size_t nr = 0;
        while (nr < ops_.size()) {
            zinf_status st = {};
            int k;
            if (efd_ >= 0) {
                pollfd p = {efd_, POLLIN, 0};
                uint64_t count;
                ASSERT_EQ(poll(&p, 1, 20000), 1) << "asleep with " << zinf_io_queue_pending(q_) << " pending";
                ASSERT_EQ(read(efd_, &count, 8), 8);
                k = zinf_io_queue_reap(q_, done, 0, 5, 0, &st);
            } else {
                k = zinf_io_queue_reap(q_, done, 1, 5, 60000, &st);
                ASSERT_GT(k, 0);
            }
            ASSERT_EQ(st.rc, 0) << st.text;
            nr += static_cast<size_t>(k);
        }
        ASSERT_EQ(zinf_io_queue_pending(q_), 0u);
    }
    void Check()
    {
        for (size_t i = 0; i < ops_.size(); i++) {
            ASSERT_EQ(memcmp(bufs_[i]->data(), m_.bytes.data() + ops_[i].off_bytes, ops_[i].nbytes), 0)
                << (ops_[i].dir == ZINF_IO_READ ? "read" : "write") << " at " << ops_[i].off_bytes << " of "
                << ops_[i].nbytes;
            ASSERT_TRUE(bufs_[i]->GuardsIntact());
        }
    }
    zinf_io_queue *q_;
    const zinf_file *f_;
    uint64_t nbytes_;
    std::mt19937_64 rng_;
    int efd_;
    Model m_;
    std::vector<zinf_io_op> ops_;
    std::vector<std::unique_ptr<Buffer>> bufs_;
};

TEST_P(IoFault, RandomTransfersUnderRandomFaultsEqualAnArrayOfBytes)
{
    const uint64_t file_nbytes = 512 << 10;

    for (uint64_t seed = 1; seed <= (ZINF_TEST_SANITIZED ? 8 : 16); seed++) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        std::mt19937_64 rng(seed);
        Rules rules;
        /* Bounded faults in every combination; none of them may show. */
        for (int i = 0; seed % 4 && i < 4; i++) {
            const zinf_io_fault_rule kinds[] = {
                Rule(ZINF_IO_FAULT_SHORT, 1, 2), Rule(ZINF_IO_FAULT_RESULT, 1, 2, -EINTR),
                Rule(ZINF_IO_FAULT_RESULT, 1, 2, -EAGAIN), Rule(ZINF_IO_FAULT_RESULT, 1, 2, 0),
                Rule(ZINF_IO_FAULT_DELAY, 1, 2, 1 + static_cast<int64_t>(rng() % 6))};
            rules.push_back(kinds[rng() % 5]);
            rules.back().first = 1 + rng() % 5;
            rules.back().every = 5 + rng() % 7;      /* of any five in a row four rules leave one alone */
        }
        script_.accept_max = rng() % 2 ? 1 + rng() % 4 : 0;
        script_.submit_rc = rng() % 2 ? -EAGAIN : -EINTR;
        script_.submit_every = rng() % 2 ? 2 + rng() % 5 : 0;
        script_.reorder_seed = rng() % 2 ? rng() : 0;
        int efd = seed % 2 ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
        uint32_t depth = 1 + rng() % 9;
        zinf_io_queue_opts opts = Options(Script(rules), depth, rng() % 2 ? 4096 : 30000);
        opts.event_fd = efd;
        {
            Opened q(opts);
            File file(dir.file("f"), ZINF_FILE_CREATE, seed % 5 != 0);
            zinf_status st = {};
            ASSERT_EQ(q.rc, 0) << q.st.text;
            ASSERT_EQ(zinf_file_preallocate(&file.f, file_nbytes, nullptr, nullptr, &st), 0) << st.text;
            RandomRun run(q.q, &file.f, file_nbytes, seed, efd);
            for (int i = 0; i < 20 && !HasFatalFailure(); i++)
                run.Round();
        }
        unlink(dir.file("f").c_str());
        if (efd >= 0)
            close(efd);
        if (HasFatalFailure())
            return;
    }
}

INSTANTIATE_TEST_SUITE_P(Over, IoFault, ::testing::Values("io_uring", "threads", "mem"),
                         [](const auto &i) {
                             std::string name = i.param;      /* test names take no underscores */
                             name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
                             return name;
                         });

TEST(IoFaultScript, IsRequired)
{
    zinf_io_queue_opts opts = Options("fault");
    opts.backend_arg = nullptr;
    Opened q(opts);
    EXPECT_EQ(q.rc, -EINVAL);
    EXPECT_NE(std::string(q.st.text).find("script"), std::string::npos) << q.st.text;
}

}  // namespace
