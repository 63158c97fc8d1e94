/* swapper/plan.c - what lives where: homes from the tiers, the exact minimum, and what spare bytes buy. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"
#include "zinf/base/align.h"

#define CHUNK_ELEMS 4096u        /* of the norm; units and grains are multiples of it */

/* Sums and products that stop at the top instead of wrapping: what does not fit in 64 bits passes every budget. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t r;
    return zinf_add_u64(a, b, &r) ? r : UINT64_MAX;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t r;
    return zinf_mul_u64(a, b, &r) ? r : UINT64_MAX;
}

/* ---- the spec ---- */

static int check_sizes(const struct zinf_sched_spec *m, struct zinf_status *st)
{
    if (!m->nr_layers || !m->nr_micro || !m->nr_units || m->nr_units == ZINF_NONE)
        return zinf_fail(st, -EINVAL, "a schedule needs at least one layer, one unit and one micro-batch");
    if ((m->weight_nbytes != 2 && m->weight_nbytes != 4) || (m->grad_nbytes != 2 && m->grad_nbytes != 4))
        return zinf_fail(st, -EINVAL, "a weight or gradient of %" PRIu32 " or %" PRIu32 " bytes: it must be 2 or 4",
                         m->weight_nbytes, m->grad_nbytes);
    if (!m->grain_elems || m->grain_elems % CHUNK_ELEMS)
        return zinf_fail(st, -EINVAL, "a grain of %" PRIu64 " elements is not a multiple of %u", m->grain_elems,
                         CHUNK_ELEMS);
    if ((uint32_t)m->weight_tier >= ZINF_NR_TIERS || (uint32_t)m->state_tier >= ZINF_NR_TIERS)
        return zinf_fail(st, -EINVAL, "no such tier");
    if (m->state_tier == ZINF_TIER_DEVICE && m->weight_tier != ZINF_TIER_DEVICE)
        return zinf_fail(st, -EINVAL,
                         "optimizer state on the device needs the weights there too: offload the optimizer, or do "
                         "not offload the parameters");
    return 0;
}

/* Every unit has one user (the embedding and a tied head are one), and updates run in the order of first use. */
static int check_order(const struct zinf_sched_spec *m, struct zinf_status *st)
{
    uint32_t next = 0;
    if (m->embed_unit != ZINF_NONE && m->embed_unit != next++)
        return zinf_fail(st, -EINVAL, "the embedding is unit %" PRIu32 ", not 0", m->embed_unit);
    for (uint32_t s = 0; s < m->nr_layers; s++)
        if (m->layer_units[s] != next++)
            return zinf_fail(st, -EINVAL, "layer %" PRIu32 " uses unit %" PRIu32 ", not %" PRIu32, s, m->layer_units[s],
                             next - 1);
    if (m->head_unit != ZINF_NONE && m->head_unit != m->embed_unit && m->head_unit != next++)
        return zinf_fail(st, -EINVAL, "the head is unit %" PRIu32 ", not %" PRIu32, m->head_unit, next - 1);
    if (next != m->nr_units)
        return zinf_fail(st, -EINVAL, "%" PRIu32 " units, but the chain uses %" PRIu32, m->nr_units, next);
    return 0;
}

