/* tests/checkpoint/portable_crash_test.cc - processes killed while they save, and drives that are full: a name stays whole. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/portable_case.h"
#include "tests/checkpoint/temp_dir.h"
#include "zinf/checkpoint/portable.h"
#include "zinf/checkpoint/portable_dir.h"

namespace {

using Strings = std::vector<std::string>;

class Crash : public TempDir {
  protected:
    /* fn(generation) for ascending generations in a child that is killed at a random moment. */
    void kill_one(int64_t first, uint32_t delay_us, const std::function<int(int64_t)> &fn)
    {
        pid_t pid = fork();
        ASSERT_GE(pid, 0);
        if (pid == 0)
            for (int64_t g = first;; g++)
                if (fn(g))
                    _exit(1);
        usleep(delay_us);
        int status = 0;
        ASSERT_EQ(0, kill(pid, SIGKILL));
        ASSERT_EQ(pid, waitpid(pid, &status, 0));
        ASSERT_TRUE(WIFSIGNALED(status)) << "a save in the child failed";
    }
    zinf_status st = {};
};

/* Every kill is followed by the next save on what it left. */
TEST_F(Crash, KilledAtAnyMomentTheNameIsWhole)
{
    PortableCase c(1, 20000);
    std::mt19937 rng(7);
    int64_t last = 0;
    int progress = 0;
    ASSERT_EQ(0, c.save(dir_, "a", 0, &st)) << st.text;
    auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(0, c.save(dir_, "a", 0, &st)) << st.text;
    std::chrono::duration<double, std::micro> save = std::chrono::steady_clock::now() - begin;
    const uint32_t longest_us = 1000 + (uint32_t)(3 * save.count());
    for (int i = 0; i < 30 || (progress == 0 && i < 300); i++) {
        kill_one(last + 1, rng() % longest_us, [&](int64_t g) {
            zinf_status s = {};
            return c.save(dir_, "a", g, &s, 1);
        });
        int64_t found = c.load(path("a"), &st);
        ASSERT_GE(found, last) << st.text;
        if (i % 3 == 0) {
            ASSERT_EQ(Strings{ "a" }, PortableCase::list(dir_, true));
            ASSERT_EQ(std::set<std::string>{ "a" }, names());
            ASSERT_EQ(found, c.load(path("a"), &st)) << st.text;
        }
        progress += found > last;
        last = found;
    }
    EXPECT_GT(progress, 0) << "no child came to replace anything";
}

/* Loading while another process replaces: never anything but one of them. */
TEST_F(Crash, LoadedWhileItIsReplaced)
{
    PortableCase c(3, 2000);
    ASSERT_EQ(0, c.save(dir_, "a", 0, &st)) << st.text;
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        zinf_status s = {};
        for (int64_t g = 1; g <= 30; g++)
            if (c.save(dir_, "a", g, &s))
                _exit(1);
        _exit(0);
    }
    int64_t last = 0;
    int status = 0, nr = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        int64_t found = c.load(path("a"), &(st = {}));
        EXPECT_GE(found, last) << st.text;
        last = std::max(last, found);
        nr++;
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_GT(nr, 0);
    EXPECT_EQ(30, c.load(path("a"), &st));
}

/* ---- killed before each system call --------------------------------------------------------------------------------- */

enum { DONE = 0, FAILED = 1, NO_PTRACE = 2, KILLED = 3 };

/* fn in a child that is killed before its nr-th system call. DONE: it made fewer. */
int killed_before(uint32_t nr, const std::function<int()> &fn)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))
            _exit(77);
        raise(SIGSTOP);
        _exit(fn() ? 1 : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return NO_PTRACE;
    for (uint32_t stop = 0; stop < 2 * nr - 1; stop++) {      /* each call stops twice, before and after */
        if (ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr) || waitpid(pid, &status, 0) != pid)
            return NO_PTRACE;
        if (WIFEXITED(status))
            return WEXITSTATUS(status) ? FAILED : DONE;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            return FAILED;
    }
    kill(pid, SIGKILL);
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? KILLED : FAILED;
}

