/* zinf/engine/verdict.h - V(t): one record per iteration that decides the update of that iteration and nothing else does. It is
 * the payload of the commit record (swapper/record.h) and of a portable checkpoint. */
#ifndef ZINF_ENGINE_VERDICT_H_
#define ZINF_ENGINE_VERDICT_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_verdict {
    uint64_t iteration;        /* batches consumed so far, this one included */
    uint64_t applied;          /* updates applied so far, this one included unless it is skipped: Adam's t */
    uint64_t next_sample;      /* data cursor after this iteration */
    uint64_t tokens;           /* trained in this iteration */
    uint64_t skips_in_a_row;   /* 0 = this iteration is applied */
    double   loss;             /* mean over them */
    double   grad_norm;        /* before clipping; not finite in a skip */
    double   clip;             /* factor on the gradient: min(1, limit / (norm + 1e-6)); 1 = not clipped */
    double   lr;
};

/* The clip factor as torch.nn.utils.clip_grad_norm_ and DeepSpeed compute it; limit 0 = no clipping. */
double zinf_clip_factor(double grad_norm, double limit);

/* Encoded: u32 version 1, u32 0, then the fields above in order, little-endian, doubles as their bits. */
#define ZINF_VERDICT_NBYTES 80u
void zinf_verdict_encode(const struct zinf_verdict *v, unsigned char out[ZINF_VERDICT_NBYTES]);
/* Returns 0, or -EINVAL with a line when nbytes or the version is another. */
int  zinf_verdict_decode(const void *data, uint32_t nbytes, struct zinf_verdict *out, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_ENGINE_VERDICT_H_ */