/* Counts that a 32-bit number of operations, accesses and dependencies holds with room. */
static int check_counts(const struct zinf_sched_spec *m, struct zinf_status *st)
{
    uint64_t elems = 0, grains = 0, embed_grains = 0;
    for (uint32_t u = 0; u < m->nr_units; u++) {
        if (m->unit_elems[u] % CHUNK_ELEMS)
            return zinf_fail(st, -EINVAL, "unit %" PRIu32 " of %" PRIu64 " elements is not a multiple of %u", u,
                             m->unit_elems[u], CHUNK_ELEMS);
        elems = sum(elems, m->unit_elems[u]);
        grains = sum(grains, zinf_div_up(m->unit_elems[u], m->grain_elems));
        if (u == m->embed_unit)
            embed_grains = zinf_div_up(m->unit_elems[u], m->grain_elems);
    }
    if (product(elems, 4 * (8 + (uint64_t)m->state_nbytes)) == UINT64_MAX || m->act_nbytes > UINT64_MAX / 2)
        return zinf_fail(st, -EINVAL, "sizes do not fit in 64 bits");
    uint64_t visits = product(m->nr_layers + 2ull, m->nr_micro);
    if (sum(product(grains, 32), sum(product(visits, 32), product(embed_grains, m->nr_micro * 2ull))) >= UINT32_MAX / 4)
        return zinf_fail(st, -EINVAL,
                         "a step of %" PRIu64 " grains and %" PRIu64 " visits is too fine: raise zinf.block_elems or "
                         "lower gradient_accumulation_steps",
                         grains, visits);
    return 0;
}

static int check_spec(const struct zinf_sched_spec *m, struct zinf_status *st)
{
    int rc = check_sizes(m, st);
    if (!rc)
        rc = check_order(m, st);
    return rc ? rc : check_counts(m, st);
}

/* ---- homes ---- */

static void *copy_of(const void *from, size_t nbytes)
{
    void *to = malloc(nbytes + 1);
    if (to && nbytes)
        memcpy(to, from, nbytes);
    return to;
}

static uint32_t cut_grains(struct zinf_sched_plan *p)
{
    uint32_t n = 0;
    for (uint32_t u = 0; u < p->spec.nr_units; u++) {
        p->unit_first_grain[u] = n;
        for (uint64_t at = 0; at < p->spec.unit_elems[u]; at += p->spec.grain_elems, n++)
            if (p->grains)
                p->grains[n] = (struct zinf_sched_grain){ .unit = u, .first_elem = at, .nr_elems =
                    zinf_min_u64(p->spec.grain_elems, p->spec.unit_elems[u] - at) };
    }
    p->unit_first_grain[p->spec.nr_units] = n;
    return n;
}

static int alloc_plan(struct zinf_sched_plan *p, const struct zinf_sched_spec *m)
{
    uint32_t nu = m->nr_units;
    p->spec = *m;
    p->spec.unit_elems = copy_of(m->unit_elems, nu * sizeof(*m->unit_elems));
    p->spec.layer_units = copy_of(m->layer_units, m->nr_layers * sizeof(*m->layer_units));
    p->unit_first_grain = calloc((size_t)nu + 1, sizeof(*p->unit_first_grain));
    p->weight_host = calloc(nu, 1);
    p->weight_device = calloc(nu, 1);
    p->grad_host = calloc(nu, 1);
    p->grad_device = calloc(nu, 1);
    if (!p->spec.unit_elems || !p->spec.layer_units || !p->unit_first_grain || !p->weight_host || !p->weight_device ||
        !p->grad_host || !p->grad_device)
        return -ENOMEM;
    p->nr_grains = cut_grains(p);
    p->grains = calloc((size_t)p->nr_grains + 1, sizeof(*p->grains));
    p->state_host = calloc((size_t)p->nr_grains + 1, 1);
    p->state_device = calloc((size_t)p->nr_grains + 1, 1);
    if (!p->grains || !p->state_host || !p->state_device)
        return -ENOMEM;
    cut_grains(p);
    return 0;
}

