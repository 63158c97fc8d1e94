/* zinf/model/model.c - opens a config.json and builds the chain: names, shapes, functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zinf/base/align.h"
#include "zinf/config/json.h"
#include "zinf/model/llama_config.h"
#include "zinf/model/llama_head.h"
#include "zinf/model/llama_layer.h"
#include "zinf/model/model.h"

/* A config is a few KiB; anything near this is another file. */
#define CONFIG_NBYTES_MAX (16u << 20)
#define NAME_NBYTES 96u
#define DEFAULT_SEQ 1024u

static void set_param(struct zinf_model *m, uint32_t at, uint64_t rows, uint64_t cols)
{
    struct zinf_param *p = &m->params[at];

    p->name = m->names + (size_t)at * NAME_NBYTES;
    p->dims[0] = rows;
    p->dims[1] = cols;
    p->nr_dims = cols ? 2 : 1;
    p->init = cols ? ZINF_INIT_NORMAL : ZINF_INIT_ONE;
    p->std = cols ? m->llama.init_std : 0;
}

static void name_param(struct zinf_model *m, uint32_t at, const char *name)
{
    snprintf(m->names + (size_t)at * NAME_NBYTES, NAME_NBYTES, "%s", name);
}

static void build_layer(struct zinf_model *m, uint32_t layer, uint32_t first)
{
    const struct zinf_llama *l = &m->llama;
    uint64_t q = l->nr_heads * l->head_dim, kv = l->nr_kv_heads * l->head_dim;
    const struct { const char *name; uint64_t rows, cols; } parts[ZINF_LLAMA_NR_PARAMS] = {
        [ZINF_LLAMA_Q] = { "self_attn.q_proj", q, l->hidden },
        [ZINF_LLAMA_K] = { "self_attn.k_proj", kv, l->hidden },
        [ZINF_LLAMA_V] = { "self_attn.v_proj", kv, l->hidden },
        [ZINF_LLAMA_O] = { "self_attn.o_proj", l->hidden, q },
        [ZINF_LLAMA_GATE] = { "mlp.gate_proj", l->intermediate, l->hidden },
        [ZINF_LLAMA_UP] = { "mlp.up_proj", l->intermediate, l->hidden },
        [ZINF_LLAMA_DOWN] = { "mlp.down_proj", l->hidden, l->intermediate },
        [ZINF_LLAMA_NORM_IN] = { "input_layernorm", l->hidden, 0 },
        [ZINF_LLAMA_NORM_POST] = { "post_attention_layernorm", l->hidden, 0 },
    };

    for (uint32_t i = 0; i < ZINF_LLAMA_NR_PARAMS; i++) {
        char name[NAME_NBYTES];

        snprintf(name, sizeof(name), "model.layers.%u.%s.weight", layer, parts[i].name);
        name_param(m, first + i, name);
        set_param(m, first + i, parts[i].rows, parts[i].cols);
    }
    m->layers[layer] = (struct zinf_layer){
        .params = &m->params[first], .nr_params = ZINF_LLAMA_NR_PARAMS, .ctx = &m->llama,
        .work_nbytes = zinf_llama_layer_work_nbytes,
        .constants_nbytes = zinf_llama_rope_nbytes, .constants = zinf_llama_rope_fill,
        .forward = zinf_llama_layer_forward, .backward = zinf_llama_layer_backward,
    };
}

/* Parameters: the embedding, the layers in order, then the head's two; tied, the head's first is the
 * embedding once more. */
static int build_chain(struct zinf_model *m)
{
    const struct zinf_llama *l = &m->llama;
    uint32_t nr_layers = l->nr_layers, head = 1 + nr_layers * ZINF_LLAMA_NR_PARAMS;
    uint32_t norm = l->tied ? head + 1 : head, proj = l->tied ? head : head + 1;

    m->params = calloc(head + 2, sizeof(*m->params));
    m->names = calloc(head + 2, NAME_NBYTES);
    m->layers = calloc((size_t)nr_layers + 1, sizeof(*m->layers));
    if (!m->params || !m->names || !m->layers)
        return -ENOMEM;
    name_param(m, 0, "model.embed_tokens.weight");
    set_param(m, 0, l->vocab, l->hidden);
    for (uint32_t i = 0; i < nr_layers; i++)
        build_layer(m, i, 1 + i * ZINF_LLAMA_NR_PARAMS);
    name_param(m, norm, "model.norm.weight");
    set_param(m, norm, l->hidden, 0);
    name_param(m, proj, l->tied ? "model.embed_tokens.weight" : "lm_head.weight");
    set_param(m, proj, l->vocab, l->hidden);
    m->layers[nr_layers] = (struct zinf_layer){
        .params = &m->params[head], .nr_params = 2, .ctx = &m->llama, .work_nbytes = zinf_llama_head_work_nbytes,
        .forward = zinf_llama_head_forward, .backward = zinf_llama_head_backward,
    };
    m->chain = (struct zinf_chain){
        .width = l->hidden, .embedding = &m->params[0], .layers = m->layers, .nr_layers = nr_layers,
        .head = &m->layers[nr_layers], .tied = l->tied, .vocab = l->vocab,
    };
    for (uint32_t i = 0; i < head + 2; i++)
        m->nr_params += l->tied && i == head ? 0 : zinf_param_elems(&m->params[i]);
    return 0;
}

