/* tests/kernels/cpu_ops_test.cc - the operations of the CPU device against the double reference; bits against
 * threads and ISA. */
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/reference.h"

namespace {

using namespace zinf_test;
using zinf_ref::Vec;
using Floats = std::vector<float>;

class CpuOps : public ::testing::TestWithParam<CpuConfig> {};

Floats CosSin(uint64_t seq, uint64_t head_dim)
{
    Floats cs;
    for (uint64_t t = 0; t < seq; t++)
        for (uint64_t i = 0; i < head_dim / 2; i++) {
            double angle = (double)t * std::pow(10000.0, -2.0 * (double)i / (double)head_dim);
            cs.push_back((float)std::cos(angle));
            cs.push_back((float)std::sin(angle));
        }
    return cs;
}

/* RMSNorm forward and backward; returns every output, one after the other. */
Floats RunRmsNorm(CpuDevice *dev, uint64_t rows, uint64_t width, zinf_dtype w_dtype, float beta, bool check)
{
    Random rng(21 + rows + width);
    Floats x = RandomFloats(&rng, rows * width, 3), dy = RandomFloats(&rng, rows * width),
           dx0 = RandomFloats(&rng, rows * width);
    Floats dw0 = RandomFloats(&rng, width), y = NaNs(rows * width), rstd = NaNs(rows), dx = dx0;
    Floats dw = beta != 0 ? dw0 : NaNs(width), partial = NaNs((rows / 64 + 1) * width), all;
    Stored w(w_dtype, RandomFloats(&rng, width));
    zinf_stream *s = dev->now();

    EXPECT_EQ(
        0, dev->ops().rmsnorm_forward(s, y.data(), rstd.data(), x.data(), w.bytes.data(), w_dtype, rows, width, 1e-5f));
    EXPECT_EQ(0, dev->ops().rmsnorm_backward(s, dx.data(), dw.data(), beta, dy.data(), x.data(), rstd.data(),
                                             w.bytes.data(), w_dtype, rows, width, partial.data()));
    if (check) {
        Vec want_rstd, want_dx, want_dw, want_y = zinf_ref::RmsNormForward(Wide(x), w.values, width, 1e-5f, &want_rstd);
        zinf_ref::RmsNormBackward(Wide(dy), Wide(x), w.values, width, 1e-5f, &want_dx, &want_dw);
        for (uint64_t i = 0; i < dx.size(); i++)
            want_dx[i] += dx0[i];
        for (uint64_t i = 0; i < width; i++)
            want_dw[i] += beta != 0 ? beta * dw0[i] : 0;
        ExpectClose(y, want_y, 1e-6, "y");
        ExpectClose(rstd, want_rstd, 1e-6, "rstd");
        double largest = 0;
        for (double r : want_rstd)
            largest = std::fmax(largest, r);
        ExpectClose(dx, want_dx, 2e-6, "dx", largest);    /* dy w rstd, which the other term cancels when width is 1 */
        ExpectClose(dw, want_dw, 4e-6, "dw", 1);    /* a sum of terms of that size */
    }
    for (const Floats *f : { &y, &rstd, &dx, &dw })
        all.insert(all.end(), f->begin(), f->end());
    return all;
}

Floats RunRope(CpuDevice *dev, uint64_t batch, uint64_t seq, uint64_t heads, uint64_t dim, bool check)
{
    Random rng(31 + dim);
    uint64_t width = heads * dim, stride = width + 5, rows = batch * seq;
    Floats x = RandomFloats(&rng, rows * stride), before = x, cs = CosSin(seq, dim), dense, want_in;
    EXPECT_EQ(0, dev->ops().rope(dev->now(), x.data(), rows, seq, heads, dim, stride, cs.data(), -1));
    for (uint64_t r = 0; r < rows; r++) {
        dense.insert(dense.end(), x.begin() + (long)(r * stride), x.begin() + (long)(r * stride + width));
        want_in.insert(want_in.end(), before.begin() + (long)(r * stride), before.begin() + (long)(r * stride + width));
        for (uint64_t i = width; i < stride; i++)
            EXPECT_EQ(before[r * stride + i], x[r * stride + i]);
    }
    if (check)
        ExpectClose(dense, zinf_ref::Rope(Wide(want_in), seq, heads, dim, Wide(cs), -1), 2e-7, "rope");
    return dense;
}

Floats RunSwiGlu(CpuDevice *dev, uint64_t n, bool check)
{
    Random rng(41 + n);
    Floats g = RandomFloats(&rng, n, 20), u = RandomFloats(&rng, n), dh = RandomFloats(&rng, n), h = NaNs(n), dg, du,
           all;
    EXPECT_EQ(0, dev->ops().swiglu_forward(dev->now(), h.data(), g.data(), u.data(), n));
    dg = g;
    du = u;    /* in place, as the header allows */
    EXPECT_EQ(0, dev->ops().swiglu_backward(dev->now(), dg.data(), du.data(), dh.data(), dg.data(), du.data(), n));
    if (check) {
        Vec want_dg, want_du;
        ExpectClose(h, zinf_ref::SwiGluForward(Wide(g), Wide(u)), 5e-7, "h");
        zinf_ref::SwiGluBackward(Wide(dh), Wide(g), Wide(u), &want_dg, &want_du);
        ExpectClose(dg, want_dg, 1e-6, "dg");
        ExpectClose(du, want_du, 5e-7, "du");
    }
    for (const Floats *f : { &h, &dg, &du })
        all.insert(all.end(), f->begin(), f->end());
    return all;
}

Floats RunCrossEntropy(CpuDevice *dev, uint64_t rows, uint64_t vocab, double magnitude, bool check)
{
    Random rng(51 + rows + vocab);
    uint64_t stride = vocab + 3;
    std::vector<int32_t> targets;
    Floats logits = RandomFloats(&rng, rows * stride, magnitude), untouched = logits, dense, grads, loss = NaNs(rows),
           all;
    zinf_cross_entropy c = { logits.data(), rows, vocab, stride, targets.data(), 0.125f, true, loss.data() };

    for (uint64_t r = 0; r < rows; r++) {
        targets.push_back(r % 5 == 3 ? -1 : (int32_t)rng.Below(vocab));
        dense.insert(dense.end(), logits.begin() + (long)(r * stride), logits.begin() + (long)(r * stride + vocab));
    }
    c.targets = targets.data();
    EXPECT_EQ(0, dev->ops().cross_entropy(dev->now(), &c));
    for (uint64_t r = 0; r < rows; r++)
        grads.insert(grads.end(), logits.begin() + (long)(r * stride), logits.begin() + (long)(r * stride + vocab));
    if (check) {
        Vec want_grads, want = zinf_ref::CrossEntropy(Wide(dense), vocab, targets, 0.125f, &want_grads);
        ExpectClose(loss, want, 1e-6, "loss");
        for (uint64_t i = 0; i < grads.size(); i++)
            EXPECT_NEAR(grads[i], want_grads[i], 0.125 * 1e-6) << i;
    }
    c.logits = untouched.data();
    c.want_grad = false;
    all = loss;
    EXPECT_EQ(0, dev->ops().cross_entropy(dev->now(), &c));
    EXPECT_TRUE(SameBits(all, loss)) << "the loss depends on want_grad";
    all.insert(all.end(), grads.begin(), grads.end());
    return all;
}

} // namespace

