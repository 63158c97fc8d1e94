/* zinf/engine/ops.c - what each operation of a schedule computes, given where its operands are.
 *
 * The order of an operation's accesses is fixed in swapper/schedule.h. Nothing here decides anything: placement has been
 * decided by the schedule, numbers by the numeric plan. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/norm.h"
#include "zinf/base/crc32c.h"

struct run {
    struct zinf_trainer *t;
    const struct zinf_schedule *sched;
    const struct zinf_op *op;
    struct zinf_stream *s;
    struct zinf_status *st;
};

static const struct zinf_access *rd(const struct run *r, uint32_t i) { return &r->sched->accesses[r->op->rd + i]; }
static const struct zinf_access *wr(const struct run *r, uint32_t i) { return &r->sched->accesses[r->op->wr + i]; }

static void *at(const struct run *r, const struct zinf_access *a)
{
    return zinf_store_addr(r->t->store, a->loc, a->part);
}

static enum zinf_dtype dtype_of(const struct run *r) { return r->t->config.dtype; }

/* ---- transfers ---- */

static int copy(const struct run *r, enum zinf_copy_dir dir)
{
    return r->t->dev_ops->copy(r->s, at(r, wr(r, 0)), at(r, rd(r, 0)), r->op->nbytes, dir);
}

/* Weights that came from the drive into a slot are checked by the pass that hands them on. In a schedule that updates they are
 * those it wrote. */
static int check_weights(const struct run *r)
{
    struct zinf_trainer *t = r->t;
    bool fresh = r->sched->kind == ZINF_SCHED_STEADY || r->sched->kind == ZINF_SCHED_FLUSH;
    enum zinf_role role = fresh || r->sched->flags & ZINF_SCHED_DIRTY ? ZINF_ROLE_ALTERNATE : ZINF_ROLE_CURRENT;
    uint32_t unit = r->op->unit;

    if (!t->config.checksum || !t->plan->extents_weight || rd(r, 0)->loc.space != ZINF_AT_SLOT)
        return 0;
    for (uint32_t g = t->plan->unit_first_grain[unit]; g < t->plan->unit_first_grain[unit + 1]; g++) {
        const void *p = zinf_store_addr(t->store, rd(r, 0)->loc, g);
        uint32_t crc = zinf_crc32c(0, p, t->plan->grains[g].nr_elems * t->plan->spec.weight_nbytes);
        const uint32_t *want = zinf_store_crc(t->store, g, role);

        if (want && crc != want[0])
            return zinf_store_crc_fail(t->store, g, role, 0, crc, r->st);
    }
    return 0;
}

static int upload(const struct run *r)
{
    struct zinf_trainer *t = r->t;
    const struct zinf_batch *b = &t->batch;

    switch (r->op->what) {
    case ZINF_WHAT_ROWS: {
        const struct zinf_unit_param *p = &t->part.params[t->part.unit_first_param[t->part.embed_unit]];
        const char *table = (const char *)at(r, rd(r, 0)) + p->offset * zinf_dtype_nbytes(dtype_of(r));

        return t->dev_ops->gather_rows(r->s, at(r, wr(r, 0)), table, dtype_of(r), b->tokens + r->op->micro * b->rows, b->rows,
                                       t->chain->width);
    }
    case ZINF_WHAT_INPUT:
        return t->dev_ops->cast(r->s, at(r, wr(r, 0)), dtype_of(r), b->input + r->op->micro * b->rows * t->chain->width,
                                ZINF_F32, b->rows * t->chain->width);
    case ZINF_WHAT_WEIGHTS: {
        int rc = check_weights(r);

        return rc ? rc : copy(r, ZINF_COPY_H2D);
    }
    default:
        return copy(r, ZINF_COPY_H2D);
    }
}

/* ---- layers ---- */

