/* zinf/model/linear.h - a weight [out, in] as Hugging Face stores it, applied to fp32 rows: three
 * products, packed rows. */
#ifndef ZINF_MODEL_LINEAR_H_
#define ZINF_MODEL_LINEAR_H_

#include <stdint.h>

#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One weight of a call: w in c->dtype, dw its fp32 accumulator (backward only). */
struct zinf_linear { const void *w; float *dw; uint64_t nr_out, nr_in; };

/* y[rows, out] = beta * y + x[rows, in] w^T */
int zinf_linear_forward(const struct zinf_call *c, const struct zinf_linear *lin, float *y, const float *x,
                        uint64_t rows, float beta);
/* dx[rows, in] = beta * dx + dy[rows, out] w */
int zinf_linear_backward_x(const struct zinf_call *c, const struct zinf_linear *lin, float *dx, const float *dy,
                           uint64_t rows, float beta);
/* dw[out, in] = beta * dw + dy^T x */
int zinf_linear_backward_w(const struct zinf_call *c, const struct zinf_linear *lin, const float *dy, const float *x,
                           uint64_t rows, float beta);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_MODEL_LINEAR_H_ */
