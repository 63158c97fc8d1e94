/* swapper/check_internal.h - the checker's state, between check.c (operations) and check_seam.c (schedules). */
#ifndef ZINF_SWAPPER_CHECK_INTERNAL_H_
#define ZINF_SWAPPER_CHECK_INTERNAL_H_

#include <stdbool.h>
#include <stdint.h>

#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

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
    uint8_t *role;                                /* per grain: which extent the newest record names: CURRENT */
    bool dirty;                                   /* at entry the newest bytes are in ALTERNATE */
    struct zinf_check_note *notes;           uint32_t nr_notes, cap_notes;
    uint32_t *mark;               uint32_t cap_mark;      /* per operation: the last that named it */
    /* what has happened in this schedule */
    uint32_t *updates, *written;                  /* per grain */
    uint32_t *reduced, *home_grad;                /* per unit: REDUCEs; DOWNLOAD GRADs or device REDUCEs */
    uint32_t *forward, *backward;                 /* per layer (head: nr_layers) and micro-batch */
    uint32_t adds, count, norm, commit;
};

static inline bool zinf_check_pending(const struct zinf_schedule *s)
{
    return zinf_kind_updates(s->kind);
}

static inline bool zinf_check_training(const struct zinf_schedule *s)
{
    return zinf_kind_trains(s->kind);
}

/* Fails with the schedule's number and kind, text and number. */
int zinf_check_fault(struct zinf_check *k, const char *text, uint32_t number);
/* What a chain that begins with s starts from: every grain where the plan keeps it; with updates pending, the gradients
 * too. */
void zinf_check_begin_chain(struct zinf_check *k, const struct zinf_schedule *s);
/* Whether kind and flags of k->s make sense, and may follow what came before (NULL: it begins the chain): the table in
 * schedule.h. */
int zinf_check_succession(struct zinf_check *k, const struct zinf_schedule *before);
/* Versions move on when the updates of the iteration before are to be done: not after a skip, which leaves weights and
 * state as they were. Old versions and the gradients of anything else are worth nothing. */
void zinf_check_cross_seam(struct zinf_check *k, bool pending);
/* The record that COMMIT makes names version 1 of every grain: in ALTERNATE where the roles will swap, else in CURRENT.
 * So there is no WRITE behind it: each grain has one at most, and without it ALTERNATE has no version 1. */
int zinf_check_record(struct zinf_check *k);
/* Everything a schedule of its kind has to do is done, once, and every place that keeps a grain has the newest. */
int zinf_check_end(struct zinf_check *k);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_CHECK_INTERNAL_H_ */
