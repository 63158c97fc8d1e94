/* tests/swapper/rundir_test.cc - run folders with live owners, dead owners, hostile links, and sweeps at the worst moment. */
#include "swapper/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace {

namespace fs = std::filesystem;

class Rundir : public ::testing::Test {
protected:
    void SetUp() override
    {
        const char *base = getenv("TEST_TMPDIR");
        std::string t = std::string(base ? base : "/tmp") + "/rundir-XXXXXX";
        ASSERT_NE(mkdtemp(t.data()), nullptr);
        root = t;
        dir = root + "/drive";
        fs::create_directory(dir);
    }
    void TearDown() override { fs::remove_all(root); }

    std::string Uuid()
    {
        char u[37];
        EXPECT_EQ(zinf_uuid_make(u, &st), 0) << st.text;
        return u;
    }
    zinf_rundir Create()
    {
        zinf_rundir r;
        EXPECT_EQ(zinf_rundir_create(dir.c_str(), Uuid().c_str(), &r, &st), 0) << st.text;
        return r;
    }
    static void Write(const std::string &path, size_t nbytes)
    {
        std::ofstream(path, std::ios::binary) << std::string(nbytes, 'x');
    }
    /* A folder as a killed run leaves it: its lock is free. */
    std::string Dead(bool hidden = false)
    {
        zinf_rundir r = Create();
        Write(std::string(r.path) + "/state-0", 100000);
        zinf_rundir_close(&r, false, &st);
        if (!hidden)
            return r.path;
        std::string to = dir + "/.zinf-" + r.uuid;
        fs::rename(r.path, to);
        return to;
    }
    uint64_t Sweep(bool (*has_record)(const char *, void *) = nullptr, void *ctx = nullptr)
    {
        lines.clear();
        struct zinf_log log = {ZINF_LOG_DEBUG, [](void *c, zinf_log_level, const char *line) {
                                   static_cast<std::vector<std::string> *>(c)->push_back(line);
                               }, &lines};
        uint64_t freed = 0;
        st = zinf_status{};
        EXPECT_EQ(zinf_rundir_sweep(dir.c_str(), has_record, ctx, &freed, &log, &st), 0) << st.text;
        return freed;
    }
    size_t NrEntries() const { return (size_t)std::distance(fs::directory_iterator(dir), fs::directory_iterator()); }

    std::string root, dir;
    std::vector<std::string> lines;
    zinf_status st{};
};

TEST_F(Rundir, UuidsAreWellFormedAndDiffer)
{
    std::set<std::string> seen;
    for (int i = 0; i < 100; i++) {
        std::string u = Uuid();
        ASSERT_EQ(u.size(), 36u);
        EXPECT_EQ(u[14], '4');
        EXPECT_NE(std::string("89ab").find(u[19]), std::string::npos);
        EXPECT_EQ(u.find_first_not_of("0123456789abcdef-"), std::string::npos);
        EXPECT_TRUE(seen.insert(u).second);
    }
}

TEST_F(Rundir, CreateMakesAPrivateLockedFolder)
{
    std::string uuid = Uuid();
    zinf_rundir r;
    ASSERT_EQ(zinf_rundir_create(dir.c_str(), uuid.c_str(), &r, &st), 0) << st.text;
    EXPECT_EQ(r.path, fs::canonical(dir).string() + "/zinf-" + uuid);
    struct stat sb;
    ASSERT_EQ(stat(r.path, &sb), 0);
    EXPECT_EQ(sb.st_mode & 07777, 0700u);
    EXPECT_EQ(NrEntries(), 1u);
    std::ifstream lock(std::string(r.path) + "/lock");
    std::string pid, host, boot;
    lock >> pid >> host >> boot;
    EXPECT_EQ(pid, std::to_string(getpid()));
    EXPECT_NE(boot, "");
    EXPECT_EQ(zinf_rundir_close(&r, false, &st), 0);
    EXPECT_EQ(r.lock_fd, -1);
    EXPECT_TRUE(fs::exists(r.path));
    EXPECT_EQ(zinf_rundir_close(&r, true, &st), 0);      /* closed already */
    EXPECT_TRUE(fs::exists(r.path));
}

TEST_F(Rundir, SameFolderTwiceIsRefused)
{
    std::string uuid = Uuid();
    zinf_rundir a, b;
    ASSERT_EQ(zinf_rundir_create(dir.c_str(), uuid.c_str(), &a, &st), 0) << st.text;
    EXPECT_EQ(zinf_rundir_create((dir + "/.").c_str(), uuid.c_str(), &b, &st), -EEXIST);
    EXPECT_NE(std::string(st.text).find("zinf.nvme_paths"), std::string::npos) << st.text;
    EXPECT_EQ(b.lock_fd, -1);
    EXPECT_TRUE(fs::exists(std::string(a.path) + "/lock"));
    zinf_rundir_close(&a, true, &st);
    EXPECT_EQ(NrEntries(), 0u);
}

