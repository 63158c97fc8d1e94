/* tests/swapper/store_rig.h - a store with its arenas, folders, mover and lanes, and operations by hand. */
#ifndef ZINF_TESTS_SWAPPER_STORE_RIG_H_
#define ZINF_TESTS_SWAPPER_STORE_RIG_H_

#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/backend.h"
#include "io/fault_io.h"
#include "swapper/lane.h"
#include "swapper/mover.h"
#include "swapper/schedule.h"
#include "swapper/store.h"
#include "tests/swapper/hand_schedule.h"
#include "zinf/base/status.h"

namespace zinf_test {

constexpr uint64_t kChunk = 4096;

class TempDir {
public:
    TempDir()
    {
        const char *base = getenv("TEST_TMPDIR");
        std::string t = std::string(base ? base : "/tmp") + "/store-XXXXXX";
        EXPECT_NE(mkdtemp(t.data()), nullptr);
        path = t;
    }
    ~TempDir() { std::filesystem::remove_all(path); }
    std::string path;
};

struct Spec {
    zinf_tier weights = ZINF_TIER_NVME, state = ZINF_TIER_NVME;
    std::vector<uint64_t> units = {3 * kChunk, 5 * kChunk, 0, 2 * kChunk, 4 * kChunk};   /* embedding, layers, head */
    uint32_t state_nbytes = 10;
    uint64_t grain = 2 * kChunk;
    uint64_t device_nbytes = 0, host_nbytes = 0;      /* 0 = plenty */
};

struct FreePlan {
    void operator()(zinf_sched_plan *p) const { zinf_plan_free(p); }
};
using PlanPtr = std::unique_ptr<zinf_sched_plan, FreePlan>;

inline PlanPtr MakePlan(const Spec &s)
{
    std::vector<uint32_t> layers;
    for (uint32_t i = 1; i + 1 < s.units.size(); i++)
        layers.push_back(i);
    zinf_sched_spec m{};
    m.nr_units = (uint32_t)s.units.size();
    m.unit_elems = s.units.data();
    m.embed_unit = 0, m.head_unit = m.nr_units - 1;
    m.nr_layers = (uint32_t)layers.size(), m.layer_units = layers.data();
    m.nr_micro = 2, m.act_nbytes = 8192;
    m.weight_nbytes = 2, m.state_nbytes = s.state_nbytes, m.grad_nbytes = 2;
    m.grain_elems = s.grain;
    m.weight_tier = s.weights, m.state_tier = s.state;
    m.device_fixed_nbytes = 1000, m.host_fixed_nbytes = 3000;
    zinf_sched_policy policy{1, false};
    zinf_sched_budget budget{s.device_nbytes ? s.device_nbytes : UINT64_MAX / 8, s.host_nbytes ? s.host_nbytes : UINT64_MAX / 8};
    zinf_sched_plan *p = nullptr;
    zinf_status st{};
    EXPECT_EQ(zinf_plan_make(&m, &policy, &zinf_sched_default_rates, &budget, &p, &st), 0) << st.text;
    return PlanPtr(p);
}

struct Backend {
    const char *name;
    bool reorder;          /* through the fault backend, in a drawn order */
};

/* A store with its arenas, folders, mover and lanes. */
class Rig {
public:
    explicit Rig(const zinf_sched_plan *p, const Backend &b = {"threads", false}, uint32_t nr_dirs = 1) : plan(p)
    {
        for (uint32_t i = 0; i < nr_dirs; i++) {
            dirs.push_back(temp.path + "/d" + std::to_string(i));
            std::filesystem::create_directory(dirs.back());
        }
        zinf_io_fault_log_init(&log);
        script.inner = zinf_io_ops_find(b.name);
        script.log = &log;
        script.reorder_seed = b.reorder ? 99 : 0;
        opts.plan = plan;
        opts.io.ops = b.reorder ? &zinf_io_fault_ops : script.inner;
        opts.io.backend_arg = b.reorder ? &script : nullptr;
        opts.io.event_fd = -1;
        opts.direct = true;
        memset(lanes, 0, sizeof(lanes));
    }
    ~Rig()
    {
        zinf_store_close(store);
        zinf_mover_close(mover);
        zinf_io_fault_log_free(&log);
        free(device);
        free(host);
    }
    /* Every request goes through the fault backend, whose log and rules are the test's. */
    void UseFaults()
    {
        opts.io.ops = &zinf_io_fault_ops;
        opts.io.backend_arg = &script;
    }
    int Open()
    {
        if (!device) {
            device = (unsigned char *)aligned_alloc(4096, (plan->use[0] + 4095) / 4096 * 4096 + 4096);
            host = (unsigned char *)aligned_alloc(4096, (plan->use[1] + 4095) / 4096 * 4096 + 4096);
            memset(device, 0, plan->use[0]);
            memset(host, 0, plan->use[1]);
        }
        zinf_mover_opts mo{};
        mo.lanes = lanes, mo.plan = plan, mo.max_ops = 4096;
        EXPECT_EQ(zinf_mover_open(&mo, &mover, &st), 0) << st.text;
        for (const std::string &d : dirs)
            dir_ptrs.push_back(d.c_str());
        opts.device_base = device, opts.host_base = host;
        opts.dirs = dir_ptrs.data(), opts.nr_dirs = (uint32_t)dir_ptrs.size();
        opts.io.event_fd = zinf_mover_event_fd(mover);
        int rc = zinf_store_open(&opts, &store, &st);
        if (!rc)
            for (zinf_lane l : {ZINF_LANE_NVME_READ, ZINF_LANE_NVME_WRITE, ZINF_LANE_SYNC})
                lanes[l] = zinf_store_lane(store, l);
        return rc;
    }
    /* The store alone, in the arenas and folders there are. */
    int Reopen()
    {
        if (!mover)
            return Open();
        zinf_store_close(store);
        store = nullptr;
        int rc = zinf_store_open(&opts, &store, &st);
        if (!rc)
            for (zinf_lane l : {ZINF_LANE_NVME_READ, ZINF_LANE_NVME_WRITE, ZINF_LANE_SYNC})
                lanes[l] = zinf_store_lane(store, l);
        return rc;
    }
    int Run(HandSchedule &s)
    {
        st = zinf_status{};
        return zinf_mover_run(mover, s.View(), nullptr, nullptr, &st);
    }
    uint64_t WeightBytes(uint32_t g) const { return plan->grains[g].nr_elems * plan->spec.weight_nbytes; }
    uint64_t StateBytes(uint32_t g) const { return plan->grains[g].nr_elems * plan->spec.state_nbytes; }
    std::string Text() const { return st.text; }

