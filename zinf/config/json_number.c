/* zinf/config/json_number.c - numbers: the grammar, the nearest double, and the exact integer where there is one. */
#define _GNU_SOURCE
#include "zinf/config/json_number.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_CHARS_MAX = 1024 };

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && isdigit((unsigned char)*p))
        p++;
    return p;
}

/* Whether the number in s (checked grammar) is a whole number that fits int64: decided on the digits, never rounded. */
static bool exact_integer(const char *s, int64_t *out)
{
    bool negative = *s == '-', point = false;
    int64_t scale = 0, v = 0;      /* the value is v x 10^scale, read digit by digit; v <= 0 */
    int64_t zeros = 0;             /* zeros read but not yet put in v */

    for (s += negative; *s && *s != 'e' && *s != 'E'; s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        scale -= point;
        if (*s == '0') {
            zeros += v != 0;
            continue;
        }
        for (; zeros > 0; zeros--)
            if (__builtin_mul_overflow(v, 10, &v))
                return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s - '0', &v))
            return false;
    }
    scale += zeros;
    if (v == 0) {
        *out = 0;
        return true;
    }
    if (*s) {
        bool minus = *++s == '-';
        int64_t e = 0;

        for (s += *s == '-' || *s == '+'; *s; s++)
            e = e < 100000 ? e * 10 + (*s - '0') : e;   /* more is past any int64 and any number of digits we read */
        scale += minus ? -e : e;
    }
    if (scale < 0)
        return false;
    for (; scale > 0; scale--)
        if (__builtin_mul_overflow(v, 10, &v))
            return false;
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

int zinf_json_parse_number(struct zinf_json_parser *ps, double *number, bool *is_integer, int64_t *integer)
{
    const char *p = ps->p, *digits;
    char buf[NUMBER_CHARS_MAX + 1];
    size_t n;

    p += *p == '-';
    digits = p;
    p = skip_digits(p, ps->end);
    if (p == digits)
        return zinf_json_fail_here(ps, "a number needs a digit here");
    if (*digits == '0' && p - digits > 1)
        return zinf_json_fail_here(ps, "a number must not start with 0");
    if (p < ps->end && *p == '.') {
        digits = ++p;
        p = skip_digits(p, ps->end);
        if (p == digits)
            return zinf_json_fail_here(ps, "a number needs a digit after its point");
    }
    if (p < ps->end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < ps->end && (*p == '+' || *p == '-');
        digits = p;
        p = skip_digits(p, ps->end);
        if (p == digits)
            return zinf_json_fail_here(ps, "a number needs a digit in its exponent");
    }
    if (p < ps->end && (isalnum((unsigned char)*p) || *p == '.' || *p == '+' || *p == '-' || *p == '_'))
        return zinf_json_fail_here(ps, "this is not a number: a text needs double quotes");
    n = (size_t)(p - ps->p);
    if (n > NUMBER_CHARS_MAX)
        return zinf_json_fail_here(ps, "a number of more than 1024 characters");
    memcpy(buf, ps->p, n);
    buf[n] = '\0';
    *number = strtod_l(buf, NULL, ps->c_locale);
    if (!isfinite(*number))
        return zinf_json_fail_here(ps, "the number is too large for a double");
    *is_integer = exact_integer(buf, integer);
    ps->p = p;
    return 0;
}
