/* zinf/cli/train.h - one `zinf train`: its options and everything that is open while it runs. */
#ifndef ZINF_CLI_TRAIN_H_
#define ZINF_CLI_TRAIN_H_

#include <limits.h>

#include "zinf/cli/args.h"
#include "zinf/cli/outdir.h"
#include "zinf/cli/runfile.h"
#include "zinf/config/config.h"
#include "zinf/report/jsonl.h"
#include "zinf/report/progress.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_cli_options {
    const char *config, *model, *data, *eval_data, *out, *log, *init_from, *checkpoint;
    uint64_t seq_len, steps, eval_every, save_every, keep;
    struct zinf_arg_list sets;
    bool overwrite, resume, serial, help;
};

struct zinf_cli_run {
    struct zinf_cli_options o;
    struct zinf_config config;
    struct zinf_outdir out;
    struct zinf_run_file file;          /* of the run that is resumed */
    struct zinf_log log;
    struct zinf_trainer *t;
    bool claimed;                       /* run.json names the folders of a new run */
    struct zinf_progress *progress;
    struct zinf_jsonl *jsonl;
    struct zinf_run_summary sum;
    struct zinf_step last;
    char *config_text, *model_path, *data_path, *eval_path;     /* owned; paths are absolute */
    char log_path[PATH_MAX], saves[1024], checkpoint[2048];
};

int  zinf_cli_parse(struct zinf_cli_options *o, int argc, char **argv, struct zinf_status *st);
/* Refuses whatever can be refused before --out and the run in it are touched; then opens the trainer, the folder and the log. */
int  zinf_cli_open(struct zinf_cli_run *r, struct zinf_status *st);
/* After a run that keeps no state on drives (zinf.keep_state false): run.json must not name it. */
int  zinf_cli_forget_state(struct zinf_cli_run *r, struct zinf_status *st);
void zinf_cli_close(struct zinf_cli_run *r);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CLI_TRAIN_H_ */
