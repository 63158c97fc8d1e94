/* tests/io/queue_test.cc - the promises of io/queue.h, on every backend. */
#include "io/queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "io/mem_io.h"
#include "tests/io/io_testing.h"

using namespace zinf_test;

namespace {

class IoQueue : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override
    {
        std::string why = Refusal(GetParam());
        if (!why.empty())
            GTEST_SKIP() << why;
    }
    bool OnDisk() const { return GetParam() != "mem"; }
    TempDir dir;
};

uint64_t Block(const zinf_file &f) { return f.direct ? std::max(f.off_align, f.mem_align) : 1; }

std::vector<unsigned char> DiskBytes(const std::string &path, uint64_t off, size_t nbytes)
{
    std::vector<unsigned char> v(nbytes);
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ssize_t n = pread(fd, v.data(), nbytes, static_cast<off_t>(off));
    close(fd);
    v.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return v;
}

/* Pain 42, 55: any length, any address, any offset; the guards prove that no byte beside the op's is touched. */
TEST_P(IoQueue, EveryLengthAddressAndOffsetReadsBack)
{
    const size_t large = ZINF_TEST_SANITIZED ? 2882401 : 28824000;
    Opened q(Options(GetParam()));
    uint64_t seed = 1;

    ASSERT_EQ(q.rc, 0) << q.st.text;
    for (bool direct : {true, false}) {
        std::string path = dir.file(direct ? "direct" : "buffered");
        File file(path, ZINF_FILE_CREATE, direct);
        ASSERT_EQ(file.rc, 0) << file.st.text;
        ASSERT_EQ(zinf_file_preallocate(&file.f, large + 100000, nullptr, nullptr, &file.st), 0) << file.st.text;
        for (size_t nbytes : {size_t{1}, size_t{511}, size_t{512}, size_t{513}, size_t{4095}, size_t{4096},
                              size_t{4097}, size_t{65536 + 7}, large})
            for (size_t shift : {0, 8, 512})
                for (uint64_t off : {0, 4096, 12345}) {
                    if (nbytes == large && (shift != 8 || off != 12345))
                        continue;
                    SCOPED_TRACE(::testing::Message() << "direct " << direct << " nbytes " << nbytes << " shift "
                                                      << shift << " off " << off);
                    Buffer out(nbytes, shift), in(nbytes, 8 - shift % 16);
                    zinf_status st = {};
                    out.FillRandom(seed++);
                    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), nbytes, off, &st), 0) << st.text;
                    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), nbytes, off, &st), 0) << st.text;
                    ASSERT_EQ(memcmp(in.data(), out.data(), nbytes), 0);
                    ASSERT_TRUE(in.GuardsIntact() && out.GuardsIntact());
                    if (OnDisk()) {
                        auto disk = DiskBytes(path, off, nbytes);
                        ASSERT_EQ(disk.size(), nbytes);
                        ASSERT_EQ(memcmp(disk.data(), out.data(), nbytes), 0);
                    }
                }
    }
}

TEST_P(IoQueue, PaddingOfAWriteIsZeros)
{
    Opened q(Options(GetParam()));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer ones(16384), back(16384), some(100), odd(8 * 65536, 8);
    zinf_status st = {};

    ASSERT_EQ(file.rc, 0) << file.st.text;
    if (!file.f.direct)
        GTEST_SKIP() << "no O_DIRECT in the test folder: nothing is padded";
    ones.Fill(0xff);
    odd.Fill(0xff);
    some.FillRandom(3);
    zinf_io_totals before, t;
    /* From an odd address first: no bounce buffer is clean after that. */
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, odd.data(), odd.size(), 0, &st), 0) << st.text;
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, ones.data(), ones.size(), 0, &st), 0) << st.text;
    zinf_io_queue_totals(q.q, &before);
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, some.data(), some.size(), 4096 + 10, &st), 0) << st.text;
    ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, back.data(), back.size(), 0, &st), 0) << st.text;
    std::vector<unsigned char> want(16384, 0xff);
    std::fill_n(want.begin() + 4096, Block(file.f), 0);
    memcpy(want.data() + 4096 + 10, some.data(), 100);
    EXPECT_EQ(memcmp(back.data(), want.data(), want.size()), 0);
    zinf_io_queue_totals(q.q, &t);
    EXPECT_EQ(t.nr_bounced - before.nr_bounced, 1u);
    EXPECT_EQ(t.written_nbytes - before.written_nbytes, Block(file.f));
    EXPECT_EQ(t.read_nbytes - before.read_nbytes, 16384u);
}

