/* examples/custom_layers.c - a chain of layers of your own, trained with its state on NVMe, on the public API only.
 *
 * The task: points on three interleaved spirals, told apart by a residual network of hand-written layers
 *     y = x + tanh(x W^T + b)
 * with a softmax head. A layer is two functions and a list of parameters; zinf decides where those live.
 *
 *   bazel run //examples:custom_layers -- [--steps N] [/path/on/a/drive]      (without a path: everything in RAM)
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/zinf.h"

enum { WIDTH = 64, CLASSES = 3, LAYERS = 6, POINTS = 256 };

/* ---- one layer --------------------------------------------------------------------------------------------------- */

struct work { float *x, *a, *dy; };

static struct work carve(const struct zinf_call *c)
{
    float *p = c->work;
    size_t n = c->rows * c->width;

    return (struct work){ p, p + n, p + 2 * n };
}

static size_t layer_work(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width)
{
    (void)l;
    return 3 * (size_t)batch * seq * width * sizeof(float);
}

/* a = tanh(x W^T + b); storage may be bf16, arithmetic is fp32. */
static int activate(const struct zinf_call *c, const struct work *w)
{
    const struct zinf_gemm product = {
        .trans_b = true, .m = c->rows, .n = c->width, .k = c->width,
        .a = w->x, .a_dtype = ZINF_F32, .lda = c->width,
        .b = c->params[0], .b_dtype = c->dtype, .ldb = c->width,
        .c = w->a, .c_dtype = ZINF_F32, .ldc = c->width,
    };
    float bias[WIDTH];
    int rc = c->ops->cast(c->stream, w->x, ZINF_F32, c->x, c->dtype, c->rows * c->width);

    if (!rc)
        rc = c->ops->gemm(c->stream, &product);
    if (!rc)
        rc = c->ops->cast(c->stream, bias, ZINF_F32, c->params[1], c->dtype, c->width);
    for (uint64_t i = 0; i < c->rows && !rc; i++)
        for (uint64_t j = 0; j < c->width; j++)
            w->a[i * c->width + j] = tanhf(w->a[i * c->width + j] + bias[j]);
    return rc;
}

static int layer_forward(const struct zinf_layer *l, const struct zinf_call *c)
{
    struct work w = carve(c);
    int rc = activate(c, &w);

    (void)l;
    if (!rc)
        rc = c->ops->add(c->stream, w.a, w.x, c->rows * c->width);
    return rc ? rc : c->ops->cast(c->stream, c->y, c->dtype, w.a, ZINF_F32, c->rows * c->width);
}

static int layer_backward(const struct zinf_layer *l, const struct zinf_call *c)
{
    struct work w = carve(c);
    uint64_t n = c->rows * c->width;
    int rc = activate(c, &w);

    (void)l;
    if (!rc)
        rc = c->ops->cast(c->stream, w.dy, ZINF_F32, c->dx, c->dtype, n);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < n; i++)                        /* gradient before tanh, over a */
        w.a[i] = w.dy[i] * (1 - w.a[i] * w.a[i]);
    for (uint64_t j = 0; j < c->width; j++) {
        float sum = c->beta != 0 ? c->grads[1][j] : 0;      /* beta 0: the accumulator holds garbage */

        for (uint64_t i = 0; i < c->rows; i++)
            sum += w.a[i * c->width + j];
        c->grads[1][j] = sum;
    }
    const struct zinf_gemm dw = {
        .trans_a = true, .m = c->width, .n = c->width, .k = c->rows, .beta = c->beta,
        .a = w.a, .a_dtype = ZINF_F32, .lda = c->width, .b = w.x, .b_dtype = ZINF_F32, .ldb = c->width,
        .c = c->grads[0], .c_dtype = ZINF_F32, .ldc = c->width,
    };
    const struct zinf_gemm dx = {                           /* dx = dy + da W, over dy */
        .m = c->rows, .n = c->width, .k = c->width, .beta = 1,
        .a = w.a, .a_dtype = ZINF_F32, .lda = c->width, .b = c->params[0], .b_dtype = c->dtype, .ldb = c->width,
        .c = w.dy, .c_dtype = ZINF_F32, .ldc = c->width,
    };

    rc = c->ops->gemm(c->stream, &dw);
    if (!rc)
        rc = c->ops->gemm(c->stream, &dx);
    return rc ? rc : c->ops->cast(c->stream, c->dx, c->dtype, w.dy, ZINF_F32, n);
}

