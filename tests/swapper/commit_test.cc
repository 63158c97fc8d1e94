/* tests/swapper/commit_test.cc - a durable store: what is committed is found again, and what would break that is refused. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/fault_io.h"
#include "swapper/mover.h"
#include "swapper/record.h"
#include "swapper/rundir.h"
#include "swapper/schedule.h"
#include "swapper/store.h"
#include "tests/swapper/crash_rig.h"
#include "tests/swapper/hand_schedule.h"
#include "tests/swapper/store_rig.h"
#include "zinf/base/status.h"

namespace {

using namespace zinf_test;

struct Loaded {
    explicit Loaded(const std::string &dir) { rc = zinf_record_load(dir.c_str(), 0, UINT64_MAX, &r, nullptr, &st); }
    ~Loaded() { zinf_record_free(&r); }
    zinf_record r;
    int rc;
    zinf_status st{};
};

void Durable(Rig &rig)
{
    rig.opts.durable = rig.opts.power = rig.opts.checksum = true;
    rig.opts.uuid = kUuid, rig.opts.world = 1, rig.opts.fingerprint = "made up", rig.opts.payload_nbytes = kPayload;
}

/* A durable store with record 0 of PutAll(salt). */
void OpenAndCommit(Rig &rig, uint32_t salt = 0)
{
    Durable(rig);
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    PutAll(rig, salt);
    ASSERT_EQ(zinf_store_commit(rig.store, 0, Payload(0).data(), &rig.st), 0) << rig.Text();
}

void Close(Rig &rig)
{
    zinf_store_close(rig.store);
    rig.store = nullptr;
    rig.st = zinf_status{};
}

void Resume(Rig &rig, const Loaded &from)
{
    ASSERT_EQ(from.rc, 0) << from.st.text;
    rig.opts.resume = &from.r;
    ASSERT_EQ(rig.Reopen(), 0) << rig.Text();
    rig.opts.resume = nullptr;
}

struct zinf_store_info Info(Rig &rig)
{
    struct zinf_store_info info;
    zinf_store_info(rig.store, &info);
    return info;
}

/* Everything below a folder: path -> contents. */
std::map<std::string, Data> Snapshot(const std::string &dir)
{
    std::map<std::string, Data> all;
    for (const auto &e : fs::recursive_directory_iterator(dir))
        all[e.path()] = e.is_regular_file() ? ReadFile(e.path()) : Data();
    return all;
}

/* ---- there and back ---- */

class CommitBackend : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override
    {
        const zinf_io_ops *ops = zinf_io_ops_find(GetParam().name);
        zinf_io_opts o{4, -1, nullptr};
        zinf_io *io = nullptr;
        zinf_status st{};
        if (!ops || ops->open(&o, &io, &st))
            GTEST_SKIP() << GetParam().name << " is not here: " << st.text;
        ops->close(io);
    }
};
INSTANTIATE_TEST_SUITE_P(Every, CommitBackend,
                         ::testing::Values(Backend{"threads", false}, Backend{"io_uring", false}, Backend{"threads", true}),
                         [](const ::testing::TestParamInfo<Backend> &i) {
                             return std::string(i.param.name) + (i.param.reorder ? "_reordered" : "");
                         });

TEST_P(CommitBackend, WhatIsCommittedIsFoundAgain)
{
    for (uint32_t state_nbytes : {0u, 2u, 8u, 10u}) {
        Spec spec;
        spec.state_nbytes = state_nbytes;
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get(), GetParam(), 2);
        rig.opts.lane_depth = 3;
        OpenAndCommit(rig, 11);
        Close(rig);
        Loaded from(rig.dirs[0]);
        Resume(rig, from);
        EXPECT_EQ(from.r.generation, 0u);
        EXPECT_STREQ(from.r.uuid, kUuid);
        EXPECT_STREQ(from.r.fingerprint, "made up");
        EXPECT_EQ(memcmp(from.r.payload, Payload(0).data(), kPayload), 0);
        EXPECT_TRUE(Info(rig).has_record);
        for (uint32_t g = 0; g < plan->nr_grains; g++)
            ExpectGrain(rig, g, 11);
    }
}

