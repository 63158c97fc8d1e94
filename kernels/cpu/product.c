/* kernels/cpu/product.c - our own matrix product on one thread: a register block of ZINF_MR rows by 16 columns, fed
 * from packed panels or straight from memory. Built once per instruction set (lanes.h).
 *
 * Every C(i, j) is one chain over p in order (per step of 256 when packed), so bits do not depend on where it lies
 * in a block. Source of the loop order: Goto & van de Geijn, Anatomy of high-performance matrix multiplication,
 * 2008. */
#define _GNU_SOURCE
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lanes.h"
#include "zinf/base/align.h"

/* Accumulators must fit in registers: 12 of 16 with AVX2; without it a vector takes two. */
#ifdef ZINF_LANES_AVX2
#define ZINF_MR 6
#else
#define ZINF_MR 2
#endif

/* rows <= 6 and nr_vecs in {1, 2} are constants where it is called, so that acc lives in registers. last is the
 * number of lanes of the last vector. */
ZINF_INLINE void micro(const int rows, const int nr_vecs, const int last, uint64_t k, const float *a, uint64_t a_row,
                       uint64_t a_col, const float *b, uint64_t ldb, float *c, uint64_t ldc, float beta)
{
    zinf_v8 acc[6][2];

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < nr_vecs; j++)
            acc[i][j] = zinf_v_set(0.0f);
    for (uint64_t p = 0; p < k; p++) {
        const float *ap = a + p * a_col, *bp = b + p * ldb;
        zinf_v8 bv[2];

        for (int j = 0; j < nr_vecs; j++)
            bv[j] = j == nr_vecs - 1 && last < 8 ? zinf_v_load_n(bp + 8 * j, (uint64_t)last) : zinf_v_load(bp + 8 * j);
        for (int i = 0; i < rows; i++) {
            zinf_v8 av = zinf_v_set(ap[(uint64_t)i * a_row]);

            for (int j = 0; j < nr_vecs; j++)
                acc[i][j] = zinf_v_fma(av, bv[j], acc[i][j]);
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < nr_vecs; j++) {
            float *cp = c + (uint64_t)i * ldc + 8 * j;

            if (j == nr_vecs - 1 && last < 8) {
                if (beta != 0.0f)
                    acc[i][j] += zinf_v_load_n(cp, (uint64_t)last);
                zinf_v_store_n(cp, acc[i][j], (uint64_t)last);
            } else {
                if (beta != 0.0f)
                    acc[i][j] += zinf_v_load(cp);
                zinf_v_store(cp, acc[i][j]);
            }
        }
    }
}

/* Columns [0, cols) of rows [0, rows), cols <= 16. */
ZINF_INLINE void micro_cols(const int rows, uint64_t cols, uint64_t k, const float *a, uint64_t a_row, uint64_t a_col,
                            const float *b, uint64_t ldb, float *c, uint64_t ldc, float beta)
{
    if (cols == 16) {
        micro(rows, 2, 8, k, a, a_row, a_col, b, ldb, c, ldc, beta);
        return;
    }
    if (cols >= 8) {
        micro(rows, 1, 8, k, a, a_row, a_col, b, ldb, c, ldc, beta);
        b += 8;
        c += 8;
        cols -= 8;
    }
    if (cols > 0)
        micro(rows, 1, (int)cols, k, a, a_row, a_col, b, ldb, c, ldc, beta);
}

static void micro_any(uint64_t rows, uint64_t cols, uint64_t k, const float *a, uint64_t a_row, uint64_t a_col,
                      const float *b, uint64_t ldb, float *c, uint64_t ldc, float beta)
{
    switch (rows) {
#if ZINF_MR > 2
    case 6: micro_cols(6, cols, k, a, a_row, a_col, b, ldb, c, ldc, beta); break;
    case 5: micro_cols(5, cols, k, a, a_row, a_col, b, ldb, c, ldc, beta); break;
    case 4: micro_cols(4, cols, k, a, a_row, a_col, b, ldb, c, ldc, beta); break;
    case 3: micro_cols(3, cols, k, a, a_row, a_col, b, ldb, c, ldc, beta); break;
#endif
    case 2: micro_cols(2, cols, k, a, a_row, a_col, b, ldb, c, ldc, beta); break;
    case 1: micro_cols(1, cols, k, a, a_row, a_col, b, ldb, c, ldc, beta); break;
    default: break;
    }
}

static void block(const struct zinf_cpu_block *p)
{
    for (uint64_t j = 0; j < p->n; j += 16) {
        uint64_t cols = zinf_min_u64(16, p->n - j);

        for (uint64_t i = 0; i < p->m; i += ZINF_MR)
            micro_any(zinf_min_u64(ZINF_MR, p->m - i), cols, p->k, p->a + i * p->a_row, p->a_row, p->a_col, p->b + j,
                      p->ldb, p->c + i * p->ldc + j, p->ldc, p->beta);
    }
}

