/* io/queue.c - cuts transfers into requests, keeps the depth, and believes no completion without looking at it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/queue.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "io/cut.h"
#include "io/io_internal.h"
#include "io/message.h"
#include "io/open_backend.h"
#include "zinf/base/align.h"
#include "zinf/base/size.h"

#define DEFAULT_DEPTH          32u
#define DEFAULT_REQUEST_NBYTES ((size_t)1 << 20)
#define MAX_REQUEST_NBYTES     ((size_t)1 << 30)
#define MAX_BOUNCES            8u
#define MAX_STALLS             32u      /* completions in a row without a new byte before a request is given up */
#define MAX_RETRIES            500u     /* EINTR and EAGAIN in a row, from a completion or from submit */
#define FREE_RETRIES           8u       /* of them those that are tried again at once; later ones wait a millisecond */

/* One request of an op. Its file range [start, start + total_nbytes) is whole blocks where the file asks for them; the
 * op's own bytes are [want_off, want_off + want_nbytes) of it. */
struct slot {
    struct zinf_io_req req;             /* first: a completion is its slot */
    struct zinf_io_op *op;
    unsigned char     *data;            /* total_nbytes: the bounce buffer, or a place in the op's */
    unsigned char     *bounce;          /* NULL = none */
    unsigned char     *user;            /* the op's bytes */
    uint64_t           start;
    size_t             total_nbytes, want_off, want_nbytes;
    size_t             moved_nbytes;    /* from start, without a hole */
    uint32_t           nr_stalls, nr_retries;
    struct slot       *next;            /* free list */
};

struct zinf_io_queue {
    const struct zinf_io_ops *ops;
    struct zinf_io *io;
    uint32_t depth;
    size_t   request_nbytes;
    int      event_fd;
    const struct zinf_log *log;
    struct slot        *slots, *free_slots;
    struct zinf_io_req **ready;         /* to be taken by the backend, oldest first; depth places */
    struct zinf_io_req **reaped;        /* scratch of depth */
    uint32_t            nr_ready, nr_flying, nr_refusals;
    unsigned char      *bounce_base, *bounces[MAX_BOUNCES];
    uint32_t            nr_bounces;     /* free ones in bounces[] */
    struct zinf_io_op  *waiting, **waiting_end;     /* not all of it issued; FIFO */
    struct zinf_io_op  *finished, **finished_end;
    uint32_t            nr_pending;
    bool                want_pause, pin_refused;
    struct zinf_status  failure;        /* the first one not told yet */
    struct zinf_io_totals totals;
};

/* ---- ops ---- */

static void finish(struct zinf_io_queue *q, struct zinf_io_op *op)
{
    op->next = NULL;
    *q->finished_end = op;
    q->finished_end = &op->next;
}

static void drop_head(struct zinf_io_queue *q)
{
    q->waiting = q->waiting->next;
    if (!q->waiting)
        q->waiting_end = &q->waiting;
}

static bool issued_all(const struct zinf_io_op *op)
{
    return op->rc < 0 || (op->dir == ZINF_IO_SYNC ? op->issued_nbytes != 0 : op->issued_nbytes >= op->nbytes);
}

/* Fails op for the reason in `why` (NULL = errno's text). Requests of it in flight are still waited for. */
static void fail_op(struct zinf_io_queue *q, struct zinf_io_op *op, uint64_t off_bytes, size_t nbytes, int rc,
                    const char *why)
{
    struct zinf_status line = { 0, "" };

    if (op->rc < 0)
        return;             /* one line per op */
    op->rc = zinf_io_message(&line, op->dir, op->file->path, off_bytes, nbytes, rc, why);
    zinf_log(q->log, ZINF_LOG_ERROR, "%s", line.text);
    if (q->failure.rc == 0)
        q->failure = line;
}

/* ---- requests ---- */

static void release(struct zinf_io_queue *q, struct slot *s)
{
    struct zinf_io_op *op = s->op;

    if (s->bounce)
        q->bounces[q->nr_bounces++] = s->bounce;
    s->op = NULL;
    s->next = q->free_slots;
    q->free_slots = s;
    op->nr_inflight--;
    /* A failed op leaves the waiting list in fill(): only there is its place in it known. */
    if (op->nr_inflight == 0 && issued_all(op) && q->waiting != op)
        finish(q, op);
}

