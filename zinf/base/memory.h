/* zinf/base/memory.h - one mapping per arena, exactly as large as asked, and what the process and the host have. */
#ifndef ZINF_BASE_MEMORY_H_
#define ZINF_BASE_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/pool.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_mapping {
    void  *base;        /* page aligned */
    size_t nbytes;      /* as asked, rounded up to a page */
};

/* Anonymous private memory, touched on every page (in parallel when pool is not NULL) so that lack of memory shows now.
 * nbytes 0 gives an empty mapping. Returns 0 or -ENOMEM with a line. */
int zinf_map(size_t nbytes, struct zinf_pool *pool, struct zinf_mapping *out, struct zinf_status *st);
void zinf_unmap(struct zinf_mapping *m);

/* min(MemAvailable, cgroup limit - (use - reclaimable file cache)), at least 1; 0 when nothing can be read.
 * root is "" or, in a test, a folder that holds proc/ and sys/ look-alikes. */
uint64_t zinf_host_available_nbytes(const char *root);
/* Resident set now and at its peak (VmRSS, VmHWM), in bytes; 0 when unknown. */
uint64_t zinf_rss_nbytes(void);
uint64_t zinf_peak_rss_nbytes(void);
/* Starts a new peak measurement (writes 5 to /proc/self/clear_refs); 0 or -errno. */
int zinf_peak_rss_reset(void);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_MEMORY_H_ */
