/* tests/swapper/mover_test.cc - the mover against lanes that finish in any order, fail, lie, or never answer. */
#include "swapper/mover.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/swapper/hand_schedule.h"

namespace {

using zinf_test::HandSchedule;
using zinf_test::Slot;

struct Plan : zinf_sched_plan {
    Plan() : zinf_sched_plan() { std::fill(class_count, class_count + ZINF_NR_CLASSES, 3u); }
};

struct Mover {
    explicit Mover(const zinf_lane_impl *lanes, bool serial = false, const zinf_clock *clock = nullptr,
                   uint32_t quiet_ms = 0, const struct zinf_log *log = nullptr, const zinf_sched_plan *real = nullptr)
    {
        Plan plan;
        zinf_mover_opts o{};
        o.lanes = lanes, o.plan = real ? real : &plan, o.max_ops = real ? 4096 : 256, o.serial = serial;
        o.clock = clock, o.quiet_ms = quiet_ms, o.log = log;
        zinf_status st{};
        EXPECT_EQ(zinf_mover_open(&o, &m, &st), 0) << st.text;
    }
    ~Mover() { zinf_mover_close(m); }
    int Run(const zinf_schedule *s)
    {
        st = zinf_status{};
        times.assign(s->nr_ops, zinf_op_times{});
        return zinf_mover_run(m, s, &stats, times.data(), &st);
    }
    std::string Text() const { return st.text; }

    zinf_mover *m = nullptr;
    zinf_mover_stats stats{};
    std::vector<zinf_op_times> times;
    zinf_status st{};
};

/* Lanes that do nothing by themselves: every issue is noted, and OnIdle, called from poll, decides what completes. */
class ManualLanes {
public:
    struct Issued { uint32_t op; std::vector<uint32_t> after; };

    ManualLanes()
    {
        for (uint32_t l = 0; l < ZINF_NR_LANES; l++)
            lanes[l] = zinf_lane_impl{Issue, l == 0 ? Poll : nullptr, this, 0};
        on_issue = [](zinf_mover *, uint32_t, zinf_status *) { return 0; };
        on_idle = [this](zinf_mover *m, zinf_status *) {
            for (; nr_done < issued.size(); nr_done++)
                zinf_mover_complete(m, issued[nr_done].op, 0);
            return 0;
        };
    }
    std::vector<uint32_t> Ops() const
    {
        std::vector<uint32_t> ops;
        for (const Issued &i : issued)
            ops.push_back(i.op);
        return ops;
    }

    zinf_lane_impl lanes[ZINF_NR_LANES];
    std::vector<Issued> issued;
    size_t nr_done = 0;
    std::function<int(zinf_mover *, uint32_t, zinf_status *)> on_issue;
    std::function<int(zinf_mover *, zinf_status *)> on_idle;

private:
    static int Issue(void *ctx, zinf_mover *m, const zinf_schedule *, uint32_t op, const uint32_t *after, uint32_t nr_after,
                     zinf_status *st)
    {
        auto *self = static_cast<ManualLanes *>(ctx);
        int rc = self->on_issue(m, op, st);
        if (!rc)
            self->issued.push_back({op, {after, after + nr_after}});
        return rc;
    }
    static int Poll(void *ctx, zinf_mover *m, zinf_status *st)
    {
        return static_cast<ManualLanes *>(ctx)->on_idle(m, st);
    }
};

/* Lanes served by threads: any ready operation next, after a random pause. A stream lane is a queue whose head also waits for
 * `after`, as events on a device would. */
class ThreadLanes {
public:
    ThreadLanes(uint32_t nr_threads, uint32_t seed, uint32_t depth) : rng_(seed)
    {
        for (uint32_t l = 0; l < ZINF_NR_LANES; l++)
            lanes[l] = zinf_lane_impl{Issue, nullptr, this, depth};
        for (uint32_t i = 0; i < nr_threads; i++)
            threads_.emplace_back([this] { Work(); });
    }
    ~ThreadLanes()
    {
        {
            std::lock_guard<std::mutex> g(mu_);
            stop_ = true;
        }
        cv_.notify_all();
        for (std::thread &t : threads_)
            t.join();
    }
    void Reset(uint32_t nr_ops)
    {
        std::lock_guard<std::mutex> g(mu_);
        start.assign(nr_ops, 0), end.assign(nr_ops, 0);
        seq_ = 0, nr_running = 0, max_running = 0;
        fail_op = refuse_op = ZINF_NONE;
    }

