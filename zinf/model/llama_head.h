/* zinf/model/llama_head.h - the head: final norm, logits in chunks of rows (never all of them at once), cross-entropy.
 * Parameters: model.norm.weight and lm_head.weight, or, tied, the embedding and model.norm.weight. */
#ifndef ZINF_MODEL_LLAMA_HEAD_H_
#define ZINF_MODEL_LLAMA_HEAD_H_

#include "zinf/model/llama.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

size_t zinf_llama_head_work_nbytes(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width);
/* 0 or what an operation returned. */
int    zinf_llama_head_forward(const struct zinf_layer *l, const struct zinf_call *c);
int    zinf_llama_head_backward(const struct zinf_layer *l, const struct zinf_call *c);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_MODEL_LLAMA_HEAD_H_ */
