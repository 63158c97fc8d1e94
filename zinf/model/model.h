/* zinf/model/model.h - a Hugging Face config.json becomes a chain of layers.
 *
 *   zinf_model_open("folder or config.json", seq, log, &m, &st);   m->chain: the engine;   m->config_text: the export
 *
 * Nothing here holds weights: a model is names, shapes and functions. A config value that would change the maths and is
 * not built is an error with its line; so is a key nobody knows.
 * Threads: a model is immutable once open. */
#ifndef ZINF_MODEL_MODEL_H_
#define ZINF_MODEL_MODEL_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"
#include "zinf/model/llama.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_model {
    struct zinf_chain chain;
    uint32_t seq;                    /* the sequence length it was opened for */
    uint32_t max_positions;
    uint64_t nr_params;              /* elements; a tied embedding counts once */
    enum zinf_dtype dtype;           /* torch_dtype of the config, F32 when it has none */
    char    *config_text;            /* config.json as read, NUL-terminated */
    size_t   config_nbytes;
    struct zinf_llama llama;         /* what the layers' ctx points to */
    struct zinf_param *params;       /* every parameter of the chain */
    struct zinf_layer *layers;       /* the layers, then the head */
    char    *names;
};

/* path: a folder that holds config.json, or that file. seq 0 = min(1024, the model's maximum). *out must be closed; on
 * failure it is NULL. Returns 0, -EINVAL (what the config says), -ENOENT, -ENOMEM, or what reading said. */
int  zinf_model_open(const char *path, uint32_t seq, const struct zinf_log *log, struct zinf_model **out,
                     struct zinf_status *st);
/* The same from text; name is for messages. */
int  zinf_model_parse(const char *text, size_t nbytes, const char *name, uint32_t seq, const struct zinf_log *log,
                      struct zinf_model **out, struct zinf_status *st);
void zinf_model_close(struct zinf_model *m);      /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_MODEL_MODEL_H_ */
