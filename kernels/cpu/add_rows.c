/* kernels/cpu/add_rows.c - gradients of embedding rows onto the embedding's gradient, sorted by token.
 *
 * Sorted, a row of the gradient is brought in once however often its token occurs. The key (id, position) has no
 * equals, so any sort keeps the positions of one token in order, and every element sees its additions in the order of
 * the batch. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/vector.h"
#include "kernels/norm.h"
#include "zinf/base/align.h"

enum {
    ZERO_TILE = 256 * 1024, /* elements */
    COLUMN_GRAIN = 64,  /* columns of a tile are a multiple: two workers share no cache line of a row that is aligned */
    COLUMN_TILE = 1024, /* at most: the slice being summed stays in the first-level cache */
};

static bool before(const int32_t *ids, uint32_t a, uint32_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; }

/* Moves order[at] down until no child of the heap [0, n) is after it. */
static void sift_down(const int32_t *ids, uint32_t *order, uint64_t at, uint64_t n)
{
    uint32_t moved = order[at];

    for (uint64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && before(ids, order[child], order[child + 1]))
            child++;
        if (!before(ids, moved, order[child]))
            break;
        order[at] = order[child];
        at = child;
    }
    order[at] = moved;
}

/* Heap sort: in the caller's scratch, no recursion, no bad case. */
static void sort_by_id(const int32_t *ids, uint32_t *order, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (uint64_t i = n / 2; i-- > 0;)
        sift_down(ids, order, i, n);
    for (uint64_t end = n; end-- > 1;) {
        uint32_t last = order[0];

        order[0] = order[end];
        order[end] = last;
        sift_down(ids, order, 0, end);
    }
}

struct add_rows_job {
    const struct zinf_vector_ops *ops;
    float *grad;
    uint64_t nr_elems, width, tile_width;
    const char *rows;
    enum zinf_dtype dtype;
    const int32_t *ids;
    uint64_t n;
    const uint32_t *order;
};

static void zero_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct add_rows_job *job = ctx;
    uint64_t from = tile * ZERO_TILE;

    (void)worker;
    memset(job->grad + from, 0, zinf_min_u64(job->nr_elems - from, ZERO_TILE) * sizeof(float));
}

static float load(const void *row, enum zinf_dtype dtype, uint64_t i)
{
    switch (dtype) {
    case ZINF_F32:
        return ((const float *)row)[i];
    case ZINF_BF16:
        return zinf_bf16_to_f32(((const uint16_t *)row)[i]);
    default:
        return zinf_f16_to_f32(((const uint16_t *)row)[i]);
    }
}

static void column_tile(void *ctx, uint64_t tile, uint32_t worker)
{
    const struct add_rows_job *job = ctx;
    uint64_t from = tile * job->tile_width, n = zinf_min_u64(job->width - from, job->tile_width);
    size_t elem_nbytes = zinf_dtype_nbytes(job->dtype);

    (void)worker;
    for (uint64_t k = 0; k < job->n; k++) {
        uint64_t i = job->order[k];
        float *acc = job->grad + (uint64_t)job->ids[i] * job->width + from;
        const void *row = job->rows + (i * job->width + from) * elem_nbytes;
        uint64_t c = job->ops ? job->ops->add(acc, row, job->dtype, n) : 0;

        for (; c < n; c++)
            acc[c] += load(row, job->dtype, c);
    }
}

void zinf_add_rows_pool(enum zinf_isa isa, struct zinf_pool *pool, float *grad, uint64_t nr_rows, uint64_t width,
                        bool first, const void *rows, enum zinf_dtype dtype, const int32_t *ids, uint64_t n,
                        uint32_t *order)
{
    struct add_rows_job job = { .ops = zinf_vector_ops_get(isa),
                                .grad = grad,
                                .nr_elems = nr_rows * width,
                                .width = width,
                                .rows = rows,
                                .dtype = dtype,
                                .ids = ids,
                                .n = n,
                                .order = order };

    if (first)
        zinf_pool_for(pool, zinf_div_up(job.nr_elems, ZERO_TILE), zero_tile, &job);
    if (n == 0 || width == 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        assert(ids[i] >= 0 && (uint64_t)ids[i] < nr_rows);
    sort_by_id(ids, order, n);
    /* Columns are independent, so their tiles may follow the number of threads: two for each, to even out. */
    job.tile_width = zinf_align_up(zinf_div_up(width, 2 * ((uint64_t)zinf_pool_nr_threads(pool) + 1)), COLUMN_GRAIN);
    job.tile_width = zinf_min_u64(job.tile_width, COLUMN_TILE);
    zinf_pool_for(pool, zinf_div_up(width, job.tile_width), column_tile, &job);
}
