/* zinf/config/config.c - what the keys mean together: batch sizes, the optimizer, homes of state, paths. */
#include "zinf/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/config/convert.h"
#include "zinf/config/gather.h"
#include "zinf/config/json_out.h"
#include "zinf/config/keys.h"
#include "zinf/config/settings.h"

enum { BLOCK_ELEMS_MULTIPLE = 4096 };   /* the chunk of the norm: blocks never cut one */

#define OFFLOAD_OPTIMIZER "zero_optimization.offload_optimizer."
#define OFFLOAD_PARAM     "zero_optimization.offload_param."

/* What the resolve functions share. */
struct load {
    const struct zinf_settings *s;
    const struct zinf_log *log;
    struct zinf_config *c;
    struct zinf_status *st;
};

static struct zinf_setting *get(const struct load *l, const char *path) { return zinf_settings_get(l->s, path); }

static uint64_t auto_or(const struct zinf_setting *s) { return s->is_auto ? ZINF_AUTO_U64 : (uint64_t)s->integer; }

static void set_auto(struct zinf_setting *s, uint64_t value, enum zinf_origin_kind from)
{
    s->is_null = s->is_auto = false;
    s->integer = (int64_t)value;
    s->from = from;
}

/* ---- batch sizes ------------------------------------------------------------------------------------------------- */

/* whole = part x quotient, or an error with the two nearest values of whole that would do. */
static int divide_batch(struct load *l, struct zinf_setting *whole, struct zinf_setting *part, struct zinf_setting *out)
{
    uint64_t w = (uint64_t)whole->integer, p = (uint64_t)part->integer, below = w / p * p;

    if (w % p == 0) {
        set_auto(out, w / p, ZINF_FROM_AUTO);
        return 0;
    }
    if (below == 0)
        return zinf_setting_fail(whole, l->st,
                                 "%" PRIu64 " is not a multiple of %s %" PRIu64 " (x 1 rank): use %" PRIu64,
                                 w, part->key->path, p, p);
    return zinf_setting_fail(whole, l->st, "%" PRIu64 " is not a multiple of %s %" PRIu64 " (x 1 rank): use %" PRIu64
                             " or %" PRIu64, w, part->key->path, p, below, below + p);
}

static int resolve_batch(struct load *l)
{
    struct zinf_setting *batch = get(l, "train_batch_size");
    struct zinf_setting *micro = get(l, "train_micro_batch_size_per_gpu");
    struct zinf_setting *steps = get(l, "gradient_accumulation_steps");
    bool has_batch = zinf_setting_given(batch), has_micro = zinf_setting_given(micro);
    bool has_steps = zinf_setting_given(steps);
    uint64_t product;
    int rc = 0;

    if (!has_batch && !has_micro)
        return zinf_setting_fail(batch, l->st,
                                 "neither it nor train_micro_batch_size_per_gpu has a value: write one of them");
    if (!has_steps && !(has_batch && has_micro)) {
        set_auto(steps, 1, ZINF_FROM_DEFAULT);
        has_steps = true;
    }
    if (!has_steps)
        rc = divide_batch(l, batch, micro, steps);
    else if (!has_micro)
        rc = divide_batch(l, batch, steps, micro);
    if (rc)
        return rc;
    product = (uint64_t)micro->integer * (uint64_t)steps->integer;
    if (!has_batch)
        set_auto(batch, product, ZINF_FROM_AUTO);
    if (product != (uint64_t)batch->integer)
        return zinf_setting_fail(batch, l->st, "%" PRId64 " is not train_micro_batch_size_per_gpu %" PRId64
                                 " x gradient_accumulation_steps %" PRId64 " x 1 rank: use %" PRIu64
                                 ", or leave one of the three out", batch->integer, micro->integer,
                                 steps->integer, product);
    if (product > UINT32_MAX)
        return zinf_setting_fail(micro, l->st,
                                 "x gradient_accumulation_steps is %" PRIu64 " samples per step: at most %u",
                                 product, UINT32_MAX);
    l->c->train_batch_size = (uint32_t)product;
    l->c->micro_batch_size = (uint32_t)micro->integer;
    l->c->gradient_accumulation_steps = (uint32_t)steps->integer;
    zinf_log(l->log, ZINF_LOG_INFO,
             "batch: train_batch_size %u = micro-batch %u x gradient_accumulation_steps %u x 1 rank",
             l->c->train_batch_size, l->c->micro_batch_size, l->c->gradient_accumulation_steps);
    return 0;
}

