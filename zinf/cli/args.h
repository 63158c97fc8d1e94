/* zinf/cli/args.h - command lines from a table: --name VALUE, --name=VALUE, flags, repeated options, positional words. */
#ifndef ZINF_CLI_ARGS_H_
#define ZINF_CLI_ARGS_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_arg_type { ZINF_ARG_STRING, ZINF_ARG_U64, ZINF_ARG_FLAG, ZINF_ARG_LIST };

struct zinf_arg_list { const char **items; uint32_t nr; };    /* items owned: free with zinf_args_free */

struct zinf_arg {
    const char *name;          /* without the dashes */
    enum zinf_arg_type type;
    void *value;               /* const char **, uint64_t *, bool *, struct zinf_arg_list * */
    const char *what;          /* placeholder of the value in the help, e.g. "FILE" */
    const char *help;
    uint64_t min, max;         /* U64: allowed range; 0, 0 = any */
    bool required;
};

/* words may be NULL when the command takes no positional word. An unknown option names the nearest one. Returns 0 or -EINVAL
 * with a line. Values point into argv. */
int  zinf_args_parse(const struct zinf_arg *args, uint32_t nr, struct zinf_arg_list *words, int argc, char **argv,
                     struct zinf_status *st);
void zinf_args_free(struct zinf_arg_list *list);
void zinf_args_help(const char *usage, const struct zinf_arg *args, uint32_t nr);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CLI_ARGS_H_ */
