/* tests/kernels/test_data.h - inputs for kernel tests: seeded values of any exponent, placed and guarded buffers. */
#ifndef ZINF_TESTS_KERNELS_TEST_DATA_H_
#define ZINF_TESTS_KERNELS_TEST_DATA_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "zinf/base/cpu.h"
#include "zinf/base/dtype.h"

namespace zinf_test
{

/* The instruction sets of this processor, the scalar one first. */
inline std::vector<zinf_isa> Isas()
{
    std::vector<zinf_isa> isas;
    for (zinf_isa isa : { ZINF_ISA_SCALAR, ZINF_ISA_AVX2, ZINF_ISA_AVX512, ZINF_ISA_NEON })
        if (zinf_isa_available(isa))
            isas.push_back(isa);
    return isas;
}

inline std::string IsaName(const ::testing::TestParamInfo<zinf_isa> &info) { return zinf_isa_name(info.param); }

/* Lengths around the widths of vectors and of the norm's chunk. */
inline std::vector<uint64_t> Lengths() { return { 0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 4095, 4097 }; }

class Random
{
public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567u) {}
    uint32_t Bits()
    {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(state_ >> 33) ^ (uint32_t)(state_ << 21 >> 32);
    }
    uint64_t Below(uint64_t n)
    {
        uint64_t high = Bits();
        return n ? (high << 32 | Bits()) % n : 0;
    }
    double Uniform() { return (double)Bits() / 4294967296.0; }
    /* Finite, of either sign, with an exponent evenly spread over [lo, hi]. */
    float Value(int lo_exp, int hi_exp)
    {
        /* One draw per statement: compilers order the arguments of a call as they like. */
        int exp = lo_exp + (int)Below((uint64_t)(hi_exp - lo_exp + 1));
        double v = std::ldexp(1.0 + Uniform(), exp);
        return (float)(Bits() & 1 ? v : -v);
    }

private:
    uint64_t state_;
};

/* n elements of T that begin `offset` elements after a 64-byte boundary, with guards on both sides. */
template <typename T> class Placed
{
public:
    Placed(uint64_t n, uint64_t offset)
        : n_(n), bytes_(kGuard + offset * sizeof(T) + n * sizeof(T) + kGuard + 64, kFill)
    {
        uint64_t base = ((uintptr_t)bytes_.data() + 63) / 64 * 64 - (uintptr_t)bytes_.data();
        begin_ = base + kGuard + offset * sizeof(T);
    }
    T *get() { return (T *)(void *)(bytes_.data() + begin_); }
    uint64_t nbytes() const { return n_ * sizeof(T); }
    T &operator[](uint64_t i) { return get()[i]; }
    bool SameBytes(Placed &other) { return nbytes() == 0 || std::memcmp(get(), other.get(), nbytes()) == 0; }
    bool GuardsIntact() const
    {
        for (uint64_t i = 0; i < bytes_.size(); i++)
            if ((i < begin_ || i >= begin_ + nbytes()) && bytes_[i] != kFill)
                return false;
        return true;
    }

private:
    static constexpr uint64_t kGuard = 64;
    static constexpr unsigned char kFill = 0xa5;
    uint64_t n_, begin_;
    std::vector<unsigned char> bytes_;
};

} // namespace zinf_test
#endif /* ZINF_TESTS_KERNELS_TEST_DATA_H_ */
