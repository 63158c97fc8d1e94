/* tests/kernels/stream_test.cc - streams and events of the CPU device, on 1 to 4 threads. Data is shared without
 * locks on purpose: under ThreadSanitizer a missing order is a report, not a matter of luck. */
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/kernels/cpu_fixture.h"

namespace {

using namespace zinf_test;

/* A gate that a test opens; work in front of it holds a worker. */
class Gate {
public:
    void Open()
    {
        std::lock_guard<std::mutex> lock(mu_);
        open_ = true;
        cv_.notify_all();
    }
    void Wait()
    {
        std::unique_lock<std::mutex> lock(mu_);
        cv_.wait(lock, [this] { return open_; });
    }

private:
    std::mutex mu_;
    std::condition_variable cv_;
    bool open_ = false;
};

/* An item with a function of its own. */
struct Work {
    std::function<void(zinf_stream *)> body;
    std::vector<zinf_event *> waits;
    std::function<void()> on_notify;
    zinf_stream_item item = {};

    explicit Work(std::function<void(zinf_stream *)> b = [](zinf_stream *) {}) : body(std::move(b)) {}
    zinf_stream_item *Item(zinf_event *done = nullptr)
    {
        item.fn = [](zinf_stream *s, void *arg) { static_cast<Work *>(arg)->body(s); };
        item.arg = this;
        item.waits = waits.data();
        item.nr_waits = (uint32_t)waits.size();
        item.done = done;
        item.notify = on_notify ? [](void *arg) { static_cast<Work *>(arg)->on_notify(); } : (void (*)(void *)) nullptr;
        item.notify_arg = this;
        return &item;
    }
};

class Stream : public ::testing::TestWithParam<uint32_t> {
protected:
    Stream() : dev_(CpuConfig{ ZINF_ISA_SCALAR, "own" }, GetParam()) {}
    ~Stream() override
    {
        for (zinf_stream *s : streams_)
            ops().stream_close(s);
        for (zinf_event *e : events_)
            ops().event_close(e);
    }
    const zinf_device_ops &ops() const { return dev_.ops(); }
    zinf_stream *Open()
    {
        zinf_stream *s = nullptr;
        EXPECT_EQ(0, ops().stream_open(dev_.get(), "test", &s));
        streams_.push_back(s);
        return s;
    }
    zinf_event *Event()
    {
        zinf_event *e = nullptr;
        EXPECT_EQ(0, ops().event_open(dev_.get(), &e));
        events_.push_back(e);
        return e;
    }
    void Enqueue(zinf_stream *s, Work *w, zinf_event *done = nullptr) { ASSERT_EQ(0, ops().enqueue(s, w->Item(done))); }
    void Sync(zinf_stream *s) { ASSERT_EQ(0, ops().stream_sync(s)); }

    CpuDevice dev_;
    std::vector<zinf_stream *> streams_;
    std::vector<zinf_event *> events_;
};

} // namespace

TEST_P(Stream, RunsAndNotifiesInOrder)
{
    zinf_stream *s = Open();
    std::vector<int> ran, notified;
    std::vector<std::unique_ptr<Work>> work;
    for (int i = 0; i < 300; i++) {
        work.push_back(std::make_unique<Work>([&ran, i](zinf_stream *) { ran.push_back(i); }));
        work.back()->on_notify = [&notified, i] { notified.push_back(i); };
        Enqueue(s, work.back().get());
    }
    Sync(s);
    ASSERT_EQ(300u, ran.size());
    ASSERT_EQ(300u, notified.size());
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(i, ran[(size_t)i]);
        EXPECT_EQ(i, notified[(size_t)i]);
    }
}

TEST_P(Stream, AnEventOrdersTwoStreamsAndIsReusedEveryStep)
{
    zinf_stream *a = Open(), *b = Open();
    zinf_event *filled = Event(), *drained = Event();
    int value = 0;
    std::vector<int> seen;
    std::vector<std::unique_ptr<Work>> work;
    for (int step = 0; step < 200; step++) {
        work.push_back(std::make_unique<Work>([&value, step](zinf_stream *) { value = step; }));
        work.back()->waits = { drained };    /* never armed before the first step: counts as recorded */
        Enqueue(a, work.back().get(), filled);
        work.push_back(std::make_unique<Work>([&value, &seen](zinf_stream *) { seen.push_back(value); }));
        work.back()->waits = { filled };
        Enqueue(b, work.back().get(), drained);
    }
    Sync(a);
    Sync(b);
    ASSERT_EQ(200u, seen.size());
    for (int step = 0; step < 200; step++)
        EXPECT_EQ(step, seen[(size_t)step]);
}

