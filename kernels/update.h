/* kernels/update.h - the optimizer on one contiguous range: one formula, one order, the same bits everywhere.
 *
 * With g = grad * grad_scale, grad_scale = (1 / loss scale) * clip factor:
 *   Adam (L2) first: g = fma(wd, p, g)
 *   m = fma(b1, m, (1 - b1) * g)
 *   v = fma(b2, v, ((1 - b2) * g) * g)
 *   d = fma(sqrt(v), 1 / sqrt(1 - b2^t), eps)
 *   p = fma(-lr / (1 - b1^t), m / d, (1 - lr * wd) * p)        the last factor is 1 for L2
 * Only fma, mul, div and sqrt, so contraction cannot change it. Source: Kingma & Ba 2015; Loshchilov & Hutter 2019; as
 * torch.optim.AdamW up to rounding. SGD: p = fma(-lr, g, p), L2 decay first as above, no m and v.
 *
 * Layouts: bf16 runs split the fp32 master p in hi (bf16, the weight the device uses) and lo (int16):
 * hi = (bits + 0x8000) >> 16, lo = bits - (hi << 16) in uint32 arithmetic: exact for all 2^32 patterns. fp32 runs: hi
 * is the fp32 parameter itself and lo is NULL.
 *
 * Scalar C, AVX2, AVX-512, NEON and CUDA give the same bits for every length, offset and partition. */
#ifndef ZINF_KERNELS_UPDATE_H_
#define ZINF_KERNELS_UPDATE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/cpu.h"
#include "zinf/base/dtype.h"
#include "zinf/base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_optimizer { ZINF_ADAMW, ZINF_ADAM_L2, ZINF_SGD };

/* The user's numbers; doubles, as the configuration gives them. */
struct zinf_optimizer_params {
    enum zinf_optimizer kind;
    double beta1, beta2, eps, weight_decay;
    bool bias_correction;
};

/* What one update needs of the step; computed once in double by zinf_update_scalars. */
struct zinf_update_scalars {
    enum zinf_optimizer kind;
    float beta1, one_minus_beta1, beta2, one_minus_beta2, eps, weight_decay;
    float neg_step_size;        /* -lr / c1 (SGD: -lr) */
    float inv_sqrt_c2;          /* 1 / sqrt(1 - b2^t) */
    float decay_factor;         /* 1 - lr * wd (AdamW), else 1 */
    float grad_scale;
};
/* t >= 1 is the number of this applied update. lr, scale and clip of the verdict. */
void zinf_update_scalars_set(struct zinf_update_scalars *out, const struct zinf_optimizer_params *p, uint64_t t,
                             double lr, double grad_scale);

struct zinf_update {
    struct zinf_update_scalars k;
    enum zinf_dtype weight_dtype;   /* F32: hi is float, lo NULL. BF16: hi is uint16, lo int16 */
    enum zinf_dtype grad_dtype;
    void     *hi;
    int16_t  *lo;
    float    *m, *v;                /* NULL for SGD */
    const void *grad;
    uint64_t  n;                    /* elements; 0 is fine */
};

/* ORed into *bad; a hit must stop the run before anything is committed. */
enum { ZINF_BAD_WEIGHT = 1, ZINF_BAD_M = 2, ZINF_BAD_V = 4 };   /* new hi or master, m, v has exponent all ones */

/* Runs the update on the calling thread. isa must be available. A NaN may have another payload on another ISA; it is
 * always reported. */
void zinf_update_range(enum zinf_isa isa, const struct zinf_update *u, uint32_t *bad);
/* The same, cut in tiles of a fixed size over the pool. *bad is set, not ORed. */
void zinf_update_pool(enum zinf_isa isa, struct zinf_pool *pool, const struct zinf_update *u, uint32_t *bad);

static inline void zinf_split(uint32_t bits, uint16_t *hi, int16_t *lo)
{
    uint32_t h = (bits + 0x8000u) >> 16;

    *hi = (uint16_t)h;
    *lo = (int16_t)(uint16_t)(bits - (h << 16));
}
static inline uint32_t zinf_join(uint16_t hi, int16_t lo) { return ((uint32_t)hi << 16) + (uint32_t)(int32_t)lo; }

/* fp32 masters -> hi, lo and back, n elements (import, initialisation, export). Returns the index of the first element
 * that is not finite as a master or whose hi is not finite, or n. */
uint64_t zinf_split_range(const float *master, uint16_t *hi, int16_t *lo, uint64_t n);
void zinf_join_range(const uint16_t *hi, const int16_t *lo, float *master, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_UPDATE_H_ */
