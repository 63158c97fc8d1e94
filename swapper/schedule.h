/* swapper/schedule.h - a step is a schedule: which bytes move when, decided before the step, with no I/O
 * and no clock in it.
 *
 *   spec + policy + rates + budgets --zinf_plan_make--> plan (slot counts, homes, the ledger)
 *   plan + kind + flags             --zinf_schedule_build--> schedule (operations in issue order, lanes, slots, dependencies)
 *   chain of schedules              --zinf_schedule_check--> proved, or the first fault in words
 *   chain of schedules + rates      --zinf_schedule_simulate--> times
 *   schedule                        --the mover (swapper/mover.h)--> done
 *
 * Locations. A *slot* is one of the equal places of a class; slots are empty at every seam between schedules. A *home* is a
 * fixed place that survives the step. An *extent* is a grain's place on the drive; every grain has two, called by role:
 * CURRENT is the one that the newest committed record names, ALTERNATE the other, which nobody needs after a crash.
 * WRITEs go to ALTERNATE only. COMMIT makes what they wrote durable and a record of it; then, at the seam, the roles
 * swap (zinf_schedule.flips). Without COMMIT they stay and the chain is *dirty*: the newest bytes are in ALTERNATE,
 * later schedules read them there and overwrite them in place, until one commits.
 *
 * Versions are relative to the schedule. Weights and state: 0 = the update of iteration t-1 is still pending, 1 = what
 * iteration t uses. Gradients: -1 = of t-1, 0 = of t. Activations: the micro-batch; dx of micro-batch j carries the
 * layer below which it stands; accumulators the last micro-batch added.
 *
 * Dependencies are direct and point backwards in the list, which is the proof that no timing dead-locks: a reader names the
 * writer; an overwriter names the readers since, or the writer when there was none; the first user of a slot names every user
 * of its last occupant. Order on a stream lane counts as an edge, so dependencies within one stream are not stored; order on
 * nvme_read, nvme_write, cpu and sync does not: they have several operations in flight. All operations of a schedule follow
 * the end of the one before, so nothing is stored across the seam; that is also why no WRITE of t+1 comes before the
 * COMMIT of t, for whose end the mover waits as for any other. NORM is the last of the list wherever there is one.
 *
 * Threads: everything here is pure; a plan or schedule may be read from any thread. */
#ifndef ZINF_SWAPPER_SCHEDULE_H_
#define ZINF_SWAPPER_SCHEDULE_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_tier { ZINF_TIER_DEVICE, ZINF_TIER_HOST, ZINF_TIER_NVME, ZINF_NR_TIERS };

enum zinf_lane {
    ZINF_LANE_NVME_READ, ZINF_LANE_NVME_WRITE, ZINF_LANE_SYNC, ZINF_LANE_H2D, ZINF_LANE_D2H, ZINF_LANE_COMM,
    ZINF_LANE_COMPUTE, ZINF_LANE_CPU, ZINF_NR_LANES
};
const char *zinf_lane_name(enum zinf_lane lane);            /* "nvme_read" ... */
/* Stream lanes: h2d, d2h, comm, compute. The others are host lanes. */
static inline bool zinf_lane_is_stream(enum zinf_lane l)
{
    return l == ZINF_LANE_H2D || l == ZINF_LANE_D2H || l == ZINF_LANE_COMM || l == ZINF_LANE_COMPUTE;
}

enum zinf_op_kind {
    ZINF_OP_READ, ZINF_OP_WRITE, ZINF_OP_UPLOAD, ZINF_OP_DOWNLOAD, ZINF_OP_COUNT, ZINF_OP_REDUCE, ZINF_OP_FORWARD,
    ZINF_OP_BACKWARD, ZINF_OP_ADD, ZINF_OP_NORM, ZINF_OP_UPDATE, ZINF_OP_COMMIT, ZINF_NR_OP_KINDS
};
const char *zinf_op_kind_name(enum zinf_op_kind kind);

