/* zinf/base/philox.c - Philox4x32-10 and what is drawn from it.
 *
 * The key is the seed, the counter is (index, stream). Each kind of draw changes the key by a constant of its own, so
 * that a uniform, a normal and a permutation of one stream have nothing to do with each other. */
#include "zinf/base/philox.h"

#include <math.h>

enum { ROUNDS = 10, FEISTEL_ROUNDS = 8, FEISTEL_BITS_MIN = 6 };

static const uint64_t kind_uniform = 0;
static const uint64_t kind_normal = 0x6e6f726d616c0001ull;
static const uint64_t kind_permute = 0x7065726d75740001ull;

void zinf_philox4x32(const uint32_t key[2], const uint32_t ctr[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1], c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;   /* wraps, as the generator wants */
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t zinf_hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325ull;

    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = (h ^ *p) * 0x100000001b3ull;
    return h;
}

static void draw(uint64_t seed, uint64_t kind, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint64_t k = seed ^ kind;
    const uint32_t key[2] = { (uint32_t)k, (uint32_t)(k >> 32) };
    const uint32_t ctr[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32) };

    zinf_philox4x32(key, ctr, out);
}

/* 52 bits and a half: exact in double, never 0 and never 1. */
static double open_unit(uint32_t lo, uint32_t hi)
{
    uint64_t bits = ((uint64_t)hi << 32 | lo) >> 12;

    return ((double)bits + 0.5) * 0x1p-52;
}

double zinf_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t r[4];

    draw(seed, kind_uniform, stream, index, r);
    return open_unit(r[0], r[1]);
}

static void normal_pair(uint64_t seed, uint64_t stream, uint64_t pair, double out[2])
{
    const double two_pi = 6.283185307179586476925286766559;
    uint32_t r[4];

    draw(seed, kind_normal, stream, pair, r);
    double radius = sqrt(-2 * log(open_unit(r[0], r[1]))), angle = two_pi * open_unit(r[2], r[3]);

    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

void zinf_normal_fill(uint64_t seed, uint64_t stream, uint64_t first_index, uint64_t nr_elems, float mean, float std,
                      float *out)
{
    uint64_t done = 0;

    while (done < nr_elems) {
        uint64_t index = first_index + done;
        double z[2];

        normal_pair(seed, stream, index / 2, z);
        for (uint64_t i = index % 2; i < 2 && done < nr_elems; i++)
            out[done++] = (float)((double)mean + (double)std * z[i]);
    }
}

/* One pass through the network on [0, 2^(2 * half_bits)). */
static uint64_t feistel(uint64_t seed, uint64_t stream, unsigned half_bits, uint64_t x)
{
    uint64_t mask = (1ull << half_bits) - 1, left = x >> half_bits, right = x & mask;

    for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t r[4];
        uint64_t t = right;

        draw(seed, kind_permute, stream, (uint64_t)round << 32 | right, r);
        right = left ^ (r[0] & mask);
        left = t;
    }
    return left << half_bits | right;
}

uint64_t zinf_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i)
{
    unsigned bits = n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;

    /* A network of one or two bits a side can reach few permutations; walk a larger domain instead. */
    if (bits < FEISTEL_BITS_MIN)
        bits = FEISTEL_BITS_MIN;
    /* Less than 4 n values for n > 2^FEISTEL_BITS_MIN: the walk takes 4 passes at most on average, and it ends because
     * it moves along a cycle that holds i itself. */
    do {
        i = feistel(seed, stream, (bits + 1) / 2, i);
    } while (i >= n);
    return i;
}