TEST_P(CommitBackend, StepsAreCommittedByTheSyncLane)
{
    Config config;
    config.backend = GetParam().name, config.reorder = GetParam().reorder ? 9 : 0, config.nr_dirs = 2;
    PlanPtr plan = MakePlan(config.spec);
    uint32_t applied = 0;
    std::unique_ptr<Loaded> from;
    auto run = std::make_unique<Session>(plan.get(), config);
    for (int life = 0; life < 3; life++) {               /* resumed twice, in the same folders */
        auto next = life ? std::make_unique<Session>(plan.get(), config) : std::move(run);
        if (life)
            for (const std::string &name : run->trace.names)
                WriteFile(next->rig.temp.path + "/" + name, ReadFile(run->rig.temp.path + "/" + name));
        run = std::move(next);
        if (life)
            from = std::make_unique<Loaded>(run->rig.dirs[0]);
        if (life) {
            ASSERT_EQ(from->rc, 0) << from->st.text;
            EXPECT_EQ(memcmp(from->r.payload, Payload(from->r.generation).data(), kPayload), 0);
        }
        run->Start(life ? &from->r : nullptr, applied);
        run->Step(ZINF_SCHED_FIRST, true);
        run->Step(ZINF_SCHED_STEADY, true);
        run->Step(ZINF_SCHED_SKIP, true);
        run->Step(ZINF_SCHED_STEADY, true);
        applied += 2;
        EXPECT_EQ(Info(run->rig).generation, 3u * (uint32_t)(life + 1));
        zinf_store_close(run->rig.store);
        run->rig.store = nullptr;
    }
}

TEST(Commit, SlotsAlternateAlsoWhenEverySecondIterationCommits)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    OpenAndCommit(rig);
    for (uint64_t g : {2, 4, 6}) {
        ASSERT_EQ(zinf_store_commit(rig.store, g, Payload(g).data(), &rig.st), 0) << rig.Text();
        Loaded now(rig.dirs[0]);
        EXPECT_EQ(now.r.generation, g);
        EXPECT_EQ(now.r.slot, g / 2 % 2);
        zinf_record before;
        ASSERT_EQ(zinf_record_load(rig.dirs[0].c_str(), 0, g, &before, nullptr, &rig.st), 0) << rig.Text();
        EXPECT_EQ(before.generation, g - 2);
        zinf_record_free(&before);
    }
}

TEST(Commit, PutAfterARecordIsInvisibleUntilTheNextOne)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get(), {"threads", false}, 2);
    OpenAndCommit(rig, 0);
    PutAll(rig, 500);
    EXPECT_TRUE(Info(rig).dirty);
    ExpectGrain(rig, 1, 500);
    Close(rig);
    Resume(rig, Loaded(rig.dirs[0]));                    /* as if it had been killed */
    ExpectGrain(rig, 1, 0);
    PutAll(rig, 600);
    ASSERT_EQ(zinf_store_commit(rig.store, 1, Payload(1).data(), &rig.st), 0) << rig.Text();
    EXPECT_FALSE(Info(rig).dirty);
    PutAll(rig, 700);
    Close(rig);
    Resume(rig, Loaded(rig.dirs[0]));
    for (uint32_t g = 0; g < plan->nr_grains; g++)
        ExpectGrain(rig, g, 600);
}

TEST(Commit, HomesAreRestoredFromTheDrives)
{
    for (zinf_tier weights : {ZINF_TIER_HOST, ZINF_TIER_DEVICE}) {
        Spec spec;
        spec.weights = weights;
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get());
        OpenAndCommit(rig, 3);
        Close(rig);
        memset(rig.host, 0x77, plan->use[1]);
        memset(rig.device, 0x77, plan->use[0]);
        Resume(rig, Loaded(rig.dirs[0]));
        for (uint32_t g = 0; g < plan->nr_grains; g++) {
            Data w(rig.WeightBytes(g)), s(rig.StateBytes(g)), want = Bytes(w.size(), g + 3);
            ASSERT_EQ(zinf_store_restore_grain(rig.store, g, w.data(), s.data(), &rig.st), 0) << rig.Text();
            uint32_t u = plan->grains[g].unit;
            auto *host = (unsigned char *)zinf_store_addr(rig.store, zinf_loc{ZINF_AT_WEIGHT_HOST, 0, u}, g);
            auto *device = (unsigned char *)zinf_store_addr(rig.store, zinf_loc{ZINF_AT_WEIGHT_DEVICE, 0, u}, 0);
            EXPECT_EQ(host != nullptr || device != nullptr, true);
            if (host) {
                EXPECT_EQ(memcmp(host, want.data(), want.size()), 0) << g;
            }
            if (device) {
                EXPECT_EQ(memcmp(device + plan->grains[g].first_elem * 2, want.data(), want.size()), 0) << g;
            }
        }
        EXPECT_EQ(zinf_store_restore_grain(rig.store, plan->nr_grains, nullptr, nullptr, &rig.st), -EINVAL);
    }
}

