/* zinf/engine/setup.c - from configuration and chain to a plan, and from the plan to memory, files and devices. */
#include "zinf/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_device.h"
#include "zinf/base/align.h"
#include "zinf/base/cpu.h"
#include "zinf/base/size.h"

enum { PAGE = 4096 };

/* A grain is what one READ, UPDATE or WRITE moves. Large ones cost little bookkeeping, small ones little memory; bits do not
 * depend on it. */
#define GRAIN_LARGEST  (32ull << 20)
#define GRAIN_SMALLEST (64ull << 10)

static uint64_t work_nbytes(const struct zinf_trainer *t)
{
    const struct zinf_chain *c = t->chain;
    uint64_t most = 0;

    for (uint32_t i = 0; i <= c->nr_layers; i++) {
        const struct zinf_layer *l = i < c->nr_layers ? &c->layers[i] : c->head;

        most = zinf_max_u64(most, l->work_nbytes(l, t->batch.batch, t->batch.seq, c->width));
    }
    return zinf_align_up(most, PAGE);
}

/* Layers with the same function and context share one table. */
static const struct zinf_layer *constants_owner(const struct zinf_chain *c, uint32_t i)
{
    const struct zinf_layer *l = i < c->nr_layers ? &c->layers[i] : c->head;

    for (uint32_t k = 0; k < i; k++)
        if (c->layers[k].constants == l->constants && c->layers[k].ctx == l->ctx)
            return &c->layers[k];
    return l;
}

static uint64_t constants_nbytes(const struct zinf_trainer *t)
{
    const struct zinf_chain *c = t->chain;
    uint64_t sum = 0;

    for (uint32_t i = 0; i <= c->nr_layers; i++) {
        const struct zinf_layer *l = i < c->nr_layers ? &c->layers[i] : c->head;

        if (l->constants && constants_owner(c, i) == l)
            sum += zinf_align_up(l->constants_nbytes(l, t->batch.batch, t->batch.seq), PAGE);
    }
    return sum;
}

static uint64_t host_fixed_nbytes(const struct zinf_trainer *t)
{
    const struct zinf_batch *b = &t->batch;
    uint64_t rows = b->nr_micro * b->rows, sum = 0;

    sum += 3 * zinf_align_up(rows * 4, PAGE);                              /* tokens, targets, row_loss */
    if (!t->chain->embedding)
        sum += zinf_align_up(rows * t->chain->width * 4, PAGE);            /* input */
    sum += zinf_align_up(b->rows * 4, PAGE);                               /* add_order */
    for (uint32_t u = 0; u < t->part.nr_units; u++)
        sum += zinf_align_up(t->part.unit_elems[u] / ZINF_NORM_CHUNK * 4, 64);
    return zinf_align_up(sum, PAGE);
}

static enum zinf_tier tier_of(enum zinf_offload o)
{
    return o == ZINF_OFFLOAD_NVME ? ZINF_TIER_NVME : o == ZINF_OFFLOAD_CPU ? ZINF_TIER_HOST : ZINF_TIER_DEVICE;
}

/* "auto": what the host has now less a margin, split between the CPU device's arena and the host arena. */
static int resolve_budgets(struct zinf_trainer *t, struct zinf_sched_budget *out, struct zinf_status *st)
{
    uint64_t have = zinf_host_available_nbytes("") / 10 * 9;
    bool dev_auto = t->config.device_memory == ZINF_AUTO_U64, host_auto = t->config.host_memory == ZINF_AUTO_U64;

    out->device_nbytes = dev_auto ? have / 2 : t->config.device_memory;
    if (dev_auto && !host_auto)
        out->device_nbytes = have > t->config.host_memory ? have - t->config.host_memory : 0;
    out->host_nbytes = host_auto ? (have > out->device_nbytes ? have - out->device_nbytes : 0) : t->config.host_memory;
    t->budget_nbytes[ZINF_TIER_DEVICE] = out->device_nbytes;
    t->budget_nbytes[ZINF_TIER_HOST] = out->host_nbytes;
    if (dev_auto != host_auto && !(dev_auto ? out->device_nbytes : out->host_nbytes)) {
        const char *set = dev_auto ? "zinf.host_memory" : "zinf.device_memory";
        char asked[24], there[24];

        zinf_size_format(dev_auto ? out->host_nbytes : out->device_nbytes, asked, sizeof(asked));
        zinf_size_format(have, there, sizeof(there));
        return zinf_fail(st, -EINVAL, "%s %s leaves nothing of the %s that this machine can give now to %s \"auto\": lower %s, or "
                         "set both", set, asked, there, dev_auto ? "zinf.device_memory" : "zinf.host_memory", set);
    }
    return 0;
}

