/* tests/kernels/update_exhaustive_test.cc - too long for every run: all 2^32 masters, more than 2^32 bytes. */
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "kernels/update.h"
#include "tests/kernels/test_data.h"

namespace
{

TEST(SplitMaster, EveryPatternReturns)
{
    const uint32_t n = 1 << 16;
    std::vector<float> master(n), back(n);
    std::vector<uint16_t> hi(n);
    std::vector<int16_t> lo(n);
    for (uint32_t top = 0; top < 65536; top++) {
        for (uint32_t low = 0; low < n; low++)
            master[low] = zinf_f32_from_bits(top << 16 | low);
        zinf_split_range(master.data(), hi.data(), lo.data(), n);
        zinf_join_range(hi.data(), lo.data(), back.data(), n);
        ASSERT_EQ(memcmp(master.data(), back.data(), n * sizeof(float)), 0) << top;
        for (uint32_t low = 0; low < n; low++)
            ASSERT_EQ(hi[low], (uint16_t)(top + (low >= 0x8000))) << top << " " << low;
    }
}

/* Pain 15: 5 GiB of parameters and a little, mapped onto 64 MiB of memory, so each is updated 80 times and the
 * first 81. */
TEST(UpdateLarge, MoreThanFourGibibytesInOneRange)
{
    const uint64_t window = 64 << 20, repeats = 80, extra = 3, n = window / 4 * repeats + extra;
    const int fd = memfd_create("parameters", 0);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(ftruncate(fd, (off_t)window), 0);
    char *base =
        (char *)mmap(nullptr, window * (repeats + 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE((void *)base, MAP_FAILED);
    for (uint64_t i = 0; i <= repeats; i++)
        ASSERT_NE(mmap(base + i * window, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
    /* Gradients: one page of bf16 ones, over and over. */
    const uint64_t grads = window / 2 * (repeats + 1);
    std::vector<uint16_t> ones(window / 2, 0x3f80);
    const int grad_fd = memfd_create("gradients", 0);
    ASSERT_GE(grad_fd, 0);
    ASSERT_EQ(write(grad_fd, ones.data(), window), (ssize_t)window);
    char *grad = (char *)mmap(nullptr, grads + window, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE((void *)grad, MAP_FAILED);
    for (uint64_t at = 0; at < grads; at += window)
        ASSERT_NE(mmap(grad + at, window, PROT_READ, MAP_SHARED | MAP_FIXED, grad_fd, 0), MAP_FAILED);

    for (zinf_isa isa : zinf_test::Isas()) {
        zinf_optimizer_params params = {};
        params.kind = ZINF_SGD;
        zinf_update u = {};
        zinf_update_scalars_set(&u.k, &params, 1, 1.0, 1.0);
        u.weight_dtype = ZINF_F32;
        u.grad_dtype = ZINF_BF16;
        u.hi = base;
        u.grad = grad;
        u.n = n;
        uint32_t bad = 0;
        memset(base, 0, window);
        zinf_update_range(isa, &u, &bad);
        const float *p = (const float *)(const void *)base;
        EXPECT_EQ(bad, 0u);
        for (uint64_t i = 0; i < window / 4; i++)
            ASSERT_EQ(p[i], i < extra ? -81.0f : -80.0f) << zinf_isa_name(isa) << " " << i;
    }
    munmap(base, window * (repeats + 1));
    munmap(grad, grads + window);
    close(fd);
    close(grad_fd);
}

} // namespace
