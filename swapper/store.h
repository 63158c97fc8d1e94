/* swapper/store.h - the tiered tensor store: where every location of a plan is, and the drive lanes.
 *
 * The store lays the plan's classes, homes and fixed areas out in one arena per tier and its extents in one file per
 * drive, preallocated and written once. It knows units and grains, not tensors.
 *
 *   state-<rank> on each drive: for every unit in order: weights role 0 of the unit's grains on this drive, contiguous, then
 *   role 1; then state role 0 and role 1 of those grains. Offsets and lengths are multiples of 4096. A grain's state is its
 *   pieces one after another in the order the update uses them (bf16: lo, m, v; fp32: m, v), each nr_elems long.
 *   With several drives the grains are dealt out evenly by bytes within each drive's free space.
 *   record-<rank> on the first drive (durable stores): swapper/record.h. member on every other drive: a line with the first
 *   drive's run folder, so that a folder without a record of its own is known to belong to a checkpoint.
 *
 * Commits. A record names one extent per grain; from then on nothing is written there, so writes go to ALTERNATE only.
 *
 *   WRITE ... WRITE -> COMMIT: fdatasync of every drive -> record into the slot of the one before last -> fdatasync of it
 *
 * A schedule that commits names the extents that are CURRENT after its flips. After one that wrote and did not commit, the
 * newest bytes are in ALTERNATE and CURRENT is what the last record names (the store is *dirty*). Any failed write or sync
 * ends commits for good: the record on the drive stays the state of the run.
 *
 * Threads: the store belongs to the thread that opened it (the one that runs the mover: its I/O queue takes no other);
 * addresses may be used anywhere. */
#ifndef ZINF_SWAPPER_STORE_H_
#define ZINF_SWAPPER_STORE_H_

#include <stdbool.h>
#include <stdint.h>

#include "io/queue.h"
#include "swapper/lane.h"
#include "swapper/record.h"
#include "swapper/rundir.h"
#include "swapper/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_store;

struct zinf_store_opts {
    const struct zinf_sched_plan *plan;   /* borrowed until close */
    void *device_base;                    /* plan->use[DEVICE] bytes of device memory, 4096-aligned, borrowed */
    void *host_base;                      /* plan->use[HOST] bytes, 4096-aligned, borrowed */
    const char *const *dirs;              /* run folders, one per drive, borrowed; NULL when the plan has no extents */
    uint32_t nr_dirs;
    uint32_t rank;
    struct zinf_io_queue_opts io;         /* as the user chose; event_fd = the mover's */
    uint32_t lane_depth;                  /* operations in flight on each drive lane; default 32 */
    bool direct;                          /* want O_DIRECT */
    bool poison;                          /* fill free slots with NaN bytes (0xFF): at open, when a READ takes one */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);   /* creation of the files; may be NULL */
    void *progress_ctx;
    /* Moves bytes from, to or within device memory and is done when it returns. NULL: the device is the CPU, memcpy. */
    void (*device_copy)(void *ctx, void *dst, const void *src, size_t nbytes);
    void *device_copy_ctx;
    const struct zinf_log *log;           /* borrowed until close; NULL = silent */

    bool durable;                         /* commits records. Extents must hold the whole state */
    bool power;                           /* what is committed survives a loss of power: drives are flushed; else kill -9 only */
    bool checksum;                        /* CRC-32C of every piece in the extents */
    const char *uuid;                     /* of the run: for the record; copied. Required with durable */
    uint32_t world;                       /* likewise */
    const char *fingerprint;              /* likewise; NULL = "" */
    uint32_t payload_nbytes;              /* of every record */
    /* Borrowed for the call: the files of this record are opened instead of made. Nothing is created or written before the
     * first WRITE, put or commit (with power the files are flushed: what is resumed is durable from then on). A plan that does
     * not fit the record is refused with the first difference, and a file that is not there or has another length is named. */
    const struct zinf_record *resume;
};

/* Free space is checked against the need of every drive before a byte of a file is written. On failure *out is NULL and no
 * file is left that was not there. Returns 0, -EINVAL, -ENOMEM, -ENOSPC or what the file system said, each with a line. */
int  zinf_store_open(const struct zinf_store_opts *opts, struct zinf_store **out, struct zinf_status *st);
/* NULL is fine; waits for what is in flight. The files stay: the run folder owns them. */
void zinf_store_close(struct zinf_store *s);

/* Address of a slot or home. part = grain: for weights in a home or a WEIGHT slot, the address of that grain's weights
 * inside its unit (0 is the first byte: grain 0 starts a unit); elsewhere it is not looked at. Extents have none: NULL,
 * and so has what the plan does not have. */
