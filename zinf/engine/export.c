/* zinf/engine/export.c - the weights on their way out: grain by grain from wherever they live, through memory the run already
 * has, into a Hugging Face folder. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/align.h"
#include "zinf/checkpoint/hf_export.h"

struct walk {
    struct zinf_trainer *t;
    uint32_t grain;              /* whose weights are at `weights`; ZINF_NONE = none yet */
    const char *weights;
    void *spare;                 /* only a run without WEIGHT slots and without host homes needs it */
};

static uint32_t grain_of(const struct zinf_sched_plan *p, uint32_t unit, uint64_t elem)
{
    return p->unit_first_grain[unit] + (uint32_t)(elem / p->spec.grain_elems);
}

static int load_grain(struct walk *w, uint32_t grain, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = w->t->plan;
    const struct zinf_sched_grain *g = &p->grains[grain];
    const struct zinf_loc slot = { ZINF_AT_SLOT, ZINF_CLASS_WEIGHT, 0 }, home = { ZINF_AT_WEIGHT_HOST, 0, g->unit };
    void *to;
    int rc;

    if (grain == w->grain)
        return 0;
    w->grain = ZINF_NONE;
    if (p->weight_host[g->unit] && !p->state_device[grain]) {
        w->weights = zinf_store_addr(w->t->store, home, grain);
        w->grain = grain;
        return 0;
    }
    if (!p->class_count[ZINF_CLASS_WEIGHT] && !w->spare)
        w->spare = malloc(p->spec.grain_elems * p->spec.weight_nbytes);
    to = p->class_count[ZINF_CLASS_WEIGHT] ? zinf_store_addr(w->t->store, slot, ZINF_NONE) : w->spare;
    if (!to)
        return zinf_fail(st, -ENOMEM, "out of memory for the export");
    rc = zinf_store_get_grain(w->t->store, grain, to, NULL, st);
    if (!rc) {
        w->weights = to;
        w->grain = grain;
    }
    return rc;
}

static int fetch(void *ctx, uint32_t param, uint64_t first, uint64_t nr_elems, void *out, struct zinf_status *st)
{
    struct walk *w = ctx;
    const struct zinf_sched_plan *p = w->t->plan;
    const struct zinf_unit_param *u = &w->t->part.params[param];
    size_t width = p->spec.weight_nbytes;

    for (uint64_t done = 0; done < nr_elems;) {
        uint64_t elem = u->offset + first + done, n;
        uint32_t grain = grain_of(p, u->unit, elem);
        const struct zinf_sched_grain *g = &p->grains[grain];
        int rc = load_grain(w, grain, st);

        if (rc)
            return rc;
        n = zinf_min_u64(nr_elems - done, g->first_elem + g->nr_elems - elem);
        memcpy((char *)out + done * width, w->weights + (elem - g->first_elem) * width, n * width);
        done += n;
    }
    return 0;
}

int zinf_state_export(struct zinf_trainer *t, const char *dir, struct zinf_status *st)
{
    const struct zinf_param **params = calloc((size_t)t->part.nr_params + 1, sizeof(*params));
    struct walk w = { .t = t, .grain = ZINF_NONE };
    struct zinf_hf_export_opts o = { .dir = dir, .params = params, .nr_params = t->part.nr_params, .dtype = t->config.dtype,
                                     .fetch = fetch, .ctx = &w };
    int rc;

    if (!params)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < t->part.nr_params; i++)
        params[i] = t->part.params[i].param;
    if (t->model) {
        o.config_text = t->model->config_text;
        o.config_nbytes = t->model->config_nbytes;
    }
    rc = zinf_hf_export(&o, st);
    free(w.spare);
    free(params);
    return rc;
}
