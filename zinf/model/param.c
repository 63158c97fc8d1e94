/* zinf/model/param.c - how many elements a parameter has. */
#include "zinf/zinf.h"

uint64_t zinf_param_elems(const struct zinf_param *p)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < p->nr_dims; i++)
        n *= p->dims[i];
    return n;
}
