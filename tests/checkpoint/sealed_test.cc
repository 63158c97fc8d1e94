/* tests/checkpoint/sealed_test.cc - what was sealed reads back; every flipped bit and every missing byte is found. */
#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "tests/checkpoint/temp_dir.h"
#include "zinf/checkpoint/sealed.h"

namespace {

class Sealed : public TempDir {
  protected:
    int read(std::string *text = nullptr)
    {
        zinf_json_doc doc = {};
        const zinf_json *content = nullptr;
        zinf_status st = {};
        int rc = zinf_sealed_read(dir_.c_str(), "a.json", &doc, &content, &st);
        if (rc)
            EXPECT_NE(std::string::npos, std::string(st.text).find("a.json")) << st.text;
        else
            value_ = zinf_json_get(content, "step") ? zinf_json_get(content, "step")->integer : -1;
        if (text)
            *text = st.text;
        zinf_json_free(&doc);
        return rc;
    }
    void write(const char *content)
    {
        zinf_status st = {};
        ASSERT_EQ(0, zinf_sealed_write(dir_.c_str(), "a.json", content, &st)) << st.text;
    }
    int64_t value_ = -2;
};

TEST_F(Sealed, ReadsBackAndReplaces)
{
    write("{\"step\":7}");
    EXPECT_EQ(0, read());
    EXPECT_EQ(7, value_);
    write("{\"step\":8,\"text\":\"a \\\"quoted\\\" word\"}");
    EXPECT_EQ(0, read());
    EXPECT_EQ(8, value_);
    EXPECT_EQ(1u, names().size());
}

TEST_F(Sealed, TheChecksumIsOfTheContentAlone)
{
    write("123456789");
    EXPECT_EQ("{\"crc32c\":\"e3069283\",\"content\":123456789}\n", get("a.json"));
}

TEST_F(Sealed, EveryFlippedBitIsFound)
{
    write("{\"step\":7,\"names\":[\"a\",\"b\"]}");
    const std::string good = get("a.json");
    for (size_t i = 0; i < good.size(); i++)
        for (int b = 0; b < 8; b++) {
            std::string bad = good;
            bad[i] = (char)(bad[i] ^ (1 << b));
            put("a.json", bad);
            EXPECT_EQ(-EBADMSG, read()) << "bit " << b << " of byte " << i;
        }
    put("a.json", good);
    EXPECT_EQ(0, read());
}

TEST_F(Sealed, EveryTruncationAndAnyTailIsFound)
{
    write("{\"step\":7}");
    const std::string good = get("a.json");
    for (size_t n = 0; n < good.size(); n++) {
        put("a.json", good.substr(0, n));
        EXPECT_EQ(-EBADMSG, read()) << n << " bytes";
    }
    put("a.json", good + " ");
    EXPECT_EQ(-EBADMSG, read());
    put("a.json", good + good);
    EXPECT_EQ(-EBADMSG, read());
}

TEST_F(Sealed, MissingFolderOrFile)
{
    EXPECT_EQ(-ENOENT, read());
    std::filesystem::create_directory(path("a.json"));
    EXPECT_LT(read(), 0);
    zinf_status st = {};
    EXPECT_EQ(-ENOENT, zinf_sealed_write(path("none").c_str(), "a.json", "{}", &st));
}

TEST_F(Sealed, APathThatIsTooLongIsNotCut)
{
    zinf_json_doc doc = {};
    const zinf_json *content = nullptr;
    zinf_status st = {};
    std::string deep = dir_;
    while (deep.size() < 5000)
        deep += "/.";
    EXPECT_EQ(-ENAMETOOLONG, zinf_sealed_read(deep.c_str(), "a.json", &doc, &content, &st));
}

/* The folder of a run may lie deep. */
TEST_F(Sealed, ALongPathIsRead)
{
    std::string deep = dir_;
    for (int i = 0; i < 10; i++) {
        deep += "/" + std::string(150, (char)('a' + i));
        std::filesystem::create_directory(deep);
    }
    zinf_json_doc doc = {};
    const zinf_json *content = nullptr;
    zinf_status st = {};
    ASSERT_EQ(0, zinf_sealed_write(deep.c_str(), "a.json", "[1]", &st)) << st.text;
    ASSERT_EQ(0, zinf_sealed_read(deep.c_str(), "a.json", &doc, &content, &st)) << st.text;
    EXPECT_EQ(ZINF_JSON_ARRAY, content->type);
    zinf_json_free(&doc);
}

}  // namespace
