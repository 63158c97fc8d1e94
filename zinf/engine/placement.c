/* zinf/engine/placement.c - the placement report: every class of state, its tier, its bytes; sums to the plan's ledger. */
#include "zinf/engine/engine.h"

#include <stdio.h>

#include "zinf/base/size.h"

static const char *const tier_names[] = { "device", "host", "nvme" };

struct report {
    void (*line)(void *ctx, const char *text);
    void *ctx;
};

static void say(const struct report *r, const char *what, enum zinf_tier tier, uint64_t nbytes, const char *note)
{
    char text[160], size[24];

    if (!nbytes)
        return;
    zinf_size_format(nbytes, size, sizeof(size));
    snprintf(text, sizeof(text), "%-28s %-6s %12s%s%s", what, tier_names[tier], size, note[0] ? "  " : "", note);
    r->line(r->ctx, text);
}

static uint64_t sum_units(const struct zinf_sched_plan *p, const uint8_t *has, enum zinf_space space)
{
    uint64_t sum = 0;

    for (uint32_t u = 0; u < p->spec.nr_units; u++)
        if (has[u])
            sum += zinf_plan_home_nbytes(p, space, u);
    return sum;
}

static uint64_t sum_grains(const struct zinf_sched_plan *p, const uint8_t *has, enum zinf_space space)
{
    uint64_t sum = 0;

    for (uint32_t g = 0; g < p->nr_grains; g++)
        if (has[g])
            sum += zinf_plan_home_nbytes(p, space, g);
    return sum;
}

void zinf_trainer_placement(struct zinf_trainer *t, void (*line)(void *ctx, const char *text), void *ctx)
{
    static const char *const class_notes[ZINF_NR_CLASSES] = {
        "weights a layer is using", "fp32 gradient accumulators", "gradients on their way", "layer inputs and their gradients",
        "weights between drive and device", "state between drive and update", "activation checkpoints", "embedding row gradients",
    };
    const struct zinf_sched_plan *p = t->plan;
    const struct report r = { line, ctx };
    char note[96];

    say(&r, "weights", ZINF_TIER_DEVICE, sum_units(p, p->weight_device, ZINF_AT_WEIGHT_DEVICE), "homes");
    say(&r, "weights", ZINF_TIER_HOST, sum_units(p, p->weight_host, ZINF_AT_WEIGHT_HOST),
        p->extents_weight ? "homes and copies" : "homes");
    say(&r, "optimizer state", ZINF_TIER_DEVICE, sum_grains(p, p->state_device, ZINF_AT_STATE_DEVICE), "homes");
    say(&r, "optimizer state", ZINF_TIER_HOST, sum_grains(p, p->state_host, ZINF_AT_STATE_HOST), "homes");
    say(&r, "gradients", ZINF_TIER_DEVICE, sum_units(p, p->grad_device, ZINF_AT_GRAD_DEVICE), "homes");
    say(&r, "gradients", ZINF_TIER_HOST, sum_units(p, p->grad_host, ZINF_AT_GRAD_HOST), "homes");
    for (int c = 0; c < ZINF_NR_CLASSES; c++) {
        snprintf(note, sizeof(note), "%u slot%s: %s", p->class_count[c], p->class_count[c] == 1 ? "" : "s", class_notes[c]);
        say(&r, zinf_class_name((enum zinf_class)c), zinf_class_tier((enum zinf_class)c),
            p->class_count[c] * p->class_nbytes[c], note);
    }
    say(&r, "work space and tables", ZINF_TIER_DEVICE, p->spec.device_fixed_nbytes, "");
    say(&r, "batches and norms", ZINF_TIER_HOST, p->spec.host_fixed_nbytes, "");
    say(&r, p->extents_state ? "weights and optimizer state" : "weights", ZINF_TIER_NVME, p->drive_nbytes, "two extents each");
}
