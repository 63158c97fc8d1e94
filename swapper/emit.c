/* swapper/emit.c - one walk of a step in program order: which operations a kind has, and what each reads and writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/program.h"
#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

struct emit {
    struct zinf_program_writer w;
    const struct zinf_sched_plan *p;
    const struct zinf_sched_spec *m;
    bool pending;                         /* the updates of t-1 come first */
    enum zinf_role newest;                /* where the drive has the newest bytes at entry */
    uint32_t *device, *host;              /* per unit: its buffer now, or NONE */
    uint32_t *x, *dx, *ckpt;              /* buffers: per micro-batch; ckpt per layer and micro-batch */
    uint32_t count;                       /* the COUNT operation, or NONE */
    uint32_t *finals, nr_finals, cap_finals;   /* what NORM waits for; before that, what COUNT waits for */
    uint32_t *written, nr_written, cap_written;   /* the WRITEs, for COMMIT */
};

/* ---- locations and accesses ---- */

static struct zinf_loc home(enum zinf_space space, uint32_t index)
{
    return (struct zinf_loc){ .space = (uint8_t)space, .index = index };
}

static struct zinf_loc extent(enum zinf_space space, uint32_t grain, enum zinf_role role)
{
    return (struct zinf_loc){ .space = (uint8_t)space, .sub = (uint8_t)role, .index = grain };
}

static struct zinf_loc slot(enum zinf_class c, uint32_t buf)
{
    return (struct zinf_loc){ .space = ZINF_AT_SLOT, .sub = (uint8_t)c, .index = buf };
}

static struct zinf_access of_weight(struct zinf_loc loc, uint32_t unit, uint32_t part, int32_t version)
{
    return (struct zinf_access){ .loc = loc, .part = part, .object = ZINF_OBJ_WEIGHT, .a = unit, .version = version };
}

static struct zinf_access of_state(struct zinf_loc loc, uint32_t grain, int32_t version)
{
    return (struct zinf_access){ .loc = loc, .object = ZINF_OBJ_STATE, .a = grain, .version = version };
}

static struct zinf_access of_grad(struct zinf_loc loc, uint32_t unit, int32_t version)
{
    return (struct zinf_access){ .loc = loc, .object = ZINF_OBJ_GRAD, .a = unit, .version = version };
}

static struct zinf_access of_accum(uint32_t buf, uint32_t unit, uint32_t micro)
{
    return (struct zinf_access){ .loc = slot(ZINF_CLASS_ACCUM, buf), .object = ZINF_OBJ_ACCUM, .a = unit,
                                 .version = (int32_t)micro };
}

static struct zinf_access of_x(enum zinf_class c, uint32_t buf, uint32_t layer, uint32_t micro)
{
    return (struct zinf_access){
        .loc = slot(c, buf), .object = ZINF_OBJ_X, .a = layer, .b = micro, .version = (int32_t)micro
    };
}

static struct zinf_access of_dx(enum zinf_class c, uint32_t buf, uint32_t micro, uint32_t layer)
{
    return (struct zinf_access){ .loc = slot(c, buf), .object = ZINF_OBJ_DX, .a = micro, .version = (int32_t)layer };
}

static uint32_t end_move(struct emit *e, uint64_t nbytes, double rate)
{
    return zinf_prog_end(&e->w, nbytes, (double)nbytes, rate);
}

static void note(struct emit *e, uint32_t **list, uint32_t *nr, uint32_t *cap, uint32_t op)
{
    if (e->w.failed || !zinf_sched_grow(list, cap, (uint64_t)*nr + 1, sizeof(**list)))
        e->w.failed = true;
    else
        (*list)[(*nr)++] = op;
}

static void final(struct emit *e, uint32_t op)
{
    note(e, &e->finals, &e->nr_finals, &e->cap_finals, op);
}

/* Follows all writes; the record names what they wrote, and what earlier schedules did without a commit. */
static void commit(struct emit *e)
{
    zinf_prog_begin(&e->w, ZINF_OP_COMMIT, ZINF_LANE_SYNC, ZINF_WHAT_NONE);
    for (uint32_t i = 0; i < e->nr_written; i++)
        zinf_prog_after(&e->w, e->written[i]);
    zinf_prog_end(&e->w, 0, e->p->rates.sync_s, 1);
    if (!e->w.failed && (e->nr_written || e->newest == ZINF_ROLE_ALTERNATE))
        memset(e->w.g->flips, 1, e->p->nr_grains);
}

