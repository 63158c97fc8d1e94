/* tests/cli/cli_run.h - runs a program as a user does: its words, its two outputs, its exit code; and a folder to do it in. */
#ifndef ZINF_TESTS_CLI_CLI_RUN_H_
#define ZINF_TESTS_CLI_CLI_RUN_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "zinf/config/json.h"

namespace zinf_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

using Words = std::vector<std::string>;

/* A file of this repository, absolute; the program itself. */
std::string Repo(const std::string &path);
std::string Zinf();

struct Outcome {
    int code = -1;              /* exit code; -1 = ended by a signal */
    int signal = 0;
    std::string out, err;
};

struct How {
    std::string dir;                            /* working folder; "" = this process's */
    std::map<std::string, std::string> env;     /* besides this process's without ZINF_* */
    std::function<bool()> prepare;              /* in the child, before the program; false = not possible here */
};
constexpr int kNotPossible = 99;                /* exit code when prepare said so */

/* A program that is running. Its outputs go to files. */
class Process {
public:
    Process(const Words &argv, const How &how);
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    /* Waits until standard output holds text. False when the program ended before it did. */
    bool WaitForOutput(const std::string &text);
    void Kill(int sig);
    Outcome Wait();
    /* After Wait: whether the program left processes of its own behind (they become this process's children). */
    bool LeftChildren();

private:
    bool Ended();
    pid_t pid_ = -1;
    bool ended_ = false;
    int status_ = 0;
    std::string out_, err_;
};

Outcome Exec(const Words &argv, const How &how = {});

std::string ReadFile(const std::string &path);
void WriteFile(const std::string &path, const std::string &bytes);
bool Exists(const std::string &path);
std::set<std::string> Names(const std::string &folder);
/* Every file below folder with its bytes: two snapshots are equal when nothing was touched. */
std::map<std::string, std::string> Snapshot(const std::string &folder);
std::vector<std::string> Lines(const std::string &text);

/* A JSON text, read by our own reader; fails the test when it is none. */
class Json {
public:
    explicit Json(const std::string &text);
    ~Json();
    Json(const Json &) = delete;
    Json &operator=(const Json &) = delete;
    const zinf_json *Find(const std::string &path) const;     /* "lanes.compute.busy_s"; NULL = absent */
    bool Has(const std::string &path) const { return Find(path); }
    double Number(const std::string &path) const;
    std::string String(const std::string &path) const;
    bool Bool(const std::string &path) const;

private:
    zinf_json_doc doc_ = {};
};

/* Before the program runs (How::prepare). Each returns false where the system does not let it. */
bool DenyIoUring();             /* io_uring_setup fails with EPERM, as in many containers */
bool ObeyPermissions();         /* root obeys the permission bits of its own files too */

/* More steps than any test waits for. */
constexpr int kForever = 100000000;

bool Holds(const std::string &text, const std::string &piece);

/* A folder with text, a drive and place for runs. */
class CliTest : public ::testing::Test {
protected:
    CliTest();
    ~CliTest() override;

    std::string path(const std::string &name) const { return dir_ + "/" + name; }
    std::string run_dir(const std::string &run) const { return path(run); }
    /* zinf train with the tiny model, from NVMe, `steps` steps into path(out); more words after. */
    Words Train(const std::string &out, int steps, const Words &more = {}) const;
    static Words Offload(const std::string &device);
    std::string Weights(const std::string &run) const { return ReadFile(path(run) + "/model/model.safetensors"); }
    /* zinf train --resume in path(run). */
    Words Resume(const std::string &run, const Words &more = {}) const;
    /* Runs to a good end that has nothing to say on stderr. */
    static Outcome Pass(const Words &words, const How &how = {});
    /* Starts, waits for the line of `step`, sends sig, waits for the end. */
    static Outcome StopAfter(int step, int sig, const Words &words, const How &how = {});
    /* Of the log's lines: the number that the last one of an event says under a key. */
    double LastOf(const std::string &run, const std::string &event, const std::string &key) const;
    int LastStep(const std::string &run) const { return static_cast<int>(LastOf(run, "step", "step")); }
    /* The only run folder on the drive that run.json names. */
    std::string StateDir(const std::string &run) const;
    /* The weights that a run of so many steps ends with that nothing interrupts. */
    std::string WeightsAfter(int steps, const Words &more = {}) const;
    /* Files of a folder with their bytes, without locks: who held one last is written into it. */
    static std::map<std::string, std::string> Stored(const std::string &folder);
    /* The smallest budget zinf says it can do with: what = "device" or "host". */
    uint64_t Minimum(const std::string &what) const;
    /* Exactly one line on stderr, "zinf: ...", that holds every given piece; nothing was trained. */
    static void ExpectRefusal(const Outcome &o, int code, const Words &pieces);

    std::string dir_, drive_;
};

} /* namespace zinf_test */

#endif /* ZINF_TESTS_CLI_CLI_RUN_H_ */
