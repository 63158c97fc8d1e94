/* kernels/cpu/attention.c - causal attention with grouped heads in blocks of 64 queries by 64 keys; memory linear in seq.
 * Built once per instruction set (lanes.h).
 *
 * Forward keeps a running maximum and sum per query and rescales what it has (Dao et al., FlashAttention, 2022). Backward
 * recomputes p = exp(score - lse) block by block, keys outside and queries inside, so that dk and dv of a block are finished
 * by one thread; dq collects its blocks in key order. */
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
        .m = m, .n = n, .k = k, .a = a, .a_row = a_row, .a_col = a_col, .b = b, .ldb = ldb, .c = c, .ldc = ldc, .beta = beta,
    };

    products.block(&p);
}

/* s[i][j], query q0 + i against key k0 + j, nr_k keys: scaled, -Inf where the query does not see the key and beyond nr_k. */
static void scale_and_mask(const struct zinf_attention *a, float *s, uint64_t q0, uint64_t nr_q, uint64_t k0, uint64_t nr_k)
{
    for (uint64_t i = 0; i < nr_q; i++, s += BLOCK) {
        uint64_t q = q0 + i, lo = first_key(a, q), end = zinf_min_u64(q + 1, k0 + nr_k);
        uint64_t from = lo > k0 ? zinf_min_u64(lo - k0, BLOCK) : 0, to = end > k0 ? end - k0 : 0;

        for (uint64_t j = 0; j < BLOCK; j += 8)
            zinf_v_store(s + j, zinf_v_load(s + j) * a->scale);
        for (uint64_t j = 0; j < from; j++)
            s[j] = -INFINITY;
        for (uint64_t j = to; j < BLOCK; j++)
            s[j] = -INFINITY;
    }
}

/* One row's step of the running softmax: s becomes exp(s - max), *max and *sum move on; returns the factor for what was summed
 * before. A row that has seen no key yet keeps max = -Inf and sums zeros. */
