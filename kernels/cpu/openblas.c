/* kernels/cpu/openblas.c - OpenBLAS as one function, where it is linked in. */
#define _GNU_SOURCE
#include "kernels/cpu/openblas.h"

#if ZINF_HAVE_OPENBLAS
#include <cblas.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

bool zinf_openblas_linked(void) { return true; }

/* Address space that a thread's first product takes, little of it ever touched: 128 MiB, which an allocator may round up. */
#define WORK_NBYTES ((size_t)256 << 20)

/* Finds a limit on address space (ulimit -v, overcommit_memory 2) while it can still be told. */
static bool has_room(uint32_t nr_threads)
{
    void *at = mmap(NULL, nr_threads * WORK_NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);

    return at != MAP_FAILED && !munmap(at, nr_threads * WORK_NBYTES);
}

int zinf_openblas_start(uint32_t nr_threads, struct zinf_status *st)
{
    if (!has_room(nr_threads))
        return zinf_fail(st, -ENOMEM,
                         "OpenBLAS needs %zu MiB of address space for %u threads: raise the limit (ulimit -v, "
                         "vm.overcommit_memory), set zinf.threads lower, or set ZINF_GEMM=own in the environment",
                         (size_t)nr_threads * (WORK_NBYTES >> 20), nr_threads);
    openblas_set_num_threads(1);
    return 0;
}

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

int zinf_openblas_start(uint32_t nr_threads, struct zinf_status *st)
{
    (void)nr_threads, (void)st;
    return 0;
}

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
