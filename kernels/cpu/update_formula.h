/* kernels/cpu/update_formula.h - the optimizer on one element: the single truth of kernels/update.h.
 *
 * Plain C, included by C and by CUDA alike (it may be compiled as C++ and as device code). Every line is one IEEE
 * operation rounded to nearest even, so a compiler has nothing to contract and a vector form with the same operations
 * in the same order gives the same bits. Only the payload of a NaN may differ, and ZINF_BAD_* reports every NaN. */
#ifndef ZINF_KERNELS_CPU_UPDATE_FORMULA_H_
#define ZINF_KERNELS_CPU_UPDATE_FORMULA_H_

#include "kernels/update.h"

#if defined(__CUDA_ARCH__)
#define ZINF_FORMULA      static __device__ __forceinline__
#define ZINF_FMA(a, b, c) __fmaf_rn(a, b, c)
#define ZINF_MUL(a, b)    __fmul_rn(a, b)
#define ZINF_DIV(a, b)    __fdiv_rn(a, b)
#define ZINF_SQRT(a)      __fsqrt_rn(a)
#else
#include <math.h>
#if defined(__CUDACC__)
#define ZINF_FORMULA static inline __host__ __device__
#else
#define ZINF_FORMULA static inline
#endif
#define ZINF_FMA(a, b, c) fmaf(a, b, c)
#define ZINF_MUL(a, b)    ((a) * (b))
#define ZINF_DIV(a, b)    ((a) / (b))
#define ZINF_SQRT(a)      sqrtf(a)
#endif

/* The gradient as the optimizer sees it: unscaled, clipped, with L2 decay where the optimizer has it. */
ZINF_FORMULA float zinf_update_grad(const struct zinf_update_scalars *k, enum zinf_optimizer kind, float p, float grad)
{
    float g = ZINF_MUL(grad, k->grad_scale);

    return kind == ZINF_ADAMW ? g : ZINF_FMA(k->weight_decay, p, g);
}

/* Returns the new parameter; *m and *v are updated. */
ZINF_FORMULA float zinf_update_adam(const struct zinf_update_scalars *k, enum zinf_optimizer kind, float p, float *m,
                                    float *v, float grad)
{
    float g = zinf_update_grad(k, kind, p, grad);
    float d;

    *m = ZINF_FMA(k->beta1, *m, ZINF_MUL(k->one_minus_beta1, g));
    *v = ZINF_FMA(k->beta2, *v, ZINF_MUL(ZINF_MUL(k->one_minus_beta2, g), g));
    d = ZINF_FMA(ZINF_SQRT(*v), k->inv_sqrt_c2, k->eps);
    return ZINF_FMA(k->neg_step_size, ZINF_DIV(*m, d), ZINF_MUL(k->decay_factor, p));
}

ZINF_FORMULA float zinf_update_sgd(const struct zinf_update_scalars *k, float p, float grad)
{
    return ZINF_FMA(k->neg_step_size, zinf_update_grad(k, ZINF_SGD, p, grad), p);
}

#endif /* ZINF_KERNELS_CPU_UPDATE_FORMULA_H_ */