    zinf_lane_impl lanes[ZINF_NR_LANES];
    std::vector<uint64_t> start, end;   /* per operation, from 1; 0 = never */
    uint32_t fail_op = ZINF_NONE, refuse_op = ZINF_NONE;
    uint32_t nr_running = 0, max_running = 0;

private:
    struct Task { zinf_mover *m; uint32_t op; uint32_t lane; std::vector<uint32_t> after; bool started; };

    static int Issue(void *ctx, zinf_mover *m, const zinf_schedule *s, uint32_t op, const uint32_t *after, uint32_t nr_after,
                     zinf_status *st)
    {
        auto *self = static_cast<ThreadLanes *>(ctx);
        std::lock_guard<std::mutex> g(self->mu_);
        if (op == self->refuse_op)
            return zinf_fail(st, -EIO, "lane refuses %u", op);
        self->tasks_.push_back({m, op, s->ops[op].lane, {after, after + nr_after}, false});
        self->cv_.notify_all();
        return 0;
    }
    bool Ready(size_t i) const
    {
        const Task &t = tasks_[i];
        if (t.started)
            return false;
        if (!zinf_lane_is_stream((zinf_lane)t.lane))
            return true;
        for (size_t k = 0; k < i; k++)
            if (tasks_[k].lane == t.lane)
                return false;
        return std::all_of(t.after.begin(), t.after.end(), [this](uint32_t a) { return end[a] != 0; });
    }
    void Work()
    {
        std::unique_lock<std::mutex> g(mu_);
        for (;;) {
            std::vector<size_t> can;
            for (size_t i = 0; i < tasks_.size(); i++)
                if (Ready(i))
                    can.push_back(i);
            if (can.empty()) {
                if (stop_)
                    return;
                cv_.wait(g);
                continue;
            }
            Task &t = tasks_[can[rng_() % can.size()]];
            t.started = true;
            zinf_mover *m = t.m;
            uint32_t op = t.op, pause = (uint32_t)(rng_() % 8);
            start[op] = ++seq_;
            max_running = std::max(max_running, ++nr_running);
            g.unlock();
            for (uint32_t i = 0; i < pause; i++)
                std::this_thread::yield();
            g.lock();
            end[op] = ++seq_;
            nr_running--;
            int rc = op == fail_op ? -EIO : 0;
            tasks_.erase(std::find_if(tasks_.begin(), tasks_.end(), [op](const Task &x) { return x.op == op; }));
            g.unlock();
            cv_.notify_all();
            zinf_mover_complete(m, op, rc);
            g.lock();
        }
    }

