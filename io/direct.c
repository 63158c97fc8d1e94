/* io/direct.c - whether O_DIRECT works on a descriptor, by trying it instead of believing what is announced. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>


/* Where the two answers to DIOALIGN lie in struct statx: part of the kernel's interface since 6.1, and read by place so
 * that headers which are older than the kernel do not hide them. */
#define ZINF_STATX_DIOALIGN 0x2000u
#define ZINF_STATX_DIO_MEM_ALIGN_OFF 0x98u
#define ZINF_STATX_DIO_OFF_ALIGN_OFF 0x9cu

bool zinf_io_statx_dioalign(int fd, uint32_t *mem_align, uint32_t *off_align)
{
    struct statx stx;

    memset(&stx, 0, sizeof(stx));
    if (statx(fd, "", AT_EMPTY_PATH, ZINF_STATX_DIOALIGN, &stx) < 0 || !(stx.stx_mask & ZINF_STATX_DIOALIGN))
        return false;
    memcpy(mem_align, (const char *)&stx + ZINF_STATX_DIO_MEM_ALIGN_OFF, sizeof(*mem_align));
    memcpy(off_align, (const char *)&stx + ZINF_STATX_DIO_OFF_ALIGN_OFF, sizeof(*off_align));
    return true;
}

/* One block at offset 0 through O_DIRECT: written and read back, or (write = false) only read. 0 or -errno. */
static int try_block(int fd, bool write, unsigned char *buf, uint32_t nbytes)
{
    ssize_t n;

    if (write) {
        memset(buf, 0x5a, nbytes);
        do
            n = pwrite(fd, buf, nbytes, 0);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            return -errno;
        if ((size_t)n != nbytes)
            return -EINVAL;
        memset(buf, 0, nbytes);
    }
    do
        n = pread(fd, buf, nbytes, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (!write)
        return 0;
    if ((size_t)n != nbytes)
        return -EINVAL;
    for (uint32_t i = 0; i < nbytes; i++)
        if (buf[i] != 0x5a)
            return -EIO;
    return 0;
}

int zinf_io_try_direct(int fd, bool write, uint32_t *mem_align, uint32_t *off_align)
{
    uint32_t mem = 0, off = 0, first = ZINF_IO_DEFAULT_ALIGN;
    unsigned char *buf = NULL;
    int flags = fcntl(fd, F_GETFL), rc;

    *mem_align = *off_align = 1;
    if (flags < 0)
        return -errno;
    if (zinf_io_statx_dioalign(fd, &mem, &off)) {
        if (off == 0 || mem == 0)
            return -EOPNOTSUPP;
        if ((off & (off - 1)) == 0 && off <= ZINF_IO_MAX_ALIGN)
            first = off;
    }
    if (fcntl(fd, F_SETFL, flags | O_DIRECT) < 0)
        return -errno;
    if (posix_memalign((void **)&buf, ZINF_IO_MAX_ALIGN, 2 * ZINF_IO_MAX_ALIGN) != 0) {
        rc = -ENOMEM;
        goto out;
    }
    /* Larger blocks are tried when the file system refuses what it announced, as drives with 4096-byte sectors under
     * layers that say 512 do. */
    rc = -EINVAL;
    for (uint32_t a = first; a <= ZINF_IO_MAX_ALIGN && rc == -EINVAL; a *= 2) {
        uint32_t m = mem && (mem & (mem - 1)) == 0 && mem <= a ? mem : a;

        rc = try_block(fd, write, buf + m, a);       /* an address that is aligned to m and to no more */
        if (rc == 0) {
            *off_align = a;
            *mem_align = m;
        }
    }
out:
    if (rc)
        (void)fcntl(fd, F_SETFL, flags);
    free(buf);
    return rc;
}

void zinf_io_fs_name(int fd, char *out, size_t out_nbytes)
{
    static const struct { uint64_t magic; const char *name; } known[] = {
        { 0xef53, "ext4" }, { 0x58465342, "xfs" }, { 0x9123683e, "btrfs" }, { 0x01021994, "tmpfs" },
        { 0x794c7630, "overlay" }, { 0x6969, "nfs" }, { 0x2fc12fc1, "zfs" }, { 0x65735546, "fuse" },
        { 0xf2f52010, "f2fs" }, { 0x01021997, "9p" }, { 0xca451a4e, "bcachefs" }, { 0x858458f6, "ramfs" },
        { 0x2011bab0, "exfat" }, { 0x7366746e, "ntfs3" }, { 0x4d44, "vfat" }, { 0xff534d42, "cifs" },
        { 0xfe534d42, "smb2" }, { 0x00c36400, "ceph" }, { 0x0bd00bd0, "lustre" }, { 0x47504653, "gpfs" },
    };
    struct statfs sf;

    if (fstatfs(fd, &sf) < 0) {
        snprintf(out, out_nbytes, "unknown");
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (((uint64_t)sf.f_type & 0xffffffffu) == known[i].magic) {
            snprintf(out, out_nbytes, "%s", known[i].name);
            return;
        }
    snprintf(out, out_nbytes, "0x%llx", (unsigned long long)sf.f_type & 0xffffffffu);
}

int zinf_io_free_nbytes(int fd, uint64_t *out)
{
    struct statvfs vfs;

    if (fstatvfs(fd, &vfs) < 0)
        return -errno;
    *out = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return 0;
}
