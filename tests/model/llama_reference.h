/* tests/model/llama_reference.h - a Llama decoder in double, written from its definition and not from zinf's layers:
 * loss of a batch as a function of the parameters. Gradients come from central differences. */
#ifndef ZINF_TESTS_MODEL_LLAMA_REFERENCE_H_
#define ZINF_TESTS_MODEL_LLAMA_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "zinf/model/llama.h"

using Vec = std::vector<double>;
using Params = std::map<std::string, Vec>;

class LlamaReference {
  public:
    explicit LlamaReference(const zinf_llama &m) : m_(m) {}

    /* Loss of every row; rows are batch x seq. */
    Vec rows(const Params &p, const std::vector<int32_t> &tokens, const std::vector<int32_t> &targets,
             uint64_t seq) const
    {
        uint64_t n = tokens.size();
        Vec x(n * m_.hidden);

        for (uint64_t r = 0; r < n; r++)
            for (uint64_t i = 0; i < m_.hidden; i++)
                x[r * m_.hidden + i] = p.at("model.embed_tokens.weight")[(uint64_t)tokens[r] * m_.hidden + i];
        for (uint32_t l = 0; l < m_.nr_layers; l++)
            x = layer(p, "model.layers." + std::to_string(l) + ".", x, n, seq);
        return losses(p, x, targets, n);
    }

    double total(const Params &p, const std::vector<int32_t> &tokens, const std::vector<int32_t> &targets,
                 uint64_t seq) const
    {
        double sum = 0;

        for (double v : rows(p, tokens, targets, seq))
            sum += v;
        return sum;
    }

  private:
    static Vec linear(const Vec &x, const Vec &w, uint64_t n, uint64_t in)
    {
        uint64_t out = w.size() / in;
        Vec y(n * out);

        for (uint64_t r = 0; r < n; r++)
            for (uint64_t o = 0; o < out; o++)
                for (uint64_t i = 0; i < in; i++)
                    y[r * out + o] += x[r * in + i] * w[o * in + i];
        return y;
    }

    Vec norm(const Vec &x, const Vec &w, uint64_t n) const
    {
        uint64_t width = w.size();
        Vec y(x.size());

        for (uint64_t r = 0; r < n; r++) {
            double sum = 0;
            for (uint64_t i = 0; i < width; i++)
                sum += x[r * width + i] * x[r * width + i];
            for (uint64_t i = 0; i < width; i++)
                y[r * width + i] = x[r * width + i] / std::sqrt(sum / (double)width + (double)m_.eps) * w[i];
        }
        return y;
    }

    void rotate(Vec &x, uint64_t n, uint64_t seq, uint64_t heads) const
    {
        uint64_t d = m_.head_dim;

        for (uint64_t r = 0; r < n; r++)
            for (uint64_t h = 0; h < heads; h++)
                for (uint64_t i = 0; i < d / 2; i++) {
                    double angle = (double)(r % seq) / std::pow(m_.rope_theta, 2.0 * (double)i / (double)d);
                    double &a = x[(r * heads + h) * d + i], &b = x[(r * heads + h) * d + i + d / 2];
                    double re = a * std::cos(angle) - b * std::sin(angle),
                           im = b * std::cos(angle) + a * std::sin(angle);
                    a = re;
                    b = im;
                }
    }

    Vec attend(const Vec &q, const Vec &k, const Vec &v, uint64_t n, uint64_t seq) const
    {
        uint64_t d = m_.head_dim, group = m_.nr_heads / m_.nr_kv_heads;
        Vec o(q.size());

        for (uint64_t r = 0; r < n; r++)
            for (uint64_t h = 0; h < m_.nr_heads; h++) {
                uint64_t first = r / seq * seq;
                Vec score;
                double top = -1e300, sum = 0;
                for (uint64_t t = first; t <= r; t++) {
                    double s = 0;
                    for (uint64_t i = 0; i < d; i++)
                        s += q[(r * m_.nr_heads + h) * d + i] * k[(t * m_.nr_kv_heads + h / group) * d + i];
                    score.push_back(s / std::sqrt((double)d));
                    top = std::max(top, score.back());
                }
                for (double &s : score)
                    sum += s = std::exp(s - top);
                for (uint64_t t = first; t <= r; t++)
                    for (uint64_t i = 0; i < d; i++)
                        o[(r * m_.nr_heads + h) * d + i] +=
                            score[t - first] / sum * v[(t * m_.nr_kv_heads + h / group) * d + i];
            }
        return o;
    }

    Vec layer(const Params &p, const std::string &at, const Vec &x, uint64_t n, uint64_t seq) const
    {
        Vec h = norm(x, p.at(at + "input_layernorm.weight"), n), y = x;
        Vec q = linear(h, p.at(at + "self_attn.q_proj.weight"), n, m_.hidden);
        Vec k = linear(h, p.at(at + "self_attn.k_proj.weight"), n, m_.hidden);
        Vec v = linear(h, p.at(at + "self_attn.v_proj.weight"), n, m_.hidden);

        rotate(q, n, seq, m_.nr_heads);
        rotate(k, n, seq, m_.nr_kv_heads);
        Vec o = linear(attend(q, k, v, n, seq), p.at(at + "self_attn.o_proj.weight"), n, m_.nr_heads * m_.head_dim);
        for (size_t i = 0; i < y.size(); i++)
            y[i] += o[i];
        h = norm(y, p.at(at + "post_attention_layernorm.weight"), n);
        Vec g = linear(h, p.at(at + "mlp.gate_proj.weight"), n, m_.hidden);
        Vec u = linear(h, p.at(at + "mlp.up_proj.weight"), n, m_.hidden);
        for (size_t i = 0; i < g.size(); i++)
            g[i] *= u[i] / (1 + std::exp(-g[i]));
        o = linear(g, p.at(at + "mlp.down_proj.weight"), n, m_.intermediate);
        for (size_t i = 0; i < y.size(); i++)
            y[i] += o[i];
        return y;
    }

    Vec losses(const Params &p, const Vec &x, const std::vector<int32_t> &targets, uint64_t n) const
    {
        Vec logits = linear(norm(x, p.at("model.norm.weight"), n),
                            p.at(m_.tied ? "model.embed_tokens.weight" : "lm_head.weight"), n, m_.hidden);
        Vec loss(n);

        for (uint64_t r = 0; r < n; r++) {
            double top = -1e300, sum = 0;
            if (targets[r] < 0)
                continue;
            for (uint64_t i = 0; i < m_.vocab; i++)
                top = std::max(top, logits[r * m_.vocab + i]);
            for (uint64_t i = 0; i < m_.vocab; i++)
                sum += std::exp(logits[r * m_.vocab + i] - top);
            loss[r] = top + std::log(sum) - logits[r * m_.vocab + (uint64_t)targets[r]];
        }
        return loss;
    }

    zinf_llama m_;
};

#endif /* ZINF_TESTS_MODEL_LLAMA_REFERENCE_H_ */
