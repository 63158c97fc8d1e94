/* kernels/cpu/cpu_device.c - the CPU device: every operation of the table, cut in tiles that depend on its shape
 * only. */
#define _GNU_SOURCE
#include "kernels/cpu/cpu_device.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/convert.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/openblas.h"
#include "kernels/cpu/stream.h"
#include "kernels/norm.h"
#include "kernels/update.h"
#include "zinf/base/align.h"
#include "zinf/base/memory.h"

enum {
    TILE_ELEMS = 16384,              /* of operations that only read and write: a few microseconds */
    NORM_ROWS = 64,                  /* rows of one partial sum of RMSNorm's weight gradient: zinf_device_ops says so */
    SUM_COLS = 1024,
};

struct zinf_device {
    struct zinf_cpu_gemm_env env;    /* kernels, pool and scratch serve the other operations too */
    struct zinf_cpu_streams streams;
    struct zinf_stream *now;
    struct zinf_mapping own_scratch;
    const struct zinf_log *log;
};

size_t zinf_cpu_scratch_nbytes(void)
{
    return sizeof(float) * zinf_align_up(zinf_max_u64(ZINF_CPU_GEMM_FLOATS, ZINF_CPU_ATTENTION_FLOATS), 16);
}

enum zinf_isa zinf_cpu_device_isa(const struct zinf_device *dev) { return dev->env.kernels.isa; }

static const char *describe(enum zinf_isa isa, enum zinf_cpu_gemm_kind kind, char *buf, size_t buf_nbytes)
{
    if (kind == ZINF_CPU_GEMM_OPENBLAS)
        snprintf(buf, buf_nbytes, "cpu %s gemm=openblas(%s)", zinf_isa_name(isa), zinf_openblas_corename());
    else
        snprintf(buf, buf_nbytes, "cpu %s gemm=own", zinf_isa_name(isa));
    return buf;
}

const char *zinf_cpu_device_describe(const struct zinf_device *dev, char *buf, size_t buf_nbytes)
{
    return describe(dev->env.kernels.isa, dev->env.kind, buf, buf_nbytes);
}

int zinf_cpu_describe(char *buf, size_t buf_nbytes, struct zinf_status *st)
{
    enum zinf_cpu_gemm_kind kind;
    enum zinf_isa isa;
    int rc = zinf_isa_choose(&isa, st);

    if (!rc)
        rc = zinf_cpu_gemm_choose(&kind, st);
    if (!rc)
        describe(zinf_cpu_kernels_for(isa).isa, kind, buf, buf_nbytes);
    return rc;
}

static int take_scratch(struct zinf_device *dev, const struct zinf_device_opts *opts, struct zinf_status *st)
{
    uint64_t nr_workers = zinf_pool_nr_threads(opts->pool) + 1ull;
    size_t least = zinf_cpu_scratch_nbytes();
    int rc;

    if (opts->scratch_base) {
        if (opts->scratch_nbytes < least || opts->scratch_nbytes % 64 || (uintptr_t)opts->scratch_base % 64)
            return zinf_fail(st, -EINVAL,
                             "the CPU device needs %zu bytes of scratch per worker, in whole lines of 64 bytes; it was "
                             "given %zu",
                             least, opts->scratch_nbytes);
        dev->env.scratch = opts->scratch_base;
        dev->env.scratch_floats = opts->scratch_nbytes / sizeof(float);
        return 0;
    }
    rc = zinf_map(nr_workers * least, NULL, &dev->own_scratch, st);
    if (rc)
        return rc;
    dev->env.scratch = dev->own_scratch.base;
    dev->env.scratch_floats = least / sizeof(float);
    return 0;
}

static int device_open(const struct zinf_device_opts *opts, struct zinf_device **out, struct zinf_status *st)
{
    struct zinf_device *dev;
    enum zinf_isa isa;
    char line[128];
    int rc;

    *out = NULL;
    if (!opts->pool)
        return zinf_fail(st, -EINVAL, "the CPU device needs a worker pool");
    dev = calloc(1, sizeof(*dev));
    if (!dev)
        return zinf_fail(st, -ENOMEM, "no memory for the CPU device");
    rc = zinf_isa_choose(&isa, st);
    if (!rc)
        rc = zinf_cpu_gemm_choose(&dev->env.kind, st);
    if (!rc)
        rc = take_scratch(dev, opts, st);
    if (rc)
        goto out_free;
    dev->env.kernels = zinf_cpu_kernels_for(isa);
    dev->env.pool = opts->pool;
    dev->log = opts->log;
    if (dev->env.kind == ZINF_CPU_GEMM_OPENBLAS)
        rc = zinf_openblas_start(zinf_pool_nr_threads(opts->pool), st);
    if (rc)
        goto out_scratch;
    rc = zinf_cpu_streams_init(&dev->streams, opts->pool);
    if (rc) {
        zinf_fail(st, rc, "the CPU device has no lock: %s", strerror(-rc));
        goto out_scratch;
    }
    rc = zinf_cpu_stream_open(&dev->streams, dev, true, &dev->now);
    if (rc) {
        zinf_fail(st, rc, "the CPU device has no stream: %s", strerror(-rc));
        goto out_streams;
    }
    zinf_log(dev->log, ZINF_LOG_DEBUG, "device: %s, %zu bytes of scratch per worker",
             zinf_cpu_device_describe(dev, line, sizeof(line)), (size_t)(dev->env.scratch_floats * sizeof(float)));
    *out = dev;
    return 0;
out_streams:
    zinf_cpu_streams_destroy(&dev->streams);
out_scratch:
    zinf_unmap(&dev->own_scratch);
out_free:
    free(dev);
    return rc;
}

