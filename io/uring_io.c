/* io/uring_io.c - io_uring: batched submission, results read from every completion, memory registered where allowed.
 *
 * Needs Linux 5.11 (timeouts without a request of their own). On 6.1 and later completions are run by the owner when it
 * asks for them (DEFER_TASKRUN): fewer interruptions, and the registered eventfd is still written when there is one to
 * ask for, so a reaper must enter the kernel before it says "nothing". */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/uring_io.h"

#if ZINF_HAVE_LIBURING
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "io/backend.h"
#include "io/io_internal.h"
#include "io/uring_probe.h"

/* By value: the kernel decides, not the headers this was built with. */
#ifndef IORING_SETUP_TASKRUN_FLAG
#define IORING_SETUP_TASKRUN_FLAG (1U << 9)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#define DEFER_FLAGS (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG)

#define MAX_REQUEST_NBYTES ((size_t)1 << 30)    /* a submission entry holds 32 bits; the rest comes back short */
#define SEGMENT_NBYTES     ((size_t)1 << 30)    /* the kernel's limit for one registered buffer */
#define MAX_SEGMENTS       1024u

struct zinf_io {
    struct io_uring ring;
    uint32_t        depth, nr_inflight;
    bool            deferred;
    struct iovec    segments[MAX_SEGMENTS];     /* registered */
    uint32_t        nr_segments;
};

static const char *refusal_reason(int rc)
{
    switch (-rc) {
    case ENOSYS: return "the kernel has no io_uring, or a container's seccomp profile hides it";
    case EPERM: return "not permitted: sysctl kernel.io_uring_disabled, or a container's seccomp profile";
    case EINVAL: return "the kernel does not take this depth or is too old";
    default: return "unexpected";
    }
}

static int setup(struct io_uring *ring, uint32_t depth, bool defer, bool *deferred)
{
    struct io_uring_params p;
    int rc = -EINVAL;

    *deferred = false;
    if (defer) {
        memset(&p, 0, sizeof(p));
        p.flags = DEFER_FLAGS;
        rc = io_uring_queue_init_params(depth, ring, &p);
        *deferred = rc == 0;
    }
    if (rc == -EINVAL) {
        memset(&p, 0, sizeof(p));
        rc = io_uring_queue_init_params(depth, ring, &p);
    }
    if (rc)
        return rc;
    /* Without EXT_ARG a timeout would take an entry of the ring; without NODROP a completion could be lost. */
    if (!(p.features & IORING_FEAT_EXT_ARG) || !(p.features & IORING_FEAT_NODROP)) {
        io_uring_queue_exit(ring);
        return -EOPNOTSUPP;
    }
    return 0;
}

static int fail_setup(int rc, struct zinf_status *st)
{
    struct rlimit rl = { 0, 0 };

    if (rc == -EOPNOTSUPP)
        return zinf_fail(st, rc, "io_uring refused: the kernel is older than 5.11");
    if (rc == -ENOMEM && getrlimit(RLIMIT_MEMLOCK, &rl) == 0)
        return zinf_fail(st, rc, "io_uring refused: errno %d, no memory for its rings; raise the locked-memory limit "
                         "of %llu bytes (ulimit -l) or lower the depth", -rc, (unsigned long long)rl.rlim_cur);
    return zinf_fail(st, rc, "io_uring refused: errno %d, %s", -rc, refusal_reason(rc));
}

static int uring_open(const struct zinf_io_opts *opts, struct zinf_io **out, struct zinf_status *st)
{
    const struct zinf_io_uring_opts *mine = opts->arg;
    struct zinf_io *io;
    int rc;

    *out = NULL;
    io = calloc(1, sizeof(*io));
    if (!io)
        return zinf_fail(st, -ENOMEM, "io_uring: no memory for a queue");
    io->depth = opts->depth;
    rc = setup(&io->ring, opts->depth, !mine || !mine->no_defer, &io->deferred);
    if (rc) {
        fail_setup(rc, st);
        goto out_free;
    }
    if (opts->event_fd >= 0) {
        rc = io_uring_register_eventfd(&io->ring, opts->event_fd);
        if (rc) {
            zinf_fail(st, rc, "io_uring refused an eventfd: errno %d", -rc);
            goto out_exit;
        }
    }
    *out = io;
    return 0;
out_exit:
    io_uring_queue_exit(&io->ring);
out_free:
    free(io);
    return rc;
}

