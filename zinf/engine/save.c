/* zinf/engine/save.c - named checkpoints while training goes on.
 *
 * Every grain's new state passes through an UPDATE once per step. The step whose state is to be kept writes it from there, as
 * logical tensors, into the page cache; flushing and renaming is left to a thread of its own. Nothing is read again, nothing
 * waits for the drive, and the checkpoint is exactly the state of its step. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/align.h"
#include "zinf/checkpoint/portable.h"

#define PIECE 8192u      /* elements; a worker's buffer lies on its stack */

struct zinf_save {
    struct zinf_trainer *t;
    const struct zinf_param **params;
    uint32_t *first_segment;           /* per grain: number of the part of a parameter that is its first */
    uint32_t nr_segments;              /* parts of parameters; as many segments for every kind of tensor */
    char name[32];
    struct zinf_portable_writer *writer;   /* NULL: no save is in progress */
    char *meta;

    pthread_t thread;
    bool running;                      /* thread is to be joined */
    int rc;                            /* what the thread ended with; read after joining */
    struct zinf_status st;
};

/* Calls fn for every parameter part inside grain; segments are numbered in this order. */
static uint32_t for_segments(const struct zinf_trainer *t, uint32_t grain,
                             int (*fn)(void *ctx, uint32_t nth, uint32_t param, uint64_t from, uint64_t to), void *ctx, int *rc)
{
    const struct zinf_sched_grain *g = &t->plan->grains[grain];
    uint32_t nth = 0;

    for (uint32_t i = t->part.unit_first_param[g->unit]; i < t->part.unit_first_param[g->unit + 1]; i++) {
        const struct zinf_unit_param *u = &t->part.params[i];
        uint64_t from = zinf_max_u64(g->first_elem, u->offset), to = zinf_min_u64(g->first_elem + g->nr_elems, u->offset + u->nr_elems);

        if (from >= to)
            continue;
        if (fn && !*rc)
            *rc = fn(ctx, nth, i, from, to);
        nth++;
    }
    return nth;
}

/* What a killed run was writing: a name that this run may never write again. */
static int sweep(const struct zinf_trainer *t, struct zinf_status *st)
{
    char **names = NULL;
    uint32_t nr = 0;
    int rc = zinf_portable_list(t->opts.checkpoint_dir, true, &names, &nr, st);

    for (uint32_t i = 0; i < nr; i++)
        free(names[i]);
    free(names);
    return rc;
}

