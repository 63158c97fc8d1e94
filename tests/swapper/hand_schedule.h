/* tests/swapper/hand_schedule.h - small plans and schedules written by hand, for suites that want an exact or a wrong one. */
#ifndef ZINF_TESTS_SWAPPER_HAND_SCHEDULE_H_
#define ZINF_TESTS_SWAPPER_HAND_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "swapper/schedule.h"

namespace zinf_test {

inline zinf_loc Slot(zinf_class c, uint32_t i)
{
    return zinf_loc{ZINF_AT_SLOT, (uint8_t)c, i};
}

/* Operations in list order; view() is valid until the next change. */
class HandSchedule {
public:
    struct Op {
        zinf_op op{};
        std::vector<uint32_t> deps;
        std::vector<zinf_loc> acq, free;
        std::vector<zinf_access> rd, wr;
    };

    Op &Add(zinf_lane lane, std::vector<uint32_t> deps = {}, std::vector<zinf_loc> acq = {}, std::vector<zinf_loc> free = {})
    {
        ops.emplace_back();
        Op &o = ops.back();
        o.op.kind = ZINF_OP_FORWARD;
        o.op.lane = (uint8_t)lane;
        o.op.layer = o.op.unit = o.op.grain = o.op.micro = ZINF_NONE;
        o.deps = deps;
        o.acq = acq;
        o.free = free;
        return o;
    }

    const zinf_schedule *View()
    {
        flat_.clear(), accesses_.clear(), deps_.clear(), slots_.clear();
        for (Op &o : ops) {
            zinf_op f = o.op;
            f.rd = (uint32_t)accesses_.size(), f.nr_rd = (uint32_t)o.rd.size();
            accesses_.insert(accesses_.end(), o.rd.begin(), o.rd.end());
            f.wr = (uint32_t)accesses_.size(), f.nr_wr = (uint32_t)o.wr.size();
            accesses_.insert(accesses_.end(), o.wr.begin(), o.wr.end());
            f.dep = (uint32_t)deps_.size(), f.nr_deps = (uint32_t)o.deps.size();
            deps_.insert(deps_.end(), o.deps.begin(), o.deps.end());
            f.acq = (uint32_t)slots_.size(), f.nr_acq = (uint32_t)o.acq.size();
            slots_.insert(slots_.end(), o.acq.begin(), o.acq.end());
            f.free = (uint32_t)slots_.size(), f.nr_free = (uint32_t)o.free.size();
            slots_.insert(slots_.end(), o.free.begin(), o.free.end());
            flat_.push_back(f);
        }
        view_ = zinf_schedule{};
        view_.kind = ZINF_SCHED_FIRST;
        view_.ops = flat_.data(), view_.nr_ops = (uint32_t)flat_.size();
        view_.accesses = accesses_.data(), view_.nr_accesses = (uint32_t)accesses_.size();
        view_.deps = deps_.data(), view_.nr_deps = (uint32_t)deps_.size();
        view_.slots = slots_.data(), view_.nr_slots = (uint32_t)slots_.size();
        view_.flips = flips.empty() ? nullptr : flips.data();
        return &view_;
    }

    std::vector<Op> ops;
    std::vector<uint8_t> flips;

private:
    std::vector<zinf_op> flat_;
    std::vector<zinf_access> accesses_;
    std::vector<uint32_t> deps_;
    std::vector<zinf_loc> slots_;
    zinf_schedule view_{};
};

}  // namespace zinf_test

#endif  // ZINF_TESTS_SWAPPER_HAND_SCHEDULE_H_