    std::mutex mu_;
    std::condition_variable cv_;
    std::mt19937 rng_;
    std::deque<Task> tasks_;
    std::vector<std::thread> threads_;
    uint64_t seq_ = 0;
    bool stop_ = false;
};

HandSchedule RandomDag(std::mt19937 &rng, uint32_t max_ops)
{
    HandSchedule s;
    uint32_t nr = 1 + (uint32_t)(rng() % max_ops);
    for (uint32_t i = 0; i < nr; i++) {
        std::vector<uint32_t> deps;
        for (uint32_t k = 0; i && k < rng() % 4; k++)
            deps.push_back(i - 1 - (uint32_t)(rng() % std::min(i, 12u)));
        std::sort(deps.begin(), deps.end());
        deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
        s.Add((zinf_lane)(rng() % ZINF_NR_LANES), deps).op.nbytes = rng() % 1000;
    }
    return s;
}

TEST(Mover, RunsEveryOperationOnceAfterItsDependencies)
{
    std::mt19937 rng(1);
    for (uint32_t depth : {0u, 1u, 3u}) {
        ThreadLanes lanes(3, 7 + depth, depth);
        Mover mover(lanes.lanes);
        for (int round = 0; round < 60; round++) {
            HandSchedule hand = RandomDag(rng, 60);
            const zinf_schedule *s = hand.View();
            lanes.Reset(s->nr_ops);
            ASSERT_EQ(mover.Run(s), 0) << mover.Text();
            uint64_t nbytes = 0, nr_ops = 0, want_nbytes = 0;
            for (uint32_t i = 0; i < s->nr_ops; i++) {
                ASSERT_NE(lanes.end[i], 0u) << i;
                for (uint32_t d : hand.ops[i].deps)
                    ASSERT_LT(lanes.end[d], lanes.start[i]) << i << " waits for " << d;
                want_nbytes += s->ops[i].nbytes;
                ASSERT_LE(mover.times[i].issue_ns, mover.times[i].done_ns);
                ASSERT_NE(mover.times[i].done_ns, 0u);
            }
            for (const zinf_lane_stats &l : mover.stats.lane) {
                nbytes += l.nbytes, nr_ops += l.nr_ops;
                ASSERT_LE(l.busy_ns + l.stall_ns, mover.stats.wall_ns);
            }
            EXPECT_EQ(nr_ops, s->nr_ops);
            EXPECT_EQ(nbytes, want_nbytes);
        }
    }
}

TEST(Mover, SerialIsListOrderOneAtATime)
{
    std::mt19937 rng(2);
    ThreadLanes lanes(3, 5, 0);
    Mover mover(lanes.lanes, true);
    for (int round = 0; round < 30; round++) {
        HandSchedule hand = RandomDag(rng, 40);
        const zinf_schedule *s = hand.View();
        lanes.Reset(s->nr_ops);
        ASSERT_EQ(mover.Run(s), 0) << mover.Text();
        for (uint32_t i = 0; i + 1 < s->nr_ops; i++)
            ASSERT_LT(lanes.end[i], lanes.start[i + 1]);
        EXPECT_EQ(lanes.max_running, 1u);
    }
}

/* What the builder makes and the checker proves, with real threads: the ledger has nothing to say. */
TEST(Mover, BuiltSchedulesRunUnderAnyTiming)
{
    const uint64_t units[] = {8192, 12288, 4096, 0, 20480, 8192};
    const uint32_t layers[] = {1, 2, 3, 4};
    const std::pair<zinf_tier, zinf_tier> tiers[] = {{ZINF_TIER_NVME, ZINF_TIER_NVME}, {ZINF_TIER_HOST, ZINF_TIER_NVME},
                                                     {ZINF_TIER_NVME, ZINF_TIER_HOST}, {ZINF_TIER_DEVICE, ZINF_TIER_DEVICE}};
    uint32_t seed = 0;
    for (auto [weights, state] : tiers)
        for (uint32_t window : {0u, 2u})
            for (bool serial : {false, true}) {
                zinf_sched_spec m{};
                m.nr_units = 6, m.unit_elems = units, m.embed_unit = 0, m.head_unit = 5;
                m.nr_layers = 4, m.layer_units = layers, m.nr_micro = 2, m.act_nbytes = 4096;
                m.weight_nbytes = 2, m.state_nbytes = 10, m.grad_nbytes = 2, m.grain_elems = 8192;
                m.weight_tier = weights, m.state_tier = state;
                zinf_sched_policy policy{window, false};
                zinf_sched_budget budget{1ull << 30, 1ull << 30};
                zinf_sched_plan *p = nullptr;
                zinf_status st{};
                ASSERT_EQ(zinf_plan_make(&m, &policy, &zinf_sched_default_rates, &budget, &p, &st), 0) << st.text;
                ThreadLanes lanes(3, ++seed, 8);
                {
                    Mover mover(lanes.lanes, serial, nullptr, 0, nullptr, p);
                    for (zinf_sched_kind kind : {ZINF_SCHED_FIRST, ZINF_SCHED_STEADY, ZINF_SCHED_SKIP, ZINF_SCHED_STEADY,
                                                 ZINF_SCHED_FLUSH, ZINF_SCHED_EVAL, ZINF_SCHED_FLUSH_SKIP}) {
                        zinf_schedule *s = nullptr;
                        ASSERT_EQ(zinf_schedule_build(p, kind, ZINF_SCHED_COMMITS, &s, &st), 0) << st.text;
                        lanes.Reset(s->nr_ops);
                        EXPECT_EQ(mover.Run(s), 0) << mover.Text();
                        for (uint32_t i = 0; i < s->nr_ops; i++)
                            for (uint32_t d = 0; d < s->ops[i].nr_deps; d++)
                                ASSERT_LT(lanes.end[s->deps[s->ops[i].dep + d]], lanes.start[i]);
                        for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
                            EXPECT_LE(mover.stats.peak_slots[c], p->class_count[c]) << zinf_class_name((zinf_class)c);
                        zinf_schedule_free(s);
                    }
                }
                zinf_plan_free(p);
            }
}

TEST(Mover, FailureOfAnyOperationStopsWhatDependsOnItAndDrains)
{
    std::mt19937 rng(3);
    ThreadLanes lanes(3, 11, 4);
    for (bool serial : {false, true}) {
        Mover mover(lanes.lanes, serial);
        HandSchedule hand = RandomDag(rng, 1);
        while (hand.ops.size() < 30)
            hand = RandomDag(rng, 40);
        const zinf_schedule *s = hand.View();
        for (uint32_t bad = 0; bad < s->nr_ops; bad++) {
            for (bool refuse : {false, true}) {
                lanes.Reset(s->nr_ops);
                (refuse ? lanes.refuse_op : lanes.fail_op) = bad;
                ASSERT_EQ(mover.Run(s), -EIO) << bad;
                std::string want = refuse ? "lane refuses " + std::to_string(bad) : std::to_string(bad) + " ";
                EXPECT_EQ(mover.Text().substr(0, want.size()), want);
                std::vector<bool> tainted(s->nr_ops);
                tainted[bad] = true;
                auto stream = [s](uint32_t i) { return zinf_lane_is_stream((zinf_lane)s->ops[i].lane); };
                /* Between streams the order is the device's: what was issued behind the failed operation runs. */
                for (uint32_t i = bad + 1; i < s->nr_ops; i++)
                    for (uint32_t d : hand.ops[i].deps)
                        tainted[i] = tainted[i] || (tainted[d] && !(stream(i) && stream(d)));
                for (uint32_t i = 0; i < s->nr_ops; i++) {
                    EXPECT_EQ(lanes.start[i] != 0, lanes.end[i] != 0) << "left in flight: " << i;
                    EXPECT_EQ(lanes.end[i] != 0, mover.times[i].done_ns != 0) << i;
                    if (tainted[i] && (i != bad || refuse)) {
                        EXPECT_EQ(lanes.start[i], 0u) << i << " ran after " << bad << " had failed";
                    }
                }
            }
        }
        lanes.Reset(s->nr_ops);
        EXPECT_EQ(mover.Run(s), 0) << mover.Text();
    }
}

TEST(Mover, StreamIsIssuedBehindIssuedStreamsAndHostBehindCompletions)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_H2D);                     /* 0 */
    hand.Add(ZINF_LANE_COMPUTE, {0});            /* 1: after 0 */
    hand.Add(ZINF_LANE_COMPUTE, {0, 1});         /* 2: after 0; 1 is on its own stream */
    hand.Add(ZINF_LANE_CPU, {0});                /* 3: waits for 0 to complete */
    hand.Add(ZINF_LANE_D2H, {2, 3});             /* 4: waits for 3 to complete */
    std::vector<size_t> seen;
    lanes.on_idle = [&](zinf_mover *m, zinf_status *) {
        seen.push_back(lanes.issued.size());
        if (lanes.issued.size() == 3 && lanes.nr_done == 0)
            zinf_mover_complete(m, 0, 0), lanes.nr_done = 1;
        else if (lanes.issued.size() == 4 && lanes.nr_done == 1)
            zinf_mover_complete(m, 3, 0), lanes.nr_done = 2;
        else if (lanes.issued.size() == 5 && lanes.nr_done == 2)
            for (uint32_t op : {1u, 2u, 4u})
                zinf_mover_complete(m, op, 0), lanes.nr_done = 5;
        return 0;
    };
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    ASSERT_EQ(lanes.Ops(), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(seen.front(), 3u);
    EXPECT_EQ(lanes.issued[1].after, (std::vector<uint32_t>{0}));
    EXPECT_EQ(lanes.issued[2].after, (std::vector<uint32_t>{0}));
    EXPECT_TRUE(lanes.issued[3].after.empty());
    EXPECT_EQ(lanes.issued[4].after, (std::vector<uint32_t>{2}));
}

