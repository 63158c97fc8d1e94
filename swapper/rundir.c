/* swapper/rundir.c - making, finding and deleting run folders through descriptors, with the lock as the only authority.
 *
 * The one race that matters is a sweep that meets a folder between mkdir and lock. The sweeper deletes only what it has locked
 * (or an empty folder), and the maker, once it has the lock, looks whether the lock file is still linked: if not, a sweeper was
 * faster and the maker starts again. */
#define _GNU_SOURCE
#include "swapper/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/size.h"

#define PREFIX "zinf-"
#define HIDDEN ".zinf-"
#define LOCK_NAME "lock"
#define MAX_DEPTH 8
enum { NR_TRIES = 100, NAME_NBYTES = 64 };

int zinf_uuid_make(char out[37], struct zinf_status *st)
{
    unsigned char b[16];
    size_t at = 0;
    while (at < sizeof(b)) {
        ssize_t n = getrandom(b + at, sizeof(b) - at, 0);
        if (n < 0 && errno != EINTR)
            return zinf_fail(st, -errno, "getrandom: %s", strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);       /* version 4, variant 1 */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0, o = 0; i < sizeof(b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[o++] = '-';
        out[o++] = "0123456789abcdef"[b[i] >> 4];
        out[o++] = "0123456789abcdef"[b[i] & 15];
    }
    out[36] = 0;
    return 0;
}

static bool is_uuid(const char *text)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !text[i] || !strchr("0123456789abcdef", text[i]))
            return false;
    }
    return !text[36];
}

static int set_lock(int fd)
{
    struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &fl);
    } while (rc < 0 && errno == EINTR);
    if (!rc)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

/* For whoever finds the folder and wonders. Failing to write it is no reason to stop. */
static void write_owner(int lock_fd)
{
    char host[65] = "", boot[37] = "-", text[160];
    if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
        snprintf(host, sizeof(host), "-");
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, boot, sizeof(boot) - 1);
        boot[n > 0 ? n : 0] = 0;
        close(fd);
    }
    int n = snprintf(text, sizeof(text), "%ld %s %s\n", (long)getpid(), host, boot);
    /* The folder may have had an owner with more to say. */
    if (ftruncate(lock_fd, 0) < 0 || pwrite(lock_fd, text, (size_t)n, 0) == n || ftruncate(lock_fd, 0) < 0)
        return;
}

static int open_dir(const char *dir, struct zinf_status *st)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    return zinf_fail(st, -errno, "%s: %s: create the folder or name another one in zinf.nvme_paths", dir, strerror(errno));
}

/* ---- deleting ---- */

/* Empties the folder below dir_fd; with keep_lock its lock file stays. Never leaves the file system of root_dev. */
static int empty_folder(int dir_fd, dev_t root_dev, bool keep_lock, int depth, uint64_t *freed_nbytes)
{
    int fd = dup(dir_fd), rc = 0;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    rewinddir(d);
    for (struct dirent *e; !rc && (errno = 0, e = readdir(d));) {
        struct stat sb;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || (keep_lock && !strcmp(e->d_name, LOCK_NAME)))
            continue;
        if (fstatat(dir_fd, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) < 0) {
            rc = errno == ENOENT ? 0 : -errno;
            continue;
        }
        if (S_ISDIR(sb.st_mode)) {
            int sub = depth < MAX_DEPTH && sb.st_dev == root_dev ?
                      openat(dir_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : (errno = EXDEV, -1);
            rc = sub < 0 ? -errno : empty_folder(sub, root_dev, false, depth + 1, freed_nbytes);
            if (sub >= 0)
                close(sub);
            if (!rc && unlinkat(dir_fd, e->d_name, AT_REMOVEDIR) < 0)
                rc = -errno;
        } else if (unlinkat(dir_fd, e->d_name, 0) < 0) {
            rc = errno == ENOENT ? 0 : -errno;
        } else if (sb.st_nlink == 1) {
            *freed_nbytes += (uint64_t)sb.st_blocks * 512;
        }
    }
    if (!rc && errno)
        rc = -errno;
    closedir(d);
    return rc;
}

/* Deletes the folder called name in dir_fd, whose lock the caller holds. The hidden name comes first: from there on a crash
 * leaves garbage and not half a checkpoint. The lock file goes last: without it a folder is empty. */
