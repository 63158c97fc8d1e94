/* zinf/engine/exec.c - the lanes the engine plugs into the mover: device streams, and the pool for the cpu lane.
 *
 * Everything an operation in flight needs (stream item, event, job, status) is allocated once, one per place in the longest
 * schedule. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "zinf/base/clock.h"
#include "zinf/base/philox.h"

struct op_run {
    struct zinf_exec *exec;
    const struct zinf_schedule *sched;
    struct zinf_mover *mover;
    uint32_t op;
    int rc;
    struct zinf_status st;
    struct zinf_stream_item item;
    struct zinf_pool_job job;
};

struct zinf_exec {
    struct zinf_trainer *t;
    struct zinf_stream *streams[ZINF_NR_LANES];     /* NULL for host lanes */
    struct op_run *runs;                            /* max_ops */
    struct zinf_event **events;                     /* max_ops; those of stream operations */
    struct zinf_event **waits;                      /* max_deps: an operation's are at its place in schedule.deps */
    uint32_t max_ops;
    uint64_t nr_delays;
    uint64_t busy_ns[ZINF_NR_LANES];                /* time spent in operations of stream lanes, since the last take */
};

/* Tests only: another interleaving every time, the same ones for the same seed. */
static void delay(const struct zinf_engine_hooks *h, uint64_t n)
{
    struct timespec ts = { 0, 0 };

    if (!h->delay_us)
        return;
    ts.tv_nsec = (long)(zinf_uniform(h->delay_seed, 0x64656c61, n) * h->delay_us * 1000.0);
    nanosleep(&ts, NULL);
}

static void run_body(struct op_run *r, struct zinf_stream *s)
{
    uint64_t from;

    delay(&r->exec->t->hooks, __atomic_fetch_add(&r->exec->nr_delays, 1, __ATOMIC_RELAXED));
    from = zinf_now_ns(&zinf_clock_system);
    r->rc = zinf_op_run(r->exec->t, r->sched, r->op, s, &r->st);
    __atomic_fetch_add(&r->exec->busy_ns[r->sched->ops[r->op].lane], zinf_now_ns(&zinf_clock_system) - from, __ATOMIC_RELAXED);
}

static void stream_body(struct zinf_stream *s, void *arg)
{
    run_body(arg, s);
}

static void stream_done(void *arg)
{
    struct op_run *r = arg;

    zinf_mover_complete(r->mover, r->op, r->rc);
}

static void job_body(struct zinf_pool_job *job)
{
    struct op_run *r = (struct op_run *)(void *)((char *)job - offsetof(struct op_run, job));

    run_body(r, NULL);
    zinf_mover_complete(r->mover, r->op, r->rc);
}

static struct op_run *begin(struct zinf_exec *e, struct zinf_mover *m, const struct zinf_schedule *s, uint32_t op)
{
    struct op_run *r = &e->runs[op];

    r->exec = e;
    r->sched = s;
    r->mover = m;
    r->op = op;
    r->rc = 0;
    r->st = (struct zinf_status){ 0 };
    return r;
}

static int issue_stream(void *ctx, struct zinf_mover *m, const struct zinf_schedule *s, uint32_t op, const uint32_t *after,
                        uint32_t nr_after, struct zinf_status *st)
{
    struct zinf_exec *e = ctx;
    struct op_run *r = begin(e, m, s, op);
    int rc;

    for (uint32_t i = 0; i < nr_after; i++)
        e->waits[s->ops[op].dep + i] = e->events[after[i]];
    r->item = (struct zinf_stream_item){ .fn = stream_body, .arg = r, .waits = e->waits + s->ops[op].dep,
                                         .nr_waits = nr_after, .done = e->events[op], .notify = stream_done, .notify_arg = r };
    rc = e->t->dev_ops->enqueue(e->streams[s->ops[op].lane], &r->item);
    return rc ? zinf_fail(st, rc, "the %s stream refused work", zinf_lane_name(s->ops[op].lane)) : 0;
}

static int issue_cpu(void *ctx, struct zinf_mover *m, const struct zinf_schedule *s, uint32_t op, const uint32_t *after,
                     uint32_t nr_after, struct zinf_status *st)
{
    struct zinf_exec *e = ctx;
    struct op_run *r = begin(e, m, s, op);

    (void)after;
    (void)nr_after;
    (void)st;
    r->job.fn = job_body;
    zinf_pool_submit(e->t->pool, &r->job);
    return 0;
}

