/* zinf/cli/args.c - see args.h. */
#include "zinf/cli/args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/config/json.h"

enum { MAX_ARGS = 64 };

static const struct zinf_arg *find(const struct zinf_arg *args, uint32_t nr, const char *name, size_t len)
{
    for (uint32_t i = 0; i < nr; i++)
        if (strlen(args[i].name) == len && !memcmp(args[i].name, name, len))
            return &args[i];
    return NULL;
}

static int unknown(const struct zinf_arg *args, uint32_t nr, const char *word, struct zinf_status *st)
{
    const char *names[MAX_ARGS], *near;
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (uint32_t i = 0; i < nr && i < MAX_ARGS; i++)
        names[i] = args[i].name;
    near = zinf_nearest(name, names, nr < MAX_ARGS ? nr : MAX_ARGS);
    if (near)
        return zinf_fail(st, -EINVAL, "unknown option --%s; did you mean --%s?", name, near);
    return zinf_fail(st, -EINVAL, "unknown option --%s; see --help", name);
}

static int append(struct zinf_arg_list *list, const char *item, struct zinf_status *st)
{
    const char **grown = realloc(list->items, (list->nr + 1) * sizeof(*grown));

    if (!grown)
        return zinf_fail(st, -ENOMEM, "out of memory");
    list->items = grown;
    list->items[list->nr++] = item;
    return 0;
}

static int set_u64(const struct zinf_arg *a, const char *text, struct zinf_status *st)
{
    uint64_t max = a->max ? a->max : UINT64_MAX;
    unsigned long long v;
    char *end;

    errno = 0;
    v = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9' || v < a->min || v > max)
        return zinf_fail(st, -EINVAL, "--%s needs a whole number from %llu to %llu, not \"%s\"", a->name,
                         (unsigned long long)a->min, (unsigned long long)max, text);
    *(uint64_t *)a->value = v;
    return 0;
}

static int set(const struct zinf_arg *a, const char *text, struct zinf_status *st)
{
    switch (a->type) {
    case ZINF_ARG_STRING:
        if (!text[0])
            return zinf_fail(st, -EINVAL, "--%s is empty", a->name);
        *(const char **)a->value = text;
        return 0;
    case ZINF_ARG_U64:
        return set_u64(a, text, st);
    case ZINF_ARG_LIST:
        return append(a->value, text, st);
    default:
        *(bool *)a->value = true;
        return 0;
    }
}

int zinf_args_parse(const struct zinf_arg *args, uint32_t nr, struct zinf_arg_list *words, int argc, char **argv,
                    struct zinf_status *st)
{
    bool seen[MAX_ARGS] = { false };

    for (int i = 0; i < argc; i++) {
        const char *w = argv[i], *eq = strchr(w, '='), *value = eq ? eq + 1 : NULL;
        const struct zinf_arg *a;
        int rc;

        if (strncmp(w, "--", 2) || !w[2]) {
            if (w[0] == '-' && w[1])
                return zinf_fail(st, -EINVAL, "unknown option %s; options begin with two dashes, see --help", w);
            if (!words)
                return zinf_fail(st, -EINVAL, "unexpected word \"%s\"; see --help", w);
            rc = append(words, w, st);
            if (rc)
                return rc;
            continue;
        }
        a = find(args, nr, w + 2, eq ? (size_t)(eq - w - 2) : strlen(w + 2));
        if (!a)
            return unknown(args, nr, w, st);
        if (a->type == ZINF_ARG_FLAG && eq)
            return zinf_fail(st, -EINVAL, "--%s takes no value", a->name);
        if (a->type != ZINF_ARG_FLAG && !eq) {
            if (i + 1 >= argc)
                return zinf_fail(st, -EINVAL, "--%s needs a value: %s", a->name, a->what);
            value = argv[++i];
            if (!strncmp(value, "--", 2))
                return zinf_fail(st, -EINVAL, "--%s needs a value: %s; if it is %s, write --%s=%s", a->name, a->what, value,
                                 a->name, value);
        }
        if (seen[a - args] && a->type != ZINF_ARG_LIST)
            return zinf_fail(st, -EINVAL, "--%s is given twice", a->name);
        seen[a - args] = true;
        rc = set(a, value, st);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < nr; i++)
        if (args[i].required && !seen[i])
            return zinf_fail(st, -EINVAL, "--%s %s is missing; see --help", args[i].name, args[i].what);
    return 0;
}

void zinf_args_free(struct zinf_arg_list *list)
{
    free(list->items);
    list->items = NULL;
    list->nr = 0;
}

void zinf_args_help(const char *usage, const struct zinf_arg *args, uint32_t nr)
{
    printf("usage: %s\n\n", usage);
    for (uint32_t i = 0; i < nr; i++) {
        char left[64];

        snprintf(left, sizeof(left), "--%s%s%s", args[i].name, args[i].what ? " " : "", args[i].what ? args[i].what : "");
        printf("  %-22s %s%s\n", left, args[i].help, args[i].required ? " (required)" : "");
    }
}