/* 6 per parameter that is multiplied (an untied embedding is only looked up), 12 x width x positions per
 * layer of attention. */
static void count_flops(struct zinf_model *m)
{
    const struct zinf_llama *l = &m->llama;
    double used = (double)m->nr_params - (l->tied ? 0.0 : (double)l->vocab * (double)l->hidden);

    m->chain.flops_per_token = 6.0 * used + 12.0 * l->nr_layers * (double)(l->nr_heads * l->head_dim) * m->seq;
}

static int choose_seq(struct zinf_model *m, uint32_t seq, const char *name, struct zinf_status *st)
{
    m->max_positions = m->llama.max_positions;
    m->seq = seq ? seq : (uint32_t)zinf_min_u64(DEFAULT_SEQ, m->max_positions);
    if (m->seq > m->max_positions)
        return zinf_fail(st, -EINVAL, "sequence length %u is above max_position_embeddings %u of %s; lower --seq-len",
                         seq, m->max_positions, name);
    return 0;
}

int zinf_model_parse(const char *text, size_t nbytes, const char *name, uint32_t seq, const struct zinf_log *log,
                     struct zinf_model **out, struct zinf_status *st)
{
    struct zinf_json_doc doc = { 0 };
    struct zinf_model *m = NULL;
    int rc = zinf_json_parse(text, nbytes, name, false, &doc, st);

    *out = NULL;
    if (rc)
        return rc;
    m = calloc(1, sizeof(*m));
    rc = m ? zinf_llama_config(&doc, log, &m->llama, &m->dtype, st) : zinf_fail(st, -ENOMEM, "%s: out of memory", name);
    if (!rc)
        rc = choose_seq(m, seq, name, st);
    if (rc)
        goto out;
    m->config_text = malloc(nbytes + 1);
    rc = m->config_text ? build_chain(m) : -ENOMEM;
    if (rc) {
        zinf_fail(st, rc, "%s: out of memory for %u layers", name, m->llama.nr_layers);
        goto out;
    }
    memcpy(m->config_text, text, nbytes);
    m->config_text[nbytes] = 0;
    m->config_nbytes = nbytes;
    count_flops(m);
    *out = m;
    m = NULL;
out:
    zinf_model_close(m);
    zinf_json_free(&doc);
    return rc;
}

/* The whole file, at most CONFIG_NBYTES_MAX bytes. */
static int read_text(const char *path, char **out, size_t *nbytes, struct zinf_status *st)
{
    char *text = NULL;
    struct stat info;
    size_t got = 0;
    int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return zinf_fail(st, -errno, "model config %s: %s", path, strerror(errno));
    if (fstat(fd, &info))
        rc = zinf_fail(st, -errno, "model config %s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode) || info.st_size > (off_t)CONFIG_NBYTES_MAX)
        rc = zinf_fail(st, -EINVAL, "model config %s: not a config.json (a regular file of at most %u MiB)", path,
                       CONFIG_NBYTES_MAX >> 20);
    else if (!(text = malloc((size_t)info.st_size + 1)))
        rc = zinf_fail(st, -ENOMEM, "model config %s: out of memory", path);
    while (!rc && got < (size_t)info.st_size) {
        ssize_t n = read(fd, text + got, (size_t)info.st_size - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            rc = zinf_fail(st, n ? -errno : -EIO, "model config %s: %s", path,
                           n ? strerror(errno) : "it shrank while read");
        else
            got += (size_t)n;
    }
    close(fd);
    if (rc) {
        free(text);
        return rc;
    }
    *out = text;
    *nbytes = got;
    return 0;
}

int zinf_model_open(const char *path, uint32_t seq, const struct zinf_log *log, struct zinf_model **out,
                    struct zinf_status *st)
{
    char file[4096], *text = NULL;
    struct stat info;
    size_t nbytes = 0;
    int rc, len;

    *out = NULL;
    if (stat(path, &info))
        return zinf_fail(st, -errno, "model %s: %s", path, strerror(errno));
    len = snprintf(file, sizeof(file), S_ISDIR(info.st_mode) ? "%s/config.json" : "%s", path);
    if (len < 0 || (size_t)len >= sizeof(file))
        return zinf_fail(st, -ENAMETOOLONG, "model %.64s...: the path is too long", path);
    rc = read_text(file, &text, &nbytes, st);
    if (rc)
        return rc;
    rc = zinf_model_parse(text, nbytes, file, seq, log, out, st);
    free(text);
    return rc;
}

void zinf_model_close(struct zinf_model *m)
{
    if (!m)
        return;
    free(m->params);
    free(m->names);
    free(m->layers);
    free(m->config_text);
    free(m);
}
