/* kernels/cpu/update.c - the optimizer on the CPU: scalars of a step, the scalar form, tiles over the pool. */
#include "kernels/update.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

#include "kernels/cpu/update_formula.h"
#include "kernels/cpu/vector.h"
#include "zinf/base/align.h"

/* Elements per tile of zinf_update_pool: at 26 bytes each 1.6 MiB, so long that handing out a tile costs nothing. */
enum { UPDATE_TILE = 64 * 1024 };

#define EXPONENT_ONES 0x7f800000u

void zinf_update_scalars_set(struct zinf_update_scalars *out, const struct zinf_optimizer_params *p, uint64_t t,
                             double lr, double grad_scale)
{
    double c1 = 1.0, c2 = 1.0;

    if (p->bias_correction && p->kind != ZINF_SGD) {
        c1 = 1.0 - pow(p->beta1, (double)t);
        c2 = 1.0 - pow(p->beta2, (double)t);
    }
    *out = (struct zinf_update_scalars){
        .kind = p->kind,
        .beta1 = (float)p->beta1,
        .one_minus_beta1 = (float)(1.0 - p->beta1),
        .beta2 = (float)p->beta2,
        .one_minus_beta2 = (float)(1.0 - p->beta2),
        .eps = (float)p->eps,
        .weight_decay = (float)p->weight_decay,
        .neg_step_size = (float)(-lr / c1),
        .inv_sqrt_c2 = (float)(1.0 / sqrt(c2)),
        .decay_factor = p->kind == ZINF_ADAMW ? (float)(1.0 - lr * p->weight_decay) : 1.0f,
        .grad_scale = (float)grad_scale,
    };
}

static float load_grad(const struct zinf_update *u, uint64_t i)
{
    switch (u->grad_dtype) {
    case ZINF_F32:
        return ((const float *)u->grad)[i];
    case ZINF_BF16:
        return zinf_bf16_to_f32(((const uint16_t *)u->grad)[i]);
    default:
        return zinf_f16_to_f32(((const uint16_t *)u->grad)[i]);
    }
}

static bool bits_bad(uint32_t bits) { return (bits & EXPONENT_ONES) == EXPONENT_ONES; }

static void update_scalar(const struct zinf_update *u, uint64_t from, uint32_t *bad)
{
    bool split = u->weight_dtype == ZINF_BF16;
    float *full = u->hi;
    uint16_t *hi = u->hi;

    for (uint64_t i = from; i < u->n; i++) {
        float p = split ? zinf_f32_from_bits(zinf_join(hi[i], u->lo[i])) : full[i];
        float grad = load_grad(u, i);
        bool bad_weight;

        if (u->k.kind == ZINF_SGD) {
            p = zinf_update_sgd(&u->k, p, grad);
        } else {
            p = zinf_update_adam(&u->k, u->k.kind, p, &u->m[i], &u->v[i], grad);
            *bad |= (bits_bad(zinf_f32_bits(u->m[i])) ? ZINF_BAD_M : 0) |
                    (bits_bad(zinf_f32_bits(u->v[i])) ? ZINF_BAD_V : 0);
        }
        bad_weight = bits_bad(zinf_f32_bits(p));
        if (split) {
            zinf_split(zinf_f32_bits(p), &hi[i], &u->lo[i]);
            bad_weight |= bits_bad((uint32_t)hi[i] << 16);
        } else {
            full[i] = p;
        }
        *bad |= bad_weight ? ZINF_BAD_WEIGHT : 0;
    }
}

void zinf_update_range(enum zinf_isa isa, const struct zinf_update *u, uint32_t *bad)
{
    const struct zinf_vector_ops *ops = zinf_vector_ops_get(isa);

    assert(u->weight_dtype == ZINF_F32 || u->weight_dtype == ZINF_BF16);
    update_scalar(u, ops ? ops->update(u, bad) : 0, bad);
}

struct pool_update {
    enum zinf_isa isa;
    const struct zinf_update *u;
    atomic_uint bad;
};

static void update_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    struct pool_update *job = ctx;
    uint64_t from = tile * UPDATE_TILE;
    struct zinf_update part = *job->u;
    uint32_t bad = 0;

    (void)worker;
    part.n = zinf_min_u64(part.n - from, UPDATE_TILE);
    part.hi = (char *)part.hi + from * zinf_dtype_nbytes(part.weight_dtype);
    part.grad = (const char *)part.grad + from * zinf_dtype_nbytes(part.grad_dtype);
    if (part.weight_dtype == ZINF_BF16)
        part.lo += from;
    if (part.k.kind != ZINF_SGD) {
        part.m += from;
        part.v += from;
    }
    zinf_update_range(job->isa, &part, &bad);
    if (bad)
        atomic_fetch_or_explicit(&job->bad, bad, memory_order_relaxed);
}

void zinf_update_pool(enum zinf_isa isa, struct zinf_pool *pool, const struct zinf_update *u, uint32_t *bad)
{
    struct pool_update job = { .isa = isa, .u = u };

    zinf_pool_for(pool, zinf_div_up(u->n, UPDATE_TILE), update_tile, &job);
    *bad = atomic_load_explicit(&job.bad, memory_order_relaxed);
}

uint64_t zinf_split_range(const float *master, uint16_t *hi, int16_t *lo, uint64_t n)
{
    uint64_t first_bad = n;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = zinf_f32_bits(master[i]);

        zinf_split(bits, &hi[i], &lo[i]);
        if (first_bad == n && (bits_bad(bits) || bits_bad((uint32_t)hi[i] << 16)))
            first_bad = i;
    }
    return first_bad;
}

void zinf_join_range(const uint16_t *hi, const int16_t *lo, float *master, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        master[i] = zinf_f32_from_bits(zinf_join(hi[i], lo[i]));
}
