/* zinf/model/llama_layer.h - the functions of one decoder layer; zinf_layer.ctx is its struct zinf_llama. */
#ifndef ZINF_MODEL_LLAMA_LAYER_H_
#define ZINF_MODEL_LLAMA_LAYER_H_

#include "zinf/model/llama.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The order of a layer's parameters. */
enum zinf_llama_param {
    ZINF_LLAMA_Q, ZINF_LLAMA_K, ZINF_LLAMA_V, ZINF_LLAMA_O, ZINF_LLAMA_GATE, ZINF_LLAMA_UP, ZINF_LLAMA_DOWN,
    ZINF_LLAMA_NORM_IN, ZINF_LLAMA_NORM_POST, ZINF_LLAMA_NR_PARAMS
};

size_t zinf_llama_layer_work_nbytes(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width);
/* The rotation table [seq, head_dim / 2, 2] (cos, sin), computed in double. */
size_t zinf_llama_rope_nbytes(const struct zinf_layer *l, uint32_t batch, uint32_t seq);
void   zinf_llama_rope_fill(const struct zinf_layer *l, uint32_t batch, uint32_t seq, void *out);
/* 0 or what an operation returned. */
int    zinf_llama_layer_forward(const struct zinf_layer *l, const struct zinf_call *c);
int    zinf_llama_layer_backward(const struct zinf_layer *l, const struct zinf_call *c);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_MODEL_LLAMA_LAYER_H_ */
