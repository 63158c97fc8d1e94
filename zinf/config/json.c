/* zinf/config/json.c - the JSON reader: recursive descent over checked UTF-8, values in one arena. */
#define _GNU_SOURCE
#include "zinf/config/json.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/config/utf8.h"

enum { DEPTH_MAX = 64, NUMBER_CHARS_MAX = 1024, CHUNK_NBYTES_MIN = 1 << 12, CHUNK_NBYTES_MAX = 1 << 20 };
static const size_t text_nbytes_max = (size_t)1 << 30;   /* keeps every count and line in 32 bits */

/* A document's memory: a list of chunks, freed together. */
struct chunk {
    struct chunk *next;
    size_t used, cap;
    max_align_t data[];
};

struct parser {
    const char *p, *end;
    const char *line_start;
    uint32_t line;
    uint32_t nr_continuation;      /* bytes since line_start that begin no character: columns count characters */
    uint32_t depth;
    bool     relaxed;
    const char *name;
    struct zinf_status *st;
    struct chunk *arena;
    locale_t c_locale;
    struct zinf_json *stack;       /* items of the arrays and objects that are still open */
    uint32_t nr_stack, cap_stack;
};

static void *arena_alloc(struct parser *ps, size_t nbytes)
{
    struct chunk *c = ps->arena;
    void *at;

    nbytes = (nbytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!c || c->cap - c->used < nbytes) {
        size_t cap = !c ? CHUNK_NBYTES_MIN : c->cap < CHUNK_NBYTES_MAX / 2 ? c->cap * 2 : CHUNK_NBYTES_MAX;

        if (cap < nbytes)
            cap = nbytes;
        c = malloc(sizeof(*c) + cap);
        if (!c)
            return NULL;
        *c = (struct chunk){ .next = ps->arena, .cap = cap };
        ps->arena = c;
    }
    at = (char *)c->data + c->used;
    c->used += nbytes;
    return at;
}

