/* zinf/base/clock.h - time behind a table, so that a test can stop it. */
#ifndef ZINF_BASE_CLOCK_H_
#define ZINF_BASE_CLOCK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_clock {
    uint64_t (*now_ns)(void *ctx);                     /* Required. Monotonic. */
    void     (*sleep_ns)(void *ctx, uint64_t ns);      /* Required. */
    void *ctx;
};
extern const struct zinf_clock zinf_clock_system;      /* CLOCK_MONOTONIC */

static inline uint64_t zinf_now_ns(const struct zinf_clock *c) { return c->now_ns(c->ctx); }

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_CLOCK_H_ */
