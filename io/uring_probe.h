/* io/uring_probe.h - what io_uring offers here, for `zinf doctor`. Works in builds without liburing too. */
#ifndef ZINF_IO_URING_PROBE_H_
#define ZINF_IO_URING_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_io_uring_info {
    bool     available;
    bool     deferred;          /* SINGLE_ISSUER and DEFER_TASKRUN (6.1 and later) */
    bool     registers;         /* a page of memory could be registered */
    uint64_t memlock_nbytes;    /* RLIMIT_MEMLOCK, which bounds registration; UINT64_MAX = unlimited */
    char     text[256];         /* all of it in one line; why not, when not available */
};
/* Returns 0, or -errno with a line when io_uring cannot be used (-ENOSYS when it is not compiled in). out is filled in
 * both cases. */
int zinf_io_uring_probe(struct zinf_io_uring_info *out, struct zinf_status *st);

/* The part that needs liburing; io/uring_io.c has it. */
int zinf_io_uring_probe_ring(struct zinf_io_uring_info *out, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_URING_PROBE_H_ */