static int layer_call(const struct run *r, bool backward)
{
    struct zinf_trainer *t = r->t;
    const struct zinf_op *op = r->op;
    const struct zinf_batch *b = &t->batch;
    bool head = op->layer == t->chain->nr_layers;
    const struct zinf_layer *l = head ? t->chain->head : &t->chain->layers[op->layer];
    uint32_t unit = head ? t->part.head_unit : t->part.layer_units[op->layer];
    bool weights = unit != ZINF_NONE;                        /* a head may have none: then no access for it */
    const char *w = weights ? at(r, rd(r, 0)) : NULL;
    const void *params[ZINF_MAX_UNIT_PARAMS];
    float *grads[ZINF_MAX_UNIT_PARAMS];
    float *acc = backward && weights ? at(r, wr(r, 1)) : NULL;
    struct zinf_call c = {
        .ops = t->dev_ops, .stream = r->s, .batch = b->batch, .seq = b->seq, .rows = b->rows, .width = t->chain->width,
        .dtype = dtype_of(r), .params = params, .x = at(r, rd(r, weights ? 1 : 0)), .work = t->work,
        .constants = t->constants[op->layer], .beta = op->micro > 0,
    };

    for (uint32_t i = 0; i < l->nr_params; i++) {
        uint32_t k = head ? t->part.head_params[i] : t->part.unit_first_param[unit] + i;

        params[i] = w + t->part.params[k].offset * zinf_dtype_nbytes(c.dtype);
        grads[i] = acc ? acc + t->part.params[k].offset : NULL;
    }
    if (head) {
        c.targets = b->targets + op->micro * b->rows;
        c.row_loss = b->row_loss + op->micro * b->rows;
        c.grad_scale = b->trained ? (float)(1.0 / (double)b->trained) : 0;
        if (t->verdict.iteration >= t->hooks.nan_first && t->verdict.iteration <= t->hooks.nan_last)
            c.grad_scale = NAN;
    }
    if (!backward) {
        c.y = head ? NULL : at(r, wr(r, 0));
        return l->forward(l, &c);
    }
    c.dx = at(r, wr(r, 0));
    c.grads = grads;
    return l->backward(l, &c);
}

/* ---- gradients ---- */

/* Layers write parameters only; what lies between them must be zero before anything reads the whole unit. */
static int zero_padding(const struct run *r, float *acc)
{
    const struct zinf_partition *p = &r->t->part;
    uint32_t u = r->op->unit;
    uint64_t pos = 0;
    int rc = 0;

    for (uint32_t i = p->unit_first_param[u]; i <= p->unit_first_param[u + 1] && !rc; i++) {
        bool end = i == p->unit_first_param[u + 1];
        uint64_t next = end ? p->unit_elems[u] : p->params[i].offset;

        if (next > pos)
            rc = r->t->dev_ops->fill_zero(r->s, acc + pos, (next - pos) * sizeof(float));
        pos = end ? next : next + p->params[i].nr_elems;
    }
    return rc;
}

static int reduce(const struct run *r)
{
    struct zinf_trainer *t = r->t;
    uint32_t u = r->op->unit;
    float *acc = at(r, rd(r, 0));
    int rc = zero_padding(r, acc);

    if (rc)
        return rc;
    if (u == t->part.embed_unit)         /* a tied head: the embedding's rows are still to come, rounded once after them */
        return t->dev_ops->copy(r->s, at(r, wr(r, 0)), acc, t->part.unit_elems[u] * sizeof(float), ZINF_COPY_D2D);
    return t->dev_ops->round_norm(r->s, at(r, wr(r, 0)), t->config.grad_accum_dtype, acc, t->part.unit_elems[u], &t->norms[u]);
}

static int add_rows(const struct run *r)
{
    struct zinf_trainer *t = r->t;
    const struct zinf_batch *b = &t->batch;
    uint32_t u = t->part.embed_unit;
    const struct zinf_unit_param *p = &t->part.params[t->part.unit_first_param[u]];
    float *grad = at(r, wr(r, 0));
    bool first = r->op->nr_rd == 1;

    if (first)
        memset(grad, 0, t->part.unit_elems[u] * sizeof(float));
    zinf_add_rows_pool(t->isa, t->pool, grad + p->offset, p->param->dims[0], t->chain->width, false, at(r, rd(r, 0)),
                       dtype_of(r), b->tokens + r->op->micro * b->rows, b->rows, t->add_order);
    if (r->op->last)
        zinf_round_norm_pool(t->isa, t->pool, NULL, t->config.grad_accum_dtype, grad, grad, t->part.unit_elems[u],
                             &t->norms[u]);
    return 0;
}