/* ---- optimizer --------------------------------------------------------------------------------------------------- */

static void note_unused_by_sgd(struct load *l)
{
    static const char *const adam_only[] = { "betas", "eps", "bias_correction", "adam_w_mode" };

    for (size_t i = 0; i < sizeof(adam_only) / sizeof(adam_only[0]); i++) {
        char path[64];

        snprintf(path, sizeof(path), "optimizer.params.%s", adam_only[i]);
        if (zinf_setting_given(get(l, path)))
            zinf_log(l->log, ZINF_LOG_INFO, "%s: no effect: SGD does not use it", path);
    }
}

static void resolve_optimizer(struct load *l)
{
    struct zinf_config *c = l->c;
    const struct zinf_setting *type = get(l, "optimizer.type");
    const struct zinf_setting *mode = get(l, "optimizer.params.adam_w_mode"), *betas = get(l, "optimizer.params.betas");
    bool adam = strcmp(type->text, "Adam") == 0, sgd = strcmp(type->text, "SGD") == 0;

    c->optimizer.lr = get(l, "optimizer.params.lr")->number;
    c->optimizer.beta1 = betas->number;
    c->optimizer.beta2 = betas->number2;
    c->optimizer.eps = get(l, "optimizer.params.eps")->number;
    c->optimizer.weight_decay = get(l, "optimizer.params.weight_decay")->number;
    c->optimizer.bias_correction = get(l, "optimizer.params.bias_correction")->boolean;
    c->optimizer.adam_w_mode = !sgd && (!adam || mode->boolean);
    c->optimizer.type = sgd ? ZINF_OPT_SGD : c->optimizer.adam_w_mode ? ZINF_OPT_ADAMW : ZINF_OPT_ADAM;
    if (!zinf_setting_given(type))
        zinf_log(l->log, ZINF_LOG_INFO, "no optimizer.type: AdamW with lr %g, betas %g %g, eps %g, weight_decay %g",
                 c->optimizer.lr, c->optimizer.beta1, c->optimizer.beta2, c->optimizer.eps, c->optimizer.weight_decay);
    if (adam && mode->boolean)
        zinf_log(l->log, ZINF_LOG_INFO,
                 "optimizer.type Adam is AdamW (decoupled decay): optimizer.params.adam_w_mode is true; "
                 "false gives L2");
    if (!adam && !sgd && !mode->boolean)
        zinf_log(l->log, ZINF_LOG_INFO,
                 "optimizer.params.adam_w_mode: no effect: type AdamW is always decoupled; type Adam "
                 "with false gives L2");
    if (sgd)
        note_unused_by_sgd(l);
}

/* ---- homes ------------------------------------------------------------------------------------------------------- */

static enum zinf_offload offload_of(const struct zinf_setting *device)
{
    return strcmp(device->text, "nvme") == 0 ? ZINF_OFFLOAD_NVME
           : strcmp(device->text, "cpu") == 0 ? ZINF_OFFLOAD_CPU : ZINF_OFFLOAD_NONE;
}

static void set_choice(struct zinf_setting *s, const char *value)
{
    snprintf(s->choice, sizeof(s->choice), "%s", value);
    s->text = s->choice;
}

/* cpu_offload and its like: true stands for device cpu. */
static int fold_cpu_offload(struct load *l, const char *old_path, const char *device_path)
{
    const struct zinf_setting *old = get(l, old_path);
    struct zinf_setting *device = get(l, device_path);

    if (!zinf_setting_given(old))
        return 0;
    zinf_log(l->log, ZINF_LOG_INFO, "%s: old spelling of %s", old_path, device_path);
    if (!old->boolean)
        return 0;
    if (zinf_setting_given(device))
        return zinf_setting_fail(old, l->st, "%s says it too: keep one", device_path);
    set_choice(device, "cpu");
    device->given = old->given;
    device->origin = old->origin;
    device->from = ZINF_FROM_GIVEN;
    return 0;
}

