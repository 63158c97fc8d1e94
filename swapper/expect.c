/* swapper/expect.c - what an operation must touch, from its name and the plan alone: the checker's second opinion. */
#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

#define ANY UINT32_MAX

/* Walks a list of accesses; `good` falls with the first one that is not as expected. */
struct cursor {
    const struct zinf_sched_plan *p;
    const struct zinf_access *a;
    uint32_t left;
    bool good;
};

struct thing { uint8_t object; uint32_t a, b; int32_t version; };

static void take(struct cursor *c, uint32_t space, uint32_t sub, uint32_t index, uint32_t part, struct thing want)
{
    const struct zinf_access *a = c->a;
    if (!c->left || !c->good) {
        c->good = false;
        return;
    }
    c->good = a->loc.space == space && (sub == ANY || a->loc.sub == sub) && (index == ANY || a->loc.index == index) &&
              a->part == part && a->object == want.object && a->a == want.a && a->b == want.b &&
              a->version == want.version;
    c->a++;
    c->left--;
}

static struct thing weight(uint32_t u, int32_t version)
{
    return (struct thing){ .object = ZINF_OBJ_WEIGHT, .a = u, .version = version };
}

static struct thing state(uint32_t g, int32_t version)
{
    return (struct thing){ .object = ZINF_OBJ_STATE, .a = g, .version = version };
}

static void take_host_weights(struct cursor *c, uint32_t u, uint32_t g, int32_t version)
{
    bool home = c->p->weight_host[u];
    take(c, home ? ZINF_AT_WEIGHT_HOST : ZINF_AT_SLOT, home ? 0 : ZINF_CLASS_WEIGHT, home ? u : ANY, g,
         weight(u, version));
}

static void take_device_weights(struct cursor *c, uint32_t u)
{
    bool home = c->p->weight_device[u];
    take(c, home ? ZINF_AT_WEIGHT_DEVICE : ZINF_AT_SLOT, home ? 0 : ZINF_CLASS_UNIT, home ? u : ANY, 0, weight(u, 1));
}

static void take_state(struct cursor *c, uint32_t g, int32_t version)
{
    bool home = c->p->state_device[g] || c->p->state_host[g];
    uint32_t space = c->p->state_device[g] ? ZINF_AT_STATE_DEVICE : home ? ZINF_AT_STATE_HOST : ZINF_AT_SLOT;
    take(c, space, home ? 0 : ZINF_CLASS_STATE, home ? g : ANY, 0, state(g, version));
}

static void take_grad_home(struct cursor *c, uint32_t u, int32_t version)
{
    take(c, c->p->grad_device[u] ? ZINF_AT_GRAD_DEVICE : ZINF_AT_GRAD_HOST, 0, u, 0,
         (struct thing){ .object = ZINF_OBJ_GRAD, .a = u, .version = version });
}

static void take_x(struct cursor *c, enum zinf_class in, uint32_t layer, uint32_t j)
{
    take(c, ZINF_AT_SLOT, in, ANY, 0,
         (struct thing){ .object = ZINF_OBJ_X, .a = layer, .b = j, .version = (int32_t)j });
}

static void take_dx(struct cursor *c, enum zinf_class in, uint32_t layer, uint32_t j)
{
    take(c, ZINF_AT_SLOT, in, ANY, 0, (struct thing){ .object = ZINF_OBJ_DX, .a = j, .version = (int32_t)layer });
}

static void take_accum(struct cursor *c, uint32_t u, uint32_t j)
{
    take(c, ZINF_AT_SLOT, ZINF_CLASS_ACCUM, ANY, 0,
         (struct thing){ .object = ZINF_OBJ_ACCUM, .a = u, .version = (int32_t)j });
}

static void take_grad_slot(struct cursor *c, uint32_t u)
{
    take(c, ZINF_AT_SLOT, ZINF_CLASS_GRAD, ANY, 0, (struct thing){ .object = ZINF_OBJ_GRAD, .a = u });
}

/* ---- by kind; numbers are in range (numbers_good) ---- */

