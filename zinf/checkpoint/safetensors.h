/* zinf/checkpoint/safetensors.h - the safetensors format: what a file looks like, its dtypes, and a reader that trusts nothing.
 *
 *   u64 LE n | JSON header, n bytes, padded with spaces so that data begins at a multiple of 8 | data, without holes
 *   header: {"__metadata__": {"format": "pt"}, "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * Offsets are from the start of the data. A file is refused unless its tensors tile the data exactly.
 * Threads: an open file is immutable; reading is safe from any thread. */
#ifndef ZINF_CHECKPOINT_SAFETENSORS_H_
#define ZINF_CHECKPOINT_SAFETENSORS_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_ST_HEADER_NBYTES_MAX (100u * 1000 * 1000)
#define ZINF_ST_DIMS_MAX 8u

struct zinf_st_tensor {
    const char *name;
    char     dtype[12];                      /* "F32" "BF16" ... */
    uint32_t elem_nbytes, nr_dims;
    uint64_t dims[ZINF_ST_DIMS_MAX];
    uint64_t off_bytes, nbytes;              /* in the file */
};

struct zinf_st_file;

/* Returns 0; -EINVAL with the reason when the file is not sound; -ENOENT and what reading said; -ENOMEM. */
int  zinf_st_open(const char *path, struct zinf_st_file **out, struct zinf_status *st);
void zinf_st_close(struct zinf_st_file *f);                       /* NULL is fine */
uint32_t zinf_st_nr_tensors(const struct zinf_st_file *f);
/* In the order of the data. */
const struct zinf_st_tensor *zinf_st_at(const struct zinf_st_file *f, uint32_t i);
const struct zinf_st_tensor *zinf_st_find(const struct zinf_st_file *f, const char *name);      /* NULL = none */
/* __metadata__[key], NULL = none. */
const char *zinf_st_metadata(const struct zinf_st_file *f, const char *key);
/* Bytes [off_bytes, off_bytes + nbytes) of a tensor. Returns 0, -EINVAL (outside it), -EIO (the file shrank), or what reading
 * said. */
int  zinf_st_read(const struct zinf_st_file *f, const struct zinf_st_tensor *t, uint64_t off_bytes, void *out, size_t nbytes,
                  struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_SAFETENSORS_H_ */