static void set_homes(struct zinf_sched_plan *p)
{
    const struct zinf_sched_spec *m = &p->spec;
    bool all_device = m->state_tier == ZINF_TIER_DEVICE;
    bool on_host =
        m->weight_tier == ZINF_TIER_HOST || (m->weight_tier == ZINF_TIER_DEVICE && m->state_tier == ZINF_TIER_HOST);
    p->extents_weight = m->weight_tier == ZINF_TIER_NVME || m->state_tier == ZINF_TIER_NVME;
    p->extents_state = m->state_tier == ZINF_TIER_NVME && m->state_nbytes;
    for (uint32_t u = 0; u < m->nr_units; u++) {
        bool embed = u == m->embed_unit, visited = !embed || u == m->head_unit;
        p->weight_host[u] = embed || on_host;
        p->weight_device[u] = visited && (m->weight_tier == ZINF_TIER_DEVICE || !m->unit_elems[u]);
        p->grad_device[u] = all_device && !embed;
        p->grad_host[u] = !p->grad_device[u];
        for (uint32_t g = p->unit_first_grain[u]; g < p->unit_first_grain[u + 1]; g++) {
            p->state_device[g] = p->grad_device[u];
            p->state_host[g] = !p->state_device[g] && !p->extents_state;
        }
    }
}

static bool needs_unit_slot(const struct zinf_sched_plan *p, uint32_t u)
{
    return u != ZINF_NONE && !p->weight_device[u] && (u != p->spec.embed_unit || u == p->spec.head_unit);
}

static bool needs_weight_slot(const struct zinf_sched_plan *p, uint32_t u)
{
    return u != ZINF_NONE && !p->weight_host[u] && p->extents_weight && p->spec.unit_elems[u];
}

static void size_classes(struct zinf_sched_plan *p)
{
    const struct zinf_sched_spec *m = &p->spec;
    uint64_t size[ZINF_NR_CLASSES] = { 0 };
    for (uint32_t u = 0; u < m->nr_units; u++) {
        uint64_t n = m->unit_elems[u];
        bool embed = u == m->embed_unit;
        if (needs_unit_slot(p, u))
            size[ZINF_CLASS_UNIT] = zinf_max_u64(size[ZINF_CLASS_UNIT], n * m->weight_nbytes);
        if (needs_weight_slot(p, u))
            size[ZINF_CLASS_WEIGHT] = zinf_max_u64(size[ZINF_CLASS_WEIGHT], n * m->weight_nbytes);
        if (embed && u != m->head_unit)
            continue;
        size[ZINF_CLASS_ACCUM] = zinf_max_u64(size[ZINF_CLASS_ACCUM], n * 4);
        if (!p->grad_device[u])
            size[ZINF_CLASS_GRAD] = zinf_max_u64(size[ZINF_CLASS_GRAD], n * (embed ? 4 : m->grad_nbytes));
    }
    for (uint32_t g = 0; g < p->nr_grains; g++)
        if (!p->state_host[g] && !p->state_device[g])
            size[ZINF_CLASS_STATE] = zinf_max_u64(size[ZINF_CLASS_STATE], p->grains[g].nr_elems * m->state_nbytes);
    size[ZINF_CLASS_ACT] = size[ZINF_CLASS_CKPT] = size[ZINF_CLASS_ROWS] = m->act_nbytes;
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        p->class_nbytes[c] = zinf_align_up(size[c], ZINF_SCHED_ALIGN);
}

/* ---- the ledger ---- */

void zinf_plan_ledger(const struct zinf_sched_plan *p, uint64_t use[2])
{
    const struct zinf_sched_spec *m = &p->spec;
    uint64_t *device = &use[ZINF_TIER_DEVICE], *host = &use[ZINF_TIER_HOST];
    *device = zinf_align_up(zinf_min_u64(m->device_fixed_nbytes, UINT64_MAX / 2), ZINF_SCHED_ALIGN);
    *host = zinf_align_up(zinf_min_u64(m->host_fixed_nbytes, UINT64_MAX / 2), ZINF_SCHED_ALIGN);
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++) {
        uint64_t *t = &use[zinf_class_tier((enum zinf_class)c)];
        *t = sum(*t, product(p->class_count[c], p->class_nbytes[c]));
    }
    for (uint32_t u = 0; u < m->nr_units; u++) {
        *host = sum(*host, p->weight_host[u] ? zinf_plan_home_nbytes(p, ZINF_AT_WEIGHT_HOST, u) : 0);
        *host = sum(*host, p->grad_host[u] ? zinf_plan_home_nbytes(p, ZINF_AT_GRAD_HOST, u) : 0);
        *device = sum(*device, p->weight_device[u] ? zinf_plan_home_nbytes(p, ZINF_AT_WEIGHT_DEVICE, u) : 0);
        *device = sum(*device, p->grad_device[u] ? zinf_plan_home_nbytes(p, ZINF_AT_GRAD_DEVICE, u) : 0);
    }
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        *host = sum(*host, p->state_host[g] ? zinf_plan_home_nbytes(p, ZINF_AT_STATE_HOST, g) : 0);
        *device = sum(*device, p->state_device[g] ? zinf_plan_home_nbytes(p, ZINF_AT_STATE_DEVICE, g) : 0);
    }
}

