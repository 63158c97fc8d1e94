/* io/fault_io.c - breaks requests as a script says, on top of a backend that would do them right. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/fault_io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "io/io_internal.h"

#define SECTOR_NBYTES 512u

enum state { FREE, INNER /* the inner backend has it */, HELD /* done, delayed */, READY, NEVER };

struct slot {
    struct zinf_io_req inner;        /* what the inner backend is asked; first, to find the slot again */
    struct zinf_io_req *outer;
    enum state state;
    enum zinf_io_fault_action action;
    bool     acts;                   /* action and arg hold */
    int64_t  arg;
    int64_t  res;
    int64_t  nr_ticks;               /* HELD: reaps to go */
    uint64_t id;
};

struct count { uint64_t nr_matches, nr_acted; };

struct zinf_io {
    const struct zinf_io_fault_script *script;
    const struct zinf_io_ops *ops;   /* inner */
    struct zinf_io     *inner;
    struct slot        *slots;
    struct zinf_io_req **reaped;     /* depth */
    struct count       *counts;      /* one per rule */
    uint32_t depth, nr_used, nr_inner;
    uint64_t nr_submits, next_id, rng;
    int      event_fd;
};

void zinf_io_fault_log_init(struct zinf_io_fault_log *log)
{
    memset(log, 0, sizeof(*log));
    pthread_mutex_init(&log->mu, NULL);
}

void zinf_io_fault_log_free(struct zinf_io_fault_log *log)
{
    for (size_t i = 0; i < log->nr; i++)
        free(log->entries[i].data);
    free(log->entries);
    pthread_mutex_destroy(&log->mu);
    memset(log, 0, sizeof(*log));
}

static void log_push(struct zinf_io_fault_log *log, enum zinf_io_fault_event event, const struct slot *s)
{
    struct zinf_io_fault_entry e = {
        .event = event, .dir = s->outer->dir, .fd = s->outer->fd, .id = s->id, .off_bytes = s->outer->off_bytes,
        .nbytes = s->outer->nbytes, .res = event == ZINF_IO_FAULT_DONE ? s->res : 0,
    };

    if (!log)
        return;
    pthread_mutex_lock(&log->mu);
    if (log->nr == log->capacity) {
        size_t capacity = log->capacity ? log->capacity * 2 : 256;
        struct zinf_io_fault_entry *entries = realloc(log->entries, capacity * sizeof(*entries));

        if (!entries) {
            log->lost = true;
            goto out;
        }
        log->entries = entries;
        log->capacity = capacity;
    }
    if (log->keep_data && event == ZINF_IO_FAULT_TAKEN && e.dir == ZINF_IO_WRITE && e.nbytes) {
        e.data = malloc(e.nbytes);
        if (e.data)
            memcpy(e.data, s->outer->buf, e.nbytes);
        else
            log->lost = true;
    }
    log->entries[log->nr++] = e;
out:
    pthread_mutex_unlock(&log->mu);
}

static void fault_close(struct zinf_io *io)
{
    if (!io)
        return;
    if (io->ops)
        io->ops->close(io->inner);
    free(io->slots);
    free(io->reaped);
    free(io->counts);
    free(io);
}

static int fault_open(const struct zinf_io_opts *opts, struct zinf_io **out, struct zinf_status *st)
{
    const struct zinf_io_fault_script *script = opts->arg;
    struct zinf_io_opts inner_opts = *opts;
    struct zinf_io *io;
    int rc;

    *out = NULL;
    if (!script)
        return zinf_fail(st, -EINVAL, "fault: needs a script (struct zinf_io_fault_script) in opts->arg");
    io = calloc(1, sizeof(*io));
    if (!io)
        return zinf_fail(st, -ENOMEM, "fault: no memory for a queue");
    io->script = script;
    io->depth = opts->depth;
    io->event_fd = opts->event_fd;
    io->rng = script->reorder_seed;
    io->slots = calloc(io->depth, sizeof(*io->slots));
    io->reaped = calloc(io->depth, sizeof(*io->reaped));
    io->counts = calloc(script->nr_rules + 1, sizeof(*io->counts));
    if (!io->slots || !io->reaped || !io->counts) {
        rc = zinf_fail(st, -ENOMEM, "fault: no memory for a queue of depth %u", opts->depth);
        goto out_close;
    }
    inner_opts.arg = script->inner_arg;
    io->ops = script->inner ? script->inner : &zinf_io_threads_ops;
    rc = io->ops->open(&inner_opts, &io->inner, st);
    if (rc)
        goto out_close;
    *out = io;
    return 0;
out_close:
    fault_close(io);
    return rc;
}