TEST_P(CpuOps, RmsNorm)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t rows : { 1, 64, 65, 130 })
        for (uint64_t width : { 1, 24, 33, 256, 688 })
            for (zinf_dtype t : { ZINF_F32, ZINF_BF16, ZINF_F16 })
                for (float beta : { 0.0f, 1.0f })
                    RunRmsNorm(&dev, rows, width, t, beta, true);
}

TEST_P(CpuOps, RmsNormOfNoRowsZeroesTheWeightGradient)
{
    CpuDevice dev(GetParam(), 1);
    Floats w(8, 1), dw = NaNs(8), partial = NaNs(8);
    ASSERT_EQ(0, dev.ops().rmsnorm_backward(dev.now(), nullptr, dw.data(), 0, nullptr, nullptr, nullptr, w.data(),
                                            ZINF_F32, 0, 8, partial.data()));
    EXPECT_EQ(Floats(8, 0), dw);
}

TEST_P(CpuOps, Rope)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t dim : { 2, 6, 16, 24, 64, 80 })
        for (uint64_t seq : { 1, 33 })
            RunRope(&dev, 2, seq, 3, dim, true);
}

TEST_P(CpuOps, SwiGlu)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t n : { 0, 1, 7, 8, 33, 40000 })
        RunSwiGlu(&dev, n, true);
}

