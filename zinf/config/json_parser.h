/* zinf/config/json_parser.h - a JSON text while it is parsed: the place in it, the space between values, and the
 * messages. Private to the reader.
 *
 * Columns count characters. Whoever moves p over bytes that may not be ASCII keeps nr_continuation, whoever moves it
 * over a line break keeps line and line_start; everything here does. */
#ifndef ZINF_CONFIG_JSON_PARSER_H_
#define ZINF_CONFIG_JSON_PARSER_H_

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/config/json_arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_json;

struct zinf_json_parser {
    const char *p, *end;
    const char *line_start;
    uint32_t line;
    uint32_t nr_continuation;      /* bytes since line_start that begin no character */
    uint32_t depth;
    bool     relaxed;
    const char *name;
    struct zinf_status *st;
    struct zinf_json_chunk *arena;
    locale_t c_locale;
    struct zinf_json *stack;       /* items of the arrays and objects that are still open */
    uint32_t nr_stack, cap_stack;
};

/* Checks the whole text from p on, and goes back: afterwards every byte is part of a character and none is NUL. */
int zinf_json_check_text(struct zinf_json_parser *ps);
/* Blanks, line breaks and, when relaxed, comments. */
int zinf_json_skip_space(struct zinf_json_parser *ps);
/* The column of a place on the line p is on. */
uint32_t zinf_json_column(const struct zinf_json_parser *ps, const char *at);

/* Each fills the status with "name:line:column: what" and returns its -errno: -EINVAL, -ENOMEM for the memory. */
int zinf_json_fail_at(struct zinf_json_parser *ps, uint32_t line, uint32_t column, const char *fmt, ...)
    ZINF_PRINTF(4, 5);
int zinf_json_fail_here(struct zinf_json_parser *ps, const char *what);
int zinf_json_fail_expected(struct zinf_json_parser *ps, const char *expected);    /* and says what stands at p */
int zinf_json_fail_memory(struct zinf_json_parser *ps);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_PARSER_H_ */
