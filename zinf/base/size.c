/* zinf/base/size.c - exact decimal arithmetic on byte counts; no floating point decides a size. */
#include "zinf/base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <strings.h>

#include "zinf/base/align.h"

enum { FRACTION_DIGITS_MAX = 18 };   /* 10^18 fits in 64 bits */

static const struct {
    const char *name;
    uint64_t    nbytes;
} units[] = {
    { "", 1 },           { "B", 1 },
    { "KB", 1000ull },   { "MB", 1000000ull },  { "GB", 1000000000ull }, { "TB", 1000000000000ull },
    { "KiB", 1ull << 10 }, { "MiB", 1ull << 20 }, { "GiB", 1ull << 30 }, { "TiB", 1ull << 40 },
    { "K", 1ull << 10 },   { "M", 1ull << 20 },   { "G", 1ull << 30 },   { "T", 1ull << 40 },
};

static const char *skip_space(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

/* Decimal digits at *p into *out, moving *p. Returns 0, -EINVAL (no digit) or -ERANGE. */
static int parse_digits(const char **p, uint64_t *out)
{
    bool overflow = false;
    const char *start = *p;
    uint64_t v = 0;

    for (; isdigit((unsigned char)**p); (*p)++)
        if (!zinf_mul_u64(v, 10, &v) || !zinf_add_u64(v, (uint64_t)(**p - '0'), &v))
            overflow = true;
    *out = v;
    if (*p == start)
        return -EINVAL;
    return overflow ? -ERANGE : 0;
}

/* The digits after the point, as numerator / denominator. */
static int parse_fraction(const char **p, uint64_t *num, uint64_t *den)
{
    const char *start = *p;
    int rc = parse_digits(p, num);

    if (rc || *p - start > FRACTION_DIGITS_MAX)
        return -EINVAL;
    *den = 1;
    for (const char *q = start; q < *p; q++)
        *den *= 10;
    return 0;
}

static int parse_unit(const char *p, uint64_t *out)
{
    char name[4] = "";
    size_t n = 0;

    for (; isalpha((unsigned char)p[n]); n++) {
        if (n == sizeof(name) - 1)
            return -EINVAL;
        name[n] = p[n];
    }
    if (*skip_space(p + n) != '\0')
        return -EINVAL;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcasecmp(name, units[i].name) == 0) {
            *out = units[i].nbytes;
            return 0;
        }
    }
    return -EINVAL;
}

int zinf_size_parse(const char *text, uint64_t *out)
{
    const char *p = skip_space(text);
    uint64_t whole, num = 0, den = 1, unit, v;
    int whole_rc = parse_digits(&p, &whole);
    bool fraction = *p == '.';

    if (whole_rc == -EINVAL)
        return -EINVAL;
    if (fraction) {
        p++;
        if (parse_fraction(&p, &num, &den))
            return -EINVAL;
    }
    if (parse_unit(skip_space(p), &unit) || (fraction && unit == 1))   /* there is no part of a byte */
        return -EINVAL;
    /* num < 10^18 and unit <= 2^40 need more than 64 bits. */
    if (whole_rc || !zinf_mul_u64(whole, unit, &v) ||
        !zinf_add_u64(v, (uint64_t)((unsigned __int128)num * unit / den), &v))
        return -ERANGE;
    *out = v;
    return 0;
}

char *zinf_size_format(uint64_t nbytes, char *buf, size_t buf_nbytes)
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double v = (double)nbytes;
    int i = 0;

    /* 1023.95 would print as 1024.0 */
    while (i < 6 && v >= (i == 0 ? 1024.0 : 1023.95)) {
        v /= 1024;
        i++;
    }
    snprintf(buf, buf_nbytes, i == 0 ? "%.0f %s" : "%.1f %s", v, names[i]);
    return buf;
}
