/* zinf/engine/commit.c - what a run leaves for the next one: fingerprint, records, and the way back from them. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_device.h"
#include "zinf/base/cpu.h"
#include "zinf/checkpoint/hf_weights.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/config/json.h"

/* "key=value" lines: everything that fixes a bit of the result besides the state itself. */
int zinf_fingerprint_make(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_config *c = &t->config;
    char device[64], cpu[96];
    size_t n;
    int rc = zinf_cpu_describe(device, sizeof(device), st);

    if (rc)
        return rc;
    snprintf(t->fingerprint, sizeof(t->fingerprint),
             "zinf=%s\ndevice=%s\nprocessor=%s\ndtype=%s\ngrad_accum_dtype=%s\nmicro_batch=%u\naccumulation=%u\nseq_len=%u\n"
             "world=1\noptimizer=%d\nlr=%.17g\nbeta1=%.17g\nbeta2=%.17g\neps=%.17g\nweight_decay=%.17g\nbias_correction=%d\n"
             "gradient_clipping=%.17g\nseed=%llu\n",
             zinf_version(), device, zinf_cpu_model(cpu, sizeof(cpu)), zinf_dtype_name(c->dtype),
             zinf_dtype_name(c->grad_accum_dtype), t->batch.batch, t->batch.nr_micro, t->batch.seq, (int)t->optimizer.kind,
             c->optimizer.lr, c->optimizer.beta1, c->optimizer.beta2, c->optimizer.eps, c->optimizer.weight_decay,
             c->optimizer.bias_correction, c->gradient_clipping, (unsigned long long)c->seed);
    /* Text that has grown is read in another order. */
    n = strlen(t->fingerprint);
    if (t->text)
        snprintf(t->fingerprint + n, sizeof(t->fingerprint) - n, "train_samples=%llu\n",
                 (unsigned long long)t->source->nr_samples(t->source->ctx, ZINF_TRAIN));
    return 0;
}

/* One line that names what differs between two fingerprints. */
static void tell_difference(const struct zinf_trainer *t, const char *then)
{
    char text[512] = "", now[1024];
    size_t used = 0;
    char *save = NULL;

    snprintf(now, sizeof(now), "%s", t->fingerprint);
    for (char *line = strtok_r(now, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t key = strcspn(line, "=") + 1;
        const char *old = then;

        while (old && strncmp(old, line, key))
            old = strchr(old, '\n') ? strchr(old, '\n') + 1 : NULL;
        if (old && !strncmp(old, line, strlen(line)) && old[strlen(line)] == '\n')
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s %.*s -> %s", used ? ", " : "", (int)key - 1, line,
                                 old ? (int)(strcspn(old, "\n") - key) : 1, old ? old + key : "?", line + key);
        if (used >= sizeof(text))
            break;
    }
    if (text[0])
        zinf_log(t->opts.log, ZINF_LOG_WARN, "not bit-exact with the run before: %s", text);
}

bool zinf_commit_due(const struct zinf_trainer *t, uint64_t iteration)
{
    return t->durable && iteration % t->config.durability_every == 0;
}

/* ---- resume from the drives ---- */

int zinf_resume_record(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_trainer_opts *o = &t->opts;
    int rc = 0;

    t->rundirs = calloc(o->nr_resume_dirs, sizeof(*t->rundirs));
    if (!t->rundirs)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < o->nr_resume_dirs && !rc; i++) {
        rc = zinf_rundir_adopt(o->resume_dirs[i], &t->rundirs[i], st);
        t->nr_rundirs += !rc;
    }
    if (!rc)
        rc = zinf_record_load(o->resume_dirs[0], 0, UINT64_MAX, &t->record, NULL, st);
    if (rc)
        return rc;
    if (t->record.nr_drives != o->nr_resume_dirs)
        return zinf_fail(st, -EINVAL, "the record in %s was made on %u drives; %u run folders are given", o->resume_dirs[0],
                         t->record.nr_drives, o->nr_resume_dirs);
    t->resumed = true;
    if (t->record.other_damaged)
        zinf_log(o->log, ZINF_LOG_WARN, "%s/record-0: slot %u of 2 is damaged, by a loss of power or by the drive: going on from "
                 "the other, iteration %llu", o->resume_dirs[0], 2 - t->record.slot, (unsigned long long)t->record.generation);
    return zinf_verdict_decode(t->record.payload, t->record.payload_nbytes, &t->verdict, st);
}

/* ---- first values ---- */

static int read_checkpoint(void *ctx, uint32_t param, uint64_t first, uint64_t n, float *master, float *m, float *v,
                           struct zinf_status *st)
{
    struct { struct zinf_trainer *t; struct zinf_portable *p; uint32_t nr_kinds; } *c = ctx;
    const char *name = c->t->part.params[param].param->name;
    int rc = zinf_portable_read(c->p, name, ZINF_MASTER, first, master, n, st);

    if (!rc && c->nr_kinds > 1)
        rc = zinf_portable_read(c->p, name, ZINF_EXP_AVG, first, m, n, st);
    if (!rc && c->nr_kinds > 1)
        rc = zinf_portable_read(c->p, name, ZINF_EXP_AVG_SQ, first, v, n, st);
    return rc;
}