    const zinf_sched_plan *plan;
    TempDir temp;
    std::vector<std::string> dirs;
    std::vector<const char *> dir_ptrs;
    zinf_io_fault_log log;
    zinf_io_fault_script script{};
    zinf_store_opts opts{};
    zinf_lane_impl lanes[ZINF_NR_LANES];
    zinf_mover *mover = nullptr;
    struct zinf_store *store = nullptr;
    unsigned char *device = nullptr, *host = nullptr;
    zinf_status st{};
};

inline std::vector<unsigned char> Bytes(uint64_t n, uint32_t seed)
{
    std::vector<unsigned char> v(n);
    uint32_t x = seed * 2654435761u + 1;
    for (unsigned char &b : v)
        x = x * 1664525u + 1013904223u, b = (unsigned char)(x >> 24);
    return v;
}

inline void PutAll(Rig &rig, uint32_t salt)
{
    for (uint32_t g = 0; g < rig.plan->nr_grains; g++) {
        auto w = Bytes(rig.WeightBytes(g), g + salt), s = Bytes(rig.StateBytes(g), g + salt + 1000);
        ASSERT_EQ(zinf_store_put_grain(rig.store, g, w.data(), s.data(), &rig.st), 0) << rig.Text();
    }
}

inline void ExpectGrain(Rig &rig, uint32_t g, uint32_t salt)
{
    std::vector<unsigned char> w(rig.WeightBytes(g)), s(rig.StateBytes(g));
    ASSERT_EQ(zinf_store_get_grain(rig.store, g, w.data(), s.data(), &rig.st), 0) << rig.Text();
    EXPECT_TRUE(w == Bytes(w.size(), g + salt)) << "weights of grain " << g;
    EXPECT_TRUE(s == Bytes(s.size(), g + salt + 1000)) << "state of grain " << g;
}

/* ---- operations by hand ---- */

inline zinf_access At(zinf_loc loc, uint32_t part = 0)
{
    zinf_access a{};
    a.loc = loc, a.part = part;
    return a;
}
inline zinf_loc Extent(zinf_space space, uint32_t g, zinf_role role)
{
    return zinf_loc{(uint8_t)space, (uint8_t)role, g};
}

inline void ReadWeights(HandSchedule &s, const zinf_sched_plan *p, uint32_t u, uint32_t slot, std::vector<uint32_t> deps = {},
                 zinf_role role = ZINF_ROLE_CURRENT)
{
    auto &o = s.Add(ZINF_LANE_NVME_READ, deps, {Slot(ZINF_CLASS_WEIGHT, slot)});
    o.op.kind = ZINF_OP_READ, o.op.what = ZINF_WHAT_WEIGHTS, o.op.unit = u;
    for (uint32_t g = p->unit_first_grain[u]; g < p->unit_first_grain[u + 1]; g++) {
        o.rd.push_back(At(Extent(ZINF_AT_EXTENT_WEIGHT, g, role)));
        o.wr.push_back(At(Slot(ZINF_CLASS_WEIGHT, slot), g));
    }
}

inline void ReadState(HandSchedule &s, uint32_t g, uint32_t slot, std::vector<uint32_t> deps = {},
                      zinf_role role = ZINF_ROLE_CURRENT)
{
    auto &o = s.Add(ZINF_LANE_NVME_READ, deps, {Slot(ZINF_CLASS_STATE, slot)});
    o.op.kind = ZINF_OP_READ, o.op.what = ZINF_WHAT_STATE, o.op.grain = g;
    o.rd.push_back(At(Extent(ZINF_AT_EXTENT_STATE, g, role)));
    o.wr.push_back(At(Slot(ZINF_CLASS_STATE, slot)));
}

inline void WriteGrain(HandSchedule &s, uint32_t g, zinf_loc weights, uint32_t state_slot, std::vector<uint32_t> deps)
{
    auto &o = s.Add(ZINF_LANE_NVME_WRITE, deps);
    o.op.kind = ZINF_OP_WRITE, o.op.what = ZINF_WHAT_GRAIN, o.op.grain = g;
    o.rd = {At(Slot(ZINF_CLASS_STATE, state_slot)), At(weights, g)};
    o.wr = {At(Extent(ZINF_AT_EXTENT_STATE, g, ZINF_ROLE_ALTERNATE)), At(Extent(ZINF_AT_EXTENT_WEIGHT, g, ZINF_ROLE_ALTERNATE))};
}

/* A lane whose operations are done when they are issued; what they do is the test's. */
struct Now {
    std::function<void(const zinf_schedule *, uint32_t)> work;
    static int Issue(void *ctx, zinf_mover *m, const zinf_schedule *s, uint32_t op, const uint32_t *, uint32_t, zinf_status *)
    {
        static_cast<Now *>(ctx)->work(s, op);
        zinf_mover_complete(m, op, 0);
        return 0;
    }
    zinf_lane_impl Lane() { return zinf_lane_impl{Issue, nullptr, this, 0}; }
};

}  // namespace zinf_test

#endif  // ZINF_TESTS_SWAPPER_STORE_RIG_H_
