/* zinf/report/jsonl.c - events to lines and the last line back to a summary. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "swapper/schedule.h"
#include "zinf/config/json.h"
#include "zinf/report/jsonl.h"

#define END_PREFIX "{\"event\":\"end\""

struct zinf_jsonl {
    int fd;
    char *path;
    struct zinf_json_out out;        /* kept from line to line: no allocation in steady state */
};

static const char *const tier_names[ZINF_NR_TIERS] = { "device", "host", "nvme" };

/* A line that was cut (by a full drive) must not take the next one with it. */
static int end_torn_line(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char last = '\n';

    if (size < 0 || (size && pread(fd, &last, 1, size - 1) != 1))
        return errno == ESPIPE ? 0 : -errno;        /* a pipe has no line of before */
    return last == '\n' || write(fd, "\n", 1) == 1 ? 0 : -errno;
}

int zinf_jsonl_open(const char *path, bool append, struct zinf_jsonl **out, struct zinf_status *st)
{
    struct zinf_jsonl *j = calloc(1, sizeof(*j));
    int rc;

    *out = NULL;
    if (!j || !(j->path = strdup(path))) {
        free(j);
        return zinf_fail(st, -ENOMEM, "log %s: out of memory", path);
    }
    j->fd = open(path, (append ? O_RDWR : O_WRONLY | O_TRUNC) | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
    rc = j->fd < 0 ? -errno : append ? end_torn_line(j->fd) : 0;
    if (rc) {
        zinf_fail(st, rc, "log %s: %s", path, strerror(-rc));
        if (j->fd >= 0)
            close(j->fd);
        free(j->path);
        free(j);
        return rc;
    }
    *out = j;
    return 0;
}

static struct zinf_json_out *begin(struct zinf_jsonl *j, const char *event)
{
    zinf_json_out_reset(&j->out);
    zinf_json_open_object(&j->out, NULL);
    zinf_json_put_string(&j->out, "event", event);
    return &j->out;
}

/* Ends the object and writes it as one line. */
static int end(struct zinf_jsonl *j, struct zinf_status *st)
{
    struct zinf_json_out *o = &j->out;
    size_t done = 0;

    zinf_json_close_object(o);
    if (o->failed)
        return zinf_fail(st, -ENOMEM, "log %s: out of memory", j->path);
    o->text[o->nbytes] = '\n';       /* over the NUL */
    while (done < o->nbytes + 1) {
        ssize_t n = write(j->fd, o->text + done, o->nbytes + 1 - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return zinf_fail(st, n ? -errno : -EIO, "log %s: %s", j->path, strerror(n ? errno : EIO));
        done += (size_t)n;
    }
    o->text[o->nbytes] = 0;
    return 0;
}

static void put_tiers(struct zinf_json_out *o, const char *key, const uint64_t *nbytes)
{
    zinf_json_open_object(o, key);
    for (int t = 0; t < ZINF_NR_TIERS; t++)
        zinf_json_put_integer(o, tier_names[t], (int64_t)nbytes[t]);
    zinf_json_close_object(o);
}

static bool moves_bytes(int lane)
{
    return lane == ZINF_LANE_NVME_READ || lane == ZINF_LANE_NVME_WRITE || lane == ZINF_LANE_H2D ||
           lane == ZINF_LANE_D2H;
}

static void put_lanes(struct zinf_json_out *o, const struct zinf_step *s)
{
    zinf_json_open_object(o, "lanes");
    for (int l = 0; l < ZINF_NR_LANES; l++) {
        zinf_json_open_object(o, zinf_lane_name((enum zinf_lane)l));
        zinf_json_put_number(o, "busy_s", s->lane[l].busy_s);
        zinf_json_put_number(o, "stall_s", s->lane[l].stall_s);
        if (moves_bytes(l))
            zinf_json_put_integer(o, "bytes", (int64_t)s->lane[l].nbytes);
        zinf_json_close_object(o);
    }
    zinf_json_close_object(o);
}

int zinf_jsonl_step(struct zinf_jsonl *j, const struct zinf_step *s, const struct zinf_run_info *info,
                    struct zinf_status *st)
{
    struct zinf_json_out *o = begin(j, "step");

    zinf_json_put_integer(o, "step", (int64_t)s->step);
    zinf_json_put_integer(o, "durable_step", (int64_t)s->durable_step);
    zinf_json_put_integer(o, "iteration", (int64_t)s->iteration);
    zinf_json_put_number(o, "loss", s->loss);
    zinf_json_put_number(o, "grad_norm", s->grad_norm);
    zinf_json_put_bool(o, "clipped", s->clipped);
    zinf_json_put_bool(o, "skipped", s->skipped);
    zinf_json_put_number(o, "lr", s->lr);
    zinf_json_put_integer(o, "tokens", (int64_t)s->tokens);
    zinf_json_put_number(o, "seconds", s->seconds);
    zinf_json_put_number(o, "tokens_per_s", s->tokens_per_s);
    zinf_json_put_number(o, "tflops", s->tflops);
    put_lanes(o, s);
    put_tiers(o, "peak_bytes", info->peak_nbytes);
    zinf_json_put_integer(o, "drive_read_bytes", (int64_t)s->drive_read_nbytes);
    zinf_json_put_integer(o, "drive_written_bytes", (int64_t)s->drive_written_nbytes);
    if (s->bound >= 0 && s->bound < ZINF_NR_LANES)
        zinf_json_put_string(o, "bound", zinf_lane_name((enum zinf_lane)s->bound));
    else
        zinf_json_put_null(o, "bound");
    zinf_json_put_number(o, "bound_fraction", s->bound_fraction);
    return end(j, st);
}

int zinf_jsonl_eval(struct zinf_jsonl *j, uint64_t step, double loss, uint64_t tokens, struct zinf_status *st)
{
    struct zinf_json_out *o = begin(j, "eval");

    zinf_json_put_integer(o, "step", (int64_t)step);
    zinf_json_put_number(o, "eval_loss", loss);
    zinf_json_put_integer(o, "tokens", (int64_t)tokens);
    return end(j, st);
}

int zinf_jsonl_resume(struct zinf_jsonl *j, uint64_t step, struct zinf_status *st)
{
    struct zinf_json_out *o = begin(j, "resume");

    zinf_json_put_integer(o, "step", (int64_t)step);
    return end(j, st);
}

int zinf_jsonl_end(struct zinf_jsonl *j, const struct zinf_run_summary *s, struct zinf_status *st)
{
    struct zinf_json_out *o = begin(j, "end");

    zinf_json_put_string(o, "name", s->name);
    zinf_json_put_string(o, "offload", s->offload);
    zinf_json_put_integer(o, "first_step", (int64_t)s->first_step);
    zinf_json_put_integer(o, "steps", (int64_t)s->steps);
    zinf_json_put_integer(o, "tokens", (int64_t)s->tokens);
    zinf_json_put_number(o, "first_loss", s->first_loss);
    zinf_json_put_number(o, "last_loss", s->last_loss);
    zinf_json_put_number(o, "eval_loss", s->eval_loss);
    zinf_json_put_number(o, "seconds", s->seconds);
    zinf_json_put_number(o, "tokens_per_s", s->tokens_per_s);
    put_tiers(o, "budget_bytes", s->budget_nbytes);
    put_tiers(o, "peak_bytes", s->peak_nbytes);
    zinf_json_put_integer(o, "base_rss_bytes", (int64_t)s->base_rss_nbytes);
    zinf_json_put_integer(o, "peak_rss_bytes", (int64_t)s->peak_rss_nbytes);
    zinf_json_put_integer(o, "drive_read_bytes", (int64_t)s->drive_read_nbytes);
    zinf_json_put_integer(o, "drive_written_bytes", (int64_t)s->drive_written_nbytes);
    zinf_json_put_number(o, "flush_s", s->flush_s);
    zinf_json_put_bool(o, "o_direct", s->direct);
    zinf_json_put_string(o, "io_backend", s->io_backend);
    zinf_json_put_string(o, "device", s->device);
    zinf_json_put_string(o, "run_dir", s->run_dir);
    zinf_json_put_string(o, "log", s->log_path);
    zinf_json_put_string(o, "weights", s->weights_path);
    return end(j, st);
}

int zinf_jsonl_close(struct zinf_jsonl *j, struct zinf_status *st)
{
    int rc = 0;

    if (!j)
        return 0;
    /* A pipe or terminal cannot be flushed and says EINVAL or EROFS: nothing is lost. */
    if (fsync(j->fd) && errno != EINVAL && errno != EROFS)
        rc = zinf_fail(st, -errno, "log %s: %s", j->path, strerror(errno));
    if (close(j->fd) && !rc)
        rc = zinf_fail(st, -errno, "log %s: %s", j->path, strerror(errno));
    zinf_json_out_free(&j->out);
    free(j->path);
    free(j);
    return rc;
}

/* ---- reading back ---- */

static void get_string(const struct zinf_json *o, const char *key, char *out, size_t nbytes)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    snprintf(out, nbytes, "%s", v && v->type == ZINF_JSON_STRING ? v->string : "");
}

static double get_number(const struct zinf_json *o, const char *key)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    return v && v->type == ZINF_JSON_NUMBER ? v->number : NAN;
}

