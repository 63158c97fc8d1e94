/* swapper/store.c - the store as a whole: opening it, addresses, grains outside schedules. The lanes are in store_lanes.c. */
#include "swapper/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/store_internal.h"
#include "zinf/base/align.h"

static int check_opts(const struct zinf_store_opts *o, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = o->plan;
    if (!p)
        return zinf_fail(st, -EINVAL, "the store needs a plan");
    if ((p->use[ZINF_TIER_DEVICE] && !o->device_base) || (p->use[ZINF_TIER_HOST] && !o->host_base) ||
        (uintptr_t)o->device_base % ZINF_EXTENT_ALIGN || (uintptr_t)o->host_base % ZINF_EXTENT_ALIGN)
        return zinf_fail(st, -EINVAL, "the store needs arenas that start on a page");
    return 0;
}

int zinf_store_open(const struct zinf_store_opts *opts, struct zinf_store **out, struct zinf_status *st)
{
    *out = NULL;
    int rc = check_opts(opts, st);
    if (rc)
        return rc;
    struct zinf_store *s = calloc(1, sizeof(*s));
    if (!s)
        return zinf_fail(st, -ENOMEM, "no memory for the store");
    s->opts = *opts;
    s->opts.lane_depth = opts->lane_depth ? opts->lane_depth : 32;
    s->plan = opts->plan;
    s->device = opts->device_base;
    s->host = opts->host_base;
    s->info.backend = "none";
    rc = zinf_arena_open(s->plan, &s->arena, st);
    if (!rc && (s->plan->extents_weight || s->plan->extents_state))
        rc = zinf_store_files_open(s, st);
    if (!rc && s->opts.durable)
        rc = zinf_store_commit_open(s, st);
    s->opts.dirs = NULL;
    if (rc) {
        zinf_store_files_remove(s);
        zinf_store_commit_remove(s);
        zinf_store_close(s);
        return rc;
    }
    s->opts.resume = NULL;
    s->opts.uuid = s->opts.fingerprint = NULL;
    for (uint32_t c = 0; s->opts.poison && c < ZINF_NR_CLASSES; c++)
        for (uint32_t i = 0; i < s->plan->class_count[c]; i++)
            zinf_store_fill(s, (struct zinf_loc){ ZINF_AT_SLOT, (uint8_t)c, i });
    *out = s;
    return 0;
}

void zinf_store_close(struct zinf_store *s)
{
    if (!s)
        return;
    zinf_io_queue_close(s->queue);
    for (uint32_t d = 0; d < s->nr_created; d++)
        zinf_file_close(&s->files[d]);
    zinf_store_lanes_close(s);
    zinf_store_commit_close(s);
    zinf_arena_close(s->arena);
    free(s->files);
    free(s->drive_align);
    free(s->extents);
    free(s->current);
    free(s->dirty);
    free(s->written);
    free(s->crc);
    free(s->crc_known);
    free(s);
}

void *zinf_store_addr(const struct zinf_store *s, struct zinf_loc loc, uint32_t part)
{
    uint64_t off = zinf_arena_off_bytes(s->arena, loc, part);
    if (off == UINT64_MAX)
        return NULL;
    return (zinf_loc_tier(loc) == ZINF_TIER_DEVICE ? s->device : s->host) + off;
}

void *zinf_store_device_fixed(const struct zinf_store *s)
{
    return s->device + zinf_arena_fixed_off_bytes(s->arena, ZINF_TIER_DEVICE);
}

void *zinf_store_host_fixed(const struct zinf_store *s)
{
    return s->host + zinf_arena_fixed_off_bytes(s->arena, ZINF_TIER_HOST);
}

static void device_copy(const struct zinf_store *s, void *dst, const void *src, size_t nbytes)
{
    if (!nbytes)
        return;
    if (s->opts.device_copy)
        s->opts.device_copy(s->opts.device_copy_ctx, dst, src, nbytes);
    else
        memcpy(dst, src, nbytes);
}