static int delete_locked(int dir_fd, const char *name, int folder_fd, uint64_t *freed_nbytes)
{
    char hidden[NAME_NBYTES];
    struct stat sb;
    snprintf(hidden, sizeof(hidden), "%s%s", name[0] == '.' ? "" : ".", name);
    if (name[0] != '.' && renameat(dir_fd, name, dir_fd, hidden) < 0)
        return -errno;
    if (fstat(folder_fd, &sb) < 0)
        return -errno;
    int rc = empty_folder(folder_fd, sb.st_dev, true, 0, freed_nbytes);
    if (rc)
        return rc;
    if (unlinkat(folder_fd, LOCK_NAME, 0) < 0 && errno != ENOENT)
        return -errno;
    /* Empty and without a lock: a sweeper may have taken it already. */
    return unlinkat(dir_fd, hidden, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---- making ---- */

/* One try. -EAGAIN: a sweeper came between; try again. */
static int make_hidden(int dir_fd, const char *hidden, int *lock_fd)
{
    if (mkdirat(dir_fd, hidden, 0700) < 0 && errno != EEXIST)
        return -errno;
    int folder = openat(dir_fd, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return errno == ENOENT ? -EAGAIN : -errno;
    int fd = openat(folder, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = fd < 0 ? (errno == ENOENT ? -EAGAIN : -errno) : set_lock(fd);
    struct stat sb, at;
    /* Locked, but is it still the file at the name? A sweeper may have had the lock and unlinked it. */
    if (!rc && (fstat(fd, &sb) < 0 || fstatat(folder, LOCK_NAME, &at, AT_SYMLINK_NOFOLLOW) < 0 || sb.st_ino != at.st_ino ||
                sb.st_dev != at.st_dev))
        rc = -EAGAIN;
    close(folder);
    if (rc && fd >= 0)
        close(fd);
    else
        *lock_fd = fd;
    return rc;
}

static int publish(int dir_fd, const char *hidden, const char *name)
{
    if (!renameat2(dir_fd, hidden, dir_fd, name, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* A file system without the flag: a run folder holds a lock, so plain rename refuses to replace one (ENOTEMPTY). */
    if (!renameat(dir_fd, hidden, dir_fd, name))
        return 0;
    return errno == ENOTEMPTY ? -EEXIST : -errno;
}

/* A try that failed late leaves a locked folder of ours. */
static void undo(int dir_fd, const char *name)
{
    uint64_t freed = 0;
    int folder = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    delete_locked(dir_fd, name, folder, &freed);
    close(folder);
}

static int create_in(int dir_fd, const char *uuid, int *lock_fd)
{
    char name[NAME_NBYTES], hidden[NAME_NBYTES];
    struct stat sb;
    snprintf(name, sizeof(name), PREFIX "%s", uuid);
    snprintf(hidden, sizeof(hidden), HIDDEN "%s", uuid);
    if (!fstatat(dir_fd, name, &sb, AT_SYMLINK_NOFOLLOW))
        return -EEXIST;
    int rc = -EAGAIN;
    for (int i = 0; rc == -EAGAIN && i < NR_TRIES; i++) {
        if (i)
            usleep(1000);                    /* the sweeper that has the lock is about to delete the folder */
        rc = make_hidden(dir_fd, hidden, lock_fd);
    }
    if (rc) {
        /* A drive with room for the folder and none for its lock. Only an empty folder goes. */
        if (rc != -EAGAIN)
            (void)unlinkat(dir_fd, hidden, AT_REMOVEDIR);
        return rc == -EAGAIN ? -EBUSY : rc;
    }
    write_owner(*lock_fd);
    rc = publish(dir_fd, hidden, name);
    bool published = !rc;
    if (published && fsync(dir_fd) < 0 && errno != EINVAL)
        rc = -errno;
    if (rc) {
        undo(dir_fd, published ? name : hidden);
        close(*lock_fd);
        *lock_fd = -1;
    }
    return rc;
}

int zinf_rundir_create(const char *dir, const char *uuid, struct zinf_rundir *out, struct zinf_status *st)
{
    *out = (struct zinf_rundir){ .lock_fd = -1 };
    if (!is_uuid(uuid))
        return zinf_fail(st, -EINVAL, "\"%s\" is not a run's uuid", uuid);
    int dir_fd = open_dir(dir, st);
    if (dir_fd < 0)
        return dir_fd;
    char real[PATH_MAX];
    int rc = realpath(dir, real) ? 0 : zinf_fail(st, -errno, "%s: %s", dir, strerror(errno));
    if (!rc) {
        int n = snprintf(out->path, sizeof(out->path), "%s/" PREFIX "%s", strcmp(real, "/") ? real : "", uuid);
        if (n < 0 || (size_t)n >= sizeof(out->path))
            rc = zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long: name a shorter one in zinf.nvme_paths", dir);
    }
    if (!rc) {
        memcpy(out->uuid, uuid, sizeof(out->uuid));
        rc = create_in(dir_fd, uuid, &out->lock_fd);
        if (rc == -EEXIST)
            zinf_fail(st, rc, "%s exists: name each folder once in zinf.nvme_paths", out->path);
        else if (rc == -ENOLCK || rc == -EINVAL || rc == -EOPNOTSUPP)
            zinf_fail(st, rc, "%s: the file system has no locks (%s): name a folder on a local one in zinf.nvme_paths", dir,
                      strerror(-rc));
        else if (rc)
            zinf_fail(st, rc, "%s: cannot make the run's folder: %s: name a writable folder in zinf.nvme_paths", dir,
                      strerror(-rc));
    }
    close(dir_fd);
    return rc;
}

/* ---- finding and closing ---- */

struct sweep {
    const char *dir;
    int dir_fd;
    bool (*has_record)(const char *path, void *ctx);
    void *ctx;
    const struct zinf_log *log;
    uint64_t freed_nbytes;
    uint32_t nr_folders;
};

static bool is_checkpoint(const struct sweep *w, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    return name[0] != '.' && w->has_record && (n < 0 || (size_t)n >= sizeof(path) || w->has_record(path, w->ctx));
}

/* Deletes the folder if it is garbage. Returns 0, also when it is not. */
static int sweep_folder(struct sweep *w, const char *name)
{
    if (is_checkpoint(w, name))
        return 0;
    int folder = openat(w->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
    int rc = 0, lock = openat(folder, LOCK_NAME, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat sb, at;
    if (lock < 0 && errno == ENOENT) {
        /* The rest of a deletion or the start of a run: an empty folder either way. */
        if (!unlinkat(w->dir_fd, name, AT_REMOVEDIR))
            w->nr_folders++;
        else
            rc = errno == ENOENT ? 0 : -errno;
    } else if (lock < 0) {
        rc = -errno;
    } else {
        rc = set_lock(lock);
        bool mine = !rc;
        rc = rc == -EAGAIN ? 0 : rc;         /* its owner lives */
        /* Only now is it certain that nobody commits a record or deletes the folder meanwhile. */
        if (mine && !fstat(lock, &sb) && S_ISREG(sb.st_mode) && !fstatat(folder, LOCK_NAME, &at, AT_SYMLINK_NOFOLLOW) &&
            sb.st_ino == at.st_ino && sb.st_dev == at.st_dev && !is_checkpoint(w, name)) {
            rc = delete_locked(w->dir_fd, name, folder, &w->freed_nbytes);
            w->nr_folders += !rc;
        }
        close(lock);
    }
    close(folder);
    /* A run that is being made was faster with its lock file than our rmdir. */
    return name[0] == '.' && rc == -ENOTEMPTY ? 0 : rc;
}

static bool is_run_name(const char *name)
{
    if (!strncmp(name, HIDDEN, strlen(HIDDEN)))
        return is_uuid(name + strlen(HIDDEN));
    return !strncmp(name, PREFIX, strlen(PREFIX)) && is_uuid(name + strlen(PREFIX));
}

int zinf_rundir_sweep(const char *dir, bool (*has_record)(const char *path, void *ctx), void *ctx, uint64_t *freed_nbytes,
                      const struct zinf_log *log, struct zinf_status *st)
{
    struct sweep w = { .dir = dir, .has_record = has_record, .ctx = ctx, .log = log };
    w.dir_fd = open_dir(dir, st);
    if (w.dir_fd < 0)
        return w.dir_fd;
    int fd = dup(w.dir_fd);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        int rc = zinf_fail(st, -errno, "%s: %s", dir, strerror(errno));
        if (fd >= 0)
            close(fd);
        close(w.dir_fd);
        return rc;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!is_run_name(e->d_name))
            continue;
        int rc = sweep_folder(&w, e->d_name);
        if (rc)
            zinf_log(log, ZINF_LOG_WARN, "%s/%s is left of a run that has ended and cannot be deleted: %s: delete it by hand",
                     dir, e->d_name, strerror(-rc));
    }
    closedir(d);
    close(w.dir_fd);
    char text[16];
    if (w.nr_folders)
        zinf_log(log, ZINF_LOG_INFO, "%s: cleared %s (%llu bytes) in %u folder%s of runs that did not end well", dir,
                 zinf_size_format(w.freed_nbytes, text, sizeof(text)), (unsigned long long)w.freed_nbytes, w.nr_folders,
                 w.nr_folders == 1 ? "" : "s");
    if (freed_nbytes)
        *freed_nbytes += w.freed_nbytes;
    return 0;
}

/* "pid 17 on host" from the lock file of a folder that is in use. */
static void name_owner(int lock_fd, char *out, size_t nbytes)
{
    char text[160], host[65];
    long pid;
    ssize_t n = pread(lock_fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%ld %64s", &pid, host) == 2)
        snprintf(out, nbytes, "process %ld on %s", pid, host);
    else
        snprintf(out, nbytes, "another process");
}

/* Locks the folder below dir_fd; *lock_fd is open on success and when the lock is held (-EAGAIN). -ESTALE: it has just been
 * deleted. */
static int adopt_in(int dir_fd, const char *name, int *lock_fd)
{
    struct stat sb, at;
    int folder = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    *lock_fd = openat(folder, LOCK_NAME, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = *lock_fd < 0 ? (errno == ENOENT ? -EINVAL : -errno) : 0;
    if (!rc && (fstat(*lock_fd, &sb) < 0 || !S_ISREG(sb.st_mode)))
        rc = -EINVAL;
    if (!rc)
        rc = set_lock(*lock_fd);
    /* Locked, but maybe only after its last owner deleted it. */
    if (!rc && (fstatat(folder, LOCK_NAME, &at, AT_SYMLINK_NOFOLLOW) < 0 || sb.st_ino != at.st_ino || sb.st_dev != at.st_dev))
        rc = -ESTALE;
    close(folder);
    return rc;
}

int zinf_rundir_adopt(const char *path, struct zinf_rundir *out, struct zinf_status *st)
{
    char real[PATH_MAX], owner[128], *slash;
    *out = (struct zinf_rundir){ .lock_fd = -1 };
    if (!realpath(path, real))
        return zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    slash = strrchr(real, '/');
    if (!is_run_name(slash + 1))
        return zinf_fail(st, -EINVAL, "%s is not the folder of a run (zinf-<uuid>)", path);
    int n = snprintf(out->path, sizeof(out->path), "%s", real);
    if (n < 0 || (size_t)n >= sizeof(out->path))
        return zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long", path);
    memcpy(out->uuid, strchr(slash, '-') + 1, sizeof(out->uuid));
    const char *name = slash + 1;
    *slash = 0;
    int dir_fd = open(slash == real ? "/" : real, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    if (dir_fd < 0)
        return zinf_fail(st, -errno, "%s: %s", real, strerror(errno));
    int rc = adopt_in(dir_fd, name, &fd);
    close(dir_fd);
    if (!rc) {
        write_owner(fd);
        out->lock_fd = fd;
        return 0;
    }
    if (rc == -EAGAIN) {
        name_owner(fd, owner, sizeof(owner));
        rc = zinf_fail(st, -EBUSY, "%s is in use by %s: stop it first", out->path, owner);
    } else if (rc == -EINVAL) {
        zinf_fail(st, rc, "%s has no lock file: it is not the folder of a run", out->path);
    } else {
        zinf_fail(st, rc, "%s: its lock: %s", out->path, strerror(-rc));
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Deletes the folder of r, if it is still the one that r locked. */
static int remove_own(const struct zinf_rundir *r)
{
    char parent[sizeof(r->path)];
    snprintf(parent, sizeof(parent), "%s", r->path);
    char *slash = strrchr(parent, '/');
    if (!slash)
        return -EINVAL;
    const char *name = r->path + (slash - parent) + 1;
    slash[slash == parent] = 0;              /* "/zinf-..." lies in "/" */
    int dir_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return -errno;
    struct stat mine, at;
    uint64_t freed = 0;
    int folder = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = folder < 0 ? (errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? -ESTALE : -errno) : 0;
    if (!rc && (fstat(r->lock_fd, &mine) < 0 || fstatat(folder, LOCK_NAME, &at, AT_SYMLINK_NOFOLLOW) < 0 ||
                mine.st_ino != at.st_ino || mine.st_dev != at.st_dev))
        rc = -ESTALE;
    if (!rc)
        rc = delete_locked(dir_fd, name, folder, &freed);
    if (folder >= 0)
        close(folder);
    close(dir_fd);
    return rc;
}

/* Somebody deleted or moved the folder while it was ours. */
static bool still_there(const struct zinf_rundir *r)
{
    char path[sizeof(r->path) + sizeof("/" LOCK_NAME)];
    struct stat mine, at;
    snprintf(path, sizeof(path), "%s/" LOCK_NAME, r->path);
    return !fstat(r->lock_fd, &mine) && !lstat(path, &at) && mine.st_ino == at.st_ino && mine.st_dev == at.st_dev;
}

int zinf_rundir_close(struct zinf_rundir *r, bool remove, struct zinf_status *st)
{
    if (r->lock_fd < 0)
        return 0;
    int rc = remove ? remove_own(r) : still_there(r) ? 0 : -ESTALE;
    if (rc && !remove)
        zinf_fail(st, rc, "%s was deleted or moved while it was in use: what was kept there cannot be resumed from that path",
                  r->path);
    else if (rc)
        zinf_fail(st, rc, "%s: the run's folder could not be deleted: %s: delete it by hand", r->path, strerror(-rc));
    close(r->lock_fd);
    r->lock_fd = -1;
    return rc;
}
