/* zinf/base/crc32c.c - CRC-32C: eight tables, or the x86 instruction on three streams at once.
 *
 * Bits are reflected: bit 31 of a register is the coefficient of x^0. The x86 instruction takes three cycles but starts
 * one every cycle, so three neighbouring stretches run side by side and are joined: a register followed by n zero bytes
 * is the register times x^(8n) mod P. A carry-less product of two reflected 32-bit values, read as the next 64 message
 * bits, stands for a * b * x, and feeding it to the instruction multiplies by x^32 and reduces: so the constant to
 * multiply by is x^(8n - 33). */
#include "zinf/base/crc32c.h"

#include <pthread.h>
#include <string.h>

#include "zinf/base/crc32c_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { STRETCH_NBYTES = 1024 };   /* of each of the three streams; joining costs about as much as 32 bytes */

static const uint32_t poly = 0x82F63B78u;

static struct {
    pthread_once_t once;
    uint32_t slice[8][256];    /* slice[k][b]: byte b followed by k zero bytes */
    uint32_t shift1, shift2;   /* x^(8 n - 33) mod P for n = one and two stretches */
    uint32_t (*extend)(uint32_t crc, const void *data, size_t nbytes);
} tables = { .once = PTHREAD_ONCE_INIT };   /* written once, before its first use */

static uint32_t times_x(uint32_t r) { return (r >> 1) ^ (r & 1u ? poly : 0); }

static uint32_t power_of_x(unsigned n)
{
    uint32_t r = 0x80000000u;

    while (n--)
        r = times_x(r);
    return r;
}

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;

        for (int i = 0; i < 8; i++)
            r = times_x(r);
        tables.slice[0][b] = r;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++) {
            uint32_t r = tables.slice[k - 1][b];

            tables.slice[k][b] = (r >> 8) ^ tables.slice[0][r & 0xff];
        }
    tables.shift1 = power_of_x(8 * STRETCH_NBYTES - 33);
    tables.shift2 = power_of_x(16 * STRETCH_NBYTES - 33);
    tables.extend = zinf_crc32c_x86_available() ? zinf_crc32c_x86 : zinf_crc32c_table;
}

uint32_t zinf_crc32c(uint32_t crc, const void *data, size_t nbytes)
{
    pthread_once(&tables.once, fill_tables);
    return tables.extend(crc, data, nbytes);
}

uint32_t zinf_crc32c_table(uint32_t crc, const void *data, size_t nbytes)
{
    const uint8_t *p = data;
    uint32_t r = ~crc;

    pthread_once(&tables.once, fill_tables);
    for (; nbytes >= 8; nbytes -= 8, p += 8) {
        /* Bytes, not a word: the same on any byte order. */
        uint32_t lo = r ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        r = tables.slice[7][lo & 0xff] ^ tables.slice[6][(lo >> 8) & 0xff] ^ tables.slice[5][(lo >> 16) & 0xff] ^
            tables.slice[4][lo >> 24] ^ tables.slice[3][p[4]] ^ tables.slice[2][p[5]] ^ tables.slice[1][p[6]] ^
            tables.slice[0][p[7]];
    }
    while (nbytes--)
        r = (r >> 8) ^ tables.slice[0][(r ^ *p++) & 0xff];
    return ~r;
}

#if defined(__x86_64__)
bool zinf_crc32c_x86_available(void)
{
    uint32_t a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) && (c & bit_PCLMUL);
}

static inline uint64_t load_u64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

/* The 64 message bits that stand for register r times the constant k. */
__attribute__((target("sse4.2,pclmul"))) static uint64_t shifted(uint64_t r, uint32_t k)
{
    __m128i x = _mm_cvtsi64_si128((long long)r), y = _mm_cvtsi64_si128((long long)k);

    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(x, y, 0));
}

__attribute__((target("sse4.2,pclmul"))) uint32_t zinf_crc32c_x86(uint32_t crc, const void *data, size_t nbytes)
{
    const uint8_t *p = data;
    uint64_t r = (uint32_t)~crc;

    pthread_once(&tables.once, fill_tables);
    for (; nbytes >= 3 * STRETCH_NBYTES; nbytes -= 3 * STRETCH_NBYTES, p += 3 * STRETCH_NBYTES) {
        uint64_t r1 = 0, r2 = 0;

        for (size_t i = 0; i < STRETCH_NBYTES; i += 8) {
            r = _mm_crc32_u64(r, load_u64(p + i));
            r1 = _mm_crc32_u64(r1, load_u64(p + STRETCH_NBYTES + i));
            r2 = _mm_crc32_u64(r2, load_u64(p + 2 * STRETCH_NBYTES + i));
        }
        r = _mm_crc32_u64(0, shifted(r, tables.shift2) ^ shifted(r1, tables.shift1)) ^ r2;
    }
    for (; nbytes >= 8; nbytes -= 8, p += 8)
        r = _mm_crc32_u64(r, load_u64(p));
    while (nbytes--)
        r = _mm_crc32_u8((uint32_t)r, *p++);
    return ~(uint32_t)r;
}
#else
bool zinf_crc32c_x86_available(void) { return false; }

uint32_t zinf_crc32c_x86(uint32_t crc, const void *data, size_t nbytes) { return zinf_crc32c_table(crc, data, nbytes); }
#endif
