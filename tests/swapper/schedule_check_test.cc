/* tests/swapper/schedule_check_test.cc - every way of spoiling a good schedule is reported.
 *
 * There are no exceptions among what is spoiled here. Not spoiled, because nothing in a run depends on them:
 * predicted seconds, and the order of operations that have no edge between them. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string>

#include "swapper/schedule.h"
#include "tests/swapper/schedule_cases.h"

using namespace zinf_test;

namespace {

using Random = std::mt19937_64;

size_t Below(Random *r, size_t n)
{
    return static_cast<size_t>((*r)() % n);
}

/* Removes operation i and everything that names it. */
void DropOp(Copy *s, size_t i)
{
    std::vector<uint32_t> deps;
    s->ops.erase(s->ops.begin() + static_cast<long>(i));
    for (zinf_op &o : s->ops) {
        uint32_t first = static_cast<uint32_t>(deps.size());
        for (uint32_t d = 0; d < o.nr_deps; d++) {
            uint32_t at = s->deps[o.dep + d];
            if (at != i)
                deps.push_back(at - (at > i));
        }
        o.dep = first;
        o.nr_deps = static_cast<uint32_t>(deps.size()) - first;
    }
    s->deps = deps;
}

/* Each spoils one thing at random and says whether it could. */
using Spoiler = std::function<bool(const zinf_sched_plan *, Copy *, Random *)>;

bool SpoilDep(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    if (!o.nr_deps)
        return false;
    std::swap(s->deps[o.dep + Below(r, o.nr_deps)], s->deps[o.dep + o.nr_deps - 1]);
    o.nr_deps--;
    return true;
}

bool SpoilSlot(const zinf_sched_plan *p, Copy *s, Random *r)
{
    zinf_access &a = s->accesses[Below(r, s->accesses.size())];
    if (a.loc.space != ZINF_AT_SLOT)
        return false;
    a.loc.index = (a.loc.index + 1) % (p->class_count[a.loc.sub] + 1);
    return true;
}

bool SpoilTakenSlot(const zinf_sched_plan *p, Copy *s, Random *r)
{
    if (s->slots.empty())
        return false;
    zinf_loc &l = s->slots[Below(r, s->slots.size())];
    l.index = (l.index + 1) % (p->class_count[l.sub] + 1);
    return true;
}

bool SpoilTake(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    bool ok = o.nr_acq;
    o.nr_acq -= ok;
    return ok;
}

bool SpoilFree(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    bool ok = o.nr_free;
    o.nr_free -= ok;
    return ok;
}

bool SpoilVersion(const zinf_sched_plan *, Copy *s, Random *r)
{
    s->accesses[Below(r, s->accesses.size())].version += Below(r, 2) ? 1 : -1;
    return true;
}

bool SpoilObject(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_access &a = s->accesses[Below(r, s->accesses.size())];
    switch (Below(r, 4)) {
    case 0:
        a.a++;
        break;
    case 1:
        a.b++;
        break;
    case 2:
        a.part++;
        break;
    default:
        a.object = static_cast<uint8_t>((a.object + 1) % 6);
    }
    return true;
}

bool SpoilRole(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_access &a = s->accesses[Below(r, s->accesses.size())];
    if (a.loc.space != ZINF_AT_EXTENT_STATE && a.loc.space != ZINF_AT_EXTENT_WEIGHT)
        return false;
    a.loc.sub ^= 1;
    return true;
}

bool SpoilFlip(const zinf_sched_plan *p, Copy *s, Random *r)
{
    if (!p->extents_weight || s->flips.empty())
        return false;
    s->flips[Below(r, s->flips.size())] ^= 1;
    return true;
}

bool SpoilOrder(const zinf_sched_plan *, Copy *s, Random *r)
{
    size_t i = Below(r, s->ops.size());
    if (i + 1 >= s->ops.size())
        return false;
    const zinf_op &after = s->ops[i + 1];
    if (!std::count(s->deps.begin() + after.dep, s->deps.begin() + after.dep + after.nr_deps, i))
        return false;
    std::swap(s->ops[i], s->ops[i + 1]);
    for (size_t k = i + 2; k < s->ops.size(); k++)
        for (uint32_t d = 0; d < s->ops[k].nr_deps; d++) {
            uint32_t &at = s->deps[s->ops[k].dep + d];
            at = at == i ? static_cast<uint32_t>(i) + 1 : at == i + 1 ? static_cast<uint32_t>(i) : at;
        }
    return true;
}