class EveryCall : public Crash {
  protected:
    /* prepare, fn cut off at each of its calls in turn, check(whether fn came to its end). */
    void run(const std::function<void()> &prepare, const std::function<int()> &fn, const std::function<void(bool)> &check)
    {
        uint32_t nr = 1;
        for (int how = KILLED; how == KILLED; nr++) {
            std::filesystem::remove_all(main_);
            std::filesystem::create_directory(main_);
            prepare();
            how = killed_before(nr, fn);
            if (how == NO_PTRACE)
                GTEST_SKIP() << "tracing a child is not permitted here";
            ASSERT_NE(FAILED, how) << "call " << nr;
            check(how == DONE);
            ASSERT_FALSE(HasFailure()) << "before call " << nr;
        }
        EXPECT_GT(nr, 10u);
        std::cout << nr << " calls" << std::endl;
    }
    void SetUp() override
    {
        Crash::SetUp();
        main_ = path("main");
        for (int g : { 1, 2 })
            ASSERT_EQ(0, c_.save(path("side"), std::to_string(g), g, &st)) << st.text;
    }
    void take(const char *from, const char *to)
    {
        std::filesystem::copy(path("side/") + from, main_ + "/" + to);
    }
    int64_t load() { return c_.load(main_ + "/a", &(st = {})); }
    /* As the next start finds it: listed, swept, loaded, saved over. */
    void expect_clean(int64_t generation)
    {
        EXPECT_EQ(generation < 0 ? Strings{} : Strings{ "a" }, PortableCase::list(main_, true));
        EXPECT_EQ(generation < 0 ? std::set<std::string>{} : std::set<std::string>{ "a" }, names("main"));
        EXPECT_EQ(generation, load()) << st.text;
    }
    /* As save ends where two names cannot be swapped, with files that are there. */
    int publish_in_two(const char *from)
    {
        int fd = open(main_.c_str(), O_RDONLY | O_DIRECTORY);
        zinf_claim claim;
        bool published;
        int rc = zinf_portable_claim(fd, "a", &claim);
        for (const char *f : { "/state.safetensors", "/checkpoint.json" })
            if (!rc && link((path("side/") + from + f).c_str(), (main_ + "/.a.tmp" + f).c_str()))
                rc = -errno;
        if (!rc)
            rc = zinf_portable_publish(fd, "a", false, &published);
        if (!rc)
            zinf_portable_unlock(&claim);
        close(fd);
        return rc;
    }
    PortableCase c_{ 2, 12, 1 };
    std::string main_;
};

TEST_F(EveryCall, OfASaveOverAnother)
{
    int before = 0, after = 0;
    run([&] { take("1", "a"); },
        [&] {
            zinf_status s = {};
            return c_.save(main_, "a", 2, &s);
        },
        [&](bool done) {
            int64_t g = load();
            EXPECT_TRUE(g == 2 || (g == 1 && !done)) << g << " " << st.text;
            (g == 1 ? before : after)++;
            expect_clean(g);
        });
    EXPECT_TRUE(IsSkipped() || (before > 10 && after > 3)) << before << " " << after;
}

TEST_F(EveryCall, OfAFirstSave)
{
    run([] {},
        [&] {
            zinf_status s = {};
            return c_.save(main_, "a", 2, &s);
        },
        [&](bool done) {
            int64_t g = load();
            EXPECT_TRUE(g == 2 || (g == -ENOENT && !done)) << g << " " << st.text;
            expect_clean(g);
        });
}

TEST_F(EveryCall, OfASaveThatRenamesTwice)
{
    int between = 0;
    run([&] { take("1", "a"); }, [&] { return publish_in_two("2"); },
        [&](bool done) {
            between += !std::filesystem::exists(main_ + "/a");
            int64_t g = load();
            EXPECT_TRUE(g == 2 || (g == 1 && !done)) << g << " " << st.text;
            expect_clean(g);
        });
    EXPECT_TRUE(IsSkipped() || between > 0);
}

/* Over what a crash between the renames left. */
TEST_F(EveryCall, OfASaveAfterACrash)
{
    auto prepare = [&] {
        take("1", ".a.old");
        take("2", ".a.tmp");
        put("main/.a.tmp/lock", "");
    };
    auto check = [&](bool done) {
        int64_t g = load();
        EXPECT_TRUE(g == 2 || (g == 1 && !done)) << g << " " << st.text;
        expect_clean(g);
    };
    run(prepare, [&] { return publish_in_two("2"); }, check);
    run(prepare,
        [&] {
            zinf_status s = {};
            return c_.save(main_, "a", 2, &s);
        },
        check);
}

TEST_F(EveryCall, OfASweepAfterACrash)
{
    run(
        [&] {
            take("1", ".a.old");
            take("2", ".a.tmp");
            take("2", ".b.gone");
        },
        [&] {
            char **list = nullptr;
            uint32_t nr = 0;
            return zinf_portable_list(main_.c_str(), true, &list, &nr, nullptr) || nr != 1;
        },
        [&](bool) {
            EXPECT_EQ(1, load()) << st.text;
            expect_clean(1);
        });
}