/* What a transfer carries. */
enum zinf_what {
    ZINF_WHAT_NONE,
    ZINF_WHAT_STATE,     /* READ: a grain's optimizer state, extent -> STATE slot */
    ZINF_WHAT_WEIGHTS,   /* READ: a unit's weights, extents of its grains -> WEIGHT slot; UPLOAD: a unit's weights ->
                          * UNIT slot or device home */
    ZINF_WHAT_GRAIN,     /* WRITE: a grain's weights and/or state -> its alternate extent */
    ZINF_WHAT_ROWS,      /* UPLOAD: the embedding rows of a micro-batch -> ACT slot; DOWNLOAD: their gradient -> ROWS
                          * slot */
    ZINF_WHAT_INPUT,     /* UPLOAD: a chain without an embedding: the micro-batch's input -> ACT slot */
    ZINF_WHAT_CKPT,      /* DOWNLOAD / UPLOAD: the input of a layer for a micro-batch, ACT slot <-> CKPT slot */
    ZINF_WHAT_GRAD       /* DOWNLOAD: a unit's reduced gradient, GRAD slot -> host home */
};

enum zinf_class {
    ZINF_CLASS_UNIT,     /* device: a unit's weights as the layer uses them */
    ZINF_CLASS_ACCUM,    /* device: a unit's fp32 gradient accumulator */
    ZINF_CLASS_GRAD,     /* device: a unit's rounded gradient on its way to the host */
    ZINF_CLASS_ACT,      /* device: the input of a layer for one micro-batch, or the gradient of one */
    ZINF_CLASS_WEIGHT,   /* host: a unit's weights between drive and device */
    ZINF_CLASS_STATE,    /* host: a grain's optimizer state between drive and update */
    ZINF_CLASS_CKPT,     /* host: activation checkpoint */
    ZINF_CLASS_ROWS,     /* host: gradient of a micro-batch's embedding rows */
    ZINF_NR_CLASSES
};
const char *zinf_class_name(enum zinf_class c);
static inline enum zinf_tier zinf_class_tier(enum zinf_class c)
{
    return c <= ZINF_CLASS_ACT ? ZINF_TIER_DEVICE : ZINF_TIER_HOST;
}

enum zinf_space {
    ZINF_AT_SLOT,                    /* sub = class, index = slot */
    ZINF_AT_WEIGHT_HOST, ZINF_AT_WEIGHT_DEVICE,      /* homes; index = unit; part = grain, or 0: the whole device home */
    ZINF_AT_STATE_HOST, ZINF_AT_STATE_DEVICE,        /* homes; index = grain */
    ZINF_AT_GRAD_HOST, ZINF_AT_GRAD_DEVICE,          /* homes; index = unit */
    ZINF_AT_EXTENT_WEIGHT, ZINF_AT_EXTENT_STATE,     /* drive; index = grain, sub = role */
    ZINF_NR_SPACES
};
enum zinf_role { ZINF_ROLE_CURRENT, ZINF_ROLE_ALTERNATE };

struct zinf_loc {
    uint8_t  space;      /* enum zinf_space */
    uint8_t  sub;        /* class or role, else 0 */
    uint32_t index;
};

/* What is at a location: for the checker, traces and messages. */
enum zinf_object_kind {
    ZINF_OBJ_WEIGHT /* unit */, ZINF_OBJ_STATE /* grain */, ZINF_OBJ_GRAD /* unit */, ZINF_OBJ_ACCUM /* unit */,
    ZINF_OBJ_X /* layer, micro */, ZINF_OBJ_DX /* micro */
};
struct zinf_access {
    struct zinf_loc loc;
    uint32_t part;
    uint8_t  object;     /* enum zinf_object_kind */
    uint32_t a, b;       /* its numbers */
    int32_t  version;
};

#define ZINF_NONE UINT32_MAX

