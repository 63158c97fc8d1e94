/* tests/kernels/reference.h - every operation of kernels/device.h in double, written to be read: the oracle of the
 * kernels. reference_test.cc holds each backward against finite differences of its forward. */
#ifndef ZINF_TESTS_KERNELS_REFERENCE_H_
#define ZINF_TESTS_KERNELS_REFERENCE_H_

#include <cstdint>
#include <vector>

namespace zinf_ref {

using Vec = std::vector<double>;

/* C = beta C + op(A) op(B), dense row-major as stored. */
void Gemm(bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k, const Vec &a, const Vec &b, double beta,
          Vec *c);

Vec RmsNormForward(const Vec &x, const Vec &w, uint64_t width, double eps, Vec *rstd);
/* dx and dw are overwritten. */
void RmsNormBackward(const Vec &dy, const Vec &x, const Vec &w, uint64_t width, double eps, Vec *dx, Vec *dw);

/* x: [rows, nr_heads * head_dim] */
Vec Rope(const Vec &x, uint64_t seq, uint64_t nr_heads, uint64_t head_dim, const Vec &cos_sin, double sin_sign);

struct Attention {
    uint64_t batch, seq, nr_heads, nr_kv_heads, head_dim, window;
    double scale;
};
Vec AttentionForward(const Attention &a, const Vec &q, const Vec &k, const Vec &v, Vec *lse);
void AttentionBackward(const Attention &a, const Vec &q, const Vec &k, const Vec &v, const Vec &d_o, Vec *dq, Vec *dk,
                       Vec *dv);

Vec SwiGluForward(const Vec &g, const Vec &u);
void SwiGluBackward(const Vec &dh, const Vec &g, const Vec &u, Vec *dg, Vec *du);

/* Row losses; dlogits of sum(losses) * grad_scale. */
Vec CrossEntropy(const Vec &logits, uint64_t vocab, const std::vector<int32_t> &targets, double grad_scale,
                 Vec *dlogits);

} // namespace zinf_ref
#endif /* ZINF_TESTS_KERNELS_REFERENCE_H_ */
