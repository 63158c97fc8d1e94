/* kernels/cpu/gemm.c - a product as output tiles, each computed by one thread in one way.
 *
 * A tile takes k in steps of 256 where an operand is stored in 16 bits (it is converted into the worker's scratch
 * first), else all at once. Scratch: [A: 256 x 256][B: 256 x 384][panels of our own product]. Where C is stored in
 * 16 bits a tile is half as wide, and its fp32 accumulator takes the second half of B's place. */
#define _GNU_SOURCE
#include "kernels/cpu/gemm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/convert.h"
#include "kernels/cpu/openblas.h"
#include "zinf/base/align.h"

enum {
    TILE_M = 256,           /* at most */
    TILE_N = 384,
    TILE_N_16BIT = 192,     /* C in 16 bits: B and the accumulator of C share 256 x 384 floats */
    STEP_K = 256,
    THIN_M = 4,             /* up to here a product reads B once and is bound by that */
};
/* Below this much work per tile, cutting further costs more in packing than it gains in balance. */
static const uint64_t tile_work = 1ull << 22;
static const uint64_t enough_tiles = 16;

struct job {
    const struct zinf_cpu_gemm_env *env;
    const struct zinf_gemm *g;
    uint64_t tile_m, tile_n, nr_m;
};

int zinf_cpu_gemm_choose(enum zinf_cpu_gemm_kind *out, struct zinf_status *st)
{
    const char *name = getenv("ZINF_GEMM");

    *out = zinf_openblas_linked() ? ZINF_CPU_GEMM_OPENBLAS : ZINF_CPU_GEMM_OWN;
    if (!name || !*name)
        return 0;
    if (strcmp(name, "own") == 0) {
        *out = ZINF_CPU_GEMM_OWN;
        return 0;
    }
    if (strcmp(name, "openblas") != 0)
        return zinf_fail(st, -EINVAL, "ZINF_GEMM=%.64s is unknown: use own or openblas, or unset it", name);
    if (!zinf_openblas_linked())
        return zinf_fail(st, -EINVAL,
                         "ZINF_GEMM=openblas: this build has no OpenBLAS; install libopenblas-dev and build again, "
                         "or unset it");
    return 0;
}

/* total in nr nearly equal parts, in whole vectors. */
static uint64_t part_size(uint64_t total, uint64_t nr)
{
    return zinf_align_up(zinf_div_up(total, nr), 16);
}

void zinf_cpu_gemm_tile_size(uint64_t m, uint64_t n, uint64_t k, bool c_is_f32, uint64_t *tile_m, uint64_t *tile_n)
{
    uint64_t nr_m = zinf_div_up(m, TILE_M), nr_n = zinf_div_up(n, c_is_f32 ? TILE_N : TILE_N_16BIT);

    for (;;) {
        uint64_t tm = part_size(m, nr_m), tn = part_size(n, nr_n);

        *tile_m = tm;
        *tile_n = tn;
        if (nr_m * nr_n >= enough_tiles || tm * tn * k <= tile_work || (tm <= 64 && tn <= 64))
            return;
        if (tm >= tn)
            nr_m++;
        else
            nr_n++;
    }
}

/* Rows [row, row + nr_rows) by columns [col, col + nr_cols) of x as it is stored, in fp32: where it lies, or
 * converted into buf. */
static const float *in_f32(const struct job *j, const void *x, enum zinf_dtype dtype, uint64_t *ld, uint64_t row,
                           uint64_t nr_rows, uint64_t col, uint64_t nr_cols, float *buf)
{
    if (dtype == ZINF_F32)
        return (const float *)x + row * *ld + col;
    for (uint64_t r = 0; r < nr_rows; r++)
        zinf_convert_range(j->env->kernels.isa, buf + r * nr_cols, ZINF_F32,
                           (const uint16_t *)x + (row + r) * *ld + col, dtype, nr_cols);
    *ld = nr_cols;
    return buf;
}

static void zero_rows(float *c, uint64_t ldc, uint64_t m, uint64_t n)
{
    for (uint64_t i = 0; i < m; i++)
        memset(c + i * ldc, 0, n * sizeof(float));
}

struct part {
    bool trans_a, trans_b, thin;
    uint64_t m, n, k, lda, ldb, ldc;
    const float *a, *b;
    float *c, beta;
    float *pack;
};