/* The most slots in use at once in the serial walk of any kind. Flags change no slot, a skip needs those of first. */
static int find_peaks(const struct zinf_sched_plan *p, uint32_t peak[ZINF_NR_CLASSES])
{
    memset(peak, 0, ZINF_NR_CLASSES * sizeof(*peak));
    for (uint32_t k = ZINF_SCHED_FIRST; k <= ZINF_SCHED_EVAL; k++) {
        struct zinf_program g;
        uint32_t one[ZINF_NR_CLASSES];
        int rc = zinf_program_emit(p, (enum zinf_sched_kind)k, 0, &g);
        if (!rc)
            rc = zinf_program_peaks(&g, one);
        zinf_program_free(&g);
        if (rc)
            return rc;
        for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
            if (one[c] > peak[c])
                peak[c] = one[c];
    }
    return 0;
}

static int refuse(const struct zinf_sched_plan *p, struct zinf_status *st)
{
    if (p->minimum[ZINF_TIER_DEVICE] > p->budget.device_nbytes || p->minimum[ZINF_TIER_DEVICE] == UINT64_MAX)
        return zinf_fail(st, -ENOSPC,
                         "needs %" PRIu64 " more bytes of device memory (minimum %" PRIu64 ", budget %" PRIu64
                         "): raise zinf.device_memory",
                         p->minimum[ZINF_TIER_DEVICE] - p->budget.device_nbytes, p->minimum[ZINF_TIER_DEVICE],
                         p->budget.device_nbytes);
    if (p->minimum[ZINF_TIER_HOST] > p->budget.host_nbytes || p->minimum[ZINF_TIER_HOST] == UINT64_MAX)
        return zinf_fail(st, -ENOSPC,
                         "needs %" PRIu64 " more bytes of host memory (minimum %" PRIu64 ", budget %" PRIu64
                         "): raise zinf.host_memory",
                         p->minimum[ZINF_TIER_HOST] - p->budget.host_nbytes, p->minimum[ZINF_TIER_HOST],
                         p->budget.host_nbytes);
    return 0;
}

/* ---- spending ---- */

struct purse { struct zinf_sched_plan *p; uint64_t room[2]; };

/* How many things of a class there are: more slots than that are of no use. */
static uint32_t most_of(const struct zinf_sched_plan *p, enum zinf_class c)
{
    uint32_t n = 0;
    if (c == ZINF_CLASS_STATE)
        return p->nr_grains;
    if (c == ZINF_CLASS_ROWS)
        return p->spec.nr_micro;
    if (c != ZINF_CLASS_UNIT && c != ZINF_CLASS_WEIGHT)
        return ZINF_NONE;
    for (uint32_t u = 0; u < p->spec.nr_units; u++)
        n += c == ZINF_CLASS_UNIT ? needs_unit_slot(p, u) : needs_weight_slot(p, u);
    return n;
}

/* Up to k more slots of a class that is used at all; returns how many were bought. */
static uint32_t grow(struct purse *w, enum zinf_class c, uint32_t k)
{
    uint64_t size = w->p->class_nbytes[c], *room = &w->room[zinf_class_tier(c)];
    uint32_t most = most_of(w->p, c), count = w->p->class_count[c];
    if (!count || count >= most)
        return 0;
    k = k < most - count ? k : most - count;
    if (size)
        k = (uint32_t)zinf_min_u64(k, *room / size);
    *room -= k * size;
    w->p->class_count[c] += k;
    return k;
}