bool SpoilByDropping(const zinf_sched_plan *, Copy *s, Random *r)
{
    DropOp(s, Below(r, s->ops.size()));
    return true;
}

bool SpoilByRepeating(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op o = s->ops[Below(r, s->ops.size())];
    if (o.kind != ZINF_OP_UPDATE && o.kind != ZINF_OP_WRITE && o.kind != ZINF_OP_ADD && o.kind != ZINF_OP_NORM)
        return false;
    o.dep = static_cast<uint32_t>(s->deps.size());
    o.nr_deps = static_cast<uint32_t>(s->ops.size());
    for (uint32_t i = 0; i < o.nr_deps; i++)
        s->deps.push_back(i);
    s->ops.push_back(o);
    return true;
}

bool SpoilLane(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    o.lane = static_cast<uint8_t>((o.lane + 1 + Below(r, ZINF_NR_LANES - 1)) % ZINF_NR_LANES);
    return true;
}

bool SpoilName(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    switch (Below(r, 7)) {
    case 0:
        o.layer++;
        break;
    case 1:
        o.unit++;
        break;
    case 2:
        o.grain++;
        break;
    case 3:
        o.micro++;
        break;
    case 4:
        o.nbytes++;
        break;
    case 5:
        o.last = !o.last;
        break;
    default:
        o.what = static_cast<uint8_t>((o.what + 1) % 8);
    }
    return true;
}

bool SpoilKind(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    o.kind = static_cast<uint8_t>((o.kind + 1 + Below(r, ZINF_NR_OP_KINDS)) % (ZINF_NR_OP_KINDS + 1));
    return true;
}

bool SpoilRanges(const zinf_sched_plan *, Copy *s, Random *r)
{
    zinf_op &o = s->ops[Below(r, s->ops.size())];
    uint32_t *const fields[] = {&o.nr_rd, &o.nr_wr, &o.nr_deps, &o.nr_acq, &o.nr_free};
    *fields[Below(r, 5)] = UINT32_MAX - static_cast<uint32_t>(Below(r, 3));
    return true;
}

TEST(ScheduleCheck, EveryWayOfSpoilingAScheduleIsReported)
{
    const std::map<std::string, Spoiler> spoilers = {
        {"dependency", SpoilDep}, {"slot", SpoilSlot},          {"taken slot", SpoilTakenSlot},
        {"take", SpoilTake},      {"free", SpoilFree},          {"version", SpoilVersion},
        {"object", SpoilObject},  {"role", SpoilRole},          {"flip", SpoilFlip},
        {"order", SpoilOrder},    {"dropped", SpoilByDropping}, {"repeated", SpoilByRepeating},
        {"lane", SpoilLane},      {"name", SpoilName},          {"kind", SpoilKind},
        {"ranges", SpoilRanges}};
    Random random(6);
    std::map<std::string, int> spoiled;
    for (int i = 0; i < 150; i++) {
        Case c = RandomCase(&random, 5);
        if (Below(&random, 2))
            AtMinimum(&c);
        PlanPtr p;
        zinf_status st;
        Schedules s;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
        for (const auto &[name, spoil] : spoilers)
            for (int k = 0; k < ZINF_NR_SCHED_KINDS; k++) {
                if (!s.of[k]->nr_ops)
                    continue;
                Copy copy(s.of[k].get());
                bool done = false;
                for (int tries = 0; tries < 20 && !done; tries++)
                    done = spoil(p.get(), &copy, &random);
                if (!done)
                    continue;
                zinf_schedule bad = copy.View();
                auto chain = s.Chain(EveryPair());
                std::replace(chain.begin(), chain.end(), const_cast<const zinf_schedule *>(s.of[k].get()),
                             const_cast<const zinf_schedule *>(&bad));
                spoiled[name]++;
                EXPECT_EQ(-EINVAL, Check(p.get(), chain, &st))
                    << name << " of " << zinf_sched_kind_name(static_cast<zinf_sched_kind>(k)) << "\n" << c.Describe();
                EXPECT_NE('\0', st.text[0]);
            }
    }
    for (const auto &[name, spoil] : spoilers)
        EXPECT_GT(spoiled[name], 50) << name;
}

