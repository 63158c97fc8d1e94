/* zinf/model/llama_head.c - norm, logits and loss of a chunk of rows at a time, forward or backward.
 *
 * Scratch per row of a chunk: the vocabulary's logits (then their gradient) and three times the width. A chunk holds
 * about 1 Mi logits, but at least 64 rows, since every chunk reads and writes the head's whole gradient once. The chunk
 * is a function of shapes only (the numeric plan). */
#include "zinf/base/align.h"
#include "zinf/model/linear.h"
#include "zinf/model/llama_head.h"

#define CHUNK_LOGITS (1u << 20)
#define CHUNK_ROWS_MIN 64u
/* Rows per partial sum of rmsnorm_backward (kernels/device.h). */
#define NORM_ROWS 64u

struct scratch {
    uint64_t chunk_rows;
    float *logits, *x, *n, *d, *rstd, *partial;
};

/* A chunk of rows and where they lie in the call's buffers. */
struct chunk {
    uint64_t first, rows;
    float beta;
    const void *x;
    void *dx;
};

static uint64_t floats(uint64_t n) { return zinf_align_up(n, 16); }

static size_t layout(const struct zinf_llama *m, uint64_t rows, char *base, struct scratch *s)
{
    uint64_t c = zinf_min_u64(rows, zinf_max_u64(CHUNK_ROWS_MIN, zinf_align_down(CHUNK_LOGITS / m->vocab, 64)));
    const struct { float **at; uint64_t nr; } parts[] = {
        { &s->logits, c * m->vocab }, { &s->x, c * m->hidden }, { &s->n, c * m->hidden }, { &s->d, c * m->hidden },
        { &s->rstd, c }, { &s->partial, (c / NORM_ROWS + 1) * m->hidden },
    };
    size_t used = 0;

    s->chunk_rows = c;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (base)
            *parts[i].at = (float *)(void *)(base + used);
        used += floats(parts[i].nr) * sizeof(float);
    }
    return used;
}

size_t zinf_llama_head_work_nbytes(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width)
{
    struct scratch s;

    (void)width;
    return layout(l->ctx, (uint64_t)batch * seq, NULL, &s);
}

static int norm_param(const struct zinf_llama *m) { return m->tied ? 1 : 0; }

static struct zinf_linear projection(const struct zinf_llama *m, const struct zinf_call *c)
{
    int at = m->tied ? 0 : 1;

    return (struct zinf_linear){ .w = c->params[at], .dw = c->grads ? c->grads[at] : NULL, .nr_out = m->vocab,
                                 .nr_in = m->hidden };
}

/* Loss of the chunk's rows; with want_grad, logits becomes their gradient. Leaves x, n, rstd. */
static int chunk_loss(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s,
                      const struct chunk *k, bool want_grad)
{
    const struct zinf_linear lin = projection(m, c);
    const struct zinf_cross_entropy ce = {
        .logits = s->logits, .rows = k->rows, .vocab = m->vocab, .stride = m->vocab, .targets = c->targets + k->first,
        .grad_scale = c->grad_scale, .want_grad = want_grad, .row_loss = c->row_loss + k->first,
    };
    int rc = c->ops->cast(c->stream, s->x, ZINF_F32, k->x, c->dtype, k->rows * m->hidden);

    if (!rc)
        rc = c->ops->rmsnorm_forward(c->stream, s->n, s->rstd, s->x, c->params[norm_param(m)], c->dtype, k->rows,
                                     m->hidden, m->eps);
    if (!rc)
        rc = zinf_linear_forward(c, &lin, s->logits, s->n, k->rows, 0);
    if (!rc)
        rc = c->ops->cross_entropy(c->stream, &ce);
    return rc;
}

static int chunk_backward(const struct zinf_llama *m, const struct zinf_call *c, const struct scratch *s,
                          const struct chunk *k)
{
    const struct zinf_linear lin = projection(m, c);
    int rc = zinf_linear_backward_w(c, &lin, s->logits, s->n, k->rows, k->beta);

    if (!rc)
        rc = zinf_linear_backward_x(c, &lin, s->n, s->logits, k->rows, 0);
    if (!rc)
        rc = c->ops->fill_zero(c->stream, s->d, k->rows * m->hidden * sizeof(float));
    if (!rc)
        rc = c->ops->rmsnorm_backward(c->stream, s->d, c->grads[norm_param(m)], k->beta, s->n, s->x, s->rstd,
                                      c->params[norm_param(m)], c->dtype, k->rows, m->hidden, s->partial);
    if (!rc)
        rc = c->ops->cast(c->stream, k->dx, c->dtype, s->d, ZINF_F32, k->rows * m->hidden);
    return rc;
}

static int run(const struct zinf_llama *m, const struct zinf_call *c, bool backward)
{
    size_t row_nbytes = m->hidden * zinf_dtype_nbytes(c->dtype);
    struct scratch s;
    int rc = 0;

    layout(m, c->rows, c->work, &s);
    for (uint64_t first = 0; !rc && first < c->rows; first += s.chunk_rows) {
        const struct chunk k = {
            .first = first, .rows = zinf_min_u64(s.chunk_rows, c->rows - first), .beta = first ? 1 : c->beta,
            .x = (const char *)c->x + first * row_nbytes,
            .dx = backward ? (char *)c->dx + first * row_nbytes : NULL,
        };

        rc = chunk_loss(m, c, &s, &k, backward);
        if (!rc && backward)
            rc = chunk_backward(m, c, &s, &k);
    }
    return rc;
}

int zinf_llama_head_forward(const struct zinf_layer *l, const struct zinf_call *c) { return run(l->ctx, c, false); }
int zinf_llama_head_backward(const struct zinf_layer *l, const struct zinf_call *c) { return run(l->ctx, c, true); }
