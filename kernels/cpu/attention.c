/* kernels/cpu/attention.c - causal attention with grouped heads in blocks of 64 queries by 64 keys; memory linear in
 * seq. Built once per instruction set (lanes.h).
 *
 * Forward keeps a running maximum and sum per query and rescales what it has (Dao et al., FlashAttention, 2022).
 * Backward recomputes p = exp(score - lse) block by block, keys outside and queries inside, so that dk and dv of a
 * block are finished by one thread; dq collects its blocks in key order. It comes in two cuts with the same bits: dq
 * with dk and dv (5 products per pair of blocks), or apart (7 products, and as many independent pieces as there are
 * blocks). */
#define _GNU_SOURCE
#include <math.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lanes.h"
#include "zinf/base/align.h"

#define products ZINF_VARIANT(zinf_cpu_products)

enum { BLOCK = 64 };        /* queries and keys of a block */

/* The first key that query q sees. */
static uint64_t first_key(const struct zinf_attention *a, uint64_t q)
{
    return a->window && q + 1 > a->window ? q + 1 - a->window : 0;
}

static void multiply(uint64_t m, uint64_t n, uint64_t k, const float *a, uint64_t a_row, uint64_t a_col, const float *b,
                     uint64_t ldb, float *c, uint64_t ldc, float beta)
{
    struct zinf_cpu_block p = {
        .m = m, .n = n, .k = k, .a = a, .a_row = a_row, .a_col = a_col, .b = b, .ldb = ldb, .c = c, .ldc = ldc,
        .beta = beta,
    };

    products.block(&p);
}

/* A block whose queries are its keys is lower triangular: it is worked on in panels of rows, each as wide as its
 * last row sees. Columns beyond are neither computed nor read. */
enum { PANEL = 24 };

struct block {
    uint64_t q0, nr_q, k0, nr_k;
};

static bool is_diagonal(const struct block *x) { return x->q0 == x->k0; }

static uint64_t panel_rows(const struct block *x, uint64_t row, uint64_t nr_rows)
{
    return is_diagonal(x) ? zinf_min_u64(PANEL, nr_rows - row) : nr_rows;
}

/* Keys that the panel of query row i works on. */
static uint64_t panel_width(const struct block *x, uint64_t i)
{
    return is_diagonal(x) ? zinf_min_u64(x->nr_k, (i / PANEL + 1) * PANEL) : x->nr_k;
}

/* s = rows of x times t, where t is a transposed block of keys or values. */
static void scores(const struct block *x, uint64_t d, const float *rows, uint64_t stride, const float *t, float *s)
{
    for (uint64_t i = 0, nr; i < x->nr_q; i += nr) {
        nr = panel_rows(x, i, x->nr_q);
        multiply(nr, panel_width(x, i), d, rows + i * stride, stride, 1, t, BLOCK, s + i * BLOCK, BLOCK, 0.0f);
    }
}

/* out[query] = beta out[query] + sum over keys of p[query][key] rows[key] */
static void over_keys(const struct block *x, uint64_t d, const float *p, const float *rows, uint64_t stride, float *out,
                      uint64_t out_stride, float beta)
{
    for (uint64_t i = 0, nr; i < x->nr_q; i += nr) {
        nr = panel_rows(x, i, x->nr_q);
        multiply(nr, d, panel_width(x, i), p + i * BLOCK, BLOCK, 1, rows, stride, out + i * out_stride, out_stride,
                 beta);
    }
}

/* out[key] = beta out[key] + sum over queries of p[query][key] rows[query] */
static void over_queries(const struct block *x, uint64_t d, const float *p, const float *rows, uint64_t stride,
                         float *out, uint64_t out_stride, float beta)
{
    for (uint64_t j = 0, nr; j < x->nr_k; j += nr) {
        uint64_t from = is_diagonal(x) ? j : 0;

        nr = panel_rows(x, j, x->nr_k);
        multiply(nr, d, x->nr_q - from, p + from * BLOCK + j, 1, BLOCK, rows + from * stride, stride,
                 out + j * out_stride, out_stride, beta);
    }
}

/* Row i of s: scaled, -Inf where the query does not see the key. *max takes in what it sees. Returns how many
 * columns there are, in whole vectors. */
ZINF_INLINE uint64_t scale_and_mask(const struct zinf_attention *a, const struct block *x, float *s, uint64_t i,
                                    zinf_v8 *max)
{
    const zinf_i8 iota = { 0, 1, 2, 3, 4, 5, 6, 7 };
    uint64_t q = x->q0 + i, lo = first_key(a, q), width = zinf_align_up(panel_width(x, i), 8);
    uint64_t from = lo > x->k0 ? zinf_min_u64(lo - x->k0, width) : 0, to = zinf_min_u64(q + 1 - x->k0, x->nr_k);

    for (uint64_t j = 0; j < width; j += 8) {
        zinf_v8 v = zinf_v_load(s + j) * a->scale;

        if (from > j || to < j + 8) {
            zinf_i8 at = iota + (int32_t)j;

            v = zinf_v_select((at >= (int32_t)from) & (at < (int32_t)to), v, zinf_v_set(-INFINITY));
        }
        *max = zinf_v_max(v, *max);
        zinf_v_store(s + j, v);
    }
    return width;
}