/* Counts a request against every rule and returns the index of the one that acts, or nr_rules. */
static uint32_t match(struct zinf_io *io, enum zinf_io_dir dir)
{
    const struct zinf_io_fault_script *sc = io->script;
    uint32_t winner = sc->nr_rules;

    for (uint32_t i = 0; i < sc->nr_rules; i++) {
        const struct zinf_io_fault_rule *r = &sc->rules[i];
        uint64_t first = r->first ? r->first : 1, n;

        if (r->dirs && !(r->dirs & ZINF_IO_FAULT_DIR(dir)))
            continue;
        n = ++io->counts[i].nr_matches;
        if (winner == sc->nr_rules && (!r->max_nr || io->counts[i].nr_acted < r->max_nr) &&
            (n == first || (r->every && n > first && (n - first) % r->every == 0)))
            winner = i;
    }
    if (winner < sc->nr_rules)
        io->counts[winner].nr_acted++;
    return winner;
}

static void unmatch(struct zinf_io *io, enum zinf_io_dir dir, uint32_t winner)
{
    for (uint32_t i = 0; i < io->script->nr_rules; i++)
        if (!io->script->rules[i].dirs || (io->script->rules[i].dirs & ZINF_IO_FAULT_DIR(dir)))
            io->counts[i].nr_matches--;
    if (winner < io->script->nr_rules)
        io->counts[winner].nr_acted--;
}

/* What the inner backend is asked for half a request. A read is whole, and spoilt behind the half when it is back. */
static size_t half_moved(const struct zinf_io_req *req)
{
    size_t half = req->nbytes / 2;
    int flags = fcntl(req->fd, F_GETFL);

    if (req->dir == ZINF_IO_READ)
        return half ? req->nbytes : 0;
    return flags >= 0 && (flags & O_DIRECT) ? half / SECTOR_NBYTES * SECTOR_NBYTES : half;
}

/* Decides a request's fate without the inner backend where the script says so: true = decided. */
static bool decide(struct slot *s)
{
    if (!s->acts)
        return false;
    switch (s->action) {
    case ZINF_IO_FAULT_SHORT:
        if (s->outer->dir == ZINF_IO_SYNC)
            return false;
        s->inner.nbytes = half_moved(s->outer);
        s->res = (int64_t)(s->outer->nbytes / 2);
        s->state = READY;
        return s->inner.nbytes == 0;
    case ZINF_IO_FAULT_RESULT:
        s->res = s->arg;
        s->state = READY;
        return true;
    case ZINF_IO_FAULT_NEVER:
        s->state = NEVER;
        return true;
    case ZINF_IO_FAULT_LOSE:
        s->res = (int64_t)s->outer->nbytes;
        s->state = READY;
        return s->outer->dir == ZINF_IO_WRITE;
    default:
        return false;
    }
}

/* 1 = taken, 0 = the inner backend is full, or its -errno. */
static int take(struct zinf_io *io, struct zinf_io_req *req)
{
    struct slot *s = io->slots;
    struct zinf_io_req *inner;
    uint32_t winner;

    while (s->state != FREE)
        s++;
    memset(s, 0, sizeof(*s));
    winner = match(io, req->dir);
    s->inner = *req;
    s->outer = req;
    s->acts = winner < io->script->nr_rules;
    if (s->acts) {
        s->action = io->script->rules[winner].action;
        s->arg = io->script->rules[winner].arg;
    }
    s->id = io->next_id;
    if (!decide(s)) {
        int rc;

        inner = &s->inner;
        rc = io->ops->submit(io->inner, &inner, 1);
        if (rc <= 0) {
            s->state = FREE;
            unmatch(io, req->dir, winner);
            return rc;
        }
        s->state = INNER;
        io->nr_inner++;
    } else if (s->state == READY) {
        zinf_io_signal(io->event_fd);
    }
    io->next_id++;
    io->nr_used++;
    log_push(io->script->log, ZINF_IO_FAULT_TAKEN, s);
    return 1;
}

static int fault_submit(struct zinf_io *io, struct zinf_io_req **reqs, uint32_t nr)
{
    const struct zinf_io_fault_script *sc = io->script;
    uint32_t k = 0;

    io->nr_submits++;
    if (sc->submit_every && io->nr_submits % sc->submit_every == 0)
        return sc->submit_rc;
    if (sc->accept_max && nr > sc->accept_max)
        nr = sc->accept_max;
    while (k < nr && io->nr_used < io->depth) {
        int rc = take(io, reqs[k]);

        if (rc < 0 && k == 0)
            return rc;
        if (rc <= 0)
            break;
        k++;
    }
    return (int)k;
}