static void device_close(struct zinf_device *dev)
{
    if (!dev)
        return;
    zinf_cpu_stream_close(dev->now);
    zinf_cpu_streams_destroy(&dev->streams);
    zinf_unmap(&dev->own_scratch);
    free(dev);
}

struct zinf_stream *zinf_cpu_stream_now(struct zinf_device *dev) { return dev->now; }

static int stream_open(struct zinf_device *dev, const char *name, struct zinf_stream **out)
{
    int rc = zinf_cpu_stream_open(&dev->streams, dev, false, out);

    if (!rc)
        zinf_log(dev->log, ZINF_LOG_DEBUG, "device: stream %s", name);
    return rc;
}

static int event_open(struct zinf_device *dev, struct zinf_event **out)
{
    (void)dev;
    return zinf_cpu_event_open(out);
}

static const struct zinf_cpu_gemm_env *env_of(const struct zinf_stream *s)
{
    return &zinf_cpu_stream_device(s)->env;
}

/* What a tile function sees: the call's arguments and how it was cut. */
struct call {
    const struct zinf_cpu_gemm_env *env;
    const void *args;
    uint64_t n, tile;                /* items in all, and per tile */
};

static void for_tiles(const struct zinf_cpu_gemm_env *env, uint64_t n, uint64_t tile,
                      void (*fn)(void *ctx, uint64_t tile, uint32_t worker), const void *args)
{
    struct call c = { .env = env, .args = args, .n = n, .tile = tile };

    zinf_pool_for(env->pool, zinf_div_up(n, tile), fn, &c);
}

/* The first item of a tile and how many it has. */
static uint64_t tile_span(const struct call *c, uint64_t tile, uint64_t *count)
{
    uint64_t first = tile * c->tile;

    *count = zinf_min_u64(c->tile, c->n - first);
    return first;
}

static uint64_t rows_per_tile(uint64_t width)
{
    return zinf_max_u64(1, TILE_ELEMS / zinf_max_u64(1, width));
}

struct bytes_args {
    char *dst;
    const char *src;                 /* NULL: zeros */
};

static void bytes_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct bytes_args *a = c->args;
    uint64_t count, at = tile_span(c, tile, &count);

    (void)worker;
    if (a->src)
        memcpy(a->dst + at, a->src + at, count);
    else
        memset(a->dst + at, 0, count);
}

/* Host and device are one memory here, but an upload is a copy all the same: nothing is aliased. */
static int op_copy(struct zinf_stream *s, void *dst, const void *src, size_t nbytes, enum zinf_copy_dir dir)
{
    struct bytes_args a = { .dst = dst, .src = src };

    (void)dir;
    if (nbytes)
        for_tiles(env_of(s), nbytes, 256 * 1024, bytes_tile, &a);
    return 0;
}

static int op_fill_zero(struct zinf_stream *s, void *dst, size_t nbytes)
{
    struct bytes_args a = { .dst = dst };

    for_tiles(env_of(s), nbytes, 256 * 1024, bytes_tile, &a);
    return 0;
}

struct cast_args {
    char *dst;
    const char *src;
    enum zinf_dtype dst_dtype, src_dtype;
};

static void cast_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct cast_args *a = c->args;
    uint64_t count, at = tile_span(c, tile, &count);

    (void)worker;
    zinf_convert_range(c->env->kernels.isa, a->dst + at * zinf_dtype_nbytes(a->dst_dtype), a->dst_dtype,
                       a->src + at * zinf_dtype_nbytes(a->src_dtype), a->src_dtype, count);
}

static int op_cast(struct zinf_stream *s, void *dst, enum zinf_dtype dst_dtype, const void *src,
                   enum zinf_dtype src_dtype, uint64_t n)
{
    struct cast_args a = { .dst = dst, .src = src, .dst_dtype = dst_dtype, .src_dtype = src_dtype };