/* One row's step of the running softmax: raw scores become exp(score - max), *max and *sum move on; returns the
 * factor for what was summed before, 1 when the maximum has not moved. A row that has seen no key yet keeps max =
 * -Inf, sums zeros. */
static float softmax_step(const struct zinf_attention *a, const struct block *x, float *s, uint64_t i, float *max,
                          float *sum)
{
    zinf_v8 m = zinf_v_set(*max), total = zinf_v_set(0.0f);
    uint64_t width = scale_and_mask(a, x, s, i, &m);
    float best = zinf_v_max_lane(m), base = best == -INFINITY ? 0.0f : best, factor = 1.0f;

    for (uint64_t j = 0; j < width; j += 8) {
        zinf_v8 e = zinf_v_exp(zinf_v_load(s + j) - base);

        total += e;
        zinf_v_store(s + j, e);
    }
    if (best != *max)
        factor = zinf_v_exp(zinf_v_set(*max - base))[0];
    *sum = *sum * factor + zinf_v_sum(total);
    *max = best;
    return factor;
}

static void scale_row(float *x, float factor, uint64_t n)
{
    uint64_t i = 0;

    for (; i + 8 <= n; i += 8)
        zinf_v_store(x + i, zinf_v_load(x + i) * factor);
    for (; i < n; i++)
        x[i] *= factor;
}

