/* swapper/emit.c - one walk of a step in program order; dependencies follow from what every operation reads and writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

struct reader { uint32_t op, next; };

struct emit {
    const struct zinf_sched_plan *p;
    const struct zinf_sched_spec *m;
    struct zinf_program *g;
    bool pending;                         /* the updates of t-1 come first */
    enum zinf_role newest;                /* where the drive has the newest bytes at entry */
    bool failed;                          /* out of memory: everything after is a no-op */
    uint32_t cap_ops, cap_accesses, cap_deps, cap_bufs, cap_marks;
    /* per cell: who wrote it last, who has read it since (list in readers) */
    uint32_t *writer, *since, nr_cells, cap_writer, cap_since;
    struct reader *readers;               uint32_t nr_readers, cap_readers;
    uint32_t *buf_cell;                   uint32_t cap_buf_cell;   /* first cell of a buffer */
    uint32_t *mark;                       /* per op: the last op that named it */
    uint32_t *device, *host;              /* per unit: its buffer now, or NONE */
    uint32_t *x, *dx, *ckpt;              /* buffers: per micro-batch; ckpt per layer and micro-batch */
    struct zinf_op nowhere;               /* what begin returns after a failure: written, never read */
    uint32_t count;                       /* the COUNT operation, or NONE */
    uint32_t *finals, nr_finals, cap_finals;   /* what NORM waits for; before that, what COUNT waits for */
    uint32_t *written, nr_written, cap_written;   /* the WRITEs, for COMMIT */
};

static const struct zinf_op no_op = {
    .layer = ZINF_NONE, .unit = ZINF_NONE, .grain = ZINF_NONE, .micro = ZINF_NONE,
};

static void more(struct emit *e, void *array, uint32_t *cap, uint64_t need, size_t elem_nbytes)
{
    if (!e->failed && !zinf_sched_grow(array, cap, need, elem_nbytes))
        e->failed = true;
}

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

/* A new buffer; a WEIGHT buffer has one cell for each of nr_cells grains. */
static uint32_t new_buf(struct emit *e, enum zinf_class c, uint32_t nr_cells)
{
    struct zinf_program *g = e->g;
    uint64_t end = (uint64_t)e->nr_cells + nr_cells;
    more(e, &g->buf_class, &e->cap_bufs, (uint64_t)g->nr_bufs + 1, sizeof(*g->buf_class));
    more(e, &e->buf_cell, &e->cap_buf_cell, (uint64_t)g->nr_bufs + 1, sizeof(*e->buf_cell));
    more(e, &e->writer, &e->cap_writer, end, sizeof(*e->writer));
    more(e, &e->since, &e->cap_since, end, sizeof(*e->since));
    if (e->failed)
        return 0;
    g->buf_class[g->nr_bufs] = (uint8_t)c;
    e->buf_cell[g->nr_bufs] = e->nr_cells;
    for (; e->nr_cells < end; e->nr_cells++)
        e->writer[e->nr_cells] = e->since[e->nr_cells] = ZINF_NONE;
    return g->nr_bufs++;
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
    return (struct zinf_access){ .loc = slot(c, buf), .object = ZINF_OBJ_X, .a = layer, .b = micro, .version = (int32_t)micro };
}

static struct zinf_access of_dx(enum zinf_class c, uint32_t buf, uint32_t micro, uint32_t layer)
{
    return (struct zinf_access){ .loc = slot(c, buf), .object = ZINF_OBJ_DX, .a = micro, .version = (int32_t)layer };
}

/* ---- one operation: begin, then reads, then writes, then end ---- */

static struct zinf_op *begin(struct emit *e, enum zinf_op_kind kind, enum zinf_lane lane, enum zinf_what what)
{
    struct zinf_program *g = e->g;
    more(e, &g->ops, &e->cap_ops, (uint64_t)g->nr_ops + 1, sizeof(*g->ops));
    more(e, &e->mark, &e->cap_marks, (uint64_t)g->nr_ops + 1, sizeof(*e->mark));
    if (e->failed)
        return &e->nowhere;
    struct zinf_op *o = &g->ops[g->nr_ops];
    *o = no_op;
    o->kind = (uint8_t)kind;
    o->lane = (uint8_t)lane;
    o->what = (uint8_t)what;
    o->rd = o->wr = g->nr_accesses;
    o->dep = g->nr_deps;
    e->mark[g->nr_ops] = ZINF_NONE;
    return o;
}

