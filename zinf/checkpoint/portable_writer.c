/* zinf/checkpoint/portable_writer.c - reserves a checkpoint's file, takes its segments in any order, then gives it its name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/base/crc32c.h"
#include "zinf/base/dtype.h"
#include "zinf/base/size.h"
#include "zinf/checkpoint/durable.h"
#include "zinf/checkpoint/portable_dir.h"
#include "zinf/checkpoint/portable_internal.h"
#include "zinf/checkpoint/sealed.h"
#include "zinf/checkpoint/st_header.h"

/* What checkpoint.json may take of the drive: beside each segment's numbers, what the caller says of the run. */
enum { SEGMENT_TEXT_NBYTES = 64, OTHER_TEXT_NBYTES = 64 << 10 };

struct segment {
    struct zinf_portable_segment place;     /* nr_elems: written so far */
    bool started, failed;
};

struct zinf_portable_writer {
    struct zinf_portable_opts opts;
    uint32_t nr_tensors;
    struct zinf_st_desc *tensors;           /* their names are ours */
    uint64_t *nbytes, *off_bytes;           /* of each tensor, in the file */
    uint64_t data_nbytes, header_nbytes;
    uint32_t header_crc;
    struct segment *segments;
    char dir[PATH_MAX];                     /* PARENT/.NAME.tmp */
    bool made_parent, published;
    int parent_fd, fd;
    struct zinf_claim claim;
};

static int fail(const struct zinf_portable_writer *w, int rc, struct zinf_status *st)
{
    return zinf_fail(st, rc, "checkpoint %s/%s: %s", w->opts.parent, w->opts.name, strerror(-rc));
}

/* ---- open ----------------------------------------------------------------------------------------------------------- */

static int describe(struct zinf_portable_writer *w, struct zinf_status *st)
{
    for (uint32_t i = 0; i < w->nr_tensors; i++) {
        const struct zinf_param *p = w->opts.params[i % w->opts.nr_params];
        const char *prefix = zinf_portable_kinds[i / w->opts.nr_params];
        size_t n = strlen(prefix) + strlen(p->name) + 1;
        char *name = malloc(n);

        if (!name)
            return fail(w, -ENOMEM, st);
        snprintf(name, n, "%s%s", prefix, p->name);
        w->tensors[i] = (struct zinf_st_desc){ .name = name, .dtype = ZINF_F32, .nr_dims = p->nr_dims };
        for (uint32_t d = 0; d < p->nr_dims && d < 4; d++)
            w->tensors[i].dims[d] = p->dims[d];
    }
    return zinf_st_check(w->tensors, w->nr_tensors, w->nbytes, &w->data_nbytes, st);
}

static int check_opts(const struct zinf_portable_opts *o, struct zinf_status *st)
{
    if (!zinf_portable_name_ok(o->name))
        return zinf_fail(st, -EINVAL, "a checkpoint cannot be called \"%.210s\": use 1 to %u bytes without / and no . in front",
                         o->name, ZINF_PORTABLE_NAME_MAX);
    if (o->nr_kinds != 1 && o->nr_kinds != ZINF_NR_PORTABLE_KINDS)
        return zinf_fail(st, -EINVAL, "checkpoint %s: it has 1 or 3 tensors of a parameter, not %u", o->name, o->nr_kinds);
    if (o->nr_params > UINT32_MAX / ZINF_NR_PORTABLE_KINDS - 1)
        return zinf_fail(st, -EINVAL, "checkpoint %s: %u parameters are too many", o->name, o->nr_params);
    return 0;
}

