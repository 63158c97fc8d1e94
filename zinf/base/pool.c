/* zinf/base/pool.c - workers that take tiles of open loops first, then queued jobs.
 *
 * A loop lives on its caller's stack and is listed in the pool while it has tiles to give. Tiles are claimed by an
 * atomic counter; a worker that helps is counted in nr_helpers under the lock, and the caller leaves only when that is
 * 0, so a helper never touches a loop that is gone. A caller waits for helpers of its own loop only, and helpers come
 * from a worker's outermost level only: waits follow the nesting of loops and cannot form a ring. */
#define _GNU_SOURCE
#include "zinf/base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct loop {
    void (*fn)(void *ctx, uint64_t tile, uint32_t worker);
    void *ctx;
    uint64_t nr_tiles;
    _Atomic uint64_t next;
    uint32_t nr_helpers;             /* guarded by mu */
    struct loop *next_open, **link;  /* guarded by mu; link = NULL: not listed */
};

struct worker {
    struct zinf_pool *pool;
    pthread_t thread;
    uint32_t index;
};

struct zinf_pool {
    pthread_mutex_t mu;
    pthread_cond_t work;             /* a loop or a job came, or closing */
    pthread_cond_t helped;           /* some loop's nr_helpers fell to 0; or a worker has started */
    struct loop *open;               /* guarded by mu, newest first: it blocks the others */
    struct zinf_pool_job *first, **last;   /* guarded by mu */
    uint32_t nr_idle, nr_started, nr_bad_float;   /* guarded by mu */
    bool closing;                    /* guarded by mu */
    uint32_t nr_threads;
    struct worker workers[];
};

/* The worker that this thread is; written once, when it starts. */
static _Thread_local const struct worker *self;

static bool flushes_denormals(void)
{
#if defined(__x86_64__)
    return (_mm_getcsr() & 0x8040u) != 0;            /* FTZ, DAZ */
#elif defined(__aarch64__)
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (fpcr & (1ull << 24)) != 0;               /* FZ */
#else
    return false;
#endif
}

static void loop_list(struct zinf_pool *pool, struct loop *loop)
{
    loop->next_open = pool->open;
    loop->link = &pool->open;
    if (pool->open)
        pool->open->link = &loop->next_open;
    pool->open = loop;
}

static void loop_unlist(struct loop *loop)
{
    if (!loop->link)
        return;
    *loop->link = loop->next_open;
    if (loop->next_open)
        loop->next_open->link = loop->link;
    loop->link = NULL;
}

static void loop_run(struct loop *loop, uint32_t worker)
{
    uint64_t tile;

    /* relaxed: the lock that listed the loop ordered its fields, the lock that ends the help orders the results. */
    while ((tile = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed)) < loop->nr_tiles)
        loop->fn(loop->ctx, tile, worker);
}

/* Holds mu on entry and on return. */
static void help(struct zinf_pool *pool, struct loop *loop, uint32_t worker)
{
    loop->nr_helpers++;
    pthread_mutex_unlock(&pool->mu);
    loop_run(loop, worker);
    pthread_mutex_lock(&pool->mu);
    loop_unlist(loop);               /* nothing left to give */
    if (--loop->nr_helpers == 0)
        pthread_cond_broadcast(&pool->helped);
}

/* Holds mu on entry and on return. */
static void run_job(struct zinf_pool *pool)
{
    struct zinf_pool_job *job = pool->first;

    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    pthread_mutex_unlock(&pool->mu);
    job->fn(job);
    pthread_mutex_lock(&pool->mu);
}

static void *worker_main(void *arg)
{
    const struct worker *me = arg;
    struct zinf_pool *pool = me->pool;
    char name[16];

    self = me;
    snprintf(name, sizeof(name), "zinf-pool-%u", (unsigned)me->index % 10000);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&pool->mu);
    pool->nr_started++;
    pool->nr_bad_float += flushes_denormals();
    pthread_cond_broadcast(&pool->helped);
    for (;;) {
        if (pool->open) {
            help(pool, pool->open, me->index);
        } else if (pool->first) {
            run_job(pool);
        } else if (pool->closing) {
            break;
        } else {
            pool->nr_idle++;
            pthread_cond_wait(&pool->work, &pool->mu);
            pool->nr_idle--;
        }
    }
    pthread_mutex_unlock(&pool->mu);
    return NULL;
}

/* Ends the first nr workers and frees the pool. */
static void destroy(struct zinf_pool *pool, uint32_t nr)
{
    pthread_mutex_lock(&pool->mu);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mu);
    for (uint32_t i = 0; i < nr; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->helped);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mu);
    free(pool);
}

