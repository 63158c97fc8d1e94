/* tests/checkpoint/st_writer_test.cc - what is written reads back, in shards or one file, or leaves nothing. */
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/temp_dir.h"
#include "zinf/base/dtype.h"
#include "zinf/checkpoint/safetensors.h"
#include "zinf/checkpoint/st_writer.h"
#include "zinf/config/json.h"

namespace {

using Names = std::set<std::string>;

const zinf_st_desc kTensors[] = {
    { "a", ZINF_F32, 2, { 2, 3 } }, { "b", ZINF_BF16, 1, { 5 } }, { "none", ZINF_F32, 2, { 0, 4 } },
    { "a \"quoted\" name", ZINF_F16, 0, {} }, { "c", ZINF_F32, 1, { 4 } },
};
const size_t kNbytes[] = { 24, 10, 0, 2, 16 };
const size_t kTotal = 52;

std::string data()
{
    std::string s;
    for (size_t i = 0; i < kTotal; i++)
        s += (char)('A' + i);
    return s;
}

class Writer : public TempDir {
  protected:
    int open(uint64_t shard_nbytes)
    {
        zinf_st_writer_opts o = {};
        o.dir = dir_.c_str();
        o.tensors = kTensors;
        o.nr_tensors = 5;
        o.shard_nbytes = shard_nbytes;
        return zinf_st_writer_open(&o, &w_, &st_);
    }
    void TearDown() override
    {
        zinf_st_writer_close(w_);
        TempDir::TearDown();
    }
    void write_all(uint64_t shard_nbytes, size_t piece)
    {
        std::string all = data();
        ASSERT_EQ(0, open(shard_nbytes)) << st_.text;
        for (size_t i = 0; i < all.size(); i += piece)
            ASSERT_EQ(0, zinf_st_writer_write(w_, all.data() + i, std::min(piece, all.size() - i), &st_)) << st_.text;
        ASSERT_EQ(0, zinf_st_writer_finish(w_, &st_)) << st_.text;
        zinf_st_writer_close(w_);
        w_ = nullptr;
    }
    /* Every tensor that file holds has its bytes; returns how many those are. */
    uint32_t check(const std::string &file)
    {
        zinf_st_file *f = nullptr;
        EXPECT_EQ(0, zinf_st_open(path(file).c_str(), &f, &st_)) << st_.text;
        if (!f)
            return 0;
        EXPECT_STREQ("pt", zinf_st_metadata(f, "format"));
        uint64_t header = 0;
        memcpy(&header, get(file).data(), 8);
        EXPECT_EQ(0u, header % 8) << "data is aligned";
        size_t at = 0;
        uint32_t nr = zinf_st_nr_tensors(f), found = 0;
        for (int i = 0; i < 5; at += kNbytes[i++]) {
            const zinf_st_tensor *t = zinf_st_find(f, kTensors[i].name);
            if (!t)
                continue;
            found++;
            EXPECT_STREQ(zinf_dtype_safetensors(kTensors[i].dtype), t->dtype);
            EXPECT_EQ(kTensors[i].nr_dims, t->nr_dims);
            EXPECT_EQ(0, memcmp(kTensors[i].dims, t->dims, sizeof(uint64_t) * t->nr_dims));
            EXPECT_EQ(kNbytes[i], t->nbytes);
            std::string got(t->nbytes, 0);
            EXPECT_EQ(0, zinf_st_read(f, t, 0, got.data(), got.size(), &st_));
            EXPECT_EQ(data().substr(at, kNbytes[i]), got) << t->name;
        }
        EXPECT_EQ(nr, found);
        zinf_st_close(f);
        return found;
    }

