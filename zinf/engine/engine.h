/* zinf/engine/engine.h - inside the engine: what the files of this folder share. Applications use zinf/zinf.h.
 *
 *   trainer.c    opens everything in order, runs steps, evaluation and the end
 *   partition.c  chain -> units            setup.c   budgets, plan, arenas, areas
 *   batch.c      samples -> micro-batches  init.c    first values of the state; export.c  the way back
 *   commit.c     fingerprint, records, resume          save.c  named checkpoints while training goes on
 *   exec.c       lanes: which thread or stream runs an operation;  ops.c  what each operation computes
 *   verdict.c    the one record per iteration that decides the next update */
#ifndef ZINF_ENGINE_ENGINE_H_
#define ZINF_ENGINE_ENGINE_H_

#include "kernels/device.h"
#include "kernels/update.h"
#include "swapper/mover.h"
#include "swapper/record.h"
#include "swapper/rundir.h"
#include "swapper/schedule.h"
#include "swapper/store.h"
#include "zinf/base/memory.h"
#include "zinf/base/pool.h"
#include "zinf/config/config.h"
#include "zinf/data/text.h"
#include "zinf/engine/partition.h"
#include "zinf/engine/verdict.h"
#include "zinf/model/model.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What only tests change. */
struct zinf_engine_hooks {
    bool poison;                        /* slots are filled with NaN before their first user writes them */
    uint32_t delay_us;                  /* every operation first sleeps a random time up to this */
    uint64_t delay_seed;
    uint64_t nan_first, nan_last;       /* iterations whose gradient is made NaN; 0 = none */
    const struct zinf_io_ops *io_ops;   /* overrides zinf.io_backend */
    const void *io_arg;
};
int zinf_trainer_open_hooked(const struct zinf_trainer_opts *opts, const struct zinf_engine_hooks *hooks,
                             struct zinf_trainer **out, struct zinf_status *st);

/* The step's micro-batches and what the host learns from them; host_fixed memory, carved in setup.c. */
struct zinf_batch {
    uint32_t nr_micro, batch, seq;
    uint64_t rows;                      /* batch * seq: rows of one micro-batch */
    int32_t *tokens, *targets;          /* [nr_micro][rows] */
    float   *input;                     /* [nr_micro][rows * width]; chains without an embedding */
    float   *row_loss;                  /* [nr_micro][rows] */
    uint64_t trained;                   /* targets >= 0 */
};

struct zinf_exec;                       /* exec.c */
struct zinf_save;                       /* save.c */

/* Where the first values come from: elements [first, first + n) of parameter param (a number in the partition). m and v hold
 * zeros on entry. Called from pool workers. */
struct zinf_state_source {
    int (*read)(void *ctx, uint32_t param, uint64_t first, uint64_t n, float *master, float *m, float *v, struct zinf_status *st);
    void *ctx;
};

/* What the last verdict left to do at the start of the next schedule. */
enum zinf_owed { ZINF_OWED_NOTHING, ZINF_OWED_UPDATES, ZINF_OWED_SKIP };

struct zinf_trainer {
    struct zinf_trainer_opts opts;
    struct zinf_engine_hooks hooks;
    struct zinf_config config;
    struct zinf_model *model;           /* owned; NULL when the chain came from outside */
    struct zinf_text *text;             /* owned; NULL when the source came from outside */
    const struct zinf_chain *chain;
    const struct zinf_source *source;
    struct zinf_partition part;
    enum zinf_isa isa;
    uint32_t threads;
    struct zinf_optimizer_params optimizer;

    struct zinf_pool *pool;
    const struct zinf_device_ops *dev_ops;
    struct zinf_device *dev;
    struct zinf_sched_plan *plan;
    struct zinf_mapping arena[2];       /* DEVICE, HOST */
    struct zinf_rundir *rundirs;
    uint32_t nr_rundirs;
    struct zinf_store *store;
    struct zinf_mover *mover;
    struct zinf_lane_impl lanes[ZINF_NR_LANES];
    struct zinf_exec *exec;
    struct zinf_schedule *sched[ZINF_NR_SCHED_KINDS][4];    /* by flags; NULL = this run never needs it */

    /* device_fixed */
    void *work, *scratch;
    const void **constants;             /* per layer, head last */
    /* host_fixed */
    struct zinf_batch batch;
    struct zinf_norm_out *norms;        /* per unit */
    uint32_t *add_order;                /* [rows] */

