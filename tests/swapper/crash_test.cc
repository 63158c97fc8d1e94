/* tests/swapper/crash_test.cc - the commit protocol against every crash: what is left is a whole state, the last committed one or
 * the one that is being committed; and protocols that are wrong are seen to be. */
#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "swapper/record.h"
#include "swapper/schedule.h"
#include "tests/swapper/crash_rig.h"
#include "tests/swapper/store_rig.h"

namespace {

using namespace zinf_test;

/* Four grains, each with weights and state: eight writes in a step. */
Config Small()
{
    Config s;
    s.spec.units = {kChunk, kChunk, kChunk, kChunk};
    s.spec.grain = kChunk;
    return s;
}

void StepEveryTime(Session &run)
{
    for (zinf_sched_kind k : {ZINF_SCHED_FIRST, ZINF_SCHED_STEADY, ZINF_SCHED_SKIP, ZINF_SCHED_STEADY, ZINF_SCHED_FLUSH, ZINF_SCHED_FIRST,
                              ZINF_SCHED_FLUSH_SKIP, ZINF_SCHED_FIRST, ZINF_SCHED_FLUSH})
        run.Step(k, true);
}

/* every N, N = 3, with a skip between commits, one that commits, and a flush. */
void EveryThird(Session &run)
{
    run.Step(ZINF_SCHED_FIRST, false);
    run.Step(ZINF_SCHED_STEADY, false);
    run.Step(ZINF_SCHED_STEADY, false);
    run.Step(ZINF_SCHED_STEADY, true);
    run.Step(ZINF_SCHED_SKIP, false);
    run.Step(ZINF_SCHED_STEADY, false);
    run.Step(ZINF_SCHED_SKIP, true);
    run.Step(ZINF_SCHED_STEADY, false);
    run.Step(ZINF_SCHED_FLUSH, true);
}

void ExpectNothingLost(const Explorer::Report &r, size_t nr_generations)
{
    EXPECT_EQ(r.violations, 0u) << r.first << " (of " << r.images << " images)";
    EXPECT_EQ(r.found.size(), nr_generations);
    EXPECT_GT(r.images, 400u);
    printf("%zu crashes\n", r.images);
}

TEST(Crash, CommitInEveryStepLosesNothing)
{
    for (uint64_t reorder : {0, 5}) {
        Config config = Small();
        config.reorder = reorder;
        PlanPtr plan = MakePlan(config.spec);
        Session run(plan.get(), config);
        run.Start();
        StepEveryTime(run);
        ExpectNothingLost(Explorer(plan.get(), run.Take(), 1, 1000).Everywhere(), 7);
    }
}

TEST(Crash, CommitInEveryThirdStepLosesNothing)
{
    Config config = Small();
    config.reorder = 3;
    PlanPtr plan = MakePlan(config.spec);
    Session run(plan.get(), config);
    run.Start();
    EveryThird(run);
    ExpectNothingLost(Explorer(plan.get(), run.Take(), 1, 1000).Everywhere(), 4);
}

TEST(Crash, SeveralDrivesAndFormsOfStateLoseNothing)
{
    Config fp32 = Small(), homes = Small(), bare = Small();
    fp32.nr_dirs = 2, fp32.spec.state_nbytes = 8, fp32.reorder = 7;
    homes.nr_dirs = 3, homes.spec.weights = ZINF_TIER_HOST, homes.backend = "threads";
    bare.spec.state_nbytes = 0, bare.spec.units = {2 * kChunk, 3 * kChunk, kChunk};
    for (const Config &config : {fp32, homes, bare}) {
        PlanPtr plan = MakePlan(config.spec);
        Session run(plan.get(), config);
        run.Start();
        run.Step(ZINF_SCHED_FIRST, true);
        run.Step(ZINF_SCHED_STEADY, true);
        run.Step(ZINF_SCHED_STEADY, true);
        run.Step(ZINF_SCHED_SKIP, true);
        run.Step(ZINF_SCHED_FLUSH, true);
        ExpectNothingLost(Explorer(plan.get(), run.Take(), config.nr_dirs, 200).Everywhere(), 5);
    }
}

/* What a crash after nr_events may leave: every unsynced write as a coin says. */
std::vector<Data> Cut(const Trace &t, size_t nr_events, uint64_t seed)
{
    std::mt19937_64 random(seed);
    std::vector<Data> files = t.files;
    for (size_t i = 0; i < nr_events; i++) {
        const Event &e = t.events[i];
        bool synced = false;
        for (size_t k = i; k < nr_events && e.kind == Event::kTaken; k++)
            synced = synced || (t.events[k].kind == Event::kSyncDone && t.events[k].file == e.file);
        if (e.kind == Event::kTaken && (synced || random() % 2))
            std::copy(e.data.begin(), e.data.end(), files[e.file].begin() + (long)e.off);
    }
    return files;
}

TEST(Crash, CrashesOfAResumedRunLoseNothing)
{
    for (bool every : {true, false}) {
        Config config = Small();
        PlanPtr plan = MakePlan(config.spec);
        Session first(plan.get(), config);
        first.Start();
        every ? StepEveryTime(first) : EveryThird(first);
        const Trace &trace = first.Take();
        size_t begin = 0;                        /* behind record 0 */
        while (trace.events[begin].kind != Event::kSyncDone || trace.events[begin].file + 1 != trace.files.size())
            begin++;
        std::mt19937_64 random(every);
        for (int i = 0; i < 6; i++) {
            std::vector<Data> files = Cut(trace, begin + 1 + random() % (trace.events.size() - begin), random());
            Session second(plan.get(), config);
            for (size_t f = 0; f < files.size(); f++)
                WriteFile(second.rig.temp.path + "/" + trace.names[f], files[f]);
            zinf_record r;
            ASSERT_EQ(zinf_record_load(second.rig.dirs[0].c_str(), 0, UINT64_MAX, &r, nullptr, &second.rig.st), 0)
                << second.rig.Text();
            second.Start(&r, trace.applied.at((int64_t)r.generation));
            zinf_record_free(&r);
            second.Step(ZINF_SCHED_FIRST, true);
            second.Step(ZINF_SCHED_STEADY, every);
            second.Step(ZINF_SCHED_STEADY, every);
            second.Step(ZINF_SCHED_FLUSH, true);
            Explorer::Report report = Explorer(plan.get(), second.Take(), 1, 50).Everywhere();
            EXPECT_EQ(report.violations, 0u) << report.first;
            EXPECT_EQ(report.found.size(), every ? 4u : 2u);
        }
    }
}

/* ---- the test itself: broken protocols must not pass ---- */

class Planted : public ::testing::Test {
protected:
    Planted() : config_(Small()) {}
    void RunSteps()
    {
        plan_ = MakePlan(config_.spec);
        run_ = std::make_unique<Session>(plan_.get(), config_);
        run_->spoil = spoil_;
        run_->Start();
        for (zinf_sched_kind k : {ZINF_SCHED_FIRST, ZINF_SCHED_STEADY, ZINF_SCHED_STEADY, ZINF_SCHED_SKIP, ZINF_SCHED_STEADY})
            run_->Step(k, true);
        trace_ = run_->Take();
        record_ = trace_.files.size() - 1;
    }
    void ExpectCaught()
    {
        Explorer::Report r = Explorer(plan_.get(), trace_, 1, 60).Everywhere();
        EXPECT_GT(r.violations, 0u) << r.images << " images";
        printf("%zu of %zu: %s\n", r.violations, r.images, r.first.c_str());
    }
    void Drop(const std::function<bool(const Event &)> &which)
    {
        size_t before = trace_.events.size();
        trace_.events.erase(std::remove_if(trace_.events.begin(), trace_.events.end(), which), trace_.events.end());
        ASSERT_LT(trace_.events.size(), before);
    }
    static bool IsSync(const Event &e) { return e.kind == Event::kSyncTaken || e.kind == Event::kSyncDone; }

