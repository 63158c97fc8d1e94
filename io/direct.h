/* io/direct.h - what the file system behind a descriptor offers, as tried. */
#ifndef ZINF_IO_DIRECT_H_
#define ZINF_IO_DIRECT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZINF_IO_DEFAULT_ALIGN 4096u     /* when the kernel does not say */
#define ZINF_IO_MAX_ALIGN     65536u    /* the largest block O_DIRECT is tried with */

/* What statx says about direct I/O on fd; false when it says nothing. Both 0 = no direct I/O. */
bool zinf_io_statx_dioalign(int fd, uint32_t *mem_align, uint32_t *off_align);
/* Turns O_DIRECT on for fd and proves it with a block at offset 0: written (the file's first bytes are lost) and read
 * back, or with write = false only read. On failure (-errno) the flag is off again and both alignments are 1. */
int zinf_io_try_direct(int fd, bool write, uint32_t *mem_align, uint32_t *off_align);
void zinf_io_fs_name(int fd, char *out, size_t out_nbytes);
int zinf_io_free_nbytes(int fd, uint64_t *out);

#endif /* ZINF_IO_DIRECT_H_ */
