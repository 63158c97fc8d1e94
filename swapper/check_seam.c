/* swapper/check_seam.c - what the checker asks of a schedule as a whole, and what it carries to the next one. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "swapper/check_internal.h"
#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"
#include "zinf/base/status.h"

int zinf_check_fault(struct zinf_check *k, const char *text, uint32_t number)
{
    return zinf_fail(k->st, -EINVAL, "schedule %" PRIu32 " (%s): %s %" PRIu32, k->number,
                     zinf_sched_kind_name(k->s->kind), text, number);
}

/* ---- the ends of a schedule ---- */

static bool holds(const struct zinf_check *k, uint32_t cell, uint8_t object, uint32_t a, int32_t version)
{
    const struct zinf_check_cell *h = &k->cells[cell];
    return h->valid && h->object == object && h->a == a && h->version == version;
}

static bool has_extents(const struct zinf_sched_plan *p)
{
    return p->extents_weight || p->extents_state;
}

/* Every place that keeps grain g has version 1 of it; on the drive, the place where the next schedule will look. */
static bool grain_complete(const struct zinf_check *k, uint32_t g)
{
    const struct zinf_sched_plan *p = k->p;
    uint32_t u = p->grains[g].unit, role = k->role[g] ^ (uint32_t)zinf_sched_leaves_dirty(k->s->kind, k->s->flags);
    const struct { bool has; uint32_t space, at; uint8_t object; uint32_t a; } places[] = {
        { p->weight_host[u], ZINF_AT_WEIGHT_HOST, g, ZINF_OBJ_WEIGHT, u },
        { p->weight_device[u], ZINF_AT_WEIGHT_DEVICE, g, ZINF_OBJ_WEIGHT, u },
        { p->state_host[g], ZINF_AT_STATE_HOST, g, ZINF_OBJ_STATE, g },
        { p->state_device[g], ZINF_AT_STATE_DEVICE, g, ZINF_OBJ_STATE, g },
        { p->extents_weight, ZINF_AT_EXTENT_WEIGHT, 2 * g + role, ZINF_OBJ_WEIGHT, u },
        { p->extents_state, ZINF_AT_EXTENT_STATE, 2 * g + role, ZINF_OBJ_STATE, g },
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (places[i].has &&
            !holds(k, zinf_cell_base(p, places[i].space) + places[i].at, places[i].object, places[i].a, 1))
            return false;
    return true;
}

static int check_grains(struct zinf_check *k)
{
    const struct zinf_sched_plan *p = k->p;
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        bool pending = zinf_check_pending(k->s), write = pending && has_extents(p);
        bool flip = k->s->flags & ZINF_SCHED_COMMITS && (write || k->dirty);
        if (k->updates[g] != (pending ? 1 : 0))
            return zinf_check_fault(
                k, pending ? "not exactly one update of grain" : "nothing is pending, but it updates grain", g);
        if (k->written[g] != (write ? 1 : 0) || k->s->flips[g] != (flip ? 1 : 0))
            return zinf_check_fault(k, "writes, COMMIT and extent roles do not agree for grain", g);
        k->role[g] ^= k->s->flips[g];
        if (!grain_complete(k, g))
            return zinf_check_fault(k, "some place does not have the newest version of grain", g);
    }
    return 0;
}

static int check_visits(struct zinf_check *k)
{
    const struct zinf_sched_spec *m = &k->p->spec;
    for (uint32_t s = 0; s <= m->nr_layers; s++)
        for (uint32_t j = 0; j < m->nr_micro; j++) {
            uint32_t v = s * m->nr_micro + j, head = s == m->nr_layers;
            uint32_t forward = zinf_check_training(k->s) ? !head : k->s->kind == ZINF_SCHED_EVAL;
            if (k->forward[v] != forward || k->backward[v] != (zinf_check_training(k->s) ? 1 : 0))
                return zinf_check_fault(k, "not exactly one visit of each micro-batch to layer", s);
        }
    return 0;
}

static int check_gradients(struct zinf_check *k)
{
    const struct zinf_sched_plan *p = k->p;
    const struct zinf_sched_spec *m = &p->spec;
    bool train = zinf_check_training(k->s);
    for (uint32_t u = 0; u < m->nr_units; u++) {
        bool product = train && m->unit_elems[u] && (u != m->embed_unit || u == m->head_unit);
        uint32_t space = p->grad_device[u] ? ZINF_AT_GRAD_DEVICE : ZINF_AT_GRAD_HOST;
        if (k->reduced[u] != (product ? 1 : 0) || k->home_grad[u] != (product ? 1 : 0))
            return zinf_check_fault(k, "not exactly one gradient of unit", u);
        if (train && m->unit_elems[u] && !holds(k, zinf_cell_base(p, space) + u, ZINF_OBJ_GRAD, u, 0))
            return zinf_check_fault(k, "the gradient does not reach the home of unit", u);
    }
    if (k->adds != (train && m->embed_unit != ZINF_NONE ? m->nr_micro : 0))
        return zinf_check_fault(k, "not exactly one addition of each micro-batch's rows, but", k->adds);
    return 0;
}

