/* zinf/base/status.c - the first failure, kept with its one line. */
#include "zinf/base/status.h"

#include <stdio.h>
#include <string.h>

int zinf_vfail(struct zinf_status *st, int rc, const char *fmt, va_list ap)
{
    if (!st || st->rc != 0)
        return rc;
    st->rc = rc;
    if (vsnprintf(st->text, sizeof(st->text), fmt, ap) < 0)
        st->text[0] = '\0';
    for (char *p = st->text; *p; p++)   /* names from outside may hold anything; a status is one line */
        if (*p == '\n' || *p == '\r')
            *p = ' ';
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
