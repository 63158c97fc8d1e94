/* swapper/store.c - the store as a whole: opening it, addresses, grains outside schedules. The lanes are in store_lanes.c. */
#include "swapper/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "swapper/store_internal.h"
#include "zinf/base/align.h"

static int probe_drives(struct zinf_store *s, struct zinf_drive *drives, struct zinf_status *st)
{
    for (uint32_t d = 0; d < s->nr_drives; d++) {
        const char *dir = s->opts.dirs[d];
        struct zinf_io_dir_info info;
        struct stat sb;
        int rc = zinf_io_probe_dir(dir, &info, st);
        if (rc)
            return rc;
        if (stat(dir, &sb) < 0)
            return zinf_fail(st, -errno, "%s: %s: see zinf.nvme_paths", dir, strerror(errno));
        drives[d] = (struct zinf_drive){
            .dir = dir,
            .fs_id = sb.st_dev,
            .free_nbytes = info.free_nbytes,
            .align_nbytes = s->opts.direct && info.off_align > ZINF_EXTENT_ALIGN ? info.off_align : ZINF_EXTENT_ALIGN,
        };
        if (s->opts.direct && !info.direct)
            zinf_log(s->opts.log, ZINF_LOG_WARN, "%s: the page cache is used, %s", dir, info.why);
    }
    return 0;
}

struct progress { const struct zinf_store_opts *opts; uint64_t before, total; };

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    const struct progress *p = ctx;
    (void)total;
    if (p->opts->progress)
        p->opts->progress(p->opts->progress_ctx, p->before + done, p->total);
}

static int create_files(struct zinf_store *s, const struct zinf_drive *drives, struct zinf_status *st)
{
    struct progress p = { &s->opts, 0, 0 };
    for (uint32_t d = 0; d < s->nr_drives; d++)
        p.total += drives[d].nbytes;
    for (uint32_t d = 0; d < s->nr_drives; d++) {
        char path[sizeof(s->files[d].path)];
        int n = snprintf(path, sizeof(path), "%s/state-%u", drives[d].dir, s->opts.rank);
        if (n < 0 || (size_t)n >= sizeof(path))
            return zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long: choose a shorter one in zinf.nvme_paths",
                             drives[d].dir);
        int rc = zinf_file_open(path, ZINF_FILE_CREATE, s->opts.direct, &s->files[d], st);
        if (rc)
            return rc;
        s->nr_created = d + 1;
        if (drives[d].nbytes)
            rc = zinf_file_preallocate(&s->files[d], drives[d].nbytes, progress, &p, st);
        if (rc)
            return rc;
        p.before += drives[d].nbytes;
        s->info.drive_nbytes += drives[d].nbytes;
        s->info.direct = s->info.direct && s->files[d].direct;
    }
    return 0;
}

static int open_drives(struct zinf_store *s, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = s->plan;
    if (!s->opts.dirs || !s->opts.nr_dirs)
        return zinf_fail(st, -EINVAL, "state is kept on NVMe and there is no drive: set zinf.nvme_paths");
    s->nr_drives = s->opts.nr_dirs;
    struct zinf_drive *drives = calloc(s->nr_drives, sizeof(*drives));
    s->files = calloc(s->nr_drives, sizeof(*s->files));
    s->extents = calloc(p->nr_grains ? p->nr_grains : 1, sizeof(*s->extents));
    s->current = calloc(p->nr_grains ? p->nr_grains : 1, sizeof(*s->current));
    int rc = drives && s->files && s->extents && s->current ? 0 :
             zinf_fail(st, -ENOMEM, "no memory for the extents of %u grains", p->nr_grains);
    for (uint32_t d = 0; !rc && d < s->nr_drives; d++)
        s->files[d].fd = -1;
    s->info.direct = true;
    if (!rc)
        rc = probe_drives(s, drives, st);
    if (!rc)
        rc = zinf_extents_make(p, drives, s->nr_drives, s->extents, st);
    if (!rc)
        rc = zinf_io_queue_open(&s->opts.io, &s->queue, st);
    if (!rc)
        rc = zinf_store_lanes_open(s, st);
    if (!rc)
        rc = create_files(s, drives, st);
    if (!rc) {
        zinf_io_queue_pin(s->queue, s->host, p->use[ZINF_TIER_HOST]);
        s->info.backend = zinf_io_queue_backend(s->queue);
    }
    free(drives);
    return rc;
}

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
        rc = open_drives(s, st);
    if (rc) {
        for (uint32_t d = 0; d < s->nr_created; d++)
            unlink(s->files[d].path);
        zinf_store_close(s);
        return rc;
    }
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
    zinf_arena_close(s->arena);
    free(s->files);
    free(s->extents);
    free(s->current);
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
    if (!s->current || !sched->flips)
        return;
    for (uint32_t g = 0; g < s->plan->nr_grains; g++)
        s->current[g] ^= sched->flips[g] & 1;
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

static int drive_run(struct zinf_store *s, uint32_t grain, enum zinf_io_dir dir, bool state, void *buf, uint64_t nbytes,
                     struct zinf_status *st)
{
    const struct zinf_extent *e = &s->extents[grain];
    uint64_t off = (state ? e->state_off_bytes : e->weight_off_bytes)[s->current[grain]];
    return zinf_io_run(s->queue, &s->files[e->drive], dir, buf, nbytes, off, st);
}

static int put(struct zinf_store *s, uint32_t grain, bool state, const void *src, uint64_t nbytes, struct zinf_status *st)
{
    struct places at = state ? state_places(s, grain) : weight_places(s, grain);
    if (at.host && at.host != src)      /* a caller may have put the grain together in its home */
        memcpy(at.host, src, nbytes);
    if (at.device)
        device_copy(s, at.device, src, nbytes);
    if (state ? s->plan->extents_state : s->plan->extents_weight)
        /* A write only reads the buffer; the queue has one pointer for both directions. */
        return drive_run(s, grain, ZINF_IO_WRITE, state, (void *)(uintptr_t)src, nbytes, st);
    return at.host || at.device ? 0 : zinf_fail(st, -EINVAL, "the plan has no place for the %s of grain %u",
                                                state ? "state" : "weights", grain);
}

static int get(struct zinf_store *s, uint32_t grain, bool state, void *dst, uint64_t nbytes, struct zinf_status *st)
{
    struct places at = state ? state_places(s, grain) : weight_places(s, grain);
    if (state ? s->plan->extents_state : s->plan->extents_weight)
        return drive_run(s, grain, ZINF_IO_READ, state, dst, nbytes, st);
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
    return rc;
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

void zinf_store_info(const struct zinf_store *s, struct zinf_store_info *out)
{
    *out = s->info;
    if (s->queue)
        zinf_io_queue_totals(s->queue, &out->io);
}
