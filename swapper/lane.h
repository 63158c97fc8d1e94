/* swapper/lane.h - what the mover asks of a lane: start an operation, say when it is done.
 *
 * Devices, the pool, the drives and (later) ranks are plugged in as lanes by the engine. */
#ifndef ZINF_SWAPPER_LANE_H_
#define ZINF_SWAPPER_LANE_H_

#include <stdint.h>

#include "swapper/schedule.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_mover;

struct zinf_lane_impl {
    /* Required. Starts operation op of s; zinf_mover_complete(m, op, rc) is called exactly once for it, from any
     * thread, maybe before this returns. On a stream lane `after` names operations on *other* stream lanes of this run
     * that were issued before and may not be complete: the stream itself must wait for them (events); on a host lane
     * nr_after is 0. Called on the mover's thread, in lane order. Returns 0 or -errno (then complete is not called). */
    int (*issue)(void *ctx, struct zinf_mover *m, const struct zinf_schedule *s, uint32_t op, const uint32_t *after,
                 uint32_t nr_after, struct zinf_status *st);
    /* Optional. Called on the mover's thread whenever it wakes and before it sleeps: reap, call
     * zinf_mover_complete, and put the line of a failure in st. Must not block. A lane that has
     * something to reap later signals zinf_mover_event_fd. -errno stops the run; operations in flight
     * must still complete. NULL: completions come alone. */
    int (*poll)(void *ctx, struct zinf_mover *m, struct zinf_status *st);
    void *ctx;
    uint32_t depth;      /* operations in flight at most; 0 = no limit */
};

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_LANE_H_ */
