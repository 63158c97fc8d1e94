/* swapper/mover.h - executes a schedule: issues every lane in list order, reaps completions, blocks on one eventfd when idle.
 *
 * An operation on a host lane is issued when its dependencies have completed; on a stream lane when its host-lane
 * dependencies have completed and its stream-lane dependencies have been issued (the stream waits for the rest). A slot handed
 * out twice, or a completion for an operation that is not in flight, is our bug and ends the run with a message.
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
    const struct zinf_lane_impl *lanes;   /* ZINF_NR_LANES entries, borrowed until close; issue NULL = lane absent */
    const struct zinf_sched_plan *plan;   /* borrowed; class counts for the ledger */
    uint32_t max_ops;                     /* of any schedule that will run; everything is allocated at open */
    bool serial;                          /* one operation at a time, in list order: debugging and the oracle */
    const struct zinf_clock *clock;       /* NULL = system */
    const struct zinf_log *log;
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

int  zinf_mover_open(const struct zinf_mover_opts *opts, struct zinf_mover **out, struct zinf_status *st);
void zinf_mover_close(struct zinf_mover *m);                  /* NULL is fine */
int  zinf_mover_event_fd(const struct zinf_mover *m);         /* what lanes' I/O queues signal; valid until close */
/* Runs s to its end. On the first failure nothing more is issued, what is in flight is waited for, and the failure is
 * returned with its line. stats and times (nr_ops entries) may be NULL. Returns 0 or -errno. */
int  zinf_mover_run(struct zinf_mover *m, const struct zinf_schedule *s, struct zinf_mover_stats *stats,
                    struct zinf_op_times *times, struct zinf_status *st);
void zinf_mover_complete(struct zinf_mover *m, uint32_t op, int rc);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_MOVER_H_ */