static uint64_t get_count(const struct zinf_json *o, const char *key)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    return v && v->type == ZINF_JSON_NUMBER && v->is_integer && v->integer > 0 ? (uint64_t)v->integer : 0;
}

static void get_tiers(const struct zinf_json *o, const char *key, uint64_t *out)
{
    const struct zinf_json *v = zinf_json_get(o, key);

    for (int t = 0; t < ZINF_NR_TIERS; t++)
        out[t] = v ? get_count(v, tier_names[t]) : 0;
}

static void from_json(const struct zinf_json *o, struct zinf_run_summary *s)
{
    const struct zinf_json *direct = zinf_json_get(o, "o_direct");

    memset(s, 0, sizeof(*s));
    get_string(o, "name", s->name, sizeof(s->name));
    get_string(o, "offload", s->offload, sizeof(s->offload));
    s->first_step = get_count(o, "first_step");
    s->steps = get_count(o, "steps");
    s->tokens = get_count(o, "tokens");
    s->first_loss = get_number(o, "first_loss");
    s->last_loss = get_number(o, "last_loss");
    s->eval_loss = get_number(o, "eval_loss");
    s->seconds = get_number(o, "seconds");
    s->tokens_per_s = get_number(o, "tokens_per_s");
    get_tiers(o, "budget_bytes", s->budget_nbytes);
    get_tiers(o, "peak_bytes", s->peak_nbytes);
    s->base_rss_nbytes = get_count(o, "base_rss_bytes");
    s->peak_rss_nbytes = get_count(o, "peak_rss_bytes");
    s->drive_read_nbytes = get_count(o, "drive_read_bytes");
    s->drive_written_nbytes = get_count(o, "drive_written_bytes");
    s->direct = direct && direct->type == ZINF_JSON_BOOL && direct->boolean;
    get_string(o, "io_backend", s->io_backend, sizeof(s->io_backend));
    get_string(o, "device", s->device, sizeof(s->device));
    get_string(o, "run_dir", s->run_dir, sizeof(s->run_dir));
    get_string(o, "log", s->log_path, sizeof(s->log_path));
    get_string(o, "weights", s->weights_path, sizeof(s->weights_path));
}