/* ---- order and failure ---- */

TEST(Commit, DrivesAreFlushedBeforeTheRecordAndTheRecordAfterIt)
{
    for (bool power : {true, false}) {
        Config config = {};
        config.nr_dirs = 3, config.power = power, config.reorder = 4;
        PlanPtr plan = MakePlan(config.spec);
        Session run(plan.get(), config);
        run.Start();
        run.Step(ZINF_SCHED_FIRST, true);
        run.Step(ZINF_SCHED_STEADY, true);
        const Trace &t = run.Take();
        size_t record = t.files.size() - 1, nr_records = 0;
        int pending = 0;
        std::set<size_t> flushed;
        for (const Event &e : t.events) {
            bool sync = e.kind == Event::kSyncTaken || e.kind == Event::kSyncDone;
            EXPECT_TRUE(power || !sync);
            if (!sync && e.file != record) {
                pending += e.kind == Event::kTaken ? 1 : -1;
                flushed.clear();
            }
            EXPECT_TRUE(e.kind != Event::kSyncTaken || pending == 0);
            if (e.kind == Event::kSyncDone && e.file != record)
                flushed.insert(e.file);
            if (e.kind == Event::kTaken && e.file == record) {
                EXPECT_EQ(flushed.size(), power ? 3u : 0u);
                EXPECT_EQ(pending, 0);
                nr_records++;
            }
        }
        EXPECT_EQ(nr_records, 2u);
    }
}

TEST(Commit, OtherLanesGoOnMeanwhile)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    zinf_io_fault_rule slow{};
    slow.dirs = ZINF_IO_FAULT_DIR(ZINF_IO_SYNC), slow.action = ZINF_IO_FAULT_DELAY, slow.arg = 200, slow.first = 3, slow.every = 1;
    rig.UseFaults();
    rig.script.rules = &slow, rig.script.nr_rules = 1;
    OpenAndCommit(rig);
    std::vector<uint32_t> order;
    Now cpu;
    cpu.work = [&](const zinf_schedule *, uint32_t op) { order.push_back(op); };
    rig.lanes[ZINF_LANE_CPU] = cpu.Lane();
    HandSchedule s;
    s.Add(ZINF_LANE_SYNC).op.kind = ZINF_OP_COMMIT;
    ReadState(s, 0, 0);
    s.Add(ZINF_LANE_CPU, {1}, {}, {Slot(ZINF_CLASS_STATE, 0)});
    s.Add(ZINF_LANE_CPU, {0});
    zinf_store_next_record(rig.store, 1, Payload(1).data());
    std::vector<zinf_op_times> times(4);
    ASSERT_EQ(zinf_mover_run(rig.mover, s.View(), nullptr, times.data(), &rig.st), 0) << rig.Text();
    EXPECT_EQ(order, (std::vector<uint32_t>{2, 3}));
    EXPECT_LE(times[2].done_ns, times[0].done_ns);
    EXPECT_EQ(Info(rig).generation, 1u);
}