static void forward(const struct zinf_attention *a, uint64_t b, uint64_t head, uint64_t q0, float *scratch)
{
    uint64_t d = a->head_dim, kv_head = head / (a->nr_heads / a->nr_kv_heads);
    struct block x = { .q0 = q0, .nr_q = zinf_min_u64(BLOCK, a->seq - q0) };
    float *s = scratch, *kt = s + BLOCK * BLOCK, *max = kt + BLOCK * d, *sum = max + BLOCK;
    const float *q = a->q + (b * a->seq + q0) * a->q_stride + head * d;
    float *o = a->o + (b * a->seq + q0) * a->o_stride + head * d;
    float *lse = a->lse + (b * a->nr_heads + head) * a->seq + q0;
    uint64_t from = zinf_align_down(first_key(a, q0), BLOCK);

    for (uint64_t i = 0; i < x.nr_q; i++) {
        max[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    for (x.k0 = from; x.k0 <= q0; x.k0 += BLOCK) {
        uint64_t at = (b * a->seq + x.k0) * a->kv_stride + kv_head * d;

        x.nr_k = zinf_min_u64(BLOCK, a->seq - x.k0);
        products.transpose(kt, BLOCK, a->k + at, a->kv_stride, x.nr_k, d);
        scores(&x, d, q, a->q_stride, kt, s);
        for (uint64_t i = 0; i < x.nr_q; i++) {
            float factor = softmax_step(a, &x, s + i * BLOCK, i, &max[i], &sum[i]);

            if (x.k0 > from && factor != 1.0f)
                scale_row(o + i * a->o_stride, factor, d);
        }
        over_keys(&x, d, s, a->v + at, a->kv_stride, o, a->o_stride, x.k0 > from ? 1.0f : 0.0f);
    }
    for (uint64_t i = 0; i < x.nr_q; i++) {
        scale_row(o + i * a->o_stride, 1.0f / sum[i], d);
        lse[i] = max[i] + (float)log((double)sum[i]);
    }
}

/* s: raw scores -> p = exp(scale * score - lse), 0 where masked.  dp: d loss / d p -> scale * p * (dp - delta). */
static void probabilities(const struct zinf_attention *a, const struct block *x, float *s, float *dp, const float *lse,
                          const float *delta)
{
    for (uint64_t i = 0; i < x->nr_q; i++, s += BLOCK, dp += BLOCK) {
        zinf_v8 max = zinf_v_set(0.0f);
        uint64_t width = scale_and_mask(a, x, s, i, &max);

        for (uint64_t j = 0; j < width; j += 8) {
            zinf_v8 p = zinf_v_exp(zinf_v_load(s + j) - lse[i]);

            zinf_v_store(s + j, p);
            zinf_v_store(dp + j, (p * (zinf_v_load(dp + j) - delta[i])) * a->scale);
        }
    }
}

enum { OF_KEYS = 1, OF_QUERIES = 2 };      /* which gradients a call is for: dk and dv, dq */

struct backward {
    struct block x;
    uint64_t b, kv_head;
    float *kt, *vt, *s, *dp, *delta;
};

static struct backward backward_begin(const struct zinf_attention *a, uint64_t b, uint64_t kv_head, float *scratch)
{
    float *kt = scratch + 2 * BLOCK * BLOCK, *vt = kt + BLOCK * a->head_dim;

    return (struct backward){
        .b = b, .kv_head = kv_head, .kt = kt, .vt = vt, .s = scratch, .dp = scratch + BLOCK * BLOCK,
        .delta = vt + BLOCK * a->head_dim,
    };
}

static void take_keys(const struct zinf_attention *a, struct backward *w, uint64_t k0)
{
    uint64_t at = (w->b * a->seq + k0) * a->kv_stride + w->kv_head * a->head_dim;

    w->x.k0 = k0;
    w->x.nr_k = zinf_min_u64(BLOCK, a->seq - k0);
    products.transpose(w->kt, BLOCK, a->k + at, a->kv_stride, w->x.nr_k, a->head_dim);
    products.transpose(w->vt, BLOCK, a->v + at, a->kv_stride, w->x.nr_k, a->head_dim);
}

/* One block of queries of one head against one block of keys; first: dk and dv are overwritten. */
static void backward_step(const struct zinf_attention *a, const struct backward *w, uint64_t head, int of, bool first)
{
    const struct block *x = &w->x;
    uint64_t d = a->head_dim, row = w->b * a->seq + x->q0;
    uint64_t kv_at = (w->b * a->seq + x->k0) * a->kv_stride + w->kv_head * d, q_at = row * a->q_stride + head * d;
    const float *d_o = a->d_o + row * a->o_stride + head * d, *o = a->o + row * a->o_stride + head * d;
    const float *lse = a->lse + (w->b * a->nr_heads + head) * a->seq + x->q0;
    bool first_keys = zinf_align_down(first_key(a, x->q0), BLOCK) == x->k0;

    for (uint64_t i = 0; i < x->nr_q; i++)
        w->delta[i] = products.dot(o + i * a->o_stride, d_o + i * a->o_stride, d);
    scores(x, d, a->q + q_at, a->q_stride, w->kt, w->s);
    scores(x, d, d_o, a->o_stride, w->vt, w->dp);
    probabilities(a, x, w->s, w->dp, lse, w->delta);
    if (of & OF_KEYS) {
        over_queries(x, d, w->s, d_o, a->o_stride, a->dv + kv_at, a->kv_stride, first ? 0.0f : 1.0f);
        over_queries(x, d, w->dp, a->q + q_at, a->q_stride, a->dk + kv_at, a->kv_stride, first ? 0.0f : 1.0f);
    }
    if (of & OF_QUERIES)
        over_keys(x, d, w->dp, a->k + kv_at, a->kv_stride, a->dq + q_at, a->q_stride, first_keys ? 0.0f : 1.0f);
}

/* All queries that see the keys [k0, k0 + BLOCK). */
static void backward_of_block(const struct zinf_attention *a, struct backward *w, uint64_t k0, int of)
{
    uint64_t group = a->nr_heads / a->nr_kv_heads;
    struct block *x = &w->x;
    bool first = true;

    take_keys(a, w, k0);
    for (uint64_t head = w->kv_head * group; head < (w->kv_head + 1) * group; head++) {
        for (x->q0 = k0; x->q0 < a->seq && first_key(a, x->q0) < k0 + x->nr_k; x->q0 += BLOCK) {
            x->nr_q = zinf_min_u64(BLOCK, a->seq - x->q0);
            backward_step(a, w, head, of, first);
            first = false;
        }
    }
}

static void backward(const struct zinf_attention *a, uint64_t b, uint64_t kv_head, float *scratch)
{
    struct backward w = backward_begin(a, b, kv_head, scratch);

    for (uint64_t k0 = 0; k0 < a->seq; k0 += BLOCK)
        backward_of_block(a, &w, k0, OF_KEYS | OF_QUERIES);
}

static void backward_keys(const struct zinf_attention *a, uint64_t b, uint64_t kv_head, uint64_t k0, float *scratch)
{
    struct backward w = backward_begin(a, b, kv_head, scratch);

    backward_of_block(a, &w, k0, OF_KEYS);
}

static void backward_queries(const struct zinf_attention *a, uint64_t b, uint64_t head, uint64_t q0, float *scratch)
{
    struct backward w = backward_begin(a, b, head / (a->nr_heads / a->nr_kv_heads), scratch);

    w.x.q0 = q0;
    w.x.nr_q = zinf_min_u64(BLOCK, a->seq - q0);
    for (uint64_t k0 = zinf_align_down(first_key(a, q0), BLOCK); k0 <= q0; k0 += BLOCK) {
        take_keys(a, &w, k0);
        backward_step(a, &w, head, OF_QUERIES, false);
    }
}

const struct zinf_cpu_attention ZINF_VARIANT(zinf_cpu_attention) = {
    .forward = forward,
    .backward = backward,
    .backward_keys = backward_keys,
    .backward_queries = backward_queries,
};
