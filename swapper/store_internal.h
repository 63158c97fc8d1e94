/* swapper/store_internal.h - what the two halves of the store share: store.c and store_lanes.c. */
#ifndef ZINF_SWAPPER_STORE_INTERNAL_H_
#define ZINF_SWAPPER_STORE_INTERNAL_H_

#include "swapper/arena.h"
#include "swapper/extents.h"
#include "swapper/store.h"

struct zinf_store_lanes;

struct zinf_store {
    struct zinf_store_opts opts;
    const struct zinf_sched_plan *plan;
    char *device, *host;
    struct zinf_arena *arena;
    struct zinf_store_info info;

    /* Only with extents. */
    uint32_t nr_drives, nr_created;
    struct zinf_file *files;             /* per drive; the first nr_created are open */
    struct zinf_extent *extents;         /* per grain */
    uint8_t *current;                    /* per grain: which of the two is CURRENT */
    struct zinf_io_queue *queue;
    struct zinf_store_lanes *lanes;
};

int  zinf_store_lanes_open(struct zinf_store *s, struct zinf_status *st);
void zinf_store_lanes_close(struct zinf_store *s);           /* the queue is closed: nothing is in flight */
void zinf_store_fill(struct zinf_store *s, struct zinf_loc slot);

#endif /* ZINF_SWAPPER_STORE_INTERNAL_H_ */
