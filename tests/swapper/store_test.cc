/* tests/swapper/store_test.cc - the store on every backend: bytes in, bytes out, roles, failures with their place. */
#include "swapper/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "io/fault_io.h"
#include "swapper/arena.h"
#include "swapper/extents.h"
#include "swapper/mover.h"
#include "tests/swapper/hand_schedule.h"
#include "tests/swapper/store_rig.h"

/* The linker sends the C code's allocations through these (BUILD: --wrap). */
static std::atomic<uint64_t> nr_allocations{0};
extern "C" {
void *__real_malloc(size_t nbytes);
void *__real_calloc(size_t nr, size_t nbytes);
void *__real_realloc(void *p, size_t nbytes);
int __real_posix_memalign(void **out, size_t align, size_t nbytes);
void *__wrap_malloc(size_t nbytes) { return nr_allocations++, __real_malloc(nbytes); }
void *__wrap_calloc(size_t nr, size_t nbytes) { return nr_allocations++, __real_calloc(nr, nbytes); }
void *__wrap_realloc(void *p, size_t nbytes) { return nr_allocations++, __real_realloc(p, nbytes); }
int __wrap_posix_memalign(void **out, size_t align, size_t nbytes)
{
    return nr_allocations++, __real_posix_memalign(out, align, nbytes);
}
}

namespace {

using namespace zinf_test;

/* ---- every backend ---- */

class StoreBackend : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override
    {
        const zinf_io_ops *ops = zinf_io_ops_find(GetParam().name);
        if (!ops)
            GTEST_SKIP() << GetParam().name << " is not compiled in";
        zinf_io_opts o{4, -1, nullptr};
        zinf_io *io = nullptr;
        zinf_status st{};
        if (ops->open(&o, &io, &st))
            GTEST_SKIP() << st.text;
        ops->close(io);
    }
};
INSTANTIATE_TEST_SUITE_P(Every, StoreBackend,
                         ::testing::Values(Backend{"threads", false}, Backend{"io_uring", false}, Backend{"mem", false},
                                           Backend{"threads", true}),
                         [](const ::testing::TestParamInfo<Backend> &i) {
                             return std::string(i.param.name) + (i.param.reorder ? "_reordered" : "");
                         });

TEST_P(StoreBackend, GrainsRoundTripInEveryPairOfTiers)
{
    const std::pair<zinf_tier, zinf_tier> pairs[] = {
        {ZINF_TIER_DEVICE, ZINF_TIER_DEVICE}, {ZINF_TIER_DEVICE, ZINF_TIER_HOST}, {ZINF_TIER_DEVICE, ZINF_TIER_NVME},
        {ZINF_TIER_HOST, ZINF_TIER_HOST},     {ZINF_TIER_HOST, ZINF_TIER_NVME},   {ZINF_TIER_NVME, ZINF_TIER_HOST},
        {ZINF_TIER_NVME, ZINF_TIER_NVME},
    };
    for (auto [weights, state] : pairs) {
        for (uint32_t state_nbytes : {10u, 0u}) {
            Spec spec;
            spec.weights = weights, spec.state = state, spec.state_nbytes = state_nbytes;
            PlanPtr plan = MakePlan(spec);
            Rig rig(plan.get(), GetParam(), 2);
            ASSERT_EQ(rig.Open(), 0) << rig.Text();
            PutAll(rig, 7);
            for (uint32_t g = 0; g < plan->nr_grains; g++)
                ExpectGrain(rig, g, 7);
            struct zinf_store_info info;
            zinf_store_info(rig.store, &info);
            bool drive = weights == ZINF_TIER_NVME || state == ZINF_TIER_NVME;
            EXPECT_EQ(info.drive_nbytes, plan->drive_nbytes);
            EXPECT_EQ(std::string(info.backend) == "none", !drive);
            EXPECT_EQ(info.io.written_nbytes > 0, drive);
        }
    }
}

