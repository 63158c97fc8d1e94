/* tests/swapper/schedule_cases.cc - random models, plans and schedules for the suites of the scheduler. */
#include "tests/swapper/schedule_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace zinf_test {

const zinf_sched_spec *Case::Spec()
{
    spec.nr_units = static_cast<uint32_t>(elems.size());
    spec.unit_elems = elems.data();
    spec.nr_layers = static_cast<uint32_t>(layers.size());
    spec.layer_units = layers.data();
    return &spec;
}

int Case::Make(PlanPtr *out, zinf_status *st)
{
    zinf_sched_plan *p = nullptr;
    *st = zinf_status{};
    int rc = zinf_plan_make(Spec(), &policy, &rates, &budget, &p, st);
    out->reset(p);
    return rc;
}

std::string Case::Describe() const
{
    std::ostringstream o;
    o << layers.size() << " layers, " << spec.nr_micro << " micro-batches, embed " << spec.embed_unit << " head "
      << spec.head_unit << " act " << spec.act_nbytes << " bytes/elem " << spec.weight_nbytes << ","
      << spec.state_nbytes << "," << spec.grad_nbytes << " grain " << spec.grain_elems << " tiers " << spec.weight_tier
      << "," << spec.state_tier << " budget " << budget.device_nbytes << "," << budget.host_nbytes << " window "
      << policy.window << " spare " << policy.use_spare_host << " chunks";
    for (uint64_t e : elems)
        o << ' ' << e / kChunk;
    return o.str();
}

Case ChainCase(Ends ends, uint32_t nr_layers, uint64_t chunks, uint32_t nr_micro)
{
    Case c;
    bool embed = ends != Ends::kNoEmbedding && ends != Ends::kBare;
    bool head = ends == Ends::kUntied || ends == Ends::kNoEmbedding;
    if (embed)
        c.elems.push_back(chunks * kChunk);
    for (uint32_t i = 0; i < nr_layers; i++) {
        c.layers.push_back(static_cast<uint32_t>(c.elems.size()));
        c.elems.push_back(chunks * kChunk);
    }
    if (head)
        c.elems.push_back(chunks * kChunk);
    c.spec.embed_unit = embed ? 0 : ZINF_NONE;
    c.spec.head_unit = head ? static_cast<uint32_t>(c.elems.size() - 1) : ends == Ends::kTied ? 0 : ZINF_NONE;
    c.spec.nr_micro = nr_micro;
    c.spec.act_nbytes = 10000;
    c.spec.weight_nbytes = 2;
    c.spec.state_nbytes = 10;
    c.spec.grad_nbytes = 2;
    c.spec.grain_elems = 2 * kChunk;
    c.spec.weight_tier = c.spec.state_tier = ZINF_TIER_NVME;
    return c;
}

Case RandomCase(std::mt19937_64 *random, uint32_t max_layers)
{
    auto below = [random](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(*random); };
    auto rate = [random] { return std::pow(10.0, std::uniform_real_distribution<double>(6, 10)(*random)); };
    static const zinf_tier tiers[6][2] = {
        {ZINF_TIER_NVME, ZINF_TIER_NVME}, {ZINF_TIER_HOST, ZINF_TIER_NVME}, {ZINF_TIER_DEVICE, ZINF_TIER_NVME},
        {ZINF_TIER_NVME, ZINF_TIER_HOST}, {ZINF_TIER_HOST, ZINF_TIER_HOST}, {ZINF_TIER_DEVICE, ZINF_TIER_HOST}};
    uint32_t layers = 1 + static_cast<uint32_t>(below(below(4) ? std::min<uint64_t>(6, max_layers) : max_layers));
    Case c = ChainCase(static_cast<Ends>(below(5)), layers, 1, 1 + static_cast<uint32_t>(below(8)));
    for (uint64_t &e : c.elems)
        e = kChunk * below(below(3) ? 12 : 2);
    c.spec.act_nbytes = 1 + below(60000);
    c.spec.weight_nbytes = below(2) ? 2 : 4;
    c.spec.grad_nbytes = below(2) ? 2 : 4;
    c.spec.state_nbytes = std::vector<uint32_t>{0, 2, 8, 10}[below(4)];
    c.spec.grain_elems = kChunk * (1 + below(8));
    uint64_t t = below(7);
    c.spec.weight_tier = t == 6 ? ZINF_TIER_DEVICE : tiers[t][0];
    c.spec.state_tier = t == 6 ? ZINF_TIER_DEVICE : tiers[t][1];
    c.spec.device_fixed_nbytes = below(100000);
    c.spec.host_fixed_nbytes = below(100000);
    c.policy.window = static_cast<uint32_t>(below(5));
    c.policy.use_spare_host = below(4) != 0;
    c.rates = {rate(), rate(), rate(), rate(), rate(), rate(), rate(), rate() * 100, 1 + below(100000),
               1 / rate()};
    return c;
}

