/* swapper/record.c - see record.h for the format. */
#define _GNU_SOURCE
#include "swapper/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/base/crc32c.h"

enum { HEADER = 112, SLOT_ALIGN = 4096 };
#define MAX_SLOT (1ull << 30)

static const char magic[8] = { 'Z', 'I', 'N', 'F', 'R', 'E', 'C', '1' };

struct file {
    int fd;
    uint64_t slot_nbytes;
    unsigned char *buf;
    char path[1100];
};

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void put64(unsigned char *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* Where the parts after the header begin, and where the record ends. */
struct parts { uint64_t units, aligns, drives, current, crcs, payload, fingerprint, crc, end; };

static struct parts parts_of(uint64_t nr_drives, uint64_t units, uint64_t grains, uint64_t payload, uint64_t fingerprint)
{
    struct parts p;

    p.units = HEADER;
    p.aligns = p.units + 8 * units;
    p.drives = p.aligns + 4 * nr_drives;
    p.current = p.drives + grains;
    p.crcs = zinf_align_up(p.current + grains, 4);
    p.payload = p.crcs + 4 * ZINF_RECORD_PIECES * grains;
    p.fingerprint = p.payload + payload;
    p.crc = p.fingerprint + fingerprint;
    p.end = p.crc + 4;
    return p;
}

int zinf_record_init(struct zinf_record *r, uint32_t nr_drives, uint32_t nr_units, uint32_t nr_grains, uint32_t payload_nbytes,
                     const char *fingerprint, struct zinf_status *st)
{
    memset(r, 0, sizeof(*r));
    r->nr_drives = nr_drives;
    r->nr_units = nr_units;
    r->nr_grains = nr_grains;
    r->payload_nbytes = payload_nbytes;
    r->unit_elems = calloc((size_t)nr_units + 1, sizeof(*r->unit_elems));
    r->drive_align = calloc((size_t)nr_drives + 1, sizeof(*r->drive_align));
    r->drive = calloc((size_t)nr_grains + 1, 1);
    r->current = calloc((size_t)nr_grains + 1, 1);
    r->crc = calloc(((size_t)nr_grains + 1) * ZINF_RECORD_PIECES, sizeof(*r->crc));
    r->payload = calloc((size_t)payload_nbytes + 1, 1);
    r->fingerprint = strdup(fingerprint);
    if (!r->unit_elems || !r->drive_align || !r->drive || !r->current || !r->crc || !r->payload || !r->fingerprint) {
        zinf_record_free(r);
        return zinf_fail(st, -ENOMEM, "out of memory for a record of %u grains", nr_grains);
    }
    return 0;
}

void zinf_record_free(struct zinf_record *r)
{
    free(r->unit_elems);
    free(r->drive_align);
    free(r->drive);
    free(r->current);
    free(r->crc);
    free(r->payload);
    free(r->fingerprint);
    memset(r, 0, sizeof(*r));
}

uint64_t zinf_record_nbytes(const struct zinf_record *r)
{
    return parts_of(r->nr_drives, r->nr_units, r->nr_grains, r->payload_nbytes, strlen(r->fingerprint)).end;
}

void zinf_record_encode(const struct zinf_record *r, void *buf)
{
    unsigned char *b = buf;
    uint32_t name = (uint32_t)strlen(r->fingerprint);
    struct parts p = parts_of(r->nr_drives, r->nr_units, r->nr_grains, r->payload_nbytes, name);

    memcpy(b, magic, sizeof(magic));
    put32(b + 8, (uint32_t)p.end);
    put32(b + 12, r->rank);
    put32(b + 16, r->world);
    put32(b + 20, r->nr_drives);
    put64(b + 24, r->generation);
    memcpy(b + 32, r->uuid, 36);
    put32(b + 68, r->nr_units);
    put32(b + 72, r->nr_grains);
    put32(b + 76, r->weight_nbytes);
    put32(b + 80, r->state_nbytes);
    put32(b + 84, (r->extents_weight ? 1u : 0u) | (r->extents_state ? 2u : 0u) | (r->has_crc ? 4u : 0u));
    put64(b + 88, r->grain_elems);
    put32(b + 96, r->payload_nbytes);
    put32(b + 100, name);
    put64(b + 104, r->slot_nbytes);
    for (uint32_t i = 0; i < r->nr_units; i++)
        put64(b + p.units + 8 * i, r->unit_elems[i]);
    for (uint32_t i = 0; i < r->nr_drives; i++)
        put32(b + p.aligns + 4 * i, r->drive_align[i]);
    memcpy(b + p.drives, r->drive, r->nr_grains);
    memcpy(b + p.current, r->current, r->nr_grains);
    memset(b + p.current + r->nr_grains, 0, p.crcs - p.current - r->nr_grains);
    for (uint64_t i = 0; i < (uint64_t)r->nr_grains * ZINF_RECORD_PIECES; i++)
        put32(b + p.crcs + 4 * i, r->crc[i]);
    memcpy(b + p.payload, r->payload, r->payload_nbytes);
    memcpy(b + p.fingerprint, r->fingerprint, name);
    put32(b + p.crc, zinf_crc32c(0, b, p.crc));
}

/* A slot is trusted only as a whole: lengths that fit, then the CRC over everything. */
static bool valid(const unsigned char *b, uint64_t slot_nbytes, struct parts *p)
{
    uint64_t used = get32(b + 8);

    if (memcmp(b, magic, sizeof(magic)) || used < HEADER + 4 || used > slot_nbytes || get64(b + 104) != slot_nbytes)
        return false;
    *p = parts_of(get32(b + 20), get32(b + 68), get32(b + 72), get32(b + 96), get32(b + 100));
    return p->end == used && zinf_crc32c(0, b, p->crc) == get32(b + p->crc);
}

static int decode(const unsigned char *b, const struct parts *p, struct zinf_record *r, struct zinf_status *st)
{
    char *name = strndup((const char *)b + p->fingerprint, get32(b + 100));
    int rc = name ? zinf_record_init(r, get32(b + 20), get32(b + 68), get32(b + 72), get32(b + 96), name, st)
                  : zinf_fail(st, -ENOMEM, "out of memory");

    free(name);
    if (rc)
        return rc;
    r->rank = get32(b + 12);
    r->world = get32(b + 16);
    r->generation = get64(b + 24);
    memcpy(r->uuid, b + 32, 36);
    r->weight_nbytes = get32(b + 76);
    r->state_nbytes = get32(b + 80);
    r->extents_weight = get32(b + 84) & 1;
    r->extents_state = get32(b + 84) & 2;
    r->has_crc = get32(b + 84) & 4;
    r->grain_elems = get64(b + 88);
    r->slot_nbytes = get64(b + 104);
    for (uint32_t i = 0; i < r->nr_units; i++)
        r->unit_elems[i] = get64(b + p->units + 8 * i);
    for (uint32_t i = 0; i < r->nr_drives; i++)
        r->drive_align[i] = get32(b + p->aligns + 4 * i);
    memcpy(r->drive, b + p->drives, r->nr_grains);
    memcpy(r->current, b + p->current, r->nr_grains);
    for (uint64_t i = 0; i < (uint64_t)r->nr_grains * ZINF_RECORD_PIECES; i++)
        r->crc[i] = get32(b + p->crcs + 4 * i);
    memcpy(r->payload, b + p->payload, r->payload_nbytes);
    return 0;
}

/* Moves the whole range or says why not. */
static int transfer(struct file *f, bool write, uint64_t off, uint64_t nbytes, struct zinf_status *st)
{
    uint64_t done = 0;

    while (done < nbytes) {
        ssize_t n = write ? pwrite(f->fd, f->buf + done, nbytes - done, (off_t)(off + done))
                          : pread(f->fd, f->buf + done, nbytes - done, (off_t)(off + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int rc = n < 0 ? -errno : -EIO;

            return zinf_fail(st, rc, "%s %s at %llu: %s", write ? "writing" : "reading", f->path,
                             (unsigned long long)(off + done), n < 0 ? strerror(-rc) : "the file ends early");
        }
        done += (uint64_t)n;
    }
    return 0;
}

static int sync_folder(const char *dir, struct zinf_status *st)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

    if (fd < 0 || fsync(fd))
        rc = zinf_fail(st, -errno, "syncing %s: %s", dir, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int open_file(const char *dir, uint32_t rank, int flags, struct file *f, struct zinf_status *st)
{
    memset(f, 0, sizeof(*f));
    snprintf(f->path, sizeof(f->path), "%s/record-%u", dir, rank);
    f->fd = open(f->path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    return f->fd < 0 ? zinf_fail(st, -errno, "%s: %s", f->path, strerror(errno)) : 0;
}

static void close_file(struct file *f)
{
    close(f->fd);
    free(f->buf);
}

static int size_slots(struct file *f, struct zinf_status *st)
{
    struct stat s;

    if (fstat(f->fd, &s))
        return zinf_fail(st, -errno, "%s: %s", f->path, strerror(errno));
    f->slot_nbytes = (uint64_t)s.st_size / 2;
    if (f->slot_nbytes < SLOT_ALIGN || f->slot_nbytes > MAX_SLOT || s.st_size % (2 * SLOT_ALIGN))
        return zinf_fail(st, -ENOENT, "%s holds no record: its size %lld is not that of two slots", f->path,
                         (long long)s.st_size);
    return 0;
}

static int alloc_buf(struct file *f, struct zinf_status *st)
{
    f->buf = calloc(1, f->slot_nbytes);
    return f->buf ? 0 : zinf_fail(st, -ENOMEM, "out of memory");
}

int zinf_record_create(const char *dir, uint32_t rank, uint64_t slot_nbytes, struct zinf_status *st)
{
    struct file f;
    int rc = open_file(dir, rank, O_RDWR | O_CREAT | O_EXCL, &f, st);

    if (rc)
        return rc;
    f.slot_nbytes = slot_nbytes;
    rc = alloc_buf(&f, st);
    for (int i = 0; i < 2 && !rc; i++)                 /* written, not only reserved: a commit never lacks space */
        rc = transfer(&f, true, i * slot_nbytes, slot_nbytes, st);
    if (!rc && fsync(f.fd))
        rc = zinf_fail(st, -errno, "syncing %s: %s", f.path, strerror(errno));
    if (!rc)
        rc = sync_folder(dir, st);
    if (rc)
        unlink(f.path);
    close_file(&f);
    return rc;
}

/* As a slot is made: nothing was ever committed to it. */
static bool all_zero(const unsigned char *b, uint64_t nbytes)
{
    return !b[0] && !memcmp(b, b + 1, nbytes - 1);
}

int zinf_record_load(const char *dir, uint32_t rank, uint64_t newest_below, struct zinf_record *out, uint32_t *nr_valid,
                     struct zinf_status *st)
{
    struct file file, *f = &file;
    uint32_t found = 0, damaged = 0;
    int rc = open_file(dir, rank, O_RDONLY, f, st);

    memset(out, 0, sizeof(*out));
    if (nr_valid)
        *nr_valid = 0;
    if (rc)
        return rc;
    rc = size_slots(f, st);
    if (!rc)
        rc = alloc_buf(f, st);
    for (int i = 0; i < 2 && !rc; i++) {
        struct parts p;

        rc = transfer(f, false, i * f->slot_nbytes, f->slot_nbytes, st);
        if (rc)
            continue;
        if (!valid(f->buf, f->slot_nbytes, &p)) {
            damaged += !all_zero(f->buf, f->slot_nbytes);
            continue;
        }
        if (nr_valid)
            ++*nr_valid;
        if (get64(f->buf + 24) >= newest_below || (found && get64(f->buf + 24) <= out->generation))
            continue;
        zinf_record_free(out);
        rc = decode(f->buf, &p, out, st);
        out->slot = (uint32_t)i;
        found += !rc;
    }
    out->other_damaged = damaged > 0;
    /* One bad slot beside an unused one is a first record that was cut off; two have been records. */
    if (!rc && !found && damaged == 2)
        rc = zinf_fail(st, -EBADMSG, "%s: both of its records are damaged: put the file back from a copy, or start from a named "
                       "checkpoint", f->path);
    else if (!rc && !found)
        rc = zinf_fail(st, -ENOENT, "%s holds no valid record%s", f->path, damaged ? ": what is there is damaged" : "");
    if (rc)
        zinf_record_free(out);
    close_file(f);
    return rc;
}