/* COUNT or NORM: follows all finals. */
static uint32_t gather_point(struct emit *e, enum zinf_op_kind kind)
{
    zinf_prog_begin(&e->w, kind, ZINF_LANE_COMM, ZINF_WHAT_NONE);
    for (uint32_t i = 0; i < e->nr_finals; i++)
        zinf_prog_after(&e->w, e->finals[i]);
    e->nr_finals = 0;
    return zinf_prog_end(&e->w, 0, 0, 0);
}

/* ---- weights ---- */

static uint64_t unit_nbytes(const struct emit *e, uint32_t u)
{
    return e->m->unit_elems[u] * e->m->weight_nbytes;
}

/* Where unit u is in RAM at this version; read from the drive when it is nowhere. */
static struct zinf_loc host_weights(struct emit *e, uint32_t u, int32_t version)
{
    const struct zinf_sched_plan *p = e->p;
    uint32_t g0 = p->unit_first_grain[u], g1 = p->unit_first_grain[u + 1];
    if (p->weight_host[u])
        return home(ZINF_AT_WEIGHT_HOST, u);
    if (e->host[u] == ZINF_NONE) {
        enum zinf_role role = version == 1 && e->pending ? ZINF_ROLE_ALTERNATE : e->newest;
        e->host[u] = zinf_prog_buf(&e->w, ZINF_CLASS_WEIGHT, g1 - g0);
        struct zinf_loc to = slot(ZINF_CLASS_WEIGHT, e->host[u]);
        zinf_prog_begin(&e->w, ZINF_OP_READ, ZINF_LANE_NVME_READ, ZINF_WHAT_WEIGHTS)->unit = u;
        for (uint32_t g = g0; g < g1; g++)
            zinf_prog_reads(&e->w, of_weight(extent(ZINF_AT_EXTENT_WEIGHT, g, role), u, 0, version));
        for (uint32_t g = g0; g < g1; g++)
            zinf_prog_writes(&e->w, of_weight(to, u, g, version));
        end_move(e, unit_nbytes(e, u), p->rates.read);
    }
    return slot(ZINF_CLASS_WEIGHT, e->host[u]);
}

static void upload_weights(struct emit *e, uint32_t u, struct zinf_loc from, struct zinf_loc to)
{
    zinf_prog_begin(&e->w, ZINF_OP_UPLOAD, ZINF_LANE_H2D, ZINF_WHAT_WEIGHTS)->unit = u;
    for (uint32_t g = e->p->unit_first_grain[u]; g < e->p->unit_first_grain[u + 1]; g++)
        zinf_prog_reads(&e->w, of_weight(from, u, g, 1));
    zinf_prog_writes(&e->w, of_weight(to, u, 0, 1));
    end_move(e, unit_nbytes(e, u), e->p->rates.h2d);
}

static struct zinf_loc device_weights(struct emit *e, uint32_t u)
{
    if (e->p->weight_device[u])
        return home(ZINF_AT_WEIGHT_DEVICE, u);
    if (e->device[u] == ZINF_NONE) {
        struct zinf_loc from = host_weights(e, u, 1);
        e->device[u] = zinf_prog_buf(&e->w, ZINF_CLASS_UNIT, 1);
        upload_weights(e, u, from, slot(ZINF_CLASS_UNIT, e->device[u]));
    }
    return slot(ZINF_CLASS_UNIT, e->device[u]);
}

/* ---- pending updates ---- */

static struct zinf_loc state_at(struct emit *e, uint32_t g)
{
    const struct zinf_sched_plan *p = e->p;
    if (p->state_device[g])
        return home(ZINF_AT_STATE_DEVICE, g);
    if (p->state_host[g])
        return home(ZINF_AT_STATE_HOST, g);
    struct zinf_loc to = slot(ZINF_CLASS_STATE, zinf_prog_buf(&e->w, ZINF_CLASS_STATE, 1));
    struct zinf_op *o = zinf_prog_begin(&e->w, ZINF_OP_READ, ZINF_LANE_NVME_READ, ZINF_WHAT_STATE);
    o->unit = p->grains[g].unit;
    o->grain = g;
    zinf_prog_reads(&e->w, of_state(extent(ZINF_AT_EXTENT_STATE, g, e->newest), g, 0));
    zinf_prog_writes(&e->w, of_state(to, g, 0));
    end_move(e, p->grains[g].nr_elems * e->m->state_nbytes, p->rates.read);
    return to;
}