/* The registered segment that holds all of the buffer, or -1. Segments are sorted by nothing and few. */
static int find_segment(const struct zinf_io *io, const void *buf, size_t nbytes)
{
    uintptr_t from = (uintptr_t)buf;

    for (uint32_t i = 0; i < io->nr_segments; i++) {
        uintptr_t base = (uintptr_t)io->segments[i].iov_base;

        if (from >= base && from - base <= io->segments[i].iov_len && nbytes <= io->segments[i].iov_len - (from - base))
            return (int)i;
    }
    return -1;
}

static void prepare(struct zinf_io *io, struct io_uring_sqe *sqe, struct zinf_io_req *req)
{
    unsigned nbytes = (unsigned)(req->nbytes < MAX_REQUEST_NBYTES ? req->nbytes : MAX_REQUEST_NBYTES);
    int seg = req->dir == ZINF_IO_SYNC ? -1 : find_segment(io, req->buf, nbytes);

    if (req->dir == ZINF_IO_SYNC)
        io_uring_prep_fsync(sqe, req->fd, IORING_FSYNC_DATASYNC);
    else if (req->dir == ZINF_IO_READ && seg >= 0)
        io_uring_prep_read_fixed(sqe, req->fd, req->buf, nbytes, req->off_bytes, seg);
    else if (req->dir == ZINF_IO_READ)
        io_uring_prep_read(sqe, req->fd, req->buf, nbytes, req->off_bytes);
    else if (seg >= 0)
        io_uring_prep_write_fixed(sqe, req->fd, req->buf, nbytes, req->off_bytes, seg);
    else
        io_uring_prep_write(sqe, req->fd, req->buf, nbytes, req->off_bytes);
    io_uring_sqe_set_data(sqe, req);
}

/* Entries the kernel did not consume leave the ring again, so that "taken" has one meaning: in flight. Without SQPOLL
 * the kernel reads the tail only inside a submit call, which is over. */
static void take_back(struct io_uring *ring)
{
    unsigned nr = io_uring_sq_ready(ring);

    ring->sq.sqe_tail -= nr;
    ring->sq.sqe_head = ring->sq.sqe_tail;
    io_uring_smp_store_release(ring->sq.ktail, ring->sq.sqe_tail);
}

static int uring_submit(struct zinf_io *io, struct zinf_io_req **reqs, uint32_t nr)
{
    uint32_t k = 0, room = io->depth - io->nr_inflight;
    int rc;

    while (k < nr && k < room) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&io->ring);

        if (!sqe)
            break;
        prepare(io, sqe, reqs[k]);
        k++;
    }
    if (k == 0)
        return 0;
    rc = io_uring_submit(&io->ring);
    if (rc < (int)k)
        take_back(&io->ring);
    if (rc < 0)
        return rc == -EBUSY ? 0 : rc;    /* busy = completions are to be reaped first */
    if ((uint32_t)rc < k)
        k = (uint32_t)rc;
    io->nr_inflight += k;
    return (int)k;
}

static uint32_t peek(struct zinf_io *io, struct zinf_io_req **done, uint32_t max_nr)
{
    struct io_uring_cqe *cqe;
    uint32_t k = 0;
    unsigned head;

    io_uring_for_each_cqe(&io->ring, head, cqe) {
        struct zinf_io_req *req;

        if (k == max_nr)
            break;
        req = io_uring_cqe_get_data(cqe);
        req->res = cqe->res;
        done[k++] = req;
    }
    io_uring_cq_advance(&io->ring, k);
    io->nr_inflight -= k;
    return k;
}

/* Completions may wait inside the kernel: deferred to us, or past the end of a full ring. */
static bool kernel_holds_some(const struct zinf_io *io)
{
    unsigned flags = __atomic_load_n(io->ring.sq.kflags, __ATOMIC_ACQUIRE);

    return io->deferred || (flags & IORING_SQ_CQ_OVERFLOW);
}