void AtMinimum(Case *c)
{
    PlanPtr p;
    zinf_status st;
    c->budget = {kAmple, kAmple};
    ASSERT_EQ(0, c->Make(&p, &st)) << st.text << "\n" << c->Describe();
    c->budget = {p->minimum[ZINF_TIER_DEVICE], p->minimum[ZINF_TIER_HOST]};
}

int Schedules::Build(const zinf_sched_plan *p, zinf_status *st)
{
    *st = zinf_status{};
    for (int k = 0; k < ZINF_NR_SCHED_KINDS; k++) {
        zinf_schedule *s = nullptr;
        int rc = zinf_schedule_build(p, static_cast<zinf_sched_kind>(k), ZINF_SCHED_COMMITS, &s, st);
        of[k].reset(s);
        if (rc)
            return rc;
    }
    return 0;
}

std::vector<const zinf_schedule *> Schedules::Chain(const std::vector<zinf_sched_kind> &kinds) const
{
    std::vector<const zinf_schedule *> chain;
    for (zinf_sched_kind k : kinds)
        chain.push_back(of[k].get());
    return chain;
}

std::vector<const zinf_schedule *> Schedules::Chain(const zinf_sched_plan *p, const std::vector<Link> &links,
                                                    zinf_status *st)
{
    std::vector<const zinf_schedule *> chain;
    for (const Link &l : links) {
        SchedulePtr &s = with[l];
        if (!s) {
            zinf_schedule *made = nullptr;
            if (zinf_schedule_build(p, l.kind, l.flags, &made, st))
                return {};
            s.reset(made);
        }
        chain.push_back(s.get());
    }
    return chain;
}

const std::vector<zinf_sched_kind> &EveryPair()
{
    static const std::vector<zinf_sched_kind> kinds = {
        ZINF_SCHED_FIRST, ZINF_SCHED_STEADY, ZINF_SCHED_STEADY, ZINF_SCHED_SKIP, ZINF_SCHED_SKIP, ZINF_SCHED_STEADY,
        ZINF_SCHED_FLUSH, ZINF_SCHED_FIRST, ZINF_SCHED_FLUSH, ZINF_SCHED_EVAL, ZINF_SCHED_EVAL, ZINF_SCHED_FIRST,
        ZINF_SCHED_SKIP, ZINF_SCHED_FLUSH, ZINF_SCHED_FIRST, ZINF_SCHED_FLUSH_SKIP, ZINF_SCHED_FIRST, ZINF_SCHED_SKIP,
        ZINF_SCHED_FLUSH_SKIP, ZINF_SCHED_EVAL, ZINF_SCHED_FIRST, ZINF_SCHED_STEADY, ZINF_SCHED_FLUSH_SKIP};
    return kinds;
}

/* The table of schedule.h, written down once more. */
std::vector<Link> RandomChain(std::mt19937_64 *random, Durable durable, int nr, bool extents)
{
    auto below = [random](uint64_t n) { return (*random)() % n; };
    std::vector<Link> chain;
    bool trained = below(2), dirty = extents && durable != Durable::kStep && below(2);
    uint64_t iteration = below(3);                /* the next schedule settles this one */
    for (int i = 0; i < nr; i++) {
        Link l{ZINF_SCHED_FIRST, dirty ? uint32_t{ZINF_SCHED_DIRTY} : 0};
        bool ends = trained && !below(4), commits = false;
        if (trained) {
            bool skipped = !below(3);
            l.kind = skipped ? (ends ? ZINF_SCHED_FLUSH_SKIP : ZINF_SCHED_SKIP)
                             : (ends ? ZINF_SCHED_FLUSH : ZINF_SCHED_STEADY);
            commits = durable == Durable::kStep || (durable == Durable::kEvery3 && (ends || iteration % 3 == 0)) ||
                      (durable == Durable::kAny && below(2));
            if (commits && extents)
                l.flags |= ZINF_SCHED_COMMITS;
            dirty = extents && !commits && (dirty || !skipped);
        } else if (!below(3)) {
            l.kind = ZINF_SCHED_EVAL;
        }
        trained = trained ? !ends : l.kind == ZINF_SCHED_FIRST;
        iteration += trained;
        chain.push_back(l);
    }
    return chain;
}

std::string Words(const std::vector<Link> &links)
{
    std::string s;
    for (const Link &l : links)
        s += std::string(s.empty() ? "" : ", ") + zinf_sched_kind_name(l.kind) +
             (l.flags & ZINF_SCHED_COMMITS ? "+commits" : "") + (l.flags & ZINF_SCHED_DIRTY ? "+dirty" : "");
    return s;
}

int Check(const zinf_sched_plan *p, const std::vector<const zinf_schedule *> &chain, zinf_status *st)
{
    *st = zinf_status{};
    return zinf_schedule_check(p, chain.data(), static_cast<uint32_t>(chain.size()), st);
}