static void write_grain(struct emit *e, uint32_t u, uint32_t g, struct zinf_loc st, struct zinf_loc weights)
{
    const struct zinf_sched_plan *p = e->p;
    uint64_t per_elem = 0;
    struct zinf_op *o = zinf_prog_begin(&e->w, ZINF_OP_WRITE, ZINF_LANE_NVME_WRITE, ZINF_WHAT_GRAIN);
    o->unit = u;
    o->grain = g;
    if (p->extents_state) {
        zinf_prog_reads(&e->w, of_state(st, g, 1));
        per_elem += e->m->state_nbytes;
    }
    if (p->extents_weight) {
        zinf_prog_reads(&e->w, of_weight(weights, u, g, 1));
        per_elem += e->m->weight_nbytes;
    }
    if (p->extents_state)
        zinf_prog_writes(&e->w, of_state(extent(ZINF_AT_EXTENT_STATE, g, ZINF_ROLE_ALTERNATE), g, 1));
    if (p->extents_weight)
        zinf_prog_writes(&e->w, of_weight(extent(ZINF_AT_EXTENT_WEIGHT, g, ZINF_ROLE_ALTERNATE), u, 0, 1));
    uint32_t op = end_move(e, p->grains[g].nr_elems * per_elem, p->rates.write);
    note(e, &e->written, &e->nr_written, &e->cap_written, op);
}

static void update_unit(struct emit *e, uint32_t u)
{
    const struct zinf_sched_plan *p = e->p;
    uint32_t g0 = p->unit_first_grain[u], g1 = p->unit_first_grain[u + 1];
    if (g0 == g1)
        return;
    bool device = p->state_device[g0];
    struct zinf_loc weights = device ? home(ZINF_AT_WEIGHT_DEVICE, u) : host_weights(e, u, 0);
    struct zinf_loc grad = home(p->grad_device[u] ? ZINF_AT_GRAD_DEVICE : ZINF_AT_GRAD_HOST, u);
    for (uint32_t g = g0; g < g1 && !e->w.failed; g++) {
        struct zinf_loc st = state_at(e, g);
        struct zinf_op *o =
            zinf_prog_begin(&e->w, ZINF_OP_UPDATE, device ? ZINF_LANE_COMPUTE : ZINF_LANE_CPU, ZINF_WHAT_NONE);
        o->unit = u;
        o->grain = g;
        zinf_prog_reads(&e->w, of_grad(grad, u, -1));
        zinf_prog_reads(&e->w, of_state(st, g, 0));
        zinf_prog_reads(&e->w, of_weight(weights, u, g, 0));
        zinf_prog_writes(&e->w, of_state(st, g, 1));
        zinf_prog_writes(&e->w, of_weight(weights, u, g, 1));
        final(e, zinf_prog_end(&e->w, 0, (double)p->grains[g].nr_elems, p->rates.update_elems));
        if (p->extents_state || p->extents_weight)
            write_grain(e, u, g, st, weights);
    }
    if (!device && p->weight_device[u])
        upload_weights(e, u, weights, home(ZINF_AT_WEIGHT_DEVICE, u));
    e->host[u] = ZINF_NONE;
}

/* ---- the chain ---- */

/* seconds of a visit = multiply-adds over the unit's weights: `passes` per element and token */
static uint32_t end_visit(struct emit *e, uint32_t u, double passes)
{
    double elems = u == ZINF_NONE ? 0 : (double)e->m->unit_elems[u];
    return zinf_prog_end(&e->w, 0, passes * elems * (double)e->p->rates.tokens_micro, e->p->rates.flops);
}

static struct zinf_op *begin_visit(struct emit *e, enum zinf_op_kind kind, uint32_t layer, uint32_t u, uint32_t j)
{
    struct zinf_op *o = zinf_prog_begin(&e->w, kind, ZINF_LANE_COMPUTE, ZINF_WHAT_NONE);
    o->layer = layer;
    o->unit = u;
    o->micro = j;
    return o;
}

