/* swapper/store_crc.c - the pieces of a grain and their CRC-32C. */
#include <errno.h>
#include <string.h>

#include "swapper/store_internal.h"
#include "zinf/base/align.h"
#include "zinf/base/crc32c.h"

/* State pieces are 4 bytes per element but the first, which takes the odd bytes (bf16: the low halves), and a last one that
 * takes the rest of what has more of them than a record has places. */
static uint32_t piece_width(uint32_t state_nbytes, uint32_t piece, uint32_t *from)
{
    uint32_t first = state_nbytes % 4 ? state_nbytes % 4 : 4;
    *from = piece == 1 ? 0 : first + 4 * (piece - 2);
    if (*from >= state_nbytes)
        return 0;
    if (piece + 1 == ZINF_RECORD_PIECES)
        return state_nbytes - *from;
    return piece == 1 ? first : 4;
}

bool zinf_store_piece(const struct zinf_sched_plan *plan, uint32_t grain, uint32_t piece, uint64_t *off_bytes, uint64_t *nbytes,
                      bool *is_weight)
{
    uint64_t nr = plan->grains[grain].nr_elems;
    uint32_t from = 0, width = 0;
    *is_weight = piece == 0;
    if (piece == 0)
        width = plan->spec.weight_nbytes;
    else if (piece < ZINF_RECORD_PIECES)
        width = piece_width(plan->spec.state_nbytes, piece, &from);
    *off_bytes = from * nr;
    *nbytes = width * nr;
    return *nbytes != 0;
}

static uint32_t side_of(const struct zinf_store *s, uint32_t grain, enum zinf_role role)
{
    return s->current[grain] ^ (role == ZINF_ROLE_ALTERNATE);
}

void zinf_store_set_crc(struct zinf_store *s, uint32_t grain, enum zinf_role role, const uint32_t crc[ZINF_RECORD_PIECES])
{
    if (!s->crc)
        return;
    uint32_t side = side_of(s, grain, role);
    memcpy(s->crc[grain][side], crc, sizeof(s->crc[grain][side]));
    s->crc_known[grain][side] = 1;
}

const uint32_t *zinf_store_crc(const struct zinf_store *s, uint32_t grain, enum zinf_role role)
{
    if (!s->crc)
        return NULL;
    uint32_t side = side_of(s, grain, role);
    return s->crc_known[grain][side] ? s->crc[grain][side] : NULL;
}

static const char *piece_name(const struct zinf_sched_plan *p, uint32_t piece)
{
    static const char *const bf16[] = { "weights", "lo", "m", "v" }, *const fp32[] = { "weights", "m", "v", "state" };
    return (p->spec.state_nbytes % 4 ? bf16 : fp32)[piece < ZINF_RECORD_PIECES ? piece : 0];
}

static int fail(const struct zinf_store *s, uint32_t grain, uint32_t side, uint32_t piece, uint32_t found, struct zinf_status *st)
{
    const struct zinf_extent *e = &s->extents[grain];
    uint64_t off, nbytes;
    bool weight;
    zinf_store_piece(s->plan, grain, piece, &off, &nbytes, &weight);
    off += (weight ? e->weight_off_bytes : e->state_off_bytes)[side];
    return zinf_fail(st, -EBADMSG, "%s at offset %llu (%llu bytes): %s of unit %u, grain %u: checksum %08x expected, %08x found: "
                     "the drive or memory changed it, resume from another checkpoint", s->files[e->drive].path,
                     (unsigned long long)off, (unsigned long long)nbytes, piece_name(s->plan, piece), s->plan->grains[grain].unit,
                     grain, s->crc[grain][side][piece], found);
}

int zinf_store_crc_fail(const struct zinf_store *s, uint32_t grain, enum zinf_role role, uint32_t piece, uint32_t found,
                        struct zinf_status *st)
{
    if (!s->crc)
        return zinf_fail(st, -EINVAL, "grain %u has no checksums", grain);
    return fail(s, grain, side_of(s, grain, role), piece, found, st);
}

void zinf_store_crc_compute(struct zinf_store *s, uint32_t grain, uint32_t side, bool state, const void *buf)
{
    uint64_t off, nbytes;
    bool weight;
    for (uint32_t i = state ? 1 : 0; s->crc && i < (state ? ZINF_RECORD_PIECES : 1); i++)
        s->crc[grain][side][i] = zinf_store_piece(s->plan, grain, i, &off, &nbytes, &weight) ?
                                 zinf_crc32c(0, (const char *)buf + off, nbytes) : 0;
}

int zinf_store_crc_check(const struct zinf_store *s, uint32_t grain, uint32_t side, bool state, const void *buf,
                         struct zinf_status *st)
{
    uint64_t off, nbytes;
    bool weight;
    if (!s->crc || !s->crc_known[grain][side])
        return 0;
    for (uint32_t i = state ? 1 : 0; i < (state ? ZINF_RECORD_PIECES : 1); i++) {
        if (!zinf_store_piece(s->plan, grain, i, &off, &nbytes, &weight))
            continue;
        uint32_t found = zinf_crc32c(0, (const char *)buf + off, nbytes);
        if (found != s->crc[grain][side][i])
            return fail(s, grain, side, i, found, st);
    }
    return 0;
}
