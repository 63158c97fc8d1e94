/* zinf/cli/outdir.h - the folder of a run: run.json (what it is), log.jsonl, model/ (the exported weights).
 *
 * A folder that holds a run is not written over without being told to; a folder that holds anything else never is. */
#ifndef ZINF_CLI_OUTDIR_H_
#define ZINF_CLI_OUTDIR_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_outdir { char path[512], log[512], model[512], run[512]; };

struct zinf_run_file {          /* run.json */
    const char *config, *model, *data;
    const char *state_dir;      /* "" = none */
    uint32_t seq_len;
    uint64_t steps;
};

/* Makes path (its parent must exist) or takes an empty folder, or, with overwrite, one that holds a finished or dead run, whose
 * log and weights are removed. Returns 0, -EEXIST or -errno with a line. */
int zinf_outdir_open(const char *path, bool overwrite, struct zinf_outdir *out, struct zinf_status *st);
/* Paths only, of a folder that must hold run.json. */
int zinf_outdir_find(const char *path, struct zinf_outdir *out, struct zinf_status *st);
/* Writes run.json whole: temporary name, fsync, rename, fsync of the folder. */
int zinf_outdir_write(const struct zinf_outdir *o, const struct zinf_run_file *r, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CLI_OUTDIR_H_ */
