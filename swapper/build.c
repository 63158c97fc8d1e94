/* swapper/build.c - from a program to a schedule: list scheduling with slots granted in program order, then frozen.
 *
 * Every lane takes the ready operation that is first in program order. A slot goes to the operation that is next in
 * program order among those that want one of its class; with at least the serial walk's peak of slots the first
 * operation that has not started always has its slots, so this ends. The order of starts is the schedule. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

/* A binary heap of (time, number), smallest first. */
struct heap { struct item { double at; uint32_t id; } *v; uint32_t nr, cap; };
struct csr { uint32_t *first, *v; };              /* v[first[i] .. first[i + 1]) belongs to i */
struct ring { uint32_t *v, head, nr, cap; };      /* free slots, the longest free first */

struct list {
    const struct zinf_sched_plan *p;
    const struct zinf_program *g;
    struct csr users;                     /* per buffer: operations that touch it, in program order */
    struct csr next;                      /* per operation: those that depend on it */
    struct csr queue;                     /* per class: the operations that take a slot, in program order */
    uint32_t at[ZINF_NR_CLASSES];         /* how many of them have their slot */
    struct ring free[ZINF_NR_CLASSES];
    uint32_t *occupant[ZINF_NR_CLASSES];  /* per slot: the buffer it has or had last, or NONE */
    uint32_t *slot, *before, *left;       /* per buffer: its slot; the slot's occupant before it; users to come */
    uint32_t *wait;                       /* per operation: dependencies to come */
    bool *queued;
    uint32_t *order, nr_order;            /* operations by start */
    struct heap ready[ZINF_NR_LANES], running;
    bool busy[ZINF_NR_LANES];
};

static bool item_less(struct item a, struct item b)
{
    return a.at != b.at ? a.at < b.at : a.id < b.id;
}

static bool heap_push(struct heap *h, double at, uint32_t id)
{
    if (!zinf_sched_grow(&h->v, &h->cap, (uint64_t)h->nr + 1, sizeof(*h->v)))
        return false;
    uint32_t i = h->nr++;
    struct item x = { .at = at, .id = id };
    for (; i && item_less(x, h->v[(i - 1) / 2]); i = (i - 1) / 2)
        h->v[i] = h->v[(i - 1) / 2];
    h->v[i] = x;
    return true;
}

static struct item heap_pop(struct heap *h)
{
    struct item top = h->v[0], x = h->v[--h->nr];
    uint32_t i = 0, k;
    while ((k = 2 * i + 1) < h->nr) {
        k += k + 1 < h->nr && item_less(h->v[k + 1], h->v[k]);
        if (!item_less(h->v[k], x))
            break;
        h->v[i] = h->v[k];
        i = k;
    }
    h->v[i] = x;
    return top;
}

/* Calls visit for every buffer that operation i touches, once each. */
static uint32_t bufs_of(const struct zinf_program *g, uint32_t i, uint32_t out[4])
{
    const struct zinf_op *o = &g->ops[i];
    uint32_t n = 0;
    for (uint32_t k = 0; k < o->nr_rd + o->nr_wr; k++) {
        const struct zinf_access *a = &g->accesses[o->rd + k];
        bool known = a->loc.space != ZINF_AT_SLOT;
        for (uint32_t q = 0; q < n && !known; q++)
            known = out[q] == a->loc.index;
        if (!known)
            out[n++] = a->loc.index;
    }
    return n;
}

/* Turns counts in first[1 ..] into starts, and makes room for the values. */
static bool csr_open(struct csr *c, uint32_t nr)
{
    for (uint32_t i = 0; i < nr; i++)
        c->first[i + 1] += c->first[i];
    c->v = malloc(((size_t)c->first[nr] + 1) * sizeof(*c->v));
    return c->v;
}

/* After filling, first[i] stands at the end of i. */
static void csr_close(struct csr *c, uint32_t nr)
{
    memmove(c->first + 1, c->first, nr * sizeof(*c->first));
    c->first[0] = 0;
}

