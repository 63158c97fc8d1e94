/* zinf/cli/runfile.h - run.json: everything `zinf train --resume` needs to go on with a run, sealed against flipped bits. */
#ifndef ZINF_CLI_RUNFILE_H_
#define ZINF_CLI_RUNFILE_H_

#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/config/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZINF_RUN_STRINGS_MAX = 64 };

struct zinf_run_file {           /* strings are borrowed when written; after a read they point into doc */
    const char *config;          /* text of the configuration */
    const char *sets[ZINF_RUN_STRINGS_MAX];
    uint32_t nr_sets;
    const char *model, *data, *eval_data;       /* absolute paths; eval_data "" = held out */
    const char *log;             /* absolute path; "" = DIR/log.jsonl */
    const char *state_dirs[ZINF_RUN_STRINGS_MAX];
    uint32_t nr_state_dirs;      /* run folders on drives that keep a record; 0 = none */
    uint64_t seq_len, steps, eval_every, save_every, keep;
    struct zinf_json_doc doc;
};

/* Writes DIR/run.json whole or not at all. */
int  zinf_run_file_write(const char *dir, const struct zinf_run_file *r, struct zinf_status *st);
/* -ENOENT when DIR holds no run; -EBADMSG when it is damaged; -EINVAL when a field is missing: each with a line. */
int  zinf_run_file_read(const char *dir, struct zinf_run_file *out, struct zinf_status *st);
void zinf_run_file_free(struct zinf_run_file *r);      /* of a read one; safe on a zeroed one */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CLI_RUNFILE_H_ */