TEST(Mover, LaneDepthBoundsWhatIsInFlight)
{
    ManualLanes lanes;
    lanes.lanes[ZINF_LANE_NVME_READ].depth = 2;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    for (int i = 0; i < 5; i++)
        hand.Add(ZINF_LANE_NVME_READ);
    size_t most = 0;
    lanes.on_idle = [&](zinf_mover *m, zinf_status *) {
        most = std::max(most, lanes.issued.size() - lanes.nr_done);
        if (lanes.nr_done < lanes.issued.size())
            zinf_mover_complete(m, lanes.issued[lanes.nr_done++].op, 0);
        return 0;
    };
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    EXPECT_EQ(most, 2u);
    EXPECT_EQ(lanes.issued.size(), 5u);
}

TEST(Mover, LaneIsFifoEvenWhenALaterOperationIsReady)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_NVME_READ);
    hand.Add(ZINF_LANE_CPU, {0});
    hand.Add(ZINF_LANE_CPU);
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    EXPECT_EQ(lanes.Ops(), (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Mover, LineOfALaneFromPollIsKept)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_NVME_READ);
    lanes.on_idle = [&](zinf_mover *m, zinf_status *st) {
        if (!lanes.nr_done++) {
            zinf_fail(st, -EIO, "read /a/b at 4096: no luck");
            zinf_mover_complete(m, 0, -EIO);
        }
        return 0;
    };
    EXPECT_EQ(mover.Run(hand.View()), -EIO);
    EXPECT_EQ(mover.Text(), "read /a/b at 4096: no luck");
}