int zinf_save_open(struct zinf_trainer *t, struct zinf_save **out, struct zinf_status *st)
{
    struct zinf_save *s;
    int rc = sweep(t, st);

    *out = NULL;
    if (rc)
        return rc;
    s = calloc(1, sizeof(*s));
    if (!s)
        return zinf_fail(st, -ENOMEM, "out of memory");
    s->t = t;
    s->params = calloc((size_t)t->part.nr_params + 1, sizeof(*s->params));
    s->first_segment = calloc((size_t)t->plan->nr_grains + 1, sizeof(*s->first_segment));
    if (!s->params || !s->first_segment) {
        zinf_save_close(s);
        return zinf_fail(st, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < t->part.nr_params; i++)
        s->params[i] = t->part.params[i].param;
    for (uint32_t g = 0; g < t->plan->nr_grains; g++) {
        s->first_segment[g] = s->nr_segments;
        s->nr_segments += for_segments(t, g, NULL, NULL, &rc);
    }
    *out = s;
    return 0;
}

static void *finish_thread(void *arg)
{
    struct zinf_save *s = arg;
    const struct zinf_trainer_opts *o = &s->t->opts;
    char **names = NULL;
    uint32_t nr = 0;

    s->rc = zinf_portable_finish(s->writer, s->meta, &s->st);
    if (!s->rc && o->keep)
        s->rc = zinf_portable_list(o->checkpoint_dir, false, &names, &nr, &s->st);
    for (uint32_t i = 0; i < nr; i++) {
        if (!s->rc && i + o->keep < nr)
            s->rc = zinf_portable_remove(o->checkpoint_dir, names[i], &s->st);
        free(names[i]);
    }
    free(names);
    return NULL;
}

int zinf_save_wait(struct zinf_save *s, struct zinf_status *st)
{
    if (!s || !s->running)
        return 0;
    pthread_join(s->thread, NULL);
    s->running = false;
    zinf_portable_close(s->writer);
    s->writer = NULL;
    free(s->meta);
    s->meta = NULL;
    if (s->rc)
        return zinf_fail(st, s->rc, "the checkpoint %s was not saved: %s", s->name, s->st.text);
    zinf_log(s->t->opts.log, ZINF_LOG_INFO, "saved %s/%s", s->t->opts.checkpoint_dir, s->name);
    return 0;
}

int zinf_save_begin(struct zinf_save *s, const struct zinf_verdict *v, struct zinf_status *st)
{
    struct zinf_portable_opts o = {
        .parent = s->t->opts.checkpoint_dir, .name = s->name, .params = s->params, .nr_params = s->t->part.nr_params,
        .nr_kinds = s->t->optimizer.kind == ZINF_SGD ? 1 : ZINF_NR_PORTABLE_KINDS,
    };
    int rc;

    o.nr_segments = s->nr_segments * o.nr_kinds;
    rc = zinf_save_wait(s, st);           /* one at a time: a drive slower than --save-every slows the run */

    if (rc)
        return rc;
    snprintf(s->name, sizeof(s->name), "step-%08llu", (unsigned long long)v->applied);
    s->rc = 0;
    s->st = (struct zinf_status){ 0 };
    s->meta = zinf_state_meta(s->t, v);
    if (!s->meta)
        return zinf_fail(st, -ENOMEM, "out of memory");
    rc = zinf_portable_open(&o, &s->writer, st);
    if (rc) {
        free(s->meta);
        s->meta = NULL;
    }
    return rc;
}

struct grain_write {
    struct zinf_save *s;
    const struct zinf_update *u;
    const struct zinf_sched_grain *g;
    uint32_t first_segment;
    struct zinf_status *st;
};

/* One part of one parameter: a segment for the master and one for each moment. */
static int write_part(void *ctx, uint32_t nth, uint32_t param, uint64_t from, uint64_t to)
{
    struct grain_write *w = ctx;
    uint32_t segment = w->first_segment + nth, all = w->s->nr_segments;
    const struct zinf_update *u = w->u;
    uint64_t offset = w->s->t->part.params[param].offset;
    float master[PIECE];
    int rc = 0;

    for (uint64_t at = from; at < to && !rc; at += PIECE) {
        uint64_t n = zinf_min_u64(PIECE, to - at), i = at - w->g->first_elem;
        const float *p = (const float *)u->hi + i;

        if (u->weight_dtype == ZINF_BF16) {
            zinf_join_range((const uint16_t *)u->hi + i, u->lo + i, master, n);
            p = master;
        }
        rc = zinf_portable_write(w->s->writer, segment, param, ZINF_MASTER, at - offset, p, n, w->st);
        if (!rc && u->m)
            rc = zinf_portable_write(w->s->writer, all + segment, param, ZINF_EXP_AVG, at - offset, u->m + i, n, w->st);
        if (!rc && u->v)
            rc = zinf_portable_write(w->s->writer, 2 * all + segment, param, ZINF_EXP_AVG_SQ, at - offset, u->v + i, n, w->st);
    }
    return rc;
}

int zinf_save_grain(struct zinf_save *s, uint32_t grain, const struct zinf_update *u, struct zinf_status *st)
{
    struct grain_write w = { s, u, &s->t->plan->grains[grain], s->first_segment[grain], st };
    int rc = 0;

    for_segments(s->t, grain, write_part, &w, &rc);
    return rc;
}

int zinf_save_end(struct zinf_save *s, struct zinf_status *st)
{
    int rc = pthread_create(&s->thread, NULL, finish_thread, s);

    if (rc)
        return zinf_fail(st, -rc, "no thread for the checkpoint: %s", strerror(rc));
    s->running = true;
    return 0;
}

void zinf_save_close(struct zinf_save *s)
{
    struct zinf_status st = { 0 };

    if (!s)
        return;
    if (zinf_save_wait(s, &st))
        zinf_log(s->t->opts.log, ZINF_LOG_WARN, "%s", st.text);
    zinf_portable_close(s->writer);
    free(s->meta);
    free(s->params);
    free(s->first_segment);
    free(s);
}
