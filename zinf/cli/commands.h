/* zinf/cli/commands.h - the commands of the program zinf. Each gets the words after its name and returns the exit code:
 * 0 done, 1 failed at run time, 2 bad usage or configuration, 130/143 stopped by a signal. */
#ifndef ZINF_CLI_COMMANDS_H_
#define ZINF_CLI_COMMANDS_H_

#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

int zinf_cmd_train(int argc, char **argv);
int zinf_cmd_report(int argc, char **argv);
int zinf_cmd_export(int argc, char **argv);
int zinf_cmd_doctor(int argc, char **argv);
int zinf_cmd_config(int argc, char **argv);

/* "zinf: text" on standard error; returns 1: something failed at run time. */
int zinf_cmd_fail(const struct zinf_status *st);
/* For what a start-up says: 2 when a word, a key or a path has to change, 1 when the machine failed (memory, space, I/O). */
int zinf_cmd_refuse(const struct zinf_status *st);
/* Always 2: the words of the command line are wrong. */
int zinf_cmd_usage(const struct zinf_status *st);
/* Warnings and notes to standard error; ZINF_LOG sets the level. */
int zinf_cmd_log(struct zinf_log *out, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CLI_COMMANDS_H_ */
