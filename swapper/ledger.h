/* swapper/ledger.h - who holds which slot while a schedule runs: the proof of schedule_check, looked at once more with
 * real completions.
 *
 *             hand-out (acq)            last user issued (free)          last user complete
 *   EMPTY ------------------> HELD(a) -------------------------> LEAVING(f) ------------------> EMPTY
 *                                ^                                   |
 *                                +---- hand-out to a stream lane ----+   when f is on a stream lane too: they wait
 *
 * Threads: a ledger belongs to the mover's thread. */
#ifndef ZINF_SWAPPER_LEDGER_H_
#define ZINF_SWAPPER_LEDGER_H_

#include "swapper/schedule.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_ledger;

/* plan is borrowed for the call. Returns 0 or -ENOMEM. */
int  zinf_ledger_open(const struct zinf_sched_plan *plan, struct zinf_ledger **out, struct zinf_status *st);
void zinf_ledger_close(struct zinf_ledger *l);               /* NULL is fine */
/* Empties every slot and forgets the peaks: the start of a run. */
void zinf_ledger_begin(struct zinf_ledger *l);
/* True when loc is a slot that the plan has. */
bool zinf_ledger_knows(const struct zinf_ledger *l, struct zinf_loc loc);
/* Operation op of s is about to be issued: takes its acq slots, then marks its free slots as leaving. Returns 0, or
 * -EPROTO with a line that names the slot and both operations. */
int  zinf_ledger_issue(struct zinf_ledger *l, const struct zinf_schedule *s, uint32_t op, struct zinf_status *st);
/* Operation op of s has completed: what it was the last to use and nobody took over is empty. */
void zinf_ledger_complete(struct zinf_ledger *l, const struct zinf_schedule *s, uint32_t op);
/* All slots are empty at a seam. Returns 0 or -EPROTO with a line. */
int  zinf_ledger_end(const struct zinf_ledger *l, struct zinf_status *st);
/* Slots of a class not empty at once, at most, since begin. */
uint32_t zinf_ledger_peak(const struct zinf_ledger *l, enum zinf_class c);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_LEDGER_H_ */