/* A skip: nothing of this iteration is applied; weights, moments and Adam's t stay. */
static void skip(const struct run *r, const char *what, const char *tensor)
{
    struct zinf_verdict *v = &r->t->verdict;

    v->skips_in_a_row++;
    snprintf(r->t->skip_reason, sizeof(r->t->skip_reason), "rank 0: %s%s%.120s", what, tensor ? " of " : "",
             tensor ? tensor : "");
    zinf_log(r->t->opts.log, ZINF_LOG_WARN, "iteration %llu is skipped: %s", (unsigned long long)v->iteration,
             r->t->skip_reason);
}

/* The end of the iteration: exact global norm in unit order, the clip factor, V(t). */
static int norm(const struct run *r)
{
    struct zinf_trainer *t = r->t;
    struct zinf_verdict *v = &t->verdict;
    const char *tensor = NULL;
    bool bad = false;
    double sum = 0;

    for (uint32_t u = 0; u < t->part.nr_units; u++) {
        if (t->norms[u].nr_nonfinite && !bad) {
            const struct zinf_unit_param *p = zinf_partition_find(&t->part, u, t->norms[u].first_nonfinite);

            bad = true;
            tensor = p ? p->param->name : "padding";
        }
        sum = zinf_norm_total(t->norms[u].chunk_sums, t->part.unit_elems[u] / ZINF_NORM_CHUNK, sum);
    }
    v->grad_norm = sqrt(sum);
    v->tokens = t->batch.trained;
    v->loss = t->batch.trained ? zinf_batch_loss(&t->batch) / (double)t->batch.trained : 0;
    if (bad || !isfinite(sum)) {       /* finite values whose squares are not are as unusable as infinite ones */
        v->clip = 1;
        skip(r, bad ? "the gradient is not finite, first in a value" : "the norm of the gradient is not finite", tensor);
        return 0;
    }
    v->clip = zinf_clip_factor(v->grad_norm, t->config.gradient_clipping);
    v->skips_in_a_row = 0;
    v->applied++;
    return 0;
}

/* ---- the optimizer ---- */

static int explain_bad(const struct run *r, uint32_t bad, const struct zinf_update *u)
{
    const struct zinf_sched_grain *g = &r->t->plan->grains[r->op->grain];
    const struct zinf_unit_param *p = NULL;

    for (uint64_t i = 0; i < u->n; i++) {
        uint32_t hi = u->weight_dtype == ZINF_BF16 ? (uint32_t)((const uint16_t *)u->hi)[i] << 16
                                                   : zinf_f32_bits(((const float *)u->hi)[i]);
        float m = u->m ? u->m[i] : 0, v = u->v ? u->v[i] : 0;

        if ((hi & 0x7f800000u) == 0x7f800000u || !isfinite(m) || !isfinite(v) ||
            (u->lo && (zinf_join((uint16_t)(hi >> 16), u->lo[i]) & 0x7f800000u) == 0x7f800000u)) {
            p = zinf_partition_find(&r->t->part, g->unit, g->first_elem + i);
            break;
        }
    }
    return zinf_fail(r->st, -EDOM, "update %llu made %s of %s not finite; lower the learning rate",
                     (unsigned long long)r->t->verdict.applied,
                     bad & ZINF_BAD_WEIGHT ? "a weight" : bad & ZINF_BAD_M ? "a first moment" : "a second moment",
                     p ? p->param->name : "a tensor");
}

/* Which extent holds the grain's newest bytes before this schedule, and the place its update writes them to. */
static enum zinf_role role_in(const struct run *r)
{
    return r->sched->flags & ZINF_SCHED_DIRTY ? ZINF_ROLE_ALTERNATE : ZINF_ROLE_CURRENT;
}

struct pieces {
    const struct run *r;
    const char *weights, *state;
    uint32_t crc[ZINF_RECORD_PIECES];
};

static void piece_crc(void *ctx, uint64_t piece, uint32_t worker)
{
    struct pieces *p = ctx;
    uint64_t offset, nbytes;
    bool weights;

    (void)worker;
    if (zinf_store_piece(p->r->t->plan, p->r->op->grain, (uint32_t)piece, &offset, &nbytes, &weights) && (weights ? p->weights : p->state))
        p->crc[piece] = zinf_crc32c(0, (weights ? p->weights : p->state) + offset, nbytes);
}

