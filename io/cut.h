/* io/cut.h - where one request of a transfer begins and ends, given what the file asks of addresses and offsets. */
#ifndef ZINF_IO_CUT_H_
#define ZINF_IO_CUT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest block and memory alignment that can be served, the size of a bounce buffer, and its alignment. */
#define ZINF_IO_BOUNCE_NBYTES 65536u

/* The file range [start_bytes, start_bytes + total_nbytes), of which [want_off, want_off + want_nbytes) is the
 * caller's. Without bounce the two are the same. */
struct zinf_io_cut {
    uint64_t start_bytes;
    size_t   total_nbytes, want_off, want_nbytes;
    bool     bounce;
};

/* The first request of moving nbytes (> 0) between buf and off_bytes, at most request_nbytes long (one block at
 * least). */
struct zinf_io_cut zinf_io_cut_next(const struct zinf_file *file, const void *buf, size_t nbytes, uint64_t off_bytes,
                                    size_t request_nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_CUT_H_ */