static int pool_alloc(uint32_t nr_threads, struct zinf_pool **out)
{
    struct zinf_pool *pool = calloc(1, sizeof(*pool) + nr_threads * sizeof(pool->workers[0]));
    int rc;

    if (!pool)
        return -ENOMEM;
    rc = pthread_mutex_init(&pool->mu, NULL);
    if (rc)
        goto out_free;
    rc = pthread_cond_init(&pool->work, NULL);
    if (rc)
        goto out_mu;
    rc = pthread_cond_init(&pool->helped, NULL);
    if (rc)
        goto out_work;
    pool->last = &pool->first;
    pool->nr_threads = nr_threads;
    *out = pool;
    return 0;
out_work:
    pthread_cond_destroy(&pool->work);
out_mu:
    pthread_mutex_destroy(&pool->mu);
out_free:
    free(pool);
    return -rc;
}

static int start_workers(struct zinf_pool *pool, uint32_t *nr_started)
{
    sigset_t all, old;
    int rc;

    /* Signals are for the thread that runs the program, not for a worker in the middle of a tile. */
    sigfillset(&all);
    rc = pthread_sigmask(SIG_BLOCK, &all, &old);
    if (rc)
        return -rc;
    for (*nr_started = 0; *nr_started < pool->nr_threads; ++*nr_started) {
        struct worker *w = &pool->workers[*nr_started];

        w->pool = pool;
        w->index = *nr_started;
        rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -rc;
}

int zinf_pool_open(uint32_t nr_threads, struct zinf_pool **out, struct zinf_status *st)
{
    struct zinf_pool *pool;
    uint32_t nr_created, nr_bad_float;
    int rc;

    *out = NULL;
    if (nr_threads == 0)
        return zinf_fail(st, -EINVAL, "a pool of 0 threads: set zinf.threads to at least 1");
    rc = pool_alloc(nr_threads, &pool);
    if (rc)
        return zinf_fail(st, rc, "no memory for a pool of %u threads", (unsigned)nr_threads);
    rc = start_workers(pool, &nr_created);
    if (rc) {
        destroy(pool, nr_created);
        return zinf_fail(st, rc, "thread %u of %u could not start: set zinf.threads lower, or raise the limit on "
                         "processes", (unsigned)nr_created + 1, (unsigned)nr_threads);
    }
    pthread_mutex_lock(&pool->mu);
    while (pool->nr_started < nr_threads)
        pthread_cond_wait(&pool->helped, &pool->mu);
    nr_bad_float = pool->nr_bad_float;
    pthread_mutex_unlock(&pool->mu);
    if (nr_bad_float) {
        destroy(pool, nr_threads);
        return zinf_fail(st, -EINVAL, "threads start with denormals flushed to zero (FTZ/DAZ), which changes results: "
                         "do not link with -ffast-math, and do not set it in the thread that opens zinf");
    }
    *out = pool;
    return 0;
}

void zinf_pool_close(struct zinf_pool *pool)
{
    if (pool)
        destroy(pool, pool->nr_threads);
}

uint32_t zinf_pool_nr_threads(const struct zinf_pool *pool) { return pool->nr_threads; }

void zinf_pool_submit(struct zinf_pool *pool, struct zinf_pool_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&pool->mu);
    *pool->last = job;
    pool->last = &job->next;
    if (pool->nr_idle)
        pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->mu);
}

void zinf_pool_for(struct zinf_pool *pool, uint64_t nr_tiles, void (*fn)(void *ctx, uint64_t tile, uint32_t worker),
                   void *ctx)
{
    uint32_t me = self && self->pool == pool ? self->index : pool->nr_threads;
    struct loop loop = { .fn = fn, .ctx = ctx, .nr_tiles = nr_tiles };

    if (nr_tiles <= 1) {
        loop_run(&loop, me);
        return;
    }
    pthread_mutex_lock(&pool->mu);
    loop_list(pool, &loop);
    /* The caller takes a tile itself: one helper less than tiles. */
    if (pool->nr_idle > nr_tiles - 1)
        for (uint64_t i = 0; i + 1 < nr_tiles; i++)
            pthread_cond_signal(&pool->work);
    else if (pool->nr_idle)
        pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mu);
    loop_run(&loop, me);
    pthread_mutex_lock(&pool->mu);
    loop_unlist(&loop);
    while (loop.nr_helpers)
        pthread_cond_wait(&pool->helped, &pool->mu);
    pthread_mutex_unlock(&pool->mu);
}
