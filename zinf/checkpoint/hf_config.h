/* zinf/checkpoint/hf_config.h - changes the dtype in a config.json and leaves every other byte of it alone. */
#ifndef ZINF_CHECKPOINT_HF_CONFIG_H_
#define ZINF_CHECKPOINT_HF_CONFIG_H_

#include <stddef.h>

#include "zinf/base/dtype.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* text (a JSON object) with its top-level torch_dtype and dtype, whichever it has, set to dtype's name; torch_dtype is added
 * when it has neither. *out is malloc'ed and NUL-terminated. Returns 0, -EINVAL (no JSON object), -ENOMEM. */
int zinf_hf_config_with_dtype(const char *text, size_t nbytes, enum zinf_dtype dtype, char **out, size_t *out_nbytes,
                              struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_HF_CONFIG_H_ */