void zinf_store_fill(struct zinf_store *s, struct zinf_loc slot)
{
    char *dst = zinf_store_addr(s, slot, ZINF_NONE);
    if (!dst)
        return;
    uint64_t nbytes = s->plan->class_nbytes[slot.sub];
    if (zinf_loc_tier(slot) == ZINF_TIER_HOST) {
        memset(dst, 0xFF, nbytes);
        return;
    }
    unsigned char nan[4096];
    memset(nan, 0xFF, sizeof(nan));
    for (uint64_t at = 0; at < nbytes; at += sizeof(nan))
        device_copy(s, dst + at, nan, zinf_min_u64(sizeof(nan), nbytes - at));
}

void zinf_store_poison(struct zinf_store *s, const struct zinf_schedule *sched, uint32_t op)
{
    const struct zinf_op *o = &sched->ops[op];
    for (uint32_t i = 0; s->opts.poison && i < o->nr_acq; i++)
        zinf_store_fill(s, sched->slots[o->acq + i]);
}

void zinf_store_seam(struct zinf_store *s, const struct zinf_schedule *sched)
{
    if (!s->current)
        return;
    zinf_store_mark_written(s, sched, sched->nr_ops);
    for (uint32_t g = 0; g < s->plan->nr_grains; g++) {
        uint8_t flip = sched->flips ? sched->flips[g] & 1 : 0;
        s->current[g] ^= flip;
        s->dirty[g] = !flip && (s->dirty[g] || s->written[g]);
    }
}

/* The places of a grain's weights or state outside the drives; NULL where the plan has none. weights of a device home are
 * found by the grain's offset, which a location does not carry for the device. */
struct places { char *host, *device; };

static struct places weight_places(const struct zinf_store *s, uint32_t grain)
{
    const struct zinf_sched_grain *g = &s->plan->grains[grain];
    char *device = zinf_store_addr(s, (struct zinf_loc){ ZINF_AT_WEIGHT_DEVICE, 0, g->unit }, 0);
    return (struct places){
        .host = zinf_store_addr(s, (struct zinf_loc){ ZINF_AT_WEIGHT_HOST, 0, g->unit }, grain),
        .device = device ? device + g->first_elem * s->plan->spec.weight_nbytes : NULL,
    };
}

static struct places state_places(const struct zinf_store *s, uint32_t grain)
{
    return (struct places){
        .host = zinf_store_addr(s, (struct zinf_loc){ ZINF_AT_STATE_HOST, 0, grain }, 0),
        .device = zinf_store_addr(s, (struct zinf_loc){ ZINF_AT_STATE_DEVICE, 0, grain }, 0),
    };
}

static int bad_grain(const struct zinf_store *s, uint32_t grain, struct zinf_status *st)
{
    return grain < s->plan->nr_grains ? 0 : zinf_fail(st, -EINVAL, "grain %u of %u", grain, s->plan->nr_grains);
}

/* Which of a grain's extents holds its newest bytes, and which one may be written outside a schedule. */
static uint32_t newest(const struct zinf_store *s, uint32_t grain) { return s->current[grain] ^ s->dirty[grain]; }

static uint32_t writable(const struct zinf_store *s, uint32_t grain)
{
    return zinf_store_has_named(s) ? !s->current[grain] : newest(s, grain);
}

static int drive_run(struct zinf_store *s, uint32_t grain, uint32_t side, enum zinf_io_dir dir, bool state, void *buf,
                     uint64_t nbytes, struct zinf_status *st)
{
    const struct zinf_extent *e = &s->extents[grain];
    uint64_t off = (state ? e->state_off_bytes : e->weight_off_bytes)[side];
    int rc = dir == ZINF_IO_WRITE ? zinf_store_commit_check(s, st) : 0;
    if (!rc)
        rc = zinf_io_run(s->queue, &s->files[e->drive], dir, buf, nbytes, off, st);
    if (rc && dir == ZINF_IO_WRITE)
        zinf_store_commit_refuse(s, rc);
    return rc;
}

static bool on_drive(const struct zinf_store *s, bool state)
{
    return state ? s->plan->extents_state : s->plan->extents_weight;
}