/* I8, for every request of a step: the old record stays, and nothing else is written. */
TEST(Commit, AFailedWriteOrSyncEndsCommits)
{
    Config config = Config{};
    config.spec.units = {kChunk, kChunk, kChunk};
    PlanPtr plan = MakePlan(config.spec);
    uint32_t nr_failed = 0;
    for (uint32_t nth = 1;; nth++) {
        Rig rig(plan.get());
        zinf_io_fault_rule rule{};
        rule.dirs = ZINF_IO_FAULT_DIR(ZINF_IO_WRITE) | ZINF_IO_FAULT_DIR(ZINF_IO_SYNC);
        rule.action = ZINF_IO_FAULT_RESULT, rule.arg = -EIO, rule.max_nr = 1;
        rule.first = 9 + nth;                            /* 6 puts, flush, record, flush */
        rig.UseFaults();
        rig.script.rules = &rule, rig.script.nr_rules = 1;
        OpenAndCommit(rig, 0);
        HandSchedule s;
        std::vector<uint32_t> writes;
        Now cpu;
        cpu.work = [&](const zinf_schedule *, uint32_t) {
            memset(rig.host, 0x55, plan->use[1]);
        };
        rig.lanes[ZINF_LANE_CPU] = cpu.Lane();
        s.Add(ZINF_LANE_CPU, {}, {Slot(ZINF_CLASS_STATE, 0), Slot(ZINF_CLASS_WEIGHT, 0)});
        for (uint32_t g = 0; g < 3; g++) {
            WriteGrain(s, g, Slot(ZINF_CLASS_WEIGHT, 0), 0, {0});
            writes.push_back(g + 1);
        }
        s.Add(ZINF_LANE_SYNC, writes).op.kind = ZINF_OP_COMMIT;
        s.Add(ZINF_LANE_CPU, {4}, {}, {Slot(ZINF_CLASS_STATE, 0), Slot(ZINF_CLASS_WEIGHT, 0)});
        s.flips.assign(3, 1);
        zinf_store_next_record(rig.store, 1, Payload(1).data());
        int rc = rig.Run(s);
        if (!rc)
            break;
        nr_failed++;
        EXPECT_EQ(rc, -EIO);
        EXPECT_NE(rig.Text().find(rig.temp.path), std::string::npos) << rig.Text();
        EXPECT_EQ(Info(rig).commit_rc, -EIO);
        EXPECT_EQ(Info(rig).generation, 0u);
        size_t before = rig.log.nr;
        rig.st = zinf_status{};
        EXPECT_EQ(zinf_store_commit(rig.store, 2, Payload(2).data(), &rig.st), -EIO);
        EXPECT_NE(rig.Text().find("iteration 0 is what is kept"), std::string::npos) << rig.Text();
        zinf_store_next_record(rig.store, 2, Payload(2).data());
        HandSchedule skip, write;
        skip.Add(ZINF_LANE_SYNC).op.kind = ZINF_OP_COMMIT;
        EXPECT_EQ(rig.Run(skip), -EIO);
        WriteGrain(write, 0, Slot(ZINF_CLASS_WEIGHT, 0), 0, {});
        EXPECT_EQ(rig.Run(write), -EIO);
        Data w(rig.WeightBytes(0)), st(rig.StateBytes(0));
        EXPECT_EQ(zinf_store_put_grain(rig.store, 0, w.data(), st.data(), nullptr), -EIO);
        EXPECT_EQ(rig.log.nr, before);                   /* not one request */
        rig.script.nr_rules = 0;
        Close(rig);
        Loaded from(rig.dirs[0]);
        ASSERT_EQ(from.rc, 0) << from.st.text;
        if (from.r.generation)                           /* its flush failed: it is there or not, and so is its state */
            continue;
        Resume(rig, from);
        for (uint32_t g = 0; g < 3; g++)
            ExpectGrain(rig, g, 0);
        ASSERT_LT(nth, 50u);
    }
    EXPECT_EQ(nr_failed, 9u);                            /* 6 writes, flush, record, flush */
}

TEST(Commit, FailedFirstRecordLeavesNone)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    zinf_io_fault_rule rule{};
    rule.dirs = ZINF_IO_FAULT_DIR(ZINF_IO_SYNC), rule.action = ZINF_IO_FAULT_RESULT, rule.arg = -EIO;
    rig.UseFaults();
    rig.script.rules = &rule, rig.script.nr_rules = 1;
    Durable(rig);
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    PutAll(rig, 0);
    EXPECT_EQ(zinf_store_commit(rig.store, 0, Payload(0).data(), &rig.st), -EIO);
    EXPECT_NE(rig.Text().find("/state-0"), std::string::npos) << rig.Text();
    EXPECT_FALSE(Info(rig).has_record);
    EXPECT_EQ(Loaded(rig.dirs[0]).rc, -ENOENT);
    EXPECT_FALSE(zinf_store_has_record(rig.dirs[0].c_str(), nullptr));
}

/* ---- what is refused ---- */

