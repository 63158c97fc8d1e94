/* swapper/program.c - a program as it is written down, and the dependencies that follow from its accesses. */
#include "swapper/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct zinf_op no_op = {
    .layer = ZINF_NONE, .unit = ZINF_NONE, .grain = ZINF_NONE, .micro = ZINF_NONE,
};

static void more(struct zinf_program_writer *e, void *array, uint32_t *cap, uint64_t need, size_t elem_nbytes)
{
    if (!e->failed && !zinf_sched_grow(array, cap, need, elem_nbytes))
        e->failed = true;
}

bool zinf_prog_open(struct zinf_program_writer *e, const struct zinf_sched_plan *p, struct zinf_program *out)
{
    uint32_t nr_cells = zinf_nr_home_cells(p);
    memset(e, 0, sizeof(*e));
    memset(out, 0, sizeof(*out));
    e->p = p;
    e->g = out;
    out->flips = calloc((size_t)p->nr_grains + 1, 1);
    e->failed = !out->flips;
    more(e, &e->last_writer, &e->cap_last_writer, nr_cells, sizeof(*e->last_writer));
    more(e, &e->since, &e->cap_since, nr_cells, sizeof(*e->since));
    if (e->failed)
        return false;
    for (; e->nr_cells < nr_cells; e->nr_cells++)
        e->last_writer[e->nr_cells] = e->since[e->nr_cells] = ZINF_NONE;
    return true;
}

int zinf_prog_close(struct zinf_program_writer *e)
{
    free(e->last_writer);
    free(e->since);
    free(e->readers);
    free(e->buf_cell);
    free(e->mark);
    if (!e->failed)
        return 0;
    zinf_program_free(e->g);
    return -ENOMEM;
}

uint32_t zinf_prog_buf(struct zinf_program_writer *e, enum zinf_class c, uint32_t nr_cells)
{
    struct zinf_program *g = e->g;
    uint64_t end = (uint64_t)e->nr_cells + nr_cells;
    more(e, &g->buf_class, &e->cap_bufs, (uint64_t)g->nr_bufs + 1, sizeof(*g->buf_class));
    more(e, &e->buf_cell, &e->cap_buf_cell, (uint64_t)g->nr_bufs + 1, sizeof(*e->buf_cell));
    more(e, &e->last_writer, &e->cap_last_writer, end, sizeof(*e->last_writer));
    more(e, &e->since, &e->cap_since, end, sizeof(*e->since));
    if (e->failed)
        return 0;
    g->buf_class[g->nr_bufs] = (uint8_t)c;
    e->buf_cell[g->nr_bufs] = e->nr_cells;
    for (; e->nr_cells < end; e->nr_cells++)
        e->last_writer[e->nr_cells] = e->since[e->nr_cells] = ZINF_NONE;
    return g->nr_bufs++;
}

struct zinf_op *zinf_prog_begin(struct zinf_program_writer *e, enum zinf_op_kind kind, enum zinf_lane lane,
                                enum zinf_what what)
{
    struct zinf_program *g = e->g;
    more(e, &g->ops, &e->cap_ops, (uint64_t)g->nr_ops + 1, sizeof(*g->ops));
    more(e, &e->mark, &e->cap_marks, (uint64_t)g->nr_ops + 1, sizeof(*e->mark));
    if (e->failed)
        return &e->nowhere;
    struct zinf_op *o = &g->ops[g->nr_ops];
    *o = no_op;
    o->kind = (uint8_t)kind;
    o->lane = (uint8_t)lane;
    o->what = (uint8_t)what;
    o->rd = o->wr = g->nr_accesses;
    o->dep = g->nr_deps;
    e->mark[g->nr_ops] = ZINF_NONE;
    return o;
}

static void push(struct zinf_program_writer *e, struct zinf_access a)
{
    struct zinf_program *g = e->g;
    more(e, &g->accesses, &e->cap_accesses, (uint64_t)g->nr_accesses + 1, sizeof(a));
    if (!e->failed)
        g->accesses[g->nr_accesses++] = a;
}

void zinf_prog_reads(struct zinf_program_writer *e, struct zinf_access a)
{
    push(e, a);
    if (!e->failed) {
        e->g->ops[e->g->nr_ops].nr_rd++;
        e->g->ops[e->g->nr_ops].wr = e->g->nr_accesses;
    }
}

void zinf_prog_writes(struct zinf_program_writer *e, struct zinf_access a)
{
    push(e, a);
    if (!e->failed)
        e->g->ops[e->g->nr_ops].nr_wr++;
}