static void input(struct emit *e, uint32_t j)
{
    uint32_t u = e->m->embed_unit;
    e->x[j] = zinf_prog_buf(&e->w, ZINF_CLASS_ACT, 1);
    struct zinf_op *o =
        zinf_prog_begin(&e->w, ZINF_OP_UPLOAD, ZINF_LANE_H2D, u == ZINF_NONE ? ZINF_WHAT_INPUT : ZINF_WHAT_ROWS);
    o->unit = u;
    o->micro = j;
    if (u != ZINF_NONE)
        for (uint32_t g = e->p->unit_first_grain[u]; g < e->p->unit_first_grain[u + 1]; g++)
            zinf_prog_reads(&e->w, of_weight(home(ZINF_AT_WEIGHT_HOST, u), u, g, 1));
    zinf_prog_writes(&e->w, of_x(ZINF_CLASS_ACT, e->x[j], 0, j));
    zinf_prog_after(&e->w, e->count);
    end_move(e, e->m->act_nbytes, e->p->rates.h2d);
}

static void forward(struct emit *e, uint32_t s, uint32_t j, struct zinf_loc weights, bool checkpoint)
{
    const struct zinf_sched_spec *m = e->m;
    uint32_t u = m->layer_units[s], from = e->x[j], to = zinf_prog_buf(&e->w, ZINF_CLASS_ACT, 1);
    begin_visit(e, ZINF_OP_FORWARD, s, u, j);
    zinf_prog_reads(&e->w, of_weight(weights, u, 0, 1));
    zinf_prog_reads(&e->w, of_x(ZINF_CLASS_ACT, from, s, j));
    zinf_prog_writes(&e->w, of_x(ZINF_CLASS_ACT, to, s + 1, j));
    end_visit(e, u, 2);
    if (checkpoint) {
        uint32_t c = e->ckpt[(size_t)s * m->nr_micro + j] = zinf_prog_buf(&e->w, ZINF_CLASS_CKPT, 1);
        struct zinf_op *o = zinf_prog_begin(&e->w, ZINF_OP_DOWNLOAD, ZINF_LANE_D2H, ZINF_WHAT_CKPT);
        o->layer = s;
        o->micro = j;
        zinf_prog_reads(&e->w, of_x(ZINF_CLASS_ACT, from, s, j));
        zinf_prog_writes(&e->w, of_x(ZINF_CLASS_CKPT, c, s, j));
        end_move(e, m->act_nbytes, e->p->rates.d2h);
    }
    e->x[j] = to;
}

static void all_forward(struct emit *e, bool train)
{
    const struct zinf_sched_spec *m = e->m;
    const struct zinf_sched_plan *p = e->p;
    for (uint32_t j = 0; j < m->nr_micro; j++)
        input(e, j);
    for (uint32_t s = 0; s < m->nr_layers && !e->w.failed; s++) {
        uint32_t u = m->layer_units[s], below_top = m->nr_layers - s;     /* 1 = the last layer */
        struct zinf_loc w = device_weights(e, u);
        for (uint32_t j = 0; j < m->nr_micro; j++)
            forward(e, s, j, w, train);
        bool keep_device = train && below_top <= p->keep_device;
        bool keep_host = train && !keep_device && below_top <= (uint64_t)p->keep_device + p->keep_host;
        if (!keep_device)
            e->device[u] = ZINF_NONE;
        if (!keep_host)
            e->host[u] = ZINF_NONE;
    }
}

