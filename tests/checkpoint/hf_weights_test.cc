/* tests/checkpoint/hf_weights_test.cc - weights come from where the folder says, or the start fails and says why. */
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/temp_dir.h"
#include "zinf/base/dtype.h"
#include "zinf/base/log.h"
#include "zinf/checkpoint/hf_weights.h"
#include "zinf/zinf.h"

namespace {

struct Tensor { std::string name, dtype, shape, data; };

std::string file(const std::vector<Tensor> &tensors)
{
    std::string header = "{", data, length;
    for (const auto &t : tensors) {
        header += (header.size() > 1 ? ",\"" : "\"") + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":" + t.shape +
                  ",\"data_offsets\":[" + std::to_string(data.size()) + "," + std::to_string(data.size() + t.data.size()) + "]}";
        data += t.data;
    }
    header += "}";
    for (int i = 0; i < 8; i++)
        length += (char)((uint64_t)header.size() >> (8 * i));
    return length + header + data;
}

std::string encode(const std::string &dtype, const std::vector<float> &v)
{
    std::string out;
    for (float f : v) {
        uint16_t h = dtype == "BF16" ? zinf_f32_to_bf16(f) : zinf_f32_to_f16(f);
        if (dtype == "F32")
            out.append((const char *)&f, 4);
        else
            out.append((const char *)&h, 2);
    }
    return out;
}

/* Values that every type holds exactly. */
std::vector<float> values(size_t n, int seed)
{
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((int)((i * 7 + (size_t)seed * 13) % 255) - 127) / 64.0f;
    return v;
}

class HfWeights : public TempDir {
  protected:
    void SetUp() override
    {
        TempDir::SetUp();
        add("embed.weight", { 50, 4 });
        add("norm.weight", { 4 });
        add("none.weight", { 0, 4 });
        add("lm_head.weight", { 50, 4 });
        tensors_ = { { "embed.weight", "BF16", "[50,4]", encode("BF16", values(200, 1)) },
                     { "norm.weight", "F32", "[4]", encode("F32", values(4, 2)) },
                     { "none.weight", "F16", "[0,4]", "" },
                     { "lm_head.weight", "F16", "[50,4]", encode("F16", values(200, 3)) } };
    }
    void TearDown() override
    {
        zinf_hf_weights_close(w_);
        TempDir::TearDown();
    }
    void add(const char *name, std::vector<uint64_t> dims)
    {
        zinf_param p = {};
        p.name = name;
        p.nr_dims = (uint32_t)dims.size();
        std::copy(dims.begin(), dims.end(), p.dims);
        params_.push_back(p);
    }
    static void write_line(void *ctx, enum zinf_log_level, const char *line)
    {
        static_cast<HfWeights *>(ctx)->lines_.push_back(line);
    }
    int open()
    {
        const struct zinf_log log = { ZINF_LOG_DEBUG, write_line, this };
        std::vector<const zinf_param *> pointers;
        for (const auto &p : params_)
            pointers.push_back(&p);
        zinf_hf_weights_close(w_);
        st_ = {};
        lines_.clear();
        return zinf_hf_weights_open(dir_.c_str(), pointers.data(), (uint32_t)pointers.size(), &log, &w_, &st_);
    }
    void put_single() { put("model.safetensors", file(tensors_)); }
    void put_sharded(const std::string &more = "")
    {
        put("m-1.safetensors", file({ tensors_[0], tensors_[1] }));
        put("m-2.safetensors", file({ tensors_[2] }));
        put("m-3.safetensors", file({ tensors_[3] }));
        put("model.safetensors.index.json",
            "{\"metadata\":{},\"weight_map\":{\"embed.weight\":\"m-1.safetensors\",\"norm.weight\":\"m-1.safetensors\","
            "\"none.weight\":\"m-2.safetensors\",\"lm_head.weight\":\"m-3.safetensors\"" + more + "}}");
    }
    void expect_all()
    {
        const std::vector<std::vector<float>> want = { values(200, 1), values(4, 2), {}, values(200, 3) };
        for (uint32_t i = 0; i < params_.size(); i++) {
            std::vector<float> got(want[i].size());
            EXPECT_EQ(0, zinf_hf_weights_read(w_, i, 0, got.size(), got.data(), &st_)) << st_.text;
            EXPECT_EQ(want[i], got);
        }
    }
    bool told(const std::string &word) { return std::string(st_.text).find(word) != std::string::npos; }

