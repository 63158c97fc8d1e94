/* tests/config/json_test.cc - the JSON reader and writer: values, positions, named errors, and random damage. */
#include "zinf/config/json.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/base/status.h"
#include "zinf/config/json_out.h"
#include "zinf/config/nearest.h"

namespace {

enum Mode { kStrict, kRelaxed };

class Doc {
public:
    explicit Doc(const std::string &text, Mode mode = kStrict)
    {
        rc = zinf_json_parse(text.data(), text.size(), "t.json", mode == kRelaxed, &doc, &st);
    }
    ~Doc() { zinf_json_free(&doc); }
    Doc(const Doc &) = delete;
    Doc &operator=(const Doc &) = delete;

    zinf_json_doc doc = {};
    zinf_status st = {};
    int rc;
};

std::string path(const zinf_json *v)
{
    char buf[256];

    return zinf_json_path(v, buf, sizeof(buf));
}

TEST(Json, ReadsEveryType)
{
    Doc d(R"({"a": null, "b": [true, false], "c": -1.5e3, "d": "x\ty", "e": {}})");

    ASSERT_EQ(d.rc, 0) << d.st.text;
    const zinf_json *r = d.doc.root;
    ASSERT_EQ(r->type, ZINF_JSON_OBJECT);
    ASSERT_EQ(r->nr_items, 5u);
    EXPECT_EQ(r->parent, nullptr);
    EXPECT_EQ(zinf_json_get(r, "a")->type, ZINF_JSON_NULL);
    EXPECT_TRUE(zinf_json_get(r, "b")->items[0].boolean);
    EXPECT_FALSE(zinf_json_get(r, "b")->items[1].boolean);
    EXPECT_EQ(zinf_json_get(r, "c")->number, -1500.0);
    EXPECT_EQ(zinf_json_get(r, "c")->integer, -1500);
    EXPECT_STREQ(zinf_json_get(r, "d")->string, "x\ty");
    EXPECT_EQ(zinf_json_get(r, "d")->string_nbytes, 3u);
    EXPECT_EQ(zinf_json_get(r, "e")->nr_items, 0u);
    EXPECT_EQ(zinf_json_get(r, "f"), nullptr);
    EXPECT_EQ(zinf_json_get(zinf_json_get(r, "a"), "a"), nullptr);
    EXPECT_EQ(zinf_json_get(nullptr, "a"), nullptr);
}

TEST(Json, KnowsLineColumnAndPath)
{
    Doc d("{\r\n  \"caf\xc3\xa9\": \"\xc3\xa9\", \"x\": {\n\t\"l\": [1, [2, {\"k.z\": 3}]]}}");

    ASSERT_EQ(d.rc, 0) << d.st.text;
    const zinf_json *x = zinf_json_get(d.doc.root, "x");
    EXPECT_EQ(x->key_line, 2u);
    EXPECT_EQ(x->key_column, 16u);   /* characters, not bytes */
    EXPECT_EQ(x->column, 21u);
    const zinf_json *three = &zinf_json_get(x, "l")->items[1].items[1].items[0];
    EXPECT_EQ(three->line, 3u);
    EXPECT_EQ(three->column, 23u);
    EXPECT_EQ(path(three), "x.l[1][1][\"k.z\"]");
    EXPECT_EQ(path(d.doc.root), "");
    char tiny[6];
    EXPECT_STREQ(zinf_json_path(three, tiny, sizeof(tiny)), "x.l[1");
}

TEST(Json, ALoneCarriageReturnEndsALine)
{
    Doc d("[1,\r2,\r\n3,\n4]");

    ASSERT_EQ(d.rc, 0);
    for (uint32_t i = 0; i < 4; i++)
        EXPECT_EQ(d.doc.root->items[i].line, i + 1);
}

struct Integer { const char *text; bool is_integer; int64_t value; };
class JsonInteger : public ::testing::TestWithParam<Integer> {};
TEST_P(JsonInteger, IsExact)
{
    Doc d(GetParam().text);

    ASSERT_EQ(d.rc, 0) << d.st.text;
    EXPECT_EQ(d.doc.root->is_integer, GetParam().is_integer);
    if (GetParam().is_integer) {
        EXPECT_EQ(d.doc.root->integer, GetParam().value);
    }
}
INSTANTIATE_TEST_SUITE_P(Every, JsonInteger, ::testing::Values(
    Integer{ "0", true, 0 }, Integer{ "-0", true, 0 }, Integer{ "0.000", true, 0 }, Integer{ "0e999", true, 0 },
    Integer{ "5e8", true, 500000000 }, Integer{ "1.50e1", true, 15 }, Integer{ "1500e-2", true, 15 },
    Integer{ "1501e-2", false, 0 }, Integer{ "0.5", false, 0 }, Integer{ "15099494.4", false, 0 },
    Integer{ "1E+3", true, 1000 }, Integer{ "9007199254740993", true, 9007199254740993 },
    Integer{ "9007199254740993.0", true, 9007199254740993 }, Integer{ "9223372036854775807", true, INT64_MAX },
    Integer{ "9223372036854775808", false, 0 }, Integer{ "-9223372036854775808", true, INT64_MIN },
    Integer{ "-9223372036854775809", false, 0 }, Integer{ "1e19", false, 0 }, Integer{ "1e300", false, 0 },
    Integer{ "0.0000000000000000000000000001e28", true, 1 }, Integer{ "1e-300", false, 0 },
    Integer{ "1000000000000000000000000000000e-29", true, 10 }, Integer{ "1e-99999999999999999999", false, 0 }));

TEST(Json, NumbersAreTheNearestDouble)
{
    Doc d("[0.1, 1e-3, 123456789012345678, 4.9e-324, 1e-400, -0.0]");

    ASSERT_EQ(d.rc, 0) << d.st.text;
    EXPECT_EQ(d.doc.root->items[0].number, 0.1);
    EXPECT_EQ(d.doc.root->items[1].number, 1e-3);
    EXPECT_EQ(d.doc.root->items[2].number, 123456789012345678.0);
    EXPECT_EQ(d.doc.root->items[3].number, 4.9e-324);
    EXPECT_EQ(d.doc.root->items[4].number, 0.0);
    EXPECT_TRUE(std::signbit(d.doc.root->items[5].number));
}

TEST(Json, EscapesAreDecoded)
{
    Doc d(R"(["\"\\\/\b\f\n\r\t", "\u0041\u00e9\u20AC\ud83d\ude00", "é€😀"])");