int zinf_check_end(struct zinf_check *k)
{
    bool train = zinf_check_training(k->s);
    for (uint32_t i = 0; i < k->first_place[ZINF_NR_CLASSES]; i++)
        if (k->places[i].taker != ZINF_NONE)
            return zinf_check_fault(k, "a slot is still held at the end, taken by operation", k->places[i].taker);
    if ((k->count != ZINF_NONE) != train || (k->norm != ZINF_NONE) != train)
        return zinf_check_fault(
            k, train ? "COUNT or NORM is missing; operations:" : "COUNT or NORM in it; operations:", k->s->nr_ops);
    if ((k->commit != ZINF_NONE) != !!(k->s->flags & ZINF_SCHED_COMMITS))
        return zinf_check_fault(k, "COMMIT is missing; operations:", k->s->nr_ops);
    int rc = check_grains(k);
    if (!rc)
        rc = check_visits(k);
    if (!rc)
        rc = check_gradients(k);
    k->dirty = has_extents(k->p) && zinf_sched_leaves_dirty(k->s->kind, k->s->flags);
    return rc;
}

int zinf_check_record(struct zinf_check *k)
{
    const struct zinf_sched_plan *p = k->p;
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        uint32_t at = 2 * g + (k->role[g] ^ (k->s->flips[g] != 0)), u = p->grains[g].unit;
        if ((p->extents_weight && !holds(k, zinf_cell_base(p, ZINF_AT_EXTENT_WEIGHT) + at, ZINF_OBJ_WEIGHT, u, 1)) ||
            (p->extents_state && !holds(k, zinf_cell_base(p, ZINF_AT_EXTENT_STATE) + at, ZINF_OBJ_STATE, g, 1)))
            return zinf_check_fault(
                k, "the record of COMMIT names an extent that does not have the newest version of grain", g);
    }
    return 0;
}

/* ---- seams ---- */

static void put(struct zinf_check *k, bool has, uint32_t cell, uint8_t object, uint32_t a, int32_t version)
{
    if (has)
        k->cells[cell] = (struct zinf_check_cell){ .valid = true, .object = object, .a = a, .version = version };
}

void zinf_check_begin_chain(struct zinf_check *k, const struct zinf_schedule *s)
{
    const struct zinf_sched_plan *p = k->p;
    bool pending = zinf_check_pending(s);
    int32_t v = pending ? 0 : 1;
    k->dirty = s->flags & ZINF_SCHED_DIRTY;
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        uint32_t u = p->grains[g].unit;
        put(k, p->weight_host[u], zinf_cell_base(p, ZINF_AT_WEIGHT_HOST) + g, ZINF_OBJ_WEIGHT, u, v);
        put(k, p->weight_device[u], zinf_cell_base(p, ZINF_AT_WEIGHT_DEVICE) + g, ZINF_OBJ_WEIGHT, u, v);
        put(k, p->state_host[g], zinf_cell_base(p, ZINF_AT_STATE_HOST) + g, ZINF_OBJ_STATE, g, v);
        put(k, p->state_device[g], zinf_cell_base(p, ZINF_AT_STATE_DEVICE) + g, ZINF_OBJ_STATE, g, v);
        uint32_t at = 2 * g + k->dirty;
        put(k, p->extents_weight, zinf_cell_base(p, ZINF_AT_EXTENT_WEIGHT) + at, ZINF_OBJ_WEIGHT, u, v);
        put(k, p->extents_state, zinf_cell_base(p, ZINF_AT_EXTENT_STATE) + at, ZINF_OBJ_STATE, g, v);
    }
    for (uint32_t u = 0; u < p->spec.nr_units; u++) {
        put(k, pending && p->grad_host[u], zinf_cell_base(p, ZINF_AT_GRAD_HOST) + u, ZINF_OBJ_GRAD, u, -1);
        put(k, pending && p->grad_device[u], zinf_cell_base(p, ZINF_AT_GRAD_DEVICE) + u, ZINF_OBJ_GRAD, u, -1);
    }
}

int zinf_check_succession(struct zinf_check *k, const struct zinf_schedule *before)
{
    const struct zinf_schedule *s = k->s;
    bool settled = s->kind == ZINF_SCHED_FIRST || s->kind == ZINF_SCHED_EVAL;     /* begins with no verdict to act on */
    if ((uint32_t)s->kind >= ZINF_NR_SCHED_KINDS)
        return zinf_fail(k->st, -EINVAL, "schedule %" PRIu32 ": no such kind", k->number);
    if ((s->flags & ~(uint32_t)(ZINF_SCHED_COMMITS | ZINF_SCHED_DIRTY)) ||
        s->flags != zinf_sched_flags_for(k->p, s->kind, s->flags))
        return zinf_check_fault(k, "flags that this kind or plan does not have:", s->flags);
    if (before && zinf_check_training(before) == settled)
        return zinf_check_fault(k, settled ? "there is a verdict and it does not act on it; kind" :
                                "it acts on a verdict and there is none; kind", s->kind);
    if (!!(s->flags & ZINF_SCHED_DIRTY) != k->dirty)
        return zinf_check_fault(k, k->dirty ? "the newest bytes are in ALTERNATE, but it is built for CURRENT; flags" :
                                "the newest bytes are in CURRENT, but it is built for ALTERNATE; flags", s->flags);
    return 0;
}

void zinf_check_cross_seam(struct zinf_check *k, bool pending)
{
    for (uint32_t c = 0; c < k->nr_home_cells; c++) {
        struct zinf_check_cell *h = &k->cells[c];
        bool grad = h->object == ZINF_OBJ_GRAD;
        h->valid = h->valid && (grad ? h->version == 0 && pending : h->version == 1);
        h->version -= pending ? 1 : 0;
    }
}
