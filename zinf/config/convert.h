/* zinf/config/convert.h - from what was written to values: types, ranges, "auto", other spellings, refusals, notes. */
#ifndef ZINF_CONFIG_CONVERT_H_
#define ZINF_CONFIG_CONVERT_H_

#include "zinf/base/log.h"
#include "zinf/base/status.h"
#include "zinf/config/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After gathering: gives every setting its value or its default. Each rule of one key is applied here. Returns 0,
 * -EINVAL or -ENOMEM. */
int zinf_settings_convert(struct zinf_settings *s, const struct zinf_log *log, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_CONVERT_H_ */
