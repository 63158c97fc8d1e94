/* zinf/config/gather.c - walks the file and every --set down the table; a key that is not in the table is an error that
 * helps. */
#define _GNU_SOURCE
#include "zinf/config/gather.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/config/nearest.h"

enum { PATH_NBYTES = 192, MEMBER_NBYTES = 64, KNOWN_MAX = 3 };

/* ---- unknown keys ------------------------------------------------------------------------------------------------ */

/* The nearest member of a section; buf keeps it. */
static const char *nearest_member(const char *section, const char *word, char buf[MEMBER_NBYTES])
{
    char member[MEMBER_NBYTES];
    const char *best = NULL;

    /* Pairwise: the winner so far against the next one, so that no list is built. */
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        if (!zinf_key_member(&zinf_keys[i], section, member, sizeof(member)))
            continue;
        const char *two[2] = { best, member };
        const char *win = best ? zinf_nearest(word, two, 2) : zinf_nearest(word, two + 1, 1);

        if (win == member) {
            memcpy(buf, member, sizeof(member));
            best = buf;
        }
    }
    return best;
}

/* Where else in the table the name stands, as a key or a section: "a.x, b.x" into buf; returns how many. */
static uint32_t known_elsewhere(const char *word, char *buf, size_t nbytes)
{
    char last[PATH_NBYTES] = "";
    size_t n = strlen(word), used = 0;
    uint32_t nr = 0;

    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        const char *path = zinf_keys[i].path;

        if (zinf_keys[i].same_as)
            continue;
        for (const char *p = path; p; p = strchr(p, '.'), p = p ? p + 1 : NULL) {
            int len = (int)(p - path + (ptrdiff_t)n);

            if (strncmp(p, word, n) != 0 || (p[n] != '\0' && p[n] != '.'))
                continue;
            if (strncmp(last, path, (size_t)len) == 0 && last[len] == '\0')
                break;   /* the same section again */
            snprintf(last, sizeof(last), "%.*s", len, path);
            if (nr++ < KNOWN_MAX)
                used += (size_t)snprintf(buf + used, nbytes - used, "%s%s", nr > 1 ? ", " : "", last);
            break;
        }
    }
    if (nr > KNOWN_MAX)
        snprintf(buf + used, nbytes - used, ", ...");
    return nr;
}

/* The path in the whole table whose last name is nearest. */
static const char *nearest_anywhere(const char *word)
{
    const char *best = NULL;

    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        const char *leaf = zinf_key_leaf(zinf_keys[i].path);
        const char *two[2] = { best ? zinf_key_leaf(best) : leaf, leaf };

        if (zinf_keys[i].same_as)
            continue;
        if (zinf_nearest(word, two, 2) == (best ? leaf : two[0]))
            best = zinf_keys[i].path;
    }
    return best;
}

static int fail_unknown(const struct zinf_origin *from, const struct zinf_json *item, const char *section,
                        struct zinf_status *st)
{
    char path[PATH_NBYTES], known[4 * PATH_NBYTES], member[MEMBER_NBYTES], where[96] = "", hint[256];
    const char *near = nearest_member(section, item->key, member);
    const char *far;