TEST(Commit, SchedulesThatBreakTheProtocolAreRefused)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    Durable(rig);
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    PutAll(rig, 0);
    HandSchedule commit;
    commit.Add(ZINF_LANE_SYNC).op.kind = ZINF_OP_COMMIT;
    zinf_store_next_record(rig.store, 1, Payload(1).data());
    EXPECT_EQ(rig.Run(commit), -EPROTO) << "before the first record";
    ASSERT_EQ(zinf_store_commit(rig.store, 1, Payload(1).data(), &rig.st), 0) << rig.Text();
    EXPECT_EQ(rig.Run(commit), -EPROTO) << "without a record to write";
    zinf_store_next_record(rig.store, 1, Payload(1).data());
    EXPECT_EQ(rig.Run(commit), -EPROTO) << "the same iteration again";
    rig.st = zinf_status{};
    EXPECT_EQ(zinf_store_commit(rig.store, 0, Payload(0).data(), &rig.st), -EPROTO);
    zinf_store_next_record(rig.store, 2, Payload(2).data());
    commit.flips.assign(plan->nr_grains, 0);
    commit.flips[2] = 1;
    EXPECT_EQ(rig.Run(commit), -EPROTO) << "an extent that was not written";
    EXPECT_NE(rig.Text().find("grain 2"), std::string::npos) << rig.Text();

    Now cpu;
    cpu.work = [](const zinf_schedule *, uint32_t) {};
    rig.lanes[ZINF_LANE_CPU] = cpu.Lane();
    HandSchedule write;
    write.Add(ZINF_LANE_CPU, {}, {Slot(ZINF_CLASS_STATE, 0), Slot(ZINF_CLASS_WEIGHT, 0)});
    WriteGrain(write, 2, Slot(ZINF_CLASS_WEIGHT, 0), 0, {0});
    write.Add(ZINF_LANE_CPU, {1}, {}, {Slot(ZINF_CLASS_STATE, 0), Slot(ZINF_CLASS_WEIGHT, 0)});
    ASSERT_EQ(rig.Run(write), 0) << rig.Text();
    zinf_store_seam(rig.store, write.View());
    EXPECT_TRUE(Info(rig).dirty);
    commit.flips[2] = 0;
    zinf_store_next_record(rig.store, 2, Payload(2).data());
    EXPECT_EQ(rig.Run(commit), -EPROTO) << "the newest bytes are elsewhere";
    HandSchedule stale;
    ReadState(stale, 2, 0);
    EXPECT_EQ(rig.Run(stale), -EPROTO) << "the older bytes";
    write.ops[1].wr[0].loc.sub = ZINF_ROLE_CURRENT;
    EXPECT_EQ(rig.Run(write), -EPROTO) << "into a named extent";
    EXPECT_NE(rig.Text().find("grain 2"), std::string::npos) << rig.Text();
    EXPECT_EQ(Info(rig).commit_rc, 0);
    EXPECT_EQ(Loaded(rig.dirs[0]).r.generation, 1u);
}

TEST(Commit, StoresThatCannotHoldTheWholeStateAreRefused)
{
    Spec ram, half;
    ram.weights = ram.state = ZINF_TIER_HOST;
    half.state = ZINF_TIER_HOST;
    for (const Spec &spec : {ram, half}) {
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get());
        Durable(rig);
        EXPECT_EQ(rig.Open(), -EINVAL);
        EXPECT_NE(rig.Text().find("zinf.durability"), std::string::npos) << rig.Text();
        EXPECT_TRUE(fs::is_empty(rig.dirs[0]));
    }
    PlanPtr plan = MakePlan(Spec());
    Rig anonymous(plan.get());
    Durable(anonymous);
    anonymous.opts.uuid = "x";
    EXPECT_EQ(anonymous.Open(), -EINVAL);
    Rig plain(plan.get());
    ASSERT_EQ(plain.Open(), 0) << plain.Text();
    EXPECT_EQ(zinf_store_commit(plain.store, 0, Payload(0).data(), &plain.st), -EINVAL);
    EXPECT_EQ(zinf_store_lane(plain.store, ZINF_LANE_SYNC).issue, nullptr);
    EXPECT_FALSE(fs::exists(plain.dirs[0] + "/record-0"));
}

TEST(Commit, FailedOpenLeavesNoFile)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    Durable(rig);
    WriteFile(rig.dirs[0] + "/record-0", Data(10, 1));
    EXPECT_EQ(rig.Open(), -EEXIST);
    EXPECT_FALSE(fs::exists(rig.dirs[0] + "/state-0"));
    EXPECT_TRUE(fs::exists(rig.dirs[0] + "/record-0"));  /* was there before */
}

