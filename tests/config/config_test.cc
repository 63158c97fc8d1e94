/* tests/config/config_test.cc - small configurations against what they must resolve to, note, or be refused with. */
#include "zinf/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"
#include "zinf/config/keys.h"

namespace {

class Loaded {
public:
    Loaded(const std::string &text, const std::vector<const char *> &sets)
    {
        struct zinf_log log = { ZINF_LOG_INFO, Take, &notes };
        rc = zinf_config_load(nullptr, text.c_str(), "ds.json", sets.data(), (uint32_t)sets.size(), &log, &c, &st);
    }
    ~Loaded() { zinf_config_free(&c); }
    Loaded(const Loaded &) = delete;
    Loaded &operator=(const Loaded &) = delete;

    std::string Explain() const { return Print([this](FILE *f) { zinf_config_explain(&c, f); }); }

    template <class F> static std::string Print(F f)
    {
        char *text = nullptr;
        size_t nbytes = 0;
        FILE *to = open_memstream(&text, &nbytes);
        f(to);
        fclose(to);
        std::string s(text, nbytes);
        free(text);
        return s;
    }

    zinf_config c = {};
    zinf_status st = {};
    std::string notes;   /* one per line */
    int rc;

private:
    static void Take(void *ctx, zinf_log_level, const char *line) { *(std::string *)ctx += std::string(line) + "\n"; }
};

/* The cases are plain arrays, not vectors: a table of constants compiles at once, whatever the sanitizer. */
template <size_t N> std::vector<const char *> List(const char *const (&items)[N])
{
    std::vector<const char *> list;

    for (size_t i = 0; i < N && items[i]; i++)
        list.push_back(items[i]);
    return list;
}

/* ---- refused ---- */

struct Refused {
    const char *text;
    const char *message;
    const char *sets[6] = {};
};
std::ostream &operator<<(std::ostream &o, const Refused &r) { return o << r.text; }

class ConfigRefused : public ::testing::TestWithParam<Refused> {};
TEST_P(ConfigRefused, WithOneLineThatSaysWhatToChange)
{
    Loaded l(GetParam().text, List(GetParam().sets));

    EXPECT_EQ(l.rc, -EINVAL);
    EXPECT_STREQ(l.st.text, GetParam().message);
    EXPECT_EQ(l.c.settings, nullptr);
}

#define T1 "{\"train_batch_size\": 1, "
#define Z3 "{\"train_batch_size\": 1, \"zero_optimization\": {\"stage\": 3, "

const Refused kRefusedUnknownKeys[] = {
    { "{\n  \"gradient_clipp1ng\": 1}",
             "ds.json:2:3: unknown key gradient_clipp1ng: did you mean gradient_clipping?" },
    { "{\"offload_param\": {\"device\": \"cpu\"}}",
             "ds.json:1:2: unknown key offload_param: known at zero_optimization.offload_param" },
    { "{\"zero_optimization\": {\n\"aio\": {}}}",
             "ds.json:2:1: unknown key zero_optimization.aio: known at aio" },
    { "{\"zero_optimization\": {\"stage3_param_persitence_threshold\": 1}}",
             "ds.json:1:24: unknown key zero_optimization.stage3_param_persitence_threshold: did you mean "
             "zero_optimization.stage3_param_persistence_threshold?" },
    { "{\"zero_optimization\": {\"offload_param\": {\"max_in_nvme\": 1}}}",
             "ds.json:1:42: unknown key zero_optimization.offload_param.max_in_nvme: did you mean "
             "zero_optimization.offload_param.max_in_cpu?" },
    { "{\"zero_optimization\": {\"gradient_cliping\": 1}}",
             "ds.json:1:24: unknown key zero_optimization.gradient_cliping: did you mean gradient_clipping?" },
    { "{\"nvme_path\": \"/x\"}", "ds.json:1:2: unknown key nvme_path: known at "
             "zero_optimization.offload_optimizer.nvme_path, zero_optimization.offload_param.nvme_path" },
    { "{\"optimizer\": {\"lr\": 1}}", "ds.json:1:16: unknown key optimizer.lr: known at optimizer.params.lr" },
    { "{\"zinf\": {\"device_mem\": 1}}",
             "ds.json:1:11: unknown key zinf.device_mem: did you mean zinf.device_memory?" },
    { "{\"zinf.seed\": 1}", "ds.json:1:2: unknown key [\"zinf.seed\"]: known at zinf.seed" },
    { "{\"qqqqqqqq\": 1}",
             "ds.json:1:2: unknown key qqqqqqqq: neither DeepSpeed nor zinf has it; zinf config --list "
             "keys shows all" },
    { "{\"\": 1}", "ds.json:1:2: unknown key [\"\"]: neither DeepSpeed nor zinf has it; zinf config --list keys "
             "shows all" },
    { "{}", "--set zero_optimisation.stage=3: unknown key zero_optimisation: did you mean zero_optimization?",
             { "zero_optimisation.stage=3" } },
    { "{}", "--set zero_optimization.stgae=3: unknown key zero_optimization.stgae: did you mean "
             "zero_optimization.stage?", { "zero_optimization.stgae=3" } }
};
INSTANTIATE_TEST_SUITE_P(UnknownKeys, ConfigRefused, ::testing::ValuesIn(kRefusedUnknownKeys));

const Refused kRefusedValues[] = {
    { "", "ds.json:1:1: the file is empty: expected a JSON value" },
    { "[]", "ds.json:1:1: a configuration is an object, not an array" },
    { "{\"train_batch_size\": 1, \"train_batch_size\": 2}",
             "ds.json:1:25: the key \"train_batch_size\" is given twice, first on line 1" },
    { "{\"train_batch_size\": 0.5}", "ds.json:1:22: train_batch_size: must be a whole number, not 0.5" },
    { "{\"train_batch_size\": 0}", "ds.json:1:22: train_batch_size: must be at least 1, not 0" },
    { "{\"train_batch_size\": 5e9}",
             "ds.json:1:22: train_batch_size: must be at most 4294967295, not 5000000000" },
    { "{\"train_batch_size\": \"16\"}", "ds.json:1:22: train_batch_size: must be a whole number, not \"16\"" },
    { T1 "\"gradient_clipping\": -1}", "ds.json:1:46: gradient_clipping: must be at least 0, not -1" },
    { T1 "\"gradient_clipping\": null}", "ds.json:1:46: gradient_clipping: must be a number, not null" },
    { T1 "\"gradient_clipping\": \"auto\"}",
             "ds.json:1:46: gradient_clipping: \"auto\", and nothing says its value: "
             "write one, or give --set gradient_clipping=value" },
    { T1 "\"optimizer\": {\"params\": {\"lr\": \"auto\"}}}",
             "ds.json:1:56: optimizer.params.lr: \"auto\", and nothing "
             "says its value: write one, or give --set optimizer.params.lr=value" },
    { T1 "\"optimizer\": {\"params\": {\"betas\": [0.9, 1]}}}",
             "ds.json:1:65: optimizer.params.betas[1]: must be a number from 0 to below 1, not 1" },
    { T1 "\"optimizer\": {\"params\": {\"betas\": [0.9]}}}",
             "ds.json:1:59: optimizer.params.betas: must be an array of two numbers, not an array" },
    { T1 "\"optimizer\": 3}", "ds.json:1:38: optimizer: must be an object (a section), not a number" },
    { T1 "\"bf16\": {\"enabled\": 1}}", "ds.json:1:45: bf16.enabled: must be true or false, not 1" },
    { Z3 "\"sub_group_size\": 0.5}}",
             "ds.json:1:77: zero_optimization.sub_group_size: must be a whole number, not 0.5" },
    { Z3 "\"stage3_prefetch_bucket_size\": 15099494.4}}",
             "ds.json:1:90: zero_optimization.stage3_prefetch_bucket_size: must be a whole number, not 15099494.4" },
    { Z3 "\"overlap_comm\": \"yes\"}}",
             "ds.json:1:75: zero_optimization.overlap_comm: must be true or false, not \"yes\"" },
    { T1 "\"zero_optimization\": {\"stage\": 4}}",
             "ds.json:1:56: zero_optimization.stage: must be at most 3, not 4" },
    { T1 "\"zero_optimization\": 3}",
             "ds.json:1:46: zero_optimization: must be an object (a section), not a number" },
    { Z3 "\"offload_param\": {\"device\": \"disk\"}}}",
             "ds.json:1:87: zero_optimization.offload_param.device: must be none, cpu or nvme, not \"disk\"" },
    { T1 "\"zinf\": {\"device_memory\": \"24 gigs\"}}",
             "ds.json:1:51: zinf.device_memory: must be bytes or a size like \"24GiB\", not \"24 gigs\"" },
    { T1 "\"zinf\": {\"device_memory\": \"99999999TiB\"}}",
             "ds.json:1:51: zinf.device_memory: \"99999999TiB\" is too large" },
    { T1 "\"zinf\": {\"host_memory\": 1e20}}",
             "ds.json:1:49: zinf.host_memory: must be at most 9223372036854775807, not 100000000000000000000" },
    { T1 "\"zinf\": {\"block_elems\": 5000}}",
             "ds.json:1:49: zinf.block_elems: must be a multiple of 4096: use 4096 or 8192" },
    { T1 "\"zinf\": {\"block_elems\": 9223372036854775807}}",
             "ds.json:1:49: zinf.block_elems: must be a multiple of 4096: use 9223372036854771712" },
    { T1 "\"zinf\": {\"seed\": 9223372036854775808}}",
             "ds.json:1:42: zinf.seed: must be at most 9223372036854775807, not 9223372036854775808" },
    { T1 "\"zinf\": {\"nvme_paths\": [\"/a\", 3]}}",
             "ds.json:1:55: zinf.nvme_paths[1]: must be a folder, not 3" },
    { T1 "\"zinf\": {\"nvme_paths\": \"\"}}",
             "ds.json:1:48: zinf.nvme_paths: must be an array of folders, not \"\"" },
    { "{}", "--set zinf.seed=abc: zinf.seed: must be a whole number, not \"abc\"", { "zinf.seed=abc" } },
    { "{}", "--set zinf.seed: write --set path.to.key=value", { "zinf.seed" } },
    { "{}", "--set =3: write --set path.to.key=value", { "=3" } },
    { "{}", "--set zinf..seed=3: write --set path.to.key=value", { "zinf..seed=3" } },
    { "{}", "--set zinf.=3: write --set path.to.key=value", { "zinf.=3" } },
    { "{}", "--set zinf.nvme_paths=[1:1:3: the text ends inside the array that starts on line 1, column 1",
             { "zinf.nvme_paths=[1" } }
};
INSTANTIATE_TEST_SUITE_P(Values, ConfigRefused, ::testing::ValuesIn(kRefusedValues));

const Refused kRefusedNotInThisVersion[] = {
    { T1 "\"fp16\": {\"enabled\": true}}",
             "ds.json:1:45: fp16.enabled: fp16 is not supported in this version: use "
             "\"bf16\": {\"enabled\": true}" },
    { T1 "\"scheduler\": {\"type\": \"WarmupLR\"}}",
             "ds.json:1:38: scheduler: a learning-rate schedule is not supported in this version: remove it" },
    { T1 "\"amp\": {\"enabled\": true}}",
             "ds.json:1:32: amp: amp is not supported in this version: disable or remove it" },
    { T1 "\"compression_training\": {\"weight_quantization\": {\"shared_parameters\": {\"enabled\": true}}}}",
             "ds.json:1:49: compression_training: compression during training is not supported in this version: "
               "disable or "
             "remove it" },
    { T1 "\"optimizer\": {\"type\": \"lion\"}}",
             "ds.json:1:47: optimizer.type: Lion is not supported in this version: use AdamW, Adam or SGD" },
    { T1 "\"optimizer\": {\"type\": \"RAdam\"}}",
             "ds.json:1:47: optimizer.type: must be AdamW, Adam or SGD, not \"RAdam\"" },
    { T1 "\"optimizer\": {\"params\": {\"amsgrad\": true}}}",
             "ds.json:1:61: optimizer.params.amsgrad: AMSGrad is not supported in this version: the only value is "
               "false" },
    { T1 "\"optimizer\": {\"params\": {\"momentum\": 0.9}}}",
             "ds.json:1:62: optimizer.params.momentum: SGD with momentum "
             "is not supported in this version: the only value is 0" },
    { Z3 "\"offload_optimizer\": {\"ratio\": 0.3}}}",
             "ds.json:1:90: zero_optimization.offload_optimizer.ratio: a partly "
             "offloaded optimizer is not supported in this version: the only value is 1" },
    { T1 "\"data_types\": {\"grad_accum_dtype\": \"fp16\"}}",
             "ds.json:1:60: data_types.grad_accum_dtype: fp16 is not supported in this version: use fp32 or bf16" },
    { T1 "\"data_types\": {\"param_dtype\": \"bf16\"}}",
             "ds.json:1:55: data_types.param_dtype: a parameter type of its own "
             "is not supported in this version: remove it" },
    { T1 "\"bf16\": {\"bf16_optimizer_states\": true}}",
             "ds.json:1:59: bf16.bf16_optimizer_states: bf16 moments is not "
             "supported in this version: the only value is false" },
    { T1 "\"sparse_attention\": {\"mode\": \"fixed\"}}",
             "ds.json:1:45: sparse_attention: sparse attention is not supported in this version: remove it" },
    { T1 "\"amp\": {\"enabled\": false}}",
             "--set amp.enabled=true: amp: amp is not supported in this version: disable or remove it",
             { "amp.enabled=true" } },
    { T1 "\"amp\": {\"enabled\": true}}",
             "--set amp.opt_level=O1: amp: amp is not supported in this version: disable or remove it",
             { "amp.opt_level=O1" } },
    { T1 "\"zinf\": {\"durability\": {\"every\": 0}}}",
             "ds.json:1:48: zinf.durability: must be \"step\", \"none\" or {\"every\": N} with N from 1 to 4294967295, not an object" },
    { T1 "\"zinf\": {\"device\": \"cuda\"}}",
             "ds.json:1:44: zinf.device: cuda is not supported in this version: use auto or cpu" }
};
INSTANTIATE_TEST_SUITE_P(NotInThisVersion, ConfigRefused, ::testing::ValuesIn(kRefusedNotInThisVersion));

const Refused kRefusedTogether[] = {
    { "{}", "train_batch_size: neither it nor train_micro_batch_size_per_gpu has a value: write one of them" },
    { "{\"gradient_accumulation_steps\": 4}",
             "train_batch_size: neither it nor train_micro_batch_size_per_gpu has a value: write one of them" },
    { "{\"train_batch_size\": 10, \"train_micro_batch_size_per_gpu\": 4}",
             "ds.json:1:22: train_batch_size: 10 is not a "
             "multiple of train_micro_batch_size_per_gpu 4 (x 1 rank): use 8 or 12" },
    { "{\"train_batch_size\": 3, \"gradient_accumulation_steps\": 4}",
             "ds.json:1:22: train_batch_size: 3 is not a "
             "multiple of gradient_accumulation_steps 4 (x 1 rank): use 4" },
    { "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 4}",
             "ds.json:1:22: train_batch_size: 16 is not train_micro_batch_size_per_gpu 3 x "
               "gradient_accumulation_steps 4 x 1 "
             "rank: use 12, or leave one of the three out" },
    { "{\"train_micro_batch_size_per_gpu\": 65536, \"gradient_accumulation_steps\": 65536}", "ds.json:1:36: "
             "train_micro_batch_size_per_gpu: x gradient_accumulation_steps is 4294967296 samples per step: at most "
               "4294967295" },
    { T1 "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}", "ds.json:1:79: "
             "zero_optimization.offload_optimizer.device: cpu needs zero_optimization.stage 1, 2 or 3, not 0" },
    { T1 "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"}}}",
             "ds.json:1:91: zero_optimization.offload_optimizer.device: nvme needs zero_optimization.stage 3, not 2" },
    { T1 "\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}}",
             "ds.json:1:87: zero_optimization.offload_param.device: cpu needs zero_optimization.stage 3, not 2" },
    { Z3 "\"offload_optimizer\": {\"device\": \"nvme\"}}}",
             "ds.json:1:91: zero_optimization.offload_optimizer.device: nvme "
             "needs a folder on a drive: set zinf.nvme_paths (or nvme_path beside it)" },
    { Z3 "\"offload_optimizer\": {\"device\": \"nvme\"}}, \"zinf\": {\"nvme_paths\": []}}", "ds.json:1:91: "
             "zero_optimization.offload_optimizer.device: nvme needs a folder on a drive: set zinf.nvme_paths (or "
               "nvme_path "
             "beside it)" },
    { Z3 "\"offload_optimizer\": {\"device\": \"nvme\"}}, \"zinf\": {\"nvme_paths\": [\"/a\", \"/a\"]}}",
             "ds.json:1:124: zinf.nvme_paths: /a is given twice" },
    { T1 "\"gradient_clipping\": 1, \"optimizer\": {\"params\": {\"max_grad_norm\": 2}}}", "ds.json:1:91: "
             "optimizer.params.max_grad_norm: contradicts gradient_clipping, another spelling of it: keep one" },
    { T1 "\"aio\": {\"thread_count\": 4, \"intra_op_parallelism\": 2}}",
             "ds.json:1:49: aio.thread_count: contradicts "
             "aio.intra_op_parallelism, another spelling of it: keep one" },
    { T1 "\"bf16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": false}}",
             "ds.json:1:76: bfloat16.enabled: contradicts bf16.enabled, another spelling of it: keep one" },
    { Z3 "\"cpu_offload\": true, \"offload_optimizer\": {\"device\": \"none\"}}}", "ds.json:1:74: "
             "zero_optimization.cpu_offload: zero_optimization.offload_optimizer.device says it too: keep one" }
};
INSTANTIATE_TEST_SUITE_P(Together, ConfigRefused, ::testing::ValuesIn(kRefusedTogether));