TEST_P(StoreBackend, WrittenGrainsBecomeCurrentAtTheSeam)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get(), GetParam(), 3);
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    PutAll(rig, 0);
    const uint32_t u = 4;                            /* two grains, one of them flips */
    uint32_t g0 = plan->unit_first_grain[u], g1 = g0 + 1;
    ASSERT_EQ(plan->unit_first_grain[u + 1], g0 + 2);
    Now cpu;
    uint32_t salt = 0;
    cpu.work = [&](const zinf_schedule *, uint32_t) {
        auto *w = (unsigned char *)zinf_store_addr(rig.store, Slot(ZINF_CLASS_WEIGHT, 0), g0);
        auto *s = (unsigned char *)zinf_store_addr(rig.store, Slot(ZINF_CLASS_STATE, 0), 0);
        auto was = Bytes(rig.WeightBytes(g0), g0 + salt), other = Bytes(rig.WeightBytes(g1), g1);
        EXPECT_EQ(memcmp(w, was.data(), was.size()), 0);
        EXPECT_EQ(memcmp(w + was.size(), other.data(), other.size()), 0);
        auto was_state = Bytes(rig.StateBytes(g0), g0 + salt + 1000);
        EXPECT_EQ(memcmp(s, was_state.data(), was_state.size()), 0);
        salt += 50;
        auto w2 = Bytes(rig.WeightBytes(g0), g0 + salt), s2 = Bytes(rig.StateBytes(g0), g0 + salt + 1000);
        memcpy(w, w2.data(), w2.size());
        memcpy(s, s2.data(), s2.size());
    };
    rig.lanes[ZINF_LANE_CPU] = cpu.Lane();
    for (int step = 0; step < 3; step++) {
        HandSchedule s;
        ReadWeights(s, plan.get(), u, 0);
        ReadState(s, g0, 0);
        s.Add(ZINF_LANE_CPU, {0, 1});
        WriteGrain(s, g0, Slot(ZINF_CLASS_WEIGHT, 0), 0, {2});
        s.Add(ZINF_LANE_CPU, {3}, {}, {Slot(ZINF_CLASS_WEIGHT, 0), Slot(ZINF_CLASS_STATE, 0)}).op.kind = ZINF_OP_NORM;
        auto work = cpu.work;
        cpu.work = [&](const zinf_schedule *sched, uint32_t op) {
            if (sched->ops[op].kind != ZINF_OP_NORM)
                work(sched, op);
        };
        s.flips.assign(plan->nr_grains, 0);
        s.flips[g0] = 1;
        uint32_t before = salt;
        ASSERT_EQ(rig.Run(s), 0) << rig.Text();
        cpu.work = work;
        ExpectGrain(rig, g0, before);                /* invisible until the seam */
        zinf_store_seam(rig.store, s.View());
        ExpectGrain(rig, g0, before + 50);
        for (uint32_t g = 0; g < plan->nr_grains; g++)
            if (g != g0)
                ExpectGrain(rig, g, 0);
    }
}

