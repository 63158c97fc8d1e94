/* zinf/config/config.h - a run's configuration: DeepSpeed's ds_config.json and zinf's own keys, checked and resolved.
 *
 * One table of keys (keys.c) drives parsing, checks and --explain. Unknown key = error with line, path and nearest
 * key. */
#ifndef ZINF_CONFIG_CONFIG_H_
#define ZINF_CONFIG_CONFIG_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_settings;
enum zinf_offload { ZINF_OFFLOAD_NONE, ZINF_OFFLOAD_CPU, ZINF_OFFLOAD_NVME };
enum zinf_opt_type { ZINF_OPT_ADAM, ZINF_OPT_ADAMW, ZINF_OPT_SGD };

#define ZINF_AUTO_U64 UINT64_MAX      /* "auto": the engine resolves it */
#define ZINF_MAX_NVME_PATHS 16

/* Everything is resolved except what only the engine can know (ZINF_AUTO_U64). Strings are owned by the config. The
 * homes obey the "Rules of homes" of swapper/schedule.h: with the optimizer state on the device offload_param is NONE
 * whatever was given. */
struct zinf_config {
    uint32_t train_batch_size, micro_batch_size, gradient_accumulation_steps;   /* product rule holds; world is 1 */
    double   gradient_clipping;                 /* 0 = off; default 1.0 */
    enum zinf_dtype dtype;                      /* bf16.enabled ? BF16 : F32 */
    enum zinf_dtype grad_accum_dtype;           /* data_types.grad_accum_dtype, null = dtype */
    uint64_t steps_per_print;                   /* 0 = every step */
    struct {
        enum zinf_opt_type type;                /* what runs: "Adam" with adam_w_mode is ADAMW */
        bool   adam_w_mode, bias_correction;    /* adam_w_mode: type is ADAMW */
        double lr, beta1, beta2, eps, weight_decay;
    } optimizer;
    uint32_t zero_stage;
    enum zinf_offload offload_optimizer, offload_param;
    uint64_t sub_group_size;
    struct { uint64_t block_size; uint32_t queue_depth, nr_threads; } aio;
    char    *nvme_paths[ZINF_MAX_NVME_PATHS];   /* zinf.nvme_paths, else the offload sections' nvme_path */
    uint32_t nr_nvme_paths;
    /* zinf.* */
    char     device[16];                        /* "auto" "cpu" */
    uint64_t device_memory, host_memory;        /* bytes or ZINF_AUTO_U64 */
    char     io_backend[16];                    /* "auto" "io_uring" "threads" "mem" */
    uint64_t block_elems;                       /* or ZINF_AUTO_U64 */
    uint64_t threads;                           /* or ZINF_AUTO_U64 */
    uint64_t seed;
    bool     keep_state;
    uint32_t durability_every;                  /* zinf.durability: "step" = 1, {"every": N} = N, "none" = 0 */
    bool     sync_power;                        /* zinf.sync: "power", else "process" */
    bool     checksum;                          /* zinf.checksum */
    bool     direct;                            /* zinf.o_direct: "auto" (true) or false */
    struct zinf_settings *settings;             /* every key's value and where it came from, for explain */
};

/* path or text (one of them NULL; name is for messages when text is given). sets: "path.to.key=value" strings (value is
 * JSON, or a bare word taken as a string), applied over the file in their order; a section is merged, a null section is
 * as if absent. Notes (legacy keys, values that cannot matter, what "Adam" means, how the batch was split) go to log as
 * INFO.
 * Returns 0; on failure *out is zeroed, st has one line and the result is -EINVAL, -ENOMEM or what open(2) said. */
int  zinf_config_load(const char *path, const char *text, const char *name, const char *const *sets, uint32_t nr_sets,
                      const struct zinf_log *log, struct zinf_config *out, struct zinf_status *st);
void zinf_config_free(struct zinf_config *c);      /* safe on a zeroed one */
/* One line per value that the run follows, and per key that was given: "path = value  # origin" (file:line, auto,
 * default, --set). */
void zinf_config_explain(const struct zinf_config *c, FILE *to);
/* One line per known key: path, type, default, what it does. Defaults are those of DeepSpeed 0.19. */
void zinf_config_list_keys(FILE *to);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_CONFIG_H_ */