/* ---- accepted ---- */

struct Accepted {
    const char *text;
    const char *explained[8] = {};      /* lines */
    const char *notes[4] = {};          /* lines */
    const char *sets[6] = {};
};
std::ostream &operator<<(std::ostream &o, const Accepted &a) { return o << a.text; }

class ConfigAccepted : public ::testing::TestWithParam<Accepted> {};
TEST_P(ConfigAccepted, ResolvesAndSaysWhereFrom)
{
    Loaded l(GetParam().text, List(GetParam().sets));

    ASSERT_EQ(l.rc, 0) << l.st.text;
    std::string explained = "\n" + l.Explain(), notes = "\n" + l.notes;
    for (const char *line : List(GetParam().explained))
        EXPECT_NE(explained.find("\n" + std::string(line) + "\n"), std::string::npos) << line << " in" << explained;
    for (const char *line : List(GetParam().notes))
        EXPECT_NE(notes.find("\n" + std::string(line) + "\n"), std::string::npos) << line << " in" << notes;
}

const Accepted kAcceptedBatch[] = {
    { "{\"train_batch_size\": 16}",
              { "train_batch_size = 16  # ds.json:1", "train_micro_batch_size_per_gpu = 16  # auto",
                "gradient_accumulation_steps = 1  # default" },
              { "batch: train_batch_size 16 = micro-batch 16 x gradient_accumulation_steps 1 x 1 rank" } },
    { "{\"train_micro_batch_size_per_gpu\": 4}",
              { "train_batch_size = 4  # auto", "gradient_accumulation_steps = 1  # default" } },
    { "{\"train_micro_batch_size_per_gpu\": 4,\n\"gradient_accumulation_steps\": 3}",
              { "train_batch_size = 12  # auto", "gradient_accumulation_steps = 3  # ds.json:2" } },
    { "{\"train_batch_size\": 16, \"gradient_accumulation_steps\": 4}",
              { "train_micro_batch_size_per_gpu = 4  # auto" } },
    { "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": \"auto\", "
              "\"gradient_accumulation_steps\": \"auto\"}",
              { "train_micro_batch_size_per_gpu = 16  # auto", "gradient_accumulation_steps = 1  # default" } },
    { "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 2, "
              "\"gradient_accumulation_steps\": 8}", { "train_batch_size = 16  # auto" } },
    { "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 8}",
              { "train_batch_size = 16  # ds.json:1" } }
};
INSTANTIATE_TEST_SUITE_P(Batch, ConfigAccepted, ::testing::ValuesIn(kAcceptedBatch));

