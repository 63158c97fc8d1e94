/* swapper/schedule_internal.h - what the parts of the scheduler share; nobody else includes it.
 *
 * A *program* is one walk of the step in the order --serial runs it, every value in a *buffer* of its own: the
 * access of a buffer has space SLOT, sub = class and index = the buffer's number. The serial walk over it gives the
 * minimum (plan.c); the list scheduler gives buffers their slots (build.c). A *cell* is the smallest thing that has
 * a version: one grain's weights in a place, a grain's state, a gradient, a slot. */
#ifndef ZINF_SWAPPER_SCHEDULE_INTERNAL_H_
#define ZINF_SWAPPER_SCHEDULE_INTERNAL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "swapper/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_SCHED_ALIGN 4096u    /* of slots, homes and extents */

struct zinf_program {
    struct zinf_op *ops;              uint32_t nr_ops;        /* acq and free are not set */
    struct zinf_access *accesses;     uint32_t nr_accesses;
    uint32_t *deps;                   uint32_t nr_deps;
    uint8_t *buf_class;               uint32_t nr_bufs;
    uint8_t *flips;                   /* per grain */
};

/* Emits the program of a kind under the homes and keeps of p (slot counts and budgets are not looked at); flags are
 * those in force. 0 or -ENOMEM; then *out is empty. */
int zinf_program_emit(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags,
                      struct zinf_program *out);
void zinf_program_free(struct zinf_program *g);
/* Slots in use at once when the program runs one operation at a time, per class. 0 or -ENOMEM. */
int zinf_program_peaks(const struct zinf_program *g, uint32_t peak[ZINF_NR_CLASSES]);

/* Sum of count x size, homes and fixed areas per tier (DEVICE, HOST); UINT64_MAX when it does not fit in 64 bits. */
void zinf_plan_ledger(const struct zinf_sched_plan *p, uint64_t use[2]);

/* NULL when an operation's numbers, lane, bytes and accesses are what its name and the plan ask for, else what is
 * wrong. */
const char *zinf_op_expect(const struct zinf_sched_plan *p, const struct zinf_op *o, const struct zinf_access *rd_first,
                           const struct zinf_access *wr_first);

/* Makes room for need elements in *(void **)array, doubling; false = out of memory. */
bool zinf_sched_grow(void *array, uint32_t *cap, uint64_t need, size_t elem_nbytes);

/* What a kind does: the pending updates of t-1; an iteration; neither is a flush after a skip or an evaluation. */
static inline bool zinf_kind_updates(enum zinf_sched_kind kind)
{
    return kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_FLUSH;
}
static inline bool zinf_kind_trains(enum zinf_sched_kind kind)
{
    return kind == ZINF_SCHED_FIRST || kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_SKIP;
}

/* Whether two operations on one lane are ordered by the lane alone. */
static inline bool zinf_op_same_stream(const struct zinf_op *a, const struct zinf_op *b)
{
    return a->lane == b->lane && zinf_lane_is_stream((enum zinf_lane)a->lane);
}

/* Number of the cells of homes and extents, and where those of one space begin. */
static inline uint32_t zinf_cell_base(const struct zinf_sched_plan *p, uint32_t space)
{
    static const uint8_t grains[ZINF_NR_SPACES + 1] = { 0, 0, 1, 2, 3, 4, 4, 4, 6, 8 };
    static const uint8_t units[ZINF_NR_SPACES + 1] = { 0, 0, 0, 0, 0, 0, 1, 2, 2, 2 };
    return grains[space] * p->nr_grains + units[space] * p->spec.nr_units;
}
static inline uint32_t zinf_nr_home_cells(const struct zinf_sched_plan *p)
{
    return zinf_cell_base(p, ZINF_NR_SPACES);
}

/* Cells that an access of a home or extent touches: *nr cells from *first on (a device home used as a whole has one
 * per grain). false = no such place. whole: the operation uses device weights as a whole (all but UPDATE do). */
static inline bool zinf_home_cells(const struct zinf_sched_plan *p, const struct zinf_access *a, bool whole,
                                   uint32_t *first, uint32_t *nr)
{
    uint32_t space = a->loc.space, i = a->loc.index;
    if (space == ZINF_AT_SLOT || space >= ZINF_NR_SPACES)
        return false;
    uint32_t base = zinf_cell_base(p, space);
    *nr = 1;
    switch (space) {
    case ZINF_AT_WEIGHT_HOST:
    case ZINF_AT_WEIGHT_DEVICE:
        if (i >= p->spec.nr_units)
            return false;
        if (space == ZINF_AT_WEIGHT_DEVICE && whole) {
            *first = base + p->unit_first_grain[i];
            *nr = p->unit_first_grain[i + 1] - p->unit_first_grain[i];
            return a->part == 0;
        }
        *first = base + a->part;
        return a->part >= p->unit_first_grain[i] && a->part < p->unit_first_grain[i + 1];
    case ZINF_AT_GRAD_HOST:
    case ZINF_AT_GRAD_DEVICE:
        *first = base + i;
        return i < p->spec.nr_units && a->part == 0;
    case ZINF_AT_STATE_HOST:
    case ZINF_AT_STATE_DEVICE:
        *first = base + i;
        return i < p->nr_grains && a->part == 0;
    default:
        *first = base + 2 * i + a->loc.sub;
        return i < p->nr_grains && a->loc.sub <= ZINF_ROLE_ALTERNATE && a->part == 0;
    }
}

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_SCHEDULE_INTERNAL_H_ */
