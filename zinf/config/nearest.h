/* zinf/config/nearest.h - what was meant by a misspelt name. */
#ifndef ZINF_CONFIG_NEAREST_H_
#define ZINF_CONFIG_NEAREST_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name in names[] with the smallest edit distance to word (two letters changing places count once, case does not
 * count; the first one wins a tie), or NULL when none is near enough to be meant: more than two fifths of word would
 * change. */
const char *zinf_nearest(const char *word, const char *const *names, uint32_t nr_names);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_NEAREST_H_ */
