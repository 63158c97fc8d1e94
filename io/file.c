/* io/file.c - opens a file the fastest way its file system really takes, and allocates it once and for all. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/direct.h"
#include "zinf/base/align.h"
#include "zinf/base/size.h"

#define ZERO_NBYTES  (4u << 20)      /* one write of preallocation */
#define CACHE_NBYTES (32u << 20)     /* page cache that preallocation of a buffered file may hold */

static int fail_errno(struct zinf_status *st, int rc, const char *what, const char *path, const char *change)
{
    char buf[64];

    return zinf_fail(st, rc, "%s: cannot %s: %s%s", path, what, strerror_r(-rc, buf, sizeof(buf)), change);
}

static const char *open_hint(int rc, enum zinf_file_mode mode)
{
    switch (-rc) {
    case EEXIST: return "; remove it or choose another name";
    case ENOENT: return mode == ZINF_FILE_CREATE ? "; create its folder first" : "; check the path";
    case EMFILE: return "; raise the limit on open files (ulimit -n)";
    case EACCES: case EPERM: return "; check the permissions of the file and its folder";
    default: return "";
    }
}

/* A file being created may lose its first block to the trial, it has none yet; others are only read. */
static int use_direct(struct zinf_file *f, enum zinf_file_mode mode, struct zinf_status *st)
{
    int rc = zinf_io_try_direct(f->fd, mode == ZINF_FILE_CREATE, &f->mem_align, &f->off_align);

    f->direct = rc == 0;
    if (mode == ZINF_FILE_CREATE && ftruncate(f->fd, 0) < 0)
        return fail_errno(st, -errno, "truncate", f->path, "");
    /* No space or a bad drive is no reason to use the page cache; everything else is. */
    if (rc == -ENOSPC || rc == -EDQUOT)
        return fail_errno(st, rc, "write a first block", f->path, "; free space on its drive or choose another folder");
    if (rc == -EIO)
        return fail_errno(st, rc, "read its first block", f->path, "; check the drive (kernel log)");
    return 0;
}

int zinf_file_open(const char *path, enum zinf_file_mode mode, bool want_direct, struct zinf_file *out,
                   struct zinf_status *st)
{
    static const int flags[] = {
        [ZINF_FILE_READ] = O_RDONLY, [ZINF_FILE_WRITE] = O_RDWR, [ZINF_FILE_CREATE] = O_RDWR | O_CREAT | O_EXCL,
    };
    struct stat sb;
    int rc;

    memset(out, 0, sizeof(*out));
    out->fd = -1;
    out->mem_align = out->off_align = 1;
    rc = snprintf(out->path, sizeof(out->path), "%s", path);
    if (rc < 0 || (size_t)rc >= sizeof(out->path))
        return zinf_fail(st, -ENAMETOOLONG, "the file name %.64s... is longer than %zu bytes; use a shorter folder",
                         path, sizeof(out->path) - 1);
    do
        out->fd = open(path, flags[mode] | O_CLOEXEC, 0600);
    while (out->fd < 0 && errno == EINTR);
    if (out->fd < 0) {
        rc = -errno;
        return fail_errno(st, rc, mode == ZINF_FILE_CREATE ? "create it" : "open it", path, open_hint(rc, mode));
    }
    if (fstat(out->fd, &sb) < 0) {
        rc = fail_errno(st, -errno, "read its size", path, "");
        goto out_close;
    }
    if (!S_ISREG(sb.st_mode)) {
        rc = zinf_fail(st, -EINVAL, "%s is not a regular file; name a file inside a folder", path);
        goto out_close;
    }
    out->nbytes = (uint64_t)sb.st_size;
    if (want_direct) {
        rc = use_direct(out, mode, st);
        if (rc)
            goto out_close;
    }
    return 0;
out_close:
    zinf_file_close(out);
    if (mode == ZINF_FILE_CREATE)
        (void)unlink(path);
    return rc;
}

