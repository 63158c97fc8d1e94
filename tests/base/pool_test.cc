/* tests/base/pool_test.cc - every tile once, nested loops, jobs in order, closing with work queued. */
#include "zinf/base/pool.h"

#include <errno.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/base/status.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

struct Job : zinf_pool_job {
    explicit Job(std::function<void()> f) : zinf_pool_job(), run(std::move(f))
    {
        fn = [](zinf_pool_job *job) { static_cast<Job *>(job)->run(); };
    }
    std::function<void()> run;
};

using Tile = std::function<void(uint64_t tile, uint32_t worker)>;

void For(zinf_pool *pool, uint64_t nr_tiles, Tile tile)
{
    zinf_pool_for(
        pool, nr_tiles, [](void *ctx, uint64_t t, uint32_t worker) { (*static_cast<Tile *>(ctx))(t, worker); }, &tile);
}

class Latch {
public:
    explicit Latch(int n) : n_(n) {}
    void Down()
    {
        std::lock_guard<std::mutex> lock(mu_);
        if (--n_ == 0)
            cv_.notify_all();
    }
    void Wait()
    {
        std::unique_lock<std::mutex> lock(mu_);
        cv_.wait(lock, [this] { return n_ <= 0; });
    }

private:
    std::mutex mu_;
    std::condition_variable cv_;
    int n_;
};

class Pool : public ::testing::TestWithParam<uint32_t> {
protected:
    void SetUp() override { ASSERT_EQ(zinf_pool_open(GetParam(), &pool_, &st_), 0) << st_.text; }
    void TearDown() override { zinf_pool_close(pool_); }
    void Close()
    {
        zinf_pool_close(pool_);
        pool_ = nullptr;
    }

    zinf_pool *pool_ = nullptr;
    zinf_status st_ = {};
};

}  // namespace

TEST_P(Pool, RunsEveryTileOnceWithAWorkerInRange)
{
    for (uint64_t n : { 0, 1, 2, 3, 7, 64, 1000 }) {
        std::vector<std::atomic<int>> count(n);
        std::atomic<uint32_t> worker_max(0);

        For(pool_, n, [&](uint64_t tile, uint32_t worker) {
            count[tile]++;
            if (worker > worker_max)
                worker_max = worker;
        });
        for (uint64_t i = 0; i < n; i++)
            ASSERT_EQ(count[i], 1) << n << " " << i;
        EXPECT_LE(worker_max, zinf_pool_nr_threads(pool_));
    }
}

TEST_P(Pool, WhatTilesWroteIsSeenAfterTheLoop)
{
    std::vector<uint64_t> out(500);

    for (uint64_t round = 1; round <= 50; round++) {
        For(pool_, out.size(), [&](uint64_t tile, uint32_t) { out[tile] += tile * round; });
        for (uint64_t i = 0; i < out.size(); i++)
            ASSERT_EQ(out[i], i * round * (round + 1) / 2);
    }
}

TEST_P(Pool, ScratchOfAWorkerIsItsOwn)
{
    std::vector<uint64_t> scratch(zinf_pool_nr_threads(pool_) + 1);   /* plain: TSan would see two users of one */
    uint64_t sum = 0;

    For(pool_, 2000, [&](uint64_t tile, uint32_t worker) { scratch[worker] += tile; });
    for (uint64_t s : scratch)
        sum += s;
    EXPECT_EQ(sum, 1999u * 1000u);
}

TEST_P(Pool, LoopsNestToAnyDepth)
{
    std::atomic<int> leaves(0);
    std::function<void(int)> split = [&](int depth) {
        if (depth == 0)
            leaves++;
        else
            For(pool_, 3, [&, depth](uint64_t, uint32_t) { split(depth - 1); });
    };

    split(6);
    EXPECT_EQ(leaves, 729);
}

TEST_P(Pool, ANestedLoopKeepsTheWorkersNumber)
{
    std::atomic<int> wrong(0);

    For(pool_, 40, [&](uint64_t, uint32_t outer) {
        std::thread::id me = std::this_thread::get_id();

        For(pool_, 5, [&, outer, me](uint64_t, uint32_t inner) {
            if (std::this_thread::get_id() == me && inner != outer)
                wrong++;
        });
    });
    EXPECT_EQ(wrong, 0);
}

TEST_P(Pool, SeveralCallersAtOnce)
{
    std::atomic<uint64_t> sum(0);
    std::vector<std::thread> callers;

    for (int c = 0; c < 4; c++)
        callers.emplace_back([&] {
            for (int round = 0; round < 50; round++)
                For(pool_, 20, [&](uint64_t tile, uint32_t) { sum += tile; });
        });
    for (std::thread &t : callers)
        t.join();
    EXPECT_EQ(sum, 4u * 50u * 190u);
}

TEST_P(Pool, AJobMayRunALoop)
{
    std::atomic<int> tiles(0);
    Latch done(8);
    std::vector<std::unique_ptr<Job>> jobs;

    for (int i = 0; i < 8; i++)
        jobs.push_back(std::make_unique<Job>([&] {
            For(pool_, 10, [&](uint64_t, uint32_t) { tiles++; });
            done.Down();
        }));
    for (auto &job : jobs)
        zinf_pool_submit(pool_, job.get());
    done.Wait();
    EXPECT_EQ(tiles, 80);
    Close();
}

