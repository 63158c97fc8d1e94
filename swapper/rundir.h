/* swapper/rundir.h - the folder zinf-<uuid>/ on a drive that holds a run's state, owned through a lock for the life of the
 * process.
 *
 *   DIR/zinf-<uuid>/        0700
 *     lock                  OFD write lock held while the owner lives; holds "pid host boot-id\n" for messages only
 *     state-<rank>          extents (swapper/store.h)
 *
 * A folder whose lock is free and that holds no valid record is garbage: cleared at the next start on the same DIR, with a line
 * that says how many bytes. A folder with a valid record is a checkpoint and is never cleared here. A live owner's folder is
 * never touched. */
#ifndef ZINF_SWAPPER_RUNDIR_H_
#define ZINF_SWAPPER_RUNDIR_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_rundir { int lock_fd; char path[1024]; char uuid[37]; };

/* uuid: 36 characters, lower case; random bytes from the kernel. */
int  zinf_uuid_make(char out[37], struct zinf_status *st);
/* Creates DIR/zinf-<uuid>/ and takes its lock. Returns 0 or -errno with a line naming the path and what to change. */
int  zinf_rundir_create(const char *dir, const char *uuid, struct zinf_rundir *out, struct zinf_status *st);
/* Clears garbage below dir. has_record(path, ctx) decides what is a checkpoint; NULL = no folder is one. Adds the bytes freed. */
int  zinf_rundir_sweep(const char *dir, bool (*has_record)(const char *path, void *ctx), void *ctx, uint64_t *freed_nbytes,
                       const struct zinf_log *log, struct zinf_status *st);
/* Releases the lock; remove = delete the folder and what is in it first. */
int  zinf_rundir_close(struct zinf_rundir *r, bool remove, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_RUNDIR_H_ */
