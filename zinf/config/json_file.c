/* zinf/config/json_file.c - a whole file, or what a pipe holds, into memory. */
#define _GNU_SOURCE
#include "zinf/config/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int zinf_json_check_nbytes(const char *name, size_t nbytes, struct zinf_status *st)
{
    return nbytes > ZINF_JSON_TEXT_NBYTES_MAX ? zinf_fail(st, -EFBIG, "%s: more than 1 GiB of JSON", name) : 0;
}

/* Pipes have no size: the buffer grows as it is filled. *text is the caller's on failure too. */
static int read_all(int fd, const char *path, char **text, size_t *nbytes, struct zinf_status *st)
{
    size_t cap = 0;
    ssize_t got = 1;
    int rc;

    for (*text = NULL, *nbytes = 0; got != 0;) {
        if (cap == *nbytes) {
            char *grown = realloc(*text, cap ? cap * 2 : 1 << 16);

            if (!grown)
                return zinf_fail(st, -ENOMEM, "%s: out of memory while reading it", path);
            *text = grown;
            cap = cap ? cap * 2 : 1 << 16;
        }
        got = read(fd, *text + *nbytes, cap - *nbytes);
        if (got < 0 && errno != EINTR)
            return zinf_fail(st, -errno, "%s: cannot be read: %s", path, strerror(errno));
        if (got > 0)
            *nbytes += (size_t)got;
        rc = zinf_json_check_nbytes(path, *nbytes, st);
        if (rc)
            return rc;
    }
    return 0;
}

int zinf_json_read_text(const char *path, char **text, size_t *nbytes, struct zinf_status *st)
{
    int fd, rc;

    *text = NULL;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return zinf_fail(st, -errno, "%s: cannot be opened: %s", path, strerror(errno));
    rc = read_all(fd, path, text, nbytes, st);
    close(fd);
    if (rc) {
        free(*text);
        *text = NULL;
    }
    return rc;
}
