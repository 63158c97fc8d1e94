/* zinf/data/file_list.h - the text files of a path: one stream of bytes, file after file in the order of their paths.
 *
 * A folder is read recursively; hidden entries, links, special files and files with a NUL byte in their
 * first 64 KiB are left out and counted. Only names and sizes are kept. Threads: immutable once open;
 * reading is safe from any thread. */
#ifndef ZINF_DATA_FILE_LIST_H_
#define ZINF_DATA_FILE_LIST_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_file_entry {
    char    *path;
    uint64_t nbytes;
    uint64_t off_bytes;          /* of its first byte in the stream */
    int      fd;                 /* -1: opened when read */
};

struct zinf_file_list {
    struct zinf_file_entry *files;
    uint64_t nr_files, cap;
    uint64_t nbytes;             /* of the stream */
    uint64_t nr_hidden, nr_binary, nr_links, nr_special, nr_empty;   /* left out */
};

/* path: a file (taken whatever it holds) or a folder; a link given as path itself is followed. On failure nothing is
 * left to free. Returns 0, -ENOENT and what the system said, -EINVAL when no file is left, -ENOMEM. */
int  zinf_file_list_open(const char *path, struct zinf_file_list *out, struct zinf_status *st);
/* nbytes bytes of the stream from off_bytes. -EIO names a file that changed its size since. */
int zinf_file_list_read(const struct zinf_file_list *l, uint64_t off_bytes, void *out, size_t nbytes,
                        struct zinf_status *st);
void zinf_file_list_close(struct zinf_file_list *l);     /* safe on a zeroed one */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_DATA_FILE_LIST_H_ */