/* A budget is a promise of the user's; the memory may not be there. The CPU device's arena is memory, too. */
static void compare_with_machine(const struct zinf_trainer *t)
{
    uint64_t use = t->plan->use[ZINF_TIER_DEVICE] + t->plan->use[ZINF_TIER_HOST], there = zinf_host_available_nbytes("");
    char a[24], b[24];

    if (use <= there)
        return;
    zinf_size_format(use, a, sizeof(a));
    zinf_size_format(there, b, sizeof(b));
    zinf_log(t->opts.log, ZINF_LOG_WARN, "the run is going to use %s of memory and the machine has %s available: lower "
             "zinf.host_memory or zinf.device_memory, or the system may kill it", a, b);
}

static void fill_spec(struct zinf_trainer *t, struct zinf_sched_spec *s)
{
    bool split = t->config.dtype != ZINF_F32, moments = t->optimizer.kind != ZINF_SGD;

    *s = (struct zinf_sched_spec){
        .nr_units = t->part.nr_units, .unit_elems = t->part.unit_elems, .embed_unit = t->part.embed_unit,
        .nr_layers = t->chain->nr_layers, .layer_units = t->part.layer_units, .head_unit = t->part.head_unit,
        .nr_micro = t->batch.nr_micro,
        .act_nbytes = t->batch.rows * t->chain->width * zinf_dtype_nbytes(t->config.dtype),
        .weight_nbytes = (uint32_t)zinf_dtype_nbytes(t->config.dtype),
        .state_nbytes = (split ? 2u : 0u) + (moments ? 8u : 0u),
        .grad_nbytes = (uint32_t)zinf_dtype_nbytes(t->config.grad_accum_dtype),
        .weight_tier = tier_of(t->config.offload_param), .state_tier = tier_of(t->config.offload_optimizer),
        .host_fixed_nbytes = host_fixed_nbytes(t),
    };
    if (s->state_tier == ZINF_TIER_DEVICE)
        s->weight_tier = ZINF_TIER_DEVICE;
    s->device_fixed_nbytes = work_nbytes(t) + constants_nbytes(t) +
                             zinf_align_up((uint64_t)t->scratch_nbytes * (t->threads + 1), PAGE);
}

/* Largest grain that leaves room for reading, updating and writing at once; the smallest one when none does. */
static int plan_with_grains(struct zinf_trainer *t, struct zinf_sched_spec *spec, const struct zinf_sched_budget *budget,
                            struct zinf_status *st)
{
    const struct zinf_sched_policy policy = { .window = 1, .use_spare_host = true };
    struct zinf_sched_rates rates = zinf_sched_default_rates;
    uint64_t grain = zinf_min_u64(GRAIN_LARGEST, zinf_max_u64(t->config.sub_group_size, ZINF_NORM_CHUNK)), biggest = ZINF_NORM_CHUNK;
    bool fixed = t->config.block_elems != ZINF_AUTO_U64 || t->resumed;

    rates.tokens_micro = t->batch.rows;
    for (uint32_t u = 0; u < spec->nr_units; u++)
        biggest = zinf_max_u64(biggest, spec->unit_elems[u]);
    grain = t->resumed ? t->record.grain_elems : fixed ? t->config.block_elems : zinf_min_u64(grain, biggest);
    grain = zinf_max_u64(zinf_align_down(grain, ZINF_NORM_CHUNK), ZINF_NORM_CHUNK);
    for (;;) {
        struct zinf_status why = { 0 };
        bool smallest = fixed || grain <= GRAIN_SMALLEST;
        int rc;

        spec->grain_elems = grain;
        rc = zinf_plan_make(spec, &policy, &rates, budget, &t->plan, &why);
        if (!rc && (smallest || spec->state_tier != ZINF_TIER_NVME || t->plan->class_count[ZINF_CLASS_STATE] >= 3))
            return 0;
        if (rc && (rc != -ENOSPC || smallest))
            return zinf_fail(st, rc == -ENOSPC ? -EINVAL : rc, "%s", why.text);
        zinf_plan_free(t->plan);
        t->plan = NULL;
        grain = zinf_max_u64(zinf_align_down(grain / 2, ZINF_NORM_CHUNK), ZINF_NORM_CHUNK);
    }
}

static bool wanted(const struct zinf_trainer *t, uint32_t flags)
{
    bool commits = flags & ZINF_SCHED_COMMITS, dirty = flags & ZINF_SCHED_DIRTY;

    if (commits && !t->durable)
        return false;
    return !dirty || ((t->plan->extents_state || t->plan->extents_weight) && (!t->durable || t->config.durability_every > 1));
}

/* Every schedule this run can meet, built and proved before anything is written. */
static int build_schedules(struct zinf_trainer *t, struct zinf_status *st)
{
    for (uint32_t flags = 0; flags < 4; flags++)
        for (int k = 0; k < ZINF_NR_SCHED_KINDS && wanted(t, flags); k++) {
            int rc = zinf_schedule_build(t->plan, (enum zinf_sched_kind)k, flags, &t->sched[k][flags], st);

            if (rc)
                return rc;
        }
    return 0;
}

