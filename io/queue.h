/* io/queue.h - the queue everything in zinf uses: any length, any address, every completion checked.
 *
 * On top of one backend it splits a transfer into requests, keeps the depth, resumes short transfers from the last
 * aligned byte, retries EINTR and EAGAIN, gives up on no progress, bounces what O_DIRECT would refuse (address, head or
 * tail), and turns a failure into one line with operation, path, offset and errno. Nothing is allocated after open.
 *
 * Sleeping on event_fd: drain it (read 8 bytes), then reap with min_nr 0 and timeout 0. Whatever that call could not
 * return, and whatever completes later, signals event_fd again; spurious signals happen. Submitting may signal it too.
 * Threads: a queue belongs to the thread that opened it. */
#ifndef ZINF_IO_QUEUE_H_
#define ZINF_IO_QUEUE_H_

#include "io/backend.h"
#include "io/file.h"
#include "zinf/base/log.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_io_queue;

/* One transfer. The caller owns it and buf; both are borrowed from submit until reap returns it. A read past the end of
 * the file is -EIO. On a direct file a write that is not whole blocks (off_align) is padded on disk with zeros, at its
 * tail and, where off_bytes is not a multiple, at its head: the rest of those blocks must belong to the same owner and
 * hold nothing it needs. Ops in flight are not ordered: two that touch the same block, or a SYNC and the writes it is
 * for, must not be pending at once. A SYNC is an fdatasync; buf, nbytes and off_bytes are unused. */
struct zinf_io_op {
    const struct zinf_file *file;
    enum zinf_io_dir dir;
    void     *buf;
    size_t    nbytes;
    uint64_t  off_bytes;
    int       rc;               /* after reap: 0 or -errno */
    void     *user;             /* the caller's */
    /* private to the queue */
    size_t    done_nbytes;
    uint32_t  nr_inflight, nr_stalls;
    struct zinf_io_op *next;
    uint64_t  issued_nbytes;
};

struct zinf_io_queue_opts {     /* zero in a field = its default */
    const struct zinf_io_ops *ops;   /* NULL = auto: the first that opens, with one line per refusal */
    uint32_t depth;                  /* requests in flight; default 32 */
    size_t   request_nbytes;         /* largest single request; default 1 MiB */
    int      event_fd;               /* -1 = none. Note: zero is a descriptor; set this */
    const void *backend_arg;
    const struct zinf_log *log;      /* borrowed until close; NULL = silent */
};

/* Summed from completions, never from intentions: bytes as moved, padding and what was moved twice included; nr_reads,
 * nr_writes and nr_syncs are requests. */
struct zinf_io_totals {
    uint64_t read_nbytes, written_nbytes, nr_reads, nr_writes, nr_syncs, nr_resumed, nr_retried, nr_bounced;
};

int  zinf_io_queue_open(const struct zinf_io_queue_opts *opts, struct zinf_io_queue **out, struct zinf_status *st);
/* NULL is fine. Waits for what the backend has in flight; ops not reaped are forgotten, others never happen. */
void zinf_io_queue_close(struct zinf_io_queue *q);
const char *zinf_io_queue_backend(const struct zinf_io_queue *q);   /* the backend chosen */
/* Registers a buffer region where the backend gains from it; a refusal is logged once with both numbers and is no
 * error. Nothing may be pending. */
void zinf_io_queue_pin(struct zinf_io_queue *q, void *base, size_t nbytes);
/* Always takes op (the queue holds what the depth does not let through yet). */
void zinf_io_queue_submit(struct zinf_io_queue *q, struct zinf_io_op *op);
/* Returns up to max_nr finished ops in done[] (waits for at least min_nr, at most timeout_ms; -1 = no limit); with
 * nothing queued it returns 0 at once. Signals do not interrupt the wait. A failed op has rc < 0; its line is in st
 * (the first one) and in the log. Returns -errno, with a line, only when the backend itself fails; the queue can only
 * be closed then. */
int  zinf_io_queue_reap(struct zinf_io_queue *q, struct zinf_io_op **done, uint32_t min_nr, uint32_t max_nr,
                        int timeout_ms, struct zinf_status *st);
uint32_t zinf_io_queue_pending(const struct zinf_io_queue *q);      /* ops submitted and not yet reaped */
void zinf_io_queue_totals(const struct zinf_io_queue *q, struct zinf_io_totals *out);
/* One op, waited for: start-up, export, recovery. Nothing else may be pending. */
int  zinf_io_run(struct zinf_io_queue *q, const struct zinf_file *file, enum zinf_io_dir dir, void *buf, size_t nbytes,
                 uint64_t off_bytes, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_QUEUE_H_ */