TEST(Resume, EveryDifferenceOfTheLayoutIsNamed)
{
    Spec spec;
    PlanPtr plan = MakePlan(spec);
    Rig rig(plan.get(), {"threads", false}, 2);
    OpenAndCommit(rig);
    Close(rig);
    auto before = Snapshot(rig.temp.path);
    Loaded from(rig.dirs[0]);
    ASSERT_EQ(from.rc, 0);
    rig.opts.resume = &from.r;
    auto refused = [&](const char *what, const zinf_sched_plan *p = nullptr) {
        rig.opts.plan = p ? p : plan.get();
        rig.st = zinf_status{};
        EXPECT_EQ(rig.Reopen(), -EINVAL) << what;
        EXPECT_NE(rig.Text().find(what), std::string::npos) << rig.Text();
        EXPECT_TRUE(Snapshot(rig.temp.path) == before) << what;
    };
    Spec wide = spec, units = spec, grain = spec, more = spec, fp32 = spec;
    wide.units[3] += kChunk, units.units.push_back(kChunk), grain.grain = 4 * kChunk, fp32.state_nbytes = 8;
    more.state = ZINF_TIER_HOST;
    refused("elements of unit 3", MakePlan(wide).get());
    refused("number of units", MakePlan(units).get());
    refused("elements per grain", MakePlan(grain).get());
    refused("optimizer state", MakePlan(fp32).get());
    refused("optimizer state on the drives", MakePlan(more).get());
    rig.opts.nr_dirs = 1;
    refused("number of drives");
    rig.opts.nr_dirs = 2;
    rig.opts.world = 2;
    refused("number of ranks");
    rig.opts.rank = 1;
    refused("the rank");
    rig.opts.rank = 0, rig.opts.world = 1;
    rig.opts.uuid = "11111111-89ab-4def-8123-456789abcdef";
    refused(kUuid);
    rig.opts.uuid = kUuid;
    rig.opts.payload_nbytes = 1 << 20;
    refused("for a record");
    rig.opts.payload_nbytes = kPayload;
    from.r.drive[0] = 2;
    refused("grain 0");
    from.r.drive[0] = 0;
    from.r.drive_align[1] = 4097;
    refused("drive 1");
    from.r.drive_align[1] = 4096;
    rig.opts.plan = plan.get();
    rig.st = zinf_status{};
    EXPECT_EQ(rig.Reopen(), 0) << rig.Text();
    EXPECT_TRUE(Snapshot(rig.temp.path) == before);
}

TEST(Resume, MissingShortAndLongFilesAreNamed)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get(), {"threads", false}, 2);
    OpenAndCommit(rig);
    Close(rig);
    Loaded from(rig.dirs[0]);
    rig.opts.resume = &from.r;
    for (const std::string &name : {rig.dirs[0] + "/state-0", rig.dirs[1] + "/state-0"}) {
        auto size = fs::file_size(name);
        for (int64_t by : {-4096, 4096}) {
            fs::resize_file(name, size + (uint64_t)by);
            rig.st = zinf_status{};
            EXPECT_EQ(rig.Reopen(), -EINVAL);
            EXPECT_NE(rig.Text().find(name), std::string::npos) << rig.Text();
            EXPECT_EQ(fs::file_size(name), size + (uint64_t)by);
            fs::resize_file(name, size);
        }
        fs::rename(name, name + "-away");
        rig.st = zinf_status{};
        EXPECT_EQ(rig.Reopen(), -ENOENT);
        EXPECT_NE(rig.Text().find(name), std::string::npos) << rig.Text();
        EXPECT_FALSE(fs::exists(name));
        fs::rename(name + "-away", name);
    }
    EXPECT_TRUE(fs::exists(rig.dirs[0] + "/record-0"));
}

/* A killed run's record may be in the page cache only. */
TEST(Resume, IsFlushedBeforeAnythingIsWritten)
{
    PlanPtr plan = MakePlan(Spec());
    for (bool power : {true, false}) {
        Rig rig(plan.get(), {"threads", false}, 3);
        rig.UseFaults();
        OpenAndCommit(rig);
        Close(rig);
        size_t before = rig.log.nr, nr_syncs = 0;
        rig.opts.power = power;
        Resume(rig, Loaded(rig.dirs[0]));
        for (size_t i = before; i < rig.log.nr; i++) {
            EXPECT_NE(rig.log.entries[i].dir, ZINF_IO_WRITE);
            nr_syncs += rig.log.entries[i].dir == ZINF_IO_SYNC && rig.log.entries[i].event == ZINF_IO_FAULT_DONE;
        }
        EXPECT_EQ(nr_syncs, power ? 4u : 0u);
    }
}

/* ---- checksums ---- */

