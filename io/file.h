/* io/file.h - one file as the engine uses it: O_DIRECT where the file system takes it, alignment read from it.
 *
 * Threads: open and close on one thread; the descriptor may be used by any queue in between. */
#ifndef ZINF_IO_FILE_H_
#define ZINF_IO_FILE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a folder's file system offers, found once per folder by statx DIOALIGN and a trial write and read. */
struct zinf_io_dir_info {
    bool     direct;            /* O_DIRECT works */
    uint32_t mem_align;         /* of buffer addresses; 1 when not direct */
    uint32_t off_align;         /* of offsets and lengths; a power of two, 1 when not direct, 4096 when unknown */
    uint64_t free_nbytes;       /* for this user */
    char     fs_name[32];       /* "ext4", "tmpfs", "overlay", ... or the magic in hex */
    char     why[128];          /* one line: why direct is what it is */
};
/* Returns 0, or -errno with a line (missing, not a folder, not writable: names the path and what to change). */
int zinf_io_probe_dir(const char *dir, struct zinf_io_dir_info *out, struct zinf_status *st);

struct zinf_file {
    int      fd;
    bool     direct;
    uint32_t mem_align, off_align;   /* as above, of this file */
    uint64_t nbytes;                 /* allocated */
    char     path[1024];             /* for messages */
};

enum zinf_file_mode { ZINF_FILE_READ, ZINF_FILE_WRITE /* must exist */, ZINF_FILE_CREATE /* must not exist, 0600 */ };

/* A regular file only. CREATE writes and truncates a first block to prove O_DIRECT; the others read one.
 * Opens path, directly when the file system takes it (and want_direct), else buffered. Returns 0 or -errno with a
 * line. */
int zinf_file_open(const char *path, enum zinf_file_mode mode, bool want_direct, struct zinf_file *out,
                   struct zinf_status *st);
/* Allocates nbytes and writes every byte once (zeros), so that later writes change no metadata and lack of space shows
 * now. nbytes is rounded up to off_align. progress (optional) is called with the bytes done so far. A buffered file
 * holds at most 32 MiB of page cache meanwhile. Returns 0, -ENOSPC (-EDQUOT) with need and free, or -errno; then the
 * file has the length it had, and the space is free again. */
int zinf_file_preallocate(struct zinf_file *f, uint64_t nbytes,
                          void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                          struct zinf_status *st);
void zinf_file_close(struct zinf_file *f);        /* safe on a zeroed or closed file */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_FILE_H_ */
