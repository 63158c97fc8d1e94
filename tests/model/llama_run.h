/* tests/model/llama_run.h - runs a model's chain on the CPU device as the engine would: every buffer poisoned first. */
#ifndef ZINF_TESTS_MODEL_LLAMA_RUN_H_
#define ZINF_TESTS_MODEL_LLAMA_RUN_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_device.h"
#include "kernels/device.h"
#include "zinf/base/philox.h"
#include "zinf/base/pool.h"
#include "zinf/model/model.h"

/* Exactly nbytes, at a page, filled with NaN patterns: AddressSanitizer sees a byte too far, a result
 * sees a stale read. */
class Poisoned {
  public:
    explicit Poisoned(size_t nbytes) : nbytes_(nbytes)
    {
        if (posix_memalign(&p_, 4096, nbytes ? nbytes : 1))
            abort();
        memset(p_, 0xff, nbytes);
    }
    ~Poisoned() { free(p_); }
    Poisoned(const Poisoned &) = delete;
    Poisoned &operator=(const Poisoned &) = delete;
    void *get() const { return p_; }
    float *floats() const { return (float *)p_; }
    size_t nbytes() const { return nbytes_; }

  private:
    void *p_ = nullptr;
    size_t nbytes_;
};
using Buffer = std::unique_ptr<Poisoned>;

inline Buffer buffer(size_t nbytes) { return std::make_unique<Poisoned>(nbytes); }

struct Batch {
    uint32_t batch, seq;
    std::vector<int32_t> tokens, targets;
    uint64_t rows() const { return (uint64_t)batch * seq; }
};

inline Batch make_batch(uint32_t batch, uint32_t seq, uint64_t vocab)
{
    Batch b{ batch, seq, {}, {} };

    for (uint64_t r = 0; r < b.rows(); r++) {
        b.tokens.push_back((int32_t)((r * 7 + r * r * 3 + 1) % vocab));
        b.targets.push_back(r % 5 == 3 ? -1 : (int32_t)((r * 5 + 2) % vocab));
    }
    return b;
}

class LlamaRun {
  public:
    LlamaRun(const zinf_model *m, zinf_dtype dtype, uint32_t threads) : m_(m), dtype_(dtype)
    {
        zinf_status st = {};
        EXPECT_EQ(0, zinf_pool_open(threads, &pool_, &st)) << st.text;
        zinf_device_opts o = {};
        o.pool = pool_;
        o.scratch_nbytes = zinf_cpu_scratch_nbytes();
        EXPECT_EQ(0, zinf_cpu_device_ops.open(&o, &dev_, &st)) << st.text;
        stream_ = zinf_cpu_stream_now(dev_);
        each_param([&](const zinf_param &p) {
            uint64_t n = zinf_param_elems(&p);
            std::vector<float> v(n);
            zinf_normal_fill(5, zinf_hash_name(p.name), 0, n, p.nr_dims == 1 ? 1.f : 0.f, p.nr_dims == 1 ? 0.2f : p.std,
                             v.data());
            Buffer b = buffer(n * zinf_dtype_nbytes(dtype_));
            ops()->cast(stream_, b->get(), dtype_, v.data(), ZINF_F32, n);
            ops()->cast(stream_, v.data(), ZINF_F32, b->get(), dtype_, n);
            params_[p.name] = std::move(b);
            values_[p.name] = std::vector<double>(v.begin(), v.end());
            grads_[p.name] = buffer(n * sizeof(float));
        });
    }
    ~LlamaRun()
    {
        zinf_cpu_device_ops.close(dev_);
        zinf_pool_close(pool_);
    }
    LlamaRun(const LlamaRun &) = delete;
    LlamaRun &operator=(const LlamaRun &) = delete;

    /* Parameters as the device has them, in double. */
    const std::map<std::string, std::vector<double>> &values() const { return values_; }
    /* After backward. */
    std::vector<float> grad(const std::string &name) const
    {
        const float *g = grads_.at(name)->floats();
        return std::vector<float>(g, g + grads_.at(name)->nbytes() / sizeof(float));
    }
    const std::vector<float> &row_loss() const { return row_loss_; }

