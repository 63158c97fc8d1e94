/* kernels/cpu/attention_tiles.h - attention on the pool: which pieces there are, and in which order they start. */
#ifndef ZINF_KERNELS_CPU_ATTENTION_TILES_H_
#define ZINF_KERNELS_CPU_ATTENTION_TILES_H_

#include "kernels/cpu/gemm.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As attention_forward and attention_backward of struct zinf_device_ops, with the environment's kernels, pool and
 * scratch. -EINVAL for shapes that do not fit together. */
int zinf_cpu_attention_forward(const struct zinf_cpu_gemm_env *env, const struct zinf_attention *a);
int zinf_cpu_attention_backward(const struct zinf_cpu_gemm_env *env, const struct zinf_attention *a);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_ATTENTION_TILES_H_ */
