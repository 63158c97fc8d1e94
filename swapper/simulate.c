/* swapper/simulate.c - how long frozen lists take: every lane works in list order, one operation at a time.
 *
 * Dependencies point backwards and lanes are first in, first out, so one pass over the list is the whole simulation. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/schedule.h"

/* One schedule after `from`; start and end are its own entries or NULL, done has room for nr_ops. Returns its end. */
static double run(const struct zinf_schedule *s, double from, double busy[ZINF_NR_LANES], double *start, double *end,
                  double *done)
{
    double lane[ZINF_NR_LANES], last = from;
    for (uint32_t l = 0; l < ZINF_NR_LANES; l++)
        lane[l] = from;
    for (uint32_t i = 0; i < s->nr_ops; i++) {
        const struct zinf_op *o = &s->ops[i];
        double t = lane[o->lane];
        for (uint32_t d = 0; d < o->nr_deps; d++) {
            double after = done[s->deps[o->dep + d]];
            t = after > t ? after : t;
        }
        lane[o->lane] = done[i] = t + o->seconds;
        busy[o->lane] += o->seconds;
        last = done[i] > last ? done[i] : last;
        if (start)
            start[i] = t;
        if (end)
            end[i] = done[i];
    }
    return last;
}

int zinf_schedule_simulate(const struct zinf_sched_plan *p, const struct zinf_schedule *const *chain, uint32_t nr,
                           struct zinf_sim *out)
{
    uint32_t most = 0;
    size_t at = 0;
    (void)p;      /* the operations carry their seconds; rates that drives and copies share will come from the plan */
    out->seconds = 0;
    memset(out->busy, 0, sizeof(out->busy));
    for (uint32_t k = 0; k < nr; k++)
        most = chain[k]->nr_ops > most ? chain[k]->nr_ops : most;
    double *done = malloc(((size_t)most + 1) * sizeof(*done));
    if (!done)
        return -ENOMEM;
    for (uint32_t k = 0; k < nr; k++) {
        out->seconds = run(chain[k], out->seconds, out->busy, out->start ? out->start + at : NULL,
                           out->end ? out->end + at : NULL, done);
        at += chain[k]->nr_ops;
    }
    free(done);
    return 0;
}
