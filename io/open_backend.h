/* io/open_backend.h - opens the backend asked for, or the first of the automatic ones that opens. Private to io. */
#ifndef ZINF_IO_OPEN_BACKEND_H_
#define ZINF_IO_OPEN_BACKEND_H_

#include "io/backend.h"
#include "zinf/base/log.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* wanted NULL = automatic, with one warning in log per backend that was refused. On success *ops and *io are the
 * backend; on failure *io is NULL and st says why. Returns 0, -EINVAL when opts asks for more than the backend has,
 * -ENODEV, or what open said. */
int zinf_io_open_backend(const struct zinf_io_ops *wanted, const struct zinf_io_opts *opts, const struct zinf_log *log,
                         const struct zinf_io_ops **ops, struct zinf_io **io, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_IO_OPEN_BACKEND_H_ */