static void expect_read(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    const struct zinf_sched_plan *p = rd->p;
    if (o->what == ZINF_WHAT_STATE) {
        take(rd, ZINF_AT_EXTENT_STATE, ANY, o->grain, 0, state(o->grain, 0));
        take(wr, ZINF_AT_SLOT, ZINF_CLASS_STATE, ANY, 0, state(o->grain, 0));
        return;
    }
    int32_t version = rd->left && rd->a->version == 0 ? 0 : 1;
    for (uint32_t g = p->unit_first_grain[o->unit]; g < p->unit_first_grain[o->unit + 1]; g++) {
        take(rd, ZINF_AT_EXTENT_WEIGHT, ANY, g, 0, weight(o->unit, version));
        take(wr, ZINF_AT_SLOT, ZINF_CLASS_WEIGHT, ANY, g, weight(o->unit, version));
    }
}

static void expect_write(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    const struct zinf_sched_plan *p = rd->p;
    if (p->extents_state) {
        take_state(rd, o->grain, 1);
        take(wr, ZINF_AT_EXTENT_STATE, ANY, o->grain, 0, state(o->grain, 1));
    }
    if (p->extents_weight) {
        take_host_weights(rd, o->unit, o->grain, 1);
        take(wr, ZINF_AT_EXTENT_WEIGHT, ANY, o->grain, 0, weight(o->unit, 1));
    }
}

static void expect_upload(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    const struct zinf_sched_plan *p = rd->p;
    if (o->what == ZINF_WHAT_CKPT) {
        take_x(rd, ZINF_CLASS_CKPT, o->layer, o->micro);
        take_x(wr, ZINF_CLASS_ACT, o->layer, o->micro);
        return;
    }
    if (o->what == ZINF_WHAT_INPUT) {
        take_x(wr, ZINF_CLASS_ACT, 0, o->micro);
        return;
    }
    for (uint32_t g = p->unit_first_grain[o->unit]; g < p->unit_first_grain[o->unit + 1]; g++)
        take_host_weights(rd, o->unit, g, 1);
    if (o->what == ZINF_WHAT_ROWS)
        take_x(wr, ZINF_CLASS_ACT, 0, o->micro);
    else
        take_device_weights(wr, o->unit);
}

static void expect_download(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    if (o->what == ZINF_WHAT_CKPT) {
        take_x(rd, ZINF_CLASS_ACT, o->layer, o->micro);
        take_x(wr, ZINF_CLASS_CKPT, o->layer, o->micro);
    } else if (o->what == ZINF_WHAT_ROWS) {
        take_dx(rd, ZINF_CLASS_ACT, 0, o->micro);
        take_dx(wr, ZINF_CLASS_ROWS, 0, o->micro);
    } else {
        take_grad_slot(rd, o->unit);
        take_grad_home(wr, o->unit, 0);
    }
}

static void expect_visit(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    uint32_t top = rd->p->spec.nr_layers;
    bool parameters = o->unit != ZINF_NONE, back = o->kind == ZINF_OP_BACKWARD;
    if (parameters)
        take_device_weights(rd, o->unit);
    take_x(rd, ZINF_CLASS_ACT, o->layer, o->micro);
    if (!back) {
        if (o->layer < top)
            take_x(wr, ZINF_CLASS_ACT, o->layer + 1, o->micro);
        return;
    }
    if (o->layer < top)
        take_dx(rd, ZINF_CLASS_ACT, o->layer + 1, o->micro);
    if (parameters && o->micro)
        take_accum(rd, o->unit, o->micro - 1);
    take_dx(wr, ZINF_CLASS_ACT, o->layer, o->micro);
    if (parameters)
        take_accum(wr, o->unit, o->micro);
}

static void expect_add(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    const struct zinf_sched_spec *m = &rd->p->spec;
    take_dx(rd, ZINF_CLASS_ROWS, 0, o->micro);
    if (o->micro || (o->unit == m->head_unit && m->unit_elems[o->unit]))
        take_grad_home(rd, o->unit, 0);
    take_grad_home(wr, o->unit, 0);
}

static void expect_update(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    const struct zinf_sched_plan *p = rd->p;
    take_grad_home(rd, o->unit, -1);
    take_state(rd, o->grain, 0);
    take_state(wr, o->grain, 1);
    for (struct cursor *c = rd; c; c = c == rd ? wr : NULL) {
        int32_t version = c == wr;
        if (p->state_device[o->grain])
            take(c, ZINF_AT_WEIGHT_DEVICE, 0, o->unit, o->grain, weight(o->unit, version));
        else
            take_host_weights(c, o->unit, o->grain, version);
    }
}

