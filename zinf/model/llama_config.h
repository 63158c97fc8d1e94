/* zinf/model/llama_config.h - reads a Hugging Face LlamaForCausalLM configuration into struct zinf_llama, or says what
 * in it this program cannot do. */
#ifndef ZINF_MODEL_LLAMA_CONFIG_H_
#define ZINF_MODEL_LLAMA_CONFIG_H_

#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"
#include "zinf/config/json.h"
#include "zinf/model/llama.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0, or -EINVAL with "name:line: key ...". */
int zinf_llama_config(const struct zinf_json_doc *doc, const struct zinf_log *log, struct zinf_llama *out,
                      enum zinf_dtype *dtype, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_MODEL_LLAMA_CONFIG_H_ */
