/* zinf/checkpoint/portable_dir.c - claims, swaps and removes the folders of a checkpoint. */
#define _GNU_SOURCE
#include "zinf/checkpoint/portable_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "lock"

enum { CLAIM_TRIES = 100, CLAIM_WAIT_NS = 10 * 1000 * 1000 };

static const char *const suffixes[] = { ".tmp", ".old", ".gone" };
static const char *const files[] = { ZINF_PORTABLE_STATE, ZINF_PORTABLE_JSON, ZINF_PORTABLE_JSON ".tmp", LOCK_NAME };
enum { NR_SUFFIXES = sizeof(suffixes) / sizeof(suffixes[0]), NR_FILES = sizeof(files) / sizeof(files[0]) };

/* ---- names ---------------------------------------------------------------------------------------------------------- */

bool zinf_portable_name_ok(const char *name)
{
    size_t n = strlen(name);

    return n && n <= ZINF_PORTABLE_NAME_MAX && name[0] != '.' && !strchr(name, '/');
}

const char *zinf_portable_hidden(char out[ZINF_PORTABLE_HIDDEN_NBYTES], const char *name, enum zinf_hidden which)
{
    snprintf(out, ZINF_PORTABLE_HIDDEN_NBYTES, ".%.*s%s", (int)ZINF_PORTABLE_NAME_MAX, name, suffixes[which]);
    return out;
}

bool zinf_portable_unhide(const char *hidden, char name[ZINF_PORTABLE_HIDDEN_NBYTES], enum zinf_hidden *which)
{
    size_t n = strlen(hidden);

    if (hidden[0] != '.' || n >= ZINF_PORTABLE_HIDDEN_NBYTES)
        return false;
    for (int i = 0; i < NR_SUFFIXES; i++) {
        size_t suffix = strlen(suffixes[i]);

        if (n <= suffix + 1 || strcmp(hidden + n - suffix, suffixes[i]))
            continue;
        memcpy(name, hidden + 1, n - suffix - 1);
        name[n - suffix - 1] = 0;
        *which = (enum zinf_hidden)i;
        return zinf_portable_name_ok(name);
    }
    return false;
}

