/* zinf/cli/runfile.c - see runfile.h. */
#include "zinf/cli/runfile.h"

#include <errno.h>
#include <string.h>

#include "zinf/checkpoint/sealed.h"
#include "zinf/zinf.h"

static void put_list(struct zinf_json_out *j, const char *key, const char *const *items, uint32_t nr)
{
    zinf_json_open_array(j, key);
    for (uint32_t i = 0; i < nr; i++)
        zinf_json_put_string(j, NULL, items[i]);
    zinf_json_close_array(j);
}

int zinf_run_file_write(const char *dir, const struct zinf_run_file *r, struct zinf_status *st)
{
    struct zinf_json_out j = { 0 };
    int rc;

    zinf_json_open_object(&j, NULL);
    zinf_json_put_string(&j, "zinf", zinf_version());
    zinf_json_put_string(&j, "config", r->config);
    put_list(&j, "sets", r->sets, r->nr_sets);
    zinf_json_put_string(&j, "model", r->model);
    zinf_json_put_string(&j, "data", r->data);
    zinf_json_put_string(&j, "eval_data", r->eval_data);
    zinf_json_put_string(&j, "log", r->log);
    put_list(&j, "state_dirs", r->state_dirs, r->nr_state_dirs);
    zinf_json_put_integer(&j, "seq_len", (int64_t)r->seq_len);
    zinf_json_put_integer(&j, "steps", (int64_t)r->steps);
    zinf_json_put_integer(&j, "eval_every", (int64_t)r->eval_every);
    zinf_json_put_integer(&j, "save_every", (int64_t)r->save_every);
    zinf_json_put_integer(&j, "keep", (int64_t)r->keep);
    zinf_json_close_object(&j);
    rc = j.failed ? zinf_fail(st, -ENOMEM, "out of memory") : zinf_sealed_write(dir, "run.json", j.text, st);
    zinf_json_out_free(&j);
    return rc;
}

static int get_string(const struct zinf_json *o, const char *key, const char **out, struct zinf_status *st)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    if (!v || v->type != ZINF_JSON_STRING)
        return zinf_fail(st, -EINVAL, "run.json has no text \"%s\": it is of another version of zinf", key);
    *out = v->string;
    return 0;
}

static int get_list(const struct zinf_json *o, const char *key, const char **items, uint32_t *nr, struct zinf_status *st)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    if (!v || v->type != ZINF_JSON_ARRAY || v->nr_items > ZINF_RUN_STRINGS_MAX)
        return zinf_fail(st, -EINVAL, "run.json has no list \"%s\": it is of another version of zinf", key);
    *nr = v->nr_items;
    for (uint32_t i = 0; i < v->nr_items; i++) {
        if (v->items[i].type != ZINF_JSON_STRING)
            return zinf_fail(st, -EINVAL, "run.json: \"%s\" holds something that is no text", key);
        items[i] = v->items[i].string;
    }
    return 0;
}

static int get_count(const struct zinf_json *o, const char *key, uint64_t *out, struct zinf_status *st)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    if (!v || !v->is_integer || v->integer < 0)
        return zinf_fail(st, -EINVAL, "run.json has no count \"%s\": it is of another version of zinf", key);
    *out = (uint64_t)v->integer;
    return 0;
}

int zinf_run_file_read(const char *dir, struct zinf_run_file *out, struct zinf_status *st)
{
    const struct zinf_json *o;
    int rc;

    memset(out, 0, sizeof(*out));
    rc = zinf_sealed_read(dir, "run.json", &out->doc, &o, st);
    if (rc)
        return rc;
    rc = get_string(o, "config", &out->config, st);
    rc = rc ? rc : get_list(o, "sets", out->sets, &out->nr_sets, st);
    rc = rc ? rc : get_string(o, "model", &out->model, st);
    rc = rc ? rc : get_string(o, "data", &out->data, st);
    rc = rc ? rc : get_string(o, "eval_data", &out->eval_data, st);
    rc = rc ? rc : get_string(o, "log", &out->log, st);
    rc = rc ? rc : get_list(o, "state_dirs", out->state_dirs, &out->nr_state_dirs, st);
    rc = rc ? rc : get_count(o, "seq_len", &out->seq_len, st);
    rc = rc ? rc : get_count(o, "steps", &out->steps, st);
    rc = rc ? rc : get_count(o, "eval_every", &out->eval_every, st);
    rc = rc ? rc : get_count(o, "save_every", &out->save_every, st);
    rc = rc ? rc : get_count(o, "keep", &out->keep, st);
    if (rc)
        zinf_run_file_free(out);
    return rc;
}

void zinf_run_file_free(struct zinf_run_file *r)
{
    zinf_json_free(&r->doc);
    memset(r, 0, sizeof(*r));
}
