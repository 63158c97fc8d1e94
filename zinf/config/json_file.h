/* zinf/config/json_file.h - the text of a JSON file, and how long one may be. Private to the reader. */
#ifndef ZINF_CONFIG_JSON_FILE_H_
#define ZINF_CONFIG_JSON_FILE_H_

#include <stddef.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_JSON_TEXT_NBYTES_MAX ((size_t)1 << 30)     /* keeps every count and line in 32 bits */

/* -EFBIG, with the line about it, when nbytes of the text called name are too many; else 0. */
int zinf_json_check_nbytes(const char *name, size_t nbytes, struct zinf_status *st);
/* The whole file, which may be a pipe, into *text, owned by the caller; NULL on failure. Returns 0, -EFBIG, -ENOMEM, or
 * what open(2) and read(2) said. */
int zinf_json_read_text(const char *path, char **text, size_t *nbytes, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_FILE_H_ */
