/* io/message.h - the one line a user gets about a transfer that failed. Private to io. */
#ifndef ZINF_IO_MESSAGE_H_
#define ZINF_IO_MESSAGE_H_

#include <stddef.h>
#include <stdint.h>

#include "io/backend.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *zinf_io_dir_name(enum zinf_io_dir dir);
/* Fills line with operation, path, place and the reason: why, or when it is NULL errno's text with what to do about it.
 * Returns rc, which is -errno. A SYNC has no place. */
int zinf_io_message(struct zinf_status *line, enum zinf_io_dir dir, const char *path, uint64_t off_bytes, size_t nbytes,
                    int rc, const char *why);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_MESSAGE_H_ */
