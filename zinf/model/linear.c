/* zinf/model/linear.c - the three products of a linear map on the device's gemm. */
#include "zinf/model/linear.h"

int zinf_linear_forward(const struct zinf_call *c, const struct zinf_linear *lin, float *y, const float *x,
                        uint64_t rows, float beta)
{
    const struct zinf_gemm g = {
        .trans_b = true,
        .m = rows, .n = lin->nr_out, .k = lin->nr_in,
        .a = x, .a_dtype = ZINF_F32, .lda = lin->nr_in,
        .b = lin->w, .b_dtype = c->dtype, .ldb = lin->nr_in,
        .c = y, .c_dtype = ZINF_F32, .ldc = lin->nr_out,
        .beta = beta,
    };

    return c->ops->gemm(c->stream, &g);
}

int zinf_linear_backward_x(const struct zinf_call *c, const struct zinf_linear *lin, float *dx, const float *dy,
                           uint64_t rows, float beta)
{
    const struct zinf_gemm g = {
        .m = rows, .n = lin->nr_in, .k = lin->nr_out,
        .a = dy, .a_dtype = ZINF_F32, .lda = lin->nr_out,
        .b = lin->w, .b_dtype = c->dtype, .ldb = lin->nr_in,
        .c = dx, .c_dtype = ZINF_F32, .ldc = lin->nr_in,
        .beta = beta,
    };

    return c->ops->gemm(c->stream, &g);
}

int zinf_linear_backward_w(const struct zinf_call *c, const struct zinf_linear *lin, const float *dy, const float *x,
                           uint64_t rows, float beta)
{
    const struct zinf_gemm g = {
        .trans_a = true,
        .m = lin->nr_out, .n = lin->nr_in, .k = rows,
        .a = dy, .a_dtype = ZINF_F32, .lda = lin->nr_out,
        .b = x, .b_dtype = ZINF_F32, .ldb = lin->nr_in,
        .c = lin->dw, .c_dtype = ZINF_F32, .ldc = lin->nr_in,
        .beta = beta,
    };

    return c->ops->gemm(c->stream, &g);
}
