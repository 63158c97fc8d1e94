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

/* Every place that keeps grain g has version 1 of it. */
static bool grain_complete(const struct zinf_check *k, uint32_t g)
{
    const struct zinf_sched_plan *p = k->p;
    uint32_t u = p->grains[g].unit, role = k->role[g];
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
        bool pending = zinf_check_pending(k->s), write = pending && (p->extents_weight || p->extents_state);
        if (k->updates[g] != (pending ? 1 : 0))
            return zinf_check_fault(
                k, pending ? "not exactly one update of grain" : "nothing is pending, but it updates grain", g);
        if (k->written[g] != (write ? 1 : 0) || k->s->flips[g] != (write ? 1 : 0))
            return zinf_check_fault(k, "writes and extent roles do not agree for grain", g);
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
    int rc = check_grains(k);
    if (!rc)
        rc = check_visits(k);
    return rc ? rc : check_gradients(k);
}

/* ---- seams ---- */

static void put(struct zinf_check *k, bool has, uint32_t cell, uint8_t object, uint32_t a, int32_t version)
{
    if (has)
        k->cells[cell] = (struct zinf_check_cell){ .valid = true, .object = object, .a = a, .version = version };
}

void zinf_check_begin_chain(struct zinf_check *k, bool pending)
{
    const struct zinf_sched_plan *p = k->p;
    int32_t v = pending ? 0 : 1;
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        uint32_t u = p->grains[g].unit;
        put(k, p->weight_host[u], zinf_cell_base(p, ZINF_AT_WEIGHT_HOST) + g, ZINF_OBJ_WEIGHT, u, v);
        put(k, p->weight_device[u], zinf_cell_base(p, ZINF_AT_WEIGHT_DEVICE) + g, ZINF_OBJ_WEIGHT, u, v);
        put(k, p->state_host[g], zinf_cell_base(p, ZINF_AT_STATE_HOST) + g, ZINF_OBJ_STATE, g, v);
        put(k, p->state_device[g], zinf_cell_base(p, ZINF_AT_STATE_DEVICE) + g, ZINF_OBJ_STATE, g, v);
        put(k, p->extents_weight, zinf_cell_base(p, ZINF_AT_EXTENT_WEIGHT) + 2 * g, ZINF_OBJ_WEIGHT, u, v);
        put(k, p->extents_state, zinf_cell_base(p, ZINF_AT_EXTENT_STATE) + 2 * g, ZINF_OBJ_STATE, g, v);
    }
    for (uint32_t u = 0; u < p->spec.nr_units; u++) {
        put(k, pending && p->grad_host[u], zinf_cell_base(p, ZINF_AT_GRAD_HOST) + u, ZINF_OBJ_GRAD, u, -1);
        put(k, pending && p->grad_device[u], zinf_cell_base(p, ZINF_AT_GRAD_DEVICE) + u, ZINF_OBJ_GRAD, u, -1);
    }
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
