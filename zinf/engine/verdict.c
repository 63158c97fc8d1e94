/* zinf/engine/verdict.c - see verdict.h. */
#include "zinf/engine/verdict.h"

double zinf_clip_factor(double grad_norm, double limit)
{
    double factor;

    if (!(limit > 0))
        return 1;
    factor = limit / (grad_norm + 1e-6);
    return factor < 1 ? factor : 1;
}
