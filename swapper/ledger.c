/* swapper/ledger.c - the three states of a slot and the steps between them. */
#include "swapper/ledger.h"

#include <errno.h>
#include <stdlib.h>

enum slot_state { SLOT_EMPTY, SLOT_HELD, SLOT_LEAVING };

struct slot {
    enum slot_state state;
    uint32_t op;         /* who was handed it, or who leaves it */
};

struct zinf_ledger {
    struct slot *slots;
    uint32_t first[ZINF_NR_CLASSES + 1];   /* of a class in slots */
    uint32_t used[ZINF_NR_CLASSES];        /* not empty now */
    uint32_t peak[ZINF_NR_CLASSES];
};

int zinf_ledger_open(const struct zinf_sched_plan *plan, struct zinf_ledger **out, struct zinf_status *st)
{
    *out = NULL;
    struct zinf_ledger *l = calloc(1, sizeof(*l));
    if (!l)
        return zinf_fail(st, -ENOMEM, "no memory for the slot ledger");
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        l->first[c + 1] = l->first[c] + plan->class_count[c];
    uint32_t nr = l->first[ZINF_NR_CLASSES];
    l->slots = calloc(nr ? nr : 1, sizeof(*l->slots));
    if (!l->slots) {
        free(l);
        return zinf_fail(st, -ENOMEM, "no memory for a ledger of %u slots", nr);
    }
    *out = l;
    return 0;
}

void zinf_ledger_close(struct zinf_ledger *l)
{
    if (!l)
        return;
    free(l->slots);
    free(l);
}

void zinf_ledger_begin(struct zinf_ledger *l)
{
    for (uint32_t i = 0; i < l->first[ZINF_NR_CLASSES]; i++)
        l->slots[i] = (struct slot){ SLOT_EMPTY, ZINF_NONE };
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        l->used[c] = l->peak[c] = 0;
}

bool zinf_ledger_knows(const struct zinf_ledger *l, struct zinf_loc loc)
{
    return loc.space == ZINF_AT_SLOT && loc.sub < ZINF_NR_CLASSES &&
           loc.index < l->first[loc.sub + 1] - l->first[loc.sub];
}

static struct slot *slot_at(struct zinf_ledger *l, struct zinf_loc loc)
{
    return &l->slots[l->first[loc.sub] + loc.index];
}

/* Whether the memory that op f leaves can be given to op: f is the last user in list order and op is behind it, so two
 * streams keep their order by themselves, anything else needs the completion, after which the slot would be empty. */
static bool may_follow(const struct zinf_schedule *s, uint32_t f, uint32_t op)
{
    return zinf_lane_is_stream((enum zinf_lane)s->ops[f].lane) && zinf_lane_is_stream((enum zinf_lane)s->ops[op].lane);
}

static int hand_out(struct zinf_ledger *l, const struct zinf_schedule *s, uint32_t op, struct zinf_loc loc,
                    struct zinf_status *st)
{
    struct slot *slot = slot_at(l, loc);
    if (slot->state == SLOT_HELD)
        return zinf_fail(st, -EPROTO, "slot %s[%u] is handed to operation %u while operation %u still has it: "
                         "the schedule is wrong, report it with its --trace", zinf_class_name((enum zinf_class)loc.sub),
                         loc.index, op, slot->op);
    if (slot->state == SLOT_LEAVING && !may_follow(s, slot->op, op))
        return zinf_fail(st, -EPROTO, "slot %s[%u] is handed to operation %u before its last user, operation %u, is "
                         "complete: the schedule is wrong, report it with its --trace",
                         zinf_class_name((enum zinf_class)loc.sub), loc.index, op, slot->op);
    if (slot->state == SLOT_EMPTY && ++l->used[loc.sub] > l->peak[loc.sub])
        l->peak[loc.sub] = l->used[loc.sub];
    *slot = (struct slot){ SLOT_HELD, op };
    return 0;
}

int zinf_ledger_issue(struct zinf_ledger *l, const struct zinf_schedule *s, uint32_t op, struct zinf_status *st)
{
    const struct zinf_op *o = &s->ops[op];
    for (uint32_t i = 0; i < o->nr_acq; i++) {
        int rc = hand_out(l, s, op, s->slots[o->acq + i], st);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < o->nr_free; i++) {
        struct zinf_loc loc = s->slots[o->free + i];
        struct slot *slot = slot_at(l, loc);
        if (slot->state != SLOT_HELD)
            return zinf_fail(st, -EPROTO,
                             "operation %u gives back slot %s[%u], which nobody holds: the schedule is wrong, "
                             "report it with its --trace",
                             op, zinf_class_name((enum zinf_class)loc.sub), loc.index);
        *slot = (struct slot){ SLOT_LEAVING, op };
    }
    return 0;
}

void zinf_ledger_complete(struct zinf_ledger *l, const struct zinf_schedule *s, uint32_t op)
{
    const struct zinf_op *o = &s->ops[op];
    for (uint32_t i = 0; i < o->nr_free; i++) {
        struct zinf_loc loc = s->slots[o->free + i];
        struct slot *slot = slot_at(l, loc);
        if (slot->state != SLOT_LEAVING || slot->op != op)
            continue;                       /* a stream lane took it over at issue: it was never empty */
        *slot = (struct slot){ SLOT_EMPTY, ZINF_NONE };
        l->used[loc.sub]--;
    }
}

int zinf_ledger_end(const struct zinf_ledger *l, struct zinf_status *st)
{
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++) {
        for (uint32_t i = l->first[c]; i < l->first[c + 1]; i++) {
            if (l->slots[i].state != SLOT_EMPTY)
                return zinf_fail(st, -EPROTO,
                                 "slot %s[%u] of operation %u is still taken at the end of the schedule: the "
                                 "schedule is wrong, report it with its --trace",
                                 zinf_class_name((enum zinf_class)c), i - l->first[c], l->slots[i].op);
        }
    }
    return 0;
}

uint32_t zinf_ledger_peak(const struct zinf_ledger *l, enum zinf_class c)
{
    return l->peak[c];
}
