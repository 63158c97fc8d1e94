/* zinf/config/json_number.h - parses one number of a JSON text. Private to the reader. */
#ifndef ZINF_CONFIG_JSON_NUMBER_H_
#define ZINF_CONFIG_JSON_NUMBER_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/config/json_parser.h"

#ifdef __cplusplus
extern "C" {
#endif

/* p is at the number's first character, and behind its last one afterwards. *integer is its exact value where
 * *is_integer. Returns 0 or -EINVAL. */
int zinf_json_parse_number(struct zinf_json_parser *ps, double *number, bool *is_integer, int64_t *integer);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_NUMBER_H_ */
