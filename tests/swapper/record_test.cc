/* tests/swapper/record_test.cc - the commit record: what is written comes back, and nothing else is believed. */
#include "swapper/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zinf/base/crc32c.h"

namespace {

namespace fs = std::filesystem;
using Slot = std::vector<unsigned char>;

constexpr uint32_t kUnits = 3, kGrains = 7, kDrives = 2, kPayload = 1500;
constexpr size_t kSlot = 8192;

class Record : public ::testing::Test {
protected:
    void SetUp() override
    {
        const char *base = getenv("TEST_TMPDIR");
        std::string t = std::string(base ? base : "/tmp") + "/record-XXXXXX";
        ASSERT_NE(mkdtemp(t.data()), nullptr);
        dir = t;
    }
    void TearDown() override { fs::remove_all(dir); }

    static zinf_record Make(uint64_t generation)
    {
        zinf_record r;
        zinf_status st{};
        EXPECT_EQ(zinf_record_init(&r, kDrives, kUnits, kGrains, kPayload, "fp of this run", &st), 0) << st.text;
        r.generation = generation, r.rank = 1, r.world = 4;
        strcpy(r.uuid, "01234567-89ab-4def-8123-456789abcdef");
        r.slot_nbytes = kSlot, r.weight_nbytes = 2, r.state_nbytes = 10, r.grain_elems = 1ull << 33;
        r.extents_weight = true, r.extents_state = generation % 2, r.has_crc = true;
        for (uint32_t u = 0; u < kUnits; u++)
            r.unit_elems[u] = (1ull << 40) + u;
        for (uint32_t d = 0; d < kDrives; d++)
            r.drive_align[d] = 4096u << d;
        for (uint32_t g = 0; g < kGrains; g++) {
            r.drive[g] = (uint8_t)(g % 2), r.current[g] = (uint8_t)((g + generation) % 2);
            for (uint32_t i = 0; i < ZINF_RECORD_PIECES; i++)
                r.crc[g * ZINF_RECORD_PIECES + i] = 0xF0000000u + g * 16 + i + (uint32_t)generation * 1024;
        }
        for (uint32_t i = 0; i < kPayload; i++)
            ((unsigned char *)r.payload)[i] = (unsigned char)(i * 7 + generation);
        return r;
    }
    static Slot Encode(uint64_t generation)
    {
        zinf_record r = Make(generation);
        Slot s(zinf_record_nbytes(&r));
        zinf_record_encode(&r, s.data());
        zinf_record_free(&r);
        return s;
    }
    std::string Path() const { return dir + "/record-1"; }
    /* The file as two slots; what is shorter than a slot is filled with `rest`. */
    void Write(const Slot &a, const Slot &b, unsigned char rest = 0)
    {
        Slot file(2 * kSlot, rest);
        std::copy(a.begin(), a.end(), file.begin());
        std::copy(b.begin(), b.end(), file.begin() + kSlot);
        std::ofstream(Path(), std::ios::binary).write((const char *)file.data(), (std::streamsize)file.size());
    }
    /* The generation found, or -errno. */
    int64_t Load(uint64_t below = UINT64_MAX)
    {
        zinf_record r;
        st = zinf_status{};
        int rc = zinf_record_load(dir.c_str(), 1, below, &r, &nr_valid, &st);
        int64_t found = rc ? rc : (int64_t)r.generation;
        slot = rc ? 99 : r.slot;
        EXPECT_EQ(rc != 0, st.text[0] != 0);
        if (!rc) {
            Slot again(zinf_record_nbytes(&r)), want = Encode(r.generation);
            zinf_record_encode(&r, again.data());
            EXPECT_TRUE(again == want);
        }
        zinf_record_free(&r);
        return found;
    }