static bool index_program(struct list *l)
{
    const struct zinf_program *g = l->g;
    uint32_t bufs[4], n;
    l->users.first = calloc((size_t)g->nr_bufs + 2, sizeof(uint32_t));
    l->next.first = calloc((size_t)g->nr_ops + 2, sizeof(uint32_t));
    l->queue.first = calloc(ZINF_NR_CLASSES + 2, sizeof(uint32_t));
    if (!l->users.first || !l->next.first || !l->queue.first)
        return false;
    for (uint32_t i = 0; i < g->nr_ops; i++) {
        n = bufs_of(g, i, bufs);
        while (n--)
            l->users.first[bufs[n] + 1]++;
        for (uint32_t d = 0; d < g->ops[i].nr_deps; d++)
            l->next.first[g->deps[g->ops[i].dep + d] + 1]++;
    }
    for (uint32_t b = 0; b < g->nr_bufs; b++)
        l->queue.first[g->buf_class[b] + 1]++;
    if (!csr_open(&l->users, g->nr_bufs) || !csr_open(&l->next, g->nr_ops) || !csr_open(&l->queue, ZINF_NR_CLASSES))
        return false;
    for (uint32_t b = 0; b < g->nr_bufs; b++)
        l->slot[b] = ZINF_NONE;
    for (uint32_t i = 0; i < g->nr_ops; i++) {
        n = bufs_of(g, i, bufs);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t b = bufs[k];
            l->users.v[l->users.first[b]++] = i;
            if (!l->left[b]++)
                l->queue.v[l->queue.first[g->buf_class[b]]++] = i;
        }
        for (uint32_t d = 0; d < g->ops[i].nr_deps; d++)
            l->next.v[l->next.first[g->deps[g->ops[i].dep + d]]++] = i;
        l->wait[i] = g->ops[i].nr_deps;
    }
    csr_close(&l->users, g->nr_bufs);
    csr_close(&l->next, g->nr_ops);
    csr_close(&l->queue, ZINF_NR_CLASSES);
    return true;
}

static bool open_slots(struct list *l)
{
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++) {
        uint32_t n = l->p->class_count[c];
        l->free[c] = (struct ring){ .v = malloc(((size_t)n + 1) * sizeof(uint32_t)), .nr = n, .cap = n };
        l->occupant[c] = malloc(((size_t)n + 1) * sizeof(uint32_t));
        if (!l->free[c].v || !l->occupant[c])
            return false;
        for (uint32_t i = 0; i < n; i++) {
            l->free[c].v[i] = i;
            l->occupant[c][i] = ZINF_NONE;
        }
        l->at[c] = l->queue.first[c];
    }
    return true;
}

/* Puts an operation on its lane's heap when its inputs are there and it is next for every slot it takes. A slot
 * cannot be taken from it between this and its start: only the next of a class takes one. */
static bool offer(struct list *l, uint32_t i)
{
    uint32_t bufs[4], n;
    if (l->wait[i] || l->queued[i])
        return true;
    n = bufs_of(l->g, i, bufs);
    while (n--) {
        uint32_t c = l->g->buf_class[bufs[n]];
        if (l->slot[bufs[n]] == ZINF_NONE && (l->queue.v[l->at[c]] != i || !l->free[c].nr))
            return true;
    }
    l->queued[i] = true;
    return heap_push(&l->ready[l->g->ops[i].lane], 0, i);
}

static bool offer_next(struct list *l, uint32_t c)
{
    return l->at[c] >= l->queue.first[c + 1] || offer(l, l->queue.v[l->at[c]]);
}

static bool begin(struct list *l, uint32_t i, double now)
{
    const struct zinf_op *o = &l->g->ops[i];
    uint32_t bufs[4], n = bufs_of(l->g, i, bufs), taken = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t b = bufs[k], c = l->g->buf_class[b];
        struct ring *f = &l->free[c];
        if (l->slot[b] != ZINF_NONE)
            continue;
        l->slot[b] = f->v[f->head];
        f->head = (f->head + 1) % f->cap;
        f->nr--;
        l->before[b] = l->occupant[c][l->slot[b]];
        l->occupant[c][l->slot[b]] = b;
        l->at[c]++;
        taken |= 1u << c;
    }
    l->order[l->nr_order++] = i;
    l->busy[o->lane] = true;
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        if (taken >> c & 1 && !offer_next(l, c))
            return false;
    return heap_push(&l->running, now + o->seconds, i);
}

static bool finish(struct list *l, uint32_t i)
{
    uint32_t bufs[4], n = bufs_of(l->g, i, bufs);
    l->busy[l->g->ops[i].lane] = false;
    while (n--) {
        uint32_t b = bufs[n], c = l->g->buf_class[b];
        struct ring *f = &l->free[c];
        if (--l->left[b])
            continue;
        f->v[(f->head + f->nr++) % f->cap] = l->slot[b];
        if (!offer_next(l, c))
            return false;
    }
    for (uint32_t k = l->next.first[i]; k < l->next.first[i + 1]; k++) {
        l->wait[l->next.v[k]]--;
        if (!offer(l, l->next.v[k]))
            return false;
    }
    return true;
}

/* Starts whatever can start now. Starting one may let another lane start. */
static bool start_all(struct list *l, double now)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t lane = 0; lane < ZINF_NR_LANES; lane++) {
            if (l->busy[lane] || !l->ready[lane].nr)
                continue;
            if (!begin(l, heap_pop(&l->ready[lane]).id, now))
                return false;
            again = true;
        }
    }
    return true;
}