TEST(Checksum, EveryPieceOfEveryGrainIsCheckedAndNamed)
{
    for (uint32_t state_nbytes : {10u, 8u}) {
        Spec spec;
        spec.state_nbytes = state_nbytes;
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get());
        OpenAndCommit(rig, 0);
        std::string path = rig.dirs[0] + "/state-0";
        std::set<std::string> names;
        for (uint32_t g = 0; g < plan->nr_grains; g++) {
            Data w(rig.WeightBytes(g)), s(rig.StateBytes(g));
            for (uint32_t piece = 0; piece < ZINF_RECORD_PIECES; piece++) {
                uint64_t off, nbytes;
                bool weight;
                if (!zinf_store_piece(plan.get(), g, piece, &off, &nbytes, &weight)) {
                    EXPECT_TRUE(piece == 3 && state_nbytes == 8);
                    continue;
                }
                /* Where the piece is on the drive: its bytes are found nowhere else. */
                Data want = Bytes(weight ? w.size() : s.size(), g + (weight ? 0 : 1000)), file = ReadFile(path);
                auto at = std::search(file.begin(), file.end(), want.begin() + (long)off, want.begin() + (long)(off + 64));
                ASSERT_NE(at, file.end());
                uint64_t where = (uint64_t)(at - file.begin());
                for (uint64_t in : {uint64_t{0}, nbytes / 2 + 13, nbytes - 1}) {
                    int fd = open(path.c_str(), O_WRONLY);
                    unsigned char bad = file[where + in] ^ 0x10;
                    ASSERT_EQ(pwrite(fd, &bad, 1, (off_t)(where + in)), 1);
                    rig.st = zinf_status{};
                    EXPECT_EQ(zinf_store_get_grain(rig.store, g, w.data(), s.data(), &rig.st), -EBADMSG);
                    std::string text = rig.Text();
                    EXPECT_NE(text.find(path + " at offset " + std::to_string(where)), std::string::npos) << text;
                    EXPECT_NE(text.find("grain " + std::to_string(g)), std::string::npos) << text;
                    EXPECT_NE(text.find("unit " + std::to_string(plan->grains[g].unit)), std::string::npos) << text;
                    names.insert(text.substr(text.find("): ") + 3, text.find(" of unit") - text.find("): ") - 3));
                    ASSERT_EQ(pwrite(fd, &file[where + in], 1, (off_t)(where + in)), 1);
                    close(fd);
                }
            }
            ExpectGrain(rig, g, 0);
        }
        EXPECT_EQ(names, state_nbytes == 10 ? (std::set<std::string>{"weights", "lo", "m", "v"})
                                            : (std::set<std::string>{"weights", "m", "v"}));
    }
}

TEST(Checksum, PiecesCoverWeightsAndStateOnce)
{
    for (uint32_t state_nbytes : {0u, 2u, 4u, 8u, 10u, 16u}) {
        Spec spec;
        spec.state_nbytes = state_nbytes;
        PlanPtr plan = MakePlan(spec);
        for (uint32_t g = 0; g < plan->nr_grains; g++) {
            uint64_t at[2] = {0, 0}, off, nbytes;
            bool weight;
            for (uint32_t i = 0; i < ZINF_RECORD_PIECES; i++) {
                if (!zinf_store_piece(plan.get(), g, i, &off, &nbytes, &weight))
                    continue;
                EXPECT_EQ(off, at[weight]);
                EXPECT_EQ(weight, i == 0);
                at[weight] += nbytes;
            }
            EXPECT_EQ(at[1], plan->grains[g].nr_elems * 2);
            EXPECT_EQ(at[0], plan->grains[g].nr_elems * state_nbytes);
            EXPECT_FALSE(zinf_store_piece(plan.get(), g, ZINF_RECORD_PIECES, &off, &nbytes, &weight));
        }
    }
}

TEST(Checksum, RolesFollowTheExtents)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    rig.opts.checksum = true;
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    EXPECT_EQ(zinf_store_crc(rig.store, 1, ZINF_ROLE_CURRENT), nullptr);
    uint32_t a[ZINF_RECORD_PIECES] = {1, 2, 3, 4}, b[ZINF_RECORD_PIECES] = {5, 6, 7, 8};
    zinf_store_set_crc(rig.store, 1, ZINF_ROLE_CURRENT, a);
    zinf_store_set_crc(rig.store, 1, ZINF_ROLE_ALTERNATE, b);
    EXPECT_EQ(zinf_store_crc(rig.store, 1, ZINF_ROLE_CURRENT)[0], 1u);
    HandSchedule flip;
    flip.flips.assign(plan->nr_grains, 0);
    flip.flips[1] = 1;
    zinf_store_seam(rig.store, flip.View());
    EXPECT_EQ(zinf_store_crc(rig.store, 1, ZINF_ROLE_CURRENT)[3], 8u);
    EXPECT_EQ(zinf_store_crc(rig.store, 1, ZINF_ROLE_ALTERNATE)[3], 4u);
    EXPECT_EQ(zinf_store_crc(rig.store, 0, ZINF_ROLE_ALTERNATE), nullptr);
    zinf_status st{};
    EXPECT_EQ(zinf_store_crc_fail(rig.store, 1, ZINF_ROLE_CURRENT, 2, 0xABCD, &st), -EBADMSG);
    EXPECT_NE(std::string(st.text).find("m of unit 0, grain 1: checksum 00000007 expected, 0000abcd found"), std::string::npos)
        << st.text;
}