/* m <= THIN_M: B is read once, in the direction it is stored. */
static void multiply_thin(const struct zinf_cpu_products *own, const struct part *p)
{
    if (!p->trans_b) {
        struct zinf_cpu_block b = {
            .m = p->m, .n = p->n, .k = p->k, .a = p->a, .a_row = p->trans_a ? 1 : p->lda,
            .a_col = p->trans_a ? p->lda : 1, .b = p->b, .ldb = p->ldb, .c = p->c, .ldc = p->ldc, .beta = p->beta,
        };

        own->block(&b);
        return;
    }
    for (uint64_t j = 0; j < p->n; j++) {
        for (uint64_t i = 0; i < p->m; i++) {
            float *c = p->c + i * p->ldc + j, sum = own->dot(p->a + i * p->lda, p->b + j * p->ldb, p->k);

            *c = p->beta != 0.0f ? *c + sum : sum;
        }
    }
}

static void multiply(const struct job *j, const struct part *p)
{
    const struct zinf_cpu_products *own = j->env->kernels.p;

    if (p->k == 0) {
        if (p->beta == 0.0f)
            zero_rows(p->c, p->ldc, p->m, p->n);
    } else if (p->thin) {
        multiply_thin(own, p);
    } else if (j->env->kind == ZINF_CPU_GEMM_OPENBLAS) {
        zinf_openblas_sgemm(p->trans_a, p->trans_b, p->m, p->n, p->k, p->a, p->lda, p->b, p->ldb, p->beta, p->c,
                            p->ldc);
    } else {
        own->packed(p->trans_a, p->trans_b, p->m, p->n, p->k, p->a, p->lda, p->b, p->ldb, p->beta, p->c, p->ldc,
                    p->pack);
    }
}

static void run_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct job *j = ctx;
    const struct zinf_gemm *g = j->g;
    uint64_t i0 = tile % j->nr_m * j->tile_m, j0 = tile / j->nr_m * j->tile_n, done = 0;
    float *buf_a = j->env->scratch + worker * j->env->scratch_floats, *buf_b = buf_a + TILE_M * STEP_K;
    float *acc = buf_b + STEP_K * TILE_N_16BIT;
    bool in_place = g->c_dtype == ZINF_F32, whole_k = g->a_dtype == ZINF_F32 && g->b_dtype == ZINF_F32;
    struct part p = {
        .trans_a = g->trans_a, .trans_b = g->trans_b, .thin = g->m <= THIN_M && !(g->trans_a && g->trans_b),
        .m = zinf_min_u64(j->tile_m, g->m - i0), .n = zinf_min_u64(j->tile_n, g->n - j0),
        .c = in_place ? (float *)g->c + i0 * g->ldc + j0 : acc, .pack = buf_b + STEP_K * TILE_N,
    };

    p.ldc = in_place ? g->ldc : p.n;
    do {    /* once for k = 0 */
        p.k = whole_k ? g->k : zinf_min_u64(STEP_K, g->k - done);
        p.lda = g->lda;
        p.ldb = g->ldb;
        p.beta = done ? 1.0f : g->beta;
        p.a = g->trans_a ? in_f32(j, g->a, g->a_dtype, &p.lda, done, p.k, i0, p.m, buf_a)
                         : in_f32(j, g->a, g->a_dtype, &p.lda, i0, p.m, done, p.k, buf_a);
        p.b = g->trans_b ? in_f32(j, g->b, g->b_dtype, &p.ldb, j0, p.n, done, p.k, buf_b)
                         : in_f32(j, g->b, g->b_dtype, &p.ldb, done, p.k, j0, p.n, buf_b);
        multiply(j, &p);
        done += p.k;
    } while (done < g->k);
    for (uint64_t r = 0; !in_place && r < p.m; r++)
        zinf_convert_range(j->env->kernels.isa, (uint16_t *)g->c + (i0 + r) * g->ldc + j0, g->c_dtype, acc + r * p.n,
                           ZINF_F32, p.n);
}

static bool sizes_fit(const struct zinf_gemm *g)
{
    const uint64_t all[] = { g->m, g->n, g->k, g->lda, g->ldb, g->ldc };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] > INT32_MAX)
            return false;
    return g->lda >= (g->trans_a ? g->m : g->k) && g->ldb >= (g->trans_b ? g->k : g->n) && g->ldc >= g->n;
}

int zinf_cpu_gemm(const struct zinf_cpu_gemm_env *env, const struct zinf_gemm *g)
{
    struct job j = { .env = env, .g = g };

    if (!sizes_fit(g) || (g->beta != 0.0f && (g->beta != 1.0f || g->c_dtype != ZINF_F32)))
        return -EINVAL;
    if (g->m == 0 || g->n == 0)
        return 0;
    zinf_cpu_gemm_tile_size(g->m, g->n, g->k, g->c_dtype == ZINF_F32, &j.tile_m, &j.tile_n);
    j.nr_m = zinf_div_up(g->m, j.tile_m);
    zinf_pool_for(env->pool, j.nr_m * zinf_div_up(g->n, j.tile_n), run_tile, &j);
    return 0;
}
