/* tests/io/file_test.cc - probing, opening and allocating on real file systems, full ones and odd ones included. */
#include "io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "io/queue.h"
#include "tests/io/io_testing.h"

using namespace zinf_test;

namespace {

bool Has(const char *text, const std::string &part) { return std::string(text).find(part) != std::string::npos; }

TEST(IoProbe, TellsWhatAFolderOffersAndLeavesNothingBehind)
{
    TempDir dir;
    zinf_io_dir_info info;
    zinf_status st = {};
    size_t before = OpenDescriptors();

    ASSERT_EQ(zinf_io_probe_dir(dir.path().c_str(), &info, &st), 0) << st.text;
    EXPECT_STRNE(info.fs_name, "");
    EXPECT_STRNE(info.why, "");
    EXPECT_GT(info.free_nbytes, 0u);
    EXPECT_EQ(info.off_align & (info.off_align - 1), 0u);
    EXPECT_EQ(info.mem_align & (info.mem_align - 1), 0u);
    EXPECT_EQ(info.direct, info.off_align > 1);
    EXPECT_EQ(rmdir(dir.path().c_str()), 0) << "a trial file was left";
    EXPECT_EQ(OpenDescriptors(), before);
}

/* What was probed is what the kernel takes: one block works, and half of one is refused or served by the queue. */
TEST(IoProbe, AlignmentIsTrueOfTheFile)
{
    TempDir dir;
    File file(dir.file("f"), ZINF_FILE_CREATE);
    Buffer buf(131072);

    ASSERT_EQ(file.rc, 0) << file.st.text;
    if (!file.f.direct)
        GTEST_SKIP() << "no O_DIRECT in the test folder";
    EXPECT_NE(fcntl(file.f.fd, F_GETFL) & O_DIRECT, 0);
    EXPECT_EQ(pwrite(file.f.fd, buf.data(), file.f.off_align, file.f.off_align), file.f.off_align);
    EXPECT_EQ(pread(file.f.fd, buf.data() + file.f.mem_align, file.f.off_align, file.f.off_align), file.f.off_align);
}

TEST(IoProbe, RefusalsNameThePath)
{
    TempDir dir;
    zinf_io_dir_info info;
    zinf_status missing = {}, file = {}, locked = {};
    std::string name = dir.file("x");

    EXPECT_EQ(zinf_io_probe_dir(name.c_str(), &info, &missing), -ENOENT);
    EXPECT_TRUE(Has(missing.text, name)) << missing.text;
    close(open(name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(zinf_io_probe_dir(name.c_str(), &info, &file), -ENOTDIR);
    EXPECT_TRUE(Has(file.text, name)) << file.text;
    EXPECT_LT(zinf_io_probe_dir("/proc/self", &info, &locked), 0);
    EXPECT_TRUE(Has(locked.text, "/proc/self")) << locked.text;
    EXPECT_FALSE(info.direct);
}

TEST(IoFile, ModesAreKept)
{
    TempDir dir;
    std::string path = dir.file("f");
    struct stat sb;

    {
        File missing(path, ZINF_FILE_READ), missing_too(path, ZINF_FILE_WRITE);
        EXPECT_EQ(missing.rc, -ENOENT);
        EXPECT_EQ(missing_too.rc, -ENOENT);
        EXPECT_TRUE(Has(missing.st.text, path)) << missing.st.text;
    }
    {
        File created(path, ZINF_FILE_CREATE);
        ASSERT_EQ(created.rc, 0) << created.st.text;
        ASSERT_EQ(stat(path.c_str(), &sb), 0);
        EXPECT_EQ(sb.st_mode & 0777, 0600u);
        EXPECT_EQ(sb.st_size, 0) << "the trial block stayed";
        File again(path, ZINF_FILE_CREATE);
        EXPECT_EQ(again.rc, -EEXIST);
        EXPECT_TRUE(Has(again.st.text, path)) << again.st.text;
        ASSERT_EQ(stat(path.c_str(), &sb), 0) << "a refused create removed the file";
    }
    /* Opening for writing changes no byte. */
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(write(fd, "hello", 5), 5);
    close(fd);
    char text[8] = {};
    {
        File writable(path, ZINF_FILE_WRITE);
        EXPECT_EQ(writable.rc, 0) << writable.st.text;
        EXPECT_EQ(writable.f.nbytes, 5u);
    }
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(read(fd, text, 8), 5);
    close(fd);
    EXPECT_STREQ(text, "hello");
    File folder(dir.path(), ZINF_FILE_READ), device("/dev/null", ZINF_FILE_WRITE);
    EXPECT_EQ(folder.rc, -EINVAL);
    EXPECT_EQ(device.rc, -EINVAL);
    File longer(dir.file(std::string(2000, 'x')), ZINF_FILE_CREATE);
    EXPECT_EQ(longer.rc, -ENAMETOOLONG);
}

TEST(IoFile, CloseIsSafeOnZeroedAndClosedFiles)
{
    TempDir dir;
    zinf_file zeroed = {};
    File file(dir.file("f"), ZINF_FILE_CREATE);
    size_t before = OpenDescriptors();

    zinf_file_close(&zeroed);
    EXPECT_EQ(OpenDescriptors(), before);      /* descriptor 0 is not ours */
    zinf_file_close(&file.f);
    zinf_file_close(&file.f);
    EXPECT_EQ(OpenDescriptors(), before - 1);
}

TEST(IoFile, PreallocationWritesEveryByteAndReportsProgress)
{
    for (bool direct : {true, false}) {
        TempDir dir;
        File file(dir.file("f"), ZINF_FILE_CREATE, direct);
        struct Seen { uint64_t last = 0, calls = 0; bool forward = true; } seen;
        struct stat sb;
        const uint64_t nbytes = (9 << 20) + 5;

        ASSERT_EQ(zinf_file_preallocate(&file.f, nbytes,
                                        [](void *ctx, uint64_t done, uint64_t total) {
                                            auto *s = static_cast<Seen *>(ctx);
                                            s->forward &= done > s->last && done <= total;
                                            s->last = done;
                                            s->calls++;
                                        },
                                        &seen, &file.st), 0) << file.st.text;
        EXPECT_TRUE(seen.forward);
        EXPECT_EQ(seen.calls, 3u);
        EXPECT_EQ(seen.last, file.f.nbytes);
        EXPECT_GE(file.f.nbytes, nbytes);
        EXPECT_EQ(file.f.nbytes % file.f.off_align, 0u);
        ASSERT_EQ(fstat(file.f.fd, &sb), 0);
        EXPECT_EQ(static_cast<uint64_t>(sb.st_size), file.f.nbytes);
        EXPECT_GE(static_cast<uint64_t>(sb.st_blocks) * 512, nbytes);
    }
}

TEST(IoFile, BufferedPreallocationLeavesThePageCacheAlone)
{
    TempDir dir;
    zinf_io_dir_info info;
    zinf_status st = {};
    const size_t nbytes = 8 << 20, page = 4096;

    ASSERT_EQ(zinf_io_probe_dir(dir.path().c_str(), &info, &st), 0) << st.text;
    if (std::string(info.fs_name) != "ext4" && std::string(info.fs_name) != "xfs")
        GTEST_SKIP() << "the page cache is the storage of " << info.fs_name << ", or it ignores advice";
    File file(dir.file("f"), ZINF_FILE_CREATE, false);
    ASSERT_EQ(zinf_file_preallocate(&file.f, nbytes, nullptr, nullptr, &st), 0) << st.text;
    void *map = mmap(nullptr, nbytes, PROT_READ, MAP_SHARED, file.f.fd, 0);
    ASSERT_NE(map, MAP_FAILED);
    std::vector<unsigned char> in(nbytes / page);
    ASSERT_EQ(mincore(map, nbytes, in.data()), 0);
    size_t resident = 0;
    for (unsigned char c : in)
        resident += c & 1;
    munmap(map, nbytes);
    EXPECT_LT(resident, in.size() / 4);
}

TEST(IoFile, FileSizeLimitIsNamed)
{
    TempDir dir;
    int rc = InChild([&] {
        rlimit rl = {1 << 20, 1 << 20};
        zinf_status st = {};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &rl) < 0)
            return 77;
        File file(dir.file("f"), ZINF_FILE_CREATE);
        if (zinf_file_preallocate(&file.f, 4 << 20, nullptr, nullptr, &st) != -EFBIG)
            return 1;
        return Has(st.text, "ulimit -f") && Has(st.text, dir.file("f")) ? 0 : 2;
    });
    EXPECT_EQ(rc, 0);
}

/* In a child that may mount: mounts `type` on a folder and runs fn(folder). 77 = not permitted here. */
int WithMount(const std::string &dir, const char *type, const char *options,
              const std::function<int(const std::string &)> &fn)
{
    return InChild([&] {
        std::string at = dir + "/mnt";
        if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
            return 77;
        /* Private first: a shared parent would show the mount outside. */
        if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 || mkdir(at.c_str(), 0700) < 0 ||
            mount("none", at.c_str(), type, 0, options) < 0)
            return 77;
        return fn(at);
    });
}

