/* zinf/report/progress.h - one line per step: redrawn in place on a terminal, a plain line elsewhere.
 *
 *   step 12/200 durable 11 loss 3.1416 norm 0.92 lr 3.0e-04 | 812 tok/s 1.9 TFLOP/s | nvme 1.41r 1.38w GB/s
 *   | bound: nvme-write 94% | device 0.9/1.0 GiB ram 24.1/28.0 GiB | eta 3m12s */
#ifndef ZINF_REPORT_PROGRESS_H_
#define ZINF_REPORT_PROGRESS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The line without a newline into buf; returns buf. nr_steps is the step the run ends at; eta_s < 0 = unknown, not
 * shown. Drive rates are shown when a drive moved bytes. */
char *zinf_progress_line(const struct zinf_step *s, const struct zinf_run_info *info, uint64_t nr_steps, double eta_s,
                         char *buf, size_t nbytes);

struct zinf_progress;
/* to_terminal: lines replace each other (cut to the terminal's width); else every line ends in a newline and only every
 * every-th step (0 = 1) and the last one are printed. Writes to standard output. Returns NULL when out of memory. */
struct zinf_progress *zinf_progress_open(bool to_terminal, uint64_t nr_steps, uint64_t every);
void zinf_progress_set_steps(struct zinf_progress *p, uint64_t nr_steps);     /* known later: one epoch */
void zinf_progress_step(struct zinf_progress *p, const struct zinf_step *s, const struct zinf_run_info *info);
/* Start-up work: "initialising 45%". */
void zinf_progress_setup(struct zinf_progress *p, const char *what, uint64_t done, uint64_t total);
/* A line of its own between steps (evaluation, notes); the live line is redrawn below it. */
void zinf_progress_say(struct zinf_progress *p, const char *line);
/* Takes the live line off the terminal, so that another stream can write there; the next step draws it again. */
void zinf_progress_clear(struct zinf_progress *p);
void zinf_progress_close(struct zinf_progress *p);      /* leaves the cursor on a fresh line; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_REPORT_PROGRESS_H_ */
