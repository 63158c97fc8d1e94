/* swapper/check.c - proves a chain of schedules by executing it on what is where, not on bytes.
 *
 * Every edge points backwards in the list: that is the proof that no timing dead-locks. Every access is ordered by a
 * direct dependency (or one stream): that is the proof that no timing changes a result. Nothing here looks at how
 * the list was made. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/check_internal.h"
#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

static int fault(struct zinf_check *k, const char *text)
{
    char buf[256];
    return zinf_fail(k->st, -EINVAL, "schedule %" PRIu32 " (%s), operation %s: %s", k->number,
                     zinf_sched_kind_name(k->s->kind), zinf_op_describe(k->s, k->op, buf, sizeof(buf)), text);
}

static int fault_op(struct zinf_check *k, const char *text, uint32_t other)
{
    char one[160], two[160];
    return zinf_fail(k->st, -EINVAL, "schedule %" PRIu32 " (%s), operation %s %s operation %s", k->number,
                     zinf_sched_kind_name(k->s->kind), zinf_op_describe(k->s, k->op, one, sizeof(one)), text,
                     zinf_op_describe(k->s, other, two, sizeof(two)));
}

/* The operation at hand starts after `a` has ended, whatever the timing. */
static bool ordered(const struct zinf_check *k, uint32_t a)
{
    return k->mark[a] == k->op || (a < k->op && zinf_op_same_stream(&k->s->ops[a], &k->s->ops[k->op]));
}

static int add_note(struct zinf_check *k, uint32_t *list)
{
    if (*list != ZINF_NONE && k->notes[*list].op == k->op)
        return 0;
    if (!zinf_sched_grow(&k->notes, &k->cap_notes, (uint64_t)k->nr_notes + 1, sizeof(*k->notes)))
        return zinf_fail(k->st, -ENOMEM, "out of memory for the check");
    k->notes[k->nr_notes] = (struct zinf_check_note){ .op = k->op, .next = *list };
    *list = k->nr_notes++;
    return 0;
}

static int all_ordered(struct zinf_check *k, uint32_t list, const char *text)
{
    for (; list != ZINF_NONE; list = k->notes[list].next)
        if (k->notes[list].op != k->op && !ordered(k, k->notes[list].op))
            return fault_op(k, text, k->notes[list].op);
    return 0;
}

/* ---- places ---- */

static struct zinf_check_place *place_of(struct zinf_check *k, struct zinf_loc loc)
{
    if (loc.space != ZINF_AT_SLOT || loc.sub >= ZINF_NR_CLASSES || loc.index >= k->p->class_count[loc.sub])
        return NULL;
    return &k->places[k->first_place[loc.sub] + loc.index];
}

static uint32_t slot_cell(const struct zinf_check *k, struct zinf_loc loc)
{
    return k->nr_home_cells + (k->first_place[loc.sub] + loc.index) * k->stride;
}

static uint64_t object_nbytes(const struct zinf_sched_plan *p, const struct zinf_access *a)
{
    const struct zinf_sched_spec *m = &p->spec;
    switch (a->object) {
    case ZINF_OBJ_WEIGHT:
        return m->unit_elems[a->a] * m->weight_nbytes;
    case ZINF_OBJ_STATE:
        return p->grains[a->a].nr_elems * m->state_nbytes;
    case ZINF_OBJ_GRAD:
        return m->unit_elems[a->a] * (a->a == m->embed_unit ? 4 : m->grad_nbytes);
    case ZINF_OBJ_ACCUM:
        return m->unit_elems[a->a] * 4;
    default:
        return m->act_nbytes;
    }
}

static bool is_extent(const struct zinf_access *a)
{
    return a->loc.space == ZINF_AT_EXTENT_WEIGHT || a->loc.space == ZINF_AT_EXTENT_STATE;
}

