/* swapper/store_files.c - the drives' files of a store: made and filled once, or found again by their record. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "swapper/store_internal.h"
#include "zinf/base/align.h"

struct progress { const struct zinf_store_opts *opts; uint64_t before, total; };

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
            .align_nbytes = s->opts.direct && info.direct && info.off_align > ZINF_EXTENT_ALIGN ? info.off_align : ZINF_EXTENT_ALIGN,
        };
        if (s->opts.direct && !info.direct)
            zinf_log(s->opts.log, ZINF_LOG_WARN, "%s: the page cache is used, %s", dir, info.why);
    }
    return 0;
}

static int state_path(const struct zinf_store *s, uint32_t d, char *path, size_t nbytes, struct zinf_status *st)
{
    int n = snprintf(path, nbytes, "%s/state-%u", s->opts.dirs[d], s->opts.rank);
    if (n >= 0 && (size_t)n < nbytes)
        return 0;
    return zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long: choose a shorter one in zinf.nvme_paths", s->opts.dirs[d]);
}

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
        int rc = state_path(s, d, path, sizeof(path), st);
        if (!rc)
            rc = zinf_file_open(path, ZINF_FILE_CREATE, s->opts.direct, &s->files[d], st);
        if (rc)
            return rc;
        s->nr_created = d + 1;
        if (drives[d].nbytes)
            rc = zinf_file_preallocate(&s->files[d], drives[d].nbytes, progress, &p, st);
        if (rc)
            return rc;
        p.before += drives[d].nbytes;
    }
    return 0;
}

void zinf_store_files_remove(struct zinf_store *s)
{
    for (uint32_t d = 0; !s->opts.resume && d < s->nr_created; d++)
        unlink(s->files[d].path);
}

/* ---- resume ---- */

static int differs(struct zinf_status *st, const char *what, uint64_t record, uint64_t plan)
{
    return zinf_fail(st, -EINVAL, "the state on the drives does not fit: %s is %llu there and %llu in this run: resume with the "
                     "model and configuration it was made with", what, (unsigned long long)record, (unsigned long long)plan);
}

