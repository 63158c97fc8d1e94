/* swapper/store_lanes.c - READ and WRITE operations as transfers on the drives' queue.
 *
 * One operation is one or more transfers (a unit's weights lie in its grains' extents); neighbours in memory and in the file
 * become one. Records come from pools sized by the plan at open. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/mover.h"
#include "swapper/store_internal.h"
#include "zinf/base/align.h"

struct zinf_store_record {           /* an operation in flight */
    struct zinf_mover *mover;        /* NULL = free */
    uint32_t op, nr_left;
    bool writes;
    int rc;
    struct zinf_store_record *next;  /* free list */
};

struct zinf_store_lanes {
    uint32_t nr_records, nr_transfers;
    struct zinf_store_record *records, *free_records;
    struct zinf_store_transfer *transfers, *free_transfers;
    int broken;                      /* what the queue said when it could no longer be reaped */
};

int zinf_store_lanes_open(struct zinf_store *s, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = s->plan;
    uint32_t per_unit = 1;
    for (uint32_t u = 0; u < p->spec.nr_units; u++) {
        uint32_t nr = p->unit_first_grain[u + 1] - p->unit_first_grain[u];
        per_unit = nr > per_unit ? nr : per_unit;
    }
    struct zinf_store_lanes *l = s->lanes = calloc(1, sizeof(*l));
    if (!l)
        return zinf_fail(st, -ENOMEM, "no memory for the drive lanes");
    /* A unit's weights take as many transfers as it has grains, but only as many units are in flight as there are slots;
     * an operation on a grain takes at most two. */
    uint64_t units = zinf_min_u64(p->class_count[ZINF_CLASS_WEIGHT], s->opts.lane_depth);
    uint64_t nr = units * per_unit + 4ull * s->opts.lane_depth;
    if (nr > UINT32_MAX / 2)
        return zinf_fail(st, -EINVAL, "a lane depth of %u is more than the drive lanes can keep", s->opts.lane_depth);
    l->nr_records = 2 * s->opts.lane_depth;
    l->nr_transfers = (uint32_t)nr;
    l->records = calloc(l->nr_records, sizeof(*l->records));
    l->transfers = calloc(l->nr_transfers, sizeof(*l->transfers));
    if (!l->records || !l->transfers)
        return zinf_fail(st, -ENOMEM, "no memory for %u transfers", l->nr_transfers);
    for (uint32_t i = 0; i < l->nr_records; i++) {
        l->records[i].next = l->free_records;
        l->free_records = &l->records[i];
    }
    for (uint32_t i = 0; i < l->nr_transfers; i++) {
        l->transfers[i].next = l->free_transfers;
        l->free_transfers = &l->transfers[i];
    }
    return 0;
}

void zinf_store_lanes_close(struct zinf_store *s)
{
    if (!s->lanes)
        return;
    free(s->lanes->records);
    free(s->lanes->transfers);
    free(s->lanes);
    s->lanes = NULL;
}

static void release(struct zinf_store_lanes *l, struct zinf_store_transfer *list)
{
    while (list) {
        struct zinf_store_transfer *next = list->next;
        list->next = l->free_transfers;
        l->free_transfers = list;
        list = next;
    }
}

