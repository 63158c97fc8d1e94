/* swapper/mover.c - the loop that runs a schedule: issue what may go, take what came back, sleep when there is neither.
 *
 * Completions arrive on a stack of operation numbers (any thread pushes, the mover takes all at once); whoever finds
 * the stack empty signals the eventfd. The mover clears the eventfd, then takes the stack, so a push it misses has a
 * signal behind it. */
#include "swapper/mover.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "swapper/ledger.h"

enum phase { PHASE_WAITING, PHASE_ISSUED, PHASE_DONE };

struct lane_run {                    /* one lane during a run */
    uint32_t at, end;                /* its remaining operations in mover.order */
    uint32_t nr_inflight;
    uint64_t since_ns;               /* busy or idle since */
    struct zinf_lane_stats stats;
};

struct zinf_mover {
    const struct zinf_lane_impl *lanes;
    struct zinf_clock clock;
    const struct zinf_log *log;
    uint32_t max_ops, quiet_ms;
    bool serial;
    int event_fd;
    struct zinf_ledger *ledger;

    /* Shared with the threads that complete. */
    atomic_uint head;                /* of the stack: operation + 1; 0 = empty */
    atomic_uint misplaced;           /* an operation completed out of place, + 1 */
    atomic_uint nr_inside;           /* threads inside zinf_mover_complete */
    atomic_bool cancelled;
    atomic_uchar *inflight;          /* per operation: issued and not yet completed */
    uint32_t *next;                  /* per operation: written before the push, read after the take */
    int *rc;                         /* likewise */

    /* The mover's thread alone. */
    const struct zinf_schedule *s;
    struct zinf_op_times *times;
    uint8_t *phase;                  /* per operation */
    uint32_t *order;                 /* operations grouped by lane, in list order */
    uint32_t *after;                 /* for one issue */
    struct lane_run lane[ZINF_NR_LANES];
    uint32_t nr_done, nr_inflight, next_serial;
    struct zinf_status fail;         /* the first failure of this run */
};

static uint64_t now_ns(const struct zinf_mover *m)
{
    return zinf_now_ns(&m->clock);
}

int zinf_mover_open(const struct zinf_mover_opts *opts, struct zinf_mover **out, struct zinf_status *st)
{
    *out = NULL;
    if (!opts->lanes || !opts->plan || !opts->max_ops || opts->max_ops >= ZINF_NONE)
        return zinf_fail(st, -EINVAL, "the mover needs lanes, a plan and the size of the longest schedule");
    struct zinf_mover *m = calloc(1, sizeof(*m));
    if (!m)
        return zinf_fail(st, -ENOMEM, "no memory for the mover");
    size_t nr = opts->max_ops;
    m->lanes = opts->lanes;
    m->clock = opts->clock ? *opts->clock : zinf_clock_system;
    m->log = opts->log;
    m->max_ops = opts->max_ops;
    m->quiet_ms = opts->quiet_ms ? opts->quiet_ms : 30000;
    m->serial = opts->serial;
    m->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = m->event_fd < 0 ? zinf_fail(st, -errno, "eventfd: %s", strerror(errno)) : 0;
    if (!rc)
        rc = zinf_ledger_open(opts->plan, &m->ledger, st);
    if (!rc) {
        m->inflight = calloc(nr, sizeof(*m->inflight));
        m->next = calloc(nr, sizeof(*m->next));
        m->rc = calloc(nr, sizeof(*m->rc));
        m->phase = calloc(nr, sizeof(*m->phase));
        m->order = calloc(nr, sizeof(*m->order));
        m->after = calloc(nr, sizeof(*m->after));
        if (!m->inflight || !m->next || !m->rc || !m->phase || !m->order || !m->after)
            rc = zinf_fail(st, -ENOMEM, "no memory for a schedule of %u operations", opts->max_ops);
    }
    if (rc) {
        zinf_mover_close(m);
        return rc;
    }
    for (size_t i = 0; i < nr; i++)
        atomic_init(&m->inflight[i], 0);
    *out = m;
    return 0;
}

void zinf_mover_close(struct zinf_mover *m)
{
    if (!m)
        return;
    /* The run may have taken a completion while the thread that pushed it was still about to signal: a
     * few instructions. */
    while (atomic_load(&m->nr_inside))
        sched_yield();
    if (m->event_fd >= 0)
        close(m->event_fd);
    zinf_ledger_close(m->ledger);
    free(m->inflight);
    free(m->next);
    free(m->rc);
    free(m->phase);
    free(m->order);
    free(m->after);
    free(m);
}

