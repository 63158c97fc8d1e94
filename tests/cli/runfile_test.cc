/* tests/cli/runfile_test.cc - run.json comes back as it was written, or is said to be damaged. */
#include "zinf/cli/runfile.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/cli_run.h"
#include "zinf/checkpoint/sealed.h"

namespace {

using zinf_test::Holds;
using zinf_test::Names;
using zinf_test::ReadFile;
using zinf_test::WriteFile;

class RunFile : public zinf_test::CliTest {
protected:
    ~RunFile() override { zinf_run_file_free(&got_); }

    static zinf_run_file Full()
    {
        zinf_run_file f = {};

        f.config = "{\n  \"zinf\": {} // \"quoted\"\n}\n";
        f.sets[0] = "zinf.seed=1";
        f.sets[1] = "zinf.nvme_paths=[\"/a\"]";
        f.nr_sets = 2;
        f.model = "/models/m \xc3\xa9.json";
        f.data = "/data";
        f.eval_data = "";
        f.log = "/logs/l.jsonl";
        f.state_dirs[0] = "/a/zinf-1";
        f.state_dirs[1] = "/b/zinf-1";
        f.nr_state_dirs = 2;
        f.seq_len = 32;
        f.steps = 1ull << 40;
        f.eval_every = 3;
        f.save_every = 4;
        f.keep = 5;
        return f;
    }
    int Read()
    {
        st_ = {};
        zinf_run_file_free(&got_);
        return zinf_run_file_read(dir_.c_str(), &got_, &st_);
    }

    zinf_run_file got_ = {};
    zinf_status st_ = {};
};

TEST_F(RunFile, ComesBack)
{
    zinf_run_file f = Full();
    ASSERT_EQ(0, zinf_run_file_write(dir_.c_str(), &f, &st_)) << st_.text;
    EXPECT_EQ(1u, Names(dir_).count("run.json"));
    EXPECT_EQ(0u, Names(dir_).count("run.json.tmp"));
    ASSERT_EQ(0, Read()) << st_.text;
    EXPECT_STREQ(f.config, got_.config);
    ASSERT_EQ(2u, got_.nr_sets);
    EXPECT_STREQ(f.sets[0], got_.sets[0]);
    EXPECT_STREQ(f.sets[1], got_.sets[1]);
    EXPECT_STREQ(f.model, got_.model);
    EXPECT_STREQ(f.data, got_.data);
    EXPECT_STREQ("", got_.eval_data);
    EXPECT_STREQ(f.log, got_.log);
    ASSERT_EQ(2u, got_.nr_state_dirs);
    EXPECT_STREQ(f.state_dirs[1], got_.state_dirs[1]);
    EXPECT_EQ(f.seq_len, got_.seq_len);
    EXPECT_EQ(f.steps, got_.steps);
    EXPECT_EQ(f.eval_every, got_.eval_every);
    EXPECT_EQ(f.save_every, got_.save_every);
    EXPECT_EQ(f.keep, got_.keep);
}

TEST_F(RunFile, EveryFlippedBitIsFound)
{
    zinf_run_file f = Full();
    ASSERT_EQ(0, zinf_run_file_write(dir_.c_str(), &f, &st_)) << st_.text;
    std::string good = ReadFile(path("run.json"));
    for (size_t i = 0; i < good.size(); i++) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
        WriteFile(path("run.json"), bad);
        ASSERT_EQ(-EBADMSG, Read()) << "byte " << i << ": " << st_.text;
        ASSERT_TRUE(Holds(st_.text, path("run.json"))) << st_.text;
    }
    for (size_t n : {size_t{0}, good.size() / 2, good.size() - 1}) {
        WriteFile(path("run.json"), good.substr(0, n));
        EXPECT_EQ(-EBADMSG, Read()) << n;
    }
    WriteFile(path("run.json"), good + good);
    EXPECT_EQ(-EBADMSG, Read());
    WriteFile(path("run.json"), good);
    EXPECT_EQ(0, Read()) << st_.text;
}

TEST_F(RunFile, AbsentIsNoDamage)
{
    EXPECT_EQ(-ENOENT, Read());
    EXPECT_TRUE(Holds(st_.text, path("run.json"))) << st_.text;
}

/* Sealed well, but of another version: every field is asked for by name. */
TEST_F(RunFile, FieldsThatLackOrAreOfAnotherKindAreNamed)
{
    const std::vector<std::string> fields = {
        R"("config":"{}")", R"("sets":[])", R"("model":"m")", R"("data":"d")", R"("eval_data":"")", R"("log":"")",
        R"("state_dirs":[])", R"("seq_len":1)", R"("steps":1)", R"("eval_every":0)", R"("save_every":0)", R"("keep":0)",
    };
    for (size_t left_out = 0; left_out <= fields.size(); left_out++)
        for (const char *instead : {"", "true", "-1"}) {
            std::string text = "{\"zinf\":\"x\"", name;
            for (size_t i = 0; i < fields.size(); i++) {
                std::string key = fields[i].substr(0, fields[i].find(':'));
                if (i != left_out)
                    text += "," + fields[i];
                else if (*instead)
                    text += "," + key + ":" + instead;
                name = i == left_out ? key : name;
            }
            ASSERT_EQ(0, zinf_sealed_write(dir_.c_str(), "run.json", (text + "}").c_str(), &st_)) << st_.text;
            if (left_out == fields.size()) {
                EXPECT_EQ(0, Read()) << st_.text;
                continue;
            }
            EXPECT_EQ(-EINVAL, Read()) << name << instead;
            EXPECT_TRUE(Holds(st_.text, name)) << st_.text;
        }
}

TEST_F(RunFile, ListsAreBounded)
{
    std::string items;
    for (int i = 0; i <= ZINF_RUN_STRINGS_MAX; i++)
        items += (i ? ",\"" : "\"") + std::to_string(i) + "\"";
    std::string text = R"({"config":"{}","model":"m","data":"d","eval_data":"","log":"","state_dirs":[],"seq_len":1,"steps":1,)"
                       R"("eval_every":0,"save_every":0,"keep":0,"sets":[)";
    ASSERT_EQ(0, zinf_sealed_write(dir_.c_str(), "run.json", (text + items + "]}").c_str(), &st_)) << st_.text;
    EXPECT_EQ(-EINVAL, Read());
    EXPECT_TRUE(Holds(st_.text, "\"sets\"")) << st_.text;
    ASSERT_EQ(0, zinf_sealed_write(dir_.c_str(), "run.json", (text + items.substr(0, items.rfind(',')) + "]}").c_str(), &st_));
    ASSERT_EQ(0, Read()) << st_.text;
    EXPECT_EQ(static_cast<uint32_t>(ZINF_RUN_STRINGS_MAX), got_.nr_sets);
    ASSERT_EQ(0, zinf_sealed_write(dir_.c_str(), "run.json", (text + "1]}").c_str(), &st_));
    EXPECT_EQ(-EINVAL, Read());
}

}  // namespace