const Accepted kAcceptedValues[] = {
    { "{\"train_batch_size\": 1} // a comment", { "gradient_clipping = 1  # default",
              "optimizer.params.weight_decay = 0  # default", "steps_per_print = null  # default",
              "optimizer.type = \"AdamW\"  # default", "optimizer.params.betas = [0.9,0.999]  # default",
              "zinf.device_memory = \"auto\"  # default", "zinf.seed = 1234  # default" },
              { "no optimizer.type: AdamW with lr 0.001, betas 0.9 0.999, eps 1e-08, weight_decay 0" } },
    { T1 "\"zinf\": {\"device_memory\": \"24GiB\", \"host_memory\": 1e9, \"threads\": \"auto\"},}",
              { "zinf.device_memory = 25769803776  # ds.json:1", "zinf.host_memory = 1000000000  # ds.json:1",
                "zinf.threads = \"auto\"  # auto" } },
    { Z3 "\"sub_group_size\": 1e12, \"reduce_bucket_size\": 5e8}}",
              { "zero_optimization.sub_group_size = 1000000000000  # ds.json:1",
                "zero_optimization.reduce_bucket_size = 500000000  # ds.json:1" },
              { "zero_optimization.reduce_bucket_size: no effect: one rank has nobody to exchange with" } },
    { Z3 "\"sub_group_size\": \"auto\", \"stage3_max_live_parameters\": \"auto\", \"overlap_comm\": null}}",
              { "zero_optimization.sub_group_size = 1000000000  # auto" } },
    { T1 "\"aio\": {\"thread_count\": 4}}", { "aio.intra_op_parallelism = 4  # ds.json:1" },
              { "aio.thread_count: another spelling of aio.intra_op_parallelism" } },
    { T1 "\"aio\": {\"thread_count\": 4, \"intra_op_parallelism\": 4}}",
              { "aio.intra_op_parallelism = 4  # ds.json:1" } },
    { T1 "\"aio\": null}", { "aio.block_size = 1048576  # default", "aio.queue_depth = 8  # default" } },
    { T1 "\"bfloat16\": {\"enabled\": true}}", { "bf16.enabled = true  # ds.json:1" } },
    { T1 "\"optimizer\": {\"params\": {\"max_grad_norm\": 0.5}}}", { "gradient_clipping = 0.5  # ds.json:1" },
              { "optimizer.params.max_grad_norm: another spelling of gradient_clipping" } },
    { T1 "\"zero_optimization\": true}", { "zero_optimization.stage = 1  # ds.json:1" },
              { "zero_optimization as a boolean: old spelling of stage 1" } },
    { T1 "\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}",
              { "zero_optimization.offload_optimizer.device = \"cpu\"  # ds.json:1" },
              { "zero_optimization.cpu_offload: old spelling of zero_optimization.offload_optimizer.device" } },
    { T1 "\"zero_optimization\": {\"grad_hooks\": true}, \"fp16\": {\"enabled\": false, \"opt_level\": \"O2\"}}", {},
              { "zero_optimization.grad_hooks: no effect: it is about PyTorch modules",
                "fp16.opt_level: no effect: only fp16 uses it, and fp16 is off" } },
    { Z3 "\"overlap_comm\": true, \"contiguous_gradients\": true, \"reduce_scatter\": false}}", {},
              { "zero_optimization.overlap_comm, zero_optimization.reduce_scatter: no effect: one rank has nobody to "
                "exchange "
                "with", "zero_optimization.contiguous_gradients: no effect: a unit's gradient is always one buffer" } },
    { T1 "\"flops_profiler\": {\"enabled\": true, \"x\": 1}, \"wall_clock_breakdown\": false, \"wandb\": {\"enabled\": "
              "false}}", {}, { "flops_profiler: no effect: zinf train --log writes every step as a JSON line" } },
    { T1 "\"amp\": {\"enabled\": false, \"opt_level\": \"O1\"}, \"scheduler\": null, \"sparse_attention\": {}}",
              {} },
    { T1 "\"data_types\": {\"grad_accum_dtype\": \"fp32\", \"param_dtype\": null}}",
              { "data_types.grad_accum_dtype = \"fp32\"  # ds.json:1" } }
};
INSTANTIATE_TEST_SUITE_P(Values, ConfigAccepted, ::testing::ValuesIn(kAcceptedValues));

