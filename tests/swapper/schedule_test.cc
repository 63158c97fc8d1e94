/* tests/swapper/schedule_test.cc - plan, build and simulate: properties over random models, minimums, spending. */
#include "swapper/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <string>

#include "swapper/arena.h"
#include "tests/swapper/schedule_cases.h"

using namespace zinf_test;

namespace {

uint32_t CountOps(const zinf_schedule *s, zinf_op_kind kind, zinf_what what = ZINF_WHAT_NONE)
{
    return static_cast<uint32_t>(
        std::count_if(s->ops, s->ops + s->nr_ops, [&](const zinf_op &o) { return o.kind == kind && o.what == what; }));
}

TEST(Schedule, RandomCasesBuildAndCheckOrAreRefusedByTheRightNumber)
{
    std::map<std::pair<Link, Link>, int> pairs;
    int refused = RunProperty(1, 1000, &pairs);
    EXPECT_GT(refused, 300);
    EXPECT_LT(refused, 900);
    /* 10 kinds with flags end in a verdict, each before 4 kinds that act on it with or without a commit; 10 do not */
    EXPECT_EQ(10u * 4 * 2 + 10 * 2, pairs.size());
}

TEST(Schedule, CommitComesAfterTheWritesAndHoldsUpNothing)
{
    Case c = ChainCase(Ends::kUntied, 3, 8, 2);
    c.rates.sync_s = 123;
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    for (zinf_sched_kind kind : {ZINF_SCHED_STEADY, ZINF_SCHED_FLUSH, ZINF_SCHED_SKIP, ZINF_SCHED_FLUSH_SKIP}) {
        SCOPED_TRACE(zinf_sched_kind_name(kind));
        const zinf_schedule *with = s.of[kind].get();
        auto without = s.Chain(p.get(), {{kind, 0}}, &st);
        uint32_t writes = CountOps(with, ZINF_OP_WRITE, ZINF_WHAT_GRAIN);
        EXPECT_EQ(kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_FLUSH ? p->nr_grains : 0, writes);
        EXPECT_EQ(1u, CountOps(with, ZINF_OP_COMMIT));
        EXPECT_EQ(0u, CountOps(without[0], ZINF_OP_COMMIT));
        EXPECT_EQ(without[0]->nr_ops + 1, with->nr_ops);
        EXPECT_EQ(writes, static_cast<uint32_t>(std::count(with->flips, with->flips + with->nr_grains, 1)));
        EXPECT_EQ(0, std::count(without[0]->flips, without[0]->flips + without[0]->nr_grains, 1));
        std::vector<double> start(with->nr_ops), end(with->nr_ops);
        zinf_sim sim{};
        sim.start = start.data();
        sim.end = end.data();
        ASSERT_EQ(0, zinf_schedule_simulate(p.get(), &with, 1, &sim));
        EXPECT_EQ(123, sim.busy[ZINF_LANE_SYNC]);
        for (uint32_t i = 0; i < with->nr_ops; i++) {
            if (with->ops[i].kind != ZINF_OP_COMMIT) {
                EXPECT_LT(end[i], 100);                 /* nobody waits for the 123 s */
                continue;
            }
            EXPECT_EQ(ZINF_LANE_SYNC, with->ops[i].lane);
            EXPECT_EQ(writes, with->ops[i].nr_deps);
            EXPECT_EQ(0u, with->ops[i].nr_rd + with->ops[i].nr_wr + with->ops[i].nr_acq + with->ops[i].nr_free);
            EXPECT_EQ(end[i], sim.seconds);
        }
    }
    EXPECT_EQ(5e-3, zinf_sched_default_rates.sync_s);
}

TEST(Schedule, ReadsOfADirtyChainAreOfTheAlternateExtents)
{
    Case c = ChainCase(Ends::kUntied, 3, 4, 2);
    c.policy.use_spare_host = false;
    AtMinimum(&c);
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    for (int kind = 0; kind < ZINF_NR_SCHED_KINDS; kind++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            Link link{static_cast<zinf_sched_kind>(kind), flags};
            SCOPED_TRACE(Words({link}));
            auto chain = s.Chain(p.get(), {link}, &st);
            ASSERT_EQ(1u, chain.size()) << st.text;
            bool settled = link.kind == ZINF_SCHED_FIRST || link.kind == ZINF_SCHED_EVAL;
            bool updates = link.kind == ZINF_SCHED_STEADY || link.kind == ZINF_SCHED_FLUSH;
            EXPECT_EQ(settled ? flags & ZINF_SCHED_DIRTY : flags, chain[0]->flags);
            for (uint32_t i = 0; i < chain[0]->nr_ops; i++) {
                const zinf_op &o = chain[0]->ops[i];
                for (uint32_t k = 0; k < o.nr_rd && o.kind == ZINF_OP_READ; k++) {
                    const zinf_access &a = chain[0]->accesses[o.rd + k];
                    bool written = updates && a.version == 1;
                    EXPECT_EQ(flags & ZINF_SCHED_DIRTY || written ? ZINF_ROLE_ALTERNATE : ZINF_ROLE_CURRENT, a.loc.sub);
                }
                for (uint32_t k = 0; k < o.nr_wr && o.kind == ZINF_OP_WRITE; k++)
                    EXPECT_EQ(ZINF_ROLE_ALTERNATE, chain[0]->accesses[o.wr + k].loc.sub);
            }
            bool flips = chain[0]->flags & ZINF_SCHED_COMMITS && (updates || flags & ZINF_SCHED_DIRTY);
            EXPECT_EQ(flips ? p->nr_grains : 0u, std::count(chain[0]->flips, chain[0]->flips + chain[0]->nr_grains, 1));
        }
}

TEST(Schedule, FlagsMeanNothingWithoutExtentsAndOthersAreRefused)
{
    Case c = ChainCase(Ends::kUntied, 3, 4, 2);
    c.spec.weight_tier = c.spec.state_tier = ZINF_TIER_HOST;
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    for (int kind = 0; kind < ZINF_NR_SCHED_KINDS; kind++) {
        zinf_sched_kind k = static_cast<zinf_sched_kind>(kind);
        auto chain = s.Chain(p.get(), {{k, 0}, {k, ZINF_SCHED_COMMITS | ZINF_SCHED_DIRTY}}, &st);
        ASSERT_EQ(2u, chain.size()) << st.text;
        EXPECT_EQ(0u, chain[1]->flags);
        EXPECT_EQ(Dump(chain[0]), Dump(chain[1]));
        zinf_schedule *none = nullptr;
        EXPECT_EQ(-EINVAL, zinf_schedule_build(p.get(), k, 4, &none, &st));
        EXPECT_EQ(nullptr, none);
    }
}

TEST(Schedule, MinimumIsEnoughAndOneByteLessIsRefused)
{
    std::mt19937_64 random(2);
    for (int i = 0; i < 200; i++) {
        Case c = RandomCase(&random, 12);
        AtMinimum(&c);
        SCOPED_TRACE(c.Describe());
        PlanPtr p;
        zinf_status st;
        Schedules s;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        EXPECT_LE(p->use[ZINF_TIER_DEVICE], c.budget.device_nbytes);
        EXPECT_LE(p->use[ZINF_TIER_HOST], c.budget.host_nbytes);
        ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
        ASSERT_EQ(0, Check(p.get(), s.Chain(EveryPair()), &st)) << st.text;
        for (auto budget : {&zinf_sched_budget::device_nbytes, &zinf_sched_budget::host_nbytes}) {
            Case less = c;
            if (!(less.budget.*budget)--)
                continue;
            EXPECT_EQ(-ENOSPC, less.Make(&p, &st));
            EXPECT_EQ(nullptr, p.get());
            bool device = budget == &zinf_sched_budget::device_nbytes;
            std::string want = std::string("needs 1 more bytes of ") + (device ? "device" : "host") +
                               " memory (minimum " + std::to_string(c.budget.*budget) + ", budget " +
                               std::to_string(c.budget.*budget - 1) + "): raise zinf." + (device ? "device" : "host") +
                               "_memory";
            EXPECT_EQ(want, st.text);
        }
    }
}

TEST(Schedule, OneSlotFewerThanTheMinimumCannotBeBuilt)
{
    std::mt19937_64 random(3);
    int tried = 0;
    for (int i = 0; i < 100; i++) {
        Case c = RandomCase(&random, 8);
        AtMinimum(&c);
        SCOPED_TRACE(c.Describe());
        PlanPtr p;
        zinf_status st;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        for (uint32_t k = 0; k < ZINF_NR_CLASSES; k++) {
            Schedules s;
            /* slots of no bytes cost nothing and may be spare */
            if (!p->class_count[k] || !p->class_nbytes[k])
                continue;
            p->class_count[k]--;
            EXPECT_EQ(-EDEADLK, s.Build(p.get(), &st)) << zinf_class_name(static_cast<zinf_class>(k));
            p->class_count[k]++;
            tried++;
        }
    }
    EXPECT_GT(tried, 300);
}

TEST(Schedule, SameInputsGiveTheSameLists)
{
    std::mt19937_64 random(4);
    for (int i = 0; i < 20; i++) {
        Case c = RandomCase(&random, 10);
        PlanPtr p[2];
        zinf_status st;
        Schedules s[2];
        for (int k = 0; k < 2; k++) {
            ASSERT_EQ(0, c.Make(&p[k], &st)) << st.text;
            ASSERT_EQ(0, s[k].Build(p[k].get(), &st)) << st.text;
        }
        for (int k = 0; k < ZINF_NR_SCHED_KINDS; k++)
            EXPECT_EQ(Dump(s[0].of[k].get()), Dump(s[1].of[k].get()));
    }
}

TEST(Schedule, SimulatedTimesRespectLanesAndDependencies)
{
    std::mt19937_64 random(5);
    for (int i = 0; i < 100; i++) {
        Case c = RandomCase(&random, 10);
        SCOPED_TRACE(c.Describe());
        PlanPtr p;
        zinf_status st;
        Schedules s;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
        auto chain = s.Chain(EveryPair());
        size_t nr = 0;
        double serial = 0, alone = 0;
        for (const zinf_schedule *k : chain) {
            nr += k->nr_ops;
            alone += k->seconds;
            for (uint32_t o = 0; o < k->nr_ops; o++)
                serial += k->ops[o].seconds;
        }
        std::vector<double> start(nr), end(nr);
        zinf_sim sim{};
        sim.start = start.data();
        sim.end = end.data();
        ASSERT_EQ(0, zinf_schedule_simulate(p.get(), chain.data(), static_cast<uint32_t>(chain.size()), &sim));
        double busy = 0, tolerance = 1e-9 * serial;
        for (double b : sim.busy) {
            EXPECT_LE(b, sim.seconds + tolerance);
            busy += b;
        }
        EXPECT_NEAR(serial, busy, tolerance);
        EXPECT_LE(sim.seconds, serial + tolerance);
        EXPECT_NEAR(alone, sim.seconds, tolerance);
        size_t first = 0;
        double seam = 0;
        for (const zinf_schedule *k : chain) {
            double lane[ZINF_NR_LANES] = {}, last = seam;
            for (uint32_t o = 0; o < k->nr_ops; o++) {
                const zinf_op &op = k->ops[o];
                ASSERT_GE(start[first + o], std::max(lane[op.lane], seam));
                for (uint32_t d = 0; d < op.nr_deps; d++)
                    ASSERT_GE(start[first + o], end[first + k->deps[op.dep + d]]);
                lane[op.lane] = end[first + o];
                last = std::max(last, end[first + o]);
            }
            seam = last;
            first += k->nr_ops;
        }
    }
}

TEST(Schedule, BytesMovedAreWhatTheTiersAsk)
{
    /* 3 layers of 4 grains, nothing to spare but slots: every unit is read by its update, by forward and by backward */
    Case c = ChainCase(Ends::kUntied, 3, 8, 2);
    c.policy.use_spare_host = false;
    AtMinimum(&c);
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    const zinf_schedule *steady = s.of[ZINF_SCHED_STEADY].get();
    uint64_t unit = 8 * kChunk, read = 0, written = 0;
    for (uint32_t i = 0; i < steady->nr_ops; i++) {
        read += steady->ops[i].kind == ZINF_OP_READ ? steady->ops[i].nbytes : 0;
        written += steady->ops[i].kind == ZINF_OP_WRITE ? steady->ops[i].nbytes : 0;
    }
    EXPECT_EQ(12 * 5 * unit, written);                      /* 12 B/param, every parameter once */
    EXPECT_EQ(5 * 10 * unit + 2 * (3 * 3 + 2) * unit, read);  /* state once; weights: layers 3 times, head twice */
    EXPECT_EQ(5u * 4, CountOps(steady, ZINF_OP_UPDATE));
    EXPECT_EQ(6u, CountOps(steady, ZINF_OP_DOWNLOAD, ZINF_WHAT_CKPT));
    EXPECT_EQ(4u, CountOps(steady, ZINF_OP_REDUCE));
    EXPECT_EQ(2u, CountOps(steady, ZINF_OP_ADD));
    EXPECT_EQ(uint64_t{2} * 12 * 5 * unit, p->drive_nbytes);
    EXPECT_EQ(6u, p->class_count[ZINF_CLASS_CKPT]);
    EXPECT_EQ(3u, p->class_count[ZINF_CLASS_ACT]);          /* micro-batches + 1 */
    EXPECT_EQ(1u, p->class_count[ZINF_CLASS_UNIT]);
}

TEST(Schedule, SpareRamKeepsWeightsAndSavesReads)
{
    Case c = ChainCase(Ends::kUntied, 6, 8, 1);
    AtMinimum(&c);
    PlanPtr least;
    zinf_status why;
    ASSERT_EQ(0, c.Make(&least, &why)) << why.text;
    /* the windows come first */
    uint64_t from = c.budget.host_nbytes + least->class_nbytes[ZINF_CLASS_WEIGHT] +
                    3 * least->class_nbytes[ZINF_CLASS_STATE] + least->class_nbytes[ZINF_CLASS_ROWS];
    uint32_t before = ZINF_NONE;
    for (uint64_t units = 0; units < 14; units++) {
        PlanPtr p;
        zinf_status st;
        Schedules s;
        c.budget.host_nbytes = from + units * 8 * kChunk * 2;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
        uint32_t reads = CountOps(s.of[ZINF_SCHED_STEADY].get(), ZINF_OP_READ, ZINF_WHAT_WEIGHTS);
        EXPECT_LE(reads, before);
        before = reads;
    }
    EXPECT_EQ(0u, before);
}

TEST(Schedule, EverythingOnTheDeviceMovesNothingButTheEmbeddingAndActivations)
{
    Case c = ChainCase(Ends::kUntied, 3, 4, 2);
    c.spec.weight_tier = c.spec.state_tier = ZINF_TIER_DEVICE;
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    const zinf_schedule *steady = s.of[ZINF_SCHED_STEADY].get();
    EXPECT_EQ(0u, CountOps(steady, ZINF_OP_READ, ZINF_WHAT_WEIGHTS) + CountOps(steady, ZINF_OP_READ, ZINF_WHAT_STATE));
    EXPECT_EQ(0u, CountOps(steady, ZINF_OP_WRITE, ZINF_WHAT_GRAIN));
    EXPECT_EQ(0u, CountOps(steady, ZINF_OP_UPLOAD, ZINF_WHAT_WEIGHTS));
    EXPECT_EQ(0u, CountOps(steady, ZINF_OP_DOWNLOAD, ZINF_WHAT_GRAD));
    EXPECT_EQ(0u, p->drive_nbytes);
    for (uint32_t i = 0; i < steady->nr_ops; i++)
        if (steady->ops[i].kind == ZINF_OP_UPDATE) {
            EXPECT_EQ(steady->ops[i].unit == 0 ? ZINF_LANE_CPU : ZINF_LANE_COMPUTE, steady->ops[i].lane);
        }
}

TEST(Schedule, DeviceUpdatesStandAtTheirGrainInTheArena)
{
    Case c = ChainCase(Ends::kUntied, 3, 4, 2);
    c.spec.weight_tier = c.spec.state_tier = ZINF_TIER_DEVICE;
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    zinf_arena *arena = nullptr;
    ASSERT_EQ(0, zinf_arena_open(p.get(), &arena, &st)) << st.text;
    const zinf_schedule *flush = s.of[ZINF_SCHED_FLUSH].get();
    std::set<uint64_t> seen;
    for (uint32_t i = 0; i < flush->nr_ops; i++) {
        const zinf_op &o = flush->ops[i];
        const zinf_access &w = flush->accesses[o.rd + 2];
        if (o.kind == ZINF_OP_UPDATE && o.lane == ZINF_LANE_COMPUTE) {
            EXPECT_EQ(zinf_arena_off_bytes(arena, w.loc, 0) + 2 * p->grains[o.grain].first_elem,
                      zinf_arena_off_bytes(arena, w.loc, w.part));
            seen.insert(zinf_arena_off_bytes(arena, w.loc, w.part));
        }
    }
    EXPECT_EQ(4u * 2, seen.size());
    zinf_arena_close(arena);
}

TEST(Schedule, TiedGradientIsHeadFirstThenRowsInOrder)
{
    Case c = ChainCase(Ends::kTied, 2, 3, 3);
    c.spec.weight_tier = ZINF_TIER_DEVICE;
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    EXPECT_TRUE(p->weight_device[0]);
    EXPECT_TRUE(p->weight_host[0]);
    EXPECT_GE(p->class_nbytes[ZINF_CLASS_GRAD], 4 * 3 * kChunk);      /* not rounded on its way */
    EXPECT_EQ(4 * 3 * kChunk, zinf_plan_home_nbytes(p.get(), ZINF_AT_GRAD_HOST, 0));
    EXPECT_EQ(2 * 3 * kChunk, zinf_plan_home_nbytes(p.get(), ZINF_AT_GRAD_HOST, 1));
    const zinf_schedule *first = s.of[ZINF_SCHED_FIRST].get();
    std::string seen;
    for (uint32_t i = 0; i < first->nr_ops; i++) {
        const zinf_op &o = first->ops[i];
        if (o.kind == ZINF_OP_DOWNLOAD && o.what == ZINF_WHAT_GRAD && o.unit == 0)
            seen += "head ";
        if (o.kind == ZINF_OP_ADD)
            seen += std::to_string(o.micro) + (o.last ? "! " : " ");
    }
    EXPECT_EQ("head 0 1 2! ", seen);
}

/* Loads of a sequence of units with k slots: the least that any policy needs (Belady), by trying everything. */
uint32_t FewestLoads(const std::vector<uint32_t> &visits, uint32_t k)
{
    std::map<std::set<uint32_t>, uint32_t> best{{{}, 0}};
    for (uint32_t unit : visits) {
        std::map<std::set<uint32_t>, uint32_t> next;
        auto offer = [&next](std::set<uint32_t> held, uint32_t loads) {
            auto at = next.emplace(std::move(held), loads).first;
            at->second = std::min(at->second, loads);
        };
        for (const auto &[held, loads] : best) {
            std::set<uint32_t> with = held;
            with.insert(unit);
            uint32_t now = loads + !held.count(unit);
            if (with.size() <= k)
                offer(with, now);
            else
                for (uint32_t out : held) {
                    std::set<uint32_t> less = with;
                    less.erase(out);
                    offer(less, now);
                }
        }
        best.swap(next);
    }
    uint32_t least = ZINF_NONE;
    for (const auto &[held, loads] : best)
        least = std::min(least, loads);
    return least;
}

TEST(Schedule, UnitUploadsEqualTheOptimumOfTheSlotsBesideTheWindow)
{
    int sizes = 0;
    for (Ends ends : {Ends::kUntied, Ends::kTied, Ends::kNoHead, Ends::kBare})
        for (uint32_t layers = 1; layers <= 6; layers++) {
            std::set<uint32_t> seen;
            Case c = ChainCase(ends, layers, 8, 2);
            c.spec.weight_tier = ZINF_TIER_HOST;
            AtMinimum(&c);
            for (uint64_t step = 0; step < 60; step++, c.budget.device_nbytes += 4 * kChunk) {
                PlanPtr p;
                zinf_status st;
                Schedules s;
                ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
                uint32_t slots = p->class_count[ZINF_CLASS_UNIT], all = layers + (p->spec.head_unit != ZINF_NONE);
                if (!seen.insert(slots).second)
                    continue;
                ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
                std::vector<uint32_t> visits(c.layers);
                if (p->spec.head_unit != ZINF_NONE)
                    visits.push_back(p->spec.head_unit);
                visits.insert(visits.end(), c.layers.rbegin(), c.layers.rend());
                uint32_t use = slots == all || slots == 1 ? slots : slots - 1;     /* window 1 */
                EXPECT_EQ(FewestLoads(visits, use),
                          CountOps(s.of[ZINF_SCHED_FIRST].get(), ZINF_OP_UPLOAD, ZINF_WHAT_WEIGHTS))
                    << slots << " slots, " << c.Describe();
                sizes++;
            }
        }
    EXPECT_GT(sizes, 80);
}

TEST(Schedule, LargeModelIsOneListOfReasonableSize)
{
    Case c = ChainCase(Ends::kUntied, 96, 100, 8);
    c.spec.grain_elems = kChunk;
    AtMinimum(&c);
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    EXPECT_EQ(9800u, p->nr_grains);
    EXPECT_LT(s.of[ZINF_SCHED_STEADY]->nr_deps, 200000u);
    EXPECT_EQ(0, Check(p.get(), s.Chain(EveryPair()), &st)) << st.text;
}

TEST(Schedule, SpecsThatMakeNoSenseAreRefusedInWords)
{
    struct { void (*spoil)(Case *); const char *words; } cases[] = {
        {[](Case *c) { c->spec.state_tier = ZINF_TIER_DEVICE; }, "needs the weights there too"},
        {[](Case *c) { c->elems[1]++; }, "not a multiple of 4096"},
        {[](Case *c) { c->spec.grain_elems = 0; }, "grain"},
        {[](Case *c) { c->spec.grain_elems = 100; }, "grain"},
        {[](Case *c) { c->spec.weight_nbytes = 3; }, "must be 2 or 4"},
        {[](Case *c) { c->spec.nr_micro = 0; }, "at least one"},
        {[](Case *c) { c->layers.clear(); }, "at least one"},
        {[](Case *c) { c->layers[1] = c->layers[0]; }, "layer 1 uses unit 1"},
        {[](Case *c) { c->spec.embed_unit = 1; }, "embedding"},
        {[](Case *c) { c->spec.head_unit = 1; }, "head"},
        {[](Case *c) { c->spec.head_unit = ZINF_NONE; }, "4 units, but the chain uses 3"},
        {[](Case *c) { c->elems[1] = uint64_t{1} << 62; c->spec.grain_elems = uint64_t{1} << 61; }, "64 bits"},
        {[](Case *c) { c->elems[1] = uint64_t{1} << 50; }, "zinf.block_elems"},
        {[](Case *c) { c->spec.weight_tier = static_cast<zinf_tier>(7); }, "tier"},
    };
    for (auto &k : cases) {
        Case c = ChainCase(Ends::kUntied, 2, 2, 2);
        PlanPtr p;
        zinf_status st;
        k.spoil(&c);
        EXPECT_EQ(-EINVAL, c.Make(&p, &st)) << k.words;
        EXPECT_NE(std::string::npos, std::string(st.text).find(k.words)) << st.text;
        EXPECT_EQ(nullptr, p.get());
    }
}

TEST(Schedule, SizesBeyondSixtyFourBitsAreRefusedNotWrapped)
{
    Case c = ChainCase(Ends::kUntied, 2, 2, 2);
    PlanPtr p;
    zinf_status st;
    c.spec.act_nbytes = UINT64_MAX / 2;
    EXPECT_EQ(-ENOSPC, c.Make(&p, &st)) << st.text;
    c.spec.act_nbytes = 100;
    c.spec.host_fixed_nbytes = UINT64_MAX;
    EXPECT_EQ(-ENOSPC, c.Make(&p, &st)) << st.text;
}

TEST(Schedule, DefaultsStandInForNoPolicyAndNoRates)
{
    Case c = ChainCase(Ends::kUntied, 4, 4, 2);
    zinf_sched_plan *p = nullptr;
    zinf_status st{};
    ASSERT_EQ(0, zinf_plan_make(c.Spec(), nullptr, nullptr, &c.budget, &p, &st)) << st.text;
    EXPECT_EQ(1u, p->policy.window);
    EXPECT_TRUE(p->policy.use_spare_host);
    EXPECT_EQ(zinf_sched_default_rates.read, p->rates.read);
    zinf_plan_free(p);
    zinf_plan_free(nullptr);
    zinf_schedule_free(nullptr);
}

TEST(Schedule, DescribesAnOperationInOneLine)
{
    Case c = ChainCase(Ends::kUntied, 2, 4, 1);
    AtMinimum(&c);
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    const zinf_schedule *flush = s.of[ZINF_SCHED_FLUSH].get();
    char buf[200], small[12];
    bool found = false;
    for (uint32_t i = 0; i < flush->nr_ops; i++) {
        if (flush->ops[i].kind != ZINF_OP_READ || flush->ops[i].grain != 3)
            continue;
        EXPECT_EQ(std::to_string(i) + " READ state unit 1 grain 3 -> STATE[0]",
                  zinf_op_describe(flush, i, buf, sizeof(buf)));
        EXPECT_EQ(std::string(buf).substr(0, 11), zinf_op_describe(flush, i, small, sizeof(small)));
        found = true;
    }
    EXPECT_TRUE(found);
}

}  // namespace
