/* zinf/checkpoint/safetensors.c - reads a header: every length is checked against the file before it is used. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/checkpoint/safetensors.h"
#include "zinf/config/json.h"

struct zinf_st_file {
    int fd;
    char *path;
    struct zinf_json_doc doc;
    struct zinf_st_tensor *tensors;
    uint32_t nr_tensors;
    uint64_t data_off_bytes, data_nbytes;
};

static const struct { const char *name; uint32_t nbytes; } dtypes[] = {
    { "F64", 8 }, { "I64", 8 }, { "U64", 8 }, { "F32", 4 },     { "I32", 4 },     { "U32", 4 }, { "F16", 2 }, { "BF16", 2 },
    { "I16", 2 }, { "U16", 2 }, { "I8", 1 },  { "U8", 1 },      { "BOOL", 1 },    { "F8_E4M3", 1 }, { "F8_E5M2", 1 },
};

static int read_full(const struct zinf_st_file *f, uint64_t off_bytes, void *out, size_t nbytes, struct zinf_status *st)
{
    size_t got = 0;

    while (got < nbytes) {
        ssize_t n = pread(f->fd, (char *)out + got, nbytes - got, (off_t)(off_bytes + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return zinf_fail(st, -errno, "%s: %s", f->path, strerror(errno));
        if (n == 0)
            return zinf_fail(st, -EIO, "%s: it became shorter while it was read", f->path);
        got += (size_t)n;
    }
    return 0;
}

static int bad(const struct zinf_st_file *f, const char *tensor, struct zinf_status *st, const char *what)
{
    return zinf_fail(st, -EINVAL, "%s: tensor %.100s: %s", f->path, tensor, what);
}

/* Member `key` of a tensor's entry as an array of nr non-negative whole numbers; nr from the array. */
static const struct zinf_json *numbers(const struct zinf_json *entry, const char *key, uint32_t nr_max)
{
    const struct zinf_json *v = zinf_json_get(entry, key);

    if (!v || v->type != ZINF_JSON_ARRAY || v->nr_items > nr_max)
        return NULL;
    for (uint32_t i = 0; i < v->nr_items; i++)
        if (v->items[i].type != ZINF_JSON_NUMBER || !v->items[i].is_integer || v->items[i].integer < 0)
            return NULL;
    return v;
}

static int parse_dtype(const struct zinf_json *entry, struct zinf_st_tensor *t)
{
    const struct zinf_json *v = zinf_json_get(entry, "dtype");

    if (!v || v->type != ZINF_JSON_STRING)
        return -EINVAL;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (!strcmp(v->string, dtypes[i].name)) {
            snprintf(t->dtype, sizeof(t->dtype), "%s", dtypes[i].name);
            t->elem_nbytes = dtypes[i].nbytes;
            return 0;
        }
    return -EINVAL;
}

static int parse_tensor(const struct zinf_st_file *f, const struct zinf_json *entry, struct zinf_st_tensor *t,
                        struct zinf_status *st)
{
    const struct zinf_json *shape, *range;
    uint64_t begin, end;

    t->name = entry->key;
    if (entry->type != ZINF_JSON_OBJECT || entry->nr_items != 3)
        return bad(f, t->name, st, "its entry must be {dtype, shape, data_offsets}");
    if (parse_dtype(entry, t))
        return bad(f, t->name, st, "its dtype is missing or not known");
    shape = numbers(entry, "shape", ZINF_ST_DIMS_MAX);
    range = numbers(entry, "data_offsets", 2);
    if (!shape)
        return bad(f, t->name, st, "its shape must be a list of at most 8 non-negative whole numbers");
    if (!range || range->nr_items != 2)
        return bad(f, t->name, st, "its data_offsets must be two non-negative whole numbers");
    t->nbytes = t->elem_nbytes;
    t->nr_dims = shape->nr_items;
    for (uint32_t i = 0; i < shape->nr_items; i++) {
        t->dims[i] = (uint64_t)shape->items[i].integer;
        if (!zinf_mul_u64(t->nbytes, t->dims[i], &t->nbytes))
            return bad(f, t->name, st, "its shape has more bytes than 64 bits count");
    }
    begin = (uint64_t)range->items[0].integer;
    end = (uint64_t)range->items[1].integer;
    if (begin > end || end > f->data_nbytes)
        return bad(f, t->name, st, "its data_offsets are reversed or beyond the end of the file (truncated?)");
    if (end - begin != t->nbytes)
        return bad(f, t->name, st, "its data_offsets do not fit its shape and dtype");
    t->off_bytes = f->data_off_bytes + begin;
    return 0;
}

static int check_metadata(const struct zinf_st_file *f, const struct zinf_json *m, struct zinf_status *st)
{
    bool ok = m->type == ZINF_JSON_OBJECT;

    for (uint32_t i = 0; ok && i < m->nr_items; i++)
        ok = m->items[i].type == ZINF_JSON_STRING;
    return ok ? 0 : zinf_fail(st, -EINVAL, "%s: __metadata__ must be an object of strings", f->path);
}

static int by_offset(const void *a, const void *b)
{
    const struct zinf_st_tensor *x = a, *y = b;

    if (x->off_bytes != y->off_bytes)
        return x->off_bytes < y->off_bytes ? -1 : 1;
    return x->nbytes < y->nbytes ? -1 : x->nbytes > y->nbytes;
}

