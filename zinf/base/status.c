/* zinf/base/status.c - the first failure, kept with its one line. */
#include "zinf/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP "..."
/* Of a line that is too long, as much of its start is kept; the rest is its end, where the reason stands. */
#define HEAD_NBYTES 160u

static int is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;       /* not the first byte of a character */
}

/* Names may be as long as paths can be: what they push out must not be the reason. */
static void shorten(const char *line, size_t nbytes, char *out, size_t out_nbytes)
{
    size_t head = HEAD_NBYTES, at = nbytes - (out_nbytes - 1 - HEAD_NBYTES - strlen(GAP));

    while (head && is_inside(line[head]))
        head--;
    while (at < nbytes && is_inside(line[at]))
        at++;
    memcpy(out, line, head);
    snprintf(out + head, out_nbytes - head, "%s%s", GAP, line + at);
}

void zinf_line(char *out, size_t out_nbytes, const char *fmt, va_list ap)
{
    va_list again;
    char *line;
    int n;

    va_copy(again, ap);
    n = vsnprintf(out, out_nbytes, fmt, ap);
    if (n < 0)
        out[0] = '\0';
    line = n > 0 && (size_t)n >= out_nbytes ? malloc((size_t)n + 1) : NULL;
    if (line && vsnprintf(line, (size_t)n + 1, fmt, again) == n)     /* without memory, the start must do */
        shorten(line, (size_t)n, out, out_nbytes);
    free(line);
    va_end(again);
    /* Names from outside may hold anything: a line break, or what drives a terminal. */
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
}

int zinf_vfail(struct zinf_status *st, int rc, const char *fmt, va_list ap)
{
    if (!st || st->rc != 0)
        return rc;
    st->rc = rc;
    zinf_line(st->text, sizeof(st->text), fmt, ap);
    return rc;
}

int zinf_fail(struct zinf_status *st, int rc, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    rc = zinf_vfail(st, rc, fmt, ap);
    va_end(ap);
    return rc;
}