TEST_P(IoQueue, NothingToMoveIsDoneAtOnce)
{
    Opened q(Options(GetParam()));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    zinf_status st = {};
    zinf_io_op *done[1];

    EXPECT_EQ(zinf_io_queue_reap(q.q, done, 1, 1, -1, &st), 0);
    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, nullptr, 0, 4096, &st), 0) << st.text;
    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_SYNC, nullptr, 0, 0, &st), 0) << st.text;
    zinf_io_totals t;
    zinf_io_queue_totals(q.q, &t);
    EXPECT_EQ(t.nr_syncs, 1u);
    EXPECT_EQ(t.nr_reads, 0u);
}

TEST_P(IoQueue, ReadPastTheEndFailsWithPathAndSize)
{
    Opened q(Options(GetParam()));
    std::string path = dir.file("short");
    Buffer buf(20000);
    zinf_status st = {};
    int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    buf.FillRandom(5);
    ASSERT_EQ(write(fd, buf.data(), 5001), 5001);
    close(fd);
    for (bool direct : {true, false}) {
        File file(path, ZINF_FILE_READ, direct);
        Buffer in(20000);
        ASSERT_EQ(file.rc, 0) << file.st.text;
        EXPECT_EQ(file.f.nbytes, 5001u);
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), 5001, 0, &st), 0) << st.text;
        EXPECT_EQ(memcmp(in.data(), buf.data(), 5001), 0);
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), 1, 5000, &st), 0) << st.text;
        for (uint64_t off : {0, 5001, 12288}) {
            zinf_status bad = {};
            EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), 5002, off, &bad), -EIO);
            EXPECT_NE(std::string(bad.text).find("read of " + path), std::string::npos) << bad.text;
            EXPECT_NE(std::string(bad.text).find("the file ends at 5001"), std::string::npos) << bad.text;
        }
    }
}

TEST_P(IoQueue, OffsetsPastTheLargestFileAreRefused)
{
    Opened q(Options(GetParam()));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer buf(4096);

    for (uint64_t off : {UINT64_MAX, UINT64_MAX - 4095, static_cast<uint64_t>(INT64_MAX) - 10}) {
        zinf_status st = {};
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, buf.data(), 4096, off, &st), -EFBIG) << st.text;
    }
}

/* Pain 47, and 56: nothing leaks over many opens. */
TEST_P(IoQueue, TenThousandSmallOpsAtDepthFour)
{
    const size_t nr = 10000, unit = 512;
    Opened q(Options(GetParam(), 4));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer out(nr * unit), in(nr * unit);
    zinf_status st = {};
    std::vector<zinf_io_op> ops(nr);
    std::vector<zinf_io_op *> done(64);
    uint64_t stride = std::max<uint64_t>(Block(file.f), unit);

    ASSERT_EQ(q.rc, 0) << q.st.text;
    ASSERT_EQ(zinf_file_preallocate(&file.f, nr * stride, nullptr, nullptr, &st), 0) << st.text;
    out.FillRandom(7);
    for (zinf_io_dir d : {ZINF_IO_WRITE, ZINF_IO_READ}) {
        size_t nr_done = 0;
        for (size_t i = 0; i < nr; i++) {
            ops[i] = {};
            ops[i].file = &file.f;
            ops[i].dir = d;
            ops[i].buf = (d == ZINF_IO_WRITE ? out : in).data() + i * unit;
            ops[i].nbytes = unit;
            ops[i].off_bytes = i * stride;
            zinf_io_queue_submit(q.q, &ops[i]);
        }
        EXPECT_EQ(zinf_io_queue_pending(q.q), nr);
        while (nr_done < nr) {
            int k = zinf_io_queue_reap(q.q, done.data(), 1, 64, 60000, &st);
            ASSERT_GT(k, 0) << st.text;
            for (int i = 0; i < k; i++)
                ASSERT_EQ(done[i]->rc, 0);
            nr_done += static_cast<size_t>(k);
        }
        EXPECT_EQ(zinf_io_queue_pending(q.q), 0u);
    }
    EXPECT_EQ(memcmp(in.data(), out.data(), out.size()), 0);
}