/* ---- the head: loss forward, and backward to x and to its weights ------------------------------------------------ */

static size_t head_work(const struct zinf_layer *l, uint32_t batch, uint32_t seq, uint64_t width)
{
    (void)l;
    return (size_t)batch * seq * (2 * width + CLASSES) * sizeof(float);
}

static int head(const struct zinf_call *c, bool backward)
{
    float *x = c->work, *dx = x + c->rows * c->width, *logits = dx + c->rows * c->width;
    const struct zinf_gemm product = {
        .trans_b = true, .m = c->rows, .n = CLASSES, .k = c->width, .a = x, .a_dtype = ZINF_F32, .lda = c->width,
        .b = c->params[0], .b_dtype = c->dtype, .ldb = c->width, .c = logits, .c_dtype = ZINF_F32, .ldc = CLASSES,
    };
    const struct zinf_cross_entropy loss = {
        .logits = logits, .rows = c->rows, .vocab = CLASSES, .stride = CLASSES, .targets = c->targets,
        .grad_scale = c->grad_scale, .want_grad = backward, .row_loss = c->row_loss,
    };
    int rc = c->ops->cast(c->stream, x, ZINF_F32, c->x, c->dtype, c->rows * c->width);

    if (!rc)
        rc = c->ops->gemm(c->stream, &product);
    if (!rc)
        rc = c->ops->cross_entropy(c->stream, &loss);
    if (rc || !backward)
        return rc;
    const struct zinf_gemm dw = {
        .trans_a = true, .m = CLASSES, .n = c->width, .k = c->rows, .beta = c->beta,
        .a = logits, .a_dtype = ZINF_F32, .lda = CLASSES, .b = x, .b_dtype = ZINF_F32, .ldb = c->width,
        .c = c->grads[0], .c_dtype = ZINF_F32, .ldc = c->width,
    };
    const struct zinf_gemm gx = {
        .m = c->rows, .n = c->width, .k = CLASSES, .a = logits, .a_dtype = ZINF_F32, .lda = CLASSES,
        .b = c->params[0], .b_dtype = c->dtype, .ldb = c->width, .c = dx, .c_dtype = ZINF_F32, .ldc = c->width,
    };

    rc = c->ops->gemm(c->stream, &dw);
    if (!rc)
        rc = c->ops->gemm(c->stream, &gx);
    return rc ? rc : c->ops->cast(c->stream, c->dx, c->dtype, dx, ZINF_F32, c->rows * c->width);
}

static int head_forward(const struct zinf_layer *l, const struct zinf_call *c)
{
    (void)l;
    return head(c, false);
}

static int head_backward(const struct zinf_layer *l, const struct zinf_call *c)
{
    (void)l;
    return head(c, true);
}

/* ---- data: a pure function of the sample's number ---------------------------------------------------------------- */

static uint64_t nr_samples(void *ctx, enum zinf_split split)
{
    (void)ctx;
    return split == ZINF_TRAIN ? 4096 : 8;
}

static double noise(uint64_t i)           /* splitmix64, to [0, 1) */
{
    i += 0x9e3779b97f4a7c15ull;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ull;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebull;
    return (double)((i ^ (i >> 31)) >> 11) * 0x1p-53;
}

