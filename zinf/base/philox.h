/* zinf/base/philox.h - Philox4x32-10: random numbers that are a pure function of (key, counter), so that the stream is
 * the same for any placement, thread count or order of drawing, and there is no state to save.
 * Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. */
#ifndef ZINF_BASE_PHILOX_H_
#define ZINF_BASE_PHILOX_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void zinf_philox4x32(const uint32_t key[2], const uint32_t ctr[4], uint32_t out[4]);
/* FNV-1a of a name: the second half of a key when a stream belongs to a tensor. */
uint64_t zinf_hash_name(const char *name);
/* Element index of the stream (seed, name): Uniform in (0, 1), and normal with mean 0 and deviation 1 (Box-Muller in
 * double; elements 2k and 2k+1 share one draw). Depends on nothing else. */
double zinf_uniform(uint64_t seed, uint64_t stream, uint64_t index);
void zinf_normal_fill(uint64_t seed, uint64_t stream, uint64_t first_index, uint64_t nr_elems, float mean, float std,
                      float *out);
/* A seeded permutation of [0, n) evaluated one index at a time in O(1) memory (a 4-round-or-more Feistel network with
 * cycle walking): perm(i) for i < n. */
uint64_t zinf_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_PHILOX_H_ */