TEST_P(IoQueue, ManyOpensLeaveNoDescriptorBehind)
{
    std::string path = dir.file("f");
    Buffer buf(4096);
    zinf_status st = {};

    {
        File file(path, ZINF_FILE_CREATE);
        ASSERT_EQ(zinf_file_preallocate(&file.f, 65536, nullptr, nullptr, &st), 0) << st.text;
    }
    size_t before = OpenDescriptors();
    for (int i = 0; i < 100; i++) {
        Opened q(Options(GetParam(), 2));
        File file(path, ZINF_FILE_WRITE);
        File missing(path + ".missing", ZINF_FILE_WRITE);
        ASSERT_EQ(q.rc, 0) << q.st.text;
        ASSERT_EQ(missing.rc, -ENOENT);
        for (int k = 0; k < 10; k++)
            ASSERT_EQ(zinf_io_run(q.q, &file.f, k % 2 ? ZINF_IO_READ : ZINF_IO_WRITE, buf.data(), 4096, 4096, &st), 0);
    }
    EXPECT_EQ(OpenDescriptors(), before);
}

/* The mover's way: sleep on the eventfd, drain it, reap without waiting. A lost wake-up shows as a poll that times
 * out. */
TEST_P(IoQueue, EventFdWakesForEveryCompletion)
{
    const size_t nr = 300, unit = 10000;
    int efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer out(nr * unit), in(nr * unit);
    zinf_status st = {};

    ASSERT_EQ(zinf_file_preallocate(&file.f, nr * 16384, nullptr, nullptr, &st), 0) << st.text;
    out.FillRandom(9);
    for (uint32_t max_nr : {1u, 7u, 1000u}) {
        zinf_io_queue_opts opts = Options(GetParam(), 4, 4096);
        opts.event_fd = efd;
        Opened q(opts);
        ASSERT_EQ(q.rc, 0) << q.st.text;
        std::vector<zinf_io_op> ops(nr);
        std::vector<zinf_io_op *> done(max_nr);
        for (zinf_io_dir d : {ZINF_IO_WRITE, ZINF_IO_READ}) {
            size_t nr_done = 0, nr_submitted = 0;
            while (nr_done < nr) {
                for (int i = 0; i < 10 && nr_submitted < nr; i++, nr_submitted++) {
                    zinf_io_op *op = &ops[nr_submitted];
                    *op = {};
                    op->file = &file.f;
                    op->dir = d;
                    op->buf = (d == ZINF_IO_WRITE ? out : in).data() + nr_submitted * unit;
                    op->nbytes = unit;
                    op->off_bytes = nr_submitted * 16384;
                    zinf_io_queue_submit(q.q, op);
                }
                pollfd p = {efd, POLLIN, 0};
                uint64_t count;
                ASSERT_EQ(poll(&p, 1, 20000), 1) << "asleep with " << zinf_io_queue_pending(q.q) << " pending";
                ASSERT_EQ(read(efd, &count, 8), 8);
                int k = zinf_io_queue_reap(q.q, done.data(), 0, max_nr, 0, &st);
                ASSERT_GE(k, 0) << st.text;
                for (int i = 0; i < k; i++)
                    ASSERT_EQ(done[i]->rc, 0);
                nr_done += static_cast<size_t>(k);
            }
        }
        EXPECT_EQ(memcmp(in.data(), out.data(), out.size()), 0);
        in.Fill(0);
        uint64_t rest;
        (void)!read(efd, &rest, 8);
    }
    close(efd);
}

volatile sig_atomic_t nr_alarms;

