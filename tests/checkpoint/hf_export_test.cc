/* tests/checkpoint/hf_export_test.cc - a folder that loads elsewhere: weights in pieces, config with the dtype set. */
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/temp_dir.h"
#include "zinf/base/dtype.h"
#include "zinf/checkpoint/hf_config.h"
#include "zinf/checkpoint/hf_export.h"
#include "zinf/checkpoint/safetensors.h"
#include "zinf/zinf.h"

namespace {

using Names = std::set<std::string>;

const zinf_param kParams[] = {
    { "model.embed_tokens.weight", 2, { 7, 3 }, ZINF_INIT_NORMAL, 1 }, { "model.norm.weight", 1, { 3 }, ZINF_INIT_ONE, 0 },
};
const zinf_param *const kList[] = { &kParams[0], &kParams[1] };
const char *const kConfig = "{\"hidden_size\": 3, \"torch_dtype\": \"float32\"}\n";

struct Calls { uint64_t largest = 0; int fail_at = -1, nr = 0; };

float value(uint32_t param, uint64_t i) { return (float)param * 100 + (float)i; }

int fetch(void *ctx, uint32_t param, uint64_t first, uint64_t nr_elems, void *out, zinf_status *st)
{
    Calls *c = (Calls *)ctx;
    c->largest = std::max(c->largest, nr_elems);
    if (c->nr++ == c->fail_at)
        return zinf_fail(st, -EIO, "the drive is gone");
    for (uint64_t i = 0; i < nr_elems; i++)
        ((uint16_t *)out)[i] = zinf_f32_to_bf16(value(param, first + i));
    return 0;
}

class Export : public TempDir {
  protected:
    int run(const std::string &dir)
    {
        zinf_hf_export_opts o = {};
        st_ = {};
        o.dir = dir.c_str();
        o.params = kList;
        o.nr_params = 2;
        o.dtype = ZINF_BF16;
        o.config_text = config_;
        o.config_nbytes = config_ ? strlen(config_) : 0;
        o.piece_nbytes = 10;
        o.fetch = fetch;
        o.ctx = &calls_;
        return zinf_hf_export(&o, &st_);
    }

    const char *config_ = kConfig;
    Calls calls_;
    zinf_status st_ = {};
};

TEST_F(Export, AFolderThatLoads)
{
    ASSERT_EQ(0, run(path("out"))) << st_.text;
    EXPECT_EQ((Names{ "config.json", "model.safetensors" }), names("out"));
    EXPECT_EQ(5u, calls_.largest) << "10 bytes are 5 elements";
    EXPECT_EQ("{\"hidden_size\": 3, \"torch_dtype\": \"bfloat16\"}\n", get("out/config.json"));
    zinf_st_file *f = nullptr;
    ASSERT_EQ(0, zinf_st_open(path("out/model.safetensors").c_str(), &f, &st_)) << st_.text;
    ASSERT_EQ(2u, zinf_st_nr_tensors(f));
    for (uint32_t p = 0; p < 2; p++) {
        const zinf_st_tensor *t = zinf_st_find(f, kParams[p].name);
        ASSERT_NE(nullptr, t);
        std::vector<uint16_t> got(t->nbytes / 2);
        ASSERT_EQ(0, zinf_st_read(f, t, 0, got.data(), t->nbytes, &st_));
        ASSERT_EQ(zinf_param_elems(&kParams[p]), got.size());
        for (uint64_t i = 0; i < got.size(); i++)
            EXPECT_EQ(zinf_f32_to_bf16(value(p, i)), got[i]);
    }
    zinf_st_close(f);
    ASSERT_EQ(0, run(path("out"))) << "again over itself: " << st_.text;
    config_ = nullptr;
    ASSERT_EQ(0, run(path("bare/"))) << st_.text;
    EXPECT_EQ((Names{ "model.safetensors" }), names("bare"));
}

TEST_F(Export, AFolderWithAnythingElseIsLeftAlone)
{
    put("thesis.tex", "years");
    EXPECT_EQ(-EEXIST, run(dir_));
    EXPECT_NE(nullptr, strstr(st_.text, "thesis.tex")) << st_.text;
    EXPECT_EQ((Names{ "thesis.tex" }), names());
    EXPECT_EQ(-ENOTDIR, run(path("thesis.tex")));
    EXPECT_EQ(-ENOENT, run(path("no/parent")));
    EXPECT_EQ(0, zinf_hf_check_dir(path("new").c_str(), &st_));
}

TEST_F(Export, AFailedReadNamesTheTensorAndLeavesNoModel)
{
    calls_.fail_at = 5;
    EXPECT_EQ(-EIO, run(path("out")));
    EXPECT_STREQ("the drive is gone", st_.text);
    EXPECT_EQ(Names{}, names("out"));
}

TEST_F(Export, ABrokenConfigIsRefusedBeforeAnythingIsMade)
{
    config_ = "{\"a\": ";
    EXPECT_EQ(-EINVAL, run(path("out")));
    EXPECT_FALSE(std::filesystem::exists(path("out")));
}

std::string with_bf16(const std::string &text)
{
    char *out = nullptr;
    size_t n = 0;
    zinf_status st = {};
    EXPECT_EQ(0, zinf_hf_config_with_dtype(text.data(), text.size(), ZINF_BF16, &out, &n, &st)) << st.text;
    std::string s(out, n);
    free(out);
    return s;
}

TEST(HfConfig, OnlyTheTopLevelDtypeChanges)
{
    EXPECT_EQ("{\"torch_dtype\" :\n \"bfloat16\" }", with_bf16("{\"torch_dtype\" :\n null }"));
    EXPECT_EQ("{\"torch_dtype\":\"bfloat16\"}", with_bf16("{\"torch_dtype\":null}"));
    EXPECT_EQ("{\"dtype\":\"bfloat16\",\"x\":[1,{\"dtype\":\"y\"}]}",
              with_bf16("{\"dtype\":\"float32\",\"x\":[1,{\"dtype\":\"y\"}]}"));
    EXPECT_EQ("{\"x\":\"\\\"}{\",\"a\":{\"torch_dtype\":1},\"torch_dtype\":\"bfloat16\",\"z\":-1e5}",
              with_bf16("{\"x\":\"\\\"}{\",\"a\":{\"torch_dtype\":1},\"torch_dtype\":{\"b\":[\"]\"]},\"z\":-1e5}"));
    EXPECT_EQ("{\"torch_dtype\":\"bfloat16\",\"dtype\":\"bfloat16\"}", with_bf16("{\"torch_dtype\":\"a\",\"dtype\":\"b\"}"));
}

TEST(HfConfig, AddedWhereItIsMissing)
{
    EXPECT_EQ("{\n  \"torch_dtype\": \"bfloat16\",\n  \"a\": 1\n}\n", with_bf16("{\n  \"a\": 1\n}\n"));
    EXPECT_EQ("{\n  \"torch_dtype\": \"bfloat16\"}", with_bf16("{}"));
}

TEST(HfConfig, OnlyObjectsHaveOne)
{
    char *out = nullptr;
    size_t n;
    zinf_status st = {};
    EXPECT_EQ(-EINVAL, zinf_hf_config_with_dtype("[1]", 3, ZINF_BF16, &out, &n, &st));
    EXPECT_EQ(nullptr, out);
}

}  // namespace
