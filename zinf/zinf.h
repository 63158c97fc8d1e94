/* zinf/zinf.h - the public C API: train a chain of layers whose state does not fit in device memory or in RAM.
 *
 *   struct zinf_trainer *t;
 *   zinf_trainer_open(&opts, &t, &st);
 *   while (...) zinf_trainer_step(t, &step, &st);
 *   zinf_trainer_export(t, "out/model", &st);
 *   zinf_trainer_close(t);
 *
 * The only header an application includes. Errors: 0 or -errno, with one line in struct zinf_status that
 * names what to change.
 * Threads: a trainer belongs to the thread that opened it; several trainers may live in one process. */
#ifndef ZINF_ZINF_H_
#define ZINF_ZINF_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"
#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_VERSION "0.1.0"
const char *zinf_version(void);

/* ---- a model is a chain of layers ----------------------------------------------------------------------------------
 *
 *   tokens -> [embedding] -> x0 -> layer 0 -> x1 -> ... -> layer n-1 -> xn -> head: loss
 *
 * Every boundary x is [rows, width] in the run's dtype, rows = batch * seq of one micro-batch. */

enum zinf_init { ZINF_INIT_ZERO, ZINF_INIT_ONE, ZINF_INIT_NORMAL };

struct zinf_param {
    const char *name;              /* unique in the chain: the name it has in a checkpoint */
    uint32_t nr_dims;              /* 0 .. 4 */
    uint64_t dims[4];              /* row-major */
    enum zinf_init init;
    float    std;                  /* NORMAL: deviation; element i of the Philox stream (seed, hash of name) */
};
uint64_t zinf_param_elems(const struct zinf_param *p);

/* What a layer function is given. Pointers are device pointers, valid until the function's work on the stream is
 * done. */
struct zinf_call {
    const struct zinf_device_ops *ops;      /* operations to build on: ops->gemm(stream, ...) */
    struct zinf_stream *stream;
    uint32_t batch, seq;                    /* rows = batch * seq */
    uint64_t rows, width;
    enum zinf_dtype dtype;                  /* of params, x, y, dx */
    const void *const *params;              /* in the order of zinf_layer.params */
    const void *x;                          /* [rows, width] */
    void       *y;                          /* forward: [rows, width], overwritten */
    void       *dx;                         /* backward: gradient of y on entry, of x on return; head: written */
    float *const *grads;                    /* backward: fp32 accumulators, as params */
    float       beta;                       /* backward: 0 = overwrite the accumulators (they hold garbage), 1 = add */
    void       *work;                       /* work_nbytes bytes of scratch, 4096-aligned, garbage on entry */
    const void *constants;                  /* what zinf_layer.constants wrote at start-up */
    const int32_t *targets;                 /* head: [rows], host-visible; negative = not trained */
    float       grad_scale;                 /* head: multiplies the loss gradient of every row (1 / trained tokens) */
    float      *row_loss;                   /* head: [rows], host-visible, written; 0 for rows not trained */
};

struct zinf_layer {
    const struct zinf_param *params;        /* the layer's unit: gathered, used and dropped together */
    uint32_t nr_params;
    const void *ctx;                        /* the layer's own */
    /* Required. Scratch bytes forward and backward need for one micro-batch. */
    size_t (*work_nbytes)(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width);
    /* Optional: constant tables of the layer (the same for equal ctx), written once. NULL = none. */
    size_t (*constants_nbytes)(const struct zinf_layer *l, uint32_t batch, uint32_t seq);
    void   (*constants)(const struct zinf_layer *l, uint32_t batch, uint32_t seq, void *out);
    /* Required. Return 0 or -errno. backward is given x and the gradient of y and recomputes what it needs. A head has
     * no y: forward computes row_loss only; backward computes row_loss, dx (written) and grads. */
    int (*forward)(const struct zinf_layer *l, const struct zinf_call *c);
    int (*backward)(const struct zinf_layer *l, const struct zinf_call *c);
};