static int check_schedules(struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_schedule *(*s)[4] = t->sched;
    const uint32_t c = t->durable ? ZINF_SCHED_COMMITS : 0, d = !t->durable && wanted(t, ZINF_SCHED_DIRTY) ? ZINF_SCHED_DIRTY : 0;
    const struct zinf_schedule *chain[] = {
        s[ZINF_SCHED_FIRST][0], s[ZINF_SCHED_STEADY][c], s[ZINF_SCHED_STEADY][c | d], s[ZINF_SCHED_SKIP][c | d],
        s[ZINF_SCHED_STEADY][c | d], s[ZINF_SCHED_FLUSH][c | d], s[ZINF_SCHED_EVAL][d], s[ZINF_SCHED_FIRST][d],
        s[ZINF_SCHED_FLUSH_SKIP][c | d],
    };

    const struct zinf_schedule *rare[] = {      /* durability every N > 1: steps between commits */
        s[ZINF_SCHED_FIRST][0], s[ZINF_SCHED_STEADY][0], s[ZINF_SCHED_STEADY][ZINF_SCHED_DIRTY],
        s[ZINF_SCHED_SKIP][ZINF_SCHED_DIRTY], s[ZINF_SCHED_STEADY][ZINF_SCHED_DIRTY | ZINF_SCHED_COMMITS],
        s[ZINF_SCHED_STEADY][0], s[ZINF_SCHED_FLUSH][ZINF_SCHED_DIRTY | ZINF_SCHED_COMMITS], s[ZINF_SCHED_EVAL][0],
    };
    int rc = zinf_schedule_check(t->plan, chain, sizeof(chain) / sizeof(chain[0]), st);

    if (!rc && t->durable && t->config.durability_every > 1)
        rc = zinf_schedule_check(t->plan, rare, sizeof(rare) / sizeof(rare[0]), st);
    return rc;
}

int zinf_setup_plan(struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_sched_budget budget;
    struct zinf_sched_spec spec;
    int rc;

    t->scratch_nbytes = zinf_align_up(zinf_cpu_scratch_nbytes(), 64);
    rc = resolve_budgets(t, &budget, st);
    if (rc)
        return rc;
    fill_spec(t, &spec);
    rc = plan_with_grains(t, &spec, &budget, st);
    if (rc)
        return rc;
    compare_with_machine(t);
    t->durable = t->plan->extents_state && t->plan->extents_weight && t->config.durability_every;
    if (t->resumed && !t->durable)
        return zinf_fail(st, -EINVAL, "%s holds the state on NVMe: resume with offload_optimizer nvme and durability on, or "
                         "from a checkpoint", t->opts.resume_dirs[0]);
    rc = build_schedules(t, st);
    return rc ? rc : check_schedules(t, st);
}

static int open_rundirs(struct zinf_trainer *t, struct zinf_status *st)
{
    char uuid[37];
    int rc = zinf_uuid_make(uuid, st);

    t->rundirs = calloc(t->config.nr_nvme_paths, sizeof(*t->rundirs));
    if (!t->rundirs)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < t->config.nr_nvme_paths && !rc; i++) {
        uint64_t freed = 0;

        rc = zinf_rundir_sweep(t->config.nvme_paths[i], zinf_store_has_record, NULL, &freed, t->opts.log, st);
        if (!rc)
            rc = zinf_rundir_create(t->config.nvme_paths[i], uuid, &t->rundirs[i], st);
        t->nr_rundirs += !rc;
    }
    return rc;
}

int zinf_setup_memory(struct zinf_trainer *t, struct zinf_status *st)
{
    int rc = zinf_map(t->plan->use[ZINF_TIER_DEVICE], t->pool, &t->arena[ZINF_TIER_DEVICE], st);

    if (!rc)
        rc = zinf_map(t->plan->use[ZINF_TIER_HOST], t->pool, &t->arena[ZINF_TIER_HOST], st);
    if (rc) {
        char dev[24], host[24];

        st->rc = 0;
        zinf_size_format(t->plan->use[0], dev, sizeof(dev));
        zinf_size_format(t->plan->use[1], host, sizeof(host));
        zinf_fail(st, rc, "this machine has no memory for the arenas (device %s, host %s): lower zinf.device_memory or "
                  "zinf.host_memory", dev, host);
    }
    return rc;
}

static const struct zinf_io_ops *backend(const struct zinf_trainer *t)
{
    if (t->hooks.io_ops)
        return t->hooks.io_ops;
    return strcmp(t->config.io_backend, "auto") ? zinf_io_ops_find(t->config.io_backend) : NULL;
}

