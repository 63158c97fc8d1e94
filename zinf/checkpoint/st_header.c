/* zinf/checkpoint/st_header.c - sizes and names checked, then the header as text. */
#include "zinf/checkpoint/st_header.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/align.h"
#include "zinf/config/json.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct zinf_st_desc *tensors, uint32_t nr_tensors, struct zinf_status *st)
{
    const char **names = calloc((size_t)nr_tensors + 1, sizeof(*names));
    int rc = 0;

    if (!names)
        return zinf_fail(st, -ENOMEM, "safetensors: out of memory for %u names", nr_tensors);
    for (uint32_t i = 0; i < nr_tensors; i++)
        names[i] = tensors[i].name;
    qsort(names, nr_tensors, sizeof(*names), by_name);
    for (uint32_t i = 0; !rc && i < nr_tensors; i++)
        if (!strcmp(names[i], "__metadata__") || (i && !strcmp(names[i - 1], names[i])))
            rc = zinf_fail(st, -EINVAL, "safetensors: the tensor name %.100s is used twice or reserved", names[i]);
    free(names);
    return rc;
}

int zinf_st_check(const struct zinf_st_desc *tensors, uint32_t nr_tensors, uint64_t *nbytes, uint64_t *total_nbytes,
                  struct zinf_status *st)
{
    *total_nbytes = 0;
    for (uint32_t i = 0; i < nr_tensors; i++) {
        const struct zinf_st_desc *t = &tensors[i];
        bool ok = t->nr_dims <= 4;

        nbytes[i] = zinf_dtype_nbytes(t->dtype);
        for (uint32_t d = 0; ok && d < t->nr_dims; d++)
            ok = zinf_mul_u64(nbytes[i], t->dims[d], &nbytes[i]);
        if (!ok || !zinf_add_u64(*total_nbytes, nbytes[i], total_nbytes) || *total_nbytes > INT64_MAX)
            return zinf_fail(st, -EINVAL, "safetensors: tensor %.100s has more than 4 dimensions or too many bytes", t->name);
    }
    return check_names(tensors, nr_tensors, st);
}

static void put_tensor(struct zinf_json_out *o, const struct zinf_st_desc *t, uint64_t begin, uint64_t end)
{
    zinf_json_open_object(o, t->name);
    zinf_json_put_string(o, "dtype", zinf_dtype_safetensors(t->dtype));
    zinf_json_open_array(o, "shape");
    for (uint32_t d = 0; d < t->nr_dims; d++)
        zinf_json_put_integer(o, NULL, (int64_t)t->dims[d]);
    zinf_json_close_array(o);
    zinf_json_open_array(o, "data_offsets");
    zinf_json_put_integer(o, NULL, (int64_t)begin);
    zinf_json_put_integer(o, NULL, (int64_t)end);
    zinf_json_close_array(o);
    zinf_json_close_object(o);
}

int zinf_st_header(const struct zinf_st_desc *tensors, uint32_t nr_tensors, const uint64_t *nbytes, unsigned char **out,
                   size_t *out_nbytes, struct zinf_status *st)
{
    struct zinf_json_out o = { 0 };
    uint64_t at = 0, padded;
    unsigned char *text;

    zinf_json_open_object(&o, NULL);
    zinf_json_open_object(&o, "__metadata__");
    zinf_json_put_string(&o, "format", "pt");
    zinf_json_close_object(&o);
    for (uint32_t i = 0; i < nr_tensors; i++) {
        put_tensor(&o, &tensors[i], at, at + nbytes[i]);
        at += nbytes[i];
    }
    zinf_json_close_object(&o);
    padded = zinf_align_up(o.nbytes, 8);
    text = o.failed ? NULL : malloc(8 + (size_t)padded);
    if (text) {
        for (int i = 0; i < 8; i++)
            text[i] = (unsigned char)(padded >> (8 * i));
        memset(text + 8, ' ', (size_t)padded);
        memcpy(text + 8, o.text, o.nbytes);
        *out = text;
        *out_nbytes = 8 + (size_t)padded;
    }
    zinf_json_out_free(&o);
    return text ? 0 : zinf_fail(st, -ENOMEM, "safetensors: out of memory for a header of %u tensors", nr_tensors);
}