TEST(Mover, LineStoredBeforeACompletionFromAThreadIsFoundInPoll)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_CPU);
    std::atomic<bool> stored{false};
    std::thread worker;
    lanes.on_issue = [&](zinf_mover *m, uint32_t op, zinf_status *) {
        worker = std::thread([&stored, m, op] {
            stored = true;
            zinf_mover_complete(m, op, -ERANGE);
        });
        return 0;
    };
    lanes.on_idle = [&](zinf_mover *, zinf_status *st) {
        if (stored)
            zinf_fail(st, -ERANGE, "tensor x is not finite");
        return 0;
    };
    EXPECT_EQ(mover.Run(hand.View()), -ERANGE);
    worker.join();
    EXPECT_EQ(mover.Text(), "tensor x is not finite");
}

TEST(Mover, FailureOfPollStopsTheRun)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_NVME_READ);
    hand.Add(ZINF_LANE_CPU, {0});
    lanes.on_idle = [&](zinf_mover *m, zinf_status *) {
        if (!lanes.nr_done++)
            zinf_mover_complete(m, 0, 0);
        return -ENODEV;
    };
    EXPECT_EQ(mover.Run(hand.View()), -ENODEV);
    EXPECT_NE(mover.Text().find("nvme_read"), std::string::npos) << mover.Text();
    EXPECT_EQ(lanes.issued.size(), 1u);
}

