/* zinf/cli/report.c - `zinf report`: finished runs side by side, and whether they ended with the same weights. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/cli/args.h"
#include "zinf/cli/commands.h"
#include "zinf/cli/outdir.h"
#include "zinf/cli/runfile.h"
#include "zinf/report/table.h"

enum { BUF = 64 * 1024 };

/* 1 = equal, 0 = different, -errno with a line. */
static int same_file(const char *a, const char *b, struct zinf_status *st)
{
    static char one[BUF], two[BUF];
    FILE *f = fopen(a, "rb"), *g = f ? fopen(b, "rb") : NULL;
    int rc = 1;

    if (!f || !g)
        rc = zinf_fail(st, -errno, "%s: %s", f ? b : a, strerror(errno));
    while (rc == 1) {
        size_t n = fread(one, 1, BUF, f), m = fread(two, 1, BUF, g);

        if (ferror(f) || ferror(g))
            rc = zinf_fail(st, -EIO, "reading %s or %s failed", a, b);
        else if (n != m || memcmp(one, two, n))
            rc = 0;
        else if (!n)
            break;
    }
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    return rc;
}

static int compare_weights(const struct zinf_run_summary *runs, uint32_t nr, struct zinf_status *st)
{
    char a[sizeof(runs->weights_path) + 32], b[sizeof(a)];

    snprintf(a, sizeof(a), "%s/model.safetensors", runs[0].weights_path);
    for (uint32_t i = 1; i < nr; i++) {
        int rc;

        snprintf(b, sizeof(b), "%s/model.safetensors", runs[i].weights_path);
        rc = same_file(a, b, st);
        if (rc < 0)
            return rc;
        if (!rc) {
            printf("weights: DIFFERENT: %s and %s\n", a, b);
            return zinf_fail(st, -EILSEQ, "the runs %s and %s did not end with the same weights", runs[0].name, runs[i].name);
        }
    }
    printf("weights: identical, byte for byte, in all %u runs\n", nr);
    return 0;
}

/* The log says where the run was, seen from where it was started; the folder may have moved since, and so may we. */
static void here(struct zinf_run_summary *s, const struct zinf_outdir *o)
{
    snprintf(s->run_dir, sizeof(s->run_dir), "%s", o->path);
    snprintf(s->log_path, sizeof(s->log_path), "%s", o->log);
    snprintf(s->weights_path, sizeof(s->weights_path), "%s", o->model);
}

int zinf_cmd_report(int argc, char **argv)
{
    struct zinf_arg_list dirs = { 0 };
    bool help = false, same = false;
    const struct zinf_arg args[] = {
        { "same-weights", ZINF_ARG_FLAG, &same, NULL, "also compare the exported weights; exit 1 when they differ", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &help, NULL, "this text", 0, 0, false },
    };
    struct zinf_run_summary *runs = NULL;
    struct zinf_status st = { 0 };
    int rc = zinf_args_parse(args, sizeof(args) / sizeof(args[0]), &dirs, argc, argv, &st);

    if (!rc && help) {
        zinf_args_help("zinf report [--same-weights] DIR [DIR ...]", args, sizeof(args) / sizeof(args[0]));
        zinf_args_free(&dirs);
        return 0;
    }
    if (!rc && !dirs.nr)
        rc = zinf_fail(&st, -EINVAL, "name the folders of one or more finished runs");
    if (!rc && same && dirs.nr < 2)
        rc = zinf_fail(&st, -EINVAL, "--same-weights compares runs: name two or more");
    if (!rc && !(runs = calloc(dirs.nr, sizeof(*runs))))
        rc = zinf_fail(&st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < dirs.nr && !rc; i++) {
        struct zinf_outdir o;
        struct zinf_run_file file = { 0 };

        rc = zinf_outdir_find(dirs.items[i], &o, &st);
        if (!rc)
            rc = zinf_run_file_read(o.path, &file, &st);
        if (!rc && file.log[0])
            snprintf(o.log, sizeof(o.log), "%s", file.log);
        if (!rc)
            rc = zinf_jsonl_summary(o.log, &runs[i], &st);
        zinf_run_file_free(&file);
        if (!rc)
            here(&runs[i], &o);
    }
    if (!rc && dirs.nr == 1)
        zinf_table_run(&runs[0], stdout);
    else if (!rc)
        zinf_table_compare(runs, dirs.nr, stdout);
    if (!rc && same)
        rc = compare_weights(runs, dirs.nr, &st);
    free(runs);
    zinf_args_free(&dirs);
    return rc ? zinf_cmd_refuse(&st) : 0;
}
