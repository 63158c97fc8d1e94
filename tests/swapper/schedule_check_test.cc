/* tests/swapper/schedule_check_test.cc - every way of spoiling a good schedule is reported.
 *
 * There are no exceptions among what is spoiled here. Not spoiled, because nothing in a run depends on them:
 * predicted seconds, and the order of operations that have no edge between them. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <set>
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

bool Has(const std::string &text, const char *words)
{
    return text.find(words) != std::string::npos;
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
    if (s->accesses.empty())
        return false;
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
    if (s->accesses.empty())
        return false;
    s->accesses[Below(r, s->accesses.size())].version += Below(r, 2) ? 1 : -1;
    return true;
}

bool SpoilObject(const zinf_sched_plan *, Copy *s, Random *r)
{
    if (s->accesses.empty())
        return false;
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
    if (s->accesses.empty())
        return false;
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

/* Not DIRTY: every pair where it is wrong is tried below, and a chain that begins so may be right. */
bool SpoilFlags(const zinf_sched_plan *, Copy *s, Random *r)
{
    s->flags ^= Below(r, 2) ? uint32_t{ZINF_SCHED_COMMITS} : 4u;
    return true;
}

/* COMMIT with one WRITE behind it that used to be before it. */
bool SpoilCommitOrder(const zinf_sched_plan *, Copy *s, Random *r)
{
    std::vector<size_t> writes;
    size_t commit = 0;
    for (size_t i = 0; i < s->ops.size(); i++) {
        if (s->ops[i].kind == ZINF_OP_WRITE)
            writes.push_back(i);
        if (s->ops[i].kind == ZINF_OP_COMMIT)
            commit = i;
    }
    if (writes.empty() || !commit)
        return false;
    zinf_op &o = s->ops[commit];
    size_t write = writes[Below(r, writes.size())];
    uint32_t first = static_cast<uint32_t>(s->deps.size());
    for (uint32_t d = 0; d < o.nr_deps; d++) {
        uint32_t at = s->deps[o.dep + d];
        if (at != write)
            s->deps.push_back(at);
    }
    o.dep = first;
    o.nr_deps = static_cast<uint32_t>(s->deps.size()) - first;
    std::rotate(s->ops.begin() + static_cast<long>(write), s->ops.begin() + static_cast<long>(write) + 1,
                s->ops.begin() + static_cast<long>(commit) + 1);
    for (zinf_op &k : s->ops)
        for (uint32_t d = 0; d < k.nr_deps; d++) {
            uint32_t &at = s->deps[k.dep + d];
            at = at == write ? static_cast<uint32_t>(commit) : at > write && at <= commit ? at - 1 : at;
        }
    return true;
}

/* Somebody waits for COMMIT. */
bool SpoilCommitWait(const zinf_sched_plan *, Copy *s, Random *r)
{
    for (size_t i = 0; i + 1 < s->ops.size(); i++) {
        if (s->ops[i].kind != ZINF_OP_COMMIT)
            continue;
        zinf_op &o = s->ops[i + 1 + Below(r, s->ops.size() - i - 1)];
        uint32_t first = static_cast<uint32_t>(s->deps.size());
        for (uint32_t d = 0; d < o.nr_deps; d++)
            s->deps.push_back(s->deps[o.dep + d]);
        s->deps.push_back(static_cast<uint32_t>(i));
        o.dep = first;
        o.nr_deps++;
        return true;
    }
    return false;
}

