/* zinf/checkpoint/st_writer.h - writes safetensors as a stream: every name and shape first, then the bytes in that order.
 *
 *   opened -> write, write, ... (shards: name.tmp, each flushed when full) -> finish: all renamed, the folder flushed
 *
 * One shard is model.safetensors; more are model-0000i-of-0000n.safetensors with model.safetensors.index.json. Nothing has
 * its final name before every byte is on the drive; closing without finish removes what was written. RAM: the header. */
#ifndef ZINF_CHECKPOINT_ST_WRITER_H_
#define ZINF_CHECKPOINT_ST_WRITER_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/checkpoint/st_header.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_st_writer_opts {
    const char *dir;                         /* an existing folder; borrowed until close */
    const struct zinf_st_desc *tensors;      /* borrowed until close */
    uint32_t nr_tensors;
    uint64_t shard_nbytes;                   /* at most so many data bytes a file, unless one tensor has more; 0 = 5e9 */
};

struct zinf_st_writer;

/* Returns 0, -EINVAL (a name twice, sizes beyond 64 bits), -ENOMEM, or what creating the first file said. */
int  zinf_st_writer_open(const struct zinf_st_writer_opts *opts, struct zinf_st_writer **out, struct zinf_status *st);
/* The next bytes of the data: little-endian elements, tensor after tensor. Returns 0, -EINVAL (more than the tensors have), or
 * what writing said; after an error only close is left. */
int  zinf_st_writer_write(struct zinf_st_writer *w, const void *data, size_t nbytes, struct zinf_status *st);
/* Every byte was given: renames, writes the index, removes model files of an earlier export that this one replaces. */
int  zinf_st_writer_finish(struct zinf_st_writer *w, struct zinf_status *st);
void zinf_st_writer_close(struct zinf_st_writer *w);      /* NULL is fine */

/* True for the names this writer gives or gave to files in a folder, temporary ones included. */
int  zinf_st_is_model_file(const char *name);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_ST_WRITER_H_ */