    for_tiles(env_of(s), n, TILE_ELEMS, cast_tile, &a);
    return 0;
}

static int op_gemm(struct zinf_stream *s, const struct zinf_gemm *g) { return zinf_cpu_gemm(env_of(s), g); }

struct gather_args {
    char *out;
    const char *table;
    const int32_t *ids;
    size_t row_nbytes;
};

static void gather_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct gather_args *a = c->args;
    uint64_t count, first = tile_span(c, tile, &count);

    (void)worker;
    for (uint64_t i = first; i < first + count; i++)
        memcpy(a->out + i * a->row_nbytes, a->table + (uint64_t)a->ids[i] * a->row_nbytes, a->row_nbytes);
}

static int op_gather_rows(struct zinf_stream *s, void *out, const void *table, enum zinf_dtype dtype,
                          const int32_t *ids, uint64_t n, uint64_t width)
{
    struct gather_args a = { .out = out, .table = table, .ids = ids, .row_nbytes = width * zinf_dtype_nbytes(dtype) };

    for (uint64_t i = 0; i < n; i++)
        if (ids[i] < 0)
            return -EINVAL;
    for_tiles(env_of(s), n, rows_per_tile(width), gather_tile, &a);
    return 0;
}

struct norm_args {
    float *y, *rstd_out;
    const float *dy, *x, *rstd;
    const void *w;
    enum zinf_dtype w_dtype;
    uint64_t width;
    float eps;
    float *dx, *dw, *partial;
    float beta;
    uint64_t nr_parts;
};

static void norm_forward_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct norm_args *a = c->args;
    uint64_t count, row = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->rmsnorm_forward(a->y + row * a->width, a->rstd_out + row, a->x + row * a->width, a->w,
                                       a->w_dtype, count, a->width, a->eps);
}

static int op_rmsnorm_forward(struct zinf_stream *s, float *y, float *rstd, const float *x, const void *w,
                              enum zinf_dtype w_dtype, uint64_t rows, uint64_t width, float eps)
{
    struct norm_args a = { .y = y, .rstd_out = rstd, .x = x, .w = w, .w_dtype = w_dtype, .width = width, .eps = eps };

    for_tiles(env_of(s), rows, rows_per_tile(width), norm_forward_tile, &a);
    return 0;
}

static void norm_backward_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct norm_args *a = c->args;
    uint64_t count, row = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->rmsnorm_backward(a->dx + row * a->width, a->partial + tile * a->width, a->dy + row * a->width,
                                        a->x + row * a->width, a->rstd + row, a->w, a->w_dtype, count, a->width);
}

static void norm_weight_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct norm_args *a = c->args;
    uint64_t count, col = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->sum_parts(a->dw + col, a->beta, a->partial + col, a->nr_parts, a->width, count);
}

static int op_rmsnorm_backward(struct zinf_stream *s, float *dx, float *dw, float beta, const float *dy, const float *x,
                               const float *rstd, const void *w, enum zinf_dtype w_dtype, uint64_t rows, uint64_t width,
                               float *partial)
{
    struct norm_args a = {
        .dy = dy, .x = x, .rstd = rstd, .w = w, .w_dtype = w_dtype, .width = width, .dx = dx, .dw = dw,
        .partial = partial, .beta = beta, .nr_parts = zinf_div_up(rows, NORM_ROWS),
    };

    for_tiles(env_of(s), rows, NORM_ROWS, norm_backward_tile, &a);
    for_tiles(env_of(s), width, SUM_COLS, norm_weight_tile, &a);
    return 0;
}

struct rope_args {
    float *x;
    uint64_t seq, nr_heads, head_dim, stride;
    const float *cos_sin;
    float sin_sign;
};

static void rope_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct rope_args *a = c->args;
    uint64_t count, row = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->rope(a->x, row, count, a->seq, a->nr_heads, a->head_dim, a->stride, a->cos_sin, a->sin_sign);
}

static int op_rope(struct zinf_stream *s, float *x, uint64_t rows, uint64_t seq, uint64_t nr_heads, uint64_t head_dim,
                   uint64_t stride, const float *cos_sin, float sin_sign)
{
    struct rope_args a = {
        .x = x, .seq = seq, .nr_heads = nr_heads, .head_dim = head_dim, .stride = stride, .cos_sin = cos_sin,
        .sin_sign = sin_sign,
    };

    if (head_dim % 2 || seq == 0 || stride < nr_heads * head_dim)
        return -EINVAL;
    for_tiles(env_of(s), rows, rows_per_tile(nr_heads * head_dim), rope_tile, &a);
    return 0;
}