static void place(struct zinf_store *s, struct places at, const void *src, uint64_t nbytes)
{
    if (at.host && at.host != src)      /* a caller may have put the grain together in its home */
        memcpy(at.host, src, nbytes);
    if (at.device)
        device_copy(s, at.device, src, nbytes);
}

static int put(struct zinf_store *s, uint32_t grain, bool state, const void *src, uint64_t nbytes, struct zinf_status *st)
{
    struct places at = state ? state_places(s, grain) : weight_places(s, grain);
    uint32_t side;
    place(s, at, src, nbytes);
    if (!on_drive(s, state))
        return at.host || at.device ? 0 : zinf_fail(st, -EINVAL, "the plan has no place for the %s of grain %u",
                                                    state ? "state" : "weights", grain);
    side = writable(s, grain);
    zinf_store_crc_compute(s, grain, side, state, src);
    /* A write only reads the buffer; the queue has one pointer for both directions. */
    return drive_run(s, grain, side, ZINF_IO_WRITE, state, (void *)(uintptr_t)src, nbytes, st);
}

static int get(struct zinf_store *s, uint32_t grain, bool state, void *dst, uint64_t nbytes, struct zinf_status *st)
{
    struct places at = state ? state_places(s, grain) : weight_places(s, grain);
    if (on_drive(s, state)) {
        int rc = drive_run(s, grain, newest(s, grain), ZINF_IO_READ, state, dst, nbytes, st);
        return rc ? rc : zinf_store_crc_check(s, grain, newest(s, grain), state, dst, st);
    }
    /* The update writes where the state is; the other tier holds what was last uploaded. */
    if (at.device && (!at.host || s->plan->state_device[grain]))
        device_copy(s, dst, at.device, nbytes);
    else if (at.host)
        memcpy(dst, at.host, nbytes);
    else
        return zinf_fail(st, -EINVAL, "the plan has no place for the %s of grain %u", state ? "state" : "weights", grain);
    return 0;
}

int zinf_store_put_grain(struct zinf_store *s, uint32_t grain, const void *weights, const void *state, struct zinf_status *st)
{
    int rc = bad_grain(s, grain, st);
    if (rc)
        return rc;
    uint64_t nr = s->plan->grains[grain].nr_elems;
    rc = put(s, grain, false, weights, nr * s->plan->spec.weight_nbytes, st);
    if (!rc && s->plan->spec.state_nbytes)
        rc = put(s, grain, true, state, nr * s->plan->spec.state_nbytes, st);
    if (rc || !s->current)
        return rc;
    uint32_t side = writable(s, grain);
    if (s->crc)
        s->crc_known[grain][side] = 1;
    s->dirty[grain] = side != s->current[grain];
    return 0;
}

int zinf_store_get_grain(struct zinf_store *s, uint32_t grain, void *weights, void *state, struct zinf_status *st)
{
    int rc = bad_grain(s, grain, st);
    if (rc)
        return rc;
    uint64_t nr = s->plan->grains[grain].nr_elems;
    rc = get(s, grain, false, weights, nr * s->plan->spec.weight_nbytes, st);
    if (!rc && state && s->plan->spec.state_nbytes)
        rc = get(s, grain, true, state, nr * s->plan->spec.state_nbytes, st);
    return rc;
}

int zinf_store_restore_grain(struct zinf_store *s, uint32_t grain, void *weights, void *state, struct zinf_status *st)
{
    int rc = bad_grain(s, grain, st);
    for (int part = 0; !rc && part < 2; part++) {
        struct places at = part ? state_places(s, grain) : weight_places(s, grain);
        uint64_t nbytes = s->plan->grains[grain].nr_elems * (part ? s->plan->spec.state_nbytes : s->plan->spec.weight_nbytes);
        if (!on_drive(s, part) || (!at.host && !at.device) || !nbytes)
            continue;
        rc = get(s, grain, part, part ? state : weights, nbytes, st);
        if (!rc)
            place(s, at, part ? state : weights, nbytes);
    }
    return rc;
}

void zinf_store_info(const struct zinf_store *s, struct zinf_store_info *out)
{
    *out = s->info;
    zinf_store_commit_info(s, out);
    if (s->queue)
        zinf_io_queue_totals(s->queue, &out->io);
}