/* The whole thing: built schedules, the mover, the store; every update adds one to each byte of weights and state. */
void TrainAndCompareBytes(const Backend &backend, const std::vector<std::pair<zinf_sched_kind, uint32_t>> &steps)
{
    for (zinf_tier state : {ZINF_TIER_NVME, ZINF_TIER_HOST}) {
        Spec spec;
        spec.state = state;
        spec.units = {3 * kChunk, 5 * kChunk, 5 * kChunk, 4 * kChunk, 5 * kChunk, 2 * kChunk};
        PlanPtr roomy = MakePlan(spec);
        spec.device_nbytes = roomy->minimum[0], spec.host_nbytes = roomy->minimum[1];
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get(), backend, 2);
        rig.opts.poison = true;
        uint64_t at_start = nr_allocations;
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        EXPECT_GT(nr_allocations, at_start);         /* the counter counts */
        for (uint32_t g = 0; g < plan->nr_grains; g++) {
            std::vector<unsigned char> w(rig.WeightBytes(g), (unsigned char)g), s(rig.StateBytes(g), (unsigned char)(g + 100));
            ASSERT_EQ(zinf_store_put_grain(rig.store, g, w.data(), s.data(), &rig.st), 0) << rig.Text();
        }
        unsigned char t = 0;                         /* updates applied to what this step uses */
        auto all = [](const unsigned char *p, uint64_t n, unsigned char v) {
            return !n || (p[0] == v && !memcmp(p, p + 1, n - 1));
        };
        auto addr = [&](const zinf_access &a) { return (unsigned char *)zinf_store_addr(rig.store, a.loc, a.part); };
        Now now;
        now.work = [&](const zinf_schedule *s, uint32_t op) {
            const zinf_op &o = s->ops[op];
            const zinf_access *rd = s->accesses + o.rd, *wr = s->accesses + o.wr;
            zinf_store_poison(rig.store, s, op);
            if (o.kind == ZINF_OP_UPDATE) {
                unsigned char *st = addr(rd[1]), *w = addr(rd[2]);
                EXPECT_TRUE(all(st, rig.StateBytes(o.grain), (unsigned char)(o.grain + 100 + t - 1))) << o.grain;
                EXPECT_TRUE(all(w, rig.WeightBytes(o.grain), (unsigned char)(o.grain + t - 1))) << o.grain;
                memset(st, (unsigned char)(st[0] + 1), rig.StateBytes(o.grain));
                memset(w, (unsigned char)(w[0] + 1), rig.WeightBytes(o.grain));
            } else if (o.kind == ZINF_OP_UPLOAD && o.what == ZINF_WHAT_WEIGHTS) {
                for (uint32_t i = 0; i < o.nr_rd; i++) {
                    uint32_t g = rd[i].part;
                    memcpy(addr(wr[0]) + plan->grains[g].first_elem * 2, addr(rd[i]), rig.WeightBytes(g));
                }
            } else if (o.kind == ZINF_OP_FORWARD || o.kind == ZINF_OP_BACKWARD) {
                for (uint32_t g = plan->unit_first_grain[o.unit]; g < plan->unit_first_grain[o.unit + 1]; g++)
                    EXPECT_TRUE(all(addr(rd[0]) + plan->grains[g].first_elem * 2, rig.WeightBytes(g), (unsigned char)(g + t)))
                        << "unit " << o.unit << " grain " << g << " in step " << (int)t;
            }
        };
        for (zinf_lane l : {ZINF_LANE_H2D, ZINF_LANE_D2H, ZINF_LANE_COMM, ZINF_LANE_COMPUTE, ZINF_LANE_CPU, ZINF_LANE_SYNC})
            rig.lanes[l] = now.Lane();
        for (auto [kind, flags] : steps) {
            zinf_schedule *s = nullptr;
            ASSERT_EQ(zinf_schedule_build(plan.get(), kind, flags, &s, &rig.st), 0) << rig.Text();
            t += kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_FLUSH;
            uint64_t before = nr_allocations;
            int rc = zinf_mover_run(rig.mover, s, nullptr, nullptr, &rig.st);
            if (backend.name != std::string("mem") && !backend.reorder) {      /* those two keep books */
                EXPECT_EQ(nr_allocations - before, 0u) << zinf_sched_kind_name(kind);
            }
            zinf_store_seam(rig.store, s);
            zinf_schedule_free(s);
            ASSERT_EQ(rc, 0) << rig.Text();
        }
        for (uint32_t g = 0; g < plan->nr_grains; g++) {
            std::vector<unsigned char> w(rig.WeightBytes(g)), s(rig.StateBytes(g));
            ASSERT_EQ(zinf_store_get_grain(rig.store, g, w.data(), s.data(), &rig.st), 0) << rig.Text();
            EXPECT_TRUE(all(w.data(), w.size(), (unsigned char)(g + t))) << g;
            EXPECT_TRUE(all(s.data(), s.size(), (unsigned char)(g + 100 + t))) << g;
        }
    }
}

TEST_P(StoreBackend, TrainingStepsMoveEveryByteThroughEveryTier)
{
    const uint32_t c = ZINF_SCHED_COMMITS;
    TrainAndCompareBytes(GetParam(), {{ZINF_SCHED_FIRST, 0}, {ZINF_SCHED_STEADY, c}, {ZINF_SCHED_SKIP, c},
                                      {ZINF_SCHED_STEADY, c}, {ZINF_SCHED_FLUSH, c}, {ZINF_SCHED_EVAL, 0}});
}

TEST_P(StoreBackend, TrainingStepsThatCommitNowAndThenMoveEveryByteThroughEveryTier)
{
    const uint32_t c = ZINF_SCHED_COMMITS, d = ZINF_SCHED_DIRTY;
    TrainAndCompareBytes(GetParam(), {{ZINF_SCHED_FIRST, 0}, {ZINF_SCHED_STEADY, 0}, {ZINF_SCHED_STEADY, d},
                                      {ZINF_SCHED_SKIP, d}, {ZINF_SCHED_STEADY, c | d}, {ZINF_SCHED_STEADY, 0},
                                      {ZINF_SCHED_FLUSH, d}, {ZINF_SCHED_EVAL, d}, {ZINF_SCHED_FIRST, d}, {ZINF_SCHED_FLUSH_SKIP, c | d}});
}