    zinf_st_writer *w_ = nullptr;
    zinf_status st_ = {};
};

TEST_F(Writer, OneFileInPiecesOfAnySize)
{
    for (size_t piece : { 1, 7, 24, 1000 }) {
        write_all(0, piece);
        EXPECT_EQ((Names{ "model.safetensors" }), names());
        EXPECT_EQ(5u, check("model.safetensors"));
    }
}

TEST_F(Writer, ShardsWithAnIndex)
{
    write_all(26, 9);       /* a | b none quoted | c, since 24 + 10 > 26 and 12 + 16 > 26 */
    EXPECT_EQ((Names{ "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                      "model-00003-of-00003.safetensors", "model.safetensors.index.json" }), names());
    EXPECT_EQ(1u, check("model-00001-of-00003.safetensors"));
    EXPECT_EQ(3u, check("model-00002-of-00003.safetensors"));
    EXPECT_EQ(1u, check("model-00003-of-00003.safetensors"));
    zinf_json_doc doc = {};
    ASSERT_EQ(0, zinf_json_read(path("model.safetensors.index.json").c_str(), false, &doc, &st_)) << st_.text;
    EXPECT_EQ(52, zinf_json_get(zinf_json_get(doc.root, "metadata"), "total_size")->integer);
    const zinf_json *map = zinf_json_get(doc.root, "weight_map");
    EXPECT_EQ(5u, map->nr_items);
    EXPECT_STREQ("model-00002-of-00003.safetensors", zinf_json_get(map, "a \"quoted\" name")->string);
    EXPECT_STREQ("model-00003-of-00003.safetensors", zinf_json_get(map, "c")->string);
    zinf_json_free(&doc);
}

TEST_F(Writer, ATensorLargerThanAShardHasItsOwn)
{
    write_all(1, 52);
    EXPECT_EQ(1u, check("model-00001-of-00005.safetensors")) << "an empty tensor takes one too, at a limit of a byte";
    EXPECT_EQ(1u, check("model-00005-of-00005.safetensors"));
}

TEST_F(Writer, ReplacesAnEarlierExportWhole)
{
    put("notes.txt", "mine");
    write_all(26, 52);
    write_all(0, 52);
    EXPECT_EQ((Names{ "model.safetensors", "notes.txt" }), names());
    put("model-00009-of-00009.safetensors.tmp", "left by a crash");
    write_all(40, 52);
    EXPECT_EQ((Names{ "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                      "model.safetensors.index.json", "notes.txt" }), names());
}

TEST_F(Writer, ClosingEarlyLeavesNothingAndKeepsTheOld)
{
    put("model.safetensors", "old");
    ASSERT_EQ(0, open(26));
    ASSERT_EQ(0, zinf_st_writer_write(w_, data().data(), 30, &st_));
    EXPECT_EQ(3u, names().size());
    zinf_st_writer_close(w_);
    w_ = nullptr;
    EXPECT_EQ((Names{ "model.safetensors" }), names());
    EXPECT_EQ("old", get("model.safetensors"));
}

TEST_F(Writer, TooFewAndTooManyBytesAreErrors)
{
    std::string more = data() + "x";
    ASSERT_EQ(0, open(0));
    EXPECT_EQ(-EINVAL, zinf_st_writer_write(w_, more.data(), more.size(), &st_));
    zinf_st_writer_close(w_);
    w_ = nullptr;
    st_ = {};
    ASSERT_EQ(0, open(0));
    ASSERT_EQ(0, zinf_st_writer_write(w_, more.data(), 51, &st_));
    EXPECT_EQ(-EINVAL, zinf_st_writer_finish(w_, &st_));
    EXPECT_NE(nullptr, strstr(st_.text, "lacks 1 bytes")) << st_.text;
}

TEST_F(Writer, NamesTwiceAndSizesBeyond64BitsAreRefused)
{
    const zinf_st_desc twice[] = { { "a", ZINF_F32, 1, { 1 } }, { "b", ZINF_F32, 1, { 1 } }, { "a", ZINF_F32, 1, { 1 } } };
    const zinf_st_desc huge[] = { { "a", ZINF_F32, 2, { 1ull << 62, 4 } } };
    const zinf_st_desc reserved[] = { { "__metadata__", ZINF_F32, 1, { 1 } } };
    zinf_st_writer_opts o = {};
    o.dir = dir_.c_str();
    o.tensors = twice;
    o.nr_tensors = 3;
    EXPECT_EQ(-EINVAL, zinf_st_writer_open(&o, &w_, nullptr));
    o.tensors = huge;
    o.nr_tensors = 1;
    EXPECT_EQ(-EINVAL, zinf_st_writer_open(&o, &w_, nullptr));
    o.tensors = reserved;
    EXPECT_EQ(-EINVAL, zinf_st_writer_open(&o, &w_, nullptr));
    EXPECT_EQ(Names{}, names());
    o.dir = "/nonexistent-folder";
    o.tensors = twice;
    EXPECT_EQ(-ENOENT, zinf_st_writer_open(&o, &w_, &st_));
}

TEST(ModelFile, NamesOfAnExport)
{
    for (const char *yes : { "model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                             "model-00001-of-00002.safetensors.tmp", "model.safetensors.tmp" })
        EXPECT_TRUE(zinf_st_is_model_file(yes)) << yes;
    for (const char *no : { "model", "mymodel.safetensors", "model-1-of-2.safetensors", "model-0000x-of-00002.safetensors",
                            "adapter_model.safetensors", "model-00001-of-00002.safetensors.bak", ".tmp", "" })
        EXPECT_FALSE(zinf_st_is_model_file(no)) << no;
}

}  // namespace
