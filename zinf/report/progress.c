/* zinf/report/progress.c - formats a step and puts it on the terminal or in the log of a job. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "swapper/schedule.h"
#include "zinf/base/size.h"
#include "zinf/report/progress.h"

#define LINE_NBYTES 512u
#define COLUMNS_DEFAULT 80u
/* The share a new step has in the running mean that eta is made of. */
#define ETA_WEIGHT 0.1

struct zinf_progress {
    bool terminal, live;             /* live: a line without a newline is on the screen */
    uint64_t nr_steps, every;
    double step_s;                   /* running mean; 0 = none yet */
    const char *setup_what;
    int setup_quarter;
    char line[LINE_NBYTES];          /* the live one */
};

struct cursor { char *buf; size_t nbytes, at; };

static void put(struct cursor *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct cursor *c, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(c->buf + c->at, c->nbytes - c->at, fmt, ap);
    va_end(ap);
    if (n > 0)
        c->at = c->at + (size_t)n < c->nbytes ? c->at + (size_t)n : c->nbytes - 1;
}

static void put_flops(struct cursor *c, double tflops)
{
    if (tflops >= 0.1)
        put(c, " %.1f TFLOP/s", tflops);
    else if (tflops > 0)
        put(c, " %.1f GFLOP/s", tflops * 1e3);
}

/* Each figure in its own unit, which is said once where it is the same: a small run in a large budget uses more than 0. */
static void put_tier(struct cursor *c, const char *name, uint64_t peak_nbytes, uint64_t budget_nbytes)
{
    char peak[24], budget[24], *unit;

    zinf_size_format(peak_nbytes, peak, sizeof(peak));
    zinf_size_format(budget_nbytes, budget, sizeof(budget));
    unit = strchr(peak, ' ');
    if (unit && strchr(budget, ' ') && !strcmp(unit, strchr(budget, ' ')))
        *unit = 0;
    put(c, " %s %s/%s", name, peak, budget);
}

static void put_tiers(struct cursor *c, const struct zinf_run_info *info)
{
    put(c, " |");
    put_tier(c, "device", info->peak_nbytes[ZINF_TIER_DEVICE], info->budget_nbytes[ZINF_TIER_DEVICE]);
    put_tier(c, "ram", info->peak_nbytes[ZINF_TIER_HOST], info->budget_nbytes[ZINF_TIER_HOST]);
}

/* MB/s for a drive that has little to do: 0.00 says nothing. */
static void put_drive(struct cursor *c, double read_bps, double written_bps)
{
    bool fast = read_bps >= 1e9 || written_bps >= 1e9;

    if (read_bps > 0 || written_bps > 0)
        put(c, fast ? " | nvme %.2fr %.2fw GB/s" : " | nvme %.0fr %.0fw MB/s", read_bps * (fast ? 1e-9 : 1e-6),
            written_bps * (fast ? 1e-9 : 1e-6));
}

static void put_bound(struct cursor *c, const struct zinf_step *s)
{
    char name[32], *under;

    if (s->bound < 0 || s->bound >= ZINF_NR_LANES)
        return;
    snprintf(name, sizeof(name), "%s", zinf_lane_name((enum zinf_lane)s->bound));
    while ((under = strchr(name, '_')))
        *under = '-';
    put(c, " | bound: %s %.0f%%", name, s->bound_fraction * 100);
}

static void put_eta(struct cursor *c, double eta_s)
{
    uint64_t s;

    if (!(eta_s >= 0) || eta_s > 1e9)
        return;
    s = (uint64_t)(eta_s + 0.5);
    if (s < 60)
        put(c, " | eta %llus", (unsigned long long)s);
    else if (s < 3600)
        put(c, " | eta %llum%02llus", (unsigned long long)(s / 60), (unsigned long long)(s % 60));
    else if (s < 86400)
        put(c, " | eta %lluh%02llum", (unsigned long long)(s / 3600), (unsigned long long)(s / 60 % 60));
    else
        put(c, " | eta %llud%02lluh", (unsigned long long)(s / 86400), (unsigned long long)(s / 3600 % 24));
}