    ASSERT_EQ(d.rc, 0) << d.st.text;
    EXPECT_STREQ(d.doc.root->items[0].string, "\"\\/\b\f\n\r\t");
    EXPECT_STREQ(d.doc.root->items[1].string, "Aé€😀");
    EXPECT_STREQ(d.doc.root->items[2].string, "é€😀");
}

TEST(Json, RelaxedTakesCommentsAndTrailingCommas)
{
    const char *text = "// one\n{ # two\n  \"a\": [1, 2, /* three\n four */ ], \"b\": \"// not # one\", /**/ }\n# end";
    Doc relaxed(text, kRelaxed), strict(text);

    ASSERT_EQ(relaxed.rc, 0) << relaxed.st.text;
    EXPECT_EQ(zinf_json_get(relaxed.doc.root, "a")->nr_items, 2u);
    EXPECT_STREQ(zinf_json_get(relaxed.doc.root, "b")->string, "// not # one");
    EXPECT_EQ(zinf_json_get(relaxed.doc.root, "b")->line, 4u);
    EXPECT_EQ(strict.rc, -EINVAL);
    EXPECT_STREQ(strict.st.text, "t.json:1:1: comments are not allowed in this file");
}

TEST(Json, AByteOrderMarkIsSkipped)
{
    Doc d("\xef\xbb\xbf[1]");

    ASSERT_EQ(d.rc, 0) << d.st.text;
    EXPECT_EQ(d.doc.root->column, 1u);
}

struct Bad { std::string text; const char *message; Mode mode = kStrict; };
class JsonBad : public ::testing::TestWithParam<Bad> {};
TEST_P(JsonBad, IsANamedError)
{
    Doc d(GetParam().text, GetParam().mode);

    EXPECT_EQ(d.rc, -EINVAL);
    EXPECT_EQ(d.doc.root, nullptr);
    EXPECT_EQ(d.doc.arena, nullptr);
    EXPECT_STREQ(d.st.text, GetParam().message);
}

std::string deep(int n, char c) { return std::string((size_t)n, c); }

