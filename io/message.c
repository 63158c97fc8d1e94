/* io/message.c - operation, path, offset, errno, and what to do about it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/message.h"

#include <errno.h>
#include <string.h>

const char *zinf_io_dir_name(enum zinf_io_dir dir)
{
    return dir == ZINF_IO_READ ? "read" : dir == ZINF_IO_WRITE ? "write" : "sync";
}

static const char *hint(int rc)
{
    switch (-rc) {
    case EIO: return "; check the drive and its cable (kernel log)";
    case ENOSPC: case EDQUOT: return "; free space on its drive";
    case EFBIG: return "; raise the file size limit (ulimit -f)";
    case EEXIST: return "; a queue must be used by the thread that opened it";
    case EBADF: return "; the file is closed, or not open for this";
    case EINVAL: return "; the file system refuses its alignment or its place";
    default: return "";
    }
}

int zinf_io_message(struct zinf_status *line, enum zinf_io_dir dir, const char *path, uint64_t off_bytes, size_t nbytes,
                    int rc, const char *why)
{
    char buf[64];

    if (dir == ZINF_IO_SYNC)
        return zinf_fail(line, rc, "sync of %s failed: %s (errno %d)%s", path, strerror_r(-rc, buf, sizeof(buf)), -rc,
                         hint(rc));
    return zinf_fail(line, rc, "%s of %s at offset %llu (%zu bytes) failed: %s (errno %d)%s", zinf_io_dir_name(dir),
                     path, (unsigned long long)off_bytes, nbytes, why ? why : strerror_r(-rc, buf, sizeof(buf)), -rc,
                     why ? "" : hint(rc));
}
