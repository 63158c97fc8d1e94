/* io/threads_io.h - options of the threads backend (struct zinf_io_opts.arg; NULL = defaults). */
#ifndef ZINF_IO_THREADS_IO_H_
#define ZINF_IO_THREADS_IO_H_

#include <stdint.h>

struct zinf_io_threads_opts {
    uint32_t nr_threads;      /* 0 = min(depth, 8) */
};

#endif /* ZINF_IO_THREADS_IO_H_ */
