/* zinf/cli/doctor.c - `zinf doctor`: what was found, what would be chosen, and why, without training anything. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/queue.h"
#include "io/uring_probe.h"
#include "kernels/cpu/cpu_device.h"
#include "zinf/base/cpu.h"
#include "zinf/base/memory.h"
#include "zinf/base/pool.h"
#include "zinf/base/size.h"
#include "zinf/cli/args.h"
#include "zinf/cli/commands.h"
#include "zinf/config/config.h"
#include "zinf/config/json.h"
#include "zinf/zinf.h"

/* Lines for people, one object for programs: the same facts in the same order. */
struct out {
    bool json, open;
    struct zinf_json_out j;
    char section[32];
};

static void section(struct out *o, const char *name)
{
    if (o->json) {
        if (o->open)
            zinf_json_close_object(&o->j);
        zinf_json_open_object(&o->j, name);
        o->open = true;
    } else {
        printf("%s%s\n", o->section[0] ? "\n" : "", name);
    }
    snprintf(o->section, sizeof(o->section), "%s", name);
}

static void fact(struct out *o, const char *key, const char *value)
{
    if (o->json)
        zinf_json_put_string(&o->j, key, value);
    else
        printf("  %-22s %s\n", key, value);
}

static void fact_bool(struct out *o, const char *key, bool value)
{
    if (o->json)
        zinf_json_put_bool(&o->j, key, value);
    else
        fact(o, key, value ? "yes" : "no");
}

static void fact_bytes(struct out *o, const char *key, uint64_t nbytes)
{
    char text[24];

    if (o->json)
        zinf_json_put_integer(&o->j, key, (int64_t)nbytes);
    else
        fact(o, key, zinf_size_format(nbytes, text, sizeof(text)));
}

static int cpu(struct out *o, struct zinf_status *st)
{
    static const enum zinf_isa isas[] = { ZINF_ISA_AVX2, ZINF_ISA_AVX512, ZINF_ISA_NEON };
    struct zinf_device_opts d = { 0 };
    struct zinf_device *dev;
    char text[160];
    int rc;

    section(o, "cpu");
    fact(o, "model", zinf_cpu_model(text, sizeof(text)));
    snprintf(text, sizeof(text), "%u", zinf_cpu_count());
    fact(o, "processors", text);
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
        fact_bool(o, zinf_isa_name(isas[i]), zinf_isa_available(isas[i]));
    rc = zinf_pool_open(1, &d.pool, st);
    if (rc)
        return rc;
    rc = zinf_cpu_device_ops.open(&d, &dev, st);
    if (!rc) {
        fact(o, "chosen", zinf_cpu_device_describe(dev, text, sizeof(text)));
        zinf_cpu_device_ops.close(dev);
    }
    zinf_pool_close(d.pool);
    return rc;
}

static void memory(struct out *o)
{
    section(o, "memory");
    fact_bytes(o, "available", zinf_host_available_nbytes(""));
    fact(o, "why", "the smaller of MemAvailable and what the cgroup limit leaves, reclaimable file cache counted as free");
    fact(o, "auto_budget", "nine tenths of that, halved between device (the CPU device's arena) and host");
}

static int io(struct out *o, struct zinf_status *st)
{
    struct zinf_io_queue_opts q = { .event_fd = -1 };
    struct zinf_io_uring_info uring;
    struct zinf_io_queue *queue;
    struct zinf_status why = { 0 };
    int rc;

    section(o, "io");
    zinf_io_uring_probe(&uring, &why);
    fact_bool(o, "io_uring", uring.available);
    fact(o, "io_uring_why", uring.text);
    fact_bool(o, "libaio", ZINF_HAVE_LIBAIO);
    fact(o, "libaio_why", ZINF_HAVE_LIBAIO ? "found at build time; io_uring and threads are preferred, so it is not used"
                                           : "not found at build time; not needed");
    rc = zinf_io_queue_open(&q, &queue, st);
    if (rc)
        return rc;
    fact(o, "chosen", zinf_io_queue_backend(queue));
    zinf_io_queue_close(queue);
    return 0;
}

static int path(struct out *o, const char *dir, struct zinf_status *st)
{
    struct zinf_io_dir_info info;
    char text[64];
    int rc = zinf_io_probe_dir(dir, &info, st);

    section(o, "path");
    fact(o, "path", dir);
    if (rc)
        return rc;
    fact(o, "file_system", info.fs_name);
    fact_bool(o, "o_direct", info.direct);
    fact(o, "o_direct_why", info.why);
    snprintf(text, sizeof(text), "%u", info.off_align);
    fact(o, "alignment", text);
    fact_bytes(o, "free", info.free_nbytes);
    return 0;
}

static int paths(struct out *o, const char *config_path, const char *dir, struct zinf_status *st)
{
    struct zinf_config config;
    int rc;

    if (!config_path)
        return path(o, dir ? dir : ".", st);
    rc = zinf_config_load(config_path, NULL, NULL, NULL, 0, NULL, &config, st);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < config.nr_nvme_paths && !rc; i++)
        rc = path(o, config.nvme_paths[i], st);
    if (!rc && (dir || !config.nr_nvme_paths))
        rc = path(o, dir ? dir : ".", st);
    if (!rc) {
        section(o, "budgets");
        if (config.device_memory == ZINF_AUTO_U64)
            fact(o, "device_memory", "auto");
        else
            fact_bytes(o, "device_memory", config.device_memory);
        if (config.host_memory == ZINF_AUTO_U64)
            fact(o, "host_memory", "auto");
        else
            fact_bytes(o, "host_memory", config.host_memory);
    }
    zinf_config_free(&config);
    return rc;
}

int zinf_cmd_doctor(int argc, char **argv)
{
    const char *config_path = NULL, *dir = NULL;
    bool help = false;
    struct out o = { 0 };
    const struct zinf_arg args[] = {
        { "config", ZINF_ARG_STRING, &config_path, "FILE", "also look at the drives and budgets of this ds_config.json", 0, 0, false },
        { "path", ZINF_ARG_STRING, &dir, "DIR", "the folder to try O_DIRECT in (default: the current one)", 0, 0, false },
        { "json", ZINF_ARG_FLAG, &o.json, NULL, "one JSON object", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &help, NULL, "this text", 0, 0, false },
    };
    struct zinf_status st = { 0 };
    int rc = zinf_args_parse(args, sizeof(args) / sizeof(args[0]), NULL, argc, argv, &st);

    if (rc)
        return zinf_cmd_usage(&st);
    if (help) {
        zinf_args_help("zinf doctor [--config FILE] [--path DIR] [--json]", args, sizeof(args) / sizeof(args[0]));
        return 0;
    }
    if (o.json)
        zinf_json_open_object(&o.j, NULL);
    section(&o, "zinf");
    fact(&o, "version", zinf_version());
    rc = cpu(&o, &st);
    if (!rc) {
        memory(&o);
        rc = io(&o, &st);
    }
    if (!rc)
        rc = paths(&o, config_path, dir, &st);
    if (o.json && !rc) {
        zinf_json_close_object(&o.j);
        zinf_json_close_object(&o.j);
        if (o.j.failed)
            rc = zinf_fail(&st, -ENOMEM, "out of memory");
        else
            printf("%s\n", o.j.text);
    }
    zinf_json_out_free(&o.j);
    return rc ? zinf_cmd_fail(&st) : 0;
}
