/* io/io_internal.h - the few lines every backend needs: waking the owner, and deadlines. */
#ifndef ZINF_IO_IO_INTERNAL_H_
#define ZINF_IO_IO_INTERNAL_H_

#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* Adds one to an eventfd; -1 is fine. The counter being full means that it is readable already. */
static inline void zinf_io_signal(int event_fd)
{
    const uint64_t one = 1;

    if (event_fd < 0)
        return;
    while (write(event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* CLOCK_MONOTONIC, timeout_ms from now (now when it is negative). */
static inline struct timespec zinf_io_deadline(int timeout_ms)
{
    struct timespec ts = { 0, 0 };

    clock_gettime(CLOCK_MONOTONIC, &ts);
    if (timeout_ms > 0) {
        ts.tv_sec += timeout_ms / 1000;
        ts.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
        if (ts.tv_nsec >= 1000000000) {
            ts.tv_sec++;
            ts.tv_nsec -= 1000000000;
        }
    }
    return ts;
}

/* What is left of it: milliseconds rounded up, 0 when it is over. */
static inline int zinf_io_remaining_ms(const struct timespec *until)
{
    struct timespec now = { 0, 0 };
    int64_t ns;

    clock_gettime(CLOCK_MONOTONIC, &now);
    ns = ((int64_t)until->tv_sec - now.tv_sec) * 1000000000 + (until->tv_nsec - now.tv_nsec);
    return ns <= 0 ? 0 : (int)((ns + 999999) / 1000000);
}

#endif /* ZINF_IO_IO_INTERNAL_H_ */