struct zinf_chain {
    uint64_t width;                         /* of every boundary */
    const struct zinf_param *embedding;     /* [vocab, width]; NULL: the data source gives x0 itself */
    const struct zinf_layer *layers;        /* nr_layers */
    uint32_t nr_layers;
    const struct zinf_layer *head;
    bool tied;                              /* head->params[0] is the embedding (same name and shape): one unit */
    uint64_t vocab;                         /* tokens and targets must be below; 0 = not checked */
    double   flops_per_token;               /* forward + backward as the field counts them (6 x parameters + attention);
                                             * for reports */
};

/* ---- data -----------------------------------------------------------------------------------------------------------
 * A source answers by sample number, a pure function, so that there is no position to save. */
enum zinf_split { ZINF_TRAIN, ZINF_EVAL };
struct zinf_source {
    void *ctx;
    /* Required. Samples (windows of seq tokens) in a split: one epoch. */
    uint64_t (*nr_samples)(void *ctx, enum zinf_split split);
    /* Required. Sample `index` (training: in the order of epoch index / nr_samples; any index is legal) into
     * tokens[seq] and targets[seq]. tokens is NULL for a chain without an embedding: then input[seq * width] (fp32) is
     * filled instead. */
    int (*fetch)(void *ctx, enum zinf_split split, uint64_t index, int32_t *tokens, int32_t *targets, float *input,
                 struct zinf_status *st);
};

/* ---- training ---------------------------------------------------------------------------------------------------- */
struct zinf_trainer;

struct zinf_trainer_opts {                  /* zero in a field = its default */
    const char *config_path;                /* ds_config.json; or */
    const char *config_text;                /* its text (used when config_path is NULL) */
    const char *const *sets;                /* "path.to.key=value" overrides */
    uint32_t nr_sets;
    const char *model;                      /* Hugging Face folder or config.json; or */
    const struct zinf_chain *chain;         /* a chain of your own (borrowed until close) */
    const char *data;                       /* text file or folder; or */
    const struct zinf_source *source;       /* a source of your own (borrowed until close) */
    const char *eval_data;                  /* NULL: the last 10 % of data is held out */
    uint32_t seq_len;                       /* default: min(1024, the model's maximum) */
    /* Where the state comes from; at most one of the three, none = random. Borrowed until open returns. */
    const char *const *resume_dirs;         /* run folders on the drives, as zinf_trainer_state_dir gave them: go on exactly */
    uint32_t nr_resume_dirs;
    const char *load_checkpoint;            /* a folder that save_every made: go on from there with any layout */
    const char *init_from;                  /* Hugging Face folder: weights only, everything else starts new */
    /* Named checkpoints, written while training goes on. */
    const char *checkpoint_dir;             /* must exist; borrowed until close; NULL = none */
    uint64_t save_every;                    /* applied updates between two; 0 = none */
    uint32_t keep;                          /* the newest so many stay; 0 = all */
    bool serial;                            /* one operation at a time */
    const struct zinf_log *log;             /* borrowed until close; NULL = silent */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);   /* start-up; may be NULL */
    void *progress_ctx;
    /* A new run's folders on the drives are complete, but for the record that makes a later start leave them alone: note
     * zinf_trainer_state_dir now, and no kill can leave folders that nobody knows of. May be NULL; not 0 ends the start. */
    int (*claim)(void *ctx, const struct zinf_trainer *t, struct zinf_status *st);
    void *claim_ctx;
};

enum { ZINF_API_TIERS = 3, ZINF_API_LANES = 8 };   /* device, host, nvme; lanes in the order of swapper/schedule.h */
struct zinf_step_lane { double busy_s, stall_s; uint64_t nbytes; };
struct zinf_step {
    uint64_t step, iteration;               /* updates applied, batches consumed: they differ by the skipped ones */
    uint64_t durable_step;                  /* applied updates that a crash now would keep; 0 without durability */
    double   loss;                          /* mean over the step's trained tokens */
    double   grad_norm;                     /* before clipping */
    bool     clipped, skipped;              /* skipped: the gradient was not finite; nothing was changed */
    double   lr;
    uint64_t tokens;                        /* trained tokens */
    double   seconds, tokens_per_s, tflops;
    struct zinf_step_lane lane[ZINF_API_LANES];
    int      bound;                         /* lane with the largest busy share */
    double   bound_fraction;                /* its busy time / seconds */
    uint64_t drive_read_nbytes, drive_written_nbytes;   /* since the start, from completions */
};

