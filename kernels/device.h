/* kernels/device.h - a device as a table: memory, streams, events, copies, and the operations a transformer needs.
 *
 * One piece of layer code serves every device. It runs inside zinf_stream_fn, which the device calls when it accepts
 * work: a GPU calls it at once and the operations launch kernels; the CPU device calls it on a pool worker when the
 * stream's earlier work is done and the operations compute there and then, as fixed tiles on the pool.
 *
 * Arithmetic: storage may be fp32, bf16 or fp16; every operation computes in fp32 (or wider) and rounds once on the
 * way out, to nearest even. The order of every addition depends on shapes only, never on threads, addresses or time
 * (the numeric plan). Matrices are row-major. Pointers are device pointers, borrowed until the stream has passed the
 * call; alignment 64 bytes for whole buffers, element alignment otherwise. No operation allocates. Threads: calls on
 * one stream come from one thread at a time. */
#ifndef ZINF_KERNELS_DEVICE_H_
#define ZINF_KERNELS_DEVICE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/base/pool.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_device;
struct zinf_stream;
struct zinf_event;

typedef void (*zinf_stream_fn)(struct zinf_stream *s, void *arg);

enum zinf_copy_dir { ZINF_COPY_H2D, ZINF_COPY_D2H, ZINF_COPY_D2D };

struct zinf_device_opts {
    struct zinf_pool *pool;           /* borrowed until close; the CPU device computes on it */
    size_t scratch_nbytes;            /* per worker, for converted tiles and partial sums; at least what the device asks
                                         (zinf_cpu_scratch_nbytes); 0 with a NULL scratch_base */
    void  *scratch_base;              /* (nr_threads + 1) * scratch_nbytes bytes of the device arena, 64-byte aligned;
                                         NULL = the device allocates them itself (tests) */
    const struct zinf_log *log;
};

/* C = beta * C + op(A) op(B); op is transposition when trans_x. m, n, k are those of the product. beta is 0 (C is
 * overwritten, whatever it held) or 1. c_dtype F32 when beta is 1. Products are cut in output tiles that depend on
 * m, n, k only. Any of m, n, k may be 0 (k = 0 gives zeros for beta 0). */
struct zinf_gemm {
    bool trans_a, trans_b;
    uint64_t m, n, k;
    const void *a; enum zinf_dtype a_dtype; uint64_t lda;   /* leading dimensions in elements */
    const void *b; enum zinf_dtype b_dtype; uint64_t ldb;
    void *c;       enum zinf_dtype c_dtype; uint64_t ldc;
    float beta;
};

/* Causal attention with grouped heads: q [batch*seq, nr_heads*head_dim], k, v [batch*seq, nr_kv_heads*head_dim], all
 * fp32 with the given row strides (elements); o likewise; lse [batch, nr_heads, seq] fp32 (log-sum-exp of scaled
 * scores). nr_heads is a multiple of nr_kv_heads, head_dim is even and at most 1024. scale multiplies scores. window
 * 0 = none, else a token sees itself and the window - 1 tokens before it. Memory is linear in seq. Source: Dao et
 * al., FlashAttention, 2022 (online softmax). */
struct zinf_attention {
    uint64_t batch, seq, nr_heads, nr_kv_heads, head_dim, window;
    float scale;
    const float *q, *k, *v;  uint64_t q_stride, kv_stride;
    float *o;                uint64_t o_stride;
    float *lse;
    /* backward only: reads o, lse and d_o; overwrites dq, dk, dv (strides as q and k) */
    const float *d_o;
    float *dq, *dk, *dv;
};

/* What one pass over a rounded gradient finds. chunk_sums[i] is the sum of squares of elements [4096 i, 4096 (i+1))
 * in fp32: 64 lanes (element j to lane j mod 64, fma), then a fixed tree (lane l += lane l + 32, 16, 8, 4, 2, 1).
 * nr_nonfinite counts Inf and NaN; first_nonfinite is the lowest index (UINT64_MAX = none). Host-visible memory. */
#define ZINF_NORM_CHUNK 4096u
struct zinf_norm_out {
    float   *chunk_sums;              /* ceil(n / 4096) */
    uint64_t nr_nonfinite, first_nonfinite;
};

/* One row's loss is logsumexp(logits) - logits[target]; target < 0 = not trained: loss 0, gradient 0. */
struct zinf_cross_entropy {
    float *logits;                    /* [rows, vocab]; if want_grad overwritten by (softmax - onehot) * grad_scale */
    uint64_t rows, vocab, stride;
    const int32_t *targets;           /* host-visible [rows]; each < vocab */
    float grad_scale;
    bool want_grad;
    float *row_loss;                  /* host-visible [rows] */
};

struct zinf_update;      /* kernels/update.h */
struct zinf_stream_item;

struct zinf_device_ops {
    const char *name;

    int  (*open)(const struct zinf_device_opts *opts, struct zinf_device **out, struct zinf_status *st);
    void (*close)(struct zinf_device *dev);                               /* NULL is fine; streams closed before */

    /* Streams: in-order queues. enqueue never blocks and never fails for lack of room (items are owned by the caller:
     * see zinf_stream_item). */
    int  (*stream_open)(struct zinf_device *dev, const char *name, struct zinf_stream **out);
    void (*stream_close)(struct zinf_stream *s);                          /* waits for what is queued; NULL is fine */
    /* Runs fn(s, arg) after everything enqueued on s before and after every event in waits[] has been recorded; then
     * records `done` (may be NULL) and calls notify(notify_arg) (may be NULL) from some thread. item is borrowed
     * until then. */
    int  (*enqueue)(struct zinf_stream *s, struct zinf_stream_item *item);
    /* Waits on the calling thread (not a worker) until everything enqueued so far has run. */
    int  (*stream_sync)(struct zinf_stream *s);
    int  (*event_open)(struct zinf_device *dev, struct zinf_event **out);
    void (*event_close)(struct zinf_event *e);            /* NULL is fine; not while an item that names it is queued */

