/* zinf/cli/outdir.h - the folder of a run: run.json (what it is), log.jsonl, model/ (the exported
 * weights), checkpoints/ (those of --save-every).
 *
 * A folder that holds a run is not written over without being told to; a folder that holds anything else never is. */
#ifndef ZINF_CLI_OUTDIR_H_
#define ZINF_CLI_OUTDIR_H_

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_outdir {
    char path[512], log[PATH_MAX], model[512], run[512];
    int  lock_fd;               /* the folder's lock, held by the run that is going; -1 = none */
    bool exists;                /* found by zinf_outdir_check: an empty folder or a run to be replaced */
};

/* Whether a run may take path: it is absent in a folder that can be written, or empty, or, with overwrite, a finished or dead
 * run. Changes nothing, but locks a folder that exists. Returns 0 (then zinf_outdir_close ends it), or -errno with a line:
 * -EEXIST when something is in the way, -EBUSY when a living run holds it. */
int  zinf_outdir_check(const char *path, bool overwrite, struct zinf_outdir *out, struct zinf_status *st);
/* After zinf_outdir_check: makes the folder, or removes log and weights of the run that it held. Returns 0 or -errno with a
 * line. */
int  zinf_outdir_take(struct zinf_outdir *o, struct zinf_status *st);
/* Whether a log at path could be written; creates nothing. */
int  zinf_outdir_check_log(const char *path, struct zinf_status *st);
/* Gives up the lock. Safe on a closed one. */
void zinf_outdir_close(struct zinf_outdir *o);
/* Paths only, of a folder that must hold run.json (zinf/cli/runfile.h reads it). */
int  zinf_outdir_find(const char *path, struct zinf_outdir *out, struct zinf_status *st);
/* The same and its lock, to go on with the run. zinf_outdir_close ends it. */
int  zinf_outdir_enter(const char *path, struct zinf_outdir *out, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CLI_OUTDIR_H_ */
