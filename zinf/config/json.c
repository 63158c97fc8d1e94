/* zinf/config/json.c - the JSON reader: recursive descent over checked UTF-8, values in one arena. */
#define _GNU_SOURCE
#include "zinf/config/json.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/config/json_arena.h"
#include "zinf/config/json_file.h"
#include "zinf/config/json_number.h"
#include "zinf/config/json_parser.h"
#include "zinf/config/json_string.h"

enum { DEPTH_MAX = 64 };

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

/* ---- words ------------------------------------------------------------------------------------------------------- */

static int parse_word(struct zinf_json_parser *ps, struct zinf_json *v)
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
            return zinf_json_fail_here(ps, words[i].hint);
        v->type = words[i].type;
        v->boolean = words[i].boolean;
        ps->p = p;
        return 0;
    }
    return zinf_json_fail_here(ps, "not a JSON value: a text needs double quotes");
}

/* ---- arrays and objects ------------------------------------------------------------------------------------------ */

static int push(struct zinf_json_parser *ps, const struct zinf_json *v)
{
    if (ps->nr_stack == ps->cap_stack) {
        uint32_t cap = ps->cap_stack ? ps->cap_stack * 2 : 64;
        struct zinf_json *grown = realloc(ps->stack, (size_t)cap * sizeof(*grown));

        if (!grown)
            return zinf_json_fail_memory(ps);
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
static int check_duplicates(struct zinf_json_parser *ps, const struct zinf_json *items, uint32_t nr)
{
    const struct zinf_json **by_key, *again = NULL, *first = NULL;
    char shown[72];

    if (nr < 2)
        return 0;
    by_key = malloc(nr * sizeof(const struct zinf_json *));
    if (!by_key)
        return zinf_json_fail_memory(ps);
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
    return zinf_json_fail_at(ps, again->key_line, again->key_column, "the key \"%s\" is given twice, first on line %u",
                             show_key(again->key, shown), first->key_line);
}

/* Takes the values above base off the stack and makes them the items of v. */
static int close_items(struct zinf_json_parser *ps, struct zinf_json *v, uint32_t base)
{
    v->nr_items = ps->nr_stack - base;
    ps->nr_stack = base;
    if (v->nr_items == 0)
        return 0;
    v->items = zinf_json_arena_alloc(&ps->arena, (size_t)v->nr_items * sizeof(*v->items));
    if (!v->items)
        return zinf_json_fail_memory(ps);
    memcpy(v->items, ps->stack + base, (size_t)v->nr_items * sizeof(*v->items));
    for (uint32_t i = 0; i < v->nr_items; i++)
        adopt(&v->items[i]);
    return v->type == ZINF_JSON_OBJECT ? check_duplicates(ps, v->items, v->nr_items) : 0;
}

static int parse_value(struct zinf_json_parser *ps, struct zinf_json *v);

static int parse_key(struct zinf_json_parser *ps, struct zinf_json *item)
{
    size_t nbytes;
    int rc;

    if (*ps->p != '"')
        return zinf_json_fail_expected(ps, "a key in double quotes");
    item->key_line = ps->line;
    item->key_column = zinf_json_column(ps, ps->p);
    rc = zinf_json_parse_string(ps, &item->key, &nbytes);
    if (!rc)
        rc = zinf_json_skip_space(ps);
    if (rc)
        return rc;
    if (ps->p == ps->end || *ps->p != ':')
        return zinf_json_fail_expected(ps, "':' after the key");
    ps->p++;
    return zinf_json_skip_space(ps);
}

/* p is after the opening bracket. */
static int parse_items(struct zinf_json_parser *ps, struct zinf_json *v, char close)
{
    const char *what = v->type == ZINF_JSON_OBJECT ? "object" : "array";
    uint32_t base = ps->nr_stack;
    bool comma = false;
    int rc;

    for (;;) {
        struct zinf_json item = { 0 };

        rc = zinf_json_skip_space(ps);
        if (rc)
            return rc;
        if (ps->p == ps->end)
            return zinf_json_fail_at(ps, ps->line, zinf_json_column(ps, ps->p),
                                     "the text ends inside the %s that starts on line %u, column %u", what, v->line,
                                     v->column);
        if (*ps->p == close) {
            if (comma && !ps->relaxed)
                return zinf_json_fail_here(ps, "a comma before the closing bracket");
            ps->p++;
            return close_items(ps, v, base);
        }
        if (ps->nr_stack > base && !comma)
            return zinf_json_fail_expected(ps, close == '}' ? "',' or '}'" : "',' or ']'");
        if (close == '}')
            rc = parse_key(ps, &item);
        if (!rc)
            rc = parse_value(ps, &item);
        if (!rc)
            rc = push(ps, &item);
        if (!rc)
            rc = zinf_json_skip_space(ps);
        if (rc)
            return rc;
        comma = ps->p < ps->end && *ps->p == ',';
        ps->p += comma;
    }
}

static int parse_value(struct zinf_json_parser *ps, struct zinf_json *v)
{
    int rc;

    v->line = ps->line;
    v->column = zinf_json_column(ps, ps->p);
    if (ps->p == ps->end)
        return zinf_json_fail_here(ps, "expected a value, found the end of the text");
    switch (*ps->p) {
    case '{':
    case '[':
        if (ps->depth == DEPTH_MAX)
            return zinf_json_fail_here(ps, "nested more than 64 deep");
        v->type = *ps->p == '{' ? ZINF_JSON_OBJECT : ZINF_JSON_ARRAY;
        ps->depth++;
        ps->p++;
        rc = parse_items(ps, v, v->type == ZINF_JSON_OBJECT ? '}' : ']');
        ps->depth--;
        return rc;
    case '"':
        v->type = ZINF_JSON_STRING;
        return zinf_json_parse_string(ps, &v->string, &v->string_nbytes);
    case '\'':
        return zinf_json_fail_here(ps, "a text needs double quotes, not single ones");
    case '-':
        v->type = ZINF_JSON_NUMBER;
        return zinf_json_parse_number(ps, &v->number, &v->is_integer, &v->integer);
    default:
        if (isdigit((unsigned char)*ps->p)) {
            v->type = ZINF_JSON_NUMBER;
            return zinf_json_parse_number(ps, &v->number, &v->is_integer, &v->integer);
        }
        if (isalpha((unsigned char)*ps->p))
            return parse_word(ps, v);
        return zinf_json_fail_expected(ps, "a value");
    }
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

static int parse_text(struct zinf_json_parser *ps, struct zinf_json **root)
{
    struct zinf_json v = { 0 };
    int rc = zinf_json_check_text(ps);

    if (!rc)
        rc = zinf_json_skip_space(ps);
    if (rc)
        return rc;
    if (ps->p == ps->end)
        return zinf_json_fail_here(ps, "the file is empty: expected a JSON value");
    rc = parse_value(ps, &v);
    if (!rc)
        rc = zinf_json_skip_space(ps);
    if (rc)
        return rc;
    if (ps->p != ps->end)
        return zinf_json_fail_expected(ps, "nothing after the value");
    *root = zinf_json_arena_alloc(&ps->arena, sizeof(v));
    if (!*root)
        return zinf_json_fail_memory(ps);
    **root = v;
    adopt(*root);
    return 0;
}

int zinf_json_parse(const char *text, size_t nbytes, const char *name, bool relaxed, struct zinf_json_doc *out,
                    struct zinf_status *st)
{
    struct zinf_json_parser ps = {
        .p = text, .end = text + nbytes, .line_start = text, .line = 1, .relaxed = relaxed, .name = name, .st = st,
    };
    int rc = zinf_json_check_nbytes(name, nbytes, st);

    *out = (struct zinf_json_doc){ 0 };
    if (rc)
        return rc;
    if (nbytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)   /* a byte order mark */
        ps.p = ps.line_start = text + 3;
    ps.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    out->name = strdup(name);
    if (!ps.c_locale || !out->name)
        rc = zinf_json_fail_memory(&ps);
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

int zinf_json_read(const char *path, bool relaxed, struct zinf_json_doc *out, struct zinf_status *st)
{
    char *text;
    size_t nbytes;
    int rc;

    *out = (struct zinf_json_doc){ 0 };
    rc = zinf_json_read_text(path, &text, &nbytes, st);
    if (!rc)
        rc = zinf_json_parse(text, nbytes, path, relaxed, out, st);
    free(text);
    return rc;
}

void zinf_json_free(struct zinf_json_doc *doc)
{
    zinf_json_arena_free(doc->arena);
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
