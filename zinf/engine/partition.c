/* zinf/engine/partition.c - see partition.h. */
#include "zinf/engine/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/align.h"

static int check_param(const struct zinf_param *p, struct zinf_status *st)
{
    if (!p->name || !p->name[0])
        return zinf_fail(st, -EINVAL, "a parameter of the chain has no name");
    if (p->nr_dims > 4)
        return zinf_fail(st, -EINVAL, "parameter %s has %u dimensions; 4 is the most", p->name, p->nr_dims);
    /* 2^40 elements are 12 TiB of state; the bound keeps every later product of sizes inside 64 bits. */
    if (zinf_param_elems(p) > (1ull << 40))
        return zinf_fail(st, -EINVAL, "parameter %s has more than 2^40 elements", p->name);
    return 0;
}

static int check_chain(const struct zinf_chain *c, struct zinf_status *st)
{
    if (!c->width || !c->nr_layers || !c->layers || !c->head)
        return zinf_fail(st, -EINVAL, "a chain needs a width, at least one layer and a head");
    for (uint32_t i = 0; i <= c->nr_layers; i++) {
        const struct zinf_layer *l = i < c->nr_layers ? &c->layers[i] : c->head;

        if (!l->forward || !l->backward || !l->work_nbytes)
            return zinf_fail(st, -EINVAL, "layer %u of the chain lacks forward, backward or work_nbytes", i);
        if (l->nr_params > ZINF_MAX_UNIT_PARAMS)
            return zinf_fail(st, -EINVAL, "layer %u of the chain has %u parameters; %u is the most", i, l->nr_params,
                             ZINF_MAX_UNIT_PARAMS);
        if (!l->constants != !l->constants_nbytes)
            return zinf_fail(st, -EINVAL, "layer %u of the chain has only one of constants and constants_nbytes", i);
    }
    if (c->embedding && (c->embedding->nr_dims != 2 || c->embedding->dims[1] != c->width))
        return zinf_fail(st, -EINVAL, "the embedding %s must have the shape [vocabulary, %llu]", c->embedding->name,
                         (unsigned long long)c->width);
    if (c->tied && (!c->embedding || !c->head->nr_params || c->head->params[0].nr_dims != 2 ||
                    memcmp(c->head->params[0].dims, c->embedding->dims, 2 * sizeof(uint64_t)) != 0))
        return zinf_fail(st, -EINVAL, "a tied chain needs an embedding and a head whose first parameter has its shape");
    return 0;
}

/* Appends p to unit u, which must be the last one begun. */
static int append(struct zinf_partition *out, uint32_t u, const struct zinf_param *p, struct zinf_status *st)
{
    uint64_t offset = zinf_align_up(out->unit_elems[u], ZINF_PARAM_ALIGN);
    int rc = check_param(p, st);

    if (rc)
        return rc;
    out->params[out->nr_params++] = (struct zinf_unit_param){
        .param = p, .unit = u, .offset = offset, .nr_elems = zinf_param_elems(p) };
    out->unit_elems[u] = offset + zinf_param_elems(p);
    out->nr_elems += zinf_param_elems(p);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct zinf_param *const *)a)->name, (*(const struct zinf_param *const *)b)->name);
}

static int check_names(const struct zinf_partition *p, struct zinf_status *st)
{
    const struct zinf_param **v = calloc(p->nr_params + 1, sizeof(*v));
    int rc = 0;

    if (!v)
        return zinf_fail(st, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < p->nr_params; i++)
        v[i] = p->params[i].param;
    qsort(v, p->nr_params, sizeof(*v), by_name);
    for (uint32_t i = 1; i < p->nr_params && !rc; i++)
        if (!strcmp(v[i - 1]->name, v[i]->name))
            rc = zinf_fail(st, -EINVAL, "two parameters of the chain are called %s", v[i]->name);
    free(v);
    return rc;
}

static uint32_t begin_unit(struct zinf_partition *p)
{
    p->unit_first_param[p->nr_units] = p->nr_params;
    return p->nr_units++;
}

static int fill_units(struct zinf_partition *out, struct zinf_status *st)
{
    const struct zinf_chain *c = out->chain;
    int rc = 0;

    if (c->embedding) {
        out->embed_unit = begin_unit(out);
        rc = append(out, out->embed_unit, c->embedding, st);
        for (uint32_t i = 1; c->tied && i < c->head->nr_params && !rc; i++) {
            out->head_params[i] = out->nr_params;
            rc = append(out, out->embed_unit, &c->head->params[i], st);
        }
    }
    for (uint32_t l = 0; l < c->nr_layers && !rc; l++) {
        out->layer_units[l] = begin_unit(out);
        for (uint32_t i = 0; i < c->layers[l].nr_params && !rc; i++)
            rc = append(out, out->layer_units[l], &c->layers[l].params[i], st);
    }
    if (c->tied) {
        out->head_unit = out->embed_unit;
        out->head_params[0] = out->unit_first_param[out->embed_unit];
    } else if (c->head->nr_params && !rc) {
        out->head_unit = begin_unit(out);
        for (uint32_t i = 0; i < c->head->nr_params && !rc; i++) {
            out->head_params[i] = out->nr_params;
            rc = append(out, out->head_unit, &c->head->params[i], st);
        }
    }
    out->unit_first_param[out->nr_units] = out->nr_params;
    for (uint32_t u = 0; u < out->nr_units; u++)
        out->unit_elems[u] = zinf_align_up(out->unit_elems[u], ZINF_NORM_CHUNK);
    return rc;
}

int zinf_partition_make(const struct zinf_chain *chain, struct zinf_partition *out, struct zinf_status *st)
{
    size_t units, params;
    int rc;

    memset(out, 0, sizeof(*out));
    rc = check_chain(chain, st);
    if (rc)
        return rc;
    units = (size_t)chain->nr_layers + 2;
    params = 1 + (size_t)chain->head->nr_params;
    for (uint32_t l = 0; l < chain->nr_layers; l++)
        params += chain->layers[l].nr_params;
    out->chain = chain;
    out->embed_unit = out->head_unit = ZINF_NONE;
    out->params = calloc(params, sizeof(*out->params));
    out->unit_first_param = calloc(units + 1, sizeof(*out->unit_first_param));
    out->unit_elems = calloc(units, sizeof(*out->unit_elems));
    out->layer_units = calloc(chain->nr_layers, sizeof(*out->layer_units));
    out->head_params = calloc(chain->head->nr_params + 1, sizeof(*out->head_params));
    if (!out->params || !out->unit_first_param || !out->unit_elems || !out->layer_units || !out->head_params)
        rc = zinf_fail(st, -ENOMEM, "out of memory for a chain of %zu parameters", params);
    if (!rc)
        rc = fill_units(out, st);
    if (!rc)
        rc = check_names(out, st);
    if (rc)
        zinf_partition_free(out);
    return rc;
}

void zinf_partition_free(struct zinf_partition *p)
{
    free(p->params);
    free(p->unit_first_param);
    free(p->unit_elems);
    free(p->layer_units);
    free(p->head_params);
    memset(p, 0, sizeof(*p));
}

const struct zinf_unit_param *zinf_partition_find(const struct zinf_partition *p, uint32_t unit, uint64_t elem)
{
    for (uint32_t i = p->unit_first_param[unit]; i < p->unit_first_param[unit + 1]; i++)
        if (elem >= p->params[i].offset && elem - p->params[i].offset < p->params[i].nr_elems)
            return &p->params[i];
    return NULL;
}