int zinf_jsonl_summary(const char *path, struct zinf_run_summary *out, struct zinf_status *st)
{
    char *line = NULL, *last = NULL;
    size_t cap = 0, last_cap = 0;
    ssize_t n, last_n = 0;
    struct zinf_json_doc doc = { 0 };
    FILE *f = fopen(path, "re");
    int rc = 0;

    if (!f)
        return zinf_fail(st, -errno, "log %s: %s", path, strerror(errno));
    errno = 0;
    while ((n = getline(&line, &cap, f)) > 0)
        if (!strncmp(line, END_PREFIX, strlen(END_PREFIX))) {
            char *swap = last;
            size_t swap_cap = last_cap;

            last = line;
            last_cap = cap;
            last_n = n;
            line = swap;
            cap = swap_cap;
        }
    if (ferror(f))
        rc = zinf_fail(st, errno ? -errno : -EIO, "log %s: %s", path, strerror(errno ? errno : EIO));
    else if (!last)
        rc = zinf_fail(st, -ENOENT, "log %s has no \"end\" event: the run did not finish; zinf train --resume goes on with one that "
                       "has stopped", path);
    if (!rc)
        rc = zinf_json_parse(last, (size_t)last_n, path, false, &doc, st);
    if (!rc)
        from_json(doc.root, out);
    zinf_json_free(&doc);
    fclose(f);
    free(line);
    free(last);
    return rc;
}
