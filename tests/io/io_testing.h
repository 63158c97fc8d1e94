/* tests/io/io_testing.h - what the io suites share: folders on a real file system, the backends, a log to read. */
#ifndef ZINF_TESTS_IO_IO_TESTING_H_
#define ZINF_TESTS_IO_IO_TESTING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/backend.h"
#include "io/fault_io.h"
#include "io/file.h"
#include "io/queue.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZINF_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ZINF_TEST_SANITIZED 1
#endif
#endif
#ifndef ZINF_TEST_SANITIZED
#define ZINF_TEST_SANITIZED 0
#endif

namespace zinf_test {

/* A new folder under TEST_TMPDIR (or /tmp), removed with all in it. Prints its file system once per process: tmpfs
 * takes any alignment, so a run there proves less. */
class TempDir {
public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir &) = delete;
    TempDir &operator=(const TempDir &) = delete;
    const std::string &path() const { return path_; }
    std::string file(const std::string &name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

class LogLines {
public:
    LogLines();
    const struct zinf_log *log() const { return &log_; }
    std::vector<std::string> lines;
    size_t Count(const std::string &part) const;

private:
    struct zinf_log log_;
};

/* Memory aligned to 64 KiB with guard bytes behind; data(8) is 8 past an aligned address. */
class Buffer {
public:
    explicit Buffer(size_t nbytes, size_t shift = 0);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    unsigned char *data() { return base_ + shift_; }
    size_t size() const { return nbytes_; }
    void FillRandom(uint64_t seed);
    void Fill(unsigned char c);
    bool GuardsIntact() const;

private:
    unsigned char *base_;
    size_t nbytes_, shift_;
};

/* Every backend by itself, "io_uring_plain" as kernels before 6.1 run it, and fault with an empty script over
 * threads. */
std::vector<std::string> BackendNames();
/* The table behind such a name; NULL when it is not compiled in. */
const zinf_io_ops *FindOps(const std::string &backend);
const void *BackendArg(const std::string &backend);
/* What makes the named backend refuse here, or "" when it opens. */
std::string Refusal(const std::string &backend);

/* Opens a queue on the named backend ("fault" = an empty script). */
struct Opened {
    zinf_io_queue *q = nullptr;
    zinf_status st = {};
    int rc = 0;
    Opened() = default;
    explicit Opened(const zinf_io_queue_opts &opts) { rc = zinf_io_queue_open(&opts, &q, &st); }
    ~Opened() { zinf_io_queue_close(q); }
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;
};
zinf_io_queue_opts Options(const std::string &backend, uint32_t depth = 0, size_t request_nbytes = 0);
zinf_io_queue_opts Options(const zinf_io_fault_script *script, uint32_t depth = 0, size_t request_nbytes = 0);

struct File {
    zinf_file f = {};
    zinf_status st = {};
    int rc;
    File(const std::string &path, zinf_file_mode mode, bool want_direct = true)
    {
        rc = zinf_file_open(path.c_str(), mode, want_direct, &f, &st);
    }
    ~File() { zinf_file_close(&f); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
};

/* fn in a child process; its result is the exit status (0 = as expected), 77 = skipped. -1 when it was killed. */
int InChild(const std::function<int()> &fn);
size_t OpenDescriptors();

}  // namespace zinf_test
#endif  // ZINF_TESTS_IO_IO_TESTING_H_
