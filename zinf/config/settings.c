/* zinf/config/settings.c - the container of settings: room, lookup, messages, printing. */
#include "zinf/config/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int zinf_settings_create(uint32_t nr_sets, struct zinf_settings **out, struct zinf_status *st)
{
    struct zinf_settings *s = calloc(1, sizeof(*s));

    *out = NULL;
    if (!s)
        goto out_memory;
    s->at = calloc(zinf_nr_keys, sizeof(*s->at));
    s->origins = calloc((size_t)nr_sets + 1, sizeof(*s->origins));
    if (!s->at || !s->origins)
        goto out_memory;
    for (uint32_t i = 0; i < zinf_nr_keys; i++)
        s->at[i].key = &zinf_keys[i];
    s->nr_origins = nr_sets + 1;
    *out = s;
    return 0;
out_memory:
    zinf_settings_free(s);
    return zinf_fail(st, -ENOMEM, "out of memory while reading the configuration");
}

void zinf_settings_free(struct zinf_settings *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->nr_origins; i++) {
        zinf_json_free(&s->origins[i].doc);
        free(s->origins[i].where);
    }
    free(s->origins);
    free(s->at);
    free(s);
}

struct zinf_setting *zinf_settings_get(const struct zinf_settings *s, const char *path)
{
    return &s->at[zinf_key_find(path) - zinf_keys];
}

bool zinf_setting_given(const struct zinf_setting *s) { return s->from == ZINF_FROM_GIVEN; }

int zinf_setting_fail(const struct zinf_setting *s, struct zinf_status *st, const char *fmt, ...)
{
    char what[320], path[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (!s->given)
        return zinf_fail(st, -EINVAL, "%s: %s", s->key->path, what);
    zinf_json_path(s->given, path, sizeof(path));
    if (s->origin->is_set)
        return zinf_fail(st, -EINVAL, "%s: %s: %s", s->origin->where, path, what);
    return zinf_fail(st, -EINVAL, "%s:%u:%u: %s: %s", s->origin->where, s->given->line, s->given->column, path, what);
}

/* {"enabled":...} and the like: the members of v as they were given. */
static void format_json(struct zinf_json_out *o, const char *key, const struct zinf_json *v)
{
    switch (v->type) {
    case ZINF_JSON_NULL:
        zinf_json_put_null(o, key);
        break;
    case ZINF_JSON_BOOL:
        zinf_json_put_bool(o, key, v->boolean);
        break;
    case ZINF_JSON_NUMBER:
        if (v->is_integer)
            zinf_json_put_integer(o, key, v->integer);
        else
            zinf_json_put_number(o, key, v->number);
        break;
    case ZINF_JSON_STRING:
        zinf_json_put_string(o, key, v->string);
        break;
    case ZINF_JSON_ARRAY:
    case ZINF_JSON_OBJECT:
        if (v->type == ZINF_JSON_ARRAY)
            zinf_json_open_array(o, key);
        else
            zinf_json_open_object(o, key);
        for (uint32_t i = 0; i < v->nr_items; i++)
            format_json(o, v->items[i].key, &v->items[i]);
        if (v->type == ZINF_JSON_ARRAY)
            zinf_json_close_array(o);
        else
            zinf_json_close_object(o);
        break;
    }
}

static void format_value(struct zinf_json_out *o, const struct zinf_setting *s)
{
    switch (s->key->type) {
    case ZINF_KEY_BOOL:
        zinf_json_put_bool(o, NULL, s->boolean);
        break;
    case ZINF_KEY_INT:
    case ZINF_KEY_SIZE:
        zinf_json_put_integer(o, NULL, s->integer);
        break;
    case ZINF_KEY_NUMBER:
        zinf_json_put_number(o, NULL, s->number);
        break;
    case ZINF_KEY_TEXT:
    case ZINF_KEY_CHOICE:
        zinf_json_put_string(o, NULL, s->text);
        break;
    case ZINF_KEY_BETAS:
        zinf_json_open_array(o, NULL);
        zinf_json_put_number(o, NULL, s->number);
        zinf_json_put_number(o, NULL, s->number2);
        zinf_json_close_array(o);
        break;
    case ZINF_KEY_EVERY:
        if (s->integer > 1) {
            zinf_json_open_object(o, NULL);
            zinf_json_put_integer(o, "every", s->integer);
            zinf_json_close_object(o);
        } else {
            zinf_json_put_string(o, NULL, s->integer ? "step" : "none");
        }
        break;
    case ZINF_KEY_PATHS:
    case ZINF_KEY_FREE:
        if (s->given) {
            format_json(o, NULL, s->given);
        } else {
            zinf_json_open_array(o, NULL);
            zinf_json_close_array(o);
        }
        break;
    }
}

char *zinf_setting_format(const struct zinf_setting *s, char *buf, uint32_t buf_nbytes)
{
    struct zinf_json_out o = { 0 };

    if (s->is_auto)
        zinf_json_put_string(&o, NULL, "auto");
    else if (s->is_null)
        zinf_json_put_null(&o, NULL);
    else
        format_value(&o, s);
    snprintf(buf, buf_nbytes, "%s", o.failed || !o.text ? "?" : o.text);
    zinf_json_out_free(&o);
    return buf;
}
