/* kernels/cpu/stream.h - streams and events of the CPU device, apart from what runs on them. Internal to
 * kernels/cpu. */
#ifndef ZINF_KERNELS_CPU_STREAM_H_
#define ZINF_KERNELS_CPU_STREAM_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "zinf/base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the streams and events of one device share. */
struct zinf_cpu_streams {
    struct zinf_pool *pool;
    pthread_mutex_t mu;
    uint64_t last_seq;               /* guarded by mu: enqueues so far */
};

int zinf_cpu_streams_init(struct zinf_cpu_streams *all, struct zinf_pool *pool);    /* 0 or -errno */
void zinf_cpu_streams_destroy(struct zinf_cpu_streams *all);

/* on_caller: zinf_cpu_stream_now's behaviour. dev is handed back by zinf_cpu_stream_device. */
int zinf_cpu_stream_open(struct zinf_cpu_streams *all, struct zinf_device *dev, bool on_caller,
                         struct zinf_stream **out);
struct zinf_device *zinf_cpu_stream_device(const struct zinf_stream *s);
void zinf_cpu_stream_close(struct zinf_stream *s);
int zinf_cpu_stream_enqueue(struct zinf_stream *s, struct zinf_stream_item *item);
int zinf_cpu_stream_sync(struct zinf_stream *s);
int zinf_cpu_event_open(struct zinf_event **out);
void zinf_cpu_event_close(struct zinf_event *e);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_KERNELS_CPU_STREAM_H_ */
