/* tests/kernels/cpu_fixture.h - the CPU device in one configuration, and numbers for it. */
#ifndef ZINF_TESTS_KERNELS_CPU_FIXTURE_H_
#define ZINF_TESTS_KERNELS_CPU_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/openblas.h"
#include "kernels/device.h"
#include "tests/kernels/test_data.h"
#include "zinf/base/cpu.h"
#include "zinf/base/dtype.h"
#include "zinf/base/pool.h"

namespace zinf_test {

struct CpuConfig {
    zinf_isa isa;
    const char *gemm;
};

/* Every build of the kernels with every product. AVX-512 shares AVX2's build. */
inline std::vector<CpuConfig> CpuConfigs()
{
    std::vector<CpuConfig> all;
    for (zinf_isa isa : Isas()) {
        if (isa == ZINF_ISA_AVX512)
            continue;
        all.push_back({ isa, "own" });
        if (zinf_openblas_linked())
            all.push_back({ isa, "openblas" });
    }
    return all;
}

inline void PrintTo(const CpuConfig &c, std::ostream *os) { *os << zinf_isa_name(c.isa) << " " << c.gemm; }

inline std::string CpuConfigName(const ::testing::TestParamInfo<CpuConfig> &info)
{
    return std::string(zinf_isa_name(info.param.isa)) + info.param.gemm;
}

class CpuDevice {
public:
    CpuDevice(const CpuConfig &config, uint32_t nr_threads)
    {
        zinf_status st = {};
        zinf_device_opts opts = {};
        setenv("ZINF_ISA", zinf_isa_name(config.isa), 1);
        setenv("ZINF_GEMM", config.gemm, 1);
        EXPECT_EQ(0, zinf_pool_open(nr_threads, &pool_, &st)) << st.text;
        opts.pool = pool_;
        EXPECT_EQ(0, ops().open(&opts, &dev_, &st)) << st.text;
        unsetenv("ZINF_ISA");
        unsetenv("ZINF_GEMM");
    }
    ~CpuDevice()
    {
        ops().close(dev_);
        zinf_pool_close(pool_);
    }
    CpuDevice(const CpuDevice &) = delete;
    const zinf_device_ops &ops() const { return zinf_cpu_device_ops; }
    zinf_device *get() const { return dev_; }
    zinf_pool *pool() const { return pool_; }
    zinf_stream *now() const { return zinf_cpu_stream_now(dev_); }

private:
    zinf_pool *pool_ = nullptr;
    zinf_device *dev_ = nullptr;
};

inline const std::vector<float> NaNs(uint64_t n)
{
    return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN());
}

inline std::vector<float> RandomFloats(Random *rng, uint64_t n, double magnitude = 1)
{
    std::vector<float> v(n);
    for (float &x : v)
        x = (float)(magnitude * (2 * rng->Uniform() - 1));
    return v;
}

inline std::vector<double> Wide(const std::vector<float> &x) { return std::vector<double>(x.begin(), x.end()); }

/* Values stored in a type, kept as the bytes a kernel reads and as the exact values they stand for. */
struct Stored {
    zinf_dtype dtype;
    std::vector<unsigned char> bytes;
    std::vector<double> values;

    Stored(zinf_dtype t, const std::vector<float> &x)
        : dtype(t), bytes(x.size() * zinf_dtype_nbytes(t)), values(x.size())
    {
        for (uint64_t i = 0; i < x.size(); i++) {
            if (t == ZINF_F32) {
                memcpy(&bytes[4 * i], &x[i], 4);
                values[i] = x[i];
                continue;
            }
            uint16_t h = t == ZINF_BF16 ? zinf_f32_to_bf16(x[i]) : zinf_f32_to_f16(x[i]);
            memcpy(&bytes[2 * i], &h, 2);
            values[i] = t == ZINF_BF16 ? zinf_bf16_to_f32(h) : zinf_f16_to_f32(h);
        }
    }
    float At(uint64_t i) const
    {
        uint16_t h;
        float f;
        if (dtype == ZINF_F32) {
            memcpy(&f, &bytes[4 * i], 4);
            return f;
        }
        memcpy(&h, &bytes[2 * i], 2);
        return dtype == ZINF_BF16 ? zinf_bf16_to_f32(h) : zinf_f16_to_f32(h);
    }
};

/* Half the distance between neighbours, relative. */
inline double UnitRoundoff(zinf_dtype t) { return t == ZINF_F32 ? 0x1p-24 : t == ZINF_BF16 ? 0x1p-8 : 0x1p-11; }

/* |got - want| <= tolerance * max(max |want|, scale): NaN fails. scale is the size of the terms where they may
 * cancel. */
inline void ExpectClose(const std::vector<float> &got, const std::vector<double> &want, double tolerance,
                        const char *what, double scale = 0)
{
    double max = scale, worst = 0;
    uint64_t at = 0;
    ASSERT_EQ(got.size(), want.size());
    for (double x : want)
        max = std::fmax(max, std::fabs(x));
    for (uint64_t i = 0; i < got.size(); i++) {
        double error = std::fabs((double)got[i] - want[i]);
        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
        if (std::isnan(worst))
            break;
    }
    EXPECT_LE(worst, tolerance * max) << what << "[" << at << "] of " << got.size();
}

inline bool SameBits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && (a.empty() || memcmp(a.data(), b.data(), 4 * a.size()) == 0);
}

} // namespace zinf_test
#endif /* ZINF_TESTS_KERNELS_CPU_FIXTURE_H_ */
