/* swapper/record.h - the commit record: the few KiB that make the extents of a run folder a checkpoint.
 *
 * record-<rank> in the first drive's run folder holds two slots of equal size (half the file). A record goes to the slot that
 * does not hold the one before it (with a commit in every step: slot t mod 2), in place, never by rename, so that one is whole
 * at any moment. Generations only grow. A slot is valid when its magic, length and CRC are; the newest valid one is the state of
 * the run. Integers and doubles are little-endian:
 *
 *   0   8  "ZINFREC1"                 8  u32 bytes used, CRC included     12  u32 rank           16  u32 world
 *   20  u32 drives                    24 u64 generation                   32  36 bytes uuid      68  u32 units
 *   72  u32 grains                    76 u32 weight bytes per element     80  u32 state bytes per element
 *   84  u32 flags (1 = extents hold weights, 2 = state, 4 = piece CRCs)   88  u64 grain elements
 *   96  u32 payload bytes             100 u32 fingerprint bytes           104 u64 bytes of a slot (a cut file holds none)
 *   112 units x u64 elements, drives x u32 alignment of its extents, grains x u8 drive, grains x u8 current extent, padding to
 *       4, grains x 4 x u32 CRC-32C of the pieces (weights, then state pieces in order; 0 where there is none), payload,
 *       fingerprint, u32 CRC-32C of all before
 *
 * Threads: a record belongs to its owner. */
#ifndef ZINF_SWAPPER_RECORD_H_
#define ZINF_SWAPPER_RECORD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_RECORD_PIECES 4u          /* of a grain: weights; bf16: lo, m, v; fp32: m, v */

struct zinf_record {                   /* owns its arrays: zinf_record_free */
    uint64_t generation;               /* iterations whose state this is */
    char     uuid[37];
    uint32_t rank, world, nr_drives;
    uint32_t nr_units, nr_grains;
    uint32_t weight_nbytes, state_nbytes;
    bool     extents_weight, extents_state, has_crc;
    uint64_t grain_elems;
    uint64_t *unit_elems;              /* nr_units */
    uint32_t *drive_align;             /* nr_drives: bytes that its extents are aligned to */
    uint8_t  *drive, *current;         /* nr_grains */
    uint32_t *crc;                     /* nr_grains * ZINF_RECORD_PIECES */
    uint32_t payload_nbytes;           /* the engine's verdict */
    void    *payload;
    char    *fingerprint;              /* text */
    uint64_t slot_nbytes;              /* of the file it is for */
    uint32_t slot;                     /* where load found it; not stored */
    bool     other_damaged;            /* the other slot holds bytes and no record: torn by a loss of power, or changed by the drive */
};

/* All arrays allocated (zeroed) for the given sizes. Returns 0 or -ENOMEM. */
int  zinf_record_init(struct zinf_record *r, uint32_t nr_drives, uint32_t nr_units, uint32_t nr_grains, uint32_t payload_nbytes,
                      const char *fingerprint, struct zinf_status *st);
void zinf_record_free(struct zinf_record *r);           /* safe on a zeroed one */

/* Bytes of r when encoded, and the encoding itself: buf holds at least that many. The arrays must have the sizes of init. */
uint64_t zinf_record_nbytes(const struct zinf_record *r);
void     zinf_record_encode(const struct zinf_record *r, void *buf);

/* Creates DIR/record-<rank> with two empty slots of slot_nbytes (a multiple of 4096) each, written and durable on return. The
 * records themselves are written through the store's queue (swapper/store.h). Returns 0, or -errno with a line and no
 * new file. */
int  zinf_record_create(const char *dir, uint32_t rank, uint64_t slot_nbytes, struct zinf_status *st);

/* The newest valid record of DIR/record-<rank>; newest_below limits the generation (UINT64_MAX = none). *nr_valid (may be NULL)
 * counts valid slots. Returns 0, -ENOENT when the file is not there or holds no valid slot, -EBADMSG when both
 * slots are damaged, -EIO, -ENOMEM, each with a line. */
int  zinf_record_load(const char *dir, uint32_t rank, uint64_t newest_below, struct zinf_record *out, uint32_t *nr_valid,
                      struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_RECORD_H_ */
