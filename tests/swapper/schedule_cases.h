/* tests/swapper/schedule_cases.h - random models, plans and schedules for the suites of the scheduler. */
#ifndef ZINF_TESTS_SWAPPER_SCHEDULE_CASES_H_
#define ZINF_TESTS_SWAPPER_SCHEDULE_CASES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "swapper/schedule.h"

namespace zinf_test {

struct PlanFree { void operator()(zinf_sched_plan *p) const { zinf_plan_free(p); } };
struct ScheduleFree { void operator()(zinf_schedule *s) const { zinf_schedule_free(s); } };
using PlanPtr = std::unique_ptr<zinf_sched_plan, PlanFree>;
using SchedulePtr = std::unique_ptr<zinf_schedule, ScheduleFree>;

constexpr uint64_t kChunk = 4096;
constexpr uint64_t kAmple = uint64_t{1} << 40;

enum class Ends { kUntied, kTied, kNoHead, kNoEmbedding, kBare };   /* of the chain */

/* What a plan is made of. */
struct Case {
    std::vector<uint64_t> elems;
    std::vector<uint32_t> layers;
    zinf_sched_spec spec{};
    zinf_sched_policy policy{1, true};
    zinf_sched_rates rates = zinf_sched_default_rates;
    zinf_sched_budget budget{kAmple, kAmple};

    /* spec with its pointers set; valid while this lives and does not move */
    const zinf_sched_spec *Spec();
    int Make(PlanPtr *out, zinf_status *st);
    std::string Describe() const;
};

/* A chain of nr_layers layers of `chunks` x 4096 elements. */
Case ChainCase(Ends ends, uint32_t nr_layers, uint64_t chunks, uint32_t nr_micro);
/* Sizes from nothing to many chunks, every legal pair of tiers, every kind of ends; budgets ample. */
Case RandomCase(std::mt19937_64 *random, uint32_t max_layers);
/* Makes the plan with budgets that have nothing to spare. */
void AtMinimum(Case *c);

/* A schedule of a chain. */
struct Link {
    zinf_sched_kind kind;
    uint32_t flags;
    bool operator<(const Link &o) const { return kind != o.kind ? kind < o.kind : flags < o.flags; }
};

struct Schedules {
    SchedulePtr of[ZINF_NR_SCHED_KINDS];          /* as they follow each other when every step commits */
    std::map<Link, SchedulePtr> with;             /* as links asked for */
    int Build(const zinf_sched_plan *p, zinf_status *st);
    std::vector<const zinf_schedule *> Chain(const std::vector<zinf_sched_kind> &kinds) const;
    /* Builds what is not there yet; empty on a failure. */
    std::vector<const zinf_schedule *> Chain(const zinf_sched_plan *p, const std::vector<Link> &links, zinf_status *st);
};
/* A chain with every legal pair of kinds in it, for Schedules.of. */
const std::vector<zinf_sched_kind> &EveryPair();

enum class Durable { kStep, kEvery3, kNone, kAny };
/* A legal chain of nr links that begins anywhere: kinds at random, flags as the setting has them; kAny: at random. */
std::vector<Link> RandomChain(std::mt19937_64 *random, Durable durable, int nr, bool extents);
std::string Words(const std::vector<Link> &links);
int Check(const zinf_sched_plan *p, const std::vector<const zinf_schedule *> &chain, zinf_status *st);

/* A schedule that a test may spoil. */
struct Copy {
    zinf_sched_kind kind;
    uint32_t flags;
    std::vector<zinf_op> ops;
    std::vector<zinf_access> accesses;
    std::vector<uint32_t> deps;
    std::vector<zinf_loc> slots;
    std::vector<uint8_t> flips;

    explicit Copy(const zinf_schedule *s);
    zinf_schedule View();
};

/* Everything of a schedule in words and numbers, to compare. */
std::string Dump(const zinf_schedule *s);

/* The property: each random case is refused with a byte count that is enough, or builds and passes the check on random
 * chains. Reports failures with ADD_FAILURE; returns how many plans were refused at first. pairs counts what followed
 * what. */
int RunProperty(uint64_t seed, int cases, std::map<std::pair<Link, Link>, int> *pairs);

}  // namespace zinf_test

#endif  // ZINF_TESTS_SWAPPER_SCHEDULE_CASES_H_