const Accepted kAcceptedOptimizer[] = {
    { T1 "\"optimizer\": {\"type\": \"adam\", \"params\": {\"torch_adam\": true}}}",
              { "optimizer.type = \"Adam\"  # ds.json:1", "optimizer.params.adam_w_mode = true  # default" },
              { "optimizer.type Adam is AdamW (decoupled decay): optimizer.params.adam_w_mode is true; false gives L2",
                "optimizer.params.torch_adam: no effect: there is one Adam, the same formula wherever it runs" } },
    { T1 "\"optimizer\": {\"type\": \"ADAMW\", \"params\": {\"adam_w_mode\": false}}}",
              { "optimizer.type = \"AdamW\"  # ds.json:1" },
              { "optimizer.params.adam_w_mode: no effect: type AdamW is always decoupled; type Adam with false gives "
                "L2" } },
    { T1 "\"optimizer\": {\"type\": \"sgd\", \"params\": {\"betas\": [0.5, 0.5], \"momentum\": 0}}}",
              { "optimizer.type = \"SGD\"  # ds.json:1" }, { "optimizer.params.betas: no effect: SGD does not use it"
                } }
};
INSTANTIATE_TEST_SUITE_P(Optimizer, ConfigAccepted, ::testing::ValuesIn(kAcceptedOptimizer));