/* ---- transfers ---- */

uint32_t CountReads(Rig &rig)
{
    uint32_t nr = 0;
    for (size_t i = 0; i < rig.log.nr; i++)
        nr += rig.log.entries[i].event == ZINF_IO_FAULT_TAKEN && rig.log.entries[i].dir == ZINF_IO_READ;
    return nr;
}

TEST(Store, NeighboursAreReadInOnePiece)
{
    Spec spec;
    spec.units = {kChunk, 5 * kChunk, kChunk};
    spec.grain = kChunk;
    PlanPtr plan = MakePlan(spec);
    Rig rig(plan.get());
    rig.UseFaults();
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    PutAll(rig, 0);
    Now cpu;
    cpu.work = [](const zinf_schedule *, uint32_t) {};
    rig.lanes[ZINF_LANE_CPU] = cpu.Lane();
    auto read = [&] {
        HandSchedule s;
        ReadWeights(s, plan.get(), 1, 0);
        s.Add(ZINF_LANE_CPU, {0}, {}, {Slot(ZINF_CLASS_WEIGHT, 0)});
        uint32_t before = CountReads(rig);
        EXPECT_EQ(rig.Run(s), 0) << rig.Text();
        return CountReads(rig) - before;
    };
    EXPECT_EQ(read(), 1u);
    HandSchedule flip;
    flip.flips.assign(plan->nr_grains, 0);
    flip.flips[plan->unit_first_grain[1] + 2] = 1;
    zinf_store_seam(rig.store, flip.View());
    EXPECT_EQ(read(), 3u);                   /* two before, the odd one, two behind */
}

TEST(Store, FailureOfAnyRequestNamesItsPlaceAndDoesNotHang)
{
    Spec spec;
    PlanPtr plan = MakePlan(spec);
    uint32_t u = 1, g = plan->unit_first_grain[1];
    uint32_t nr_failed = 0;
    for (uint32_t nth = 1;; nth++) {
        Rig rig(plan.get(), {"threads", false}, 2);
        rig.UseFaults();
        zinf_io_fault_rule rule{};
        rule.action = ZINF_IO_FAULT_RESULT, rule.arg = -EIO, rule.first = nth;
        rig.script.rules = &rule, rig.script.nr_rules = 1;
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        HandSchedule s;
        Now cpu;
        uint32_t ran = 0;
        cpu.work = [&](const zinf_schedule *, uint32_t) { ran++; };
        rig.lanes[ZINF_LANE_CPU] = cpu.Lane();
        ReadWeights(s, plan.get(), u, 0);
        ReadState(s, g, 0);
        WriteGrain(s, g, Slot(ZINF_CLASS_WEIGHT, 0), 0, {0, 1});
        s.Add(ZINF_LANE_CPU, {2}, {}, {Slot(ZINF_CLASS_WEIGHT, 0), Slot(ZINF_CLASS_STATE, 0)});
        int rc = rig.Run(s);
        if (!rc)
            break;
        nr_failed++;
        EXPECT_EQ(rc, -EIO);
        EXPECT_EQ(ran, 0u);
        EXPECT_NE(rig.Text().find(rig.temp.path), std::string::npos) << rig.Text();
        EXPECT_NE(rig.Text().find("/state-0 at offset "), std::string::npos) << rig.Text();
        EXPECT_NE(rig.Text().find("errno 5"), std::string::npos) << rig.Text();
        ASSERT_LT(nth, 50u);
    }
    EXPECT_GE(nr_failed, 4u);                /* weights, state, and both writes */
}

TEST(Store, FailedPutAndGetSayWhere)
{
    PlanPtr plan = MakePlan(Spec());
    for (zinf_io_dir dir : {ZINF_IO_WRITE, ZINF_IO_READ}) {
        Rig rig(plan.get());
        rig.UseFaults();
        zinf_io_fault_rule rule{};
        rule.dirs = ZINF_IO_FAULT_DIR(dir), rule.action = ZINF_IO_FAULT_RESULT, rule.arg = -EIO;
        rig.script.rules = &rule, rig.script.nr_rules = 1;
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        auto w = Bytes(rig.WeightBytes(0), 1), s = Bytes(rig.StateBytes(0), 2);
        int rc = zinf_store_put_grain(rig.store, 0, w.data(), s.data(), &rig.st);
        if (dir == ZINF_IO_READ) {
            EXPECT_EQ(rc, 0) << rig.Text();
            rc = zinf_store_get_grain(rig.store, 0, w.data(), s.data(), &rig.st);
        }
        EXPECT_EQ(rc, -EIO);
        EXPECT_NE(rig.Text().find("/state-0 at offset "), std::string::npos) << rig.Text();
        rig.st = zinf_status{};
        EXPECT_EQ(zinf_store_get_grain(rig.store, plan->nr_grains, w.data(), s.data(), &rig.st), -EINVAL);
    }
}

