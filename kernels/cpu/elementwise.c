/* kernels/cpu/elementwise.c - operations whose cost is reading and writing: SwiGLU, RoPE, RMSNorm, the loss.
 * Built once per instruction set (lanes.h); both builds give the same bits. */
#define _GNU_SOURCE
#include <math.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lanes.h"
#include "zinf/base/align.h"

ZINF_INLINE void store_upto(float *p, zinf_v8 v, uint64_t n)
{
    if (n == 8)
        zinf_v_store(p, v);
    else
        zinf_v_store_n(p, v, n);
}

ZINF_INLINE zinf_v8 load_upto(const float *p, uint64_t n)
{
    return n == 8 ? zinf_v_load(p) : zinf_v_load_n(p, n);
}

ZINF_INLINE uint64_t lanes_left(uint64_t i, uint64_t n)
{
    return n - i < 8 ? n - i : 8;
}

static void add(float *y, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t left = lanes_left(i, n);

        store_upto(y + i, load_upto(y + i, left) + load_upto(x + i, left), left);
    }
}

ZINF_INLINE zinf_v8 sigmoid(zinf_v8 x)
{
    return 1.0f / (1.0f + zinf_v_exp(-x));
}

static void swiglu_forward(float *h, const float *g, const float *u, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t left = lanes_left(i, n);
        zinf_v8 x = load_upto(g + i, left);

        store_upto(h + i, (x * sigmoid(x)) * load_upto(u + i, left), left);
    }
}

/* d silu(g) / dg = s (1 + g (1 - s)), s = sigmoid(g). All of a lane is read before it is written: dg may be g, du
 * may be u. */
static void swiglu_backward(float *dg, float *du, const float *dh, const float *g, const float *u, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t left = lanes_left(i, n);
        zinf_v8 x = load_upto(g + i, left), y = load_upto(u + i, left), d = load_upto(dh + i, left);
        zinf_v8 s = sigmoid(x);

        store_upto(dg + i, (d * y) * (s * (1.0f + x * (1.0f - s))), left);
        store_upto(du + i, d * (x * s), left);
    }
}

ZINF_INLINE void rope_head(float *x, uint64_t half, const float *cs, float sin_sign)
{
    uint64_t i = 0;

    for (; i + 8 <= half; i += 8) {
        zinf_v8 p = zinf_v_load(cs + 2 * i), q = zinf_v_load(cs + 2 * i + 8);
        zinf_v8 c = __builtin_shufflevector(p, q, 0, 2, 4, 6, 8, 10, 12, 14);
        zinf_v8 s = __builtin_shufflevector(p, q, 1, 3, 5, 7, 9, 11, 13, 15) * sin_sign;
        zinf_v8 lo = zinf_v_load(x + i), hi = zinf_v_load(x + i + half);

        zinf_v_store(x + i, lo * c - hi * s);
        zinf_v_store(x + i + half, hi * c + lo * s);
    }
    for (; i < half; i++) {
        float c = cs[2 * i], s = cs[2 * i + 1] * sin_sign, lo = x[i], hi = x[i + half];

        x[i] = lo * c - hi * s;
        x[i + half] = hi * c + lo * s;
    }
}

static void rope(float *x, uint64_t row, uint64_t nr_rows, uint64_t seq, uint64_t nr_heads, uint64_t head_dim,
                 uint64_t stride, const float *cos_sin, float sin_sign)
{
    for (uint64_t r = row; r < row + nr_rows; r++)
        for (uint64_t h = 0; h < nr_heads; h++)
            rope_head(x + r * stride + h * head_dim, head_dim / 2, cos_sin + r % seq * head_dim, sin_sign);
}

/* Sums in 32 lanes: element i goes to lane i mod 32, then a fixed tree. */
struct lanes {
    zinf_v8 acc[4];
};

ZINF_INLINE float lanes_sum(const struct lanes *l)
{
    return zinf_v_sum((l->acc[0] + l->acc[2]) + (l->acc[1] + l->acc[3]));
}

ZINF_INLINE float sum_squares(const float *x, uint64_t n)
{
    struct lanes l = { 0 };
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32) {
        for (int q = 0; q < 4; q++) {
            zinf_v8 v = zinf_v_load(x + i + 8 * q);

            l.acc[q] += v * v;
        }
    }
    for (int q = 0; i < n; i += 8, q++) {
        zinf_v8 v = load_upto(x + i, lanes_left(i, n));

        l.acc[q] += v * v;
    }
    return lanes_sum(&l);
}

ZINF_INLINE void rmsnorm_forward_as(float *y, float *rstd, const float *x, const void *w, enum zinf_dtype w_dtype,
                                    uint64_t nr_rows, uint64_t width, float eps)
{
    for (uint64_t r = 0; r < nr_rows; r++, x += width, y += width) {
        float mean = sum_squares(x, width) / (float)width;
        float s = 1.0f / sqrtf(mean + eps);
        uint64_t i = 0;

        rstd[r] = s;
        for (; i + 8 <= width; i += 8)
            zinf_v_store(y + i, (zinf_v_load(x + i) * s) * zinf_v_load_as(w, w_dtype, i, 8));
        if (i < width)
            zinf_v_store_n(y + i, (zinf_v_load_n(x + i, width - i) * s) * zinf_v_load_as(w, w_dtype, i, width - i),
                           width - i);
    }
}