/* Last layers whose UNIT slots stay from forward to backward, where each needs one. In the serial walk the last of them
 * shares its slot with nobody but the head. */
static void keep_on_device(struct purse *w)
{
    struct zinf_sched_plan *p = w->p;
    uint32_t want = 0, have = needs_unit_slot(p, p->spec.head_unit) ? 0 : 1;
    for (uint32_t s = 0; s < p->spec.nr_layers; s++)
        want += needs_unit_slot(p, p->spec.layer_units[s]);
    if (!p->class_count[ZINF_CLASS_UNIT])
        return;
    if (want > have)
        have += grow(w, ZINF_CLASS_UNIT, want - have);
    if (p->class_count[ZINF_CLASS_UNIT] >= most_of(p, ZINF_CLASS_UNIT))
        have = want;
    for (; p->keep_device < p->spec.nr_layers; p->keep_device++) {
        if (!needs_unit_slot(p, p->spec.layer_units[p->spec.nr_layers - 1 - p->keep_device]))
            continue;
        if (!have--)
            break;
    }
}

/* How often a step reads unit u from the drive for want of a copy in RAM. */
static uint32_t reads_of(const struct zinf_sched_plan *p, uint32_t u)
{
    const struct zinf_sched_spec *m = &p->spec;
    uint32_t layer = u - (m->embed_unit != ZINF_NONE);
    if (!needs_weight_slot(p, u))
        return 0;
    if (p->weight_device[u])
        return 1;
    return u == m->head_unit || layer >= m->nr_layers - p->keep_device ? 2 : 3;
}

static void give_copy(struct purse *w, uint32_t u)
{
    w->room[ZINF_TIER_HOST] -= zinf_plan_home_nbytes(w->p, ZINF_AT_WEIGHT_HOST, u);
    w->p->weight_host[u] = 1;
}

/* Copies of weights in RAM: those that save most reads first, among equals the first units, whose updates have
 * nothing to hide behind. WEIGHT slots that no unit needs any more are given back. */
static void copy_weights(struct purse *w)
{
    struct zinf_sched_plan *p = w->p;
    uint64_t all = 0, *room = &w->room[ZINF_TIER_HOST];
    uint64_t slots = p->class_count[ZINF_CLASS_WEIGHT] * p->class_nbytes[ZINF_CLASS_WEIGHT];
    for (uint32_t u = 0; u < p->spec.nr_units; u++)
        if (needs_weight_slot(p, u))
            all += zinf_plan_home_nbytes(p, ZINF_AT_WEIGHT_HOST, u);
    if (all <= *room + slots) {
        *room += slots;
        p->class_count[ZINF_CLASS_WEIGHT] = 0;
    }
    for (uint32_t saves = 3; saves; saves--)
        for (uint32_t u = 0; u < p->spec.nr_units; u++)
            if (reads_of(p, u) == saves && zinf_plan_home_nbytes(p, ZINF_AT_WEIGHT_HOST, u) <= *room)
                give_copy(w, u);
    uint64_t was = p->class_nbytes[ZINF_CLASS_WEIGHT];
    size_classes(p);
    *room += p->class_count[ZINF_CLASS_WEIGHT] * (was - p->class_nbytes[ZINF_CLASS_WEIGHT]);
}

/* Last layers, below those kept on the device, whose WEIGHT slots stay through the turn-around: in what the copies
 * have left. */