static void arena_free(struct chunk *c)
{
    while (c) {
        struct chunk *next = c->next;

        free(c);
        c = next;
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static uint32_t column_of(const struct parser *ps, const char *at)
{
    return (uint32_t)(at - ps->line_start) - ps->nr_continuation + 1;
}

static int fail_at(struct parser *ps, uint32_t line, uint32_t column, const char *fmt, ...) ZINF_PRINTF(4, 5);
static int fail_at(struct parser *ps, uint32_t line, uint32_t column, const char *fmt, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return zinf_fail(ps->st, -EINVAL, "%s:%u:%u: %s", ps->name, line, column, what);
}

static int fail_here(struct parser *ps, const char *what)
{
    return fail_at(ps, ps->line, column_of(ps, ps->p), "%s", what);
}

static int fail_memory(struct parser *ps)
{
    return zinf_fail(ps->st, -ENOMEM, "%s: out of memory while reading it", ps->name);
}

/* What stands at p, for "expected ..., found ...". */
static const char *found(const struct parser *ps, char buf[16])
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

static int fail_expected(struct parser *ps, const char *expected)
{
    char buf[16];

    return fail_at(ps, ps->line, column_of(ps, ps->p), "expected %s, found %s", expected, found(ps, buf));
}

/* A key in a message: one line, not too long. */
static const char *show_key(const char *key, char buf[72])
{
    size_t n = strlen(key), keep = n;

    if (n > 64) {
        keep = 60;
        while ((key[keep] & 0xc0) == 0x80)   /* not inside a character */
            keep--;
    }
    for (size_t i = 0; i < keep; i++)
        buf[i] = (unsigned char)key[i] < 0x20 || key[i] == 0x7f ? '?' : key[i];
    strcpy(buf + keep, keep < n ? "..." : "");
    return buf;
}

/* ---- space ------------------------------------------------------------------------------------------------------- */

/* Steps over one character, keeping count of lines; "\r\n" is one line break. */
static void step(struct parser *ps)
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

static void skip_line(struct parser *ps)
{
    while (ps->p < ps->end && *ps->p != '\n' && *ps->p != '\r')
        step(ps);
}

static int skip_block(struct parser *ps)
{
    uint32_t line = ps->line, column = column_of(ps, ps->p);

    for (ps->p += 2; ps->p < ps->end; step(ps)) {
        if (ps->p[0] == '*' && ps->end - ps->p > 1 && ps->p[1] == '/') {
            ps->p += 2;
            return 0;
        }
    }
    return fail_at(ps, line, column, "the comment that starts here has no end");
}

static int skip_space(struct parser *ps)
{
    while (ps->p < ps->end) {
        char c = *ps->p;
        char next = ps->end - ps->p > 1 ? ps->p[1] : '\0';

        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            step(ps);
        } else if (c == '#' || (c == '/' && (next == '/' || next == '*'))) {
            if (!ps->relaxed)
                return fail_here(ps, "comments are not allowed in this file");
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

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* Four hexadecimal digits at p into *out. */
static bool parse_hex4(struct parser *ps, uint32_t *out)
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
static int parse_unicode(struct parser *ps, uint32_t column, uint32_t *out)
{
    uint32_t low;

    if (!parse_hex4(ps, out))
        return fail_at(ps, ps->line, column, "\\u needs four hexadecimal digits");
    if (*out == 0)
        return fail_at(ps, ps->line, column, "the character \\u0000 is not allowed");
    if (*out < 0xd800 || *out > 0xdfff)
        return 0;
    if (*out < 0xdc00 && ps->end - ps->p > 1 && ps->p[0] == '\\' && ps->p[1] == 'u') {
        ps->p += 2;
        if (!parse_hex4(ps, &low))
            return fail_at(ps, ps->line, column, "\\u needs four hexadecimal digits");
        if (low >= 0xdc00 && low <= 0xdfff) {
            *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
            return 0;
        }
    }
    return fail_at(ps, ps->line, column, "a lone surrogate: \\ud800 to \\udfff come in pairs");
}

static int parse_escape(struct parser *ps, char **out)
{
    static const char letter[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    uint32_t column = column_of(ps, ps->p);
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
        return fail_at(ps, ps->line, column,
                       "unknown escape in a string: use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX");
    *(*out)++ = plain[at - letter];
    ps->p++;
    return 0;
}

/* p is at the opening quote. The decoded text is never longer than what stands in the file. */
static int parse_string(struct parser *ps, const char **out, size_t *nbytes)
{
    uint32_t column = column_of(ps, ps->p);
    const char *close = ++ps->p;
    char *text, *to;

    while (close < ps->end && *close != '"' && (unsigned char)*close >= 0x20)
        close += *close == '\\' && ps->end - close > 1 ? 2 : 1;
    if (close >= ps->end)
        return fail_at(ps, ps->line, column, "the string that starts here has no end");
    text = to = arena_alloc(ps, (size_t)(close - ps->p) + 1);
    if (!text)
        return fail_memory(ps);
    while (*ps->p != '"') {
        if (*ps->p == '\n' || *ps->p == '\r')
            return fail_at(ps, ps->line, column, "the string that starts here has no end on its line");
        if ((unsigned char)*ps->p < 0x20)
            return fail_here(ps, "a control character in a string: write it as an escape");
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

/* ---- numbers and words ------------------------------------------------------------------------------------------- */

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

static int parse_number(struct parser *ps, struct zinf_json *v)
{
    const char *p = ps->p, *digits;
    char buf[NUMBER_CHARS_MAX + 1];
    size_t n;

    p += *p == '-';
    digits = p;
    p = skip_digits(p, ps->end);
    if (p == digits)
        return fail_here(ps, "a number needs a digit here");
    if (*digits == '0' && p - digits > 1)
        return fail_here(ps, "a number must not start with 0");
    if (p < ps->end && *p == '.') {
        digits = ++p;
        p = skip_digits(p, ps->end);
        if (p == digits)
            return fail_here(ps, "a number needs a digit after its point");
    }
    if (p < ps->end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < ps->end && (*p == '+' || *p == '-');
        digits = p;
        p = skip_digits(p, ps->end);
        if (p == digits)
            return fail_here(ps, "a number needs a digit in its exponent");
    }
    if (p < ps->end && (isalnum((unsigned char)*p) || *p == '.' || *p == '+' || *p == '-' || *p == '_'))
        return fail_here(ps, "this is not a number: a text needs double quotes");
    n = (size_t)(p - ps->p);
    if (n > NUMBER_CHARS_MAX)
        return fail_here(ps, "a number of more than 1024 characters");
    memcpy(buf, ps->p, n);
    buf[n] = '\0';
    v->type = ZINF_JSON_NUMBER;
    v->number = strtod_l(buf, NULL, ps->c_locale);
    if (!isfinite(v->number))
        return fail_here(ps, "the number is too large for a double");
    v->is_integer = exact_integer(buf, &v->integer);
    ps->p = p;
    return 0;
}

static int parse_word(struct parser *ps, struct zinf_json *v)
{
    static const struct { const char *word; enum zinf_json_type type; bool boolean; const char *hint; } words[] = {
        { "true", ZINF_JSON_BOOL, true, NULL },
        { "false", ZINF_JSON_BOOL, false, NULL },
        { "null", ZINF_JSON_NULL, false, NULL },
        { "True", ZINF_JSON_NULL, false, "write true in lower case" },
        { "False", ZINF_JSON_NULL, false, "write false in lower case" },
        { "None", ZINF_JSON_NULL, false, "write null" },
        { "NaN", ZINF_JSON_NULL, false, "JSON has no NaN" },
        { "Infinity", ZINF_JSON_NULL, false, "JSON has no Infinity" },
    };
    const char *p = ps->p;

    while (p < ps->end && (isalnum((unsigned char)*p) || *p == '_'))
        p++;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i].word) != (size_t)(p - ps->p) || memcmp(words[i].word, ps->p, (size_t)(p - ps->p)) != 0)
            continue;
        if (words[i].hint)
            return fail_here(ps, words[i].hint);
        v->type = words[i].type;
        v->boolean = words[i].boolean;
        ps->p = p;
        return 0;
    }
    return fail_here(ps, "not a JSON value: a text needs double quotes");
}

/* ---- arrays and objects ------------------------------------------------------------------------------------------ */

static int push(struct parser *ps, const struct zinf_json *v)
{
    if (ps->nr_stack == ps->cap_stack) {
        uint32_t cap = ps->cap_stack ? ps->cap_stack * 2 : 64;
        struct zinf_json *grown = realloc(ps->stack, (size_t)cap * sizeof(*grown));

        if (!grown)
            return fail_memory(ps);
        ps->stack = grown;
        ps->cap_stack = cap;
    }
    ps->stack[ps->nr_stack++] = *v;
    return 0;
}

/* v has moved to its place: its items learn where. Every value moves to its place once, so this is linear. */
static void adopt(struct zinf_json *v)
{
    for (uint32_t i = 0; i < v->nr_items; i++)
        v->items[i].parent = v;
}

static int compare_keys(const void *a, const void *b)
{
    const struct zinf_json *x = *(const struct zinf_json *const *)a, *y = *(const struct zinf_json *const *)b;
    int c = strcmp(x->key, y->key);

    return c ? c : x < y ? -1 : x > y;
}

/* Sorting, not hashing: no choice of keys makes it slow. */
static int check_duplicates(struct parser *ps, const struct zinf_json *items, uint32_t nr)
{
    const struct zinf_json **by_key, *again = NULL, *first = NULL;
    char shown[72];

    if (nr < 2)
        return 0;
    by_key = malloc(nr * sizeof(const struct zinf_json *));
    if (!by_key)
        return fail_memory(ps);
    for (uint32_t i = 0; i < nr; i++)
        by_key[i] = &items[i];
    qsort(by_key, nr, sizeof(const struct zinf_json *), compare_keys);
    for (uint32_t i = 1; i < nr; i++) {
        if (strcmp(by_key[i - 1]->key, by_key[i]->key) == 0 && (!again || by_key[i] < again)) {
            again = by_key[i];
            first = by_key[i - 1];
        }
    }
    free(by_key);
    if (!again)
        return 0;
    return fail_at(ps, again->key_line, again->key_column, "the key \"%s\" is given twice, first on line %u",
                   show_key(again->key, shown), first->key_line);
}

/* Takes the values above base off the stack and makes them the items of v. */
static int close_items(struct parser *ps, struct zinf_json *v, uint32_t base)
{
    v->nr_items = ps->nr_stack - base;
    ps->nr_stack = base;
    if (v->nr_items == 0)
        return 0;
    v->items = arena_alloc(ps, (size_t)v->nr_items * sizeof(*v->items));
    if (!v->items)
        return fail_memory(ps);
    memcpy(v->items, ps->stack + base, (size_t)v->nr_items * sizeof(*v->items));
    for (uint32_t i = 0; i < v->nr_items; i++)
        adopt(&v->items[i]);
    return v->type == ZINF_JSON_OBJECT ? check_duplicates(ps, v->items, v->nr_items) : 0;
}

static int parse_value(struct parser *ps, struct zinf_json *v);

static int parse_key(struct parser *ps, struct zinf_json *item)
{
    size_t nbytes;
    int rc;

    if (*ps->p != '"')
        return fail_expected(ps, "a key in double quotes");
    item->key_line = ps->line;
    item->key_column = column_of(ps, ps->p);
    rc = parse_string(ps, &item->key, &nbytes);
    if (!rc)
        rc = skip_space(ps);
    if (rc)
        return rc;
    if (ps->p == ps->end || *ps->p != ':')
        return fail_expected(ps, "':' after the key");
    ps->p++;
    return skip_space(ps);
}

/* p is after the opening bracket. */
static int parse_items(struct parser *ps, struct zinf_json *v, char close)
{
    const char *what = v->type == ZINF_JSON_OBJECT ? "object" : "array";
    uint32_t base = ps->nr_stack;
    bool comma = false;
    int rc;

    for (;;) {
        struct zinf_json item = { 0 };

        rc = skip_space(ps);
        if (rc)
            return rc;
        if (ps->p == ps->end)
            return fail_at(ps, ps->line, column_of(ps, ps->p), "the text ends inside the %s that starts on line %u, "
                           "column %u", what, v->line, v->column);
        if (*ps->p == close) {
            if (comma && !ps->relaxed)
                return fail_here(ps, "a comma before the closing bracket");
            ps->p++;
            return close_items(ps, v, base);
        }
        if (ps->nr_stack > base && !comma)
            return fail_expected(ps, close == '}' ? "',' or '}'" : "',' or ']'");
        if (close == '}')
            rc = parse_key(ps, &item);
        if (!rc)
            rc = parse_value(ps, &item);
        if (!rc)
            rc = push(ps, &item);
        if (!rc)
            rc = skip_space(ps);
        if (rc)
            return rc;
        comma = ps->p < ps->end && *ps->p == ',';
        ps->p += comma;
    }
}

static int parse_value(struct parser *ps, struct zinf_json *v)
{
    int rc;

    v->line = ps->line;
    v->column = column_of(ps, ps->p);
    if (ps->p == ps->end)
        return fail_here(ps, "expected a value, found the end of the text");
    switch (*ps->p) {
    case '{':
    case '[':
        if (ps->depth == DEPTH_MAX)
            return fail_here(ps, "nested more than 64 deep");
        v->type = *ps->p == '{' ? ZINF_JSON_OBJECT : ZINF_JSON_ARRAY;
        ps->depth++;
        ps->p++;
        rc = parse_items(ps, v, v->type == ZINF_JSON_OBJECT ? '}' : ']');
        ps->depth--;
        return rc;
    case '"':
        v->type = ZINF_JSON_STRING;
        return parse_string(ps, &v->string, &v->string_nbytes);
    case '\'':
        return fail_here(ps, "a text needs double quotes, not single ones");
    case '-':
        return parse_number(ps, v);
    default:
        if (isdigit((unsigned char)*ps->p))
            return parse_number(ps, v);
        if (isalpha((unsigned char)*ps->p))
            return parse_word(ps, v);
        return fail_expected(ps, "a value");
    }
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

/* The whole text is checked before it is parsed: afterwards every byte is part of a character and none is NUL. */
static int check_text(struct parser *ps)
{
    const char *start = ps->p;
    int rc = 0;

    while (ps->p < ps->end && !rc) {
        size_t n = zinf_utf8_nbytes(ps->p, (size_t)(ps->end - ps->p));

        if (n == 0)
            rc = fail_here(ps, "bytes that are not UTF-8");
        else if (*ps->p == '\0')
            rc = fail_here(ps, "a NUL byte");
        else
            for (; n > 0; n--)
                step(ps);
    }
    ps->p = ps->line_start = start;
    ps->line = 1;
    ps->nr_continuation = 0;
    return rc;
}

static int parse_text(struct parser *ps, struct zinf_json **root)
{
    struct zinf_json v = { 0 };
    int rc = check_text(ps);

    if (!rc)
        rc = skip_space(ps);
    if (rc)
        return rc;
    if (ps->p == ps->end)
        return fail_here(ps, "the file is empty: expected a JSON value");
    rc = parse_value(ps, &v);
    if (!rc)
        rc = skip_space(ps);
    if (rc)
        return rc;
    if (ps->p != ps->end)
        return fail_expected(ps, "nothing after the value");
    *root = arena_alloc(ps, sizeof(v));
    if (!*root)
        return fail_memory(ps);
    **root = v;
    adopt(*root);
    return 0;
}

int zinf_json_parse(const char *text, size_t nbytes, const char *name, bool relaxed, struct zinf_json_doc *out,
                    struct zinf_status *st)
{
    struct parser ps = { .p = text, .end = text + nbytes, .line_start = text, .line = 1, .relaxed = relaxed,
                         .name = name, .st = st };
    int rc = -ENOMEM;

    *out = (struct zinf_json_doc){ 0 };
    if (nbytes > text_nbytes_max)
        return zinf_fail(st, -EFBIG, "%s: more than 1 GiB of JSON", name);
    if (nbytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)   /* a byte order mark */
        ps.p = ps.line_start = text + 3;
    ps.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    out->name = strdup(name);
    if (!ps.c_locale || !out->name)
        zinf_fail(st, rc, "%s: out of memory while reading it", name);
    else
        rc = parse_text(&ps, &out->root);
    if (ps.c_locale)
        freelocale(ps.c_locale);
    free(ps.stack);
    out->arena = ps.arena;
    if (rc)
        zinf_json_free(out);
    return rc;
}

/* The whole file into *text (owned by the caller). Pipes have no size: the buffer grows as it is filled. */
static int read_all(int fd, const char *path, char **text, size_t *nbytes, struct zinf_status *st)
{
    size_t cap = 0;
    ssize_t got = 1;

    for (*text = NULL, *nbytes = 0; got != 0;) {
        if (cap == *nbytes) {
            char *grown = realloc(*text, cap ? cap * 2 : 1 << 16);

            if (!grown)
                return zinf_fail(st, -ENOMEM, "%s: out of memory while reading it", path);
            *text = grown;
            cap = cap ? cap * 2 : 1 << 16;
        }
        got = read(fd, *text + *nbytes, cap - *nbytes);
        if (got < 0 && errno != EINTR)
            return zinf_fail(st, -errno, "%s: cannot be read: %s", path, strerror(errno));
        if (got > 0)
            *nbytes += (size_t)got;
        if (*nbytes > text_nbytes_max)
            return zinf_fail(st, -EFBIG, "%s: more than 1 GiB of JSON", path);
    }
    return 0;
}

int zinf_json_read(const char *path, bool relaxed, struct zinf_json_doc *out, struct zinf_status *st)
{
    char *text = NULL;
    size_t nbytes;
    int fd, rc;

    *out = (struct zinf_json_doc){ 0 };
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return zinf_fail(st, -errno, "%s: cannot be opened: %s", path, strerror(errno));
    rc = read_all(fd, path, &text, &nbytes, st);
    close(fd);
    if (!rc)
        rc = zinf_json_parse(text, nbytes, path, relaxed, out, st);
    free(text);
    return rc;
}

void zinf_json_free(struct zinf_json_doc *doc)
{
    arena_free(doc->arena);
    free(doc->name);
    *doc = (struct zinf_json_doc){ 0 };
}

/* ---- looking at it ----------------------------------------------------------------------------------------------- */

const struct zinf_json *zinf_json_get(const struct zinf_json *object, const char *key)
{
    if (!object || object->type != ZINF_JSON_OBJECT)
        return NULL;
    for (uint32_t i = 0; i < object->nr_items; i++)
        if (strcmp(object->items[i].key, key) == 0)
            return &object->items[i];
    return NULL;
}

static bool plain_key(const char *key)
{
    for (const char *p = key; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-$@", *p))
            return false;
    return *key != '\0';
}

char *zinf_json_path(const struct zinf_json *v, char *buf, size_t nbytes)
{
    const struct zinf_json *up[DEPTH_MAX + 1];
    uint32_t depth = 0;
    size_t used = 0;
    char shown[72];

    if (nbytes == 0)
        return buf;
    buf[0] = '\0';
    for (; v->parent && depth < DEPTH_MAX + 1; v = v->parent)
        up[depth++] = v;
    while (depth-- > 0 && used < nbytes) {
        const struct zinf_json *at = up[depth];
        int n;

        if (!at->key)
            n = snprintf(buf + used, nbytes - used, "[%td]", at - at->parent->items);
        else if (plain_key(at->key))
            n = snprintf(buf + used, nbytes - used, used ? ".%s" : "%s", at->key);
        else
            n = snprintf(buf + used, nbytes - used, "[\"%s\"]", show_key(at->key, shown));
        used += n > 0 ? (size_t)n : 0;
    }
    return buf;
}

const char *zinf_json_type_name(enum zinf_json_type t)
{
    static const char *const names[] = { "null", "a boolean", "a number", "a string", "an array", "an object" };

    return (unsigned)t < sizeof(names) / sizeof(names[0]) ? names[t] : "nothing";
}