TEST(Store, OperationsThatNameWhatThePlanLacksAreRefused)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get());
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    HandSchedule grain, device, sides;
    ReadState(grain, plan->nr_grains, 0);
    ReadState(device, 0, 0);
    device.ops[0].wr[0].loc = Slot(ZINF_CLASS_ACT, 0);
    WriteGrain(sides, 0, Slot(ZINF_CLASS_WEIGHT, 0), 0, {});
    sides.ops[0].rd.pop_back();
    for (HandSchedule *s : {&grain, &device, &sides}) {
        EXPECT_EQ(rig.Run(*s), -EPROTO);
        EXPECT_NE(rig.Text(), "");
    }
}

/* ---- opening ---- */

TEST(Store, LackOfSpaceIsToldBeforeAFileExists)
{
    Spec spec;
    spec.units = {kChunk, 1ull << 44, kChunk};
    spec.grain = 1ull << 40;
    PlanPtr plan = MakePlan(spec);
    Rig rig(plan.get());
    rig.device = (unsigned char *)aligned_alloc(4096, 4096);
    rig.host = (unsigned char *)aligned_alloc(4096, 4096);
    EXPECT_EQ(rig.Open(), -ENOSPC);
    EXPECT_NE(rig.Text().find(std::to_string(plan->drive_nbytes) + " bytes"), std::string::npos) << rig.Text();
    EXPECT_NE(rig.Text().find("zinf.nvme_paths"), std::string::npos) << rig.Text();
    EXPECT_NE(rig.Text().find(rig.dirs[0]), std::string::npos) << rig.Text();
    EXPECT_TRUE(std::filesystem::is_empty(rig.dirs[0]));
    EXPECT_EQ(rig.store, nullptr);
}

TEST(Store, FailedOpenLeavesNoFile)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get(), {"threads", false}, 2);
    FILE *f = fopen((rig.dirs[1] + "/state-0").c_str(), "w");
    ASSERT_NE(f, nullptr);
    fclose(f);
    EXPECT_EQ(rig.Open(), -EEXIST);
    EXPECT_TRUE(std::filesystem::is_empty(rig.dirs[0]));
    EXPECT_TRUE(std::filesystem::exists(rig.dirs[1] + "/state-0"));
}

TEST(Store, WrongOptionsAreRefused)
{
    PlanPtr plan = MakePlan(Spec());
    Rig none(plan.get(), {"threads", false}, 0);
    EXPECT_EQ(none.Open(), -EINVAL);
    EXPECT_NE(none.Text().find("zinf.nvme_paths"), std::string::npos) << none.Text();
    Rig gone(plan.get());
    std::filesystem::remove(gone.dirs[0]);
    EXPECT_EQ(gone.Open(), -ENOENT);
    EXPECT_NE(gone.Text().find(gone.dirs[0]), std::string::npos) << gone.Text();
    zinf_store_opts o{};
    struct zinf_store *s = nullptr;
    zinf_status st{};
    o.plan = plan.get(), o.device_base = (void *)8, o.host_base = (void *)4096;
    EXPECT_EQ(zinf_store_open(&o, &s, &st), -EINVAL);
}

TEST(Store, ProgressCountsEveryByteOfEveryDrive)
{
    PlanPtr plan = MakePlan(Spec());
    Rig rig(plan.get(), {"threads", false}, 3);
    std::pair<uint64_t, uint64_t> last{0, 0};
    rig.opts.progress_ctx = &last;
    rig.opts.progress = [](void *ctx, uint64_t done, uint64_t total) {
        auto *l = static_cast<std::pair<uint64_t, uint64_t> *>(ctx);
        EXPECT_GE(done, l->first);
        *l = {done, total};
    };
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    EXPECT_EQ(last.first, plan->drive_nbytes);
    EXPECT_EQ(last.second, plan->drive_nbytes);
    uint64_t on_disk = 0;
    for (const std::string &d : rig.dirs)
        on_disk += std::filesystem::file_size(d + "/state-0");
    EXPECT_EQ(on_disk, plan->drive_nbytes);
}