void *zinf_store_addr(const struct zinf_store *s, struct zinf_loc loc, uint32_t part);
void *zinf_store_device_fixed(const struct zinf_store *s);   /* spec.device_fixed_nbytes bytes */
void *zinf_store_host_fixed(const struct zinf_store *s);     /* spec.host_fixed_nbytes bytes */

/* The nvme_read, nvme_write and (durable) sync lanes, for the mover's table. Every poll reaps for all: they share the queue. Any
 * other lane, or a plan without extents: a lane without issue. The sync lane takes COMMIT, one at a time. */
struct zinf_lane_impl zinf_store_lane(struct zinf_store *s, enum zinf_lane lane);
/* After a schedule has run: extent roles flip where it says so; what it wrote elsewhere is newest in ALTERNATE. */
void zinf_store_seam(struct zinf_store *s, const struct zinf_schedule *sched);
/* With opts.poison: fills the slots that op is the first to touch, for the lanes that are not the store's. */
void zinf_store_poison(struct zinf_store *s, const struct zinf_schedule *sched, uint32_t op);

/* Whole grains in and out, outside a schedule: initialisation, evaluation's end, export. weights and state are host buffers of
 * nr_elems * weight_nbytes and nr_elems * state_nbytes bytes (any address). put writes the homes the plan has on the host or
 * device and, where the plan has extents, the one that no record names (before the first record: CURRENT), which is then the
 * newest until zinf_store_commit; get reads the newest copy, the drive's when there is one, else that of the tier the grain is
 * updated in. state may be NULL in get. With checksums put computes them and get compares (-EBADMSG). */
int  zinf_store_put_grain(struct zinf_store *s, uint32_t grain, const void *weights, const void *state, struct zinf_status *st);
int  zinf_store_get_grain(struct zinf_store *s, uint32_t grain, void *weights, void *state, struct zinf_status *st);
/* After resume: what the plan keeps of the grain in homes is read from the newest extents (checked) and put there, and nothing
 * else is read. The buffers are as in get, scratch or the homes themselves. */
int  zinf_store_restore_grain(struct zinf_store *s, uint32_t grain, void *weights, void *state, struct zinf_status *st);

/* ---- commits ---- */

/* What the next COMMIT records: the state after iteration `generation` (above the last one's) and payload_nbytes bytes, copied.
 * Between schedules. */
void zinf_store_next_record(struct zinf_store *s, uint64_t generation, const void *payload);
/* The same record at once, outside a schedule, with the newest extents of every grain; afterwards they are CURRENT. The first
 * record of a run is made this way (a COMMIT needs one before it). Returns 0 when it is durable, else -errno with a line. */
int  zinf_store_commit(struct zinf_store *s, uint64_t generation, const void *payload, struct zinf_status *st);
/* For zinf_rundir_sweep: the folder holds a valid record, or is a member of a run whose first folder holds one. What cannot be
 * read counts as one, so that it is not deleted. ctx is not used. */
bool zinf_store_has_record(const char *path, void *ctx);

/* ---- checksums ---- */

/* Pieces of a grain: 0 = its weights, then those of its state in order. *off_bytes is from the start of the weights or of the
 * state. False: no such piece (of 0 bytes, too). */
bool zinf_store_piece(const struct zinf_sched_plan *plan, uint32_t grain, uint32_t piece, uint64_t *off_bytes, uint64_t *nbytes,
                      bool *is_weight);
/* The CRCs of the pieces in a grain's extent: of what an update is about to write there, and of what a READ of that role brings.
 * NULL: not known (checksums are off, or were when it was written). Roles are those of the schedule that runs. From any thread,
 * each grain by one at a time. */
void zinf_store_set_crc(struct zinf_store *s, uint32_t grain, enum zinf_role role, const uint32_t crc[ZINF_RECORD_PIECES]);
const uint32_t *zinf_store_crc(const struct zinf_store *s, uint32_t grain, enum zinf_role role);
/* The line of a mismatch: path, offset, unit, grain, piece, both values. Returns -EBADMSG. */
int  zinf_store_crc_fail(const struct zinf_store *s, uint32_t grain, enum zinf_role role, uint32_t piece, uint32_t found,
                         struct zinf_status *st);

struct zinf_store_info {
    uint64_t drive_nbytes;                /* files as created */
    bool direct;                          /* every drive file uses O_DIRECT */
    const char *backend;                  /* of the queue; "none" without extents */
    bool has_record;                      /* `generation` is durable */
    uint64_t generation;
    bool dirty;                           /* the newest bytes of some grain are in no record */
    int commit_rc;                        /* why there are no more commits; 0 = there are */
    struct zinf_io_totals io;
};
void zinf_store_info(const struct zinf_store *s, struct zinf_store_info *out);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_STORE_H_ */