TEST_P(Pool, AJobMaySubmitAndReuseItself)
{
    Latch done(1);
    int left = 100;   /* one job in flight at a time: no lock needed */
    Job job([] {});

    job.run = [&] {
        if (--left > 0)
            zinf_pool_submit(pool_, &job);
        else
            done.Down();
    };
    zinf_pool_submit(pool_, &job);
    done.Wait();
    EXPECT_EQ(left, 0);
    Close();
}

TEST_P(Pool, AJobMayFreeItself)
{
    Latch done(20);

    for (int i = 0; i < 20; i++) {
        Job *job = new Job([] {});

        job->run = [job, &done] {
            Latch *latch = &done;

            delete job;   /* the captures are gone after this */
            latch->Down();
        };
        zinf_pool_submit(pool_, job);
    }
    done.Wait();
    Close();
}

TEST_P(Pool, CloseRunsWhatIsQueuedAndWhatThatQueues)
{
    std::atomic<int> ran(0);
    Latch gate(1);
    Job hold([&] { gate.Wait(); });
    std::vector<std::unique_ptr<Job>> jobs, more;

    zinf_pool_submit(pool_, &hold);
    for (int i = 0; i < 50; i++) {
        more.push_back(std::make_unique<Job>([&] { ran++; }));
        Job *next = more.back().get();

        jobs.push_back(std::make_unique<Job>([&, next] {
            ran++;
            zinf_pool_submit(pool_, next);
        }));
        zinf_pool_submit(pool_, jobs.back().get());
    }
    gate.Down();
    zinf_pool_close(pool_);
    pool_ = nullptr;
    EXPECT_EQ(ran, 100);
}

INSTANTIATE_TEST_SUITE_P(Threads, Pool, ::testing::Values(1, 2, 5));

TEST(PoolOrder, OneWorkerStartsJobsInTheOrderTheyCame)
{
    zinf_pool *pool = nullptr;
    std::vector<int> order;   /* one worker: no lock needed */
    std::vector<std::unique_ptr<Job>> jobs;

    ASSERT_EQ(zinf_pool_open(1, &pool, nullptr), 0);
    for (int i = 0; i < 100; i++)
        jobs.push_back(std::make_unique<Job>([&order, i] { order.push_back(i); }));
    for (auto &job : jobs)
        zinf_pool_submit(pool, job.get());
    zinf_pool_close(pool);
    ASSERT_EQ(order.size(), 100u);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(order[(size_t)i], i);
}

TEST(PoolOrder, AllTilesOfALoopCanRunAtOnce)
{
    zinf_pool *pool = nullptr;
    Latch all(4);

    ASSERT_EQ(zinf_pool_open(3, &pool, nullptr), 0);
    for (int round = 0; round < 3; round++)
        For(pool, 4, [&](uint64_t, uint32_t) {   /* dead-locks unless caller and three workers take one each */
            all.Down();
            all.Wait();
        });
    zinf_pool_close(pool);
}

TEST(PoolOrder, TwoPoolsDoNotMixTheirWorkers)
{
    zinf_pool *a = nullptr, *b = nullptr;
    std::atomic<int> wrong(0);

    ASSERT_EQ(zinf_pool_open(2, &a, nullptr), 0);
    ASSERT_EQ(zinf_pool_open(4, &b, nullptr), 0);
    For(a, 20, [&](uint64_t, uint32_t) {
        std::thread::id me = std::this_thread::get_id();

        For(b, 6, [&, me](uint64_t, uint32_t worker) {
            if (std::this_thread::get_id() == me && worker != 4)   /* in b this thread is a caller that is no worker */
                wrong++;
        });
    });
    EXPECT_EQ(wrong, 0);
    zinf_pool_close(b);
    zinf_pool_close(a);
}

TEST(PoolOpen, NoThreadsIsRefusedWithALine)
{
    zinf_pool *pool = nullptr;
    zinf_status st = {};

    EXPECT_EQ(zinf_pool_open(0, &pool, &st), -EINVAL);
    EXPECT_EQ(pool, nullptr);
    EXPECT_NE(std::string(st.text).find("zinf.threads"), std::string::npos) << st.text;
}


TEST(PoolOpen, WorkersTakeNoSignals)
{
    zinf_pool *pool = nullptr;
    std::atomic<int> blocked(0);
    Latch all(3);

    ASSERT_EQ(zinf_pool_open(2, &pool, nullptr), 0);
    For(pool, 3, [&](uint64_t, uint32_t worker) {
        sigset_t set;

        all.Down();
        all.Wait();
        if (worker < 2 && pthread_sigmask(SIG_SETMASK, nullptr, &set) == 0 && sigismember(&set, SIGINT) == 1)
            blocked++;
    });
    EXPECT_EQ(blocked, 2);
    zinf_pool_close(pool);
}

#if defined(__x86_64__)
TEST(PoolOpen, ThreadsThatFlushDenormalsAreRefused)
{
    for (unsigned bit : { 0x8000u, 0x0040u }) {
        zinf_pool *pool = nullptr;
        zinf_status st = {};
        unsigned before = _mm_getcsr();

        _mm_setcsr(before | bit);   /* a new thread starts with its creator's mode */
        int rc = zinf_pool_open(2, &pool, &st);
        _mm_setcsr(before);
        EXPECT_EQ(rc, -EINVAL);
        EXPECT_EQ(pool, nullptr);
        EXPECT_NE(std::string(st.text).find("ffast-math"), std::string::npos) << st.text;
    }
}
#endif
