/* zinf/report/jsonl.h - the log of a run: one JSON object per line, per step, evaluation and end; and reading it
 * back. */
#ifndef ZINF_REPORT_JSONL_H_
#define ZINF_REPORT_JSONL_H_

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a finished run says of itself: the "end" event, and a row of the tables. */
struct zinf_run_summary {
    char     name[64], offload[32];          /* folder; "nvme", "cpu", "none", or both when they differ */
    uint64_t first_step, steps, tokens;      /* updates before this process and at its end; tokens of this process */
    double   first_loss, last_loss, eval_loss;   /* eval_loss NaN = none */
    double   seconds, tokens_per_s;          /* of the steps alone */
    double   flush_s;                        /* the last flush: pending updates, writes, commit; 0 = none */
    uint64_t budget_nbytes[3], peak_nbytes[3];   /* device, host, nvme */
    uint64_t base_rss_nbytes, peak_rss_nbytes;
    uint64_t drive_read_nbytes, drive_written_nbytes;
    bool     direct;
    char     io_backend[16], device[64];
    char     run_dir[512], log_path[PATH_MAX], weights_path[512];    /* "" = none */
};

struct zinf_jsonl;
/* append = go on after what is there (a resumed run), else the file starts empty. Each line is written with one
 * write(2). Returns 0 or -errno with a line. */
int  zinf_jsonl_open(const char *path, bool append, struct zinf_jsonl **out, struct zinf_status *st);
/* {"event":"step", ...}: every figure of the step, each with its unit in its name. */
int zinf_jsonl_step(struct zinf_jsonl *j, const struct zinf_step *s, const struct zinf_run_info *info,
                    struct zinf_status *st);
int  zinf_jsonl_eval(struct zinf_jsonl *j, uint64_t step, double loss, uint64_t tokens, struct zinf_status *st);
/* {"event":"resume","step":N}: steps after N that stand before this line were repeated. */
int  zinf_jsonl_resume(struct zinf_jsonl *j, uint64_t step, struct zinf_status *st);
int  zinf_jsonl_end(struct zinf_jsonl *j, const struct zinf_run_summary *s, struct zinf_status *st);
int  zinf_jsonl_close(struct zinf_jsonl *j, struct zinf_status *st);      /* NULL is fine; 0 or what fsync/close said */

/* The last "end" event of a log. -ENOENT with a line when it has none (the run did not finish). */
int  zinf_jsonl_summary(const char *path, struct zinf_run_summary *out, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_REPORT_JSONL_H_ */
