/* io/open_backend.c - the check that every backend shares, and the way down the automatic ones. */
#include "io/open_backend.h"

#include <errno.h>
#include <string.h>

static int open_one(const struct zinf_io_ops *ops, const struct zinf_io_opts *opts, const char *refused,
                    struct zinf_io **io, struct zinf_status *st)
{
    int rc;

    if (opts->depth > ops->depth_max)
        return zinf_fail(st, -EINVAL, "%s%s: a depth of %u is more than its limit of %u", ops->name, refused,
                         opts->depth, ops->depth_max);
    rc = ops->open(opts, io, st);
    if (rc)
        *io = NULL;
    return rc;
}

int zinf_io_open_backend(const struct zinf_io_ops *wanted, const struct zinf_io_opts *opts, const struct zinf_log *log,
                         const struct zinf_io_ops **ops, struct zinf_io **io, struct zinf_status *st)
{
    struct zinf_status why = { 0, "" };
    int rc = -ENODEV;

    *io = NULL;
    *ops = wanted;
    if (wanted)
        return open_one(wanted, opts, "", io, st);
    for (uint32_t i = 0; (*ops = zinf_io_ops_auto(i)) != NULL; i++) {
        const struct zinf_io_ops *after = zinf_io_ops_auto(i + 1);

        memset(&why, 0, sizeof(why));
        rc = open_one(*ops, opts, " refused", io, &why);
        if (rc == 0)
            return 0;
        if (after)
            zinf_log(log, ZINF_LOG_WARN, "%s; trying %s", why.text, after->name);
    }
    return zinf_fail(st, rc, "%s", why.text);
}
