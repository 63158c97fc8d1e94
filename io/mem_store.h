/* io/mem_store.h - reads and writes on the contents that the mem backend holds. */
#ifndef ZINF_IO_MEM_STORE_H_
#define ZINF_IO_MEM_STORE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/mem_io.h"

/* Bytes moved (short at the end of the file), or -errno. fd names the file and provides what was never written. */
int64_t zinf_io_mem_transfer(struct zinf_io_mem *mem, bool write, int fd, void *buf, size_t nbytes, uint64_t off_bytes);

#endif /* ZINF_IO_MEM_STORE_H_ */
