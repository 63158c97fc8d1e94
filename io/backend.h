/* io/backend.h - one queue of asynchronous file I/O, whatever moves the bytes: the table a backend fills.
 *
 * Lifecycle: open -> (submit* reap*)* -> close. A backend moves one request and reports exactly what the kernel said;
 * it does not retry, split or align. io/queue.h does that once, for all of them, and is what the rest of zinf uses.
 * Threads: a queue belongs to the thread that opened it; only event_fd is signalled from elsewhere. */
#ifndef ZINF_IO_BACKEND_H_
#define ZINF_IO_BACKEND_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_io;   /* a backend's queue; each backend defines its own */

enum zinf_io_dir { ZINF_IO_READ, ZINF_IO_WRITE, ZINF_IO_SYNC /* fdatasync; buf and nbytes unused */ };

/* Owned by the caller from submit until the same pointer comes back from reap; in between neither the request nor buf
 * may be touched. */
struct zinf_io_req {
    int              fd;
    enum zinf_io_dir dir;
    void            *buf;
    size_t           nbytes;
    uint64_t         off_bytes;
    int64_t          res;        /* set by reap: bytes moved (may be short), or -errno */
    uint64_t         tag;        /* the caller's; backends only carry it */
};

struct zinf_io_opts {
    uint32_t depth;              /* requests in flight, >= 1 */
    int      event_fd;           /* borrowed until close; an eventfd written (8 bytes) when a completion can be reaped;
                                  * -1 = none */
    const void *arg;             /* the backend's own: struct zinf_io_uring_opts, _threads_opts, _mem_opts,
                                  * _fault_script; NULL = defaults (fault needs its script). auto gives it to every
                                  * backend: NULL there */
};

struct zinf_io_ops {
    const char *name;
    uint32_t    depth_max;

    /* Required. On failure *out is NULL, nothing is left to close, and st says why in one line. */
    int (*open)(const struct zinf_io_opts *opts, struct zinf_io **out, struct zinf_status *st);
    /* Required. Takes the first k of nr requests and returns k (0 = full, reap first), or -errno with none taken. */
    int (*submit)(struct zinf_io *io, struct zinf_io_req **reqs, uint32_t nr);
    /* Required. Waits for at least min_nr completions, at most timeout_ms (-1 = no limit), fills done[0..k), returns k.
     * -EINVAL when min_nr is more than what is in flight; -EINTR when a signal came before anything completed. */
    int (*reap)(struct zinf_io *io, struct zinf_io_req **done, uint32_t min_nr, uint32_t max_nr, int timeout_ms);
    /* Required. NULL is fine; what is in flight is waited for first. */
    void (*close)(struct zinf_io *io);
    /* Optional: registers memory for cheaper I/O, with nothing in flight (-EBUSY). NULL = nothing to gain. -ENOMEM etc.
     * leave the queue usable. The memory must stay mapped until close. */
    int (*pin)(struct zinf_io *io, void *base, size_t nbytes);
};

extern const struct zinf_io_ops zinf_io_threads_ops;   /* pread/pwrite on a few threads of its own */
extern const struct zinf_io_ops zinf_io_mem_ops;       /* file contents in RAM, keyed by inode: tests and ceilings */
extern const struct zinf_io_ops zinf_io_fault_ops;     /* scripted results on top of another backend, all logged */
extern const struct zinf_io_ops zinf_io_uring_ops;

/* "io_uring" "threads" "mem" "fault"; NULL when unknown or not compiled in. */
const struct zinf_io_ops *zinf_io_ops_find(const char *name);
/* The i-th backend that `auto` tries, best first; NULL past the end. mem and fault are used by name only. */
const struct zinf_io_ops *zinf_io_ops_auto(uint32_t i);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_BACKEND_H_ */
