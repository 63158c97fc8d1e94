/* tests/model/model_test.cc - config.json to chain: names, shapes, defaults, and everything that is refused. */
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/model/model.h"

namespace {

const char *const kBase =
    "{\n\"architectures\": [\"LlamaForCausalLM\"],\n\"hidden_size\": 64,\n\"intermediate_size\": 128,\n"
    "\"num_hidden_layers\": 2,\n\"num_attention_heads\": 4,\n\"vocab_size\": 256";

/* The base config with more members on line 8. */
std::string with(const std::string &more) { return std::string(kBase) + ",\n" + more + "\n}\n"; }

struct Opened {
    zinf_model *m = nullptr;
    zinf_status st = {};
    int rc;
    explicit Opened(const std::string &text, uint32_t seq = 0)
    {
        rc = zinf_model_parse(text.data(), text.size(), "m.json", seq, nullptr, &m, &st);
    }
    ~Opened() { zinf_model_close(m); }
};

TEST(Model, NamesShapesAndOrderAreHuggingFaces)
{
    Opened o(with("\"num_key_value_heads\": 2"));
    ASSERT_EQ(0, o.rc) << o.st.text;
    const zinf_chain &c = o.m->chain;
    EXPECT_STREQ("model.embed_tokens.weight", c.embedding->name);
    EXPECT_EQ(256u, c.embedding->dims[0]);
    EXPECT_EQ(64u, c.embedding->dims[1]);
    ASSERT_EQ(2u, c.nr_layers);
    const zinf_layer &l = c.layers[1];
    ASSERT_EQ(9u, l.nr_params);
    const struct { const char *name; uint32_t nr_dims; uint64_t rows, cols; } want[] = {
        {"model.layers.1.self_attn.q_proj.weight", 2, 64, 64},
        {"model.layers.1.self_attn.k_proj.weight", 2, 32, 64},
        {"model.layers.1.self_attn.v_proj.weight", 2, 32, 64},
        {"model.layers.1.self_attn.o_proj.weight", 2, 64, 64},
        {"model.layers.1.mlp.gate_proj.weight", 2, 128, 64},
        {"model.layers.1.mlp.up_proj.weight", 2, 128, 64},
        {"model.layers.1.mlp.down_proj.weight", 2, 64, 128},
        {"model.layers.1.input_layernorm.weight", 1, 64, 0},
        {"model.layers.1.post_attention_layernorm.weight", 1, 64, 0},
    };
    for (int i = 0; i < 9; i++) {
        EXPECT_STREQ(want[i].name, l.params[i].name);
        EXPECT_EQ(want[i].nr_dims, l.params[i].nr_dims);
        EXPECT_EQ(want[i].rows, l.params[i].dims[0]);
        EXPECT_EQ(want[i].cols, l.params[i].dims[1]);
        EXPECT_EQ(want[i].nr_dims == 1 ? ZINF_INIT_ONE : ZINF_INIT_NORMAL, l.params[i].init);
    }
    EXPECT_FLOAT_EQ(0.02f, l.params[0].std);
    ASSERT_EQ(2u, c.head->nr_params);
    EXPECT_STREQ("model.norm.weight", c.head->params[0].name);
    EXPECT_STREQ("lm_head.weight", c.head->params[1].name);
    EXPECT_EQ(2u * 256 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128 + 128) + 64, o.m->nr_params);
    EXPECT_EQ(1024u, o.m->seq) << "of 2048 positions";
    EXPECT_EQ(6.0 * (double)(o.m->nr_params - 256 * 64) + 12.0 * 2 * 64 * 1024, c.flops_per_token);
}

TEST(Model, TiedHeadBeginsWithTheEmbedding)
{
    Opened o(with("\"tie_word_embeddings\": true"));
    ASSERT_EQ(0, o.rc) << o.st.text;
    EXPECT_TRUE(o.m->chain.tied);
    EXPECT_STREQ(o.m->chain.embedding->name, o.m->chain.head->params[0].name);
    EXPECT_STREQ("model.norm.weight", o.m->chain.head->params[1].name);
    EXPECT_EQ(256u * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 128) + 64, o.m->nr_params);
}