static void expect_reduce(const struct zinf_op *o, struct cursor *rd, struct cursor *wr)
{
    take_accum(rd, o->unit, rd->p->spec.nr_micro - 1);
    if (rd->p->grad_device[o->unit])
        take_grad_home(wr, o->unit, 0);
    else
        take_grad_slot(wr, o->unit);
}

/* ---- numbers, lanes, bytes ---- */

static uint32_t unit_of_layer(const struct zinf_sched_plan *p, uint32_t layer)
{
    return layer < p->spec.nr_layers ? p->spec.layer_units[layer] : p->spec.head_unit;
}

enum { LAYER = 1, UNIT = 2, GRAIN = 4, MICRO = 8, MAYBE_UNIT = 16 };

/* Which numbers an operation has; 0 with *known false when there is no such operation. */
static uint32_t numbers_of(const struct zinf_op *o, bool *known)
{
    *known = o->what == ZINF_WHAT_NONE;
    switch (o->kind) {
    case ZINF_OP_READ:
        *known = o->what == ZINF_WHAT_STATE || o->what == ZINF_WHAT_WEIGHTS;
        return o->what == ZINF_WHAT_STATE ? UNIT | GRAIN : UNIT;
    case ZINF_OP_WRITE:
        *known = o->what == ZINF_WHAT_GRAIN;
        return UNIT | GRAIN;
    case ZINF_OP_UPLOAD:
        *known = o->what == ZINF_WHAT_WEIGHTS || o->what == ZINF_WHAT_ROWS || o->what == ZINF_WHAT_INPUT ||
                 o->what == ZINF_WHAT_CKPT;
        return o->what == ZINF_WHAT_WEIGHTS ? UNIT : o->what == ZINF_WHAT_ROWS ? UNIT | MICRO :
               o->what == ZINF_WHAT_INPUT ? MICRO : LAYER | MICRO;
    case ZINF_OP_DOWNLOAD:
        *known = o->what == ZINF_WHAT_CKPT || o->what == ZINF_WHAT_ROWS || o->what == ZINF_WHAT_GRAD;
        return o->what == ZINF_WHAT_CKPT ? LAYER | MICRO : o->what == ZINF_WHAT_ROWS ? UNIT | MICRO : LAYER | UNIT;
    case ZINF_OP_COUNT:
    case ZINF_OP_NORM:
    case ZINF_OP_COMMIT:
        return 0;
    case ZINF_OP_REDUCE:
        return LAYER | UNIT;
    case ZINF_OP_FORWARD:
    case ZINF_OP_BACKWARD:
        return LAYER | MICRO | MAYBE_UNIT;
    case ZINF_OP_ADD:
        return UNIT | MICRO;
    case ZINF_OP_UPDATE:
        return UNIT | GRAIN;
    default:
        *known = false;
        return 0;
    }
}

static bool in(uint32_t v, bool has, uint32_t limit)
{
    return has ? v < limit : v == ZINF_NONE;
}

static bool numbers_good(const struct zinf_sched_plan *p, const struct zinf_op *o)
{
    const struct zinf_sched_spec *m = &p->spec;
    bool known;
    uint32_t n = numbers_of(o, &known);
    if (!known || !in(o->layer, n & LAYER, m->nr_layers + 1) || !in(o->grain, n & GRAIN, p->nr_grains) ||
        !in(o->micro, n & MICRO, m->nr_micro))
        return false;
    if (n & MAYBE_UNIT)
        return o->unit == unit_of_layer(p, o->layer);
    if (!in(o->unit, n & UNIT, m->nr_units))
        return false;
    if (o->what == ZINF_WHAT_CKPT && o->layer == m->nr_layers)
        return false;
    if ((n & GRAIN) && p->grains[o->grain].unit != o->unit)
        return false;
    if ((n & LAYER) && (n & UNIT) && o->unit != unit_of_layer(p, o->layer))
        return false;
    if (o->what == ZINF_WHAT_ROWS || o->kind == ZINF_OP_ADD)
        return o->unit == m->embed_unit;
    return o->what != ZINF_WHAT_INPUT || m->embed_unit == ZINF_NONE;
}