    struct zinf_verdict verdict;        /* V of the last iteration */
    struct zinf_update_scalars scalars; /* of the pending updates */
    enum zinf_owed owed;
    bool dirty;                         /* extents hold writes that no record names */
    bool durable;                       /* commits are made: state is on drives and zinf.durability is not none */
    bool resumed;                       /* the drives held the state at open */
    bool committed;                     /* the run folders hold a record */
    char skip_reason[256];              /* of the last skip */
    bool stopping;                      /* zinf_trainer_stop; atomic */
    bool discard;                       /* zinf_trainer_discard */
    bool broken;                        /* a step failed: nothing but close is legal */
    uint64_t durable_step, first_step;
    double flush_s;
    char fingerprint[1024];
    struct zinf_record record;          /* resume: what the drives hold; freed when open is done */
    struct zinf_save *save;             /* NULL = no checkpoints */
    bool saving;                        /* updates write to the checkpoint too */
    uint32_t peak_slots[ZINF_NR_CLASSES];
    uint64_t budget_nbytes[3], base_rss_nbytes;
    size_t scratch_nbytes;
};

/* batch.c */
int zinf_batch_fill(struct zinf_trainer *t, enum zinf_split split, uint64_t first_sample, uint64_t end_sample,
                    struct zinf_status *st);
double zinf_batch_loss(const struct zinf_batch *b);              /* sum over rows, in order */

/* setup.c */
int zinf_setup_plan(struct zinf_trainer *t, struct zinf_status *st);
int zinf_setup_memory(struct zinf_trainer *t, struct zinf_status *st);
int zinf_setup_store(struct zinf_trainer *t, struct zinf_status *st);

/* init.c */
int zinf_state_init(struct zinf_trainer *t, const struct zinf_state_source *from, struct zinf_status *st);

/* export.c */
int zinf_state_export(struct zinf_trainer *t, const char *dir, struct zinf_status *st);

/* commit.c */
int  zinf_fingerprint_make(struct zinf_trainer *t, struct zinf_status *st);
/* Reads the record of opts.resume_dirs and takes their locks. */
int  zinf_resume_record(struct zinf_trainer *t, struct zinf_status *st);
/* First values from opts, or the copies of what the drives hold; record 0. */
int  zinf_resume_state(struct zinf_trainer *t, struct zinf_status *st);
/* JSON text of a checkpoint's "run" object; NULL = out of memory. */
char *zinf_state_meta(const struct zinf_trainer *t, const struct zinf_verdict *v);
/* Whether the schedule that applies iteration's update ends in a COMMIT. */
bool zinf_commit_due(const struct zinf_trainer *t, uint64_t iteration);

/* save.c: begin -> grain for every grain -> end; then a thread finishes. */
int  zinf_save_open(struct zinf_trainer *t, struct zinf_save **out, struct zinf_status *st);
int  zinf_save_begin(struct zinf_save *s, const struct zinf_verdict *v, struct zinf_status *st);
int  zinf_save_grain(struct zinf_save *s, uint32_t grain, const struct zinf_update *u, struct zinf_status *st);
int  zinf_save_end(struct zinf_save *s, struct zinf_status *st);
int  zinf_save_wait(struct zinf_save *s, struct zinf_status *st);    /* for the one being finished; NULL is fine */
void zinf_save_close(struct zinf_save *s);

/* exec.c: fills t->lanes. */
int  zinf_exec_open(struct zinf_trainer *t, struct zinf_exec **out, struct zinf_status *st);
void zinf_exec_close(struct zinf_exec *e);
/* The mover sees a stream operation from issue to completion, its wait in the queue included; this replaces the busy
 * time of stream lanes by what their operations took. Call once after each run. */
void zinf_exec_take_busy(struct zinf_exec *e, struct zinf_mover_stats *stats);
/* After a failed run of s: the line of the operation that failed, where it was one of ours; else st is unchanged. */
void zinf_exec_failure(const struct zinf_exec *e, const struct zinf_schedule *s, struct zinf_status *st);

/* ops.c: the body of one operation. s is its stream, or NULL on the cpu lane (a pool worker). Returns 0
 * or -errno, filling st. */
int zinf_op_run(struct zinf_trainer *t, const struct zinf_schedule *sched, uint32_t op, struct zinf_stream *s,
                struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_ENGINE_ENGINE_H_ */
