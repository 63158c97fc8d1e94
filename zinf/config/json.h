/* zinf/config/json.h - the JSON reader used for every JSON zinf reads: values know their line, column and path.
 *
 * Strict RFC 8259, plus what DeepSpeed's files use when `relaxed`: comments (//, #, and C style), trailing commas.
 * Duplicate keys are an error. Depth is limited (64), text must be UTF-8 without NUL, neither raw nor as \u0000 (a
 * string can be used as a C string); a byte order mark at the start is skipped. Integers that fit int64 keep full
 * precision; a number is also an integer when its value is one (5e8, 1.50e1). A number too large for a double is an
 * error. Memory is one arena, linear in the text. Columns count characters, not bytes. No locale changes what is read
 * or written.
 * Threads: a document is immutable once read. */
#ifndef ZINF_CONFIG_JSON_H_
#define ZINF_CONFIG_JSON_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/config/json_out.h"
#include "zinf/config/nearest.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_json_type { ZINF_JSON_NULL, ZINF_JSON_BOOL, ZINF_JSON_NUMBER, ZINF_JSON_STRING, ZINF_JSON_ARRAY,
                      ZINF_JSON_OBJECT };

struct zinf_json {
    enum zinf_json_type type;
    uint32_t line, column;          /* of the value's first character, from 1 */
    bool     boolean;
    bool     is_integer;            /* number: integer holds its exact value */
    int64_t  integer;
    double   number;
    const char *string;             /* string: decoded UTF-8, NUL-terminated */
    size_t   string_nbytes;
    uint32_t nr_items;              /* array, object */
    struct zinf_json *items;        /* contiguous */
    const char *key;                /* member of an object: its name, else NULL */
    uint32_t key_line, key_column;
    const struct zinf_json *parent; /* NULL at the root */
};

struct zinf_json_doc { struct zinf_json *root; char *name; void *arena; };

/* text is borrowed for the call. name is for messages ("ds.json"). On success *out owns its memory until
 * zinf_json_free; on failure *out is zeroed and st holds "name:line:column: what is wrong". Returns 0, -EINVAL, -EFBIG
 * (over 1 GiB), -ENOMEM. */
int  zinf_json_parse(const char *text, size_t nbytes, const char *name, bool relaxed, struct zinf_json_doc *out,
                     struct zinf_status *st);
/* As zinf_json_parse with path as the name, or what open(2) and read(2) said. */
int  zinf_json_read(const char *path, bool relaxed, struct zinf_json_doc *out, struct zinf_status *st);
void zinf_json_free(struct zinf_json_doc *doc);                      /* safe on a zeroed one */
/* NULL if absent or no object */
const struct zinf_json *zinf_json_get(const struct zinf_json *object, const char *key);
/* "zero_optimization.offload_param.device" or "items[3]" of v, into buf (cut to fit); "" for the root; returns buf. A
 * key that is not a plain word is quoted: weight_map["model.norm.weight"]. */
char *zinf_json_path(const struct zinf_json *v, char *buf, size_t nbytes);
const char *zinf_json_type_name(enum zinf_json_type t);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_H_ */
