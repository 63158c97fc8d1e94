/* tests/model/llama_test.cc - the Llama chain on the CPU device against a model in double and its finite
 * differences. */
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/llama_reference.h"
#include "tests/model/llama_run.h"
#include "zinf/model/model.h"

namespace {

struct Shape {
    const char *name;
    int hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
    bool tied;
    uint32_t batch, seq;
};

zinf_model *open_model(const Shape &s)
{
    char text[1024];
    zinf_status st = {};
    zinf_model *m = nullptr;
    int n = snprintf(
        text, sizeof(text),
        "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, \"intermediate_size\": %d, "
        "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d, "
        "\"vocab_size\": %d, \"tie_word_embeddings\": %s, \"initializer_range\": 0.3, \"rope_theta\": 100.0, "
        "\"rms_norm_eps\": 1e-3}",
        s.hidden, s.intermediate, s.layers, s.heads, s.kv_heads, s.head_dim, s.vocab, s.tied ? "true" : "false");

    EXPECT_EQ(0, zinf_model_parse(text, (size_t)n, "test.json", s.seq, nullptr, &m, &st)) << st.text;
    return m;
}

/* |got - want| / |want| over a whole tensor; a tensor near zero is held to 0.01. */
double distance(const std::vector<float> &got, const std::vector<double> &want)
{
    double diff = 0, size = 0;

    EXPECT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); i++) {
        diff += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += want[i] * want[i];
    }
    return std::sqrt(diff / (size + 1e-4));
}

std::vector<double> differences(const LlamaReference &ref, Params p, const std::string &name, const Batch &b)
{
    std::vector<double> out(p[name].size());

    for (size_t i = 0; i < out.size(); i++) {
        double keep = p[name][i], h = 1e-5;
        p[name][i] = keep + h;
        double up = ref.total(p, b.tokens, b.targets, b.seq);
        p[name][i] = keep - h;
        out[i] = (up - ref.total(p, b.tokens, b.targets, b.seq)) / (2 * h);
        p[name][i] = keep;
    }
    return out;
}

class LlamaShape : public ::testing::TestWithParam<Shape> {};

/* Losses and the gradient of every parameter; accumulators, outputs and scratch hold NaN before (beta 0). */
TEST_P(LlamaShape, MatchesFiniteDifferences)
{
    const Shape &s = GetParam();
    zinf_model *m = open_model(s);
    ASSERT_NE(nullptr, m);
    LlamaReference ref(m->llama);
    Batch b = make_batch(s.batch, s.seq, (uint64_t)s.vocab);
    {
        LlamaRun run(m, ZINF_F32, 1);
        run.forward(b);
        std::vector<double> want = ref.rows(run.values(), b.tokens, b.targets, b.seq);
        EXPECT_LT(distance(run.row_loss(), want), 1e-5);
        run.backward(b, 0);
        EXPECT_LT(distance(run.row_loss(), want), 1e-5) << "backward writes the losses too";
        run.each_param([&](const zinf_param &p) {
            EXPECT_LT(distance(run.grad(p.name), differences(ref, run.values(), p.name, b)), 1e-4) << p.name;
        });
    }
    zinf_model_close(m);
}

INSTANTIATE_TEST_SUITE_P(Every, LlamaShape,
                         ::testing::Values(Shape{ "Plain", 8, 12, 2, 2, 2, 4, 11, false, 2, 5 },
                                           Shape{ "Tied", 8, 12, 1, 2, 2, 4, 11, true, 2, 5 },
                                           Shape{ "Grouped", 8, 12, 1, 4, 2, 2, 11, false, 1, 7 },
                                           Shape{ "WideHeads", 6, 10, 1, 3, 1, 4, 11, false, 2, 3 },
                                           Shape{ "NarrowHeads", 12, 5, 1, 2, 1, 2, 11, false, 2, 3 },
                                           Shape{ "OneRow", 8, 12, 1, 2, 1, 4, 11, false, 1, 1 },
                                           Shape{ "RowChunks", 4, 6, 1, 2, 1, 2, 5, true, 3, 70 }),
                         [](const auto &info) { return info.param.name; });

const Shape kPlain = { "", 8, 12, 2, 2, 1, 4, 11, false, 2, 5 };

TEST(Llama, BetaOneAddsToTheAccumulators)
{
    zinf_model *m = open_model(kPlain);
    ASSERT_NE(nullptr, m);
    Batch b = make_batch(2, 5, 11);
    {
        LlamaRun run(m, ZINF_F32, 1);
        run.forward(b);
        run.backward(b, 0);
        std::map<std::string, std::vector<float>> once;
        run.each_param([&](const zinf_param &p) { once[p.name] = run.grad(p.name); });
        run.backward(b, 1);
        run.each_param([&](const zinf_param &p) {
            std::vector<double> twice;
            for (float v : once[p.name])
                twice.push_back(2.0 * (double)v);
            EXPECT_LT(distance(run.grad(p.name), twice), 1e-5) << p.name;
        });
    }
    zinf_model_close(m);
}

/* Weights are bf16 in both; what differs is the rounding of every boundary to 8 bits. */
TEST(Llama, Bf16IsNearTheReference)
{
    zinf_model *m = open_model(kPlain);
    ASSERT_NE(nullptr, m);
    LlamaReference ref(m->llama);
    Batch b = make_batch(2, 5, 11);
    {
        LlamaRun run(m, ZINF_BF16, 1);
        run.forward(b);
        EXPECT_LT(distance(run.row_loss(), ref.rows(run.values(), b.tokens, b.targets, b.seq)), 0.01);
        run.backward(b, 0);
        run.each_param([&](const zinf_param &p) {
            EXPECT_LT(distance(run.grad(p.name), differences(ref, run.values(), p.name, b)), 0.03) << p.name;
        });
    }
    zinf_model_close(m);
}

