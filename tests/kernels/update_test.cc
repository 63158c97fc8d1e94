/* tests/kernels/update_test.cc - the optimizer: near float64, the same bits on every ISA, partition and pool. */
#include "kernels/update.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/norm.h"
#include "tests/kernels/test_data.h"

namespace
{

using zinf_test::Isas;
using zinf_test::Lengths;
using zinf_test::Placed;
using zinf_test::Random;

constexpr zinf_optimizer kKinds[] = { ZINF_ADAMW, ZINF_ADAM_L2, ZINF_SGD };
constexpr zinf_dtype kWeights[] = { ZINF_F32, ZINF_BF16 };
constexpr zinf_dtype kGrads[] = { ZINF_F32, ZINF_BF16, ZINF_F16 };

zinf_update_scalars Scalars(zinf_optimizer kind, uint64_t t = 3, double lr = 1e-3, double grad_scale = 0.75)
{
    zinf_optimizer_params params = {};
    params.kind = kind;
    params.beta1 = 0.9;
    params.beta2 = 0.999;
    params.eps = 1e-8;
    params.weight_decay = 0.01;
    params.bias_correction = true;
    zinf_update_scalars k;
    zinf_update_scalars_set(&k, &params, t, lr, grad_scale);
    return k;
}

/* The arrays of one update, each beginning `offset` elements after a 64-byte boundary. */
struct State {
    State(zinf_dtype weights, zinf_dtype grads, uint64_t nr, uint64_t offset)
        : weight_dtype(weights), grad_dtype(grads), n(nr),
          hi(nr * zinf_dtype_nbytes(weights), offset * zinf_dtype_nbytes(weights)), lo(nr, offset), m(nr, offset),
          v(nr, offset), grad(nr * zinf_dtype_nbytes(grads), offset * zinf_dtype_nbytes(grads))
    {
    }

    void SetMaster(uint64_t i, float p)
    {
        if (weight_dtype == ZINF_F32)
            ((float *)(void *)hi.get())[i] = p;
        else
            zinf_split(zinf_f32_bits(p), (uint16_t *)(void *)hi.get() + i, &lo[i]);
    }
    float Master(uint64_t i)
    {
        if (weight_dtype == ZINF_F32)
            return ((float *)(void *)hi.get())[i];
        return zinf_f32_from_bits(zinf_join(((uint16_t *)(void *)hi.get())[i], lo[i]));
    }
    void SetGrad(uint64_t i, float g)
    {
        if (grad_dtype == ZINF_F32)
            ((float *)(void *)grad.get())[i] = g;
        else
            ((uint16_t *)(void *)grad.get())[i] = grad_dtype == ZINF_BF16 ? zinf_f32_to_bf16(g) : zinf_f32_to_f16(g);
    }
    /* Wide ranges of exponents, zeros, subnormal moments; nothing that overflows. */
    void Fill(uint64_t seed)
    {
        Random random(seed);
        for (uint64_t i = 0; i < n; i++) {
            SetMaster(i, random.Value(-30, 4));
            SetGrad(i, random.Below(16) ? random.Value(-26, 8) : 0.0f);
            m[i] = random.Below(16) ? random.Value(-148, 4) : 0.0f;
            v[i] = random.Below(16) ? std::fabs(random.Value(-148, 4)) : 0.0f;
        }
    }
    void Calm()
    {
        for (uint64_t i = 0; i < n; i++) {
            SetMaster(i, 1.0f);
            SetGrad(i, 0.5f);
            m[i] = 0.25f;
            v[i] = 0.125f;
        }
    }
    zinf_update Update(const zinf_update_scalars &k, uint64_t from, uint64_t nr)
    {
        zinf_update u = {};
        u.k = k;
        u.weight_dtype = weight_dtype;
        u.grad_dtype = grad_dtype;
        u.hi = hi.get() + from * zinf_dtype_nbytes(weight_dtype);
        u.lo = weight_dtype == ZINF_BF16 ? lo.get() + from : nullptr;
        u.m = k.kind == ZINF_SGD ? nullptr : m.get() + from;
        u.v = k.kind == ZINF_SGD ? nullptr : v.get() + from;
        u.grad = grad.get() + from * zinf_dtype_nbytes(grad_dtype);
        u.n = nr;
        return u;
    }
    uint32_t Run(zinf_isa isa, const zinf_update_scalars &k)
    {
        zinf_update u = Update(k, 0, n);
        uint32_t bad = 0;
        zinf_update_range(isa, &u, &bad);
        return bad;
    }
    bool SameBytes(State &o)
    {
        return hi.SameBytes(o.hi) && m.SameBytes(o.m) && v.SameBytes(o.v) && grad.SameBytes(o.grad) &&
               (weight_dtype == ZINF_F32 || lo.SameBytes(o.lo));
    }
    bool GuardsIntact() { return hi.GuardsIntact() && lo.GuardsIntact() && m.GuardsIntact() && v.GuardsIntact(); }

