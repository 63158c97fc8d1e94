/* zinf/engine/trainer.c - a run from open to close: everything opened in order, then steps, evaluations and the end. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_device.h"
#include "zinf/base/cpu.h"

#define DEFAULT_SEQ_LEN 1024u
#define MAX_SKIPS 50u

const char *zinf_version(void) { return ZINF_VERSION; }

static int open_model(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_trainer_opts *o = &t->opts;
    int rc;

    if (!o->model == !o->chain)
        return zinf_fail(st, -EINVAL, "give either a model (folder or config.json) or a chain");
    t->chain = o->chain;
    if (o->model) {
        rc = zinf_model_open(o->model, o->seq_len, o->log, &t->model, st);
        if (rc)
            return rc;
        t->chain = &t->model->chain;
    }
    return zinf_partition_make(t->chain, &t->part, st);
}

static int choose_shape(struct zinf_trainer *t, struct zinf_status *st)
{
    t->batch.seq = t->model ? t->model->seq : t->opts.seq_len ? t->opts.seq_len : DEFAULT_SEQ_LEN;
    t->batch.batch = t->config.micro_batch_size;
    t->batch.nr_micro = t->config.gradient_accumulation_steps;
    t->batch.rows = (uint64_t)t->batch.batch * t->batch.seq;
    if (t->batch.rows > (1u << 30) || t->batch.rows * t->batch.nr_micro > (1ull << 32))
        return zinf_fail(st, -EINVAL, "a micro-batch of %llu tokens is too large: lower train_micro_batch_size_per_gpu or "
                         "--seq-len", (unsigned long long)t->batch.rows);
    return 0;
}

static int open_source(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_trainer_opts *o = &t->opts;
    int rc;

    if (!o->data == !o->source)
        return zinf_fail(st, -EINVAL, "give either data (a text file or folder) or a source");
    t->source = o->source;
    if (o->data) {
        const struct zinf_text_opts to = { .data = o->data, .eval_data = o->eval_data, .seq = t->batch.seq,
                                           .seed = t->config.seed, .vocab = t->chain->vocab, .log = o->log };

        rc = zinf_text_open(&to, &t->text, st);
        if (rc)
            return rc;
        t->source = zinf_text_source(t->text);
    }
    if (!t->source->nr_samples(t->source->ctx, ZINF_TRAIN))
        return zinf_fail(st, -EINVAL, "the training data holds no sample of %u tokens", t->batch.seq);
    return 0;
}

static void choose_optimizer(struct zinf_trainer *t)
{
    const struct zinf_config *c = &t->config;

    t->optimizer = (struct zinf_optimizer_params){
        .kind = c->optimizer.type == ZINF_OPT_SGD ? ZINF_SGD
                : c->optimizer.type == ZINF_OPT_ADAM && !c->optimizer.adam_w_mode ? ZINF_ADAM_L2 : ZINF_ADAMW,
        .beta1 = c->optimizer.beta1, .beta2 = c->optimizer.beta2, .eps = c->optimizer.eps,
        .weight_decay = c->optimizer.weight_decay, .bias_correction = c->optimizer.bias_correction,
    };
}

static int open_mover(struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_mover_opts o = { .lanes = t->lanes, .plan = t->plan, .serial = t->opts.serial, .log = t->opts.log };

    for (int k = 0; k < 4 * ZINF_NR_SCHED_KINDS; k++) {
        const struct zinf_schedule *s = t->sched[k / 4][k % 4];

        o.max_ops = s && s->nr_ops > o.max_ops ? s->nr_ops : o.max_ops;
    }
    return zinf_mover_open(&o, &t->mover, st);
}

static int open_all(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_trainer_opts *o = &t->opts;
    int rc = zinf_config_load(o->config_path, o->config_text, "configuration", o->sets, o->nr_sets, o->log, &t->config, st);

    if (!rc)
        rc = open_model(t, st);
    if (!rc)
        rc = choose_shape(t, st);
    if (!rc)
        rc = open_source(t, st);
    if (!rc)
        rc = zinf_isa_choose(&t->isa, st);
    if (rc)
        return rc;
    choose_optimizer(t);
    rc = zinf_fingerprint_make(t, st);
    if (!rc && o->nr_resume_dirs)
        rc = zinf_resume_record(t, st);
    if (rc)
        return rc;
    t->dev_ops = &zinf_cpu_device_ops;
    t->threads = t->config.threads == ZINF_AUTO_U64 ? zinf_cpu_count() : (uint32_t)t->config.threads;
    rc = zinf_setup_plan(t, st);
    if (!rc)
        rc = zinf_pool_open(t->threads, &t->pool, st);
    if (!rc)
        rc = open_mover(t, st);
    if (!rc)
        rc = zinf_setup_memory(t, st);
    if (!rc)
        rc = zinf_setup_store(t, st);
    if (!rc)
        rc = zinf_exec_open(t, &t->exec, st);
    if (!rc)
        rc = zinf_resume_state(t, st);
    if (!rc && o->save_every && o->checkpoint_dir)
        rc = zinf_save_open(t, &t->save, st);
    return rc;
}

int zinf_trainer_open_hooked(const struct zinf_trainer_opts *opts, const struct zinf_engine_hooks *hooks,
                             struct zinf_trainer **out, struct zinf_status *st)
{
    struct zinf_trainer *t = calloc(1, sizeof(*t));
    struct zinf_status mine = { 0 };
    int rc;

    *out = NULL;
    st = st ? st : &mine;
    if (!t)
        return zinf_fail(st, -ENOMEM, "out of memory");
    t->opts = *opts;
    if (hooks)
        t->hooks = *hooks;
    rc = open_all(t, st);
    if (rc) {
        zinf_trainer_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

int zinf_trainer_open(const struct zinf_trainer_opts *opts, struct zinf_trainer **out, struct zinf_status *st)
{
    return zinf_trainer_open_hooked(opts, NULL, out, st);
}

/* A folder with a record is a checkpoint; one without is of no use to anybody. What was to be resumed was there before, even if
 * it could not be; a run that failed needs its state, whatever becomes of a finished one's. */
