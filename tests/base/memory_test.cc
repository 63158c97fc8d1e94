/* tests/base/memory_test.cc - mappings that are there, and limits read from look-alikes of /proc and /sys. */
#include "zinf/base/memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/base/pool.h"
#include "zinf/base/status.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

namespace {

const uint64_t kMiB = 1 << 20;

bool AllResident(const zinf_mapping &m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    std::vector<unsigned char> in(m.nbytes / page);

    if (mincore(m.base, m.nbytes, in.data()))
        return false;
    for (unsigned char c : in)
        if (!(c & 1))
            return false;
    return true;
}

/* A folder with proc/ and sys/ of its own. */
class Host : public ::testing::Test {
protected:
    void SetUp() override
    {
        std::string name = ::testing::TempDir() + "/hostXXXXXX";

        ASSERT_NE(mkdtemp(&name[0]), nullptr);
        root_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    void Write(const std::string &path, const std::string &text)
    {
        std::filesystem::path p = root_ / path;

        std::filesystem::create_directories(p.parent_path());
        std::ofstream(p) << text;
    }
    void MemAvailable(uint64_t kib)
    {
        Write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:            1000 kB\nMemAvailable:   " +
                                  std::to_string(kib) + " kB\n");
    }
    void GroupV2(const std::string &path, const std::string &limit, uint64_t use, uint64_t file)
    {
        std::string dir = "sys/fs/cgroup" + path;

        Write(dir + "/memory.max", limit + "\n");
        Write(dir + "/memory.current", std::to_string(use) + "\n");
        Write(dir + "/memory.stat", "anon 5\nfile 999999999\ninactive_file " + std::to_string(file / 2) +
                                        "\nactive_file " + std::to_string(file - file / 2) + "\n");
    }
    void GroupV1(const std::string &path, uint64_t limit, uint64_t use, uint64_t file)
    {
        std::string dir = "sys/fs/cgroup/memory" + path;

        Write(dir + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
        Write(dir + "/memory.usage_in_bytes", std::to_string(use) + "\n");
        Write(dir + "/memory.stat", "cache 1\ninactive_file 1\ntotal_inactive_file " + std::to_string(file / 2) +
                                        "\ntotal_active_file " + std::to_string(file - file / 2) + "\n");
    }
    uint64_t Available() { return zinf_host_available_nbytes(root_.c_str()); }

    std::filesystem::path root_;
};

}  // namespace

TEST(Map, GivesZeroedResidentWritablePages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t nbytes : { size_t(1), page, page + 1, size_t(20 * kMiB + 5) }) {
        zinf_mapping m = {};
        zinf_status st = {};

        ASSERT_EQ(zinf_map(nbytes, nullptr, &m, &st), 0) << st.text;
        EXPECT_EQ((uintptr_t)m.base % page, 0u);
        EXPECT_EQ(m.nbytes, (nbytes + page - 1) / page * page);
        EXPECT_TRUE(AllResident(m));
        unsigned char *p = static_cast<unsigned char *>(m.base);

        for (size_t i = 0; i < m.nbytes; i += page / 2) {
            ASSERT_EQ(p[i], 0);
            p[i] = 1;
        }
        zinf_unmap(&m);
        EXPECT_EQ(m.base, nullptr);
        EXPECT_EQ(m.nbytes, 0u);
    }
}

TEST(Map, ThePoolTouchesEveryPageToo)
{
    zinf_pool *pool = nullptr;
    zinf_mapping m = {};
    zinf_status st = {};

    ASSERT_EQ(zinf_pool_open(2, &pool, &st), 0) << st.text;
    ASSERT_EQ(zinf_map(33 * kMiB + 4096, pool, &m, &st), 0) << st.text;
    EXPECT_TRUE(AllResident(m));
    zinf_unmap(&m);
    zinf_pool_close(pool);
}

TEST(Map, NothingIsAnEmptyMapping)
{
    zinf_mapping m = { &m, 5 };
    zinf_status st = {};

    EXPECT_EQ(zinf_map(0, nullptr, &m, &st), 0);
    EXPECT_EQ(m.base, nullptr);
    EXPECT_EQ(m.nbytes, 0u);
    zinf_unmap(&m);
    EXPECT_EQ(m.nbytes, 0u);
}

TEST(Map, TooMuchIsRefusedWithTheSettingToChange)
{
    for (size_t nbytes : { SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 }) {
        zinf_mapping m = { &m, 5 };
        zinf_status st = {};

        EXPECT_EQ(zinf_map(nbytes, nullptr, &m, &st), -ENOMEM);
        EXPECT_EQ(m.base, nullptr);
        EXPECT_NE(std::string(st.text).find("zinf.host_memory"), std::string::npos) << st.text;
    }
}

