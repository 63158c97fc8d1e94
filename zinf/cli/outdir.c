/* zinf/cli/outdir.c - see outdir.h. */
#define _GNU_SOURCE
#include "zinf/cli/outdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/checkpoint/durable.h"

static int fill(const char *path, struct zinf_outdir *o, struct zinf_status *st)
{
    memset(o, 0, sizeof(*o));
    o->lock_fd = -1;
    if (strlen(path) > sizeof(o->path) - 32)
        return zinf_fail(st, -ENAMETOOLONG, "the path of the run folder is longer than %zu bytes", sizeof(o->path) - 32);
    snprintf(o->path, sizeof(o->path), "%s", path);
    snprintf(o->log, sizeof(o->log), "%.480s/log.jsonl", path);
    snprintf(o->model, sizeof(o->model), "%.480s/model", path);
    snprintf(o->run, sizeof(o->run), "%.480s/run.json", path);
    return 0;
}

/* 1 = empty, 0 = not, -errno. */
static int empty_dir(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    int n = 0;

    if (!d)
        return -errno;
    while ((e = readdir(d)))
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n == 0;
}

static bool part_of_export(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && (!strcmp(dot, ".safetensors") || !strcmp(dot, ".json") || !strcmp(dot, ".tmp"));
}

/* Walks model/: first only to see that it holds nothing but an export, later to remove it. */
static int walk_model(const struct zinf_outdir *o, bool remove, struct zinf_status *st)
{
    DIR *d = opendir(o->model);
    const struct dirent *e;
    int rc = 0;

    if (!d)
        return errno == ENOENT ? 0 : zinf_fail(st, -errno, "--out %s: model: %s", o->path, strerror(errno));
    while ((e = readdir(d)) && !rc) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (!part_of_export(e->d_name))
            rc = zinf_fail(st, -EEXIST, "--out %s: model/%.100s is no part of a run; move it away, or choose a new folder",
                           o->path, e->d_name);
        else if (remove)
            zinf_durable_remove(o->model, e->d_name, 0);
    }
    closedir(d);
    if (!rc && remove && rmdir(o->model))
        rc = zinf_fail(st, -errno, "--out %s: the old weights could not be removed: %s", o->path, strerror(errno));
    return rc;
}

/* Two runs in one folder would mix their logs. A file system without locks is no reason to refuse. */
static int lock(struct zinf_outdir *o, struct zinf_status *st)
{
    o->lock_fd = open(o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->lock_fd < 0)
        return zinf_fail(st, -errno, "--out %s: %s", o->path, strerror(errno));
    if (flock(o->lock_fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        zinf_outdir_close(o);
        return zinf_fail(st, -EBUSY, "%s: a run that is still going is in it; stop it, or choose another folder", o->path);
    }
    return 0;
}

static void parent_of(const char *path, char *out, size_t nbytes)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    snprintf(out, nbytes, "%.*s", n ? (int)n : 1, n ? path : ".");
}

/* A name that is not there yet: whether its folder would let it be made. */
static int check_parent(const char *option, const char *path, struct zinf_status *st)
{
    char parent[PATH_MAX];
    struct stat s;

    parent_of(path, parent, sizeof(parent));
    if (stat(parent, &s))
        return zinf_fail(st, -errno, "%s %s: %s: %s; make that folder first", option, path, parent, strerror(errno));
    if (!S_ISDIR(s.st_mode))
        return zinf_fail(st, -ENOTDIR, "%s %s: %s is not a folder", option, path, parent);
    if (access(parent, W_OK | X_OK))
        return zinf_fail(st, -errno, "%s %s: %s: %s; choose a folder that can be written", option, path, parent,
                         strerror(errno));
    return 0;
}

int zinf_outdir_check_log(const char *path, struct zinf_status *st)
{
    struct stat s;

    if (strlen(path) >= PATH_MAX)
        return zinf_fail(st, -ENAMETOOLONG, "--log: the path is longer than %d bytes", PATH_MAX - 1);
    if (stat(path, &s))
        return errno == ENOENT ? check_parent("--log", path, st) : zinf_fail(st, -errno, "--log %s: %s", path, strerror(errno));
    if (S_ISDIR(s.st_mode))
        return zinf_fail(st, -EISDIR, "--log %s is a folder; name a file", path);
    if (access(path, W_OK))
        return zinf_fail(st, -errno, "--log %s: %s; name a file that can be written", path, strerror(errno));
    return 0;
}

static int check_existing(struct zinf_outdir *o, bool overwrite, struct zinf_status *st)
{
    struct stat s;
    int rc;

    if (access(o->path, W_OK | X_OK))
        return zinf_fail(st, -errno, "--out %s: %s; choose a folder that can be written", o->path, strerror(errno));
    rc = empty_dir(o->path);
    if (rc < 0)
        return zinf_fail(st, rc, "--out %s: %s", o->path, strerror(-rc));
    if (rc > 0)
        return 0;
    if (stat(o->run, &s))
        return zinf_fail(st, -EEXIST, "--out %s holds files that are not a run; choose a new folder", o->path);
    if (!overwrite)
        return zinf_fail(st, -EEXIST, "--out %s holds a run; give --overwrite to replace it, or choose a new folder", o->path);
    return walk_model(o, false, st);
}

int zinf_outdir_check(const char *path, bool overwrite, struct zinf_outdir *out, struct zinf_status *st)
{
    struct stat s;
    int rc = fill(path, out, st);

    if (rc)
        return rc;
    if (stat(path, &s))
        return errno == ENOENT ? check_parent("--out", path, st) : zinf_fail(st, -errno, "--out %s: %s", path, strerror(errno));
    if (!S_ISDIR(s.st_mode))
        return zinf_fail(st, -ENOTDIR, "--out %s is not a folder; choose a new one", path);
    out->exists = true;
    rc = lock(out, st);
    if (!rc)
        rc = check_existing(out, overwrite, st);
    if (rc)
        zinf_outdir_close(out);
    return rc;
}

int zinf_outdir_take(struct zinf_outdir *o, struct zinf_status *st)
{
    if (!o->exists) {
        /* What has appeared since the check is not ours to clear. */
        if (mkdir(o->path, 0777))
            return zinf_fail(st, -errno, "--out %s: %s", o->path, strerror(errno));
        o->exists = true;
        return lock(o, st);
    }
    zinf_durable_remove(o->path, "log.jsonl", 0);
    /* Weights of the run before would look like those of the run to come if that one failed. */
    return walk_model(o, true, st);
}

void zinf_outdir_close(struct zinf_outdir *o)
{
    if (o->lock_fd >= 0)
        close(o->lock_fd);
    o->lock_fd = -1;
}

int zinf_outdir_find(const char *path, struct zinf_outdir *out, struct zinf_status *st)
{
    struct stat s;
    int rc = fill(path, out, st);

    if (!rc && stat(out->run, &s))
        return zinf_fail(st, -errno, "%s is not a run folder: run.json: %s", path, strerror(errno));
    return rc;
}

int zinf_outdir_enter(const char *path, struct zinf_outdir *out, struct zinf_status *st)
{
    int rc = zinf_outdir_find(path, out, st);

    out->exists = !rc;
    return rc ? rc : lock(out, st);
}
