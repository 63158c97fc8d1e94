/* zinf/base/clock.c - the machine's own clock. */
#define _GNU_SOURCE
#include "zinf/base/clock.h"

#include <errno.h>
#include <time.h>

static uint64_t system_now_ns(void *ctx)
{
    struct timespec ts;

    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &ts);   /* cannot fail: the clock exists and ts is ours */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void system_sleep_ns(void *ctx, uint64_t ns)
{
    uint64_t end = system_now_ns(ctx) + ns;
    struct timespec ts = { .tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        continue;
}

const struct zinf_clock zinf_clock_system = { .now_ns = system_now_ns, .sleep_ns = system_sleep_ns, .ctx = NULL };