TEST(Mover, SlotHandedOutTwiceIsCaught)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_H2D, {}, {Slot(ZINF_CLASS_UNIT, 1)});
    hand.Add(ZINF_LANE_H2D, {0}, {Slot(ZINF_CLASS_UNIT, 1)}, {Slot(ZINF_CLASS_UNIT, 1)});
    EXPECT_EQ(mover.Run(hand.View()), -EPROTO);
    EXPECT_NE(mover.Text().find("UNIT[1]"), std::string::npos) << mover.Text();
    EXPECT_EQ(lanes.Ops(), (std::vector<uint32_t>{0}));
}

TEST(Mover, SlotHandedToAHostLaneBeforeItsLastUserCompletedIsCaught)
{
    /* Operation 1 forgot to name operation 0: it is issued while the write out of the slot is still in flight. */
    for (bool named : {false, true}) {
        ManualLanes lanes;
        Mover mover(lanes.lanes);
        HandSchedule hand;
        zinf_loc slot = Slot(ZINF_CLASS_STATE, 0);
        hand.Add(ZINF_LANE_NVME_WRITE, {}, {slot}, {slot});
        hand.Add(ZINF_LANE_CPU, named ? std::vector<uint32_t>{0} : std::vector<uint32_t>{}, {slot}, {slot});
        EXPECT_EQ(mover.Run(hand.View()), named ? 0 : -EPROTO) << mover.Text();
        EXPECT_EQ(lanes.issued.size(), named ? 2u : 1u);
    }
}

TEST(Mover, SlotPassesFromStreamToStreamAtIssue)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    zinf_loc slot = Slot(ZINF_CLASS_ACT, 2);
    hand.Add(ZINF_LANE_H2D, {}, {slot});
    hand.Add(ZINF_LANE_COMPUTE, {0}, {Slot(ZINF_CLASS_ACT, 0)}, {slot});
    hand.Add(ZINF_LANE_H2D, {1}, {slot});
    hand.Add(ZINF_LANE_COMPUTE, {2}, {}, {slot, Slot(ZINF_CLASS_ACT, 0)});
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    EXPECT_EQ(mover.stats.peak_slots[ZINF_CLASS_ACT], 2u);
    EXPECT_EQ(mover.stats.peak_slots[ZINF_CLASS_UNIT], 0u);
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
}

TEST(Mover, SlotTakenOverByAStreamIsNotEmptyWhenItsFormerUserCompletes)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    zinf_loc slot = Slot(ZINF_CLASS_CKPT, 0);
    hand.Add(ZINF_LANE_D2H, {}, {slot});
    hand.Add(ZINF_LANE_H2D, {0}, {}, {slot});
    hand.Add(ZINF_LANE_D2H, {1}, {slot}, {slot});
    hand.Add(ZINF_LANE_CPU, {1}, {slot}, {slot});        /* forgot operation 2 */
    lanes.on_idle = [&](zinf_mover *m, zinf_status *) {
        if (lanes.nr_done < lanes.issued.size())
            zinf_mover_complete(m, lanes.issued[lanes.nr_done++].op, 0);
        return 0;
    };
    EXPECT_EQ(mover.Run(hand.View()), -EPROTO);
    EXPECT_NE(mover.Text().find("operation 2"), std::string::npos) << mover.Text();
    EXPECT_EQ(mover.stats.peak_slots[ZINF_CLASS_CKPT], 1u);
}

TEST(Mover, SlotNotGivenBackOrGivenBackTwiceIsCaught)
{
    for (int twice = 0; twice < 2; twice++) {
        ManualLanes lanes;
        Mover mover(lanes.lanes);
        HandSchedule hand;
        zinf_loc slot = Slot(ZINF_CLASS_CKPT, 0);
        hand.Add(ZINF_LANE_D2H, {}, {slot}, twice ? std::vector<zinf_loc>{slot, slot} : std::vector<zinf_loc>{});
        EXPECT_EQ(mover.Run(hand.View()), -EPROTO);
        EXPECT_NE(mover.Text().find("CKPT[0]"), std::string::npos) << mover.Text();
    }
}