static float softmax_step(float *s, float *max, float *sum)
{
    zinf_v8 m = zinf_v_set(*max), total = zinf_v_set(0.0f);
    float best, base, factor;

    for (uint64_t j = 0; j < BLOCK; j += 8)
        m = zinf_v_max(zinf_v_load(s + j), m);
    best = zinf_v_max_lane(m);
    base = best == -INFINITY ? 0.0f : best;
    for (uint64_t j = 0; j < BLOCK; j += 8) {
        zinf_v8 e = zinf_v_exp(zinf_v_load(s + j) - base);

        total += e;
        zinf_v_store(s + j, e);
    }
    factor = *max == -INFINITY ? 0.0f : zinf_v_exp(zinf_v_set(*max - base))[0];
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
    uint64_t d = a->head_dim, kv_head = head / (a->nr_heads / a->nr_kv_heads), nr_q = zinf_min_u64(BLOCK, a->seq - q0);
    float *s = scratch, *kt = s + BLOCK * BLOCK, *max = kt + BLOCK * d, *sum = max + BLOCK;
    const float *q = a->q + (b * a->seq + q0) * a->q_stride + head * d;
    float *o = a->o + (b * a->seq + q0) * a->o_stride + head * d;
    float *lse = a->lse + (b * a->nr_heads + head) * a->seq + q0;
    uint64_t from = zinf_align_down(first_key(a, q0), BLOCK);

    for (uint64_t i = 0; i < nr_q; i++) {
        max[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    for (uint64_t k0 = from; k0 < q0 + nr_q; k0 += BLOCK) {
        uint64_t nr_k = zinf_min_u64(BLOCK, a->seq - k0), at = (b * a->seq + k0) * a->kv_stride + kv_head * d;

        products.transpose(kt, BLOCK, a->k + at, a->kv_stride, nr_k, d);
        multiply(nr_q, nr_k, d, q, a->q_stride, 1, kt, BLOCK, s, BLOCK, 0.0f);
        scale_and_mask(a, s, q0, nr_q, k0, nr_k);
        for (uint64_t i = 0; i < nr_q; i++) {
            float factor = softmax_step(s + i * BLOCK, &max[i], &sum[i]);

            if (k0 > from)
                scale_row(o + i * a->o_stride, factor, d);
        }
        multiply(nr_q, d, nr_k, s, BLOCK, 1, a->v + at, a->kv_stride, o, a->o_stride, k0 > from ? 1.0f : 0.0f);
    }
    for (uint64_t i = 0; i < nr_q; i++) {
        scale_row(o + i * a->o_stride, 1.0f / sum[i], d);
        lse[i] = max[i] + (float)log((double)sum[i]);
    }
}

/* s: raw scores -> p = exp(scale * score - lse), 0 where masked.  dp: d loss / d p -> scale * p * (dp - delta). */
static void probabilities(const struct zinf_attention *a, float *s, float *dp, const float *lse, const float *delta,
                          uint64_t q0, uint64_t nr_q, uint64_t k0, uint64_t nr_k)
{
    scale_and_mask(a, s, q0, nr_q, k0, nr_k);
    for (uint64_t i = 0; i < nr_q; i++, s += BLOCK, dp += BLOCK) {
        for (uint64_t j = 0; j < nr_k; j += 8) {
            zinf_v8 p = zinf_v_exp(zinf_v_load(s + j) - lse[i]);

            zinf_v_store(s + j, p);
            zinf_v_store(dp + j, (p * (zinf_v_load(dp + j) - delta[i])) * a->scale);
        }
    }
}

struct backward_block {
    uint64_t b, kv_head, k0, nr_k;
    const float *kt, *vt;
    float *s, *dp, *delta;
};

/* One block of queries against one block of keys; first: dk and dv are overwritten. */
static void backward_step(const struct zinf_attention *a, const struct backward_block *x, uint64_t head, uint64_t q0, bool first)
{
    uint64_t d = a->head_dim, nr_q = zinf_min_u64(BLOCK, a->seq - q0), row = x->b * a->seq + q0;
    uint64_t kv_at = (x->b * a->seq + x->k0) * a->kv_stride + x->kv_head * d, q_at = row * a->q_stride + head * d;
    const float *d_o = a->d_o + row * a->o_stride + head * d, *o = a->o + row * a->o_stride + head * d;
    const float *lse = a->lse + (x->b * a->nr_heads + head) * a->seq + q0;
    bool first_keys = zinf_align_down(first_key(a, q0), BLOCK) == x->k0;

    for (uint64_t i = 0; i < nr_q; i++)
        x->delta[i] = products.dot(o + i * a->o_stride, d_o + i * a->o_stride, d);
    multiply(nr_q, x->nr_k, d, a->q + q_at, a->q_stride, 1, x->kt, BLOCK, x->s, BLOCK, 0.0f);
    multiply(nr_q, x->nr_k, d, d_o, a->o_stride, 1, x->vt, BLOCK, x->dp, BLOCK, 0.0f);
    probabilities(a, x->s, x->dp, lse, x->delta, q0, nr_q, x->k0, x->nr_k);
    multiply(x->nr_k, d, nr_q, x->s, 1, BLOCK, d_o, a->o_stride, a->dv + kv_at, a->kv_stride, first ? 0.0f : 1.0f);
    multiply(x->nr_k, d, nr_q, x->dp, 1, BLOCK, a->q + q_at, a->q_stride, a->dk + kv_at, a->kv_stride, first ? 0.0f : 1.0f);
    multiply(nr_q, d, x->nr_k, x->dp, BLOCK, 1, a->k + kv_at, a->kv_stride, a->dq + q_at, a->q_stride,
             first_keys ? 0.0f : 1.0f);
}

static void backward(const struct zinf_attention *a, uint64_t b, uint64_t kv_head, float *scratch)
{
    uint64_t d = a->head_dim, group = a->nr_heads / a->nr_kv_heads;
    float *kt = scratch + 2 * BLOCK * BLOCK, *vt = kt + BLOCK * d;
    struct backward_block x = {
        .b = b, .kv_head = kv_head, .kt = kt, .vt = vt, .s = scratch, .dp = scratch + BLOCK * BLOCK, .delta = vt + BLOCK * d,
    };

    for (x.k0 = 0; x.k0 < a->seq; x.k0 += BLOCK) {
        uint64_t at = (b * a->seq + x.k0) * a->kv_stride + kv_head * d;
        bool first = true;

        x.nr_k = zinf_min_u64(BLOCK, a->seq - x.k0);
        products.transpose(kt, BLOCK, a->k + at, a->kv_stride, x.nr_k, d);
        products.transpose(vt, BLOCK, a->v + at, a->kv_stride, x.nr_k, d);
        for (uint64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            for (uint64_t q0 = x.k0; q0 < a->seq && first_key(a, q0) < x.k0 + x.nr_k; q0 += BLOCK) {
                backward_step(a, &x, head, q0, first);
                first = false;
            }
        }
    }
}

const struct zinf_cpu_attention ZINF_VARIANT(zinf_cpu_attention) = {
    .forward = forward,
    .backward = backward,
};
