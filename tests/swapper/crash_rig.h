/* tests/swapper/crash_rig.h - a log of what went to the drives, cut anywhere, with any of the unsynced writes lost or torn.
 *
 * A write may be on the drive from when it is taken, in any part, alone or with others, and is there for certain once a sync
 * of its file is done that began after it. */
#ifndef ZINF_TESTS_SWAPPER_CRASH_RIG_H_
#define ZINF_TESTS_SWAPPER_CRASH_RIG_H_

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "io/fault_io.h"
#include "swapper/record.h"
#include "swapper/schedule.h"
#include "swapper/store.h"
#include "tests/swapper/store_rig.h"
#include "zinf/base/crc32c.h"

namespace zinf_test {

using Data = std::vector<unsigned char>;
namespace fs = std::filesystem;

constexpr uint32_t kPayload = 1800;          /* a record of several sectors */
constexpr size_t kSector = 512;
inline const char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";

inline Data Payload(uint64_t generation) { return Bytes(kPayload, 7000 + (uint32_t)generation); }
inline uint32_t Salt(uint32_t applied) { return applied * 50; }

struct Event {
    enum Kind { kTaken, kDone, kSyncTaken, kSyncDone } kind;
    uint64_t id;
    size_t file;
    uint64_t off;
    Data data;                               /* of a write, in its kTaken */
};

struct Trace {
    std::vector<std::string> names;          /* files: relative to the folder of all drives; the last is the record */
    std::vector<Data> files;                 /* what the drives hold for certain when it begins */
    std::vector<Event> events;
    std::map<int64_t, uint32_t> applied;     /* generation -> updates in its state */
    int64_t committed = -1;                  /* when it begins */
    uint64_t slot_nbytes = 0;
};

inline uint64_t GenerationOf(const Data &record)
{
    uint64_t g = 0;
    memcpy(&g, record.data() + 24, 8);
    return g;
}

inline Data ReadFile(const std::string &path)
{
    std::ifstream f(path, std::ios::binary);
    return Data(std::istreambuf_iterator<char>(f), {});
}

inline void WriteFile(const std::string &path, const Data &data)
{
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary).write((const char *)data.data(), (std::streamsize)data.size());
}

struct Config {
    Spec spec;
    uint32_t nr_dirs = 1;
    const char *backend = "mem";
    uint64_t reorder = 0;
    bool power = true;
};