struct zinf_run_info {
    uint64_t nr_params;                     /* elements, padding not counted */
    uint64_t first_step;                    /* updates applied before this trainer was opened: > 0 after resume or load */
    bool     durable;                       /* the run folders hold records: resume_dirs can be used */
    double   flush_s;                       /* how long the last flush took; 0 = none yet */
    uint64_t steps_per_epoch;               /* whole batches in the training samples, at least 1 */
    uint64_t budget_nbytes[ZINF_API_TIERS]; /* nvme: free space at start */
    uint64_t use_nbytes[ZINF_API_TIERS];    /* the plan's ledger; nvme: files */
    uint64_t peak_nbytes[ZINF_API_TIERS];   /* occupied at once so far */
    uint64_t minimum_nbytes[2];             /* device, host: the least this run could do with */
    uint64_t base_rss_nbytes, peak_rss_nbytes;   /* besides the arenas, after step 1; whole process since start */
    uint64_t drive_read_nbytes, drive_written_nbytes;
    uint32_t threads;
    bool     direct;                        /* O_DIRECT on every drive */
    char     io_backend[16];                /* "io_uring" ... or "none" */
    char     device[64];                    /* "cpu avx2 gemm=openblas(Zen)" */
    char     state_dir[1024];               /* first run folder, "" without */
};

/* Opens everything, checks everything, initialises the state. -EINVAL: configuration, model or budgets cannot work
 * (nothing was written); else -errno of what failed. On failure *out is NULL. */
int  zinf_trainer_open(const struct zinf_trainer_opts *opts, struct zinf_trainer **out, struct zinf_status *st);
/* One optimizer step: every micro-batch, exact clipping, the update (its last part runs at the start of the next step or in
 * the next flush). A gradient that is not finite skips the update with a line that names iteration, rank and first bad tensor;
 * 50 in a row end the run with -EDOM. -ECANCELED after zinf_trainer_stop. */
int  zinf_trainer_step(struct zinf_trainer *t, struct zinf_step *out, struct zinf_status *st);
/* An evaluation that runs now, or begins later, ends with -ECANCELED after its current batch. now: so does a step, in the
 * middle: the trainer can only be closed then, and what is committed stays. Async-signal-safe; any thread. */
void zinf_trainer_stop(struct zinf_trainer *t, bool now);
/* Applies pending updates and, with durability, commits them: nothing is left to repeat. */
int  zinf_trainer_flush(struct zinf_trainer *t, struct zinf_status *st);
/* The i-th run folder on the drives, NULL past the end; for resume_dirs. */
const char *zinf_trainer_state_dir(const struct zinf_trainer *t, uint32_t i);
/* Mean loss over the targets of the evaluation split; pending updates are applied first. max_samples 0 = all. */
int  zinf_trainer_evaluate(struct zinf_trainer *t, uint64_t max_samples, double *loss, uint64_t *tokens,
                           struct zinf_status *st);
/* Hugging Face folder: model.safetensors and, for a model that had one, config.json. dtype is the run's. dir must not
 * exist or be an export. One tensor in RAM at a time. */
int  zinf_trainer_export(struct zinf_trainer *t, const char *dir, struct zinf_status *st);
void zinf_trainer_info(struct zinf_trainer *t, struct zinf_run_info *out);
/* One line per class of state: name, tier, bytes (the placement report). */
void zinf_trainer_placement(struct zinf_trainer *t, void (*line)(void *ctx, const char *text), void *ctx);
/* The state is not needed any more: close removes the run folders. */
void zinf_trainer_discard(struct zinf_trainer *t);
/* Waits for a checkpoint that is being saved. Run folders that hold a record stay on the drives, others are removed. NULL is
 * fine. */
void zinf_trainer_close(struct zinf_trainer *t);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_ZINF_H_ */
