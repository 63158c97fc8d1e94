/* zinf/model/llama_layer.c - one decoder layer on device operations; backward recomputes everything from x.
 *
 * Scratch, in floats per row (H hidden, Q = heads x head_dim, K = kv heads x head_dim, I intermediate, W = max(H, Q)):
 *
 *   a      W   residual stream: x, then x + attention;      attention backward: gradient of o
 *   n      W   output of the norm at hand, then its gradient; attention backward: gradient of q
 *   d      H   gradient of the residual stream
 *   q o    W   kept from the recomputed forward for attention backward; q then holds the input norm's output
 *   k v    K
 *   s          dk and dv (2 K), or gate, up and hidden (3 I) of a chunk of rows, or the partial sums of a norm
 *
 * That is 9 H with as many kv heads as heads: the feed-forward part runs in chunks of rows that fit
 * where dk and dv will lie. Sequences do not meet inside a layer, so a micro-batch of many runs in
 * groups of them and only one group has scratch. Groups and chunks are functions of shapes only, since
 * they fix the order of additions (the numeric plan). */
#include <math.h>

#include "zinf/base/align.h"
#include "zinf/model/linear.h"
#include "zinf/model/llama_layer.h"

/* Products with fewer rows than this lose speed; so many rows of the feed-forward part are always taken together. */
#define MLP_ROWS_MIN 128u
/* Sequences are grouped up to so many rows; a longer sequence is a group by itself. */
#define GROUP_ROWS 1024u
/* Rows per partial sum of rmsnorm_backward (kernels/device.h). */
#define NORM_ROWS 64u

struct scratch {
    uint64_t rows, q_dim, kv_dim, mlp_rows;
    float *a, *n, *d, *q, *k, *v, *o, *lse, *rstd, *s;
    struct zinf_linear w[ZINF_LLAMA_DOWN + 1];
};

static uint64_t floats(uint64_t n) { return zinf_align_up(n, 16); }

static uint64_t mlp_chunk(const struct zinf_llama *m, uint64_t rows)
{
    uint64_t fit = 2 * m->nr_kv_heads * m->head_dim * rows / (3 * m->intermediate);

    return zinf_min_u64(rows, zinf_max_u64(MLP_ROWS_MIN, zinf_align_down(fit, 64)));
}

/* Lays the buffers out from `base` (NULL: only counts); returns the bytes used. */
static size_t layout(const struct zinf_llama *m, uint64_t rows, char *base, struct scratch *s)
{
    uint64_t q_dim = m->nr_heads * m->head_dim, kv_dim = m->nr_kv_heads * m->head_dim;
    uint64_t wide = rows * zinf_max_u64(m->hidden, q_dim);
    uint64_t chunk = mlp_chunk(m, rows);
    uint64_t shared = zinf_max_u64(2 * floats(rows * kv_dim), 3 * floats(chunk * m->intermediate));
    const struct { float **at; uint64_t nr; } parts[] = {
        { &s->a, wide }, { &s->n, wide }, { &s->d, rows * m->hidden }, { &s->q, wide }, { &s->o, rows * q_dim },
        { &s->k, rows * kv_dim }, { &s->v, rows * kv_dim }, { &s->lse, rows * m->nr_heads }, { &s->rstd, rows },
        { &s->s, zinf_max_u64(shared, (rows / NORM_ROWS + 1) * m->hidden) },
    };
    size_t used = 0;

    s->rows = rows;
    s->q_dim = q_dim;
    s->kv_dim = kv_dim;
    s->mlp_rows = chunk;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (base)
            *parts[i].at = (float *)(void *)(base + used);
        used += floats(parts[i].nr) * sizeof(float);
    }
    return used;
}

static uint32_t group_batch(uint32_t batch, uint32_t seq)
{
    return (uint32_t)zinf_min_u64(batch, zinf_max_u64(1, GROUP_ROWS / seq));
}

size_t zinf_llama_layer_work_nbytes(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width)
{
    struct scratch s;

    (void)width;
    return layout(l->ctx, (uint64_t)group_batch(batch, seq) * seq, NULL, &s);
}