int zinf_mover_event_fd(const struct zinf_mover *m)
{
    return m->event_fd;
}

static void signal_mover(struct zinf_mover *m)
{
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(m->event_fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    /* EAGAIN: the counter is full, so the mover is about to wake anyway. */
}

void zinf_mover_cancel(struct zinf_mover *m)
{
    atomic_store(&m->cancelled, true);
    signal_mover(m);
}

void zinf_mover_complete(struct zinf_mover *m, uint32_t op, int rc)
{
    atomic_fetch_add(&m->nr_inside, 1);
    unsigned char issued = 1;
    if (op >= m->max_ops || !atomic_compare_exchange_strong(&m->inflight[op], &issued, 0)) {
        unsigned int none = 0;
        atomic_compare_exchange_strong(&m->misplaced, &none, op < ZINF_NONE ? op + 1 : op);
        signal_mover(m);
    } else {
        m->rc[op] = rc;
        unsigned int head = atomic_load(&m->head);
        do {
            m->next[op] = head;
        } while (!atomic_compare_exchange_weak(&m->head, &head, op + 1));
        if (!head)
            signal_mover(m);
    }
    atomic_fetch_sub(&m->nr_inside, 1);
}

static int bad_op(struct zinf_status *st, uint32_t op, const char *what)
{
    return zinf_fail(st, -EINVAL, "operation %u of the schedule %s: the schedule is wrong, report it with its --trace",
                     op, what);
}

static bool range_ok(uint32_t first, uint32_t nr, uint32_t end)
{
    return first <= end && nr <= end - first;
}

/* What the loop relies on for not reaching outside its arrays and not waiting for ever. */
static int check(const struct zinf_mover *m, const struct zinf_schedule *s, struct zinf_status *st)
{
    if (s->nr_ops > m->max_ops)
        return zinf_fail(st, -EINVAL, "a schedule of %u operations for a mover opened for %u", s->nr_ops, m->max_ops);
    for (uint32_t i = 0; i < s->nr_ops; i++) {
        const struct zinf_op *o = &s->ops[i];
        if (o->lane >= ZINF_NR_LANES)
            return bad_op(st, i, "has no lane");
        if (!m->lanes[o->lane].issue)
            return zinf_fail(st, -EINVAL, "operation %u needs lane %s, which this run does not have", i,
                             zinf_lane_name((enum zinf_lane)o->lane));
        if (!range_ok(o->dep, o->nr_deps, s->nr_deps) || !range_ok(o->acq, o->nr_acq, s->nr_slots) ||
            !range_ok(o->free, o->nr_free, s->nr_slots) || o->nr_deps > m->max_ops)
            return bad_op(st, i, "has a range outside its table");
        for (uint32_t d = 0; d < o->nr_deps; d++)
            if (s->deps[o->dep + d] >= i)
                return bad_op(st, i, "waits for a later one");
        for (uint32_t k = 0; k < o->nr_acq; k++)
            if (!zinf_ledger_knows(m->ledger, s->slots[o->acq + k]))
                return bad_op(st, i, "takes a slot that the plan does not have");
        for (uint32_t k = 0; k < o->nr_free; k++)
            if (!zinf_ledger_knows(m->ledger, s->slots[o->free + k]))
                return bad_op(st, i, "gives back a slot that the plan does not have");
    }
    return 0;
}

static void begin(struct zinf_mover *m, const struct zinf_schedule *s, struct zinf_op_times *times, uint64_t start_ns)
{
    uint32_t at[ZINF_NR_LANES] = { 0 };
    m->s = s;
    m->times = times;
    m->nr_done = m->nr_inflight = m->next_serial = 0;
    m->fail = (struct zinf_status){ 0 };
    zinf_ledger_begin(m->ledger);
    for (uint32_t i = 0; i < s->nr_ops; i++)
        at[s->ops[i].lane]++;
    for (uint32_t l = 0, sum = 0; l < ZINF_NR_LANES; l++) {
        m->lane[l] = (struct lane_run){ .at = sum, .end = sum + at[l], .since_ns = start_ns };
        sum += at[l];
        at[l] = m->lane[l].at;
    }
    for (uint32_t i = 0; i < s->nr_ops; i++) {
        m->order[at[s->ops[i].lane]++] = i;
        m->phase[i] = PHASE_WAITING;
        if (times)
            times[i] = (struct zinf_op_times){ 0, 0 };
    }
}

/* Whether op may be issued now; fills m->after for a stream lane. */
static bool ready(struct zinf_mover *m, uint32_t op, uint32_t *nr_after)
{
    const struct zinf_schedule *s = m->s;
    const struct zinf_op *o = &s->ops[op];
    const struct zinf_lane_impl *impl = &m->lanes[o->lane];
    bool stream = zinf_lane_is_stream((enum zinf_lane)o->lane);
    *nr_after = 0;
    if (impl->depth && m->lane[o->lane].nr_inflight >= impl->depth)
        return false;
    for (uint32_t i = 0; i < o->nr_deps; i++) {
        uint32_t d = s->deps[o->dep + i];
        if (m->phase[d] == PHASE_DONE)
            continue;
        if (m->phase[d] == PHASE_WAITING || !stream || !zinf_lane_is_stream((enum zinf_lane)s->ops[d].lane))
            return false;
        if (s->ops[d].lane != o->lane)
            m->after[(*nr_after)++] = d;
    }
    return true;
}

static void issue(struct zinf_mover *m, uint32_t op, uint32_t nr_after)
{
    const struct zinf_op *o = &m->s->ops[op];
    struct lane_run *lane = &m->lane[o->lane];
    const struct zinf_lane_impl *impl = &m->lanes[o->lane];
    if (zinf_ledger_issue(m->ledger, m->s, op, &m->fail))
        return;
    uint64_t t = now_ns(m);
    if (!lane->nr_inflight) {
        lane->stats.stall_ns += t - lane->since_ns;
        lane->since_ns = t;
    }
    if (m->times)
        m->times[op].issue_ns = t;
    m->phase[op] = PHASE_ISSUED;
    lane->at++;
    lane->nr_inflight++;
    m->nr_inflight++;
    atomic_store(&m->inflight[op], 1);
    struct zinf_status st = { 0 };
    int rc = impl->issue(impl->ctx, m, m->s, op, m->after, nr_after, &st);
    if (!rc)
        return;
    unsigned char issued = 1;
    if (!atomic_compare_exchange_strong(&m->inflight[op], &issued, 0)) {
        zinf_fail(&m->fail, -EPROTO, "lane %s both refused and completed operation %u",
                  zinf_lane_name((enum zinf_lane)o->lane), op);
        return;                              /* it is on the stack and is taken from there */
    }
    m->nr_inflight--;
    if (!--lane->nr_inflight)
        lane->since_ns = t;
    if (m->times)
        m->times[op].issue_ns = 0;
    char text[128];
    zinf_fail(&m->fail, rc < 0 ? rc : -EPROTO, "%s", st.rc ? st.text : zinf_op_describe(m->s, op, text, sizeof(text)));
}

/* Issues whatever may go. A stream operation can make one on another stream ready at once, hence the repetition. */
static void issue_all(struct zinf_mover *m)
{
    uint32_t nr_after;
    if (m->serial) {
        while (!m->fail.rc && !m->nr_inflight && m->next_serial < m->s->nr_ops && ready(m, m->next_serial, &nr_after))
            issue(m, m->next_serial++, nr_after);
        return;
    }
    for (bool progress = true; progress && !m->fail.rc;) {
        progress = false;
        for (uint32_t l = 0; l < ZINF_NR_LANES; l++) {
            struct lane_run *lane = &m->lane[l];
            while (!m->fail.rc && lane->at < lane->end && ready(m, m->order[lane->at], &nr_after)) {
                issue(m, m->order[lane->at], nr_after);
                progress = true;
            }
        }
    }
}

static void finish(struct zinf_mover *m, uint32_t op, uint64_t t)
{
    const struct zinf_op *o = &m->s->ops[op];
    struct lane_run *lane = &m->lane[o->lane];
    m->phase[op] = PHASE_DONE;
    m->nr_done++;
    m->nr_inflight--;
    if (!--lane->nr_inflight) {
        lane->stats.busy_ns += t - lane->since_ns;
        lane->since_ns = t;
    }
    if (m->times)
        m->times[op].done_ns = t;
    zinf_ledger_complete(m->ledger, m->s, op);
    if (m->rc[op]) {
        char text[128];
        zinf_fail(&m->fail, m->rc[op] < 0 ? m->rc[op] : -EPROTO, "%s: %s",
                  zinf_op_describe(m->s, op, text, sizeof(text)), strerror(abs(m->rc[op])));
        return;
    }
    lane->stats.nr_ops++;
    lane->stats.nbytes += o->nbytes;
}

/* Takes every completion there is, lets the lanes reap (and say why something failed), then looks at what was taken.
 * Returns whether anything was. */
static bool collect(struct zinf_mover *m)
{
    unsigned int list = atomic_exchange(&m->head, 0), op1 = 0;
    for (uint32_t l = 0; l < ZINF_NR_LANES; l++) {
        const struct zinf_lane_impl *impl = &m->lanes[l];
        if (!impl->issue || !impl->poll)
            continue;
        int rc = impl->poll(impl->ctx, m, &m->fail);
        if (rc < 0)
            zinf_fail(&m->fail, rc, "lane %s: %s", zinf_lane_name((enum zinf_lane)l), strerror(-rc));
    }
    while (list) {                           /* the stack is newest first */
        unsigned int rest = m->next[list - 1];
        m->next[list - 1] = op1;
        op1 = list;
        list = rest;
    }
    if (atomic_load(&m->cancelled))
        zinf_fail(&m->fail, -ECANCELED, "stopped after %u of %u operations of the %s schedule", m->nr_done, m->s->nr_ops,
                  zinf_sched_kind_name(m->s->kind));
    bool any = op1 != 0;
    for (uint64_t t = any ? now_ns(m) : 0; op1; op1 = m->next[op1 - 1])
        finish(m, op1 - 1, t);
    unsigned int bad = atomic_exchange(&m->misplaced, 0);
    if (bad)
        zinf_fail(&m->fail, -EPROTO, "operation %u was completed while it was not in flight: a lane completes twice, "
                  "report it", bad - 1);
    return any || bad;
}

/* A drive or a device that never answers cannot be hurried, but it can be named. */
static void name_inflight(const struct zinf_mover *m)
{
    char text[128];
    for (uint32_t i = 0; i < m->s->nr_ops; i++)
        if (m->phase[i] == PHASE_ISSUED)
            zinf_log(m->log, ZINF_LOG_WARN, "nothing has finished for %u ms; still waiting for %s on lane %s",
                     m->quiet_ms, zinf_op_describe(m->s, i, text, sizeof(text)),
                     zinf_lane_name((enum zinf_lane)m->s->ops[i].lane));
}

/* Sleeps until somebody signals, and clears the signal. */
static void wait_event(struct zinf_mover *m)
{
    struct pollfd p = { .fd = m->event_fd, .events = POLLIN };
    int nr;
    while ((nr = poll(&p, 1, m->quiet_ms > INT_MAX ? -1 : (int)m->quiet_ms)) <= 0) {
        if (!nr)
            name_inflight(m);
        else if (errno != EINTR) {
            zinf_fail(&m->fail, -errno, "poll: %s", strerror(errno));
            sched_yield();                   /* lack of kernel memory: the loop asks again */
            return;
        }
    }
    uint64_t n;
    while (read(m->event_fd, &n, sizeof(n)) < 0 && errno == EINTR)
        ;
}

static void loop(struct zinf_mover *m)
{
    while (m->nr_done < m->s->nr_ops) {
        issue_all(m);
        bool any = collect(m);
        if (any)
            continue;
        if (atomic_load(&m->head))
            continue;                        /* the lanes' poll pushed it just now */
        if (!m->nr_inflight) {
            if (!m->fail.rc)
                zinf_fail(&m->fail, -EDEADLK, "the schedule stands still after %u of %u operations", m->nr_done,
                          m->s->nr_ops);
            return;
        }
        wait_event(m);
    }
}

static void fill_stats(struct zinf_mover *m, uint64_t start_ns, struct zinf_mover_stats *stats)
{
    *stats = (struct zinf_mover_stats){ .wall_ns = now_ns(m) - start_ns };
    for (uint32_t l = 0; l < ZINF_NR_LANES; l++)
        stats->lane[l] = m->lane[l].stats;
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        stats->peak_slots[c] = zinf_ledger_peak(m->ledger, (enum zinf_class)c);
}

int zinf_mover_run(struct zinf_mover *m, const struct zinf_schedule *s, struct zinf_mover_stats *stats,
                   struct zinf_op_times *times, struct zinf_status *st)
{
    if (stats)
        *stats = (struct zinf_mover_stats){ 0 };
    int rc = check(m, s, st);
    if (rc)
        return rc;
    uint64_t start_ns = now_ns(m);
    begin(m, s, times, start_ns);
    loop(m);
    if (!m->fail.rc)
        zinf_ledger_end(m->ledger, &m->fail);
    if (stats)
        fill_stats(m, start_ns, stats);
    m->s = NULL;
    m->times = NULL;
    return m->fail.rc ? zinf_fail(st, m->fail.rc, "%s", m->fail.text) : 0;
}