/* The accumulator of unit u is reduced and rounded into its gradient's home. */
static void gradient_out(struct emit *e, uint32_t u, uint32_t layer, uint32_t accum)
{
    const struct zinf_sched_plan *p = e->p;
    const struct zinf_sched_spec *m = e->m;
    bool device = p->grad_device[u];
    if (!m->unit_elems[u])
        return;
    struct zinf_loc to =
        device ? home(ZINF_AT_GRAD_DEVICE, u) : slot(ZINF_CLASS_GRAD, zinf_prog_buf(&e->w, ZINF_CLASS_GRAD, 1));
    struct zinf_op *o = zinf_prog_begin(&e->w, ZINF_OP_REDUCE, ZINF_LANE_COMM, ZINF_WHAT_NONE);
    o->unit = u;
    o->layer = layer;
    zinf_prog_reads(&e->w, of_accum(accum, u, m->nr_micro - 1));
    zinf_prog_writes(&e->w, of_grad(to, u, 0));
    final(e, zinf_prog_end(&e->w, 0, (double)m->unit_elems[u] * 4, p->rates.reduce));
    if (device)
        return;
    o = zinf_prog_begin(&e->w, ZINF_OP_DOWNLOAD, ZINF_LANE_D2H, ZINF_WHAT_GRAD);
    o->unit = u;
    o->layer = layer;
    zinf_prog_reads(&e->w, of_grad(to, u, 0));
    zinf_prog_writes(&e->w, of_grad(home(ZINF_AT_GRAD_HOST, u), u, 0));
    final(e, end_move(e, m->unit_elems[u] * (u == m->embed_unit ? 4 : m->grad_nbytes), p->rates.d2h));
}

static void head(struct emit *e, bool train)
{
    const struct zinf_sched_spec *m = e->m;
    uint32_t u = m->head_unit, accum = ZINF_NONE;
    struct zinf_loc w = { 0 };
    if (u != ZINF_NONE) {
        w = device_weights(e, u);
        if (train)
            accum = zinf_prog_buf(&e->w, ZINF_CLASS_ACCUM, 1);
    }
    for (uint32_t j = 0; j < m->nr_micro && !e->w.failed; j++) {
        begin_visit(e, train ? ZINF_OP_BACKWARD : ZINF_OP_FORWARD, m->nr_layers, u, j);
        if (u != ZINF_NONE)
            zinf_prog_reads(&e->w, of_weight(w, u, 0, 1));
        zinf_prog_reads(&e->w, of_x(ZINF_CLASS_ACT, e->x[j], m->nr_layers, j));
        if (train) {
            if (u != ZINF_NONE && j)
                zinf_prog_reads(&e->w, of_accum(accum, u, j - 1));
            e->dx[j] = zinf_prog_buf(&e->w, ZINF_CLASS_ACT, 1);
            zinf_prog_writes(&e->w, of_dx(ZINF_CLASS_ACT, e->dx[j], j, m->nr_layers));
            if (u != ZINF_NONE)
                zinf_prog_writes(&e->w, of_accum(accum, u, j));
            zinf_prog_after(&e->w, e->count);
        }
        end_visit(e, u, train ? 6 : 2);
    }
    if (u == ZINF_NONE)
        return;
    if (train)
        gradient_out(e, u, m->nr_layers, accum);
    e->device[u] = e->host[u] = ZINF_NONE;
}

static void backward(struct emit *e, uint32_t s)
{
    const struct zinf_sched_spec *m = e->m;
    uint32_t u = m->layer_units[s];
    struct zinf_loc w = device_weights(e, u);
    uint32_t accum = zinf_prog_buf(&e->w, ZINF_CLASS_ACCUM, 1);
    for (uint32_t j = 0; j < m->nr_micro && !e->w.failed; j++) {
        uint32_t x = zinf_prog_buf(&e->w, ZINF_CLASS_ACT, 1);
        struct zinf_op *o = zinf_prog_begin(&e->w, ZINF_OP_UPLOAD, ZINF_LANE_H2D, ZINF_WHAT_CKPT);
        o->layer = s;
        o->micro = j;
        zinf_prog_reads(&e->w, of_x(ZINF_CLASS_CKPT, e->ckpt[(size_t)s * m->nr_micro + j], s, j));
        zinf_prog_writes(&e->w, of_x(ZINF_CLASS_ACT, x, s, j));
        end_move(e, m->act_nbytes, e->p->rates.h2d);
        begin_visit(e, ZINF_OP_BACKWARD, s, u, j);
        zinf_prog_reads(&e->w, of_weight(w, u, 0, 1));
        zinf_prog_reads(&e->w, of_x(ZINF_CLASS_ACT, x, s, j));
        zinf_prog_reads(&e->w, of_dx(ZINF_CLASS_ACT, e->dx[j], j, s + 1));
        if (j)
            zinf_prog_reads(&e->w, of_accum(accum, u, j - 1));
        zinf_prog_writes(&e->w, of_dx(ZINF_CLASS_ACT, e->dx[j], j, s));
        zinf_prog_writes(&e->w, of_accum(accum, u, j));
        end_visit(e, u, 6);
    }
    gradient_out(e, u, s, accum);
    e->device[u] = e->host[u] = ZINF_NONE;
}

