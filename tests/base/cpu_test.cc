/* tests/base/cpu_test.cc - the choice of instruction set, and what the machine says of itself. */
#include "zinf/base/cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <string>

#include <gtest/gtest.h>

#include "zinf/base/status.h"

namespace {

const zinf_isa kAll[] = { ZINF_ISA_SCALAR, ZINF_ISA_AVX2, ZINF_ISA_AVX512, ZINF_ISA_NEON };

class CpuIsa : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (const char *v = getenv("ZINF_ISA"))
            saved_ = v;
        unsetenv("ZINF_ISA");
    }
    void TearDown() override
    {
        if (!saved_.empty())
            setenv("ZINF_ISA", saved_.c_str(), 1);
        else
            unsetenv("ZINF_ISA");
    }

private:
    std::string saved_;
};

}  // namespace

TEST_F(CpuIsa, ScalarIsAlwaysThereAndTheBestIsAvailable)
{
    EXPECT_TRUE(zinf_isa_available(ZINF_ISA_SCALAR));
    EXPECT_TRUE(zinf_isa_available(zinf_isa_best()));
}

TEST_F(CpuIsa, WiderMeansNarrowerIsThereToo)
{
    if (zinf_isa_available(ZINF_ISA_AVX512)) {
        EXPECT_TRUE(zinf_isa_available(ZINF_ISA_AVX2));
    }
    EXPECT_FALSE(zinf_isa_available(ZINF_ISA_NEON) && zinf_isa_available(ZINF_ISA_AVX2));
#if defined(__x86_64__)
    EXPECT_EQ(zinf_isa_available(ZINF_ISA_AVX2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#endif
}

TEST_F(CpuIsa, WithoutTheVariableTheBestIsChosen)
{
    zinf_isa isa = ZINF_ISA_SCALAR;
    zinf_status st = {};

    ASSERT_EQ(zinf_isa_choose(&isa, &st), 0);
    EXPECT_EQ(isa, zinf_isa_best());
    setenv("ZINF_ISA", "", 1);
    ASSERT_EQ(zinf_isa_choose(&isa, &st), 0);
    EXPECT_EQ(isa, zinf_isa_best());
}

TEST_F(CpuIsa, TheVariableChoosesWhatIsAvailableAndNothingElse)
{
    for (zinf_isa want : kAll) {
        zinf_isa got = ZINF_ISA_SCALAR;
        zinf_status st = {};

        setenv("ZINF_ISA", zinf_isa_name(want), 1);
        if (zinf_isa_available(want)) {
            EXPECT_EQ(zinf_isa_choose(&got, &st), 0);
            EXPECT_EQ(got, want);
        } else {
            EXPECT_EQ(zinf_isa_choose(&got, &st), -EINVAL);
            EXPECT_NE(std::string(st.text).find(zinf_isa_name(want)), std::string::npos) << st.text;
        }
    }
}

TEST_F(CpuIsa, AnUnknownNameIsRefusedWithTheNamesThatExist)
{
    zinf_isa isa = ZINF_ISA_SCALAR;
    zinf_status st = {};

    setenv("ZINF_ISA", "sse9", 1);
    EXPECT_EQ(zinf_isa_choose(&isa, &st), -EINVAL);
    EXPECT_NE(std::string(st.text).find("sse9"), std::string::npos) << st.text;
    EXPECT_NE(std::string(st.text).find("scalar"), std::string::npos) << st.text;
}

TEST(Cpu, CountFollowsAffinity)
{
    cpu_set_t before, one;

    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    EXPECT_EQ(zinf_cpu_count(), (uint32_t)CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(zinf_cpu_count(), 1u);
    ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Cpu, ModelIsOneLineThatFits)
{
    char large[256], tiny[4];
    std::string model = zinf_cpu_model(large, sizeof(large));

    EXPECT_FALSE(model.empty());
    EXPECT_EQ(model.find('\n'), std::string::npos);
    EXPECT_EQ(zinf_cpu_model(tiny, sizeof(tiny)), model.substr(0, sizeof(tiny) - 1));
}