    void forward(const Batch &b)
    {
        uint64_t nbytes = b.rows() * m_->chain.width * zinf_dtype_nbytes(dtype_);
        x_.clear();
        x_.push_back(buffer(nbytes));
        ASSERT_EQ(0, ops()->gather_rows(stream_, x_[0]->get(), params_.at("model.embed_tokens.weight")->get(), dtype_,
                                        b.tokens.data(), b.rows(), m_->chain.width));
        for (uint32_t l = 0; l < m_->chain.nr_layers; l++) {
            x_.push_back(buffer(nbytes));
            call(b, &m_->chain.layers[l], l, false, 0, nullptr);
        }
        call(b, m_->chain.head, m_->chain.nr_layers, false, 0, nullptr);
    }

    /* forward must have run. beta goes to every layer; the embedding's gradient is added in double as
     * the engine adds rows. */
    void backward(const Batch &b, float beta)
    {
        Buffer dx = buffer(x_[0]->nbytes());
        uint64_t width = m_->chain.width;

        call(b, m_->chain.head, m_->chain.nr_layers, true, beta, dx->get());
        for (uint32_t l = m_->chain.nr_layers; l-- > 0;)
            call(b, &m_->chain.layers[l], l, true, beta, dx->get());
        std::vector<float> d(b.rows() * width);
        ASSERT_EQ(0, ops()->cast(stream_, d.data(), ZINF_F32, dx->get(), dtype_, d.size()));
        float *g = grads_.at("model.embed_tokens.weight")->floats();
        if (!m_->chain.tied && beta == 0)
            memset(g, 0, grads_.at("model.embed_tokens.weight")->nbytes());
        for (uint64_t r = 0; r < b.rows(); r++)
            for (uint64_t i = 0; i < width; i++)
                g[(uint64_t)b.tokens[r] * width + i] += d[r * width + i];
    }

    template <typename Fn> void each_param(Fn fn) const
    {
        fn(*m_->chain.embedding);
        for (uint32_t l = 0; l <= m_->chain.nr_layers; l++)
            for (uint32_t i = 0; i < m_->chain.layers[l].nr_params; i++)
                if (m_->chain.layers[l].params[i].name != std::string(m_->chain.embedding->name))
                    fn(m_->chain.layers[l].params[i]);
    }

  private:
    static const zinf_device_ops *ops() { return &zinf_cpu_device_ops; }

    void call(const Batch &b, const zinf_layer *l, uint32_t at, bool backward, float beta, void *dx)
    {
        std::vector<const void *> params;
        std::vector<float *> grads;
        for (uint32_t i = 0; i < l->nr_params; i++) {
            params.push_back(params_.at(l->params[i].name)->get());
            grads.push_back(grads_.at(l->params[i].name)->floats());
        }
        Buffer work = buffer(l->work_nbytes(l, b.batch, b.seq, m_->chain.width));
        Buffer constants = buffer(l->constants_nbytes ? l->constants_nbytes(l, b.batch, b.seq) : 0);
        if (l->constants)
            l->constants(l, b.batch, b.seq, constants->get());
        zinf_call c = {};
        c.ops = ops();
        c.stream = stream_;
        c.batch = b.batch;
        c.seq = b.seq;
        c.rows = b.rows();
        c.width = m_->chain.width;
        c.dtype = dtype_;
        c.params = params.data();
        c.x = x_[at]->get();
        c.y = backward || l == m_->chain.head ? nullptr : x_[at + 1]->get();
        c.dx = dx;
        c.grads = backward ? grads.data() : nullptr;
        c.beta = beta;
        c.work = work->get();
        c.constants = constants->get();
        if (l == m_->chain.head) {
            row_loss_.assign(b.rows(), NAN);
            c.targets = b.targets.data();
            c.grad_scale = 1.f;
            c.row_loss = row_loss_.data();
        }
        ASSERT_EQ(0, backward ? l->backward(l, &c) : l->forward(l, &c));
    }

    const zinf_model *m_;
    zinf_dtype dtype_;
    zinf_pool *pool_ = nullptr;
    zinf_device *dev_ = nullptr;
    zinf_stream *stream_ = nullptr;
    std::map<std::string, Buffer> params_, grads_;
    std::map<std::string, std::vector<double>> values_;
    std::vector<Buffer> x_;
    std::vector<float> row_loss_;
};

#endif /* ZINF_TESTS_MODEL_LLAMA_RUN_H_ */
