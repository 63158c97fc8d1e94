/* zinf/checkpoint/portable.h - a named checkpoint of logical tensors: any world size, stage, layout and budget can load it.
 *
 *   PARENT/NAME/state.safetensors   fp32: "master.<parameter>", "exp_avg.<parameter>", "exp_avg_sq.<parameter>"
 *   PARENT/NAME/checkpoint.json     sealed (sealed.h): what the engine says of the state, and the CRC-32C of every segment
 *
 * A segment is the part of a parameter that was written at once, at any place in any order, from any thread. Until finish the
 * folder is called PARENT/.NAME.tmp; finish flushes the files, renames the folder (replacing one of that name) and flushes
 * PARENT, so that a name stands for a whole checkpoint at every moment. */
#ifndef ZINF_CHECKPOINT_PORTABLE_H_
#define ZINF_CHECKPOINT_PORTABLE_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/config/json.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_portable_kind { ZINF_MASTER, ZINF_EXP_AVG, ZINF_EXP_AVG_SQ, ZINF_NR_PORTABLE_KINDS };

struct zinf_portable_opts {
    const char *parent, *name;              /* borrowed until close */
    const struct zinf_param *const *params; /* borrowed until close */
    uint32_t nr_params;
    uint32_t nr_kinds;                      /* 1 (no moments) or 3 */
    uint32_t nr_segments;
};

struct zinf_portable_writer;
/* parent is made if missing (its parent must exist). Free space is checked first, then the file is reserved whole. Returns 0,
 * -ENOSPC with need and free, -EINVAL (the name), -EBUSY (somebody is writing it), -EEXIST (NAME is no checkpoint), or -errno
 * with a line; then nothing is left. */
int  zinf_portable_open(const struct zinf_portable_opts *opts, struct zinf_portable_writer **out, struct zinf_status *st);
/* Elements [first, first + n) of params[param], the whole of segment `segment` in one or several calls in ascending order from
 * one thread at a time; different segments from any threads. */
int  zinf_portable_write(struct zinf_portable_writer *w, uint32_t segment, uint32_t param, enum zinf_portable_kind kind,
                         uint64_t first, const float *data, uint64_t n, struct zinf_status *st);
/* meta: JSON text of an object, stored as "run"; its "step" orders the list. Every element of every tensor was written once,
 * else -EINVAL. Blocks until everything is on the drive under its name. After an error only close is left. */
int  zinf_portable_finish(struct zinf_portable_writer *w, const char *meta, struct zinf_status *st);
void zinf_portable_close(struct zinf_portable_writer *w);      /* without finish: removes what was written; NULL is fine */

struct zinf_portable;
/* Opens PARENT/NAME given as one path. Checks seal, header and every segment's CRC (one pass over the file), with bounded memory.
 * Returns 0, -EBADMSG with what is damaged, -ENOENT with what is missing, -errno. */
int  zinf_portable_load(const char *path, struct zinf_portable **out, struct zinf_status *st);
const struct zinf_json *zinf_portable_meta(const struct zinf_portable *p);
/* The parameters are those of the checkpoint, with their shapes; -EINVAL with the first that lacks, differs or is too many
 * otherwise. *nr_kinds (may be NULL) as it was saved. */
int  zinf_portable_match(const struct zinf_portable *p, const struct zinf_param *const *params, uint32_t nr_params,
                         uint32_t *nr_kinds, struct zinf_status *st);
/* From any thread. -EINVAL: there is no such tensor (no moments), or it has fewer elements. */
int  zinf_portable_read(const struct zinf_portable *p, const char *param, enum zinf_portable_kind kind, uint64_t first,
                        float *out, uint64_t n, struct zinf_status *st);
void zinf_portable_unload(struct zinf_portable *p);            /* NULL is fine */

/* Names of whole checkpoints in parent, oldest first by the step in their meta; for --keep and --resume. names: array of
 * malloc'ed strings, caller frees. A parent that does not exist holds none. What is listed is whole but not read through: load may still find damage.
 * A checkpoint that a crash left under its hidden name gets its own back; sweep: unfinished ones that nobody is writing, and
 * replaced ones, are removed. */
int  zinf_portable_list(const char *parent, bool sweep, char ***names, uint32_t *nr, struct zinf_status *st);
/* -ENOENT: there is none; -EEXIST: it holds other files and is left alone. */
int  zinf_portable_remove(const char *parent, const char *name, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_PORTABLE_H_ */
