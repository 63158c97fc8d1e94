/* zinf/config/keys.c - the table of keys: DeepSpeed 0.19's, and zinf's own. */
#include "zinf/config/keys.h"

#include <stddef.h>
#include <string.h>

#define U32  4294967295.0
#define I64  9223372036854775807.0
#define BIG  1e30              /* still a finite float */
#define STRICT ZINF_KEY_AUTO_DEFAULT

/* One line per key. The default stands as JSON text. */
#define BOOL(p, d, f, text) { .path = p, .type = ZINF_KEY_BOOL, .dflt = d, .flags = f, .doc = text }
#define RANGED(t, p, d, lo, hi, f, text) { .path = p, .type = t, .dflt = d, .min = lo, .max = hi, .flags = f, \
                                           .doc = text }
#define INT(p, d, lo, hi, f, text)    RANGED(ZINF_KEY_INT, p, d, lo, hi, f, text)
#define NUMBER(p, d, lo, hi, f, text) RANGED(ZINF_KEY_NUMBER, p, d, lo, hi, f, text)
#define SIZE(p, d, lo, hi, f, text)   RANGED(ZINF_KEY_SIZE, p, d, lo, hi, f, text)
#define CHOICE(p, d, c, l, f, text) \
    { .path = p, .type = ZINF_KEY_CHOICE, .dflt = d, .choices = c, .later = l, .flags = f, .doc = text }
#define PATH(p, f, text) { .path = p, .type = ZINF_KEY_TEXT, .dflt = "null", .flags = ZINF_KEY_NULL | (f), .doc = text }
#define ALIAS(p, to)     { .path = p, .same_as = to, .doc = "another spelling of " to }
/* Accepted, checked, and without effect. */
#define N_BOOL(p, d, w)         { .path = p, .type = ZINF_KEY_BOOL, .rule = ZINF_RULE_NOTE, .dflt = d, \
                                  .flags = STRICT | ZINF_KEY_NULL, .why = w, .doc = "no effect: " w }
#define N_NUMBER(p, d, lo, hi, w) { .path = p, .type = ZINF_KEY_NUMBER, .rule = ZINF_RULE_NOTE, .dflt = d, .min = lo, \
                                    .max = hi, .flags = STRICT | ZINF_KEY_NULL, .why = w, .doc = "no effect: " w }
#define N_INT(p, d, lo, w)      { .path = p, .type = ZINF_KEY_INT, .rule = ZINF_RULE_NOTE, .dflt = d, .min = lo, \
                                  .max = I64, .flags = STRICT | ZINF_KEY_NULL, .why = w, .doc = "no effect: " w }
#define N_FREE(p, w)            { .path = p, .type = ZINF_KEY_FREE, .rule = ZINF_RULE_NOTE, .why = w, \
                                  .doc = "no effect: " w }
/* Would change the run: only the default is taken. */
#define O_BOOL(p, d, w)         { .path = p, .type = ZINF_KEY_BOOL, .rule = ZINF_RULE_ONLY_DEFAULT, .dflt = d, \
                                  .flags = STRICT | ZINF_KEY_NULL, .why = w, .doc = "not supported: " w }
#define O_NUMBER(p, d, w)       { .path = p, .type = ZINF_KEY_NUMBER, .rule = ZINF_RULE_ONLY_DEFAULT, .dflt = d, \
                                  .min = -BIG, .max = BIG, .flags = STRICT | ZINF_KEY_NULL, .why = w, \
                                  .doc = "not supported: " w }
#define X_ENABLED(p, w)         { .path = p, .type = ZINF_KEY_FREE, .rule = ZINF_RULE_REFUSE_ENABLED, .why = w, \
                                  .doc = "not supported: " w }
#define X_PRESENT(p, w)         { .path = p, .type = ZINF_KEY_FREE, .rule = ZINF_RULE_REFUSE_PRESENT, .why = w, \
                                  .doc = "not supported: " w }

#define ONE_RANK   "one rank has nobody to exchange with"
#define SCHEDULE   "the schedule and the budgets decide when parameters move"
#define BUDGET     "zinf.host_memory and zinf.device_memory are the limits"
#define FP16_OFF   "only fp16 uses it, and fp16 is off"
#define RECOMPUTE  "every layer is recomputed from its checkpoint, which lies where the budgets allow"
#define REPORT     "zinf train --log writes every step as a JSON line"
#define PYTORCH    "it is about PyTorch modules"
#define SAVING     "zinf export writes the whole model"
#define NO_EFFECT  "it has no counterpart here"

