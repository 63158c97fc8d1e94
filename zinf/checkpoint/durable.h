/* zinf/checkpoint/durable.h - a file that appears complete or not at all: temporary name, flush, rename, flush the folder. */
#ifndef ZINF_CHECKPOINT_DURABLE_H_
#define ZINF_CHECKPOINT_DURABLE_H_

#include <stddef.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_TMP_SUFFIX ".tmp"

/* All return 0 or -errno with a line. fd_out of a new, empty dir/name.tmp. */
int zinf_durable_create(const char *dir, const char *name, int *fd_out, struct zinf_status *st);
/* Every byte, also when the system takes fewer at a time. */
int zinf_durable_write(int fd, const char *dir, const char *name, const void *data, size_t nbytes, struct zinf_status *st);
/* Flushes and closes fd, whatever happens. */
int zinf_durable_seal(int fd, const char *dir, const char *name, struct zinf_status *st);
/* dir/name.tmp becomes dir/name. */
int zinf_durable_rename(const char *dir, const char *name, struct zinf_status *st);
int zinf_durable_sync_dir(const char *dir, struct zinf_status *st);
/* create, write, seal, rename, sync_dir of a small file. */
int zinf_durable_put(const char *dir, const char *name, const void *data, size_t nbytes, struct zinf_status *st);
/* Removes dir/name (with its .tmp suffix when tmp); that it is not there is fine. */
void zinf_durable_remove(const char *dir, const char *name, int tmp);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_DURABLE_H_ */
