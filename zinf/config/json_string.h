/* zinf/config/json_string.h - parses one string of a JSON text. Private to the reader. */
#ifndef ZINF_CONFIG_JSON_STRING_H_
#define ZINF_CONFIG_JSON_STRING_H_

#include <stddef.h>

#include "zinf/config/json_parser.h"

#ifdef __cplusplus
extern "C" {
#endif

/* p is at the opening quote, and behind the closing one afterwards. *out is decoded, NUL-terminated, in the arena; it
 * is never longer than what stands in the text. Returns 0, -EINVAL, -ENOMEM. */
int zinf_json_parse_string(struct zinf_json_parser *ps, const char **out, size_t *nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_STRING_H_ */
