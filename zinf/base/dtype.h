/* zinf/base/dtype.h - element types, their sizes, and scalar conversions that every other conversion must equal.
 * Narrowing rounds to nearest even; NaN stays NaN (quiet), Inf stays Inf. The split master rounds half away from zero
 * and lives in kernels/cpu/update.h. */
#ifndef ZINF_BASE_DTYPE_H_
#define ZINF_BASE_DTYPE_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_dtype { ZINF_F32, ZINF_BF16, ZINF_F16, ZINF_NR_DTYPES };

static inline size_t zinf_dtype_nbytes(enum zinf_dtype t) { return t == ZINF_F32 ? 4 : 2; }
/* "fp32" "bf16" "fp16" as DeepSpeed spells them; "F32" "BF16" "F16" as safetensors does. */
const char *zinf_dtype_name(enum zinf_dtype t);
const char *zinf_dtype_safetensors(enum zinf_dtype t);
int zinf_dtype_parse(const char *text, enum zinf_dtype *out);   /* either spelling; 0 or -EINVAL */

static inline uint32_t zinf_f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float zinf_f32_from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline float zinf_bf16_to_f32(uint16_t h) { return zinf_f32_from_bits((uint32_t)h << 16); }
static inline uint16_t zinf_f32_to_bf16(float f)
{
    uint32_t u = zinf_f32_bits(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float zinf_f16_to_f32(uint16_t h);
uint16_t zinf_f32_to_f16(float f);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_DTYPE_H_ */