TEST(ScheduleCheck, EveryWayOfSpoilingAScheduleIsReported)
{
    const std::map<std::string, Spoiler> spoilers = {
        {"dependency", SpoilDep}, {"slot", SpoilSlot},          {"taken slot", SpoilTakenSlot},
        {"take", SpoilTake},      {"free", SpoilFree},          {"version", SpoilVersion},
        {"object", SpoilObject},  {"role", SpoilRole},          {"flip", SpoilFlip},
        {"order", SpoilOrder},    {"dropped", SpoilByDropping}, {"repeated", SpoilByRepeating},
        {"lane", SpoilLane},      {"name", SpoilName},          {"kind", SpoilKind},
        {"ranges", SpoilRanges},  {"flags", SpoilFlags},        {"commit before a write", SpoilCommitOrder},
        {"commit waited for", SpoilCommitWait}};
    Random random(6);
    std::map<std::string, int> spoiled;
    for (int i = 0; i < 160; i++) {
        Case c = RandomCase(&random, 5);
        if (Below(&random, 2))
            AtMinimum(&c);
        PlanPtr p;
        zinf_status st;
        Schedules s;
        ASSERT_EQ(0, c.Make(&p, &st)) << st.text;
        std::vector<Link> links = RandomChain(&random, static_cast<Durable>(i % 4), 10, p->extents_weight);
        const auto chain = s.Chain(p.get(), links, &st);
        ASSERT_FALSE(chain.empty()) << st.text;
        ASSERT_EQ(0, Check(p.get(), chain, &st)) << st.text << "\n" << Words(links);
        for (const auto &[name, spoil] : spoilers)
            for (const auto &[link, good] : s.with) {
                if (!good->nr_ops)
                    continue;
                Copy copy(good.get());
                bool done = false;
                for (int tries = 0; tries < 20 && !done; tries++)
                    done = spoil(p.get(), &copy, &random);
                if (!done)
                    continue;
                zinf_schedule bad = copy.View();
                auto spoiled_chain = chain;
                std::replace(spoiled_chain.begin(), spoiled_chain.end(), const_cast<const zinf_schedule *>(good.get()),
                             const_cast<const zinf_schedule *>(&bad));
                spoiled[name]++;
                EXPECT_EQ(-EINVAL, Check(p.get(), spoiled_chain, &st))
                    << name << " of " << Words({link}) << " in " << Words(links) << "\n" << c.Describe();
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
        for (uint32_t flags = 0; flags < 4; flags++) {
            const zinf_schedule *steady = s.Chain(p.get(), {{ZINF_SCHED_STEADY, flags}}, &st).at(0);
            for (uint32_t i = 0; i < steady->nr_ops; i++)
                for (uint32_t d = 0; d < steady->ops[i].nr_deps; d++) {
                    Copy copy(steady);
                    zinf_op &o = copy.ops[i];
                    std::swap(copy.deps[o.dep + d], copy.deps[o.dep + o.nr_deps - 1]);
                    o.nr_deps--;
                    zinf_schedule bad = copy.View();
                    char buf[200];
                    EXPECT_EQ(-EINVAL, Check(p.get(), {&bad}, &st))
                        << zinf_op_describe(steady, i, buf, sizeof(buf)) << " without "
                        << steady->deps[steady->ops[i].dep + d];
                }
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
    const std::set<zinf_sched_kind> verdict = {ZINF_SCHED_FIRST, ZINF_SCHED_STEADY, ZINF_SCHED_SKIP}; /* ends in one */
    const std::set<zinf_sched_kind> settled = {ZINF_SCHED_FIRST, ZINF_SCHED_EVAL};                    /* acts on none */
    const std::set<zinf_sched_kind> writes = {ZINF_SCHED_STEADY, ZINF_SCHED_FLUSH};
    int legal = 0;
    auto kind = [](int i) { return static_cast<zinf_sched_kind>(i / 4); };
    for (int a = 0; a < 4 * ZINF_NR_SCHED_KINDS; a++)
        for (int b = 0; b < 4 * ZINF_NR_SCHED_KINDS; b++) {
            std::vector<Link> links = {{kind(a), a % 4u}, {kind(b), b % 4u}};
            auto chain = s.Chain(p.get(), links, &st);
            ASSERT_EQ(2u, chain.size()) << st.text;
            bool commits = a & ZINF_SCHED_COMMITS && !settled.count(kind(a));
            bool dirty = !commits && (a & ZINF_SCHED_DIRTY || writes.count(kind(a)));
            bool good = verdict.count(kind(a)) != settled.count(kind(b)) && dirty == !!(b & ZINF_SCHED_DIRTY);
            legal += good;
            EXPECT_EQ(good ? 0 : -EINVAL, Check(p.get(), chain, &st)) << Words(links) << ": " << st.text;
            std::string text = st.text;
            EXPECT_EQ(good, !Has(text, "verdict") && !Has(text, "the newest bytes are in")) << text;
        }
    EXPECT_EQ(12 * 4 * 2 + 12 * 2 * 2, legal);
    EXPECT_EQ(0, Check(p.get(), {}, &st));
}

/* The rules of commits, one violation each, and the words for it. */
class ScheduleCheckCommit : public ::testing::Test {
protected:
    void SetUp() override
    {
        Case c = ChainCase(Ends::kUntied, 2, 4, 1);
        AtMinimum(&c);
        zinf_status st;
        ASSERT_EQ(0, c.Make(&plan, &st)) << st.text;
    }

    static size_t Find(const Copy &s, zinf_op_kind kind, int version = -1)
    {
        for (size_t i = 0; i < s.ops.size(); i++)
            if (s.ops[i].kind == kind && (version < 0 || s.accesses[s.ops[i].rd].version == version))
                return i;
        ADD_FAILURE() << "no " << zinf_op_kind_name(kind);
        return 0;
    }

    /* What the check says of links when spoil has been at the one numbered at. */
    std::string Fault(const std::vector<Link> &links, size_t at, const std::function<void(Copy *)> &spoil)
    {
        zinf_status st{};
        auto chain = schedules.Chain(plan.get(), links, &st);
        EXPECT_EQ(0, Check(plan.get(), chain, &st)) << st.text;
        Copy copy(chain[at]);
        spoil(&copy);
        zinf_schedule bad = copy.View();
        chain[at] = &bad;
        EXPECT_EQ(-EINVAL, Check(plan.get(), chain, &st));
        return st.text;
    }

    PlanPtr plan;
    Schedules schedules;
};

const uint32_t kC = ZINF_SCHED_COMMITS, kD = ZINF_SCHED_DIRTY;

TEST_F(ScheduleCheckCommit, CommitThatDoesNotWaitForAWriteIsReported)
{
    for (uint32_t flags : {kC, kC | kD}) {
        std::string text = Fault({{ZINF_SCHED_STEADY, flags}, {ZINF_SCHED_STEADY, kC}}, 0, [](Copy *s) {
            s->ops[Find(*s, ZINF_OP_COMMIT)].nr_deps--;
        });
        EXPECT_TRUE(Has(text, "COMMIT does not wait for operation")) << text;
    }
}

TEST_F(ScheduleCheckCommit, WriteAfterCommitIsReported)
{
    std::string text = Fault({{ZINF_SCHED_FLUSH, kC}, {ZINF_SCHED_FIRST, 0}}, 0, [](Copy *s) {
        size_t commit = Find(*s, ZINF_OP_COMMIT);
        ASSERT_EQ(s->ops.size() - 1, commit);
        ASSERT_EQ(ZINF_OP_WRITE, s->ops[commit - 1].kind);
        zinf_op &o = s->ops[commit];
        auto first = s->deps.begin() + o.dep;
        o.nr_deps = static_cast<uint32_t>(std::remove(first, first + o.nr_deps, commit - 1) - first);
        std::swap(s->ops[commit], s->ops[commit - 1]);
        std::fill(s->flips.begin(), s->flips.end(), 0);      /* its record names the old extents: nothing is new there */
    });
    EXPECT_TRUE(Has(text, "the record of COMMIT names an extent that does not have the newest version")) << text;
}

TEST_F(ScheduleCheckCommit, WriteIntoTheExtentOfTheRecordIsReported)
{
    for (uint32_t flags : {0u, kC, kD, kC | kD}) {
        std::string text = Fault({{ZINF_SCHED_STEADY, flags}}, 0, [](Copy *s) {
            s->accesses[s->ops[Find(*s, ZINF_OP_WRITE)].wr].loc.sub = ZINF_ROLE_CURRENT;
        });
        EXPECT_TRUE(Has(text, "overwrites an extent that the newest record names")) << text;
    }
}

TEST_F(ScheduleCheckCommit, MissingFlipIsReportedAndSoIsOneWithoutCommit)
{
    const char *not_newest = "the record of COMMIT names an extent that does not have the newest version of grain 1";
    const std::vector<std::vector<Link>> commit = {{{ZINF_SCHED_STEADY, kC}}, {{ZINF_SCHED_FLUSH, kC | kD}},
                                                   {{ZINF_SCHED_SKIP, kC | kD}}, {{ZINF_SCHED_FLUSH_SKIP, kC | kD}}};
    for (const auto &links : commit) {
        std::string text = Fault(links, 0, [](Copy *s) { s->flips[1] = 0; });
        EXPECT_TRUE(Has(text, not_newest)) << text;
    }
    for (const std::vector<Link> &links : {std::vector<Link>{{ZINF_SCHED_SKIP, kC}}, {{ZINF_SCHED_FLUSH_SKIP, kC}}}) {
        std::string text = Fault(links, 0, [](Copy *s) { s->flips[1] = 1; });
        EXPECT_TRUE(Has(text, not_newest)) << text;
    }
    const Link others[] = {{ZINF_SCHED_STEADY, 0}, {ZINF_SCHED_FLUSH, kD}, {ZINF_SCHED_SKIP, kD}, {ZINF_SCHED_EVAL, kD}};
    for (Link l : others) {
        std::string text = Fault({l}, 0, [](Copy *s) { s->flips[1] = 1; });
        EXPECT_TRUE(Has(text, "writes, COMMIT and extent roles do not agree for grain 1")) << text;
    }
}

TEST_F(ScheduleCheckCommit, ReadOfTheWrongRoleIsReported)
{
    const std::vector<std::vector<Link>> chains = {
        {{ZINF_SCHED_STEADY, kC}, {ZINF_SCHED_STEADY, kC}}, {{ZINF_SCHED_STEADY, 0}, {ZINF_SCHED_STEADY, kD}},
        {{ZINF_SCHED_STEADY, 0}, {ZINF_SCHED_SKIP, kC | kD}}, {{ZINF_SCHED_STEADY, kC}, {ZINF_SCHED_SKIP, kC}},
        {{ZINF_SCHED_FLUSH, 0}, {ZINF_SCHED_FIRST, kD}}, {{ZINF_SCHED_FLUSH, kC}, {ZINF_SCHED_EVAL, 0}}};
    for (const auto &links : chains)
        for (int version : {0, 1}) {
            zinf_status st;
            Copy first(schedules.Chain(plan.get(), links, &st)[1]);
            bool any = std::any_of(first.ops.begin(), first.ops.end(), [&](const zinf_op &o) {
                return o.kind == ZINF_OP_READ && first.accesses[o.rd].version == version; });
            EXPECT_EQ(any, version == 1 || links[1].kind == ZINF_SCHED_STEADY);
            if (!any)
                continue;
            std::string text = Fault(links, 1, [version](Copy *s) {
                s->accesses[s->ops[Find(*s, ZINF_OP_READ, version)].rd].loc.sub ^= 1;
            });
            EXPECT_TRUE(Has(text, "reads a place that holds")) << Words(links) << ": " << text;
        }
}

TEST_F(ScheduleCheckCommit, CommitThatIsNotWantedOrMissingIsReported)
{
    std::string text = Fault({{ZINF_SCHED_SKIP, kC}}, 0, [](Copy *s) { DropOp(s, Find(*s, ZINF_OP_COMMIT)); });
    EXPECT_TRUE(Has(text, "COMMIT is missing")) << text;
    text = Fault({{ZINF_SCHED_SKIP, kC}}, 0, [](Copy *s) { s->flags = 0; });
    EXPECT_TRUE(Has(text, "is in a schedule that does not commit")) << text;
    text = Fault({{ZINF_SCHED_FLUSH_SKIP, kC}}, 0, [](Copy *s) { s->ops.push_back(s->ops[0]); });
    EXPECT_TRUE(Has(text, "comes twice")) << text;
    text = Fault({{ZINF_SCHED_STEADY, kC}}, 0, [](Copy *s) {
        zinf_op &o = s->ops.back();                          /* NORM */
        o.dep = static_cast<uint32_t>(s->deps.size());
        o.nr_deps = 1;
        s->deps.push_back(static_cast<uint32_t>(Find(*s, ZINF_OP_COMMIT)));
    });
    EXPECT_TRUE(Has(text, "waits for COMMIT")) << text;
}

TEST_F(ScheduleCheckCommit, KindsAndFlagsThatDoNotExistAreReported)
{
    std::string text = Fault({{ZINF_SCHED_EVAL, 0}}, 0, [](Copy *s) { s->kind = ZINF_NR_SCHED_KINDS; });
    EXPECT_TRUE(Has(text, "no such kind")) << text;
    for (uint32_t flags : {kC, 4u}) {
        text = Fault({{ZINF_SCHED_FIRST, 0}}, 0, [flags](Copy *s) { s->flags = flags; });
        EXPECT_TRUE(Has(text, "flags that this kind or plan does not have")) << text;
    }
    Case c = ChainCase(Ends::kUntied, 2, 4, 1);
    c.spec.weight_tier = c.spec.state_tier = ZINF_TIER_HOST;
    zinf_status st;
    ASSERT_EQ(0, c.Make(&plan, &st)) << st.text;
    schedules.with.clear();
    for (uint32_t flags : {kC, kD}) {
        text = Fault({{ZINF_SCHED_FLUSH, 0}}, 0, [flags](Copy *s) { s->flags = flags; });
        EXPECT_TRUE(Has(text, "flags that this kind or plan does not have")) << text;
    }
}

TEST_F(ScheduleCheckCommit, SkipThatUpdatesIsReported)
{
    for (uint32_t flags : {kC, kC | kD}) {
        std::string text = Fault({{ZINF_SCHED_STEADY, flags}}, 0, [](Copy *s) { s->kind = ZINF_SCHED_SKIP; });
        EXPECT_TRUE(Has(text, "reads a place that holds something else or another version")) << text;
    }
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
