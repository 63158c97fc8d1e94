/* io/mem_io.h - the store behind the mem backend: file contents in RAM, owned by whoever made it.
 *
 * Queues that share a store see the same bytes, as does a file that is closed and opened again: contents are keyed by
 * device, inode and birth time. Bytes not written yet are those of the file itself, so a file that was preallocated on
 * disk reads as zeros; nothing is ever written to the file. Threads: a store may be used by any queues at once. */
#ifndef ZINF_IO_MEM_IO_H_
#define ZINF_IO_MEM_IO_H_

#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_io_mem;

/* max_nbytes bounds the contents (a write past it is -ENOSPC); 0 = no bound. Returns 0 or -ENOMEM. */
int zinf_io_mem_create(uint64_t max_nbytes, struct zinf_io_mem **out, struct zinf_status *st);
void zinf_io_mem_destroy(struct zinf_io_mem *mem);      /* NULL is fine; no queue may use it any more */
uint64_t zinf_io_mem_nbytes(struct zinf_io_mem *mem);   /* held now */

/* struct zinf_io_opts.arg. NULL, or a NULL store: one of the queue's own, gone when the queue is closed. */
struct zinf_io_mem_opts {
    struct zinf_io_mem *store;      /* borrowed until the queue is closed */
};

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_MEM_IO_H_ */