    zinf_dtype weight_dtype, grad_dtype;
    uint64_t n;
    Placed<unsigned char> hi;
    Placed<int16_t> lo;
    Placed<float> m, v;
    Placed<unsigned char> grad;
};

template <typename Fn> void ForEveryCombination(Fn fn)
{
    for (zinf_optimizer kind : kKinds)
        for (zinf_dtype weights : kWeights)
            for (zinf_dtype grads : kGrads) {
                SCOPED_TRACE(::testing::Message() << "optimizer " << kind << " weights " << zinf_dtype_name(weights)
                                                  << " grads " << zinf_dtype_name(grads));
                fn(kind, weights, grads);
                if (::testing::Test::HasFatalFailure())
                    return;
            }
}

/* The textbook, in double: what the formula must be near. */
void ReferenceStep(zinf_optimizer kind, uint64_t t, double lr, double wd, double g, double *p, double *m, double *v)
{
    if (kind != ZINF_ADAMW)
        g += wd * *p;
    if (kind == ZINF_SGD) {
        *p -= lr * g;
        return;
    }
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.999 * *v + 0.001 * g * g;
    double m_hat = *m / (1 - std::pow(0.9, (double)t)), v_hat = *v / (1 - std::pow(0.999, (double)t));
    if (kind == ZINF_ADAMW)
        *p *= 1 - lr * wd;
    *p -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
}

TEST(UpdateScalars, AreComputedInDoubleAndRoundedOnce)
{
    zinf_update_scalars k = Scalars(ZINF_ADAMW, 7, 3e-4, 1.0 / 3);
    EXPECT_EQ(k.beta1, 0.9f);
    EXPECT_EQ(k.one_minus_beta1, (float)(1 - 0.9));
    EXPECT_EQ(k.one_minus_beta2, (float)(1 - 0.999));
    EXPECT_NE(k.one_minus_beta2, 1 - 0.999f);
    EXPECT_EQ(k.neg_step_size, (float)(-3e-4 / (1 - std::pow(0.9, 7))));
    EXPECT_EQ(k.inv_sqrt_c2, (float)(1 / std::sqrt(1 - std::pow(0.999, 7))));
    EXPECT_EQ(k.decay_factor, (float)(1 - 3e-4 * 0.01));
    EXPECT_EQ(k.grad_scale, (float)(1.0 / 3));
    EXPECT_EQ(Scalars(ZINF_ADAM_L2).decay_factor, 1.0f);
    EXPECT_EQ(Scalars(ZINF_SGD, 7, 3e-4).neg_step_size, -3e-4f);
}

TEST(UpdateScalars, WithoutBiasCorrectionTheStepIsTheLearningRate)
{
    zinf_optimizer_params params = { ZINF_ADAMW, 0.9, 0.999, 1e-8, 0.0, false };
    zinf_update_scalars k;
    zinf_update_scalars_set(&k, &params, 1, 1e-3, 1.0);
    EXPECT_EQ(k.neg_step_size, -1e-3f);
    EXPECT_EQ(k.inv_sqrt_c2, 1.0f);
}

class UpdateIsa : public ::testing::TestWithParam<zinf_isa>
{
};
INSTANTIATE_TEST_SUITE_P(Every, UpdateIsa, ::testing::ValuesIn(Isas()), zinf_test::IsaName);

/* Pain 11. The number is checked to 1e-8 in double; fp32 near 1 holds it to half of 2^-24. */
TEST_P(UpdateIsa, FirstStepGoldenNumbers)
{
    const struct {
        zinf_optimizer kind;
        double want;
    } cases[] = { { ZINF_ADAMW, 0.99899000 }, { ZINF_ADAM_L2, 0.99900000 } };
    for (const auto &c : cases) {
        double p = 1, m = 0, v = 0;
        ReferenceStep(c.kind, 1, 1e-3, 0.01, 0.1, &p, &m, &v);
        EXPECT_NEAR(p, c.want, 1e-8);
        for (zinf_dtype weights : kWeights) {
            State s(weights, ZINF_F32, 17, 0);
            for (uint64_t i = 0; i < 17; i++) {
                s.SetMaster(i, 1.0f);
                s.SetGrad(i, 0.1f);
                s.m[i] = s.v[i] = 0;
            }
            EXPECT_EQ(s.Run(GetParam(), Scalars(c.kind, 1, 1e-3, 1.0)), 0u);
            for (uint64_t i = 0; i < 17; i++)
                EXPECT_EQ(s.Master(i), (float)c.want) << i;
        }
    }
}

TEST_P(UpdateIsa, StaysNearFloat64OverManySteps)
{
    const uint64_t n = 999, steps = 50;
    ForEveryCombination([&](zinf_optimizer kind, zinf_dtype weights, zinf_dtype grads) {
        State s(weights, grads, n, 0);
        std::vector<double> p(n), m(n, 0.0), v(n, 0.0), moved(n, 0.0);
        Random random(11);
        for (uint64_t i = 0; i < n; i++) {
            float start = random.Value(-6, 1);
            s.SetMaster(i, start);
            p[i] = start;
            s.m[i] = s.v[i] = 0;
        }
        for (uint64_t t = 1; t <= steps; t++) {
            for (uint64_t i = 0; i < n; i++) {
                float g = zinf_bf16_to_f32(zinf_f32_to_bf16(random.Value(-8, 0)));
                double before = p[i];
                s.SetGrad(i, g);
                ReferenceStep(kind, t, 1e-3, 0.01, (double)g * 0.5, &p[i], &m[i], &v[i]);
                moved[i] += std::fabs(p[i] - before);
            }
            ASSERT_EQ(s.Run(GetParam(), Scalars(kind, t, 1e-3, 0.5)), 0u);
        }
        for (uint64_t i = 0; i < n; i++) {
            /* Per step: p is rounded after the decay and after the sum (2^-24 of it each), the decay factor itself is
             * half that off, and a few ulp of what was added. m and v are sums of like sizes. */
            double bound =
                (double)steps * 2.5 * std::ldexp(std::fabs(p[i]) + 0.01, -24) + 8 * std::ldexp(moved[i], -23);
            ASSERT_NEAR(s.Master(i), p[i], bound) << i;
            if (kind == ZINF_SGD)
                continue;
            ASSERT_NEAR(s.m[i], m[i], std::ldexp(1.0, -20)) << i;
            ASSERT_NEAR(s.v[i], v[i], v[i] * std::ldexp(1.0, -18)) << i;
        }
    });
}

/* Pains 15 and 17. */
TEST_P(UpdateIsa, EveryLengthOffsetAndTypeEqualsScalar)
{
    ForEveryCombination([&](zinf_optimizer kind, zinf_dtype weights, zinf_dtype grads) {
        for (uint64_t n : Lengths()) {
            for (uint64_t offset = 0; offset < 16; offset++) {
                State want(weights, grads, n, 0), got(weights, grads, n, offset);
                want.Fill(n + offset);
                got.Fill(n + offset);
                zinf_update_scalars k = Scalars(kind, 1 + offset);
                ASSERT_EQ(want.Run(ZINF_ISA_SCALAR, k), 0u);
                ASSERT_EQ(got.Run(GetParam(), k), 0u);
                ASSERT_TRUE(got.SameBytes(want)) << "n " << n << " offset " << offset;
                ASSERT_TRUE(got.GuardsIntact()) << "n " << n << " offset " << offset;
            }
        }
    });
}

/* Any bits at all, also those no training reaches: equal wherever both are numbers, NaN in the same places. */
TEST_P(UpdateIsa, AnyBitsEqualScalarUpToThePayloadOfNan)
{
    const uint64_t n = 4097;
    ForEveryCombination([&](zinf_optimizer kind, zinf_dtype weights, zinf_dtype grads) {
        State want(weights, grads, n, 0), got(weights, grads, n, 3);
        Random random(5);
        for (uint64_t i = 0; i < n; i++) {
            float p = zinf_f32_from_bits(random.Bits()), g = zinf_f32_from_bits(random.Bits());
            float m = zinf_f32_from_bits(random.Bits()), v = zinf_f32_from_bits(random.Bits() & 0x7fffffff);
            for (State *s : { &want, &got }) {
                s->SetMaster(i, p);
                s->SetGrad(i, g);
                s->m[i] = m;
                s->v[i] = v;
            }
        }
        ASSERT_EQ(got.Run(GetParam(), Scalars(kind)), want.Run(ZINF_ISA_SCALAR, Scalars(kind)));
        auto same = [](float a, float b) {
            return zinf_f32_bits(a) == zinf_f32_bits(b) || (std::isnan(a) && std::isnan(b));
        };
        for (uint64_t i = 0; i < n; i++) {
            ASSERT_TRUE(same(got.Master(i), want.Master(i))) << i;
            ASSERT_TRUE(same(got.m[i], want.m[i])) << i;
            ASSERT_TRUE(same(got.v[i], want.v[i])) << i;
        }
    });
}

/* Pain 16. */
TEST_P(UpdateIsa, PartitionsOfARangeGiveTheBitsOfTheWhole)
{
    const uint64_t n = 10007;
    ForEveryCombination([&](zinf_optimizer kind, zinf_dtype weights, zinf_dtype grads) {
        State whole(weights, grads, n, 0);
        whole.Fill(1);
        whole.Run(GetParam(), Scalars(kind));
        for (uint64_t seed = 0; seed < 4; seed++) {
            State cut(weights, grads, n, 0);
            Random random(seed);
            cut.Fill(1);
            for (uint64_t at = 0; at < n;) {
                uint64_t nr = std::min(n - at, random.Below(seed == 0 ? 40 : 2000));
                zinf_update u = cut.Update(Scalars(kind), at, nr);
                uint32_t bad = 0;
                zinf_update_range(GetParam(), &u, &bad);
                ASSERT_EQ(bad, 0u);
                at += nr;
            }
            ASSERT_TRUE(cut.SameBytes(whole)) << "cuts " << seed;
        }
    });
}

TEST_P(UpdateIsa, ZeroElementsTouchNothing)
{
    zinf_update u = {};
    uint32_t bad = ZINF_BAD_M;
    u.k = Scalars(ZINF_ADAMW);
    zinf_update_range(GetParam(), &u, &bad);
    EXPECT_EQ(bad, (uint32_t)ZINF_BAD_M);
}

constexpr uint32_t kAllBad = ZINF_BAD_WEIGHT | ZINF_BAD_M | ZINF_BAD_V;

TEST_P(UpdateIsa, OneBadElementAnywhereIsReported)
{
    const uint64_t n = 67;
    for (zinf_dtype weights : kWeights) {
        for (uint64_t at = 0; at < n; at++) {
            State s(weights, ZINF_F32, n, 1);
            auto run = [&](zinf_optimizer kind) { return s.Run(GetParam(), Scalars(kind, 3, 1e-3, 1.0)); };
            for (float g : { NAN, INFINITY, -INFINITY }) {
                s.Calm();
                s.SetGrad(at, g);
                ASSERT_EQ(run(ZINF_ADAMW), kAllBad) << at;
                s.Calm();
                s.SetGrad(at, g);
                ASSERT_EQ(run(ZINF_SGD), (uint32_t)ZINF_BAD_WEIGHT) << at;
            }
            s.Calm();
            s.SetGrad(at, 1e25f); /* its square overflows, nothing else does */
            ASSERT_EQ(run(ZINF_ADAMW), (uint32_t)ZINF_BAD_V) << at;
            s.Calm();
            s.m[at] = INFINITY;
            ASSERT_EQ(run(ZINF_ADAM_L2), (uint32_t)(ZINF_BAD_M | ZINF_BAD_WEIGHT)) << at;
            s.Calm();
            s.v[at] = -1.0f; /* no square: its root is NaN, it is a number */
            ASSERT_EQ(run(ZINF_ADAMW), (uint32_t)ZINF_BAD_WEIGHT) << at;
            s.Calm();
            ASSERT_EQ(run(ZINF_ADAMW), 0u);
        }
    }
}

TEST_P(UpdateIsa, AMasterThatHiHidesIsReported)
{
    const uint64_t n = 67;
    /* NaNs that show as 0 in hi, and finite numbers that show as infinity. */
    for (uint32_t bits : { 0x7fffc000u, 0xffffc000u, 0x7f7fc000u, 0xff7fffffu }) {
        for (uint64_t at = 0; at < n; at++) {
            State s(ZINF_BF16, ZINF_BF16, n, 0);
            s.Calm();
            s.SetMaster(at, zinf_f32_from_bits(bits));
            ASSERT_EQ(zinf_f32_bits(s.Master(at)), bits);
            ASSERT_EQ(s.Run(GetParam(), Scalars(ZINF_SGD, 1, 1e-30, 1.0)) & ZINF_BAD_WEIGHT, (uint32_t)ZINF_BAD_WEIGHT)
                << std::hex << bits << " at " << at;
        }
    }
    State s(ZINF_F32, ZINF_BF16, n, 0);
    s.Calm();
    s.SetMaster(5, zinf_f32_from_bits(0xff7fff00u)); /* a whole fp32 parameter this large is still a number */
    zinf_update_scalars k = Scalars(ZINF_SGD, 1, 1e-30, 1.0);
    k.weight_decay = 0;
    EXPECT_EQ(s.Run(GetParam(), k), 0u);
}

TEST_P(UpdateIsa, PoolOfAnySizeGivesTheBitsAndFlagsOfOneRange)
{
    const uint64_t n = 3 * 65536 + 77;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        zinf_status st = {};
        zinf_pool *pool = nullptr;
        ASSERT_EQ(zinf_pool_open(threads, &pool, &st), 0) << st.text;
        for (zinf_optimizer kind : kKinds) {
            State whole(ZINF_BF16, ZINF_BF16, n, 0), tiled(ZINF_BF16, ZINF_BF16, n, 0);
            whole.Fill(2);
            tiled.Fill(2);
            zinf_update u = tiled.Update(Scalars(kind), 0, n);
            uint32_t bad = kAllBad;
            whole.Run(GetParam(), Scalars(kind));
            zinf_update_pool(GetParam(), pool, &u, &bad);
            EXPECT_EQ(bad, 0u);
            EXPECT_TRUE(tiled.SameBytes(whole)) << threads;
            tiled.SetGrad(n - 1, NAN);
            zinf_update_pool(GetParam(), pool, &u, &bad);
            EXPECT_EQ(bad, kind == ZINF_SGD ? (uint32_t)ZINF_BAD_WEIGHT : kAllBad);
            u.n = 0;
            zinf_update_pool(GetParam(), pool, &u, &bad);
            EXPECT_EQ(bad, 0u);
        }
        zinf_pool_close(pool);
    }
}

