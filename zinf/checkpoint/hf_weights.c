/* zinf/checkpoint/hf_weights.c - finds every tensor of a model in the files of a folder. */
#define _GNU_SOURCE
#include "zinf/checkpoint/hf_weights.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/base/dtype.h"
#include "zinf/checkpoint/safetensors.h"
#include "zinf/config/json.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"

enum { CHUNK_ELEMS = 16384, NAMES_NBYTES = 360, NR_NAMES_SHOWN = 5 };

struct shard { const char *name; struct zinf_st_file *file; };                   /* name: in the index */
struct tensor { const char *name; uint32_t shard; const struct zinf_st_tensor *t; bool used; };
struct place { const struct zinf_st_file *file; const struct zinf_st_tensor *t; enum zinf_dtype dtype; };

struct zinf_hf_weights {
    char *dir;
    struct zinf_json_doc index;
    struct shard *shards;
    struct tensor *tensors;                  /* by name */
    struct place *places;                    /* of each parameter */
    uint32_t nr_shards, nr_tensors, nr_params;
};

/* "a, b, c and 7 more" */
struct names { char text[NAMES_NBYTES]; size_t nbytes; uint32_t nr; };

static void add_name(struct names *l, const char *name)
{
    if (l->nr++ < NR_NAMES_SHOWN) {
        int n = snprintf(l->text + l->nbytes, sizeof(l->text) - l->nbytes, "%s%.64s", l->nbytes ? ", " : "", name);

        l->nbytes = n > 0 ? (size_t)zinf_min_u64(l->nbytes + (size_t)n, sizeof(l->text) - 1) : l->nbytes;
    }
}

static const char *end_names(struct names *l)
{
    if (l->nr > NR_NAMES_SHOWN)
        snprintf(l->text + l->nbytes, sizeof(l->text) - l->nbytes, " and %u more", l->nr - NR_NAMES_SHOWN);
    return l->text;
}

static int fail_memory(const struct zinf_hf_weights *w, struct zinf_status *st)
{
    return zinf_fail(st, -ENOMEM, "%s: out of memory", w->dir);
}

static int join(char out[PATH_MAX], const struct zinf_hf_weights *w, const char *name, struct zinf_status *st)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", w->dir, name);

    return n > 0 && n < PATH_MAX ? 0 : zinf_fail(st, -ENAMETOOLONG, "%.100s...: the path is too long", w->dir);
}

