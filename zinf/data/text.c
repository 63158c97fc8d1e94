/* zinf/data/text.c - windows of a stream of bytes: how many, which train, and which one comes next. */
#include <errno.h>
#include <stdlib.h>

#include "zinf/base/align.h"
#include "zinf/base/philox.h"
#include "zinf/data/file_list.h"
#include "zinf/data/text.h"

#define BYTE_VALUES 256u
/* One window in so many is held out. */
#define HELD_OUT 10u

struct zinf_text {
    struct zinf_source source;
    struct zinf_file_list train, eval;      /* eval is empty when data is split */
    uint64_t nr_train, nr_eval;
    uint32_t seq;
    uint64_t seed;
};

static uint64_t nr_samples(void *ctx, enum zinf_split split)
{
    const struct zinf_text *t = ctx;

    return split == ZINF_TRAIN ? t->nr_train : t->nr_eval;
}

/* The window's bytes in pieces on the stack: byte i is token i and target i - 1. */
static int fetch(void *ctx, enum zinf_split split, uint64_t index, int32_t *tokens, int32_t *targets, float *input,
                 struct zinf_status *st)
{
    const struct zinf_text *t = ctx;
    const struct zinf_file_list *files = split == ZINF_EVAL && t->eval.nbytes ? &t->eval : &t->train;
    uint64_t window, done = 0, need = (uint64_t)t->seq + 1;
    unsigned char piece[4096];

    if (!tokens || input)
        return zinf_fail(st, -EINVAL, "text gives tokens, but the model has no embedding to look them up in");
    if (split == ZINF_EVAL && index >= t->nr_eval)
        return zinf_fail(st, -EINVAL, "evaluation sample %llu of %llu", (unsigned long long)index,
                         (unsigned long long)t->nr_eval);
    if (split == ZINF_EVAL)
        window = files == &t->train ? t->nr_train + index : index;
    else
        window = zinf_permute(t->seed, index / t->nr_train, t->nr_train, index % t->nr_train);
    while (done < need) {
        size_t n = (size_t)zinf_min_u64(sizeof(piece), need - done);
        int rc = zinf_file_list_read(files, window * t->seq + done, piece, n, st);

        if (rc)
            return rc;
        for (size_t i = 0; i < n; i++) {
            if (done + i < t->seq)
                tokens[done + i] = piece[i];
            if (done + i > 0)
                targets[done + i - 1] = piece[i];
        }
        done += n;
    }
    return 0;
}

static void tell_left_out(const struct zinf_log *log, const char *path, const struct zinf_file_list *l)
{
    if (l->nr_hidden || l->nr_binary || l->nr_links || l->nr_special)
        zinf_log(log, ZINF_LOG_INFO,
                 "data %s: %llu files; left out: %llu hidden, %llu binary, %llu links, %llu special", path,
                 (unsigned long long)l->nr_files, (unsigned long long)l->nr_hidden, (unsigned long long)l->nr_binary,
                 (unsigned long long)l->nr_links, (unsigned long long)l->nr_special);
}

/* Windows in l; at least `least`, or an error that says how many bytes that takes. */
static int count_windows(const struct zinf_text_opts *o, const char *path, const struct zinf_file_list *l,
                         uint64_t least, uint64_t *out, struct zinf_status *st)
{
    *out = (l->nbytes - 1) / o->seq;
    if (*out >= least)
        return 0;
    return zinf_fail(st, -EINVAL, "data %s has %llu bytes; sequences of %u need at least %llu%s", path,
                     (unsigned long long)l->nbytes, o->seq, (unsigned long long)(least * o->seq + 1),
                     least > 1 ? " (one window to train on, one held out), or give --eval-data" : "");
}

int zinf_text_open(const struct zinf_text_opts *opts, struct zinf_text **out, struct zinf_status *st)
{
    struct zinf_text *t;
    int rc;

    *out = NULL;
    if (!opts->seq)
        return zinf_fail(st, -EINVAL, "the sequence length must be at least 1");
    if (opts->vocab < BYTE_VALUES)
        return zinf_fail(st, -EINVAL, "text is read as bytes: vocab_size must be at least %u, it is %llu", BYTE_VALUES,
                         (unsigned long long)opts->vocab);
    t = calloc(1, sizeof(*t));
    if (!t)
        return zinf_fail(st, -ENOMEM, "data %s: out of memory", opts->data);
    t->seq = opts->seq;
    t->seed = opts->seed;
    t->source = (struct zinf_source){ .ctx = t, .nr_samples = nr_samples, .fetch = fetch };
    rc = zinf_file_list_open(opts->data, &t->train, st);
    if (!rc)
        tell_left_out(opts->log, opts->data, &t->train);
    if (!rc)
        rc = count_windows(opts, opts->data, &t->train, opts->eval_data ? 1 : 2, &t->nr_train, st);
    if (!rc && opts->eval_data) {
        rc = zinf_file_list_open(opts->eval_data, &t->eval, st);
        if (!rc)
            tell_left_out(opts->log, opts->eval_data, &t->eval);
        if (!rc)
            rc = count_windows(opts, opts->eval_data, &t->eval, 1, &t->nr_eval, st);
    } else if (!rc) {
        t->nr_eval = zinf_max_u64(1, t->nr_train / HELD_OUT);
        t->nr_train -= t->nr_eval;
    }
    if (rc) {
        zinf_text_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

const struct zinf_source *zinf_text_source(const struct zinf_text *t) { return &t->source; }

void zinf_text_close(struct zinf_text *t)
{
    if (!t)
        return;
    zinf_file_list_close(&t->train);
    zinf_file_list_close(&t->eval);
    free(t);
}
