/* kernels/cpu/cpu_device.h - what one must know of the CPU device beyond its table: its scratch and what it chose. */
#ifndef ZINF_KERNELS_CPU_CPU_DEVICE_H_
#define ZINF_KERNELS_CPU_CPU_DEVICE_H_

#include <stddef.h>

#include "kernels/device.h"
#include "zinf/base/cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch per worker (at most 1.5 MiB, a multiple of 64): what zinf_device_opts.scratch_nbytes must be at least. */
size_t zinf_cpu_scratch_nbytes(void);

/* The instruction set in use: ZINF_ISA, else the best. */
enum zinf_isa zinf_cpu_device_isa(const struct zinf_device *dev);
/* One line for the fingerprint and for people, as "cpu avx2 gemm=openblas(Zen)". Which product is used: ZINF_GEMM
 * (own or openblas; open fails when it is not available), else OpenBLAS where it is linked in. */
const char *zinf_cpu_device_describe(const struct zinf_device *dev, char *buf, size_t buf_nbytes);
/* The same of the device that open would make now, without making it. Returns 0, or -EINVAL as open would. */
int zinf_cpu_describe(char *buf, size_t buf_nbytes, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_CPU_DEVICE_H_ */
