/* swapper/extents.h - where every grain's bytes lie on the drives. Pure: numbers in, numbers out.
 *
 *   one drive's file:  unit 0: | weights role 0 of its grains | weights role 1 | state role 0 | state role 1 |  unit 1: ...
 *
 * Inside a | | the grains of the unit that were dealt to this drive follow each other, so a unit's weights are read in
 * one piece per drive while its grains' roles agree. */
#ifndef ZINF_SWAPPER_EXTENTS_H_
#define ZINF_SWAPPER_EXTENTS_H_

#include <stdint.h>

#include "swapper/schedule.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_EXTENT_ALIGN 4096u

struct zinf_drive {
    const char *dir;         /* for messages; borrowed */
    uint64_t fs_id;          /* drives with the same one share their free space */
    uint64_t free_nbytes;
    uint32_t align_nbytes;   /* a multiple of ZINF_EXTENT_ALIGN: extents start here, so that no block has two owners */
    uint64_t nbytes;         /* out: length of its file */
};
struct zinf_extent {         /* of one grain */
    uint32_t drive;
    uint64_t weight_off_bytes[2], state_off_bytes[2];
};

/* Deals the plan's grains to the drives, each to the one with the fewest bytes so far that has room, and lays out the
 * files. extents has nr_grains entries. Returns 0, or -ENOSPC with need, free and paths. */
int zinf_extents_make(const struct zinf_sched_plan *plan, struct zinf_drive *drives, uint32_t nr_drives,
                      struct zinf_extent *extents, struct zinf_status *st);

/* The same files for a deal that was made before: extents[g].drive is given, everything else is filled in. */
void zinf_extents_place(const struct zinf_sched_plan *plan, struct zinf_drive *drives, uint32_t nr_drives,
                        struct zinf_extent *extents);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_EXTENTS_H_ */