static bool keeps_state(const struct zinf_trainer *t)
{
    return (t->opts.nr_resume_dirs || (t->durable && t->committed)) && !t->discard;
}

void zinf_trainer_discard(struct zinf_trainer *t) { t->discard = true; }

void zinf_trainer_close(struct zinf_trainer *t)
{
    if (!t)
        return;
    zinf_save_close(t->save);
    zinf_exec_close(t->exec);
    if (t->dev)
        t->dev_ops->close(t->dev);
    zinf_store_close(t->store);
    zinf_mover_close(t->mover);
    for (uint32_t i = 0; i < t->nr_rundirs; i++) {
        struct zinf_status st = { 0 };

        if (zinf_rundir_close(&t->rundirs[i], !keeps_state(t), &st))
            zinf_log(t->opts.log, ZINF_LOG_WARN, "%s", st.text);
    }
    free(t->rundirs);
    zinf_unmap(&t->arena[0]);
    zinf_unmap(&t->arena[1]);
    zinf_pool_close(t->pool);
    for (int k = 0; k < 4 * ZINF_NR_SCHED_KINDS; k++)
        zinf_schedule_free(t->sched[k / 4][k % 4]);
    zinf_record_free(&t->record);
    zinf_plan_free(t->plan);
    zinf_partition_free(&t->part);
    zinf_text_close(t->text);
    zinf_model_close(t->model);
    zinf_config_free(&t->config);
    free(t->constants);
    free(t->norms);
    free(t);
}

/* ---- running ---- */

/* Runs kind in the variant that commits or not, and keeps the books of what the extents hold. */
static int run(struct zinf_trainer *t, enum zinf_sched_kind kind, bool commit, struct zinf_mover_stats *stats,
               struct zinf_status *st)
{
    uint32_t flags = (commit ? ZINF_SCHED_COMMITS : 0) | (t->dirty ? ZINF_SCHED_DIRTY : 0);
    const struct zinf_schedule *s = t->sched[kind][flags];
    struct zinf_mover_stats local;
    int rc;