const Accepted kAcceptedHomes[] = {
    { Z3 "\"offload_param\": {\"device\": \"nvme\"}}}",
              { "zero_optimization.offload_param.device = \"none\"  # auto" },
              { "zero_optimization.offload_param.device: no effect: the weights are half of the optimizer's master "
                "and stay on "
                "the device with it; zero_optimization.offload_optimizer.device moves both" } },
    { Z3 "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/a\"}, "
              "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/b\"}}}", { "zinf.nvme_paths = "
                "[\"/a\",\"/b\"]  # auto" } },
    { Z3 "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/a\"}},\n\"zinf\": {\"nvme_paths\": "
      "[\"/c\"]}}",
              { "zinf.nvme_paths = [\"/c\"]  # ds.json:2" },
              { "zero_optimization.offload_optimizer.nvme_path: no effect: zinf.nvme_paths wins" } },
    { Z3 "\"offload_optimizer\": {\"device\": \"CPU\", \"nvme_path\": \"/a\"}}, \"zinf\": {\"nvme_paths\": \"/c\"}}",
              { "zero_optimization.offload_optimizer.device = \"cpu\"  # ds.json:1" },
              { "zero_optimization.offload_optimizer.nvme_path: no effect: the device beside it is cpu",
                "zinf.nvme_paths: no effect: nothing is offloaded to nvme" } }
};
INSTANTIATE_TEST_SUITE_P(Homes, ConfigAccepted, ::testing::ValuesIn(kAcceptedHomes));

