/* zinf/checkpoint/hf_config.c - finds the top-level values to replace by walking over text that was parsed before, so that
 * nothing can be malformed, and copies everything else. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/checkpoint/hf_config.h"
#include "zinf/config/json.h"

struct text { const char *s; size_t n; };

static const char *dtype_value(enum zinf_dtype dtype)
{
    return dtype == ZINF_F32 ? "\"float32\"" : dtype == ZINF_BF16 ? "\"bfloat16\"" : "\"float16\"";
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Past blanks and the one separator that may lie between a key, its value and the next key. */
static size_t skip_between(struct text t, size_t i)
{
    while (i < t.n && (is_blank(t.s[i]) || t.s[i] == ',' || t.s[i] == ':'))
        i++;
    return i;
}

/* Past the string that begins at i. */
static size_t skip_string(struct text t, size_t i)
{
    for (i++; i < t.n && t.s[i] != '"'; i++)
        if (t.s[i] == '\\')
            i++;
    return i + 1;
}

/* Past the value that begins at i. */
static size_t skip_value(struct text t, size_t i)
{
    size_t depth = 0;

    if (t.s[i] != '"' && t.s[i] != '{' && t.s[i] != '[') {
        while (i < t.n && !is_blank(t.s[i]) && t.s[i] != ',' && t.s[i] != '}')
            i++;
        return i;
    }
    do {
        if (t.s[i] == '"') {
            i = skip_string(t, i);
            continue;
        }
        if (t.s[i] == '{' || t.s[i] == '[')
            depth++;
        else if (t.s[i] == '}' || t.s[i] == ']')
            depth--;
        i++;
    } while (depth && i < t.n);
    return i;
}

static bool is_key(struct text t, size_t begin, size_t end, const char *key)
{
    return end - begin == strlen(key) + 2 && !memcmp(t.s + begin + 1, key, strlen(key));
}

static size_t put(char *out, size_t at, const char *s, size_t n)
{
    memcpy(out + at, s, n);
    return at + n;
}

/* Copies t into out with the values replaced; returns the length. */
static size_t rewrite(struct text t, const char *value, char *out)
{
    size_t i = skip_between(t, 0) + 1, copied = 0, at = 0;      /* past the brace */
    size_t brace = i;
    bool found = false;

    for (i = skip_between(t, i); i < t.n && t.s[i] == '"'; i = skip_between(t, i)) {
        size_t key = i, key_end = skip_string(t, i), begin = skip_between(t, key_end), end = skip_value(t, begin);

        if (is_key(t, key, key_end, "torch_dtype") || is_key(t, key, key_end, "dtype")) {
            at = put(out, at, t.s + copied, begin - copied);
            at = put(out, at, value, strlen(value));
            copied = end;
            found = true;
        }
        i = end;
    }
    if (!found) {
        bool alone = i < t.n && t.s[skip_between(t, brace)] == '}';

        at = put(out, at, t.s, brace);
        at = put(out, at, "\n  \"torch_dtype\": ", strlen("\n  \"torch_dtype\": "));
        at = put(out, at, value, strlen(value));
        if (!alone)
            at = put(out, at, ",", 1);
        copied = brace;
    }
    return put(out, at, t.s + copied, t.n - copied);
}

int zinf_hf_config_with_dtype(const char *text, size_t nbytes, enum zinf_dtype dtype, char **out, size_t *out_nbytes,
                              struct zinf_status *st)
{
    /* Two values may grow by at most their new length, or one member is added. */
    const size_t grow = 64;
    struct zinf_json_doc doc = { 0 };
    int rc = zinf_json_parse(text, nbytes, "config.json", false, &doc, st);

    *out = NULL;
    if (rc)
        return rc;
    if (doc.root->type != ZINF_JSON_OBJECT)
        rc = zinf_fail(st, -EINVAL, "config.json: it must be an object");
    else if (!(*out = malloc(nbytes + grow)))
        rc = zinf_fail(st, -ENOMEM, "config.json: out of memory");
    zinf_json_free(&doc);
    if (rc)
        return rc;
    *out_nbytes = rewrite((struct text){ text, nbytes }, dtype_value(dtype), *out);
    (*out)[*out_nbytes] = 0;
    return 0;
}
