/* zinf/config/convert.c - one key at a time: is the value one the key can have, and does this version follow it? */
#include "zinf/config/convert.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "zinf/base/size.h"

/* Whole numbers with all their digits: the limit of 63 bits and what is just above it must not look alike. */
static const char *show_number(double number, char buf[64])
{
    snprintf(buf, 64, number == nearbyint(number) && fabs(number) >= 1e12 && fabs(number) < 1e21 ? "%.0f" : "%.12g", number);
    return buf;
}

/* What was written, for "not ...". */
static const char *shown(const struct zinf_json *v, char buf[64])
{
    if (v->type == ZINF_JSON_STRING)
        snprintf(buf, 64, "\"%.48s\"", v->string);
    else if (v->type == ZINF_JSON_BOOL)
        snprintf(buf, 64, "%s", v->boolean ? "true" : "false");
    else if (v->type == ZINF_JSON_NUMBER && v->is_integer)
        snprintf(buf, 64, "%" PRId64, v->integer);
    else if (v->type == ZINF_JSON_NUMBER)
        show_number(v->number, buf);
    else
        snprintf(buf, 64, "%s", zinf_json_type_name(v->type));
    return buf;
}

static int fail_type(const struct zinf_setting *s, const char *expected, struct zinf_status *st)
{
    char buf[64];

    return zinf_setting_fail(s, st, "must be %s, not %s", expected, shown(s->given, buf));
}

static int check_range(const struct zinf_setting *s, double value, struct zinf_status *st)
{
    const struct zinf_key *k = s->key;
    char buf[64], limit[64];

    if (value >= k->min && value <= k->max)
        return 0;
    if (value < k->min)
        return zinf_setting_fail(s, st, "must be at least %s, not %s", show_number(k->min, limit), shown(s->given, buf));
    if (k->max >= (double)INT64_MAX && k->type != ZINF_KEY_NUMBER)      /* what the table could not say as a double */
        snprintf(limit, sizeof(limit), "%" PRId64, INT64_MAX);
    else
        show_number(k->max, limit);
    return zinf_setting_fail(s, st, "must be at most %s, not %s", limit, shown(s->given, buf));
}

static int convert_integer(struct zinf_setting *s, const struct zinf_json *v, struct zinf_status *st)
{
    uint64_t nbytes;
    int rc;

    if (s->key->type == ZINF_KEY_SIZE && v->type == ZINF_JSON_STRING) {
        rc = zinf_size_parse(v->string, &nbytes);
        if (rc == -ERANGE || (rc == 0 && nbytes > INT64_MAX))
            return zinf_setting_fail(s, st, "\"%.48s\" is too large", v->string);
        if (rc)
            return fail_type(s, "bytes or a size like \"24GiB\"", st);
        s->integer = (int64_t)nbytes;
    } else if (v->type == ZINF_JSON_NUMBER && v->is_integer) {
        s->integer = v->integer;
    } else if (v->type == ZINF_JSON_NUMBER && v->number >= s->key->max) {
        return check_range(s, v->number * 2, st);
    } else {
        return fail_type(s, s->key->type == ZINF_KEY_SIZE ? "bytes or a size like \"24GiB\"" : "a whole number", st);
    }
    return check_range(s, (double)s->integer, st);
}

/* Finds word in "a|b|c", whatever its case, and copies it as it stands there. */
static bool find_choice(const char *choices, const char *word, char out[16])
{
    size_t n = strlen(word);

    for (const char *p = choices; p && *p;) {
        size_t len = strcspn(p, "|");

        if (len == n && len < 16 && strncasecmp(p, word, n) == 0) {
            memcpy(out, p, len);
            out[len] = '\0';
            return true;
        }
        p += len + (p[len] == '|');
    }
    return false;
}

/* "a|b|c" as "a, b or c" */
static const char *list_choices(const char *choices, char *buf, size_t nbytes)
{
    size_t used = 0;

    buf[0] = '\0';
    for (const char *p = choices; *p && used < nbytes;) {
        size_t len = strcspn(p, "|");
        const char *next = p[len] ? p + len + 1 : p + len;

        used += (size_t)snprintf(buf + used, nbytes - used, "%s%.*s", p == choices ? "" : *next ? ", " : " or ",
                                 (int)len, p);
        p = next;
    }
    return buf;
}

static int convert_choice(struct zinf_setting *s, const struct zinf_json *v, struct zinf_status *st)
{
    char list[128], expected[160], later[16];

    list_choices(s->key->choices, list, sizeof(list));
    if (v->type == ZINF_JSON_STRING && find_choice(s->key->choices, v->string, s->choice)) {
        s->text = s->choice;
        return 0;
    }
    if (v->type == ZINF_JSON_STRING && find_choice(s->key->later, v->string, later))
        return zinf_setting_fail(s, st, "%s is not supported in this version: use %s", later, list);
    snprintf(expected, sizeof(expected), "%s", list);
    return fail_type(s, expected, st);
}