    stats = stats ? stats : &local;
    rc = zinf_mover_run(t->mover, s, stats, NULL, st);
    zinf_exec_take_busy(t->exec, stats);
    if (rc) {
        t->broken = true;
        zinf_exec_failure(t->exec, s, st);
        return rc;
    }
    zinf_store_seam(t->store, s);
    if (commit)
        t->dirty = false;
    else if ((kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_FLUSH) && (t->plan->extents_state || t->plan->extents_weight))
        t->dirty = true;
    for (int c = 0; c < ZINF_NR_CLASSES; c++)
        t->peak_slots[c] = stats->peak_slots[c] > t->peak_slots[c] ? stats->peak_slots[c] : t->peak_slots[c];
    return 0;
}

static int usable(const struct zinf_trainer *t, struct zinf_status *st)
{
    return t->broken ? zinf_fail(st, -EIO, "the run has failed before and cannot go on") : 0;
}

/* The record of the last verdict, for a schedule that ends what it owes; and its checkpoint, when it is due. */
static int settle(struct zinf_trainer *t, bool *commit, bool always, struct zinf_status *st)
{
    const struct zinf_verdict *v = &t->verdict;
    unsigned char payload[ZINF_VERDICT_NBYTES];
    int rc = 0;

    *commit = t->owed != ZINF_OWED_NOTHING && t->durable && (always || zinf_commit_due(t, v->iteration));
    if (*commit) {
        zinf_verdict_encode(v, payload);
        zinf_store_next_record(t->store, v->iteration, payload);
    }
    if (!rc && t->save && t->owed == ZINF_OWED_UPDATES && v->applied % t->opts.save_every == 0) {
        rc = zinf_save_begin(t->save, v, st);
        t->saving = !rc;
    }
    return rc;
}

static int settled(struct zinf_trainer *t, bool commit, uint64_t applied, struct zinf_status *st)
{
    int rc;

    if (commit)
        t->durable_step = applied;
    if (!t->saving)
        return 0;
    t->saving = false;
    rc = zinf_save_end(t->save, st);
    t->broken = rc;              /* its update is applied: the same step again would apply it twice */
    return rc;
}

static int flush(struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_mover_stats stats = { 0 };
    bool commit;
    int rc;

    if (t->owed == ZINF_OWED_NOTHING)
        return 0;
    rc = settle(t, &commit, true, st);
    if (!rc)
        rc = run(t, t->owed == ZINF_OWED_UPDATES ? ZINF_SCHED_FLUSH : ZINF_SCHED_FLUSH_SKIP, commit, &stats, st);
    if (rc)
        return rc;
    t->owed = ZINF_OWED_NOTHING;
    t->flush_s = (double)stats.wall_ns * 1e-9;
    return settled(t, commit, t->verdict.applied, st);
}

int zinf_trainer_flush(struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_status mine = { 0 };
    int rc;

    st = st ? st : &mine;
    rc = usable(t, st);
    if (!rc)
        rc = flush(t, st);
    return rc ? rc : zinf_save_wait(t->save, st);
}

void zinf_trainer_stop(struct zinf_trainer *t, bool now)
{
    __atomic_store_n(&t->stopping, true, __ATOMIC_RELAXED);
    if (now)
        zinf_mover_cancel(t->mover);
}

const char *zinf_trainer_state_dir(const struct zinf_trainer *t, uint32_t i)
{
    return i < t->nr_rundirs ? t->rundirs[i].path : NULL;
}

static void fill_lanes(const struct zinf_mover_stats *m, struct zinf_step *out)
{
    out->seconds = (double)m->wall_ns * 1e-9;
    out->bound = 0;
    for (int l = 0; l < ZINF_NR_LANES; l++) {
        out->lane[l].busy_s = (double)m->lane[l].busy_ns * 1e-9;
        out->lane[l].stall_s = (double)m->lane[l].stall_ns * 1e-9;
        out->lane[l].nbytes = m->lane[l].nbytes;
        if (out->lane[l].busy_s > out->lane[out->bound].busy_s)
            out->bound = l;
    }
    out->bound_fraction = out->seconds > 0 ? out->lane[out->bound].busy_s / out->seconds : 0;
}