TEST(ScheduleCheck, EveryDependencyOfASmallStepIsNeeded)
{
    for (Ends ends : {Ends::kUntied, Ends::kTied, Ends::kBare}) {
        Case c = ChainCase(ends, 3, 3, 2);
        AtMinimum(&c);
        PlanPtr p;
        zinf_status st;
        Schedules s;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
        const zinf_schedule *steady = s.of[ZINF_SCHED_STEADY].get();
        for (uint32_t i = 0; i < steady->nr_ops; i++)
            for (uint32_t d = 0; d < steady->ops[i].nr_deps; d++) {
                Copy copy(steady);
                zinf_op &o = copy.ops[i];
                std::swap(copy.deps[o.dep + d], copy.deps[o.dep + o.nr_deps - 1]);
                o.nr_deps--;
                zinf_schedule bad = copy.View();
                char buf[200];
                EXPECT_EQ(-EINVAL, Check(p.get(), {&bad}, &st)) << zinf_op_describe(steady, i, buf, sizeof(buf))
                                                                << " without " << steady->deps[steady->ops[i].dep + d];
            }
    }
}

TEST(ScheduleCheck, ChainsThatMayNotFollowEachOtherAreReported)
{
    Case c = ChainCase(Ends::kUntied, 2, 2, 1);
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    const bool legal[ZINF_NR_SCHED_KINDS][ZINF_NR_SCHED_KINDS] = {
        /* first */ {false, true, true, false}, /* steady */ {false, true, true, false},
        /* flush */ {true, false, false, true}, /* eval */ {true, false, false, true}};
    for (int a = 0; a < ZINF_NR_SCHED_KINDS; a++)
        for (int b = 0; b < ZINF_NR_SCHED_KINDS; b++) {
            auto chain = s.Chain({static_cast<zinf_sched_kind>(a), static_cast<zinf_sched_kind>(b)});
            EXPECT_EQ(legal[a][b] ? 0 : -EINVAL, Check(p.get(), chain, &st)) << a << " then " << b << ": " << st.text;
        }
    EXPECT_EQ(0, Check(p.get(), {}, &st));
}

TEST(ScheduleCheck, LedgerThatDoesNotAddUpIsReported)
{
    Case c = ChainCase(Ends::kUntied, 2, 2, 1);
    AtMinimum(&c);
    PlanPtr p;
    zinf_status st;
    Schedules s;
    ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
    ASSERT_EQ(0, s.Build(p.get(), &st)) << st.text;
    auto chain = s.Chain({ZINF_SCHED_FIRST});
    p->budget.device_nbytes--;
    EXPECT_EQ(-EINVAL, Check(p.get(), chain, &st));
    p->budget.device_nbytes++;
    p->class_count[ZINF_CLASS_ACT]++;
    EXPECT_EQ(-EINVAL, Check(p.get(), chain, &st));
    p->class_count[ZINF_CLASS_ACT]--;
    EXPECT_EQ(0, Check(p.get(), chain, &st)) << st.text;
}

TEST(ScheduleCheck, ScheduleOfAnotherPlanIsReported)
{
    PlanPtr p[2];
    zinf_status st;
    Schedules s[2];
    for (int i = 0; i < 2; i++) {
        Case c = ChainCase(Ends::kUntied, 2 + static_cast<uint32_t>(i), 2, 1);
        ASSERT_EQ(0, c.Make(&p[i], &st)) << st.text;
        ASSERT_EQ(0, s[i].Build(p[i].get(), &st)) << st.text;
    }
    EXPECT_EQ(-EINVAL, Check(p[0].get(), s[1].Chain({ZINF_SCHED_FIRST}), &st));
    EXPECT_EQ(-EINVAL, Check(p[1].get(), s[0].Chain({ZINF_SCHED_FIRST}), &st));
}

}  // namespace