INSTANTIATE_TEST_SUITE_P(Every, JsonBad, ::testing::Values(
    Bad{ "", "t.json:1:1: the file is empty: expected a JSON value" },
    Bad{ " \n ", "t.json:2:2: the file is empty: expected a JSON value" },
    Bad{ "{", "t.json:1:2: the text ends inside the object that starts on line 1, column 1" },
    Bad{ "[1,\n[2", "t.json:2:3: the text ends inside the array that starts on line 2, column 1" },
    Bad{ "{\"a\"", "t.json:1:5: expected ':' after the key, found the end of the text" },
    Bad{ "{\"a\":", "t.json:1:6: expected a value, found the end of the text" },
    Bad{ "{\"a\":}", "t.json:1:6: expected a value, found '}'" },
    Bad{ "{a:1}", "t.json:1:2: expected a key in double quotes, found 'a'" },
    Bad{ "{\"a\":1 \"b\":2}", "t.json:1:8: expected ',' or '}', found '\"'" },
    Bad{ "[1\n2]", "t.json:2:1: expected ',' or ']', found '2'" },
    Bad{ "[1,]", "t.json:1:4: a comma before the closing bracket" },
    Bad{ "[,]", "t.json:1:2: expected a value, found ','", kRelaxed },
    Bad{ "[1,,2]", "t.json:1:4: expected a value, found ','", kRelaxed },
    Bad{ "{,}", "t.json:1:2: expected a key in double quotes, found ','", kRelaxed },
    Bad{ "[1}", "t.json:1:3: expected ',' or ']', found '}'" },
    Bad{ "1 2", "t.json:1:3: expected nothing after the value, found '2'" },
    Bad{ "{\"a\":1,\n \"b\":2,\n \"a\":3}", "t.json:3:2: the key \"a\" is given twice, first on line 1" },
    Bad{ "{\"a\":1, \"\\u0061\":3}", "t.json:1:9: the key \"a\" is given twice, first on line 1" },
    Bad{ "\"abc", "t.json:1:1: the string that starts here has no end" },
    Bad{ "\"abc\\", "t.json:1:1: the string that starts here has no end" },
    Bad{ "\"abc\\\"", "t.json:1:1: the string that starts here has no end" },
    Bad{ "[\"a\nb\"]", "t.json:1:2: the string that starts here has no end on its line" },
    Bad{ "\"a\tb\"", "t.json:1:3: a control character in a string: write it as an escape" },
    Bad{ "\"é\\x\"", "t.json:1:3: unknown escape in a string: use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX" },
    Bad{ "\"\\u12g4\"", "t.json:1:2: \\u needs four hexadecimal digits" },
    Bad{ "\"\\u12\"", "t.json:1:2: \\u needs four hexadecimal digits" },
    Bad{ "\"\\ud800\\u12\"", "t.json:1:2: \\u needs four hexadecimal digits" },
    Bad{ "\"\\ud800\"", "t.json:1:2: a lone surrogate: \\ud800 to \\udfff come in pairs" },
    Bad{ "\"\\udc00\\ud800\"", "t.json:1:2: a lone surrogate: \\ud800 to \\udfff come in pairs" },
    Bad{ "\"\\ud800\\u0041\"", "t.json:1:2: a lone surrogate: \\ud800 to \\udfff come in pairs" },
    Bad{ "\"\\u0000\"", "t.json:1:2: the character \\u0000 is not allowed" },
    Bad{ std::string("[1,\0 2]", 7), "t.json:1:4: a NUL byte" },
    Bad{ "[\"\xc3\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\x80\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\xc0\x80\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\xe0\x80\x80\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\xed\xa0\x80\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\xf0\x80\x80\x80\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\xf4\x90\x80\x80\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "[\"\xff\"]", "t.json:1:3: bytes that are not UTF-8" },
    Bad{ "é", "t.json:1:1: expected a value, found a character that is not ASCII" },
    Bad{ "// \xc3\n1", "t.json:1:4: bytes that are not UTF-8", kRelaxed },
    Bad{ "1 /* x", "t.json:1:3: the comment that starts here has no end", kRelaxed },
    Bad{ "1 /*/", "t.json:1:3: the comment that starts here has no end", kRelaxed },
    Bad{ "1 /", "t.json:1:3: expected nothing after the value, found '/'", kRelaxed },
    Bad{ "1e999", "t.json:1:1: the number is too large for a double" },
    Bad{ "-1e999", "t.json:1:1: the number is too large for a double" },
    Bad{ "[1" + deep(2000, '0') + "]", "t.json:1:2: a number of more than 1024 characters" },
    Bad{ "01", "t.json:1:1: a number must not start with 0" },
    Bad{ "-", "t.json:1:1: a number needs a digit here" },
    Bad{ "+1", "t.json:1:1: expected a value, found '+'" },
    Bad{ ".5", "t.json:1:1: expected a value, found '.'" },
    Bad{ "1.", "t.json:1:1: a number needs a digit after its point" },
    Bad{ "1e", "t.json:1:1: a number needs a digit in its exponent" },
    Bad{ "1e+", "t.json:1:1: a number needs a digit in its exponent" },
    Bad{ "24GiB", "t.json:1:1: this is not a number: a text needs double quotes" },
    Bad{ "0x10", "t.json:1:1: this is not a number: a text needs double quotes" },
    Bad{ "1-2", "t.json:1:1: this is not a number: a text needs double quotes" },
    Bad{ "NaN", "t.json:1:1: JSON has no NaN" },
    Bad{ "[Infinity]", "t.json:1:2: JSON has no Infinity" },
    Bad{ "-Infinity", "t.json:1:1: a number needs a digit here" },
    Bad{ "True", "t.json:1:1: write true in lower case" },
    Bad{ "None", "t.json:1:1: write null" },
    Bad{ "truex", "t.json:1:1: not a JSON value: a text needs double quotes" },
    Bad{ "tru", "t.json:1:1: not a JSON value: a text needs double quotes" },
    Bad{ "{'a': 1}", "t.json:1:2: expected a key in double quotes, found '''" },
    Bad{ "['a']", "t.json:1:2: a text needs double quotes, not single ones" },
    Bad{ deep(65, '['), "t.json:1:65: nested more than 64 deep" },
    Bad{ deep(100000, '['), "t.json:1:65: nested more than 64 deep" }));

TEST(Json, SixtyFourDeepIsFine)
{
    Doc d(deep(64, '[') + deep(64, ']'));

    ASSERT_EQ(d.rc, 0) << d.st.text;
    const zinf_json *v = d.doc.root;
    while (v->nr_items)
        v = v->items;
    EXPECT_EQ(path(v).size(), 63u * 3);
}

TEST(Json, ManyKeysAreCheckedForDuplicates)
{
    std::string text = "{";

    for (int i = 0; i < 200000; i++)
        text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",\n";
    Doc good(text + "\"last\":0}"), bad(text + "\"k777\":0}");
    ASSERT_EQ(good.rc, 0) << good.st.text;
    EXPECT_EQ(good.doc.root->nr_items, 200001u);
    EXPECT_EQ(zinf_json_get(good.doc.root, "k123456")->integer, 123456);
    EXPECT_STREQ(bad.st.text, "t.json:200001:1: the key \"k777\" is given twice, first on line 778");
}

TEST(Json, AVeryLongKeyIsCutInMessages)
{
    std::string key(5000, 'k');
    Doc d("{\"" + key + "\":1, \"" + key + "\":2}");

    EXPECT_EQ(d.rc, -EINVAL);
    EXPECT_NE(std::string(d.st.text).find(std::string(60, 'k') + "...\" is given twice"),
              std::string::npos) << d.st.text;
}

TEST(Json, ReadsAFileAndNamesIt)
{
    std::string dir = ::testing::TempDir();
    std::string file = dir + "/json_test_read.json";
    zinf_json_doc doc;
    zinf_status st = {};

    FILE *f = fopen(file.c_str(), "w");
    ASSERT_NE(f, nullptr);
    fputs("[1,\n oops]", f);
    fclose(f);
    EXPECT_EQ(zinf_json_read(file.c_str(), false, &doc, &st), -EINVAL);
    EXPECT_EQ(st.text, file + ":2:2: not a JSON value: a text needs double quotes");
    unlink(file.c_str());
    st = {};
    EXPECT_EQ(zinf_json_read(file.c_str(), false, &doc, &st), -ENOENT);
    EXPECT_EQ(st.text, file + ": cannot be opened: No such file or directory");
    st = {};
    EXPECT_EQ(zinf_json_read(dir.c_str(), false, &doc, &st), -EISDIR);
    EXPECT_EQ(doc.root, nullptr);
}

TEST(Json, FreeOfAZeroedDocumentIsFine)
{
    zinf_json_doc doc = {};

    zinf_json_free(&doc);
    EXPECT_EQ(doc.root, nullptr);
}

/* ---- writing ---- */

TEST(JsonOut, WritesWhatTheReaderReads)
{
    zinf_json_out o = {};

    zinf_json_open_object(&o, nullptr);
    zinf_json_put_string(&o, "s", "q\" \\ \n \x01 é");
    zinf_json_put_integer(&o, "i", INT64_MIN);
    zinf_json_open_array(&o, "a");
    zinf_json_put_bool(&o, nullptr, true);
    zinf_json_open_object(&o, nullptr);
    zinf_json_close_object(&o);
    zinf_json_put_null(&o, nullptr);
    zinf_json_close_array(&o);
    zinf_json_put_number(&o, "n", 0.1);
    zinf_json_put_number(&o, "nan", NAN);
    zinf_json_put_string(&o, "none", nullptr);
    zinf_json_close_object(&o);
    ASSERT_FALSE(o.failed);
    EXPECT_STREQ(o.text,
                 "{\"s\":\"q\\\" \\\\ \\n \\u0001 é\",\"i\":-9223372036854775808,\"a\":[true,{},null],\"n\":0.1,"
                         "\"nan\":null,\"none\":null}");
    Doc d(o.text);
    ASSERT_EQ(d.rc, 0) << d.st.text;
    EXPECT_STREQ(zinf_json_get(d.doc.root, "s")->string, "q\" \\ \n \x01 é");
    EXPECT_EQ(zinf_json_get(d.doc.root, "i")->integer, INT64_MIN);
    zinf_json_out_reset(&o);
    zinf_json_put_bool(&o, nullptr, false);
    EXPECT_STREQ(o.text, "false");
    zinf_json_out_free(&o);
    EXPECT_EQ(o.text, nullptr);
}

TEST(JsonOut, NumbersReadBackExactly)
{
    std::mt19937_64 rng(7);

    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng();
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (!std::isfinite(v))
            continue;
        zinf_json_out o = {};
        zinf_json_put_number(&o, nullptr, v);
        Doc d(o.text);
        ASSERT_EQ(d.rc, 0) << d.st.text;
        ASSERT_EQ(memcmp(&d.doc.root->number, &v, sizeof(v)), 0) << o.text;
        zinf_json_out_free(&o);
    }
}