static void push(struct emit *e, struct zinf_access a)
{
    struct zinf_program *g = e->g;
    more(e, &g->accesses, &e->cap_accesses, (uint64_t)g->nr_accesses + 1, sizeof(a));
    if (!e->failed)
        g->accesses[g->nr_accesses++] = a;
}

static void reads(struct emit *e, struct zinf_access a)
{
    push(e, a);
    if (!e->failed) {
        e->g->ops[e->g->nr_ops].nr_rd++;
        e->g->ops[e->g->nr_ops].wr = e->g->nr_accesses;
    }
}

static void writes(struct emit *e, struct zinf_access a)
{
    push(e, a);
    if (!e->failed)
        e->g->ops[e->g->nr_ops].nr_wr++;
}

/* The operation being emitted follows op. */
static void after(struct emit *e, uint32_t op)
{
    struct zinf_program *g = e->g;
    if (e->failed || op == ZINF_NONE || op == g->nr_ops || e->mark[op] == g->nr_ops)
        return;
    more(e, &g->deps, &e->cap_deps, (uint64_t)g->nr_deps + 1, sizeof(*g->deps));
    if (e->failed)
        return;
    e->mark[op] = g->nr_ops;
    g->deps[g->nr_deps++] = op;
    g->ops[g->nr_ops].nr_deps++;
}

static void cells_of(const struct emit *e, const struct zinf_access *a, bool whole, uint32_t *first, uint32_t *nr)
{
    if (a->loc.space != ZINF_AT_SLOT) {
        (void)zinf_home_cells(e->p, a, whole, first, nr);
        return;
    }
    *first = e->buf_cell[a->loc.index];
    *nr = 1;
    if (a->loc.sub == ZINF_CLASS_WEIGHT)
        *first += a->part - e->p->unit_first_grain[a->a];
}

static void note_read(struct emit *e, uint32_t cell)
{
    after(e, e->writer[cell]);
    more(e, &e->readers, &e->cap_readers, (uint64_t)e->nr_readers + 1, sizeof(*e->readers));
    if (e->failed)
        return;
    e->readers[e->nr_readers] = (struct reader){ .op = e->g->nr_ops, .next = e->since[cell] };
    e->since[cell] = e->nr_readers++;
}

static void note_write(struct emit *e, uint32_t cell)
{
    bool read = false;
    for (uint32_t r = e->since[cell]; r != ZINF_NONE; r = e->readers[r].next) {
        read |= e->readers[r].op != e->g->nr_ops;
        after(e, e->readers[r].op);
    }
    if (!read)
        after(e, e->writer[cell]);
    e->writer[cell] = e->g->nr_ops;
    e->since[cell] = ZINF_NONE;
}

/* Derives the dependencies; returns the operation's number. */
static uint32_t end(struct emit *e, uint64_t nbytes, double work, double rate)
{
    struct zinf_program *g = e->g;
    if (e->failed)
        return ZINF_NONE;
    struct zinf_op *o = &g->ops[g->nr_ops];
    bool whole = o->kind != ZINF_OP_UPDATE;
    o->nbytes = nbytes;
    o->seconds = rate > 0 ? work / rate : 0;
    for (uint32_t i = 0; i < o->nr_rd + o->nr_wr && !e->failed; i++) {
        uint32_t first = 0, nr = 0;
        cells_of(e, &g->accesses[o->rd + i], whole, &first, &nr);
        for (uint32_t c = first; c < first + nr && !e->failed; c++) {
            if (i < o->nr_rd)
                note_read(e, c);
            else
                note_write(e, c);
        }
    }
    return g->nr_ops++;
}

static uint32_t end_move(struct emit *e, uint64_t nbytes, double rate)
{
    return end(e, nbytes, (double)nbytes, rate);
}

static void final(struct emit *e, uint32_t op)
{
    more(e, &e->finals, &e->cap_finals, (uint64_t)e->nr_finals + 1, sizeof(*e->finals));
    if (!e->failed)
        e->finals[e->nr_finals++] = op;
}

