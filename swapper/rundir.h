/* swapper/rundir.h - the folder zinf-<uuid>/ on a drive that holds a run's state, owned through a lock for the life of the
 * process.
 *
 *   DIR/zinf-<uuid>/        0700
 *     lock                  OFD write lock held while the owner lives; holds "pid host boot-id\n" for messages only
 *     state-<rank>          extents (swapper/store.h)
 *     record-<rank>         on the first drive: commits (swapper/record.h); member on the others (swapper/store.h)
 *
 *   mkdir .zinf-<uuid> -> take its lock -> rename to zinf-<uuid> -> ... -> rename back to .zinf-<uuid> -> delete, the lock last
 *
 * A folder whose lock is free and that holds no valid record is garbage: cleared at the next start on the same DIR, with a line
 * that says how many bytes. A folder with a valid record is a checkpoint and is never cleared here. A live owner's folder is
 * never touched. A dotted name is a folder being made or being deleted: never a checkpoint, so that what a crash leaves of a
 * deletion is garbage too. Nothing is reached through a symbolic link, and nothing without a lock file is deleted unless it is
 * empty. */
#ifndef ZINF_SWAPPER_RUNDIR_H_
#define ZINF_SWAPPER_RUNDIR_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_rundir {
    int  lock_fd;            /* -1 = not open */
    char path[1024];         /* absolute */
    char uuid[37];
};

/* uuid: 36 characters, lower case; random bytes from the kernel. */
int  zinf_uuid_make(char out[37], struct zinf_status *st);
/* Creates DIR/zinf-<uuid>/ and takes its lock. Safe against a sweep of the same DIR at the same time. Returns 0; -EEXIST (the
 * same folder named twice), -EINVAL (not a uuid), or what the file system said, with a line naming the path and what to change;
 * then out->lock_fd is -1. */
int  zinf_rundir_create(const char *dir, const char *uuid, struct zinf_rundir *out, struct zinf_status *st);
/* Takes the lock of the run folder at path, to resume it or to delete it (close with remove; what is left of a deletion, with a
 * dotted name, too). Returns 0; -EBUSY with a line naming the owner's pid and host; -EINVAL (not the name of a run folder, or a
 * folder without a lock file); -ENOENT or what the file system said, with a line; then out->lock_fd is -1. */
int  zinf_rundir_adopt(const char *path, struct zinf_rundir *out, struct zinf_status *st);
/* Clears garbage below dir. has_record(path, ctx) decides what is a checkpoint; NULL = no folder is one. Adds the bytes freed
 * to *freed_nbytes. What cannot be cleared (another user's, a folder without a lock file) is left with a line in the log; only
 * a dir that cannot be read is an error. */
int  zinf_rundir_sweep(const char *dir, bool (*has_record)(const char *path, void *ctx), void *ctx, uint64_t *freed_nbytes,
                       const struct zinf_log *log, struct zinf_status *st);
/* Releases the lock; remove = delete the folder and what is in it first. Safe on a closed one. -ESTALE, with a line: the folder
 * at the path is not the one that was locked any more; nothing was deleted, and what was kept is not there. */
int  zinf_rundir_close(struct zinf_rundir *r, bool remove, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_RUNDIR_H_ */
