/* zinf/report/table.c - one run as label and value, several runs as columns. */
#include <math.h>
#include <string.h>

#include "swapper/schedule.h"
#include "zinf/base/size.h"
#include "zinf/report/table.h"

#define CELL_NBYTES 80u

/* A figure of a run as text; false = the run has none. */
typedef bool (*figure_fn)(const struct zinf_run_summary *s, char *out);

static void put_loss(char *out, const struct zinf_run_summary *s)
{
    snprintf(out, CELL_NBYTES, "%.4f -> %.4f", s->first_loss, s->last_loss);
}

static bool offload(const struct zinf_run_summary *s, char *out)
{
    return snprintf(out, CELL_NBYTES, "%s", s->offload) > 0;
}

static bool loss(const struct zinf_run_summary *s, char *out)
{
    put_loss(out, s);
    return !isnan(s->first_loss);
}

static bool eval(const struct zinf_run_summary *s, char *out)
{
    snprintf(out, CELL_NBYTES, "%.4f", s->eval_loss);
    return !isnan(s->eval_loss);
}

static bool steps(const struct zinf_run_summary *s, char *out)
{
    unsigned long long first = s->first_step, last = s->steps, tokens = s->tokens;

    /* Of a run that went on, everything else in the table is of the last part. */
    if (!first)
        snprintf(out, CELL_NBYTES, "%llu (%llu tokens)", last, tokens);
    else if (last > first)
        snprintf(out, CELL_NBYTES, "%llu to %llu (%llu tokens)", first + 1, last, tokens);
    else
        snprintf(out, CELL_NBYTES, "%llu, none of them now", last);
    return true;
}

static bool seconds(const struct zinf_run_summary *s, char *out)
{
    snprintf(out, CELL_NBYTES, "%.1f s", s->seconds);
    return true;
}

static bool speed(const struct zinf_run_summary *s, char *out)
{
    snprintf(out, CELL_NBYTES, "%.0f", s->tokens_per_s);
    return s->tokens > 0;
}

static bool tier(const struct zinf_run_summary *s, int t, char *out)
{
    char peak[24], budget[24];

    zinf_size_format(s->peak_nbytes[t], peak, sizeof(peak));
    zinf_size_format(s->budget_nbytes[t], budget, sizeof(budget));
    if (t == ZINF_TIER_NVME)
        snprintf(out, CELL_NBYTES, "%s", peak);
    else
        snprintf(out, CELL_NBYTES, "%s of %s", peak, budget);
    return t != ZINF_TIER_NVME || s->peak_nbytes[t];
}

static bool device_tier(const struct zinf_run_summary *s, char *out) { return tier(s, ZINF_TIER_DEVICE, out); }
static bool host_tier(const struct zinf_run_summary *s, char *out) { return tier(s, ZINF_TIER_HOST, out); }
static bool nvme_tier(const struct zinf_run_summary *s, char *out) { return tier(s, ZINF_TIER_NVME, out); }

static bool rss(const struct zinf_run_summary *s, char *out)
{
    zinf_size_format(s->peak_rss_nbytes, out, CELL_NBYTES);
    return s->peak_rss_nbytes > 0;
}

/* Code, libraries, stacks: what no budget counts. */
static bool base_rss(const struct zinf_run_summary *s, char *out)
{
    zinf_size_format(s->base_rss_nbytes, out, CELL_NBYTES);
    return s->base_rss_nbytes > 0;
}

static bool drive_read(const struct zinf_run_summary *s, char *out)
{
    zinf_size_format(s->drive_read_nbytes, out, CELL_NBYTES);
    return s->drive_read_nbytes || s->drive_written_nbytes;
}

static bool drive_written(const struct zinf_run_summary *s, char *out)
{
    zinf_size_format(s->drive_written_nbytes, out, CELL_NBYTES);
    return s->drive_read_nbytes || s->drive_written_nbytes;
}

static bool backend(const struct zinf_run_summary *s, char *out)
{
    snprintf(out, CELL_NBYTES, "%s", s->io_backend);
    return s->io_backend[0] && strcmp(s->io_backend, "none");
}