/* What was read from the drive is what was written there; weights with a home in RAM were not read. */
static int check_pieces(const struct run *r, const char *weights, const char *state)
{
    struct pieces p = { r, r->t->plan->weight_host[r->op->unit] ? NULL : weights, state, { 0 } };
    const uint32_t *want = zinf_store_crc(r->t->store, r->op->grain, role_in(r));

    if (!want)
        return 0;
    zinf_pool_for(r->t->pool, ZINF_RECORD_PIECES, piece_crc, &p);
    for (uint32_t i = 0; i < ZINF_RECORD_PIECES; i++) {
        uint64_t offset, nbytes;
        bool is_weights;

        if (zinf_store_piece(r->t->plan, r->op->grain, i, &offset, &nbytes, &is_weights) && (is_weights ? p.weights : p.state) &&
            p.crc[i] != want[i])
            return zinf_store_crc_fail(r->t->store, r->op->grain, role_in(r), i, p.crc[i], r->st);
    }
    return 0;
}

static void sign_pieces(const struct run *r, const char *weights, const char *state)
{
    struct pieces p = { r, weights, state, { 0 } };

    zinf_pool_for(r->t->pool, ZINF_RECORD_PIECES, piece_crc, &p);
    zinf_store_set_crc(r->t->store, r->op->grain, ZINF_ROLE_ALTERNATE, p.crc);
}

static int update(const struct run *r)
{
    struct zinf_trainer *t = r->t;
    const struct zinf_sched_grain *g = &t->plan->grains[r->op->grain];
    bool embed = g->unit == t->part.embed_unit, split = t->config.dtype != ZINF_F32;
    char *state = at(r, rd(r, 1)), *grad = at(r, rd(r, 0));
    struct zinf_update u = { .k = t->scalars, .weight_dtype = t->config.dtype, .n = g->nr_elems,
                             .grad_dtype = embed ? ZINF_F32 : t->config.grad_accum_dtype };
    bool checked = t->config.checksum && t->plan->extents_state;
    uint32_t bad = 0;
    int rc = 0;

    u.grad = grad + g->first_elem * zinf_dtype_nbytes(u.grad_dtype);
    u.hi = at(r, rd(r, 2));
    if (checked)
        rc = check_pieces(r, u.hi, state);
    if (rc)
        return rc;
    if (split) {
        u.lo = (int16_t *)(void *)state;
        state += g->nr_elems * sizeof(int16_t);
    }
    if (u.k.kind != ZINF_SGD) {
        u.m = (float *)(void *)state;
        u.v = u.m + g->nr_elems;
    }
    if (r->s)
        rc = t->dev_ops->update(r->s, &u, &bad);
    else
        zinf_update_pool(t->isa, t->pool, &u, &bad);
    if (bad)
        return explain_bad(r, bad, &u);
    if (!rc && checked)
        sign_pieces(r, u.hi, at(r, rd(r, 1)));
    return rc || !t->saving ? rc : zinf_save_grain(t->save, r->op->grain, &u, r->st);
}

int zinf_op_run(struct zinf_trainer *t, const struct zinf_schedule *sched, uint32_t op, struct zinf_stream *s,
                struct zinf_status *st)
{
    const struct run r = { t, sched, &sched->ops[op], s, st };
    int rc;

    if (t->hooks.poison)
        zinf_store_poison(t->store, sched, op);
    switch (r.op->kind) {
    case ZINF_OP_UPLOAD:   rc = upload(&r); break;
    case ZINF_OP_DOWNLOAD: rc = copy(&r, ZINF_COPY_D2H); break;
    case ZINF_OP_COUNT:    rc = 0; break;      /* one rank: the batch was counted when it was filled */
    case ZINF_OP_REDUCE:   rc = reduce(&r); break;
    case ZINF_OP_FORWARD:  rc = layer_call(&r, false); break;
    case ZINF_OP_BACKWARD: rc = layer_call(&r, true); break;
    case ZINF_OP_ADD:      rc = add_rows(&r); break;
    case ZINF_OP_NORM:     rc = norm(&r); break;
    case ZINF_OP_UPDATE:   rc = update(&r); break;
    default:               rc = -EINVAL; break;
    }
    if (rc && !st->rc) {
        char text[160];

        zinf_fail(st, rc, "operation failed: %s: %s", zinf_op_describe(sched, op, text, sizeof(text)), strerror(-rc));
    }
    return rc;
}
