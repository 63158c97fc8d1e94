/* zinf/checkpoint/portable_reader.c - a checkpoint is checked whole, in one pass, before a single element of it is used. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/base/crc32c.h"
#include "zinf/checkpoint/portable_dir.h"
#include "zinf/checkpoint/portable_internal.h"
#include "zinf/checkpoint/safetensors.h"
#include "zinf/checkpoint/sealed.h"

enum { PIECE_NBYTES = 1 << 20, LOAD_TRIES = 100 };

struct entry { const char *param; enum zinf_portable_kind kind; const struct zinf_st_tensor *tensor; };

struct zinf_portable {
    struct zinf_portable_manifest m;
    struct zinf_st_file *file;
    char *path;                             /* of the folder */
    struct entry *entries;                  /* by parameter, then kind */
    uint32_t nr_entries;
};

static int damaged(const char *folder, struct zinf_status *st, const char *what)
{
    return zinf_fail(st, -EBADMSG, "%s is damaged: %s", folder, what);
}

static int join(char out[PATH_MAX], const char *folder, const char *name, struct zinf_status *st)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);

    return n > 0 && n < PATH_MAX ? 0 : zinf_fail(st, -ENAMETOOLONG, "%.100s...: the path is too long", folder);
}

/* ---- checkpoint.json ------------------------------------------------------------------------------------------------ */

/* A whole number from 0 to max. */
static bool whole(const struct zinf_json *v, uint64_t max, uint64_t *out)
{
    if (!v || v->type != ZINF_JSON_NUMBER || !v->is_integer || v->integer < 0 || (uint64_t)v->integer > max)
        return false;
    *out = (uint64_t)v->integer;
    return true;
}

static int parse_manifest(const char *folder, const struct zinf_json *content, struct zinf_portable_manifest *m,
                          struct zinf_status *st)
{
    const struct zinf_json *format = zinf_json_get(content, "format"), *state = zinf_json_get(content, "state");
    uint64_t version, crc, kinds;

    if (!format || format->type != ZINF_JSON_STRING || strcmp(format->string, ZINF_PORTABLE_FORMAT) ||
        !whole(zinf_json_get(content, "version"), INT64_MAX, &version))
        return zinf_fail(st, -EINVAL, "%s is no checkpoint of zinf", folder);
    if (version != ZINF_PORTABLE_VERSION)
        return zinf_fail(st, -EINVAL, "%s has version %llu, this program reads version %d: use a newer zinf", folder,
                         (unsigned long long)version, ZINF_PORTABLE_VERSION);
    m->run = zinf_json_get(content, "run");
    m->segments = zinf_json_get(content, "segments");
    if (!m->run || m->run->type != ZINF_JSON_OBJECT || !m->segments || m->segments->type != ZINF_JSON_ARRAY || !state ||
        !whole(zinf_json_get(state, "nbytes"), INT64_MAX, &m->state_nbytes) ||
        !whole(zinf_json_get(state, "header_nbytes"), m->state_nbytes, &m->header_nbytes) ||
        !whole(zinf_json_get(state, "header_crc32c"), UINT32_MAX, &crc) ||
        !whole(zinf_json_get(content, "nr_kinds"), ZINF_NR_PORTABLE_KINDS, &kinds) || !kinds)
        return damaged(folder, st, ZINF_PORTABLE_JSON " lacks a part");
    m->header_crc = (uint32_t)crc;
    m->nr_kinds = (uint32_t)kinds;
    return 0;
}

int zinf_portable_manifest_read(const char *folder, struct zinf_portable_manifest *m, struct zinf_status *st)
{
    const struct zinf_json *content;
    char path[PATH_MAX];
    struct stat s;
    int rc = join(path, folder, ZINF_PORTABLE_STATE, st);

    memset(m, 0, sizeof(*m));
    if (!rc)
        rc = zinf_sealed_read(folder, ZINF_PORTABLE_JSON, &m->doc, &content, st);
    if (rc)
        return rc;
    rc = parse_manifest(folder, content, m, st);
    if (!rc && stat(path, &s))
        rc = zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    if (!rc && (!S_ISREG(s.st_mode) || (uint64_t)s.st_size != m->state_nbytes))
        rc = zinf_fail(st, -EBADMSG, "%s is damaged: it has %lld bytes instead of %llu", path, (long long)s.st_size,
                       (unsigned long long)m->state_nbytes);
    if (rc)
        zinf_portable_manifest_free(m);
    return rc;
}