static int run(struct list *l)
{
    double now = 0;
    for (uint32_t i = 0; i < l->g->nr_ops; i++)
        if (!offer(l, i))
            return -ENOMEM;
    for (;;) {
        if (!start_all(l, now))
            return -ENOMEM;
        if (!l->running.nr)
            return l->nr_order == l->g->nr_ops ? 0 : -EDEADLK;
        now = l->running.v[0].at;
        while (l->running.nr && l->running.v[0].at == now)
            if (!finish(l, heap_pop(&l->running).id))
                return -ENOMEM;
    }
}

/* ---- freezing ---- */

struct freeze {
    struct list *l;
    struct zinf_schedule *s;
    uint32_t *id;                         /* program -> list */
    uint32_t *mark;                       /* per list operation: the last that named it */
    uint32_t cap_deps;
};

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Order on a stream needs no dependency. */
static bool add_dep(struct freeze *f, uint32_t op, uint32_t dep)
{
    struct zinf_schedule *s = f->s;
    if (f->mark[dep] == op || zinf_op_same_stream(&f->l->g->ops[f->l->order[op]], &f->l->g->ops[f->l->order[dep]]))
        return true;
    if (!zinf_sched_grow(&s->deps, &f->cap_deps, (uint64_t)s->nr_deps + 1, sizeof(*s->deps)))
        return false;
    f->mark[dep] = op;
    s->deps[s->nr_deps++] = dep;
    return true;
}

static bool freeze_deps(struct freeze *f, uint32_t op)
{
    const struct list *l = f->l;
    const struct zinf_op *o = &l->g->ops[l->order[op]];
    uint32_t bufs[4], n = bufs_of(l->g, l->order[op], bufs), first = f->s->nr_deps;
    for (uint32_t d = 0; d < o->nr_deps; d++)
        if (!add_dep(f, op, f->id[l->g->deps[o->dep + d]]))
            return false;
    while (n--) {
        uint32_t old = l->before[bufs[n]];
        if (old == ZINF_NONE || l->users.v[l->users.first[bufs[n]]] != l->order[op])
            continue;
        for (uint32_t k = l->users.first[old]; k < l->users.first[old + 1]; k++)
            if (!add_dep(f, op, f->id[l->users.v[k]]))
                return false;
    }
    f->s->ops[op].dep = first;
    f->s->ops[op].nr_deps = f->s->nr_deps - first;
    if (f->s->nr_deps > first)
        qsort(f->s->deps + first, f->s->nr_deps - first, sizeof(uint32_t), by_number);
    return true;
}

static void freeze_accesses(struct freeze *f, uint32_t op)
{
    const struct list *l = f->l;
    const struct zinf_op *o = &l->g->ops[l->order[op]];
    struct zinf_op *to = &f->s->ops[op];
    to->rd = f->s->nr_accesses;
    to->wr = to->rd + o->nr_rd;
    for (uint32_t k = 0; k < o->nr_rd + o->nr_wr; k++) {
        struct zinf_access a = l->g->accesses[o->rd + k];
        if (a.loc.space == ZINF_AT_SLOT)
            a.loc.index = l->slot[a.loc.index];
        f->s->accesses[f->s->nr_accesses++] = a;
    }
}

static void freeze_slots(struct freeze *f, uint32_t op, const uint32_t *last)
{
    const struct list *l = f->l;
    struct zinf_schedule *s = f->s;
    uint32_t bufs[4], n = bufs_of(l->g, l->order[op], bufs);
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t first = s->nr_slots;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t b = bufs[k];
            bool here = pass ? last[b] == op : l->users.v[l->users.first[b]] == l->order[op];
            if (here)
                s->slots[s->nr_slots++] = (struct zinf_loc){ .space = ZINF_AT_SLOT, .sub = l->g->buf_class[b],
                                                             .index = l->slot[b] };
        }
        *(pass ? &s->ops[op].free : &s->ops[op].acq) = first;
        *(pass ? &s->ops[op].nr_free : &s->ops[op].nr_acq) = s->nr_slots - first;
    }
}

/* NORM ends the list: nothing follows it, so it may move there. */
static void norm_last(struct list *l)
{
    for (uint32_t i = 0; i < l->nr_order; i++) {
        uint32_t op = l->order[i];
        if (l->g->ops[op].kind != ZINF_OP_NORM)
            continue;
        memmove(&l->order[i], &l->order[i + 1], (l->nr_order - i - 1) * sizeof(*l->order));
        l->order[l->nr_order - 1] = op;
        return;
    }
}

