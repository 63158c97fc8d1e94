/* zinf/cli/main.c - the program zinf: finds the command and hands it its words. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinf/cli/commands.h"
#include "zinf/config/json.h"
#include "zinf/zinf.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    { "train", zinf_cmd_train, "train a model whose state may be larger than device memory and RAM" },
    { "report", zinf_cmd_report, "tables of finished runs, side by side, and whether their weights are identical" },
    { "export", zinf_cmd_export, "write a Hugging Face folder from a run or a checkpoint" },
    { "clean", zinf_cmd_clean, "remove the state that runs keep on drives" },
    { "doctor", zinf_cmd_doctor, "what this machine offers and what zinf would choose" },
    { "config", zinf_cmd_config, "explain a configuration, or list every key" },
};
enum { NR_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void help(void)
{
    printf("zinf %s: trains transformer models larger than the memory of all devices together\n\nusage: zinf COMMAND ...\n\n",
           zinf_version());
    for (int i = 0; i < NR_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    printf("\nzinf COMMAND --help tells a command's options.\n");
}

int zinf_cmd_fail(const struct zinf_status *st)
{
    fprintf(stderr, "zinf: %s\n", st->text);
    return 1;
}

int zinf_cmd_refuse(const struct zinf_status *st)
{
    /* What the file system says of a name that was given is as much a matter of configuration as a wrong value. */
    static const int theirs[] = { EINVAL, ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, EEXIST, EBUSY, ELOOP, ENAMETOOLONG, EFBIG };
    bool usage = false;

    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
        usage |= st->rc == -theirs[i];
    zinf_cmd_fail(st);
    return usage ? 2 : 1;
}

int zinf_cmd_usage(const struct zinf_status *st)
{
    zinf_cmd_fail(st);
    return 2;
}

static void write_log(void *ctx, enum zinf_log_level level, const char *line)
{
    static const char *const prefix[] = { "error: ", "warning: ", "", "debug: " };

    (void)ctx;
    fprintf(stderr, "zinf: %s%s\n", prefix[level], line);
}

int zinf_cmd_log(struct zinf_log *out, struct zinf_status *st)
{
    const char *level = getenv("ZINF_LOG");

    *out = (struct zinf_log){ .level = ZINF_LOG_INFO, .write = write_log };
    if (level && zinf_log_level_parse(level, &out->level))
        return zinf_fail(st, -EINVAL, "ZINF_LOG=%s: use error, warn, info or debug", level);
    return 0;
}

/* A standard stream that came closed would be the number of the next file opened, and lines would be written into it: into
 * the state of a run, at worst. What is opened in its place refuses writing, as a closed one does. */
static bool hold_standard_streams(void)
{
    int fd;

    do {
        fd = open("/", O_PATH | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int run(int argc, char **argv)
{
    const char *names[NR_COMMANDS], *near;
    struct zinf_status st = { 0 };

    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help();
        return argc < 2 ? 2 : 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("zinf %s\n", zinf_version());
        return 0;
    }
    for (int i = 0; i < NR_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 2, argv + 2);
    }
    near = zinf_nearest(argv[1], names, NR_COMMANDS);
    if (near)
        zinf_fail(&st, -EINVAL, "unknown command %s; did you mean %s?", argv[1], near);
    else
        zinf_fail(&st, -EINVAL, "unknown command %s; see zinf --help", argv[1]);
    return zinf_cmd_usage(&st);
}

int main(int argc, char **argv)
{
    int rc;

    if (!hold_standard_streams())
        return 1;
    signal(SIGXFSZ, SIG_IGN);       /* a file over the limit (ulimit -f) is an error with a line, not a death */
    rc = run(argc, argv);
    /* A full disk under a redirected standard output must not look like success. */
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "zinf: standard output could not be written: %s\n", strerror(errno));
        return rc ? rc : 1;
    }
    return rc;
}
