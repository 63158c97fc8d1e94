/* zinf/base/log.h - messages with a level, to a sink the owner of the run chose. No global state. */
#ifndef ZINF_BASE_LOG_H_
#define ZINF_BASE_LOG_H_

#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_log_level { ZINF_LOG_ERROR, ZINF_LOG_WARN, ZINF_LOG_INFO, ZINF_LOG_DEBUG };

/* write is called from any thread, with one line without a newline; NULL = standard error.
 * Messages above level are dropped. A NULL struct zinf_log * drops everything. */
struct zinf_log {
    enum zinf_log_level level;
    void (*write)(void *ctx, enum zinf_log_level level, const char *line);
    void *ctx;
};

void zinf_log(const struct zinf_log *log, enum zinf_log_level level, const char *fmt, ...) ZINF_PRINTF(3, 4);
/* "error" "warn" "info" "debug"; returns 0 or -EINVAL. */
int zinf_log_level_parse(const char *text, enum zinf_log_level *out);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_LOG_H_ */
