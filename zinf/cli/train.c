/* zinf/cli/train.c - `zinf train`: steps until done or told to stop, a line per step, a log, weights at the end. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/base/clock.h"
#include "zinf/cli/args.h"
#include "zinf/cli/commands.h"
#include "zinf/cli/outdir.h"
#include "zinf/config/config.h"
#include "zinf/report/jsonl.h"
#include "zinf/report/progress.h"
#include "zinf/report/table.h"
#include "zinf/zinf.h"

struct options {
    const char *config, *model, *data, *eval_data, *out, *log;
    uint64_t seq_len, steps, eval_every;
    struct zinf_arg_list sets;
    bool overwrite, serial, help;
};

struct run {
    struct options o;
    struct zinf_config config;
    struct zinf_outdir out;
    struct zinf_log log;
    struct zinf_trainer *t;
    struct zinf_progress *progress;
    struct zinf_jsonl *jsonl;
    struct zinf_run_summary sum;
};

/* The first signal ends the run after its current step; the second ends the process at once. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int sig)
{
    if (stop_signal)
        _exit(128 + sig);
    stop_signal = sig;
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
    struct run *r = ctx;

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

static int parse(struct options *o, int argc, char **argv, struct zinf_status *st)
{
    const struct zinf_arg args[] = {
        { "config", ZINF_ARG_STRING, &o->config, "FILE", "ds_config.json", 0, 0, false },
        { "model", ZINF_ARG_STRING, &o->model, "PATH", "Hugging Face folder or config.json", 0, 0, false },
        { "data", ZINF_ARG_STRING, &o->data, "PATH", "text file or folder of text files, read as bytes", 0, 0, false },
        { "eval-data", ZINF_ARG_STRING, &o->eval_data, "PATH", "text to evaluate on (default: the last 10 % of --data)", 0, 0, false },
        { "eval-every", ZINF_ARG_U64, &o->eval_every, "N", "evaluate every N steps (default: at the end)", 1, UINT32_MAX, false },
        { "seq-len", ZINF_ARG_U64, &o->seq_len, "T", "tokens per sample (default: min(1024, the model's maximum))", 1, 1u << 24, false },
        { "steps", ZINF_ARG_U64, &o->steps, "N", "optimizer steps (default: one epoch)", 1, UINT32_MAX, false },
        { "out", ZINF_ARG_STRING, &o->out, "DIR", "folder of the run: log, weights (default: zinf-out)", 0, 0, false },
        { "overwrite", ZINF_ARG_FLAG, &o->overwrite, NULL, "replace the run that --out holds", 0, 0, false },
        { "log", ZINF_ARG_STRING, &o->log, "FILE", "JSON lines, one per step (default: DIR/log.jsonl)", 0, 0, false },
        { "serial", ZINF_ARG_FLAG, &o->serial, NULL, "one operation at a time: same bits, for debugging", 0, 0, false },
        { "set", ZINF_ARG_LIST, &o->sets, "KEY=VALUE", "override a key of the configuration; may be repeated", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &o->help, NULL, "this text", 0, 0, false },
    };
    const uint32_t nr = sizeof(args) / sizeof(args[0]);
    int rc = zinf_args_parse(args, nr, NULL, argc, argv, st);

    o->out = o->out ? o->out : "zinf-out";
    if (!rc && o->help)
        zinf_args_help("zinf train --config FILE --model PATH --data PATH [options]", args, nr);
    else if (!rc && (!o->config || !o->model || !o->data))
        rc = zinf_fail(st, -EINVAL, "--%s is missing; see zinf train --help",
                       !o->config ? "config" : !o->model ? "model" : "data");
    return rc;
}

static const char *offload_name(const struct zinf_config *c, char *buf, size_t nbytes)
{
    static const char *const names[] = { "none", "cpu", "nvme" };

    if (c->offload_param == c->offload_optimizer)
        return names[c->offload_param];
    snprintf(buf, nbytes, "%s/%s", names[c->offload_param], names[c->offload_optimizer]);
    return buf;
}

static void setup_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct run *r = ctx;

    zinf_progress_setup(r->progress, what, done, total);
}

static void placement_line(void *ctx, const char *text)
{
    zinf_progress_say(ctx, text);
}

static void describe(struct run *r)
{
    struct zinf_run_info i;
    char line[256];

    zinf_trainer_info(r->t, &i);
    snprintf(line, sizeof(line), "%.2fM parameters | %s | %u threads | drive: %s, O_DIRECT %s",
             (double)i.nr_params * 1e-6, i.device, i.threads, i.io_backend,
             i.use_nbytes[2] ? i.direct ? "yes" : "no" : "not used");
    zinf_progress_say(r->progress, line);
    zinf_trainer_placement(r->t, placement_line, r->progress);
}

static int evaluate(struct run *r, uint64_t step, struct zinf_status *st)
{
    uint64_t tokens;
    double loss;
    char line[96];
    int rc = zinf_trainer_evaluate(r->t, 0, &loss, &tokens, st);

    if (rc)
        return rc;
    r->sum.eval_loss = loss;
    snprintf(line, sizeof(line), "evaluation at step %llu: loss %.4f over %llu targets", (unsigned long long)step, loss,
             (unsigned long long)tokens);
    zinf_progress_say(r->progress, line);
    return zinf_jsonl_eval(r->jsonl, step, loss, tokens, st);
}

static int train(struct run *r, struct zinf_status *st)
{
    struct zinf_run_summary *sum = &r->sum;
    uint64_t last_eval = 0;
    int rc = 0;

    for (uint64_t n = 1; n <= r->o.steps && !stop_signal && !rc; n++) {
        struct zinf_run_info info;
        struct zinf_step s;

        rc = zinf_trainer_step(r->t, &s, st);
        if (rc)
            break;
        zinf_trainer_info(r->t, &info);
        zinf_progress_step(r->progress, &s, &info);
        rc = zinf_jsonl_step(r->jsonl, &s, &info, st);
        sum->steps = n;
        sum->tokens += s.tokens;
        sum->seconds += s.seconds;
        sum->last_loss = s.loss;
        if (n == 1)
            sum->first_loss = s.loss;
        if (!rc && r->o.eval_every && n % r->o.eval_every == 0) {
            rc = evaluate(r, n, st);
            last_eval = n;
        }
    }
    if (!rc && !stop_signal && last_eval != sum->steps)
        rc = evaluate(r, sum->steps, st);
    return rc;
}

static int finish(struct run *r, struct zinf_status *st)
{
    struct zinf_run_summary *sum = &r->sum;
    struct zinf_run_info i;
    int rc = zinf_trainer_export(r->t, r->out.model, st);

    if (rc)
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
    sum->tokens_per_s = sum->seconds > 0 ? (double)sum->tokens / sum->seconds : 0;
    snprintf(sum->io_backend, sizeof(sum->io_backend), "%s", i.io_backend);
    snprintf(sum->device, sizeof(sum->device), "%s", i.device);
    snprintf(sum->run_dir, sizeof(sum->run_dir), "%s", r->out.path);
    snprintf(sum->log_path, sizeof(sum->log_path), "%s", r->o.log);
    snprintf(sum->weights_path, sizeof(sum->weights_path), "%s", r->out.model);
    return zinf_jsonl_end(r->jsonl, sum, st);
}

/* Everything that can be refused is refused, and the drives hold the state, before --out and the run in it are touched. */
static int open_run(struct run *r, struct zinf_status *st)
{
    struct options *o = &r->o;
    struct zinf_trainer_opts t = {
        .config_path = o->config, .sets = o->sets.items, .nr_sets = o->sets.nr, .model = o->model, .data = o->data,
        .eval_data = o->eval_data, .seq_len = (uint32_t)o->seq_len, .serial = o->serial, .log = &r->log,
        .progress = setup_progress, .progress_ctx = r,
    };
    struct zinf_run_file file = { .config = o->config, .model = o->model, .data = o->data, .log = o->log };
    struct zinf_run_info info;
    int rc = zinf_config_load(o->config, NULL, NULL, o->sets.items, o->sets.nr, NULL, &r->config, st);

    if (rc)
        return rc;
    rc = zinf_outdir_check(o->out, o->overwrite, &r->out, st);
    if (!rc && o->log)
        rc = zinf_outdir_check_log(o->log, st);
    if (!rc) {
        r->progress = zinf_progress_open(isatty(STDOUT_FILENO), o->steps, r->config.steps_per_print);
        rc = r->progress ? 0 : zinf_fail(st, -ENOMEM, "out of memory");
    }
    if (!rc)
        rc = zinf_trainer_open(&t, &r->t, st);
    if (rc)
        return rc;
    zinf_trainer_info(r->t, &info);
    if (!o->steps) {
        o->steps = info.steps_per_epoch;
        zinf_progress_set_steps(r->progress, o->steps);
    }
    file.seq_len = (uint32_t)o->seq_len;
    file.steps = o->steps;
    file.state_dir = info.state_dir;
    o->log = o->log ? o->log : r->out.log;
    rc = zinf_outdir_take(&r->out, st);
    if (!rc)
        rc = zinf_jsonl_open(o->log, false, &r->jsonl, st);
    return rc ? rc : zinf_outdir_write(&r->out, &file, st);
}

