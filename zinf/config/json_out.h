/* zinf/config/json_out.h - writing JSON: a small buffered writer that escapes, and prints numbers so that they read
 * back exactly.
 *
 * Start from a zeroed struct. The text is one line without spaces. After a failure (out of memory) every call does
 * nothing, so that `failed` need only be looked at once, at the end. Threads: a writer belongs to the thread that uses
 * it. */
#ifndef ZINF_CONFIG_JSON_OUT_H_
#define ZINF_CONFIG_JSON_OUT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_json_out { char *text; size_t nbytes, cap; bool failed; bool comma; };
void zinf_json_open_object(struct zinf_json_out *o, const char *key);    /* key NULL in arrays and at the root */
void zinf_json_close_object(struct zinf_json_out *o);
void zinf_json_open_array(struct zinf_json_out *o, const char *key);
void zinf_json_close_array(struct zinf_json_out *o);
/* Bytes that are not UTF-8 become U+FFFD. A NULL value writes null. */
void zinf_json_put_string(struct zinf_json_out *o, const char *key, const char *value);
/* The shortest form that reads back as the same double; null when it is not finite, for which JSON has no word. */
void zinf_json_put_number(struct zinf_json_out *o, const char *key, double value);
void zinf_json_put_integer(struct zinf_json_out *o, const char *key, int64_t value);
void zinf_json_put_bool(struct zinf_json_out *o, const char *key, bool value);
void zinf_json_put_null(struct zinf_json_out *o, const char *key);
/* Forgets the text and keeps the memory, for the next line. */
void zinf_json_out_reset(struct zinf_json_out *o);
void zinf_json_out_free(struct zinf_json_out *o);      /* text is NUL-terminated (NULL before the first write) */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_OUT_H_ */
