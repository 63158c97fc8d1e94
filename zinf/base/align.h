/* zinf/base/align.h - the one place that rounds sizes; overflow-checked where the size comes from outside. */
#ifndef ZINF_BASE_ALIGN_H_
#define ZINF_BASE_ALIGN_H_

#include <stdbool.h>
#include <stdint.h>

/* align need not be a power of two; it must not be 0. */
static inline uint64_t zinf_align_up(uint64_t n, uint64_t align) { return (n + align - 1) / align * align; }
static inline uint64_t zinf_align_down(uint64_t n, uint64_t align) { return n / align * align; }
static inline uint64_t zinf_div_up(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }
static inline uint64_t zinf_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t zinf_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
/* *out = a * b or a + b; false = it does not fit in 64 bits. */
static inline bool zinf_mul_u64(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool zinf_add_u64(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }

#endif /* ZINF_BASE_ALIGN_H_ */