    zinf_json_path(item, path, sizeof(path));
    if (!from->is_set)
        snprintf(where, sizeof(where), ":%u:%u", item->key_line, item->key_column);
    if (strlen(item->key) < MEMBER_NBYTES && known_elsewhere(item->key, known, sizeof(known)) > 0)
        snprintf(hint, sizeof(hint), "known at %.200s", known);
    else if (near && *section)
        snprintf(hint, sizeof(hint), "did you mean %s.%s?", section, near);
    else if (near)
        snprintf(hint, sizeof(hint), "did you mean %s?", near);
    else if ((far = nearest_anywhere(item->key)) != NULL)
        snprintf(hint, sizeof(hint), "did you mean %s?", far);
    else
        snprintf(hint, sizeof(hint), "neither DeepSpeed nor zinf has it; zinf config --list keys shows all");
    return zinf_fail(st, -EINVAL, "%s%s: unknown key %s: %s", from->where, where, path, hint);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static bool has_enabled(const struct zinf_json *v)
{
    for (uint32_t i = 0; i < v->nr_items; i++) {
        const struct zinf_json *item = &v->items[i];

        if (item->key && strcmp(item->key, "enabled") == 0 && item->type == ZINF_JSON_BOOL && item->boolean)
            return true;
        if (has_enabled(item))
            return true;
    }
    return false;
}

/* What a free-form value says; --set adds to what the file said. The section's own "enabled" wins over those inside. */
static void note_free(struct zinf_setting *s, const struct zinf_json *v)
{
    const struct zinf_json *enabled = zinf_json_get(v, "enabled");
    bool empty = v->type == ZINF_JSON_NULL || (v->type == ZINF_JSON_BOOL && !v->boolean);

    if (v->type == ZINF_JSON_OBJECT) {
        if (enabled)
            s->free_on = enabled->type == ZINF_JSON_BOOL && enabled->boolean;
        else
            s->free_on = s->free_on || has_enabled(v);
        s->free_present = s->free_present || v->nr_items > 0;
    } else {
        s->free_on = s->free_present = !empty;
    }
}

static void clear_section(struct zinf_settings *s, const char *section)
{
    char member[MEMBER_NBYTES];

    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        if (strcmp(zinf_keys[i].path, section) == 0 ||
            zinf_key_member(&zinf_keys[i], section, member, sizeof(member))) {
            s->at[i].given = NULL;
            s->at[i].free_on = s->at[i].free_present = false;
        }
    }
}

