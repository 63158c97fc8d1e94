/* swapper/schedule.c - what every part of the scheduler shares: names, defaults, sizes of homes, growing, freeing. */
#include "swapper/schedule.h"

#include <stdio.h>
#include <stdlib.h>

#include "swapper/schedule_internal.h"
#include "zinf/base/align.h"

/* A mid-range machine; the engine passes what was measured. */
const struct zinf_sched_rates zinf_sched_default_rates = {
    .read = 3e9, .write = 2e9, .h2d = 10e9, .d2h = 10e9, .add = 5e9, .reduce = 10e9, .update_elems = 1e9, .flops = 1e11,
    .tokens_micro = 1024, .sync_s = 5e-3,
};
const struct zinf_sched_policy zinf_sched_default_policy = { .window = 1, .use_spare_host = true };

static const char *name_of(const char *const *names, uint32_t nr, uint32_t i)
{
    return i < nr ? names[i] : "?";
}

const char *zinf_lane_name(enum zinf_lane lane)
{
    static const char *const names[ZINF_NR_LANES] = {
        [ZINF_LANE_NVME_READ] = "nvme_read", [ZINF_LANE_NVME_WRITE] = "nvme_write", [ZINF_LANE_SYNC] = "sync",
        [ZINF_LANE_H2D] = "h2d", [ZINF_LANE_D2H] = "d2h", [ZINF_LANE_COMM] = "comm", [ZINF_LANE_COMPUTE] = "compute",
        [ZINF_LANE_CPU] = "cpu",
    };
    return name_of(names, ZINF_NR_LANES, (uint32_t)lane);
}

const char *zinf_op_kind_name(enum zinf_op_kind kind)
{
    static const char *const names[ZINF_NR_OP_KINDS] = {
        [ZINF_OP_READ] = "READ",         [ZINF_OP_WRITE] = "WRITE",       [ZINF_OP_UPLOAD] = "UPLOAD",
        [ZINF_OP_DOWNLOAD] = "DOWNLOAD", [ZINF_OP_COUNT] = "COUNT",       [ZINF_OP_REDUCE] = "REDUCE",
        [ZINF_OP_FORWARD] = "FORWARD",   [ZINF_OP_BACKWARD] = "BACKWARD", [ZINF_OP_ADD] = "ADD",
        [ZINF_OP_NORM] = "NORM",         [ZINF_OP_UPDATE] = "UPDATE",     [ZINF_OP_COMMIT] = "COMMIT",
    };
    return name_of(names, ZINF_NR_OP_KINDS, (uint32_t)kind);
}

const char *zinf_class_name(enum zinf_class c)
{
    static const char *const names[ZINF_NR_CLASSES] = {
        [ZINF_CLASS_UNIT] = "UNIT", [ZINF_CLASS_ACCUM] = "ACCUM", [ZINF_CLASS_GRAD] = "GRAD", [ZINF_CLASS_ACT] = "ACT",
        [ZINF_CLASS_WEIGHT] = "WEIGHT", [ZINF_CLASS_STATE] = "STATE", [ZINF_CLASS_CKPT] = "CKPT",
        [ZINF_CLASS_ROWS] = "ROWS",
    };
    return name_of(names, ZINF_NR_CLASSES, (uint32_t)c);
}

const char *zinf_sched_kind_name(enum zinf_sched_kind k)
{
    static const char *const names[ZINF_NR_SCHED_KINDS] = {
        [ZINF_SCHED_FIRST] = "first", [ZINF_SCHED_STEADY] = "steady", [ZINF_SCHED_FLUSH] = "flush",
        [ZINF_SCHED_EVAL] = "eval", [ZINF_SCHED_SKIP] = "skip", [ZINF_SCHED_FLUSH_SKIP] = "flush_skip",
    };
    return name_of(names, ZINF_NR_SCHED_KINDS, (uint32_t)k);
}

uint32_t zinf_sched_flags_for(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags)
{
    if (!p->extents_weight && !p->extents_state)
        return 0;
    return kind == ZINF_SCHED_FIRST || kind == ZINF_SCHED_EVAL ? flags & ~(uint32_t)ZINF_SCHED_COMMITS : flags;
}

uint64_t zinf_plan_home_nbytes(const struct zinf_sched_plan *p, enum zinf_space space, uint32_t index)
{
    const struct zinf_sched_spec *m = &p->spec;
    uint64_t nbytes = 0;
    switch (space) {
    case ZINF_AT_WEIGHT_HOST:
    case ZINF_AT_WEIGHT_DEVICE:
        nbytes = m->unit_elems[index] * m->weight_nbytes;
        break;
    case ZINF_AT_STATE_HOST:
    case ZINF_AT_STATE_DEVICE:
    case ZINF_AT_EXTENT_STATE:
        nbytes = p->grains[index].nr_elems * m->state_nbytes;
        break;
    case ZINF_AT_GRAD_HOST:
    case ZINF_AT_GRAD_DEVICE:
        nbytes = m->unit_elems[index] * (index == m->embed_unit ? 4 : m->grad_nbytes);
        break;
    case ZINF_AT_EXTENT_WEIGHT:
        nbytes = p->grains[index].nr_elems * m->weight_nbytes;
        break;
    case ZINF_AT_SLOT:
    case ZINF_NR_SPACES:
        break;
    }
    return zinf_align_up(nbytes, ZINF_SCHED_ALIGN);
}

