/* zinf/checkpoint/sealed.h - a small JSON file with a seal: a flipped bit is found when it is read.
 *
 *   {"crc32c":"e3069283","content":{...}}        the CRC-32C is over the bytes of the content's value
 */
#ifndef ZINF_CHECKPOINT_SEALED_H_
#define ZINF_CHECKPOINT_SEALED_H_

#include "zinf/base/status.h"
#include "zinf/config/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes dir/name whole or not at all (temporary name, flush, rename, flush of the folder); content is one JSON value. */
int zinf_sealed_write(const char *dir, const char *name, const char *content, struct zinf_status *st);
/* Reads and checks dir/name; *content points into doc. Returns 0, -ENOENT, -EINVAL or -EBADMSG (the seal does not fit), with a
 * line that names the file. */
int zinf_sealed_read(const char *dir, const char *name, struct zinf_json_doc *doc, const struct zinf_json **content,
                     struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_SEALED_H_ */
