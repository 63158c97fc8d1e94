/* zinf/base/memory.c - anonymous mappings, and what /proc and the cgroup files say about memory. */
#define _GNU_SOURCE
#include "zinf/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zinf/base/align.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23      /* Linux 5.14 */
#endif

enum { TOUCH_TILE_NBYTES = 8 << 20 };

struct touch {
    unsigned char *base;
    size_t nbytes, page_nbytes;
    int *rc;                        /* one per tile */
};

static void touch_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct touch *t = ctx;
    size_t off = tile * TOUCH_TILE_NBYTES, nbytes = zinf_min_u64(t->nbytes - off, TOUCH_TILE_NBYTES);

    (void)worker;
    /* The kernel's own way says ENOMEM instead of a signal, and is faster; older kernels know only the page fault. */
    if (madvise(t->base + off, nbytes, MADV_POPULATE_WRITE) == 0)
        return;
    if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) {
        t->rc[tile] = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < nbytes; i += t->page_nbytes)
        *(volatile unsigned char *)(t->base + off + i) = 0;
}

static int touch_all(const struct zinf_mapping *m, size_t page_nbytes, struct zinf_pool *pool)
{
    uint64_t nr_tiles = zinf_div_up(m->nbytes, TOUCH_TILE_NBYTES);
    struct touch t = { .base = m->base, .nbytes = m->nbytes, .page_nbytes = page_nbytes };
    int rc = 0;

    t.rc = calloc(nr_tiles, sizeof(*t.rc));
    if (!t.rc)
        return -ENOMEM;
    if (pool)
        zinf_pool_for(pool, nr_tiles, touch_tile, &t);
    else
        for (uint64_t i = 0; i < nr_tiles; i++)
            touch_tile(&t, i, 0);
    for (uint64_t i = 0; i < nr_tiles && rc == 0; i++)
        rc = t.rc[i];
    free(t.rc);
    return rc;
}

int zinf_map(size_t nbytes, struct zinf_pool *pool, struct zinf_mapping *out, struct zinf_status *st)
{
    const char *advice = "lower the budget (zinf.host_memory, zinf.device_memory) or free memory";
    size_t page_nbytes = (size_t)sysconf(_SC_PAGESIZE);
    struct zinf_mapping m;
    int rc;

    *out = (struct zinf_mapping){ 0 };
    if (nbytes == 0)
        return 0;
    if (nbytes > SIZE_MAX - page_nbytes)
        return zinf_fail(st, -ENOMEM, "%zu bytes of memory: more than an address space; %s", nbytes, advice);
    m.nbytes = zinf_align_up(nbytes, page_nbytes);
    m.base = mmap(NULL, m.nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m.base == MAP_FAILED) {
        rc = errno;
        return zinf_fail(st, -ENOMEM, "%zu bytes of memory could not be mapped (%s); %s", m.nbytes, strerror(rc),
                         advice);
    }
    rc = touch_all(&m, page_nbytes, pool);
    if (rc) {
        zinf_unmap(&m);
        return zinf_fail(st, rc, "%zu bytes of memory were mapped but are not there; %s", nbytes, advice);
    }
    *out = m;
    return 0;
}

void zinf_unmap(struct zinf_mapping *m)
{
    if (m->nbytes)
        munmap(m->base, m->nbytes);   /* fails only for a range that is no mapping */
    *m = (struct zinf_mapping){ 0 };
}

/* "<key><spaces>N" at the start of a line of path; *out = N. */
static bool read_keyed(const char *path, const char *key, uint64_t *out)
{
    FILE *f = fopen(path, "re");
    size_t key_len = strlen(key);
    bool found = false;
    char line[256];

    if (!f)
        return false;
    while (!found && fgets(line, sizeof(line), f))
        found = strncmp(line, key, key_len) == 0 && sscanf(line + key_len, " %" SCNu64, out) == 1;
    fclose(f);
    return found;
}

/* The names that differ between the two versions of the memory controller. */
struct cgroup {
    const char *mount, *limit, *use, *file_inactive, *file_active;
};
static const struct cgroup cgroup_v2 = {
    .mount = "/sys/fs/cgroup", .limit = "memory.max", .use = "memory.current",
    .file_inactive = "inactive_file ", .file_active = "active_file ",
};
static const struct cgroup cgroup_v1 = {
    .mount = "/sys/fs/cgroup/memory", .limit = "memory.limit_in_bytes", .use = "memory.usage_in_bytes",
    .file_inactive = "total_inactive_file ", .file_active = "total_active_file ",
};

