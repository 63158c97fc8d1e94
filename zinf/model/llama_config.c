/* zinf/model/llama_config.c - the keys of a Llama config.json: read, held to what is built, or known to change nothing.
 *
 * A key in none of the three lists is an error: it may change the maths, and a run that ignores it would
 * be silently wrong. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "zinf/base/align.h"
#include "zinf/model/llama_config.h"

/* Far above any model, low enough that the bytes of the whole state fit in 64 bits. */
#define SIZE_MAX_ELEMS (1ll << 22)
#define LAYERS_MAX 4096
#define HEADS_MAX 65536
#define HEAD_DIM_MAX 1024    /* of attention: kernels/device.h */

struct reader {
    const struct zinf_json *root;
    const char *name;
    struct zinf_status *st;
};

/* Keys read below. */
static const char *const read_keys[] = {
    "architectures", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters",
    "max_position_embeddings", "tie_word_embeddings", "hidden_act", "attention_bias", "mlp_bias", "initializer_range",
    "torch_dtype", "dtype", "attention_dropout", "model_type", "pretraining_tp", "partial_rotary_factor",
    "sliding_window", "use_sliding_window", "quantization_config", "is_encoder_decoder", "add_cross_attention",
    "hidden_dropout", "embd_pdrop", "resid_pdrop", "attn_pdrop",
};

/* Keys about tokens, generation, bookkeeping and outputs: no number in training depends on them. */
static const char *const harmless_keys[] = {
    "_name_or_path", "_attn_implementation_autoset", "_flash_attn_2_enabled", "transformers_version", "use_cache",
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id",
    "decoder_start_token_id", "bos_token", "eos_token", "pad_token", "return_dict", "output_hidden_states",
    "output_attentions", "torchscript", "id2label", "label2id", "num_labels", "problem_type", "task_specific_params",
    "finetuning_task", "tokenizer_class", "prefix", "auto_map", "generation_config", "gradient_checkpointing",
    "is_decoder", "is_llama_config", "tie_encoder_decoder", "cross_attention_hidden_size", "pruned_heads",
    "chunk_size_feed_forward", "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "output_scores", "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "use_bfloat16", "tf_legacy_loss",
    "unsloth_version", "unsloth_fixed", "model_name",
};

static bool among(const char *const *names, size_t nr, const char *key)
{
    for (size_t i = 0; i < nr; i++)
        if (!strcmp(names[i], key))
            return true;
    return false;
}

#define NR(a) (sizeof(a) / sizeof((a)[0]))

static int fail_type(const struct reader *r, const struct zinf_json *v, const char *want)
{
    return zinf_fail(r->st, -EINVAL, "%s:%u: %s must be %s, not %s", r->name, v->line, v->key, want,
                     zinf_json_type_name(v->type));
}

/* The value of key, NULL when it is absent or null. */
static const struct zinf_json *value(const struct reader *r, const char *key)
{
    const struct zinf_json *v = zinf_json_get(r->root, key);

    return v && v->type != ZINF_JSON_NULL ? v : NULL;
}

/* A whole number in [1, max]; absent: fallback, or an error when that is 0. */
static int get_size(const struct reader *r, const char *key, int64_t max, uint64_t fallback, uint64_t *out)
{
    const struct zinf_json *v = value(r, key);

    *out = fallback;
    if (!v)
        return fallback ? 0 : zinf_fail(r->st, -EINVAL, "%s: %s is missing; a Llama config must have it", r->name, key);
    if (v->type != ZINF_JSON_NUMBER)
        return fail_type(r, v, "a whole number");
    if (!v->is_integer || v->integer < 1 || v->integer > max)
        return zinf_fail(r->st, -EINVAL, "%s:%u: %s is %g; it must be a whole number from 1 to %lld", r->name, v->line,
                         key, v->number, (long long)max);
    *out = (uint64_t)v->integer;
    return 0;
}

static int get_positive(const struct reader *r, const struct zinf_json *from, const char *key, double fallback,
                        double *out)
{
    const struct zinf_json *v = zinf_json_get(from, key);

    *out = fallback;
    if (!v || v->type == ZINF_JSON_NULL)
        return 0;
    if (v->type != ZINF_JSON_NUMBER)
        return fail_type(r, v, "a number");
    if (!(v->number > 0) || !(v->number < 1e30))
        return zinf_fail(r->st, -EINVAL, "%s:%u: %s is %g; it must be above 0", r->name, v->line, key, v->number);
    *out = v->number;
    return 0;
}

static int get_bool(const struct reader *r, const char *key, bool *out)
{
    const struct zinf_json *v = value(r, key);

    *out = false;
    if (!v)
        return 0;
    if (v->type != ZINF_JSON_BOOL)
        return fail_type(r, v, "true or false");
    *out = v->boolean;
    return 0;
}

