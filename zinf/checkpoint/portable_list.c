/* zinf/checkpoint/portable_list.c - the checkpoints in a folder, in order; what crashes left there is put right or removed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/checkpoint/portable_dir.h"
#include "zinf/checkpoint/portable_internal.h"

struct found { char *name; int64_t step; };
struct names { struct found *items; uint32_t nr, cap; };

static void free_names(struct names *l)
{
    for (uint32_t i = 0; i < l->nr; i++)
        free(l->items[i].name);
    free(l->items);
}

static int add(struct names *l, const char *name, int64_t step)
{
    if (l->nr == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 16;
        struct found *grown = realloc(l->items, cap * sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->nr].name = strdup(name);
    l->items[l->nr].step = step;
    return l->items[l->nr].name ? (l->nr++, 0) : -ENOMEM;
}

static int by_step(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Every entry of the folder, once: it is changed while the list is used. */
static int read_names(const char *parent, struct names *l)
{
    DIR *d = opendir(parent);
    const struct dirent *e;
    int rc = d ? 0 : -errno;

    while (d && !rc) {
        errno = 0;
        e = readdir(d);
        if (!e) {
            rc = -errno;
            break;
        }
        rc = add(l, e->d_name, 0);
    }
    if (d)
        closedir(d);
    return rc;
}

/* A whole checkpoint, and the step it says (-1: none). */
static bool probe(const char *parent, const char *folder, int64_t *step)
{
    struct zinf_portable_manifest m;
    const struct zinf_json *v;
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", parent, folder);

    if (n < 0 || (size_t)n >= sizeof(path) || zinf_portable_manifest_read(path, &m, NULL))
        return false;
    v = zinf_json_get(m.run, "step");
    *step = v && v->type == ZINF_JSON_NUMBER && v->is_integer ? v->integer : -1;
    zinf_portable_manifest_free(&m);
    return true;
}

/* What cannot be put right (a read-only drive) or removed (somebody's files are in it) stays as it is. */
static void tidy(const char *parent, int parent_fd, const char *entry, bool sweep)
{
    char name[ZINF_PORTABLE_HIDDEN_NBYTES];
    enum zinf_hidden which;
    int64_t step;

    if (!zinf_portable_unhide(entry, name, &which))
        return;
    if (which == ZINF_HIDDEN_OLD) {
        (void)zinf_portable_restore(parent_fd, name);
        sweep = sweep && !zinf_portable_held(parent_fd, name) && probe(parent, name, &step);
    }
    if (sweep)
        (void)zinf_portable_discard(parent_fd, name, which);
}

static int collect(const char *parent, int parent_fd, const char *entry, struct names *whole)
{
    char name[ZINF_PORTABLE_HIDDEN_NBYTES];
    enum zinf_hidden which;
    int64_t step;

    if (zinf_portable_name_ok(entry))
        return probe(parent, entry, &step) ? add(whole, entry, step) : 0;
    /* One that could not be renamed back: load finds it there. */
    if (zinf_portable_unhide(entry, name, &which) && which == ZINF_HIDDEN_OLD &&
        zinf_portable_exists(parent_fd, name) == -ENOENT && probe(parent, entry, &step))
        return add(whole, name, step);
    return 0;
}

/* Twice through the folder: tidying gives names back. */
static int list(const char *parent, int parent_fd, bool sweep, struct names *whole)
{
    struct names all = { 0 };
    int rc = read_names(parent, &all);

    for (uint32_t i = 0; !rc && i < all.nr; i++)
        tidy(parent, parent_fd, all.items[i].name, sweep);
    free_names(&all);
    all = (struct names){ 0 };
    if (!rc)
        rc = read_names(parent, &all);
    for (uint32_t i = 0; !rc && i < all.nr; i++)
        rc = collect(parent, parent_fd, all.items[i].name, whole);
    free_names(&all);
    return rc;
}

int zinf_portable_list(const char *parent, bool sweep, char ***names, uint32_t *nr, struct zinf_status *st)
{
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;
    struct names whole = { 0 };

    *names = NULL;
    *nr = 0;
    if (fd < 0)
        return errno == ENOENT ? 0 : zinf_fail(st, -errno, "%s: %s", parent, strerror(errno));
    rc = list(parent, fd, sweep, &whole);
    close(fd);
    if (!rc && !(*names = calloc((size_t)whole.nr + 1, sizeof(**names))))
        rc = -ENOMEM;
    if (rc) {
        free_names(&whole);
        return zinf_fail(st, rc, "the checkpoints in %s: %s", parent, strerror(-rc));
    }
    if (whole.nr)
        qsort(whole.items, whole.nr, sizeof(*whole.items), by_step);
    for (uint32_t i = 0; i < whole.nr; i++)
        (*names)[i] = whole.items[i].name;
    *nr = whole.nr;
    free(whole.items);
    return 0;
}

int zinf_portable_remove(const char *parent, const char *name, struct zinf_status *st)
{
    int fd, rc;

    if (!zinf_portable_name_ok(name))
        return zinf_fail(st, -EINVAL, "\"%.210s\" is not the name of a checkpoint", name);
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return zinf_fail(st, -errno, "%s: %s", parent, strerror(errno));
    rc = zinf_portable_erase(fd, name);
    close(fd);
    if (rc == -EEXIST)
        return zinf_fail(st, rc, "%s/%s holds other files than a checkpoint: it is left alone", parent, name);
    return rc ? zinf_fail(st, rc, "the checkpoint %s/%s could not be removed: %s", parent, name, strerror(-rc)) : 0;
}