static void fold_zero_boolean(struct load *l)
{
    const struct zinf_setting *old = get(l, "zero_optimization");
    struct zinf_setting *stage = get(l, "zero_optimization.stage");

    if (!zinf_setting_given(old) || zinf_setting_given(stage))
        return;
    zinf_log(l->log, ZINF_LOG_INFO, "zero_optimization as a boolean: old spelling of stage %d", old->boolean);
    stage->integer = old->boolean;
    stage->given = old->given;
    stage->origin = old->origin;
    stage->from = ZINF_FROM_GIVEN;
}

static int resolve_homes(struct load *l)
{
    struct zinf_config *c = l->c;
    struct zinf_setting *opt = get(l, OFFLOAD_OPTIMIZER "device"), *param = get(l, OFFLOAD_PARAM "device");
    int rc;

    fold_zero_boolean(l);
    rc = fold_cpu_offload(l, "zero_optimization.cpu_offload", OFFLOAD_OPTIMIZER "device");
    if (!rc)
        rc = fold_cpu_offload(l, "zero_optimization.cpu_offload_param", OFFLOAD_PARAM "device");
    if (rc)
        return rc;
    c->zero_stage = (uint32_t)get(l, "zero_optimization.stage")->integer;
    c->offload_optimizer = offload_of(opt);
    c->offload_param = offload_of(param);
    if (c->offload_optimizer == ZINF_OFFLOAD_CPU && c->zero_stage < 1)
        return zinf_setting_fail(opt, l->st, "cpu needs zero_optimization.stage 1, 2 or 3, not 0");
    if (c->offload_optimizer == ZINF_OFFLOAD_NVME && c->zero_stage != 3)
        return zinf_setting_fail(opt, l->st, "nvme needs zero_optimization.stage 3, not %u", c->zero_stage);
    if (c->offload_param != ZINF_OFFLOAD_NONE && c->zero_stage != 3)
        return zinf_setting_fail(param, l->st, "%s needs zero_optimization.stage 3, not %u", param->text,
                                 c->zero_stage);
    if (c->offload_param != ZINF_OFFLOAD_NONE && c->offload_optimizer == ZINF_OFFLOAD_NONE) {
        zinf_log(l->log, ZINF_LOG_INFO,
                 "%s: no effect: the weights are half of the optimizer's master and stay on the device "
                 "with it; " OFFLOAD_OPTIMIZER "device moves both", param->key->path);
        c->offload_param = ZINF_OFFLOAD_NONE;
        set_choice(param, "none");
        param->from = ZINF_FROM_AUTO;
    }
    return 0;
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

static int add_path(struct load *l, const struct zinf_setting *s, const char *path)
{
    struct zinf_config *c = l->c;

    if (c->nr_nvme_paths == ZINF_MAX_NVME_PATHS)
        return zinf_setting_fail(s, l->st, "more than %d folders", ZINF_MAX_NVME_PATHS);
    c->nvme_paths[c->nr_nvme_paths] = strdup(path);
    if (!c->nvme_paths[c->nr_nvme_paths])
        return zinf_fail(l->st, -ENOMEM, "out of memory while reading the configuration");
    c->nr_nvme_paths++;
    return 0;
}

static bool has_path(const struct zinf_config *c, const char *path)
{
    for (uint32_t i = 0; i < c->nr_nvme_paths; i++)
        if (strcmp(c->nvme_paths[i], path) == 0)
            return true;
    return false;
}

/* zinf.nvme_paths: an array or one text. */
static int add_paths(struct load *l, const struct zinf_setting *s)
{
    const struct zinf_json *v = s->given;
    int rc = 0;

    if (v->type == ZINF_JSON_STRING)
        return add_path(l, s, v->string);
    for (uint32_t i = 0; i < v->nr_items && !rc; i++) {
        if (has_path(l->c, v->items[i].string))
            return zinf_setting_fail(s, l->st, "%.200s is given twice", v->items[i].string);
        rc = add_path(l, s, v->items[i].string);
    }
    return rc;
}

static int resolve_paths(struct load *l)
{
    static const char *const sections[2][2] = { { OFFLOAD_OPTIMIZER "device", OFFLOAD_OPTIMIZER "nvme_path" },
                                                { OFFLOAD_PARAM "device", OFFLOAD_PARAM "nvme_path" } };
    const struct zinf_setting *paths = get(l, "zinf.nvme_paths"), *asks = NULL;
    bool listed = zinf_setting_given(paths) && (paths->given->type == ZINF_JSON_STRING || paths->given->nr_items > 0);
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        const struct zinf_setting *device = get(l, sections[i][0]), *path = get(l, sections[i][1]);
        bool nvme = offload_of(device) == ZINF_OFFLOAD_NVME;

        asks = asks ? asks : nvme ? device : NULL;
        if (!zinf_setting_given(path))
            continue;
        if (!nvme)
            zinf_log(l->log, ZINF_LOG_INFO, "%s: no effect: the device beside it is %s", sections[i][1], device->text);
        else if (listed)
            zinf_log(l->log, ZINF_LOG_INFO, "%s: no effect: zinf.nvme_paths wins", sections[i][1]);
        else if (!has_path(l->c, path->text))
            rc = add_path(l, path, path->text);
    }
    if (rc)
        return rc;
    if (listed && !asks)
        zinf_log(l->log, ZINF_LOG_INFO, "zinf.nvme_paths: no effect: nothing is offloaded to nvme");
    if (listed && asks)
        return add_paths(l, paths);
    if (asks && l->c->nr_nvme_paths == 0)
        return zinf_setting_fail(asks, l->st,
                                 "nvme needs a folder on a drive: set zinf.nvme_paths (or nvme_path beside it)");
    return 0;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static int resolve_block(struct load *l)
{
    const struct zinf_setting *s = get(l, "zinf.block_elems");
    uint64_t below = (uint64_t)s->integer / BLOCK_ELEMS_MULTIPLE * BLOCK_ELEMS_MULTIPLE;

    l->c->block_elems = auto_or(s);
    if (!s->is_auto && below != (uint64_t)s->integer && below > INT64_MAX - BLOCK_ELEMS_MULTIPLE)
        return zinf_setting_fail(s, l->st, "must be a multiple of %d: use %" PRIu64, BLOCK_ELEMS_MULTIPLE, below);
    if (!s->is_auto && below != (uint64_t)s->integer)
        return zinf_setting_fail(s, l->st, "must be a multiple of %d: use %" PRIu64 " or %" PRIu64,
                                 BLOCK_ELEMS_MULTIPLE, below, below + BLOCK_ELEMS_MULTIPLE);
    return 0;
}

static void resolve_simple(struct load *l)
{
    struct zinf_config *c = l->c;
    const struct zinf_setting *accum = get(l, "data_types.grad_accum_dtype");
    const struct zinf_setting *direct = get(l, "zinf.o_direct");

    c->gradient_clipping = get(l, "gradient_clipping")->number;
    c->steps_per_print = (uint64_t)get(l, "steps_per_print")->integer;
    c->dtype = get(l, "bf16.enabled")->boolean ? ZINF_BF16 : ZINF_F32;
    c->grad_accum_dtype = accum->is_null ? c->dtype : strcmp(accum->text, "bf16") == 0 ? ZINF_BF16 : ZINF_F32;
    c->sub_group_size = (uint64_t)get(l, "zero_optimization.sub_group_size")->integer;
    c->aio.block_size = (uint64_t)get(l, "aio.block_size")->integer;
    c->aio.queue_depth = (uint32_t)get(l, "aio.queue_depth")->integer;
    c->aio.nr_threads = (uint32_t)get(l, "aio.intra_op_parallelism")->integer;
    snprintf(c->device, sizeof(c->device), "%s", get(l, "zinf.device")->text);
    snprintf(c->io_backend, sizeof(c->io_backend), "%s", get(l, "zinf.io_backend")->text);
    c->device_memory = auto_or(get(l, "zinf.device_memory"));
    c->host_memory = auto_or(get(l, "zinf.host_memory"));
    c->threads = auto_or(get(l, "zinf.threads"));
    c->seed = (uint64_t)get(l, "zinf.seed")->integer;
    c->keep_state = get(l, "zinf.keep_state")->boolean;
    c->direct = direct->is_auto || direct->boolean;
    c->sync_power = strcmp(get(l, "zinf.sync")->text, "power") == 0;
    c->checksum = get(l, "zinf.checksum")->boolean;
    c->durability_every = (uint32_t)get(l, "zinf.durability")->integer;
    if (c->durability_every && c->offload_optimizer != ZINF_OFFLOAD_NVME) {
        zinf_log(l->log, ZINF_LOG_INFO, "zinf.durability: none: the optimizer state is not on nvme; --save-every makes checkpoints");
        c->durability_every = 0;
    }
}

int zinf_config_load(const char *path, const char *text, const char *name, const char *const *sets, uint32_t nr_sets,
                     const struct zinf_log *log, struct zinf_config *out, struct zinf_status *st)
{
    struct load l = { .log = log, .c = out, .st = st };
    int rc;

    *out = (struct zinf_config){ 0 };
    rc = zinf_settings_create(nr_sets, &out->settings, st);
    if (rc)
        return rc;
    l.s = out->settings;
    rc = zinf_settings_gather(out->settings, path, text, name, sets, nr_sets, st);
    if (!rc)
        rc = zinf_settings_convert(out->settings, log, st);
    if (!rc)
        rc = resolve_batch(&l);
    if (!rc)
        rc = resolve_homes(&l);
    if (!rc)
        rc = resolve_paths(&l);
    if (!rc)
        rc = resolve_block(&l);
    if (rc) {
        zinf_config_free(out);
        return rc;
    }
    resolve_optimizer(&l);
    resolve_simple(&l);
    return 0;
}

void zinf_config_free(struct zinf_config *c)
{
    for (uint32_t i = 0; i < c->nr_nvme_paths; i++)
        free(c->nvme_paths[i]);
    zinf_settings_free(c->settings);
    *c = (struct zinf_config){ 0 };
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* Shown are the values the run follows, and everything that was given. Old spellings show as what they stand for. */
static bool is_shown(const struct zinf_setting *s)
{
    if (s->key->same_as || (!s->given && s->key->rule != ZINF_RULE_USED))
        return false;
    return s->given || s->from == ZINF_FROM_AUTO || s->key->dflt || !s->is_null;
}

static void print_paths(const struct zinf_config *c, FILE *to)
{
    struct zinf_json_out o = { 0 };

    zinf_json_open_array(&o, NULL);
    for (uint32_t i = 0; i < c->nr_nvme_paths; i++)
        zinf_json_put_string(&o, NULL, c->nvme_paths[i]);
    zinf_json_close_array(&o);
    fprintf(to, "zinf.nvme_paths = %s  # auto\n", o.failed ? "?" : o.text);
    zinf_json_out_free(&o);
}

void zinf_config_explain(const struct zinf_config *c, FILE *to)
{
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        const struct zinf_setting *s = &c->settings->at[i];
        char value[1024];

        if (s->key->type == ZINF_KEY_PATHS && !s->given && c->nr_nvme_paths > 0) {
            print_paths(c, to);
            continue;
        }
        if (!is_shown(s))
            continue;
        fprintf(to, "%s = %s  # ", s->key->path, zinf_setting_format(s, value, sizeof(value)));
        if (s->from == ZINF_FROM_GIVEN && s->origin->is_set)
            fprintf(to, "--set\n");
        else if (s->from == ZINF_FROM_GIVEN)
            fprintf(to, "%s:%u\n", s->origin->where, s->given->line);
        else
            fprintf(to, "%s\n", s->from == ZINF_FROM_AUTO ? "auto" : "default");
    }
}

static const char *type_name(enum zinf_key_type t)
{
    static const char *const names[] = {
        [ZINF_KEY_BOOL] = "boolean", [ZINF_KEY_INT] = "integer", [ZINF_KEY_NUMBER] = "number", [ZINF_KEY_SIZE] = "size",
        [ZINF_KEY_TEXT] = "text", [ZINF_KEY_CHOICE] = "choice", [ZINF_KEY_PATHS] = "folders",
        [ZINF_KEY_BETAS] = "two numbers", [ZINF_KEY_EVERY] = "step|none|{every}", [ZINF_KEY_FREE] = "section",
    };

    return names[t];
}

void zinf_config_list_keys(FILE *to)
{
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        const struct zinf_key *k = &zinf_keys[i];
        const struct zinf_key *of = k->same_as ? zinf_key_find(k->same_as) : k;

        fprintf(to, "%-50s  %-11s", k->path, of->type == ZINF_KEY_CHOICE ? of->choices : type_name(of->type));
        fprintf(to, "  %-11s  %s\n", of->dflt ? of->dflt : "-", k->doc);
    }
}
