/* zinf/config/json.h - the JSON reader used for every JSON zinf reads: values know their line, column and path.
 *
 * Strict RFC 8259, plus what DeepSpeed's files use when `relaxed`: comments (//, #, and C style), trailing commas. Duplicate
 * keys are an error. Depth is limited (64), text must be UTF-8 without NUL. Integers that fit int64 keep full precision; a
 * number is also an integer when its value is one (5e8). Memory is one arena, linear in the text.
 * Threads: a document is immutable once read. */
#ifndef ZINF_CONFIG_JSON_H_
#define ZINF_CONFIG_JSON_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_json_type { ZINF_JSON_NULL, ZINF_JSON_BOOL, ZINF_JSON_NUMBER, ZINF_JSON_STRING, ZINF_JSON_ARRAY, ZINF_JSON_OBJECT };

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

/* name is for messages ("ds.json"). On failure st holds "name:line:column: what is wrong". Returns 0, -EINVAL, -ENOMEM. */
int  zinf_json_parse(const char *text, size_t nbytes, const char *name, bool relaxed, struct zinf_json_doc *out,
                     struct zinf_status *st);
int  zinf_json_read(const char *path, bool relaxed, struct zinf_json_doc *out, struct zinf_status *st);
void zinf_json_free(struct zinf_json_doc *doc);                      /* safe on a zeroed one */
const struct zinf_json *zinf_json_get(const struct zinf_json *object, const char *key);   /* NULL if absent or no object */
/* "zero_optimization.offload_param.device" or "items[3]" of v, into buf; returns buf. */
char *zinf_json_path(const struct zinf_json *v, char *buf, size_t nbytes);
const char *zinf_json_type_name(enum zinf_json_type t);

/* The name in names[] with the smallest edit distance to word, or NULL when none is near enough to be meant. */
const char *zinf_nearest(const char *word, const char *const *names, uint32_t nr_names);

/* Writing: a small buffered writer that escapes and prints numbers so that they read back exactly. */
struct zinf_json_out { char *text; size_t nbytes, cap; bool failed; bool comma; };
void zinf_json_open_object(struct zinf_json_out *o, const char *key);    /* key NULL in arrays and at the root */
void zinf_json_close_object(struct zinf_json_out *o);
void zinf_json_open_array(struct zinf_json_out *o, const char *key);
void zinf_json_close_array(struct zinf_json_out *o);
void zinf_json_put_string(struct zinf_json_out *o, const char *key, const char *value);
void zinf_json_put_number(struct zinf_json_out *o, const char *key, double value);
void zinf_json_put_integer(struct zinf_json_out *o, const char *key, int64_t value);
void zinf_json_put_bool(struct zinf_json_out *o, const char *key, bool value);
void zinf_json_put_null(struct zinf_json_out *o, const char *key);
void zinf_json_out_free(struct zinf_json_out *o);      /* text is NUL-terminated; failed = out of memory on the way */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_H_ */
