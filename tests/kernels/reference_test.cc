/* tests/kernels/reference_test.cc - the reference against finite differences of itself, in double. */
#include "tests/kernels/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/kernels/test_data.h"

using zinf_ref::Vec;

namespace {

Vec RandomVec(zinf_test::Random *rng, uint64_t n)
{
    Vec v(n);
    for (double &x : v)
        x = 2 * rng->Uniform() - 1;
    return v;
}

double Weighted(const Vec &x, const Vec &weights)
{
    double sum = 0;
    for (uint64_t i = 0; i < x.size(); i++)
        sum += x[i] * weights[i];
    return sum;
}

/* want[i] against (loss(x + h e_i) - loss(x - h e_i)) / 2h for every i. */
void ExpectGradient(const std::function<double(const Vec &)> &loss, Vec x, const Vec &want)
{
    const double h = 1e-5;
    ASSERT_EQ(x.size(), want.size());
    for (uint64_t i = 0; i < x.size(); i++) {
        double keep = x[i], up, down;
        x[i] = keep + h;
        up = loss(x);
        x[i] = keep - h;
        down = loss(x);
        x[i] = keep;
        ASSERT_NEAR((up - down) / (2 * h), want[i], 1e-7 * (1 + std::fabs(want[i]))) << "element " << i;
    }
}

} // namespace

TEST(Reference, GemmOfTransposedStorageIsTheSameProduct)
{
    zinf_test::Random rng(1);
    uint64_t m = 3, n = 4, k = 5;
    Vec a = RandomVec(&rng, m * k), b = RandomVec(&rng, k * n), at(a.size()), bt(b.size()), want(m * n, 0);
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t p = 0; p < k; p++)
            at[p * m + i] = a[i * k + p];
    for (uint64_t p = 0; p < k; p++)
        for (uint64_t j = 0; j < n; j++)
            bt[j * k + p] = b[p * n + j];
    zinf_ref::Gemm(false, false, m, n, k, a, b, 0, &want);
    EXPECT_DOUBLE_EQ(a[0] * b[0] + a[1] * b[4] + a[2] * b[8] + a[3] * b[12] + a[4] * b[16], want[0]);
    for (int form = 1; form < 4; form++) {
        Vec got(m * n, 7);
        zinf_ref::Gemm(form & 1, form & 2, m, n, k, form & 1 ? at : a, form & 2 ? bt : b, 0, &got);
        EXPECT_EQ(want, got);
    }
}

TEST(Reference, GemmGradientIsTheTransposedProduct)
{
    zinf_test::Random rng(2);
    uint64_t m = 3, n = 4, k = 5;
    Vec a = RandomVec(&rng, m * k), b = RandomVec(&rng, k * n), w = RandomVec(&rng, m * n), da(m * k), db(k * n);
    zinf_ref::Gemm(false, true, m, k, n, w, b, 0, &da);
    zinf_ref::Gemm(true, false, k, n, m, a, w, 0, &db);
    auto loss = [&](const Vec &x, const Vec &y) {
        Vec c(m * n);
        zinf_ref::Gemm(false, false, m, n, k, x, y, 0, &c);
        return Weighted(c, w);
    };
    ExpectGradient([&](const Vec &x) { return loss(x, b); }, a, da);
    ExpectGradient([&](const Vec &x) { return loss(a, x); }, b, db);
}

TEST(Reference, RmsNormBackward)
{
    zinf_test::Random rng(3);
    const uint64_t width = 7;
    const double eps = 1e-3;
    Vec x = RandomVec(&rng, 3 * width), w = RandomVec(&rng, width), dy = RandomVec(&rng, x.size()), dx, dw, rstd;
    zinf_ref::RmsNormBackward(dy, x, w, width, eps, &dx, &dw);
    ExpectGradient([&](const Vec &v) { return Weighted(zinf_ref::RmsNormForward(v, w, width, eps, &rstd), dy); }, x,
                   dx);
    ExpectGradient([&](const Vec &v) { return Weighted(zinf_ref::RmsNormForward(x, v, width, eps, &rstd), dy); }, w,
                   dw);
}

TEST(Reference, RopeWithTheOppositeSignIsItsGradient)
{
    zinf_test::Random rng(4);
    uint64_t seq = 3, heads = 2, dim = 6;
    Vec x = RandomVec(&rng, 2 * seq * heads * dim), dy = RandomVec(&rng, x.size()), cs;
    for (uint64_t i = 0; i < seq * dim / 2; i++) {
        double angle = 6 * rng.Uniform();
        cs.push_back(std::cos(angle));
        cs.push_back(std::sin(angle));
    }
    ExpectGradient([&](const Vec &v) { return Weighted(zinf_ref::Rope(v, seq, heads, dim, cs, 1), dy); }, x,
                   zinf_ref::Rope(dy, seq, heads, dim, cs, -1));
}

TEST(Reference, AttentionBackward)
{
    zinf_test::Random rng(5);
    for (uint64_t window : { 0, 1, 3 }) {
        zinf_ref::Attention a = { 2, 5, 4, 2, 3, window, 0.7 };
        Vec q = RandomVec(&rng, 2 * 5 * 4 * 3), k = RandomVec(&rng, 2 * 5 * 2 * 3), v = RandomVec(&rng, k.size());
        Vec d_o = RandomVec(&rng, q.size()), dq, dk, dv, lse;
        zinf_ref::AttentionBackward(a, q, k, v, d_o, &dq, &dk, &dv);
        ExpectGradient([&](const Vec &x) { return Weighted(zinf_ref::AttentionForward(a, x, k, v, &lse), d_o); }, q,
                       dq);
        ExpectGradient([&](const Vec &x) { return Weighted(zinf_ref::AttentionForward(a, q, x, v, &lse), d_o); }, k,
                       dk);
        ExpectGradient([&](const Vec &x) { return Weighted(zinf_ref::AttentionForward(a, q, k, x, &lse), d_o); }, v,
                       dv);
    }
}

TEST(Reference, SwiGluBackward)
{
    zinf_test::Random rng(6);
    Vec g = RandomVec(&rng, 9), u = RandomVec(&rng, 9), dh = RandomVec(&rng, 9), dg, du;
    zinf_ref::SwiGluBackward(dh, g, u, &dg, &du);
    ExpectGradient([&](const Vec &x) { return Weighted(zinf_ref::SwiGluForward(x, u), dh); }, g, dg);
    ExpectGradient([&](const Vec &x) { return Weighted(zinf_ref::SwiGluForward(g, x), dh); }, u, du);
}

TEST(Reference, CrossEntropyGradient)
{
    zinf_test::Random rng(7);
    const uint64_t vocab = 5;
    std::vector<int32_t> targets = { 4, -1, 0 };
    Vec logits = RandomVec(&rng, 3 * vocab), dlogits, unused;
    zinf_ref::CrossEntropy(logits, vocab, targets, 0.5, &dlogits);
    ExpectGradient(
        [&](const Vec &x) {
            return 0.5 * Weighted(zinf_ref::CrossEntropy(x, vocab, targets, 1, &unused), Vec(3, 1.0));
        },
        logits, dlogits);
}
