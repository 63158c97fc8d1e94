/* tests/cli/example_test.cc - examples/custom_layers learns, from the drive as from RAM, and says what is wrong. */
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/cli_run.h"

namespace {

using zinf_test::CliTest;
using zinf_test::Exec;
using zinf_test::Lines;
using zinf_test::Names;
using zinf_test::Outcome;
using zinf_test::Repo;
using zinf_test::Words;

class CustomLayers : public CliTest {
protected:
    const std::string program_ = Repo("examples/custom_layers");
    double Loss(const std::string &out) const
    {
        size_t at = out.find("evaluation loss ");
        EXPECT_NE(std::string::npos, at) << out;
        return at == std::string::npos ? 99 : std::stod(out.substr(at + 16));
    }
};

TEST_F(CustomLayers, LearnsAlikeOnTheDriveAndInRam)
{
    Outcome drive = Exec({program_, "--steps", "60", drive_});
    ASSERT_EQ(0, drive.code) << drive.err;
    EXPECT_TRUE(Names(drive_).empty()) << *Names(drive_).begin();
    Outcome ram = Exec({program_, "--steps", "60"});
    ASSERT_EQ(0, ram.code) << ram.err;
    EXPECT_LT(Loss(ram.out), 0.4) << ram.out;       /* chance is 1.0986 */
    EXPECT_EQ(ram.out, drive.out);                   /* every printed digit */
}

TEST_F(CustomLayers, SaysWhatIsWrong)
{
    Outcome o = Exec({program_, path("none")});
    EXPECT_EQ(1, o.code);
    ASSERT_EQ(1u, Lines(o.err).size()) << o.err;
    EXPECT_EQ(0u, o.err.rfind("custom_layers: " + path("none"), 0)) << o.err;
    for (const Words &bad : {Words{"--steps", "0"}, Words{"--steps"}, Words{"a", "b"}, Words{"--other"}}) {
        Words words = {program_};
        words.insert(words.end(), bad.begin(), bad.end());
        EXPECT_EQ(2, Exec(words).code) << bad[0];
    }
}

}  // namespace
