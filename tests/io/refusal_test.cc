/* tests/io/refusal_test.cc - machines that refuse io_uring, or only registered memory, in child processes. */
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "io/queue.h"
#include "io/uring_probe.h"
#include "tests/io/io_testing.h"

using namespace zinf_test;

namespace {

/* What a container's seccomp profile does: io_uring_setup, _enter and _register (425-427) fail with err. */
bool DenyUring(int err)
{
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 425, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 427, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(err)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog prog = {static_cast<unsigned short>(sizeof(code) / sizeof(code[0])), code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

int RoundTrip(zinf_io_queue *q, const std::string &path)
{
    File file(path, ZINF_FILE_CREATE);
    Buffer out(300001, 8), in(300001);
    zinf_status st = {};

    out.FillRandom(1);
    if (file.rc || zinf_io_run(q, &file.f, ZINF_IO_WRITE, out.data(), out.size(), 0, &st) ||
        zinf_io_run(q, &file.f, ZINF_IO_READ, in.data(), in.size(), 0, &st)) {
        printf("%s%s\n", file.st.text, st.text);
        return 10;
    }
    return memcmp(in.data(), out.data(), in.size()) ? 11 : 0;
}

/* Pain 48. */
class IoUringDenied : public ::testing::TestWithParam<int> {};

TEST_P(IoUringDenied, AutoFallsBackWithOneLine)
{
    TempDir dir;
    int rc = InChild([&] {
        LogLines lines;
        zinf_io_queue_opts opts = {};
        if (!DenyUring(GetParam()))
            return 77;
        opts.event_fd = -1;
        opts.log = lines.log();
        Opened q(opts);
        if (q.rc || std::string(zinf_io_queue_backend(q.q)) != "threads")
            return 1;
        for (const std::string &l : lines.lines)
            printf("%s\n", l.c_str());
        if (lines.lines.size() != (zinf_io_ops_find("io_uring") ? 1u : 0u))
            return 2;
        if (!lines.lines.empty() && (!lines.Count("io_uring refused") ||
                                     !lines.Count("errno " + std::to_string(GetParam())) || !lines.Count("threads")))
            return 3;
        return RoundTrip(q.q, dir.file("f"));
    });
    if (rc == 77)
        GTEST_SKIP() << "seccomp filters are not permitted here";
    EXPECT_EQ(rc, 0);
}

TEST_P(IoUringDenied, AskedForByNameFails)
{
    if (!zinf_io_ops_find("io_uring"))
        GTEST_SKIP() << "io_uring is not compiled in";
    int rc = InChild([&] {
        zinf_io_uring_info info;
        zinf_status st = {};
        if (!DenyUring(GetParam()))
            return 77;
        Opened q(Options("io_uring"));
        if (q.rc != -GetParam() || q.q || !strstr(q.st.text, "io_uring refused"))
            return 1;
        if (zinf_io_uring_probe(&info, &st) != -GetParam() || info.available || strcmp(info.text, st.text))
            return 2;
        return 0;
    });
    if (rc == 77)
        GTEST_SKIP() << "seccomp filters are not permitted here";
    EXPECT_EQ(rc, 0);
}

INSTANTIATE_TEST_SUITE_P(With, IoUringDenied, ::testing::Values(EPERM, ENOSYS),
                         [](const auto &i) { return i.param == EPERM ? std::string("Eperm") : std::string("Enosys"); });

bool DropIpcLock()
{
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};

    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    return syscall(SYS_capset, &header, data) == 0;
}

/* Pain 49. */
TEST(IoUringPin, RefusedRegistrationIsOneLineAndNoError)
{
    TempDir dir;
    std::string why = Refusal("io_uring");

    if (!why.empty())
        GTEST_SKIP() << why;
    int rc = InChild([&] {
        LogLines lines;
        rlimit some = {512 << 10, 512 << 10};      /* enough for the rings, which some kernels count too */
        Buffer mine(1 << 20);
        if (!DropIpcLock() || setrlimit(RLIMIT_MEMLOCK, &some) < 0)
            return 77;
        zinf_io_queue_opts opts = Options("io_uring");
        opts.log = lines.log();
        Opened q(opts);
        if (q.rc)
            return 77;
        zinf_io_queue_pin(q.q, mine.data(), mine.size());
        zinf_io_queue_pin(q.q, mine.data(), mine.size());
        for (const std::string &l : lines.lines)
            printf("%s\n", l.c_str());
        if (lines.lines.size() != 1 || !lines.Count("1.0 MiB") || !lines.Count("limit is 512.0 KiB"))
            return 1;
        return RoundTrip(q.q, dir.file("f"));
    });
    if (rc == 77)
        GTEST_SKIP() << "the locked-memory limit cannot be lowered here";
    EXPECT_EQ(rc, 0);
}

/* Without any locked memory some kernels refuse the rings too: then the fallback is taken. */
TEST(IoUringPin, NoLockedMemoryAtAllStillWorks)
{
    TempDir dir;
    int rc = InChild([&] {
        LogLines lines;
        rlimit none = {0, 0};
        Buffer mine(1 << 20);
        zinf_io_queue_opts opts = {};
        if (!DropIpcLock() || setrlimit(RLIMIT_MEMLOCK, &none) < 0)
            return 77;
        opts.event_fd = -1;
        opts.log = lines.log();
        Opened q(opts);
        if (q.rc)
            return 1;
        zinf_io_queue_pin(q.q, mine.data(), mine.size());
        for (const std::string &l : lines.lines)
            printf("%s\n", l.c_str());
        if (lines.lines.size() != (zinf_io_ops_find("io_uring") ? 1u : 0u))
            return 2;
        if (!lines.lines.empty() && !lines.Count("ulimit -l"))
            return 3;
        return RoundTrip(q.q, dir.file("f"));
    });
    if (rc == 77)
        GTEST_SKIP() << "the locked-memory limit cannot be lowered here";
    EXPECT_EQ(rc, 0);
}

TEST(IoUringProbe, SaysWhatIsThere)
{
    zinf_io_uring_info info;
    zinf_status st = {};
    size_t before = OpenDescriptors();
    int rc = zinf_io_uring_probe(&info, &st);

    printf("%s\n", info.text);
    EXPECT_EQ(rc == 0, info.available);
    EXPECT_EQ(rc == 0, Refusal("io_uring").empty());
    EXPECT_STRNE(info.text, "");
    EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
