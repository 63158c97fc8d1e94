/* kernels/cpu/openblas.c - OpenBLAS as one function, where it is linked in. */
#include "kernels/cpu/openblas.h"

#if ZINF_HAVE_OPENBLAS
#include <cblas.h>

bool zinf_openblas_linked(void) { return true; }

void zinf_openblas_start(void) { openblas_set_num_threads(1); }

const char *zinf_openblas_corename(void) { return openblas_get_corename(); }

void zinf_openblas_sgemm(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a, uint64_t lda,
                         const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc)
{
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, (blasint)m,
                (blasint)n, (blasint)k, 1.0f, a, (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}
#else
#include <stdlib.h>

bool zinf_openblas_linked(void) { return false; }

void zinf_openblas_start(void) {}

const char *zinf_openblas_corename(void) { return ""; }

/* Nobody asks for it: the device refuses to open with ZINF_GEMM=openblas. */
void zinf_openblas_sgemm(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a, uint64_t lda,
                         const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)beta,
        (void)c, (void)ldc;
    abort();
}
#endif
