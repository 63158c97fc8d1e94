/* zinf/report/table.h - the table at the end of a run, and several runs side by side. */
#ifndef ZINF_REPORT_TABLE_H_
#define ZINF_REPORT_TABLE_H_

#include <stdint.h>
#include <stdio.h>

#include "zinf/report/jsonl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loss first -> last, evaluation loss, tokens/s, peak bytes per tier against budget, base and peak RSS, bytes read and
 * written, O_DIRECT, backend, where run, log and weights are. */
void zinf_table_run(const struct zinf_run_summary *s, FILE *to);
/* One column per run, one row per figure; tokens/s also as a ratio to the fastest. */
void zinf_table_compare(const struct zinf_run_summary *runs, uint32_t nr, FILE *to);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_REPORT_TABLE_H_ */
