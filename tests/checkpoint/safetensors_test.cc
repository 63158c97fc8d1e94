/* tests/checkpoint/safetensors_test.cc - the reader on sound files and on a corpus of hostile ones. */
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/temp_dir.h"
#include "zinf/checkpoint/safetensors.h"

namespace {

std::string length(uint64_t n)
{
    std::string s;
    for (int i = 0; i < 8; i++)
        s += (char)(n >> (8 * i));
    return s;
}

std::string file(const std::string &header, const std::string &data) { return length(header.size()) + header + data; }

using Reader = TempDir;

TEST_F(Reader, TensorsInTheOrderOfTheirData)
{
    std::string p = put("a", file("{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[8,12]},"
                                  "\"__metadata__\":{\"format\":\"pt\"},"
                                  "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                  "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[8,8]},"
                                  "\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[12,13]}}  ",
                                  "AAAABBBBccddS"));
    zinf_st_file *f = nullptr;
    zinf_status st = {};
    ASSERT_EQ(0, zinf_st_open(p.c_str(), &f, &st)) << st.text;
    ASSERT_EQ(4u, zinf_st_nr_tensors(f));
    EXPECT_STREQ("a", zinf_st_at(f, 0)->name);
    EXPECT_STREQ("none", zinf_st_at(f, 1)->name);
    EXPECT_STREQ("b", zinf_st_at(f, 2)->name);
    EXPECT_STREQ("pt", zinf_st_metadata(f, "format"));
    EXPECT_EQ(nullptr, zinf_st_metadata(f, "other"));
    EXPECT_EQ(nullptr, zinf_st_find(f, "c"));
    const zinf_st_tensor *b = zinf_st_find(f, "b");
    ASSERT_NE(nullptr, b);
    EXPECT_STREQ("BF16", b->dtype);
    EXPECT_EQ(2u, b->nr_dims);
    EXPECT_EQ(2u, b->dims[0]);
    EXPECT_EQ(4u, b->nbytes);
    char buf[5] = {};
    ASSERT_EQ(0, zinf_st_read(f, b, 0, buf, 4, &st));
    EXPECT_STREQ("ccdd", buf);
    ASSERT_EQ(0, zinf_st_read(f, b, 3, buf, 1, &st));
    EXPECT_EQ('d', buf[0]);
    EXPECT_EQ(-EINVAL, zinf_st_read(f, b, 3, buf, 2, &st));
    EXPECT_EQ(-EINVAL, zinf_st_read(f, b, UINT64_MAX, buf, 2, nullptr));
    zinf_st_close(f);
}

TEST_F(Reader, AFileThatShrinksIsAnError)
{
    std::string p = put("a", file("{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", "123456789"));
    zinf_st_file *f = nullptr;
    zinf_status st = {};
    ASSERT_EQ(0, zinf_st_open(p.c_str(), &f, &st)) << st.text;
    std::filesystem::resize_file(p, std::filesystem::file_size(p) - 2);
    char buf[9];
    EXPECT_EQ(-EIO, zinf_st_read(f, zinf_st_at(f, 0), 0, buf, 9, &st));
    zinf_st_close(f);
}

struct Hostile { const char *name; std::string bytes; const char *word; };

std::string entry(const std::string &dtype, const std::string &shape, const std::string &range)
{
    return "{\"t\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + range + "}}";
}

std::string nested(int depth)
{
    return "{\"t\":" + std::string((size_t)depth, '[') + std::string((size_t)depth, ']') + "}";
}

