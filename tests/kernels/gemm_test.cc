/* tests/kernels/gemm_test.cc - products against the double reference, on every product kernel, storage type and
 * form. */
#include <gtest/gtest.h>

#include <cerrno>

#include "kernels/cpu/gemm.h"
#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/reference.h"

namespace {

using namespace zinf_test;

struct Shape {
    uint64_t m, n, k;
};
/* One row, tails of every vector and tile, more tiles than one, a k that is cut in steps, empty ones. */
const Shape kShapes[] = {
    { 1, 1, 1 },   { 1, 256, 64 },  { 3, 50, 33 },   { 7, 17, 5 },     { 33, 1, 300 },  { 64, 64, 64 },
    { 65, 81, 129 }, { 20, 400, 64 }, { 260, 70, 270 }, { 5, 0, 3 },   { 0, 5, 3 },    { 6, 19, 0 },
};

struct Product {
    Stored a, b, c;
    zinf_gemm g;

    /* Leading dimensions are larger than the rows by `pad`; what lies between is NaN. */
    Product(Random *rng, const Shape &s, bool ta, bool tb, zinf_dtype ad, zinf_dtype bd, zinf_dtype cd, float beta,
            uint64_t pad)
        : a(ad, Padded(rng, ta ? s.k : s.m, ta ? s.m : s.k, pad)),
          b(bd, Padded(rng, tb ? s.n : s.k, tb ? s.k : s.n, pad)),
          c(cd, beta != 0 ? Padded(rng, s.m, s.n, pad) : NaNs(s.m * (s.n + pad))), g()
    {
        g = { ta,
              tb,
              s.m,
              s.n,
              s.k,
              a.bytes.data(),
              ad,
              (ta ? s.m : s.k) + pad,
              b.bytes.data(),
              bd,
              (tb ? s.k : s.n) + pad,
              c.bytes.data(),
              cd,
              s.n + pad,
              beta };
    }
    static std::vector<float> Padded(Random *rng, uint64_t rows, uint64_t cols, uint64_t pad)
    {
        std::vector<float> x = NaNs(rows * (cols + pad));
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t i = 0; i < cols; i++)
                x[r * (cols + pad) + i] = (float)(2 * rng->Uniform() - 1);
        return x;
    }
    static zinf_ref::Vec Dense(const zinf_ref::Vec &x, uint64_t rows, uint64_t cols, uint64_t ld)
    {
        zinf_ref::Vec out;
        for (uint64_t r = 0; r < rows; r++)
            out.insert(out.end(), x.begin() + (long)(r * ld), x.begin() + (long)(r * ld + cols));
        return out;
    }
    /* |error| <= (k + 2) 2^-24 sum |a b| (any order of additions), and one rounding to C's type. */
    void RunAndCheck(CpuDevice *dev)
    {
        zinf_ref::Vec da = Dense(a.values, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, g.lda);
        zinf_ref::Vec db = Dense(b.values, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, g.ldb);
        zinf_ref::Vec want = Dense(c.values, g.m, g.n, g.ldc), size = want;
        zinf_ref::Gemm(g.trans_a, g.trans_b, g.m, g.n, g.k, da, db, g.beta, &want);
        for (zinf_ref::Vec *v : { &da, &db, &size })
            for (double &x : *v)
                x = std::fabs(x);
        zinf_ref::Gemm(g.trans_a, g.trans_b, g.m, g.n, g.k, da, db, g.beta, &size);
        ASSERT_EQ(0, dev->ops().gemm(dev->now(), &g));
        for (uint64_t i = 0; i < g.m; i++) {
            for (uint64_t j = 0; j < g.ldc; j++) {
                double got = c.At(i * g.ldc + j);
                if (j >= g.n) {
                    ASSERT_TRUE(std::isnan(got)) << "wrote beside C at row " << i;
                    continue;
                }
                double bound = (double)(g.k + 2) * 0x1p-24 * size[i * g.n + j] +
                               UnitRoundoff(g.c_dtype) * std::fabs(want[i * g.n + j]);
                ASSERT_LE(std::fabs(got - want[i * g.n + j]), bound + (g.c_dtype == ZINF_F16 ? 0x1p-25 : 0))
                    << g.m << "x" << g.n << "x" << g.k << " trans " << g.trans_a << g.trans_b << " at " << i << ","
                    << j;
            }
        }
    }
};

class Gemm : public ::testing::TestWithParam<CpuConfig> {};

} // namespace

TEST_P(Gemm, EveryShapeFormAndBeta)
{
    CpuDevice dev(GetParam(), 2);
    Random rng(11);
    for (const Shape &s : kShapes)
        for (int form = 0; form < 4; form++)
            for (float beta : { 0.0f, 1.0f })
                Product(&rng, s, form & 1, form & 2, ZINF_F32, ZINF_F32, ZINF_F32, beta, 3).RunAndCheck(&dev);
}

TEST_P(Gemm, EveryStorageType)
{
    CpuDevice dev(GetParam(), 2);
    Random rng(12);
    for (const Shape &s : { Shape{ 1, 300, 520 }, Shape{ 20, 200, 270 }, Shape{ 17, 33, 0 } })
        for (int form = 0; form < 4; form++)
            for (zinf_dtype t : { ZINF_BF16, ZINF_F16 }) {
                Product(&rng, s, form & 1, form & 2, ZINF_F32, t, ZINF_F32, 1, 1).RunAndCheck(&dev);
                Product(&rng, s, form & 1, form & 2, t, ZINF_F32, ZINF_F32, 0, 0).RunAndCheck(&dev);
                Product(&rng, s, form & 1, form & 2, t, t, t, 0, 5).RunAndCheck(&dev);
                Product(&rng, s, form & 1, form & 2, ZINF_F32, ZINF_F32, t, 0, 0).RunAndCheck(&dev);
            }
}

