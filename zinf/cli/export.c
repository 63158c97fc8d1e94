/* zinf/cli/export.c - `zinf export`: a Hugging Face folder from a run's state on drives, or from a named checkpoint. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/update.h"
#include "zinf/checkpoint/hf_export.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/cli/args.h"
#include "zinf/cli/commands.h"
#include "zinf/cli/runfile.h"
#include "zinf/model/model.h"
#include "zinf/zinf.h"

/* ---- from a checkpoint ---- */

struct source {
    struct zinf_portable *p;
    const struct zinf_param **params;
    enum zinf_dtype dtype;
    float *piece;
};

enum { PIECE_NBYTES = 1 << 20 };

/* bf16 takes the half of the master that the layers used, so that every way to an export gives the same bytes. */
static int fetch(void *ctx, uint32_t param, uint64_t first, uint64_t nr_elems, void *out, struct zinf_status *st)
{
    struct source *s = ctx;
    int rc = zinf_portable_read(s->p, s->params[param]->name, ZINF_MASTER, first, s->piece, nr_elems, st);

    for (uint64_t i = 0; i < nr_elems && !rc; i++) {
        int16_t lo;

        if (s->dtype == ZINF_BF16)
            zinf_split(zinf_f32_bits(s->piece[i]), (uint16_t *)out + i, &lo);
        else
            ((float *)out)[i] = s->piece[i];
    }
    return rc;
}

static const struct zinf_param **param_list(const struct zinf_chain *c, uint32_t *nr)
{
    uint32_t n = 1 + c->head->nr_params, k = 0;
    const struct zinf_param **list;

    for (uint32_t i = 0; i < c->nr_layers; i++)
        n += c->layers[i].nr_params;
    list = calloc(n, sizeof(*list));
    if (!list)
        return NULL;
    list[k++] = c->embedding;
    for (uint32_t i = 0; i < c->nr_layers; i++)
        for (uint32_t j = 0; j < c->layers[i].nr_params; j++)
            list[k++] = &c->layers[i].params[j];
    for (uint32_t j = c->tied; j < c->head->nr_params; j++)
        list[k++] = &c->head->params[j];
    *nr = k;
    return list;
}

static enum zinf_dtype dtype_of(const struct zinf_json *meta)
{
    const struct zinf_json *f = zinf_json_get(meta, "fingerprint");

    return f && f->type == ZINF_JSON_STRING && strstr(f->string, "\ndtype=bf16\n") ? ZINF_BF16 : ZINF_F32;
}

static int export_checkpoint(const char *from, const char *out, struct zinf_status *st)
{
    struct source s = { 0 };
    struct zinf_hf_export_opts o = { .dir = out, .fetch = fetch, .ctx = &s, .piece_nbytes = PIECE_NBYTES };
    struct zinf_model *model = NULL;
    const struct zinf_json *text;
    int rc = zinf_portable_load(from, &s.p, st);

    if (rc)
        return rc;
    text = zinf_json_get(zinf_portable_meta(s.p), "model_config");
    if (!text || text->type != ZINF_JSON_STRING)
        rc = zinf_fail(st, -EINVAL, "%s is of a chain of layers that is no Hugging Face model: only its program can export it", from);
    if (!rc)
        rc = zinf_model_parse(text->string, text->string_nbytes, from, 0, NULL, &model, st);
    if (!rc) {
        s.dtype = o.dtype = dtype_of(zinf_portable_meta(s.p));
        s.params = param_list(&model->chain, &o.nr_params);
        s.piece = malloc(2 * (size_t)PIECE_NBYTES);
        o.params = s.params;
        o.config_text = model->config_text;
        o.config_nbytes = model->config_nbytes;
        rc = s.params && s.piece ? zinf_portable_match(s.p, s.params, o.nr_params, NULL, st) : zinf_fail(st, -ENOMEM, "out of memory");
    }
    if (!rc)
        rc = zinf_hf_export(&o, st);
    free(s.piece);
    free(s.params);
    zinf_model_close(model);
    zinf_portable_unload(s.p);
    return rc;
}

/* ---- from a run ---- */

static uint64_t no_samples(void *ctx, enum zinf_split split)
{
    (void)ctx;
    (void)split;
    return 1;
}

static int no_fetch(void *ctx, enum zinf_split split, uint64_t index, int32_t *tokens, int32_t *targets, float *input,
                    struct zinf_status *st)
{
    (void)ctx, (void)split, (void)index, (void)tokens, (void)targets, (void)input;
    return zinf_fail(st, -EINVAL, "an export reads no data");
}

