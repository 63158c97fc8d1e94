/* kernels/cpu/kernels.h - what one instruction set computes on one thread; the device cuts the work in tiles around it.
 * Internal to kernels/cpu and its tests. Two tables exist where the processor's architecture has two builds. */
#ifndef ZINF_KERNELS_CPU_KERNELS_H_
#define ZINF_KERNELS_CPU_KERNELS_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "zinf/base/cpu.h"
#include "zinf/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What attention's scratch is made for. */
#define ZINF_CPU_HEAD_DIM_MAX 1024u

struct zinf_cpu_elementwise {
    void (*add)(float *y, const float *x, uint64_t n);
    void (*swiglu_forward)(float *h, const float *g, const float *u, uint64_t n);
    void (*swiglu_backward)(float *dg, float *du, const float *dh, const float *g, const float *u, uint64_t n);
    /* rows [row, row + nr_rows) */
    void (*rope)(float *x, uint64_t row, uint64_t nr_rows, uint64_t seq, uint64_t nr_heads, uint64_t head_dim,
                 uint64_t stride, const float *cos_sin, float sin_sign);
    void (*rmsnorm_forward)(float *y, float *rstd, const float *x, const void *w, enum zinf_dtype w_dtype,
                            uint64_t nr_rows, uint64_t width, float eps);
    /* dw (width) is overwritten by the sum over these rows */
    void (*rmsnorm_backward)(float *dx, float *dw, const float *dy, const float *x, const float *rstd, const void *w,
                             enum zinf_dtype w_dtype, uint64_t nr_rows, uint64_t width);
    /* y[i] = beta * y[i] + parts[0][i] + parts[1][i] ..., i < n; parts are stride apart. beta 0 does not read y */
    void (*sum_parts)(float *y, float beta, const float *parts, uint64_t nr_parts, uint64_t stride, uint64_t n);
    /* one row; target >= 0 */
    float (*cross_entropy)(float *logits, uint64_t vocab, int32_t target, float grad_scale, bool want_grad);
};

/* C[m x n] = beta C + A B with A(i, p) = a[i * a_row + p * a_col], B(p, j) = b[p * ldb + j]; beta 0 or 1; nothing is
 * packed: for blocks that lie in cache. Each C(i, j) is one chain of additions over p. k may be 0. */
struct zinf_cpu_block {
    uint64_t m, n, k;
    const float *a; uint64_t a_row, a_col;
    const float *b; uint64_t ldb;
    float *c;       uint64_t ldc;
    float beta;
};

struct zinf_cpu_products {
    void (*block)(const struct zinf_cpu_block *p);
    /* The same with op() and any sizes, packed into scratch of ZINF_CPU_PACK_FLOATS floats. */
    void (*packed)(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a, uint64_t lda,
                   const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc, float *scratch);
    /* sum of a[i] b[i] in 32 fixed lanes */
    float (*dot)(const float *a, const float *b, uint64_t n);
    /* dst[c * ldd + r] = src[r * lds + c] for r < rows, c < cols */
    void (*transpose)(float *dst, uint64_t ldd, const float *src, uint64_t lds, uint64_t rows, uint64_t cols);
};
/* packed() works through k in steps of 256 and cuts m at 264, n at 384. */
#define ZINF_CPU_PACK_K 256u
#define ZINF_CPU_PACK_M 264u
#define ZINF_CPU_PACK_N 384u
#define ZINF_CPU_PACK_FLOATS ((ZINF_CPU_PACK_M + ZINF_CPU_PACK_N) * ZINF_CPU_PACK_K)

struct zinf_cpu_attention {
    /* queries [q0, q0 + ZINF_CPU_ATTENTION_BLOCK) of one head of one sequence */
    void (*forward)(const struct zinf_attention *a, uint64_t b, uint64_t head, uint64_t q0, float *scratch);
    /* one key head of one sequence, with all the query heads that share it */
    void (*backward)(const struct zinf_attention *a, uint64_t b, uint64_t kv_head, float *scratch);
    /* The same bits in pieces: dk and dv of keys [k0, k0 + 64), dq of queries [q0, q0 + 64). 7/5 of the work. */
    void (*backward_keys)(const struct zinf_attention *a, uint64_t b, uint64_t kv_head, uint64_t k0, float *scratch);
    void (*backward_queries)(const struct zinf_attention *a, uint64_t b, uint64_t head, uint64_t q0, float *scratch);
};
#define ZINF_CPU_ATTENTION_BLOCK 64u
/* two blocks of 64 x 64, two of 64 x 1024, and per-row numbers */
#define ZINF_CPU_ATTENTION_FLOATS (2u * 64u * 64u + 2u * 64u * ZINF_CPU_HEAD_DIM_MAX + 4u * 64u)

extern const struct zinf_cpu_elementwise zinf_cpu_elementwise_scalar, zinf_cpu_elementwise_avx2;
extern const struct zinf_cpu_products zinf_cpu_products_scalar, zinf_cpu_products_avx2;
extern const struct zinf_cpu_attention zinf_cpu_attention_scalar, zinf_cpu_attention_avx2;

struct zinf_cpu_kernels {
    enum zinf_isa isa;
    const struct zinf_cpu_elementwise *e;
    const struct zinf_cpu_products *p;
    const struct zinf_cpu_attention *a;
};
/* The build for isa; the scalar one where isa has none of its own. */
struct zinf_cpu_kernels zinf_cpu_kernels_for(enum zinf_isa isa);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_KERNELS_H_ */