TEST(Mover, CompletionOutOfPlaceEndsTheRun)
{
    for (uint32_t bad : {0u, 1u, 200u, 1000u, ZINF_NONE}) {      /* done, not issued, not in this schedule, in none */
        ManualLanes lanes;
        Mover mover(lanes.lanes);
        HandSchedule hand;
        hand.Add(ZINF_LANE_NVME_READ);
        hand.Add(ZINF_LANE_CPU, {0});
        lanes.on_idle = [&](zinf_mover *m, zinf_status *) {
            if (lanes.nr_done)
                return 0;
            zinf_mover_complete(m, 0, 0);
            zinf_mover_complete(m, bad, 0);
            lanes.nr_done = 1;
            return 0;
        };
        EXPECT_EQ(mover.Run(hand.View()), -EPROTO) << bad;
        EXPECT_NE(mover.Text().find("not in flight"), std::string::npos) << mover.Text();
    }
}

TEST(Mover, RefusingAndCompletingAnOperationIsCaught)
{
    ManualLanes lanes;
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_CPU);
    lanes.on_issue = [](zinf_mover *m, uint32_t op, zinf_status *) {
        zinf_mover_complete(m, op, 0);
        return -EIO;
    };
    EXPECT_EQ(mover.Run(hand.View()), -EPROTO);
    EXPECT_NE(mover.Text().find("cpu"), std::string::npos) << mover.Text();
}

TEST(Mover, CompletionInsideIssueIsTaken)
{
    ManualLanes lanes;
    for (bool serial : {false, true}) {
        Mover mover(lanes.lanes, serial);
        HandSchedule hand;
        for (uint32_t i = 0; i < 50; i++)
            hand.Add((zinf_lane)(i % ZINF_NR_LANES), i ? std::vector<uint32_t>{i - 1} : std::vector<uint32_t>{});
        lanes.on_issue = [](zinf_mover *m, uint32_t op, zinf_status *) { return zinf_mover_complete(m, op, 0), 0; };
        lanes.on_idle = [](zinf_mover *, zinf_status *) { return 0; };
        EXPECT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    }
}

TEST(Mover, WrongSchedulesAreRefusedBeforeAnythingIsIssued)
{
    ManualLanes lanes;
    lanes.lanes[ZINF_LANE_SYNC].issue = nullptr;
    Mover mover(lanes.lanes);
    HandSchedule self, absent, slot, is_long;
    self.Add(ZINF_LANE_CPU, {0});
    absent.Add(ZINF_LANE_SYNC);
    slot.Add(ZINF_LANE_CPU, {}, {Slot(ZINF_CLASS_UNIT, 3)});
    for (int i = 0; i < 257; i++)
        is_long.Add(ZINF_LANE_CPU);
    for (HandSchedule *s : {&self, &absent, &slot, &is_long}) {
        EXPECT_EQ(mover.Run(s->View()), -EINVAL);
        EXPECT_NE(mover.Text(), "");
    }
    HandSchedule range;
    range.Add(ZINF_LANE_CPU);
    zinf_schedule s = *range.View();
    s.ops[0].dep = 5, s.ops[0].nr_deps = UINT32_MAX;
    EXPECT_EQ(mover.Run(&s), -EINVAL);
    EXPECT_TRUE(lanes.issued.empty());
    HandSchedule empty;
    EXPECT_EQ(mover.Run(empty.View()), 0);
}

struct StoppedClock {
    uint64_t ns = 1000;
    zinf_clock clock{[](void *c) { return static_cast<StoppedClock *>(c)->ns; }, [](void *, uint64_t) {}, this};
};