void zinf_portable_manifest_free(struct zinf_portable_manifest *m)
{
    zinf_json_free(&m->doc);
    memset(m, 0, sizeof(*m));
}

/* ---- state.safetensors ---------------------------------------------------------------------------------------------- */

/* The header's bytes, before anything is believed of them. */
static int check_header(const struct zinf_portable *p, const char *path, struct zinf_status *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char buf[4096];
    uint64_t at = 0;
    uint32_t crc = 0;
    int rc = 0;

    if (fd < 0)
        return zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    while (!rc && at < p->m.header_nbytes) {
        ssize_t n = pread(fd, buf, (size_t)zinf_min_u64(sizeof(buf), p->m.header_nbytes - at), (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rc = zinf_fail(st, n ? -errno : -EBADMSG, "%s: %s", path, n ? strerror(errno) : "it became shorter");
            break;
        }
        crc = zinf_crc32c(crc, buf, (size_t)n);
        at += (uint64_t)n;
    }
    close(fd);
    if (!rc && crc != p->m.header_crc)
        rc = damaged(path, st, "the checksum of its header does not fit");
    return rc;
}

static int by_param(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = strcmp(x->param, y->param);

    return order ? order : (int)x->kind - (int)y->kind;
}

static bool same_shape(const struct zinf_st_tensor *t, uint32_t nr_dims, const uint64_t *dims)
{
    bool same = t->nr_dims == nr_dims;

    for (uint32_t d = 0; same && d < nr_dims; d++)
        same = t->dims[d] == dims[d];
    return same;
}

/* Every parameter with each kind of tensor, of one shape. */
static int index_tensors(struct zinf_portable *p, struct zinf_status *st)
{
    p->nr_entries = zinf_st_nr_tensors(p->file);
    p->entries = calloc((size_t)p->nr_entries + 1, sizeof(*p->entries));
    if (!p->entries)
        return zinf_fail(st, -ENOMEM, "%s: out of memory", p->path);
    for (uint32_t i = 0; i < p->nr_entries; i++) {
        const struct zinf_st_tensor *t = zinf_st_at(p->file, i);
        int kind = ZINF_NR_PORTABLE_KINDS - 1;

        while (kind >= 0 && strncmp(t->name, zinf_portable_kinds[kind], strlen(zinf_portable_kinds[kind])))
            kind--;
        if (kind < 0 || (uint32_t)kind >= p->m.nr_kinds || strcmp(t->dtype, "F32"))
            return damaged(p->path, st, "a tensor in " ZINF_PORTABLE_STATE " is not one of a checkpoint");
        p->entries[i] = (struct entry){ t->name + strlen(zinf_portable_kinds[kind]), (enum zinf_portable_kind)kind, t };
    }
    qsort(p->entries, p->nr_entries, sizeof(*p->entries), by_param);
    for (uint32_t i = 0; i < p->nr_entries; i++) {
        const struct entry *e = &p->entries[i], *base = e - i % p->m.nr_kinds;

        if (p->nr_entries % p->m.nr_kinds || (uint32_t)e->kind != i % p->m.nr_kinds || strcmp(e->param, base->param) ||
            !same_shape(e->tensor, base->tensor->nr_dims, base->tensor->dims))
            return damaged(p->path, st, "the tensors of a parameter in " ZINF_PORTABLE_STATE " are not complete");
    }
    return 0;
}

static int parse_segments(const struct zinf_portable *p, struct zinf_portable_segment *out, struct zinf_status *st)
{
    for (uint32_t i = 0; i < p->m.segments->nr_items; i++) {
        const struct zinf_json *s = &p->m.segments->items[i];
        uint64_t tensor, crc;

        if (s->type != ZINF_JSON_ARRAY || s->nr_items != 4 || !whole(&s->items[0], UINT32_MAX, &tensor) ||
            !whole(&s->items[1], INT64_MAX, &out[i].first) || !whole(&s->items[2], INT64_MAX, &out[i].nr_elems) ||
            !whole(&s->items[3], UINT32_MAX, &crc))
            return damaged(p->path, st, "a segment in " ZINF_PORTABLE_JSON " is not four numbers");
        out[i].tensor = (uint32_t)tensor;
        out[i].crc = (uint32_t)crc;
    }
    qsort(out, p->m.segments->nr_items, sizeof(*out), zinf_portable_by_place);
    return 0;
}

static int check_segment(const struct zinf_portable *p, const struct zinf_st_tensor *t,
                         const struct zinf_portable_segment *s, void *buf, struct zinf_status *st)
{
    uint64_t at = s->first * 4, end = at + s->nr_elems * 4;
    uint32_t crc = 0;

    while (at < end) {
        size_t n = (size_t)zinf_min_u64(PIECE_NBYTES, end - at);
        int rc = zinf_st_read(p->file, t, at, buf, n, st);

        if (rc)
            return rc;
        crc = zinf_crc32c(crc, buf, n);
        at += n;
    }
    if (crc == s->crc)
        return 0;
    return zinf_fail(st, -EBADMSG, "%s/" ZINF_PORTABLE_STATE " is damaged: the checksum of elements %llu to %llu of %.100s does "
                     "not fit", p->path, (unsigned long long)s->first, (unsigned long long)(s->first + s->nr_elems - 1), t->name);
}

/* In the order of the file; together the segments are all of it. */
static int check_data(const struct zinf_portable *p, const struct zinf_portable_segment *s, void *buf, struct zinf_status *st)
{
    uint32_t at = 0;
    int rc;

    for (uint32_t i = 0; i < zinf_st_nr_tensors(p->file); i++) {
        const struct zinf_st_tensor *t = zinf_st_at(p->file, i);
        uint64_t next = 0, nr_elems = t->nbytes / 4;

        for (; at < p->m.segments->nr_items && s[at].tensor == i && s[at].first == next; at++) {
            if (s[at].nr_elems > nr_elems - next)
                break;
            rc = check_segment(p, t, &s[at], buf, st);
            if (rc)
                return rc;
            next += s[at].nr_elems;
        }
        if (next != nr_elems)
            return damaged(p->path, st, "the segments in " ZINF_PORTABLE_JSON " do not cover its tensors");
    }
    return at == p->m.segments->nr_items ? 0 : damaged(p->path, st, ZINF_PORTABLE_JSON " has segments of no tensor");
}

static int check_all(const struct zinf_portable *p, struct zinf_status *st)
{
    struct zinf_portable_segment *s = calloc((size_t)p->m.segments->nr_items + 1, sizeof(*s));
    void *buf = malloc(PIECE_NBYTES);
    int rc = s && buf ? parse_segments(p, s, st) : zinf_fail(st, -ENOMEM, "%s: out of memory", p->path);

    if (!rc)
        rc = check_data(p, s, buf, st);
    free(buf);
    free(s);
    return rc;
}

static int load_folder(const char *folder, struct zinf_portable **out, struct zinf_status *st)
{
    struct zinf_portable *p = calloc(1, sizeof(*p));
    char path[PATH_MAX];
    int rc = p && (p->path = strdup(folder)) ? 0 : zinf_fail(st, -ENOMEM, "%s: out of memory", folder);

    if (!rc)
        rc = zinf_portable_manifest_read(folder, &p->m, st);
    if (!rc)
        rc = join(path, folder, ZINF_PORTABLE_STATE, st);
    if (!rc)
        rc = check_header(p, path, st);
    if (!rc)
        rc = zinf_st_open(path, &p->file, st);
    if (!rc)
        rc = index_tensors(p, st);
    if (!rc)
        rc = check_all(p, st);
    if (rc) {
        zinf_portable_unload(p);
        return rc;
    }
    *out = p;
    return 0;
}

/* The folder a path stands for, held open: itself, or, after a crash between two renames, its hidden .old. */
static int find_folder(const char *path, char out[PATH_MAX], int *fd, struct zinf_status *st)
{
    char hidden[ZINF_PORTABLE_HIDDEN_NBYTES];
    size_t n = strlen(path);
    char *name;

    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n >= PATH_MAX - ZINF_PORTABLE_HIDDEN_NBYTES)
        return zinf_fail(st, -ENAMETOOLONG, "%.100s...: the path is too long", path);
    memcpy(out, path, n);
    out[n] = 0;
    *fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0)
        return 0;
    if (errno == ENOTDIR)
        return zinf_fail(st, -errno, "%s is not the folder of a checkpoint", out);
    if (errno != ENOENT)
        return zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    name = strrchr(out, '/');
    name = name ? name + 1 : out;
    if (zinf_portable_name_ok(name)) {
        strcpy(name, zinf_portable_hidden(hidden, name, ZINF_HIDDEN_OLD));
        *fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return *fd >= 0 ? 0 : zinf_fail(st, -ENOENT, "%s: there is no such checkpoint", path);
}

