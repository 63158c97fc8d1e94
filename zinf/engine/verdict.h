/* zinf/engine/verdict.h - V(t): one record per iteration that decides the update of that iteration and nothing else does. */
#ifndef ZINF_ENGINE_VERDICT_H_
#define ZINF_ENGINE_VERDICT_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_verdict {
    uint64_t iteration;        /* batches consumed so far, this one included */
    uint64_t applied;          /* updates applied so far, this one included unless it is skipped: Adam's t */
    uint64_t next_sample;      /* data cursor after this iteration */
    uint64_t tokens;           /* trained in this iteration */
    double   loss;             /* mean over them */
    double   grad_norm;        /* before clipping */
    double   clip;             /* factor on the gradient: min(1, limit / (norm + 1e-6)); 1 = not clipped */
    double   lr;
};

/* The clip factor as torch.nn.utils.clip_grad_norm_ and DeepSpeed compute it; limit 0 = no clipping. */
double zinf_clip_factor(double grad_norm, double limit);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_ENGINE_VERDICT_H_ */