TEST(Checksum, CanBeOffAndOnAgain)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    Durable(rig);
    rig.opts.checksum = false;
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    PutAll(rig, 0);
    EXPECT_EQ(zinf_store_crc(rig.store, 0, ZINF_ROLE_CURRENT), nullptr);
    ASSERT_EQ(zinf_store_commit(rig.store, 0, Payload(0).data(), &rig.st), 0) << rig.Text();
    Close(rig);
    rig.opts.checksum = true;
    {
        Loaded from(rig.dirs[0]);
        EXPECT_FALSE(from.r.has_crc);
        Resume(rig, from);
    }
    EXPECT_EQ(zinf_store_crc(rig.store, 0, ZINF_ROLE_CURRENT), nullptr);
    ExpectGrain(rig, 0, 0);
    PutAll(rig, 20);
    ASSERT_EQ(zinf_store_commit(rig.store, 1, Payload(1).data(), &rig.st), 0) << rig.Text();
    Close(rig);
    Loaded from(rig.dirs[0]);
    EXPECT_TRUE(from.r.has_crc);
    Resume(rig, from);
    EXPECT_NE(zinf_store_crc(rig.store, 0, ZINF_ROLE_CURRENT), nullptr);
    ExpectGrain(rig, 0, 20);
}

/* ---- folders ---- */

/* Run folders on two drives: what a sweep leaves and what it takes. */
TEST(Folders, OfEveryDriveAreACheckpointOnceThereIsARecord)
{
    for (bool committed : {true, false}) {
        TempDir temp;
        std::string drives[2] = {temp.path + "/a", temp.path + "/b"};
        zinf_rundir dirs[2];
        zinf_status st{};
        PlanPtr plan = MakePlan(Spec());
        Rig rig(plan.get(), {"threads", false}, 0);
        for (int i = 0; i < 2; i++) {
            fs::create_directory(drives[i]);
            ASSERT_EQ(zinf_rundir_create(drives[i].c_str(), kUuid, &dirs[i], &st), 0) << st.text;
            rig.dirs.push_back(dirs[i].path);
        }
        Durable(rig);
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        PutAll(rig, 0);
        if (committed) {
            ASSERT_EQ(zinf_store_commit(rig.store, 0, Payload(0).data(), &rig.st), 0) << rig.Text();
        }
        Close(rig);
        for (int i = 0; i < 2; i++)
            zinf_rundir_close(&dirs[i], false, &st);
        uint64_t freed = 0;
        for (int i : {1, 0})
            ASSERT_EQ(zinf_rundir_sweep(drives[i].c_str(), zinf_store_has_record, nullptr, &freed, nullptr, &st), 0);
        EXPECT_EQ(fs::exists(dirs[0].path), committed);
        EXPECT_EQ(fs::exists(dirs[1].path), committed);
        EXPECT_EQ(freed == 0, committed);
        if (!committed)
            continue;
        /* The first drive is away: nobody can say. */
        fs::rename(drives[0], temp.path + "/away");
        EXPECT_TRUE(zinf_store_has_record(dirs[1].path, nullptr));
        fs::rename(temp.path + "/away", drives[0]);
        /* Both of its records are ruined: that is no reason to delete what a person may still save. */
        WriteFile(std::string(dirs[0].path) + "/record-0", Data(1 << 15, 7));
        EXPECT_TRUE(zinf_store_has_record(dirs[0].path, nullptr));
        EXPECT_TRUE(zinf_store_has_record(dirs[1].path, nullptr));
        /* A first record that was cut off: garbage on both. */
        zinf_test::Data cut(1 << 15, 0);
        std::fill_n(cut.begin(), 1 << 14, 7);
        WriteFile(std::string(dirs[0].path) + "/record-0", cut);
        EXPECT_FALSE(zinf_store_has_record(dirs[0].path, nullptr));
        EXPECT_FALSE(zinf_store_has_record(dirs[1].path, nullptr));
    }
    EXPECT_FALSE(zinf_store_has_record("/nowhere/at/all", nullptr));
}

}  // namespace