static void bind(const struct zinf_llama *m, const struct zinf_call *c, struct scratch *s)
{
    layout(m, c->rows, c->work, s);
    const uint64_t dims[ZINF_LLAMA_DOWN + 1][2] = {
        [ZINF_LLAMA_Q] = { s->q_dim, m->hidden },           [ZINF_LLAMA_K] = { s->kv_dim, m->hidden },
        [ZINF_LLAMA_V] = { s->kv_dim, m->hidden },          [ZINF_LLAMA_O] = { m->hidden, s->q_dim },
        [ZINF_LLAMA_GATE] = { m->intermediate, m->hidden }, [ZINF_LLAMA_UP] = { m->intermediate, m->hidden },
        [ZINF_LLAMA_DOWN] = { m->hidden, m->intermediate },
    };

    for (int i = 0; i <= ZINF_LLAMA_DOWN; i++)
        s->w[i] = (struct zinf_linear){ .w = c->params[i], .dw = c->grads ? c->grads[i] : NULL, .nr_out = dims[i][0],
                                        .nr_in = dims[i][1] };
}

size_t zinf_llama_rope_nbytes(const struct zinf_layer *l, uint32_t batch, uint32_t seq)
{
    const struct zinf_llama *m = l->ctx;

    (void)batch;
    return (size_t)seq * m->head_dim * sizeof(float);
}

void zinf_llama_rope_fill(const struct zinf_layer *l, uint32_t batch, uint32_t seq, void *out)
{
    const struct zinf_llama *m = l->ctx;
    uint64_t half = m->head_dim / 2;
    float *t = out;

    (void)batch;
    for (uint64_t i = 0; i < half; i++) {
        double rate = pow(m->rope_theta, -2.0 * (double)i / (double)m->head_dim);

        for (uint64_t p = 0; p < seq; p++) {
            t[(p * half + i) * 2] = (float)cos((double)p * rate);
            t[(p * half + i) * 2 + 1] = (float)sin((double)p * rate);
        }
    }
}

static int norm(const struct zinf_llama *m, const struct zinf_call *c, float *y, float *rstd, const float *x, int param)
{
    return c->ops->rmsnorm_forward(c->stream, y, rstd, x, c->params[param], c->dtype, c->rows, m->hidden, m->eps);
}

static int norm_backward(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s, int param)
{
    return c->ops->rmsnorm_backward(c->stream, s->d, c->grads[param], c->beta, s->n, s->a, s->rstd, c->params[param],
                                    c->dtype, c->rows, m->hidden, s->s);
}

static int rope(const struct zinf_llama *m, const struct zinf_call *c, float *q, float *k, float sin_sign)
{
    int rc = c->ops->rope(c->stream, q, c->rows, c->seq, m->nr_heads, m->head_dim, m->nr_heads * m->head_dim,
                          c->constants, sin_sign);

    if (rc)
        return rc;
    return c->ops->rope(c->stream, k, c->rows, c->seq, m->nr_kv_heads, m->head_dim, m->nr_kv_heads * m->head_dim,
                        c->constants, sin_sign);
}

static struct zinf_attention attention(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s)
{
    return (struct zinf_attention){
        .batch = c->batch, .seq = c->seq,
        .nr_heads = m->nr_heads, .nr_kv_heads = m->nr_kv_heads, .head_dim = m->head_dim,
        .scale = (float)(1.0 / sqrt((double)m->head_dim)),
        .q = s->q, .k = s->k, .v = s->v, .q_stride = s->q_dim, .kv_stride = s->kv_dim,
        .o = s->o, .o_stride = s->q_dim, .lse = s->lse,
    };
}