/* The accesses of every kind come in this order (rd | wr), which the executor relies on. part is 0 unless said
 * otherwise. A part that is a grain stands at grains[part].first_elem within its unit, in a WEIGHT slot as in a home:
 *   READ STATE       EXTENT_STATE                  | STATE slot
 *   READ WEIGHTS     EXTENT_WEIGHT of each grain   | WEIGHT slot, part = each grain
 *   UPDATE           grad home, state (slot or home), weights part (slot or home) | state, weights part
 *                    lane cpu; lane compute when the state is homed on the device. The weights part is the grain, on the
 *                    device too
 *   WRITE GRAIN      [state slot,] [weights part]  | [EXTENT_STATE alternate,] [EXTENT_WEIGHT alternate]
 *   UPLOAD WEIGHTS   weights, part = each grain    | UNIT slot or WEIGHT_DEVICE home
 *   UPLOAD ROWS      weights host home of the embedding, part = each grain | ACT slot
 *   UPLOAD INPUT                                   | ACT slot
 *   FORWARD          weights, ACT x                | ACT y   (layer = nr_layers: the loss, evaluation only: no wr)
 *   DOWNLOAD CKPT    ACT                           | CKPT slot
 *   UPLOAD CKPT      CKPT slot                     | ACT
 *   BACKWARD head    weights, ACT x [, ACCUM]      | ACT dx, ACCUM     (layer = nr_layers: loss forward and backward; dx is
 *                                                                      another slot than x)
 *   BACKWARD layer   weights, ACT x, ACT dx [, ACCUM] | ACT dx, ACCUM  (ACCUM is read from the second micro-batch on; dx is
 *                                                                      replaced in its slot, ACCUM likewise)
 *   REDUCE           ACCUM                         | GRAD slot or GRAD_DEVICE home
 *   DOWNLOAD GRAD    GRAD slot                     | GRAD_HOST home
 *   DOWNLOAD ROWS    ACT dx                        | ROWS slot
 *   ADD              ROWS slot [, GRAD_HOST]       | GRAD_HOST          (GRAD_HOST is read unless this is the first addend)
 *   COUNT, NORM      nothing; explicit dependencies. COUNT follows every UPDATE and comes before every UPLOAD ROWS or INPUT
 *                    and every loss; NORM follows every REDUCE, DOWNLOAD GRAD and ADD
 *   COMMIT           nothing; lane sync. It follows every WRITE, names each of them, and nothing in its schedule waits
 *                    for it. When it is done, the state with all updates of t-1 and its record are durable
 * "weights" of FORWARD and BACKWARD is the UNIT slot or the WEIGHT_DEVICE home. A head without parameters has no weights access,
 * no ACCUM and no REDUCE. A unit of 0 elements has weights and ACCUM accesses of 0 bytes and no other operation. */
struct zinf_op {
    uint8_t  kind, lane, what;
    bool     last;                   /* ADD: the last addend (the gradient is final and is rounded now) */
    uint32_t layer, unit, grain, micro;   /* ZINF_NONE where it has none; layer nr_layers = head and loss */
    uint64_t nbytes;                 /* moved by a transfer, else 0 */
    double   seconds;                /* predicted at the plan's rates */
    uint32_t rd, nr_rd, wr, nr_wr;   /* ranges in schedule.accesses */
    uint32_t dep, nr_deps;           /* range in schedule.deps: ids of earlier operations */
    uint32_t acq, nr_acq;            /* range in schedule.slots: slots it is the first to touch in this occupancy */
    uint32_t free, nr_free;          /* range in schedule.slots: slots whose last user in list order this is */
};

enum zinf_sched_kind { ZINF_SCHED_FIRST,      /* nothing pending: after start, resume, flush, evaluation */
                       ZINF_SCHED_STEADY,     /* the updates of t-1 are pending */
                       ZINF_SCHED_FLUSH,      /* pending updates and nothing else */
                       ZINF_SCHED_EVAL,       /* forward and loss of nr_micro micro-batches; nothing pending before or after */
                       ZINF_SCHED_SKIP,       /* as first, after a skip: nothing pending, but t-1 has its record */
                       ZINF_SCHED_FLUSH_SKIP, /* the commit of a skip and nothing else */
                       ZINF_NR_SCHED_KINDS };
const char *zinf_sched_kind_name(enum zinf_sched_kind k);

/* Flags of a schedule. A plan without extents has neither.
 *   COMMITS   steady, flush, skip, flush_skip: a COMMIT after the last WRITE. Cleared for first and eval: nothing new.
 *   DIRTY     the chain is dirty at entry: all READs take ALTERNATE.
 * durability step = COMMITS always; every N = in the schedule after every Nth iteration, and in a flush; none = never.
 *
 * What may follow what (zinf_schedule_check refuses the rest); the verdict of the iteration before chooses the kind:
 *   after                                  comes
 *   first, steady, skip; verdict ok, clip  steady, flush
 *   first, steady, skip; verdict skip      skip, flush_skip
 *   flush, flush_skip, eval                first, eval
 * and the next one's DIRTY says how the one before leaves the chain:
 *   COMMITS                                clean
 *   steady or flush without COMMITS        dirty
 *   any other                              as it found it */
