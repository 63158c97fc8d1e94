/* io/mem_store.c - file contents in RAM: chunks found by (file, chunk number), filled from the file on first touch. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/mem_store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/align.h"

#define CHUNK_NBYTES  65536u       /* also its alignment: filled through O_DIRECT descriptors as well */
#define NO_CHUNK      UINT64_MAX   /* the entry that holds a file's length */
#define FIRST_CAPACITY 256u

/* Inode numbers are used again as soon as a file is deleted: the birth time tells the two apart. */
struct key { uint64_t dev, ino, born_ns, chunk; };
struct entry {
    struct key key;
    unsigned char *data;           /* NULL in the length entry */
    uint64_t nbytes;               /* of the file; length entry only */
    bool used;
};

struct zinf_io_mem {
    pthread_mutex_t mu;
    struct entry *entries;         /* guarded by mu; open addressing, at most half full */
    uint64_t capacity, nr_entries; /* guarded by mu */
    uint64_t held_nbytes;          /* guarded by mu */
    uint64_t max_nbytes;
};

int zinf_io_mem_create(uint64_t max_nbytes, struct zinf_io_mem **out, struct zinf_status *st)
{
    struct zinf_io_mem *mem = calloc(1, sizeof(*mem));

    *out = NULL;
    if (!mem)
        return zinf_fail(st, -ENOMEM, "mem: no memory for a store");
    mem->entries = calloc(FIRST_CAPACITY, sizeof(*mem->entries));
    if (!mem->entries) {
        free(mem);
        return zinf_fail(st, -ENOMEM, "mem: no memory for a store");
    }
    mem->capacity = FIRST_CAPACITY;
    mem->max_nbytes = max_nbytes;
    pthread_mutex_init(&mem->mu, NULL);
    *out = mem;
    return 0;
}

void zinf_io_mem_destroy(struct zinf_io_mem *mem)
{
    if (!mem)
        return;
    for (uint64_t i = 0; i < mem->capacity; i++)
        free(mem->entries[i].data);
    free(mem->entries);
    pthread_mutex_destroy(&mem->mu);
    free(mem);
}

uint64_t zinf_io_mem_nbytes(struct zinf_io_mem *mem)
{
    uint64_t n;

    pthread_mutex_lock(&mem->mu);
    n = mem->held_nbytes;
    pthread_mutex_unlock(&mem->mu);
    return n;
}

static uint64_t hash(const struct key *k)
{
    uint64_t h = k->dev;

    h = (h ^ k->ino) * 0x9e3779b97f4a7c15u;
    h = ((h ^ (h >> 32)) ^ k->born_ns) * 0x9e3779b97f4a7c15u;
    h = ((h ^ (h >> 32)) ^ k->chunk) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

/* The entry of key, or the free place where it belongs. */
static struct entry *find(struct entry *entries, uint64_t capacity, const struct key *key)
{
    for (uint64_t i = hash(key) % capacity;; i = (i + 1) % capacity) {
        struct entry *e = &entries[i];

        if (!e->used || (e->key.chunk == key->chunk && e->key.ino == key->ino && e->key.dev == key->dev &&
                         e->key.born_ns == key->born_ns))
            return e;
    }
}

static int grow(struct zinf_io_mem *mem)
{
    uint64_t capacity = mem->capacity * 2;
    struct entry *entries;

    if ((mem->nr_entries + 1) * 2 <= mem->capacity)
        return 0;
    entries = calloc(capacity, sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    for (uint64_t i = 0; i < mem->capacity; i++)
        if (mem->entries[i].used)
            *find(entries, capacity, &mem->entries[i].key) = mem->entries[i];
    free(mem->entries);
    mem->entries = entries;
    mem->capacity = capacity;
    return 0;
}

static int file_key(int fd, struct key *key, uint64_t *disk_nbytes)
{
    struct statx stx;

    memset(&stx, 0, sizeof(stx));
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &stx) < 0)
        return -errno;
    key->dev = (uint64_t)stx.stx_dev_major << 32 | stx.stx_dev_minor;
    key->ino = stx.stx_ino;
    key->born_ns = stx.stx_mask & STATX_BTIME ?
                   (uint64_t)stx.stx_btime.tv_sec * 1000000000u + stx.stx_btime.tv_nsec : 0;
    *disk_nbytes = stx.stx_size;
    return 0;
}