TEST_F(Rundir, WrongArgumentsAreNamed)
{
    zinf_rundir r;
    EXPECT_EQ(zinf_rundir_create((dir + "/no").c_str(), Uuid().c_str(), &r, &st), -ENOENT);
    EXPECT_NE(std::string(st.text).find(dir + "/no"), std::string::npos) << st.text;
    for (const char *bad : {"", "../../../../../../../../../../../../etc", "0123456789abcdef0123456789abcdef0123",
                            "01234567-89AB-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcdef0"}) {
        st = zinf_status{};
        EXPECT_EQ(zinf_rundir_create(dir.c_str(), bad, &r, &st), -EINVAL) << bad;
    }
    st = zinf_status{};
    Write(dir + "/file", 1);
    EXPECT_EQ(zinf_rundir_create((dir + "/file").c_str(), Uuid().c_str(), &r, &st), -ENOTDIR);
    st = zinf_status{};
    EXPECT_EQ(zinf_rundir_sweep((dir + "/no").c_str(), nullptr, nullptr, nullptr, nullptr, &st), -ENOENT);
}

TEST_F(Rundir, RemoveDeletesEverythingInside)
{
    zinf_rundir r = Create();
    Write(std::string(r.path) + "/state-0", 5000);
    fs::create_directories(std::string(r.path) + "/a/b");
    Write(std::string(r.path) + "/a/b/c", 1);
    ASSERT_EQ(zinf_rundir_close(&r, true, &st), 0) << st.text;
    EXPECT_EQ(NrEntries(), 0u);
}

TEST_F(Rundir, LiveOwnersFolderIsNeverTouched)
{
    zinf_rundir a = Create();
    Write(std::string(a.path) + "/state-0", 5000);
    EXPECT_EQ(Sweep(), 0u);
    EXPECT_TRUE(fs::exists(std::string(a.path) + "/state-0"));
    EXPECT_TRUE(lines.empty());
    zinf_rundir_close(&a, false, &st);
    EXPECT_GT(Sweep(), 0u);
    EXPECT_EQ(NrEntries(), 0u);
}