const struct zinf_key zinf_keys[] = {
    INT("train_batch_size", NULL, 1, U32, ZINF_KEY_AUTO | ZINF_KEY_NULL,
        "samples per step = micro-batch x accumulation x ranks"),
    INT("train_micro_batch_size_per_gpu", NULL, 1, U32, ZINF_KEY_AUTO | ZINF_KEY_NULL,
        "samples per forward and backward"),
    INT("gradient_accumulation_steps", NULL, 1, U32, ZINF_KEY_AUTO | ZINF_KEY_NULL, "micro-batches per step"),
    NUMBER("gradient_clipping", "1.0", 0, BIG, 0,
           "largest global norm of the gradients; 0 = off (DeepSpeed before 2026-06: off)"),
    INT("steps_per_print", "null", 0, I64, ZINF_KEY_NULL, "steps between progress lines; null or 0 = every step"),
    O_BOOL("managed_gradient_accumulation", "true", "accumulation is always managed"),

    CHOICE("optimizer.type", "\"AdamW\"", "AdamW|Adam|SGD",
           "Adagrad|Lion|Lamb|Muon|OneBitAdam|ZeroOneAdam|OneBitLamb|MuAdam|MuAdamW|MuSGD", 0, "the optimizer"),
    NUMBER("optimizer.params.lr", "0.001", 0, BIG, 0, "learning rate"),
    { .path = "optimizer.params.betas", .type = ZINF_KEY_BETAS, .dflt = "[0.9,0.999]",
      .doc = "decay of Adam's two moments" },
    NUMBER("optimizer.params.eps", "1e-08", 0, BIG, 0, "added to the root of Adam's second moment"),
    NUMBER("optimizer.params.weight_decay", "0.0", 0, BIG, 0, "decay of every parameter (torch's AdamW has 0.01)"),
    BOOL("optimizer.params.bias_correction", "true", 0, "divide Adam's moments by 1 - beta^t"),
    BOOL("optimizer.params.adam_w_mode", "true", 0, "type Adam: decoupled decay (AdamW) instead of L2"),
    ALIAS("optimizer.params.max_grad_norm", "gradient_clipping"),
    N_BOOL("optimizer.params.torch_adam", "false", "there is one Adam, the same formula wherever it runs"),
    O_BOOL("optimizer.params.amsgrad", "false", "AMSGrad"),
    O_BOOL("optimizer.params.fp32_optimizer_states", "true", "moments that are not fp32"),
    O_NUMBER("optimizer.params.momentum", "0", "SGD with momentum"),
    O_NUMBER("optimizer.params.dampening", "0", "SGD with dampening"),
    O_BOOL("optimizer.params.nesterov", "false", "Nesterov momentum"),
    N_BOOL("optimizer.legacy_fusion", "false", NO_EFFECT),
    X_PRESENT("scheduler", "a learning-rate schedule"),

    BOOL("bf16.enabled", "false", STRICT | ZINF_KEY_NULL, "bf16 weights with an exact fp32 master; false = fp32"),
    N_BOOL("bf16.immediate_grad_update", "false", "gradients always accumulate in fp32"),
    N_BOOL("bf16.check_grad_overflow", "true", "gradients that are not finite are always found"),
    O_BOOL("bf16.bf16_master_weights_and_grads", "false", "a bf16 master"),
    O_BOOL("bf16.bf16_optimizer_states", "false", "bf16 moments"),
    ALIAS("bfloat16.enabled", "bf16.enabled"),
    ALIAS("bfloat16.immediate_grad_update", "bf16.immediate_grad_update"),
    ALIAS("bfloat16.check_grad_overflow", "bf16.check_grad_overflow"),
    ALIAS("bfloat16.bf16_master_weights_and_grads", "bf16.bf16_master_weights_and_grads"),
    ALIAS("bfloat16.bf16_optimizer_states", "bf16.bf16_optimizer_states"),
    { .path = "fp16.enabled", .type = ZINF_KEY_BOOL, .rule = ZINF_RULE_ONLY_DEFAULT, .dflt = "false",
      .flags = STRICT | ZINF_KEY_NULL, .why = "fp16",
      .instead = "use \"bf16\": {\"enabled\": true}", .doc = "fp16 (use bf16)" },
    N_BOOL("fp16.auto_cast", "false", FP16_OFF),
    N_NUMBER("fp16.loss_scale", "0", 0, BIG, FP16_OFF),
    N_INT("fp16.initial_scale_power", "16", 0, FP16_OFF),
    N_INT("fp16.loss_scale_window", "1000", 1, FP16_OFF),
    N_INT("fp16.hysteresis", "2", 0, FP16_OFF),
    N_BOOL("fp16.consecutive_hysteresis", "false", FP16_OFF),
    N_NUMBER("fp16.min_loss_scale", "1", 0, BIG, FP16_OFF),
    N_BOOL("fp16.fp16_master_weights_and_grads", "false", FP16_OFF),
    N_FREE("fp16.opt_level", FP16_OFF),
    X_ENABLED("amp", "amp"),
    X_ENABLED("torch_autocast", "torch_autocast"),
    CHOICE("data_types.grad_accum_dtype", "null", "fp32|bf16", "fp16", ZINF_KEY_NULL | STRICT,
           "gradients are rounded to it once accumulated (in fp32); null = the model's type"),
    X_PRESENT("data_types.param_dtype", "a parameter type of its own"),
    X_PRESENT("data_types.buffer_dtype", "a buffer type of its own"),

    INT("zero_optimization.stage", "0", 0, 3, STRICT,
        "ZeRO stage; offload of the optimizer needs 1, of parameters or to NVMe 3"),
    { .path = "zero_optimization", .type = ZINF_KEY_BOOL,
      .doc = "a section; as a boolean, the old spelling of stage 1 or 0" },
    INT("zero_optimization.sub_group_size", "1000000000", 1, I64, STRICT,
        "largest block of the update, in elements: speed only"),
    CHOICE("zero_optimization.offload_optimizer.device", "\"none\"", "none|cpu|nvme", NULL, STRICT | ZINF_KEY_NULL,
           "home of the optimizer state"),
    PATH("zero_optimization.offload_optimizer.nvme_path", STRICT, "folder for the state (zinf.nvme_paths wins)"),
    N_BOOL("zero_optimization.offload_optimizer.pin_memory", "true",
           "the host arena is always pinned where that helps"),
    N_INT("zero_optimization.offload_optimizer.buffer_count", "4", 1, BUDGET),
    N_INT("zero_optimization.offload_optimizer.buffer_size", "100000000", 1, BUDGET),
    N_BOOL("zero_optimization.offload_optimizer.pipeline_read", "false", "reads always overlap the update"),
    N_BOOL("zero_optimization.offload_optimizer.pipeline_write", "false", "writes always overlap the update"),
    N_BOOL("zero_optimization.offload_optimizer.pipeline", "false", "reads and writes always overlap the update"),
    N_BOOL("zero_optimization.offload_optimizer.fast_init", "false", "state is always written straight to its home"),
    O_NUMBER("zero_optimization.offload_optimizer.ratio", "1.0", "a partly offloaded optimizer"),
    O_BOOL("zero_optimization.offload_optimizer.super_offload", "false", "super_offload"),
    N_NUMBER("zero_optimization.offload_optimizer.cpuadam_cores_perc", "0.8", 0, 1,
             "zinf.threads is the number of threads"),
    CHOICE("zero_optimization.offload_param.device", "\"none\"", "none|cpu|nvme", NULL, STRICT | ZINF_KEY_NULL,
           "home of the weights"),
    PATH("zero_optimization.offload_param.nvme_path", STRICT, "folder for the weights (zinf.nvme_paths wins)"),
    N_BOOL("zero_optimization.offload_param.pin_memory", "true", "the host arena is always pinned where that helps"),
    N_INT("zero_optimization.offload_param.buffer_count", "5", 1, BUDGET),
    N_INT("zero_optimization.offload_param.buffer_size", "100000000", 1, BUDGET),
    N_INT("zero_optimization.offload_param.max_in_cpu", "1000000000", 0, BUDGET),
    { .path = "zero_optimization.cpu_offload", .type = ZINF_KEY_BOOL, .flags = ZINF_KEY_NULL,
      .doc = "old spelling of offload_optimizer.device cpu" },
    { .path = "zero_optimization.cpu_offload_param", .type = ZINF_KEY_BOOL, .flags = ZINF_KEY_NULL,
      .doc = "old spelling of offload_param.device cpu" },
    N_BOOL("zero_optimization.cpu_offload_use_pin_memory", "null", "the host arena is always pinned where that helps"),
    N_BOOL("zero_optimization.contiguous_gradients", "true", "a unit's gradient is always one buffer"),
    N_BOOL("zero_optimization.overlap_comm", "null", ONE_RANK),
    N_BOOL("zero_optimization.reduce_scatter", "true", ONE_RANK),
    N_INT("zero_optimization.reduce_bucket_size", "500000000", 1, ONE_RANK),
    N_INT("zero_optimization.allgather_bucket_size", "500000000", 1, ONE_RANK),
    N_BOOL("zero_optimization.allgather_partitions", "true", ONE_RANK),
    N_BOOL("zero_optimization.use_multi_rank_bucket_allreduce", "true", ONE_RANK),
    N_BOOL("zero_optimization.round_robin_gradients", "false", ONE_RANK),
    N_INT("zero_optimization.zero_hpz_partition_size", "1", 1, ONE_RANK),
    N_INT("zero_optimization.mics_shard_size", "-1", -1, ONE_RANK),
    N_BOOL("zero_optimization.mics_hierarchical_params_gather", "false", ONE_RANK),
    N_BOOL("zero_optimization.stage3_use_all_reduce_for_fetch_params", "false", ONE_RANK),
    N_BOOL("zero_optimization.stage3_allgather_sequential", "false", ONE_RANK),
    N_INT("zero_optimization.stage3_prefetch_bucket_size", "50000000", 0, SCHEDULE),
    ALIAS("zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size"),
    N_INT("zero_optimization.stage3_param_persistence_threshold", "100000", 0, SCHEDULE),
    ALIAS("zero_optimization.param_persistence_threshold", "zero_optimization.stage3_param_persistence_threshold"),
    N_INT("zero_optimization.stage3_model_persistence_threshold", "9223372036854775807", 0, SCHEDULE),
    N_INT("zero_optimization.stage3_max_live_parameters", "1000000000", 0, SCHEDULE),
    N_INT("zero_optimization.stage3_max_reuse_distance", "1000000000", 0, SCHEDULE),
    N_INT("zero_optimization.stage3_module_granularity_threshold", "0", 0, SCHEDULE),
    N_BOOL("zero_optimization.log_trace_cache_warnings", "false", SCHEDULE),
    N_BOOL("zero_optimization.stage3_gather_16bit_weights_on_model_save", "false", SAVING),
    ALIAS("zero_optimization.stage3_gather_fp16_weights_on_model_save",
          "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    N_BOOL("zero_optimization.load_from_fp32_weights", "true", NO_EFFECT),
    N_BOOL("zero_optimization.elastic_checkpoint", "false", NO_EFFECT),
    N_BOOL("zero_optimization.pipeline_loading_checkpoint", "false", NO_EFFECT),
    N_BOOL("zero_optimization.legacy_stage1", "false", NO_EFFECT),
    N_BOOL("zero_optimization.enable_sanity_checks", "false", "the checks are always on"),
    N_BOOL("zero_optimization.ignore_unused_parameters", "true", PYTORCH),
    N_BOOL("zero_optimization.memory_efficient_linear", "true", PYTORCH),
    N_BOOL("zero_optimization.override_module_apply", "true", PYTORCH),
    N_BOOL("zero_optimization.grad_hooks", "true", PYTORCH),
    N_FREE("zero_optimization.leaf_module", PYTORCH),
    N_BOOL("zero_optimization.save_muon_momentum_buffer_in_memory", "false", "only Muon uses it"),
    O_BOOL("zero_optimization.zero_quantized_weights", "false", "quantized weights"),
    O_BOOL("zero_optimization.zero_quantized_nontrainable_weights", "false", "quantized weights"),
    O_BOOL("zero_optimization.zero_quantized_gradients", "false", "quantized gradients"),
    X_PRESENT("zero_optimization.zeropp_loco_param", "quantized gradients"),
    X_PRESENT("zero_optimization.zenflow", "ZenFlow"),

    SIZE("aio.block_size", "1048576", 4096, 1073741824, ZINF_KEY_NULL | STRICT, "bytes of one request to a drive"),
    INT("aio.queue_depth", "8", 1, 4096, ZINF_KEY_NULL | STRICT, "requests in flight per drive"),
    INT("aio.intra_op_parallelism", "1", 1, 1024, ZINF_KEY_NULL | STRICT,
        "threads that do I/O, for io_backend threads"),
    ALIAS("aio.thread_count", "aio.intra_op_parallelism"),
    N_BOOL("aio.single_submit", "false", "requests are submitted together as the queue has room"),
    N_BOOL("aio.overlap_events", "true", "submitting and reaping always overlap"),
    N_BOOL("aio.use_gds", "false", "drives are read into the host arena"),

    N_BOOL("activation_checkpointing.partition_activations", "false", ONE_RANK),
    N_BOOL("activation_checkpointing.cpu_checkpointing", "false", RECOMPUTE),
    N_BOOL("activation_checkpointing.contiguous_memory_optimization", "false", RECOMPUTE),
    N_INT("activation_checkpointing.number_checkpoints", "null", 0, RECOMPUTE),
    N_BOOL("activation_checkpointing.synchronize_checkpoint_boundary", "false", RECOMPUTE),
    N_BOOL("activation_checkpointing.profile", "false", REPORT),

    N_FREE("checkpoint.tag_validation", ONE_RANK),
    O_BOOL("checkpoint.load_universal", "false", "reading a universal checkpoint"),
    N_BOOL("checkpoint.use_node_local_storage", "false", ONE_RANK),
    N_FREE("checkpoint.parallel_write", ONE_RANK),
    N_BOOL("checkpoint.checkpoint_serialization", "true", SAVING),
    N_FREE("checkpoint.writer", SAVING),

    N_FREE("communication_data_type", ONE_RANK),
    N_FREE("seq_parallel_communication_data_type", ONE_RANK),
    N_BOOL("prescale_gradients", "false", ONE_RANK),
    N_NUMBER("gradient_predivide_factor", "1.0", 0, BIG, ONE_RANK),
    { .path = "gradient_allreduce_op", .type = ZINF_KEY_CHOICE, .rule = ZINF_RULE_NOTE, .dflt = "\"mean\"",
      .choices = "mean|sum", .why = ONE_RANK, .doc = "no effect: " ONE_RANK },
    N_BOOL("sparse_gradients", "false", "only the rows of a batch's tokens ever move"),
    N_BOOL("disable_allgather", "false", ONE_RANK),
    N_BOOL("dump_state", "false", "zinf config --explain shows the configuration"),
    N_BOOL("wall_clock_breakdown", "false", REPORT ", with the time of every lane"),
    N_BOOL("memory_breakdown", "false", REPORT ", with the peak of every tier"),
    N_BOOL("graph_harvesting", "false", NO_EFFECT),
    N_BOOL("dataloader_drop_last", "false", "every batch is full"),
    N_BOOL("zero_allow_untested_optimizer", "false", NO_EFFECT),
    N_BOOL("zero_force_ds_cpu_optimizer", "true", "there is one implementation of every optimizer"),
    N_INT("vocabulary_size", "null", 1, "the model says it"),
    N_FREE("log_level", "it is set on the command line"),
    N_FREE("flops_profiler", REPORT), N_FREE("tensorboard", REPORT), N_FREE("wandb", REPORT), N_FREE("comet", REPORT),
    N_FREE("csv_monitor", REPORT), N_FREE("comms_logger", REPORT), N_FREE("timers", REPORT),
    N_FREE("autotuning", "nothing is tuned by trial runs"),
    N_FREE("eigenvalue", NO_EFFECT), N_FREE("hybrid_engine", NO_EFFECT), N_FREE("compile", PYTORCH),
    N_FREE("nebula", SAVING), N_FREE("pipeline", ONE_RANK),
    N_FREE("tensor_parallel", ONE_RANK), N_FREE("expert_parallel", ONE_RANK),
    N_BOOL("use_data_before_expert_parallelism", "false", ONE_RANK),
    O_NUMBER("sequence_parallel_size", "1", "sequence parallelism"),
    X_ENABLED("elasticity", "elastic batch sizes"),
    X_PRESENT("sparse_attention", "sparse attention"),
    X_ENABLED("progressive_layer_drop", "progressive layer drop"),
    X_ENABLED("curriculum_learning", "curriculum learning"),
    X_ENABLED("data_efficiency", "data sampling and token dropping"),
    X_ENABLED("compression_training", "compression during training"),
    X_PRESENT("weight_quantization", "weight quantization"),

    CHOICE("zinf.device", "\"auto\"", "auto|cpu", "cuda", 0, "what computes"),
    SIZE("zinf.device_memory", "\"auto\"", 4096, I64, ZINF_KEY_AUTO,
         "hard budget of device memory, bytes or \"24GiB\""),
    SIZE("zinf.host_memory", "\"auto\"", 4096, I64, ZINF_KEY_AUTO, "hard budget of host memory, bytes or \"64GiB\""),
    { .path = "zinf.nvme_paths", .type = ZINF_KEY_PATHS, .dflt = "[]", .flags = ZINF_KEY_NULL,
      .doc = "folders on drives for state homed on nvme, up to 16; wins over nvme_path" },
    CHOICE("zinf.io_backend", "\"auto\"", "auto|io_uring|threads|mem", "libaio", 0, "how drives are read and written"),
    INT("zinf.block_elems", "\"auto\"", 4096, I64, ZINF_KEY_AUTO,
        "elements of a block of the update, a multiple of 4096: speed only"),
    INT("zinf.threads", "\"auto\"", 1, 1024, ZINF_KEY_AUTO, "worker threads: speed only"),
    INT("zinf.seed", "1234", 0, I64, 0, "of initialisation and data order"),
    BOOL("zinf.keep_state", "true", 0, "keep the run folder on the drives when the run is finished"),
    BOOL("zinf.o_direct", "\"auto\"", ZINF_KEY_AUTO,
         "bypass the page cache: auto and true = where the file system allows it"),
    CHOICE("zinf.micro_batch_order", "\"auto\"", "auto|layer", "batch", 0,
           "layer: all micro-batches of a layer before the next"),
    CHOICE("zinf.optimizer_overlap", "\"auto\"", "auto|none", "forward|backward", 0,
           "when updates run: none = after backward"),
    { .path = "zinf.durability", .type = ZINF_KEY_EVERY, .dflt = "\"step\"", .flags = ZINF_KEY_NULL,
      .doc = "how often the state on drives becomes a checkpoint: \"step\", {\"every\": N} or \"none\"" },
    CHOICE("zinf.sync", "\"power\"", "power|process", NULL, 0,
           "what a commit survives: loss of power (drives are flushed), or the end of the process only"),
    BOOL("zinf.checksum", "true", 0, "CRC-32C of every piece of state on drives, checked when it is read"),
    CHOICE("zinf.activation_device", "\"auto\"", "auto|cpu", "nvme|none", 0, "where activation checkpoints lie"),
    X_PRESENT("zinf.drive_tbw", "a limit on drive wear"),
};
const uint32_t zinf_nr_keys = sizeof(zinf_keys) / sizeof(zinf_keys[0]);

const struct zinf_key *zinf_key_find(const char *path)
{
    for (uint32_t i = 0; i < zinf_nr_keys; i++)
        if (strcmp(zinf_keys[i].path, path) == 0)
            return &zinf_keys[i];
    return NULL;
}

bool zinf_key_is_section(const char *path)
{
    char member[64];

    for (uint32_t i = 0; i < zinf_nr_keys; i++)
        if (zinf_key_member(&zinf_keys[i], path, member, sizeof(member)))
            return true;
    return false;
}

bool zinf_key_member(const struct zinf_key *key, const char *section, char *buf, uint32_t buf_nbytes)
{
    size_t n = strlen(section);
    const char *name = key->path + n;
    size_t len;

    if (n > 0 && (strncmp(key->path, section, n) != 0 || *name++ != '.'))
        return false;
    len = strcspn(name, ".");
    if (len >= buf_nbytes)
        return false;
    memcpy(buf, name, len);
    buf[len] = '\0';
    return true;
}

const char *zinf_key_leaf(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}
