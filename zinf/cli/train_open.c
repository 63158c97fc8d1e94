/* zinf/cli/train_open.c - what a `zinf train` is asked to do, and everything opened for it: a new run, or one that goes on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/checkpoint/durable.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/cli/commands.h"
#include "zinf/cli/train.h"
#include "zinf/config/utf8.h"

int zinf_cli_parse(struct zinf_cli_options *o, int argc, char **argv, struct zinf_status *st)
{
    const struct zinf_arg args[] = {
        { "config", ZINF_ARG_STRING, &o->config, "FILE", "ds_config.json", 0, 0, false },
        { "model", ZINF_ARG_STRING, &o->model, "PATH", "Hugging Face folder or config.json (default: that of --init-from)", 0, 0, false },
        { "data", ZINF_ARG_STRING, &o->data, "PATH", "text file or folder of text files, read as bytes", 0, 0, false },
        { "eval-data", ZINF_ARG_STRING, &o->eval_data, "PATH", "text to evaluate on (default: the last 10 % of --data)", 0, 0, false },
        { "eval-every", ZINF_ARG_U64, &o->eval_every, "N", "evaluate every N steps (default: at the end)", 1, UINT32_MAX, false },
        { "seq-len", ZINF_ARG_U64, &o->seq_len, "T", "tokens per sample (default: min(1024, the model's maximum))", 1, 1u << 24, false },
        { "steps", ZINF_ARG_U64, &o->steps, "N", "optimizer steps (default: one epoch)", 1, UINT32_MAX, false },
        { "out", ZINF_ARG_STRING, &o->out, "DIR", "folder of the run: log, weights, checkpoints (default: zinf-out)", 0, 0, false },
        { "overwrite", ZINF_ARG_FLAG, &o->overwrite, NULL, "replace the run that --out holds, its state on drives included", 0, 0, false },
        { "resume", ZINF_ARG_FLAG, &o->resume, NULL, "go on with the run in --out; its options are the default of the others", 0, 0, false },
        { "init-from", ZINF_ARG_STRING, &o->init_from, "DIR", "take the weights of a Hugging Face folder; all else starts new", 0, 0, false },
        { "checkpoint", ZINF_ARG_STRING, &o->checkpoint, "DIR", "start from a checkpoint of --save-every, optimizer and data position included", 0, 0, false },
        { "save-every", ZINF_ARG_U64, &o->save_every, "N", "write a named checkpoint every N steps while training goes on", 1, UINT32_MAX, false },
        { "keep", ZINF_ARG_U64, &o->keep, "K", "keep the newest K checkpoints (default: all)", 1, UINT32_MAX, false },
        { "log", ZINF_ARG_STRING, &o->log, "FILE", "JSON lines, one per step (default: DIR/log.jsonl)", 0, 0, false },
        { "serial", ZINF_ARG_FLAG, &o->serial, NULL, "one operation at a time: same bits, for debugging", 0, 0, false },
        { "set", ZINF_ARG_LIST, &o->sets, "KEY=VALUE", "override a key of the configuration; may be repeated", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &o->help, NULL, "this text", 0, 0, false },
    };
    const uint32_t nr = sizeof(args) / sizeof(args[0]);
    int rc = zinf_args_parse(args, nr, NULL, argc, argv, st);

    o->out = o->out ? o->out : "zinf-out";
    if (rc)
        return rc;
    if (o->help) {
        zinf_args_help("zinf train --config FILE --model PATH --data PATH [options] | zinf train --resume --out DIR", args, nr);
        return 0;
    }
    if (o->resume && o->overwrite)
        return zinf_fail(st, -EINVAL, "--resume and --overwrite: give one of them");
    if (!!o->init_from + !!o->checkpoint + o->resume > 1)
        return zinf_fail(st, -EINVAL, "--resume, --checkpoint and --init-from: give one of them");
    if (!o->model)                          /* the folder of the weights describes them */
        o->model = o->init_from;
    if (!o->resume && (!o->config || !o->model || !o->data))
        return zinf_fail(st, -EINVAL, "--%s is missing; see zinf train --help", !o->config ? "config" : !o->model ? "model" : "data");
    return 0;
}