/* The cells of an access (its numbers are good: zinf_op_expect). */
static int cells_of(struct zinf_check *k, const struct zinf_access *a, uint32_t *first, uint32_t *nr)
{
    const struct zinf_op *o = &k->s->ops[k->op];
    if (a->loc.space != ZINF_AT_SLOT) {
        if (!zinf_home_cells(k->p, a, o->kind != ZINF_OP_UPDATE, first, nr))
            return fault(k, "uses a place that does not exist");
        if (is_extent(a))
            *first = (*first - a->loc.sub) + (a->loc.sub ^ k->role[a->loc.index]);
        return 0;
    }
    struct zinf_check_place *at = place_of(k, a->loc);
    if (!at)
        return fault(k, "uses a slot that does not exist");
    if (at->taker == ZINF_NONE)
        return fault(k, "uses a slot that nobody has taken");
    if (object_nbytes(k->p, a) > k->p->class_nbytes[a->loc.sub])
        return fault(k, "uses a slot that is too small");
    *first = slot_cell(k, a->loc);
    *nr = 1;
    if (a->loc.sub == ZINF_CLASS_WEIGHT)
        *first += a->part - k->p->unit_first_grain[a->a];
    return add_note(k, &at->users);
}

/* ---- one operation ---- */

static int check_ranges(struct zinf_check *k, const struct zinf_op *o)
{
    const struct zinf_schedule *s = k->s;
    if (o->kind >= ZINF_NR_OP_KINDS || o->lane >= ZINF_NR_LANES ||
        (uint64_t)o->rd + o->nr_rd > s->nr_accesses || (uint64_t)o->wr + o->nr_wr > s->nr_accesses ||
        (uint64_t)o->dep + o->nr_deps > s->nr_deps || (uint64_t)o->acq + o->nr_acq > s->nr_slots ||
        (uint64_t)o->free + o->nr_free > s->nr_slots)
        return zinf_check_fault(k, "ranges that pass the end of the schedule in operation", k->op);
    for (uint32_t d = 0; d < o->nr_deps; d++) {
        uint32_t a = s->deps[o->dep + d];
        if (a >= k->op)
            return fault(k, "depends on an operation that does not come before it");
        k->mark[a] = k->op;
    }
    return 0;
}

static int check_acquire(struct zinf_check *k, const struct zinf_op *o)
{
    for (uint32_t i = 0; i < o->nr_acq; i++) {
        struct zinf_loc loc = k->s->slots[o->acq + i];
        struct zinf_check_place *at = place_of(k, loc);
        if (!at)
            return fault(k, "takes a slot that does not exist");
        if (at->taker != ZINF_NONE)
            return fault_op(k, "takes a slot that is still held by", at->taker);
        int rc = all_ordered(k, at->users, "takes a slot without waiting for its last user,");
        if (rc)
            return rc;
        at->taker = k->op;
        at->users = ZINF_NONE;
        for (uint32_t c = slot_cell(k, loc), end = c + k->stride; c < end; c++)
            k->cells[c] = (struct zinf_check_cell){ .writer = ZINF_NONE, .readers = ZINF_NONE };
    }
    return 0;
}