/* Pain 45: signals during I/O. */
TEST_P(IoQueue, AlarmStormDoesNotDisturb)
{
    const size_t nbytes = 4 << 20;
    Opened q(Options(GetParam(), 8, 65536));
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer out(nbytes, 8), in(nbytes);
    zinf_status st = {};
    struct sigaction act = {}, before;
    itimerval every = {{0, 1000}, {0, 1000}}, never = {};

    ASSERT_EQ(zinf_file_preallocate(&file.f, nbytes, nullptr, nullptr, &st), 0) << st.text;
    nr_alarms = 0;
    act.sa_handler = [](int) { nr_alarms = nr_alarms + 1; };
    ASSERT_EQ(sigaction(SIGALRM, &act, &before), 0);
    ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
    for (int i = 0; i < 500 && (i < 4 || nr_alarms < 20); i++) {
        out.FillRandom(i);
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), nbytes, 0, &st), 0) << st.text;
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_SYNC, nullptr, 0, 0, &st), 0) << st.text;
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), nbytes, 0, &st), 0) << st.text;
        EXPECT_EQ(memcmp(in.data(), out.data(), nbytes), 0);
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    EXPECT_GE(nr_alarms, 20);
}

TEST_P(IoQueue, PinnedBuffersMoveTheSameBytes)
{
    LogLines lines;
    zinf_io_queue_opts opts = Options(GetParam(), 8, 65536);
    opts.log = lines.log();
    Opened q(opts);
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer a(1 << 20), b(1 << 20), other(1 << 20);
    zinf_status st = {};

    ASSERT_EQ(zinf_file_preallocate(&file.f, 1 << 20, nullptr, nullptr, &st), 0) << st.text;
    zinf_io_queue_pin(q.q, a.data(), a.size());
    zinf_io_queue_pin(q.q, b.data(), b.size());
    a.FillRandom(1);
    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, a.data(), a.size(), 0, &st), 0) << st.text;
    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, b.data(), b.size(), 0, &st), 0) << st.text;
    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, other.data(), other.size(), 0, &st), 0) << st.text;
    EXPECT_EQ(memcmp(a.data(), b.data(), a.size()), 0);
    EXPECT_EQ(memcmp(a.data(), other.data(), a.size()), 0);
    EXPECT_EQ(lines.lines.size(), 0u) << lines.lines[0];
}

/* A real error from the kernel, not a scripted one: the descriptor is open for reading only. */
TEST_P(IoQueue, KernelErrorNamesOperationPathOffsetAndErrno)
{
    if (!OnDisk())
        GTEST_SKIP() << "mem never asks the kernel to write";
    std::string path = dir.file("f");
    {
        File file(path, ZINF_FILE_CREATE);
        ASSERT_EQ(zinf_file_preallocate(&file.f, 65536, nullptr, nullptr, &file.st), 0);
    }
    LogLines lines;
    zinf_io_queue_opts opts = Options(GetParam());
    opts.log = lines.log();
    Opened q(opts);
    File file(path, ZINF_FILE_READ);
    Buffer buf(4096);
    zinf_status st = {};

    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, buf.data(), 4096, 8192, &st), -EBADF);
    EXPECT_EQ(st.rc, -EBADF);
    EXPECT_NE(std::string(st.text).find("write of " + path + " at offset 8192 (4096 bytes)"), std::string::npos)
        << st.text;
    EXPECT_NE(std::string(st.text).find("errno 9"), std::string::npos) << st.text;
    EXPECT_EQ(lines.Count(st.text), 1u);
    zinf_status again = {};
    EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, buf.data(), 4096, 8192, &again), 0) << again.text;
}

TEST_P(IoQueue, DepthAboveTheBackendsLimitIsRefused)
{
    Opened q(Options(GetParam(), 1u << 30));
    EXPECT_LT(q.rc, 0);
    EXPECT_EQ(q.q, nullptr);
    EXPECT_STRNE(q.st.text, "");
}