TEST(Model, OrdinaryKeysOfACheckpointAreAccepted)
{
    Opened o(with(
        "\"bos_token_id\": 1, \"transformers_version\": \"4.40\", \"use_cache\": true, \"torch_dtype\": \"bfloat16\","
        "\"rope_scaling\": null, \"attention_bias\": false, \"mlp_bias\": false, \"attention_dropout\": 0.0,"
        "\"hidden_act\": \"silu\", \"pretraining_tp\": 1, \"rope_theta\": 5e5, \"model_type\": \"llama\","
        "\"max_position_embeddings\": 512, \"head_dim\": 32, \"some_new_key\": null"));
    ASSERT_EQ(0, o.rc) << o.st.text;
    EXPECT_EQ(ZINF_BF16, o.m->dtype);
    EXPECT_EQ(512u, o.m->seq);
    EXPECT_EQ(5e5, o.m->llama.rope_theta);
    EXPECT_EQ(128u, o.m->chain.layers[0].params[0].dims[0]) << "head_dim x heads";
}

TEST(Model, RopeParametersOfNewerFiles)
{
    Opened ok(with("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 7000}"));
    ASSERT_EQ(0, ok.rc) << ok.st.text;
    EXPECT_EQ(7000.0, ok.m->llama.rope_theta);
    Opened yarn(with("\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 7000}"));
    EXPECT_EQ(-EINVAL, yarn.rc);
}

TEST(Model, WhatWouldChangeTheMathsIsRefusedWithItsLine)
{
    const struct { const char *more, *word; } bad[] = {
        { "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}", "rope_scaling" },
        { "\"attention_bias\": true", "attention_bias" },
        { "\"mlp_bias\": true", "mlp_bias" },
        { "\"attention_dropout\": 0.1", "attention_dropout" },
        { "\"hidden_act\": \"gelu\"", "hidden_act" },
        { "\"sliding_window\": 4096", "sliding_window" },
        { "\"quantization_config\": {}", "quantization_config" },
        { "\"pretraining_tp\": 2", "pretraining_tp" },
        { "\"partial_rotary_factor\": 0.5", "partial_rotary_factor" },
        { "\"torch_dtype\": \"float8\"", "torch_dtype" },
        { "\"logit_softcapping\": 30.0", "logit_softcapping" },
        { "\"rope_thetta\": 1.0", "rope_theta" },
        { "\"head_dim\": 15", "head_dim" },
        { "\"head_dim\": 1026", "head_dim" },
        { "\"num_key_value_heads\": 3", "num_key_value_heads" },
        { "\"rms_norm_eps\": \"small\"", "rms_norm_eps" },
        { "\"rms_norm_eps\": -1", "rms_norm_eps" },
        { "\"head_dim\": 4.5", "head_dim" },
        { "\"max_position_embeddings\": 0", "max_position_embeddings" },
        { "\"max_position_embeddings\": 1e300", "max_position_embeddings" },
        { "\"tie_word_embeddings\": 1", "tie_word_embeddings" },
    };
    for (const auto &b : bad) {
        Opened o(with(b.more));
        EXPECT_EQ(-EINVAL, o.rc) << b.more;
        EXPECT_EQ(nullptr, o.m);
        EXPECT_NE(std::string::npos, std::string(o.st.text).find(b.word)) << o.st.text;
        EXPECT_EQ(0u, std::string(o.st.text).find("m.json")) << o.st.text;
        EXPECT_EQ(nullptr, strchr(o.st.text, '\n'));
    }
    EXPECT_NE(std::string::npos, std::string(Opened(with("\"mlp_bias\": true")).st.text).find("m.json:8:"));
}