/* One access on each side of an operation -> file, offset, memory, length. */
static int locate(const struct zinf_store *s, const struct zinf_access *drive, const struct zinf_access *mem,
                  struct zinf_io_op *out, struct zinf_status *st)
{
    uint32_t grain = drive->loc.index;
    bool state = drive->loc.space == ZINF_AT_EXTENT_STATE;
    const struct zinf_sched_plan *p = s->plan;
    if ((!state && drive->loc.space != ZINF_AT_EXTENT_WEIGHT) || grain >= p->nr_grains ||
        !(state ? p->extents_state : p->extents_weight))
        return zinf_fail(st, -EPROTO, "a drive operation names an extent that the plan does not have: report this");
    out->buf = zinf_loc_tier(mem->loc) == ZINF_TIER_HOST ? zinf_store_addr(s, mem->loc, grain) : NULL;
    if (!out->buf)
        return zinf_fail(st, -EPROTO, "a drive operation on grain %u has no host memory: report this", grain);
    bool alternate = drive->loc.sub == ZINF_ROLE_ALTERNATE;
    if (out->dir == ZINF_IO_WRITE && !alternate && zinf_store_has_named(s))
        return zinf_fail(st, -EPROTO, "a write to the extent of grain %u that the last record names: report this", grain);
    if (out->dir == ZINF_IO_READ && !alternate && s->dirty[grain])
        return zinf_fail(st, -EPROTO, "a read of the extent of grain %u that is older than the last step: report this", grain);
    uint32_t side = s->current[grain] ^ alternate;
    const struct zinf_extent *e = &s->extents[grain];
    out->file = &s->files[e->drive];
    out->off_bytes = (state ? e->state_off_bytes : e->weight_off_bytes)[side];
    out->nbytes = p->grains[grain].nr_elems * (state ? p->spec.state_nbytes : p->spec.weight_nbytes);
    return 0;
}

static bool joins(const struct zinf_io_op *a, const struct zinf_io_op *b)
{
    return a->file == b->file && a->off_bytes + a->nbytes == b->off_bytes && (char *)a->buf + a->nbytes == (char *)b->buf;
}

/* The transfers of an operation, in order, merged; *out owns them. */
static int collect(struct zinf_store *s, const struct zinf_schedule *sched, uint32_t op, struct zinf_store_transfer **out,
                   struct zinf_status *st)
{
    struct zinf_store_lanes *l = s->lanes;
    const struct zinf_op *o = &sched->ops[op];
    bool read = o->lane == ZINF_LANE_NVME_READ;
    const struct zinf_access *rd = sched->accesses + o->rd, *wr = sched->accesses + o->wr;
    uint32_t nr = read ? o->nr_rd : o->nr_wr;
    struct zinf_store_transfer **end = out, *last = NULL;
    *out = NULL;
    if (read ? !o->nr_wr : o->nr_rd != o->nr_wr)
        return zinf_fail(st, -EPROTO, "drive operation %u has %u sources and %u targets: report this", op, o->nr_rd, o->nr_wr);
    for (uint32_t i = 0; i < nr; i++) {
        struct zinf_io_op io = { .dir = read ? ZINF_IO_READ : ZINF_IO_WRITE };
        int rc = read ? locate(s, &rd[i], &wr[i < o->nr_wr ? i : 0], &io, st) : locate(s, &wr[i], &rd[i], &io, st);
        if (rc)
            return rc;
        if (last && joins(&last->io, &io)) {
            last->io.nbytes += io.nbytes;
            continue;
        }
        struct zinf_store_transfer *t = l->free_transfers;
        if (!t)
            return zinf_fail(st, -ENOBUFS, "drive operation %u: all %u transfers are in flight: report this", op,
                             l->nr_transfers);
        l->free_transfers = t->next;
        *t = (struct zinf_store_transfer){ .io = io };
        t->io.user = t;
        last = *end = t;
        end = &t->next;
    }
    return 0;
}

