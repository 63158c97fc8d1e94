/* zinf/checkpoint/st_writer.c - plans the shards, then passes bytes through to them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/checkpoint/durable.h"
#include "zinf/checkpoint/st_writer.h"
#include "zinf/config/json.h"

#define SHARD_NBYTES_DEFAULT 5000000000ull
#define NAME_NBYTES 64u
#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"

struct shard { uint32_t first, nr; uint64_t nbytes; char name[NAME_NBYTES]; };

struct zinf_st_writer {
    const char *dir;
    const struct zinf_st_desc *tensors;
    uint32_t nr_tensors, nr_shards;
    uint64_t *nbytes;                 /* of each tensor */
    uint64_t total_nbytes;
    struct shard *shards;
    uint32_t shard;                   /* being written; nr_shards: all are sealed */
    uint64_t left_nbytes;             /* of it */
    int fd;                           /* of it, or -1 */
    bool finished;
};

/* Greedy, in order: a tensor that does not fit any more begins the next shard. */
static void plan_shards(struct zinf_st_writer *w, uint64_t limit)
{
    w->nr_shards = 1;
    for (uint32_t i = 0; i < w->nr_tensors; i++) {
        struct shard *s = &w->shards[w->nr_shards - 1];

        if (s->nr && (w->nbytes[i] > limit || s->nbytes > limit - w->nbytes[i])) {
            s = &w->shards[w->nr_shards++];
            s->first = i;
        }
        s->nr++;
        s->nbytes += w->nbytes[i];
    }
    for (uint32_t i = 0; i < w->nr_shards; i++) {
        if (w->nr_shards == 1)
            snprintf(w->shards[i].name, NAME_NBYTES, SINGLE_NAME);
        else
            snprintf(w->shards[i].name, NAME_NBYTES, "model-%05u-of-%05u.safetensors", i + 1, w->nr_shards);
    }
}

static int write_header(struct zinf_st_writer *w, const struct shard *s, struct zinf_status *st)
{
    unsigned char *header;
    size_t nbytes;
    int rc = zinf_st_header(&w->tensors[s->first], s->nr, &w->nbytes[s->first], &header, &nbytes, st);

    if (rc)
        return rc;
    rc = zinf_durable_write(w->fd, w->dir, s->name, header, nbytes, st);
    free(header);
    return rc;
}

static int begin_shard(struct zinf_st_writer *w, struct zinf_status *st)
{
    const struct shard *s = &w->shards[w->shard];
    int rc = zinf_durable_create(w->dir, s->name, &w->fd, st);

    if (rc)
        return rc;
    w->left_nbytes = s->nbytes;
    return write_header(w, s, st);
}

/* Seals full shards; the next one is begun. */
static int roll(struct zinf_st_writer *w, struct zinf_status *st)
{
    int rc = 0;

    while (!rc && w->shard < w->nr_shards && !w->left_nbytes) {
        rc = zinf_durable_seal(w->fd, w->dir, w->shards[w->shard].name, st);
        w->fd = -1;
        w->shard++;
        if (!rc && w->shard < w->nr_shards)
            rc = begin_shard(w, st);
    }
    return rc;
}

int zinf_st_writer_open(const struct zinf_st_writer_opts *opts, struct zinf_st_writer **out, struct zinf_status *st)
{
    struct zinf_st_writer *w = calloc(1, sizeof(*w));
    int rc = -ENOMEM;

    *out = NULL;
    if (!w)
        return zinf_fail(st, rc, "export: out of memory");
    w->dir = opts->dir;
    w->tensors = opts->tensors;
    w->nr_tensors = opts->nr_tensors;
    w->fd = -1;
    w->nbytes = calloc((size_t)w->nr_tensors + 1, sizeof(*w->nbytes));
    w->shards = calloc((size_t)w->nr_tensors + 1, sizeof(*w->shards));
    if (!w->nbytes || !w->shards)
        zinf_fail(st, rc, "export: out of memory for %u tensors", w->nr_tensors);
    else
        rc = zinf_st_check(w->tensors, w->nr_tensors, w->nbytes, &w->total_nbytes, st);
    if (!rc) {
        plan_shards(w, opts->shard_nbytes ? opts->shard_nbytes : SHARD_NBYTES_DEFAULT);
        rc = begin_shard(w, st);
    }
    if (rc) {
        zinf_st_writer_close(w);
        return rc;
    }
    *out = w;
    return 0;
}