/* a = x + attention(x); leaves q, k, v, o and lse; then n = the second norm of a, with its rstd. */
static int forward_attention(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s)
{
    struct zinf_attention at = attention(m, c, s);
    int rc = c->ops->cast(c->stream, s->a, ZINF_F32, c->x, c->dtype, c->rows * m->hidden);

    if (!rc)
        rc = norm(m, c, s->n, s->rstd, s->a, ZINF_LLAMA_NORM_IN);
    if (!rc)
        rc = zinf_linear_forward(c, &s->w[ZINF_LLAMA_Q], s->q, s->n, c->rows, 0);
    if (!rc)
        rc = zinf_linear_forward(c, &s->w[ZINF_LLAMA_K], s->k, s->n, c->rows, 0);
    if (!rc)
        rc = zinf_linear_forward(c, &s->w[ZINF_LLAMA_V], s->v, s->n, c->rows, 0);
    if (!rc)
        rc = rope(m, c, s->q, s->k, 1);
    if (!rc)
        rc = c->ops->attention_forward(c->stream, &at);
    if (!rc)
        rc = zinf_linear_forward(c, &s->w[ZINF_LLAMA_O], s->a, s->o, c->rows, 1);
    if (!rc)
        rc = norm(m, c, s->n, s->rstd, s->a, ZINF_LLAMA_NORM_POST);
    return rc;
}

/* A chunk of rows of the feed-forward part; gate, up and hidden share s. */
struct mlp { uint64_t first, rows; float *gate, *up, *hidden, *n; };

static struct mlp mlp_at(const struct zinf_llama *m, const struct scratch *s, uint64_t first)
{
    uint64_t each = floats(s->mlp_rows * m->intermediate);

    return (struct mlp){ .first = first, .rows = zinf_min_u64(s->mlp_rows, s->rows - first), .gate = s->s,
                         .up = s->s + each, .hidden = s->s + 2 * each, .n = s->n + first * m->hidden };
}

static int mlp_hidden(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s,
                      const struct mlp *p)
{
    int rc = zinf_linear_forward(c, &s->w[ZINF_LLAMA_GATE], p->gate, p->n, p->rows, 0);

    if (!rc)
        rc = zinf_linear_forward(c, &s->w[ZINF_LLAMA_UP], p->up, p->n, p->rows, 0);
    if (!rc)
        rc = c->ops->swiglu_forward(c->stream, p->hidden, p->gate, p->up, p->rows * m->intermediate);
    return rc;
}

static int forward_group(const struct zinf_llama *m, const struct zinf_call *c)
{
    struct scratch s;
    int rc;

    bind(m, c, &s);
    rc = forward_attention(m, c, &s);
    for (uint64_t first = 0; !rc && first < c->rows; first += s.mlp_rows) {
        struct mlp p = mlp_at(m, &s, first);

        rc = mlp_hidden(m, c, &s, &p);
        if (!rc)
            rc = zinf_linear_forward(c, &s.w[ZINF_LLAMA_DOWN], s.a + first * m->hidden, p.hidden, p.rows, 1);
    }
    if (!rc)
        rc = c->ops->cast(c->stream, c->y, c->dtype, s.a, ZINF_F32, c->rows * m->hidden);
    return rc;
}

/* Reads d (the gradient of y); weight gradients, and n = the gradient of the second norm's output. */
static int backward_mlp_chunk(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s,
                              const struct mlp *p)
{
    const float *dy = s->d + p->first * m->hidden;
    float beta = p->first ? 1 : c->beta;
    int rc = mlp_hidden(m, c, s, p);

    if (!rc)
        rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_DOWN], dy, p->hidden, p->rows, beta);
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_DOWN], p->hidden, dy, p->rows, 0);
    if (!rc)
        rc = c->ops->swiglu_backward(c->stream, p->gate, p->up, p->hidden, p->gate, p->up, p->rows * m->intermediate);
    if (!rc)
        rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_GATE], p->gate, p->n, p->rows, beta);
    if (!rc)
        rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_UP], p->up, p->n, p->rows, beta);
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_GATE], p->n, p->gate, p->rows, 0);
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_UP], p->n, p->up, p->rows, 1);
    return rc;
}

/* d is the gradient of x + attention(x); a, n are free; q, k, v, o, lse are from the forward. Leaves dq
 * in n, dk and dv in s. */