    std::string dir;
    uint32_t nr_valid = 0, slot = 0;
    zinf_status st{};
};

TEST_F(Record, EveryFieldComesBack)
{
    Write(Encode(5), {});
    zinf_record r, want = Make(5);
    ASSERT_EQ(zinf_record_load(dir.c_str(), 1, UINT64_MAX, &r, nullptr, &st), 0) << st.text;
    EXPECT_EQ(r.generation, 5u);
    EXPECT_STREQ(r.uuid, want.uuid);
    EXPECT_EQ(r.rank, 1u);
    EXPECT_EQ(r.world, 4u);
    EXPECT_EQ(r.nr_drives, kDrives);
    EXPECT_EQ(r.nr_units, kUnits);
    EXPECT_EQ(r.nr_grains, kGrains);
    EXPECT_EQ(r.weight_nbytes, 2u);
    EXPECT_EQ(r.state_nbytes, 10u);
    EXPECT_EQ(r.grain_elems, 1ull << 33);
    EXPECT_TRUE(r.extents_weight && r.extents_state && r.has_crc);
    EXPECT_EQ(memcmp(r.unit_elems, want.unit_elems, kUnits * 8), 0);
    EXPECT_EQ(memcmp(r.drive_align, want.drive_align, kDrives * 4), 0);
    EXPECT_EQ(memcmp(r.drive, want.drive, kGrains), 0);
    EXPECT_EQ(memcmp(r.current, want.current, kGrains), 0);
    EXPECT_EQ(memcmp(r.crc, want.crc, kGrains * ZINF_RECORD_PIECES * 4), 0);
    ASSERT_EQ(r.payload_nbytes, kPayload);
    EXPECT_EQ(memcmp(r.payload, want.payload, kPayload), 0);
    EXPECT_STREQ(r.fingerprint, want.fingerprint);
    zinf_record_free(&r);
    zinf_record_free(&want);
}

/* The bytes on a drive are part of the format: they may not change with a compiler or by accident. */
TEST_F(Record, BytesAreThoseOfTheFormat)
{
    Slot s = Encode(0x0102030405060708);
    EXPECT_EQ(memcmp(s.data(), "ZINFREC1", 8), 0);
    EXPECT_EQ(s[24], 8);
    EXPECT_EQ(s[31], 1);
    EXPECT_EQ(s[8] | s[9] << 8, (int)s.size());
    size_t parts = 112 + 8 * kUnits + 4 * kDrives + 2 * kGrains;
    EXPECT_EQ(s.size(), (parts + 3) / 4 * 4 + 16 * kGrains + kPayload + strlen("fp of this run") + 4);
    uint32_t crc = zinf_crc32c(0, s.data(), s.size() - 4), stored;
    memcpy(&stored, s.data() + s.size() - 4, 4);
    EXPECT_EQ(crc, stored);
}

TEST_F(Record, CreateMakesTwoEmptySlots)
{
    ASSERT_EQ(zinf_record_create(dir.c_str(), 1, kSlot, &st), 0) << st.text;
    EXPECT_EQ(fs::file_size(Path()), 2 * kSlot);
    EXPECT_EQ(Load(), -ENOENT);
    EXPECT_EQ(nr_valid, 0u);
    EXPECT_NE(std::string(st.text).find(Path()), std::string::npos) << st.text;
    st = zinf_status{};
    EXPECT_EQ(zinf_record_create(dir.c_str(), 1, kSlot, &st), -EEXIST);
    EXPECT_TRUE(fs::exists(Path()));             /* not ours to delete */
    EXPECT_EQ(zinf_record_create((dir + "/none").c_str(), 1, kSlot, &st), -ENOENT);
}

TEST_F(Record, NewestValidSlotWinsWhereverItIs)
{
    Write(Encode(4), Encode(5));
    EXPECT_EQ(Load(), 5);
    EXPECT_EQ(slot, 1u);
    EXPECT_EQ(nr_valid, 2u);
    Write(Encode(6), Encode(5));
    EXPECT_EQ(Load(), 6);
    EXPECT_EQ(slot, 0u);
    EXPECT_EQ(Load(6), 5);                       /* what a rank that is behind has */
    EXPECT_EQ(slot, 1u);
    EXPECT_EQ(Load(5), -ENOENT);
    EXPECT_EQ(nr_valid, 2u);
    Write(Encode(8), Encode(6));                 /* every second iteration */
    EXPECT_EQ(Load(), 8);
}

TEST_F(Record, TornSlotIsNotBelieved)
{
    Slot old = Encode(4), fresh = Encode(6);
    ASSERT_GT(fresh.size(), 3u * 512);
    old.resize(kSlot), fresh.resize(kSlot);
    for (size_t cut = 0; cut <= Encode(6).size() + 512; cut += 512) {
        bool whole = cut >= Encode(6).size();
        for (bool front : {true, false}) {       /* the first sectors are new, or the last */
            Slot torn = front ? old : fresh;
            std::copy_n((front ? fresh : old).begin(), cut, torn.begin());
            Write(torn, Encode(5));
            int64_t want = front ? (whole ? 6 : 5) : (cut == 0 ? 6 : 5);
            EXPECT_EQ(Load(), want) << cut << front;
            EXPECT_EQ(slot, want == 6 ? 0u : 1u);
        }
        if (cut < fresh.size()) {                /* one sector was lost in the middle */
            Slot hole = fresh;
            std::copy_n(old.begin() + (long)cut, 512, hole.begin() + (long)cut);
            Write(hole, Encode(5));
            EXPECT_EQ(Load(), cut < Encode(6).size() ? 5 : 6) << cut;
        }
    }
}

TEST_F(Record, FlippedBitAnywhereIsSeen)
{
    Slot good = Encode(6);
    Write(good, Encode(5));
    int fd = open(Path().c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    for (size_t i = 0; i < good.size(); i++) {
        unsigned char bad = (unsigned char)(good[i] ^ 1u << i % 8);
        ASSERT_EQ(pwrite(fd, &bad, 1, (off_t)i), 1);
        ASSERT_EQ(Load(), 5) << i;
        ASSERT_EQ(nr_valid, 1u);
        ASSERT_EQ(pwrite(fd, &good[i], 1, (off_t)i), 1);
    }
    close(fd);
    EXPECT_EQ(Load(), 6);
    Slot bad = good, bad5 = Encode(5);
    bad[200] ^= 1, bad5[300] ^= 2;
    Write(bad, bad5);
    EXPECT_EQ(Load(), -EBADMSG);
}

TEST_F(Record, BytesBehindTheRecordDoNotMatter)
{
    Write(Encode(6), Encode(5), 0xEE);
    EXPECT_EQ(Load(), 6);
}

void Put32(Slot &s, size_t at, uint32_t v) { memcpy(s.data() + at, &v, 4); }

/* Lengths that lie, with a checksum that fits them. */
TEST_F(Record, AbsurdSizesAndForeignMagicAreRefused)
{
    const Slot good = Encode(6);
    const size_t end = good.size() - 4;
    for (size_t field : {8, 20, 68, 72, 96, 100, 104}) {
        for (uint32_t v : {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFFu, 8193u}) {
            Slot s = good;
            Put32(s, field, v);
            Put32(s, end, zinf_crc32c(0, s.data(), end));
            Write(s, Encode(5));
            EXPECT_EQ(Load(), 5) << field << " " << v;
        }
    }
    Slot s = good;
    memcpy(s.data(), "ZINFREC2", 8);
    Put32(s, end, zinf_crc32c(0, s.data(), end));
    Write(s, Encode(5));
    EXPECT_EQ(Load(), 5);
    Slot noise(kSlot, 0xFF);
    Write(noise, noise);
    EXPECT_EQ(Load(), -EBADMSG);
}

TEST_F(Record, TruncatedOrStrangeFilesHoldNoRecord)
{
    for (uint64_t size : {0, 1, 511, 4096, 8191, 8192, 8192 * 2 - 1, 8192 * 2 - 512, 8192 + 4096}) {
        Write(Encode(6), Encode(5));
        fs::resize_file(Path(), size);
        EXPECT_EQ(Load(), -ENOENT) << size;
    }
    Write(Encode(6), Encode(5));
    fs::resize_file(Path(), 1ull << 40);         /* sparse: nobody reads it all */
    EXPECT_EQ(Load(), -ENOENT);
    fs::remove(Path());
    EXPECT_EQ(Load(), -ENOENT);
    fs::create_symlink(dir + "/else", Path());
    EXPECT_EQ(Load(), -ELOOP);
    fs::remove(Path());
    fs::create_directory(Path());
    EXPECT_LT(Load(), 0);
}

TEST_F(Record, FreeIsSafeOnZeroesAndAfterAFailure)
{
    zinf_record r;
    EXPECT_EQ(zinf_record_load(dir.c_str(), 1, UINT64_MAX, &r, nullptr, nullptr), -ENOENT);
    zinf_record_free(&r);
    zinf_record_free(&r);
    EXPECT_EQ(r.unit_elems, nullptr);
}

}  // namespace