/* Another folder stands at that path now. The number of one that is held open is not given to another. */
static bool replaced(const char *path, int fd)
{
    struct stat held, now;

    return fstat(fd, &held) || stat(path, &now) || held.st_ino != now.st_ino || held.st_dev != now.st_dev;
}

int zinf_portable_load(const char *path, struct zinf_portable **out, struct zinf_status *st)
{
    *out = NULL;
    for (int i = 1;; i++) {
        struct zinf_status why = { 0 };
        char folder[PATH_MAX];
        bool again;
        int fd = -1, rc = find_folder(path, folder, &fd, st);

        if (rc)
            return rc;
        rc = load_folder(folder, out, &why);
        /* One that was replaced while it was read looks damaged: the new one is whole. */
        again = rc && i < LOAD_TRIES && replaced(folder, fd);
        close(fd);
        if (!again)
            return rc ? zinf_fail(st, rc, "%s", why.text) : 0;
    }
}

void zinf_portable_unload(struct zinf_portable *p)
{
    if (!p)
        return;
    zinf_portable_manifest_free(&p->m);
    zinf_st_close(p->file);
    free(p->entries);
    free(p->path);
    free(p);
}

/* ---- use ------------------------------------------------------------------------------------------------------------ */

const struct zinf_json *zinf_portable_meta(const struct zinf_portable *p) { return p->m.run; }

