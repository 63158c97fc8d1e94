/* kernels/cpu/vector_neon.c - the vector forms in NEON. */
#if defined(__aarch64__)
#define ZINF_SIMD_NEON 1
#include "kernels/cpu/convert_vector.h"
#include "kernels/cpu/norm_vector.h"
#include "kernels/cpu/update_vector.h"
#include "kernels/cpu/vector.h"

const struct zinf_vector_ops zinf_vector_neon = {
    .convert = convert_vector,
    .update = update_vector,
    .round_squares = round_squares_vector,
    .add = add_vector,
};
#else
/* ISO C asks for a declaration in every file. */
typedef int zinf_vector_neon_is_for_another_processor;
#endif
