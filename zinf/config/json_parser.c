/* zinf/config/json_parser.c - lines and columns, spaces and comments, and the parser's messages. */
#define _GNU_SOURCE
#include "zinf/config/json_parser.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "zinf/config/utf8.h"

uint32_t zinf_json_column(const struct zinf_json_parser *ps, const char *at)
{
    return (uint32_t)(at - ps->line_start) - ps->nr_continuation + 1;
}

int zinf_json_fail_at(struct zinf_json_parser *ps, uint32_t line, uint32_t column, const char *fmt, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return zinf_fail(ps->st, -EINVAL, "%s:%u:%u: %s", ps->name, line, column, what);
}

int zinf_json_fail_here(struct zinf_json_parser *ps, const char *what)
{
    return zinf_json_fail_at(ps, ps->line, zinf_json_column(ps, ps->p), "%s", what);
}

int zinf_json_fail_memory(struct zinf_json_parser *ps)
{
    return zinf_fail(ps->st, -ENOMEM, "%s: out of memory while reading it", ps->name);
}

/* What stands at p, for "expected ..., found ...". */
static const char *found(const struct zinf_json_parser *ps, char buf[16])
{
    unsigned char c;

    if (ps->p == ps->end)
        return "the end of the text";
    c = (unsigned char)*ps->p;
    if (c >= 0x80)
        return "a character that is not ASCII";
    if (c < 0x20)
        return c == '\n' || c == '\r' ? "the end of the line" : "a control character";
    snprintf(buf, 16, "'%c'", c);
    return buf;
}

int zinf_json_fail_expected(struct zinf_json_parser *ps, const char *expected)
{
    char buf[16];

    return zinf_json_fail_at(ps, ps->line, zinf_json_column(ps, ps->p), "expected %s, found %s", expected,
                             found(ps, buf));
}

/* Steps over one character, keeping count of lines; "\r\n" is one line break. */
static void step(struct zinf_json_parser *ps)
{
    char c = *ps->p++;

    if (c == '\n' || (c == '\r' && (ps->p == ps->end || *ps->p != '\n'))) {
        ps->line++;
        ps->line_start = ps->p;
        ps->nr_continuation = 0;
    } else if ((c & 0xc0) == 0x80) {
        ps->nr_continuation++;
    }
}

static void skip_line(struct zinf_json_parser *ps)
{
    while (ps->p < ps->end && *ps->p != '\n' && *ps->p != '\r')
        step(ps);
}

static int skip_block(struct zinf_json_parser *ps)
{
    uint32_t line = ps->line, column = zinf_json_column(ps, ps->p);

    for (ps->p += 2; ps->p < ps->end; step(ps)) {
        if (ps->p[0] == '*' && ps->end - ps->p > 1 && ps->p[1] == '/') {
            ps->p += 2;
            return 0;
        }
    }
    return zinf_json_fail_at(ps, line, column, "the comment that starts here has no end");
}

int zinf_json_skip_space(struct zinf_json_parser *ps)
{
    while (ps->p < ps->end) {
        char c = *ps->p;
        char next = ps->end - ps->p > 1 ? ps->p[1] : '\0';

        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            step(ps);
        } else if (c == '#' || (c == '/' && (next == '/' || next == '*'))) {
            if (!ps->relaxed)
                return zinf_json_fail_here(ps, "comments are not allowed in this file");
            if (next == '*' && c == '/') {
                int rc = skip_block(ps);

                if (rc)
                    return rc;
            } else {
                skip_line(ps);
            }
        } else {
            break;
        }
    }
    return 0;
}

int zinf_json_check_text(struct zinf_json_parser *ps)
{
    const char *start = ps->p;
    int rc = 0;

    while (ps->p < ps->end && !rc) {
        size_t n = zinf_utf8_nbytes(ps->p, (size_t)(ps->end - ps->p));

        if (n == 0)
            rc = zinf_json_fail_here(ps, "bytes that are not UTF-8");
        else if (*ps->p == '\0')
            rc = zinf_json_fail_here(ps, "a NUL byte");
        else
            for (; n > 0; n--)
                step(ps);
    }
    ps->p = ps->line_start = start;
    ps->line = 1;
    ps->nr_continuation = 0;
    return rc;
}