TEST_P(IoQueue, CloseWaitsForWhatIsInFlight)
{
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer buf(8 << 20);
    zinf_io_op op = {};
    auto q = std::make_unique<Opened>(Options(GetParam(), 4, 65536));

    buf.FillRandom(1);
    op.file = &file.f;
    op.dir = ZINF_IO_WRITE;
    op.buf = buf.data();
    op.nbytes = buf.size();
    zinf_io_queue_submit(q->q, &op);
    q.reset();
    buf.Fill(0);     /* ASan and TSan would see a backend that still reads it */
    if (OnDisk()) {
        auto disk = DiskBytes(dir.file("f"), 0, 4096);
        Buffer want(8 << 20);
        want.FillRandom(1);
        ASSERT_EQ(disk.size(), 4096u);
        EXPECT_EQ(memcmp(disk.data(), want.data(), 4096), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Every, IoQueue, ::testing::ValuesIn(BackendNames()),
                         [](const auto &i) {
                             std::string name = i.param;      /* test names take no underscores */
                             name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
                             return name;
                         });

TEST(IoMem, QueuesOfOneStoreSeeTheSameBytesAndNothingReachesTheFile)
{
    TempDir dir;
    zinf_io_mem *store = nullptr;
    zinf_status st = {};
    Buffer out(100000), in(100000);

    ASSERT_EQ(zinf_io_mem_create(0, &store, &st), 0) << st.text;
    zinf_io_mem_opts mem = {store};
    zinf_io_queue_opts opts = Options("mem");
    opts.backend_arg = &mem;
    out.FillRandom(1);
    {
        Opened q(opts);
        File file(dir.file("f"), ZINF_FILE_CREATE);
        ASSERT_EQ(zinf_file_preallocate(&file.f, 200000, nullptr, nullptr, &st), 0) << st.text;
        ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), out.size(), 4096, &st), 0) << st.text;
    }
    {
        Opened q(opts), own(Options("mem"));
        File file(dir.file("f"), ZINF_FILE_READ);
        ASSERT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), in.size(), 4096, &st), 0) << st.text;
        EXPECT_EQ(memcmp(in.data(), out.data(), in.size()), 0);
        /* a store of its own knows only what is on disk: zeros */
        ASSERT_EQ(zinf_io_run(own.q, &file.f, ZINF_IO_READ, in.data(), in.size(), 4096, &st), 0) << st.text;
        EXPECT_EQ(std::count(in.data(), in.data() + in.size(), 0), static_cast<long>(in.size()));
    }
    EXPECT_GT(zinf_io_mem_nbytes(store), 100000u);
    /* A new file with the same name, and most likely the same inode, starts empty. */
    ASSERT_EQ(unlink(dir.file("f").c_str()), 0);
    {
        Opened q(opts);
        File file(dir.file("f"), ZINF_FILE_CREATE);
        zinf_status bad = {};
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), 4096, 4096, &bad), -EIO);
    }
    zinf_io_mem_destroy(store);
}

TEST(IoMem, BoundedStoreIsFull)
{
    TempDir dir;
    zinf_io_mem *store = nullptr;
    zinf_status st = {};
    Buffer out(1 << 20);

    ASSERT_EQ(zinf_io_mem_create(256 << 10, &store, &st), 0) << st.text;
    zinf_io_mem_opts mem = {store};
    zinf_io_queue_opts opts = Options("mem");
    opts.backend_arg = &mem;
    {
        Opened q(opts);
        File file(dir.file("f"), ZINF_FILE_CREATE);
        EXPECT_EQ(zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), out.size(), 0, &st), -ENOSPC);
        EXPECT_NE(std::string(st.text).find("free space"), std::string::npos) << st.text;
    }
    zinf_io_mem_destroy(store);
}

TEST(IoBackends, AreFoundByNameAndAutoEndsWithThreads)
{
    uint32_t nr = 0;
    for (const char *name : {"threads", "mem", "fault"})
        EXPECT_STREQ(zinf_io_ops_find(name)->name, name);
    EXPECT_EQ(zinf_io_ops_find("nvme"), nullptr);
    while (zinf_io_ops_auto(nr))
        nr++;
    EXPECT_EQ(zinf_io_ops_auto(nr - 1), &zinf_io_threads_ops);
}

}  // namespace
