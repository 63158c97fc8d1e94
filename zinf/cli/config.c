/* zinf/cli/config.c - `zinf config`: every resolved value with its origin, or every key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "zinf/cli/args.h"
#include "zinf/cli/commands.h"
#include "zinf/config/config.h"

int zinf_cmd_config(int argc, char **argv)
{
    const char *explain = NULL, *list = NULL;
    struct zinf_arg_list sets = { 0 };
    bool help = false;
    const struct zinf_arg args[] = {
        { "explain", ZINF_ARG_STRING, &explain, "FILE", "print every resolved value of a ds_config.json and where it came from", 0, 0, false },
        { "list", ZINF_ARG_STRING, &list, "keys", "list every known key", 0, 0, false },
        { "set", ZINF_ARG_LIST, &sets, "KEY=VALUE", "override a key; may be repeated", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &help, NULL, "this text", 0, 0, false },
    };
    struct zinf_status st = { 0 };
    struct zinf_config config;
    struct zinf_log log;
    int rc = zinf_args_parse(args, sizeof(args) / sizeof(args[0]), NULL, argc, argv, &st);

    if (!rc)
        rc = zinf_cmd_log(&log, &st);
    if (!rc && help) {
        zinf_args_help("zinf config --explain FILE [--set KEY=VALUE] | --list keys", args, sizeof(args) / sizeof(args[0]));
        zinf_args_free(&sets);
        return 0;
    }
    if (!rc && !explain == !list)
        rc = zinf_fail(&st, -EINVAL, "give --explain FILE or --list keys");
    if (!rc && list && strcmp(list, "keys"))
        rc = zinf_fail(&st, -EINVAL, "--list knows \"keys\", not \"%s\"", list);
    if (rc) {
        zinf_args_free(&sets);
        return zinf_cmd_usage(&st);
    }
    if (list) {
        zinf_config_list_keys(stdout);
        zinf_args_free(&sets);
        return 0;
    }
    rc = zinf_config_load(explain, NULL, NULL, sets.items, sets.nr, &log, &config, &st);
    zinf_args_free(&sets);
    if (rc)
        return zinf_cmd_usage(&st);
    zinf_config_explain(&config, stdout);
    zinf_config_free(&config);
    return 0;
}