/* Keys that may be there only with the one value that is built: false, 0 or null for `off`, the text otherwise. */
struct held { const char *key; const char *text; double number; };
static const struct held held_keys[] = {
    { "attention_bias", NULL, 0 },      { "mlp_bias", NULL, 0 },           { "attention_dropout", NULL, 0 },
    { "hidden_dropout", NULL, 0 },      { "embd_pdrop", NULL, 0 },         { "resid_pdrop", NULL, 0 },
    { "attn_pdrop", NULL, 0 },          { "is_encoder_decoder", NULL, 0 }, { "add_cross_attention", NULL, 0 },
    { "use_sliding_window", NULL, 0 },  { "sliding_window", NULL, 0 },     { "rope_scaling", NULL, 0 },
    { "quantization_config", NULL, 0 }, { "pretraining_tp", NULL, 1 },     { "partial_rotary_factor", NULL, 1 },
    { "hidden_act", "silu", 0 },        { "model_type", "llama", 0 },
};

static int check_held(const struct reader *r, const struct held *h)
{
    const struct zinf_json *v = value(r, h->key);
    bool ok;

    if (!v)
        return 0;
    if (h->text)
        ok = v->type == ZINF_JSON_STRING && !strcmp(v->string, h->text);
    else
        ok = (v->type == ZINF_JSON_BOOL && !v->boolean && h->number == 0) ||
             (v->type == ZINF_JSON_NUMBER && v->number == h->number);
    if (ok)
        return 0;
    if (h->text)
        return zinf_fail(r->st, -EINVAL, "%s:%u: %s must be \"%s\": nothing else is built", r->name, v->line, h->key,
                         h->text);
    if (h->number == 0)
        return zinf_fail(r->st, -EINVAL,
                         "%s:%u: %s must be off (null, false or 0): it would change the model and is not built",
                         r->name, v->line, h->key);
    return zinf_fail(r->st, -EINVAL, "%s:%u: %s must be %g: nothing else is built", r->name, v->line, h->key,
                     h->number);
}

static int check_keys(const struct reader *r, const struct zinf_log *log)
{
    for (uint32_t i = 0; i < r->root->nr_items; i++) {
        const struct zinf_json *v = &r->root->items[i];
        const char *near;

        if (among(read_keys, NR(read_keys), v->key) || among(harmless_keys, NR(harmless_keys), v->key))
            continue;
        near = zinf_nearest(v->key, read_keys, (uint32_t)NR(read_keys));
        if (v->type == ZINF_JSON_NULL && !near) {
            zinf_log(log, ZINF_LOG_INFO, "%s:%u: key %s is not known; it is null and ignored", r->name, v->key_line,
                     v->key);
            continue;
        }
        if (near)
            return zinf_fail(r->st, -EINVAL, "%s:%u: key %s is not known; did you mean %s?", r->name, v->key_line,
                             v->key, near);
        return zinf_fail(r->st, -EINVAL,
                         "%s:%u: key %s is not known and may change the model; remove it if it does not", r->name,
                         v->key_line, v->key);
    }
    return 0;
}

static int check_architecture(const struct reader *r)
{
    const struct zinf_json *v = value(r, "architectures");
    const struct zinf_json *name;

    if (!v)
        return zinf_fail(r->st, -EINVAL, "%s: architectures is missing; it must be [\"LlamaForCausalLM\"]", r->name);
    name = v->type == ZINF_JSON_ARRAY && v->nr_items == 1 ? &v->items[0] : NULL;
    if (name && name->type == ZINF_JSON_STRING && !strcmp(name->string, "LlamaForCausalLM"))
        return 0;
    return zinf_fail(r->st, -EINVAL, "%s:%u: architecture %s is not built; it must be [\"LlamaForCausalLM\"]", r->name,
                     v->line, name && name->type == ZINF_JSON_STRING ? name->string : "list");
}

static int get_dtype(const struct reader *r, enum zinf_dtype *out)
{
    static const struct { const char *text; enum zinf_dtype dtype; } names[] = {
        { "float32", ZINF_F32 }, { "bfloat16", ZINF_BF16 }, { "float16", ZINF_F16 },
    };
    const struct zinf_json *v = value(r, "torch_dtype");

    *out = ZINF_F32;
    if (!v)
        v = value(r, "dtype");
    if (!v)
        return 0;
    for (size_t i = 0; v->type == ZINF_JSON_STRING && i < NR(names); i++)
        if (!strcmp(v->string, names[i].text)) {
            *out = names[i].dtype;
            return 0;
        }
    return zinf_fail(r->st, -EINVAL, "%s:%u: %s must be \"float32\", \"bfloat16\" or \"float16\"", r->name, v->line,
                     v->key);
}