static int issue(void *ctx, struct zinf_mover *m, const struct zinf_schedule *sched, uint32_t op, const uint32_t *after,
                 uint32_t nr_after, struct zinf_status *st)
{
    (void)after, (void)nr_after;
    struct zinf_store *s = ctx;
    struct zinf_store_lanes *l = s->lanes;
    struct zinf_store_record *r = l->free_records;
    if (l->broken)
        return zinf_fail(st, l->broken, "the I/O queue has failed: %s", strerror(-l->broken));
    if (!r)
        return zinf_fail(st, -ENOBUFS, "%u drive operations are in flight already: report this", l->nr_records);
    struct zinf_store_transfer *list = NULL;
    int rc = sched->ops[op].lane == ZINF_LANE_NVME_WRITE ? zinf_store_commit_check(s, st) : 0;
    if (!rc)
        rc = collect(s, sched, op, &list, st);
    if (rc) {
        release(l, list);
        return rc;
    }
    l->free_records = r->next;
    *r = (struct zinf_store_record){ .mover = m, .op = op, .writes = sched->ops[op].lane == ZINF_LANE_NVME_WRITE };
    for (struct zinf_store_transfer *t = list; t; t = t->next, r->nr_left++)
        t->record = r;
    if (sched->ops[op].lane == ZINF_LANE_NVME_READ)
        zinf_store_poison(s, sched, op);
    if (!list) {                             /* a unit without elements */
        r->mover = NULL;
        r->next = l->free_records;
        l->free_records = r;
        zinf_mover_complete(m, op, 0);
        return 0;
    }
    for (struct zinf_store_transfer *next; list; list = next) {
        next = list->next;                   /* a transfer is the queue's from submit on */
        zinf_io_queue_submit(s->queue, &list->io);
    }
    return 0;
}

static void finish(struct zinf_store *s, struct zinf_store_record *r)
{
    struct zinf_store_lanes *l = s->lanes;
    struct zinf_mover *m = r->mover;
    if (r->rc && r->writes)
        zinf_store_commit_refuse(s, r->rc);
    r->mover = NULL;
    r->next = l->free_records;
    l->free_records = r;
    zinf_mover_complete(m, r->op, r->rc);
}

static void reaped(struct zinf_store *s, struct zinf_io_op *io)
{
    struct zinf_store_transfer *t = io->user;
    struct zinf_store_record *r = t->record;
    if (!r) {
        zinf_store_commit_reaped(s, io);
        return;
    }
    if (io->rc && !r->rc)
        r->rc = io->rc;
    t->next = NULL;
    release(s->lanes, t);
    if (!--r->nr_left)
        finish(s, r);
}

void zinf_store_reap(struct zinf_store *s, bool wait, struct zinf_status *st)
{
    struct zinf_store_lanes *l = s->lanes;
    struct zinf_io_op *done[32];
    int nr = 0;
    while (!l->broken && (nr = zinf_io_queue_reap(s->queue, done, wait ? 1 : 0, 32, wait ? -1 : 0, st)) > 0) {
        for (int i = 0; i < nr; i++)
            reaped(s, done[i]);
        wait = false;
    }
    if (l->broken || nr >= 0 || nr == -EINTR || nr == -EAGAIN)
        return;
    /* The queue itself is lost and will report nothing more: everything in flight has failed. Its memory stays borrowed until
     * the queue is closed, which is what a failed run does next. */
    l->broken = nr;
    zinf_fail(st, nr, "the I/O queue failed: %s", strerror(-nr));
    for (uint32_t i = 0; i < l->nr_records; i++) {
        if (!l->records[i].mover)
            continue;
        l->records[i].rc = nr;
        finish(s, &l->records[i]);
    }
    zinf_store_commit_broken(s, nr);
}

static int poll_queue(void *ctx, struct zinf_mover *m, struct zinf_status *st)
{
    (void)m;
    zinf_store_reap(ctx, false, st);
    return 0;
}

struct zinf_lane_impl zinf_store_lane(struct zinf_store *s, enum zinf_lane lane)
{
    if (s->lanes && lane == ZINF_LANE_SYNC)
        return zinf_store_commit_lane(s);
    if (!s->lanes || (lane != ZINF_LANE_NVME_READ && lane != ZINF_LANE_NVME_WRITE))
        return (struct zinf_lane_impl){ 0 };
    return (struct zinf_lane_impl){ .issue = issue, .poll = poll_queue, .ctx = s, .depth = s->opts.lane_depth };
}
