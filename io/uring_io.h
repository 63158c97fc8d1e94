/* io/uring_io.h - options of the io_uring backend (struct zinf_io_opts.arg; NULL = defaults). */
#ifndef ZINF_IO_URING_IO_H_
#define ZINF_IO_URING_IO_H_

#include <stdbool.h>

struct zinf_io_uring_opts {
    bool no_defer;      /* run completions as kernels before 6.1 do, even where they could be deferred to the owner */
};

#endif /* ZINF_IO_URING_IO_H_ */
