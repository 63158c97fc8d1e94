/* swapper/arena.c - one table of offsets per kind of place. */
#include "swapper/arena.h"

#include <errno.h>
#include <stdlib.h>

enum { NR_HOMES = ZINF_AT_GRAD_DEVICE - ZINF_AT_WEIGHT_HOST + 1 };

struct zinf_arena {
    const struct zinf_sched_plan *plan;
    uint64_t class_off[ZINF_NR_CLASSES];
    uint64_t fixed_off[2];               /* DEVICE, HOST */
    uint64_t *home_off[NR_HOMES];        /* by space - ZINF_AT_WEIGHT_HOST; UINT64_MAX = no such home */
};

enum zinf_tier zinf_loc_tier(struct zinf_loc loc)
{
    switch (loc.space) {
    case ZINF_AT_SLOT:
        return zinf_class_tier((enum zinf_class)loc.sub);
    case ZINF_AT_WEIGHT_DEVICE:
    case ZINF_AT_STATE_DEVICE:
    case ZINF_AT_GRAD_DEVICE:
        return ZINF_TIER_DEVICE;
    case ZINF_AT_WEIGHT_HOST:
    case ZINF_AT_STATE_HOST:
    case ZINF_AT_GRAD_HOST:
        return ZINF_TIER_HOST;
    default:
        return ZINF_TIER_NVME;
    }
}

/* The plan's flags of a kind of home, and how many entries they have. */
static const uint8_t *home_flags(const struct zinf_sched_plan *p, enum zinf_space space, uint32_t *nr)
{
    *nr = space == ZINF_AT_STATE_HOST || space == ZINF_AT_STATE_DEVICE ? p->nr_grains : p->spec.nr_units;
    switch (space) {
    case ZINF_AT_WEIGHT_HOST:
        return p->weight_host;
    case ZINF_AT_WEIGHT_DEVICE:
        return p->weight_device;
    case ZINF_AT_STATE_HOST:
        return p->state_host;
    case ZINF_AT_STATE_DEVICE:
        return p->state_device;
    case ZINF_AT_GRAD_HOST:
        return p->grad_host;
    default:
        return p->grad_device;
    }
}

static int lay_out(struct zinf_arena *a, struct zinf_status *st)
{
    const struct zinf_sched_plan *p = a->plan;
    uint64_t at[2] = { 0, 0 };
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++) {
        uint64_t *end = &at[zinf_class_tier((enum zinf_class)c)];
        a->class_off[c] = *end;
        *end += p->class_nbytes[c] * p->class_count[c];
    }
    for (uint32_t h = 0; h < NR_HOMES; h++) {
        enum zinf_space space = (enum zinf_space)(ZINF_AT_WEIGHT_HOST + h);
        uint64_t *end = &at[zinf_loc_tier((struct zinf_loc){ (uint8_t)space, 0, 0 })];
        uint32_t nr;
        const uint8_t *flags = home_flags(p, space, &nr);
        a->home_off[h] = calloc(nr ? nr : 1, sizeof(uint64_t));
        if (!a->home_off[h])
            return zinf_fail(st, -ENOMEM, "no memory for the addresses of %u homes", nr);
        for (uint32_t i = 0; i < nr; i++) {
            a->home_off[h][i] = flags[i] ? *end : UINT64_MAX;
            *end += flags[i] ? zinf_plan_home_nbytes(p, space, i) : 0;
        }
    }
    const uint64_t fixed[2] = { p->spec.device_fixed_nbytes, p->spec.host_fixed_nbytes };
    for (uint32_t t = 0; t < 2; t++) {
        a->fixed_off[t] = at[t];
        if (at[t] + fixed[t] > p->use[t])
            return zinf_fail(st, -EINVAL,
                             "the plan counts %llu bytes of %s memory and its layout takes %llu: report this",
                             (unsigned long long)p->use[t], t == ZINF_TIER_DEVICE ? "device" : "host",
                             (unsigned long long)(at[t] + fixed[t]));
    }
    return 0;
}

int zinf_arena_open(const struct zinf_sched_plan *plan, struct zinf_arena **out, struct zinf_status *st)
{
    *out = NULL;
    struct zinf_arena *a = calloc(1, sizeof(*a));
    if (!a)
        return zinf_fail(st, -ENOMEM, "no memory for the layout of the arenas");
    a->plan = plan;
    int rc = lay_out(a, st);
    if (rc) {
        zinf_arena_close(a);
        return rc;
    }
    *out = a;
    return 0;
}

void zinf_arena_close(struct zinf_arena *a)
{
    if (!a)
        return;
    for (uint32_t h = 0; h < NR_HOMES; h++)
        free(a->home_off[h]);
    free(a);
}

static uint64_t part_off(const struct zinf_sched_plan *p, uint32_t part)
{
    return part < p->nr_grains ? p->grains[part].first_elem * p->spec.weight_nbytes : 0;
}

uint64_t zinf_arena_off_bytes(const struct zinf_arena *a, struct zinf_loc loc, uint32_t part)
{
    const struct zinf_sched_plan *p = a->plan;
    if (loc.space == ZINF_AT_SLOT) {
        if (loc.sub >= ZINF_NR_CLASSES || loc.index >= p->class_count[loc.sub])
            return UINT64_MAX;
        return a->class_off[loc.sub] + p->class_nbytes[loc.sub] * loc.index +
               (loc.sub == ZINF_CLASS_WEIGHT ? part_off(p, part) : 0);
    }
    if (loc.space < ZINF_AT_WEIGHT_HOST || loc.space > ZINF_AT_GRAD_DEVICE)
        return UINT64_MAX;
    uint32_t nr;
    home_flags(p, (enum zinf_space)loc.space, &nr);
    uint64_t off = loc.index < nr ? a->home_off[loc.space - ZINF_AT_WEIGHT_HOST][loc.index] : UINT64_MAX;
    bool weights = loc.space == ZINF_AT_WEIGHT_HOST || loc.space == ZINF_AT_WEIGHT_DEVICE;
    return off != UINT64_MAX && weights ? off + part_off(p, part) : off;
}

uint64_t zinf_arena_fixed_off_bytes(const struct zinf_arena *a, enum zinf_tier tier)
{
    return a->fixed_off[tier];
}