static void inner_done(struct zinf_io *io, struct slot *s)
{
    int64_t res = s->inner.res;

    io->nr_inner--;
    s->state = READY;
    if (!s->acts || s->action == ZINF_IO_FAULT_DELAY) {
        s->res = res;
        if (s->acts && s->arg > 0) {
            s->state = HELD;
            s->nr_ticks = s->arg;
        }
    } else if (s->action == ZINF_IO_FAULT_SHORT && s->outer->dir != ZINF_IO_SYNC) {
        if (res < s->res && (s->outer->dir == ZINF_IO_READ || res != (int64_t)s->inner.nbytes))
            s->res = res;            /* the file ended, or the inner backend failed, before the half */
        else if (s->outer->dir == ZINF_IO_READ)      /* what was not delivered must not look right by luck */
            memset((char *)s->outer->buf + s->res, 0xa5, s->outer->nbytes - (size_t)s->res);
    } else {
        s->res = res;
        if (s->action == ZINF_IO_FAULT_FLIP && s->outer->dir == ZINF_IO_READ && res > 0)
            *(unsigned char *)s->outer->buf ^= 1;
    }
}

static int reap_inner(struct zinf_io *io, uint32_t min_nr, int timeout_ms)
{
    int n = io->nr_inner ? io->ops->reap(io->inner, io->reaped, min_nr, io->depth, timeout_ms) : 0;

    for (int i = 0; i < n; i++)
        inner_done(io, (struct slot *)io->reaped[i]);
    return n;
}

static uint64_t next_random(struct zinf_io *io)
{
    io->rng ^= io->rng << 13;
    io->rng ^= io->rng >> 7;
    io->rng ^= io->rng << 17;
    return io->rng;
}

/* The next completion to hand out: the oldest, or with a seed any. NULL = none is ready. */
static struct slot *pick(struct zinf_io *io)
{
    struct slot *best = NULL;
    uint64_t nr_ready = 0;

    for (uint32_t i = 0; i < io->depth; i++) {
        struct slot *s = &io->slots[i];

        if (s->state != READY)
            continue;
        nr_ready++;
        if (!best || (io->rng ? next_random(io) % nr_ready == 0 : s->id < best->id))
            best = s;
    }
    return best;
}

static uint32_t hand_out(struct zinf_io *io, struct zinf_io_req **done, uint32_t max_nr)
{
    uint32_t k = 0;
    struct slot *s;

    while (k < max_nr && (s = pick(io)) != NULL) {
        log_push(io->script->log, ZINF_IO_FAULT_DONE, s);
        s->outer->res = s->res;
        done[k++] = s->outer;
        s->state = FREE;
        io->nr_used--;
    }
    return k;
}

/* One reap has passed for what is delayed. */
static void tick(struct zinf_io *io)
{
    for (uint32_t i = 0; i < io->depth; i++)
        if (io->slots[i].state == HELD && --io->slots[i].nr_ticks <= 0)
            io->slots[i].state = READY;
}

static bool any_held(const struct zinf_io *io)
{
    for (uint32_t i = 0; i < io->depth; i++)
        if (io->slots[i].state == HELD)
            return true;
    return false;
}

static int fault_reap(struct zinf_io *io, struct zinf_io_req **done, uint32_t min_nr, uint32_t max_nr, int timeout_ms)
{
    struct timespec until = zinf_io_deadline(timeout_ms);
    uint32_t k = 0;
    int rc;

    if (min_nr > io->nr_used || min_nr > max_nr)
        return -EINVAL;
    for (;;) {
        int left_ms = timeout_ms < 0 ? -1 : zinf_io_remaining_ms(&until);

        tick(io);
        rc = reap_inner(io, 0, 0);
        k += hand_out(io, done + k, max_nr - k);
        if (k >= min_nr || left_ms == 0 || (rc < 0 && rc != -EINTR))
            break;
        if (any_held(io) || rc > 0)
            continue;
        if (io->nr_inner) {
            rc = reap_inner(io, 1, left_ms);
            if (rc > 0)
                continue;
        } else {
            rc = poll(NULL, 0, left_ms) < 0 ? -errno : 0;       /* only what never completes is left */
        }
        if (rc < 0)
            break;
    }
    /* Delayed completions need more calls, and what max_nr cut off needs another: the owner must not sleep. */
    if (any_held(io) || pick(io))
        zinf_io_signal(io->event_fd);
    return k || rc >= 0 ? (int)k : rc;
}

static int fault_pin(struct zinf_io *io, void *base, size_t nbytes)
{
    return io->ops->pin ? io->ops->pin(io->inner, base, nbytes) : 0;
}

const struct zinf_io_ops zinf_io_fault_ops = {
    .name = "fault",
    .depth_max = 4096,
    .open = fault_open,
    .submit = fault_submit,
    .reap = fault_reap,
    .close = fault_close,
    .pin = fault_pin,
};