TEST(Store, LanesAreAbsentWithoutExtents)
{
    Spec spec;
    spec.weights = spec.state = ZINF_TIER_DEVICE;
    PlanPtr plan = MakePlan(spec);
    Rig rig(plan.get(), {"threads", false}, 0);
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    EXPECT_EQ(zinf_store_lane(rig.store, ZINF_LANE_NVME_READ).issue, nullptr);
    EXPECT_EQ(zinf_store_lane(rig.store, ZINF_LANE_CPU).issue, nullptr);
}

/* ---- places ---- */

TEST(Store, PlacesDoNotOverlapAndStayInsideTheBudget)
{
    const std::pair<zinf_tier, zinf_tier> pairs[] = {{ZINF_TIER_DEVICE, ZINF_TIER_DEVICE}, {ZINF_TIER_DEVICE, ZINF_TIER_HOST},
                                                     {ZINF_TIER_HOST, ZINF_TIER_NVME}, {ZINF_TIER_NVME, ZINF_TIER_NVME}};
    for (auto [weights, state] : pairs) {
        Spec spec;
        spec.weights = weights, spec.state = state;
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get());
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        std::vector<std::pair<unsigned char *, uint64_t>> places;
        for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
            for (uint32_t i = 0; i < plan->class_count[c]; i++)
                places.push_back({(unsigned char *)zinf_store_addr(rig.store, Slot((zinf_class)c, i), ZINF_NONE),
                                  plan->class_nbytes[c]});
        for (uint32_t sp = ZINF_AT_WEIGHT_HOST; sp <= ZINF_AT_GRAD_DEVICE; sp++) {
            bool grains = sp == ZINF_AT_STATE_HOST || sp == ZINF_AT_STATE_DEVICE;
            for (uint32_t i = 0; i < (grains ? plan->nr_grains : plan->spec.nr_units); i++)
                if (void *a = zinf_store_addr(rig.store, zinf_loc{(uint8_t)sp, 0, i}, ZINF_NONE))
                    places.push_back({(unsigned char *)a, zinf_plan_home_nbytes(plan.get(), (zinf_space)sp, i)});
        }
        places.push_back({(unsigned char *)zinf_store_device_fixed(rig.store), plan->spec.device_fixed_nbytes});
        places.push_back({(unsigned char *)zinf_store_host_fixed(rig.store), plan->spec.host_fixed_nbytes});
        std::sort(places.begin(), places.end());
        uint64_t total = 0;
        for (size_t i = 0; i < places.size(); i++) {
            auto [a, n] = places[i];
            total += n;
            EXPECT_EQ((uintptr_t)a % 4096, 0u);
            EXPECT_TRUE((a >= rig.device && a + n <= rig.device + plan->use[0]) ||
                        (a >= rig.host && a + n <= rig.host + plan->use[1]));
            if (i + 1 < places.size()) {
                EXPECT_LE(a + n, places[i + 1].first);
            }
        }
        EXPECT_LE(total, plan->use[0] + plan->use[1]);
        EXPECT_GT(total + 2 * 4096, plan->use[0] + plan->use[1]);        /* nothing is counted that has no place */
    }
}

TEST(Store, AddressOfAGrainsWeightsLiesInsideItsUnit)
{
    Spec spec;
    spec.weights = ZINF_TIER_HOST;
    PlanPtr plan = MakePlan(spec);
    Rig rig(plan.get());
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    uint32_t u = 1, g = plan->unit_first_grain[u] + 2;
    ASSERT_EQ(plan->grains[g].first_elem, 4 * kChunk);
    auto addr = [&](zinf_loc l, uint32_t part) { return (char *)zinf_store_addr(rig.store, l, part); };
    zinf_loc home{ZINF_AT_WEIGHT_HOST, 0, u}, none{ZINF_AT_WEIGHT_DEVICE, 0, u};
    EXPECT_EQ(addr(home, g) - addr(home, ZINF_NONE), (ptrdiff_t)(4 * kChunk * 2));
    EXPECT_EQ(addr(none, 0), nullptr);
    EXPECT_EQ(addr(Extent(ZINF_AT_EXTENT_WEIGHT, 0, ZINF_ROLE_CURRENT), 0), nullptr);
    EXPECT_EQ(addr(Slot(ZINF_CLASS_UNIT, plan->class_count[ZINF_CLASS_UNIT]), 0), nullptr);
    EXPECT_EQ(addr(Slot(ZINF_CLASS_UNIT, 0), g), addr(Slot(ZINF_CLASS_UNIT, 0), 0));
    EXPECT_EQ(addr(zinf_loc{ZINF_AT_STATE_HOST, 0, plan->nr_grains}, 0), nullptr);
}