    std::vector<zinf_param> params_;
    std::vector<Tensor> tensors_;
    std::vector<std::string> lines_;
    zinf_hf_weights *w_ = nullptr;
    zinf_status st_ = {};
};

TEST_F(HfWeights, OneFileOfThreeTypes)
{
    put_single();
    ASSERT_EQ(0, open()) << st_.text;
    expect_all();
    EXPECT_TRUE(lines_.empty());
}

TEST_F(HfWeights, ShardsThroughTheirIndex)
{
    put_sharded();
    ASSERT_EQ(0, open()) << st_.text;
    expect_all();
    EXPECT_TRUE(lines_.empty());
}

TEST_F(HfWeights, TheSingleFileWinsWithANote)
{
    put_sharded();
    put("m-3.safetensors", "rubbish");
    put_single();
    ASSERT_EQ(0, open()) << st_.text;
    expect_all();
    ASSERT_EQ(1u, lines_.size());
    EXPECT_NE(std::string::npos, lines_[0].find("model.safetensors.index.json"));
}

TEST_F(HfWeights, PiecesFromSeveralThreads)
{
    const size_t n = 100003;
    for (const char *dtype : { "F32", "BF16", "F16" }) {
        params_.clear();
        add("big", { n });
        tensors_ = { { "big", dtype, "[" + std::to_string(n) + "]", encode(dtype, values(n, 5)) } };
        put_single();
        ASSERT_EQ(0, open()) << st_.text;
        const std::vector<float> want = values(n, 5);
        std::vector<int> wrong(3, 0);
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; t++)
            threads.emplace_back([&, t] {
                for (size_t first = (size_t)t * 1000; first < n; first += 9973) {
                    size_t m = std::min<size_t>(n - first, 40001);
                    std::vector<float> got(m);
                    wrong[t] += zinf_hf_weights_read(w_, 0, first, m, got.data(), nullptr) != 0 ||
                                memcmp(got.data(), &want[first], m * 4) != 0;
                }
            });
        for (auto &t : threads)
            t.join();
        EXPECT_EQ(std::vector<int>(3, 0), wrong) << dtype;
    }
    float v;
    EXPECT_EQ(-EINVAL, zinf_hf_weights_read(w_, 0, n, 1, &v, nullptr));
    EXPECT_EQ(-EINVAL, zinf_hf_weights_read(w_, 0, UINT64_MAX, 2, &v, nullptr));
    EXPECT_EQ(-EINVAL, zinf_hf_weights_read(w_, 1, 0, 1, &v, nullptr));
}

TEST_F(HfWeights, MissingShardsAreNamed)
{
    put_sharded();
    std::filesystem::remove(path("m-2.safetensors"));
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("m-2.safetensors") && !told("m-1.safetensors") && told("1 of the 3")) << st_.text;
    std::filesystem::remove(path("m-3.safetensors"));
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("m-2.safetensors, m-3.safetensors")) << st_.text;
    EXPECT_EQ(nullptr, w_);
}

TEST_F(HfWeights, ATensorTheIndexPutsInAShardThatHasNone)
{
    put_sharded(",\"ghost\":\"m-2.safetensors\"");
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("ghost") && told("m-2.safetensors")) << st_.text;
}

TEST_F(HfWeights, AnIndexCannotPointOutsideTheFolder)
{
    for (const char *name : { "../m-1.safetensors", "/etc/passwd", "..", "" }) {
        put_sharded(std::string(",\"x\":\"") + name + "\"");
        EXPECT_EQ(-EINVAL, open()) << name;
        EXPECT_TRUE(told("tensor x")) << st_.text;
    }
    put_sharded(",\"x\":7");
    EXPECT_EQ(-EINVAL, open());
    put("model.safetensors.index.json", "{\"weight_map\":[]}");
    EXPECT_EQ(-EINVAL, open());
    put("model.safetensors.index.json", "{");
    EXPECT_EQ(-EINVAL, open());
}

