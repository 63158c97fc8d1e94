/* kernels/cpu/vector_avx2.c - the vector forms in AVX2 with FMA and F16C. */
#if defined(__x86_64__)
#define ZINF_SIMD_AVX2 1
#include "kernels/cpu/convert_vector.h"
#include "kernels/cpu/norm_vector.h"
#include "kernels/cpu/update_vector.h"
#include "kernels/cpu/vector.h"

const struct zinf_vector_ops zinf_vector_avx2 = {
    .convert = convert_vector,
    .update = update_vector,
    .round_squares = round_squares_vector,
    .add = add_vector,
};
#else
/* ISO C asks for a declaration in every file. */
typedef int zinf_vector_avx2_is_for_another_processor;
#endif