TEST_P(CpuOps, SwiGluFarOutIsTheIdentityOrZero)
{
    CpuDevice dev(GetParam(), 1);
    Floats g = { -200, 200, -88, 88, 0, -0.0f, 3e38f, -3e38f }, u(8, 1), h = NaNs(8);
    ASSERT_EQ(0, dev.ops().swiglu_forward(dev.now(), h.data(), g.data(), u.data(), 8));
    EXPECT_EQ(200, h[1]);
    EXPECT_EQ(88, h[3]);
    EXPECT_EQ(3e38f, h[6]);
    for (int i : { 0, 4, 5, 7 })
        EXPECT_EQ(0, h[i]) << i;
    EXPECT_NEAR(-88 * std::exp(-88.0), h[2], 1e-38);
}

TEST_P(CpuOps, CrossEntropy)
{
    CpuDevice dev(GetParam(), 2);
    for (uint64_t rows : { 1, 33, 100 })
        for (uint64_t vocab : { 1, 7, 256, 1000 })
            for (double magnitude : { 0.01, 30.0 })
                RunCrossEntropy(&dev, rows, vocab, magnitude, true);
}

TEST_P(CpuOps, CrossEntropyOfBadLogitsIsNotANumber)
{
    CpuDevice dev(GetParam(), 1);
    int32_t target = 2;
    for (float bad : { NAN, INFINITY }) {
        for (uint64_t at : { 0, 2, 20 }) {
            Floats logits(21, 1), loss(1, 0);
            zinf_cross_entropy c = { logits.data(), 1, 21, 21, &target, 1, true, loss.data() };
            logits[at] = bad;
            ASSERT_EQ(0, dev.ops().cross_entropy(dev.now(), &c));
            EXPECT_TRUE(std::isnan(loss[0])) << at;
            EXPECT_TRUE(std::isnan(logits[5])) << "the gradient hides it";
        }
    }
    Floats logits(21, 1), loss(1, 0);
    zinf_cross_entropy c = { logits.data(), 1, 21, 21, &target, 1, true, loss.data() };
    target = 21;
    EXPECT_EQ(-EINVAL, dev.ops().cross_entropy(dev.now(), &c));
}

TEST_P(CpuOps, CopyZeroAddGatherCast)
{
    CpuDevice dev(GetParam(), 2);
    zinf_stream *s = dev.now();
    Random rng(61);
    const uint64_t n = 150001;
    Floats x = RandomFloats(&rng, n), y = NaNs(n), sum = RandomFloats(&rng, n), before = sum;

    ASSERT_EQ(0, dev.ops().copy(s, y.data(), x.data(), 4 * n, ZINF_COPY_H2D));
    EXPECT_TRUE(SameBits(x, y));
    ASSERT_EQ(0, dev.ops().fill_zero(s, y.data(), 4 * (n - 1)));
    for (uint64_t i = 0; i + 1 < n; i++)
        ASSERT_EQ(0, y[i]);
    EXPECT_EQ(x[n - 1], y[n - 1]);
    ASSERT_EQ(0, dev.ops().add(s, sum.data(), x.data(), n));
    for (uint64_t i = 0; i < n; i++)
        ASSERT_EQ(before[i] + x[i], sum[i]);
    for (zinf_dtype t : { ZINF_BF16, ZINF_F16 }) {
        Stored want(t, x);
        std::vector<unsigned char> got(want.bytes.size());
        Floats back(n);
        ASSERT_EQ(0, dev.ops().cast(s, got.data(), t, x.data(), ZINF_F32, n));
        EXPECT_EQ(want.bytes, got);
        ASSERT_EQ(0, dev.ops().cast(s, back.data(), ZINF_F32, got.data(), t, n));
        for (uint64_t i = 0; i < n; i++)
            ASSERT_EQ(want.values[i], back[i]);
    }
    std::vector<int32_t> ids = { 4, 0, 4, 9 };
    Floats out = NaNs(4 * 100);
    ASSERT_EQ(0, dev.ops().gather_rows(s, out.data(), x.data(), ZINF_F32, ids.data(), 4, 100));
    for (uint64_t i = 0; i < out.size(); i++)
        ASSERT_EQ(x[(uint64_t)ids[i / 100] * 100 + i % 100], out[i]);
    ids[2] = -1;
    EXPECT_EQ(-EINVAL, dev.ops().gather_rows(s, out.data(), x.data(), ZINF_F32, ids.data(), 4, 100));
}

