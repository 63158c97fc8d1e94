/* zinf/config/gather.h - reads a configuration file and lays --set over it: which key was given which value, and no
 * other key. */
#ifndef ZINF_CONFIG_GATHER_H_
#define ZINF_CONFIG_GATHER_H_

#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/config/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* s was created for nr_sets. path, or text with name, or both NULL: only --set. Fills `given`, `origin` and the FREE
 * flags. Returns 0, -EINVAL, -ENOMEM or what open(2) said. */
int zinf_settings_gather(struct zinf_settings *s, const char *path, const char *text, const char *name,
                         const char *const *sets, uint32_t nr_sets, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_GATHER_H_ */