static void file_progress(void *ctx, uint64_t done, uint64_t total)
{
    const struct zinf_trainer *t = ctx;

    t->opts.progress(t->opts.progress_ctx, "creating the files on the drives", done, total);
}

static int open_store(struct zinf_trainer *t, struct zinf_status *st)
{
    const char *dirs[ZINF_MAX_NVME_PATHS] = { 0 };
    bool extents = t->plan->extents_weight || t->plan->extents_state;
    struct zinf_store_opts o = {
        .plan = t->plan, .device_base = t->arena[0].base, .host_base = t->arena[1].base,
        .io = { .ops = backend(t), .depth = t->config.aio.queue_depth, .request_nbytes = t->config.aio.block_size,
                .event_fd = zinf_mover_event_fd(t->mover), .backend_arg = t->hooks.io_arg, .log = t->opts.log },
        .direct = t->config.direct, .log = t->opts.log, .poison = t->hooks.poison,
        .durable = t->durable, .power = t->config.sync_power, .world = 1, .fingerprint = t->fingerprint,
        .payload_nbytes = ZINF_VERDICT_NBYTES, .checksum = t->config.checksum, .resume = t->resumed ? &t->record : NULL,
        .progress = t->opts.progress ? file_progress : NULL, .progress_ctx = t,
    };

    if (extents) {
        int rc = t->resumed ? 0 : open_rundirs(t, st);

        if (rc)
            return rc;
        o.uuid = t->rundirs[0].uuid;
        for (uint32_t i = 0; i < t->nr_rundirs; i++)
            dirs[i] = t->rundirs[i].path;
        o.dirs = dirs;
        o.nr_dirs = t->nr_rundirs;
    }
    if (strcmp(t->config.io_backend, "auto") && !o.io.ops)
        return zinf_fail(st, -EINVAL, "zinf.io_backend \"%s\" is not compiled in; use \"auto\"", t->config.io_backend);
    return zinf_store_open(&o, &t->store, st);
}

/* Takes nbytes from a fixed area. */
static void *carve(char **pos, uint64_t nbytes, uint64_t align)
{
    void *p = *pos;

    *pos += zinf_align_up(nbytes, align);
    return p;
}

static int carve_device(struct zinf_trainer *t, struct zinf_status *st)
{
    const struct zinf_chain *c = t->chain;
    char *pos = zinf_store_device_fixed(t->store);

    t->work = carve(&pos, work_nbytes(t), PAGE);
    t->scratch = carve(&pos, (uint64_t)t->scratch_nbytes * (t->threads + 1), PAGE);
    t->constants = calloc((size_t)c->nr_layers + 1, sizeof(*t->constants));
    if (!t->constants)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i <= c->nr_layers; i++) {
        const struct zinf_layer *l = i < c->nr_layers ? &c->layers[i] : c->head, *owner = constants_owner(c, i);

        if (!l->constants)
            continue;
        if (owner != l) {
            t->constants[i] = t->constants[owner - c->layers];
            continue;
        }
        void *p = carve(&pos, l->constants_nbytes(l, t->batch.batch, t->batch.seq), PAGE);
        l->constants(l, t->batch.batch, t->batch.seq, p);
        t->constants[i] = p;
    }
    return 0;
}

static int carve_host(struct zinf_trainer *t, struct zinf_status *st)
{
    struct zinf_batch *b = &t->batch;
    uint64_t rows = b->nr_micro * b->rows;
    char *pos = zinf_store_host_fixed(t->store);

    b->tokens = carve(&pos, rows * 4, PAGE);
    b->targets = carve(&pos, rows * 4, PAGE);
    b->row_loss = carve(&pos, rows * 4, PAGE);
    if (!t->chain->embedding) {
        b->tokens = NULL;
        b->input = carve(&pos, rows * t->chain->width * 4, PAGE);
    }
    t->add_order = carve(&pos, b->rows * 4, PAGE);
    t->norms = calloc(t->part.nr_units, sizeof(*t->norms));
    if (!t->norms)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t u = 0; u < t->part.nr_units; u++)
        t->norms[u].chunk_sums = carve(&pos, t->part.unit_elems[u] / ZINF_NORM_CHUNK * 4, 64);
    return 0;
}

int zinf_setup_store(struct zinf_trainer *t, struct zinf_status *st)
{
    int rc = open_store(t, st);

    if (!rc)
        rc = carve_device(t, st);
    if (!rc)
        rc = carve_host(t, st);
    if (!rc) {
        const struct zinf_device_opts d = { .pool = t->pool, .scratch_nbytes = t->scratch_nbytes, .scratch_base = t->scratch,
                                            .log = t->opts.log };
        rc = t->dev_ops->open(&d, &t->dev, st);
    }
    return rc;
}