/* A folder made here is to be found again after a crash as well. */
static int make_parent(struct zinf_portable_writer *w, struct zinf_status *st)
{
    char above[PATH_MAX];
    char *slash;

    if (mkdir(w->opts.parent, 0777))
        return errno == EEXIST ? 0 : zinf_fail(st, -errno, "%s: %s", w->opts.parent, strerror(errno));
    w->made_parent = true;
    snprintf(above, sizeof(above), "%s", w->opts.parent);
    slash = above + strlen(above);
    while (slash > above + 1 && slash[-1] == '/')
        *--slash = 0;
    slash = strrchr(above, '/');
    if (!slash)
        return zinf_durable_sync_dir(".", st);
    slash[slash == above] = 0;
    return zinf_durable_sync_dir(above, st);
}

static int open_dir(struct zinf_portable_writer *w, struct zinf_status *st)
{
    char hidden[ZINF_PORTABLE_HIDDEN_NBYTES];
    int n, rc;

    zinf_portable_hidden(hidden, w->opts.name, ZINF_HIDDEN_TMP);
    n = snprintf(w->dir, sizeof(w->dir), "%s/%s", w->opts.parent, hidden);
    if (n < 0 || (size_t)n >= sizeof(w->dir) - 64)
        return zinf_fail(st, -ENAMETOOLONG, "%.100s...: the path is too long", w->opts.parent);
    rc = make_parent(w, st);
    if (rc)
        return rc;
    w->parent_fd = open(w->opts.parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->parent_fd < 0)
        return zinf_fail(st, -errno, "%s: %s", w->opts.parent, strerror(errno));
    rc = zinf_portable_replaceable(w->parent_fd, w->opts.name);
    if (rc == -EEXIST)
        return zinf_fail(st, rc, "%s/%s exists and holds something else than a checkpoint: move it away", w->opts.parent,
                         w->opts.name);
    if (rc)
        return fail(w, rc, st);
    rc = zinf_portable_claim(w->parent_fd, w->opts.name, &w->claim);
    if (rc == -EBUSY)
        return zinf_fail(st, rc, "%s: another process is writing this checkpoint", w->dir);
    if (rc == -EEXIST)
        return zinf_fail(st, rc, "%s holds something else than an unfinished checkpoint: move it away", w->dir);
    return rc ? fail(w, rc, st) : 0;
}

static int fail_space(const struct zinf_portable_writer *w, uint64_t need, struct zinf_status *st)
{
    struct statvfs v;
    char a[32], b[32];

    if (fstatvfs(w->parent_fd, &v))
        return fail(w, -ENOSPC, st);
    return zinf_fail(st, -ENOSPC, "checkpoint %s/%s needs %s, the drive has %s free: free some, or keep fewer (--keep)",
                     w->opts.parent, w->opts.name, zinf_size_format(need, a, sizeof(a)),
                     zinf_size_format((uint64_t)v.f_bavail * v.f_frsize, b, sizeof(b)));
}

static int check_space(const struct zinf_portable_writer *w, uint64_t *need, struct zinf_status *st)
{
    struct statvfs v;

    *need = w->data_nbytes + w->header_nbytes + (uint64_t)w->opts.nr_segments * SEGMENT_TEXT_NBYTES + OTHER_TEXT_NBYTES;
    if (fstatvfs(w->parent_fd, &v))
        return zinf_fail(st, -errno, "%s: %s", w->opts.parent, strerror(errno));
    /* Some network file systems know no sizes. */
    return v.f_blocks && (uint64_t)v.f_bavail * v.f_frsize < *need ? fail_space(w, *need, st) : 0;
}

