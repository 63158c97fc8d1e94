/* io/fault_io.h - scripted faults on top of another backend, and a log of everything that passed through.
 *
 * struct zinf_io_opts.arg of the fault backend is a struct zinf_io_fault_script (required). Each rule counts the
 * requests it matches, in the order they are taken (a request that is submitted again counts again), and acts on some
 * of them; the first rule that acts on a request wins. */
#ifndef ZINF_IO_FAULT_IO_H_
#define ZINF_IO_FAULT_IO_H_

#include <pthread.h>
#include <stdbool.h>

#include "io/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_io_fault_action {
    ZINF_IO_FAULT_SHORT,     /* reports half of nbytes, rounded down, and moves no more than that (a write under
                              * O_DIRECT only the whole 512-byte sectors of it; what a read leaves is spoilt) */
    ZINF_IO_FAULT_RESULT,    /* reports arg, moves nothing: 0, or a negative errno */
    ZINF_IO_FAULT_DELAY,     /* completes arg calls of reap later than it would */
    ZINF_IO_FAULT_NEVER,     /* never completes; close does not wait for it */
    ZINF_IO_FAULT_FLIP,      /* moves everything, then flips the lowest bit of the first byte in buf of a READ */
    ZINF_IO_FAULT_LOSE,      /* a WRITE that reports success and moves nothing */
};

#define ZINF_IO_FAULT_DIR(dir) (1u << (dir))

struct zinf_io_fault_rule {
    uint32_t dirs;           /* ZINF_IO_FAULT_DIR() of those it matches, or-ed; 0 = all */
    uint32_t first;          /* acts on the first-th match (from 1; 0 = 1) ... */
    uint32_t every;          /* ... and on every every-th after it; 0 = on no other */
    uint32_t max_nr;         /* at most this often; 0 = no limit */
    enum zinf_io_fault_action action;
    int64_t  arg;
};

enum zinf_io_fault_event { ZINF_IO_FAULT_TAKEN, ZINF_IO_FAULT_DONE };

struct zinf_io_fault_entry {
    enum zinf_io_fault_event event;
    enum zinf_io_dir dir;    /* ZINF_IO_SYNC entries are the sync points */
    int      fd;
    uint64_t id;             /* the same in both entries of a request; in the order taken, from 0, per queue */
    uint64_t off_bytes;
    size_t   nbytes;
    int64_t  res;            /* DONE only */
    void    *data;           /* TAKEN writes with keep_data: a copy of the bytes; NULL else */
};

/* Owned by the test. Several queues may share one: their entries are in the order things happened. Zero-initialise all
 * but mu (PTHREAD_MUTEX_INITIALIZER), or use zinf_io_fault_log_init. */
struct zinf_io_fault_log {
    pthread_mutex_t mu;
    struct zinf_io_fault_entry *entries;    /* guarded by mu while queues run, as all below */
    size_t nr, capacity;
    bool   keep_data;        /* set before use */
    bool   lost;             /* no memory for an entry: the log is not complete */
};
void zinf_io_fault_log_init(struct zinf_io_fault_log *log);
void zinf_io_fault_log_free(struct zinf_io_fault_log *log);

struct zinf_io_fault_script {                /* borrowed until the queue is closed, with all it points to */
    const struct zinf_io_ops *inner;         /* does the work; NULL = threads */
    const void *inner_arg;
    const struct zinf_io_fault_rule *rules;
    uint32_t nr_rules;
    uint32_t accept_max;                     /* submit takes at most this many per call; 0 = all */
    int      submit_rc;                      /* every submit_every-th submit call returns this -errno and takes none */
    uint32_t submit_every;                   /* 0 = never */
    uint64_t reorder_seed;                   /* completions come in an order drawn from it; 0 = as they are */
    struct zinf_io_fault_log *log;           /* NULL = none */
};

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_FAULT_IO_H_ */