TEST_F(EveryCall, OfARemoval)
{
    for (bool hidden : { false, true })
        run(
            [&] {
                take("1", hidden ? ".a.old" : "a");
                if (!hidden)
                    take("2", ".a.old");
            },
            [&] { return zinf_portable_remove(main_.c_str(), "a", nullptr); },
            [&](bool done) {
                int64_t g = load();
                EXPECT_TRUE(g == -ENOENT || (g == 1 && !done)) << g << " " << st.text;
                expect_clean(g);
            });
}

/* ---- a full drive --------------------------------------------------------------------------------------------------- */

/* In a child that may mount: fn in a tmpfs of that size; 77 = not permitted here. */
int in_tmpfs(const std::string &at, const char *options, const std::function<int()> &fn)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        if ((unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS)) ||
            mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) || mkdir(at.c_str(), 0700) ||
            mount("none", at.c_str(), "tmpfs", 0, options))
            _exit(77);
        _exit(fn());
    }
    return pid < 0 || waitpid(pid, &status, 0) != pid ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

size_t entries(const std::string &at)
{
    size_t n = 0;
    for (auto it = std::filesystem::directory_iterator(at); it != std::filesystem::directory_iterator(); ++it)
        n++;
    return n;
}

TEST_F(Crash, AFullDriveIsToldBeforeTheFirstByte)
{
    std::string at = path("mnt");
    int rc = in_tmpfs(at, "size=1m", [&] {
        PortableCase small(5, 10000), big(6, 75000);       /* 120 and 900 KB */
        zinf_status s = {};
        if (small.save(at, "a", 1, &s))
            return 1;
        if (big.save(at, "a", 2, &s) != -ENOSPC)
            return 2;
        std::cout << s.text << std::endl;
        std::string text = s.text;
        if (text.find("needs 9") == std::string::npos || text.find("KiB free") == std::string::npos)
            return 3;
        if (entries(at) != 1 || small.load(at + "/a", &(s = {})) != 1)
            return 4;
        std::filesystem::remove_all(at + "/a");
        return big.save(at, "a", 3, &(s = {})) ? 5 : big.load(at + "/a", &s) == 3 ? 0 : 6;
    });
    if (rc == 77)
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    EXPECT_EQ(0, rc);
}

/* Somebody else fills the drive while the segments are written: the state was reserved, checkpoint.json finds no room. */
TEST_F(Crash, ADriveThatFillsMeanwhileLeavesTheOldOne)
{
    std::string at = path("mnt");
    int rc = in_tmpfs(at, "size=1m", [&] {
        PortableCase c(7, 20000);
        zinf_status s = {};
        if (c.save(at, "a", 1, &s))
            return 1;
        auto segments = c.cut();
        zinf_portable_opts o = c.opts(at.c_str(), "a", (uint32_t)segments.size());
        zinf_portable_writer *w = nullptr;
        if (zinf_portable_open(&o, &w, &s))
            return 2;
        int fd = open((at + "/other").c_str(), O_WRONLY | O_CREAT, 0600);
        std::vector<char> page(4096, 'x');
        while (write(fd, page.data(), page.size()) > 0) { }
        close(fd);
        if (c.write_all(w, segments, 2, 2, &s))
            return 3;
        if (zinf_portable_finish(w, "{\"step\":2}", &s) != -ENOSPC)
            return 4;
        std::cout << s.text << std::endl;
        zinf_portable_close(w);
        if (entries(at) != 2 || c.load(at + "/a", &(s = {})) != 1)
            return 5;
        std::filesystem::create_directory(at + "/.dead.tmp");
        if (PortableCase::list(at, true) != Strings{ "a" } || entries(at) != 2)
            return 6;
        if (zinf_portable_remove(at.c_str(), "a", &s) || entries(at) != 1)
            return 7;
        return 0;
    });
    if (rc == 77)
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    EXPECT_EQ(0, rc);
}

TEST_F(Crash, AReadOnlyDriveCanStillBeReadAndListed)
{
    std::string at = path("mnt");
    int rc = in_tmpfs(at, "size=4m", [&] {
        PortableCase c(8, 1000);
        zinf_status s = {};
        if (c.save(at, "a", 1, &s) || c.save(at, "b", 2, &s))
            return 1;
        std::filesystem::rename(at + "/a", at + "/.a.old");
        if (mount("none", at.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr))
            return 77;
        if (PortableCase::list(at, true) != Strings{ "a", "b" })
            return 2;
        if (c.load(at + "/a", &s) != 1 || c.load(at + "/b", &s) != 2)
            return 3;
        int rc = c.save(at, "b", 3, &s);
        if (rc != -EROFS)
            return 4;
        return zinf_portable_remove(at.c_str(), "b", nullptr) == -EROFS ? 0 : 5;
    });
    if (rc == 77)
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    EXPECT_EQ(0, rc);
}

}  // namespace