    Config config_;
    std::function<void(zinf_schedule *)> spoil_;
    PlanPtr plan_;
    std::unique_ptr<Session> run_;
    Trace trace_;
    size_t record_ = 0;
};

TEST_F(Planted, NothingPasses)
{
    RunSteps();
    Explorer::Report r = Explorer(plan_.get(), trace_, 1, 60).Everywhere();
    EXPECT_EQ(r.violations, 0u) << r.first;
}

TEST_F(Planted, NoFlushAtAllIsCaught)
{
    config_.power = false;
    RunSteps();
    for (const Event &e : trace_.events)
        ASSERT_FALSE(IsSync(e));
    ExpectCaught();
}

TEST_F(Planted, CommitThatDoesNotWaitForItsWritesIsCaught)
{
    spoil_ = [](zinf_schedule *s) {
        for (uint32_t i = 0; i < s->nr_ops; i++)
            if (s->ops[i].kind == ZINF_OP_COMMIT)
                s->ops[i].nr_deps = 0;
    };
    RunSteps();
    ExpectCaught();
}

TEST_F(Planted, UnflushedDriveIsCaught)
{
    RunSteps();
    Drop([&](const Event &e) { return IsSync(e) && e.file != record_; });
    ExpectCaught();
}

TEST_F(Planted, UnflushedRecordIsCaught)
{
    RunSteps();
    Drop([&](const Event &e) { return IsSync(e) && e.file == record_; });
    ExpectCaught();
}

TEST_F(Planted, RecordBeforeTheFlushIsCaught)
{
    RunSteps();
    auto &v = trace_.events;
    size_t sync = 0, moved = 0;
    for (size_t i = 0; i < v.size(); i++) {
        if (v[i].kind == Event::kSyncTaken && v[i].file != record_)
            sync = i;
        if (v[i].kind == Event::kTaken && v[i].file == record_) {
            std::rotate(v.begin() + (long)sync, v.begin() + (long)i, v.begin() + (long)i + 1);
            moved++;
        }
    }
    ASSERT_EQ(moved, 5u);
    ExpectCaught();
}

TEST_F(Planted, RecordBeforeTheLastWriteIsCaught)
{
    RunSteps();
    auto &v = trace_.events;
    size_t write = 0;
    for (size_t i = 0; i < v.size(); i++) {
        if (v[i].kind == Event::kTaken && v[i].file != record_)
            write = i;
        if (v[i].kind == Event::kTaken && v[i].file == record_)
            std::rotate(v.begin() + (long)write, v.begin() + (long)i, v.begin() + (long)i + 1);
    }
    ExpectCaught();
}

TEST_F(Planted, OneSlotForAllRecordsIsCaught)
{
    RunSteps();
    for (Event &e : trace_.events)
        if (e.file == record_ && e.kind == Event::kTaken)
            e.off = 0;
    ExpectCaught();
}

/* One write of the second step to the extent that the record names. */
TEST_F(Planted, WriteIntoANamedExtentIsCaught)
{
    const uint64_t weights = kChunk * 2, state = kChunk * 10, unit = 2 * (weights + state);
    for (size_t which : {8, 9}) {                        /* a state, weights */
        RunSteps();
        size_t nr = 0;
        for (Event &e : trace_.events)
            if (e.kind == Event::kTaken && e.file != record_ && nr++ == which) {
                uint64_t base = e.off / unit * unit, in = e.off - base;
                if (in < 2 * weights)
                    e.off = base + (in < weights ? weights : 0);
                else
                    e.off = base + 2 * weights + (in < 2 * weights + state ? state : 0);
            }
        ASSERT_GT(nr, which);
        ExpectCaught();
    }
}

TEST_F(Planted, LostWriteIsCaught)
{
    RunSteps();
    size_t nr = 0;
    Drop([&](const Event &e) { return e.kind == Event::kTaken && e.file != record_ && nr++ == 11; });
    ExpectCaught();
}

}  // namespace