/* What the steps of a run do to the store, with made-up contents. */
class Session {
public:
    Session(const zinf_sched_plan *plan, const Config &config) : plan(plan), rig(plan, {config.backend, false}, config.nr_dirs), config_(config)
    {
        rig.UseFaults();
        rig.log.keep_data = true;
        rig.script.reorder_seed = config.reorder;
        rig.opts.durable = true, rig.opts.checksum = true, rig.opts.power = config.power;
        rig.opts.uuid = kUuid, rig.opts.world = 1, rig.opts.fingerprint = "made up", rig.opts.payload_nbytes = kPayload;
        rig.opts.direct = false;
        now_.work = [this](const zinf_schedule *s, uint32_t op) { Work(s, op); };
    }
    /* A new store with record 0, or that of `from` in the folders of the rig. */
    void Start(const zinf_record *from = nullptr, uint32_t state_of = 0)
    {
        rig.opts.resume = from;
        ASSERT_EQ(rig.Open(), 0) << rig.Text();
        for (zinf_lane l : {ZINF_LANE_H2D, ZINF_LANE_D2H, ZINF_LANE_COMM, ZINF_LANE_COMPUTE, ZINF_LANE_CPU})
            rig.lanes[l] = now_.Lane();
        trace.committed = from ? (int64_t)from->generation : -1;
        applied_ = state_of, iteration_ = from ? from->generation : 0;
        trace.applied[(int64_t)iteration_] = applied_;
        FindFiles();
        if (from) {
            for (uint32_t g = 0; g < plan->nr_grains; g++) {
                Data w(rig.WeightBytes(g)), s(rig.StateBytes(g));
                ASSERT_EQ(zinf_store_restore_grain(rig.store, g, w.data(), s.data(), &rig.st), 0) << rig.Text();
            }
            return;
        }
        PutAll(rig, Salt(0));
        ASSERT_EQ(zinf_store_commit(rig.store, 0, Payload(0).data(), &rig.st), 0) << rig.Text();
    }
    /* One schedule of the engine. */
    void Step(zinf_sched_kind kind, bool commits)
    {
        uint32_t flags = (commits ? ZINF_SCHED_COMMITS : 0) | (dirty_ ? ZINF_SCHED_DIRTY : 0);
        zinf_schedule *s = nullptr;
        ASSERT_EQ(zinf_schedule_build(plan, kind, flags, &s, &rig.st), 0) << rig.Text();
        bool updates = kind == ZINF_SCHED_STEADY || kind == ZINF_SCHED_FLUSH;
        applied_ += updates;
        iteration_ += updates || kind == ZINF_SCHED_SKIP || kind == ZINF_SCHED_FLUSH_SKIP;
        read_role_ = dirty_ ? ZINF_ROLE_ALTERNATE : ZINF_ROLE_CURRENT;
        if (s->flags & ZINF_SCHED_COMMITS) {
            trace.applied[(int64_t)iteration_] = applied_;
            zinf_store_next_record(rig.store, iteration_, Payload(iteration_).data());
        }
        if (spoil)
            spoil(s);
        int rc = zinf_mover_run(rig.mover, s, nullptr, nullptr, &rig.st);
        EXPECT_EQ(rc, 0) << rig.Text();
        zinf_store_seam(rig.store, s);
        dirty_ = zinf_sched_leaves_dirty(kind, s->flags);
        zinf_schedule_free(s);
        for (uint32_t g = 0; !spoil && g < plan->nr_grains; g++)
            ExpectGrain(rig, g, Salt(applied_));
        struct zinf_store_info info;
        zinf_store_info(rig.store, &info);
        EXPECT_EQ(info.dirty, dirty_);
        EXPECT_EQ((int64_t)info.generation, trace.applied.rbegin()->first);
    }
    /* The log so far as a trace. */
    const Trace &Take()
    {
        std::map<int, size_t> files;
        for (const std::string &n : trace.names)
            files[fds_.at(n)] = files.size();
        trace.events.clear();
        for (size_t i = 0; i < rig.log.nr; i++) {
            const zinf_io_fault_entry &e = rig.log.entries[i];
            if (e.dir == ZINF_IO_READ)
                continue;
            bool sync = e.dir == ZINF_IO_SYNC, taken = e.event == ZINF_IO_FAULT_TAKEN;
            Event v{sync ? taken ? Event::kSyncTaken : Event::kSyncDone : taken ? Event::kTaken : Event::kDone,
                    e.id, files.at(e.fd), e.off_bytes, {}};
            if (!sync && taken)
                v.data.assign((unsigned char *)e.data, (unsigned char *)e.data + e.nbytes);
            trace.events.push_back(v);
        }
        return trace;
    }

    const zinf_sched_plan *plan;
    Rig rig;
    Trace trace;
    std::function<void(zinf_schedule *)> spoil;

private:
    void FindFiles()
    {
        for (const auto &e : fs::directory_iterator("/proc/self/fd")) {
            std::error_code ec;
            std::string to = fs::read_symlink(e.path(), ec).string(), root = fs::canonical(rig.temp.path).string() + "/";
            if (ec || to.compare(0, root.size(), root))
                continue;
            std::string name = to.substr(root.size());
            if (name.find("/state-") != std::string::npos || name.find("/record-") != std::string::npos)
                fds_[name] = std::stoi(e.path().filename());
        }
        for (const auto &[name, fd] : fds_)
            if (name.find("/state-") != std::string::npos)
                trace.names.push_back(name);
        trace.names.push_back("d0/record-0");
        ASSERT_EQ(fds_.size(), rig.dirs.size() + 1);
        for (const std::string &n : trace.names)
            trace.files.push_back(ReadFile(rig.temp.path + "/" + n));
        trace.slot_nbytes = trace.files.back().size() / 2;
    }
    void Work(const zinf_schedule *s, uint32_t op)
    {
        const zinf_op &o = s->ops[op];
        if (o.kind != ZINF_OP_UPDATE)
            return;
        const zinf_access *rd = s->accesses + o.rd;
        auto *state = (unsigned char *)zinf_store_addr(rig.store, rd[1].loc, rd[1].part);
        auto *weights = (unsigned char *)zinf_store_addr(rig.store, rd[2].loc, rd[2].part);
        const uint32_t *crc = zinf_store_crc(rig.store, o.grain, read_role_);
        ASSERT_NE(crc, nullptr);
        Fill(o.grain, applied_ - 1, weights, state, crc, nullptr);
        uint32_t fresh[ZINF_RECORD_PIECES] = {};
        Fill(o.grain, applied_, weights, state, nullptr, fresh);
        zinf_store_set_crc(rig.store, o.grain, ZINF_ROLE_ALTERNATE, fresh);
    }
    /* Compares with the state after `applied` updates (check) or makes it (crc). */
    void Fill(uint32_t g, uint32_t applied, unsigned char *weights, unsigned char *state, const uint32_t *check, uint32_t *crc)
    {
        Data w = Bytes(rig.WeightBytes(g), g + Salt(applied)), s = Bytes(rig.StateBytes(g), g + Salt(applied) + 1000);
        if (crc) {
            std::copy(w.begin(), w.end(), weights);
            std::copy(s.begin(), s.end(), state);
        }
        EXPECT_TRUE(std::equal(w.begin(), w.end(), weights)) << "grain " << g << " after " << applied;
        EXPECT_TRUE(std::equal(s.begin(), s.end(), state)) << "grain " << g << " after " << applied;
        for (uint32_t i = 0; i < ZINF_RECORD_PIECES; i++) {
            uint64_t off, nbytes;
            bool weight;
            uint32_t v = zinf_store_piece(plan, g, i, &off, &nbytes, &weight)
                             ? zinf_crc32c(0, (weight ? weights : state) + off, nbytes) : 0;
            if (crc)
                crc[i] = v;
            else
                EXPECT_EQ(check[i], v) << "grain " << g << " piece " << i;
        }
    }