TEST_P(Gemm, BitsDoNotDependOnThreads)
{
    for (const Shape &s : { Shape{ 256, 688, 96 }, Shape{ 2, 3000, 64 }, Shape{ 100, 256, 700 } })
        for (zinf_dtype t : { ZINF_F32, ZINF_BF16 }) {
            std::vector<unsigned char> first;
            for (uint32_t nr_threads : { 1, 2, 3 }) {
                CpuDevice dev(GetParam(), nr_threads);
                Random rng(13);
                Product p(&rng, s, false, true, t, t, ZINF_F32, 0, 0);
                ASSERT_EQ(0, dev.ops().gemm(dev.now(), &p.g));
                if (first.empty())
                    first = p.c.bytes;
                EXPECT_EQ(first, p.c.bytes) << nr_threads << " threads";
            }
        }
}

/* Placement moves buffers: a slot elsewhere must not change a bit. */
TEST_P(Gemm, BitsDoNotDependOnAddresses)
{
    CpuDevice dev(GetParam(), 2);
    for (const Shape &s : { Shape{ 64, 200, 96 }, Shape{ 2, 300, 64 }, Shape{ 130, 75, 300 } }) {
        Random rng(15);
        std::vector<float> a = RandomFloats(&rng, s.m * s.k), b = RandomFloats(&rng, s.n * s.k), first;
        for (uint64_t offset : { 0, 1, 3, 16 }) {
            Placed<float> pa(s.m * s.k, offset), pb(s.n * s.k, offset), pc(s.m * s.n, offset);
            memcpy(pa.get(), a.data(), pa.nbytes());
            memcpy(pb.get(), b.data(), pb.nbytes());
            zinf_gemm g = { false, true, s.m, s.n, s.k, pa.get(), ZINF_F32, s.k, pb.get(), ZINF_F32, s.k,
                            pc.get(), ZINF_F32, s.n, 0 };
            ASSERT_EQ(0, dev.ops().gemm(dev.now(), &g));
            std::vector<float> c(pc.get(), pc.get() + s.m * s.n);
            if (first.empty())
                first = c;
            EXPECT_TRUE(SameBits(first, c)) << "offset " << offset;
            EXPECT_TRUE(pc.GuardsIntact());
        }
    }
}

TEST_P(Gemm, WhatDoesNotFitIsRefused)
{
    CpuDevice dev(GetParam(), 1);
    Random rng(14);
    Product p(&rng, { 4, 4, 4 }, false, false, ZINF_F32, ZINF_F32, ZINF_F32, 0, 0);
    zinf_gemm g = p.g;
    g.lda = 3;
    EXPECT_EQ(-EINVAL, dev.ops().gemm(dev.now(), &g));
    g = p.g;
    g.beta = 0.5f;
    EXPECT_EQ(-EINVAL, dev.ops().gemm(dev.now(), &g));
    g = p.g;
    g.beta = 1;
    g.c_dtype = ZINF_BF16;
    EXPECT_EQ(-EINVAL, dev.ops().gemm(dev.now(), &g));
    g = p.g;
    g.ldb = 1ull << 31;
    EXPECT_EQ(-EINVAL, dev.ops().gemm(dev.now(), &g));
}

INSTANTIATE_TEST_SUITE_P(Every, Gemm, ::testing::ValuesIn(CpuConfigs()), CpuConfigName);

TEST(GemmTiles, CoverTheProductWithinTheScratch)
{
    for (uint64_t m : { 1, 5, 64, 255, 256, 257, 4096 })
        for (uint64_t n : { 1, 8, 384, 385, 688, 50257 })
            for (uint64_t k : { 0, 1, 256, 11008 })
                for (bool f32 : { true, false }) {
                    uint64_t tm = 0, tn = 0;
                    zinf_cpu_gemm_tile_size(m, n, k, f32, &tm, &tn);
                    EXPECT_GE(tm, 1u);
                    EXPECT_GE(tn, 1u);
                    EXPECT_LE(tm, 256u);
                    EXPECT_LE(tn, f32 ? 384u : 192u);
                }
}

TEST(GemmTiles, ScratchIsBounded) { EXPECT_LE(zinf_cpu_scratch_nbytes(), 1536u * 1024); }

TEST(GemmChoice, UnknownNameIsRefusedWithALine)
{
    zinf_cpu_gemm_kind kind;
    zinf_status st = {};
    setenv("ZINF_GEMM", "fast", 1);
    EXPECT_EQ(-EINVAL, zinf_cpu_gemm_choose(&kind, &st));
    EXPECT_NE(nullptr, strstr(st.text, "ZINF_GEMM=fast"));
    unsetenv("ZINF_GEMM");
}

TEST(GemmChoice, OpenblasIsRefusedWhereItIsNotLinkedIn)
{
    zinf_cpu_gemm_kind kind;
    zinf_status st = {};
    setenv("ZINF_GEMM", "openblas", 1);
    EXPECT_EQ(zinf_openblas_linked() ? 0 : -EINVAL, zinf_cpu_gemm_choose(&kind, &st)) << st.text;
    unsetenv("ZINF_GEMM");
}
