/* zinf/model/llama.h - what a Llama-style decoder is made of: its sizes, its layer and its head.
 *
 *   layer: x -> rmsnorm -> q, k, v -> rope -> causal attention -> o -> + -> rmsnorm
 *          -> silu(gate) * up -> down -> + -> y
 *   head:  x -> rmsnorm -> logits -> cross-entropy
 *
 * Inside a layer everything is fp32; the boundaries x, y, dx are in the run's dtype and rounded once. Parameters have
 * the names, shapes ([out, in]) and order of a Hugging Face checkpoint. */
#ifndef ZINF_MODEL_LLAMA_H_
#define ZINF_MODEL_LLAMA_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_llama {
    uint64_t hidden, intermediate, nr_heads, nr_kv_heads, head_dim, vocab;
    uint32_t nr_layers, max_positions;
    float    eps;
    double   rope_theta;
    float    init_std;
    bool     tied;
};

#ifdef __cplusplus
}
#endif
#endif /* ZINF_MODEL_LLAMA_H_ */