static int convert_paths(struct zinf_setting *s, const struct zinf_json *v, struct zinf_status *st)
{
    if (v->type == ZINF_JSON_STRING && v->string_nbytes > 0)
        return 0;
    if (v->type != ZINF_JSON_ARRAY)
        return fail_type(s, "an array of folders", st);
    for (uint32_t i = 0; i < v->nr_items; i++) {
        if (v->items[i].type != ZINF_JSON_STRING || v->items[i].string_nbytes == 0) {
            struct zinf_setting item = { .key = s->key, .given = &v->items[i], .origin = s->origin };

            return fail_type(&item, "a folder", st);
        }
    }
    return 0;
}

static int convert_betas(struct zinf_setting *s, const struct zinf_json *v, struct zinf_status *st)
{
    if (v->type != ZINF_JSON_ARRAY || v->nr_items != 2)
        return fail_type(s, "an array of two numbers", st);
    for (uint32_t i = 0; i < 2; i++) {
        struct zinf_setting item = { .key = s->key, .given = &v->items[i], .origin = s->origin };

        if (v->items[i].type != ZINF_JSON_NUMBER || !(v->items[i].number >= 0 && v->items[i].number < 1))
            return fail_type(&item, "a number from 0 to below 1", st);
    }
    s->number = v->items[0].number;
    s->number2 = v->items[1].number;
    return 0;
}

static int convert_every(struct zinf_setting *s, const struct zinf_json *v, struct zinf_status *st)
{
    const struct zinf_json *every = zinf_json_get(v, "every");

    if (v->type == ZINF_JSON_STRING && (!strcmp(v->string, "step") || !strcmp(v->string, "none"))) {
        s->integer = !strcmp(v->string, "step");
        return 0;
    }
    if (v->type != ZINF_JSON_OBJECT || v->nr_items != 1 || !every || !every->is_integer || every->integer < 1 ||
        every->integer > UINT32_MAX)
        return fail_type(s, "\"step\", \"none\" or {\"every\": N} with N from 1 to 4294967295", st);
    s->integer = every->integer;
    return 0;
}

/* v is what was given, or the table's default. */
static int convert_value(struct zinf_setting *s, const struct zinf_json *v, struct zinf_status *st)
{
    switch (s->key->type) {
    case ZINF_KEY_BOOL:
        if (v->type != ZINF_JSON_BOOL)
            return fail_type(s, "true or false", st);
        s->boolean = v->boolean;
        return 0;
    case ZINF_KEY_INT:
    case ZINF_KEY_SIZE:
        return convert_integer(s, v, st);
    case ZINF_KEY_NUMBER:
        if (v->type != ZINF_JSON_NUMBER)
            return fail_type(s, "a number", st);
        s->number = v->number;
        return check_range(s, s->number, st);
    case ZINF_KEY_TEXT:
        if (v->type != ZINF_JSON_STRING || v->string_nbytes == 0)
            return fail_type(s, "a text that is not empty", st);
        s->text = v->string;
        return 0;
    case ZINF_KEY_CHOICE:
        return convert_choice(s, v, st);
    case ZINF_KEY_PATHS:
        return convert_paths(s, v, st);
    case ZINF_KEY_BETAS:
        return convert_betas(s, v, st);
    case ZINF_KEY_EVERY:
        return convert_every(s, v, st);
    case ZINF_KEY_FREE:
        return 0;
    }
    return 0;
}

static bool is_auto(const struct zinf_json *v) { return v->type == ZINF_JSON_STRING && strcmp(v->string, "auto") == 0; }

static int convert_default(struct zinf_setting *s, struct zinf_status *st)
{
    const char *text = s->key->dflt;
    struct zinf_json_doc doc;
    int rc;

    s->is_null = !text;
    if (!text)
        return 0;
    rc = zinf_json_parse(text, strlen(text), s->key->path, false, &doc, st);
    if (rc)
        return rc;
    s->is_null = doc.root->type == ZINF_JSON_NULL;
    s->is_auto = is_auto(doc.root) && s->key->type != ZINF_KEY_CHOICE;
    if (!s->is_null && !s->is_auto)
        rc = convert_value(s, doc.root, st);
    zinf_json_free(&doc);
    return rc;
}

static int convert_given(struct zinf_setting *s, struct zinf_status *st)
{
    const struct zinf_json *v = s->given;
    char word[16];

    s->from = ZINF_FROM_GIVEN;
    if (s->key->type == ZINF_KEY_FREE)
        return 0;
    if (v->type == ZINF_JSON_NULL && (s->key->flags & ZINF_KEY_NULL)) {
        s->from = ZINF_FROM_DEFAULT;
        return convert_default(s, st);
    }
    if (!is_auto(v) || (s->key->type == ZINF_KEY_CHOICE && find_choice(s->key->choices, "auto", word)))
        return convert_value(s, v, st);
    s->from = ZINF_FROM_AUTO;
    if (s->key->flags & ZINF_KEY_AUTO) {
        s->is_auto = true;
        return 0;
    }
    if (s->key->flags & ZINF_KEY_AUTO_DEFAULT)
        return convert_default(s, st);
    return zinf_setting_fail(s, st, "\"auto\", and nothing says its value: write one, or give --set %s=value",
                             s->key->path);
}

