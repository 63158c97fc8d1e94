/* tests/kernels/reference.cc - every operation of kernels/device.h in double. */
#include "tests/kernels/reference.h"

#include <cmath>

namespace zinf_ref {

void Gemm(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const Vec &a, const Vec &b, double beta,
          Vec *c)
{
    for (uint64_t i = 0; i < m; i++) {
        for (uint64_t j = 0; j < n; j++) {
            double sum = 0;
            for (uint64_t p = 0; p < k; p++)
                sum += a[trans_a ? p * m + i : i * k + p] * b[trans_b ? j * k + p : p * n + j];
            (*c)[i * n + j] = beta != 0 ? beta * (*c)[i * n + j] + sum : sum;
        }
    }
}

Vec RmsNormForward(const Vec &x, const Vec &w, uint64_t width, double eps, Vec *rstd)
{
    Vec y(x.size());
    rstd->assign(x.size() / width, 0);
    for (uint64_t r = 0; r < rstd->size(); r++) {
        double sum = 0;
        for (uint64_t i = 0; i < width; i++)
            sum += x[r * width + i] * x[r * width + i];
        (*rstd)[r] = 1 / std::sqrt(sum / (double)width + eps);
        for (uint64_t i = 0; i < width; i++)
            y[r * width + i] = x[r * width + i] * (*rstd)[r] * w[i];
    }
    return y;
}

void RmsNormBackward(const Vec &dy, const Vec &x, const Vec &w, uint64_t width, double eps, Vec *dx, Vec *dw)
{
    Vec rstd;
    RmsNormForward(x, w, width, eps, &rstd);
    dx->assign(x.size(), 0);
    dw->assign(width, 0);
    for (uint64_t r = 0; r < rstd.size(); r++) {
        double s = rstd[r], sum = 0;
        for (uint64_t i = 0; i < width; i++)
            sum += dy[r * width + i] * w[i] * x[r * width + i];
        for (uint64_t i = 0; i < width; i++) {
            uint64_t at = r * width + i;
            (*dx)[at] = dy[at] * w[i] * s - x[at] * s * s * s * sum / (double)width;
            (*dw)[i] += dy[at] * x[at] * s;
        }
    }
}

Vec Rope(const Vec &x, uint64_t seq, uint64_t nr_heads, uint64_t head_dim, const Vec &cos_sin, double sin_sign)
{
    Vec y(x.size());
    uint64_t half = head_dim / 2;
    for (uint64_t h = 0; h < x.size() / head_dim; h++) {
        uint64_t pos = h / nr_heads % seq;
        for (uint64_t i = 0; i < half; i++) {
            double c = cos_sin[(pos * half + i) * 2], s = cos_sin[(pos * half + i) * 2 + 1] * sin_sign;
            double lo = x[h * head_dim + i], hi = x[h * head_dim + half + i];
            y[h * head_dim + i] = lo * c - hi * s;
            y[h * head_dim + half + i] = hi * c + lo * s;
        }
    }
    return y;
}

namespace {

/* Places of row t of a head in q-like and in k-like tensors. */
struct Places {
    const Attention &a;
    uint64_t b, head;
    uint64_t Q(uint64_t t) const { return ((b * a.seq + t) * a.nr_heads + head) * a.head_dim; }
    uint64_t K(uint64_t t) const
    {
        return ((b * a.seq + t) * a.nr_kv_heads + head / (a.nr_heads / a.nr_kv_heads)) * a.head_dim;
    }
};

uint64_t FirstKey(const Attention &a, uint64_t t) { return a.window && t + 1 > a.window ? t + 1 - a.window : 0; }

double Dot(const Vec &x, uint64_t at_x, const Vec &y, uint64_t at_y, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += x[at_x + i] * y[at_y + i];
    return sum;
}

/* Probabilities of query t over the keys [FirstKey, t]; returns the log of the sum. */
double Probabilities(const Attention &a, const Places &at, const Vec &q, const Vec &k, uint64_t t, Vec *p)
{
    double max = -INFINITY, sum = 0;
    p->clear();
    for (uint64_t j = FirstKey(a, t); j <= t; j++) {
        p->push_back(a.scale * Dot(q, at.Q(t), k, at.K(j), a.head_dim));
        max = std::fmax(max, p->back());
    }
    for (double &x : *p)
        sum += std::exp(x - max);
    for (double &x : *p)
        x = std::exp(x - max) / sum;
    return max + std::log(sum);
}

} // namespace

Vec AttentionForward(const Attention &a, const Vec &q, const Vec &k, const Vec &v, Vec *lse)
{
    Vec o(q.size(), 0), p;
    lse->assign(a.batch * a.nr_heads * a.seq, 0);
    for (uint64_t row = 0; row < a.batch * a.nr_heads; row++) {
        Places at{ a, row / a.nr_heads, row % a.nr_heads };
        for (uint64_t t = 0; t < a.seq; t++) {
            (*lse)[row * a.seq + t] = Probabilities(a, at, q, k, t, &p);
            for (uint64_t j = 0; j < p.size(); j++)
                for (uint64_t i = 0; i < a.head_dim; i++)
                    o[at.Q(t) + i] += p[j] * v[at.K(FirstKey(a, t) + j) + i];
        }
    }
    return o;
}

void AttentionBackward(const Attention &a, const Vec &q, const Vec &k, const Vec &v, const Vec &d_o, Vec *dq, Vec *dk,
                       Vec *dv)
{
    Vec p, dp;
    dq->assign(q.size(), 0);
    dk->assign(k.size(), 0);
    dv->assign(v.size(), 0);
    for (uint64_t row = 0; row < a.batch * a.nr_heads; row++) {
        Places at{ a, row / a.nr_heads, row % a.nr_heads };
        for (uint64_t t = 0; t < a.seq; t++) {
            double mean = 0;
            Probabilities(a, at, q, k, t, &p);
            dp.assign(p.size(), 0);
            for (uint64_t j = 0; j < p.size(); j++) {
                dp[j] = Dot(d_o, at.Q(t), v, at.K(FirstKey(a, t) + j), a.head_dim);
                mean += p[j] * dp[j];
            }
            for (uint64_t j = 0; j < p.size(); j++) {
                uint64_t key = at.K(FirstKey(a, t) + j);
                double ds = a.scale * p[j] * (dp[j] - mean);
                for (uint64_t i = 0; i < a.head_dim; i++) {
                    (*dq)[at.Q(t) + i] += ds * k[key + i];
                    (*dk)[key + i] += ds * q[at.Q(t) + i];
                    (*dv)[key + i] += p[j] * d_o[at.Q(t) + i];
                }
            }
        }
    }
}

Vec SwiGluForward(const Vec &g, const Vec &u)
{
    Vec h(g.size());
    for (uint64_t i = 0; i < g.size(); i++)
        h[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
    return h;
}

void SwiGluBackward(const Vec &dh, const Vec &g, const Vec &u, Vec *dg, Vec *du)
{
    dg->assign(g.size(), 0);
    du->assign(g.size(), 0);
    for (uint64_t i = 0; i < g.size(); i++) {
        double s = 1 / (1 + std::exp(-g[i]));
        (*dg)[i] = dh[i] * u[i] * (s + g[i] * s * (1 - s));
        (*du)[i] = dh[i] * g[i] * s;
    }
}

Vec CrossEntropy(const Vec &logits, uint64_t vocab, const std::vector<int32_t> &targets, double grad_scale,
                 Vec *dlogits)
{
    Vec loss(targets.size(), 0);
    dlogits->assign(logits.size(), 0);
    for (uint64_t r = 0; r < targets.size(); r++) {
        double max = -INFINITY, sum = 0;
        if (targets[r] < 0)
            continue;
        for (uint64_t i = 0; i < vocab; i++)
            max = std::fmax(max, logits[r * vocab + i]);
        for (uint64_t i = 0; i < vocab; i++)
            sum += std::exp(logits[r * vocab + i] - max);
        loss[r] = max + std::log(sum) - logits[r * vocab + (uint64_t)targets[r]];
        for (uint64_t i = 0; i < vocab; i++)
            (*dlogits)[r * vocab + i] =
                grad_scale * (std::exp(logits[r * vocab + i] - max) / sum - (i == (uint64_t)targets[r] ? 1 : 0));
    }
    return loss;
}

} // namespace zinf_ref
