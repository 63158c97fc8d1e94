/* zinf/checkpoint/durable.c - the steps of writing a file that a crash cannot leave half-made under its name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "zinf/checkpoint/durable.h"

static int join(char *out, size_t nbytes, const char *dir, const char *name, const char *suffix, struct zinf_status *st)
{
    int n = snprintf(out, nbytes, "%s/%s%s", dir, name, suffix);

    if (n < 0 || (size_t)n >= nbytes)
        return zinf_fail(st, -ENAMETOOLONG, "%.100s...: the path is too long", dir);
    return 0;
}

static int fail(struct zinf_status *st, int err, const char *dir, const char *name)
{
    return zinf_fail(st, -err, "%s/%s: %s", dir, name, strerror(err));
}

int zinf_durable_create(const char *dir, const char *name, int *fd_out, struct zinf_status *st)
{
    char path[PATH_MAX];
    int rc = join(path, sizeof(path), dir, name, ZINF_TMP_SUFFIX, st);

    if (rc)
        return rc;
    *fd_out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    return *fd_out < 0 ? fail(st, errno, dir, name) : 0;
}

int zinf_durable_write(int fd, const char *dir, const char *name, const void *data, size_t nbytes, struct zinf_status *st)
{
    while (nbytes) {
        ssize_t n = write(fd, data, nbytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(st, n ? errno : EIO, dir, name);
        data = (const char *)data + n;
        nbytes -= (size_t)n;
    }
    return 0;
}

int zinf_durable_seal(int fd, const char *dir, const char *name, struct zinf_status *st)
{
    int rc = fsync(fd) ? fail(st, errno, dir, name) : 0;

    if (close(fd) && !rc)
        rc = fail(st, errno, dir, name);
    return rc;
}

int zinf_durable_rename(const char *dir, const char *name, struct zinf_status *st)
{
    char from[PATH_MAX], to[PATH_MAX];
    int rc = join(from, sizeof(from), dir, name, ZINF_TMP_SUFFIX, st);

    if (!rc)
        rc = join(to, sizeof(to), dir, name, "", st);
    if (!rc && rename(from, to))
        rc = fail(st, errno, dir, name);
    return rc;
}

int zinf_durable_sync_dir(const char *dir, struct zinf_status *st)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

    if (fd < 0)
        return zinf_fail(st, -errno, "%s: %s", dir, strerror(errno));
    /* Some file systems cannot flush a folder and say so; that is no loss of data. */
    if (fsync(fd) && errno != EINVAL)
        rc = zinf_fail(st, -errno, "%s: %s", dir, strerror(errno));
    close(fd);
    return rc;
}

int zinf_durable_put(const char *dir, const char *name, const void *data, size_t nbytes, struct zinf_status *st)
{
    int fd, sealed, rc = zinf_durable_create(dir, name, &fd, st);

    if (rc)
        return rc;
    rc = zinf_durable_write(fd, dir, name, data, nbytes, st);
    sealed = zinf_durable_seal(fd, dir, name, st);
    if (!rc)
        rc = sealed;
    if (!rc)
        rc = zinf_durable_rename(dir, name, st);
    if (rc) {
        zinf_durable_remove(dir, name, 1);
        return rc;
    }
    return zinf_durable_sync_dir(dir, st);
}

void zinf_durable_remove(const char *dir, const char *name, int tmp)
{
    char path[PATH_MAX];

    if (!join(path, sizeof(path), dir, name, tmp ? ZINF_TMP_SUFFIX : "", NULL))
        (void)unlink(path);
}
