/* io/backends.c - the list of backends: by name, and in the order `auto` tries them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "io/backend.h"
#include "io/uring_probe.h"
#include "zinf/base/size.h"

/* mem keeps nothing and fault breaks things: by name only. */
static const struct zinf_io_ops *const by_name[] = {
#if ZINF_HAVE_LIBURING
    &zinf_io_uring_ops,
#endif
    &zinf_io_threads_ops, &zinf_io_mem_ops, &zinf_io_fault_ops,
};

static const struct zinf_io_ops *const in_order[] = {
#if ZINF_HAVE_LIBURING
    &zinf_io_uring_ops,
#endif
    &zinf_io_threads_ops,
};

const struct zinf_io_ops *zinf_io_ops_find(const char *name)
{
    for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++)
        if (strcmp(by_name[i]->name, name) == 0)
            return by_name[i];
    return NULL;
}

const struct zinf_io_ops *zinf_io_ops_auto(uint32_t i)
{
    return i < sizeof(in_order) / sizeof(in_order[0]) ? in_order[i] : NULL;
}

int zinf_io_uring_probe(struct zinf_io_uring_info *out, struct zinf_status *st)
{
    struct zinf_status why = { 0, "" };
    char limit_text[24] = "unlimited";
    struct rlimit rl;
    int rc;

    memset(out, 0, sizeof(*out));
    out->memlock_nbytes = UINT64_MAX;
    if (getrlimit(RLIMIT_MEMLOCK, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY) {
        out->memlock_nbytes = rl.rlim_cur;
        zinf_size_format(out->memlock_nbytes, limit_text, sizeof(limit_text));
    }
#if ZINF_HAVE_LIBURING
    rc = zinf_io_uring_probe_ring(out, &why);
#else
    rc = zinf_fail(&why, -ENOSYS, "io_uring is not compiled in; install liburing-dev and build again");
#endif
    if (rc) {
        snprintf(out->text, sizeof(out->text), "%.255s", why.text);
        return zinf_fail(st, rc, "%s", why.text);
    }
    snprintf(out->text, sizeof(out->text), "io_uring works; completions %s; memory %s be registered (memlock limit %s)",
             out->deferred ? "deferred to their owner (6.1+)" : "as before 6.1", out->registers ? "can" : "cannot",
             limit_text);
    return 0;
}