static void fail_slot(struct zinf_io_queue *q, struct slot *s, int rc, const char *why)
{
    fail_op(q, s->op, s->start + s->moved_nbytes, s->total_nbytes - s->moved_nbytes, rc, why);
    release(q, s);
}

/* Asks for what is missing, from the last whole block on; zeros or old bytes before it are simply moved again. */
static void issue(struct zinf_io_queue *q, struct slot *s)
{
    const struct zinf_file *f = s->op->file;
    size_t from = s->moved_nbytes;

    if (f->direct)
        from = (size_t)zinf_align_down(from, zinf_max_u64(f->off_align, f->mem_align));
    s->req.fd = f->fd;
    s->req.dir = s->op->dir;
    s->req.buf = s->data ? s->data + from : NULL;
    s->req.nbytes = s->total_nbytes - from;
    s->req.off_bytes = s->start + from;
    s->req.res = 0;
    q->ready[q->nr_ready++] = &s->req;
}

static void start_slot(struct zinf_io_queue *q, struct zinf_io_op *op, const struct zinf_io_cut *c)
{
    struct slot *s = q->free_slots;

    q->free_slots = s->next;
    memset(s, 0, sizeof(*s));
    s->op = op;
    op->nr_inflight++;
    if (op->dir == ZINF_IO_SYNC) {
        op->issued_nbytes = 1;
        issue(q, s);
        return;
    }
    s->start = c->start_bytes;
    s->total_nbytes = c->total_nbytes;
    s->want_off = c->want_off;
    s->want_nbytes = c->want_nbytes;
    s->user = (unsigned char *)op->buf + op->issued_nbytes;
    s->data = s->user;
    if (c->bounce) {
        s->bounce = s->data = q->bounces[--q->nr_bounces];
        q->totals.nr_bounced++;
        if (op->dir == ZINF_IO_WRITE) {
            memset(s->data, 0, s->want_off);
            memcpy(s->data + s->want_off, s->user, s->want_nbytes);
            memset(s->data + s->want_off + s->want_nbytes, 0, s->total_nbytes - s->want_off - s->want_nbytes);
        }
    }
    op->issued_nbytes += s->want_nbytes;
    issue(q, s);
}

/* Turns waiting ops into requests while there is a slot, and a bounce buffer where one is needed. */
static void fill(struct zinf_io_queue *q)
{
    while (q->waiting) {
        struct zinf_io_op *op = q->waiting;
        struct zinf_io_cut c = { 0 };

        if (issued_all(op)) {
            drop_head(q);
            if (op->nr_inflight == 0)
                finish(q, op);
            continue;
        }
        if (!q->free_slots)
            return;
        if (op->dir != ZINF_IO_SYNC) {
            c = zinf_io_cut_next(op->file, (char *)op->buf + op->issued_nbytes, op->nbytes - op->issued_nbytes,
                                 op->off_bytes + op->issued_nbytes, q->request_nbytes);
            if (c.bounce && !q->nr_bounces)
                return;
        }
        start_slot(q, op, &c);
    }
}

/* ---- the backend ---- */

/* The backend took nothing. With something in flight its completion brings us back; else it is tried again for a while.
 * Other errors, and the end of patience, are the oldest request's. Returns whether to go on now. */
static bool refused(struct zinf_io_queue *q, int rc)
{
    struct slot *s = (struct slot *)q->ready[0];

    if (rc == -EINTR || rc == -EAGAIN || rc == 0) {
        q->totals.nr_retried++;
        if (q->nr_flying)
            return false;
        if (++q->nr_refusals <= MAX_RETRIES) {
            q->want_pause = q->nr_refusals > FREE_RETRIES;
            return false;
        }
        rc = rc ? rc : -EAGAIN;
    }
    q->nr_refusals = 0;
    q->nr_ready--;
    memmove(q->ready, q->ready + 1, q->nr_ready * sizeof(*q->ready));
    fail_slot(q, s, rc, NULL);
    fill(q);
    return true;
}

/* Gives the backend what it takes; counts as in flight exactly what it took. */
static void pump(struct zinf_io_queue *q)
{
    fill(q);
    while (q->nr_ready) {
        int k = q->ops->submit(q->io, q->ready, q->nr_ready);

        if (k <= 0) {
            if (!refused(q, k))
                break;
            continue;
        }
        q->nr_refusals = 0;
        q->nr_flying += (uint32_t)k;
        q->nr_ready -= (uint32_t)k;
        memmove(q->ready, q->ready + k, q->nr_ready * sizeof(*q->ready));
    }
}