/* Depth is bounded by the table: it goes no deeper than a section does. */
static int walk(struct zinf_settings *s, const struct zinf_origin *from, const struct zinf_json *object,
                const char *section, struct zinf_status *st)
{
    for (uint32_t i = 0; i < object->nr_items; i++) {
        const struct zinf_json *item = &object->items[i];
        const struct zinf_key *key;
        char path[PATH_NBYTES];
        bool is_section;
        int rc = 0;

        if (snprintf(path, sizeof(path), "%s%s%s", section, *section ? "." : "", item->key) >= (int)sizeof(path) ||
            strchr(item->key, '.') || !*item->key)
            return fail_unknown(from, item, section, st);
        key = zinf_key_find(path);
        is_section = zinf_key_is_section(path);
        if (is_section && item->type == ZINF_JSON_OBJECT) {
            rc = walk(s, from, item, path, st);
        } else if (is_section && item->type == ZINF_JSON_NULL) {
            clear_section(s, path);
        } else if (key && (!is_section || item->type == ZINF_JSON_BOOL)) {
            struct zinf_setting *at = &s->at[key - zinf_keys];

            at->given = item;
            at->origin = from;
            if (key->type == ZINF_KEY_FREE)
                note_free(at, item);
        } else if (is_section) {
            const struct zinf_setting wrong = { .given = item, .origin = from };

            rc = zinf_setting_fail(&wrong, st, "must be an object (a section), not %s",
                                   zinf_json_type_name(item->type));
        } else {
            rc = fail_unknown(from, item, section, st);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the file and --set ------------------------------------------------------------------------------------------ */

static int read_file(struct zinf_settings *s, const char *path, const char *text, const char *name,
                     struct zinf_status *st)
{
    struct zinf_origin *from = &s->origins[0];
    const char *where = path ? path : name ? name : "configuration";
    int rc;

    from->where = strdup(where);
    if (!from->where)
        return zinf_fail(st, -ENOMEM, "%s: out of memory while reading it", where);
    if (!path && !text)
        text = "{}";
    rc = path ? zinf_json_read(path, true, &from->doc, st)
              : zinf_json_parse(text, strlen(text), where, true, &from->doc, st);
    if (rc)
        return rc;
    if (from->doc.root->type != ZINF_JSON_OBJECT)
        return zinf_fail(st, -EINVAL, "%s:%u:%u: a configuration is an object, not %s", where, from->doc.root->line,
                         from->doc.root->column, zinf_json_type_name(from->doc.root->type));
    return walk(s, from, from->doc.root, "", st);
}

/* value as JSON text: as it is when it is JSON, else as a string. A broken array, object or string is an error, not a
 * word. */
static int value_text(const char *value, const char *where, char **out, struct zinf_status *st)
{
    struct zinf_json_doc doc;
    struct zinf_status quiet = { 0 };
    struct zinf_json_out o = { 0 };
    int rc = zinf_json_parse(value, strlen(value), where, false, &doc, strchr("{[\"", *value) && *value ? st : &quiet);

    *out = NULL;
    if (rc == 0) {
        zinf_json_free(&doc);
        *out = strdup(value);
    } else if (rc == -EINVAL && !(strchr("{[\"", *value) && *value)) {
        zinf_json_put_string(&o, NULL, value);
        *out = o.text;
    } else {
        return zinf_fail(st, rc, "%s: out of memory while reading it", where);
    }
    return *out ? 0 : zinf_fail(st, -ENOMEM, "%s: out of memory while reading it", where);
}

/* {"a":{"b":value}} for a.b: from here on a --set is a small file. Owned by the caller; NULL = out of memory. */
static char *nest(const char *path, size_t path_nbytes, const char *value)
{
    size_t nbytes = 4 * path_nbytes + strlen(value) + 16, depth = 1, used;
    char *text = malloc(nbytes);

    if (!text)
        return NULL;
    used = (size_t)sprintf(text, "{\"");
    for (size_t i = 0; i < path_nbytes; i++) {
        if (path[i] == '.') {
            used += (size_t)sprintf(text + used, "\":{\"");
            depth++;
        } else {
            text[used++] = path[i];
        }
    }
    used += (size_t)sprintf(text + used, "\":%s", value);
    memset(text + used, '}', depth);
    text[used + depth] = '\0';
    return text;
}

static int read_set(struct zinf_settings *s, struct zinf_origin *from, const char *set, struct zinf_status *st)
{
    const char *eq = strchr(set, '=');
    char *value = NULL, *text = NULL;
    int rc;

    from->is_set = true;
    if (asprintf(&from->where, "--set %s", set) < 0) {
        from->where = NULL;
        return zinf_fail(st, -ENOMEM, "--set: out of memory");
    }
    for (const char *p = set; !eq || p < eq; p++)
        if (!eq || !(isalnum((unsigned char)*p) || *p == '_' || (*p == '.' && p > set && p[-1] != '.' && p[1] != '=')))
            return zinf_fail(st, -EINVAL, "%s: write --set path.to.key=value", from->where);
    if (eq == set)
        return zinf_fail(st, -EINVAL, "%s: write --set path.to.key=value", from->where);
    rc = value_text(eq + 1, from->where, &value, st);
    if (!rc && !(text = nest(set, (size_t)(eq - set), value)))
        rc = zinf_fail(st, -ENOMEM, "%s: out of memory while reading it", from->where);
    if (!rc)
        rc = zinf_json_parse(text, strlen(text), from->where, false, &from->doc, st);
    if (!rc)
        rc = walk(s, from, from->doc.root, "", st);
    free(value);
    free(text);
    return rc;
}

int zinf_settings_gather(struct zinf_settings *s, const char *path, const char *text, const char *name,
                         const char *const *sets, uint32_t nr_sets, struct zinf_status *st)
{
    int rc = read_file(s, path, text, name, st);

    for (uint32_t i = 0; i < nr_sets && !rc; i++)
        rc = read_set(s, &s->origins[i + 1], sets[i], st);
    return rc;
}