std::vector<Hostile> corpus()
{
    const std::string eight(8, 'x');
    const std::string good = entry("\"F32\"", "[2]", "[0,8]");
    return {
        { "Empty", "", "shorter than 8" },
        { "SevenBytes", "1234567", "shorter than 8" },
        { "LengthOnly", length(2), "header of 2 bytes" },
        { "LengthAllOnes", length(UINT64_MAX) + good, "header of 18446744073709551615" },
        { "LengthWraps", length(UINT64_MAX - 7) + good, "does not fit" },
        { "LengthOverFile", length(good.size() + 9) + good + eight, "does not fit" },
        { "LengthZero", length(0) + eight, "begin with {" },
        { "NoBrace", file(" " + good, eight), "begin with {" },
        { "List", file("[1]", ""), "begin with {" },
        { "NotJson", file("{\"t\":", eight), "" },
        { "NotUtf8", file("{\"\xff\xfe\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", eight), "" },
        { "NulInHeader", file(good + std::string(1, '\0'), eight), "" },
        { "TooDeep", file(nested(5000), ""), "" },
        { "DuplicateTensor", file("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                  "\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", eight + eight), "t" },
        { "DuplicateByEscape", file("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                    "\"\\u0074\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", eight + eight), "t" },
        { "Reversed", file(entry("\"F32\"", "[2]", "[8,0]"), eight), "reversed" },
        { "Negative", file(entry("\"F32\"", "[2]", "[-8,0]"), eight), "data_offsets" },
        { "NegativeShape", file(entry("\"F32\"", "[-2]", "[0,8]"), eight), "shape" },
        { "FractionShape", file(entry("\"F32\"", "[1.5]", "[0,6]"), "123456"), "shape" },
        { "HugeOffset", file(entry("\"F32\"", "[2]", "[0,99999999999999999999]"), eight), "data_offsets" },
        { "OffsetNearInt64", file(entry("\"F32\"", "[2]", "[9223372036854775799,9223372036854775807]"), eight), "beyond" },
        { "ThreeOffsets", file(entry("\"F32\"", "[2]", "[0,8,8]"), eight), "data_offsets" },
        { "Overlap", file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", eight + "1234"), "overlaps" },
        { "Same", file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", eight), "overlaps" },
        { "Hole", file("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", eight + "1234"), "hole" },
        { "HoleAtTheStart", file(entry("\"F32\"", "[1]", "[4,8]"), eight), "hole" },
        { "TrailingBytes", file(good, eight + "1"), "belong to none" },
        { "TruncatedData", file(good, "1234567"), "truncated" },
        { "ShapeOverflow", file(entry("\"F32\"", "[4611686018427387904,4]", "[0,8]"), eight), "64 bits" },
        { "ShapeWrapsToFit", file(entry("\"F32\"", "[4611686018427387904,4,2]", "[0,0]"), ""), "64 bits" },
        { "ShapeDoesNotFit", file(entry("\"F32\"", "[3]", "[0,8]"), eight), "do not fit" },
        { "NineDims", file(entry("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), eight), "shape" },
        { "UnknownDtype", file(entry("\"F7\"", "[2]", "[0,8]"), eight), "dtype" },
        { "DtypeNumber", file(entry("32", "[2]", "[0,8]"), eight), "dtype" },
        { "ExtraMember", file("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", eight), "entry" },
        { "EntryIsNumber", file("{\"t\":1}", ""), "entry" },
        { "MetadataNotStrings", file("{\"__metadata__\":{\"format\":1}}", ""), "__metadata__" },
        { "MetadataList", file("{\"__metadata__\":[]}", ""), "__metadata__" },
    };
}

TEST_F(Reader, HostileFilesAreNamedErrors)
{
    for (const Hostile &h : corpus()) {
        zinf_st_file *f = (zinf_st_file *)&f;
        zinf_status st = {};
        std::string p = put(h.name, h.bytes);
        EXPECT_EQ(-EINVAL, zinf_st_open(p.c_str(), &f, &st)) << h.name;
        EXPECT_EQ(nullptr, f) << h.name;
        EXPECT_NE(std::string::npos, std::string(st.text).find(h.word)) << h.name << ": " << st.text;
        EXPECT_EQ(std::string::npos, std::string(st.text).find('\n')) << h.name;
        EXPECT_NE(std::string::npos, std::string(st.text).find(h.name)) << "names the file: " << st.text;
    }
}

/* Every prefix of a sound file, and every byte of its header changed, either opens or is refused; nothing is read outside. */
TEST_F(Reader, CutAndChangedFilesNeverReadOutside)
{
    std::string good = file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[8,12]}}", "AAAABBBBccdd");
    int opened = 0, refused = 0;
    auto attempt = [&](const std::string &bytes) {
        std::string p = put("f", bytes);
        zinf_st_file *f = nullptr;
        zinf_status st = {};
        if (zinf_st_open(p.c_str(), &f, &st)) {
            refused++;
            return;
        }
        opened++;
        for (uint32_t i = 0; i < zinf_st_nr_tensors(f); i++) {
            std::vector<char> buf(zinf_st_at(f, i)->nbytes);
            EXPECT_EQ(0, zinf_st_read(f, zinf_st_at(f, i), 0, buf.data(), buf.size(), &st)) << st.text;
        }
        zinf_st_close(f);
    };
    for (size_t n = 0; n < good.size(); n++)
        attempt(good.substr(0, n));
    EXPECT_EQ(0, opened) << "a prefix is never whole";
    for (size_t i = 0; i + 12 < good.size(); i++)
        for (char c : { '0', '9', '"', '}', ',', (char)0xff }) {
            std::string bytes = good;
            bytes[i] = c;
            attempt(bytes);
        }
    EXPECT_GT(opened, 0) << "names may change";
    EXPECT_GT(refused, 500);
}

TEST_F(Reader, MissingFileAndFolder)
{
    zinf_st_file *f = nullptr;
    zinf_status st = {}, st2 = {};
    EXPECT_EQ(-ENOENT, zinf_st_open(path("none").c_str(), &f, &st));
    EXPECT_EQ(-EINVAL, zinf_st_open(dir_.c_str(), &f, &st2));
    zinf_st_close(nullptr);
}

}  // namespace
