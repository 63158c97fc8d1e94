/* swapper/store_internal.h - what the parts of the store share: store.c, _files.c, _lanes.c, _commit.c and _crc.c. */
#ifndef ZINF_SWAPPER_STORE_INTERNAL_H_
#define ZINF_SWAPPER_STORE_INTERNAL_H_

#include "swapper/arena.h"
#include "swapper/extents.h"
#include "swapper/store.h"

struct zinf_store_lanes;
struct zinf_store_commit;
struct zinf_store_record;

/* One transfer on the drives' queue; its address is the user of the queue's operation. */
struct zinf_store_transfer {
    struct zinf_io_op io;
    struct zinf_store_record *record;    /* the READ or WRITE in flight; NULL = a commit's */
    struct zinf_store_transfer *next;    /* free list */
};

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
    uint8_t *dirty;                      /* per grain: 1 = its newest bytes are in ALTERNATE */
    uint8_t *written;                    /* per grain: scratch */
    uint32_t *drive_align;               /* per drive */
    struct zinf_io_queue *queue;
    struct zinf_store_lanes *lanes;

    /* Only with checksums: per grain and extent. */
    uint32_t (*crc)[2][ZINF_RECORD_PIECES];
    uint8_t (*crc_known)[2];

    struct zinf_store_commit *commit;    /* only of a durable store */
};

/* The drives' files: made, or those of opts.resume. On failure what was made is deleted by remove. */
int  zinf_store_files_open(struct zinf_store *s, struct zinf_status *st);
void zinf_store_files_remove(struct zinf_store *s);

int  zinf_store_lanes_open(struct zinf_store *s, struct zinf_status *st);
void zinf_store_lanes_close(struct zinf_store *s);           /* the queue is closed: nothing is in flight */
void zinf_store_fill(struct zinf_store *s, struct zinf_loc slot);
/* Reaps what is done, without waiting or (wait) at least one; a queue that is lost fails everything in flight. */
void zinf_store_reap(struct zinf_store *s, bool wait, struct zinf_status *st);

int  zinf_store_commit_open(struct zinf_store *s, struct zinf_status *st);   /* once the files are there */
void zinf_store_commit_close(struct zinf_store *s);
void zinf_store_commit_remove(struct zinf_store *s);             /* deletes what open made */
void zinf_store_commit_info(const struct zinf_store *s, struct zinf_store_info *out);
struct zinf_lane_impl zinf_store_commit_lane(struct zinf_store *s);
void zinf_store_commit_reaped(struct zinf_store *s, const struct zinf_io_op *io);
void zinf_store_commit_broken(struct zinf_store *s, int rc);
/* A write failed: no commit from here on, and no write either, because the last record that was tried may be on the drive and
 * names extents beside the one before it. */
void zinf_store_commit_refuse(struct zinf_store *s, int rc);
int  zinf_store_commit_check(const struct zinf_store *s, struct zinf_status *st);    /* 0, or that it is so */
bool zinf_store_has_named(const struct zinf_store *s);           /* a record names the CURRENT extents */
/* s->written[g] = 1 for the grains that operations before `end` write. */
void zinf_store_mark_written(struct zinf_store *s, const struct zinf_schedule *sched, uint32_t end);

/* The pieces of a grain's weights or state in buf: computed into its extent `side`, or compared with it. */
void zinf_store_crc_compute(struct zinf_store *s, uint32_t grain, uint32_t side, bool state, const void *buf);
int  zinf_store_crc_check(const struct zinf_store *s, uint32_t grain, uint32_t side, bool state, const void *buf,
                          struct zinf_status *st);

#endif /* ZINF_SWAPPER_STORE_INTERNAL_H_ */