    Config config_;
    Now now_;
    std::map<std::string, int> fds_;
    uint32_t applied_ = 0;
    uint64_t iteration_ = 0;
    bool dirty_ = false;
    zinf_role read_role_ = ZINF_ROLE_CURRENT;
};

/* Crashes a trace everywhere. */
class Explorer {
public:
    struct Report { size_t images = 0, violations = 0; std::string first; std::set<int64_t> found; };

    Explorer(const zinf_sched_plan *plan, const Trace &trace, uint32_t nr_dirs, uint32_t nr_random)
        : plan_(plan), t_(trace), disk_(trace.files), nr_random_(nr_random), rig_(plan, {"mem", false}, nr_dirs)
    {
        rig_.opts.durable = rig_.opts.checksum = true;
        rig_.opts.uuid = kUuid, rig_.opts.world = 1, rig_.opts.payload_nbytes = kPayload;
        rig_.opts.direct = false;
        rig_.opts.io.depth = 2;                  /* opened for every image: its buffers cost more than the recovery */
        for (size_t i = 0; i < disk_.size(); i++) {
            std::string path = rig_.temp.path + "/" + t_.names[i];
            WriteFile(path, disk_[i]);
            fds_.push_back(open(path.c_str(), O_RDWR | O_CLOEXEC));
            EXPECT_GE(fds_.back(), 0);
        }
        lower_ = upper_ = t_.committed;
    }
    ~Explorer()
    {
        for (int fd : fds_)
            close(fd);
    }
    Report Everywhere()
    {
        std::map<uint64_t, std::vector<const Event *>> covered;      /* sync -> what it makes certain */
        std::set<uint64_t> done;
        for (const Event &e : t_.events) {
            if (e.kind == Event::kTaken) {
                unsynced_.push_back(&e);
                if (e.file + 1 == disk_.size())
                    upper_ = std::max(upper_, (int64_t)GenerationOf(e.data));
                Subsets(true);
                Torn(e);
            } else if (e.kind == Event::kDone) {
                done.insert(e.id);
            } else if (e.kind == Event::kSyncTaken) {
                for (const Event *w : unsynced_)
                    if (w->file == e.file && done.count(w->id))
                        covered[e.id].push_back(w);
            } else {
                Settle(covered[e.id]);
                Subsets(false);
            }
        }
        return report_;
    }

private:
    void Settle(const std::vector<const Event *> &writes)
    {
        for (const Event *w : writes) {
            std::copy(w->data.begin(), w->data.end(), disk_[w->file].begin() + (long)w->off);
            Put(w->file, w->off, w->data.data(), w->data.size());
            unsynced_.erase(std::remove(unsynced_.begin(), unsynced_.end(), w), unsynced_.end());
            if (w->file + 1 == disk_.size())
                lower_ = std::max(lower_, (int64_t)GenerationOf(w->data));
        }
    }
    void Put(size_t file, uint64_t off, const unsigned char *data, size_t nbytes)
    {
        ASSERT_EQ(pwrite(fds_[file], data, nbytes, (off_t)off), (ssize_t)nbytes);
    }
    /* Those with the newest write; those without it were there before it. */
    void Subsets(bool newest)
    {
        size_t n = unsynced_.size() - newest;
        if (n <= 8) {
            for (uint32_t bits = 0; bits < 1u << n; bits++)
                Crash([&](size_t i) { return i >= n || bits >> i & 1; });
            return;
        }
        for (uint32_t k = 0; k < nr_random_; k++) {
            uint64_t bits = random_();
            Crash([&](size_t i) { return i >= n || bits >> i % 64 & 1; });
        }
    }
    void Crash(const std::function<bool(size_t)> &there)
    {
        for (size_t i = 0; i < unsynced_.size(); i++)
            if (there(i))
                Put(unsynced_[i]->file, unsynced_[i]->off, unsynced_[i]->data.data(), unsynced_[i]->data.size());
        Recover();
        Restore();
    }
    void Restore()
    {
        for (const Event *w : unsynced_)
            Put(w->file, w->off, disk_[w->file].data() + w->off, w->data.size());
    }
    /* The newest write in part: for a record every cut, from both ends and with single sectors; else some. Of the others any. */
    void Torn(const Event &e)
    {
        bool record = e.file + 1 == disk_.size();
        size_t nr = (e.data.size() + kSector - 1) / kSector;
        for (size_t k = 0; k < (record ? 3 * nr : 4); k++) {
            size_t at = record ? k / 3 : random_() % nr;
            uint64_t others = record && unsynced_.size() == 1 ? 0 : random_();
            for (size_t i = 0; i < unsynced_.size(); i++) {
                const Event *w = unsynced_[i];
                for (size_t s = 0; s * kSector < w->data.size(); s++) {
                    bool there = w != &e ? (others >> i % 32 & 1 ? others >> 32 >> s % 32 & 1 : others >> 31 & 1)
                                 : k % 3 == 0 ? s < at : k % 3 == 1 ? s >= at : s != at;
                    if (there)
                        Put(w->file, w->off + s * kSector, w->data.data() + s * kSector,
                            std::min(kSector, w->data.size() - s * kSector));
                }
            }
            Recover();
            Restore();
        }
    }
    void Recover()
    {
        std::string why = Wrong();
        report_.images++;
        if (!why.empty() && !report_.violations++)
            report_.first = why;
    }
    std::string Wrong()
    {
        zinf_record r;
        zinf_status st{};
        int rc = zinf_record_load(rig_.dirs[0].c_str(), 0, UINT64_MAX, &r, nullptr, &st);
        if (rc)
            return rc == -ENOENT && lower_ < 0 ? "" : st.text;
        std::string why;
        int64_t g = (int64_t)r.generation;
        report_.found.insert(g);
        if (g < lower_ || g > upper_ || !t_.applied.count(g))
            why = "found iteration " + std::to_string(g) + " and not " + std::to_string(lower_) + " or " + std::to_string(upper_);
        else if (r.payload_nbytes != kPayload || memcmp(r.payload, Payload((uint64_t)g).data(), kPayload))
            why = "the payload is not that of " + std::to_string(g);
        else
            why = WrongState(r, t_.applied.at(g));
        zinf_record_free(&r);
        return why;
    }
    std::string WrongState(const zinf_record &r, uint32_t applied)
    {
        std::string why;
        rig_.opts.resume = &r;
        rig_.st = zinf_status{};
        if (rig_.Reopen())
            return rig_.Text();
        for (uint32_t g = 0; why.empty() && g < plan_->nr_grains; g++) {
            Data w(rig_.WeightBytes(g)), s(rig_.StateBytes(g));
            if (zinf_store_get_grain(rig_.store, g, w.data(), s.data(), &rig_.st))
                why = rig_.Text();
            else if (w != Content(g, applied, false) || s != Content(g, applied, true))
                why = "grain " + std::to_string(g) + " is not that of " + std::to_string(r.generation);
        }
        return why;
    }
    const Data &Content(uint32_t g, uint32_t applied, bool state)
    {
        Data &d = contents_[{g, applied, state}];
        if (d.empty())
            d = Bytes(state ? rig_.StateBytes(g) : rig_.WeightBytes(g), g + Salt(applied) + (state ? 1000 : 0));
        return d;
    }

    const zinf_sched_plan *plan_;
    const Trace &t_;
    std::vector<Data> disk_;
    uint32_t nr_random_;
    Rig rig_;
    std::vector<int> fds_;
    std::vector<const Event *> unsynced_;
    int64_t lower_, upper_;
    std::mt19937_64 random_{20};
    std::map<std::tuple<uint32_t, uint32_t, bool>, Data> contents_;
    Report report_;
};

}  // namespace zinf_test

#endif  // ZINF_TESTS_SWAPPER_CRASH_RIG_H_