static int op_attention_forward(struct zinf_stream *s, const struct zinf_attention *a)
{
    return zinf_cpu_attention_forward(env_of(s), a);
}

static int op_attention_backward(struct zinf_stream *s, const struct zinf_attention *a)
{
    return zinf_cpu_attention_backward(env_of(s), a);
}

struct pointwise_args {
    float *out, *out2;
    const float *in, *g, *u;
};

static void swiglu_forward_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct pointwise_args *a = c->args;
    uint64_t count, at = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->swiglu_forward(a->out + at, a->g + at, a->u + at, count);
}

static int op_swiglu_forward(struct zinf_stream *s, float *h, const float *g, const float *u, uint64_t n)
{
    struct pointwise_args a = { .out = h, .g = g, .u = u };

    for_tiles(env_of(s), n, TILE_ELEMS, swiglu_forward_tile, &a);
    return 0;
}

static void swiglu_backward_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct pointwise_args *a = c->args;
    uint64_t count, at = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->swiglu_backward(a->out + at, a->out2 + at, a->in + at, a->g + at, a->u + at, count);
}

static int op_swiglu_backward(struct zinf_stream *s, float *dg, float *du, const float *dh, const float *g,
                              const float *u, uint64_t n)
{
    struct pointwise_args a = { .out = dg, .out2 = du, .in = dh, .g = g, .u = u };

    for_tiles(env_of(s), n, TILE_ELEMS, swiglu_backward_tile, &a);
    return 0;
}

static void add_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct pointwise_args *a = c->args;
    uint64_t count, at = tile_span(c, tile, &count);

    (void)worker;
    c->env->kernels.e->add(a->out + at, a->in + at, count);
}

static int op_add(struct zinf_stream *s, float *y, const float *x, uint64_t n)
{
    struct pointwise_args a = { .out = y, .in = x };

    for_tiles(env_of(s), n, TILE_ELEMS, add_tile, &a);
    return 0;
}

static void cross_entropy_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct call *c = ctx;
    const struct zinf_cross_entropy *a = c->args;
    uint64_t count, first = tile_span(c, tile, &count);

    (void)worker;
    for (uint64_t r = first; r < first + count; r++) {
        float *logits = a->logits + r * a->stride;

        if (a->targets[r] >= 0) {
            a->row_loss[r] =
                c->env->kernels.e->cross_entropy(logits, a->vocab, a->targets[r], a->grad_scale, a->want_grad);
            continue;
        }
        a->row_loss[r] = 0.0f;
        if (a->want_grad)
            memset(logits, 0, a->vocab * sizeof(float));
    }
}

static int op_cross_entropy(struct zinf_stream *s, const struct zinf_cross_entropy *c)
{
    for (uint64_t r = 0; r < c->rows; r++)
        if (c->targets[r] >= 0 && (uint64_t)c->targets[r] >= c->vocab)
            return -EINVAL;
    for_tiles(env_of(s), c->rows, rows_per_tile(c->vocab), cross_entropy_tile, c);
    return 0;
}

static int op_round_norm(struct zinf_stream *s, void *dst, enum zinf_dtype dtype, const float *src, uint64_t n,
                         struct zinf_norm_out *out)
{
    zinf_round_norm_pool(env_of(s)->kernels.isa, env_of(s)->pool, dst, dtype, NULL, src, n, out);
    return 0;
}

static int op_update(struct zinf_stream *s, const struct zinf_update *u, uint32_t *bad)
{
    zinf_update_pool(env_of(s)->kernels.isa, env_of(s)->pool, u, bad);
    return 0;
}

const struct zinf_device_ops zinf_cpu_device_ops = {
    .name = "cpu",
    .open = device_open,
    .close = device_close,
    .stream_open = stream_open,
    .stream_close = zinf_cpu_stream_close,
    .enqueue = zinf_cpu_stream_enqueue,
    .stream_sync = zinf_cpu_stream_sync,
    .event_open = event_open,
    .event_close = zinf_cpu_event_close,
    .copy = op_copy,
    .fill_zero = op_fill_zero,
    .cast = op_cast,
    .gemm = op_gemm,
    .gather_rows = op_gather_rows,
    .rmsnorm_forward = op_rmsnorm_forward,
    .rmsnorm_backward = op_rmsnorm_backward,
    .rope = op_rope,
    .attention_forward = op_attention_forward,
    .attention_backward = op_attention_backward,
    .swiglu_forward = op_swiglu_forward,
    .swiglu_backward = op_swiglu_backward,
    .add = op_add,
    .cross_entropy = op_cross_entropy,
    .round_norm = op_round_norm,
    .update = op_update,
};