TEST_P(Stream, ArmingAgainDoesNotHoldBackWhoWaitsAlready)
{
    /* b waits for e of step 1 behind a gate; e is armed again by a2, which needs b: with the newest arming they
     * would wait for each other. The gate is a wait for an event of a stream that is held, so that no worker is. */
    zinf_stream *gate_stream = Open(), *a = Open(), *b = Open();
    zinf_event *e = Event(), *b_done = Event(), *opened = Event();
    std::vector<int> order;
    Gate gate;
    Work hold([&](zinf_stream *) { gate.Wait(); }), a1([&](zinf_stream *) { order.push_back(1); });
    Work blocked, b1([&](zinf_stream *) { order.push_back(2); }), a2([&](zinf_stream *) { order.push_back(3); });
    Enqueue(a, &a1, e);
    Enqueue(gate_stream, &hold, opened);
    blocked.waits = { opened };
    Enqueue(b, &blocked);
    b1.waits = { e };
    Enqueue(b, &b1, b_done);
    a2.waits = { b_done };
    Enqueue(a, &a2, e);
    gate.Open();
    Sync(a);
    Sync(b);
    EXPECT_EQ((std::vector<int>{ 1, 2, 3 }), order);
}

TEST_P(Stream, AWaiterOfTheSecondArmingWaitsForIt)
{
    zinf_stream *a = Open(), *b = Open();
    zinf_event *e = Event();
    int value = 0, seen = -1;
    Gate gate;
    Work first, second([&](zinf_stream *) { value = 2; }), reader([&](zinf_stream *) { seen = value; });
    first.body = [&](zinf_stream *) {
        gate.Wait();
        value = 1;
    };
    Enqueue(a, &first, e);
    Enqueue(a, &second, e);
    reader.waits = { e };
    Enqueue(b, &reader);
    gate.Open();
    Sync(b);
    EXPECT_EQ(2, seen);
}

TEST_P(Stream, OneEventArmedOnTwoStreamsWaitsForBoth)
{
    zinf_stream *a = Open(), *b = Open(), *c = Open();
    zinf_event *e = Event();
    int x = 0, y = 0, sum = 0;
    Work wa([&](zinf_stream *) { x = 1; }), wb([&](zinf_stream *) { y = 2; }), wc([&](zinf_stream *) { sum = x + y; });
    Enqueue(a, &wa, e);
    Enqueue(b, &wb, e);
    wc.waits = { e };
    Enqueue(c, &wc);
    Sync(c);
    EXPECT_EQ(3, sum);
}

TEST_P(Stream, AnItemMayBeEnqueuedAgainInsideItsNotify)
{
    zinf_stream *s = Open();
    zinf_event *e = Event();
    int runs = 0;
    Gate done;
    Work w([&](zinf_stream *) { runs++; });
    w.waits = { e };
    w.on_notify = [&] {
        if (runs < 500)
            EXPECT_EQ(0, ops().enqueue(s, w.Item(e)));
        else
            done.Open();
    };
    Enqueue(s, &w, e);
    done.Wait();
    Sync(s);
    EXPECT_EQ(500, runs);
}

TEST_P(Stream, AnItemMayBeFreedInsideItsNotify)
{
    zinf_stream *s = Open();
    std::atomic<int> freed{ 0 };
    for (int i = 0; i < 100; i++) {
        Work *w = new Work;
        w->on_notify = [w, &freed] {
            std::atomic<int> *count = &freed;
            delete w;
            count->fetch_add(1);
        };
        Enqueue(s, w);
    }
    Sync(s);
    EXPECT_EQ(100, freed.load());
}

TEST_P(Stream, SyncWaitsForTheNotify)
{
    zinf_stream *s = Open();
    int notified = 0;
    Work w;
    w.on_notify = [&] { notified = 1; };
    Enqueue(s, &w);
    Sync(s);
    EXPECT_EQ(1, notified);
}

TEST_P(Stream, WaitingStreamsHoldNoWorker)
{
    /* More waiting streams than threads; what they wait for is enqueued first but sits behind a gate opened last. */
    zinf_stream *first = Open();
    zinf_event *go = Event();
    std::atomic<int> ran{ 0 };
    std::vector<std::unique_ptr<Work>> work;
    Gate gate;
    Work hold([&](zinf_stream *) { gate.Wait(); }), free_work([&](zinf_stream *) { ran++; });
    Enqueue(first, &hold, go);
    for (int i = 0; i < 8; i++) {
        work.push_back(std::make_unique<Work>([&ran](zinf_stream *) { ran++; }));
        work.back()->waits = { go };
        Enqueue(Open(), work.back().get());
    }
    if (GetParam() > 1) {    /* one worker is held by the gate; the others are free although 8 streams wait */
        zinf_stream *other = Open();
        Enqueue(other, &free_work);
        Sync(other);
        EXPECT_EQ(1, ran.load());
        ran = 0;
    }
    gate.Open();
    for (zinf_stream *s : streams_)
        Sync(s);
    EXPECT_EQ(8, ran.load());
}