TEST_F(HfWeights, EveryMissingTensorIsCountedAndTheFirstOnesNamed)
{
    tensors_.erase(tensors_.begin(), tensors_.begin() + 2);
    put_single();
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("2 tensors") && told("embed.weight, norm.weight") && !told("tie_word")) << st_.text;
    for (int i = 0; i < 9; i++)
        add("more.weight", { 1 });
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("11 tensors") && told("and 6 more")) << st_.text;
}

TEST_F(HfWeights, TiedOrNot)
{
    Tensor head = tensors_.back();
    tensors_.pop_back();
    put_single();
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("lm_head.weight") && told("tie_word_embeddings")) << st_.text;
    params_.pop_back();
    ASSERT_EQ(0, open()) << st_.text;
    EXPECT_TRUE(lines_.empty());
    tensors_.push_back(head);
    put_single();
    ASSERT_EQ(0, open()) << st_.text;
    ASSERT_EQ(1u, lines_.size());
    EXPECT_NE(std::string::npos, lines_[0].find("lm_head.weight"));
}

TEST_F(HfWeights, ExtraTensorsAreANoteWhateverTheirType)
{
    tensors_.push_back({ "rotary.inv_freq", "I64", "[2]", std::string(16, 'x') });
    tensors_.push_back({ "mask", "BOOL", "[1]", "x" });
    put_single();
    ASSERT_EQ(0, open()) << st_.text;
    expect_all();
    ASSERT_EQ(1u, lines_.size());
    EXPECT_NE(std::string::npos, lines_[0].find("2 tensors"));
    EXPECT_NE(std::string::npos, lines_[0].find("mask, rotary.inv_freq"));
}

TEST_F(HfWeights, ShapesAndTypesAreTheModels)
{
    put_single();
    params_[0].dims[0] = 4;
    params_[0].dims[1] = 50;
    EXPECT_EQ(-EINVAL, open());
    EXPECT_TRUE(told("embed.weight") && told("[50, 4]") && told("[4, 50]")) << st_.text;
    params_[0].nr_dims = 1;
    params_[0].dims[0] = 200;
    EXPECT_EQ(-EINVAL, open());
    EXPECT_TRUE(told("[200]")) << st_.text;
    params_[0] = params_[3];
    params_[0].name = "embed.weight";
    EXPECT_EQ(0, open()) << st_.text;
    tensors_[1].dtype = "I32";
    put_single();
    EXPECT_EQ(-EINVAL, open());
    EXPECT_TRUE(told("norm.weight") && told("I32")) << st_.text;
}

TEST_F(HfWeights, AValueThatIsNotFiniteIsNamed)
{
    const float bad[] = { INFINITY, -INFINITY, NAN };
    for (const char *dtype : { "F32", "BF16", "F16" })
        for (float b : bad) {
            std::vector<float> v = values(200, 1), got(200);
            v[157] = b;
            tensors_[0] = { "embed.weight", dtype, "[50,4]", encode(dtype, v) };
            put_single();
            ASSERT_EQ(0, open()) << st_.text;
            EXPECT_EQ(0, zinf_hf_weights_read(w_, 0, 0, 157, got.data(), &st_)) << st_.text;
            EXPECT_EQ(0, zinf_hf_weights_read(w_, 0, 158, 42, got.data(), &st_)) << st_.text;
            EXPECT_EQ(-EDOM, zinf_hf_weights_read(w_, 0, 100, 80, got.data(), &st_));
            EXPECT_TRUE(told("embed.weight") && told("element 157") && told(std::isnan(b) ? "not a number" : "infinite"))
                << st_.text;
        }
}

TEST_F(HfWeights, AFolderWithoutWeights)
{
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("model.safetensors")) << st_.text;
    put("pytorch_model.bin", "x");
    EXPECT_EQ(-ENOENT, open());
    EXPECT_TRUE(told("save the model as safetensors")) << st_.text;
    put("model.safetensors", file(tensors_).substr(0, 700));
    EXPECT_EQ(-EINVAL, open());
    EXPECT_TRUE(told("model.safetensors")) << st_.text;
}

}  // namespace