Copy::Copy(const zinf_schedule *s)
    : kind(s->kind), flags(s->flags), ops(s->ops, s->ops + s->nr_ops),
      accesses(s->accesses, s->accesses + s->nr_accesses), deps(s->deps, s->deps + s->nr_deps),
      slots(s->slots, s->slots + s->nr_slots), flips(s->flips, s->flips + s->nr_grains)
{
}

zinf_schedule Copy::View()
{
    zinf_schedule s{};
    s.kind = kind;
    s.flags = flags;
    s.ops = ops.data();
    s.nr_ops = static_cast<uint32_t>(ops.size());
    s.accesses = accesses.data();
    s.nr_accesses = static_cast<uint32_t>(accesses.size());
    s.deps = deps.data();
    s.nr_deps = static_cast<uint32_t>(deps.size());
    s.slots = slots.data();
    s.nr_slots = static_cast<uint32_t>(slots.size());
    s.flips = flips.data();
    s.nr_grains = static_cast<uint32_t>(flips.size());
    return s;
}

std::string Dump(const zinf_schedule *s)
{
    std::ostringstream o;
    char buf[256];
    o << zinf_sched_kind_name(s->kind) << ' ' << s->flags << ' ' << s->seconds << '\n';
    for (uint32_t i = 0; i < s->nr_ops; i++) {
        const zinf_op &p = s->ops[i];
        o << zinf_op_describe(s, i, buf, sizeof(buf)) << ' ' << zinf_lane_name(static_cast<zinf_lane>(p.lane)) << ' '
          << p.last << ' ' << p.nbytes << ' ' << p.seconds << " after";
        for (uint32_t d = 0; d < p.nr_deps; d++)
            o << ' ' << s->deps[p.dep + d];
        for (uint32_t k = 0; k < p.nr_rd + p.nr_wr; k++) {
            const zinf_access &a = s->accesses[k < p.nr_rd ? p.rd + k : p.wr + k - p.nr_rd];
            o << (k < p.nr_rd ? " r" : " w") << int{a.loc.space} << '.' << int{a.loc.sub} << '.' << a.loc.index << '.'
              << a.part << '=' << int{a.object} << '.' << a.a << '.' << a.b << '@' << a.version;
        }
        for (uint32_t k = 0; k < p.nr_acq; k++)
            o << " +" << int{s->slots[p.acq + k].sub} << '.' << s->slots[p.acq + k].index;
        for (uint32_t k = 0; k < p.nr_free; k++)
            o << " -" << int{s->slots[p.free + k].sub} << '.' << s->slots[p.free + k].index;
        o << '\n';
    }
    o << std::string(s->flips, s->flips + s->nr_grains);
    return o.str();
}

/* Grants what a refusal asks for; true when the plan was made. */
static bool Grant(Case *c, PlanPtr *p, zinf_status *st, int *refused)
{
    for (int tries = 0; tries < 3; tries++) {
        int rc = c->Make(p, st);
        unsigned long long more = 0;
        char tier[16] = "";
        if (!rc)
            return true;
        if (rc != -ENOSPC || std::sscanf(st->text, "needs %llu more bytes of %15s memory", &more, tier) != 2)
            return false;
        *refused += tries == 0;
        (std::strcmp(tier, "device") ? c->budget.host_nbytes : c->budget.device_nbytes) += more;
    }
    return false;
}

int RunProperty(uint64_t seed, int cases, std::map<std::pair<Link, Link>, int> *pairs)
{
    std::mt19937_64 random(seed);
    int refused = 0;
    for (int i = 0; i < cases && !::testing::Test::HasFailure(); i++) {
        Case c = RandomCase(&random, 96);
        AtMinimum(&c);
        for (uint64_t *b : {&c.budget.device_nbytes, &c.budget.host_nbytes}) {
            static const double factors[] = {0, 0.5, 0.99, 1, 1, 1.01, 1.2, 2, 5, 50};
            *b = static_cast<uint64_t>(static_cast<double>(*b) * factors[random() % 10]);
        }
        PlanPtr p;
        zinf_status st;
        Schedules s;
        if (!Grant(&c, &p, &st, &refused)) {
            ADD_FAILURE() << "case " << i << ": " << st.text << "\n" << c.Describe();
            break;
        }
        bool extents = p->extents_weight;
        std::vector<Link> links = RandomChain(&random, static_cast<Durable>(i % 4), 9, extents);
        auto chain = s.Chain(p.get(), links, &st);
        if (chain.empty() || Check(p.get(), chain, &st))
            ADD_FAILURE() << "case " << i << ": " << st.text << "\n" << Words(links) << "\n" << c.Describe();
        for (size_t k = 1; extents && k < links.size(); k++)
            (*pairs)[{links[k - 1], links[k]}]++;
    }
    return refused;
}

}  // namespace zinf_test