static bool join(char path[PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", dir, name);

    return n > 0 && n < PATH_MAX;
}

/* What one group leaves; UINT64_MAX when it has no limit or cannot be read. */
static uint64_t group_available(const struct cgroup *cg, const char *dir)
{
    uint64_t limit, use, inactive = 0, active = 0;
    char path[PATH_MAX];

    /* "max" is no number: no limit. */
    if (!join(path, dir, cg->limit) || !read_keyed(path, "", &limit))
        return UINT64_MAX;
    if (!join(path, dir, cg->use) || !read_keyed(path, "", &use))
        return UINT64_MAX;
    if (limit >= INT64_MAX - (1 << 20))   /* version 1 writes no limit as the largest number of pages */
        return UINT64_MAX;
    if (join(path, dir, "memory.stat")) {
        read_keyed(path, cg->file_inactive, &inactive);
        read_keyed(path, cg->file_active, &active);
    }
    use -= zinf_min_u64(use, inactive + active);
    return limit - zinf_min_u64(limit, use);
}

/* Limits hold for a group and all below it: the least from the process's own group up to the mount. In a container the
 * path may name a folder that only the host sees; its missing levels say nothing. */
static uint64_t cgroup_available(const char *root, const struct cgroup *cg, const char *group)
{
    uint64_t least = UINT64_MAX;
    char dir[PATH_MAX];
    int n = snprintf(dir, sizeof(dir), "%s%s", root, cg->mount);
    size_t mount_len = (size_t)n;

    if (n < 0 || mount_len >= sizeof(dir))
        return least;
    n = snprintf(dir + mount_len, sizeof(dir) - mount_len, "%s", strcmp(group, "/") == 0 ? "" : group);
    if (n < 0 || (size_t)n >= sizeof(dir) - mount_len)
        dir[mount_len] = '\0';
    for (;;) {
        least = zinf_min_u64(least, group_available(cg, dir));
        if (!dir[mount_len])
            return least;
        *strrchr(dir + mount_len, '/') = '\0';
    }
}

/* True if the comma-separated controllers hold "memory". */
static bool has_memory_controller(const char *controllers, size_t len)
{
    for (const char *p = controllers, *end = controllers + len; p < end;) {
        size_t n = (size_t)(end - p);
        const char *comma = memchr(p, ',', n);

        if (comma)
            n = (size_t)(comma - p);
        if (n == 6 && memcmp(p, "memory", 6) == 0)
            return true;
        p += n + 1;
    }
    return false;
}

/* Lines of /proc/self/cgroup: "0::/path" (version 2) or "N:controllers:/path". */
static uint64_t cgroups_available(const char *root)
{
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX], line[PATH_MAX];
    FILE *f;

    if (!join(path, root, "proc/self/cgroup"))
        return least;
    f = fopen(path, "re");
    if (!f)
        return least;
    while (fgets(line, sizeof(line), f)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group || group[1] != '/')
            continue;
        controllers++;
        group++;
        group[strcspn(group, "\n")] = '\0';
        if (*controllers == ':')
            least = zinf_min_u64(least, cgroup_available(root, &cgroup_v2, group));
        else if (has_memory_controller(controllers, (size_t)(group - 1 - controllers)))
            least = zinf_min_u64(least, cgroup_available(root, &cgroup_v1, group));
    }
    fclose(f);
    return least;
}

uint64_t zinf_host_available_nbytes(const char *root)
{
    uint64_t kib, nbytes = UINT64_MAX;
    char path[PATH_MAX];

    if (join(path, root, "proc/meminfo") && read_keyed(path, "MemAvailable:", &kib))
        nbytes = kib * 1024;
    nbytes = zinf_min_u64(nbytes, cgroups_available(root));
    if (nbytes == UINT64_MAX)
        return 0;
    return zinf_max_u64(nbytes, 1);   /* 0 would say that nothing is known */
}

static uint64_t status_nbytes(const char *key)
{
    uint64_t kib;

    return read_keyed("/proc/self/status", key, &kib) ? kib * 1024 : 0;
}

uint64_t zinf_rss_nbytes(void) { return status_nbytes("VmRSS:"); }
uint64_t zinf_peak_rss_nbytes(void) { return status_nbytes("VmHWM:"); }

int zinf_peak_rss_reset(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC), rc = 0;

    if (fd < 0)
        return -errno;
    if (write(fd, "5", 1) != 1)
        rc = errno ? -errno : -EIO;
    close(fd);
    return rc;
}