static int read_weights(void *ctx, uint32_t param, uint64_t first, uint64_t n, float *master, float *m, float *v,
                        struct zinf_status *st)
{
    (void)m;
    (void)v;
    return zinf_hf_weights_read(ctx, param, first, n, master, st);
}

static const struct zinf_param **param_list(const struct zinf_trainer *t)
{
    const struct zinf_param **list = calloc((size_t)t->part.nr_params + 1, sizeof(*list));

    for (uint32_t i = 0; list && i < t->part.nr_params; i++)
        list[i] = t->part.params[i].param;
    return list;
}

/* The verdict and fingerprint that zinf_state_meta wrote. */
static int read_meta(struct zinf_trainer *t, const struct zinf_json *meta, struct zinf_status *st)
{
    static const char *const names[] = { "iteration", "step", "next_sample", "skips_in_a_row" };
    uint64_t *const to[] = { &t->verdict.iteration, &t->verdict.applied, &t->verdict.next_sample, &t->verdict.skips_in_a_row };
    const struct zinf_json *f = zinf_json_get(meta, "fingerprint");

    for (int i = 0; i < 4; i++) {
        const struct zinf_json *v = zinf_json_get(meta, names[i]);

        if (!v || !v->is_integer || v->integer < 0)
            return zinf_fail(st, -EINVAL, "the checkpoint's \"%s\" is missing or no count", names[i]);
        *to[i] = (uint64_t)v->integer;
    }
    if (f && f->type == ZINF_JSON_STRING)
        tell_difference(t, f->string);
    return 0;
}

static int init_from_checkpoint(struct zinf_trainer *t, const struct zinf_param *const *params, struct zinf_status *st)
{
    struct { struct zinf_trainer *t; struct zinf_portable *p; uint32_t nr_kinds; } c = { t, NULL, 0 };
    const struct zinf_state_source from = { read_checkpoint, &c };
    int rc = zinf_portable_load(t->opts.load_checkpoint, &c.p, st);

    if (!rc)
        rc = zinf_portable_match(c.p, params, t->part.nr_params, &c.nr_kinds, st);
    if (!rc && c.nr_kinds == 1 && t->optimizer.kind != ZINF_SGD)
        rc = zinf_fail(st, -EINVAL, "%s holds no moments: it was made by SGD; use --init-from to start the optimizer anew",
                       t->opts.load_checkpoint);
    if (!rc)
        rc = read_meta(t, zinf_portable_meta(c.p), st);
    if (!rc)
        rc = zinf_state_init(t, &from, st);
    zinf_portable_unload(c.p);
    return rc;
}

static int init_from_weights(struct zinf_trainer *t, const struct zinf_param *const *params, struct zinf_status *st)
{
    struct zinf_hf_weights *w;
    struct zinf_state_source from = { read_weights, NULL };
    int rc = zinf_hf_weights_open(t->opts.init_from, params, t->part.nr_params, t->opts.log, &w, st);

    if (rc)
        return rc;
    from.ctx = w;
    rc = zinf_state_init(t, &from, st);
    zinf_hf_weights_close(w);
    return rc;
}

int zinf_resume_state(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_param **params = param_list(t);
    unsigned char payload[ZINF_VERDICT_NBYTES];
    int rc;

    if (!params)
        return zinf_fail(st, -ENOMEM, "out of memory");
    if (t->resumed)
        tell_difference(t, t->record.fingerprint);
    if (t->opts.load_checkpoint)
        rc = init_from_checkpoint(t, params, st);
    else if (t->opts.init_from)
        rc = init_from_weights(t, params, st);
    else
        rc = zinf_state_init(t, NULL, st);
    free(params);
    t->first_step = t->verdict.applied;
    if (!rc && t->durable && !t->resumed && t->opts.claim)
        rc = t->opts.claim(t->opts.claim_ctx, t, st);
    if (!rc && t->durable && !t->resumed) {          /* record 0, or the first one of a loaded checkpoint */
        zinf_verdict_encode(&t->verdict, payload);
        rc = zinf_store_commit(t->store, t->verdict.iteration, payload, st);
    }
    t->committed = !rc && t->durable;
    t->durable_step = t->durable ? t->verdict.applied : 0;
    return rc;
}

char *zinf_state_meta(const struct zinf_trainer *t, const struct zinf_verdict *v)
{
    struct zinf_json_out j = { 0 };

    zinf_json_open_object(&j, NULL);
    zinf_json_put_integer(&j, "iteration", (int64_t)v->iteration);
    zinf_json_put_integer(&j, "step", (int64_t)v->applied);      /* what orders checkpoints */
    zinf_json_put_integer(&j, "next_sample", (int64_t)v->next_sample);
    zinf_json_put_integer(&j, "skips_in_a_row", (int64_t)v->skips_in_a_row);
    zinf_json_put_integer(&j, "seed", (int64_t)t->config.seed);
    zinf_json_put_number(&j, "loss", v->loss);
    zinf_json_put_string(&j, "fingerprint", t->fingerprint);
    if (t->model)
        zinf_json_put_string(&j, "model_config", t->model->config_text);
    zinf_json_close_object(&j);
    if (!j.failed)
        return j.text;
    zinf_json_out_free(&j);
    return NULL;
}