TEST(Mover, BusyAndStallAreCountedPerLane)
{
    /* read 0 [0,10) read 1 [0,30) cpu 2 waits for read 1: [30,35). */
    StoppedClock t;
    ManualLanes lanes;
    Mover mover(lanes.lanes, false, &t.clock);
    HandSchedule hand;
    hand.Add(ZINF_LANE_NVME_READ).op.nbytes = 100;
    hand.Add(ZINF_LANE_NVME_READ).op.nbytes = 11;
    hand.Add(ZINF_LANE_CPU, {1});
    const uint64_t done_at[] = {1010, 1030, 1035};
    lanes.on_idle = [&](zinf_mover *m, zinf_status *) {
        if (lanes.nr_done < lanes.issued.size()) {
            t.ns = done_at[lanes.nr_done];
            zinf_mover_complete(m, lanes.issued[lanes.nr_done++].op, 0);
        }
        return 0;
    };
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    const zinf_lane_stats &read = mover.stats.lane[ZINF_LANE_NVME_READ], &cpu = mover.stats.lane[ZINF_LANE_CPU];
    EXPECT_EQ(read.nbytes, 111u);
    EXPECT_EQ(read.nr_ops, 2u);
    EXPECT_EQ(read.busy_ns, 30u);
    EXPECT_EQ(read.stall_ns, 0u);
    EXPECT_EQ(cpu.busy_ns, 5u);
    EXPECT_EQ(cpu.stall_ns, 30u);
    EXPECT_EQ(mover.stats.lane[ZINF_LANE_COMPUTE].stall_ns, 0u);
    EXPECT_EQ(mover.stats.wall_ns, 35u);
    EXPECT_EQ(mover.times[2].issue_ns, 1030u);
    EXPECT_EQ(mover.times[2].done_ns, 1035u);
}

TEST(Mover, OperationThatNeverAnswersIsNamedInTheLog)
{
    /* The operation completes when, and only when, the line about it has come. */
    struct Ctx { zinf_mover *m; std::string line; bool done; } ctx{nullptr, "", false};
    struct zinf_log log{ZINF_LOG_WARN, [](void *c, zinf_log_level, const char *line) {
                     auto *x = static_cast<Ctx *>(c);
                     x->line = line;
                     if (!x->done)
                         zinf_mover_complete(x->m, 0, 0);
                     x->done = true;
                 }, &ctx};
    ManualLanes lanes;
    lanes.on_idle = [](zinf_mover *, zinf_status *) { return 0; };
    Mover mover(lanes.lanes, false, nullptr, 1, &log);
    ctx.m = mover.m;
    HandSchedule hand;
    hand.Add(ZINF_LANE_COMM);
    ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    EXPECT_NE(ctx.line.find("on lane comm"), std::string::npos) << ctx.line;
}

TEST(Mover, SignalsDoNotDisturb)
{
    struct sigaction sa = {}, old;
    sa.sa_handler = [](int) {};
    ASSERT_EQ(sigaction(SIGUSR1, &sa, &old), 0);
    ManualLanes lanes;
    lanes.on_idle = [](zinf_mover *, zinf_status *) { return 0; };
    Mover mover(lanes.lanes);
    HandSchedule hand;
    hand.Add(ZINF_LANE_COMPUTE);
    pthread_t self = pthread_self();
    std::thread worker;
    lanes.on_issue = [&](zinf_mover *m, uint32_t op, zinf_status *) {
        worker = std::thread([m, op, self] {
            for (int i = 0; i < 200; i++) {
                pthread_kill(self, SIGUSR1);
                std::this_thread::yield();
            }
            zinf_mover_complete(m, op, 0);
        });
        return 0;
    };
    EXPECT_EQ(mover.Run(hand.View()), 0) << mover.Text();
    worker.join();
    sigaction(SIGUSR1, &old, nullptr);
}

TEST(Mover, MayBeClosedWhileTheLastCompletionReturns)
{
    for (int round = 0; round < 200; round++) {
        ManualLanes lanes;
        lanes.on_idle = [](zinf_mover *, zinf_status *) { return 0; };
        std::vector<std::thread> workers;
        {
            Mover mover(lanes.lanes);
            HandSchedule hand;
            hand.Add(ZINF_LANE_COMPUTE), hand.Add(ZINF_LANE_CPU), hand.Add(ZINF_LANE_H2D);
            lanes.on_issue = [&](zinf_mover *m, uint32_t op, zinf_status *) {
                workers.emplace_back([m, op] { zinf_mover_complete(m, op, 0); });
                return 0;
            };
            ASSERT_EQ(mover.Run(hand.View()), 0) << mover.Text();
        }
        for (std::thread &w : workers)
            w.join();
    }
}

}  // namespace
