/* zinf/base/cpu.h - what this processor can do, chosen by feature bits only (never by vendor). */
#ifndef ZINF_BASE_CPU_H_
#define ZINF_BASE_CPU_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_isa { ZINF_ISA_SCALAR, ZINF_ISA_AVX2, ZINF_ISA_AVX512, ZINF_ISA_NEON };

/* The best instruction set the processor and the operating system offer: AVX2 also means FMA and F16C. */
enum zinf_isa zinf_isa_best(void);
bool zinf_isa_available(enum zinf_isa isa);
const char *zinf_isa_name(enum zinf_isa isa);     /* "scalar" "avx2" "avx512" "neon" */
/* What kernels use: the environment's ZINF_ISA if set (-EINVAL with a line when unknown or not available), else the
 * best. */
int zinf_isa_choose(enum zinf_isa *out, struct zinf_status *st);
uint32_t zinf_cpu_count(void);                    /* processors this process may run on (affinity), at least 1 */
const char *zinf_cpu_model(char *buf, size_t buf_nbytes);   /* "model name" of /proc/cpuinfo, or "unknown" */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_CPU_H_ */