static bool file_ends_at(const struct zinf_file *f, uint64_t off_bytes, uint64_t *size)
{
    struct stat sb;

    if (fstat(f->fd, &sb) < 0)
        return false;
    *size = (uint64_t)sb.st_size;
    return *size <= off_bytes;
}

static void complete_slot(struct zinf_io_queue *q, struct slot *s)
{
    if (s->op->dir == ZINF_IO_READ) {
        q->totals.nr_reads++;
        if (s->bounce)
            memcpy(s->user, s->data + s->want_off, s->want_nbytes);
    } else {
        q->totals.nr_writes++;
    }
    s->op->done_nbytes += s->want_nbytes;
    release(q, s);
}

/* res bytes came for a request: enough, more than before, or none. */
static void advance(struct zinf_io_queue *q, struct slot *s, size_t res)
{
    size_t end = (size_t)(s->req.off_bytes - s->start) + res;
    size_t need = s->op->dir == ZINF_IO_READ ? s->want_off + s->want_nbytes : s->total_nbytes;
    char why[96];
    uint64_t size = 0;

    if (s->op->dir == ZINF_IO_READ)
        q->totals.read_nbytes += res;
    else
        q->totals.written_nbytes += res;
    if (end > s->moved_nbytes) {
        s->moved_nbytes = end;
        s->nr_stalls = s->nr_retries = 0;
    } else {
        s->nr_stalls++;
    }
    if (s->moved_nbytes >= need) {
        complete_slot(q, s);
        return;
    }
    if (s->nr_stalls > MAX_STALLS) {
        /* The end of the file is told only now: a size on disk says nothing about a backend that keeps the bytes. */
        if (s->op->dir == ZINF_IO_READ && file_ends_at(s->op->file, s->start + s->moved_nbytes, &size))
            snprintf(why, sizeof(why), "the file ends at %llu", (unsigned long long)size);
        else
            snprintf(why, sizeof(why), "no progress in %u attempts", s->nr_stalls);
        fail_slot(q, s, -EIO, why);
        return;
    }
    q->totals.nr_resumed++;
    issue(q, s);
}

static void completed(struct zinf_io_queue *q, struct slot *s)
{
    int64_t res = s->req.res;

    q->nr_flying--;
    if ((res == -EINTR || res == -EAGAIN) && ++s->nr_retries <= MAX_RETRIES) {
        q->totals.nr_retried++;
        if (s->nr_retries > FREE_RETRIES)
            q->want_pause = true;
        issue(q, s);
    } else if (res < 0) {
        fail_slot(q, s, (int)res, NULL);
    } else if (s->op->dir == ZINF_IO_SYNC) {
        q->totals.nr_syncs++;
        release(q, s);
    } else if ((uint64_t)res > s->req.nbytes) {
        fail_slot(q, s, -EIO, "more bytes reported than asked for");
    } else {
        advance(q, s, (size_t)res);
    }
}

/* Everything the backend has done, and everything it can take after that, until both come to rest. */
static int drain(struct zinf_io_queue *q, uint32_t min_nr, int timeout_ms)
{
    int k, total = 0;

    pump(q);
    while (q->nr_flying) {
        k = q->ops->reap(q->io, q->reaped, min_nr && min_nr <= q->nr_flying ? min_nr : 0, q->depth, timeout_ms);
        if (k <= 0)
            return total || k == 0 ? total : k;
        for (int i = 0; i < k; i++)
            completed(q, (struct slot *)q->reaped[i]);
        total += k;
        if (q->want_pause)
            return total;
        pump(q);
        min_nr = 0;
        timeout_ms = 0;
    }
    return total;
}

/* The owner sleeps on event_fd: it must wake for what no backend completion will announce. */
static void wake_if_needed(struct zinf_io_queue *q)
{
    if (q->finished || (q->nr_pending && !q->nr_flying))
        zinf_io_signal(q->event_fd);
}

/* ---- the interface ---- */