static bool exists(const struct zinf_hf_weights *w, const char *name)
{
    char path[PATH_MAX];

    return !join(path, w, name, NULL) && !access(path, F_OK);
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static int open_shard(struct zinf_hf_weights *w, const char *name, struct zinf_status *st)
{
    char path[PATH_MAX];
    int rc = join(path, w, name, st);

    if (rc)
        return rc;
    w->shards[w->nr_shards].name = name;
    rc = zinf_st_open(path, &w->shards[w->nr_shards].file, st);
    if (!rc)
        w->nr_shards++;
    return rc;
}

static int open_single(struct zinf_hf_weights *w, struct zinf_status *st)
{
    const struct zinf_st_file *f;
    int rc;

    w->shards = calloc(1, sizeof(*w->shards));
    if (!w->shards)
        return fail_memory(w, st);
    rc = open_shard(w, SINGLE_NAME, st);
    if (rc)
        return rc;
    f = w->shards[0].file;
    w->nr_tensors = zinf_st_nr_tensors(f);
    w->tensors = calloc((size_t)w->nr_tensors + 1, sizeof(*w->tensors));
    if (!w->tensors)
        return fail_memory(w, st);
    for (uint32_t i = 0; i < w->nr_tensors; i++)
        w->tensors[i] = (struct tensor){ .name = zinf_st_at(f, i)->name, .t = zinf_st_at(f, i) };
    return 0;
}

/* A shard lies in the folder of its index, whatever the index says. */
static int parse_index(struct zinf_hf_weights *w, struct zinf_status *st)
{
    const struct zinf_json *map;
    char path[PATH_MAX];
    int rc = join(path, w, INDEX_NAME, st);

    if (!rc)
        rc = zinf_json_read(path, false, &w->index, st);
    if (rc)
        return rc;
    map = zinf_json_get(w->index.root, "weight_map");
    if (!map || map->type != ZINF_JSON_OBJECT)
        return zinf_fail(st, -EINVAL, "%s: weight_map is missing or no object", path);
    w->tensors = calloc((size_t)map->nr_items + 1, sizeof(*w->tensors));
    w->shards = calloc((size_t)map->nr_items + 1, sizeof(*w->shards));
    if (!w->tensors || !w->shards)
        return fail_memory(w, st);
    for (uint32_t i = 0; i < map->nr_items; i++) {
        const struct zinf_json *v = &map->items[i];
        uint32_t s = 0;

        if (v->type != ZINF_JSON_STRING || !v->string_nbytes || strchr(v->string, '/') || !strcmp(v->string, ".."))
            return zinf_fail(st, -EINVAL, "%s: the file of tensor %.100s must be a name in this folder", path, v->key);
        while (s < w->nr_shards && strcmp(w->shards[s].name, v->string))
            s++;
        if (s == w->nr_shards)
            w->shards[w->nr_shards++].name = v->string;
        w->tensors[w->nr_tensors++] = (struct tensor){ .name = v->key, .shard = s };
    }
    return 0;
}

static int open_sharded(struct zinf_hf_weights *w, struct zinf_status *st)
{
    struct names missing = { .nr = 0 };
    uint32_t nr;
    int rc = parse_index(w, st);

    if (rc)
        return rc;
    for (uint32_t s = 0; s < w->nr_shards; s++)
        if (!exists(w, w->shards[s].name))
            add_name(&missing, w->shards[s].name);
    if (missing.nr)
        return zinf_fail(st, -ENOENT, "%s: %u of the %u files in %s are missing: %s", w->dir, missing.nr, w->nr_shards,
                         INDEX_NAME, end_names(&missing));
    nr = w->nr_shards;
    w->nr_shards = 0;
    while (!rc && w->nr_shards < nr)
        rc = open_shard(w, w->shards[w->nr_shards].name, st);
    for (uint32_t i = 0; !rc && i < w->nr_tensors; i++) {
        const struct shard *s = &w->shards[w->tensors[i].shard];

        w->tensors[i].t = zinf_st_find(s->file, w->tensors[i].name);
        if (!w->tensors[i].t)
            rc = zinf_fail(st, -ENOENT, "%s: the tensor %.150s is not in %.100s, where %s says it is", w->dir,
                           w->tensors[i].name, s->name, INDEX_NAME);
    }
    return rc;
}

static int open_files(struct zinf_hf_weights *w, const struct zinf_log *log, struct zinf_status *st)
{
    bool single = exists(w, SINGLE_NAME), sharded = exists(w, INDEX_NAME);

    if (single && sharded)
        zinf_log(log, ZINF_LOG_INFO, "%s has both %s and %s: the first is read", w->dir, SINGLE_NAME, INDEX_NAME);
    if (single)
        return open_single(w, st);
    if (sharded)
        return open_sharded(w, st);
    return zinf_fail(st, -ENOENT, "%s has neither %s nor %s%s", w->dir, SINGLE_NAME, INDEX_NAME,
                     exists(w, "pytorch_model.bin") || exists(w, "pytorch_model.bin.index.json")
                         ? ": save the model as safetensors first" : "");
}

/* ---- tensors -------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static const char *shape_text(uint32_t nr_dims, const uint64_t *dims, char buf[200])
{
    int n = 1;

    strcpy(buf, "[");
    for (uint32_t d = 0; d < nr_dims && d < ZINF_ST_DIMS_MAX; d++)
        n += snprintf(buf + n, 200 - (size_t)n, "%s%llu", d ? ", " : "", (unsigned long long)dims[d]);
    strcpy(buf + n, "]");
    return buf;
}

static int place(struct zinf_hf_weights *w, const struct zinf_param *p, struct tensor *found, struct place *out,
                 struct zinf_status *st)
{
    const struct zinf_st_tensor *t = found->t;
    bool same = t->nr_dims == p->nr_dims;
    char a[200], b[200];

    for (uint32_t d = 0; same && d < p->nr_dims; d++)
        same = t->dims[d] == p->dims[d];
    if (!same)
        return zinf_fail(st, -EINVAL, "%s: the tensor %.150s has the shape %s, the model needs %s", w->dir, p->name,
                         shape_text(t->nr_dims, t->dims, a), shape_text(p->nr_dims, p->dims, b));
    if (zinf_dtype_parse(t->dtype, &out->dtype))
        return zinf_fail(st, -EINVAL, "%s: the tensor %.150s is of type %s; F32, F16 and BF16 can be read", w->dir, p->name,
                         t->dtype);
    out->file = w->shards[found->shard].file;
    out->t = t;
    found->used = true;
    return 0;
}

static int place_all(struct zinf_hf_weights *w, const struct zinf_param *const *params, struct zinf_status *st)
{
    struct names missing = { .nr = 0 };
    bool head = false;
    int rc = 0;

    w->places = calloc((size_t)w->nr_params + 1, sizeof(*w->places));
    if (!w->places)
        return fail_memory(w, st);
    if (w->nr_tensors)
        qsort(w->tensors, w->nr_tensors, sizeof(*w->tensors), by_name);
    for (uint32_t i = 0; !rc && i < w->nr_params; i++) {
        const struct tensor key = { .name = params[i]->name };
        struct tensor *t = w->nr_tensors ? bsearch(&key, w->tensors, w->nr_tensors, sizeof(key), by_name) : NULL;

        if (t) {
            rc = place(w, params[i], t, &w->places[i], st);
        } else {
            add_name(&missing, params[i]->name);
            head = head || !strcmp(params[i]->name, "lm_head.weight");
        }
    }
    if (rc || !missing.nr)
        return rc;
    return zinf_fail(st, -ENOENT, "%s lacks %u tensors of the model: %s%s", w->dir, missing.nr, end_names(&missing),
                     head ? " (a head that is the embedding needs tie_word_embeddings in config.json)" : "");
}

static void note_extra(const struct zinf_hf_weights *w, const struct zinf_log *log)
{
    struct names extra = { .nr = 0 };

    for (uint32_t i = 0; i < w->nr_tensors; i++)
        if (!w->tensors[i].used)
            add_name(&extra, w->tensors[i].name);
    if (extra.nr)
        zinf_log(log, ZINF_LOG_INFO, "%s: %u tensors are not of this model and not read: %s", w->dir, extra.nr,
                 end_names(&extra));
}

int zinf_hf_weights_open(const char *dir, const struct zinf_param *const *params, uint32_t nr_params,
                         const struct zinf_log *log, struct zinf_hf_weights **out, struct zinf_status *st)
{
    struct zinf_hf_weights *w = calloc(1, sizeof(*w));
    int rc;

    *out = NULL;
    if (!w || !(w->dir = strdup(dir))) {
        free(w);
        return zinf_fail(st, -ENOMEM, "%s: out of memory", dir);
    }
    w->nr_params = nr_params;
    rc = open_files(w, log, st);
    if (!rc)
        rc = place_all(w, params, st);
    if (rc) {
        zinf_hf_weights_close(w);
        return rc;
    }
    note_extra(w, log);
    *out = w;
    return 0;
}

void zinf_hf_weights_close(struct zinf_hf_weights *w)
{
    if (!w)
        return;
    for (uint32_t s = 0; s < w->nr_shards; s++)
        zinf_st_close(w->shards[s].file);
    free(w->shards);
    free(w->tensors);
    free(w->places);
    zinf_json_free(&w->index);
    free(w->dir);
    free(w);
}

/* ---- data ----------------------------------------------------------------------------------------------------------- */

static void widen(enum zinf_dtype dtype, const uint16_t *half, float *out, size_t n)
{
    if (dtype == ZINF_BF16)
        for (size_t i = 0; i < n; i++)
            out[i] = zinf_bf16_to_f32(half[i]);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = zinf_f16_to_f32(half[i]);
}

static int check_finite(const struct zinf_hf_weights *w, const struct place *p, uint64_t first, const float *v, size_t n,
                        struct zinf_status *st)
{
    for (size_t i = 0; i < n; i++)
        if ((zinf_f32_bits(v[i]) & 0x7f800000u) == 0x7f800000u)
            return zinf_fail(st, -EDOM, "%s: element %llu of the tensor %.150s is %s", w->dir,
                             (unsigned long long)(first + i), p->t->name,
                             zinf_f32_bits(v[i]) & 0x7fffffu ? "not a number" : "infinite");
    return 0;
}

int zinf_hf_weights_read(const struct zinf_hf_weights *w, uint32_t param, uint64_t first, uint64_t n, float *out,
                         struct zinf_status *st)
{
    uint16_t half[CHUNK_ELEMS];
    const struct place *p;
    uint64_t nr_elems;
    int rc = 0;

    if (param >= w->nr_params)
        return zinf_fail(st, -EINVAL, "%s: there is no parameter %u", w->dir, param);
    p = &w->places[param];
    nr_elems = p->t->nbytes / p->t->elem_nbytes;
    if (first > nr_elems || n > nr_elems - first)
        return zinf_fail(st, -EINVAL, "%s: a read past the end of the tensor %.150s was asked for", w->dir, p->t->name);
    while (!rc && n) {
        size_t m = (size_t)zinf_min_u64(n, p->dtype == ZINF_F32 ? (uint64_t)CHUNK_ELEMS * 16 : CHUNK_ELEMS);

        if (p->dtype == ZINF_F32)
            rc = zinf_st_read(p->file, p->t, first * 4, out, m * 4, st);
        else
            rc = zinf_st_read(p->file, p->t, first * 2, half, m * 2, st);
        if (!rc && p->dtype != ZINF_F32)
            widen(p->dtype, half, out, m);
        if (!rc)
            rc = check_finite(w, p, first, out, m, st);
        first += m;
        out += m;
        n -= m;
    }
    return rc;
}