/* Everything that decides where a byte lies, in the record and in the plan. */
static int check_layout(const struct zinf_store *s, const struct zinf_record *r, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = s->plan;
    const struct { const char *what; uint64_t record, plan; } same[] = {
        { "the number of drives (zinf.nvme_paths)", r->nr_drives, s->nr_drives },
        { "the rank", r->rank, s->opts.rank },
        { "the number of ranks", r->world, s->opts.durable ? s->opts.world : r->world },
        { "the number of units", r->nr_units, p->spec.nr_units },
        { "the number of elements per grain", r->grain_elems, p->spec.grain_elems },
        { "the number of bytes of a weight", r->weight_nbytes, p->spec.weight_nbytes },
        { "the number of bytes of an element's optimizer state", r->state_nbytes, p->spec.state_nbytes },
        { "weights on the drives (1 = yes)", r->extents_weight, p->extents_weight },
        { "optimizer state on the drives (1 = yes)", r->extents_state, p->extents_state },
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (same[i].record != same[i].plan)
            return differs(st, same[i].what, same[i].record, same[i].plan);
    for (uint32_t u = 0; u < r->nr_units; u++) {
        char what[64];
        snprintf(what, sizeof(what), "the number of elements of unit %u", u);
        if (r->unit_elems[u] != p->spec.unit_elems[u])
            return differs(st, what, r->unit_elems[u], p->spec.unit_elems[u]);
    }
    if (r->nr_grains != p->nr_grains)
        return differs(st, "the number of grains", r->nr_grains, p->nr_grains);
    if (s->opts.uuid && strcmp(s->opts.uuid, r->uuid))
        return zinf_fail(st, -EINVAL, "the record on %s is of run %s and not of %s", s->opts.dirs[0], r->uuid, s->opts.uuid);
    for (uint32_t d = 0; d < r->nr_drives; d++)
        if (!r->drive_align[d] || r->drive_align[d] % ZINF_EXTENT_ALIGN || r->drive_align[d] & (r->drive_align[d] - 1))
            return zinf_fail(st, -EINVAL, "the record on %s aligns drive %u to %u bytes", s->opts.dirs[0], d, r->drive_align[d]);
    for (uint32_t g = 0; g < r->nr_grains; g++)
        if (r->drive[g] >= r->nr_drives || r->current[g] > 1)
            return zinf_fail(st, -EINVAL, "the record on %s puts grain %u on drive %u, extent %u", s->opts.dirs[0], g, r->drive[g],
                             r->current[g]);
    return 0;
}

static int open_file(struct zinf_store *s, uint32_t d, const struct zinf_drive *drive, struct zinf_status *st)
{
    struct zinf_file *f = &s->files[d];
    char path[sizeof(f->path)];
    struct stat sb;
    int rc = state_path(s, d, path, sizeof(path), st);
    if (!rc)
        rc = zinf_file_open(path, ZINF_FILE_WRITE, s->opts.direct, f, st);
    if (rc)
        return rc;
    s->nr_created = d + 1;
    /* Moved to a drive with larger blocks: extents would share them. */
    if (f->direct && f->off_align > drive->align_nbytes) {
        zinf_log(s->opts.log, ZINF_LOG_WARN, "%s: the page cache is used, its drive asks for blocks of %u bytes and the state was "
                 "laid out for %u", path, f->off_align, drive->align_nbytes);
        zinf_file_close(f);
        rc = zinf_file_open(path, ZINF_FILE_WRITE, false, f, st);
        if (rc)
            return rc;
    }
    if (fstat(f->fd, &sb) < 0)
        return zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    if ((uint64_t)sb.st_size != drive->nbytes)
        return zinf_fail(st, -EINVAL, "%s has %lld bytes and the state there has %llu: it is not whole, use another checkpoint",
                         path, (long long)sb.st_size, (unsigned long long)drive->nbytes);
    f->nbytes = drive->nbytes;
    return 0;
}

static int resume_files(struct zinf_store *s, struct zinf_drive *drives, struct zinf_status *st)
{
    const struct zinf_record *r = s->opts.resume;
    int rc = check_layout(s, r, st);
    if (rc)
        return rc;
    for (uint32_t d = 0; d < s->nr_drives; d++)
        drives[d] = (struct zinf_drive){ .dir = s->opts.dirs[d], .align_nbytes = r->drive_align[d] };
    for (uint32_t g = 0; g < r->nr_grains; g++) {
        s->extents[g].drive = r->drive[g];
        s->current[g] = r->current[g];
        if (s->crc && r->has_crc) {
            memcpy(s->crc[g][r->current[g]], r->crc + (size_t)g * ZINF_RECORD_PIECES, sizeof(s->crc[g][0]));
            s->crc_known[g][r->current[g]] = 1;
        }
    }
    zinf_extents_place(s->plan, drives, s->nr_drives, s->extents);
    for (uint32_t d = 0; !rc && d < s->nr_drives; d++)
        rc = open_file(s, d, &drives[d], st);
    return rc;
}

/* ---- both ---- */

static int allocate(struct zinf_store *s, struct zinf_status *st)
{
    size_t nr = s->plan->nr_grains ? s->plan->nr_grains : 1;
    s->files = calloc(s->nr_drives, sizeof(*s->files));
    s->drive_align = calloc(s->nr_drives, sizeof(*s->drive_align));
    s->extents = calloc(nr, sizeof(*s->extents));
    s->current = calloc(nr, 1);
    s->dirty = calloc(nr, 1);
    s->written = calloc(nr, 1);
    if (s->opts.checksum) {
        s->crc = calloc(nr, sizeof(*s->crc));
        s->crc_known = calloc(nr, sizeof(*s->crc_known));
    }
    if (!s->files || !s->drive_align || !s->extents || !s->current || !s->dirty || !s->written ||
        (s->opts.checksum && (!s->crc || !s->crc_known)))
        return zinf_fail(st, -ENOMEM, "no memory for the extents of %u grains", s->plan->nr_grains);
    for (uint32_t d = 0; d < s->nr_drives; d++)
        s->files[d].fd = -1;
    return 0;
}

int zinf_store_files_open(struct zinf_store *s, struct zinf_status *st)
{
    if (!s->opts.dirs || !s->opts.nr_dirs)
        return zinf_fail(st, -EINVAL, "state is kept on NVMe and there is no drive: set zinf.nvme_paths");
    if (s->opts.nr_dirs > UINT8_MAX + 1u)
        return zinf_fail(st, -EINVAL, "%u drives are more than 256: name fewer in zinf.nvme_paths", s->opts.nr_dirs);
    s->nr_drives = s->opts.nr_dirs;
    struct zinf_drive *drives = calloc(s->nr_drives, sizeof(*drives));
    int rc = drives ? allocate(s, st) : zinf_fail(st, -ENOMEM, "no memory for %u drives", s->nr_drives);
    if (!rc && s->opts.resume)
        rc = resume_files(s, drives, st);
    else if (!rc)
        rc = probe_drives(s, drives, st);
    if (!rc && !s->opts.resume)
        rc = zinf_extents_make(s->plan, drives, s->nr_drives, s->extents, st);
    if (!rc)
        rc = zinf_io_queue_open(&s->opts.io, &s->queue, st);
    if (!rc)
        rc = zinf_store_lanes_open(s, st);
    if (!rc && !s->opts.resume)
        rc = create_files(s, drives, st);
    s->info.direct = true;
    for (uint32_t d = 0; !rc && d < s->nr_drives; d++) {
        s->drive_align[d] = drives[d].align_nbytes;
        s->info.drive_nbytes += drives[d].nbytes;
        s->info.direct = s->info.direct && s->files[d].direct;
    }
    free(drives);
    if (rc)
        return rc;
    zinf_io_queue_pin(s->queue, s->host, s->plan->use[ZINF_TIER_HOST]);
    s->info.backend = zinf_io_queue_backend(s->queue);
    return 0;
}