int zinf_portable_exists(int parent_fd, const char *name)
{
    struct stat s;

    return fstatat(parent_fd, name, &s, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

/* ---- who owns a folder ---------------------------------------------------------------------------------------------- */

static int open_dir(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* Entries of a folder, or -EEXIST when one of them is no file of a checkpoint. */
static int count_ours(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!d) {
        n = -errno;
        if (fd >= 0)
            close(fd);
        return n;
    }
    while (n >= 0 && (e = readdir(d))) {
        bool ours = false;

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        for (int i = 0; !ours && i < NR_FILES; i++)
            ours = !strcmp(e->d_name, files[i]);
        n = ours ? n + 1 : -EEXIST;
    }
    closedir(d);
    return n;
}

static bool same_file(int at_fd, const char *name, int fd)
{
    struct stat a, b;

    return !fstatat(at_fd, name, &a, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* -EAGAIN: held, or no longer what stands at that name, which another owner saw to meanwhile. */
static int take_lock(int parent_fd, const char *hidden, struct zinf_claim *c)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    c->lock_fd = openat(c->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (c->lock_fd < 0)
        return -errno;
    if (fcntl(c->lock_fd, F_OFD_SETLK, &whole))
        return errno == EACCES ? -EAGAIN : -errno;
    return same_file(parent_fd, hidden, c->dir_fd) && same_file(c->dir_fd, LOCK_NAME, c->lock_fd) ? 0 : -EAGAIN;
}

static int claim_once(int parent_fd, const char *hidden, bool create, struct zinf_claim *c)
{
    int rc;

    *c = (struct zinf_claim){ -1, -1 };
    if (create && mkdirat(parent_fd, hidden, 0777) && errno != EEXIST)
        return -errno;
    c->dir_fd = rc = open_dir(parent_fd, hidden);
    if (rc >= 0)
        rc = count_ours(c->dir_fd);
    if (rc >= 0)
        rc = take_lock(parent_fd, hidden, c);
    /* A full drive has no room for a lock, nor had it for a writer's. */
    if ((rc == -ENOSPC || rc == -EDQUOT) && !create)
        rc = 0;
    if (rc)
        zinf_portable_release(c);
    return rc;
}

static int empty_dir(const struct zinf_claim *c, bool keep_lock)
{
    for (int i = 0; i < NR_FILES; i++)
        if (!(keep_lock && !strcmp(files[i], LOCK_NAME)) && unlinkat(c->dir_fd, files[i], 0) && errno != ENOENT)
            return -errno;
    return 0;
}

int zinf_portable_claim(int parent_fd, const char *name, struct zinf_claim *out)
{
    const struct timespec wait = { .tv_nsec = CLAIM_WAIT_NS };
    char hidden[ZINF_PORTABLE_HIDDEN_NBYTES];
    int rc = -EAGAIN;

    zinf_portable_hidden(hidden, name, ZINF_HIDDEN_TMP);
    for (int i = 0; i < CLAIM_TRIES && (rc == -EAGAIN || rc == -ENOENT); i++) {
        if (i)
            nanosleep(&wait, NULL);
        rc = claim_once(parent_fd, hidden, true, out);
    }
    /* A drive with room for the folder and none for its lock. Only an empty folder goes; if it is somebody's, he tries again. */
    if (rc == -ENOSPC || rc == -EDQUOT)
        (void)unlinkat(parent_fd, hidden, AT_REMOVEDIR);
    if (rc)
        return rc == -EAGAIN ? -EBUSY : rc;
    rc = empty_dir(out, true);
    if (rc)
        zinf_portable_release(out);
    return rc;
}

void zinf_portable_release(struct zinf_claim *c)
{
    if (c->dir_fd >= 0)
        close(c->dir_fd);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    *c = (struct zinf_claim){ -1, -1 };
}

bool zinf_portable_held(int parent_fd, const char *name)
{
    char hidden[ZINF_PORTABLE_HIDDEN_NBYTES];
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int dir_fd = open_dir(parent_fd, zinf_portable_hidden(hidden, name, ZINF_HIDDEN_TMP));
    int fd = dir_fd < 0 ? -1 : openat(dir_fd, LOCK_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool busy = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &whole) && whole.l_type != F_UNLCK;

    if (fd >= 0)
        close(fd);
    if (dir_fd >= 0)
        close(dir_fd);
    return busy;
}

static int remove_claimed(int parent_fd, const char *hidden, const struct zinf_claim *c)
{
    int rc = empty_dir(c, false);

    if (!rc && unlinkat(parent_fd, hidden, AT_REMOVEDIR) && errno != ENOENT)
        rc = -errno;
    return rc;
}

int zinf_portable_discard(int parent_fd, const char *name, enum zinf_hidden which)
{
    char hidden[ZINF_PORTABLE_HIDDEN_NBYTES];
    struct zinf_claim c;
    int rc;

    zinf_portable_hidden(hidden, name, which);
    rc = claim_once(parent_fd, hidden, false, &c);
    if (rc)
        return rc == -EAGAIN ? -EBUSY : rc;
    rc = remove_claimed(parent_fd, hidden, &c);
    zinf_portable_release(&c);
    return rc;
}

void zinf_portable_abandon(int parent_fd, const char *name, struct zinf_claim *c)
{
    char hidden[ZINF_PORTABLE_HIDDEN_NBYTES];

    (void)remove_claimed(parent_fd, zinf_portable_hidden(hidden, name, ZINF_HIDDEN_TMP), c);
    zinf_portable_release(c);
}

void zinf_portable_unlock(struct zinf_claim *c)
{
    if (c->dir_fd >= 0)
        (void)unlinkat(c->dir_fd, LOCK_NAME, 0);
    zinf_portable_release(c);
}

/* ---- who stands at a name ------------------------------------------------------------------------------------------- */

int zinf_portable_replaceable(int parent_fd, const char *name)
{
    int fd = open_dir(parent_fd, name), n;

    if (fd == -ENOENT)
        return 0;
    if (fd < 0)
        return fd == -ENOTDIR || fd == -ELOOP ? -EEXIST : fd;
    n = count_ours(fd);
    if (n > 0)
        n = faccessat(fd, ZINF_PORTABLE_JSON, F_OK, 0) ? -EEXIST : 0;
    close(fd);
    return n;
}

int zinf_portable_sync(int parent_fd)
{
    /* Some file systems cannot flush a folder and say so; that is no loss of data. */
    return fsync(parent_fd) && errno != EINVAL ? -errno : 0;
}

static int move(int parent_fd, const char *from, const char *to, unsigned flags)
{
    return renameat2(parent_fd, from, parent_fd, to, flags) ? -errno : 0;
}

static bool unsupported(int rc) { return rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP; }

/* Between the two renames .NAME.old is the checkpoint: load, list and restore know. */
static int publish_in_two(int parent_fd, const char *name, const char *tmp)
{
    char old[ZINF_PORTABLE_HIDDEN_NBYTES];
    bool moved = false;
    int rc;

    zinf_portable_hidden(old, name, ZINF_HIDDEN_OLD);
    if (!zinf_portable_exists(parent_fd, name)) {
        rc = zinf_portable_discard(parent_fd, name, ZINF_HIDDEN_OLD);
        if (!rc || rc == -ENOENT)
            rc = move(parent_fd, name, old, 0);
        if (rc)
            return rc;
        moved = true;
    }
    rc = move(parent_fd, tmp, name, 0);
    if (rc && moved)
        (void)move(parent_fd, old, name, 0);
    return rc;
}

int zinf_portable_publish(int parent_fd, const char *name, bool exchange, bool *published)
{
    char tmp[ZINF_PORTABLE_HIDDEN_NBYTES];
    int rc;

    *published = false;
    zinf_portable_hidden(tmp, name, ZINF_HIDDEN_TMP);
    rc = exchange ? move(parent_fd, tmp, name, RENAME_EXCHANGE) : -EINVAL;
    if (rc == -ENOENT)
        rc = move(parent_fd, tmp, name, 0);
    if (unsupported(rc))
        rc = publish_in_two(parent_fd, name, tmp);
    if (rc)
        return rc;
    *published = true;
    rc = zinf_portable_sync(parent_fd);
    /* The one before goes when the new name is on the drive; what cannot be removed now is swept later. */
    if (!rc) {
        (void)zinf_portable_discard(parent_fd, name, ZINF_HIDDEN_TMP);
        (void)zinf_portable_discard(parent_fd, name, ZINF_HIDDEN_OLD);
    }
    return rc;
}

int zinf_portable_restore(int parent_fd, const char *name)
{
    char old[ZINF_PORTABLE_HIDDEN_NBYTES];
    int rc;

    if (zinf_portable_exists(parent_fd, name) != -ENOENT ||
        zinf_portable_exists(parent_fd, zinf_portable_hidden(old, name, ZINF_HIDDEN_OLD)) ||
        zinf_portable_held(parent_fd, name))
        return 0;
    rc = move(parent_fd, old, name, RENAME_NOREPLACE);
    if (unsupported(rc))
        rc = move(parent_fd, old, name, 0);
    return rc ? rc : zinf_portable_sync(parent_fd);
}

int zinf_portable_erase(int parent_fd, const char *name)
{
    char gone[ZINF_PORTABLE_HIDDEN_NBYTES];
    int rc = zinf_portable_restore(parent_fd, name), left;

    if (!rc)
        rc = zinf_portable_exists(parent_fd, name);
    if (!rc)
        rc = zinf_portable_replaceable(parent_fd, name);
    if (rc)
        return rc;
    /* An older .NAME.old would come back in its place. */
    left = zinf_portable_discard(parent_fd, name, ZINF_HIDDEN_OLD);
    if (!left || left == -ENOENT)
        left = zinf_portable_discard(parent_fd, name, ZINF_HIDDEN_GONE);
    if (left && left != -ENOENT)
        return left;
    rc = move(parent_fd, name, zinf_portable_hidden(gone, name, ZINF_HIDDEN_GONE), 0);
    if (!rc)
        rc = zinf_portable_sync(parent_fd);
    return rc ? rc : zinf_portable_discard(parent_fd, name, ZINF_HIDDEN_GONE);
}
