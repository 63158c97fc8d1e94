/* tests/base/crc32c_test.cc - published values, and every path against a bit-by-bit model. */
#include "zinf/base/crc32c.h"

#include <string.h>

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/base/crc32c_internal.h"

namespace {

struct Path {
    const char *name;
    uint32_t (*fn)(uint32_t, const void *, size_t);
    bool (*available)();
};

bool Always() { return true; }
bool X86() { return zinf_crc32c_x86_available(); }

const Path kPaths[] = {
    { "Chosen", zinf_crc32c, Always },
    { "Table", zinf_crc32c_table, Always },
    { "X86", zinf_crc32c_x86, X86 },
};

uint32_t Model(uint32_t crc, const uint8_t *p, size_t nbytes)
{
    uint32_t r = ~crc;

    for (size_t i = 0; i < nbytes; i++) {
        r ^= p[i];
        for (int b = 0; b < 8; b++)
            r = (r >> 1) ^ (r & 1 ? 0x82F63B78u : 0);
    }
    return ~r;
}

std::vector<uint8_t> Random(size_t nbytes)
{
    std::mt19937 gen(7);
    std::vector<uint8_t> v(nbytes);

    for (uint8_t &b : v)
        b = (uint8_t)gen();
    return v;
}

class Crc32c : public ::testing::TestWithParam<Path> {
protected:
    void SetUp() override
    {
        if (!GetParam().available())
            GTEST_SKIP() << "this processor lacks SSE4.2 or PCLMULQDQ";
    }
    uint32_t Crc(uint32_t crc, const void *p, size_t n) { return GetParam().fn(crc, p, n); }
};

}  // namespace

/* The vectors of RFC 3720, appendix B.4, and the check value of the catalogues. */
TEST_P(Crc32c, PublishedVectors)
{
    uint8_t zeros[32] = {}, ones[32], up[32], down[32];

    memset(ones, 0xff, sizeof(ones));
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    EXPECT_EQ(Crc(0, "123456789", 9), 0xE3069283u);
    EXPECT_EQ(Crc(0, zeros, 32), 0x8A9136AAu);
    EXPECT_EQ(Crc(0, ones, 32), 0x62A8AB43u);
    EXPECT_EQ(Crc(0, up, 32), 0x46DD794Eu);
    EXPECT_EQ(Crc(0, down, 32), 0x113FDB5Cu);
}

TEST_P(Crc32c, NothingChangesNothing)
{
    EXPECT_EQ(Crc(0, "", 0), 0u);
    EXPECT_EQ(Crc(0x12345678u, "", 0), 0x12345678u);
}

TEST_P(Crc32c, EqualsTheModelAtEveryLengthAndAddress)
{
    std::vector<uint8_t> data = Random(10000);
    std::vector<size_t> lengths;

    for (size_t n = 0; n < 40; n++)
        lengths.push_back(n);
    for (size_t stretch : { 1024u, 3072u, 6144u, 9216u })
        for (size_t d = 0; d < 18; d++)
            lengths.push_back(stretch - 9 + d);
    for (size_t off = 0; off < 9; off++)
        for (size_t n : lengths)
            ASSERT_EQ(Crc(0x9abcdef0u, &data[off], n), Model(0x9abcdef0u, &data[off], n)) << off << " " << n;
}

TEST_P(Crc32c, PiecesGiveTheSameAsTheWhole)
{
    std::vector<uint8_t> data = Random(20000);
    uint32_t whole = Crc(0, data.data(), data.size()), crc = 0;
    std::mt19937 gen(11);

    for (size_t i = 0; i < data.size();) {
        size_t n = std::min<size_t>(gen() % 5000, data.size() - i);

        crc = Crc(crc, &data[i], n);
        i += n;
    }
    EXPECT_EQ(crc, whole);
}

TEST_P(Crc32c, OneFlippedBitAnywhereShows)
{
    std::vector<uint8_t> data = Random(4000);
    uint32_t good = Crc(0, data.data(), data.size());

    for (size_t bit = 0; bit < data.size() * 8; bit += 37) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ASSERT_NE(Crc(0, data.data(), data.size()), good) << bit;
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

INSTANTIATE_TEST_SUITE_P(Every, Crc32c, ::testing::ValuesIn(kPaths),
                         [](const ::testing::TestParamInfo<Path> &p) { return std::string(p.param.name); });