/* Follows all writes; the record names what they wrote, and what earlier schedules did without a commit. */
static void commit(struct emit *e)
{
    begin(e, ZINF_OP_COMMIT, ZINF_LANE_SYNC, ZINF_WHAT_NONE);
    for (uint32_t i = 0; i < e->nr_written; i++)
        after(e, e->written[i]);
    end(e, 0, e->p->rates.sync_s, 1);
    if (!e->failed && (e->nr_written || e->newest == ZINF_ROLE_ALTERNATE))
        memset(e->g->flips, 1, e->p->nr_grains);
}

/* COUNT or NORM: follows all finals. */
static uint32_t gather_point(struct emit *e, enum zinf_op_kind kind)
{
    begin(e, kind, ZINF_LANE_COMM, ZINF_WHAT_NONE);
    for (uint32_t i = 0; i < e->nr_finals; i++)
        after(e, e->finals[i]);
    e->nr_finals = 0;
    return end(e, 0, 0, 0);
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
        e->host[u] = new_buf(e, ZINF_CLASS_WEIGHT, g1 - g0);
        struct zinf_loc to = slot(ZINF_CLASS_WEIGHT, e->host[u]);
        begin(e, ZINF_OP_READ, ZINF_LANE_NVME_READ, ZINF_WHAT_WEIGHTS)->unit = u;
        for (uint32_t g = g0; g < g1; g++)
            reads(e, of_weight(extent(ZINF_AT_EXTENT_WEIGHT, g, role), u, 0, version));
        for (uint32_t g = g0; g < g1; g++)
            writes(e, of_weight(to, u, g, version));
        end_move(e, unit_nbytes(e, u), p->rates.read);
    }
    return slot(ZINF_CLASS_WEIGHT, e->host[u]);
}

static void upload_weights(struct emit *e, uint32_t u, struct zinf_loc from, struct zinf_loc to)
{
    begin(e, ZINF_OP_UPLOAD, ZINF_LANE_H2D, ZINF_WHAT_WEIGHTS)->unit = u;
    for (uint32_t g = e->p->unit_first_grain[u]; g < e->p->unit_first_grain[u + 1]; g++)
        reads(e, of_weight(from, u, g, 1));
    writes(e, of_weight(to, u, 0, 1));
    end_move(e, unit_nbytes(e, u), e->p->rates.h2d);
}