static int uring_reap(struct zinf_io *io, struct zinf_io_req **done, uint32_t min_nr, uint32_t max_nr, int timeout_ms)
{
    struct timespec until = zinf_io_deadline(timeout_ms);
    uint32_t k;
    int rc;

    if (min_nr > io->nr_inflight || min_nr > max_nr)
        return -EINVAL;
    k = peek(io, done, max_nr);
    if (k < max_nr && io->nr_inflight && kernel_holds_some(io)) {
        rc = io_uring_get_events(&io->ring);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
            return k ? (int)k : rc;
        k += peek(io, done + k, max_nr - k);
    }
    while (k < min_nr && timeout_ms != 0) {
        int left_ms = timeout_ms < 0 ? -1 : zinf_io_remaining_ms(&until);
        struct __kernel_timespec ts = { .tv_sec = left_ms / 1000, .tv_nsec = (long long)(left_ms % 1000) * 1000000 };
        struct io_uring_cqe *cqe = NULL;

        rc = io_uring_wait_cqes(&io->ring, &cqe, min_nr - k, left_ms < 0 ? NULL : &ts, NULL);
        k += peek(io, done + k, max_nr - k);
        if (rc == -EAGAIN || rc == -EBUSY)
            rc = 0;
        if (rc == -ETIME || (rc < 0 && k > 0))
            break;
        if (rc < 0)
            return rc;
        if (left_ms == 0)
            break;
    }
    return (int)k;
}

static void uring_close(struct zinf_io *io)
{
    if (!io)
        return;
    while (io->nr_inflight) {
        struct io_uring_cqe *cqe = NULL;
        int rc = io_uring_wait_cqe(&io->ring, &cqe);

        if (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY)
            continue;
        if (rc < 0)
            break;          /* the ring is unusable (another thread's): leaving it cancels and waits there */
        io_uring_cqe_seen(&io->ring, cqe);
        io->nr_inflight--;
    }
    io_uring_queue_exit(&io->ring);
    free(io);
}

/* Registers the table as it is now; what was registered before goes first, the kernel holds one table per ring. */
static int register_segments(struct zinf_io *io, uint32_t nr_before, uint32_t nr)
{
    int rc = nr_before ? io_uring_unregister_buffers(&io->ring) : 0;

    if (rc == 0 && nr)
        rc = io_uring_register_buffers(&io->ring, io->segments, nr);
    io->nr_segments = rc ? 0 : nr;
    return rc;
}

static int uring_pin(struct zinf_io *io, void *base, size_t nbytes)
{
    uint32_t nr_before = io->nr_segments, nr = nr_before;
    int rc;

    if (io->nr_inflight)
        return -EBUSY;
    for (size_t at = 0; at < nbytes; at += SEGMENT_NBYTES) {
        if (nr == MAX_SEGMENTS)
            return -E2BIG;
        io->segments[nr].iov_base = (char *)base + at;
        io->segments[nr].iov_len = nbytes - at < SEGMENT_NBYTES ? nbytes - at : SEGMENT_NBYTES;
        nr++;
    }
    rc = register_segments(io, nr_before, nr);
    /* What was registered stays so where the kernel still lets us; without it the queue only works harder. */
    if (rc && nr_before)
        (void)register_segments(io, 0, nr_before);
    return rc;
}

const struct zinf_io_ops zinf_io_uring_ops = {
    .name = "io_uring",
    .depth_max = 4096,
    .open = uring_open,
    .submit = uring_submit,
    .reap = uring_reap,
    .close = uring_close,
    .pin = uring_pin,
};

int zinf_io_uring_probe_ring(struct zinf_io_uring_info *out, struct zinf_status *st)
{
    struct io_uring ring;
    struct iovec iov;
    void *page = NULL;
    int rc = setup(&ring, 1, true, &out->deferred);

    if (rc)
        return fail_setup(rc, st);
    out->available = true;
    if (posix_memalign(&page, 4096, 4096) == 0) {
        memset(page, 0, 4096);
        iov = (struct iovec) { .iov_base = page, .iov_len = 4096 };
        out->registers = io_uring_register_buffers(&ring, &iov, 1) == 0;
    }
    io_uring_queue_exit(&ring);
    free(page);
    return 0;
}
#endif /* ZINF_HAVE_LIBURING */
