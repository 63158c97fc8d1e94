/* swapper/check_internal.h - the checker's state, between check.c (operations) and check_seam.c (schedules). */
#ifndef ZINF_SWAPPER_CHECK_INTERNAL_H_
#define ZINF_SWAPPER_CHECK_INTERNAL_H_

#include <stdbool.h>
#include <stdint.h>

#include "swapper/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_check_note { uint32_t op, next; };               /* a list of operations, newest first */

struct zinf_check_cell {
    uint32_t a, b;
    int32_t  version;
    uint8_t  object;
    bool     valid;
    uint32_t writer;                              /* in this schedule, or NONE */
    uint32_t readers;                             /* since, a list */
};

struct zinf_check_place {                                    /* a slot */
    uint32_t taker;                               /* the operation that took it, or NONE when free */
    uint32_t users;                               /* of this occupant or, when free, of the last one */
};

struct zinf_check {
    const struct zinf_sched_plan *p;
    const struct zinf_schedule *s;
    struct zinf_status *st;
    uint32_t number, op;                          /* of the schedule in the chain; of the operation */
    struct zinf_check_cell *cells;                           /* homes and extents, then slots */
    struct zinf_check_place *places;
    uint32_t first_place[ZINF_NR_CLASSES + 1];
    uint32_t nr_cells, nr_home_cells, stride;     /* stride: cells of a WEIGHT slot */
    uint8_t *role;                                /* per grain: which extent CURRENT is */
    struct zinf_check_note *notes;           uint32_t nr_notes, cap_notes;
    uint32_t *mark;               uint32_t cap_mark;      /* per operation: the last that named it */
    /* what has happened in this schedule */
    uint32_t *updates, *written;                  /* per grain */
    uint32_t *reduced, *home_grad;                /* per unit: REDUCEs; DOWNLOAD GRADs or device REDUCEs */
    uint32_t *forward, *backward;                 /* per layer (head: nr_layers) and micro-batch */
    uint32_t adds, count, norm;
};

static inline bool zinf_check_pending(const struct zinf_schedule *s)
{
    return s->kind == ZINF_SCHED_STEADY || s->kind == ZINF_SCHED_FLUSH;
}

static inline bool zinf_check_training(const struct zinf_schedule *s)
{
    return s->kind == ZINF_SCHED_FIRST || s->kind == ZINF_SCHED_STEADY;
}

/* Fails with the schedule's number and kind, text and number. */
int zinf_check_fault(struct zinf_check *k, const char *text, uint32_t number);
/* What a run starts from: every grain where the plan keeps it; with updates pending, the gradients too. */
void zinf_check_begin_chain(struct zinf_check *k, bool pending);
/* Versions move on when an iteration follows an iteration; old versions and used gradients are worth nothing. */
void zinf_check_cross_seam(struct zinf_check *k, bool pending);
/* Everything a schedule of its kind has to do is done, once, and every place that keeps a grain has the newest. */
int zinf_check_end(struct zinf_check *k);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_CHECK_INTERNAL_H_ */