static bool direct(const struct zinf_run_summary *s, char *out)
{
    char unused[CELL_NBYTES];

    snprintf(out, CELL_NBYTES, "%s", s->direct ? "yes" : "no");
    return backend(s, unused);
}

static bool device(const struct zinf_run_summary *s, char *out)
{
    snprintf(out, CELL_NBYTES, "%s", s->device);
    return s->device[0];
}

static const struct { const char *label; figure_fn figure; } figures[] = {
    { "offload", offload },
    { "steps", steps },
    { "time in steps", seconds },
    { "loss first -> last", loss },
    { "evaluation loss", eval },
    { "tokens/s", speed },
    { "peak device memory", device_tier },
    { "peak host memory", host_tier },
    { "on drives", nvme_tier },
    { "peak RSS", rss },
    { "  beside the budgets", base_rss },
    { "read from drives", drive_read },
    { "written to drives", drive_written },
    { "I/O backend", backend },
    { "O_DIRECT", direct },
    { "device", device },
};
#define NR_FIGURES (sizeof(figures) / sizeof(figures[0]))

void zinf_table_run(const struct zinf_run_summary *s, FILE *to)
{
    const struct { const char *label, *path; } paths[] = {
        { "run", s->run_dir }, { "log", s->log_path }, { "weights", s->weights_path },
    };
    char cell[CELL_NBYTES];

    for (size_t i = 0; i < NR_FIGURES; i++)
        if (figures[i].figure(s, cell))
            fprintf(to, "  %-20s %s\n", figures[i].label, cell);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i].path[0])
            fprintf(to, "  %-20s %s\n", paths[i].label, paths[i].path);
}

/* Long, and mostly the same in all runs: it is said once then. */
static bool once(const struct zinf_run_summary *runs, uint32_t nr, size_t figure)
{
    for (uint32_t r = 1; r < nr; r++)
        if (strcmp(runs[r].device, runs[0].device))
            return false;
    return figures[figure].figure == device;
}

static int column_width(const struct zinf_run_summary *runs, uint32_t nr, uint32_t run)
{
    size_t width = strlen(runs[run].name);
    char cell[CELL_NBYTES];

    for (size_t i = 0; i < NR_FIGURES; i++)
        if (!once(runs, nr, i) && figures[i].figure(&runs[run], cell) && strlen(cell) > width)
            width = strlen(cell);
    return (int)width;
}

static void put_row(const struct zinf_run_summary *runs, uint32_t nr, size_t figure, FILE *to)
{
    char cell[CELL_NBYTES];
    bool any = false;

    for (uint32_t r = 0; r < nr; r++)
        any |= figures[figure].figure(&runs[r], cell);
    if (!any)
        return;
    if (once(runs, nr, figure)) {
        fprintf(to, "  %-20s  %s\n", figures[figure].label, cell);
        return;
    }
    fprintf(to, "  %-20s", figures[figure].label);
    for (uint32_t r = 0; r < nr; r++)
        fprintf(to, "  %*s", column_width(runs, nr, r), figures[figure].figure(&runs[r], cell) ? cell : "-");
    fputc('\n', to);
}

void zinf_table_compare(const struct zinf_run_summary *runs, uint32_t nr, FILE *to)
{
    double fastest = 0;

    for (uint32_t r = 0; r < nr; r++)
        fastest = fmax(fastest, runs[r].tokens_per_s);
    fprintf(to, "  %-20s", "");
    for (uint32_t r = 0; r < nr; r++)
        fprintf(to, "  %*s", column_width(runs, nr, r), runs[r].name);
    fputc('\n', to);
    for (size_t i = 0; i < NR_FIGURES; i++) {
        put_row(runs, nr, i, to);
        if (figures[i].figure != speed || !(fastest > 0))
            continue;
        fprintf(to, "  %-20s", "  of the fastest");
        for (uint32_t r = 0; r < nr; r++)
            if (runs[r].tokens > 0)
                fprintf(to, "  %*.2f", column_width(runs, nr, r), runs[r].tokens_per_s / fastest);
            else
                fprintf(to, "  %*s", column_width(runs, nr, r), "-");
        fputc('\n', to);
    }
}
