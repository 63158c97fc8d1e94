/* io/mem_io.c - a backend that moves bytes to and from a store in RAM: tests without a drive, and the ceiling of the
 * rest. Work is done inside submit; completions wait in a ring to be reaped. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/mem_io.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "io/backend.h"
#include "io/io_internal.h"
#include "io/mem_store.h"

struct zinf_io {
    struct zinf_io_mem *store;
    bool                owns_store;
    struct zinf_io_req **done;       /* ring of depth */
    uint32_t            first, nr, depth;
    int                 event_fd;
};

static void mem_close(struct zinf_io *io)
{
    if (!io)
        return;
    if (io->owns_store)
        zinf_io_mem_destroy(io->store);
    free(io->done);
    free(io);
}

static int mem_open(const struct zinf_io_opts *opts, struct zinf_io **out, struct zinf_status *st)
{
    const struct zinf_io_mem_opts *mine = opts->arg;
    struct zinf_io *io = calloc(1, sizeof(*io));
    int rc;

    *out = NULL;
    if (!io)
        return zinf_fail(st, -ENOMEM, "mem: no memory for a queue");
    io->depth = opts->depth;
    io->event_fd = opts->event_fd;
    io->store = mine ? mine->store : NULL;
    io->done = calloc(io->depth, sizeof(*io->done));
    rc = io->done ? 0 : zinf_fail(st, -ENOMEM, "mem: no memory for a queue of depth %u", opts->depth);
    if (rc == 0 && !io->store) {
        rc = zinf_io_mem_create(0, &io->store, st);
        io->owns_store = rc == 0;
    }
    if (rc) {
        mem_close(io);
        return rc;
    }
    *out = io;
    return 0;
}

static int mem_submit(struct zinf_io *io, struct zinf_io_req **reqs, uint32_t nr)
{
    uint32_t k = 0;

    for (; k < nr && io->nr < io->depth; k++) {
        struct zinf_io_req *req = reqs[k];

        req->res = 0;
        if (req->dir != ZINF_IO_SYNC)
            req->res = zinf_io_mem_transfer(io->store, req->dir == ZINF_IO_WRITE, req->fd, req->buf, req->nbytes,
                                            req->off_bytes);
        io->done[(io->first + io->nr) % io->depth] = req;
        io->nr++;
    }
    if (k)
        zinf_io_signal(io->event_fd);
    return (int)k;
}

static int mem_reap(struct zinf_io *io, struct zinf_io_req **done, uint32_t min_nr, uint32_t max_nr, int timeout_ms)
{
    uint32_t k = 0;

    (void)timeout_ms;      /* whatever is in flight is done */
    if (min_nr > io->nr || min_nr > max_nr)
        return -EINVAL;
    for (; k < max_nr && io->nr; k++) {
        done[k] = io->done[io->first];
        io->first = (io->first + 1) % io->depth;
        io->nr--;
    }
    return (int)k;
}

const struct zinf_io_ops zinf_io_mem_ops = {
    .name = "mem",
    .depth_max = 4096,
    .open = mem_open,
    .submit = mem_submit,
    .reap = mem_reap,
    .close = mem_close,
    .pin = NULL,
};