TEST_P(UpdateIsa, ClippedGradientsOfTheThreeFourFiveTriangle)
{
    const float grads[2] = { 3, 4 };
    float sum = 0;
    zinf_norm_out out = { &sum, 0, 0 };
    State s(ZINF_F32, ZINF_F32, 2, 0);
    zinf_round_norm_range(GetParam(), s.grad.get(), ZINF_F32, nullptr, grads, 2, &out);
    double norm = std::sqrt(zinf_norm_total(&sum, 1, 0.0));
    EXPECT_EQ(norm, 5.0);
    zinf_update_scalars k = Scalars(ZINF_SGD, 1, 1.0, 1.0 / norm);
    k.weight_decay = 0;
    s.SetMaster(0, 0.0f);
    s.SetMaster(1, 0.0f);
    EXPECT_EQ(s.Run(GetParam(), k), 0u);
    EXPECT_FLOAT_EQ(s.Master(0), -0.6f);
    EXPECT_FLOAT_EQ(s.Master(1), -0.8f);
}

/* All upper halves with the lower halves around the rounding and a spread of others: 2^24 patterns. */
TEST(SplitMaster, SplitAndJoinAreExactAndHiIsTheNearest)
{
    std::vector<float> master(256), back(256);
    std::vector<uint16_t> hi(256);
    std::vector<int16_t> lo(256);
    for (uint32_t top = 0; top < 65536; top++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t low = i < 128   ? (i * 521 + top) & 0xffff
                           : i < 192 ? 0x8000 - 32 + (i - 128)
                                     : (i - 192 - 32) & 0xffff;
            master[i] = zinf_f32_from_bits(top << 16 | low);
        }
        zinf_split_range(master.data(), hi.data(), lo.data(), 256);
        zinf_join_range(hi.data(), lo.data(), back.data(), 256);
        ASSERT_EQ(memcmp(master.data(), back.data(), 1024), 0) << top;
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t low = zinf_f32_bits(master[i]) & 0xffff;
            ASSERT_EQ(hi[i], (uint16_t)(top + (low >= 0x8000 ? 1 : 0))) << top << " " << low;
        }
    }
}

TEST(SplitMaster, SplitRangeNamesTheFirstThatIsNotFinite)
{
    for (uint32_t bits :
         { 0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fffffffu, 0xffff8000u, 0x7f7f8000u, 0xff7fffffu }) {
        std::vector<float> master(100, 1.0f), back(100);
        std::vector<uint16_t> hi(100);
        std::vector<int16_t> lo(100);
        EXPECT_EQ(zinf_split_range(master.data(), hi.data(), lo.data(), 100), 100u);
        master[41] = master[77] = zinf_f32_from_bits(bits);
        EXPECT_EQ(zinf_split_range(master.data(), hi.data(), lo.data(), 100), 41u) << std::hex << bits;
        zinf_join_range(hi.data(), lo.data(), back.data(), 100);
        EXPECT_EQ(memcmp(master.data(), back.data(), 400), 0) << std::hex << bits;
    }
    const float largest = zinf_f32_from_bits(0x7f7f7fff);
    uint16_t h;
    int16_t l;
    EXPECT_EQ(zinf_split_range(&largest, &h, &l, 1), 1u);
    EXPECT_EQ(h, 0x7f7f);
}

} // namespace
