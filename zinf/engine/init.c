/* zinf/engine/init.c - the first values of weights and state, written grain by grain straight to their tier: the whole model is
 * never in RAM. Element i of a parameter depends on (seed, its name, i) only. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/align.h"
#include "zinf/base/philox.h"

#define TILE 4096u      /* elements; a worker's buffer lies on its stack */

struct fill {
    const struct zinf_trainer *t;
    const struct zinf_sched_grain *g;
    char *weights, *state;
};

static void fill_values(const struct fill *f, uint64_t first, uint64_t n, float *out)
{
    const struct zinf_partition *p = &f->t->part;

    memset(out, 0, n * sizeof(*out));
    for (uint32_t i = p->unit_first_param[f->g->unit]; i < p->unit_first_param[f->g->unit + 1]; i++) {
        const struct zinf_unit_param *u = &p->params[i];
        uint64_t from = zinf_max_u64(first, u->offset), to = zinf_min_u64(first + n, u->offset + u->nr_elems);

        if (from >= to)
            continue;
        if (u->param->init == ZINF_INIT_NORMAL)
            zinf_normal_fill(f->t->config.seed, zinf_hash_name(u->param->name), from - u->offset, to - from, 0, u->param->std,
                             out + (from - first));
        else if (u->param->init == ZINF_INIT_ONE)
            for (uint64_t k = from; k < to; k++)
                out[k - first] = 1;
    }
}

static void fill_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct fill *f = ctx;
    uint64_t at = tile * TILE, n = zinf_min_u64(TILE, f->g->nr_elems - at);
    float master[TILE];

    (void)worker;
    fill_values(f, f->g->first_elem + at, n, master);
    if (f->t->config.dtype == ZINF_BF16)
        zinf_split_range(master, (uint16_t *)(void *)f->weights + at, (int16_t *)(void *)f->state + at, n);
    else
        memcpy((float *)(void *)f->weights + at, master, n * sizeof(*master));
}

static void *slot(const struct zinf_trainer *t, enum zinf_class c)
{
    return zinf_store_addr(t->store, (struct zinf_loc){ ZINF_AT_SLOT, (uint8_t)c, 0 }, 0);
}

/* Where a grain is put together: its home in RAM, or a slot (no schedule is running), or the spare buffer. */
static void place(const struct zinf_trainer *t, uint32_t grain, char *spare, struct fill *f)
{
    const struct zinf_sched_plan *p = t->plan;
    const struct zinf_sched_grain *g = &p->grains[grain];

    if (p->weight_host[g->unit])
        f->weights = zinf_store_addr(t->store, (struct zinf_loc){ ZINF_AT_WEIGHT_HOST, 0, g->unit }, grain);
    else
        f->weights = p->class_count[ZINF_CLASS_WEIGHT] ? slot(t, ZINF_CLASS_WEIGHT) : spare;
    if (p->state_host[grain])
        f->state = zinf_store_addr(t->store, (struct zinf_loc){ ZINF_AT_STATE_HOST, 0, grain }, 0);
    else
        f->state = p->class_count[ZINF_CLASS_STATE] ? slot(t, ZINF_CLASS_STATE) : spare + p->spec.grain_elems * p->spec.weight_nbytes;
}

int zinf_state_init(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = t->plan;
    uint64_t done = 0;
    char *spare = NULL;
    int rc = 0;

    /* Only a run with homes on the device and no slots on the host needs it. */
    if (!p->class_count[ZINF_CLASS_WEIGHT] || !p->class_count[ZINF_CLASS_STATE]) {
        spare = malloc(p->spec.grain_elems * (p->spec.weight_nbytes + p->spec.state_nbytes));
        if (!spare)
            return zinf_fail(st, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < p->nr_grains && !rc; i++) {
        struct fill f = { .t = t, .g = &p->grains[i] };

        place(t, i, spare, &f);
        memset(f.state, 0, f.g->nr_elems * p->spec.state_nbytes);
        zinf_pool_for(t->pool, zinf_div_up(f.g->nr_elems, TILE), fill_tile, &f);
        rc = zinf_store_put_grain(t->store, i, f.weights, f.state, st);
        done += f.g->nr_elems;
        if (t->opts.progress && !rc)
            t->opts.progress(t->opts.progress_ctx, "initialising", done, t->part.nr_elems > done ? t->part.nr_elems : done);
    }
    free(spare);
    return rc;
}