static int open_streams(struct zinf_exec *e, struct zinf_status *st)
{
    for (int l = 0; l < ZINF_NR_LANES; l++) {
        if (!zinf_lane_is_stream((enum zinf_lane)l))
            continue;
        int rc = e->t->dev_ops->stream_open(e->t->dev, zinf_lane_name((enum zinf_lane)l), &e->streams[l]);
        if (rc)
            return zinf_fail(st, rc, "the device could not open a stream");
        e->t->lanes[l] = (struct zinf_lane_impl){ .issue = issue_stream, .ctx = e };
    }
    /* Compute runs at most two layers ahead of what has finished. */
    e->t->lanes[ZINF_LANE_COMPUTE].depth = 2 * e->t->plan->spec.nr_micro;
    e->t->lanes[ZINF_LANE_CPU] = (struct zinf_lane_impl){ .issue = issue_cpu, .ctx = e };
    if (e->t->plan->extents_weight || e->t->plan->extents_state) {
        e->t->lanes[ZINF_LANE_NVME_READ] = zinf_store_lane(e->t->store, ZINF_LANE_NVME_READ);
        e->t->lanes[ZINF_LANE_NVME_WRITE] = zinf_store_lane(e->t->store, ZINF_LANE_NVME_WRITE);
        e->t->lanes[ZINF_LANE_SYNC] = zinf_store_lane(e->t->store, ZINF_LANE_SYNC);
    }
    return 0;
}

int zinf_exec_open(struct zinf_trainer *t, struct zinf_exec **out, struct zinf_status *st)
{
    struct zinf_exec *e = calloc(1, sizeof(*e));
    uint32_t max_deps = 0;
    int rc = 0;

    *out = NULL;
    if (!e)
        return zinf_fail(st, -ENOMEM, "out of memory");
    e->t = t;
    for (int k = 0; k < 4 * ZINF_NR_SCHED_KINDS; k++) {
        const struct zinf_schedule *s = t->sched[k / 4][k % 4];

        e->max_ops = s && s->nr_ops > e->max_ops ? s->nr_ops : e->max_ops;
        max_deps = s && s->nr_deps > max_deps ? s->nr_deps : max_deps;
    }
    e->runs = calloc(e->max_ops, sizeof(*e->runs));
    e->events = calloc(e->max_ops, sizeof(*e->events));
    e->waits = calloc((size_t)max_deps + 1, sizeof(*e->waits));
    if (!e->runs || !e->events || !e->waits)
        rc = zinf_fail(st, -ENOMEM, "out of memory for %u operations", e->max_ops);
    for (uint32_t i = 0; i < e->max_ops && !rc; i++) {
        rc = t->dev_ops->event_open(t->dev, &e->events[i]);
        if (rc)
            zinf_fail(st, rc, "the device could not make %u events", e->max_ops);
    }
    if (!rc)
        rc = open_streams(e, st);
    if (rc) {
        zinf_exec_close(e);
        return rc;
    }
    *out = e;
    return 0;
}

void zinf_exec_close(struct zinf_exec *e)
{
    if (!e)
        return;
    for (int l = 0; l < ZINF_NR_LANES; l++)
        if (e->streams[l])
            e->t->dev_ops->stream_close(e->streams[l]);
    for (uint32_t i = 0; e->events && i < e->max_ops; i++)
        if (e->events[i])
            e->t->dev_ops->event_close(e->events[i]);
    free(e->runs);
    free(e->events);
    free(e->waits);
    free(e);
}

void zinf_exec_take_busy(struct zinf_exec *e, struct zinf_mover_stats *stats)
{
    for (int l = 0; l < ZINF_NR_LANES; l++) {
        uint64_t ns = __atomic_exchange_n(&e->busy_ns[l], 0, __ATOMIC_RELAXED);

        if (zinf_lane_is_stream((enum zinf_lane)l))
            stats->lane[l].busy_ns = ns;
    }
}

void zinf_exec_failure(const struct zinf_exec *e, const struct zinf_schedule *s, struct zinf_status *st)
{
    for (uint32_t i = 0; i < s->nr_ops; i++)
        if (e->runs[i].sched == s && e->runs[i].st.rc) {
            *st = e->runs[i].st;
            return;
        }
}
