/* zinf/config/json_out.c - the JSON writer: one growing buffer. */
#define _GNU_SOURCE
#include "zinf/config/json_out.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/config/utf8.h"

static void put(struct zinf_json_out *o, const char *text, size_t nbytes)
{
    if (o->failed)
        return;
    if (o->cap - o->nbytes <= nbytes) {   /* one byte more for the NUL */
        size_t cap = o->cap ? o->cap : 256;
        char *grown;

        while (cap - o->nbytes <= nbytes && cap <= SIZE_MAX / 2)
            cap *= 2;
        grown = cap - o->nbytes > nbytes ? realloc(o->text, cap) : NULL;
        if (!grown) {
            o->failed = true;
            return;
        }
        o->text = grown;
        o->cap = cap;
    }
    memcpy(o->text + o->nbytes, text, nbytes);
    o->nbytes += nbytes;
    o->text[o->nbytes] = '\0';
}

static void put_escaped(struct zinf_json_out *o, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *at = strchr(plain, c);
    char buf[8];
    int n = at ? snprintf(buf, sizeof(buf), "\\%c", letter[at - plain]) : snprintf(buf, sizeof(buf), "\\u%04x", c);

    put(o, buf, (size_t)n);
}

static void put_quoted(struct zinf_json_out *o, const char *s)
{
    const char *end = s + strlen(s);
    const char *from = s;

    put(o, "\"", 1);
    while (s < end) {
        unsigned char c = (unsigned char)*s;
        size_t n = zinf_utf8_nbytes(s, (size_t)(end - s));

        if (n > 0 && c >= 0x20 && c != 0x7f && c != '"' && c != '\\') {
            s += n;
            continue;
        }
        put(o, from, (size_t)(s - from));
        if (n == 0)
            put(o, "\xef\xbf\xbd", 3);
        else
            put_escaped(o, c);
        from = ++s;
    }
    put(o, from, (size_t)(s - from));
    put(o, "\"", 1);
}

static void start_value(struct zinf_json_out *o, const char *key)
{
    if (o->comma)
        put(o, ",", 1);
    if (key) {
        put_quoted(o, key);
        put(o, ":", 1);
    }
    o->comma = true;
}

static void open_with(struct zinf_json_out *o, const char *key, const char *bracket)
{
    start_value(o, key);
    put(o, bracket, 1);
    o->comma = false;
}

static void close_with(struct zinf_json_out *o, const char *bracket)
{
    put(o, bracket, 1);
    o->comma = true;
}

void zinf_json_open_object(struct zinf_json_out *o, const char *key) { open_with(o, key, "{"); }
void zinf_json_close_object(struct zinf_json_out *o) { close_with(o, "}"); }
void zinf_json_open_array(struct zinf_json_out *o, const char *key) { open_with(o, key, "["); }
void zinf_json_close_array(struct zinf_json_out *o) { close_with(o, "]"); }

void zinf_json_put_string(struct zinf_json_out *o, const char *key, const char *value)
{
    if (!value) {
        zinf_json_put_null(o, key);
        return;
    }
    start_value(o, key);
    put_quoted(o, value);
}

void zinf_json_put_number(struct zinf_json_out *o, const char *key, double value)
{
    locale_t c, saved;
    char buf[40];

    if (!isfinite(value)) {
        zinf_json_put_null(o, key);
        return;
    }
    c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!c) {
        o->failed = true;
        return;
    }
    saved = uselocale(c);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof(buf), "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
    uselocale(saved);
    freelocale(c);
    start_value(o, key);
    put(o, buf, strlen(buf));
}

void zinf_json_put_integer(struct zinf_json_out *o, const char *key, int64_t value)
{
    char buf[24];
    int n = snprintf(buf, sizeof(buf), "%" PRId64, value);

    start_value(o, key);
    put(o, buf, (size_t)n);
}

void zinf_json_put_bool(struct zinf_json_out *o, const char *key, bool value)
{
    start_value(o, key);
    put(o, value ? "true" : "false", value ? 4 : 5);
}

void zinf_json_put_null(struct zinf_json_out *o, const char *key)
{
    start_value(o, key);
    put(o, "null", 4);
}

void zinf_json_out_reset(struct zinf_json_out *o)
{
    o->nbytes = 0;
    o->comma = o->failed = false;
    if (o->text)
        o->text[0] = '\0';
}

void zinf_json_out_free(struct zinf_json_out *o)
{
    free(o->text);
    *o = (struct zinf_json_out){ 0 };
}