static int backward_attention(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s, float *dk,
                              float *dv)
{
    struct zinf_attention at = attention(m, c, s);
    int rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_O], s->d, s->o, c->rows, c->beta);

    at.d_o = s->a;
    at.dq = s->n;
    at.dk = dk;
    at.dv = dv;
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_O], s->a, s->d, c->rows, 0);
    if (!rc)
        rc = c->ops->attention_backward(c->stream, &at);
    if (!rc)
        rc = rope(m, c, s->n, dk, -1);
    return rc;
}

/* From dq (n), dk, dv: weight gradients, then through the input norm into d. q is dead: its buffer takes the norm's
 * output, then, once the weight gradients have read that, the gradient of it. */
static int backward_inputs(const struct zinf_llama *m, const struct zinf_call *c, struct scratch *s, const float *dk,
                           const float *dv)
{
    const float *dq = s->n;
    float *n1 = s->q;
    int rc = c->ops->cast(c->stream, s->a, ZINF_F32, c->x, c->dtype, c->rows * m->hidden);

    if (!rc)
        rc = norm(m, c, n1, s->rstd, s->a, ZINF_LLAMA_NORM_IN);
    if (!rc)
        rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_Q], dq, n1, c->rows, c->beta);
    if (!rc)
        rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_K], dk, n1, c->rows, c->beta);
    if (!rc)
        rc = zinf_linear_backward_w(c, &s->w[ZINF_LLAMA_V], dv, n1, c->rows, c->beta);
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_Q], n1, dq, c->rows, 0);
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_K], n1, dk, c->rows, 1);
    if (!rc)
        rc = zinf_linear_backward_x(c, &s->w[ZINF_LLAMA_V], n1, dv, c->rows, 1);
    if (rc)
        return rc;
    s->n = n1;
    return norm_backward(m, c, s, ZINF_LLAMA_NORM_IN);
}

static int backward_group(const struct zinf_llama *m, const struct zinf_call *c)
{
    struct scratch s;
    float *dk, *dv;
    int rc;

    bind(m, c, &s);
    dk = s.s;
    dv = s.s + floats(c->rows * s.kv_dim);
    rc = forward_attention(m, c, &s);
    if (!rc)
        rc = c->ops->cast(c->stream, s.d, ZINF_F32, c->dx, c->dtype, c->rows * m->hidden);
    for (uint64_t first = 0; !rc && first < c->rows; first += s.mlp_rows) {
        struct mlp p = mlp_at(m, &s, first);

        rc = backward_mlp_chunk(m, c, &s, &p);
    }
    if (!rc)
        rc = norm_backward(m, c, &s, ZINF_LLAMA_NORM_POST);
    if (!rc)
        rc = backward_attention(m, c, &s, dk, dv);
    if (!rc)
        rc = backward_inputs(m, c, &s, dk, dv);
    if (!rc)
        rc = c->ops->cast(c->stream, c->dx, c->dtype, s.d, ZINF_F32, c->rows * m->hidden);
    return rc;
}

/* fn on every group of sequences; the first one keeps beta, the others add. */
static int each_group(const struct zinf_llama *m, const struct zinf_call *c,
                      int (*fn)(const struct zinf_llama *m, const struct zinf_call *c))
{
    size_t row_nbytes = m->hidden * zinf_dtype_nbytes(c->dtype);
    uint32_t step = group_batch(c->batch, c->seq);
    int rc = 0;

    for (uint32_t first = 0; !rc && first < c->batch; first += step) {
        size_t skip = (size_t)first * c->seq * row_nbytes;
        struct zinf_call g = *c;

        g.batch = (uint32_t)zinf_min_u64(step, c->batch - first);
        g.rows = (uint64_t)g.batch * c->seq;
        g.x = (const char *)c->x + skip;
        g.y = c->y ? (char *)c->y + skip : NULL;
        g.dx = c->dx ? (char *)c->dx + skip : NULL;
        g.beta = first ? 1 : c->beta;
        rc = fn(m, &g);
    }
    return rc;
}

int zinf_llama_layer_forward(const struct zinf_layer *l, const struct zinf_call *c)
{
    return each_group(l->ctx, c, forward_group);
}

int zinf_llama_layer_backward(const struct zinf_layer *l, const struct zinf_call *c)
{
    return each_group(l->ctx, c, backward_group);
}