static void embedding_gradient(struct emit *e)
{
    const struct zinf_sched_spec *m = e->m;
    uint32_t u = m->embed_unit;
    if (u == ZINF_NONE)
        return;
    struct zinf_loc grad = home(ZINF_AT_GRAD_HOST, u);
    for (uint32_t j = 0; j < m->nr_micro && !e->w.failed; j++) {
        uint32_t rows = zinf_prog_buf(&e->w, ZINF_CLASS_ROWS, 1);
        struct zinf_op *o = zinf_prog_begin(&e->w, ZINF_OP_DOWNLOAD, ZINF_LANE_D2H, ZINF_WHAT_ROWS);
        o->unit = u;
        o->micro = j;
        zinf_prog_reads(&e->w, of_dx(ZINF_CLASS_ACT, e->dx[j], j, 0));
        zinf_prog_writes(&e->w, of_dx(ZINF_CLASS_ROWS, rows, j, 0));
        end_move(e, m->act_nbytes, e->p->rates.d2h);
        o = zinf_prog_begin(&e->w, ZINF_OP_ADD, ZINF_LANE_CPU, ZINF_WHAT_NONE);
        o->unit = u;
        o->micro = j;
        o->last = j == m->nr_micro - 1;
        zinf_prog_reads(&e->w, of_dx(ZINF_CLASS_ROWS, rows, j, 0));
        if (j || (u == m->head_unit && m->unit_elems[u]))
            zinf_prog_reads(&e->w, of_grad(grad, u, 0));
        zinf_prog_writes(&e->w, of_grad(grad, u, 0));
        final(e, zinf_prog_end(&e->w, 0, (double)m->act_nbytes, e->p->rates.add));
    }
}

static void step(struct emit *e, enum zinf_sched_kind kind, uint32_t flags)
{
    bool train = zinf_kind_trains(kind);
    for (uint32_t u = 0; e->pending && u < e->m->nr_units && !e->w.failed; u++)
        update_unit(e, u);
    if (flags & ZINF_SCHED_COMMITS)
        commit(e);
    if (kind == ZINF_SCHED_FLUSH || kind == ZINF_SCHED_FLUSH_SKIP)
        return;
    if (train)
        e->count = gather_point(e, ZINF_OP_COUNT);
    all_forward(e, train);
    head(e, train);
    if (!train)
        return;
    for (uint32_t s = e->m->nr_layers; s-- > 0 && !e->w.failed;)
        backward(e, s);
    embedding_gradient(e);
    gather_point(e, ZINF_OP_NORM);
}

static bool open_emit(struct emit *e, const struct zinf_sched_plan *p, struct zinf_program *out)
{
    const struct zinf_sched_spec *m = e->m = &p->spec;
    e->p = p;
    e->count = ZINF_NONE;
    e->device = malloc(((size_t)m->nr_units + 1) * sizeof(*e->device));
    e->host = malloc(((size_t)m->nr_units + 1) * sizeof(*e->host));
    e->x = calloc(m->nr_micro, sizeof(*e->x));
    e->dx = calloc(m->nr_micro, sizeof(*e->dx));
    e->ckpt = calloc((size_t)m->nr_layers * m->nr_micro, sizeof(*e->ckpt));
    if (!zinf_prog_open(&e->w, p, out))
        return false;
    e->w.failed = !e->device || !e->host || !e->x || !e->dx || !e->ckpt;
    for (uint32_t u = 0; u < m->nr_units && !e->w.failed; u++)
        e->device[u] = e->host[u] = ZINF_NONE;
    return !e->w.failed;
}

int zinf_program_emit(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags,
                      struct zinf_program *out)
{
    struct emit e = { .pending = zinf_kind_updates(kind),
                      .newest = flags & ZINF_SCHED_DIRTY ? ZINF_ROLE_ALTERNATE : ZINF_ROLE_CURRENT };
    if (open_emit(&e, p, out))
        step(&e, kind, flags);
    free(e.device);
    free(e.host);
    free(e.x);
    free(e.dx);
    free(e.ckpt);
    free(e.finals);
    free(e.written);
    return zinf_prog_close(&e.w);
}