static void describe(struct zinf_io_dir_info *out, int direct_rc)
{
    char buf[64];

    if (out->direct)
        snprintf(out->why, sizeof(out->why), "O_DIRECT: a trial write and read of %u bytes on %s worked",
                 out->off_align, out->fs_name);
    else
        snprintf(out->why, sizeof(out->why), "buffered: %s refuses O_DIRECT (%s)", out->fs_name,
                 strerror_r(-direct_rc, buf, sizeof(buf)));
}

int zinf_io_probe_dir(const char *dir, struct zinf_io_dir_info *out, struct zinf_status *st)
{
    char path[1024], buf[64];
    struct stat sb;
    int fd, rc, direct_rc;

    memset(out, 0, sizeof(*out));
    out->mem_align = out->off_align = 1;
    if (stat(dir, &sb) < 0) {
        rc = -errno;
        return zinf_fail(st, rc, "%s: %s; create the folder or name another one", dir,
                         strerror_r(-rc, buf, sizeof(buf)));
    }
    if (!S_ISDIR(sb.st_mode))
        return zinf_fail(st, -ENOTDIR, "%s is not a folder; name a folder on the drive to use", dir);
    rc = snprintf(path, sizeof(path), "%s/.zinf-probe-XXXXXX", dir);
    if (rc < 0 || (size_t)rc >= sizeof(path))
        return zinf_fail(st, -ENAMETOOLONG, "the folder name %.64s... is too long; use a shorter one", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        rc = -errno;
        return zinf_fail(st, rc, "%s: cannot create a file: %s; make it writable or name another folder", dir,
                         strerror_r(-rc, buf, sizeof(buf)));
    }
    if (unlink(path) < 0) {
        rc = zinf_fail(st, -errno, "%s: cannot remove the trial file: %s", path, strerror_r(errno, buf, sizeof(buf)));
        goto out_close;
    }
    zinf_io_fs_name(fd, out->fs_name, sizeof(out->fs_name));
    rc = zinf_io_free_nbytes(fd, &out->free_nbytes);
    if (rc) {
        zinf_fail(st, rc, "%s: cannot read the free space: %s", dir, strerror_r(-rc, buf, sizeof(buf)));
        goto out_close;
    }
    direct_rc = zinf_io_try_direct(fd, true, &out->mem_align, &out->off_align);
    if (direct_rc == -ENOSPC || direct_rc == -EDQUOT) {
        rc = zinf_fail(st, direct_rc, "%s is full (%llu bytes free): free space there or name another folder", dir,
                       (unsigned long long)out->free_nbytes);
        goto out_close;
    }
    if (direct_rc == -EIO) {
        rc = zinf_fail(st, direct_rc, "%s: a trial write did not read back as written; check the drive (kernel log)",
                       dir);
        goto out_close;
    }
    out->direct = direct_rc == 0;
    describe(out, direct_rc);
out_close:
    if (close(fd) < 0 && rc == 0)
        rc = zinf_fail(st, -errno, "%s: closing the trial file failed: %s", dir, strerror_r(errno, buf, sizeof(buf)));
    return rc;
}

static int fail_space(const struct zinf_file *f, uint64_t need_nbytes, uint64_t free_nbytes, int rc,
                      struct zinf_status *st)
{
    char need[24], have[24];

    return zinf_fail(st, rc,
                     "%s: needs %s (%llu bytes) but its drive has %s (%llu bytes) free%s; free space there or choose "
                     "a folder on another drive",
                     f->path, zinf_size_format(need_nbytes, need, sizeof(need)), (unsigned long long)need_nbytes,
                     zinf_size_format(free_nbytes, have, sizeof(have)), (unsigned long long)free_nbytes,
                     rc == -EDQUOT ? " and your quota is used up" : "");
}

