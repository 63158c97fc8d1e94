/* zinf/base/log.c - formats one line and hands it to the sink. */
#include "zinf/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const level_names[] = {
    [ZINF_LOG_ERROR] = "error", [ZINF_LOG_WARN] = "warn", [ZINF_LOG_INFO] = "info", [ZINF_LOG_DEBUG] = "debug",
};

static void write_stderr(enum zinf_log_level level, const char *line)
{
    /* One call, so that lines of several threads do not mix. */
    if (level == ZINF_LOG_INFO)
        fprintf(stderr, "zinf: %s\n", line);
    else
        fprintf(stderr, "zinf: %s: %s\n", level_names[level], line);
}

void zinf_log(const struct zinf_log *log, enum zinf_log_level level, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    if (!log || level > log->level)
        return;
    va_start(ap, fmt);
    zinf_line(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (log->write)
        log->write(log->ctx, level, line);
    else
        write_stderr(level, line);
}

int zinf_log_level_parse(const char *text, enum zinf_log_level *out)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum zinf_log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}
