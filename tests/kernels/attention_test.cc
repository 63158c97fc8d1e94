/* tests/kernels/attention_test.cc - attention against the double reference: odd lengths, groups, windows, head
 * sizes. */
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/reference.h"

namespace {

using namespace zinf_test;
using zinf_ref::Vec;
using Floats = std::vector<float>;

class Attention : public ::testing::TestWithParam<CpuConfig> {};

struct Case {
    zinf_ref::Attention a;
    double magnitude;      /* of q and k: 1 = flat, larger = peaked */
};

/* Rows of `width` values in rows of `stride`, NaN between them. */
Floats Spread(const Floats &dense, uint64_t width, uint64_t stride)
{
    Floats out = NaNs(dense.size() / width * stride);
    for (uint64_t i = 0; i < dense.size(); i++)
        out[i / width * stride + i % width] = dense[i];
    return out;
}

Floats Gathered(const Floats &spread, uint64_t width, uint64_t stride)
{
    Floats out;
    for (uint64_t r = 0; r < spread.size() / stride; r++)
        out.insert(out.end(), spread.begin() + (long)(r * stride), spread.begin() + (long)(r * stride + width));
    return out;
}

/* Forward and backward; all outputs one after the other. */
Floats RunCase(CpuDevice *dev, const Case &c, bool check)
{
    const zinf_ref::Attention &a = c.a;
    Random rng(81 + a.seq);
    uint64_t rows = a.batch * a.seq, wq = a.nr_heads * a.head_dim, wk = a.nr_kv_heads * a.head_dim;
    uint64_t sq = wq + 3, sk = wk + 1, so = wq + 2;
    Floats q = RandomFloats(&rng, rows * wq, c.magnitude), k = RandomFloats(&rng, rows * wk, c.magnitude);
    Floats v = RandomFloats(&rng, rows * wk), d_o = RandomFloats(&rng, rows * wq);
    Floats qs = Spread(q, wq, sq), ks = Spread(k, wk, sk), vs = Spread(v, wk, sk), dos = Spread(d_o, wq, so), all;
    Floats o = NaNs(rows * so), lse = NaNs(a.batch * a.nr_heads * a.seq), dq = NaNs(rows * sq), dk = NaNs(rows * sk),
           dv = dk;
    zinf_attention x = {};
    x.batch = a.batch, x.seq = a.seq, x.nr_heads = a.nr_heads, x.nr_kv_heads = a.nr_kv_heads, x.head_dim = a.head_dim;
    x.window = a.window, x.scale = (float)a.scale, x.q = qs.data(), x.k = ks.data(), x.v = vs.data();
    x.q_stride = sq, x.kv_stride = sk, x.o = o.data(), x.o_stride = so, x.lse = lse.data();
    x.d_o = dos.data(), x.dq = dq.data(), x.dk = dk.data(), x.dv = dv.data();

    EXPECT_EQ(0, dev->ops().attention_forward(dev->now(), &x));
    EXPECT_EQ(0, dev->ops().attention_backward(dev->now(), &x));
    Floats go = Gathered(o, wq, so), gdq = Gathered(dq, wq, sq), gdk = Gathered(dk, wk, sk), gdv = Gathered(dv, wk, sk);
    if (check) {
        Vec want_lse, want_o = zinf_ref::AttentionForward(a, Wide(q), Wide(k), Wide(v), &want_lse), wdq, wdk, wdv;
        zinf_ref::AttentionBackward(a, Wide(q), Wide(k), Wide(v), Wide(d_o), &wdq, &wdk, &wdv);
        double score =
            a.scale * c.magnitude * c.magnitude * (double)a.head_dim; /* rounding of a score moves exp by as much */
        double tolerance = 3e-6 * (1 + 0.05 * score);
        ExpectClose(go, want_o, tolerance, "o");
        ExpectClose(lse, want_lse, tolerance, "lse");
        /* with one key p is 1, and dp - delta cancels to nothing: what is left is measured by the size of its terms */
        double terms = a.scale * c.magnitude * std::sqrt((double)a.head_dim);
        ExpectClose(gdq, wdq, 4 * tolerance, "dq", terms);
        ExpectClose(gdk, wdk, 4 * tolerance, "dk", terms);
        ExpectClose(gdv, wdv, tolerance, "dv");
    }
    for (const Floats *f : { &go, &lse, &gdq, &gdk, &gdv })
        all.insert(all.end(), f->begin(), f->end());
    return all;
}

} // namespace

TEST_P(Attention, SequenceLengthsAndGroups)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t seq : { 1, 2, 33, 64, 65, 150 })
        for (uint64_t group : { 1, 2, 4 })
            RunCase(&dev, { { 2, seq, 2 * group, 2, 16, 0, 0.25 }, 1 }, true);
}

TEST_P(Attention, HeadSizes)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t dim : { 2, 6, 24, 64, 80, 130 })
        RunCase(&dev, { { 1, 90, 2, 1, dim, 0, 1 / std::sqrt((double)dim) }, 1 }, true);
}

TEST_P(Attention, Windows)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t window : { 1, 2, 5, 63, 64, 65, 100, 199, 200, 1000 })
        RunCase(&dev, { { 1, 200, 2, 1, 8, window, 0.35 }, 1 }, true);
}

TEST_P(Attention, PeakedScores)
{
    CpuDevice dev(GetParam(), 2);
    RunCase(&dev, { { 1, 130, 2, 2, 32, 0, 0.18 }, 6 }, true);
}

/* More threads than key heads: backward then comes in pieces, which must not show. */
TEST_P(Attention, BitsDoNotDependOnThreads)
{
    for (uint64_t kv_heads : { 1, 2, 4 })
        for (uint64_t window : { 0, 100 }) {
            Floats first;
            for (uint32_t nr_threads : { 1, 2, 3, 5 }) {
                CpuDevice dev(GetParam(), nr_threads);
                Floats all = RunCase(&dev, { { 1, 200, 4, kv_heads, 24, window, 0.2 }, 2 }, false);
                if (first.empty())
                    first = all;
                EXPECT_TRUE(SameBits(first, all)) << nr_threads << " threads, " << kv_heads << " key heads";
            }
        }
}

TEST_P(Attention, BackwardInPieces)
{
    CpuDevice dev(GetParam(), 3);
    for (uint64_t seq : { 65, 150 })
        for (uint64_t window : { 0, 70 })
            RunCase(&dev, { { 1, seq, 3, 1, 16, window, 0.25 }, 1 }, true);
}

TEST_P(Attention, SizesItCannotServeAreRefused)
{
    CpuDevice dev(GetParam(), 1);
    zinf_attention a = {};
    a.batch = 1, a.seq = 1, a.nr_heads = 4, a.nr_kv_heads = 2, a.head_dim = 8, a.q_stride = a.o_stride = 32,
    a.kv_stride = 16;
    zinf_attention bad = a;
    bad.nr_kv_heads = 3;
    EXPECT_EQ(-EINVAL, dev.ops().attention_forward(dev.now(), &bad));
    bad = a;
    bad.head_dim = 1026;
    bad.q_stride = bad.o_stride = bad.kv_stride = 1 << 20;
    EXPECT_EQ(-EINVAL, dev.ops().attention_forward(dev.now(), &bad));
    bad = a;
    bad.kv_stride = 15;
    EXPECT_EQ(-EINVAL, dev.ops().attention_backward(dev.now(), &bad));
}

INSTANTIATE_TEST_SUITE_P(Every, Attention, ::testing::ValuesIn(CpuConfigs()), CpuConfigName);