namespace {

Floats RunAll(CpuDevice *dev)
{
    Floats all;
    for (const Floats &f : { RunRmsNorm(dev, 130, 300, ZINF_BF16, 1, false), RunRope(dev, 3, 70, 4, 80, false),
                             RunSwiGlu(dev, 70001, false), RunCrossEntropy(dev, 60, 1003, 9, false) })
        all.insert(all.end(), f.begin(), f.end());
    return all;
}

} // namespace

TEST_P(CpuOps, BitsDoNotDependOnThreads)
{
    Floats first;
    for (uint32_t nr_threads : { 1, 2, 3 }) {
        CpuDevice dev(GetParam(), nr_threads);
        Floats all = RunAll(&dev);
        if (first.empty())
            first = all;
        EXPECT_TRUE(SameBits(first, all)) << nr_threads << " threads";
    }
}

TEST_P(CpuOps, BitsAreTheScalarBuildsBits)
{
    CpuDevice scalar({ ZINF_ISA_SCALAR, "own" }, 1), dev(GetParam(), 1);
    EXPECT_TRUE(SameBits(RunAll(&scalar), RunAll(&dev)));
}

INSTANTIATE_TEST_SUITE_P(Every, CpuOps, ::testing::ValuesIn(CpuConfigs()), CpuConfigName);

TEST(CpuDeviceOpen, SaysWhatItChose)
{
    CpuDevice dev({ ZINF_ISA_SCALAR, "own" }, 1);
    char buf[128];
    EXPECT_STREQ("cpu scalar gemm=own", zinf_cpu_device_describe(dev.get(), buf, sizeof(buf)));
    EXPECT_EQ(ZINF_ISA_SCALAR, zinf_cpu_device_isa(dev.get()));
}

TEST(CpuDeviceOpen, TooLittleScratchIsRefusedWithTheNumber)
{
    zinf_status st = {};
    zinf_pool *pool = nullptr;
    zinf_device *dev = nullptr;
    alignas(64) static char base[64];
    ASSERT_EQ(0, zinf_pool_open(1, &pool, &st));
    zinf_device_opts opts = { pool, 64, base, nullptr };
    EXPECT_EQ(-EINVAL, zinf_cpu_device_ops.open(&opts, &dev, &st));
    EXPECT_EQ(nullptr, dev);
    EXPECT_NE(nullptr, strstr(st.text, std::to_string(zinf_cpu_scratch_nbytes()).c_str()));
    zinf_pool_close(pool);
}

TEST(CpuDeviceOpen, ScratchOfTheCallerIsAllItUses)
{
    const uint32_t nr_threads = 2;
    uint64_t nbytes = zinf_cpu_scratch_nbytes();
    zinf_status st = {};
    zinf_pool *pool = nullptr;
    zinf_device *dev = nullptr;
    char *base = (char *)aligned_alloc(64, (nr_threads + 1) * nbytes);
    ASSERT_EQ(0, zinf_pool_open(nr_threads, &pool, &st));
    zinf_device_opts opts = { pool, (size_t)nbytes, base, nullptr };
    ASSERT_EQ(0, zinf_cpu_device_ops.open(&opts, &dev, &st)) << st.text;
    Random rng(71);
    /* the largest tiles: with AddressSanitizer a step outside is an error */
    Stored a(ZINF_BF16, RandomFloats(&rng, 512 * 300)), b(ZINF_BF16, RandomFloats(&rng, 768 * 300)),
        c(ZINF_F32, NaNs(512 * 768));
    zinf_gemm g = { false, true, 512, 768, 300, a.bytes.data(), ZINF_BF16, 300, b.bytes.data(), ZINF_BF16, 300,
                    c.bytes.data(), ZINF_F32, 768, 0 };
    EXPECT_EQ(0, zinf_cpu_device_ops.gemm(zinf_cpu_stream_now(dev), &g));
    g.c_dtype = ZINF_BF16;
    EXPECT_EQ(0, zinf_cpu_device_ops.gemm(zinf_cpu_stream_now(dev), &g));
    zinf_cpu_device_ops.close(dev);
    zinf_pool_close(pool);
    free(base);
}

TEST(CpuDeviceOpen, CloseAcceptsNull)
{
    zinf_cpu_device_ops.close(nullptr);
    zinf_cpu_device_ops.stream_close(nullptr);
    zinf_cpu_device_ops.event_close(nullptr);
}