static const struct entry *find(const struct zinf_portable *p, const char *param, enum zinf_portable_kind kind)
{
    const struct entry key = { .param = param, .kind = kind };

    return p->nr_entries ? bsearch(&key, p->entries, p->nr_entries, sizeof(key), by_param) : NULL;
}

static const char *shape_text(uint32_t nr_dims, const uint64_t *dims, char buf[200])
{
    int n = 1;

    strcpy(buf, "[");
    for (uint32_t d = 0; d < nr_dims && d < ZINF_ST_DIMS_MAX; d++)
        n += snprintf(buf + n, 200 - (size_t)n, "%s%llu", d ? "," : "", (unsigned long long)dims[d]);
    strcpy(buf + n, "]");
    return buf;
}

static int match_all(const struct zinf_portable *p, const struct zinf_param *const *params, uint32_t nr_params, bool *used,
                     struct zinf_status *st)
{
    char a[200], b[200];

    for (uint32_t i = 0; i < nr_params; i++) {
        const struct entry *e = find(p, params[i]->name, ZINF_MASTER);

        if (!e)
            return zinf_fail(st, -EINVAL, "%s lacks the parameter %.200s of this model", p->path, params[i]->name);
        if (!same_shape(e->tensor, params[i]->nr_dims, params[i]->dims))
            return zinf_fail(st, -EINVAL, "%s: the parameter %.100s has the shape %s, the model needs %s", p->path,
                             params[i]->name, shape_text(e->tensor->nr_dims, e->tensor->dims, a),
                             shape_text(params[i]->nr_dims, params[i]->dims, b));
        used[e - p->entries] = true;
    }
    for (uint32_t i = 0; i < p->nr_entries; i += p->m.nr_kinds)
        if (!used[i])
            return zinf_fail(st, -EINVAL, "%s: this model has no parameter %.200s", p->path, p->entries[i].param);
    return 0;
}

int zinf_portable_match(const struct zinf_portable *p, const struct zinf_param *const *params, uint32_t nr_params,
                        uint32_t *nr_kinds, struct zinf_status *st)
{
    bool *used = calloc((size_t)p->nr_entries + 1, sizeof(*used));
    int rc = used ? match_all(p, params, nr_params, used, st) : zinf_fail(st, -ENOMEM, "%s: out of memory", p->path);

    free(used);
    if (!rc && nr_kinds)
        *nr_kinds = p->m.nr_kinds;
    return rc;
}

int zinf_portable_read(const struct zinf_portable *p, const char *param, enum zinf_portable_kind kind, uint64_t first,
                       float *out, uint64_t n, struct zinf_status *st)
{
    const struct entry *e = find(p, param, kind);

    if (!e)
        return zinf_fail(st, -EINVAL, "%s holds no %s%.200s", p->path,
                         (unsigned)kind < ZINF_NR_PORTABLE_KINDS ? zinf_portable_kinds[kind] : "", param);
    if (first > e->tensor->nbytes / 4 || n > e->tensor->nbytes / 4 - first)
        return zinf_fail(st, -EINVAL, "%s: a read past the end of %.200s was asked for", p->path, e->tensor->name);
    return zinf_st_read(p->file, e->tensor, first * 4, out, (size_t)n * 4, st);
}