static struct zinf_loc device_weights(struct emit *e, uint32_t u)
{
    if (e->p->weight_device[u])
        return home(ZINF_AT_WEIGHT_DEVICE, u);
    if (e->device[u] == ZINF_NONE) {
        struct zinf_loc from = host_weights(e, u, 1);
        e->device[u] = new_buf(e, ZINF_CLASS_UNIT, 1);
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
    struct zinf_loc to = slot(ZINF_CLASS_STATE, new_buf(e, ZINF_CLASS_STATE, 1));
    struct zinf_op *o = begin(e, ZINF_OP_READ, ZINF_LANE_NVME_READ, ZINF_WHAT_STATE);
    o->unit = p->grains[g].unit;
    o->grain = g;
    reads(e, of_state(extent(ZINF_AT_EXTENT_STATE, g, e->newest), g, 0));
    writes(e, of_state(to, g, 0));
    end_move(e, p->grains[g].nr_elems * e->m->state_nbytes, p->rates.read);
    return to;
}

static void write_grain(struct emit *e, uint32_t u, uint32_t g, struct zinf_loc st, struct zinf_loc weights)
{
    const struct zinf_sched_plan *p = e->p;
    uint64_t per_elem = 0;
    struct zinf_op *o = begin(e, ZINF_OP_WRITE, ZINF_LANE_NVME_WRITE, ZINF_WHAT_GRAIN);
    o->unit = u;
    o->grain = g;
    if (p->extents_state) {
        reads(e, of_state(st, g, 1));
        per_elem += e->m->state_nbytes;
    }
    if (p->extents_weight) {
        reads(e, of_weight(weights, u, g, 1));
        per_elem += e->m->weight_nbytes;
    }
    if (p->extents_state)
        writes(e, of_state(extent(ZINF_AT_EXTENT_STATE, g, ZINF_ROLE_ALTERNATE), g, 1));
    if (p->extents_weight)
        writes(e, of_weight(extent(ZINF_AT_EXTENT_WEIGHT, g, ZINF_ROLE_ALTERNATE), u, 0, 1));
    uint32_t op = end_move(e, p->grains[g].nr_elems * per_elem, p->rates.write);
    more(e, &e->written, &e->cap_written, (uint64_t)e->nr_written + 1, sizeof(*e->written));
    if (!e->failed)
        e->written[e->nr_written++] = op;
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
    for (uint32_t g = g0; g < g1 && !e->failed; g++) {
        struct zinf_loc st = state_at(e, g);
        struct zinf_op *o = begin(e, ZINF_OP_UPDATE, device ? ZINF_LANE_COMPUTE : ZINF_LANE_CPU, ZINF_WHAT_NONE);
        o->unit = u;
        o->grain = g;
        reads(e, of_grad(grad, u, -1));
        reads(e, of_state(st, g, 0));
        reads(e, of_weight(weights, u, g, 0));
        writes(e, of_state(st, g, 1));
        writes(e, of_weight(weights, u, g, 1));
        final(e, end(e, 0, (double)p->grains[g].nr_elems, p->rates.update_elems));
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
    return end(e, 0, passes * elems * (double)e->p->rates.tokens_micro, e->p->rates.flops);
}

static struct zinf_op *begin_visit(struct emit *e, enum zinf_op_kind kind, uint32_t layer, uint32_t u, uint32_t j)
{
    struct zinf_op *o = begin(e, kind, ZINF_LANE_COMPUTE, ZINF_WHAT_NONE);
    o->layer = layer;
    o->unit = u;
    o->micro = j;
    return o;
}

static void input(struct emit *e, uint32_t j)
{
    uint32_t u = e->m->embed_unit;
    e->x[j] = new_buf(e, ZINF_CLASS_ACT, 1);
    struct zinf_op *o = begin(e, ZINF_OP_UPLOAD, ZINF_LANE_H2D, u == ZINF_NONE ? ZINF_WHAT_INPUT : ZINF_WHAT_ROWS);
    o->unit = u;
    o->micro = j;
    if (u != ZINF_NONE)
        for (uint32_t g = e->p->unit_first_grain[u]; g < e->p->unit_first_grain[u + 1]; g++)
            reads(e, of_weight(home(ZINF_AT_WEIGHT_HOST, u), u, g, 1));
    writes(e, of_x(ZINF_CLASS_ACT, e->x[j], 0, j));
    after(e, e->count);
    end_move(e, e->m->act_nbytes, e->p->rates.h2d);
}

static void forward(struct emit *e, uint32_t s, uint32_t j, struct zinf_loc weights, bool checkpoint)
{
    const struct zinf_sched_spec *m = e->m;
    uint32_t u = m->layer_units[s], from = e->x[j], to = new_buf(e, ZINF_CLASS_ACT, 1);
    begin_visit(e, ZINF_OP_FORWARD, s, u, j);
    reads(e, of_weight(weights, u, 0, 1));
    reads(e, of_x(ZINF_CLASS_ACT, from, s, j));
    writes(e, of_x(ZINF_CLASS_ACT, to, s + 1, j));
    end_visit(e, u, 2);
    if (checkpoint) {
        uint32_t c = e->ckpt[(size_t)s * m->nr_micro + j] = new_buf(e, ZINF_CLASS_CKPT, 1);
        struct zinf_op *o = begin(e, ZINF_OP_DOWNLOAD, ZINF_LANE_D2H, ZINF_WHAT_CKPT);
        o->layer = s;
        o->micro = j;
        reads(e, of_x(ZINF_CLASS_ACT, from, s, j));
        writes(e, of_x(ZINF_CLASS_CKPT, c, s, j));
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
    for (uint32_t s = 0; s < m->nr_layers && !e->failed; s++) {
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
    struct zinf_loc to = device ? home(ZINF_AT_GRAD_DEVICE, u) : slot(ZINF_CLASS_GRAD, new_buf(e, ZINF_CLASS_GRAD, 1));
    struct zinf_op *o = begin(e, ZINF_OP_REDUCE, ZINF_LANE_COMM, ZINF_WHAT_NONE);
    o->unit = u;
    o->layer = layer;
    reads(e, of_accum(accum, u, m->nr_micro - 1));
    writes(e, of_grad(to, u, 0));
    final(e, end(e, 0, (double)m->unit_elems[u] * 4, p->rates.reduce));
    if (device)
        return;
    o = begin(e, ZINF_OP_DOWNLOAD, ZINF_LANE_D2H, ZINF_WHAT_GRAD);
    o->unit = u;
    o->layer = layer;
    reads(e, of_grad(to, u, 0));
    writes(e, of_grad(home(ZINF_AT_GRAD_HOST, u), u, 0));
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
            accum = new_buf(e, ZINF_CLASS_ACCUM, 1);
    }
    for (uint32_t j = 0; j < m->nr_micro && !e->failed; j++) {
        begin_visit(e, train ? ZINF_OP_BACKWARD : ZINF_OP_FORWARD, m->nr_layers, u, j);
        if (u != ZINF_NONE)
            reads(e, of_weight(w, u, 0, 1));
        reads(e, of_x(ZINF_CLASS_ACT, e->x[j], m->nr_layers, j));
        if (train) {
            if (u != ZINF_NONE && j)
                reads(e, of_accum(accum, u, j - 1));
            e->dx[j] = new_buf(e, ZINF_CLASS_ACT, 1);
            writes(e, of_dx(ZINF_CLASS_ACT, e->dx[j], j, m->nr_layers));
            if (u != ZINF_NONE)
                writes(e, of_accum(accum, u, j));
            after(e, e->count);
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
    uint32_t accum = new_buf(e, ZINF_CLASS_ACCUM, 1);
    for (uint32_t j = 0; j < m->nr_micro && !e->failed; j++) {
        uint32_t x = new_buf(e, ZINF_CLASS_ACT, 1);
        struct zinf_op *o = begin(e, ZINF_OP_UPLOAD, ZINF_LANE_H2D, ZINF_WHAT_CKPT);
        o->layer = s;
        o->micro = j;
        reads(e, of_x(ZINF_CLASS_CKPT, e->ckpt[(size_t)s * m->nr_micro + j], s, j));
        writes(e, of_x(ZINF_CLASS_ACT, x, s, j));
        end_move(e, m->act_nbytes, e->p->rates.h2d);
        begin_visit(e, ZINF_OP_BACKWARD, s, u, j);
        reads(e, of_weight(w, u, 0, 1));
        reads(e, of_x(ZINF_CLASS_ACT, x, s, j));
        reads(e, of_dx(ZINF_CLASS_ACT, e->dx[j], j, s + 1));
        if (j)
            reads(e, of_accum(accum, u, j - 1));
        writes(e, of_dx(ZINF_CLASS_ACT, e->dx[j], j, s));
        writes(e, of_accum(accum, u, j));
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
    for (uint32_t j = 0; j < m->nr_micro && !e->failed; j++) {
        uint32_t rows = new_buf(e, ZINF_CLASS_ROWS, 1);
        struct zinf_op *o = begin(e, ZINF_OP_DOWNLOAD, ZINF_LANE_D2H, ZINF_WHAT_ROWS);
        o->unit = u;
        o->micro = j;
        reads(e, of_dx(ZINF_CLASS_ACT, e->dx[j], j, 0));
        writes(e, of_dx(ZINF_CLASS_ROWS, rows, j, 0));
        end_move(e, m->act_nbytes, e->p->rates.d2h);
        o = begin(e, ZINF_OP_ADD, ZINF_LANE_CPU, ZINF_WHAT_NONE);
        o->unit = u;
        o->micro = j;
        o->last = j == m->nr_micro - 1;
        reads(e, of_dx(ZINF_CLASS_ROWS, rows, j, 0));
        if (j || (u == m->head_unit && m->unit_elems[u]))
            reads(e, of_grad(grad, u, 0));
        writes(e, of_grad(grad, u, 0));
        final(e, end(e, 0, (double)m->act_nbytes, e->p->rates.add));
    }
}

static void step(struct emit *e, enum zinf_sched_kind kind, uint32_t flags)
{
    bool train = zinf_kind_trains(kind);
    for (uint32_t u = 0; e->pending && u < e->m->nr_units && !e->failed; u++)
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
    for (uint32_t s = e->m->nr_layers; s-- > 0 && !e->failed;)
        backward(e, s);
    embedding_gradient(e);
    gather_point(e, ZINF_OP_NORM);
}

static void start(struct emit *e)
{
    const struct zinf_sched_spec *m = e->m;
    uint32_t nr_cells = zinf_nr_home_cells(e->p);
    e->count = ZINF_NONE;
    e->device = malloc(((size_t)m->nr_units + 1) * sizeof(*e->device));
    e->host = malloc(((size_t)m->nr_units + 1) * sizeof(*e->host));
    e->x = calloc(m->nr_micro, sizeof(*e->x));
    e->dx = calloc(m->nr_micro, sizeof(*e->dx));
    e->ckpt = calloc((size_t)m->nr_layers * m->nr_micro, sizeof(*e->ckpt));
    e->g->flips = calloc((size_t)e->p->nr_grains + 1, 1);
    e->failed = !e->device || !e->host || !e->x || !e->dx || !e->ckpt || !e->g->flips;
    more(e, &e->writer, &e->cap_writer, nr_cells, sizeof(*e->writer));
    more(e, &e->since, &e->cap_since, nr_cells, sizeof(*e->since));
    if (e->failed)
        return;
    for (uint32_t u = 0; u < m->nr_units; u++)
        e->device[u] = e->host[u] = ZINF_NONE;
    for (; e->nr_cells < nr_cells; e->nr_cells++)
        e->writer[e->nr_cells] = e->since[e->nr_cells] = ZINF_NONE;
}

int zinf_program_emit(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags, struct zinf_program *out)
{
    struct emit e = { .p = p, .m = &p->spec, .g = out };
    memset(out, 0, sizeof(*out));
    e.pending = zinf_kind_updates(kind);
    e.newest = flags & ZINF_SCHED_DIRTY ? ZINF_ROLE_ALTERNATE : ZINF_ROLE_CURRENT;
    start(&e);
    if (!e.failed)
        step(&e, kind, flags);
    free(e.writer);
    free(e.since);
    free(e.readers);
    free(e.buf_cell);
    free(e.mark);
    free(e.device);
    free(e.host);
    free(e.x);
    free(e.dx);
    free(e.ckpt);
    free(e.finals);
    free(e.written);
    if (!e.failed)
        return 0;
    zinf_program_free(out);
    return -ENOMEM;
}

void zinf_program_free(struct zinf_program *g)
{
    free(g->ops);
    free(g->accesses);
    free(g->deps);
    free(g->buf_class);
    free(g->flips);
    memset(g, 0, sizeof(*g));
}

int zinf_program_peaks(const struct zinf_program *g, uint32_t peak[ZINF_NR_CLASSES])
{
    uint32_t live[ZINF_NR_CLASSES] = { 0 };
    uint32_t *last = malloc(((size_t)g->nr_bufs + 1) * sizeof(*last));
    bool *seen = calloc((size_t)g->nr_bufs + 1, sizeof(*seen));
    int rc = last && seen ? 0 : -ENOMEM;
    memset(peak, 0, ZINF_NR_CLASSES * sizeof(*peak));
    for (int pass = 0; !rc && pass < 2; pass++) {
        for (uint32_t i = 0; i < g->nr_ops; i++) {
            const struct zinf_op *o = &g->ops[i];
            const struct zinf_access *a = &g->accesses[o->rd], *stop = a + o->nr_rd + o->nr_wr;
            for (const struct zinf_access *k = a; k < stop; k++) {
                uint32_t b = k->loc.index, c = k->loc.sub;
                if (k->loc.space != ZINF_AT_SLOT)
                    continue;
                if (!pass) {
                    last[b] = i;
                } else if (!seen[b]) {
                    seen[b] = true;
                    if (++live[c] > peak[c])
                        peak[c] = live[c];
                }
            }
            for (const struct zinf_access *k = a; pass && k < stop; k++)
                if (k->loc.space == ZINF_AT_SLOT && last[k->loc.index] == i) {
                    last[k->loc.index] = ZINF_NONE;
                    live[k->loc.sub]--;
                }
        }
    }
    free(last);
    free(seen);
    return rc;
}