/* rope_theta, or rope_parameters {"rope_type": "default", "rope_theta": ...} as newer files have it. */
static int get_rope(const struct reader *r, double *theta)
{
    const struct zinf_json *p = value(r, "rope_parameters");
    int rc = get_positive(r, r->root, "rope_theta", 10000, theta);

    if (rc || !p)
        return rc;
    if (p->type != ZINF_JSON_OBJECT)
        return fail_type(r, p, "an object");
    for (uint32_t i = 0; i < p->nr_items; i++) {
        const struct zinf_json *v = &p->items[i];
        bool type = !strcmp(v->key, "rope_type") || !strcmp(v->key, "type");

        if (type && v->type == ZINF_JSON_STRING && !strcmp(v->string, "default"))
            continue;
        if (!type && (!strcmp(v->key, "rope_theta") || v->type == ZINF_JSON_NULL))
            continue;
        return zinf_fail(r->st, -EINVAL,
                         "%s:%u: rope_parameters.%s: only rope_type \"default\" with a rope_theta is built", r->name,
                         v->line, v->key);
    }
    return get_positive(r, p, "rope_theta", *theta, theta);
}

static int get_sizes(const struct reader *r, struct zinf_llama *m)
{
    uint64_t layers, positions;
    int rc = get_size(r, "hidden_size", SIZE_MAX_ELEMS, 0, &m->hidden);

    if (!rc)
        rc = get_size(r, "intermediate_size", SIZE_MAX_ELEMS, 0, &m->intermediate);
    if (!rc)
        rc = get_size(r, "vocab_size", SIZE_MAX_ELEMS, 0, &m->vocab);
    if (!rc)
        rc = get_size(r, "num_hidden_layers", LAYERS_MAX, 0, &layers);
    if (!rc)
        rc = get_size(r, "num_attention_heads", HEADS_MAX, 0, &m->nr_heads);
    if (!rc)
        rc = get_size(r, "num_key_value_heads", HEADS_MAX, m->nr_heads, &m->nr_kv_heads);
    if (!rc)
        rc = get_size(r, "head_dim", HEAD_DIM_MAX, zinf_max_u64(m->hidden / m->nr_heads, 1), &m->head_dim);
    if (!rc)
        rc = get_size(r, "max_position_embeddings", 1ll << 30, 2048, &positions);
    if (rc)
        return rc;
    m->nr_layers = (uint32_t)layers;
    m->max_positions = (uint32_t)positions;
    if (!value(r, "head_dim") && m->hidden % m->nr_heads)
        return zinf_fail(r->st, -EINVAL, "%s: hidden_size %llu is not a multiple of num_attention_heads %llu", r->name,
                         (unsigned long long)m->hidden, (unsigned long long)m->nr_heads);
    if (m->nr_heads % m->nr_kv_heads)
        return zinf_fail(r->st, -EINVAL, "%s: num_attention_heads %llu is not a multiple of num_key_value_heads %llu",
                         r->name, (unsigned long long)m->nr_heads, (unsigned long long)m->nr_kv_heads);
    if (m->head_dim > HEAD_DIM_MAX)
        return zinf_fail(r->st, -EINVAL, "%s: a head has %llu elements; the most is %d: raise num_attention_heads",
                         r->name, (unsigned long long)m->head_dim, HEAD_DIM_MAX);
    if (m->nr_heads * m->head_dim > SIZE_MAX_ELEMS)
        return zinf_fail(r->st, -EINVAL, "%s: num_attention_heads %llu x head_dim %llu is above %lld", r->name,
                         (unsigned long long)m->nr_heads, (unsigned long long)m->head_dim, SIZE_MAX_ELEMS);
    if (m->head_dim % 2)
        return zinf_fail(r->st, -EINVAL, "%s: head_dim %llu is odd; rotary positions turn pairs, so it must be even",
                         r->name, (unsigned long long)m->head_dim);
    return 0;
}

int zinf_llama_config(const struct zinf_json_doc *doc, const struct zinf_log *log, struct zinf_llama *out,
                      enum zinf_dtype *dtype, struct zinf_status *st)
{
    const struct reader r = { .root = doc->root, .name = doc->name, .st = st };
    struct zinf_llama m = { 0 };
    double eps, std;
    int rc;

    if (doc->root->type != ZINF_JSON_OBJECT)
        return zinf_fail(st, -EINVAL, "%s:1: a model config must be an object", doc->name);
    rc = check_architecture(&r);
    for (size_t i = 0; !rc && i < NR(held_keys); i++)
        rc = check_held(&r, &held_keys[i]);
    if (!rc)
        rc = check_keys(&r, log);
    if (!rc)
        rc = get_sizes(&r, &m);
    if (!rc)
        rc = get_positive(&r, r.root, "rms_norm_eps", 1e-6, &eps);
    if (!rc)
        rc = get_positive(&r, r.root, "initializer_range", 0.02, &std);
    if (!rc)
        rc = get_rope(&r, &m.rope_theta);
    if (!rc)
        rc = get_bool(&r, "tie_word_embeddings", &m.tied);
    if (!rc)
        rc = get_dtype(&r, dtype);
    if (rc)
        return rc;
    m.eps = (float)eps;
    m.init_std = (float)std;
    *out = m;
    return 0;
}