TEST(JsonOut, BytesThatAreNotUtf8AreReplaced)
{
    zinf_json_out o = {};

    zinf_json_put_string(&o, nullptr, "a\xff\xc3(\xe2\x82");
    EXPECT_STREQ(o.text, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\"");
    zinf_json_out_free(&o);
}

TEST(JsonOut, TheLocaleChangesNothing)
{
    const char *comma = nullptr;

    for (const char *name : { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR" })
        if (!comma && setlocale(LC_ALL, name))
            comma = name;
    if (!comma)
        GTEST_SKIP() << "no locale with a decimal comma is installed";
    zinf_json_out o = {};
    zinf_json_put_number(&o, nullptr, 1.5);
    EXPECT_STREQ(o.text, "1.5");
    zinf_json_out_free(&o);
    Doc d("2.25");
    setlocale(LC_ALL, "C");
    ASSERT_EQ(d.rc, 0);
    EXPECT_EQ(d.doc.root->number, 2.25);
}

/* ---- nearest ---- */

TEST(Nearest, FindsWhatWasMeant)
{
    const char *names[] = { "gradient_clipping", "stage", "stage3_param_persistence_threshold", "max_in_cpu", "lr",
                            "betas",
                            "type" };
    auto near = [&](const char *w) { return zinf_nearest(w, names, 7); };

    EXPECT_STREQ(near("gradient_clipp1ng"), "gradient_clipping");
    EXPECT_STREQ(near("stage3_param_persitence_threshold"), "stage3_param_persistence_threshold");
    EXPECT_STREQ(near("max_in_nvme"), "max_in_cpu");
    EXPECT_STREQ(near("Stgae"), "stage");
    EXPECT_STREQ(near("beta"), "betas");
    EXPECT_STREQ(near("rl"), "lr");
    EXPECT_EQ(near("tokenizer"), nullptr);
    EXPECT_EQ(near("x"), nullptr);
    EXPECT_EQ(near(""), nullptr);
    EXPECT_EQ(near(std::string(100000, 'a').c_str()), nullptr);
    EXPECT_EQ(zinf_nearest("stage", names, 0), nullptr);
}

/* ---- random damage ---- */

/* Every invariant a reader of the tree relies on. */
void check_tree(const zinf_json *v, const zinf_json *parent, size_t text_nbytes, uint32_t depth)
{
    char buf[64];

    ASSERT_LE(depth, 65u);
    ASSERT_EQ(v->parent, parent);
    ASSERT_GE(v->line, 1u);
    ASSERT_GE(v->column, 1u);
    ASSERT_LE(v->column, text_nbytes);
    ASSERT_LT(strlen(zinf_json_path(v, buf, sizeof(buf))), sizeof(buf));
    ASSERT_EQ(v->key != nullptr, parent && parent->type == ZINF_JSON_OBJECT);
    if (v->type == ZINF_JSON_STRING) {
        ASSERT_EQ(strlen(v->string), v->string_nbytes);
    }
    if (v->type == ZINF_JSON_NUMBER) {
        ASSERT_TRUE(std::isfinite(v->number));
        if (v->is_integer) {
            ASSERT_EQ((double)v->integer, v->number);
        }
    }
    if (v->key) {
        ASSERT_EQ(zinf_json_get(parent, v->key), v);
    }
    for (uint32_t i = 0; i < v->nr_items; i++)
        ASSERT_NO_FATAL_FAILURE(check_tree(&v->items[i], v, text_nbytes, depth + 1));
}

std::string damage(std::string s, const std::vector<std::string> &corpus, std::mt19937 &rng)
{
    static const char *const pieces[] = { "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d\\ude00", "\\ud800",
        "/*", "*/", "//", "#", "\n", "\r", "e", "E+", ".", "-", "0", "1e308", "9223372036854775807", "true", "null",
        "nan", "\xc3\xa9", "\xed\xa0\x80", "\xff", "\x01", "\"a\":", "\"a\":1,", "[[[[[[[[", "]]]]]]]]" };
    int nr = 1 + (int)(rng() % 6);

    for (int i = 0; i < nr; i++) {
        size_t at = s.empty() ? 0 : rng() % (s.size() + 1);
        size_t len = s.size() > at ? rng() % std::min<size_t>(s.size() - at + 1, 24) : 0;

        switch (rng() % 7) {
        case 0: s.erase(at, len); break;
        case 1: s.insert(at, pieces[rng() % (sizeof(pieces) / sizeof(pieces[0]))]); break;
        case 2: if (at < s.size()) s[at] = (char)(rng() & 0xff); break;
        case 3: if (at < s.size()) s[at] = (char)(s[at] ^ (1 << (rng() % 8))); break;
        case 4: s.insert(at, s.substr(at, len)); break;
        case 5: s.resize(at); break;
        default: {
            const std::string &other = corpus[rng() % corpus.size()];
            size_t from = other.empty() ? 0 : rng() % other.size();
            s.insert(at, other.substr(from, rng() % 40));
        }
        }
    }
    return s;
}

TEST(JsonFuzz, DamagedTextIsReadOrRefused)
{
    const std::vector<std::string> corpus = {
        R"({"train_batch_size": 16, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.999]}}})",
        "// c\n{\"zero_optimization\": {\"stage\": 3, /* x */ \"offload_param\": {\"device\": \"nvme\",},},} # end",
        R"(["\u00e9\ud83d\ude00\n", "é😀", -0.5e-10, 9223372036854775807, 1e308, {}, [], [[[]]], true, null])",
        R"({"weight_map": {"model.layers.0.w": "a-1.safetensors", "model.layers.1.w": "a-2.safetensors"}, "": 0})",
        deep(64, '[') + deep(64, ']'), "0", "\"\"",
    };
    std::mt19937 rng(20240607);
    int good = 0, bad = 0;

    for (int i = 0; i < 60000; i++) {
        std::string s = damage(corpus[rng() % corpus.size()], corpus, rng);
        /* An exact-size heap copy, so that a read past the end is seen by AddressSanitizer. */
        std::vector<char> text(s.begin(), s.end());
        zinf_json_doc doc;
        zinf_status st = {};
        int rc = zinf_json_parse(text.data(), text.size(), "f", (rng() & 1) != 0, &doc, &st);

        if (rc == 0) {
            good++;
            ASSERT_NO_FATAL_FAILURE(check_tree(doc.root, nullptr, text.size() + 1, 1)) << s;
        } else {
            bad++;
            ASSERT_EQ(rc, -EINVAL) << s;
            ASSERT_EQ(strncmp(st.text, "f:", 2), 0) << st.text;
            ASSERT_EQ(doc.root, nullptr);
        }
        zinf_json_free(&doc);
    }
    EXPECT_GT(good, 2000);
    EXPECT_GT(bad, 20000);
}

}  // namespace
