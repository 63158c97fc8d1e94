/* zinf/base/status.h - how a failure is told: an -errno for the program, one line for the person.
 *
 * A function that can fail for a reason a user can act on takes a struct zinf_status and fills it once, where the
 * reason is known. Threads: a status belongs to the caller. */
#ifndef ZINF_BASE_STATUS_H_
#define ZINF_BASE_STATUS_H_

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ZINF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ZINF_PRINTF(fmt, args)
#endif

struct zinf_status {
    int  rc;           /* 0 or -errno */
    char text[512];    /* one line, no newline, its middle left out when too long: what is wrong and
                        * what to change; "" when rc is 0 */
};

/* Fills st (NULL is fine) and returns rc. The first failure is kept: a status that already holds one is unchanged. */
int zinf_fail(struct zinf_status *st, int rc, const char *fmt, ...) ZINF_PRINTF(3, 4);
int zinf_vfail(struct zinf_status *st, int rc, const char *fmt, va_list ap);
/* One line of at most nbytes (256 or more) with its NUL, whatever the names in it hold. One that is too long loses its
 * middle: the reason stands at the end. */
void zinf_line(char *out, size_t nbytes, const char *fmt, va_list ap);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_STATUS_H_ */