const Accepted kAcceptedSet[] = {
    { T1 "\"gradient_clipping\": \"bad\"}", { "gradient_clipping = 0.5  # --set" }, {},
              { "gradient_clipping=0.5" } },
    { "{}", { "train_batch_size = 8  # --set", "zero_optimization.stage = 3  # --set",
                      "zero_optimization.offload_optimizer.device = \"nvme\"  # --set", "zinf.device_memory = "
                        "1073741824  # --set" },
              {}, { "train_batch_size=8", "zero_optimization.stage=3",
                    "zero_optimization.offload_optimizer.device=nvme",
                    "zinf.nvme_paths=[\"/a\"]", "zinf.device_memory=1GiB" } },
    { T1 "\"optimizer\": {\"type\": \"sgd\", \"params\": {\"lr\": 1}}}",
              { "optimizer.type = \"SGD\"  # ds.json:1", "optimizer.params.lr = 2  # --set" }, {},
              { "optimizer={\"params\": {\"lr\": 2}}" } },
    { T1 "\"optimizer\": {\"type\": \"sgd\", \"params\": {\"lr\": 1}}}",
              { "optimizer.type = \"AdamW\"  # default", "optimizer.params.lr = 0.001  # default" }, {}, {
                "optimizer=null" } },
    { T1 "\"zinf\": {\"seed\": 5}}", { "zinf.seed = 7  # --set" }, {}, { "zinf.seed=6", "zinf.seed=7" } },
    { T1 "\"bf16\": {\"enabled\": true}}", { "bf16.enabled = false  # --set" }, {},
              { "bfloat16.enabled=false" } },
    { T1 "\"amp\": {\"enabled\": true}}", {}, {}, { "amp.enabled=false" } },
    { "{}", { "zinf.nvme_paths = \"/data/run=1\"  # --set" }, {},
              { "train_batch_size=1", "zinf.nvme_paths=/data/run=1" } }
};
INSTANTIATE_TEST_SUITE_P(Set, ConfigAccepted, ::testing::ValuesIn(kAcceptedSet));

/* ---- the struct ---- */