static void keep_on_host(struct purse *w)
{
    struct zinf_sched_plan *p = w->p;
    const struct zinf_sched_spec *m = &p->spec;
    uint32_t below = m->nr_layers - p->keep_device, want = 0;
    bool passing = needs_weight_slot(p, m->head_unit) && !p->weight_device[m->head_unit];
    if (!p->class_count[ZINF_CLASS_WEIGHT])
        return;
    for (uint32_t s = 0; s < m->nr_layers; s++) {
        bool needs = needs_weight_slot(p, m->layer_units[s]) && !p->weight_device[m->layer_units[s]];
        if (s < below)
            want += needs;
        else
            passing |= needs;
    }
    uint32_t have = passing ? 0 : 1;
    if (want > have)
        have += grow(w, ZINF_CLASS_WEIGHT, want - have);
    if (p->class_count[ZINF_CLASS_WEIGHT] >= most_of(p, ZINF_CLASS_WEIGHT))
        have = want;
    for (; p->keep_host < below; p->keep_host++) {
        uint32_t u = m->layer_units[below - 1 - p->keep_host];
        if (needs_weight_slot(p, u) && !p->weight_device[u] && !have--)
            break;
    }
}

static void spend(struct zinf_sched_plan *p)
{
    struct purse w = { .p = p, .room = { p->budget.device_nbytes - p->minimum[ZINF_TIER_DEVICE],
                                         p->budget.host_nbytes - p->minimum[ZINF_TIER_HOST] } };
    grow(&w, ZINF_CLASS_ACT, 2);
    grow(&w, ZINF_CLASS_ACCUM, 1);
    grow(&w, ZINF_CLASS_GRAD, 1);
    grow(&w, ZINF_CLASS_UNIT, p->policy.window);
    grow(&w, ZINF_CLASS_WEIGHT, p->policy.window);
    grow(&w, ZINF_CLASS_STATE, 3);          /* one read, one updated, one written, one waiting */
    grow(&w, ZINF_CLASS_ROWS, 1);
    keep_on_device(&w);
    if (p->policy.use_spare_host) {
        copy_weights(&w);
        keep_on_host(&w);
    }
}

static int make(struct zinf_sched_plan *p, const struct zinf_sched_spec *spec, struct zinf_status *st)
{
    int rc = alloc_plan(p, spec);
    if (rc)
        return zinf_fail(st, rc, "out of memory for the plan");
    set_homes(p);
    size_classes(p);
    rc = find_peaks(p, p->class_count);
    if (rc)
        return zinf_fail(st, rc, "out of memory for the plan");
    zinf_plan_ledger(p, p->minimum);
    rc = refuse(p, st);
    if (rc)
        return rc;
    spend(p);
    for (uint32_t c = 0; c < ZINF_NR_CLASSES; c++)
        if (!p->class_count[c])
            p->class_nbytes[c] = 0;
    zinf_plan_ledger(p, p->use);
    for (uint32_t g = 0; g < p->nr_grains; g++) {
        p->drive_nbytes += p->extents_weight ? 2 * zinf_plan_home_nbytes(p, ZINF_AT_EXTENT_WEIGHT, g) : 0;
        p->drive_nbytes += p->extents_state ? 2 * zinf_plan_home_nbytes(p, ZINF_AT_EXTENT_STATE, g) : 0;
    }
    return 0;
}

int zinf_plan_make(const struct zinf_sched_spec *spec, const struct zinf_sched_policy *policy,
                   const struct zinf_sched_rates *rates, const struct zinf_sched_budget *budget,
                   struct zinf_sched_plan **out, struct zinf_status *st)
{
    *out = NULL;
    int rc = check_spec(spec, st);
    if (rc)
        return rc;
    struct zinf_sched_plan *p = calloc(1, sizeof(*p));
    if (!p)
        return zinf_fail(st, -ENOMEM, "out of memory for the plan");
    p->policy = policy ? *policy : zinf_sched_default_policy;
    if (!p->policy.window)
        p->policy.window = zinf_sched_default_policy.window;
    p->rates = rates ? *rates : zinf_sched_default_rates;
    p->budget = *budget;
    rc = make(p, spec, st);
    if (rc) {
        zinf_plan_free(p);
        return rc;
    }
    *out = p;
    return 0;
}