static int freeze_list(struct freeze *f, uint32_t *last)
{
    struct list *l = f->l;
    struct zinf_schedule *s = f->s;
    s->ops = malloc(((size_t)l->g->nr_ops + 1) * sizeof(*s->ops));
    s->accesses = malloc(((size_t)l->g->nr_accesses + 1) * sizeof(*s->accesses));
    s->slots = malloc(((size_t)l->g->nr_bufs * 2 + 1) * sizeof(*s->slots));
    s->flips = malloc((size_t)l->p->nr_grains + 1);
    if (!s->ops || !s->accesses || !s->slots || !s->flips)
        return -ENOMEM;
    s->nr_ops = l->g->nr_ops;
    s->nr_grains = l->p->nr_grains;
    memcpy(s->flips, l->g->flips, l->p->nr_grains);
    for (uint32_t i = 0; i < s->nr_ops; i++) {
        f->id[l->order[i]] = i;
        f->mark[i] = ZINF_NONE;
    }
    for (uint32_t b = 0; b < l->g->nr_bufs; b++) {
        last[b] = 0;
        for (uint32_t k = l->users.first[b]; k < l->users.first[b + 1]; k++)
            if (f->id[l->users.v[k]] > last[b])
                last[b] = f->id[l->users.v[k]];
    }
    for (uint32_t i = 0; i < s->nr_ops; i++) {
        s->ops[i] = l->g->ops[l->order[i]];
        freeze_accesses(f, i);
        freeze_slots(f, i, last);
        if (!freeze_deps(f, i))
            return -ENOMEM;
    }
    return 0;
}

static int freeze(struct list *l, struct zinf_schedule *s)
{
    struct freeze f = { .l = l, .s = s };
    uint32_t *last = malloc(((size_t)l->g->nr_bufs + 1) * sizeof(*last));
    f.id = malloc(((size_t)l->g->nr_ops + 1) * sizeof(*f.id));
    f.mark = malloc(((size_t)l->g->nr_ops + 1) * sizeof(*f.mark));
    int rc = -ENOMEM;
    norm_last(l);
    if (last && f.id && f.mark)
        rc = freeze_list(&f, last);
    free(last);
    free(f.id);
    free(f.mark);
    return rc;
}

static void close_list(struct list *l)
{
    free(l->users.first);
    free(l->users.v);
    free(l->next.first);
    free(l->next.v);
    free(l->queue.first);
    free(l->queue.v);
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++) {
        free(l->free[c].v);
        free(l->occupant[c]);
    }
    for (uint32_t i = 0; i < ZINF_NR_LANES; i++)
        free(l->ready[i].v);
    free(l->running.v);
    free(l->slot);
    free(l->before);
    free(l->left);
    free(l->wait);
    free(l->queued);
    free(l->order);
}

static int schedule_program(const struct zinf_sched_plan *p, const struct zinf_program *g, struct zinf_schedule *s)
{
    struct list l = { .p = p, .g = g };
    int rc = -ENOMEM;
    l.slot = malloc(((size_t)g->nr_bufs + 1) * sizeof(*l.slot));
    l.before = malloc(((size_t)g->nr_bufs + 1) * sizeof(*l.before));
    l.left = calloc((size_t)g->nr_bufs + 1, sizeof(*l.left));
    l.wait = malloc(((size_t)g->nr_ops + 1) * sizeof(*l.wait));
    l.queued = calloc((size_t)g->nr_ops + 1, sizeof(*l.queued));
    l.order = malloc(((size_t)g->nr_ops + 1) * sizeof(*l.order));
    if (l.slot && l.before && l.left && l.wait && l.queued && l.order && index_program(&l) && open_slots(&l))
        rc = run(&l);
    if (!rc)
        rc = freeze(&l, s);
    close_list(&l);
    return rc;
}

int zinf_schedule_build(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags,
                        struct zinf_schedule **out, struct zinf_status *st)
{
    struct zinf_program g;
    struct zinf_sim sim = { 0 };
    *out = NULL;
    if ((uint32_t)kind >= ZINF_NR_SCHED_KINDS)
        return zinf_fail(st, -EINVAL, "no such kind of schedule");
    if (flags & ~(uint32_t)(ZINF_SCHED_COMMITS | ZINF_SCHED_DIRTY))
        return zinf_fail(st, -EINVAL, "no such flags of a schedule: %" PRIu32, flags);
    flags = zinf_sched_flags_for(p, kind, flags);
    struct zinf_schedule *s = calloc(1, sizeof(*s));
    int rc = s ? zinf_program_emit(p, kind, flags, &g) : -ENOMEM;
    if (!rc) {
        s->kind = kind;
        s->flags = flags;
        rc = schedule_program(p, &g, s);
        zinf_program_free(&g);
    }
    if (!rc)
        rc = zinf_schedule_simulate(p, (const struct zinf_schedule *const *)&s, 1, &sim);
    if (rc) {
        zinf_schedule_free(s);
        return zinf_fail(st, rc, rc == -EDEADLK ? "a %s schedule needs more slots than the plan has" :
                         "out of memory for a %s schedule", zinf_sched_kind_name(kind));
    }
    s->seconds = sim.seconds;
    *out = s;
    return 0;
}
