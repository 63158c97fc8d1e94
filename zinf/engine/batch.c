/* zinf/engine/batch.c - samples of a source into the micro-batches of a step, checked on the way in. */
#include "zinf/engine/engine.h"

#include <errno.h>

static int check_ids(const struct zinf_trainer *t, uint64_t sample, const int32_t *tokens, const int32_t *targets,
                     struct zinf_status *st)
{
    const struct zinf_batch *b = &t->batch;
    uint64_t vocab = t->chain->vocab ? t->chain->vocab : (uint64_t)INT32_MAX + 1;

    if (t->chain->embedding && t->chain->embedding->dims[0] < vocab)
        vocab = t->chain->embedding->dims[0];
    for (uint32_t i = 0; i < b->seq; i++) {
        if (tokens && (tokens[i] < 0 || (uint64_t)tokens[i] >= vocab))
            return zinf_fail(st, -EINVAL, "sample %llu has token %d at position %u; the vocabulary has %llu",
                             (unsigned long long)sample, tokens[i], i, (unsigned long long)vocab);
        if (targets[i] >= 0 && (uint64_t)targets[i] >= vocab)
            return zinf_fail(st, -EINVAL, "sample %llu has target %d at position %u; the vocabulary has %llu",
                             (unsigned long long)sample, targets[i], i, (unsigned long long)vocab);
    }
    return 0;
}

int zinf_batch_fill(struct zinf_trainer *t, enum zinf_split split, uint64_t first_sample, uint64_t end_sample,
                    struct zinf_status *st)
{
    struct zinf_batch *b = &t->batch;
    uint64_t width = t->chain->width;

    b->trained = 0;
    for (uint64_t i = 0; i < (uint64_t)b->nr_micro * b->batch; i++) {
        int32_t *tokens = b->tokens ? b->tokens + i * b->seq : NULL;
        int32_t *targets = b->targets + i * b->seq;
        float *input = b->input ? b->input + i * b->seq * width : NULL;
        uint64_t sample = first_sample + i;
        int rc;

        if (sample >= end_sample) {              /* the last, partial batch of an evaluation: rows that are not trained */
            for (uint32_t k = 0; k < b->seq; k++) {
                targets[k] = -1;
                if (tokens)
                    tokens[k] = 0;
            }
            for (uint64_t k = 0; input && k < b->seq * width; k++)
                input[k] = 0;
            continue;
        }
        rc = t->source->fetch(t->source->ctx, split, sample, tokens, targets, input, st);
        if (!rc)
            rc = check_ids(t, sample, tokens, targets, st);
        if (rc)
            return rc;
        for (uint32_t k = 0; k < b->seq; k++)
            b->trained += targets[k] >= 0;
    }
    return 0;
}

double zinf_batch_loss(const struct zinf_batch *b)
{
    double sum = 0;

    for (uint64_t i = 0; i < b->nr_micro * b->rows; i++)
        sum += b->row_loss[i];
    return sum;
}
