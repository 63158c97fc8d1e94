/* zinf/data/file_list.c - walks a folder once, then answers reads with pread: never a mapping, so that a file that
 * shrinks underneath is an error line and not a signal. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/data/file_list.h"

/* Deeper folders are a mistake (a mount loop), not text. */
#define DEPTH_MAX 64
/* As many files stay open; more are opened for each read. */
#define OPEN_MAX_FILES 64u
/* A NUL in these first bytes makes a file binary. */
#define PROBE_NBYTES 65536u

static int fail_errno(struct zinf_status *st, const char *path, int err)
{
    return zinf_fail(st, -err, "data %s: %s", path, strerror(err));
}

/* Reads nbytes at off_bytes; fewer only at the end of the file. */
static ssize_t read_at(int fd, void *out, size_t nbytes, uint64_t off_bytes)
{
    size_t got = 0;

    while (got < nbytes) {
        ssize_t n = pread(fd, (char *)out + got, nbytes - got, (off_t)(off_bytes + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static int append(struct zinf_file_list *l, const char *path, uint64_t nbytes, struct zinf_status *st)
{
    if (l->nr_files == l->cap) {
        uint64_t cap = l->cap ? 2 * l->cap : 16;
        struct zinf_file_entry *files = realloc(l->files, cap * sizeof(*files));

        if (!files)
            return zinf_fail(st, -ENOMEM, "data %s: out of memory for the list of files", path);
        l->files = files;
        l->cap = cap;
    }
    l->files[l->nr_files] = (struct zinf_file_entry){ .path = strdup(path), .nbytes = nbytes, .fd = -1 };
    if (!l->files[l->nr_files].path)
        return zinf_fail(st, -ENOMEM, "data %s: out of memory for the list of files", path);
    l->nr_files++;
    return 0;
}

/* 1 = the file has a NUL near its start, 0 = it has not, or -errno. */
static int is_binary(const char *path, struct zinf_status *st)
{
    char buf[4096];
    int found = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return fail_errno(st, path, errno);
    for (uint64_t off = 0; !found && off < PROBE_NBYTES; off += sizeof(buf)) {
        ssize_t n = read_at(fd, buf, sizeof(buf), off);

        if (n < 0)
            found = fail_errno(st, path, (int)-n);
        else if (n == 0)
            break;
        else
            found = memchr(buf, 0, (size_t)n) != NULL;
    }
    close(fd);
    return found;
}

static int walk(struct zinf_file_list *l, const char *folder, int depth, struct zinf_status *st);

static int visit(struct zinf_file_list *l, const char *path, int depth, struct zinf_status *st)
{
    struct stat info;
    int binary;

    if (lstat(path, &info))
        return fail_errno(st, path, errno);
    if (S_ISDIR(info.st_mode))
        return walk(l, path, depth + 1, st);
    if (S_ISLNK(info.st_mode)) {
        l->nr_links++;
        return 0;
    }
    if (!S_ISREG(info.st_mode)) {
        l->nr_special++;
        return 0;
    }
    if (info.st_size == 0) {
        l->nr_empty++;
        return 0;
    }
    binary = is_binary(path, st);
    if (binary < 0)
        return binary;
    if (binary) {
        l->nr_binary++;
        return 0;
    }
    return append(l, path, (uint64_t)info.st_size, st);
}

static int walk(struct zinf_file_list *l, const char *folder, int depth, struct zinf_status *st)
{
    DIR *dir;
    int rc = 0;

    if (depth > DEPTH_MAX)
        return zinf_fail(st, -ELOOP, "data %s: folders are nested deeper than %d", folder, DEPTH_MAX);
    dir = opendir(folder);
    if (!dir)
        return fail_errno(st, folder, errno);
    while (!rc) {
        struct dirent *e;
        char *path = NULL;

        errno = 0;
        e = readdir(dir);
        if (!e) {
            rc = errno ? fail_errno(st, folder, errno) : 0;
            break;
        }
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (e->d_name[0] == '.') {
            l->nr_hidden++;
            continue;
        }
        if (asprintf(&path, "%s/%s", folder, e->d_name) < 0)
            rc = zinf_fail(st, -ENOMEM, "data %s: out of memory", folder);
        else
            rc = visit(l, path, depth, st);
        free(path);
    }
    closedir(dir);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct zinf_file_entry *)a)->path, ((const struct zinf_file_entry *)b)->path);
}

/* Offsets in the stream; the first files stay open. */
static int settle(struct zinf_file_list *l, struct zinf_status *st)
{
    if (l->nr_files)
        qsort(l->files, l->nr_files, sizeof(*l->files), by_path);
    for (uint64_t i = 0; i < l->nr_files; i++) {
        struct zinf_file_entry *f = &l->files[i];

        f->off_bytes = l->nbytes;
        if (!zinf_add_u64(l->nbytes, f->nbytes, &l->nbytes))
            return zinf_fail(st, -EOVERFLOW, "data %s: more bytes than 64 bits count", f->path);
        if (i >= OPEN_MAX_FILES)
            continue;
        f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (f->fd < 0)
            return fail_errno(st, f->path, errno);
    }
    return 0;
}

int zinf_file_list_open(const char *path, struct zinf_file_list *out, struct zinf_status *st)
{
    struct stat info;
    int rc;

    memset(out, 0, sizeof(*out));
    if (stat(path, &info))
        return fail_errno(st, path, errno);
    if (S_ISDIR(info.st_mode))
        rc = walk(out, path, 0, st);
    else if (!S_ISREG(info.st_mode))
        rc = zinf_fail(st, -EINVAL, "data %s: neither a file nor a folder", path);
    else
        rc = info.st_size ? append(out, path, (uint64_t)info.st_size, st) : 0;
    if (!rc)
        rc = settle(out, st);
    if (!rc && !out->nbytes)
        rc = zinf_fail(
            st, -EINVAL, "data %s: no text in it (left out: %llu hidden, %llu binary, %llu links, %llu empty)", path,
            (unsigned long long)out->nr_hidden, (unsigned long long)out->nr_binary, (unsigned long long)out->nr_links,
            (unsigned long long)(out->nr_empty + (S_ISREG(info.st_mode) ? 1 : 0)));
    if (rc)
        zinf_file_list_close(out);
    return rc;
}

static uint64_t file_at(const struct zinf_file_list *l, uint64_t off_bytes)
{
    uint64_t lo = 0, hi = l->nr_files;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (l->files[mid].off_bytes <= off_bytes)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* [at, at + nbytes) of one file, which must still have the size it had. */
static int read_file(const struct zinf_file_entry *f, uint64_t at, void *out, size_t nbytes, struct zinf_status *st)
{
    int fd = f->fd >= 0 ? f->fd : open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;
    ssize_t n;
    int rc = 0;

    if (fd < 0)
        return fail_errno(st, f->path, errno);
    if (fstat(fd, &info))
        rc = fail_errno(st, f->path, errno);
    else if ((uint64_t)info.st_size != f->nbytes)
        rc = zinf_fail(st, -EIO, "data %s: its size changed during the run, from %llu to %llu bytes; keep it as it was",
                       f->path, (unsigned long long)f->nbytes, (unsigned long long)info.st_size);
    if (!rc) {
        n = read_at(fd, out, nbytes, at);
        if (n < 0)
            rc = fail_errno(st, f->path, (int)-n);
        else if ((size_t)n != nbytes)
            rc = zinf_fail(st, -EIO, "data %s: it shrank during the run; keep it as it was", f->path);
    }
    if (fd != f->fd)
        close(fd);
    return rc;
}

int zinf_file_list_read(const struct zinf_file_list *l, uint64_t off_bytes, void *out, size_t nbytes,
                        struct zinf_status *st)
{
    uint64_t end;

    if (!zinf_add_u64(off_bytes, nbytes, &end) || end > l->nbytes)
        return zinf_fail(st, -EINVAL, "data: bytes %llu to %llu of a stream of %llu", (unsigned long long)off_bytes,
                         (unsigned long long)end, (unsigned long long)l->nbytes);
    for (uint64_t i = file_at(l, off_bytes); nbytes; i++) {
        const struct zinf_file_entry *f = &l->files[i];
        uint64_t at = off_bytes - f->off_bytes;
        size_t n = (size_t)zinf_min_u64(nbytes, f->nbytes - at);
        int rc = read_file(f, at, out, n, st);

        if (rc)
            return rc;
        out = (char *)out + n;
        off_bytes += n;
        nbytes -= n;
    }
    return 0;
}

void zinf_file_list_close(struct zinf_file_list *l)
{
    for (uint64_t i = 0; i < l->nr_files; i++) {
        if (l->files[i].fd >= 0)
            close(l->files[i].fd);
        free(l->files[i].path);
    }
    free(l->files);
    memset(l, 0, sizeof(*l));
}