static int check_reads(struct zinf_check *k, const struct zinf_op *o)
{
    for (uint32_t i = 0; i < o->nr_rd; i++) {
        const struct zinf_access *a = &k->s->accesses[o->rd + i];
        uint32_t first = 0, nr = 0;
        int rc = cells_of(k, a, &first, &nr);
        for (uint32_t c = first; !rc && c < first + nr; c++) {
            struct zinf_check_cell *h = &k->cells[c];
            if (!h->valid || h->object != a->object || h->a != a->a || h->b != a->b || h->version != a->version)
                rc = fault(k, h->valid ? "reads a place that holds something else or another version" :
                           "reads a place that holds nothing");
            else if (h->writer != ZINF_NONE && !ordered(k, h->writer))
                rc = fault_op(k, "does not wait for what it reads, by", h->writer);
            else
                rc = add_note(k, &h->readers);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* A slot is written by the operation that took it, or replaced by one that read it. */
static int check_slot_write(struct zinf_check *k, const struct zinf_op *o, const struct zinf_access *a)
{
    if (place_of(k, a->loc)->taker == k->op)
        return 0;
    for (uint32_t i = 0; i < o->nr_rd; i++) {
        const struct zinf_access *r = &k->s->accesses[o->rd + i];
        if (r->loc.space == ZINF_AT_SLOT && r->loc.sub == a->loc.sub && r->loc.index == a->loc.index &&
            r->part == a->part && r->object == a->object && r->a == a->a)
            return 0;
    }
    return fault(k, "writes a slot that it has not taken");
}

static int check_writes(struct zinf_check *k, const struct zinf_op *o)
{
    for (uint32_t i = 0; i < o->nr_wr; i++) {
        const struct zinf_access *a = &k->s->accesses[o->wr + i];
        uint32_t first = 0, nr = 0;
        int rc = cells_of(k, a, &first, &nr);
        if (!rc && a->loc.space == ZINF_AT_SLOT)
            rc = check_slot_write(k, o, a);
        if (!rc && is_extent(a) && a->loc.sub == ZINF_ROLE_CURRENT)
            rc = fault(k, "overwrites an extent that the newest record names");
        for (uint32_t c = first; !rc && c < first + nr; c++) {
            struct zinf_check_cell *h = &k->cells[c];
            rc = all_ordered(k, h->readers, "overwrites what is still read by");
            if (!rc && h->writer != ZINF_NONE && (h->readers == ZINF_NONE || k->notes[h->readers].op == k->op) &&
                !ordered(k, h->writer))
                rc = fault_op(k, "overwrites without waiting for", h->writer);
            *h = (struct zinf_check_cell){ .valid = true,
                                           .object = a->object,
                                           .a = a->a,
                                           .b = a->b,
                                           .version = a->version,
                                           .writer = k->op,
                                           .readers = ZINF_NONE };
        }
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < o->nr_acq; i++)
        if (!k->cells[slot_cell(k, k->s->slots[o->acq + i])].valid)
            return fault(k, "takes a slot and does not write it");
    return 0;
}

static int check_free(struct zinf_check *k, const struct zinf_op *o)
{
    for (uint32_t i = 0; i < o->nr_free; i++) {
        struct zinf_check_place *at = place_of(k, k->s->slots[o->free + i]);
        if (!at || at->taker == ZINF_NONE || at->users == ZINF_NONE || k->notes[at->users].op != k->op)
            return fault(k, "frees a slot that it does not use");
        at->taker = ZINF_NONE;
    }
    return 0;
}

/* A point follows every operation of some kinds. */
static bool point_waits(const struct zinf_op *point, const struct zinf_op *o)
{
    switch (point->kind) {
    case ZINF_OP_COUNT:
        return o->kind == ZINF_OP_UPDATE;
    case ZINF_OP_COMMIT:
        return o->kind == ZINF_OP_WRITE;
    default:
        return o->kind == ZINF_OP_REDUCE || o->kind == ZINF_OP_ADD ||
               (o->kind == ZINF_OP_DOWNLOAD && o->what == ZINF_WHAT_GRAD);
    }
}

/* Order that data does not show: COUNT after every UPDATE, input and loss after COUNT, NORM last and after every
 * gradient, COMMIT after every WRITE and in nobody's way. */
static int check_points(struct zinf_check *k, const struct zinf_op *o)
{
    const struct zinf_schedule *s = k->s;
    bool counted = zinf_check_training(s) && ((o->kind == ZINF_OP_BACKWARD && o->layer == k->p->spec.nr_layers) ||
                   (o->kind == ZINF_OP_UPLOAD && (o->what == ZINF_WHAT_ROWS || o->what == ZINF_WHAT_INPUT)));
    if (counted && (k->count == ZINF_NONE || !ordered(k, k->count)))
        return fault(k, "does not wait for COUNT");
    if (o->kind == ZINF_OP_UPDATE && k->count != ZINF_NONE)
        return fault(k, "comes after COUNT");
    if (k->commit != ZINF_NONE && k->mark[k->commit] == k->op)
        return fault(k, "waits for COMMIT");
    if (o->kind != ZINF_OP_COUNT && o->kind != ZINF_OP_NORM && o->kind != ZINF_OP_COMMIT)
        return 0;
    uint32_t *mine = o->kind == ZINF_OP_COUNT ? &k->count : o->kind == ZINF_OP_NORM ? &k->norm : &k->commit;
    if (*mine != ZINF_NONE)
        return fault(k, "comes twice");
    *mine = k->op;
    for (uint32_t i = 0; i < k->op; i++)
        if (point_waits(o, &s->ops[i]) && !ordered(k, i))
            return fault_op(k, "does not wait for", i);
    if (o->kind == ZINF_OP_NORM && k->op != s->nr_ops - 1)
        return fault(k, "is not the last operation");
    if (o->kind != ZINF_OP_COMMIT)
        return 0;
    if (!(s->flags & ZINF_SCHED_COMMITS))
        return fault(k, "is in a schedule that does not commit");
    return zinf_check_record(k);
}

static int tally(struct zinf_check *k, const struct zinf_op *o)
{
    uint32_t visit = o->layer * k->p->spec.nr_micro + o->micro;
    switch (o->kind) {
    case ZINF_OP_UPDATE:
        k->updates[o->grain]++;
        break;
    case ZINF_OP_WRITE:
        k->written[o->grain]++;
        break;
    case ZINF_OP_FORWARD:
        k->forward[visit]++;
        break;
    case ZINF_OP_BACKWARD:
        k->backward[visit]++;
        break;
    case ZINF_OP_REDUCE:
        k->reduced[o->unit]++;
        k->home_grad[o->unit] += k->p->grad_device[o->unit];
        break;
    case ZINF_OP_DOWNLOAD:
        if (o->what == ZINF_WHAT_GRAD)
            k->home_grad[o->unit]++;
        break;
    case ZINF_OP_ADD:
        if (o->micro != k->adds++)
            return fault(k, "adds the rows of the micro-batches out of order");
        break;
    default:
        break;
    }
    return 0;
}

static int check_op(struct zinf_check *k)
{
    const struct zinf_op *o = &k->s->ops[k->op];
    int rc = check_ranges(k, o);
    if (rc)
        return rc;
    const char *text = zinf_op_expect(k->p, o, k->s->accesses + o->rd, k->s->accesses + o->wr);
    rc = text ? fault(k, text) : check_acquire(k, o);
    if (!rc)
        rc = check_reads(k, o);
    if (!rc)
        rc = check_writes(k, o);
    if (!rc)
        rc = check_free(k, o);
    if (!rc)
        rc = check_points(k, o);
    return rc ? rc : tally(k, o);
}

static void begin_schedule(struct zinf_check *k)
{
    const struct zinf_sched_spec *m = &k->p->spec;
    size_t visits = ((size_t)m->nr_layers + 1) * m->nr_micro;
    k->nr_notes = 0;
    k->adds = 0;
    k->count = k->norm = k->commit = ZINF_NONE;
    for (uint32_t c = 0; c < k->nr_cells; c++) {
        k->cells[c].writer = k->cells[c].readers = ZINF_NONE;
        k->cells[c].valid = k->cells[c].valid && c < k->nr_home_cells;
    }
    for (uint32_t i = 0; i < k->first_place[ZINF_NR_CLASSES]; i++)
        k->places[i] = (struct zinf_check_place){ .taker = ZINF_NONE, .users = ZINF_NONE };
    memset(k->updates, 0, k->p->nr_grains * sizeof(*k->updates));
    memset(k->written, 0, k->p->nr_grains * sizeof(*k->written));
    memset(k->reduced, 0, m->nr_units * sizeof(*k->reduced));
    memset(k->home_grad, 0, m->nr_units * sizeof(*k->home_grad));
    memset(k->forward, 0, visits * sizeof(*k->forward));
    memset(k->backward, 0, visits * sizeof(*k->backward));
    for (uint32_t i = 0; i < k->s->nr_ops; i++)
        k->mark[i] = ZINF_NONE;
}

static int run_schedule(struct zinf_check *k, const struct zinf_schedule *before)
{
    int rc = zinf_check_succession(k, before);
    if (rc)
        return rc;
    if (k->s->nr_grains != k->p->nr_grains)
        return zinf_check_fault(k, "it is of another plan; grains:", k->s->nr_grains);
    if (!zinf_sched_grow(&k->mark, &k->cap_mark, (uint64_t)k->s->nr_ops + 1, sizeof(*k->mark)))
        return zinf_fail(k->st, -ENOMEM, "out of memory for the check");
    if (before)
        zinf_check_cross_seam(k, zinf_check_pending(k->s));
    begin_schedule(k);
    for (k->op = 0; k->op < k->s->nr_ops; k->op++) {
        rc = check_op(k);
        if (rc)
            return rc;
    }
    return zinf_check_end(k);
}

/* ---- the plan ---- */

static int check_ledger(const struct zinf_sched_plan *p, struct zinf_status *st)
{
    static const char *const names[2] = { "device", "host" };
    uint64_t use[2];
    const uint64_t budget[2] = { p->budget.device_nbytes, p->budget.host_nbytes };
    zinf_plan_ledger(p, use);
    for (uint32_t t = 0; t < 2; t++)
        if (use[t] != p->use[t] || use[t] > budget[t] || p->minimum[t] > use[t])
            return zinf_fail(st, -EINVAL,
                             "the plan uses %" PRIu64 " bytes of %s memory, says %" PRIu64
                             ", and the budget is %" PRIu64 " (minimum %" PRIu64 ")",
                             use[t], names[t], p->use[t], budget[t], p->minimum[t]);
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        if (p->class_nbytes[c] % ZINF_SCHED_ALIGN)
            return zinf_fail(st, -EINVAL, "slots of class %s are not aligned", zinf_class_name((enum zinf_class)c));
    return 0;
}

static int open_check(struct zinf_check *k)
{
    const struct zinf_sched_plan *p = k->p;
    size_t visits = ((size_t)p->spec.nr_layers + 1) * p->spec.nr_micro;
    k->stride = 1;
    for (uint32_t u = 0; u < p->spec.nr_units; u++)
        if (p->unit_first_grain[u + 1] - p->unit_first_grain[u] > k->stride && !p->weight_host[u])
            k->stride = p->unit_first_grain[u + 1] - p->unit_first_grain[u];
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        k->first_place[c + 1] = k->first_place[c] + p->class_count[c];
    k->nr_home_cells = zinf_nr_home_cells(p);
    uint64_t cells = k->nr_home_cells + (uint64_t)k->first_place[ZINF_NR_CLASSES] * k->stride;
    if (cells > UINT32_MAX / 2)
        return -ENOMEM;
    k->nr_cells = (uint32_t)cells;
    k->cells = calloc(cells + 1, sizeof(*k->cells));
    k->places = calloc((size_t)k->first_place[ZINF_NR_CLASSES] + 1, sizeof(*k->places));
    k->role = calloc((size_t)p->nr_grains + 1, 1);
    k->updates = calloc((size_t)p->nr_grains + 1, sizeof(*k->updates));
    k->written = calloc((size_t)p->nr_grains + 1, sizeof(*k->written));
    k->reduced = calloc(p->spec.nr_units, sizeof(*k->reduced));
    k->home_grad = calloc(p->spec.nr_units, sizeof(*k->home_grad));
    k->forward = calloc(visits, sizeof(*k->forward));
    k->backward = calloc(visits, sizeof(*k->backward));
    return k->cells && k->places && k->role && k->updates && k->written && k->reduced && k->home_grad && k->forward &&
           k->backward ? 0 : -ENOMEM;
}

static void close_check(struct zinf_check *k)
{
    free(k->cells);
    free(k->places);
    free(k->role);
    free(k->notes);
    free(k->mark);
    free(k->updates);
    free(k->written);
    free(k->reduced);
    free(k->home_grad);
    free(k->forward);
    free(k->backward);
}

int zinf_schedule_check(const struct zinf_sched_plan *p, const struct zinf_schedule *const *chain, uint32_t nr,
                        struct zinf_status *st)
{
    struct zinf_check k = { .p = p, .st = st };
    int rc = check_ledger(p, st);
    if (rc || !nr)
        return rc;
    rc = open_check(&k);
    if (rc)
        zinf_fail(st, rc, "out of memory for the check");
    else
        zinf_check_begin_chain(&k, chain[0]);
    for (uint32_t i = 0; i < nr && !rc; i++) {
        k.s = chain[i];
        k.number = i;
        rc = run_schedule(&k, i ? chain[i - 1] : NULL);
    }
    close_check(&k);
    return rc;
}