TEST(Map, ALimitOfTheProcessIsAFailureNotASignal)
{
    if (UNDER_SANITIZER)
        GTEST_SKIP() << "sanitizers need the address space";
    rlimit before, low;
    zinf_mapping m = {};
    zinf_status st = {};

    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    low = before;
    low.rlim_cur = 1024 * kMiB;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
    EXPECT_EQ(zinf_map(2048 * kMiB, nullptr, &m, &st), -ENOMEM);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_NE(st.text[0], '\0');
}

TEST_F(Host, NothingToReadIsZero)
{
    EXPECT_EQ(Available(), 0u);
}

TEST_F(Host, WithoutACgroupItIsMemAvailable)
{
    MemAvailable(1000);
    EXPECT_EQ(Available(), 1000u * 1024);
}

TEST_F(Host, Version2CountsReclaimableFilePagesAsFree)
{
    MemAvailable(1 << 20);
    Write("proc/self/cgroup", "0::/\n");
    GroupV2("", std::to_string(500 * kMiB), 300 * kMiB, 100 * kMiB);
    EXPECT_EQ(Available(), 300 * kMiB);
}

TEST_F(Host, Version2WithoutALimitIsMemAvailable)
{
    MemAvailable(1000);
    Write("proc/self/cgroup", "0::/a/b\n");
    GroupV2("/a/b", "max", 300 * kMiB, 0);
    EXPECT_EQ(Available(), 1000u * 1024);
}

TEST_F(Host, TheLeastOfAllParentsHolds)
{
    MemAvailable(1 << 20);
    Write("proc/self/cgroup", "0::/a/b/c\n");
    GroupV2("", std::to_string(900 * kMiB), 500 * kMiB, 0);
    GroupV2("/a", std::to_string(300 * kMiB), 200 * kMiB, 10 * kMiB);
    GroupV2("/a/b", "max", 200 * kMiB, 0);
    GroupV2("/a/b/c", std::to_string(400 * kMiB), 200 * kMiB, 0);
    EXPECT_EQ(Available(), 110 * kMiB);
}

TEST_F(Host, APathOnlyTheHostSeesFallsBackToTheMount)
{
    MemAvailable(1 << 20);
    Write("proc/self/cgroup", "0::/docker/0123\n");
    GroupV2("", std::to_string(300 * kMiB), 200 * kMiB, 0);
    EXPECT_EQ(Available(), 100 * kMiB);
}

TEST_F(Host, Version1)
{
    MemAvailable(1 << 20);
    Write("proc/self/cgroup", "12:cpu,cpuacct:/x\n7:hugetlb,memory:/jobs/9\n3:memoryless:/y\n0::/\n");
    GroupV1("", INT64_MAX / 4096 * 4096, 9, 0);
    GroupV1("/jobs/9", 600 * kMiB, 400 * kMiB, 50 * kMiB);
    GroupV1("/y", 1 * kMiB, 0, 0);
    EXPECT_EQ(Available(), 250 * kMiB);
}

TEST_F(Host, Version1WithoutALimitIsMemAvailable)
{
    MemAvailable(1000);
    Write("proc/self/cgroup", "7:memory:/\n");
    GroupV1("", INT64_MAX / 4096 * 4096, 9, 0);
    EXPECT_EQ(Available(), 1000u * 1024);
}

TEST_F(Host, AFullGroupIsKnownToBeFull)
{
    MemAvailable(1 << 20);
    Write("proc/self/cgroup", "0::/\n");
    GroupV2("", std::to_string(100 * kMiB), 120 * kMiB, 0);
    EXPECT_EQ(Available(), 1u);   /* 0 would say unknown */
}

TEST_F(Host, DamagedFilesAreAsIfMissing)
{
    MemAvailable(1000);
    Write("proc/self/cgroup", "nonsense\n0::\n::\n5:memory\n0::relative\n0::/a\n");
    Write("sys/fs/cgroup/a/memory.max", "many\n");
    Write("sys/fs/cgroup/a/memory.current", "");
    EXPECT_EQ(Available(), 1000u * 1024);
}

TEST(ThisHost, SaysSomething)
{
    EXPECT_GT(zinf_host_available_nbytes(""), 0u);
}

TEST(ThisProcess, ResidentSetFollowsAMappingAndThePeakStays)
{
    zinf_mapping m = {};
    zinf_status st = {};
    uint64_t before = zinf_rss_nbytes(), with;

    ASSERT_GT(before, 0u);
    ASSERT_EQ(zinf_map(64 * kMiB, nullptr, &m, &st), 0) << st.text;
    with = zinf_rss_nbytes();
    EXPECT_GE(with, before + 48 * kMiB);
    zinf_unmap(&m);
    EXPECT_LT(zinf_rss_nbytes(), with - 48 * kMiB);
    EXPECT_GE(zinf_peak_rss_nbytes(), with - 4 * kMiB);
    int rc = zinf_peak_rss_reset();

    if (rc == -EACCES || rc == -EROFS || rc == -EPERM || rc == -ENOENT)
        GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
    ASSERT_EQ(rc, 0);
    EXPECT_LT(zinf_peak_rss_nbytes(), with - 32 * kMiB);
}