enum zinf_sched_flags { ZINF_SCHED_COMMITS = 1, ZINF_SCHED_DIRTY = 2 };

struct zinf_sched_plan;
/* What is left of `flags` for this kind under this plan: what zinf_schedule.flags will say. */
uint32_t zinf_sched_flags_for(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags);
/* Whether a chain with extents is dirty after a schedule of this kind with these flags. */
static inline bool zinf_sched_leaves_dirty(enum zinf_sched_kind kind, uint32_t flags)
{
    bool writes = kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_FLUSH;
    return !(flags & ZINF_SCHED_COMMITS) && (writes || (flags & ZINF_SCHED_DIRTY));
}

struct zinf_schedule {
    enum zinf_sched_kind kind;
    uint32_t flags;                   /* enum zinf_sched_flags, those in force */
    struct zinf_op *ops;              uint32_t nr_ops;
    struct zinf_access *accesses;     uint32_t nr_accesses;
    uint32_t *deps;                   uint32_t nr_deps;
    struct zinf_loc *slots;           uint32_t nr_slots;
    uint32_t nr_grains;
    uint8_t *flips;                   /* nr_grains entries: 1 = its extent roles swap at the seam: the record of COMMIT
                                         names its ALTERNATE. Without COMMIT all 0 */
    double   seconds;                 /* predicted */
};

/* The model as the schedule sees it. Units are numbered 0 .. nr_units-1 in the order their updates run: embedding,
 * layers, head (a tied head is the embedding's unit). */
struct zinf_sched_spec {
    uint32_t nr_units;
    const uint64_t *unit_elems;       /* padded to a multiple of 4096 (ZINF_NORM_CHUNK); 0 is legal */
    uint32_t embed_unit;              /* ZINF_NONE: the chain has no embedding (input comes with the batch) */
    uint32_t nr_layers;
    const uint32_t *layer_units;
    uint32_t head_unit;               /* == embed_unit when tied; ZINF_NONE: the loss has no parameters */
    uint32_t nr_micro;                /* micro-batches per step (gradient accumulation) */
    uint64_t act_nbytes;              /* one ACT slot */
    uint32_t weight_nbytes;           /* per element: 2 (bf16) or 4 */
    uint32_t state_nbytes;            /* per element, beside the weight: bf16 10 (lo m v), fp32 8 (m v); SGD 2 or 0 */
    uint32_t grad_nbytes;             /* per element of a rounded gradient: 2 or 4; the embedding's has 4 */
    uint64_t grain_elems;             /* of one READ/UPDATE/WRITE; multiple of 4096; grains never cross units */
    enum zinf_tier weight_tier;       /* home of the weights */
    enum zinf_tier state_tier;        /* home of the rest of the state */
    uint64_t device_fixed_nbytes;     /* outside the classes: work space, converted tiles, tables */
    uint64_t host_fixed_nbytes;       /* outside the classes: batches, norms, logs */
};
/* Rules of homes: weights are homed no higher than the device and no lower than the state needs: with state on the
 * device the weights are on the device too. The embedding's weights always have a host home, its gradient a host home
 * of 4 B/element, and its state a host home when state_tier is DEVICE (it updates on the cpu lane). state_tier NVME
 * means extents hold weights and state whatever weight_tier is; state_tier HOST and weight_tier NVME: extents hold
 * weights only. With weights on the device and their state below it, weights have a host home too when the state is on
 * the host, for the update to work on. state_nbytes 0: every grain has a state home of 0 bytes and extents hold weights
 * only. A unit of 0 elements that a layer or the head uses has a device home of 0 bytes. */

struct zinf_sched_policy {
    uint32_t window;                  /* unit slots wanted beyond the minimum before homes are filled; 0 = default: 1 */
    bool     use_spare_host;          /* RAM left in the budget keeps copies of weights that save reads */
};
extern const struct zinf_sched_policy zinf_sched_default_policy;      /* 1, true */
struct zinf_sched_rates {             /* bytes per second unless named otherwise */
    double read, write, h2d, d2h, add, reduce, update_elems, flops;
    uint64_t tokens_micro;            /* per micro-batch, for the time of a layer */
    double sync_s;                    /* seconds of a COMMIT: drive flush and record */
};
extern const struct zinf_sched_rates zinf_sched_default_rates;
struct zinf_sched_budget { uint64_t device_nbytes, host_nbytes; };

