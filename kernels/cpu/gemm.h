/* kernels/cpu/gemm.h - products as fixed output tiles on the pool. Internal to kernels/cpu and its tests. */
#ifndef ZINF_KERNELS_CPU_GEMM_H_
#define ZINF_KERNELS_CPU_GEMM_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/kernels.h"
#include "kernels/device.h"
#include "zinf/base/pool.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_cpu_gemm_kind { ZINF_CPU_GEMM_OWN, ZINF_CPU_GEMM_OPENBLAS };

/* ZINF_GEMM when set (-EINVAL with a line when unknown or not linked in), else OpenBLAS where it is linked in. */
int zinf_cpu_gemm_choose(enum zinf_cpu_gemm_kind *out, struct zinf_status *st);

/* Floats of scratch per worker. */
#define ZINF_CPU_GEMM_FLOATS (256u * 256u + 256u * 384u + ZINF_CPU_PACK_FLOATS)

struct zinf_cpu_gemm_env {
    struct zinf_cpu_kernels kernels;
    enum zinf_cpu_gemm_kind kind;
    struct zinf_pool *pool;
    float *scratch;               /* worker w's begins at w * scratch_floats */
    uint64_t scratch_floats;
};

/* The size of an output tile: a function of the shape only (and of whether C is stored as fp32). */
void zinf_cpu_gemm_tile_size(uint64_t m, uint64_t n, uint64_t k, bool c_is_f32, uint64_t *tile_m, uint64_t *tile_n);

/* 0, or -EINVAL: a size or leading dimension that does not fit, beta neither 0 nor 1, or beta 1 with a C that is not
 * fp32. */
int zinf_cpu_gemm(const struct zinf_cpu_gemm_env *env, const struct zinf_gemm *g);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_GEMM_H_ */