void zinf_plan_free(struct zinf_sched_plan *p)
{
    if (!p)
        return;
    free((void *)p->spec.unit_elems);
    free((void *)p->spec.layer_units);
    free(p->grains);
    free(p->unit_first_grain);
    free(p->weight_host);
    free(p->weight_device);
    free(p->grad_host);
    free(p->grad_device);
    free(p->state_host);
    free(p->state_device);
    free(p);
}

void zinf_schedule_free(struct zinf_schedule *s)
{
    if (!s)
        return;
    free(s->ops);
    free(s->accesses);
    free(s->deps);
    free(s->slots);
    free(s->flips);
    free(s);
}

bool zinf_sched_grow(void *array, uint32_t *cap, uint64_t need, size_t elem_nbytes)
{
    void **p = array;
    if (need <= *cap)
        return true;
    uint64_t n = need < 64 ? 64 : need + need / 2;
    if (n > UINT32_MAX)
        n = UINT32_MAX;
    if (need > n)
        return false;
    void *q = realloc(*p, (size_t)n * elem_nbytes);
    if (!q)
        return false;
    *p = q;
    *cap = (uint32_t)n;
    return true;
}

static const char *what_name(uint8_t what)
{
    static const char *const names[] = {
        [ZINF_WHAT_NONE] = "",
        [ZINF_WHAT_STATE] = " state",
        [ZINF_WHAT_WEIGHTS] = " weights",
        [ZINF_WHAT_GRAIN] = " grain",
        [ZINF_WHAT_ROWS] = " rows",
        [ZINF_WHAT_INPUT] = " input",
        [ZINF_WHAT_CKPT] = " checkpoint",
        [ZINF_WHAT_GRAD] = " gradient",
    };
    return name_of(names, sizeof(names) / sizeof(names[0]), what);
}

/* Appends to buf, cut to its size. */
static void add(char *buf, uint32_t cap, uint32_t *at, const char *fmt, const char *word, uint32_t number)
{
    if (*at >= cap)
        return;
    int n;
    if (word)
        n = snprintf(buf + *at, cap - *at, "%s%s", fmt, word);
    else
        n = snprintf(buf + *at, cap - *at, "%s%u", fmt, number);
    if (n > 0)
        *at += (uint32_t)n;
}

char *zinf_op_describe(const struct zinf_schedule *s, uint32_t op, char *buf, uint32_t buf_nbytes)
{
    static const char *const homes[ZINF_NR_SPACES] = {
        [ZINF_AT_SLOT] = "slot", [ZINF_AT_WEIGHT_HOST] = "host weights of unit ",
        [ZINF_AT_WEIGHT_DEVICE] = "device weights of unit ", [ZINF_AT_STATE_HOST] = "host state of grain ",
        [ZINF_AT_STATE_DEVICE] = "device state of grain ", [ZINF_AT_GRAD_HOST] = "host gradient of unit ",
        [ZINF_AT_GRAD_DEVICE] = "device gradient of unit ", [ZINF_AT_EXTENT_WEIGHT] = "extent of grain ",
        [ZINF_AT_EXTENT_STATE] = "extent of grain ",
    };
    const struct zinf_op *o = &s->ops[op];
    uint32_t at = 0;
    if (!buf_nbytes)
        return buf;
    buf[0] = '\0';
    add(buf, buf_nbytes, &at, "", NULL, op);
    add(buf, buf_nbytes, &at, " ", zinf_op_kind_name((enum zinf_op_kind)o->kind), 0);
    add(buf, buf_nbytes, &at, "", what_name(o->what), 0);
    if (o->layer != ZINF_NONE)
        add(buf, buf_nbytes, &at, " layer ", NULL, o->layer);
    if (o->unit != ZINF_NONE)
        add(buf, buf_nbytes, &at, " unit ", NULL, o->unit);
    if (o->grain != ZINF_NONE)
        add(buf, buf_nbytes, &at, " grain ", NULL, o->grain);
    if (o->micro != ZINF_NONE)
        add(buf, buf_nbytes, &at, " micro-batch ", NULL, o->micro);
    for (uint32_t i = 0; i < o->nr_wr && o->wr + i < s->nr_accesses; i++) {
        const struct zinf_loc *l = &s->accesses[o->wr + i].loc;
        const char *lead = i ? ", " : " -> ";
        if (i == 4) {
            add(buf, buf_nbytes, &at, ", ... of ", NULL, o->nr_wr);
            break;
        }
        if (l->space == ZINF_AT_SLOT) {
            add(buf, buf_nbytes, &at, lead, zinf_class_name((enum zinf_class)l->sub), 0);
            add(buf, buf_nbytes, &at, "[", NULL, l->index);
            add(buf, buf_nbytes, &at, "]", "", 0);
        } else {
            add(buf, buf_nbytes, &at, lead, name_of(homes, ZINF_NR_SPACES, l->space), 0);
            add(buf, buf_nbytes, &at, "", NULL, l->index);
        }
    }
    return buf;
}
