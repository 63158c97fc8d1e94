/* io/cut.c - where one request of a transfer begins and ends: whole blocks directly, the rest by a bounce buffer. */
#include "io/cut.h"

#include "zinf/base/align.h"

struct zinf_io_cut zinf_io_cut_next(const struct zinf_file *file, const void *buf, size_t nbytes, uint64_t off_bytes,
                                    size_t request_nbytes)
{
    uint64_t block = file->direct ? zinf_max_u64(file->off_align, 1) : 1;
    uint64_t mem = file->direct ? zinf_max_u64(file->mem_align, 1) : 1;
    uint64_t both = zinf_max_u64(block, mem);     /* powers of two: a multiple of both */
    uint64_t end = off_bytes + nbytes, head = zinf_align_up(off_bytes, block) - off_bytes, limit;
    bool aligned = ((uintptr_t)buf + head) % mem == 0;
    struct zinf_io_cut c = { .start_bytes = off_bytes };

    if (head == 0 && aligned && nbytes >= block) {
        limit = zinf_max_u64(zinf_align_down(request_nbytes, both), both);
        c.total_nbytes = c.want_nbytes = (size_t)zinf_min_u64(limit, zinf_align_down(nbytes, block));
        return c;
    }
    /* A head or a tail of a transfer that is aligned otherwise is one block; a buffer that never will be fills the
     * bounce buffer each time. */
    c.bounce = true;
    c.start_bytes = zinf_align_down(off_bytes, block);
    limit = aligned ? block : zinf_align_down(ZINF_IO_BOUNCE_NBYTES, block);
    c.total_nbytes = (size_t)zinf_min_u64(limit, zinf_align_up(end, block) - c.start_bytes);
    c.want_off = (size_t)(off_bytes - c.start_bytes);
    c.want_nbytes = (size_t)zinf_min_u64(c.total_nbytes - c.want_off, nbytes);
    return c;
}
