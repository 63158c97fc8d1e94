/* zinf/engine/init.c - the first values of weights and state, written grain by grain straight to their tier: the whole model is
 * never in RAM. They come from a generator, a Hugging Face folder, a portable checkpoint; or, after --resume, they are on the
 * drives already and only the copies in RAM are filled. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/align.h"
#include "zinf/base/philox.h"

#define TILE 4096u      /* elements; a worker's buffers lie on its stack */

/* Random values: element i of a parameter depends on (seed, its name, i) only. Moments are zero. */
static int read_random(void *ctx, uint32_t param, uint64_t first, uint64_t n, float *master, float *m, float *v,
                       struct zinf_status *st)
{
    const struct zinf_trainer *t = ctx;
    const struct zinf_param *p = t->part.params[param].param;

    (void)m;
    (void)v;
    (void)st;
    if (p->init == ZINF_INIT_NORMAL)
        zinf_normal_fill(t->config.seed, zinf_hash_name(p->name), first, n, 0, p->std, master);
    else
        for (uint64_t i = 0; i < n; i++)
            master[i] = p->init == ZINF_INIT_ONE;
    return 0;
}

struct fill {
    struct zinf_trainer *t;
    const struct zinf_state_source *from;
    const struct zinf_sched_grain *g;
    char *weights, *state;
    int rc;                       /* of the first tile that failed; guarded by claimed */
    bool claimed;
    struct zinf_status st;
};

static void fail(struct fill *f, int rc, const struct zinf_status *st)
{
    if (__atomic_exchange_n(&f->claimed, true, __ATOMIC_ACQ_REL))
        return;
    f->st = *st;
    __atomic_store_n(&f->rc, rc, __ATOMIC_RELEASE);
}

static int fill_values(struct fill *f, uint64_t first, uint64_t n, float *master, float *m, float *v, struct zinf_status *st)
{
    const struct zinf_partition *p = &f->t->part;
    int rc = 0;

    memset(master, 0, n * sizeof(*master));
    memset(m, 0, n * sizeof(*m));
    memset(v, 0, n * sizeof(*v));
    for (uint32_t i = p->unit_first_param[f->g->unit]; i < p->unit_first_param[f->g->unit + 1] && !rc; i++) {
        const struct zinf_unit_param *u = &p->params[i];
        uint64_t from = zinf_max_u64(first, u->offset), to = zinf_min_u64(first + n, u->offset + u->nr_elems);

        if (from < to)
            rc = f->from->read(f->from->ctx, i, from - u->offset, to - from, master + (from - first), m + (from - first),
                               v + (from - first), st);
    }
    return rc;
}

static void fill_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    struct fill *f = ctx;
    uint64_t at = tile * TILE, n = zinf_min_u64(TILE, f->g->nr_elems - at), bad;
    float master[TILE], m[TILE], v[TILE];
    struct zinf_status st = { 0 };
    char *state = f->state;
    int rc;

    (void)worker;
    rc = fill_values(f, f->g->first_elem + at, n, master, m, v, &st);
    if (!rc && f->t->config.dtype == ZINF_BF16) {
        bad = zinf_split_range(master, (uint16_t *)(void *)f->weights + at, (int16_t *)(void *)state + at, n);
        state += f->g->nr_elems * sizeof(int16_t);
        if (bad < n) {
            const struct zinf_unit_param *p = zinf_partition_find(&f->t->part, f->g->unit, f->g->first_elem + at + bad);

            rc = zinf_fail(&st, -EINVAL, "a value of %s is not finite in bf16", p ? p->param->name : "padding");
        }
    } else if (!rc) {
        memcpy((float *)(void *)f->weights + at, master, n * sizeof(*master));
    }
    if (!rc && f->t->optimizer.kind != ZINF_SGD) {
        memcpy((float *)(void *)state + at, m, n * sizeof(*m));
        memcpy((float *)(void *)state + f->g->nr_elems + at, v, n * sizeof(*v));
    }
    if (rc)
        fail(f, rc, &st);
}

static void *slot(const struct zinf_trainer *t, enum zinf_class c)
{
    return zinf_store_addr(t->store, (struct zinf_loc){ ZINF_AT_SLOT, (uint8_t)c, 0 }, ZINF_NONE);
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

static int put_grain(struct zinf_trainer *t, const struct zinf_state_source *from, uint32_t grain, char *spare,
                     struct zinf_status *st)
{
    struct fill f = { .t = t, .from = from, .g = &t->plan->grains[grain] };

    place(t, grain, spare, &f);
    zinf_pool_for(t->pool, zinf_div_up(f.g->nr_elems, TILE), fill_tile, &f);
    if (f.rc)
        return zinf_fail(st, f.rc, "%s", f.st.text);
    return zinf_store_put_grain(t->store, grain, f.weights, f.state, st);
}

/* After a resume the drives hold everything; RAM and device get their copies. */
static int restore_grain(struct zinf_trainer *t, uint32_t grain, char *spare, struct zinf_status *st)
{
    struct fill f = { 0 };

    place(t, grain, spare, &f);
    return zinf_store_restore_grain(t->store, grain, f.weights, f.state, st);
}

int zinf_state_init(struct zinf_trainer *t, const struct zinf_state_source *from, struct zinf_status *st)
{
    const struct zinf_state_source random = { read_random, t };
    const struct zinf_sched_plan *p = t->plan;
    uint64_t done = 0;
    char *spare = NULL;
    int rc = 0;

    from = from ? from : &random;
    /* Only a run with homes on the device and no slots on the host needs it. */
    if (!p->class_count[ZINF_CLASS_WEIGHT] || !p->class_count[ZINF_CLASS_STATE]) {
        spare = malloc(p->spec.grain_elems * (p->spec.weight_nbytes + p->spec.state_nbytes));
        if (!spare)
            return zinf_fail(st, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < p->nr_grains && !rc; i++) {
        rc = t->resumed ? restore_grain(t, i, spare, st) : put_grain(t, from, i, spare, st);
        done += p->grains[i].nr_elems;
        if (t->opts.progress && !rc)
            t->opts.progress(t->opts.progress_ctx, t->resumed ? "loading" : "initialising", done,
                             t->part.nr_elems > done ? t->part.nr_elems : done);
    }
    free(spare);
    return rc;
}