TEST(Config, FillsTheStruct)
{
    Loaded l(R"({"train_batch_size": 24, "gradient_accumulation_steps": 3, "gradient_clipping": 0,
                 "steps_per_print": 10,
        "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "optimizer": {"type": "Adam", "params": {"lr": 3e-4, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1,
                      "adam_w_mode": false, "bias_correction": false}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}, "offload_param": {"device": "cpu"},
                              "sub_group_size": 1e6},
        "aio": {"block_size": "2MiB", "queue_depth": 32, "intra_op_parallelism": 2},
        "zinf": {"device": "cpu", "device_memory": "24MiB", "host_memory": "64MiB", "nvme_paths": ["/a", "/b"],
                 "io_backend": "threads", "block_elems": 8192, "threads": 2, "seed": 9, "keep_state": false,
                 "o_direct": false}})", {});

    ASSERT_EQ(l.rc, 0) << l.st.text;
    EXPECT_EQ(l.c.train_batch_size, 24u);
    EXPECT_EQ(l.c.micro_batch_size, 8u);
    EXPECT_EQ(l.c.gradient_accumulation_steps, 3u);
    EXPECT_EQ(l.c.gradient_clipping, 0.0);
    EXPECT_EQ(l.c.steps_per_print, 10u);
    EXPECT_EQ(l.c.dtype, ZINF_BF16);
    EXPECT_EQ(l.c.grad_accum_dtype, ZINF_F32);
    EXPECT_EQ(l.c.optimizer.type, ZINF_OPT_ADAM);
    EXPECT_FALSE(l.c.optimizer.adam_w_mode);
    EXPECT_FALSE(l.c.optimizer.bias_correction);
    EXPECT_EQ(l.c.optimizer.lr, 3e-4);
    EXPECT_EQ(l.c.optimizer.beta1, 0.8);
    EXPECT_EQ(l.c.optimizer.beta2, 0.95);
    EXPECT_EQ(l.c.optimizer.eps, 1e-6);
    EXPECT_EQ(l.c.optimizer.weight_decay, 0.1);
    EXPECT_EQ(l.c.zero_stage, 3u);
    EXPECT_EQ(l.c.offload_optimizer, ZINF_OFFLOAD_NVME);
    EXPECT_EQ(l.c.offload_param, ZINF_OFFLOAD_CPU);
    EXPECT_EQ(l.c.sub_group_size, 1000000u);
    EXPECT_EQ(l.c.aio.block_size, 2097152u);
    EXPECT_EQ(l.c.aio.queue_depth, 32u);
    EXPECT_EQ(l.c.aio.nr_threads, 2u);
    ASSERT_EQ(l.c.nr_nvme_paths, 2u);
    EXPECT_STREQ(l.c.nvme_paths[0], "/a");
    EXPECT_STREQ(l.c.nvme_paths[1], "/b");
    EXPECT_STREQ(l.c.device, "cpu");
    EXPECT_EQ(l.c.device_memory, 24u << 20);
    EXPECT_EQ(l.c.host_memory, 64u << 20);
    EXPECT_STREQ(l.c.io_backend, "threads");
    EXPECT_EQ(l.c.block_elems, 8192u);
    EXPECT_EQ(l.c.threads, 2u);
    EXPECT_EQ(l.c.seed, 9u);
    EXPECT_FALSE(l.c.keep_state);
    EXPECT_FALSE(l.c.direct);
}

TEST(Config, DefaultsOfTheStruct)
{
    Loaded l("{\"train_batch_size\": 1}", {});

    ASSERT_EQ(l.rc, 0) << l.st.text;
    EXPECT_EQ(l.c.dtype, ZINF_F32);
    EXPECT_EQ(l.c.grad_accum_dtype, ZINF_F32);
    EXPECT_EQ(l.c.gradient_clipping, 1.0);
    EXPECT_EQ(l.c.steps_per_print, 0u);
    EXPECT_EQ(l.c.optimizer.type, ZINF_OPT_ADAMW);
    EXPECT_TRUE(l.c.optimizer.adam_w_mode);
    EXPECT_EQ(l.c.zero_stage, 0u);
    EXPECT_EQ(l.c.offload_optimizer, ZINF_OFFLOAD_NONE);
    EXPECT_EQ(l.c.device_memory, ZINF_AUTO_U64);
    EXPECT_EQ(l.c.host_memory, ZINF_AUTO_U64);
    EXPECT_EQ(l.c.block_elems, ZINF_AUTO_U64);
    EXPECT_EQ(l.c.threads, ZINF_AUTO_U64);
    EXPECT_STREQ(l.c.device, "auto");
    EXPECT_STREQ(l.c.io_backend, "auto");
    EXPECT_TRUE(l.c.keep_state);
    EXPECT_TRUE(l.c.direct);
    EXPECT_EQ(l.c.nr_nvme_paths, 0u);
}

TEST(Config, WeightsStayWithAStateOnTheDevice)
{
    Loaded l(Z3 "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/a\"}}}", {});

    ASSERT_EQ(l.rc, 0) << l.st.text;
    EXPECT_EQ(l.c.offload_param, ZINF_OFFLOAD_NONE);
    EXPECT_EQ(l.c.nr_nvme_paths, 0u);
}

TEST(Config, ReadsAFile)
{
    std::string file = ::testing::TempDir() + "/config_test.json";
    zinf_config c;
    zinf_status st = {};

    FILE *f = fopen(file.c_str(), "w");
    ASSERT_NE(f, nullptr);
    fputs("{\n \"train_batch_size\": 3 }", f);
    fclose(f);
    ASSERT_EQ(zinf_config_load(file.c_str(), nullptr, nullptr, nullptr, 0, nullptr, &c, &st), 0) << st.text;
    std::string explained = Loaded::Print([&](FILE *to) { zinf_config_explain(&c, to); });
    EXPECT_EQ(explained.find("train_batch_size = 3  # " + file + ":2\n"), 0u) << explained;
    zinf_config_free(&c);
    zinf_config_free(&c);
    unlink(file.c_str());
    EXPECT_EQ(zinf_config_load(file.c_str(), nullptr, nullptr, nullptr, 0, nullptr, &c, &st), -ENOENT);
    EXPECT_EQ(st.text, file + ": cannot be opened: No such file or directory");
}

TEST(Config, MoreFoldersThanFitAreRefused)
{
    std::string paths;

    for (int i = 0; i < ZINF_MAX_NVME_PATHS + 1; i++)
        paths += std::string(i ? ", " : "") + "\"/d" + std::to_string(i) + "\"";
    Loaded l(Z3 "\"offload_optimizer\": {\"device\": \"nvme\"}},\n\"zinf\": {\"nvme_paths\": [" + paths + "]}}", {});
    EXPECT_EQ(l.rc, -EINVAL);
    EXPECT_STREQ(l.st.text, "ds.json:2:24: zinf.nvme_paths: more than 16 folders");
}

