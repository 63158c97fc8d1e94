/* kernels/cpu/stream.c - a stream is a queue whose first item runs as a job of the pool once its events are
 * recorded.
 *
 *   queued --(first, waits recorded)--> job --fn--> events recorded, off the queue --notify--> done
 *     |  ^
 *     v  | one event at a time, in the order of waits[]
 *   parked at an event
 *
 * No worker waits for a stream: an item that is not ready is parked, and whoever records the event looks at it
 * again. Every enqueue has a number; an event keeps the items it is armed for in that order, and an item waits for
 * an event as long as the oldest of them is older than itself. So arming an event again for the next step never
 * concerns those that wait already. One lock serves all streams of a device (items are whole layers, not
 * operations); it is held for list work only. It also is what makes the memory one item wrote visible to the next. */
#define _GNU_SOURCE
#include "kernels/cpu/stream.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct zinf_stream {
    struct zinf_pool_job job;        /* of the running item */
    struct zinf_cpu_streams *all;
    struct zinf_device *dev;
    bool on_caller;
    pthread_cond_t progress;         /* nr_done moved while nr_syncing > 0 */
    /* all guarded by all->mu */
    struct zinf_stream_item *first, *last;
    bool busy;                       /* from the start of an item until its notify has returned */
    uint64_t nr_enqueued, nr_done;
    uint32_t nr_syncing;
};

struct zinf_event {
    struct zinf_stream_item *first_armed, *last_armed;   /* by seq; guarded by mu of their streams */
    struct zinf_stream_item *waiters;                    /* parked here; guarded likewise */
};

static void run_job(struct zinf_pool_job *job);

int zinf_cpu_streams_init(struct zinf_cpu_streams *all, struct zinf_pool *pool)
{
    all->pool = pool;
    all->last_seq = 0;
    return -pthread_mutex_init(&all->mu, NULL);
}

void zinf_cpu_streams_destroy(struct zinf_cpu_streams *all)
{
    pthread_mutex_destroy(&all->mu);
}

int zinf_cpu_stream_open(struct zinf_cpu_streams *all, struct zinf_device *dev, bool on_caller,
                         struct zinf_stream **out)
{
    struct zinf_stream *s = calloc(1, sizeof(*s));
    int rc;

    *out = NULL;
    if (!s)
        return -ENOMEM;
    rc = pthread_cond_init(&s->progress, NULL);
    if (rc) {
        free(s);
        return -rc;
    }
    s->all = all;
    s->dev = dev;
    s->on_caller = on_caller;
    s->job.fn = run_job;
    *out = s;
    return 0;
}

struct zinf_device *zinf_cpu_stream_device(const struct zinf_stream *s) { return s->dev; }

struct zinf_pool *zinf_cpu_stream_pool(struct zinf_stream *s) { return s->all->pool; }

int zinf_cpu_event_open(struct zinf_event **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : -ENOMEM;
}

void zinf_cpu_event_close(struct zinf_event *e) { free(e); }

static void arm(struct zinf_event *e, struct zinf_stream_item *item)
{
    item->next_armed = NULL;
    if (e->last_armed)
        e->last_armed->next_armed = item;
    else
        e->first_armed = item;
    e->last_armed = item;
}

/* item is nearly always the first; not when one event was armed on two streams. */
static void disarm(struct zinf_event *e, struct zinf_stream_item *item)
{
    struct zinf_stream_item *prev = NULL, *at = e->first_armed;

    while (at != item) {
        prev = at;
        at = at->next_armed;
    }
    if (prev)
        prev->next_armed = item->next_armed;
    else
        e->first_armed = item->next_armed;
    if (e->last_armed == item)
        e->last_armed = prev;
}

/* True when the first item may start; else it is parked. Holds mu. The stream has a first item and is not busy. */
static bool first_is_ready(struct zinf_stream *s)
{
    struct zinf_stream_item *item = s->first;

    for (; item->nr_passed < item->nr_waits; item->nr_passed++) {
        struct zinf_event *e = item->waits[item->nr_passed];

        if (e->first_armed && e->first_armed->seq < item->seq) {
            item->next_waiter = e->waiters;
            e->waiters = item;
            return false;
        }
    }
    return true;
}

/* Starts the first item if it is ready. Holds mu; the stream is not busy and its first item is not parked. */
static void advance(struct zinf_stream *s)
{
    if (!s->first || !first_is_ready(s))
        return;
    s->busy = true;
    zinf_pool_submit(s->all->pool, &s->job);
}

/* Holds mu. A waiter that still has to wait parks itself again, here or elsewhere. */
static void record(struct zinf_event *e, struct zinf_stream_item *item)
{
    struct zinf_stream_item *w = e->waiters, *next;

    disarm(e, item);
    e->waiters = NULL;
    for (; w; w = next) {
        next = w->next_waiter;
        advance(w->stream);
    }
}

/* The stream is busy with its first item. After the last unlock s may be closed by another thread. */
static void run_first(struct zinf_stream *s)
{
    struct zinf_cpu_streams *all = s->all;
    struct zinf_stream_item *item;
    void (*notify)(void *arg);
    void *notify_arg;

    pthread_mutex_lock(&all->mu);
    item = s->first;
    pthread_mutex_unlock(&all->mu);
    item->fn(s, item->arg);

    pthread_mutex_lock(&all->mu);
    s->first = item->next;
    if (!s->first)
        s->last = NULL;
    notify = item->notify;
    notify_arg = item->notify_arg;
    if (item->done)
        record(item->done, item);
    pthread_mutex_unlock(&all->mu);

    if (notify)
        notify(notify_arg);

    pthread_mutex_lock(&all->mu);
    s->busy = false;
    s->nr_done++;
    if (s->nr_syncing)
        pthread_cond_broadcast(&s->progress);
    advance(s);
    pthread_mutex_unlock(&all->mu);
}

static void run_job(struct zinf_pool_job *job)
{
    run_first((struct zinf_stream *)((char *)job - offsetof(struct zinf_stream, job)));
}

int zinf_cpu_stream_enqueue(struct zinf_stream *s, struct zinf_stream_item *item)
{
    bool here = false;

    if (!item->fn || (item->nr_waits && !item->waits))
        return -EINVAL;
    item->next = NULL;
    item->stream = s;
    item->nr_passed = 0;
    pthread_mutex_lock(&s->all->mu);
    item->seq = ++s->all->last_seq;
    s->nr_enqueued++;
    if (item->done)
        arm(item->done, item);
    if (s->last)
        s->last->next = item;
    else
        s->first = item;
    s->last = item;
    if (s->first == item && !s->busy) {
        if (!s->on_caller)
            advance(s);
        else if (first_is_ready(s))
            s->busy = here = true;
    }
    pthread_mutex_unlock(&s->all->mu);
    if (here)
        run_first(s);
    return 0;
}

int zinf_cpu_stream_sync(struct zinf_stream *s)
{
    uint64_t upto;

    pthread_mutex_lock(&s->all->mu);
    upto = s->nr_enqueued;
    s->nr_syncing++;
    while (s->nr_done < upto)
        pthread_cond_wait(&s->progress, &s->all->mu);
    s->nr_syncing--;
    pthread_mutex_unlock(&s->all->mu);
    return 0;
}

void zinf_cpu_stream_close(struct zinf_stream *s)
{
    if (!s)
        return;
    zinf_cpu_stream_sync(s);
    pthread_cond_destroy(&s->progress);
    free(s);
}
