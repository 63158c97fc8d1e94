/* swapper/store_commit.c - commits: drives flushed, then the record, then the record's flush, all through the queue.
 *
 *   idle -> (power) FLUSH every drive at once -> WRITE the record's slot -> (power) FLUSH the record -> idle
 *
 * One step is submitted when the one before has completed, on the mover's thread, from issue or from a poll: nothing waits.
 * After a failure, of a commit or of any write, there is no other commit: the record before it stays. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "swapper/mover.h"
#include "swapper/store_internal.h"
#include "zinf/base/align.h"

#define MEMBER_NAME "member"
enum phase { PHASE_IDLE, PHASE_DRIVES, PHASE_WRITE, PHASE_RECORD };
/* A resumed run may describe itself in more words than the one that made the file. */
#define SLOT_SLACK_NBYTES 4096u

struct zinf_store_commit {
    struct zinf_record rec;
    struct zinf_file file;
    bool created;
    char *dirs;                          /* copies, NUL after each: the caller's are borrowed for the open */
    void *buf;                           /* the record as it is written */
    uint64_t slot_nbytes;
    struct zinf_store_transfer *flush;   /* per drive */
    struct zinf_store_transfer record;

    enum phase phase;
    uint32_t nr_left;
    int rc;                              /* of the commit in progress */
    struct zinf_mover *mover;            /* NULL: a commit outside a schedule */
    uint32_t op;

    bool prepared;                       /* rec.generation and rec.payload are those of the next commit */
    bool has_record;
    uint64_t generation;                 /* of the newest record */
    uint32_t slot;                       /* where it is */
    int refused;                         /* why there is no other commit */
};

/* ---- opening ---- */

