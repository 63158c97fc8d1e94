/* kernels/cpu/update_vector.h - kernels/cpu/update_formula.h in vectors; for each vector_<isa>.c.
 *
 * Optimizer and dtypes are constants of every copy of the loop, so nothing is decided per element. */
#ifndef ZINF_KERNELS_CPU_UPDATE_VECTOR_H_
#define ZINF_KERNELS_CPU_UPDATE_VECTOR_H_

#include "kernels/cpu/simd.h"
#include "kernels/update.h"

struct update_consts {
    vf beta1, one_minus_beta1, beta2, one_minus_beta2, eps, weight_decay, neg_step_size, inv_sqrt_c2, decay_factor,
        grad_scale;
    vu no_sign;
};

V_INLINE struct update_consts update_consts_of(const struct zinf_update_scalars *k)
{
    struct update_consts c = {
        .beta1 = vf_set1(k->beta1),
        .one_minus_beta1 = vf_set1(k->one_minus_beta1),
        .beta2 = vf_set1(k->beta2),
        .one_minus_beta2 = vf_set1(k->one_minus_beta2),
        .eps = vf_set1(k->eps),
        .weight_decay = vf_set1(k->weight_decay),
        .neg_step_size = vf_set1(k->neg_step_size),
        .inv_sqrt_c2 = vf_set1(k->inv_sqrt_c2),
        .decay_factor = vf_set1(k->decay_factor),
        .grad_scale = vf_set1(k->grad_scale),
        .no_sign = vu_set1(0x7fffffffu),
    };
    return c;
}

/* Largest bit patterns without sign, lane by lane. */
struct update_max {
    vu p, m, v;
};

V_INLINE vf update_vec(const struct update_consts *c, enum zinf_optimizer kind, vf p, float *m_at, float *v_at, vf grad,
                       struct update_max *max)
{
    vf g = vf_mul(grad, c->grad_scale);

    if (kind != ZINF_ADAMW)
        g = vf_fma(c->weight_decay, p, g);
    if (kind == ZINF_SGD) {
        p = vf_fma(c->neg_step_size, g, p);
    } else {
        vf m = vf_fma(c->beta1, vf_load(m_at), vf_mul(c->one_minus_beta1, g));
        vf v = vf_fma(c->beta2, vf_load(v_at), vf_mul(vf_mul(c->one_minus_beta2, g), g));
        vf d = vf_fma(vf_sqrt(v), c->inv_sqrt_c2, c->eps);

        vf_store(m_at, m);
        vf_store(v_at, v);
        max->m = vu_max(max->m, vu_and(vf_bits(m), c->no_sign));
        max->v = vu_max(max->v, vu_and(vf_bits(v), c->no_sign));
        p = vf_fma(c->neg_step_size, vf_div(m, d), vf_mul(c->decay_factor, p));
    }
    max->p = vu_max(max->p, vu_and(vf_bits(p), c->no_sign));
    return p;
}

V_INLINE uint64_t update_loop(const struct zinf_update *u, enum zinf_optimizer kind, enum zinf_dtype weight_dtype,
                              enum zinf_dtype grad_dtype, uint32_t *bad)
{
    struct update_consts c = update_consts_of(&u->k);
    struct update_max max = { vu_set1(0), vu_set1(0), vu_set1(0) };
    /* Kept out of *u: a vector store may alias it, and it would be read again after each. */
    void *weights = u->hi;
    const void *grads = u->grad;
    int16_t *lo = u->lo;
    float *m = u->m, *v = u->v;
    /* From 0x7f7f8000 up a split weight is not finite, or its hi is not: rounding carries into the exponent. */
    const bool split = weight_dtype == ZINF_BF16;
    uint32_t weight_limit = split ? 0x7f7f8000u : 0x7f800000u;
    uint64_t i = 0, n = u->n;

    for (; n - i >= 2 * V_LANES; i += 2 * V_LANES) {
        float *m_at = kind == ZINF_SGD ? NULL : m + i, *v_at = kind == ZINF_SGD ? NULL : v + i;
        float *m_next = kind == ZINF_SGD ? NULL : m_at + V_LANES, *v_next = kind == ZINF_SGD ? NULL : v_at + V_LANES;
        vf2 grad = vf2_load_as(grads, grad_dtype, i);
        vf2 p = split ? vf2_join((uint16_t *)weights + i, lo + i) : vf2_load_as(weights, ZINF_F32, i);

        p.a = update_vec(&c, kind, p.a, m_at, v_at, grad.a, &max);
        p.b = update_vec(&c, kind, p.b, m_next, v_next, grad.b, &max);
        if (split) {
            vf2_split(p, (uint16_t *)weights + i, lo + i);
        } else {
            vf_store((float *)weights + i, p.a);
            vf_store((float *)weights + i + V_LANES, p.b);
        }
    }
    *bad |= (vu_max_lane(max.p) >= weight_limit ? ZINF_BAD_WEIGHT : 0) |
            (vu_max_lane(max.m) >= 0x7f800000u ? ZINF_BAD_M : 0) | (vu_max_lane(max.v) >= 0x7f800000u ? ZINF_BAD_V : 0);
    return i;
}

V_INLINE uint64_t update_grad_dtype(const struct zinf_update *u, enum zinf_optimizer kind, enum zinf_dtype weight_dtype,
                                    uint32_t *bad)
{
    switch (u->grad_dtype) {
    case ZINF_F32:
        return update_loop(u, kind, weight_dtype, ZINF_F32, bad);
    case ZINF_BF16:
        return update_loop(u, kind, weight_dtype, ZINF_BF16, bad);
    default:
        return update_loop(u, kind, weight_dtype, ZINF_F16, bad);
    }
}

V_INLINE uint64_t update_weight_dtype(const struct zinf_update *u, enum zinf_optimizer kind, uint32_t *bad)
{
    if (u->weight_dtype == ZINF_BF16)
        return update_grad_dtype(u, kind, ZINF_BF16, bad);
    return update_grad_dtype(u, kind, ZINF_F32, bad);
}

static V_TARGET uint64_t update_vector(const struct zinf_update *u, uint32_t *bad)
{
    switch (u->k.kind) {
    case ZINF_ADAMW:
        return update_weight_dtype(u, ZINF_ADAMW, bad);
    case ZINF_ADAM_L2:
        return update_weight_dtype(u, ZINF_ADAM_L2, bad);
    default:
        return update_weight_dtype(u, ZINF_SGD, bad);
    }
}

#endif /* ZINF_KERNELS_CPU_UPDATE_VECTOR_H_ */
