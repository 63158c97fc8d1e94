/* io/threads_io.c - pread, pwrite and fdatasync on a few threads of its own: works wherever files do. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/threads_io.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/io_internal.h"

#define DEFAULT_NR_THREADS 8u

struct ring {                          /* of depth slots: never holds more than what is in flight */
    struct zinf_io_req **slots;
    uint32_t first, nr;
};

struct zinf_io {
    pthread_mutex_t mu;
    pthread_cond_t  work, ready;
    struct ring     todo, done;        /* guarded by mu */
    bool            stop;              /* guarded by mu */
    uint32_t        nr_inflight;       /* the owner's: taken and not reaped */
    uint32_t        depth, nr_threads;
    int             event_fd;
    pthread_t      *threads;
};

static void ring_push(struct ring *r, uint32_t depth, struct zinf_io_req *req)
{
    r->slots[(r->first + r->nr) % depth] = req;
    r->nr++;
}

static struct zinf_io_req *ring_pop(struct ring *r, uint32_t depth)
{
    struct zinf_io_req *req = r->slots[r->first];

    r->first = (r->first + 1) % depth;
    r->nr--;
    return req;
}

static int64_t perform(const struct zinf_io_req *req)
{
    ssize_t n;

    switch (req->dir) {
    case ZINF_IO_READ: n = pread(req->fd, req->buf, req->nbytes, (off_t)req->off_bytes); break;
    case ZINF_IO_WRITE: n = pwrite(req->fd, req->buf, req->nbytes, (off_t)req->off_bytes); break;
    case ZINF_IO_SYNC: n = fdatasync(req->fd); break;
    default: return -EINVAL;
    }
    return n < 0 ? -errno : n;
}

static void *worker_main(void *arg)
{
    struct zinf_io *io = arg;

    pthread_mutex_lock(&io->mu);
    for (;;) {
        struct zinf_io_req *req;

        while (!io->todo.nr && !io->stop)
            pthread_cond_wait(&io->work, &io->mu);
        if (!io->todo.nr)
            break;
        req = ring_pop(&io->todo, io->depth);
        pthread_mutex_unlock(&io->mu);
        req->res = perform(req);
        pthread_mutex_lock(&io->mu);
        ring_push(&io->done, io->depth, req);
        pthread_cond_signal(&io->ready);
        /* Under the lock: close() takes it before it returns, so the descriptor is still the owner's here. */
        zinf_io_signal(io->event_fd);
    }
    pthread_mutex_unlock(&io->mu);
    return NULL;
}

static void free_io(struct zinf_io *io)
{
    free(io->todo.slots);
    free(io->done.slots);
    free(io->threads);
    free(io);
}

static void stop_threads(struct zinf_io *io)
{
    pthread_mutex_lock(&io->mu);
    io->stop = true;                   /* workers finish what is queued first */
    pthread_cond_broadcast(&io->work);
    pthread_mutex_unlock(&io->mu);
    for (uint32_t i = 0; i < io->nr_threads; i++)
        pthread_join(io->threads[i], NULL);
    pthread_cond_destroy(&io->work);
    pthread_cond_destroy(&io->ready);
    pthread_mutex_destroy(&io->mu);
}

static void init_locks(struct zinf_io *io)
{
    pthread_condattr_t attr;

    /* None of these can fail on Linux with these arguments; timeouts must not jump with the wall clock. */
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&io->mu, NULL);
    pthread_cond_init(&io->work, NULL);
    pthread_cond_init(&io->ready, &attr);
    pthread_condattr_destroy(&attr);
}

static int start_threads(struct zinf_io *io, uint32_t nr, struct zinf_status *st)
{
    sigset_t all, before;
    int rc;

    /* Signals are for the thread that runs the program: here they would only cut transfers short. */
    sigfillset(&all);
    rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc)
        return zinf_fail(st, -rc, "threads: cannot block signals: errno %d", rc);
    for (io->nr_threads = 0; io->nr_threads < nr; io->nr_threads++) {
        rc = pthread_create(&io->threads[io->nr_threads], NULL, worker_main, io);
        if (rc)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* Fewer threads than wished are slower, not wrong. */
    if (io->nr_threads == 0)
        return zinf_fail(st, -rc, "threads: cannot start a thread (errno %d); raise the limit on processes (ulimit -u)",
                         rc);
    return 0;
}

static int threads_open(const struct zinf_io_opts *opts, struct zinf_io **out, struct zinf_status *st)
{
    const struct zinf_io_threads_opts *mine = opts->arg;
    uint32_t nr = mine && mine->nr_threads ? mine->nr_threads : DEFAULT_NR_THREADS;
    struct zinf_io *io;
    int rc;

    *out = NULL;
    if (nr > opts->depth)
        nr = opts->depth;
    io = calloc(1, sizeof(*io));
    if (!io)
        return zinf_fail(st, -ENOMEM, "threads: no memory for a queue");
    io->depth = opts->depth;
    io->event_fd = opts->event_fd;
    io->todo.slots = calloc(io->depth, sizeof(*io->todo.slots));
    io->done.slots = calloc(io->depth, sizeof(*io->done.slots));
    io->threads = calloc(nr, sizeof(*io->threads));
    if (!io->todo.slots || !io->done.slots || !io->threads) {
        free_io(io);
        return zinf_fail(st, -ENOMEM, "threads: no memory for a queue of depth %u", opts->depth);
    }
    init_locks(io);
    rc = start_threads(io, nr, st);
    if (rc) {
        stop_threads(io);
        free_io(io);
        return rc;
    }
    *out = io;
    return 0;
}

static int threads_submit(struct zinf_io *io, struct zinf_io_req **reqs, uint32_t nr)
{
    uint32_t k = io->depth - io->nr_inflight;

    if (k > nr)
        k = nr;
    pthread_mutex_lock(&io->mu);
    for (uint32_t i = 0; i < k; i++)
        ring_push(&io->todo, io->depth, reqs[i]);
    if (k > 1)
        pthread_cond_broadcast(&io->work);
    else if (k)
        pthread_cond_signal(&io->work);
    pthread_mutex_unlock(&io->mu);
    io->nr_inflight += k;
    return (int)k;
}

static int threads_reap(struct zinf_io *io, struct zinf_io_req **done, uint32_t min_nr, uint32_t max_nr, int timeout_ms)
{
    struct timespec until = zinf_io_deadline(timeout_ms);
    uint32_t k = 0;

    if (min_nr > io->nr_inflight || min_nr > max_nr)
        return -EINVAL;
    pthread_mutex_lock(&io->mu);
    while (io->done.nr < min_nr && timeout_ms != 0) {
        if (timeout_ms < 0)
            pthread_cond_wait(&io->ready, &io->mu);
        else if (pthread_cond_timedwait(&io->ready, &io->mu, &until) == ETIMEDOUT)
            break;
    }
    while (k < max_nr && io->done.nr)
        done[k++] = ring_pop(&io->done, io->depth);
    pthread_mutex_unlock(&io->mu);
    io->nr_inflight -= k;
    return (int)k;
}

static void threads_close(struct zinf_io *io)
{
    if (!io)
        return;
    stop_threads(io);
    free_io(io);
}

const struct zinf_io_ops zinf_io_threads_ops = {
    .name = "threads",
    .depth_max = 4096,
    .open = threads_open,
    .submit = threads_submit,
    .reap = threads_reap,
    .close = threads_close,
    .pin = NULL,
};