char *zinf_progress_line(const struct zinf_step *s, const struct zinf_run_info *info, uint64_t nr_steps, double eta_s,
                         char *buf, size_t nbytes)
{
    const struct zinf_step_lane *r = &s->lane[ZINF_LANE_NVME_READ], *w = &s->lane[ZINF_LANE_NVME_WRITE];
    struct cursor c = { buf, nbytes, 0 };

    if (!nbytes)
        return buf;
    buf[0] = 0;
    put(&c, "step %llu", (unsigned long long)s->step);
    if (nr_steps)
        put(&c, "/%llu", (unsigned long long)nr_steps);
    if (info->durable)
        put(&c, " durable %llu", (unsigned long long)s->durable_step);
    if (s->skipped)
        put(&c, " skipped");
    put(&c, " loss %.4f norm %.3g%s lr %.1e | %.0f tok/s", s->loss, s->grad_norm, s->clipped ? " clipped" : "", s->lr,
        s->tokens_per_s);
    put_flops(&c, s->tflops);
    if (s->seconds > 0)
        put_drive(&c, (double)r->nbytes / s->seconds, (double)w->nbytes / s->seconds);
    put_bound(&c, s);
    put_tiers(&c, info);
    put_eta(&c, eta_s);
    return buf;
}

static uint32_t columns(void)
{
    struct winsize w;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col ? COLUMNS_DEFAULT : w.ws_col;
}

/* Carriage return, the line cut to the terminal so that it does not wrap, and the rest of the old line erased. */
static void draw(struct zinf_progress *p)
{
    printf("\r%.*s\033[K", (int)(columns() - 1), p->line);
    fflush(stdout);
    p->live = true;
}

static void erase(struct zinf_progress *p)
{
    if (p->live)
        printf("\r\033[K");
    p->live = false;
}

struct zinf_progress *zinf_progress_open(bool to_terminal, uint64_t nr_steps, uint64_t every)
{
    struct zinf_progress *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->terminal = to_terminal;
    p->nr_steps = nr_steps;
    p->every = every ? every : 1;
    return p;
}

void zinf_progress_set_steps(struct zinf_progress *p, uint64_t nr_steps) { p->nr_steps = nr_steps; }

void zinf_progress_step(struct zinf_progress *p, const struct zinf_step *s, const struct zinf_run_info *info)
{
    double eta_s = -1;

    p->step_s = p->step_s > 0 ? (1 - ETA_WEIGHT) * p->step_s + ETA_WEIGHT * s->seconds : s->seconds;
    if (p->nr_steps && s->step <= p->nr_steps)
        eta_s = (double)(p->nr_steps - s->step) * p->step_s;
    if (!p->terminal && s->step % p->every && s->step != p->nr_steps)
        return;
    zinf_progress_line(s, info, p->nr_steps, eta_s, p->line, sizeof(p->line));
    if (p->terminal) {
        draw(p);
        return;
    }
    puts(p->line);
    fflush(stdout);
}

void zinf_progress_setup(struct zinf_progress *p, const char *what, uint64_t done, uint64_t total)
{
    double share = total ? (double)done / (double)total : 1;

    if (p->terminal) {
        snprintf(p->line, sizeof(p->line), "%s %.0f%%", what, share * 100);
        draw(p);
        return;
    }
    /* In a file a line per quarter is enough. */
    if (!p->setup_what || strcmp(p->setup_what, what)) {
        p->setup_what = what;
        p->setup_quarter = 0;
    }
    if ((int)(share * 4) <= p->setup_quarter)
        return;
    p->setup_quarter = (int)(share * 4);
    printf("%s %.0f%%\n", what, share * 100);
    fflush(stdout);
}

void zinf_progress_say(struct zinf_progress *p, const char *line)
{
    bool was_live = p->live;

    erase(p);
    puts(line);
    fflush(stdout);
    if (was_live)
        draw(p);
}

void zinf_progress_clear(struct zinf_progress *p)
{
    erase(p);
    fflush(stdout);
}

void zinf_progress_close(struct zinf_progress *p)
{
    if (!p)
        return;
    if (p->live)
        putchar('\n');
    fflush(stdout);
    free(p);
}