TEST(Model, MissingSizesAndOtherArchitecturesAreNamed)
{
    Opened empty("{}");
    EXPECT_EQ(-EINVAL, empty.rc);
    EXPECT_NE(nullptr, strstr(empty.st.text, "architectures"));
    Opened gpt("{\"architectures\": [\"GPT2LMHeadModel\"]}");
    EXPECT_NE(nullptr, strstr(gpt.st.text, "GPT2LMHeadModel"));
    Opened sizes("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8}");
    EXPECT_NE(nullptr, strstr(sizes.st.text, "intermediate_size"));
    Opened list("[1]");
    EXPECT_EQ(-EINVAL, list.rc);
    Opened broken("{\"architectures\": ");
    EXPECT_EQ(-EINVAL, broken.rc);
}

TEST(Model, SequenceAboveTheMaximumIsRefused)
{
    Opened o(with("\"max_position_embeddings\": 128"), 129);
    EXPECT_EQ(-EINVAL, o.rc);
    EXPECT_NE(nullptr, strstr(o.st.text, "128"));
    Opened fits(with("\"max_position_embeddings\": 128"), 128);
    EXPECT_EQ(0, fits.rc) << fits.st.text;
}

TEST(Model, RopeTableIsCosineAndSineOfThePosition)
{
    Opened o(with("\"rope_theta\": 10000.0"));
    ASSERT_EQ(0, o.rc) << o.st.text;
    const zinf_layer *l = &o.m->chain.layers[0];
    ASSERT_EQ(5u * 8 * 2 * sizeof(float), l->constants_nbytes(l, 2, 5));
    std::vector<float> t(5 * 8 * 2);
    l->constants(l, 2, 5, t.data());
    EXPECT_EQ(1.0f, t[0]);
    EXPECT_EQ(0.0f, t[1]);
    EXPECT_FLOAT_EQ(0.5403023f, t[(1 * 8 + 0) * 2]);
    EXPECT_FLOAT_EQ(0.8414710f, t[(1 * 8 + 0) * 2 + 1]);
    EXPECT_NEAR(std::cos(0.4), (double)t[(4 * 8 + 2) * 2], 1e-7);
    EXPECT_NEAR(std::sin(0.4), (double)t[(4 * 8 + 2) * 2 + 1], 1e-7);
}

TEST(Model, OpensAFolderOrAFile)
{
    char dir[] = "/tmp/zinf_model_XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(dir));
    std::string file = std::string(dir) + "/config.json";
    zinf_model *m = nullptr;
    zinf_status st = {};
    EXPECT_EQ(-ENOENT, zinf_model_open(dir, 0, nullptr, &m, &st));
    EXPECT_NE(nullptr, strstr(st.text, "config.json"));
    std::ofstream(file) << with("\"use_cache\": true");
    for (const std::string &path : { std::string(dir), file }) {
        zinf_status ok = {};
        ASSERT_EQ(0, zinf_model_open(path.c_str(), 16, nullptr, &m, &ok)) << ok.text;
        EXPECT_EQ(with("\"use_cache\": true"), std::string(m->config_text, m->config_nbytes));
        EXPECT_EQ(16u, m->seq);
        zinf_model_close(m);
    }
    unlink(file.c_str());
    rmdir(dir);
}

TEST(Model, TheExampleConfigsOpen)
{
    const struct { const char *path; uint64_t nr_params; } examples[] = {
        { "examples/models/byte-llama-5m.json", 4877568 },
        { "examples/models/byte-llama-tiny.json", 125248 },
    };
    for (const auto &e : examples) {
        zinf_model *m = nullptr;
        zinf_status st = {};
        ASSERT_EQ(0, zinf_model_open(e.path, 0, nullptr, &m, &st)) << st.text;
        EXPECT_EQ(e.nr_params, m->nr_params);
        EXPECT_EQ(256u, m->chain.vocab) << "a byte is a token";
        zinf_model_close(m);
    }
}

TEST(Model, CloseTakesNull) { zinf_model_close(nullptr); }

}  // namespace