struct zinf_sched_grain { uint32_t unit; uint64_t first_elem, nr_elems; };   /* first_elem within the unit */

struct zinf_sched_plan {              /* owns everything it points to */
    struct zinf_sched_spec spec;      /* deep copy */
    struct zinf_sched_policy policy;
    struct zinf_sched_rates rates;
    struct zinf_sched_budget budget;
    uint32_t nr_grains;
    struct zinf_sched_grain *grains;  /* in unit order */
    uint32_t *unit_first_grain;       /* nr_units + 1 entries */
    uint64_t class_nbytes[ZINF_NR_CLASSES];   /* of one slot, aligned (4096) */
    uint32_t class_count[ZINF_NR_CLASSES];
    uint8_t *weight_host, *weight_device, *grad_host, *grad_device;   /* per unit: has this home */
    uint8_t *state_host, *state_device;                               /* per grain */
    bool     extents_weight, extents_state;
    uint32_t keep_device, keep_host;  /* last layers whose UNIT / WEIGHT slots stay through the turn-around */
    uint64_t minimum[2];              /* bytes per tier (DEVICE, HOST) below which nothing runs */
    uint64_t use[2];                  /* the ledger: sum of count x size, homes, fixed; <= budget */
    uint64_t drive_nbytes;            /* both extents of every grain */
};

/* Home sizes: a unit's weights unit_elems * weight_nbytes, a grain's state nr_elems * state_nbytes, a unit's gradient
 * unit_elems * (embedding ? 4 : grad_nbytes); each rounded up to 4096. Also one extent of a grain; 0 for a slot. Says
 * nothing of whether the plan has that home. */
uint64_t zinf_plan_home_nbytes(const struct zinf_sched_plan *p, enum zinf_space space, uint32_t index);

/* policy and rates may be NULL: the defaults.
 * Returns 0; -ENOSPC with "needs N more bytes of device memory (minimum M, budget B): raise
 * zinf.device_memory" or the same for host; -EINVAL for a spec that makes no sense; -ENOMEM. The minimum
 * is exact: with exactly that budget it builds. */
int  zinf_plan_make(const struct zinf_sched_spec *spec, const struct zinf_sched_policy *policy,
                    const struct zinf_sched_rates *rates, const struct zinf_sched_budget *budget,
                    struct zinf_sched_plan **out, struct zinf_status *st);
void zinf_plan_free(struct zinf_sched_plan *p);          /* NULL is fine */
/* flags: enum zinf_sched_flags, those that mean nothing for the kind or plan being ignored. Returns 0, -EINVAL, -ENOMEM,
 * or -EDEADLK when the plan's counts were lowered. */
int  zinf_schedule_build(const struct zinf_sched_plan *p, enum zinf_sched_kind kind, uint32_t flags,
                         struct zinf_schedule **out, struct zinf_status *st);
void zinf_schedule_free(struct zinf_schedule *s);
/* Abstract execution of a chain (what may follow what: above; any kind and flags may begin). It proves that every input
 * is there and every order kept; that no WRITE touches an extent that the newest record names; that a COMMIT follows
 * every WRITE of its schedule and finds every grain at version 1 in the extent that its record will name; that a
 * schedule without updates leaves weights and state alone. Returns 0, -EINVAL with the first fault in words, or
 * -ENOMEM. */
int  zinf_schedule_check(const struct zinf_sched_plan *p, const struct zinf_schedule *const *chain, uint32_t nr,
                         struct zinf_status *st);
struct zinf_sim {
    double seconds;
    double busy[ZINF_NR_LANES];
    double *start, *end; /* per op of the chain; owned; may be NULL */
};
/* FIFO execution of the frozen lists at the plan's rates. start/end hold the sum of nr_ops entries or are NULL. */
int  zinf_schedule_simulate(const struct zinf_sched_plan *p, const struct zinf_schedule *const *chain, uint32_t nr,
                            struct zinf_sim *out);
/* "17 READ state unit 3 grain 4 -> STATE[1]" for messages and traces; returns buf. */
char *zinf_op_describe(const struct zinf_schedule *s, uint32_t op, char *buf, uint32_t buf_nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_SCHEDULE_H_ */
