/* zinf/cli/train.c - `zinf train`: steps until done or told to stop, a line per step, a log, weights at the end; and going on with
 * a run that ended early. train_open.c decides what runs; this file runs it. */
#include "zinf/cli/train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "zinf/cli/commands.h"
#include "zinf/report/table.h"

/* A step that takes longer than this is given up when a signal comes: its iteration will be repeated. */
#define PATIENCE_S 5.0

/* The first signal ends the run in order; the second ends the process at once. */
static volatile sig_atomic_t stop_signal;
static struct zinf_trainer *volatile stoppable;
static volatile sig_atomic_t impatient;              /* stop in the middle of a step, too */

static void on_signal(int sig)
{
    if (stop_signal)
        _exit(128 + sig);
    stop_signal = sig;
    if (stoppable)
        zinf_trainer_stop(stoppable, impatient);
}

static void catch_signals(void)
{
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Notes are part of what a run tells; standard error is for what is wrong. */
static void write_log(void *ctx, enum zinf_log_level level, const char *line)
{
    struct zinf_cli_run *r = ctx;

    /* A failure is told once, with the status that ends the run. */
    if (level == ZINF_LOG_ERROR && r->log.level < ZINF_LOG_DEBUG)
        return;
    if (level >= ZINF_LOG_INFO && r->progress) {
        zinf_progress_say(r->progress, line);
        return;
    }
    if (r->progress)
        zinf_progress_clear(r->progress);
    fprintf(stderr, "zinf: %s%s\n", level == ZINF_LOG_ERROR ? "error: " : level == ZINF_LOG_WARN ? "warning: " : "", line);
}

static const char *offload_name(const struct zinf_config *c, char *buf, size_t nbytes)
{
    static const char *const names[] = { "none", "cpu", "nvme" };

    if (c->offload_param == c->offload_optimizer)
        return names[c->offload_param];
    snprintf(buf, nbytes, "%s weights, %s state", names[c->offload_param], names[c->offload_optimizer]);
    return buf;
}

static void placement_line(void *ctx, const char *text)
{
    zinf_progress_say(ctx, text);
}

static void describe(struct zinf_cli_run *r)
{
    const char *base = strrchr(r->out.path, '/');
    struct zinf_run_info i;
    char line[1100];

    snprintf(r->sum.name, sizeof(r->sum.name), "%.63s", base ? base + 1 : r->out.path);
    snprintf(r->sum.offload, sizeof(r->sum.offload), "%s", offload_name(&r->config, (char[32]){ 0 }, 32));
    zinf_trainer_info(r->t, &i);
    snprintf(line, sizeof(line), "%.2fM parameters | %s | %u threads | drive: %s, O_DIRECT %s",
             (double)i.nr_params * 1e-6, i.device, i.threads, i.io_backend,
             i.use_nbytes[2] ? i.direct ? "yes" : "no" : "not used");
    zinf_progress_say(r->progress, line);
    zinf_trainer_placement(r->t, placement_line, r->progress);
    if (i.first_step) {
        snprintf(line, sizeof(line), "going on after step %llu%s%.1000s", (unsigned long long)i.first_step,
                 r->o.checkpoint ? " of " : "", r->o.checkpoint ? r->o.checkpoint : "");
        zinf_progress_say(r->progress, line);
    }
}

static int evaluate(struct zinf_cli_run *r, uint64_t step, struct zinf_status *st)
{
    uint64_t tokens;
    double loss;
    char line[96];
    int rc = zinf_trainer_evaluate(r->t, 0, &loss, &tokens, st);

    if (rc == -ECANCELED && stop_signal && !impatient) {      /* only the evaluation is given up */
        *st = (struct zinf_status){ 0 };
        return 0;
    }
    if (rc)
        return rc;
    r->sum.eval_loss = loss;
    snprintf(line, sizeof(line), "evaluation at step %llu: loss %.4f over %llu targets", (unsigned long long)step, loss,
             (unsigned long long)tokens);
    zinf_progress_say(r->progress, line);
    return zinf_jsonl_eval(r->jsonl, step, loss, tokens, st);
}

static int train(struct zinf_cli_run *r, struct zinf_status *st)
{
    struct zinf_run_summary *sum = &r->sum;
    struct zinf_run_info info;
    uint64_t last_eval = UINT64_MAX;
    struct zinf_step *s = &r->last;
    int rc = 0;

    stoppable = r->t;
    zinf_trainer_info(r->t, &info);
    s->step = s->iteration = s->durable_step = sum->first_step = info.first_step;
    while (s->step < r->o.steps && !stop_signal && !rc) {
        rc = zinf_trainer_step(r->t, s, st);
        if (rc)
            break;
        zinf_trainer_info(r->t, &info);
        impatient = info.durable && s->seconds + (info.flush_s > 0 ? info.flush_s : s->seconds) > PATIENCE_S;
        zinf_progress_step(r->progress, s, &info);
        rc = zinf_jsonl_step(r->jsonl, s, &info, st);
        sum->first_loss = isnan(sum->first_loss) ? s->loss : sum->first_loss;
        sum->last_loss = s->loss;
        sum->tokens += s->tokens;
        sum->seconds += s->seconds;
        if (!rc && r->o.eval_every && !s->skipped && s->step % r->o.eval_every == 0) {
            rc = evaluate(r, s->step, st);
            last_eval = s->step;
        }
    }
    sum->steps = s->step;
    if (!rc && !stop_signal && last_eval != s->step)
        rc = evaluate(r, s->step, st);
    return rc;
}

/* resumable: the run was stopped and can be gone on with. It ends at once; of any other the weights are all that stays. */
static int finish(struct zinf_cli_run *r, bool resumable, struct zinf_status *st)
{
    struct zinf_run_summary *sum = &r->sum;
    struct zinf_run_info i;
    int rc = zinf_trainer_flush(r->t, st);

    if (!rc && !resumable)
        rc = zinf_trainer_export(r->t, r->out.model, st);
    if (rc || resumable)
        return rc;
    zinf_trainer_info(r->t, &i);
    for (int tier = 0; tier < 3; tier++) {
        sum->budget_nbytes[tier] = i.budget_nbytes[tier];
        sum->peak_nbytes[tier] = i.peak_nbytes[tier];
    }
    sum->base_rss_nbytes = i.base_rss_nbytes;
    sum->peak_rss_nbytes = i.peak_rss_nbytes;
    sum->drive_read_nbytes = i.drive_read_nbytes;
    sum->drive_written_nbytes = i.drive_written_nbytes;
    sum->direct = i.direct;
    sum->flush_s = i.flush_s;
    sum->tokens_per_s = sum->seconds > 0 ? (double)sum->tokens / sum->seconds : 0;
    snprintf(sum->io_backend, sizeof(sum->io_backend), "%s", i.io_backend);
    snprintf(sum->device, sizeof(sum->device), "%s", i.device);
    snprintf(sum->run_dir, sizeof(sum->run_dir), "%s", r->out.path);
    snprintf(sum->log_path, sizeof(sum->log_path), "%s", r->log_path);
    snprintf(sum->weights_path, sizeof(sum->weights_path), "%s", r->out.model);
    return zinf_jsonl_end(r->jsonl, sum, st);
}

static void tell_stop(const struct zinf_cli_run *r, bool durable, int rc)
{
    unsigned long long step = r->last.step, durable_step = r->last.durable_step;

    if (!durable)
        fprintf(stderr, "zinf: stopped by signal %d after step %llu; its weights are in %s\n", (int)stop_signal, step, r->out.model);
    else if (rc)
        fprintf(stderr, "zinf: stopped by signal %d; %llu step%s will be repeated by: zinf train --resume --out %s\n",
                (int)stop_signal, step - durable_step, step - durable_step == 1 ? "" : "s", r->out.path);
    else
        fprintf(stderr, "zinf: stopped by signal %d after step %llu; nothing will be repeated by: zinf train --resume --out %s\n",
                (int)stop_signal, step, r->out.path);
}

static void keep_worse(int rc, const struct zinf_status *from, int *to_rc, struct zinf_status *to)
{
    if (rc && !*to_rc) {
        *to_rc = rc;
        *to = *from;
    }
}

int zinf_cmd_train(int argc, char **argv)
{
    struct zinf_cli_run r = { .out = { .lock_fd = -1 }, .sum = { .first_loss = NAN, .last_loss = NAN, .eval_loss = NAN } };
    struct zinf_status st = { 0 }, closing = { 0 };
    struct zinf_run_info info = { 0 };
    bool started, stopped;
    int rc = zinf_cli_parse(&r.o, argc, argv, &st);

    if (!rc)
        rc = zinf_cmd_log(&r.log, &st);
    if (rc || r.o.help) {
        zinf_args_free(&r.o.sets);
        return rc ? zinf_cmd_usage(&st) : 0;
    }
    r.log.ctx = &r;
    r.log.write = write_log;
    catch_signals();
    rc = zinf_cli_open(&r, &st);
    started = !rc;
    if (started) {
        describe(&r);
        rc = train(&r, &st);
        zinf_trainer_info(r.t, &info);
    }
    /* A signal that comes later finds a run that is about to end anyway. */
    stoppable = NULL;
    stopped = started && stop_signal && (!rc || rc == -ECANCELED);
    if (!rc)
        rc = finish(&r, stopped && info.durable, &st);
    keep_worse(zinf_jsonl_close(r.jsonl, &closing), &closing, &rc, &st);
    zinf_progress_close(r.progress);
    r.progress = NULL;
    /* A finished run keeps its state only if told to; one that did not start leaves none that nobody knows of. */
    if (r.t && (started ? !rc && !stopped && !r.config.keep_state : !r.file.nr_state_dirs))
        zinf_trainer_discard(r.t);
    zinf_trainer_close(r.t);
    closing = (struct zinf_status){ 0 };
    if (started && !rc && !stopped)
        keep_worse(zinf_cli_forget_state(&r, &closing), &closing, &rc, &st);
    zinf_outdir_close(&r.out);
    if (stopped && (!rc || rc == -ECANCELED))
        tell_stop(&r, info.durable, rc);
    if (!rc && !(stopped && info.durable))
        zinf_table_run(&r.sum, stdout);
    zinf_cli_close(&r);
    if (stopped && (!rc || rc == -ECANCELED))
        return 128 + (int)stop_signal;
    if (rc)
        return started ? zinf_cmd_fail(&st) : zinf_cmd_refuse(&st);
    return 0;
}