/* ---- refusals and notes ------------------------------------------------------------------------------------------ */

static bool same_value(const struct zinf_setting *a, const struct zinf_setting *b)
{
    return a->is_null == b->is_null && a->is_auto == b->is_auto && a->boolean == b->boolean &&
           a->integer == b->integer && a->number == b->number && a->number2 == b->number2 &&
           strcmp(a->choice, b->choice) == 0;
}

static int check_rule(const struct zinf_setting *s, struct zinf_status *st)
{
    const struct zinf_key *k = s->key;
    struct zinf_setting dflt = { .key = k };
    char value[64];
    int rc;

    switch (k->rule) {
    case ZINF_RULE_USED:
    case ZINF_RULE_NOTE:
        return 0;
    case ZINF_RULE_ONLY_DEFAULT:
        rc = convert_default(&dflt, st);
        if (rc || same_value(s, &dflt))
            return rc;
        if (k->instead)
            return zinf_setting_fail(s, st, "%s is not supported in this version: %s", k->why, k->instead);
        return zinf_setting_fail(s, st, "%s is not supported in this version: the only value is %s", k->why,
                                 zinf_setting_format(&dflt, value, sizeof(value)));
    case ZINF_RULE_REFUSE_ENABLED:
        if (s->free_on)
            return zinf_setting_fail(s, st, "%s is not supported in this version: disable or remove it", k->why);
        return 0;
    case ZINF_RULE_REFUSE_PRESENT:
        if (s->free_present)
            return zinf_setting_fail(s, st, "%s is not supported in this version: remove it", k->why);
        return 0;
    }
    return 0;
}

static bool deserves_note(const struct zinf_setting *s)
{
    const struct zinf_json *enabled = zinf_json_get(s->given, "enabled");

    if (s->key->rule != ZINF_RULE_NOTE || !s->given || s->given->type == ZINF_JSON_NULL)
        return false;
    return !(s->key->type == ZINF_KEY_FREE && (!s->free_present || (enabled && !s->free_on)));
}

/* One line per reason, with all the keys it holds for. */
static void log_notes(const struct zinf_settings *s, const struct zinf_log *log)
{
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        char list[640] = "";
        size_t used = 0;
        bool first = deserves_note(&s->at[i]);

        for (uint32_t j = 0; j < i && first; j++)
            first = !(deserves_note(&s->at[j]) && strcmp(s->at[j].key->why, s->at[i].key->why) == 0);
        for (uint32_t j = i; j < zinf_nr_keys && first; j++) {
            if (!deserves_note(&s->at[j]) || strcmp(s->at[j].key->why, s->at[i].key->why) != 0)
                continue;
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", s->at[j].key->path);
            if (used > sizeof(list) - 100) {   /* room for one more path */
                zinf_log(log, ZINF_LOG_INFO, "%s: no effect: %s", list, s->at[i].key->why);
                used = 0;
            }
        }
        if (first && used)
            zinf_log(log, ZINF_LOG_INFO, "%s: no effect: %s", list, s->at[i].key->why);
    }
}

/* ---- other spellings --------------------------------------------------------------------------------------------- */

/* The old spelling's value goes to the new one, unless they contradict each other; --set beats the file under either
 * name. */
static int fold_alias(struct zinf_settings *s, struct zinf_setting *old, const struct zinf_log *log,
                      struct zinf_status *st)
{
    struct zinf_setting *now = zinf_settings_get(s, old->key->same_as);
    struct zinf_setting a, b;
    int rc;

    if (!old->given)
        return 0;
    zinf_log(log, ZINF_LOG_INFO, "%s: another spelling of %s", old->key->path, now->key->path);
    a = (struct zinf_setting){ .key = now->key, .given = old->given, .origin = old->origin };
    b = (struct zinf_setting){ .key = now->key, .given = now->given, .origin = now->origin };
    rc = convert_given(&a, st);
    if (!rc && b.given)
        rc = convert_given(&b, st);
    if (rc)
        return rc;
    if (!b.given || (old->origin->is_set && !now->origin->is_set)) {
        now->given = old->given;
        now->origin = old->origin;
    } else if (old->origin->is_set == now->origin->is_set && !same_value(&a, &b)) {
        return zinf_setting_fail(&a, st, "contradicts %s, another spelling of it: keep one", now->key->path);
    }
    old->given = NULL;
    return 0;
}

int zinf_settings_convert(struct zinf_settings *s, const struct zinf_log *log, struct zinf_status *st)
{
    int rc = 0;

    for (uint32_t i = 0; i < zinf_nr_keys && !rc; i++)
        if (zinf_keys[i].same_as)
            rc = fold_alias(s, &s->at[i], log, st);
    for (uint32_t i = 0; i < zinf_nr_keys && !rc; i++) {
        if (zinf_keys[i].same_as)
            continue;
        rc = s->at[i].given ? convert_given(&s->at[i], st) : convert_default(&s->at[i], st);
        if (!rc && s->at[i].given)
            rc = check_rule(&s->at[i], st);
    }
    if (!rc)
        log_notes(s, log);
    return rc;
}
