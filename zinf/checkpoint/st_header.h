/* zinf/checkpoint/st_header.h - the first bytes of a safetensors file, made from names and shapes; for every writer of one. */
#ifndef ZINF_CHECKPOINT_ST_HEADER_H_
#define ZINF_CHECKPOINT_ST_HEADER_H_

#include <stddef.h>
#include <stdint.h>

#include "zinf/base/dtype.h"
#include "zinf/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_st_desc {
    const char *name;
    enum zinf_dtype dtype;
    uint32_t nr_dims;                        /* at most 4 */
    uint64_t dims[4];
};

/* nbytes[i] of each tensor and their sum. Returns 0, -EINVAL (sizes beyond 63 bits, a name twice or reserved), -ENOMEM. */
int zinf_st_check(const struct zinf_st_desc *tensors, uint32_t nr_tensors, uint64_t *nbytes, uint64_t *total_nbytes,
                  struct zinf_status *st);
/* Length, JSON and padding of a file that holds these tensors in this order; *out is malloc'ed. Returns 0 or -ENOMEM. */
int zinf_st_header(const struct zinf_st_desc *tensors, uint32_t nr_tensors, const uint64_t *nbytes, unsigned char **out,
                   size_t *out_nbytes, struct zinf_status *st);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_ST_HEADER_H_ */