static int slurp(const char *path, char **out, struct zinf_status *st)
{
    FILE *f = fopen(path, "rb");
    size_t used = 0, cap = 1 << 16;
    char *text = f ? malloc(cap) : NULL;
    int rc = f ? text ? 0 : zinf_fail(st, -ENOMEM, "out of memory") : zinf_fail(st, -errno, "%s: %s", path, strerror(errno));

    while (!rc) {
        size_t n = fread(text + used, 1, cap - used - 1, f);

        used += n;
        if (ferror(f))
            rc = zinf_fail(st, -EIO, "%s: it cannot be read", path);
        if (!n)
            break;
        if (used == cap - 1) {
            char *grown = cap < (64u << 20) ? realloc(text, cap *= 2) : NULL;

            rc = grown ? 0 : zinf_fail(st, -EFBIG, "%s is too large for a configuration", path);
            text = grown ? grown : text;
        }
    }
    if (f)
        fclose(f);
    if (rc)
        free(text);
    else
        text[used] = 0, *out = text;
    return rc;
}

/* run.json is JSON, which cannot hold every name: a resume would look for another one. */
static int check_can_be_kept(const char *what, const char *text, struct zinf_status *st)
{
    const char *end = text + strlen(text);

    for (const char *p = text; p < end;) {
        size_t n = zinf_utf8_nbytes(p, (size_t)(end - p));

        if (!n)
            return zinf_fail(st, -EINVAL, "%s %s: it is not UTF-8 and run.json could not keep it: rename it", what, text);
        p += n;
    }
    return 0;
}

/* Where the process was started must not matter to a resume. */
static int absolute(const char *what, const char *path, char **out, struct zinf_status *st)
{
    if (!path || !path[0])
        return 0;
    *out = realpath(path, NULL);
    return *out ? check_can_be_kept(what, *out, st) : zinf_fail(st, -errno, "%s %s: %s", what, path, strerror(errno));
}

static bool same_key(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");

    return n == strcspn(b, "=") && !memcmp(a, b, n);
}

/* The stored settings, without those that are given anew, then the given ones. */
static int inherit_sets(struct zinf_arg_list *now, const struct zinf_run_file *f, struct zinf_status *st)
{
    const char **items = calloc((size_t)f->nr_sets + now->nr + 1, sizeof(*items));
    uint32_t nr = 0;

    if (!items)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < f->nr_sets; i++) {
        bool anew = false;

        for (uint32_t j = 0; j < now->nr; j++)
            anew |= same_key(f->sets[i], now->items[j]);
        if (!anew)
            items[nr++] = f->sets[i];
    }
    for (uint32_t i = 0; i < now->nr; i++)
        items[nr++] = now->items[i];
    zinf_args_free(now);
    *now = (struct zinf_arg_list){ .items = items, .nr = nr };
    return 0;
}

/* The stored options of a run are the defaults of the ones given now; --set is laid over the stored ones. */
static int inherit(struct zinf_cli_run *r, struct zinf_status *st)
{
    struct zinf_cli_options *o = &r->o;
    struct zinf_run_file *f = &r->file;
    int rc = zinf_run_file_read(r->out.path, f, st);

    if (rc)
        return rc;
    o->model = o->model ? o->model : f->model;
    o->data = o->data ? o->data : f->data;
    o->eval_data = o->eval_data ? o->eval_data : f->eval_data;
    o->log = o->log ? o->log : f->log[0] ? f->log : NULL;
    o->seq_len = o->seq_len ? o->seq_len : f->seq_len;
    o->steps = o->steps ? o->steps : f->steps;
    o->eval_every = o->eval_every ? o->eval_every : f->eval_every;
    o->save_every = o->save_every ? o->save_every : f->save_every;
    o->keep = o->keep ? o->keep : f->keep;
    if (!o->config && !(r->config_text = strdup(f->config)))
        return zinf_fail(st, -ENOMEM, "out of memory");
    return inherit_sets(&o->sets, f, st);
}

/* A run whose state is on no drive goes on from its newest checkpoint. */
static int newest_checkpoint(struct zinf_cli_run *r, struct zinf_status *st)
{
    char **names = NULL;
    uint32_t nr = 0;
    int rc;

    if (r->file.nr_state_dirs)
        return 0;
    rc = access(r->saves, F_OK) ? 0 : zinf_portable_list(r->saves, true, &names, &nr, st);
    if (!rc && !nr)
        rc = zinf_fail(st, -ENOENT, "%s: there is nothing to resume: it keeps no state on a drive and has no checkpoint "
                       "(of --save-every)", r->out.path);
    if (!rc) {
        snprintf(r->checkpoint, sizeof(r->checkpoint), "%s/%.200s", r->saves, names[nr - 1]);
        r->o.checkpoint = r->checkpoint;
    }
    for (uint32_t i = 0; i < nr; i++)
        free(names[i]);
    free(names);
    return rc;
}