TEST_P(Stream, RandomGraphsRunInAnOrderThatTheyAllow)
{
    Random rng(GetParam());
    std::vector<zinf_stream *> s = { Open(), Open(), Open(), Open() };
    std::vector<zinf_event *> e;
    for (int i = 0; i < 12; i++)
        e.push_back(Event());
    for (int round = 0; round < 20; round++) {
        std::vector<std::unique_ptr<Work>> work;
        std::vector<int> done(60, 0), last_arming(e.size(), -1), late(60, 0);
        std::vector<std::vector<int>> needs(60);
        for (int i = 0; i < 60; i++) {
            std::unique_ptr<Work> w = std::make_unique<Work>();
            for (uint64_t j = rng.Below(4); j > 0; j--) {
                uint64_t k = rng.Below(e.size());
                w->waits.push_back(e[k]);
                if (last_arming[k] >= 0)
                    needs[(size_t)i].push_back(last_arming[k]);
            }
            w->body = [&, i](zinf_stream *) {
                for (int j : needs[(size_t)i])
                    late[(size_t)i] |= !done[(size_t)j];
                done[(size_t)i] = 1;
            };
            uint64_t k = rng.Below(e.size());
            last_arming[k] = i;
            Enqueue(s[rng.Below(s.size())], w.get(), e[k]);
            work.push_back(std::move(w));
        }
        for (zinf_stream *x : s)
            Sync(x);
        for (int i = 0; i < 60; i++) {
            ASSERT_EQ(1, done[(size_t)i]) << i;
            ASSERT_EQ(0, late[(size_t)i]) << i << " ran before what it waits for";
        }
    }
}

TEST_P(Stream, OperationsOfTwoStreamsAtOnceGiveTheirBits)
{
    Random rng(91);
    const uint64_t n = 150;
    std::vector<float> a = RandomFloats(&rng, n * n), b = RandomFloats(&rng, n * n), want = NaNs(n * n);
    std::vector<zinf_stream *> s = { Open(), Open(), Open() };
    std::vector<std::vector<float>> c(s.size(), NaNs(n * n));
    std::vector<std::unique_ptr<Work>> work;
    auto gemm = [&](float *out) {
        return zinf_gemm{ false, true, n, n, n, a.data(), ZINF_F32, n, b.data(), ZINF_F32, n, out, ZINF_F32, n, 0 };
    };
    zinf_gemm g = gemm(want.data());
    ASSERT_EQ(0, ops().gemm(dev_.now(), &g));
    for (size_t i = 0; i < s.size(); i++) {
        work.push_back(std::make_unique<Work>([&, i](zinf_stream *x) {
            zinf_gemm mine = gemm(c[i].data());
            EXPECT_EQ(0, ops().gemm(x, &mine));
        }));
        Enqueue(s[i], work.back().get());
    }
    for (size_t i = 0; i < s.size(); i++) {
        Sync(s[i]);
        EXPECT_TRUE(SameBits(want, c[i]));
    }
}

TEST_P(Stream, NowRunsOnTheCallerAndElseWhenItsWaitsAreRecorded)
{
    zinf_stream *other = Open();
    zinf_event *e = Event();
    std::thread::id ran_on;
    Gate gate;
    Work now([&](zinf_stream *) { ran_on = std::this_thread::get_id(); }), hold([&](zinf_stream *) { gate.Wait(); });
    Enqueue(dev_.now(), &now);
    EXPECT_EQ(std::this_thread::get_id(), ran_on);
    Enqueue(other, &hold, e);
    now.waits = { e };
    Enqueue(dev_.now(), &now);
    gate.Open();
    Sync(dev_.now());
    EXPECT_NE(std::this_thread::get_id(), ran_on);
    EXPECT_EQ(dev_.pool(), zinf_cpu_stream_pool(dev_.now()));
}

TEST_P(Stream, AnItemWithoutAFunctionIsRefused)
{
    zinf_stream_item item = {};
    EXPECT_EQ(-EINVAL, ops().enqueue(Open(), &item));
}

INSTANTIATE_TEST_SUITE_P(Threads, Stream, ::testing::Values(1u, 2u, 3u, 4u),
                         [](const auto &i) { return std::to_string(i.param); });
