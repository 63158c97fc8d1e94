/* tests/cli/cli_run.cc - see cli_run.h. */
#include "tests/cli/cli_run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace fs = std::filesystem;

namespace zinf_test {

namespace {

const std::string kStart = fs::current_path().string();     /* the root of the repository's files in a test */

std::string MakeTemp(const std::string &name)
{
    const char *base = getenv("TEST_TMPDIR");
    std::string pattern = std::string(base ? base : "/tmp") + "/" + name + "-XXXXXX";

    EXPECT_NE(nullptr, mkdtemp(&pattern[0])) << strerror(errno);
    return pattern;
}

const std::string &OutputFolder()
{
    static const struct Folder {
        std::string path = MakeTemp("output");
        ~Folder() { fs::remove_all(path); }
    } folder;
    return folder.path;
}

[[noreturn]] void Child(const Words &argv, const How &how, const std::string &out, const std::string &err)
{
    std::vector<char *> words;
    int o = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), e = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int null = open("/dev/null", O_RDONLY);

    if (o < 0 || e < 0 || null < 0 || dup2(null, 0) < 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0)
        _exit(98);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const char *name : {"ZINF_ISA", "ZINF_LOG"})
        unsetenv(name);
    for (const auto &[name, value] : how.env)
        setenv(name.c_str(), value.c_str(), 1);
    if (how.prepare && !how.prepare())
        _exit(kNotPossible);
    if (!how.dir.empty() && chdir(how.dir.c_str()))
        _exit(98);
    for (const auto &w : argv)
        words.push_back(const_cast<char *>(w.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    dprintf(2, "%s: %s\n", words[0], strerror(errno));
    _exit(98);
}

} /* namespace */

std::string Repo(const std::string &path) { return kStart + "/" + path; }
std::string Zinf() { return Repo("zinf/cli/zinf"); }

Process::Process(const Words &argv, const How &how)
{
    static std::atomic<int> count{0};
    std::string base = OutputFolder() + "/" + std::to_string(count++);

    out_ = base + ".out";
    err_ = base + ".err";
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_ = fork();
    EXPECT_GE(pid_, 0) << strerror(errno);
    if (pid_ == 0)
        Child(argv, how, out_, err_);
}

Process::~Process()
{
    if (pid_ > 0 && !ended_) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

bool Process::Ended()
{
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_)
        ended_ = true;
    return ended_;
}

bool Process::WaitForOutput(const std::string &text)
{
    for (;;) {
        bool ended = Ended();       /* before reading: what it wrote last counts */

        if (Exists(out_) && ReadFile(out_).find(text) != std::string::npos)
            return true;
        if (ended)
            return false;
        usleep(2000);
    }
}

void Process::Kill(int sig) { EXPECT_EQ(0, kill(pid_, sig)) << strerror(errno); }

Outcome Process::Wait()
{
    Outcome o;

    if (!ended_) {
        EXPECT_EQ(pid_, waitpid(pid_, &status_, 0)) << strerror(errno);
    }
    ended_ = true;
    o.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    o.signal = WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
    o.out = ReadFile(out_);
    o.err = ReadFile(err_);
    return o;
}

bool Process::LeftChildren() { return !(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD); }

Outcome Exec(const Words &argv, const How &how) { return Process(argv, how).Wait(); }

std::string ReadFile(const std::string &path)
{
    std::ifstream f(path, std::ios::binary);

    EXPECT_TRUE(f.good()) << path;
    return std::string(std::istreambuf_iterator<char>(f), {});
}

void WriteFile(const std::string &path, const std::string &bytes)
{
    std::ofstream f(path, std::ios::binary);

    f << bytes;
    f.close();
    ASSERT_TRUE(f.good()) << path;
}

bool Exists(const std::string &path)
{
    struct stat s;

    return lstat(path.c_str(), &s) == 0;
}

std::set<std::string> Names(const std::string &folder)
{
    std::set<std::string> names;

    for (const auto &e : fs::directory_iterator(folder))
        names.insert(e.path().filename().string());
    return names;
}

std::map<std::string, std::string> Snapshot(const std::string &folder)
{
    std::map<std::string, std::string> files;

    for (const auto &e : fs::recursive_directory_iterator(folder))
        files[e.path().string()] = e.is_regular_file() ? ReadFile(e.path().string()) : "(folder)";
    return files;
}

std::vector<std::string> Lines(const std::string &text)
{
    std::vector<std::string> lines;
    std::istringstream in(text);

    for (std::string l; std::getline(in, l);)
        lines.push_back(l);
    return lines;
}

Json::Json(const std::string &text)
{
    zinf_status st = {};

    EXPECT_EQ(0, zinf_json_parse(text.data(), text.size(), "output", false, &doc_, &st)) << st.text << "\n" << text;
}

Json::~Json() { zinf_json_free(&doc_); }

const zinf_json *Json::Find(const std::string &path) const
{
    const zinf_json *v = doc_.root;
    std::istringstream in(path);

    for (std::string key; v && std::getline(in, key, '.');)
        v = v->type == ZINF_JSON_ARRAY ? (std::stoul(key) < v->nr_items ? &v->items[std::stoul(key)] : nullptr)
                                       : zinf_json_get(v, key.c_str());
    return v;
}

double Json::Number(const std::string &path) const
{
    const zinf_json *v = Find(path);

    EXPECT_TRUE(v && v->type == ZINF_JSON_NUMBER) << path;
    return v && v->type == ZINF_JSON_NUMBER ? v->number : -1;
}

std::string Json::String(const std::string &path) const
{
    const zinf_json *v = Find(path);

    EXPECT_TRUE(v && v->type == ZINF_JSON_STRING) << path;
    return v && v->type == ZINF_JSON_STRING ? v->string : "";
}

bool Json::Bool(const std::string &path) const
{
    const zinf_json *v = Find(path);

    EXPECT_TRUE(v && v->type == ZINF_JSON_BOOL) << path;
    return v && v->type == ZINF_JSON_BOOL && v->boolean;
}

bool Holds(const std::string &text, const std::string &piece) { return text.find(piece) != std::string::npos; }

bool DenyIoUring()
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

bool ObeyPermissions()
{
    /* Out of the bounding set, the program that is executed next does not get them. */
    return geteuid() != 0 || (!prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) &&
                              !prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0));
}