TEST(IoFile, FullDriveIsToldWithNeedAndFreeBeforeItIsFilled)
{
    TempDir dir;
    int rc = WithMount(dir.path(), "tmpfs", "size=1m", [](const std::string &at) {
        File file(at + "/f", ZINF_FILE_CREATE);
        zinf_io_dir_info before, after;
        zinf_status st = {};
        struct stat sb;
        if (file.rc || zinf_io_probe_dir(at.c_str(), &before, &st))
            return 1;
        if (zinf_file_preallocate(&file.f, 8 << 20, nullptr, nullptr, &st) != -ENOSPC)
            return 2;
        printf("%s\n", st.text);
        if (!Has(st.text, "8388608 bytes") || !Has(st.text, std::to_string(before.free_nbytes)) ||
            !Has(st.text, at + "/f"))
            return 3;
        if (fstat(file.f.fd, &sb) < 0 || sb.st_size != 0 || sb.st_blocks != 0)
            return 4;
        zinf_status again = {};
        if (zinf_io_probe_dir(at.c_str(), &after, &again) || after.free_nbytes != before.free_nbytes)
            return 5;
        zinf_status fits = {};
        return zinf_file_preallocate(&file.f, 512 << 10, nullptr, nullptr, &fits) ? 6 : 0;
    });
    if (rc == 77)
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    EXPECT_EQ(rc, 0);
}