/* Where the state is to come from is looked at before anything is made on a drive. */
static int check_checkpoint(const char *dir, struct zinf_status *st)
{
    char path[1100];

    snprintf(path, sizeof(path), "%.1000s/checkpoint.json", dir);
    return !access(path, F_OK) ? 0 : zinf_fail(st, -errno, "--checkpoint %s: %s; name a folder step-NNNNNNNN that --save-every "
                                               "made", path, strerror(errno));
}

static int check_weights(const char *dir, struct zinf_status *st)
{
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json" };
    char path[1100];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%.1000s/%s", dir, names[i]);
        if (!access(path, F_OK))
            return 0;
    }
    return zinf_fail(st, -ENOENT, "--init-from %s has neither %s nor %s: name a Hugging Face folder with weights", dir, names[0],
                     names[1]);
}

static void setup_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct zinf_cli_run *r = ctx;

    zinf_progress_setup(r->progress, what, done, total);
}

static int open_folder(struct zinf_cli_run *r, struct zinf_status *st)
{
    struct zinf_cli_options *o = &r->o;
    int rc = o->resume ? zinf_outdir_enter(o->out, &r->out, st) : zinf_outdir_check(o->out, o->overwrite, &r->out, st);

    snprintf(r->saves, sizeof(r->saves), "%.900s/checkpoints", r->out.path);
    if (!rc && o->resume)
        rc = inherit(r, st);
    if (!rc && o->resume)
        rc = newest_checkpoint(r, st);
    if (!rc && o->sets.nr > ZINF_RUN_STRINGS_MAX)
        rc = zinf_fail(st, -EINVAL, "more than %d times --set: put them into the configuration", ZINF_RUN_STRINGS_MAX);
    if (!rc && o->log)
        rc = zinf_outdir_check_log(o->log, st);
    if (!rc && o->checkpoint)
        rc = check_checkpoint(o->checkpoint, st);
    if (!rc && o->init_from)
        rc = check_weights(o->init_from, st);
    if (!rc && o->log)
        rc = check_can_be_kept("--log", o->log, st);
    for (uint32_t i = 0; i < o->sets.nr && !rc; i++)
        rc = check_can_be_kept("--set", o->sets.items[i], st);
    if (!rc && o->config)
        rc = slurp(o->config, &r->config_text, st);
    if (!rc)
        rc = zinf_config_load(o->config, o->config ? NULL : r->config_text, "the stored configuration", o->sets.items, o->sets.nr,
                              NULL, &r->config, st);
    if (!rc)
        rc = absolute("--model", o->model, &r->model_path, st);
    if (!rc)
        rc = absolute("--data", o->data, &r->data_path, st);
    if (!rc)
        rc = absolute("--eval-data", o->eval_data, &r->eval_path, st);
    return rc;
}

/* What the replaced run kept is given back only now that the new one stands. */
static int replace_old(struct zinf_cli_run *r, struct zinf_status *st)
{
    char **names = NULL;
    uint32_t nr = 0;
    int rc = 0;

    if (!r->out.exists)             /* what has appeared meanwhile is another run's, and zinf_outdir_take refuses it */
        return zinf_outdir_take(&r->out, st);
    if (!access(r->out.run, F_OK))
        rc = zinf_clean_run(r->out.path, st);
    if (!rc && !access(r->saves, F_OK))
        rc = zinf_portable_list(r->saves, true, &names, &nr, st);
    for (uint32_t i = 0; i < nr; i++) {
        if (!rc)
            rc = zinf_portable_remove(r->saves, names[i], st);
        free(names[i]);
    }
    free(names);
    return rc ? rc : zinf_outdir_take(&r->out, st);
}

