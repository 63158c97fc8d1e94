/* zinf/cli/outdir.c - see outdir.h. */
#include "zinf/cli/outdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/checkpoint/durable.h"
#include "zinf/config/json.h"
#include "zinf/zinf.h"

static int fill(const char *path, struct zinf_outdir *o, struct zinf_status *st)
{
    memset(o, 0, sizeof(*o));
    if (strlen(path) > sizeof(o->path) - 32)
        return zinf_fail(st, -ENAMETOOLONG, "the path of the run folder is longer than %zu bytes", sizeof(o->path) - 32);
    snprintf(o->path, sizeof(o->path), "%s", path);
    snprintf(o->log, sizeof(o->log), "%.480s/log.jsonl", path);
    snprintf(o->model, sizeof(o->model), "%.480s/model", path);
    snprintf(o->run, sizeof(o->run), "%.480s/run.json", path);
    return 0;
}

static bool empty_dir(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    int n = 0;

    if (!d)
        return false;
    while ((e = readdir(d)))
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n == 0;
}

/* Weights of the run before would look like those of the run to come if that one failed. */
static int remove_model(const struct zinf_outdir *o, struct zinf_status *st)
{
    DIR *d = opendir(o->model);
    const struct dirent *e;

    if (!d)
        return errno == ENOENT ? 0 : zinf_fail(st, -errno, "%s: %s", o->model, strerror(errno));
    while ((e = readdir(d))) {
        const char *dot = strrchr(e->d_name, '.');

        if (dot && (!strcmp(dot, ".safetensors") || !strcmp(dot, ".json") || !strcmp(dot, ".tmp")))
            zinf_durable_remove(o->model, e->d_name, 0);
    }
    closedir(d);
    if (rmdir(o->model))
        return zinf_fail(st, -errno, "%s holds files that are not an export: %s", o->model, strerror(errno));
    return 0;
}

int zinf_outdir_open(const char *path, bool overwrite, struct zinf_outdir *out, struct zinf_status *st)
{
    struct stat s;
    int rc = fill(path, out, st);

    if (rc)
        return rc;
    if (!mkdir(path, 0777) || empty_dir(path))
        return 0;
    if (stat(path, &s) || !S_ISDIR(s.st_mode))
        return zinf_fail(st, -ENOTDIR, "--out %s: it cannot be made, or is not a folder", path);
    if (stat(out->run, &s))
        return zinf_fail(st, -EEXIST, "--out %s holds files that are not a run; choose a new folder", path);
    if (!overwrite)
        return zinf_fail(st, -EEXIST, "--out %s holds a run; give --overwrite to replace it, or choose a new folder", path);
    if (access(path, W_OK))
        return zinf_fail(st, -errno, "--out %s: %s", path, strerror(errno));
    zinf_durable_remove(path, "log.jsonl", 0);
    return remove_model(out, st);
}

int zinf_outdir_find(const char *path, struct zinf_outdir *out, struct zinf_status *st)
{
    struct stat s;
    int rc = fill(path, out, st);

    if (!rc && stat(out->run, &s))
        return zinf_fail(st, -errno, "%s is not a run folder: run.json: %s", path, strerror(errno));
    return rc;
}

int zinf_outdir_write(const struct zinf_outdir *o, const struct zinf_run_file *r, struct zinf_status *st)
{
    struct zinf_json_out j = { 0 };
    int rc;

    zinf_json_open_object(&j, NULL);
    zinf_json_put_string(&j, "zinf", zinf_version());
    zinf_json_put_integer(&j, "pid", getpid());
    zinf_json_put_string(&j, "config", r->config);
    zinf_json_put_string(&j, "model", r->model);
    zinf_json_put_string(&j, "data", r->data);
    zinf_json_put_integer(&j, "seq_len", r->seq_len);
    zinf_json_put_integer(&j, "steps", (int64_t)r->steps);
    zinf_json_put_string(&j, "state_dir", r->state_dir);
    zinf_json_close_object(&j);
    rc = j.failed ? zinf_fail(st, -ENOMEM, "out of memory")
                  : zinf_durable_put(o->path, "run.json", j.text, strlen(j.text), st);
    zinf_json_out_free(&j);
    return rc;
}
