/* swapper/mover.h - executes a schedule: issues every lane in list order, reaps completions, blocks on
 * one eventfd when idle.
 *
 * An operation on a host lane is issued when its dependencies have completed; on a stream lane when its host-lane
 * dependencies have completed and its stream-lane dependencies have been issued (the stream waits for the rest). A slot
 * handed out twice, or a completion for an operation that is not in flight, is our bug and ends the run with a message.
 * Threads: run belongs to one thread (the mover); complete may be called from any. */
#ifndef ZINF_SWAPPER_MOVER_H_
#define ZINF_SWAPPER_MOVER_H_

#include <stdbool.h>
#include <stdint.h>

#include "swapper/lane.h"
#include "zinf/base/clock.h"
#include "zinf/base/log.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_mover_opts {
    const struct zinf_lane_impl *lanes;   /* ZINF_NR_LANES entries, borrowed until close; issue NULL = lane absent. Read
                                           * at every run, so a lane that needs the event_fd below may be filled in
                                           * after open */
    const struct zinf_sched_plan *plan;   /* borrowed for the call; class counts for the ledger */
    uint32_t max_ops;                     /* of any schedule that will run; everything is allocated at open */
    bool serial;                          /* one operation at a time, in list order: debugging and the oracle */
    uint32_t quiet_ms;                    /* so long without a completion: the log names what is in flight; default
                                           * 30000 */
    const struct zinf_clock *clock;       /* NULL = system */
    const struct zinf_log *log;           /* borrowed until close; NULL = silent */
};

struct zinf_lane_stats { uint64_t busy_ns;    /* at least one operation in flight */
                         uint64_t stall_ns;   /* its next operation could not be issued while the lane was idle */
                         uint64_t nbytes, nr_ops; };
struct zinf_mover_stats {
    struct zinf_lane_stats lane[ZINF_NR_LANES];
    uint64_t wall_ns;
    uint32_t peak_slots[ZINF_NR_CLASSES];     /* occupied at once, from hand-outs and frees at run time */
};
struct zinf_op_times { uint64_t issue_ns, done_ns; };

/* Returns 0, -EINVAL, -ENOMEM or what eventfd(2) said; on failure *out is NULL. */
int  zinf_mover_open(const struct zinf_mover_opts *opts, struct zinf_mover **out, struct zinf_status *st);
/* NULL is fine. Nothing is in flight between runs; a thread that is still on its way out of complete is waited for. */
void zinf_mover_close(struct zinf_mover *m);
int  zinf_mover_event_fd(const struct zinf_mover *m);         /* what lanes' I/O queues signal; valid until close */
/* Runs s to its end. On the first failure nothing more is issued, what is in flight is waited for, and the failure is
 * returned with its line: the one a lane wrote in issue or poll, else the operation and its errno. (A lane that
 * completes from another thread and has a line of its own stores it before complete and hands it out in poll, which is
 * called between taking a completion and looking at it.) stats and times (nr_ops entries) may be NULL; they are whole
 * after a failure too, times of operations that did not run being 0. Returns 0, what the operation or lane said,
 * -EINVAL for a schedule that breaks the rules of schedule.h, -EPROTO for a double hand-out of a slot, a slot not freed
 * at the end, or a completion out of place. */
int  zinf_mover_run(struct zinf_mover *m, const struct zinf_schedule *s, struct zinf_mover_stats *stats,
                    struct zinf_op_times *times, struct zinf_status *st);
/* From any thread, once for every operation issued. Does not block and allocates nothing. */
void zinf_mover_complete(struct zinf_mover *m, uint32_t op, int rc);
/* The run that goes on, and every later one, ends with -ECANCELED once what is in flight is done; one that is done already is not
 * touched. Async-signal-safe, from any thread. */
void zinf_mover_cancel(struct zinf_mover *m);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_MOVER_H_ */