/* t: whose state is kept on drives; NULL = nobody's. */
static int write_run(struct zinf_cli_run *r, const struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_cli_options *o = &r->o;
    char *log = o->log ? realpath(o->log, NULL) : NULL;
    struct zinf_run_file f = {
        .config = r->config_text, .model = r->model_path, .data = r->data_path, .eval_data = r->eval_path ? r->eval_path : "",
        .log = log ? log : "", .seq_len = o->seq_len, .steps = o->steps, .eval_every = o->eval_every,
        .save_every = o->save_every, .keep = o->keep,
    };
    int rc = check_can_be_kept("--log", f.log, st);

    for (; f.nr_sets < o->sets.nr; f.nr_sets++)
        f.sets[f.nr_sets] = o->sets.items[f.nr_sets];
    while (t && f.nr_state_dirs < ZINF_RUN_STRINGS_MAX && zinf_trainer_state_dir(t, f.nr_state_dirs)) {
        f.state_dirs[f.nr_state_dirs] = zinf_trainer_state_dir(t, f.nr_state_dirs);
        f.nr_state_dirs++;
    }
    rc = rc ? rc : zinf_run_file_write(r->out.path, &f, st);
    free(log);
    return rc;
}

/* The run is in run.json before its folders on the drives hold a record: whenever it is killed, they are named or are garbage. */
static int claim(void *ctx, const struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_cli_run *r = ctx;
    int rc = 0;

    for (uint32_t i = 0; zinf_trainer_state_dir(t, i) && !rc; i++)
        rc = check_can_be_kept("zinf.nvme_paths:", zinf_trainer_state_dir(t, i), st);
    if (!rc)
        rc = replace_old(r, st);
    r->claimed = !rc;
    return rc ? rc : write_run(r, t, st);
}

static int open_trainer(struct zinf_cli_run *r, struct zinf_status *st)
{
    const struct zinf_cli_options *o = &r->o;
    bool state = o->resume && r->file.nr_state_dirs;
    const struct zinf_trainer_opts t = {
        .config_path = o->config, .config_text = o->config ? NULL : r->config_text, .sets = o->sets.items, .nr_sets = o->sets.nr,
        .model = r->model_path, .data = r->data_path, .eval_data = r->eval_path, .seq_len = (uint32_t)o->seq_len,
        .resume_dirs = state ? r->file.state_dirs : NULL, .nr_resume_dirs = state ? r->file.nr_state_dirs : 0,
        .load_checkpoint = o->checkpoint, .init_from = o->init_from, .checkpoint_dir = r->saves, .save_every = o->save_every,
        .keep = (uint32_t)o->keep, .serial = o->serial, .log = &r->log, .progress = setup_progress, .progress_ctx = r,
        .claim = claim, .claim_ctx = r,
    };

    return zinf_trainer_open(&t, &r->t, st);
}

static int open_all(struct zinf_cli_run *r, struct zinf_status *st)
{
    struct zinf_cli_options *o = &r->o;
    struct zinf_run_info info;
    int rc = open_folder(r, st);

    if (rc)
        return rc;
    r->progress = zinf_progress_open(isatty(STDOUT_FILENO), o->steps, r->config.steps_per_print);
    if (!r->progress)
        return zinf_fail(st, -ENOMEM, "out of memory");
    rc = open_trainer(r, st);
    zinf_progress_clear(r->progress);       /* the start-up line, before others write */
    if (rc)
        return rc;
    zinf_trainer_info(r->t, &info);
    if (!o->steps) {
        o->steps = info.steps_per_epoch;
        zinf_progress_set_steps(r->progress, o->steps);
    }
    /* zinf_outdir_check_log: it fits */
    snprintf(r->log_path, sizeof(r->log_path), "%s", o->log ? o->log : r->out.log);
    if (!o->resume && !r->claimed)
        rc = replace_old(r, st);
    if (!rc)
        rc = zinf_jsonl_open(r->log_path, o->resume, &r->jsonl, st);
    if (!rc && o->resume)
        rc = zinf_jsonl_resume(r->jsonl, info.first_step, st);
    return rc ? rc : write_run(r, info.durable ? r->t : NULL, st);
}

int zinf_cli_open(struct zinf_cli_run *r, struct zinf_status *st)
{
    int rc = open_all(r, st);

    if (rc && r->claimed)           /* its folders on the drives go, too */
        zinf_durable_remove(r->out.path, "run.json", 0);
    return rc;
}

int zinf_cli_forget_state(struct zinf_cli_run *r, struct zinf_status *st)
{
    return r->config.keep_state ? 0 : write_run(r, NULL, st);
}

void zinf_cli_close(struct zinf_cli_run *r)
{
    zinf_config_free(&r->config);
    zinf_args_free(&r->o.sets);
    zinf_run_file_free(&r->file);
    free(r->config_text);
    free(r->model_path);
    free(r->data_path);
    free(r->eval_path);
}