TEST_F(Rundir, KilledOwnersFolderIsSweptByTheNextAndNotBefore)
{
    int up[2];
    ASSERT_EQ(pipe(up), 0);
    pid_t child = fork();
    if (child == 0) {
        zinf_rundir r;
        char u[37];
        if (zinf_uuid_make(u, nullptr) || zinf_rundir_create(dir.c_str(), u, &r, nullptr))
            _exit(1);
        Write(std::string(r.path) + "/state-0", 100000);
        if (write(up[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char x;
    ASSERT_EQ(read(up[0], &x, 1), 1);
    EXPECT_EQ(Sweep(), 0u);
    EXPECT_EQ(NrEntries(), 1u);
    zinf_rundir mine = Create();             /* two owners at once */
    EXPECT_EQ(NrEntries(), 2u);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_GE(Sweep(), 100000u);
    EXPECT_EQ(NrEntries(), 1u);
    EXPECT_TRUE(fs::exists(mine.path));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("bytes"), std::string::npos) << lines[0];
    zinf_rundir_close(&mine, true, &st);
    close(up[0]), close(up[1]);
}

TEST_F(Rundir, FolderWithARecordIsKept)
{
    std::string keep = Dead(), drop = Dead();
    Write(keep + "/record", 1);
    auto has_record = [](const char *path, void *ctx) {
        ++*static_cast<int *>(ctx);
        return fs::exists(std::string(path) + "/record");
    };
    int asked = 0;
    EXPECT_GT(Sweep(has_record, &asked), 0u);
    EXPECT_GE(asked, 2);
    EXPECT_TRUE(fs::exists(keep + "/state-0"));
    EXPECT_FALSE(fs::exists(drop));
}

TEST_F(Rundir, HiddenFolderIsGarbageWhateverItHolds)
{
    std::string half_deleted = Dead(true);
    EXPECT_GT(Sweep([](const char *, void *) { return true; }), 0u);
    EXPECT_FALSE(fs::exists(half_deleted));
}

TEST_F(Rundir, EmptyFolderWithoutLockGoesAndAFullOneStays)
{
    std::string empty = dir + "/.zinf-" + Uuid(), full = dir + "/zinf-" + Uuid();
    fs::create_directory(empty);
    fs::create_directory(full);
    Write(full + "/thesis.tex", 10);
    Sweep();
    EXPECT_FALSE(fs::exists(empty));
    EXPECT_TRUE(fs::exists(full + "/thesis.tex"));
    ASSERT_FALSE(lines.empty());
    EXPECT_NE(lines[0].find(full), std::string::npos) << lines[0];
}

TEST_F(Rundir, OtherNamesAreNotLookedAt)
{
    for (const char *name : {"zinf", "zinf-", "zinf-not-a-uuid", ".zinf-probe-abc", "data"}) {
        fs::create_directory(dir + "/" + name);
        Write(dir + "/" + name + "/lock", 1);
    }
    EXPECT_EQ(Sweep(), 0u);
    EXPECT_EQ(NrEntries(), 5u);
    EXPECT_TRUE(fs::exists(dir + "/zinf-/lock"));
}

TEST_F(Rundir, SymbolicLinksAreNotFollowed)
{
    std::string victim = root + "/victim";
    fs::create_directory(victim);
    Write(victim + "/lock", 10);
    Write(victim + "/precious", 10);
    fs::create_directory_symlink(victim, dir + "/zinf-" + Uuid());           /* the folder itself */
    std::string inside = Dead();
    fs::create_directory_symlink(victim, inside + "/sub");                   /* a folder inside */
    fs::create_symlink(victim + "/precious", inside + "/state-1");           /* a file inside */
    std::string lock = Dead();
    fs::remove(lock + "/lock");
    fs::create_symlink(victim + "/lock", lock + "/lock");                    /* the lock */
    Sweep();
    EXPECT_TRUE(fs::exists(victim + "/precious"));
    EXPECT_TRUE(fs::exists(victim + "/lock"));
    EXPECT_FALSE(fs::exists(inside));
    EXPECT_TRUE(fs::exists(lock + "/state-0"));
}

TEST_F(Rundir, RemoveDoesNotFollowAFolderThatWasReplaced)
{
    std::string victim = root + "/victim";
    fs::create_directory(victim);
    Write(victim + "/precious", 10);
    Write(victim + "/lock", 10);
    for (bool link : {true, false}) {
        zinf_rundir r = Create();
        fs::rename(r.path, root + "/moved");
        if (link) {
            fs::create_directory_symlink(victim, r.path);
        } else {
            fs::create_directory(r.path);
            Write(std::string(r.path) + "/precious", 1);
            Write(std::string(r.path) + "/lock", 1);
        }
        st = zinf_status{};
        EXPECT_EQ(zinf_rundir_close(&r, true, &st), -ESTALE);
        EXPECT_NE(std::string(st.text).find(r.path), std::string::npos) << st.text;
        EXPECT_TRUE(fs::exists(std::string(r.path) + "/precious"));
        EXPECT_TRUE(fs::exists(root + "/moved/lock"));
        fs::remove_all(root + "/moved");
        fs::remove_all(r.path);
    }
    EXPECT_TRUE(fs::exists(victim + "/precious"));
}

TEST_F(Rundir, HardLinksAreNotCountedAsFreed)
{
    std::string dead = Dead();
    fs::create_hard_link(dead + "/state-0", root + "/kept");
    EXPECT_LT(Sweep(), 100000u);
    EXPECT_EQ(fs::file_size(root + "/kept"), 100000u);
}

/* The maker is stopped at a random place, a whole sweep runs, the maker goes on: it must get its folder all the same. */
TEST_F(Rundir, SweepAtAnyMomentOfCreationLeavesARun)
{
    pid_t child = fork();
    if (child == 0) {
        for (int k = 0; k < 400; k++) {
            char u[37];
            zinf_rundir r;
            struct stat sb, at;
            if (zinf_uuid_make(u, nullptr) || zinf_rundir_create(dir.c_str(), u, &r, nullptr))
                _exit(2);
            if (fstat(r.lock_fd, &sb) || stat((std::string(r.path) + "/lock").c_str(), &at) || sb.st_ino != at.st_ino)
                _exit(3);
            if (zinf_rundir_close(&r, k % 2, nullptr))
                _exit(4);
        }
        _exit(0);
    }
    int status = 0, nr_stops = 0;
    for (;;) {
        kill(child, SIGSTOP);
        ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
        if (!WIFSTOPPED(status))
            break;
        nr_stops++;
        Sweep();
        EXPECT_TRUE(lines.empty() || lines[0].find("cleared") != std::string::npos) << lines[0];
        kill(child, SIGCONT);
        std::this_thread::yield();
    }
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_GT(nr_stops, 1);
    Sweep();
    EXPECT_EQ(NrEntries(), 0u);
}

TEST_F(Rundir, SweepsNeverTakeARunThatIsStarting)
{
    std::atomic<bool> stop{false};
    std::vector<std::thread> sweepers;
    for (int i = 0; i < 2; i++)
        sweepers.emplace_back([this, &stop] {
            while (!stop)
                zinf_rundir_sweep(dir.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr);
        });
    std::vector<std::thread> makers;
    for (int i = 0; i < 2; i++)
        makers.emplace_back([this] {
            for (int k = 0; k < 150; k++) {
                zinf_status why{};
                char u[37];
                zinf_rundir r;
                zinf_uuid_make(u, &why);
                ASSERT_EQ(zinf_rundir_create(dir.c_str(), u, &r, &why), 0) << why.text;
                std::string state = std::string(r.path) + "/state-0";
                Write(state, 10);
                std::this_thread::yield();
                ASSERT_TRUE(fs::exists(state));
                struct stat sb;
                ASSERT_EQ(fstat(r.lock_fd, &sb), 0);
                ASSERT_EQ(sb.st_nlink, 1u);
                ASSERT_EQ(zinf_rundir_close(&r, k % 2, &why), 0) << why.text;      /* every other one dies */
            }
        });
    for (std::thread &t : makers)
        t.join();
    stop = true;
    for (std::thread &t : sweepers)
        t.join();
    Sweep();
    EXPECT_EQ(NrEntries(), 0u);
}

/* ---- adopting ---- */

TEST_F(Rundir, AdoptTakesTheFolderOfADeadOwner)
{
    std::string path = Dead();
    zinf_rundir r;
    ASSERT_EQ(zinf_rundir_adopt((path + "/").c_str(), &r, &st), 0) << st.text;
    EXPECT_EQ(r.path, path);
    EXPECT_EQ(path.substr(path.size() - 36), r.uuid);
    EXPECT_EQ(Sweep(), 0u);                              /* owned: never garbage */
    EXPECT_TRUE(fs::exists(path + "/state-0"));
    std::ifstream lock(path + "/lock");
    std::string pid, rest;
    lock >> pid;
    EXPECT_EQ(pid, std::to_string(getpid()));
    EXPECT_EQ(zinf_rundir_close(&r, false, &st), 0);
    EXPECT_TRUE(fs::exists(path));
    ASSERT_EQ(zinf_rundir_adopt(path.c_str(), &r, &st), 0) << st.text;
    EXPECT_EQ(zinf_rundir_close(&r, true, &st), 0) << st.text;
    EXPECT_EQ(NrEntries(), 0u);
}

TEST_F(Rundir, AdoptNamesTheLiveOwner)
{
    zinf_rundir owner = Create(), r;
    ASSERT_EQ(zinf_rundir_adopt(owner.path, &r, &st), -EBUSY);
    char host[65] = "";
    gethostname(host, sizeof(host) - 1);
    EXPECT_NE(std::string(st.text).find("process " + std::to_string(getpid()) + " on " + host), std::string::npos) << st.text;
    EXPECT_NE(std::string(st.text).find(owner.path), std::string::npos) << st.text;
    EXPECT_EQ(r.lock_fd, -1);
    EXPECT_EQ(zinf_rundir_close(&r, true, &st), 0);
    EXPECT_TRUE(fs::exists(owner.path));
    zinf_rundir_close(&owner, true, &st);
}

TEST_F(Rundir, AdoptFinishesAHalfDeletion)
{
    std::string path = Dead(true);
    zinf_rundir r;
    ASSERT_EQ(zinf_rundir_adopt(path.c_str(), &r, &st), 0) << st.text;
    EXPECT_EQ(zinf_rundir_close(&r, true, &st), 0) << st.text;
    EXPECT_EQ(NrEntries(), 0u);
}

TEST_F(Rundir, AdoptRefusesWhatIsNoRunFolder)
{
    zinf_rundir r;
    auto refused = [&](const std::string &path, int rc) {
        st = zinf_status{};
        EXPECT_EQ(zinf_rundir_adopt(path.c_str(), &r, &st), rc) << path;
        EXPECT_NE(std::string(st.text).find(path), std::string::npos) << st.text;
        EXPECT_EQ(r.lock_fd, -1);
    };
    refused(dir + "/zinf-" + Uuid(), -ENOENT);
    refused(dir, -EINVAL);
    std::string empty = dir + "/zinf-" + Uuid();
    fs::create_directory(empty);
    refused(empty, -EINVAL);                             /* without a lock file */
    fs::create_directory(empty + "/lock");
    refused(empty, -EISDIR);
    fs::remove(empty + "/lock");
    fs::create_symlink("/etc/hostname", empty + "/lock");
    refused(empty, -ELOOP);
    std::string file = dir + "/zinf-" + Uuid();
    Write(file, 1);
    refused(file, -ENOTDIR);
    EXPECT_EQ(zinf_rundir_adopt("/", &r, &st), -EINVAL);
}

}  // namespace
