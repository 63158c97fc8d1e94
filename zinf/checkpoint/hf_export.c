/* zinf/checkpoint/hf_export.c - one tensor after another through one small buffer into a folder that others can load. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "zinf/base/align.h"
#include "zinf/checkpoint/durable.h"
#include "zinf/checkpoint/hf_config.h"
#include "zinf/checkpoint/hf_export.h"
#include "zinf/checkpoint/st_writer.h"

#define PIECE_NBYTES_DEFAULT (1u << 20)
#define CONFIG_NAME "config.json"

static bool is_ours(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, CONFIG_NAME) ||
           !strcmp(name, CONFIG_NAME ZINF_TMP_SUFFIX) || zinf_st_is_model_file(name);
}

int zinf_hf_check_dir(const char *dir, struct zinf_status *st)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;

    if (!d)
        return errno == ENOENT ? 0 : zinf_fail(st, -errno, "export folder %s: %s", dir, strerror(errno));
    while (!rc && (e = readdir(d)))
        if (!is_ours(e->d_name))
            rc = zinf_fail(st, -EEXIST, "export folder %s holds %.100s, which is no part of an export; name another folder", dir,
                           e->d_name);
    closedir(d);
    return rc;
}

/* A new folder is itself an entry that must survive a power cut. */
static int make_dir(const char *dir, struct zinf_status *st)
{
    char parent[4096], *slash;
    size_t n = strlen(dir);

    if (mkdir(dir, 0777))
        return errno == EEXIST ? 0 : zinf_fail(st, -errno, "export folder %s: %s", dir, strerror(errno));
    while (n > 1 && dir[n - 1] == '/')
        n--;
    if (n >= sizeof(parent))
        return zinf_fail(st, -ENAMETOOLONG, "export folder %.100s...: the path is too long", dir);
    memcpy(parent, dir, n);
    parent[n] = 0;
    slash = strrchr(parent, '/');
    if (!slash)
        return zinf_durable_sync_dir(".", st);
    slash[slash == parent] = 0;
    return zinf_durable_sync_dir(parent, st);
}

static int copy_tensor(const struct zinf_hf_export_opts *o, uint32_t param, struct zinf_st_writer *w, void *piece,
                       uint64_t piece_elems, struct zinf_status *st)
{
    uint64_t total = zinf_param_elems(o->params[param]);

    for (uint64_t first = 0; first < total; first += piece_elems) {
        uint64_t nr = zinf_min_u64(piece_elems, total - first);
        int rc = o->fetch(o->ctx, param, first, nr, piece, st);

        if (rc)
            return zinf_fail(st, rc, "export: reading %s failed: %s", o->params[param]->name, strerror(-rc));
        rc = zinf_st_writer_write(w, piece, (size_t)(nr * zinf_dtype_nbytes(o->dtype)), st);
        if (rc)
            return rc;
    }
    return 0;
}

static int write_weights(const struct zinf_hf_export_opts *o, struct zinf_status *st)
{
    struct zinf_st_desc *tensors = calloc((size_t)o->nr_params + 1, sizeof(*tensors));
    size_t elem_nbytes = zinf_dtype_nbytes(o->dtype);
    uint64_t piece_elems = zinf_max_u64(1, (o->piece_nbytes ? o->piece_nbytes : PIECE_NBYTES_DEFAULT) / elem_nbytes);
    const struct zinf_st_writer_opts wo = {
        .dir = o->dir, .tensors = tensors, .nr_tensors = o->nr_params, .shard_nbytes = o->shard_nbytes,
    };
    struct zinf_st_writer *w = NULL;
    void *piece = malloc((size_t)piece_elems * elem_nbytes);
    int rc = -ENOMEM;

    if (!tensors || !piece) {
        zinf_fail(st, rc, "export: out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < o->nr_params; i++) {
        tensors[i] = (struct zinf_st_desc){ .name = o->params[i]->name, .dtype = o->dtype, .nr_dims = o->params[i]->nr_dims };
        memcpy(tensors[i].dims, o->params[i]->dims, sizeof(tensors[i].dims));
    }
    rc = zinf_st_writer_open(&wo, &w, st);
    for (uint32_t i = 0; !rc && i < o->nr_params; i++)
        rc = copy_tensor(o, i, w, piece, piece_elems, st);
    if (!rc)
        rc = zinf_st_writer_finish(w, st);
out:
    zinf_st_writer_close(w);
    free(piece);
    free(tensors);
    return rc;
}

int zinf_hf_export(const struct zinf_hf_export_opts *opts, struct zinf_status *st)
{
    char *config = NULL;
    size_t nbytes = 0;
    int rc = zinf_hf_check_dir(opts->dir, st);

    if (!rc && opts->config_text)
        rc = zinf_hf_config_with_dtype(opts->config_text, opts->config_nbytes, opts->dtype, &config, &nbytes, st);
    if (!rc)
        rc = make_dir(opts->dir, st);
    if (!rc)
        rc = write_weights(opts, st);
    if (!rc && config)
        rc = zinf_durable_put(opts->dir, CONFIG_NAME, config, nbytes, st);
    free(config);
    return rc;
}
