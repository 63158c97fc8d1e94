/* tests/io/io_testing.cc - see io_testing.h. */
#include "tests/io/io_testing.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "io/uring_io.h"

namespace zinf_test {

TempDir::TempDir()
{
    static bool told = false;
    const char *root = getenv("TEST_TMPDIR");
    std::string name = std::string(root ? root : "/tmp") + "/zinf-io-XXXXXX";

    if (!mkdtemp(&name[0])) {
        perror(name.c_str());
        abort();
    }
    path_ = name;
    if (!told) {
        zinf_io_dir_info info;
        zinf_status st = {};

        if (zinf_io_probe_dir(path_.c_str(), &info, &st) == 0)
            printf("test folder: %s, %s\n", info.fs_name, info.why);
        told = true;
    }
}

TempDir::~TempDir()
{
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

LogLines::LogLines()
{
    log_.level = ZINF_LOG_DEBUG;
    log_.ctx = this;
    log_.write = [](void *ctx, zinf_log_level, const char *line) {
        static_cast<LogLines *>(ctx)->lines.emplace_back(line);
    };
}

size_t LogLines::Count(const std::string &part) const
{
    size_t n = 0;
    for (const std::string &l : lines)
        n += l.find(part) != std::string::npos;
    return n;
}

static const size_t kGuard = 64;

Buffer::Buffer(size_t nbytes, size_t shift) : base_(nullptr), nbytes_(nbytes), shift_(shift)
{
    if (posix_memalign(reinterpret_cast<void **>(&base_), 65536, nbytes + shift + kGuard) != 0)
        abort();
    memset(base_, 0xcc, nbytes + shift + kGuard);
}

Buffer::~Buffer() { free(base_); }

void Buffer::FillRandom(uint64_t seed)
{
    std::mt19937_64 rng(seed);
    for (size_t i = 0; i < nbytes_; i += 8) {
        uint64_t r = rng();
        memcpy(data() + i, &r, std::min<size_t>(8, nbytes_ - i));
    }
}

void Buffer::Fill(unsigned char c) { memset(data(), c, nbytes_); }

bool Buffer::GuardsIntact() const
{
    for (size_t i = 0; i < shift_; i++)
        if (base_[i] != 0xcc)
            return false;
    for (size_t i = 0; i < kGuard; i++)
        if (base_[shift_ + nbytes_ + i] != 0xcc)
            return false;
    return true;
}

std::vector<std::string> BackendNames() { return {"io_uring", "io_uring_plain", "threads", "mem", "fault"}; }

const zinf_io_ops *FindOps(const std::string &backend)
{
    return zinf_io_ops_find(backend == "io_uring_plain" ? "io_uring" : backend.c_str());
}

const void *BackendArg(const std::string &backend)
{
    static const zinf_io_fault_script empty = {};
    static const zinf_io_uring_opts plain = {true};

    return backend == "fault" ? static_cast<const void *>(&empty) : backend == "io_uring_plain" ? &plain : nullptr;
}

zinf_io_queue_opts Options(const std::string &backend, uint32_t depth, size_t request_nbytes)
{
    zinf_io_queue_opts opts = {};

    opts.ops = FindOps(backend);
    opts.depth = depth;
    opts.request_nbytes = request_nbytes;
    opts.event_fd = -1;
    opts.backend_arg = BackendArg(backend);
    return opts;
}

zinf_io_queue_opts Options(const zinf_io_fault_script *script, uint32_t depth, size_t request_nbytes)
{
    zinf_io_queue_opts opts = Options("fault", depth, request_nbytes);
    opts.backend_arg = script;
    return opts;
}

std::string Refusal(const std::string &backend)
{
    if (!FindOps(backend))
        return backend + " is not compiled in";
    Opened o(Options(backend));
    return o.rc ? o.st.text : "";
}

int InChild(const std::function<int()> &fn)
{
    int status = 0;
    pid_t pid;

    fflush(nullptr);
    pid = fork();
    if (pid == 0) {
        int rc = fn();
        fflush(nullptr);
        _exit(rc);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

size_t OpenDescriptors()
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

}  // namespace zinf_test
