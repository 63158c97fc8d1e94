/* tests/checkpoint/portable_case.h - made-up models whose every value follows from (generation, tensor, element), saved in
 * segments cut at random by several threads, and compared whole. */
#ifndef ZINF_TESTS_CHECKPOINT_PORTABLE_CASE_H_
#define ZINF_TESTS_CHECKPOINT_PORTABLE_CASE_H_

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/checkpoint/portable.h"
#include "zinf/config/json.h"
#include "zinf/zinf.h"

struct PortableCase {
    struct Segment { uint32_t param, kind; uint64_t first, n; };

    explicit PortableCase(uint32_t seed, uint64_t big = 40000, uint32_t nr_kinds = 3) : nr_kinds(nr_kinds), rng(seed)
    {
        const std::vector<std::vector<uint64_t>> shapes = { { 3, 5 }, { 0 }, { 1 }, {}, { big }, { 2, 0, 4 }, { 7, 1, 3, 2 } };
        for (size_t i = 0; i < shapes.size(); i++)
            names.push_back("layer." + std::to_string(i) + ".weight \"q\"");
        for (size_t i = 0; i < shapes.size(); i++) {
            zinf_param p = {};
            p.name = names[i].c_str();
            p.nr_dims = (uint32_t)shapes[i].size();
            std::copy(shapes[i].begin(), shapes[i].end(), p.dims);
            params.push_back(p);
        }
        for (const auto &p : params)
            pointers.push_back(&p);
    }

    uint64_t elems(uint32_t param) const { return zinf_param_elems(&params[param]); }
    static float value(int64_t generation, uint32_t param, uint32_t kind, uint64_t i)
    {
        uint32_t x = (uint32_t)(generation * 0x9e3779b9u + param * 0x85ebca6bu + kind * 0xc2b2ae35u + i * 0x27d4eb2fu);
        x ^= x >> 15;
        return (float)(int32_t)(x * 0x2c1b3c6du) / 65536.0f;
    }
    std::vector<float> values(int64_t generation, uint32_t param, uint32_t kind, uint64_t first, uint64_t n) const
    {
        std::vector<float> v(n);
        for (uint64_t i = 0; i < n; i++)
            v[i] = value(generation, param, kind, first + i);
        return v;
    }

    std::vector<Segment> cut()
    {
        std::vector<Segment> out;
        for (uint32_t k = 0; k < nr_kinds; k++)
            for (uint32_t p = 0; p < params.size(); p++)
                for (uint64_t at = 0, n; at < elems(p); at += n) {
                    n = std::min<uint64_t>(elems(p) - at, 1 + rng() % (elems(p) > 100 ? elems(p) / 5 : 8));
                    out.push_back({ p, k, at, n });
                }
        std::shuffle(out.begin(), out.end(), rng);
        return out;
    }

    zinf_portable_opts opts(const char *parent, const char *name, uint32_t nr_segments) const
    {
        zinf_portable_opts o = {};
        o.parent = parent;
        o.name = name;
        o.params = pointers.data();
        o.nr_params = (uint32_t)pointers.size();
        o.nr_kinds = nr_kinds;
        o.nr_segments = nr_segments;
        return o;
    }

    /* One segment in up to three calls. */
    int write(zinf_portable_writer *w, uint32_t index, const Segment &s, int64_t generation, zinf_status *st) const
    {
        std::vector<float> v = values(generation, s.param, s.kind, s.first, s.n);
        int rc = 0;
        for (uint64_t at = 0, n; !rc && at < s.n; at += n) {
            n = std::min<uint64_t>(s.n - at, s.n / 3 + 1);
            rc = zinf_portable_write(w, index, s.param, (zinf_portable_kind)s.kind, s.first + at, v.data() + at, n, st);
        }
        return rc;
    }
    int write_all(zinf_portable_writer *w, const std::vector<Segment> &segments, int64_t generation, uint32_t nr_threads,
                  zinf_status *st) const
    {
        std::vector<std::thread> threads;
        std::vector<int> rcs(nr_threads, 0);
        std::vector<zinf_status> sts(nr_threads);
        auto work = [&](uint32_t t) {
            for (uint32_t i = t; i < segments.size() && !rcs[t]; i += nr_threads)
                rcs[t] = write(w, i, segments[i], generation, &sts[t]);
        };
        for (uint32_t t = 1; t < nr_threads; t++)
            threads.emplace_back(work, t);
        work(0);
        for (auto &t : threads)
            t.join();
        for (uint32_t t = 0; t < nr_threads; t++)
            if (rcs[t]) {
                *st = sts[t];
                return rcs[t];
            }
        return 0;
    }
    int save(const std::string &parent, const std::string &name, int64_t generation, zinf_status *st, uint32_t nr_threads = 1)
    {
        std::vector<Segment> segments = cut();
        zinf_portable_opts o = opts(parent.c_str(), name.c_str(), (uint32_t)segments.size());
        zinf_portable_writer *w = nullptr;
        int rc = zinf_portable_open(&o, &w, st);
        if (!rc)
            rc = write_all(w, segments, generation, nr_threads, st);
        if (!rc)
            rc = zinf_portable_finish(w, ("{\"step\":" + std::to_string(generation) + "}").c_str(), st);
        zinf_portable_close(w);
        return rc;
    }

    /* The generation the checkpoint at path says it is, all of its values checked; negative: -errno of load. */
    int64_t load(const std::string &path, zinf_status *st) const
    {
        zinf_portable *p = nullptr;
        uint32_t kinds = 0;
        int rc = zinf_portable_load(path.c_str(), &p, st);
        if (rc)
            return rc;
        int64_t generation = zinf_json_get(zinf_portable_meta(p), "step")->integer;
        EXPECT_EQ(0, zinf_portable_match(p, pointers.data(), (uint32_t)pointers.size(), &kinds, st)) << st->text;
        EXPECT_EQ(nr_kinds, kinds);
        for (uint32_t k = 0; k < nr_kinds; k++)
            for (uint32_t i = 0; i < params.size(); i++) {
                std::vector<float> want = values(generation, i, k, 0, elems(i)), got(elems(i) + 1, -1.0f);
                EXPECT_EQ(0, zinf_portable_read(p, names[i].c_str(), (zinf_portable_kind)k, 0, got.data(), elems(i), st))
                    << st->text;
                EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin())) << names[i] << " kind " << k;
            }
        zinf_portable_unload(p);
        return generation;
    }

    static std::vector<std::string> list(const std::string &parent, bool sweep)
    {
        std::vector<std::string> out;
        char **list = nullptr;
        uint32_t nr = 0;
        zinf_status st = {};
        EXPECT_EQ(0, zinf_portable_list(parent.c_str(), sweep, &list, &nr, &st)) << st.text;
        for (uint32_t i = 0; i < nr; i++) {
            out.push_back(list[i]);
            free(list[i]);
        }
        free(list);
        return out;
    }

    uint32_t nr_kinds;
    std::mt19937 rng;
    std::vector<std::string> names;
    std::vector<zinf_param> params;
    std::vector<const zinf_param *> pointers;
};

#endif /* ZINF_TESTS_CHECKPOINT_PORTABLE_CASE_H_ */