void zinf_io_queue_submit(struct zinf_io_queue *q, struct zinf_io_op *op)
{
    const struct zinf_file *f = op->file;
    uint64_t end;

    op->rc = 0;
    op->done_nbytes = 0;
    op->nr_inflight = 0;
    op->issued_nbytes = 0;
    op->next = NULL;
    q->nr_pending++;
    if (op->dir != ZINF_IO_SYNC &&
        (!zinf_add_u64(op->off_bytes, op->nbytes, &end) || end > (uint64_t)INT64_MAX - ZINF_IO_BOUNCE_NBYTES)) {
        fail_op(q, op, op->off_bytes, op->nbytes, -EFBIG, "it ends past the largest file");
        finish(q, op);
    } else if (op->dir != ZINF_IO_SYNC && f->direct &&
               (f->off_align > ZINF_IO_BOUNCE_NBYTES || f->mem_align > ZINF_IO_BOUNCE_NBYTES)) {
        fail_op(q, op, op->off_bytes, op->nbytes, -EINVAL, "its drive asks for blocks above 64 KiB; open it buffered");
        finish(q, op);
    } else {
        *q->waiting_end = op;
        q->waiting_end = &op->next;
        pump(q);
    }
    wake_if_needed(q);
}

static uint32_t hand_out(struct zinf_io_queue *q, struct zinf_io_op **done, uint32_t max_nr, struct zinf_status *st)
{
    uint32_t k = 0;

    while (k < max_nr && q->finished) {
        struct zinf_io_op *op = q->finished;

        q->finished = op->next;
        if (!q->finished)
            q->finished_end = &q->finished;
        op->next = NULL;
        q->nr_pending--;
        if (op->rc < 0) {
            if (q->failure.rc)
                zinf_fail(st, q->failure.rc, "%s", q->failure.text);
            else
                zinf_fail(st, op->rc, "%s of %s at offset %llu (%zu bytes) failed: errno %d", zinf_io_dir_name(op->dir),
                          op->file->path, (unsigned long long)op->off_bytes, op->nbytes, -op->rc);
            memset(&q->failure, 0, sizeof(q->failure));
        }
        done[k++] = op;
    }
    return k;
}

/* The backend cannot be asked any more: nothing it holds will come back, so no op may wait for it. */
static int broken(struct zinf_io_queue *q, int rc, struct zinf_status *st)
{
    return zinf_fail(st, rc, "%s: reaping completions failed (errno %d) with %u requests in flight; a queue must be "
                     "used by the thread that opened it", q->ops->name, -rc, q->nr_flying);
}

int zinf_io_queue_reap(struct zinf_io_queue *q, struct zinf_io_op **done, uint32_t min_nr, uint32_t max_nr,
                       int timeout_ms, struct zinf_status *st)
{
    struct timespec until = zinf_io_deadline(timeout_ms);
    uint32_t k = 0;
    int rc;

    if (min_nr > max_nr)
        min_nr = max_nr;
    rc = drain(q, 0, 0);
    for (;;) {
        int left_ms = timeout_ms < 0 ? -1 : zinf_io_remaining_ms(&until);

        if (rc < 0 && rc != -EINTR)
            return k ? (int)k : broken(q, rc, st);
        k += hand_out(q, done + k, max_nr - k, st);
        if (q->want_pause) {
            q->want_pause = false;
            (void)poll(NULL, 0, 1);
            pump(q);
        }
        if (k >= min_nr || q->nr_pending == 0 || left_ms == 0)
            break;
        rc = drain(q, 1, left_ms);
    }
    wake_if_needed(q);
    return (int)k;
}

uint32_t zinf_io_queue_pending(const struct zinf_io_queue *q) { return q->nr_pending; }
void zinf_io_queue_totals(const struct zinf_io_queue *q, struct zinf_io_totals *out) { *out = q->totals; }
const char *zinf_io_queue_backend(const struct zinf_io_queue *q) { return q->ops->name; }

