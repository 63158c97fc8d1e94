/* swapper/arena.h - where every slot, home and fixed area of a plan lies in its tier's arena. Pure: no
 * memory is touched.
 *
 *   one arena:  slots of each class | homes of weights, state, gradients | fixed area
 *
 * Everything starts at a multiple of 4096, as the plan's sizes are; the fixed area comes last. */
#ifndef ZINF_SWAPPER_ARENA_H_
#define ZINF_SWAPPER_ARENA_H_

#include <stdint.h>

#include "swapper/schedule.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_arena;

/* plan is borrowed until close. Returns 0, -ENOMEM, or -EINVAL when the layout needs more than the plan's ledger
 * says. */
int  zinf_arena_open(const struct zinf_sched_plan *plan, struct zinf_arena **out, struct zinf_status *st);
void zinf_arena_close(struct zinf_arena *a);                 /* NULL is fine */
/* Offset of a slot or home in its tier's arena; part as in zinf_store_addr. UINT64_MAX: an extent, or
 * the plan has no such place. */
uint64_t zinf_arena_off_bytes(const struct zinf_arena *a, struct zinf_loc loc, uint32_t part);
uint64_t zinf_arena_fixed_off_bytes(const struct zinf_arena *a, enum zinf_tier tier);
/* Of a slot or home: DEVICE or HOST; of an extent: NVME. */
enum zinf_tier zinf_loc_tier(struct zinf_loc loc);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_ARENA_H_ */
