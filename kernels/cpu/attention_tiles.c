/* kernels/cpu/attention_tiles.c - attention cut in pieces: blocks of queries forward, key heads or blocks backward. */
#include "kernels/cpu/attention_tiles.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/kernels.h"
#include "zinf/base/align.h"
#include "zinf/base/pool.h"

struct call {
    const struct zinf_cpu_gemm_env *env;
    const struct zinf_attention *a;
};

static void for_pieces(const struct zinf_cpu_gemm_env *env, const struct zinf_attention *a, uint64_t nr_pieces,
                       void (*fn)(void *ctx, uint64_t piece, uint32_t worker))
{
    struct call c = { .env = env, .a = a };

    zinf_pool_for(env->pool, nr_pieces, fn, &c);
}

static bool is_valid(const struct zinf_attention *a)
{
    return a->nr_kv_heads && a->nr_heads && a->nr_heads % a->nr_kv_heads == 0 && a->head_dim && a->head_dim % 2 == 0 &&
           a->head_dim <= ZINF_CPU_HEAD_DIM_MAX && a->q_stride >= a->nr_heads * a->head_dim &&
           a->o_stride >= a->nr_heads * a->head_dim && a->kv_stride >= a->nr_kv_heads * a->head_dim;
}

static void forward_piece(void *ctx, uint64_t piece, uint32_t worker)
{
    const struct call *c = ctx;
    const struct zinf_attention *a = c->a;
    uint64_t nr_blocks = zinf_div_up(a->seq, ZINF_CPU_ATTENTION_BLOCK), row = piece / nr_blocks;
    uint64_t block = nr_blocks - 1 - piece % nr_blocks;      /* the late ones see most keys: first, for balance */

    c->env->kernels.a->forward(a, row / a->nr_heads, row % a->nr_heads, block * ZINF_CPU_ATTENTION_BLOCK,
                               c->env->scratch + worker * c->env->scratch_floats);
}

int zinf_cpu_attention_forward(const struct zinf_cpu_gemm_env *env, const struct zinf_attention *a)
{
    if (!is_valid(a))
        return -EINVAL;
    for_pieces(env, a, a->batch * a->nr_heads * zinf_div_up(a->seq, ZINF_CPU_ATTENTION_BLOCK), forward_piece);
    return 0;
}

static void backward_piece(void *ctx, uint64_t piece, uint32_t worker)
{
    const struct call *c = ctx;
    const struct zinf_attention *a = c->a;

    c->env->kernels.a->backward(a, piece / a->nr_kv_heads, piece % a->nr_kv_heads,
                                c->env->scratch + worker * c->env->scratch_floats);
}

static void backward_keys_piece(void *ctx, uint64_t piece, uint32_t worker)
{
    const struct call *c = ctx;
    const struct zinf_attention *a = c->a;
    uint64_t nr_blocks = zinf_div_up(a->seq, ZINF_CPU_ATTENTION_BLOCK), row = piece / nr_blocks;

    c->env->kernels.a->backward_keys(a, row / a->nr_kv_heads, row % a->nr_kv_heads,
                                     piece % nr_blocks * ZINF_CPU_ATTENTION_BLOCK,
                                     c->env->scratch + worker * c->env->scratch_floats);
}

static void backward_queries_piece(void *ctx, uint64_t piece, uint32_t worker)
{
    const struct call *c = ctx;
    const struct zinf_attention *a = c->a;
    uint64_t nr_blocks = zinf_div_up(a->seq, ZINF_CPU_ATTENTION_BLOCK), row = piece / nr_blocks;
    uint64_t block = nr_blocks - 1 - piece % nr_blocks;

    c->env->kernels.a->backward_queries(a, row / a->nr_heads, row % a->nr_heads, block * ZINF_CPU_ATTENTION_BLOCK,
                                        c->env->scratch + worker * c->env->scratch_floats);
}

/* Both cuts give the same bits, so here, and only here, the number of threads may choose: whole key heads cost 5
 * units each but come in rounds, pieces cost 7 and share evenly. */
int zinf_cpu_attention_backward(const struct zinf_cpu_gemm_env *env, const struct zinf_attention *a)
{
    uint64_t nr_threads = zinf_pool_nr_threads(env->pool), nr_blocks = zinf_div_up(a->seq, ZINF_CPU_ATTENTION_BLOCK);
    uint64_t nr_heads = a->batch * a->nr_kv_heads;

    if (!is_valid(a))
        return -EINVAL;
    if (5 * zinf_div_up(nr_heads, nr_threads) * nr_threads <= 7 * nr_heads || nr_blocks == 1) {
        for_pieces(env, a, nr_heads, backward_piece);
        return 0;
    }
    for_pieces(env, a, nr_heads * nr_blocks, backward_keys_piece);
    for_pieces(env, a, a->batch * a->nr_heads * nr_blocks, backward_queries_piece);
    return 0;
}