void zinf_io_queue_pin(struct zinf_io_queue *q, void *base, size_t nbytes)
{
    char need[24], limit[24] = "unlimited", buf[64];
    struct rlimit rl;
    int rc;

    if (!q->ops->pin || nbytes == 0)
        return;
    rc = q->ops->pin(q->io, base, nbytes);
    if (rc == 0 || q->pin_refused)
        return;
    q->pin_refused = true;
    if (getrlimit(RLIMIT_MEMLOCK, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY)
        zinf_size_format(rl.rlim_cur, limit, sizeof(limit));
    zinf_log(q->log, ZINF_LOG_WARN,
             "%s: registering %s of buffers failed (%s), the locked-memory limit is %s; going on without (ulimit -l "
             "raises it)",
             q->ops->name, zinf_size_format(nbytes, need, sizeof(need)), strerror_r(-rc, buf, sizeof(buf)), limit);
}

int zinf_io_run(struct zinf_io_queue *q, const struct zinf_file *file, enum zinf_io_dir dir, void *buf, size_t nbytes,
                uint64_t off_bytes, struct zinf_status *st)
{
    struct zinf_io_op op = { .file = file, .dir = dir, .buf = buf, .nbytes = nbytes, .off_bytes = off_bytes };
    struct zinf_io_op *done = NULL;
    int rc;

    if (q->nr_pending)
        return zinf_fail(st, -EBUSY, "%s of %s: the queue has %u other operations pending", zinf_io_dir_name(dir),
                         file->path, q->nr_pending);
    zinf_io_queue_submit(q, &op);
    rc = zinf_io_queue_reap(q, &done, 1, 1, -1, st);
    return rc < 0 ? rc : op.rc;
}

/* ---- open and close ---- */

static int allocate(struct zinf_io_queue *q)
{
    q->slots = calloc(q->depth, sizeof(*q->slots));
    q->ready = calloc(q->depth, sizeof(*q->ready));
    q->reaped = calloc(q->depth, sizeof(*q->reaped));
    q->nr_bounces = q->depth < MAX_BOUNCES ? q->depth : MAX_BOUNCES;
    if (!q->slots || !q->ready || !q->reaped ||
        posix_memalign((void **)&q->bounce_base, ZINF_IO_BOUNCE_NBYTES,
                       (size_t)q->nr_bounces * ZINF_IO_BOUNCE_NBYTES) != 0)
        return -ENOMEM;
    memset(q->bounce_base, 0, (size_t)q->nr_bounces * ZINF_IO_BOUNCE_NBYTES);   /* touched now, not in a step */
    for (uint32_t i = 0; i < q->nr_bounces; i++)
        q->bounces[i] = q->bounce_base + (size_t)i * ZINF_IO_BOUNCE_NBYTES;
    for (uint32_t i = q->depth; i-- > 0;) {
        q->slots[i].next = q->free_slots;
        q->free_slots = &q->slots[i];
    }
    return 0;
}

void zinf_io_queue_close(struct zinf_io_queue *q)
{
    if (!q)
        return;
    if (q->io)
        q->ops->close(q->io);           /* waits: until then slots, bounce buffers and the caller's are in use */
    free(q->slots);
    free(q->ready);
    free(q->reaped);
    free(q->bounce_base);
    free(q);
}

int zinf_io_queue_open(const struct zinf_io_queue_opts *opts, struct zinf_io_queue **out, struct zinf_status *st)
{
    struct zinf_io_queue *q = calloc(1, sizeof(*q));
    struct zinf_io_opts io_opts;
    int rc;

    *out = NULL;
    if (!q)
        return zinf_fail(st, -ENOMEM, "no memory for an I/O queue");
    q->depth = opts->depth ? opts->depth : DEFAULT_DEPTH;
    q->request_nbytes = opts->request_nbytes ? opts->request_nbytes : DEFAULT_REQUEST_NBYTES;
    if (q->request_nbytes > MAX_REQUEST_NBYTES)
        q->request_nbytes = MAX_REQUEST_NBYTES;
    q->event_fd = opts->event_fd;
    q->log = opts->log;
    q->waiting_end = &q->waiting;
    q->finished_end = &q->finished;
    io_opts = (struct zinf_io_opts){ .depth = q->depth, .event_fd = q->event_fd, .arg = opts->backend_arg };
    rc = zinf_io_open_backend(opts->ops, &io_opts, q->log, &q->ops, &q->io, st);       /* first: it bounds the depth */
    if (!rc && (rc = allocate(q)) != 0)
        zinf_fail(st, rc, "no memory for an I/O queue of depth %u; lower the depth", q->depth);
    if (rc) {
        zinf_io_queue_close(q);
        return rc;
    }
    *out = q;
    return 0;
}
