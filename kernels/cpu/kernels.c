/* kernels/cpu/kernels.c - which build of the kernels serves an instruction set. */
#include "kernels/cpu/kernels.h"

struct zinf_cpu_kernels zinf_cpu_kernels_for(enum zinf_isa isa)
{
#if defined(__x86_64__)
    if (isa == ZINF_ISA_AVX2 || isa == ZINF_ISA_AVX512)
        return (struct zinf_cpu_kernels){
            .isa = isa, .e = &zinf_cpu_elementwise_avx2, .p = &zinf_cpu_products_avx2, .a = &zinf_cpu_attention_avx2,
        };
#endif
    return (struct zinf_cpu_kernels){
        .isa = isa, .e = &zinf_cpu_elementwise_scalar, .p = &zinf_cpu_products_scalar, .a = &zinf_cpu_attention_scalar,
    };
}
