/* zinf/checkpoint/hf_weights.h - reads the weights in a Hugging Face folder, as fp32, piece by piece.
 *
 *   DIR/model.safetensors, or DIR/model.safetensors.index.json and the shards it names
 *
 * Open checks everything that can be known without reading the data, so that a start fails before anything is made. RAM: the
 * headers. Threads: what is open is immutable; reading is safe from any thread. */
#ifndef ZINF_CHECKPOINT_HF_WEIGHTS_H_
#define ZINF_CHECKPOINT_HF_WEIGHTS_H_

#include <stdint.h>

#include "zinf/base/log.h"
#include "zinf/base/status.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_hf_weights;

/* params is borrowed for the call. Every parameter must be there, in its shape, in F32, F16 or BF16; tensors that are no
 * parameter are named in a note to log (NULL: none). A tied model's chain has no lm_head.weight, so none is asked for.
 * Returns 0; -ENOENT (no weights in dir, shards or tensors missing) or -EINVAL (shape, dtype, an unsound file) with names; or
 * -errno. */
int  zinf_hf_weights_open(const char *dir, const struct zinf_param *const *params, uint32_t nr_params,
                          const struct zinf_log *log, struct zinf_hf_weights **out, struct zinf_status *st);
/* Elements [first, first + n) of params[param] into out. Returns 0, -EDOM (a value is not finite: tensor and index are told),
 * -EINVAL (outside it), or what reading said. */
int  zinf_hf_weights_read(const struct zinf_hf_weights *w, uint32_t param, uint64_t first, uint64_t n, float *out,
                          struct zinf_status *st);
void zinf_hf_weights_close(struct zinf_hf_weights *w);      /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_HF_WEIGHTS_H_ */
