/* tests/io/cut_test.cc - the cuts of a transfer cover it exactly, and none of them is one O_DIRECT would refuse. */
#include "io/cut.h"

#include <gtest/gtest.h>

#include <random>

#include "io/file.h"

namespace {

struct Totals {
    size_t nr_cuts = 0, nr_bounced = 0;
};

void CutAll(const zinf_file &f, uintptr_t addr, size_t nbytes, uint64_t off, size_t request_nbytes, Totals *t)
{
    const uint64_t block = f.direct ? f.off_align : 1, mem = f.direct ? f.mem_align : 1;
    size_t done = 0;

    while (done < nbytes) {
        const void *buf = reinterpret_cast<const void *>(addr + done);
        zinf_io_cut c = zinf_io_cut_next(&f, buf, nbytes - done, off + done, request_nbytes);
        ASSERT_GT(c.want_nbytes, 0u);
        ASSERT_LE(c.want_nbytes, nbytes - done);
        ASSERT_EQ(c.start_bytes + c.want_off, off + done);
        ASSERT_LE(c.want_off + c.want_nbytes, c.total_nbytes);
        ASSERT_EQ(c.start_bytes % block, 0u);
        ASSERT_EQ(c.total_nbytes % block, 0u);
        if (c.bounce) {
            ASSERT_LE(c.total_nbytes, ZINF_IO_BOUNCE_NBYTES);
            ASSERT_LT(c.total_nbytes - c.want_off - c.want_nbytes, block);     /* not a block more than needed */
            ASSERT_LT(c.want_off, block);
        } else {
            ASSERT_EQ(c.want_off, 0u);
            ASSERT_EQ(c.want_nbytes, c.total_nbytes);
            ASSERT_EQ((addr + done) % mem, 0u);
            ASSERT_LE(c.total_nbytes, std::max<uint64_t>(request_nbytes, std::max(block, mem)));
        }
        done += c.want_nbytes;
        t->nr_cuts++;
        t->nr_bounced += c.bounce;
    }
    ASSERT_EQ(done, nbytes);
}

TEST(IoCut, CoversEveryTransferWithLegalRequests)
{
    std::mt19937_64 rng(1);

    for (int i = 0; i < 20000 && !::testing::Test::HasFatalFailure(); i++) {
        zinf_file f = {};
        f.direct = rng() % 4 != 0;
        f.off_align = f.direct ? 512u << rng() % 8 : 1;
        f.mem_align = f.direct ? 4u << rng() % 12 : 1;
        uintptr_t addr = 0x100000 + (rng() % 2 ? rng() % 5000 : rng() % 64 * f.mem_align);
        uint64_t off = rng() % 2 ? rng() % 1000000 : rng() % 100 * f.off_align;
        size_t nbytes = 1 + rng() % (rng() % 2 ? 2000 : 400000);
        size_t request_nbytes = 1 + rng() % 300000;
        Totals t;
        CutAll(f, addr, nbytes, off, request_nbytes, &t);
    }
}

TEST(IoCut, OnlyTheEndsOfAnAlignedTransferBounce)
{
    zinf_file f = {};
    Totals whole, ragged, odd;

    f.direct = true;
    f.off_align = f.mem_align = 4096;
    CutAll(f, 0x100000, 1 << 20, 4096, 65536, &whole);
    EXPECT_EQ(whole.nr_bounced, 0u);
    EXPECT_EQ(whole.nr_cuts, 16u);
    CutAll(f, 0x100000 + 100, 1 << 20, 8192 + 100, 65536, &ragged);      /* head and tail */
    EXPECT_EQ(ragged.nr_bounced, 2u);
    CutAll(f, 0x100000 + 8, 1 << 20, 4096, 65536, &odd);                 /* never aligned: full bounce buffers */
    EXPECT_EQ(odd.nr_bounced, 16u);
    EXPECT_EQ(odd.nr_cuts, 16u);
}

TEST(IoCut, BufferedFilesNeverBounce)
{
    zinf_file f = {};
    Totals t;

    f.off_align = f.mem_align = 1;
    CutAll(f, 0x100003, 100001, 7, 65536, &t);
    EXPECT_EQ(t.nr_bounced, 0u);
    EXPECT_EQ(t.nr_cuts, 2u);
}

}  // namespace