static enum zinf_lane lane_of(const struct zinf_sched_plan *p, const struct zinf_op *o)
{
    static const uint8_t lanes[ZINF_NR_OP_KINDS] = {
        [ZINF_OP_READ] = ZINF_LANE_NVME_READ, [ZINF_OP_WRITE] = ZINF_LANE_NVME_WRITE, [ZINF_OP_UPLOAD] = ZINF_LANE_H2D,
        [ZINF_OP_DOWNLOAD] = ZINF_LANE_D2H, [ZINF_OP_COUNT] = ZINF_LANE_COMM, [ZINF_OP_REDUCE] = ZINF_LANE_COMM,
        [ZINF_OP_NORM] = ZINF_LANE_COMM, [ZINF_OP_FORWARD] = ZINF_LANE_COMPUTE, [ZINF_OP_BACKWARD] = ZINF_LANE_COMPUTE,
        [ZINF_OP_ADD] = ZINF_LANE_CPU, [ZINF_OP_UPDATE] = ZINF_LANE_CPU, [ZINF_OP_COMMIT] = ZINF_LANE_SYNC,
    };
    if (o->kind == ZINF_OP_UPDATE && p->state_device[o->grain])
        return ZINF_LANE_COMPUTE;
    return (enum zinf_lane)lanes[o->kind];
}

static uint64_t nbytes_of(const struct zinf_sched_plan *p, const struct zinf_op *o)
{
    const struct zinf_sched_spec *m = &p->spec;
    switch (o->what) {
    case ZINF_WHAT_STATE:
        return p->grains[o->grain].nr_elems * m->state_nbytes;
    case ZINF_WHAT_WEIGHTS:
        return m->unit_elems[o->unit] * m->weight_nbytes;
    case ZINF_WHAT_GRAIN:
        return p->grains[o->grain].nr_elems * ((p->extents_state ? m->state_nbytes : 0) +
                                               (p->extents_weight ? m->weight_nbytes : 0));
    case ZINF_WHAT_ROWS:
    case ZINF_WHAT_INPUT:
    case ZINF_WHAT_CKPT:
        return m->act_nbytes;
    case ZINF_WHAT_GRAD:
        return m->unit_elems[o->unit] * (o->unit == m->embed_unit ? 4 : m->grad_nbytes);
    default:
        return 0;
    }
}

const char *zinf_op_expect(const struct zinf_sched_plan *p, const struct zinf_op *o, const struct zinf_access *rd_first,
                           const struct zinf_access *wr_first)
{
    struct cursor rd = { .p = p, .a = rd_first, .left = o->nr_rd, .good = true };
    struct cursor wr = { .p = p, .a = wr_first, .left = o->nr_wr, .good = true };
    if (!numbers_good(p, o))
        return "no such operation";
    if (o->lane != lane_of(p, o))
        return "is on the wrong lane";
    if (o->nbytes != nbytes_of(p, o))
        return "moves the wrong number of bytes";
    if (o->last != (o->kind == ZINF_OP_ADD && o->micro == p->spec.nr_micro - 1))
        return "is wrong about being the last addend";
    switch (o->kind) {
    case ZINF_OP_READ:
        expect_read(o, &rd, &wr);
        break;
    case ZINF_OP_WRITE:
        expect_write(o, &rd, &wr);
        break;
    case ZINF_OP_UPLOAD:
        expect_upload(o, &rd, &wr);
        break;
    case ZINF_OP_DOWNLOAD:
        expect_download(o, &rd, &wr);
        break;
    case ZINF_OP_REDUCE:
        expect_reduce(o, &rd, &wr);
        break;
    case ZINF_OP_FORWARD:
    case ZINF_OP_BACKWARD:
        expect_visit(o, &rd, &wr);
        break;
    case ZINF_OP_ADD:
        expect_add(o, &rd, &wr);
        break;
    case ZINF_OP_UPDATE:
        expect_update(o, &rd, &wr);
        break;
    default:
        break;
    }
    if (!rd.good || rd.left)
        return "does not read what it must";
    return wr.good && !wr.left ? NULL : "does not write what it must";
}
