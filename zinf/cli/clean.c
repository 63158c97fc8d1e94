/* zinf/cli/clean.c - `zinf clean`: gives back the drive space of a run that nobody uses any more. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "swapper/rundir.h"
#include "zinf/cli/args.h"
#include "zinf/cli/commands.h"
#include "zinf/cli/outdir.h"
#include "zinf/cli/runfile.h"

/* Forgetting a state whose drive is only not there today would leave it on that drive for ever. */
static int check_drive(const char *path, struct zinf_status *st)
{
    char drive[PATH_MAX];
    const char *slash = strrchr(path, '/');

    snprintf(drive, sizeof(drive), "%.*s", slash ? (int)(slash - path) : 0, path);
    return !access(drive[0] ? drive : "/", F_OK) ? 0
           : zinf_fail(st, -errno, "%s: %s: mount the drive that holds the run's state, then clean again", drive, strerror(errno));
}

/* A folder that is gone already is no failure: an earlier clean may have been interrupted. */
static int clean_state(const char *path, struct zinf_status *st)
{
    struct zinf_rundir r;
    struct zinf_status why = { 0 };
    int rc = zinf_rundir_adopt(path, &r, &why);

    if (rc == -ENOENT)
        return check_drive(path, st);
    if (rc)
        return zinf_fail(st, rc, "%s", why.text);
    rc = zinf_rundir_close(&r, true, st);
    if (!rc)
        printf("removed %s\n", path);
    return rc;
}

/* Returns the number of folders on drives that the run had, or -errno. */
static int clean_run(const char *dir, struct zinf_status *st)
{
    struct zinf_run_file r;
    int rc = zinf_run_file_read(dir, &r, st), nr;

    if (rc)
        return rc;
    nr = (int)r.nr_state_dirs;
    for (uint32_t i = 0; i < r.nr_state_dirs && !rc; i++)
        rc = clean_state(r.state_dirs[i], st);
    if (!rc && r.nr_state_dirs) {          /* the log, the weights and the checkpoints stay */
        r.nr_state_dirs = 0;
        rc = zinf_run_file_write(dir, &r, st);
    }
    zinf_run_file_free(&r);
    return rc ? rc : nr;
}

int zinf_clean_run(const char *dir, struct zinf_status *st)
{
    int rc = clean_run(dir, st);

    return rc < 0 ? rc : 0;
}

int zinf_cmd_clean(int argc, char **argv)
{
    struct zinf_arg_list dirs = { 0 };
    bool help = false;
    const struct zinf_arg args[] = { { "help", ZINF_ARG_FLAG, &help, NULL, "this text", 0, 0, false } };
    struct zinf_status st = { 0 };
    int rc = zinf_args_parse(args, 1, &dirs, argc, argv, &st);

    if (!rc && help) {
        zinf_args_help("zinf clean DIR [DIR ...]   removes the state that the runs in these folders keep on drives", args, 1);
        zinf_args_free(&dirs);
        return 0;
    }
    if (!rc && !dirs.nr)
        rc = zinf_fail(&st, -EINVAL, "name the folders of the runs whose state on drives is to be removed");
    if (rc) {
        zinf_args_free(&dirs);
        return zinf_cmd_usage(&st);
    }
    for (uint32_t i = 0; i < dirs.nr && !rc; i++) {
        struct zinf_outdir o;

        rc = zinf_outdir_enter(dirs.items[i], &o, &st);
        if (!rc)
            rc = clean_run(dirs.items[i], &st);
        if (!rc)
            printf("%s keeps no state on a drive\n", dirs.items[i]);
        rc = rc < 0 ? rc : 0;
        zinf_outdir_close(&o);
    }
    zinf_args_free(&dirs);
    return rc ? zinf_cmd_refuse(&st) : 0;
}