TEST(Store, PoisonFillsSlotsAtOpenAndOnRead)
{
    Spec spec;
    for (bool poison : {false, true}) {
        PlanPtr plan = MakePlan(spec);
        Rig rig(plan.get());
        rig.opts.poison = poison;
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        unsigned char fresh = poison ? 0xFF : 0;
        for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
            for (uint32_t i = 0; i < plan->class_count[c]; i++) {
                auto *a = (unsigned char *)zinf_store_addr(rig.store, Slot((zinf_class)c, i), ZINF_NONE);
                EXPECT_EQ(std::count(a, a + plan->class_nbytes[c], fresh), (ptrdiff_t)plan->class_nbytes[c]);
            }
        EXPECT_EQ(((unsigned char *)zinf_store_host_fixed(rig.store))[0], 0);
        PutAll(rig, 3);
        /* Unit 3 is shorter than the slot: what lies behind it must not be anybody's old bytes. */
        auto *w = (unsigned char *)zinf_store_addr(rig.store, Slot(ZINF_CLASS_WEIGHT, 0), ZINF_NONE);
        auto *act = (unsigned char *)zinf_store_addr(rig.store, Slot(ZINF_CLASS_ACT, 0), 0);
        memset(w, 0x11, plan->class_nbytes[ZINF_CLASS_WEIGHT]);
        memset(act, 0x11, plan->class_nbytes[ZINF_CLASS_ACT]);
        HandSchedule s;
        ReadWeights(s, plan.get(), 3, 0);
        s.Add(ZINF_LANE_COMPUTE, {0}, {Slot(ZINF_CLASS_ACT, 0)}, {Slot(ZINF_CLASS_ACT, 0), Slot(ZINF_CLASS_WEIGHT, 0)});
        Now now;
        now.work = [&](const zinf_schedule *sched, uint32_t op) { zinf_store_poison(rig.store, sched, op); };
        rig.lanes[ZINF_LANE_COMPUTE] = now.Lane();
        ASSERT_EQ(rig.Run(s), 0) << rig.Text();
        auto want = Bytes(rig.WeightBytes(plan->unit_first_grain[3]), plan->unit_first_grain[3] + 3);
        EXPECT_EQ(memcmp(w, want.data(), want.size()), 0);
        EXPECT_EQ(w[plan->class_nbytes[ZINF_CLASS_WEIGHT] - 1], poison ? 0xFF : 0x11);
        EXPECT_EQ(act[0], poison ? 0xFF : 0x11);
        EXPECT_EQ(act[plan->class_nbytes[ZINF_CLASS_ACT] - 1], poison ? 0xFF : 0x11);
    }
}

TEST(Store, DeviceMemoryIsOnlyTouchedThroughTheHook)
{
    Spec spec;
    spec.weights = spec.state = ZINF_TIER_DEVICE;
    PlanPtr plan = MakePlan(spec);
    Rig rig(plan.get());
    struct Ctx { Rig *rig; uint64_t in, out; } ctx{&rig, 0, 0};
    rig.opts.poison = true;
    rig.opts.device_copy_ctx = &ctx;
    rig.opts.device_copy = [](void *c, void *dst, const void *src, size_t nbytes) {
        auto *x = static_cast<Ctx *>(c);
        auto inside = [x](const void *p) {
            return p >= x->rig->device && p < x->rig->device + x->rig->plan->use[0];
        };
        EXPECT_NE(inside(dst), inside(src));
        (inside(dst) ? x->in : x->out) += nbytes;
        memcpy(dst, src, nbytes);
    };
    ASSERT_EQ(rig.Open(), 0) << rig.Text();
    uint64_t slots = 0, homes = 0;
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        slots += zinf_class_tier((zinf_class)c) == ZINF_TIER_DEVICE ? plan->class_nbytes[c] * plan->class_count[c] : 0;
    for (uint32_t g = 0; g < plan->nr_grains; g++)
        homes += plan->state_device[g] ? rig.WeightBytes(g) + rig.StateBytes(g) : 0;
    EXPECT_EQ(ctx.in, slots);
    PutAll(rig, 1);
    EXPECT_EQ(ctx.in, slots + homes);
    for (uint32_t g = 0; g < plan->nr_grains; g++)
        ExpectGrain(rig, g, 1);
    EXPECT_EQ(ctx.out, homes);
}

