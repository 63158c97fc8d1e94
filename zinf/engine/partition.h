/* zinf/engine/partition.h - a chain laid out in units: which parameter lies where, and the schedule's view of it.
 *
 * A unit is one flat buffer; every parameter starts at a multiple of ZINF_PARAM_ALIGN elements and the unit ends at a
 * multiple of ZINF_NORM_CHUNK, so that norms, blocks and drive alignment fall together. Padding is zero and stays
 * zero. */
#ifndef ZINF_ENGINE_PARTITION_H_
#define ZINF_ENGINE_PARTITION_H_

#include "swapper/schedule.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_PARAM_ALIGN 64u    /* elements */
#define ZINF_MAX_UNIT_PARAMS 256u  /* parameters of one layer */

struct zinf_unit_param {
    const struct zinf_param *param;     /* borrowed from the chain */
    uint32_t unit;
    uint64_t offset, nr_elems;          /* elements within the unit */
};

struct zinf_partition {
    const struct zinf_chain *chain;     /* borrowed */
    uint32_t nr_units, nr_params;
    struct zinf_unit_param *params;     /* in unit order */
    uint32_t *unit_first_param;         /* nr_units + 1 */
    uint64_t *unit_elems;               /* padded */
    uint32_t embed_unit, head_unit;     /* ZINF_NONE: none; equal when tied */
    uint32_t *layer_units;              /* chain->nr_layers; a layer without parameters has an empty unit */
    uint32_t *head_params;              /* chain->head->nr_params: index into params */
    uint64_t nr_elems;                  /* of all parameters, padding not counted */
};

/* Checks the chain (shapes, unique names, required functions). Returns 0, -EINVAL with a line, -ENOMEM. */
int  zinf_partition_make(const struct zinf_chain *chain, struct zinf_partition *out, struct zinf_status *st);
void zinf_partition_free(struct zinf_partition *p);     /* safe on a zeroed one */
/* The parameter that holds element elem of a unit, or NULL for padding. */
const struct zinf_unit_param *zinf_partition_find(const struct zinf_partition *p, uint32_t unit, uint64_t elem);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_ENGINE_PARTITION_H_ */
