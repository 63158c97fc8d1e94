/* zinf/base/pool.h - the worker pool: every cycle of cpu-lane work and of CPU-device compute runs here, as fixed tiles.
 *
 * Which worker runs a tile never changes a result: tiles are cut by the numeric plan, not by the number of threads.
 * Threads: all functions may be called from any thread, workers included (nested loops). Idle workers block; nobody
 * spins for long. */
#ifndef ZINF_BASE_POOL_H_
#define ZINF_BASE_POOL_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_pool;

/* A job is owned by its submitter and borrowed until fn starts; fn may free or reuse it. */
struct zinf_pool_job {
    void (*fn)(struct zinf_pool_job *job);
    struct zinf_pool_job *next;           /* the pool's, while queued */
};

/* nr_threads workers, each checked at its start to have neither FTZ nor DAZ set.
 * Returns 0, -EINVAL, -ENOMEM, -EAGAIN. */
int zinf_pool_open(uint32_t nr_threads, struct zinf_pool **out, struct zinf_status *st);
/* Runs what is queued, then ends the workers. NULL is fine. Not from a worker. */
void zinf_pool_close(struct zinf_pool *pool);
uint32_t zinf_pool_nr_threads(const struct zinf_pool *pool);

/* Queues job; it runs on a worker, jobs start in FIFO order. Never blocks. */
void zinf_pool_submit(struct zinf_pool *pool, struct zinf_pool_job *job);

/* Calls fn(ctx, tile, worker) once for every tile in [0, nr_tiles), on the caller and on idle workers, and returns when
 * all are done. While it waits the caller runs tiles of this loop only, so scratch indexed by `worker` is safe.
 * worker is in [0, zinf_pool_nr_threads()]: the last value is a caller that is no worker; at most one such caller may
 * use worker-indexed scratch at a time. */
void zinf_pool_for(struct zinf_pool *pool, uint64_t nr_tiles, void (*fn)(void *ctx, uint64_t tile, uint32_t worker),
                   void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_POOL_H_ */
