/* zinf/checkpoint/hf_export.h - a Hugging Face folder: config.json and safetensors, the weights fetched piece by piece. */
#ifndef ZINF_CHECKPOINT_HF_EXPORT_H_
#define ZINF_CHECKPOINT_HF_EXPORT_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/dtype.h"
#include "zinf/base/status.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_hf_export_opts {
    const char *dir;                             /* made if missing (its parent must exist), else empty or an export */
    const struct zinf_param *const *params;      /* each once; in the order of the file */
    uint32_t nr_params;
    enum zinf_dtype dtype;
    const char *config_text;                     /* the model's config.json; NULL: none is written */
    size_t   config_nbytes;
    uint64_t shard_nbytes;                       /* 0 = 5e9 */
    size_t   piece_nbytes;                       /* asked for at once; 0 = 1 MiB */
    /* Elements [first, first + nr_elems) of params[param], in dtype, into out. Called in order. 0 or -errno with a line. */
    int (*fetch)(void *ctx, uint32_t param, uint64_t first, uint64_t nr_elems, void *out, struct zinf_status *st);
    void *ctx;
};

/* config.json is written last: a folder without one is not whole. Returns 0, -EEXIST (dir holds something else), -EINVAL, or
 * what fetch and writing said; then nothing new has its final name, unless renaming itself failed. */
int zinf_hf_export(const struct zinf_hf_export_opts *opts, struct zinf_status *st);
/* Only the check of dir, for the start of a run: 0, or -EEXIST, -ENOTDIR ... with a line. */
int zinf_hf_check_dir(const char *dir, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_HF_EXPORT_H_ */
