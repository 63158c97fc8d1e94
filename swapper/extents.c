/* swapper/extents.c - dealing grains to drives and laying them out unit by unit. */
#include "swapper/extents.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "zinf/base/align.h"
#include "zinf/base/size.h"

static uint64_t weight_nbytes(const struct zinf_sched_plan *p, uint32_t grain, uint32_t align_nbytes)
{
    return p->extents_weight ? zinf_align_up(p->grains[grain].nr_elems * p->spec.weight_nbytes, align_nbytes) : 0;
}

static uint64_t state_nbytes(const struct zinf_sched_plan *p, uint32_t grain, uint32_t align_nbytes)
{
    return p->extents_state ? zinf_align_up(p->grains[grain].nr_elems * p->spec.state_nbytes, align_nbytes) : 0;
}

/* Both roles of everything a grain has. */
static uint64_t grain_nbytes(const struct zinf_sched_plan *p, uint32_t grain, uint32_t align_nbytes)
{
    return 2 * (weight_nbytes(p, grain, align_nbytes) + state_nbytes(p, grain, align_nbytes));
}

/* What is left of the file system that drive d lies on. */
static uint64_t room(const struct zinf_drive *drives, uint32_t nr_drives, uint32_t d)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < nr_drives; i++)
        if (drives[i].fs_id == drives[d].fs_id)
            used += drives[i].nbytes;
    return drives[d].free_nbytes > used ? drives[d].free_nbytes - used : 0;
}

static int no_space(const struct zinf_sched_plan *p, const struct zinf_drive *drives, uint32_t nr_drives,
                    struct zinf_status *st)
{
    uint64_t need = 0, have = 0;
    for (uint32_t g = 0; g < p->nr_grains; g++)
        need += grain_nbytes(p, g, drives[0].align_nbytes);
    char paths[256] = "", need_text[16], have_text[16];
    size_t at = 0;
    for (uint32_t d = 0; d < nr_drives; d++) {
        bool seen = false;
        for (uint32_t i = 0; i < d; i++)
            seen = seen || drives[i].fs_id == drives[d].fs_id;
        have += seen ? 0 : drives[d].free_nbytes;
        int n = snprintf(paths + at, sizeof(paths) - at, "%s%s", d ? ", " : "", drives[d].dir);
        at = zinf_min_u64(at + (n > 0 ? (size_t)n : 0), sizeof(paths) - 1);
    }
    return zinf_fail(st, -ENOSPC,
                     "%s: the drive files need %llu bytes (%s) and %llu (%s) are free: free space there or name "
                     "another folder in zinf.nvme_paths",
                     paths, (unsigned long long)need, zinf_size_format(need, need_text, sizeof(need_text)),
                     (unsigned long long)have, zinf_size_format(have, have_text, sizeof(have_text)));
}

static int deal(const struct zinf_sched_plan *p, struct zinf_drive *drives, uint32_t nr_drives,
                struct zinf_extent *extents, struct zinf_status *st)
{
    for (uint32_t d = 0; d < nr_drives; d++)
        drives[d].nbytes = 0;
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        uint32_t best = nr_drives;
        for (uint32_t d = 0; d < nr_drives; d++)
            if (room(drives, nr_drives, d) >= grain_nbytes(p, g, drives[d].align_nbytes) &&
                (best == nr_drives || drives[d].nbytes < drives[best].nbytes))
                best = d;
        if (best == nr_drives)
            return no_space(p, drives, nr_drives, st);
        extents[g].drive = best;
        drives[best].nbytes += grain_nbytes(p, g, drives[best].align_nbytes);
    }
    return 0;
}

void zinf_extents_place(const struct zinf_sched_plan *p, struct zinf_drive *drives, uint32_t nr_drives,
                        struct zinf_extent *extents)
{
    for (uint32_t d = 0; d < nr_drives; d++) {
        uint64_t at = 0;
        for (uint32_t u = 0; u < p->spec.nr_units; u++) {
            for (uint32_t area = 0; area < 4; area++) {
                for (uint32_t g = p->unit_first_grain[u]; g < p->unit_first_grain[u + 1]; g++) {
                    if (extents[g].drive != d)
                        continue;
                    uint64_t *off = area < 2 ? extents[g].weight_off_bytes : extents[g].state_off_bytes;
                    off[area % 2] = at;
                    at += area < 2 ? weight_nbytes(p, g, drives[d].align_nbytes)
                                   : state_nbytes(p, g, drives[d].align_nbytes);
                }
            }
        }
        drives[d].nbytes = at;
    }
}

int zinf_extents_make(const struct zinf_sched_plan *p, struct zinf_drive *drives, uint32_t nr_drives,
                      struct zinf_extent *extents, struct zinf_status *st)
{
    int rc = deal(p, drives, nr_drives, extents, st);
    if (!rc)
        zinf_extents_place(p, drives, nr_drives, extents);
    return rc;
}