static void fill_step(const struct zinf_trainer *t, const struct zinf_mover_stats *m, struct zinf_step *out)
{
    const struct zinf_verdict *v = &t->verdict;
    double tokens = (double)(t->batch.nr_micro * t->batch.rows);
    struct zinf_store_info info;

    memset(out, 0, sizeof(*out));
    fill_lanes(m, out);
    out->step = v->applied;
    out->iteration = v->iteration;
    out->loss = v->loss;
    out->grad_norm = v->grad_norm;
    out->clipped = v->clip < 1;
    out->skipped = v->skips_in_a_row > 0;
    out->durable_step = t->durable_step;
    out->lr = v->lr;
    out->tokens = v->tokens;
    if (out->seconds > 0) {
        out->tokens_per_s = tokens / out->seconds;
        out->tflops = t->chain->flops_per_token * tokens / out->seconds * 1e-12;
    }
    zinf_store_info(t->store, &info);
    out->drive_read_nbytes = info.io.read_nbytes;
    out->drive_written_nbytes = info.io.written_nbytes;
}

int zinf_trainer_step(struct zinf_trainer *t, struct zinf_step *out, struct zinf_status *st)
{
    struct zinf_status mine = { 0 };
    struct zinf_mover_stats stats = { 0 };
    struct zinf_verdict *v = &t->verdict;
    uint64_t before = v->applied;
    enum zinf_sched_kind kind;
    struct zinf_step local;
    bool commit;
    int rc;

    st = st ? st : &mine;
    out = out ? out : &local;
    rc = usable(t, st);
    if (!rc)
        rc = zinf_batch_fill(t, ZINF_TRAIN, v->next_sample, UINT64_MAX, st);
    if (rc)
        return rc;
    if (!t->batch.trained) {                /* nothing to learn from: what is pending stays pending */
        v->iteration++;
        v->next_sample += (uint64_t)t->batch.nr_micro * t->batch.batch;
        v->tokens = 0;
        zinf_log(t->opts.log, ZINF_LOG_WARN, "iteration %llu is skipped: it has no trained token",
                 (unsigned long long)v->iteration);
        fill_step(t, &stats, out);
        out->skipped = true;
        return 0;
    }
    rc = settle(t, &commit, false, st);
    if (rc)
        return rc;
    kind = t->owed == ZINF_OWED_UPDATES ? ZINF_SCHED_STEADY : t->owed == ZINF_OWED_SKIP ? ZINF_SCHED_SKIP : ZINF_SCHED_FIRST;
    v->iteration++;
    v->next_sample += (uint64_t)t->batch.nr_micro * t->batch.batch;
    v->lr = t->config.optimizer.lr;
    rc = run(t, kind, commit, &stats, st);
    if (!rc)
        rc = settled(t, commit, before, st);
    if (rc)
        return rc;
    t->owed = v->skips_in_a_row ? ZINF_OWED_SKIP : ZINF_OWED_UPDATES;
    zinf_update_scalars_set(&t->scalars, &t->optimizer, v->applied, v->lr, v->clip);
    if (v->skips_in_a_row >= MAX_SKIPS) {
        t->broken = true;
        return zinf_fail(st, -EDOM, "%u iterations in a row were skipped (%s): lower the learning rate or look at the data",
                         MAX_SKIPS, t->skip_reason);
    }
    if (!t->base_rss_nbytes) {
        uint64_t rss = zinf_rss_nbytes(), arenas = t->arena[0].nbytes + t->arena[1].nbytes;

        t->base_rss_nbytes = rss > arenas ? rss - arenas : 0;
    }
    fill_step(t, &stats, out);
    return 0;
}

