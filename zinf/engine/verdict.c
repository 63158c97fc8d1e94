/* zinf/engine/verdict.c - see verdict.h. */
#include "zinf/engine/verdict.h"

#include <errno.h>
#include <string.h>

enum { VERSION = 1, NR_FIELDS = 9 };

double zinf_clip_factor(double grad_norm, double limit)
{
    double factor;

    if (!(limit > 0))
        return 1;
    factor = limit / (grad_norm + 1e-6);
    return factor < 1 ? factor : 1;
}

static uint64_t bits(double d)
{
    uint64_t u;

    memcpy(&u, &d, sizeof(u));
    return u;
}

static double value(uint64_t u)
{
    double d;

    memcpy(&d, &u, sizeof(d));
    return d;
}

void zinf_verdict_encode(const struct zinf_verdict *v, unsigned char out[ZINF_VERDICT_NBYTES])
{
    const uint64_t fields[1 + NR_FIELDS] = {
        VERSION, v->iteration, v->applied, v->next_sample, v->tokens, v->skips_in_a_row, bits(v->loss), bits(v->grad_norm),
        bits(v->clip), bits(v->lr),
    };

    for (uint32_t i = 0; i < ZINF_VERDICT_NBYTES; i++)
        out[i] = (unsigned char)(fields[i / 8] >> (8 * (i % 8)));
}

int zinf_verdict_decode(const void *data, uint32_t nbytes, struct zinf_verdict *out, struct zinf_status *st)
{
    const unsigned char *b = data;
    uint64_t f[1 + NR_FIELDS] = { 0 };

    if (nbytes != ZINF_VERDICT_NBYTES)
        return zinf_fail(st, -EINVAL, "the verdict in the record has %u bytes, not %u: it is of another version of zinf", nbytes,
                         ZINF_VERDICT_NBYTES);
    for (uint32_t i = 0; i < ZINF_VERDICT_NBYTES; i++)
        f[i / 8] |= (uint64_t)b[i] << (8 * (i % 8));
    if (f[0] != VERSION)
        return zinf_fail(st, -EINVAL, "the verdict in the record has version %llu, not %u", (unsigned long long)f[0], VERSION);
    *out = (struct zinf_verdict){
        .iteration = f[1], .applied = f[2], .next_sample = f[3], .tokens = f[4], .skips_in_a_row = f[5],
        .loss = value(f[6]), .grad_norm = value(f[7]), .clip = value(f[8]), .lr = value(f[9]),
    };
    return 0;
}