/* Pain 53: a file system without O_DIRECT. */
TEST(IoFile, FileSystemWithoutDirectIsUsedBuffered)
{
    TempDir dir;
    int rc = WithMount(dir.path(), "ramfs", nullptr, [](const std::string &at) {
        zinf_io_dir_info info;
        zinf_status st = {};
        Buffer out(10001, 8), in(10001);
        if (zinf_io_probe_dir(at.c_str(), &info, &st))
            return 1;
        printf("%s\n", info.why);
        if (info.direct)
            return 77;
        if (info.off_align != 1 || info.mem_align != 1 || !Has(info.why, "buffered") || !Has(info.why, "ramfs"))
            return 2;
        File file(at + "/f", ZINF_FILE_CREATE);
        if (file.rc || file.f.direct || file.f.off_align != 1)
            return 3;
        Opened q(Options("threads"));
        out.FillRandom(1);
        if (zinf_io_run(q.q, &file.f, ZINF_IO_WRITE, out.data(), out.size(), 3, &st) ||
            zinf_io_run(q.q, &file.f, ZINF_IO_READ, in.data(), in.size(), 3, &st))
            return 4;
        return memcmp(in.data(), out.data(), in.size()) ? 5 : 0;
    });
    if (rc == 77)
        GTEST_SKIP() << "mounting a ramfs is not permitted here, or it takes O_DIRECT";
    EXPECT_EQ(rc, 0);
}

}  // namespace
