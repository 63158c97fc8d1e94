/* kernels/cpu/vector.c - which table serves which instruction set. */
#include "kernels/cpu/vector.h"

const struct zinf_vector_ops *zinf_vector_ops_get(enum zinf_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ZINF_ISA_AVX2:
        return &zinf_vector_avx2;
    case ZINF_ISA_AVX512:
        return &zinf_vector_avx512;
#elif defined(__aarch64__)
    case ZINF_ISA_NEON:
        return &zinf_vector_neon;
#endif
    default:
        return NULL;
    }
}
