/* swapper/program.h - writes a program down, one operation after another: begin, reads, writes, end.
 *
 * Dependencies are derived at end, cell by cell: a reader follows the writer; a writer follows the readers since, or
 * the writer when there was none. After a lack of memory every call is a no-op and close says so. */
#ifndef ZINF_SWAPPER_PROGRAM_H_
#define ZINF_SWAPPER_PROGRAM_H_

#include <stdbool.h>
#include <stdint.h>

#include "swapper/schedule.h"
#include "swapper/schedule_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_program_reader { uint32_t op, next; };

struct zinf_program_writer {
    const struct zinf_sched_plan *p;
    struct zinf_program *g;
    bool failed;
    uint32_t cap_ops, cap_accesses, cap_deps, cap_bufs, cap_marks;
    /* per cell: who wrote it last, who has read it since (a list in readers) */
    uint32_t *last_writer, *since, nr_cells, cap_last_writer, cap_since;
    struct zinf_program_reader *readers;  uint32_t nr_readers, cap_readers;
    uint32_t *buf_cell;                   uint32_t cap_buf_cell;   /* first cell of a buffer */
    uint32_t *mark;                       /* per operation: the last that named it */
    struct zinf_op nowhere;               /* what begin returns after a failure: written, never read */
};

/* The program is empty; out and p are borrowed until close. */
bool zinf_prog_open(struct zinf_program_writer *e, const struct zinf_sched_plan *p, struct zinf_program *out);
/* 0, or -ENOMEM; then the program is empty again. */
int zinf_prog_close(struct zinf_program_writer *e);

/* A new buffer; a WEIGHT buffer has one cell for each of nr_cells grains. */
uint32_t zinf_prog_buf(struct zinf_program_writer *e, enum zinf_class c, uint32_t nr_cells);
/* The operation, for its numbers to be set; valid until end. */
struct zinf_op *zinf_prog_begin(struct zinf_program_writer *e, enum zinf_op_kind kind, enum zinf_lane lane,
                                enum zinf_what what);
void zinf_prog_reads(struct zinf_program_writer *e, struct zinf_access a);
void zinf_prog_writes(struct zinf_program_writer *e, struct zinf_access a);
/* The operation at hand follows op (ZINF_NONE: nothing). */
void zinf_prog_after(struct zinf_program_writer *e, uint32_t op);
/* Takes work / rate seconds (0 when rate is not positive). Returns the operation's number. */
uint32_t zinf_prog_end(struct zinf_program_writer *e, uint64_t nbytes, double work, double rate);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_SWAPPER_PROGRAM_H_ */