static int reserve(struct zinf_portable_writer *w, uint64_t need, struct zinf_status *st)
{
    off_t nbytes = (off_t)(w->header_nbytes + w->data_nbytes);
    int rc;

    w->fd = openat(w->claim.dir_fd, ZINF_PORTABLE_STATE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return fail(w, -errno, st);
    do
        rc = fallocate(w->fd, 0, 0, nbytes) ? -errno : 0;
    while (rc == -EINTR);
    if (rc == -EOPNOTSUPP)          /* not every file system can; the free space was seen to be enough */
        rc = ftruncate(w->fd, nbytes) ? -errno : 0;
    if (rc == -ENOSPC || rc == -EDQUOT)
        return fail_space(w, need, st);
    return rc ? fail(w, rc, st) : 0;
}

static int write_at(const struct zinf_portable_writer *w, const void *data, size_t nbytes, uint64_t off_bytes,
                    struct zinf_status *st)
{
    while (nbytes) {
        ssize_t n = pwrite(w->fd, data, nbytes, (off_t)off_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return zinf_fail(st, n ? -errno : -EIO, "%s/" ZINF_PORTABLE_STATE ": %s", w->dir, strerror(n ? errno : EIO));
        data = (const char *)data + n;
        nbytes -= (size_t)n;
        off_bytes += (size_t)n;
    }
    return 0;
}

static int begin(struct zinf_portable_writer *w, struct zinf_status *st)
{
    unsigned char *header = NULL;
    size_t nbytes = 0;
    uint64_t need, at;
    int rc = describe(w, st);

    if (!rc)
        rc = zinf_st_header(w->tensors, w->nr_tensors, w->nbytes, &header, &nbytes, st);
    if (rc)
        return rc;
    w->header_nbytes = at = nbytes;
    w->header_crc = zinf_crc32c(0, header, nbytes);
    for (uint32_t i = 0; i < w->nr_tensors; at += w->nbytes[i++])
        w->off_bytes[i] = at;
    rc = open_dir(w, st);
    if (!rc)
        rc = check_space(w, &need, st);
    if (!rc)
        rc = reserve(w, need, st);
    if (!rc)
        rc = write_at(w, header, nbytes, 0, st);
    free(header);
    return rc;
}

int zinf_portable_open(const struct zinf_portable_opts *opts, struct zinf_portable_writer **out, struct zinf_status *st)
{
    struct zinf_portable_writer *w;
    int rc = check_opts(opts, st);

    *out = NULL;
    if (rc)
        return rc;
    w = calloc(1, sizeof(*w));
    if (!w)
        return zinf_fail(st, -ENOMEM, "checkpoint %s: out of memory", opts->name);
    w->opts = *opts;
    w->nr_tensors = opts->nr_params * opts->nr_kinds;
    w->parent_fd = w->fd = -1;
    w->claim = (struct zinf_claim){ -1, -1 };
    w->tensors = calloc((size_t)w->nr_tensors + 1, sizeof(*w->tensors));
    w->nbytes = calloc((size_t)w->nr_tensors + 1, sizeof(*w->nbytes));
    w->off_bytes = calloc((size_t)w->nr_tensors + 1, sizeof(*w->off_bytes));
    w->segments = calloc((size_t)opts->nr_segments + 1, sizeof(*w->segments));
    if (!w->tensors || !w->nbytes || !w->off_bytes || !w->segments)
        rc = fail(w, -ENOMEM, st);
    else
        rc = begin(w, st);
    if (rc) {
        zinf_portable_close(w);
        return rc;
    }
    *out = w;
    return 0;
}

/* ---- write ---------------------------------------------------------------------------------------------------------- */

int zinf_portable_write(struct zinf_portable_writer *w, uint32_t segment, uint32_t param, enum zinf_portable_kind kind,
                        uint64_t first, const float *data, uint64_t n, struct zinf_status *st)
{
    struct segment *s;
    uint32_t tensor;
    int rc;

    if (segment >= w->opts.nr_segments || param >= w->opts.nr_params || (uint32_t)kind >= w->opts.nr_kinds)
        return zinf_fail(st, -EINVAL, "checkpoint %s: segment %u, parameter %u or kind %u is not one of its", w->opts.name,
                         segment, param, (unsigned)kind);
    s = &w->segments[segment];
    tensor = (uint32_t)kind * w->opts.nr_params + param;
    if (first > w->nbytes[tensor] / 4 || n > w->nbytes[tensor] / 4 - first)
        return zinf_fail(st, -EINVAL, "checkpoint %s: segment %u is past the end of %s", w->opts.name, segment,
                         w->tensors[tensor].name);
    if (s->started && (s->place.tensor != tensor || first != s->place.first + s->place.nr_elems))
        return zinf_fail(st, -EINVAL, "checkpoint %s: a part of segment %u does not follow the one before", w->opts.name,
                         segment);
    if (!s->started)
        s->place = (struct zinf_portable_segment){ .first = first, .tensor = tensor };
    s->started = true;
    s->failed = true;       /* until it is written */
    rc = write_at(w, data, (size_t)n * sizeof(*data), w->off_bytes[tensor] + first * sizeof(*data), st);
    if (rc)
        return rc;
    s->place.crc = zinf_crc32c(s->place.crc, data, (size_t)n * sizeof(*data));
    s->place.nr_elems += n;
    s->failed = false;
    return 0;
}

/* ---- finish --------------------------------------------------------------------------------------------------------- */

int zinf_portable_by_place(const void *a, const void *b)
{
    const struct zinf_portable_segment *x = a, *y = b;

    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Every element once. */
static int check_tiling(const struct zinf_portable_writer *w, const struct zinf_portable_segment *s, uint32_t nr,
                        struct zinf_status *st)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < w->nr_tensors; i++) {
        uint64_t next = 0;

        for (; at < nr && s[at].tensor == i && s[at].first == next; at++)
            next += s[at].nr_elems;
        if (next != w->nbytes[i] / 4)
            return zinf_fail(st, -EINVAL, "checkpoint %s: %s was not written, or written twice, from element %llu on",
                             w->opts.name, w->tensors[i].name, (unsigned long long)next);
    }
    return 0;
}

static int gather(const struct zinf_portable_writer *w, struct zinf_portable_segment **out, uint32_t *nr,
                  struct zinf_status *st)
{
    struct zinf_portable_segment *s = calloc((size_t)w->opts.nr_segments + 1, sizeof(*s));
    int rc = 0;

    if (!s)
        return fail(w, -ENOMEM, st);
    *nr = 0;
    for (uint32_t i = 0; !rc && i < w->opts.nr_segments; i++) {
        if (w->segments[i].failed)
            rc = zinf_fail(st, -EIO, "checkpoint %s: segment %u could not be written", w->opts.name, i);
        else if (w->segments[i].place.nr_elems)
            s[(*nr)++] = w->segments[i].place;
    }
    qsort(s, *nr, sizeof(*s), zinf_portable_by_place);
    if (!rc)
        rc = check_tiling(w, s, *nr, st);
    if (rc)
        free(s);
    else
        *out = s;
    return rc;
}

static void put_manifest(struct zinf_json_out *o, const struct zinf_portable_writer *w,
                         const struct zinf_portable_segment *s, uint32_t nr)
{
    zinf_json_open_object(o, NULL);
    zinf_json_put_string(o, "format", ZINF_PORTABLE_FORMAT);
    zinf_json_put_integer(o, "version", ZINF_PORTABLE_VERSION);
    zinf_json_put_integer(o, "nr_kinds", w->opts.nr_kinds);
    zinf_json_open_object(o, "state");
    zinf_json_put_integer(o, "nbytes", (int64_t)(w->header_nbytes + w->data_nbytes));
    zinf_json_put_integer(o, "header_nbytes", (int64_t)w->header_nbytes);
    zinf_json_put_integer(o, "header_crc32c", w->header_crc);
    zinf_json_close_object(o);
    zinf_json_open_array(o, "segments");
    for (uint32_t i = 0; i < nr; i++) {
        zinf_json_open_array(o, NULL);
        zinf_json_put_integer(o, NULL, s[i].tensor);
        zinf_json_put_integer(o, NULL, (int64_t)s[i].first);
        zinf_json_put_integer(o, NULL, (int64_t)s[i].nr_elems);
        zinf_json_put_integer(o, NULL, s[i].crc);
        zinf_json_close_array(o);
    }
    zinf_json_close_array(o);
    zinf_json_close_object(o);
}

/* Read back at once: what a reader would refuse is refused before it has a name. */
static int write_manifest(const struct zinf_portable_writer *w, const char *meta, struct zinf_status *st)
{
    struct zinf_portable_segment *s = NULL;
    struct zinf_portable_manifest m;
    struct zinf_json_out o = { 0 };
    char *text = NULL;
    uint32_t nr = 0;
    size_t n;
    int rc = gather(w, &s, &nr, st);

    if (rc)
        return rc;
    put_manifest(&o, w, s, nr);
    free(s);
    n = strlen(meta) + o.nbytes + 16;
    if (o.failed || !(text = malloc(n))) {
        zinf_json_out_free(&o);
        return fail(w, -ENOMEM, st);
    }
    snprintf(text, n, "{\"run\":%s,%s", meta, o.text + 1);
    zinf_json_out_free(&o);
    rc = zinf_sealed_write(w->dir, ZINF_PORTABLE_JSON, text, st);
    free(text);
    if (!rc)
        rc = zinf_portable_manifest_read(w->dir, &m, st);
    if (!rc)
        zinf_portable_manifest_free(&m);
    return rc;
}

static int check_meta(const struct zinf_portable_writer *w, const char *meta, struct zinf_status *st)
{
    struct zinf_json_doc doc = { 0 };
    int rc = zinf_json_parse(meta, strlen(meta), "what a checkpoint says of its run", false, &doc, st);

    if (!rc && (doc.root->type != ZINF_JSON_OBJECT || meta[strspn(meta, " \t\r\n")] != '{'))
        rc = zinf_fail(st, -EINVAL, "checkpoint %s: what is said of the run is not a JSON object", w->opts.name);
    zinf_json_free(&doc);
    return rc;
}

static int flush_state(struct zinf_portable_writer *w, struct zinf_status *st)
{
    int rc = fdatasync(w->fd) ? -errno : 0;

    if (!rc)
        (void)posix_fadvise(w->fd, 0, 0, POSIX_FADV_DONTNEED);     /* room in RAM for the run; only a hint */
    if (close(w->fd) && !rc)
        rc = -errno;
    w->fd = -1;
    return rc ? zinf_fail(st, rc, "%s/" ZINF_PORTABLE_STATE ": %s", w->dir, strerror(-rc)) : 0;
}

int zinf_portable_finish(struct zinf_portable_writer *w, const char *meta, struct zinf_status *st)
{
    int rc;

    if (w->fd < 0)
        return zinf_fail(st, -EINVAL, "checkpoint %s: it was finished before", w->opts.name);
    rc = check_meta(w, meta, st);
    if (!rc)
        rc = flush_state(w, st);
    if (!rc)
        rc = write_manifest(w, meta, st);
    if (rc)
        return rc;
    rc = zinf_portable_replaceable(w->parent_fd, w->opts.name);
    if (!rc)
        rc = zinf_portable_publish(w->parent_fd, w->opts.name, true, &w->published);
    if (w->published)
        zinf_portable_unlock(&w->claim);
    if (rc)
        return zinf_fail(st, rc, "checkpoint %s/%s could not be given its name: %s", w->opts.parent, w->opts.name,
                         strerror(-rc));
    return 0;
}

void zinf_portable_close(struct zinf_portable_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->claim.dir_fd >= 0 && !w->published)
        zinf_portable_abandon(w->parent_fd, w->opts.name, &w->claim);
    zinf_portable_release(&w->claim);
    if (w->parent_fd >= 0)
        close(w->parent_fd);
    if (w->made_parent && !w->published)
        (void)rmdir(w->opts.parent);
    for (uint32_t i = 0; w->tensors && i < w->nr_tensors; i++)
        free((char *)w->tensors[i].name);
    free(w->tensors);
    free(w->nbytes);
    free(w->off_bytes);
    free(w->segments);
    free(w);
}
