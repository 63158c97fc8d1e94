/* kernels/cpu/openblas.h - OpenBLAS as one function, where it is linked in. Internal to kernels/cpu. */
#ifndef ZINF_KERNELS_CPU_OPENBLAS_H_
#define ZINF_KERNELS_CPU_OPENBLAS_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

bool zinf_openblas_linked(void);
/* One thread per product from here on: for the whole process, which is why nothing else of zinf calls OpenBLAS. Refuses
 * (-ENOMEM) where nr_threads threads could not multiply at once: OpenBLAS tries for ever to get a work space it cannot have. */
int zinf_openblas_start(uint32_t nr_threads, struct zinf_status *st);
/* The kernels it chose for this processor, as "Zen"; "" when not linked. */
const char *zinf_openblas_corename(void);
/* C = op(A) op(B) + beta C, row-major; every size and leading dimension at most INT32_MAX, k > 0. */
void zinf_openblas_sgemm(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a, uint64_t lda,
                         const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_OPENBLAS_H_ */
