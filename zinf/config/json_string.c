/* zinf/config/json_string.c - strings: escapes, surrogates, and what a string must not hold. */
#include "zinf/config/json_string.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "zinf/config/json_arena.h"
#include "zinf/config/utf8.h"

/* Four hexadecimal digits at p into *out. */
static bool parse_hex4(struct zinf_json_parser *ps, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, ps->p++) {
        char c = ps->p < ps->end ? *ps->p : '\0';

        if (!isxdigit((unsigned char)c))
            return false;
        *out = *out * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return true;
}

/* After "\u": one code, which may take a second "\u". */
static int parse_unicode(struct zinf_json_parser *ps, uint32_t column, uint32_t *out)
{
    uint32_t low;

    if (!parse_hex4(ps, out))
        return zinf_json_fail_at(ps, ps->line, column, "\\u needs four hexadecimal digits");
    if (*out == 0)
        return zinf_json_fail_at(ps, ps->line, column, "the character \\u0000 is not allowed");
    if (*out < 0xd800 || *out > 0xdfff)
        return 0;
    if (*out < 0xdc00 && ps->end - ps->p > 1 && ps->p[0] == '\\' && ps->p[1] == 'u') {
        ps->p += 2;
        if (!parse_hex4(ps, &low))
            return zinf_json_fail_at(ps, ps->line, column, "\\u needs four hexadecimal digits");
        if (low >= 0xdc00 && low <= 0xdfff) {
            *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
            return 0;
        }
    }
    return zinf_json_fail_at(ps, ps->line, column, "a lone surrogate: \\ud800 to \\udfff come in pairs");
}

static int parse_escape(struct zinf_json_parser *ps, char **out)
{
    static const char letter[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    uint32_t column = zinf_json_column(ps, ps->p);
    const char *at;
    char c;

    ps->p++;
    c = ps->p < ps->end ? *ps->p : '\0';
    if (c == 'u') {
        uint32_t code;
        int rc;

        ps->p++;
        rc = parse_unicode(ps, column, &code);
        if (!rc)
            *out += zinf_utf8_encode(code, *out);
        return rc;
    }
    at = c ? strchr(letter, c) : NULL;
    if (!at)
        return zinf_json_fail_at(ps, ps->line, column,
                                 "unknown escape in a string: use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX");
    *(*out)++ = plain[at - letter];
    ps->p++;
    return 0;
}

int zinf_json_parse_string(struct zinf_json_parser *ps, const char **out, size_t *nbytes)
{
    uint32_t column = zinf_json_column(ps, ps->p);
    const char *close = ++ps->p;
    char *text, *to;

    while (close < ps->end && *close != '"' && (unsigned char)*close >= 0x20)
        close += *close == '\\' && ps->end - close > 1 ? 2 : 1;
    if (close >= ps->end)
        return zinf_json_fail_at(ps, ps->line, column, "the string that starts here has no end");
    text = to = zinf_json_arena_alloc(&ps->arena, (size_t)(close - ps->p) + 1);
    if (!text)
        return zinf_json_fail_memory(ps);
    while (*ps->p != '"') {
        if (*ps->p == '\n' || *ps->p == '\r')
            return zinf_json_fail_at(ps, ps->line, column, "the string that starts here has no end on its line");
        if ((unsigned char)*ps->p < 0x20)
            return zinf_json_fail_here(ps, "a control character in a string: write it as an escape");
        if (*ps->p == '\\') {
            int rc = parse_escape(ps, &to);

            if (rc)
                return rc;
            continue;
        }
        ps->nr_continuation += (*ps->p & 0xc0) == 0x80;
        *to++ = *ps->p++;
    }
    ps->p++;
    *to = '\0';
    *out = text;
    *nbytes = (size_t)(to - text);
    return 0;
}