/* Neither holes nor overlaps nor bytes after the last tensor. */
static int check_tiling(struct zinf_st_file *f, struct zinf_status *st)
{
    uint64_t at = f->data_off_bytes;

    if (f->nr_tensors)
        qsort(f->tensors, f->nr_tensors, sizeof(*f->tensors), by_offset);
    for (uint32_t i = 0; i < f->nr_tensors; i++) {
        const struct zinf_st_tensor *t = &f->tensors[i];

        if (t->off_bytes != at)
            return bad(f, t->name, st, t->off_bytes < at ? "it overlaps another tensor" : "there is a hole before it");
        at += t->nbytes;
    }
    if (at != f->data_off_bytes + f->data_nbytes)
        return zinf_fail(st, -EINVAL, "%s: %llu bytes after the last tensor belong to none", f->path,
                         (unsigned long long)(f->data_off_bytes + f->data_nbytes - at));
    return 0;
}

static int parse_header(struct zinf_st_file *f, const char *text, size_t nbytes, struct zinf_status *st)
{
    int rc = zinf_json_parse(text, nbytes, f->path, false, &f->doc, st);
    const struct zinf_json *root = f->doc.root;

    if (rc)
        return rc;
    if (root->type != ZINF_JSON_OBJECT)
        return zinf_fail(st, -EINVAL, "%s: the header is not an object", f->path);
    f->tensors = calloc((size_t)root->nr_items + 1, sizeof(*f->tensors));
    if (!f->tensors)
        return zinf_fail(st, -ENOMEM, "%s: out of memory for %u tensors", f->path, root->nr_items);
    for (uint32_t i = 0; !rc && i < root->nr_items; i++) {
        if (!strcmp(root->items[i].key, "__metadata__"))
            rc = check_metadata(f, &root->items[i], st);
        else
            rc = parse_tensor(f, &root->items[i], &f->tensors[f->nr_tensors++], st);
    }
    return rc ? rc : check_tiling(f, st);
}

static int read_header(struct zinf_st_file *f, struct zinf_status *st)
{
    unsigned char len[8];
    uint64_t nbytes = 0;
    struct stat info;
    char *text;
    int rc;

    if (fstat(f->fd, &info))
        return zinf_fail(st, -errno, "%s: %s", f->path, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size < 8)
        return zinf_fail(st, -EINVAL, "%s: not a safetensors file: it is shorter than 8 bytes or no file", f->path);
    rc = read_full(f, 0, len, sizeof(len), st);
    if (rc)
        return rc;
    for (int i = 7; i >= 0; i--)
        nbytes = nbytes << 8 | len[i];
    if (nbytes > ZINF_ST_HEADER_NBYTES_MAX || nbytes > (uint64_t)info.st_size - 8)
        return zinf_fail(st, -EINVAL, "%s: its header of %llu bytes does not fit in the file of %llu (limit %u); truncated?",
                         f->path, (unsigned long long)nbytes, (unsigned long long)info.st_size, ZINF_ST_HEADER_NBYTES_MAX);
    f->data_off_bytes = 8 + nbytes;
    f->data_nbytes = (uint64_t)info.st_size - f->data_off_bytes;
    text = malloc((size_t)nbytes + 1);
    if (!text)
        return zinf_fail(st, -ENOMEM, "%s: out of memory for a header of %llu bytes", f->path, (unsigned long long)nbytes);
    rc = read_full(f, 8, text, (size_t)nbytes, st);
    if (!rc && (!nbytes || text[0] != '{'))
        rc = zinf_fail(st, -EINVAL, "%s: the header does not begin with {", f->path);
    if (!rc)
        rc = parse_header(f, text, (size_t)nbytes, st);
    free(text);
    return rc;
}

int zinf_st_open(const char *path, struct zinf_st_file **out, struct zinf_status *st)
{
    struct zinf_st_file *f = calloc(1, sizeof(*f));
    int rc;

    *out = NULL;
    if (!f)
        return zinf_fail(st, -ENOMEM, "%s: out of memory", path);
    f->path = strdup(path);
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (!f->path)
        rc = zinf_fail(st, -ENOMEM, "%s: out of memory", path);
    else if (f->fd < 0)
        rc = zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    else
        rc = read_header(f, st);
    if (rc) {
        zinf_st_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void zinf_st_close(struct zinf_st_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    zinf_json_free(&f->doc);
    free(f->tensors);
    free(f->path);
    free(f);
}

uint32_t zinf_st_nr_tensors(const struct zinf_st_file *f) { return f->nr_tensors; }
const struct zinf_st_tensor *zinf_st_at(const struct zinf_st_file *f, uint32_t i) { return &f->tensors[i]; }

const struct zinf_st_tensor *zinf_st_find(const struct zinf_st_file *f, const char *name)
{
    for (uint32_t i = 0; i < f->nr_tensors; i++)
        if (!strcmp(f->tensors[i].name, name))
            return &f->tensors[i];
    return NULL;
}

const char *zinf_st_metadata(const struct zinf_st_file *f, const char *key)
{
    const struct zinf_json *m = zinf_json_get(f->doc.root, "__metadata__");
    const struct zinf_json *v = m ? zinf_json_get(m, key) : NULL;

    return v ? v->string : NULL;
}

int zinf_st_read(const struct zinf_st_file *f, const struct zinf_st_tensor *t, uint64_t off_bytes, void *out, size_t nbytes,
                 struct zinf_status *st)
{
    if (off_bytes > t->nbytes || nbytes > t->nbytes - off_bytes)
        return bad(f, t->name, st, "a read past its end was asked for");
    return read_full(f, t->off_bytes + off_bytes, out, nbytes, st);
}