/* Writes [off, off + nbytes) from zeros, whatever the kernel does to each write. */
static int write_zeros(const struct zinf_file *f, const unsigned char *zeros, uint64_t off_bytes, size_t nbytes)
{
    size_t done = 0;

    for (int nr_stalls = 0; done < nbytes;) {
        ssize_t n = pwrite(f->fd, zeros, nbytes - done, (off_t)(off_bytes + done));

        if (n < 0 && errno != EINTR)
            return -errno;
        n = n > 0 ? (ssize_t)zinf_align_down((uint64_t)n, f->off_align) : 0;
        if (n == 0 && ++nr_stalls > 1000)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

/* A buffered file would fill the page cache with its zeros: writes them out and drops them, one window behind. */
static int bound_cache(const struct zinf_file *f, uint64_t from, uint64_t to)
{
    if (sync_file_range(f->fd, (off_t)from, (off_t)(to - from),
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) < 0) {
        if (errno != ENOSYS && errno != EINVAL && errno != ESPIPE)
            return -errno;
        if (fdatasync(f->fd) < 0)
            return -errno;
    }
    /* Advice: a file system that does not take it loses nothing but cache. */
    (void)posix_fadvise(f->fd, (off_t)from, (off_t)(to - from), POSIX_FADV_DONTNEED);
    return 0;
}

static int write_once(const struct zinf_file *f, uint64_t nbytes, void (*progress)(void *, uint64_t, uint64_t),
                      void *ctx)
{
    uint64_t done = 0, dropped = 0;
    unsigned char *zeros = NULL;
    int rc = 0;

    if (posix_memalign((void **)&zeros, ZINF_IO_MAX_ALIGN, ZERO_NBYTES) != 0)
        return -ENOMEM;
    memset(zeros, 0, ZERO_NBYTES);
    while (done < nbytes && rc == 0) {
        size_t n = (size_t)zinf_min_u64(ZERO_NBYTES, nbytes - done);

        rc = write_zeros(f, zeros, done, n);
        if (rc)
            break;
        done += n;
        if (!f->direct && (done - dropped >= CACHE_NBYTES || done == nbytes)) {
            rc = bound_cache(f, dropped, done);
            dropped = done;
        }
        if (progress)
            progress(ctx, done, nbytes);
    }
    free(zeros);
    return rc;
}

static int allocate(const struct zinf_file *f, uint64_t nbytes)
{
    int rc;

    do
        rc = fallocate(f->fd, 0, 0, (off_t)nbytes);
    while (rc < 0 && errno == EINTR);
    /* File systems without fallocate (NFS 3, ZFS, vfat) get their space from the writes that follow. */
    if (rc < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    return 0;
}

int zinf_file_preallocate(struct zinf_file *f, uint64_t nbytes,
                          void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx, struct zinf_status *st)
{
    uint64_t total = zinf_align_up(nbytes, f->off_align), have = 0, used = 0;
    struct stat sb;
    int rc;

    if (nbytes > (uint64_t)INT64_MAX - ZINF_IO_MAX_ALIGN)
        return zinf_fail(st, -EFBIG, "%s: %llu bytes are more than a file can hold", f->path,
                         (unsigned long long)nbytes);
    if (nbytes == 0)
        return 0;
    if (fstat(f->fd, &sb) < 0)
        return fail_errno(st, -errno, "read its size", f->path, "");
    rc = zinf_io_free_nbytes(f->fd, &have);
    if (rc)
        return fail_errno(st, rc, "read the free space of its drive", f->path, "");
    used = (uint64_t)sb.st_blocks * 512;
    /* Told before a long write, not after it. */
    rc = total > used && total - used > have ? -ENOSPC : allocate(f, total);
    if (rc == 0)
        rc = write_once(f, total, progress, ctx);
    if (rc == 0 && fsync(f->fd) < 0)
        rc = -errno;
    if (rc == 0) {
        f->nbytes = total;
        return 0;
    }
    /* A file that does not fit gives its space back: what was there before stays. */
    if (ftruncate(f->fd, sb.st_size) < 0)
        zinf_fail(st, rc, "%s: its space could not be given back; delete it by hand", f->path);
    if (rc == -ENOSPC || rc == -EDQUOT)
        return fail_space(f, total, have + used, rc, st);
    return fail_errno(st, rc, "allocate it", f->path, rc == -EFBIG ? "; raise the file size limit (ulimit -f)" : "");
}

void zinf_file_close(struct zinf_file *f)
{
    /* A zeroed struct has fd 0 and no path: standard input is not ours to close. */
    if (f->path[0] != '\0' && f->fd >= 0)
        (void)close(f->fd);      /* nothing depends on it: what must be durable was synced and checked before */
    f->fd = -1;
    f->path[0] = '\0';
}