static int sync_dir(const char *dir, struct zinf_status *st)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    if (fd < 0 || fsync(fd) < 0)
        rc = zinf_fail(st, -errno, "syncing %s: %s", dir, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int copy_dirs(struct zinf_store *s, struct zinf_status *st)
{
    size_t nbytes = 0, at = 0;
    for (uint32_t d = 0; d < s->nr_drives; d++)
        nbytes += strlen(s->opts.dirs[d]) + 1;
    s->commit->dirs = malloc(nbytes);
    if (!s->commit->dirs)
        return zinf_fail(st, -ENOMEM, "no memory for the paths of %u drives", s->nr_drives);
    for (uint32_t d = 0; d < s->nr_drives; d++) {
        size_t n = strlen(s->opts.dirs[d]) + 1;
        memcpy(s->commit->dirs + at, s->opts.dirs[d], n);
        at += n;
    }
    return 0;
}

/* The part of a record that never changes. */
static int fill_record(struct zinf_store *s, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = s->plan;
    const struct zinf_store_opts *o = &s->opts;
    struct zinf_record *r = &s->commit->rec;
    int rc = zinf_record_init(r, s->nr_drives, p->spec.nr_units, p->nr_grains, o->payload_nbytes,
                              o->fingerprint ? o->fingerprint : "", st);
    if (rc)
        return rc;
    snprintf(r->uuid, sizeof(r->uuid), "%s", o->uuid);
    r->rank = o->rank;
    r->world = o->world;
    r->weight_nbytes = p->spec.weight_nbytes;
    r->state_nbytes = p->spec.state_nbytes;
    r->extents_weight = p->extents_weight;
    r->extents_state = p->extents_state;
    r->grain_elems = p->spec.grain_elems;
    for (uint32_t u = 0; u < p->spec.nr_units; u++)
        r->unit_elems[u] = p->spec.unit_elems[u];
    for (uint32_t d = 0; d < s->nr_drives; d++)
        r->drive_align[d] = s->drive_align[d];
    for (uint32_t g = 0; g < p->nr_grains; g++)
        r->drive[g] = (uint8_t)s->extents[g].drive;
    return 0;
}

static int check_opts(const struct zinf_store *s, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = s->plan;
    if (!p->extents_weight || (p->spec.state_nbytes && !p->extents_state))
        return zinf_fail(st, -EINVAL, "nothing can be committed: the drives do not hold the whole state: offload the optimizer to "
                         "nvme or set zinf.durability to \"none\"");
    if (!s->opts.uuid || strlen(s->opts.uuid) != 36 || !s->opts.world || s->opts.rank >= s->opts.world)
        return zinf_fail(st, -EINVAL, "a durable store needs the run's uuid, its rank and the number of ranks");
    return 0;
}

static int open_record(struct zinf_store *s, struct zinf_status *st)
{
    struct zinf_store_commit *c = s->commit;
    char path[sizeof(c->file.path)];
    uint64_t need = zinf_record_nbytes(&c->rec);
    struct stat sb;
    int n = snprintf(path, sizeof(path), "%s/record-%u", s->opts.dirs[0], s->opts.rank);
    if (n < 0 || (size_t)n >= sizeof(path))
        return zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long: choose a shorter one in zinf.nvme_paths", s->opts.dirs[0]);
    int rc = s->opts.resume ? 0 : zinf_record_create(s->opts.dirs[0], s->opts.rank,
                                                     zinf_align_up(need + SLOT_SLACK_NBYTES, 4096), st);
    if (rc)
        return rc;
    rc = zinf_file_open(path, ZINF_FILE_WRITE, false, &c->file, st);
    if (rc && !s->opts.resume)
        unlink(path);
    if (rc)
        return rc;
    c->created = !s->opts.resume;
    if (fstat(c->file.fd, &sb) < 0)
        return zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    c->slot_nbytes = c->rec.slot_nbytes = (uint64_t)sb.st_size / 2;
    if (need > c->slot_nbytes)
        return zinf_fail(st, -EINVAL, "%s has %llu bytes for a record and this run needs %llu: export the run and start a new one",
                         path, (unsigned long long)c->slot_nbytes, (unsigned long long)need);
    return 0;
}

/* What is resumed may be in the page cache only: its run was killed between a write and its flush. The first write after this
 * goes where only the record before it points to, so this one must be there for good. */
static int settle(struct zinf_store *s, struct zinf_status *st)
{
    int rc = 0;
    for (uint32_t d = 0; !rc && d < s->nr_drives; d++)
        rc = zinf_io_run(s->queue, &s->files[d], ZINF_IO_SYNC, NULL, 0, 0, st);
    return rc ? rc : zinf_io_run(s->queue, &s->commit->file, ZINF_IO_SYNC, NULL, 0, 0, st);
}

int zinf_store_commit_open(struct zinf_store *s, struct zinf_status *st)
{
    const struct zinf_record *from = s->opts.resume;
    int rc = check_opts(s, st);
    if (rc)
        return rc;
    struct zinf_store_commit *c = s->commit = calloc(1, sizeof(*c));
    if (!c)
        return zinf_fail(st, -ENOMEM, "no memory for commits");
    c->file.fd = -1;
    c->flush = calloc(s->nr_drives, sizeof(*c->flush));
    rc = c->flush ? copy_dirs(s, st) : zinf_fail(st, -ENOMEM, "no memory for commits");
    if (!rc)
        rc = fill_record(s, st);
    if (!rc)
        rc = open_record(s, st);
    if (!rc && posix_memalign(&c->buf, 4096, zinf_align_up(zinf_record_nbytes(&c->rec), 4096)))
        rc = zinf_fail(st, -ENOMEM, "no memory for a record of %u grains", s->plan->nr_grains);
    for (uint32_t d = 0; !rc && !from && d < s->nr_drives; d++)
        rc = sync_dir(s->opts.dirs[d], st);      /* the names of the files; their contents were synced when they were made */
    if (!rc && from && s->opts.power)
        rc = settle(s, st);
    if (!rc && from) {
        c->has_record = true;
        c->generation = from->generation;
        c->slot = from->slot;
    }
    return rc;
}

void zinf_store_commit_close(struct zinf_store *s)
{
    struct zinf_store_commit *c = s->commit;
    if (!c)
        return;
    zinf_file_close(&c->file);
    zinf_record_free(&c->rec);
    free(c->dirs);
    free(c->buf);
    free(c->flush);
    free(c);
    s->commit = NULL;
}

void zinf_store_commit_remove(struct zinf_store *s)
{
    if (s->commit && s->commit->created)
        unlink(s->commit->file.path);
}

/* ---- the state machine ---- */

static void submit(struct zinf_store *s, struct zinf_store_transfer *t, const struct zinf_file *file, enum zinf_io_dir dir)
{
    struct zinf_store_commit *c = s->commit;
    uint32_t slot = c->has_record ? !c->slot : c->rec.generation & 1;
    *t = (struct zinf_store_transfer){ .io = { .file = file, .dir = dir, .user = t } };
    if (dir == ZINF_IO_WRITE) {
        t->io.buf = c->buf;
        t->io.nbytes = zinf_record_nbytes(&c->rec);
        t->io.off_bytes = slot * c->slot_nbytes;
    }
    zinf_io_queue_submit(s->queue, &t->io);
}

static void finish(struct zinf_store *s, int rc)
{
    struct zinf_store_commit *c = s->commit;
    struct zinf_mover *m = c->mover;
    c->phase = PHASE_IDLE;
    c->mover = NULL;
    c->prepared = false;
    c->rc = rc;
    if (rc) {
        zinf_store_commit_refuse(s, rc);
    } else {
        c->slot = c->has_record ? !c->slot : c->rec.generation & 1;
        c->has_record = true;
        c->generation = c->rec.generation;
    }
    if (m)
        zinf_mover_complete(m, c->op, rc);
}

/* From the phase that is over to the next that has something to do. */
static void advance(struct zinf_store *s)
{
    struct zinf_store_commit *c = s->commit;
    c->phase++;
    if (c->phase == PHASE_DRIVES && s->opts.power) {
        c->nr_left = s->nr_drives;
        for (uint32_t d = 0; d < s->nr_drives; d++)
            submit(s, &c->flush[d], &s->files[d], ZINF_IO_SYNC);
        return;
    }
    if (c->phase == PHASE_DRIVES)
        c->phase = PHASE_WRITE;
    c->nr_left = 1;
    if (c->phase == PHASE_WRITE)
        submit(s, &c->record, &c->file, ZINF_IO_WRITE);
    else if (c->phase == PHASE_RECORD && s->opts.power)
        submit(s, &c->record, &c->file, ZINF_IO_SYNC);
    else
        finish(s, 0);
}

void zinf_store_commit_reaped(struct zinf_store *s, const struct zinf_io_op *io)
{
    struct zinf_store_commit *c = s->commit;
    if (io->rc && !c->rc)
        c->rc = io->rc;
    if (--c->nr_left)
        return;
    if (c->rc)
        finish(s, c->rc);
    else
        advance(s);
}

void zinf_store_commit_broken(struct zinf_store *s, int rc)
{
    if (!s->commit)
        return;
    zinf_store_commit_refuse(s, rc);
    if (s->commit->phase != PHASE_IDLE)
        finish(s, rc);
}

void zinf_store_commit_refuse(struct zinf_store *s, int rc)
{
    if (s->commit && !s->commit->refused)
        s->commit->refused = rc;
}

bool zinf_store_has_named(const struct zinf_store *s)
{
    /* A record whose write failed may be on the drive all the same. */
    return s->commit && (s->commit->has_record || s->commit->refused);
}

int zinf_store_commit_check(const struct zinf_store *s, struct zinf_status *st)
{
    const struct zinf_store_commit *c = s->commit;
    if (!c || !c->refused)
        return 0;
    return zinf_fail(st, c->refused, "%s: nothing is written after a failed write or sync (%s): the state of iteration %llu is "
                     "what is kept", c->file.path, strerror(-c->refused), (unsigned long long)c->generation);
}

/* ---- what is recorded ---- */

/* The record of the extents current ^ flips[g], prepared and encoded. */
static int begin(struct zinf_store *s, const uint8_t *flips, struct zinf_status *st)
{
    struct zinf_store_commit *c = s->commit;
    struct zinf_record *r = &c->rec;
    int rc = zinf_store_commit_check(s, st);
    if (rc)
        return rc;
    if (c->phase != PHASE_IDLE || !c->prepared)
        return zinf_fail(st, -EPROTO, "%s: a commit %s: report this", c->file.path,
                         c->prepared ? "before the last one was over" : "without a record to write");
    if (c->has_record && r->generation <= c->generation)
        return zinf_fail(st, -EPROTO, "%s: iteration %llu cannot be committed after %llu: report this", c->file.path,
                         (unsigned long long)r->generation, (unsigned long long)c->generation);
    r->has_crc = s->crc != NULL;
    for (uint32_t g = 0; g < r->nr_grains; g++) {
        r->current[g] = s->current[g] ^ (flips ? flips[g] & 1 : 0);
        r->has_crc = r->has_crc && s->crc_known[g][r->current[g]];
    }
    for (uint32_t g = 0; g < r->nr_grains; g++) {
        uint32_t *to = r->crc + (size_t)g * ZINF_RECORD_PIECES;
        if (r->has_crc)
            memcpy(to, s->crc[g][r->current[g]], sizeof(s->crc[g][0]));
        else
            memset(to, 0, sizeof(*to) * ZINF_RECORD_PIECES);
    }
    zinf_record_encode(r, c->buf);
    c->rc = 0;
    return 0;
}

void zinf_store_mark_written(struct zinf_store *s, const struct zinf_schedule *sched, uint32_t end)
{
    memset(s->written, 0, s->plan->nr_grains);
    for (uint32_t i = 0; i < end; i++) {
        const struct zinf_op *o = &sched->ops[i];
        const struct zinf_access *wr = sched->accesses + o->wr;
        for (uint32_t k = 0; o->lane == ZINF_LANE_NVME_WRITE && k < o->nr_wr; k++)
            if (wr[k].loc.index < s->plan->nr_grains)
                s->written[wr[k].loc.index] = 1;
    }
}

static int issue(void *ctx, struct zinf_mover *m, const struct zinf_schedule *sched, uint32_t op, const uint32_t *after,
                 uint32_t nr_after, struct zinf_status *st)
{
    (void)after, (void)nr_after;
    struct zinf_store *s = ctx;
    struct zinf_store_commit *c = s->commit;
    if (!c->has_record)
        return zinf_fail(st, -EPROTO, "%s: a schedule commits before the first record is made: report this", c->file.path);
    /* Naming an extent that is not the newest would lose a step, and naming one that was not written would invent one. */
    zinf_store_mark_written(s, sched, op);
    for (uint32_t g = 0; g < s->plan->nr_grains; g++) {
        bool newest = s->written[g] || s->dirty[g], flips = sched->flips && sched->flips[g];
        if (newest != flips)
            return zinf_fail(st, -EPROTO, "a commit names the %s extent of grain %u: report this", flips ? "alternate" : "current",
                             g);
    }
    int rc = begin(s, sched->flips, st);
    if (rc)
        return rc;
    c->mover = m;
    c->op = op;
    advance(s);
    return 0;
}

static int poll_queue(void *ctx, struct zinf_mover *m, struct zinf_status *st)
{
    (void)m;
    zinf_store_reap(ctx, false, st);
    return 0;
}

struct zinf_lane_impl zinf_store_commit_lane(struct zinf_store *s)
{
    if (!s->commit)
        return (struct zinf_lane_impl){ 0 };
    return (struct zinf_lane_impl){ .issue = issue, .poll = poll_queue, .ctx = s, .depth = 1 };
}

void zinf_store_next_record(struct zinf_store *s, uint64_t generation, const void *payload)
{
    struct zinf_store_commit *c = s->commit;
    if (!c || c->phase != PHASE_IDLE)
        return;
    c->rec.generation = generation;
    memcpy(c->rec.payload, payload, c->rec.payload_nbytes);
    c->prepared = true;
}

/* Before the first record: from then on the folders of the other drives belong to a checkpoint too. */
static int write_members(struct zinf_store *s, struct zinf_status *st)
{
    const char *first = s->commit->dirs, *dir = first;
    for (uint32_t d = 1; d < s->nr_drives; d++) {
        char path[PATH_MAX];
        dir += strlen(dir) + 1;
        int n = snprintf(path, sizeof(path), "%s/" MEMBER_NAME, dir);
        if (n < 0 || (size_t)n >= sizeof(path))
            return zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long: choose a shorter one in zinf.nvme_paths", dir);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), rc = 0;
        if (fd < 0 || dprintf(fd, "%s\n", first) != (int)strlen(first) + 1 || fsync(fd) < 0)
            rc = zinf_fail(st, errno ? -errno : -EIO, "writing %s: %s", path, strerror(errno));
        if (fd >= 0 && close(fd) < 0 && !rc)
            rc = zinf_fail(st, -errno, "writing %s: %s", path, strerror(errno));
        if (!rc)
            rc = sync_dir(dir, st);
        if (rc)
            return rc;
    }
    return 0;
}

int zinf_store_commit(struct zinf_store *s, uint64_t generation, const void *payload, struct zinf_status *st)
{
    struct zinf_store_commit *c = s->commit;
    if (!c)
        return zinf_fail(st, -EINVAL, "a commit to a store that is not durable");
    if (zinf_io_queue_pending(s->queue))
        return zinf_fail(st, -EBUSY, "%s: a commit while a schedule runs: report this", c->file.path);
    zinf_store_next_record(s, generation, payload);
    int rc = begin(s, s->dirty, st);
    if (!rc && !c->has_record)
        rc = write_members(s, st);
    if (rc)
        return rc;
    advance(s);
    while (c->phase != PHASE_IDLE)
        zinf_store_reap(s, true, st);
    if (c->rc)
        return zinf_fail(st, c->rc, "%s: committing iteration %llu failed: %s", c->file.path, (unsigned long long)generation,
                         strerror(-c->rc));
    for (uint32_t g = 0; g < s->plan->nr_grains; g++) {
        s->current[g] ^= s->dirty[g];
        s->dirty[g] = 0;
    }
    return 0;
}

void zinf_store_commit_info(const struct zinf_store *s, struct zinf_store_info *out)
{
    if (s->commit) {
        out->has_record = s->commit->has_record;
        out->generation = s->commit->generation;
        out->commit_rc = s->commit->refused;
    }
    for (uint32_t g = 0; s->dirty && g < s->plan->nr_grains; g++)
        out->dirty = out->dirty || s->dirty[g];
}

/* ---- which folders are checkpoints ---- */

/* 1 = a record of some rank is valid, 0 = none is, -errno = it cannot be told. */
static int any_record(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return -errno;
    int found = 0;
    for (struct dirent *e; found != 1 && (errno = 0, e = readdir(d));) {
        char *end;
        if (strncmp(e->d_name, "record-", 7) || e->d_name[7] < '0' || e->d_name[7] > '9')
            continue;
        unsigned long rank = strtoul(e->d_name + 7, &end, 10);
        if (*end || rank > UINT32_MAX)
            continue;
        struct zinf_record r;
        int rc = zinf_record_load(dir, (uint32_t)rank, UINT64_MAX, &r, NULL, NULL);
        zinf_record_free(&r);
        if (rc != -ENOENT)
            found = rc ? rc : 1;
    }
    if (!found && errno)
        found = -errno;
    closedir(d);
    return found;
}

bool zinf_store_has_record(const char *path, void *ctx)
{
    (void)ctx;
    int rc = any_record(path);
    if (rc)
        return rc != -ENOENT && rc != -ENOTDIR;
    char file[PATH_MAX], first[PATH_MAX];
    int n = snprintf(file, sizeof(file), "%s/" MEMBER_NAME, path);
    if (n < 0 || (size_t)n >= sizeof(file))
        return true;
    int fd = open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    ssize_t len = read(fd, first, sizeof(first) - 1);
    close(fd);
    first[len > 0 ? len : 0] = 0;
    char *eol = strchr(first, '\n');
    if (len < 0 || !eol)
        return len < 0;                  /* cut off: it was being written, before there was a record */
    *eol = 0;
    return any_record(first) != 0;       /* also when the first drive is not there now */
}