static int export_state(const struct zinf_run_file *r, const char *out, const struct zinf_log *log, struct zinf_status *st)
{
    static const struct zinf_source none = { .nr_samples = no_samples, .fetch = no_fetch };
    const struct zinf_trainer_opts o = {
        .config_text = r->config, .sets = r->sets, .nr_sets = r->nr_sets, .model = r->model, .source = &none,
        .seq_len = (uint32_t)r->seq_len, .resume_dirs = r->state_dirs, .nr_resume_dirs = r->nr_state_dirs, .log = log,
    };
    struct zinf_trainer *t;
    int rc = zinf_trainer_open(&o, &t, st);

    if (rc)
        return rc;
    rc = zinf_trainer_export(t, out, st);
    zinf_trainer_close(t);
    return rc;
}

static int join(char out[PATH_MAX], const char *dir, const char *name, struct zinf_status *st)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);

    return n > 0 && n < PATH_MAX ? 0 : zinf_fail(st, -ENAMETOOLONG, "%s: the path is too long", dir);
}

static int export_run(const char *from, const char *out, const struct zinf_log *log, struct zinf_status *st)
{
    char saves[PATH_MAX], path[PATH_MAX], **names = NULL;
    struct zinf_run_file r;
    uint32_t nr = 0;
    int rc = zinf_run_file_read(from, &r, st);

    if (rc == -ENOENT)
        *st = (struct zinf_status){ 0 };
    if (rc == -ENOENT)
        return zinf_fail(st, rc, "--from %s: neither a run folder (run.json) nor a checkpoint (checkpoint.json) is there", from);
    if (rc)
        return rc;
    if (r.nr_state_dirs) {
        rc = export_state(&r, out, log, st);
        zinf_run_file_free(&r);
        return rc;
    }
    zinf_run_file_free(&r);
    rc = join(saves, from, "checkpoints", st);
    rc = rc ? rc : zinf_portable_list(saves, false, &names, &nr, st);
    if (!rc && !nr)
        rc = zinf_fail(st, -ENOENT, "%s keeps no state on a drive and has no checkpoint; its last weights, if it ended, are in "
                       "%s/model", from, from);
    if (!rc)
        rc = join(path, saves, names[nr - 1], st);
    if (!rc) {
        printf("%s keeps no state on a drive: taking its newest checkpoint, %s\n", from, path);
        rc = export_checkpoint(path, out, st);
    }
    for (uint32_t i = 0; i < nr; i++)
        free(names[i]);
    free(names);
    return rc;
}

int zinf_cmd_export(int argc, char **argv)
{
    const char *from = NULL, *out = NULL;
    bool help = false;
    const struct zinf_arg args[] = {
        { "from", ZINF_ARG_STRING, &from, "DIR", "folder of a run (--out of zinf train), or a checkpoint in its checkpoints/", 0, 0, false },
        { "out", ZINF_ARG_STRING, &out, "HF_DIR", "the Hugging Face folder to write", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &help, NULL, "this text", 0, 0, false },
    };
    const uint32_t nr = sizeof(args) / sizeof(args[0]);
    struct zinf_status st = { 0 };
    struct zinf_log log;
    char path[PATH_MAX];
    struct stat sb;
    int rc = zinf_args_parse(args, nr, NULL, argc, argv, &st);

    if (!rc)
        rc = zinf_cmd_log(&log, &st);
    if (!rc && help) {
        zinf_args_help("zinf export --from DIR --out HF_DIR", args, nr);
        return 0;
    }
    if (!rc && (!from || !out))
        rc = zinf_fail(&st, -EINVAL, "--%s is missing; see zinf export --help", from ? "out" : "from");
    if (rc)
        return zinf_cmd_usage(&st);
    if (log.level == ZINF_LOG_INFO)         /* what the configuration makes of the run was said when it ran */
        log.level = ZINF_LOG_WARN;
    rc = zinf_hf_check_dir(out, &st);
    if (!rc)
        rc = join(path, from, "checkpoint.json", &st);
    if (!rc)
        rc = stat(path, &sb) ? export_run(from, out, &log, &st) : export_checkpoint(from, out, &st);
    if (rc)
        return zinf_cmd_refuse(&st);
    printf("exported to %s\n", out);
    return 0;
}
