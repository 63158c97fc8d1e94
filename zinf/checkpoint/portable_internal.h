/* zinf/checkpoint/portable_internal.h - what writer, reader and list of portable checkpoints share: checkpoint.json.
 *
 *   {"format": "zinf checkpoint", "version": 1, "run": {...}, "nr_kinds": 3,
 *    "state": {"nbytes": N, "header_nbytes": H, "header_crc32c": C},
 *    "segments": [[tensor, first, nr_elems, crc32c], ...]}
 *
 * tensor counts the tensors of state.safetensors in the order of their data: kind * parameters + parameter. The header is all
 * that stands before the data. Segments tile the data. */
#ifndef ZINF_CHECKPOINT_PORTABLE_INTERNAL_H_
#define ZINF_CHECKPOINT_PORTABLE_INTERNAL_H_

#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/config/json.h"

#define ZINF_PORTABLE_FORMAT "zinf checkpoint"
#define ZINF_PORTABLE_VERSION 1

static const char *const zinf_portable_kinds[ZINF_NR_PORTABLE_KINDS] = { "master.", "exp_avg.", "exp_avg_sq." };

struct zinf_portable_segment { uint64_t first, nr_elems; uint32_t tensor, crc; };
/* By tensor, then first element: the order of the file. */
int zinf_portable_by_place(const void *a, const void *b);

struct zinf_portable_manifest {
    struct zinf_json_doc doc;
    const struct zinf_json *run, *segments;      /* in doc */
    uint64_t state_nbytes, header_nbytes;
    uint32_t header_crc, nr_kinds;
};
/* Reads folder/checkpoint.json and checks that state.safetensors has its size. Returns 0, -ENOENT, -EBADMSG, -EINVAL (a later
 * version), -errno; only after 0 there is something to free. */
int  zinf_portable_manifest_read(const char *folder, struct zinf_portable_manifest *out, struct zinf_status *st);
void zinf_portable_manifest_free(struct zinf_portable_manifest *m);

#endif /* ZINF_CHECKPOINT_PORTABLE_INTERNAL_H_ */