/* Sizes that are cut in several tiles and chunks: the bits are those of one thread. */
TEST(Llama, ThreadsDoNotChangeABit)
{
    const Shape s = { "", 96, 264, 2, 4, 2, 24, 300, false, 2, 150 };
    zinf_model *m = open_model(s);
    ASSERT_NE(nullptr, m);
    Batch b = make_batch(s.batch, s.seq, 300);
    for (zinf_dtype dtype : { ZINF_F32, ZINF_BF16 }) {
        LlamaRun one(m, dtype, 1), two(m, dtype, 2);
        for (LlamaRun *run : { &one, &two }) {
            run->forward(b);
            run->backward(b, 0);
        }
        EXPECT_EQ(0, memcmp(one.row_loss().data(), two.row_loss().data(), b.rows() * sizeof(float)));
        one.each_param([&](const zinf_param &p) {
            std::vector<float> g1 = one.grad(p.name), g2 = two.grad(p.name);
            EXPECT_EQ(0, memcmp(g1.data(), g2.data(), g1.size() * sizeof(float))) << p.name;
        });
    }
    zinf_model_close(m);
}

/* A vocabulary that allows 64 rows of logits at a time: the loss and one directional derivative over all of the
 * head. */
TEST(Llama, HeadRunsInChunksOfRows)
{
    const Shape s = { "", 4, 4, 1, 2, 1, 2, 17000, false, 1, 150 };
    zinf_model *m = open_model(s);
    ASSERT_NE(nullptr, m);
    EXPECT_LT(m->chain.head->work_nbytes(m->chain.head, 1, 150, 4), 150u * 17000u * sizeof(float));
    LlamaReference ref(m->llama);
    Batch b = make_batch(1, 150, 17000);
    {
        LlamaRun run(m, ZINF_F32, 1);
        run.forward(b);
        EXPECT_LT(distance(run.row_loss(), ref.rows(run.values(), b.tokens, b.targets, b.seq)), 1e-5);
        run.backward(b, 0);
        for (const char *name : { "lm_head.weight", "model.norm.weight", "model.layers.0.mlp.up_proj.weight" }) {
            std::vector<float> g = run.grad(name);
            double along = 0, size = 0, h = 1e-5;
            Params up = run.values(), down = run.values();
            for (size_t i = 0; i < g.size(); i++) {
                double step = std::sin((double)(i * i % 1013));
                along += step * (double)g[i];
                size += (double)g[i] * (double)g[i];
                up[name][i] += h * step;
                down[name][i] -= h * step;
            }
            double want = (ref.total(up, b.tokens, b.targets, b.seq) - ref.total(down, b.tokens, b.targets, b.seq)) /
                          (2 * h);
            EXPECT_NEAR(along, want, 1e-4 * std::sqrt(size)) << name;
        }
    }
    zinf_model_close(m);
}

/* Sequences too long for a common group: as many micro-batches of one sequence, and the scratch of one. */
TEST(Llama, SequencesRunInGroups)
{
    const Shape s = { "", 8, 12, 2, 2, 1, 4, 11, false, 3, 600 };
    zinf_model *m = open_model(s);
    ASSERT_NE(nullptr, m);
    const zinf_layer *l = &m->chain.layers[0];
    EXPECT_EQ(l->work_nbytes(l, 1, 600, 8), l->work_nbytes(l, 3, 600, 8));
    EXPECT_LT(l->work_nbytes(l, 1, 400, 8), l->work_nbytes(l, 3, 400, 8)) << "two of 400 are a group";
    Batch b = make_batch(3, 600, 11);
    {
        LlamaRun all(m, ZINF_F32, 1), apart(m, ZINF_F32, 1);
        std::vector<double> losses;
        all.forward(b);
        all.backward(b, 0);
        for (uint32_t i = 0; i < 3; i++) {
            Batch one{ 1, 600, {}, {} };
            one.tokens.assign(b.tokens.begin() + i * 600, b.tokens.begin() + (i + 1) * 600);
            one.targets.assign(b.targets.begin() + i * 600, b.targets.begin() + (i + 1) * 600);
            apart.forward(one);
            apart.backward(one, i ? 1 : 0);
            losses.insert(losses.end(), apart.row_loss().begin(), apart.row_loss().end());
        }
        EXPECT_LT(distance(all.row_loss(), losses), 1e-6);
        all.each_param([&](const zinf_param &p) {
            std::vector<float> want = apart.grad(p.name);
            EXPECT_LT(distance(all.grad(p.name), std::vector<double>(want.begin(), want.end())), 1e-5) << p.name;
        });
    }
    zinf_model_close(m);
}

/* The contract of the scratch: 9 widths a row (heads as kv heads) however wide the feed-forward part is. */
TEST(Llama, ScratchOfALayerIsNineWidthsPerRow)
{
    const Shape s = { "", 256, 688, 1, 8, 8, 32, 256, false, 1, 1024 };
    zinf_model *m = open_model(s);
    ASSERT_NE(nullptr, m);
    size_t nbytes = m->chain.layers[0].work_nbytes(&m->chain.layers[0], 1, 1024, 256);
    EXPECT_LE(nbytes, 1024u * (9u * 256u + 8u + 1u + 4u) * sizeof(float));
    zinf_model_close(m);
}

}  // namespace