/* 8 x 8 through registers: pairs, then pairs of pairs, then halves. */
ZINF_INLINE void transpose_8x8(float *dst, uint64_t ldd, const float *src, uint64_t lds)
{
    zinf_v8 r[8], t[8];

    for (uint64_t i = 0; i < 8; i++)
        r[i] = zinf_v_load(src + i * lds);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = 0; j < 2; j++) {
            r[i + j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + j + 2] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (uint64_t j = 0; j < 4; j++) {
        zinf_v_store(dst + j * ldd, __builtin_shufflevector(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11));
        zinf_v_store(dst + (j + 4) * ldd, __builtin_shufflevector(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

static void transpose(float *dst, uint64_t ldd, const float *src, uint64_t lds, uint64_t rows, uint64_t cols)
{
    uint64_t rows8 = rows & ~7ull, cols8 = cols & ~7ull;

    for (uint64_t r = 0; r < rows8; r += 8)
        for (uint64_t c = 0; c < cols8; c += 8)
            transpose_8x8(dst + c * ldd + r, ldd, src + r * lds + c, lds);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = r < rows8 ? cols8 : 0; c < cols; c++)
            dst[c * ldd + r] = src[r * lds + c];
}

/* Panels of 16 columns of op(B), each k x 16, zero-padded on the right. */
static void pack_b(float *dst, const float *b, uint64_t ldb, bool trans, uint64_t k, uint64_t n)
{
    for (uint64_t j = 0; j < n; j += 16, dst += 16 * k) {
        uint64_t cols = zinf_min_u64(16, n - j);

        if (cols < 16)
            memset(dst, 0, 16 * k * sizeof(float));
        if (trans) {
            transpose(dst, 16, b + j * ldb, ldb, cols, k);
        } else if (cols == 16) {
            for (uint64_t p = 0; p < k; p++) {
                zinf_v_store(dst + 16 * p, zinf_v_load(b + p * ldb + j));
                zinf_v_store(dst + 16 * p + 8, zinf_v_load(b + p * ldb + j + 8));
            }
        } else {
            for (uint64_t p = 0; p < k; p++)
                memcpy(dst + 16 * p, b + p * ldb + j, cols * sizeof(float));
        }
    }
}

/* Panels of ZINF_MR rows of op(A), each k x ZINF_MR. The last panel may hold fewer rows; what lies beside them is
 * not read. */
static void pack_a(float *dst, const float *a, uint64_t lda, bool trans, uint64_t m, uint64_t k)
{
    for (uint64_t i = 0; i < m; i += ZINF_MR, dst += ZINF_MR * k) {
        uint64_t rows = zinf_min_u64(ZINF_MR, m - i);

        if (!trans) {
            transpose(dst, ZINF_MR, a + i * lda, lda, rows, k);
        } else if (rows == ZINF_MR) {
            for (uint64_t p = 0; p < k; p++)
                memcpy(dst + ZINF_MR * p, a + p * lda + i, ZINF_MR * sizeof(float));
        } else {
            for (uint64_t p = 0; p < k; p++)
                memcpy(dst + ZINF_MR * p, a + p * lda + i, rows * sizeof(float));
        }
    }
}

/* Edge columns are computed 16 wide into a small buffer: B's panel is padded, C's row is not. */
static void packed_panels(uint64_t m, uint64_t n, uint64_t k, const float *pa, const float *pb, float beta, float *c,
                          uint64_t ldc)
{
    for (uint64_t j = 0; j < n; j += 16) {
        uint64_t cols = zinf_min_u64(16, n - j);

        for (uint64_t i = 0; i < m; i += ZINF_MR) {
            uint64_t rows = zinf_min_u64(ZINF_MR, m - i);

            if (rows == ZINF_MR && cols == 16)
                micro(ZINF_MR, 2, 8, k, pa + i * k, 1, ZINF_MR, pb + j * k, 16, c + i * ldc + j, ldc, beta);
            else
                micro_any(rows, cols, k, pa + i * k, 1, ZINF_MR, pb + j * k, 16, c + i * ldc + j, ldc, beta);
        }
    }
}

static void packed(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a, uint64_t lda,
                   const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc, float *scratch)
{
    float *pb = scratch, *pa = scratch + (uint64_t)ZINF_CPU_PACK_N * ZINF_CPU_PACK_K;

    for (uint64_t j = 0; j < n; j += ZINF_CPU_PACK_N) {
        uint64_t nj = zinf_min_u64(ZINF_CPU_PACK_N, n - j), p = 0;

        do {    /* once for k = 0: beta still applies */
            uint64_t kp = zinf_min_u64(ZINF_CPU_PACK_K, k - p);

            pack_b(pb, trans_b ? b + j * ldb + p : b + p * ldb + j, ldb, trans_b, kp, nj);
            for (uint64_t i = 0; i < m; i += ZINF_CPU_PACK_M) {
                uint64_t mi = zinf_min_u64(ZINF_CPU_PACK_M, m - i);

                pack_a(pa, trans_a ? a + p * lda + i : a + i * lda + p, lda, trans_a, mi, kp);
                packed_panels(mi, nj, kp, pa, pb, p ? 1.0f : beta, c + i * ldc + j, ldc);
            }
            p += kp;
        } while (p < k);
    }
}

static float dot(const float *a, const float *b, uint64_t n)
{
    zinf_v8 acc[4] = { 0 };
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32)
        for (int q = 0; q < 4; q++)
            acc[q] = zinf_v_fma(zinf_v_load(a + i + 8 * q), zinf_v_load(b + i + 8 * q), acc[q]);
    for (; i + 8 <= n; i += 8)
        acc[0] = zinf_v_fma(zinf_v_load(a + i), zinf_v_load(b + i), acc[0]);
    if (i < n)
        acc[1] = zinf_v_fma(zinf_v_load_n(a + i, n - i), zinf_v_load_n(b + i, n - i), acc[1]);
    return zinf_v_sum((acc[0] + acc[2]) + (acc[1] + acc[3]));
}

const struct zinf_cpu_products ZINF_VARIANT(zinf_cpu_products) = {
    .block = block,
    .packed = packed,
    .dot = dot,
    .transpose = transpose,
};