/* ---- extents, which are only numbers ---- */

TEST(Extents, AreAlignedApartAndEven)
{
    for (uint32_t align : {4096u, 65536u}) {
        Spec spec;
        spec.units = {9 * kChunk, 30 * kChunk, 7 * kChunk, 21 * kChunk};
        spec.grain = kChunk;
        PlanPtr plan = MakePlan(spec);
        zinf_drive drives[3];
        for (uint32_t d = 0; d < 3; d++)
            drives[d] = zinf_drive{"/x", d, 1ull << 40, align, 0};
        std::vector<zinf_extent> ext(plan->nr_grains);
        zinf_status st{};
        ASSERT_EQ(zinf_extents_make(plan.get(), drives, 3, ext.data(), &st), 0) << st.text;
        uint64_t total = 0, least = UINT64_MAX, most = 0;
        for (uint32_t d = 0; d < 3; d++) {
            std::set<std::pair<uint64_t, uint64_t>> taken;
            for (uint32_t g = 0; g < plan->nr_grains; g++)
                for (uint32_t r = 0; r < 2 && ext[g].drive == d; r++) {
                    EXPECT_TRUE(taken.insert({ext[g].weight_off_bytes[r], plan->grains[g].nr_elems * 2}).second);
                    EXPECT_TRUE(taken.insert({ext[g].state_off_bytes[r], plan->grains[g].nr_elems * 10}).second);
                }
            uint64_t end = 0;
            for (auto [off, n] : taken) {
                EXPECT_EQ(off % align, 0u);
                EXPECT_GE(off, end);
                EXPECT_LT(off - end, align);             /* no holes either */
                end = off + n;
            }
            EXPECT_EQ((end + align - 1) / align * align, drives[d].nbytes);
            total += drives[d].nbytes;
            least = std::min(least, drives[d].nbytes), most = std::max(most, drives[d].nbytes);
        }
        EXPECT_LE(most - least, total / plan->nr_grains);
        if (align == 4096) {
            EXPECT_EQ(total, plan->drive_nbytes);
        }
    }
}

TEST(Extents, RespectTheFreeSpaceOfEachFileSystem)
{
    Spec spec;
    spec.units = {9 * kChunk, 30 * kChunk, 21 * kChunk};
    spec.grain = kChunk;
    PlanPtr plan = MakePlan(spec);
    std::vector<zinf_extent> ext(plan->nr_grains);
    uint64_t need = plan->drive_nbytes, tenth = need / 10;
    zinf_status st{};
    zinf_drive uneven[2] = {{"/a", 1, tenth, 4096, 0}, {"/b", 2, need - tenth + need / 60, 4096, 0}};
    ASSERT_EQ(zinf_extents_make(plan.get(), uneven, 2, ext.data(), &st), 0) << st.text;
    EXPECT_LE(uneven[0].nbytes, tenth);
    EXPECT_GT(uneven[0].nbytes, tenth - need / 50);
    EXPECT_EQ(uneven[0].nbytes + uneven[1].nbytes, need);
    /* Two folders of one file system have its free space once. */
    zinf_drive shared[2] = {{"/a", 1, need - 1, 4096, 0}, {"/b", 1, need - 1, 4096, 0}};
    EXPECT_EQ(zinf_extents_make(plan.get(), shared, 2, ext.data(), &st), -ENOSPC);
    EXPECT_NE(std::string(st.text).find("/a, /b"), std::string::npos) << st.text;
    EXPECT_NE(std::string(st.text).find(std::to_string(need - 1)), std::string::npos) << st.text;
    zinf_drive exact[1] = {{"/a", 1, need, 4096, 0}};
    st = zinf_status{};
    EXPECT_EQ(zinf_extents_make(plan.get(), exact, 1, ext.data(), &st), 0) << st.text;
}

}  // namespace
