/* kernels/cpu/norm.c - rounding a gradient and measuring it in one read, on the CPU. */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/vector.h"
#include "kernels/norm.h"
#include "zinf/base/align.h"

enum { NORM_LANES = 64, TILE_CHUNKS = 16 };

#define EXPONENT_ONES 0x7f800000u

static float round_to(enum zinf_dtype dtype, float x)
{
    switch (dtype) {
    case ZINF_F32:
        return x;
    case ZINF_BF16:
        return zinf_bf16_to_f32(zinf_f32_to_bf16(x));
    default:
        return zinf_f16_to_f32(zinf_f32_to_f16(x));
    }
}

static void store(void *dst, enum zinf_dtype dtype, uint64_t i, float x)
{
    if (dtype == ZINF_F32)
        ((float *)dst)[i] = x;
    else
        ((uint16_t *)dst)[i] = dtype == ZINF_BF16 ? zinf_f32_to_bf16(x) : zinf_f32_to_f16(x);
}

static uint32_t abs_bits(float x) { return zinf_f32_bits(x) & 0x7fffffffu; }

static float tree_sum(float lanes[NORM_LANES])
{
    for (int w = NORM_LANES / 2; w > 0; w /= 2) {
        for (int l = 0; l < w; l++)
            lanes[l] += lanes[l + w];
    }
    return lanes[0];
}

/* Elements [first, first + n) of one chunk; everything but out is of the whole range. */
struct round_job {
    enum zinf_isa isa;
    void *dst;
    enum zinf_dtype dtype;
    float *as_f32;
    const float *src;
    uint64_t n;
    float *chunk_sums;
    atomic_uint_fast64_t nr_nonfinite, first_nonfinite;
};

static void count_nonfinite(struct round_job *job, uint64_t first, uint64_t n)
{
    uint64_t nr = 0, lowest = UINT64_MAX, seen;

    /* src may hold the rounded values by now; rounding again changes nothing. */
    for (uint64_t i = first; i < first + n; i++) {
        if (abs_bits(round_to(job->dtype, job->src[i])) < EXPONENT_ONES)
            continue;
        nr++;
        lowest = zinf_min_u64(lowest, i);
    }
    atomic_fetch_add_explicit(&job->nr_nonfinite, nr, memory_order_relaxed);
    seen = atomic_load_explicit(&job->first_nonfinite, memory_order_relaxed);
    while (lowest < seen && !atomic_compare_exchange_weak_explicit(&job->first_nonfinite, &seen, lowest,
                                                                   memory_order_relaxed, memory_order_relaxed))
        ;
}

static void round_chunk(struct round_job *job, uint64_t chunk)
{
    const struct zinf_vector_ops *ops = zinf_vector_ops_get(job->isa);
    uint64_t first = chunk * ZINF_NORM_CHUNK, n = zinf_min_u64(job->n - first, ZINF_NORM_CHUNK), i = 0;
    const float *src = job->src + first;
    void *dst = job->dst ? (char *)job->dst + first * zinf_dtype_nbytes(job->dtype) : NULL;
    float *as_f32 = job->as_f32 ? job->as_f32 + first : NULL;
    float lanes[NORM_LANES] = { 0 };
    uint32_t max_abs = 0;
    float sum;

    if (ops)
        i = ops->round_squares(dst, job->dtype, as_f32, src, n, lanes, &max_abs);
    for (; i < n; i++) {
        float x = round_to(job->dtype, src[i]);

        if (dst)
            store(dst, job->dtype, i, x);
        if (as_f32)
            as_f32[i] = x;
        lanes[i % NORM_LANES] = fmaf(x, x, lanes[i % NORM_LANES]);
        max_abs = abs_bits(x) > max_abs ? abs_bits(x) : max_abs;
    }
    sum = tree_sum(lanes);
    /* Which NaN an operation returns differs between processors. */
    job->chunk_sums[chunk] = isnan(sum) ? zinf_f32_from_bits(0x7fc00000u) : sum;
    if (max_abs >= EXPONENT_ONES)
        count_nonfinite(job, first, n);
}

static struct round_job round_job_of(enum zinf_isa isa, void *dst, enum zinf_dtype dtype, float *as_f32,
                                     const float *src, uint64_t n, const struct zinf_norm_out *out)
{
    return (struct round_job){ .isa = isa,
                               .dst = dst,
                               .dtype = dtype,
                               .as_f32 = as_f32,
                               .src = src,
                               .n = n,
                               .chunk_sums = out->chunk_sums,
                               .first_nonfinite = UINT64_MAX };
}

static void round_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    struct round_job *job = ctx;
    uint64_t nr_chunks = zinf_div_up(job->n, ZINF_NORM_CHUNK);
    uint64_t end = zinf_min_u64((tile + 1) * TILE_CHUNKS, nr_chunks);

    (void)worker;
    for (uint64_t c = tile * TILE_CHUNKS; c < end; c++)
        round_chunk(job, c);
}

void zinf_round_norm_range(enum zinf_isa isa, void *dst, enum zinf_dtype dtype, float *as_f32, const float *src,
                           uint64_t n, struct zinf_norm_out *out)
{
    struct round_job job = round_job_of(isa, dst, dtype, as_f32, src, n, out);
    uint64_t nr_chunks = zinf_div_up(n, ZINF_NORM_CHUNK);

    for (uint64_t c = 0; c < nr_chunks; c++)
        round_chunk(&job, c);
    out->nr_nonfinite = job.nr_nonfinite;
    out->first_nonfinite = job.first_nonfinite;
}

void zinf_round_norm_pool(enum zinf_isa isa, struct zinf_pool *pool, void *dst, enum zinf_dtype dtype, float *as_f32,
                          const float *src, uint64_t n, struct zinf_norm_out *out)
{
    struct round_job job = round_job_of(isa, dst, dtype, as_f32, src, n, out);
    uint64_t nr_chunks = zinf_div_up(n, ZINF_NORM_CHUNK);

    zinf_pool_for(pool, zinf_div_up(nr_chunks, TILE_CHUNKS), round_tile, &job);
    out->nr_nonfinite = job.nr_nonfinite;
    out->first_nonfinite = job.first_nonfinite;
}

double zinf_norm_total(const float *chunk_sums, uint64_t nr_chunks, double sum_so_far)
{
    for (uint64_t i = 0; i < nr_chunks; i++)
        sum_so_far += (double)chunk_sums[i];
    return sum_so_far;
}