void zinf_prog_after(struct zinf_program_writer *e, uint32_t op)
{
    struct zinf_program *g = e->g;
    if (e->failed || op == ZINF_NONE || op == g->nr_ops || e->mark[op] == g->nr_ops)
        return;
    more(e, &g->deps, &e->cap_deps, (uint64_t)g->nr_deps + 1, sizeof(*g->deps));
    if (e->failed)
        return;
    e->mark[op] = g->nr_ops;
    g->deps[g->nr_deps++] = op;
    g->ops[g->nr_ops].nr_deps++;
}

static void cells_of(const struct zinf_program_writer *e, const struct zinf_access *a, bool whole, uint32_t *first,
                     uint32_t *nr)
{
    if (a->loc.space != ZINF_AT_SLOT) {
        (void)zinf_home_cells(e->p, a, whole, first, nr);
        return;
    }
    *first = e->buf_cell[a->loc.index];
    *nr = 1;
    if (a->loc.sub == ZINF_CLASS_WEIGHT)
        *first += a->part - e->p->unit_first_grain[a->a];
}

static void note_read(struct zinf_program_writer *e, uint32_t cell)
{
    zinf_prog_after(e, e->last_writer[cell]);
    more(e, &e->readers, &e->cap_readers, (uint64_t)e->nr_readers + 1, sizeof(*e->readers));
    if (e->failed)
        return;
    e->readers[e->nr_readers] = (struct zinf_program_reader){ .op = e->g->nr_ops, .next = e->since[cell] };
    e->since[cell] = e->nr_readers++;
}

static void note_write(struct zinf_program_writer *e, uint32_t cell)
{
    bool read = false;
    for (uint32_t r = e->since[cell]; r != ZINF_NONE; r = e->readers[r].next) {
        read |= e->readers[r].op != e->g->nr_ops;
        zinf_prog_after(e, e->readers[r].op);
    }
    if (!read)
        zinf_prog_after(e, e->last_writer[cell]);
    e->last_writer[cell] = e->g->nr_ops;
    e->since[cell] = ZINF_NONE;
}

uint32_t zinf_prog_end(struct zinf_program_writer *e, uint64_t nbytes, double work, double rate)
{
    struct zinf_program *g = e->g;
    if (e->failed)
        return ZINF_NONE;
    struct zinf_op *o = &g->ops[g->nr_ops];
    bool whole = o->kind != ZINF_OP_UPDATE;
    o->nbytes = nbytes;
    o->seconds = rate > 0 ? work / rate : 0;
    for (uint32_t i = 0; i < o->nr_rd + o->nr_wr && !e->failed; i++) {
        uint32_t first = 0, nr = 0;
        cells_of(e, &g->accesses[o->rd + i], whole, &first, &nr);
        for (uint32_t c = first; c < first + nr && !e->failed; c++) {
            if (i < o->nr_rd)
                note_read(e, c);
            else
                note_write(e, c);
        }
    }
    return g->nr_ops++;
}

void zinf_program_free(struct zinf_program *g)
{
    free(g->ops);
    free(g->accesses);
    free(g->deps);
    free(g->buf_class);
    free(g->flips);
    memset(g, 0, sizeof(*g));
}

int zinf_program_peaks(const struct zinf_program *g, uint32_t peak[ZINF_NR_CLASSES])
{
    uint32_t live[ZINF_NR_CLASSES] = { 0 };
    uint32_t *last = malloc(((size_t)g->nr_bufs + 1) * sizeof(*last));
    bool *seen = calloc((size_t)g->nr_bufs + 1, sizeof(*seen));
    int rc = last && seen ? 0 : -ENOMEM;
    memset(peak, 0, ZINF_NR_CLASSES * sizeof(*peak));
    for (int pass = 0; !rc && pass < 2; pass++) {
        for (uint32_t i = 0; i < g->nr_ops; i++) {
            const struct zinf_op *o = &g->ops[i];
            const struct zinf_access *a = &g->accesses[o->rd], *stop = a + o->nr_rd + o->nr_wr;
            for (const struct zinf_access *k = a; k < stop; k++) {
                uint32_t b = k->loc.index, c = k->loc.sub;
                if (k->loc.space != ZINF_AT_SLOT)
                    continue;
                if (!pass) {
                    last[b] = i;
                } else if (!seen[b]) {
                    seen[b] = true;
                    if (++live[c] > peak[c])
                        peak[c] = live[c];
                }
            }
            for (const struct zinf_access *k = a; pass && k < stop; k++)
                if (k->loc.space == ZINF_AT_SLOT && last[k->loc.index] == i) {
                    last[k->loc.index] = ZINF_NONE;
                    live[k->loc.sub]--;
                }
        }
    }
    free(last);
    free(seen);
    return rc;
}