/* ---- the table ---- */

TEST(Keys, AreUniqueDocumentedAndOnOneLineEach)
{
    std::string list = Loaded::Print([](FILE *to) { zinf_config_list_keys(to); });
    std::set<std::string> seen;
    size_t nr_lines = 0;

    for (char ch : list)
        nr_lines += ch == '\n';
    EXPECT_EQ(nr_lines, zinf_nr_keys);
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        const zinf_key &k = zinf_keys[i];
        EXPECT_TRUE(seen.insert(k.path).second) << k.path;
        ASSERT_NE(k.doc, nullptr) << k.path;
        EXPECT_NE(list.find(std::string(k.path) + "  "), std::string::npos);
        if (k.rule != ZINF_RULE_USED) {
            EXPECT_NE(k.why, nullptr) << k.path;
        }
        if (k.same_as) {
            EXPECT_NE(zinf_key_find(k.same_as), nullptr) << k.path;
        }
        if (k.type == ZINF_KEY_CHOICE) {
            EXPECT_NE(k.choices, nullptr) << k.path;
        }
    }
    EXPECT_NE(list.find("\nzero_optimization.offload_param.device              none|cpu|nvme  \"none\"       home of the weights\n"),
              std::string::npos) << "columns";
}

/* Every key takes its own default as a value, from the file and from --set; and refuses a value of no type at all. */
TEST(Keys, TakeTheirDefaultAndRefuseNonsense)
{
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        const zinf_key &k = zinf_keys[i];
        const zinf_key &of = k.same_as ? *zinf_key_find(k.same_as) : k;
        if (of.type == ZINF_KEY_FREE)
            continue;
        if (of.dflt && strcmp(k.path, "train_batch_size") != 0) {
            std::string set = std::string(k.path) + "=" + of.dflt;
            Loaded l("{\"train_batch_size\": 1}", { set.c_str() });
            bool null_refused = strcmp(of.dflt, "null") == 0 && !(of.flags & ZINF_KEY_NULL);
            EXPECT_EQ(l.rc, null_refused ? -EINVAL : 0) << set << ": " << l.st.text;
        }
        std::string nonsense = std::string(k.path) + "=[[{}]]";
        Loaded bad("{\"train_batch_size\": 1}", { nonsense.c_str() });
        EXPECT_EQ(bad.rc, -EINVAL) << nonsense;
        EXPECT_NE(std::string(bad.st.text).find("must be "), std::string::npos) << bad.st.text;
    }
}

TEST(Keys, EveryUnknownNeighbourIsAnErrorWithAHint)
{
    for (uint32_t i = 0; i < zinf_nr_keys; i++) {
        std::string path = zinf_keys[i].path;
        if (path == "zinf.drive_tbw" || path == "amp")   /* too short to be told from something else by half */
            continue;
        std::string set = path + "x=1";
        Loaded l("{\"train_batch_size\": 1}", { set.c_str() });
        EXPECT_EQ(l.rc, -EINVAL) << set;
        EXPECT_NE(std::string(l.st.text).find("unknown key"), std::string::npos) << l.st.text;
        EXPECT_NE(std::string(l.st.text).find("did you mean"), std::string::npos) << l.st.text;
    }
}

/* ---- random damage: nothing crashes, and every refusal has its one line ---- */

TEST(ConfigFuzz, DamagedConfigurationsAreReadOrRefused)
{
    std::mt19937 rng(99);
    static const char *const values[] = {
        "1", "0", "-1", "0.5", "5e8", "1e300", "true", "false", "null", "\"auto\"", "\"cpu\"", "\"nvme\"", "\"\"", "\"24GiB\"",
        "[]", "{}", "[0.9, 0.99]", "[\"/a\"]", "{\"enabled\": true}", "{\"enabled\": false}", "\"bf16\"", "\"AdamW\"", "3",
        "4096", "\"\xc3\xa9\"",
    };
    int good = 0, bad = 0;

    for (int i = 0; i < 4000; i++) {
        std::vector<std::string> sets = { "train_batch_size=8" };
        std::vector<const char *> raw;
        int nr = 1 + (int)(rng() % 5);
        for (int j = 0; j < nr; j++) {
            std::string path = zinf_keys[rng() % zinf_nr_keys].path;
            if (rng() % 20 == 0)
                path.insert(rng() % path.size(), 1, (char)('!' + rng() % 90));
            sets.push_back(path + "=" + values[rng() % (sizeof(values) / sizeof(values[0]))]);
        }
        for (const std::string &s : sets)
            raw.push_back(s.c_str());
        Loaded l(rng() % 2 ? "{}" : Z3 "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/a\"}}}", raw);
        if (l.rc == 0) {
            good++;
            ASSERT_EQ((uint64_t)l.c.micro_batch_size * l.c.gradient_accumulation_steps, l.c.train_batch_size);
            ASSERT_FALSE(l.Explain().empty());
        } else {
            bad++;
            ASSERT_EQ(l.rc, -EINVAL);
            ASSERT_STRNE(l.st.text, "");
        }
    }
    EXPECT_GT(good, 200);
    EXPECT_GT(bad, 1000);
}

}  // namespace