/* Fills a new chunk with what the file on disk has there; past its end with zeros. */
static int fill(unsigned char *data, int fd, uint64_t off_bytes)
{
    size_t done = 0;

    memset(data, 0, CHUNK_NBYTES);
    while (done < CHUNK_NBYTES) {
        ssize_t n = pread(fd, data + done, CHUNK_NBYTES - done, (off_t)(off_bytes + done));

        if (n < 0 && errno == EINTR)
            continue;
        /* Direct reads cannot go on from an odd place: a short one has met the end of the file. */
        if (n < 0)
            return done % 512 ? 0 : -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return 0;
}

static int touch(struct zinf_io_mem *mem, const struct key *key, int fd, uint64_t disk_nbytes, struct entry **out)
{
    uint64_t off = key->chunk * CHUNK_NBYTES;
    struct entry *e = find(mem->entries, mem->capacity, key);
    unsigned char *data = NULL;
    int rc;

    if (e->used) {
        *out = e;
        return 0;
    }
    if (mem->max_nbytes && mem->held_nbytes + CHUNK_NBYTES > mem->max_nbytes)
        return -ENOSPC;
    rc = grow(mem);
    if (rc)
        return rc;
    if (posix_memalign((void **)&data, CHUNK_NBYTES, CHUNK_NBYTES) != 0)
        return -ENOMEM;
    if (off < disk_nbytes) {
        rc = fill(data, fd, off);
        if (rc) {
            free(data);
            return rc;
        }
    } else {
        memset(data, 0, CHUNK_NBYTES);
    }
    e = find(mem->entries, mem->capacity, key);
    *e = (struct entry) { .key = *key, .data = data, .used = true };
    mem->nr_entries++;
    mem->held_nbytes += CHUNK_NBYTES;
    *out = e;
    return 0;
}

/* The length: what is on disk, or further where this store was written past it. */
static int file_length(struct zinf_io_mem *mem, struct key key, uint64_t disk_nbytes, uint64_t at_least, uint64_t *out)
{
    struct entry *e;
    int rc;

    key.chunk = NO_CHUNK;
    e = find(mem->entries, mem->capacity, &key);
    if (!e->used && at_least > disk_nbytes) {
        rc = grow(mem);
        if (rc)
            return rc;
        e = find(mem->entries, mem->capacity, &key);
        *e = (struct entry) { .key = key, .used = true };
        mem->nr_entries++;
    }
    if (e->used && at_least > e->nbytes)
        e->nbytes = at_least;
    *out = e->used ? zinf_max_u64(disk_nbytes, e->nbytes) : disk_nbytes;
    return 0;
}

static int64_t transfer_locked(struct zinf_io_mem *mem, bool write, int fd, unsigned char *buf, size_t nbytes,
                               uint64_t off_bytes, struct key *key, uint64_t disk_nbytes)
{
    uint64_t length = 0;
    size_t done = 0;
    int rc = file_length(mem, *key, disk_nbytes, 0, &length);

    if (rc == 0 && !write)
        nbytes = off_bytes >= length ? 0 : (size_t)zinf_min_u64(nbytes, length - off_bytes);
    while (rc == 0 && done < nbytes) {
        uint64_t at = off_bytes + done;
        size_t in = (size_t)(at % CHUNK_NBYTES);
        size_t n = (size_t)zinf_min_u64(nbytes - done, CHUNK_NBYTES - in);
        struct entry *e = NULL;

        key->chunk = at / CHUNK_NBYTES;
        rc = touch(mem, key, fd, disk_nbytes, &e);
        if (rc)
            break;
        if (write)
            memcpy(e->data + in, buf + done, n);
        else
            memcpy(buf + done, e->data + in, n);
        done += n;
    }
    if (write && done)
        rc = file_length(mem, *key, disk_nbytes, off_bytes + done, &length);
    return done ? (int64_t)done : rc;
}

int64_t zinf_io_mem_transfer(struct zinf_io_mem *mem, bool write, int fd, void *buf, size_t nbytes, uint64_t off_bytes)
{
    uint64_t disk_nbytes = 0;
    struct key key;
    int64_t n;
    int rc = file_key(fd, &key, &disk_nbytes);

    if (rc)
        return rc;
    pthread_mutex_lock(&mem->mu);
    n = transfer_locked(mem, write, fd, buf, nbytes, off_bytes, &key, disk_nbytes);
    pthread_mutex_unlock(&mem->mu);
    return n;
}