CliTest::CliTest() : dir_(MakeTemp("cli")), drive_(dir_ + "/drive")
{
    static const char *const words[] = {"the ", "king ", "of ", "tiers ", "moves ", "shards ", "by ", "night. "};
    std::string text;

    /* Text with structure to learn, always the same. */
    for (uint32_t x = 12345; text.size() < 20000; x = x * 1664525u + 1013904223u)
        text += words[x >> 29];
    WriteFile(path("text.txt"), text);
    EXPECT_EQ(0, mkdir(drive_.c_str(), 0700));
}

CliTest::~CliTest()
{
    std::error_code ignored;

    fs::remove_all(dir_, ignored);
}

Words CliTest::Train(const std::string &out, int steps, const Words &more) const
{
    Words words = {Zinf(), "train", "--config", Repo("examples/configs/byte-llama-nvme.json"), "--model",
                   Repo("examples/models/byte-llama-tiny.json"), "--data", path("text.txt"), "--seq-len", "32", "--steps",
                   std::to_string(steps), "--out", path(out), "--set", "zinf.nvme_paths=[\"" + drive_ + "\"]"};

    words.insert(words.end(), more.begin(), more.end());
    return words;
}

Words CliTest::Offload(const std::string &device)
{
    return {"--set", "zero_optimization.offload_optimizer.device=" + device, "--set",
            "zero_optimization.offload_param.device=" + device};
}

Words CliTest::Resume(const std::string &run, const Words &more) const
{
    Words words = {Zinf(), "train", "--resume", "--out", path(run)};

    words.insert(words.end(), more.begin(), more.end());
    return words;
}

Outcome CliTest::Pass(const Words &words, const How &how)
{
    Outcome o = Exec(words, how);

    EXPECT_EQ(0, o.code) << o.err << o.out;
    EXPECT_EQ("", o.err);
    return o;
}

Outcome CliTest::StopAfter(int step, int sig, const Words &words, const How &how)
{
    Process p(words, how);

    if (!p.WaitForOutput("\nstep " + std::to_string(step) + "/")) {
        Outcome o = p.Wait();
        ADD_FAILURE() << "it ended before step " << step << ": " << o.err;
        return o;
    }
    p.Kill(sig);
    Outcome o = p.Wait();
    EXPECT_FALSE(p.LeftChildren());
    return o;
}

double CliTest::LastOf(const std::string &run, const std::string &event, const std::string &key) const
{
    std::vector<std::string> lines = Lines(ReadFile(path(run) + "/log.jsonl"));

    for (size_t i = lines.size(); i-- > 0;) {
        if (lines[i].rfind("{\"event\":\"" + event + "\"", 0) != 0)
            continue;
        return Json(lines[i]).Number(key);
    }
    ADD_FAILURE() << "no " << event << " in the log of " << run;
    return -1;
}

std::string CliTest::StateDir(const std::string &run) const
{
    Json file(ReadFile(path(run) + "/run.json"));

    EXPECT_FALSE(file.Has("content.state_dirs.1"));
    return file.String("content.state_dirs.0");
}

std::string CliTest::WeightsAfter(int steps, const Words &more) const
{
    Words words = Offload("cpu");

    words.insert(words.end(), {"--set", "zinf.host_memory=64MiB", "--overwrite"});
    words.insert(words.end(), more.begin(), more.end());
    Pass(Train("whole", steps, words));
    return Weights("whole");
}

std::map<std::string, std::string> CliTest::Stored(const std::string &folder)
{
    std::map<std::string, std::string> files = Snapshot(folder);

    for (auto f = files.begin(); f != files.end();)
        f = fs::path(f->first).filename() == "lock" ? files.erase(f) : std::next(f);
    return files;
}

uint64_t CliTest::Minimum(const std::string &what) const
{
    Outcome o = Exec(Train("refused", 1, {"--set", "zinf." + what + "_memory=4096"}));
    size_t at = o.err.find("minimum ");

    EXPECT_EQ(2, o.code) << o.err;
    EXPECT_NE(std::string::npos, at) << o.err;
    return at == std::string::npos ? 0 : std::stoull(o.err.substr(at + strlen("minimum ")));
}

void CliTest::ExpectRefusal(const Outcome &o, int code, const Words &pieces)
{
    std::vector<std::string> lines = Lines(o.err);

    EXPECT_EQ(code, o.code) << o.err;
    EXPECT_EQ(1u, lines.size()) << o.err;
    EXPECT_EQ(0u, o.err.rfind("zinf: ", 0)) << o.err;
    EXPECT_EQ('\n', o.err.empty() ? 0 : o.err.back());
    for (const auto &p : pieces)
        EXPECT_NE(std::string::npos, o.err.find(p)) << "\"" << p << "\" is not in: " << o.err;
    EXPECT_EQ(std::string::npos, o.out.find("step 1")) << o.out;
}

} /* namespace zinf_test */