int zinf_cmd_train(int argc, char **argv)
{
    struct run r = { .out = { .lock_fd = -1 }, .sum = { .first_loss = NAN, .last_loss = NAN, .eval_loss = NAN } };
    struct zinf_status st = { 0 }, closing = { 0 };
    const char *base;
    bool started;
    int closed, rc = parse(&r.o, argc, argv, &st);

    if (!rc)
        rc = zinf_cmd_log(&r.log, &st);
    if (rc || r.o.help) {
        zinf_args_free(&r.o.sets);
        return rc ? zinf_cmd_usage(&st) : 0;
    }
    r.log.ctx = &r;
    r.log.write = write_log;
    catch_signals();
    rc = open_run(&r, &st);
    started = !rc;
    if (!rc) {
        base = strrchr(r.out.path, '/');
        snprintf(r.sum.name, sizeof(r.sum.name), "%.63s", base ? base + 1 : r.out.path);
        snprintf(r.sum.offload, sizeof(r.sum.offload), "%s", offload_name(&r.config, (char[32]){ 0 }, 32));
        describe(&r);
        rc = train(&r, &st);
    }
    if (!rc)
        rc = finish(&r, &st);
    closed = zinf_jsonl_close(r.jsonl, &closing);
    if (closed && !rc) {
        rc = closed;
        st = closing;
    }
    zinf_progress_close(r.progress);
    r.progress = NULL;
    zinf_trainer_close(r.t);
    zinf_outdir_close(&r.out);
    if (!rc) {
        if (stop_signal)
            fprintf(stderr, "zinf: stopped by signal %d after step %llu; its weights are in %s\n", (int)stop_signal,
                    (unsigned long long)r.sum.steps, r.out.model);
        zinf_table_run(&r.sum, stdout);
    }
    zinf_config_free(&r.config);
    zinf_args_free(&r.o.sets);
    if (rc)
        return started ? zinf_cmd_fail(&st) : zinf_cmd_refuse(&st);
    return stop_signal ? 128 + (int)stop_signal : 0;
}