static int fetch(void *ctx, enum zinf_split split, uint64_t index, int32_t *tokens, int32_t *targets, float *input,
                 struct zinf_status *st)
{
    (void)ctx;
    (void)tokens;
    (void)st;
    for (uint64_t i = 0; i < POINTS; i++) {
        uint64_t at = 4 * (((uint64_t)split << 40) + index * POINTS + i);
        int32_t arm = (int32_t)(noise(at) * CLASSES);
        double t = noise(at + 1), angle = 9 * t + 2 * 3.14159265358979 * arm / CLASSES + 0.1 * (noise(at + 2) - 0.5);
        float *x = input + i * WIDTH, px = (float)(t * cos(angle)), py = (float)(t * sin(angle));

        targets[i] = arm;
        for (int k = 0; k < WIDTH / 2; k++) {               /* the point in a fixed set of directions */
            x[2 * k] = sinf(px * (float)(k + 1)) + 0.3f * py;
            x[2 * k + 1] = sinf(py * (float)(k + 1)) - 0.3f * px;
        }
    }
    return 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static int fail(const struct zinf_status *st)
{
    fprintf(stderr, "custom_layers: %s\n", st->text);
    return 1;
}

static int usage(void)
{
    fprintf(stderr, "usage: custom_layers [--steps N] [FOLDER_ON_A_DRIVE]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct zinf_param head_params[] = { { "head.weight", 2, { CLASSES, WIDTH }, ZINF_INIT_NORMAL, 0.1f } };
    static const struct zinf_layer head_layer = { .params = head_params, .nr_params = 1, .work_nbytes = head_work,
                                                  .forward = head_forward, .backward = head_backward };
    static const struct zinf_source source = { .nr_samples = nr_samples, .fetch = fetch };
    struct zinf_param params[LAYERS][2];
    struct zinf_layer layers[LAYERS];
    char names[LAYERS][2][32], config[1024];
    struct zinf_status st = { 0 };
    struct zinf_trainer *t;
    struct zinf_step step;
    const char *drive = NULL;
    int steps = 300;
    double loss = 0;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--steps") && i + 1 < argc && atoi(argv[i + 1]) > 0)
            steps = atoi(argv[++i]);
        else if (argv[i][0] != '-' && !drive)
            drive = argv[i];
        else
            return usage();
    }
    for (int i = 0; i < LAYERS; i++) {
        snprintf(names[i][0], sizeof(names[i][0]), "layers.%d.weight", i);
        snprintf(names[i][1], sizeof(names[i][1]), "layers.%d.bias", i);
        params[i][0] = (struct zinf_param){ names[i][0], 2, { WIDTH, WIDTH }, ZINF_INIT_NORMAL, 0.1f };
        params[i][1] = (struct zinf_param){ names[i][1], 1, { WIDTH }, ZINF_INIT_ZERO, 0 };
        layers[i] = (struct zinf_layer){ .params = params[i], .nr_params = 2, .work_nbytes = layer_work,
                                         .forward = layer_forward, .backward = layer_backward };
    }
    const struct zinf_chain chain = { .width = WIDTH, .layers = layers, .nr_layers = LAYERS, .head = &head_layer,
                                      .vocab = CLASSES, .flops_per_token = 6.0 * LAYERS * WIDTH * WIDTH };

    snprintf(config, sizeof(config), "{ \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2,"
             " \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },"
             " \"zero_optimization\": { \"stage\": 3, \"offload_optimizer\": { \"device\": \"%s\" },"
             " \"offload_param\": { \"device\": \"%s\" } } }", drive ? "nvme" : "cpu", drive ? "nvme" : "cpu");

    char path[600];
    const char *sets[1] = { path };

    if (drive)
        snprintf(path, sizeof(path), "zinf.nvme_paths=[\"%s\"]", drive);
    const struct zinf_trainer_opts opts = {
        .config_text = config, .sets = sets, .nr_sets = drive ? 1 : 0, .chain = &chain, .source = &source,
        .seq_len = POINTS,
    };

    if (zinf_trainer_open(&opts, &t, &st))
        return fail(&st);
    zinf_trainer_discard(t);     /* nobody resumes an example: its end clears the drive */
    for (int i = 0; i < steps; i++) {
        if (zinf_trainer_step(t, &step, &st)) {
            zinf_trainer_close(t);
            return fail(&st);
        }
        if (i == 0 || (i + 1) % 50 == 0)
            printf("step %d loss %.4f norm %.3f\n", i + 1, step.loss, step.grad_norm);
    }
    if (zinf_trainer_evaluate(t, 0, &loss, NULL, &st)) {
        zinf_trainer_close(t);
        return fail(&st);
    }
    printf("evaluation loss %.4f (chance is %.4f)\n", loss, log(CLASSES));
    zinf_trainer_close(t);
    return 0;
}