int zinf_st_writer_write(struct zinf_st_writer *w, const void *data, size_t nbytes, struct zinf_status *st)
{
    while (nbytes) {
        size_t n;
        int rc = roll(w, st);

        if (rc)
            return rc;
        if (w->shard == w->nr_shards)
            return zinf_fail(st, -EINVAL, "export: %zu bytes more than the tensors have", nbytes);
        n = (size_t)zinf_min_u64(nbytes, w->left_nbytes);
        rc = zinf_durable_write(w->fd, w->dir, w->shards[w->shard].name, data, n, st);
        if (rc)
            return rc;
        data = (const char *)data + n;
        nbytes -= n;
        w->left_nbytes -= n;
    }
    return 0;
}

static int write_index(const struct zinf_st_writer *w, struct zinf_status *st)
{
    struct zinf_json_out o = { 0 };
    int rc;

    zinf_json_open_object(&o, NULL);
    zinf_json_open_object(&o, "metadata");
    zinf_json_put_integer(&o, "total_size", (int64_t)w->total_nbytes);
    zinf_json_close_object(&o);
    zinf_json_open_object(&o, "weight_map");
    for (uint32_t s = 0; s < w->nr_shards; s++)
        for (uint32_t i = w->shards[s].first; i < w->shards[s].first + w->shards[s].nr; i++)
            zinf_json_put_string(&o, w->tensors[i].name, w->shards[s].name);
    zinf_json_close_object(&o);
    zinf_json_close_object(&o);
    if (o.failed)
        rc = zinf_fail(st, -ENOMEM, "export: out of memory for " INDEX_NAME);
    else
        rc = zinf_durable_put(w->dir, INDEX_NAME, o.text, o.nbytes, st);
    zinf_json_out_free(&o);
    return rc;
}

static bool all_digits(const char *s, size_t n) { return strspn(s, "0123456789") >= n; }

int zinf_st_is_model_file(const char *name)
{
    char base[NAME_NBYTES];
    size_t n = strlen(name), suffix = strlen(ZINF_TMP_SUFFIX);

    if (n >= sizeof(base))
        return 0;
    memcpy(base, name, n + 1);
    if (n > suffix && !strcmp(base + n - suffix, ZINF_TMP_SUFFIX))
        base[n - suffix] = 0;
    if (!strcmp(base, SINGLE_NAME) || !strcmp(base, INDEX_NAME))
        return 1;
    return !strncmp(base, "model-", 6) && all_digits(base + 6, 5) && !strncmp(base + 11, "-of-", 4) &&
           all_digits(base + 15, 5) && !strcmp(base + 20, ".safetensors");
}

/* An earlier export's files would be loaded instead of ours, or beside them. */
static int remove_stale(const struct zinf_st_writer *w, struct zinf_status *st)
{
    DIR *dir = opendir(w->dir);
    struct dirent *e;

    if (!dir)
        return zinf_fail(st, -errno, "%s: %s", w->dir, strerror(errno));
    while ((e = readdir(dir))) {
        bool ours = w->nr_shards > 1 && !strcmp(e->d_name, INDEX_NAME);

        for (uint32_t s = 0; !ours && s < w->nr_shards; s++)
            ours = !strcmp(e->d_name, w->shards[s].name);
        if (!ours && zinf_st_is_model_file(e->d_name))
            zinf_durable_remove(w->dir, e->d_name, 0);
    }
    closedir(dir);
    return 0;
}

int zinf_st_writer_finish(struct zinf_st_writer *w, struct zinf_status *st)
{
    int rc = roll(w, st);

    if (!rc && w->shard < w->nr_shards)
        rc = zinf_fail(st, -EINVAL, "export: %s lacks %llu bytes", w->shards[w->shard].name,
                       (unsigned long long)w->left_nbytes);
    for (uint32_t s = 0; !rc && s < w->nr_shards; s++)
        rc = zinf_durable_rename(w->dir, w->shards[s].name, st);
    if (!rc && w->nr_shards > 1)
        rc = write_index(w, st);
    if (!rc)
        rc = remove_stale(w, st);
    if (!rc)
        rc = zinf_durable_sync_dir(w->dir, st);
    w->finished = !rc;
    return rc;
}

void zinf_st_writer_close(struct zinf_st_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    for (uint32_t s = 0; !w->finished && s < w->nr_shards && s <= w->shard; s++)
        zinf_durable_remove(w->dir, w->shards[s].name, 1);
    free(w->nbytes);
    free(w->shards);
    free(w);
}