static void rmsnorm_forward(float *y, float *rstd, const float *x, const void *w, enum zinf_dtype w_dtype,
                            uint64_t nr_rows, uint64_t width, float eps)
{
    if (w_dtype == ZINF_F32)
        rmsnorm_forward_as(y, rstd, x, w, ZINF_F32, nr_rows, width, eps);
    else if (w_dtype == ZINF_BF16)
        rmsnorm_forward_as(y, rstd, x, w, ZINF_BF16, nr_rows, width, eps);
    else
        rmsnorm_forward_as(y, rstd, x, w, ZINF_F16, nr_rows, width, eps);
}

/* sum of dy w x over a row */
ZINF_INLINE float sum_dy_w_x(const float *dy, const float *x, const void *w, enum zinf_dtype w_dtype, uint64_t n)
{
    struct lanes l = { 0 };
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32)
        for (int q = 0; q < 4; q++)
            l.acc[q] +=
                (zinf_v_load(dy + i + 8 * q) * zinf_v_load_as(w, w_dtype, i + 8 * q, 8)) * zinf_v_load(x + i + 8 * q);
    for (int q = 0; i < n; i += 8, q++) {
        uint64_t left = lanes_left(i, n);

        l.acc[q] += (load_upto(dy + i, left) * zinf_v_load_as(w, w_dtype, i, left)) * load_upto(x + i, left);
    }
    return lanes_sum(&l);
}

ZINF_INLINE void rmsnorm_backward_as(float *dx, float *dw, const float *dy, const float *x, const float *rstd,
                                     const void *w, enum zinf_dtype w_dtype, uint64_t nr_rows, uint64_t width)
{
    memset(dw, 0, width * sizeof(float));
    for (uint64_t r = 0; r < nr_rows; r++, x += width, dy += width, dx += width) {
        float s = rstd[r];
        float c = (sum_dy_w_x(dy, x, w, w_dtype, width) * s) * (s * s) / (float)width;

        for (uint64_t i = 0; i < width; i += 8) {
            uint64_t left = lanes_left(i, width);
            zinf_v8 d = load_upto(dy + i, left), v = load_upto(x + i, left);
            zinf_v8 grad = (d * zinf_v_load_as(w, w_dtype, i, left)) * s - v * c;

            store_upto(dw + i, load_upto(dw + i, left) + d * (v * s), left);
            store_upto(dx + i, load_upto(dx + i, left) + grad, left);
        }
    }
}

static void rmsnorm_backward(float *dx, float *dw, const float *dy, const float *x, const float *rstd, const void *w,
                             enum zinf_dtype w_dtype, uint64_t nr_rows, uint64_t width)
{
    if (w_dtype == ZINF_F32)
        rmsnorm_backward_as(dx, dw, dy, x, rstd, w, ZINF_F32, nr_rows, width);
    else if (w_dtype == ZINF_BF16)
        rmsnorm_backward_as(dx, dw, dy, x, rstd, w, ZINF_BF16, nr_rows, width);
    else
        rmsnorm_backward_as(dx, dw, dy, x, rstd, w, ZINF_F16, nr_rows, width);
}

static void sum_parts(float *y, float beta, const float *parts, uint64_t nr_parts, uint64_t stride, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t left = lanes_left(i, n);
        zinf_v8 sum = zinf_v_set(0.0f);

        for (uint64_t part = 0; part < nr_parts; part++)
            sum += load_upto(parts + part * stride + i, left);
        if (beta != 0.0f)
            sum = load_upto(y + i, left) * beta + sum;
        store_upto(y + i, sum, left);
    }
}

static float row_max(const float *x, uint64_t n)
{
    zinf_v8 m = zinf_v_set(-INFINITY);
    uint64_t i = 0;
    float best;

    for (; i + 8 <= n; i += 8)
        m = zinf_v_max(zinf_v_load(x + i), m);
    best = zinf_v_max_lane(m);
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* A NaN or an Inf among the logits makes the loss NaN, never a number. */
static float cross_entropy(float *logits, uint64_t vocab, int32_t target, float grad_scale, bool want_grad)
{
    float max = row_max(logits, vocab), at_target = logits[target] - max, sum, factor;
    struct lanes l = { 0 };

    for (uint64_t i = 0; i < vocab; i += 8) {
        uint64_t left = lanes_left(i, vocab);
        zinf_v8 e = zinf_v_exp(load_upto(logits + i, left) - max);

        if (left < 8) {
            zinf_v8 kept = { 0 };

            for (uint64_t j = 0; j < left; j++)
                kept[j] = e[j];
            e = kept;
        }
        l.acc[i / 8 % 4] += e;
        if (want_grad)
            store_upto(logits + i, e, left);
    }
    sum = lanes_sum(&l);
    if (want_grad) {
        factor = grad_scale / sum;
        for (uint64_t i = 0; i < vocab; i += 8) {
            uint64_t left = lanes_left(i, vocab);

            store_upto(logits + i, load_upto(logits + i, left) * factor, left);
        }
        logits[target] -= grad_scale;
    }
    return (float)log((double)sum) - at_target;
}

const struct zinf_cpu_elementwise ZINF_VARIANT(zinf_cpu_elementwise) = {
    .add = add,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .rope = rope,
    .rmsnorm_forward = rmsnorm_forward,
    .rmsnorm_backward = rmsnorm_backward,
    .sum_parts = sum_parts,
    .cross_entropy = cross_entropy,
};
