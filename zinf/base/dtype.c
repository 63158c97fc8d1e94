/* zinf/base/dtype.c - names of element types, and IEEE half precision in integer arithmetic. */
#include "zinf/base/dtype.h"

#include <errno.h>

static const struct {
    const char *name, *safetensors;
} types[ZINF_NR_DTYPES] = {
    [ZINF_F32] = { "fp32", "F32" },
    [ZINF_BF16] = { "bf16", "BF16" },
    [ZINF_F16] = { "fp16", "F16" },
};

const char *zinf_dtype_name(enum zinf_dtype t) { return types[t].name; }
const char *zinf_dtype_safetensors(enum zinf_dtype t) { return types[t].safetensors; }

int zinf_dtype_parse(const char *text, enum zinf_dtype *out)
{
    for (int i = 0; i < ZINF_NR_DTYPES; i++) {
        if (strcmp(text, types[i].name) == 0 || strcmp(text, types[i].safetensors) == 0) {
            *out = (enum zinf_dtype)i;
            return 0;
        }
    }
    return -EINVAL;
}

/* Both directions equal the F16C instructions bit for bit, also in making a signalling NaN quiet. */
float zinf_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 0x1fu, frac = h & 0x3ffu;

    if (exp == 0x1f)
        return zinf_f32_from_bits(sign | 0x7f800000u | (frac << 13) | (frac ? 0x400000u : 0));
    if (exp == 0) {
        if (frac == 0)
            return zinf_f32_from_bits(sign);
        /* Subnormal, frac * 2^-24: shift the first one to the hidden bit's place (bit 10). */
        uint32_t shift = (uint32_t)__builtin_clz(frac) - 21;

        return zinf_f32_from_bits(sign | ((113 - shift) << 23) | (((frac << shift) & 0x3ffu) << 13));
    }
    return zinf_f32_from_bits(sign | ((exp + 112) << 23) | (frac << 13));
}

uint16_t zinf_f32_to_f16(float f)
{
    uint32_t u = zinf_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u)                  /* 65520 and more rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a >= 0x38800000u)                  /* normal: 2^-14 and more */
        return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
    if (a <= 0x33000000u)                  /* 2^-25 and less: a tie or below, to even 0 */
        return (uint16_t)sign;
    /* Subnormal: the 24-bit significand in units of 2^-24, rounded to nearest even. */
    uint32_t frac = (a & 0x7fffffu) | 0x800000u, shift = 126 - (a >> 23);
    uint32_t half = 1u << (shift - 1), rest = frac & ((1u << shift) - 1), q = frac >> shift;

    return (uint16_t)(sign | (q + (rest > half || (rest == half && (q & 1u)))));
}