int zinf_trainer_evaluate(struct zinf_trainer *t, uint64_t max_samples, double *loss, uint64_t *tokens, struct zinf_status *st)
{
    struct zinf_status mine = { 0 };
    uint64_t n = t->source->nr_samples(t->source->ctx, ZINF_EVAL), counted = 0;
    uint64_t per_run = (uint64_t)t->batch.nr_micro * t->batch.batch;
    double sum = 0;
    int rc;

    st = st ? st : &mine;
    n = max_samples && max_samples < n ? max_samples : n;
    rc = usable(t, st);
    if (!rc && !n)
        rc = zinf_fail(st, -EINVAL, "the evaluation data holds no sample of %u tokens", t->batch.seq);
    if (!rc)
        rc = flush(t, st);
    for (uint64_t i = 0; i < n && !rc; i += per_run) {
        if (__atomic_load_n(&t->stopping, __ATOMIC_RELAXED))
            return zinf_fail(st, -ECANCELED, "the evaluation was stopped");
        rc = zinf_batch_fill(t, ZINF_EVAL, i, n, st);
        if (!rc)
            rc = run(t, ZINF_SCHED_EVAL, false, NULL, st);
        if (!rc) {
            sum += zinf_batch_loss(&t->batch);
            counted += t->batch.trained;
        }
    }
    if (!rc) {
        *loss = counted ? sum / (double)counted : 0;
        if (tokens)
            *tokens = counted;
    }
    return rc;
}

int zinf_trainer_export(struct zinf_trainer *t, const char *dir, struct zinf_status *st)
{
    struct zinf_status mine = { 0 };
    int rc;

    st = st ? st : &mine;
    rc = usable(t, st);
    if (!rc)
        rc = flush(t, st);
    return rc ? rc : zinf_state_export(t, dir, st);
}

/* ---- reports ---- */

static uint64_t homes_nbytes(const struct zinf_trainer *t, enum zinf_tier tier)
{
    uint64_t classes = 0;

    for (int c = 0; c < ZINF_NR_CLASSES; c++)
        if (zinf_class_tier((enum zinf_class)c) == tier)
            classes += t->plan->class_count[c] * t->plan->class_nbytes[c];
    return t->plan->use[tier] - classes;
}

void zinf_trainer_info(struct zinf_trainer *t, struct zinf_run_info *out)
{
    struct zinf_store_info info;

    memset(out, 0, sizeof(*out));
    zinf_store_info(t->store, &info);
    out->nr_params = t->part.nr_elems;
    out->first_step = t->first_step;
    out->flush_s = t->flush_s;
    out->durable = t->durable && t->committed;
    out->steps_per_epoch = t->source->nr_samples(t->source->ctx, ZINF_TRAIN) / ((uint64_t)t->batch.nr_micro * t->batch.batch);
    out->steps_per_epoch += !out->steps_per_epoch;
    for (int tier = 0; tier < 2; tier++) {
        out->budget_nbytes[tier] = t->budget_nbytes[tier];
        out->use_nbytes[tier] = t->plan->use[tier];
        out->minimum_nbytes[tier] = t->plan->minimum[tier];
        out->peak_nbytes[tier] = homes_nbytes(t, (enum zinf_tier)tier);
    }
    for (int c = 0; c < ZINF_NR_CLASSES; c++)
        out->peak_nbytes[zinf_class_tier((enum zinf_class)c)] += t->peak_slots[c] * t->plan->class_nbytes[c];
    out->budget_nbytes[ZINF_TIER_NVME] = info.drive_nbytes;
    out->use_nbytes[ZINF_TIER_NVME] = out->peak_nbytes[ZINF_TIER_NVME] = info.drive_nbytes;
    out->base_rss_nbytes = t->base_rss_nbytes;
    out->peak_rss_nbytes = zinf_peak_rss_nbytes();
    out->drive_read_nbytes = info.io.read_nbytes;
    out->drive_written_nbytes = info.io.written_nbytes;
    out->threads = t->threads;
    out->direct = info.direct;
    snprintf(out->io_backend, sizeof(out->io_backend), "%s", info.backend);
    zinf_cpu_device_describe(t->dev, out->device, sizeof(out->device));
    if (t->nr_rundirs)
        snprintf(out->state_dir, sizeof(out->state_dir), "%s", t->rundirs[0].path);
}