    /* Everything below is called inside a zinf_stream_fn, with its stream. Returns 0 or -errno. */
    int (*copy)(struct zinf_stream *s, void *dst, const void *src, size_t nbytes, enum zinf_copy_dir dir);
    int (*fill_zero)(struct zinf_stream *s, void *dst, size_t nbytes);
    int (*cast)(struct zinf_stream *s, void *dst, enum zinf_dtype dst_dtype, const void *src, enum zinf_dtype src_dtype,
                uint64_t n);
    int (*gemm)(struct zinf_stream *s, const struct zinf_gemm *g);
    /* out[i, :] = table[ids[i], :]; table may be host memory the device can read. ids host-visible, each < nr_rows. */
    int (*gather_rows)(struct zinf_stream *s, void *out, const void *table, enum zinf_dtype dtype, const int32_t *ids,
                       uint64_t n, uint64_t width);
    /* y = x * rstd * w, rstd[row] = 1/sqrt(mean(x^2) + eps). Source: Zhang & Sennrich, 2019. */
    int (*rmsnorm_forward)(struct zinf_stream *s, float *y, float *rstd, const float *x, const void *w,
                           enum zinf_dtype w_dtype, uint64_t rows, uint64_t width, float eps);
    /* dx += d/dx; dw (fp32) = beta * dw + d/dw, rows summed in fixed chunks. partial: scratch, (rows/64 + 1) * width
     * floats. */
    int (*rmsnorm_backward)(struct zinf_stream *s, float *dx, float *dw, float beta, const float *dy, const float *x,
                            const float *rstd, const void *w, enum zinf_dtype w_dtype, uint64_t rows, uint64_t width,
                            float *partial);
    /* Rotates pairs (i, i + head_dim/2) of every head in place, position = row mod seq; sin_sign -1 = backward.
     * cos_sin: [seq, head_dim/2, 2] fp32. Source: Su et al., RoFormer, 2021 (half-split layout, as Llama's
     * checkpoints). */
    int (*rope)(struct zinf_stream *s, float *x, uint64_t rows, uint64_t seq, uint64_t nr_heads, uint64_t head_dim,
                uint64_t stride, const float *cos_sin, float sin_sign);
    int (*attention_forward)(struct zinf_stream *s, const struct zinf_attention *a);
    int (*attention_backward)(struct zinf_stream *s, const struct zinf_attention *a);
    /* h = silu(g) * u. backward: dg, du from dh (dg may be g's buffer, du may be u's). Source: Shazeer, GLU
     * variants, 2020. */
    int (*swiglu_forward)(struct zinf_stream *s, float *h, const float *g, const float *u, uint64_t n);
    int (*swiglu_backward)(struct zinf_stream *s, float *dg, float *du, const float *dh, const float *g, const float *u,
                           uint64_t n);
    int (*add)(struct zinf_stream *s, float *y, const float *x, uint64_t n);           /* y += x */
    int (*cross_entropy)(struct zinf_stream *s, const struct zinf_cross_entropy *c);
    /* dst (dtype) = src (fp32) rounded, and what norm.h says of dst. dst may be src when dtype is F32. */
    int (*round_norm)(struct zinf_stream *s, void *dst, enum zinf_dtype dtype, const float *src, uint64_t n,
                      struct zinf_norm_out *out);
    int (*update)(struct zinf_stream *s, const struct zinf_update *u, uint32_t *bad);
};

/* One piece of work on a stream. The caller gives up the item and everything it points to from enqueue until notify
 * is called (without a notify: until stream_sync of a later moment returns); inside notify all of it may be reused,
 * enqueued again included. notify calls of one stream come one at a time and in order; they should be short.
 *
 * An item waits for what its events were armed for when it was enqueued: arming an event again afterwards, for the
 * next step, neither holds it back nor lets it go early. An event that was never armed counts as recorded. Enqueue
 * from several threads at once is allowed; it then is the caller who knows what comes before what. */
struct zinf_stream_item {
    zinf_stream_fn fn;
    void *arg;
    struct zinf_event *const *waits;  /* events of other streams that this work needs */
    uint32_t nr_waits;
    struct zinf_event *done;          /* armed at enqueue, recorded when the work is done; may be NULL */
    void (*notify)(void *arg);        /* called once, from any thread, after the work is done */
    void *notify_arg;
    /* The device's, from enqueue to notify; nothing to initialise. */
    struct zinf_stream_item *next, *next_armed, *next_waiter;
    struct zinf_stream *stream;
    uint64_t seq;
    uint32_t nr_passed;
};

extern const struct zinf_device_ops zinf_cpu_device_ops;

/* The CPU device: a stream of the device itself whose enqueue runs fn(s, arg) on the caller when the stream is idle
 * and the waits are recorded. The operations may also be called with it outside a zinf_stream_fn, from a worker or
 * from one other thread at a time. For tests and for cpu-lane work. */
struct zinf_stream *zinf_cpu_stream_now(struct zinf_device *dev);
/* The pool that a stream of the CPU device runs on; for layers written by hand. */
struct zinf_pool *zinf_cpu_stream_pool(struct zinf_stream *s);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_DEVICE_H_ */
