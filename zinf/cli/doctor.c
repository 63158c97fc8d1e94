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
    bool json, open, list;      /* in a section; which is an item of a list */
    struct zinf_json_out j;
    char section[32];
};

static void end_section(struct out *o)
{
    if (o->json && o->open)
        zinf_json_close_object(&o->j);
    o->open = false;
}

static void section(struct out *o, const char *name)
{
    end_section(o);
    o->open = true;
    if (o->json) {
        zinf_json_open_object(&o->j, o->list ? NULL : name);
    } else {
        printf("%s%s\n", o->section[0] ? "\n" : "", name);
    }
    snprintf(o->section, sizeof(o->section), "%s", name);
}

/* Several sections of one kind: an array for programs, one after another for people. */
static void begin_list(struct out *o, const char *name)
{
    end_section(o);
    if (o->json)
        zinf_json_open_array(&o->j, name);
    o->list = true;
}

static void end_list(struct out *o)
{
    end_section(o);
    if (o->json)
        zinf_json_close_array(&o->j);
    o->list = false;
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

static void fact_count(struct out *o, const char *key, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    if (o->json)
        zinf_json_put_integer(&o->j, key, value);
    else
        fact(o, key, text);
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
    fact_count(o, "processors", zinf_cpu_count());
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
    uint64_t available = zinf_host_available_nbytes("");

    section(o, "memory");
    fact_bytes(o, "available", available);
    fact(o, "why", "the smaller of MemAvailable and what the cgroup limit leaves, reclaimable file cache counted as free");
    fact_bytes(o, "auto_budget", available / 10 * 9 / 2);
    fact(o, "auto_budget_why", "each of zinf.device_memory and zinf.host_memory when both are \"auto\": half of nine tenths of what "
         "is available");
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
    int rc = zinf_io_probe_dir(dir, &info, st);

    section(o, "path");
    fact(o, "path", dir);
    if (rc)
        return rc;
    fact(o, "file_system", info.fs_name);
    fact_bool(o, "o_direct", info.direct);
    fact(o, "o_direct_why", info.why);
    fact_count(o, "alignment", info.off_align);
    fact_bytes(o, "free", info.free_nbytes);
    return 0;
}

static int paths(struct out *o, const struct zinf_config *config, const char *dir, struct zinf_status *st)
{
    int rc = 0;

    begin_list(o, "paths");
    for (uint32_t i = 0; i < config->nr_nvme_paths && !rc; i++)
        rc = path(o, config->nvme_paths[i], st);
    if (!rc && (dir || !config->nr_nvme_paths))
        rc = path(o, dir ? dir : ".", st);
    end_list(o);
    return rc;
}

static void budget(struct out *o, const char *key, uint64_t nbytes)
{
    if (nbytes == ZINF_AUTO_U64)
        fact(o, key, "auto");
    else
        fact_bytes(o, key, nbytes);
}

static void budgets(struct out *o, const struct zinf_config *config)
{
    section(o, "budgets");
    budget(o, "device_memory", config->device_memory);
    budget(o, "host_memory", config->host_memory);
}

static int look(struct out *o, const struct zinf_config *config, bool has_config, const char *dir, struct zinf_status *st)
{
    int rc;

    section(o, "zinf");
    fact(o, "version", zinf_version());
    rc = cpu(o, st);
    if (rc)
        return rc;
    memory(o);
    rc = io(o, st);
    if (!rc)
        rc = paths(o, config, dir, st);
    if (!rc && has_config)
        budgets(o, config);
    end_section(o);
    return rc;
}

int zinf_cmd_doctor(int argc, char **argv)
{
    const char *config_path = NULL, *dir = NULL;
    bool help = false;
    struct zinf_config config = { 0 };
    struct zinf_arg_list sets = { 0 };
    struct out o = { 0 };
    const struct zinf_arg args[] = {
        { "config", ZINF_ARG_STRING, &config_path, "FILE", "also look at the drives and budgets of this ds_config.json", 0, 0, false },
        { "set", ZINF_ARG_LIST, &sets, "KEY=VALUE", "override a key of the configuration; may be repeated", 0, 0, false },
        { "path", ZINF_ARG_STRING, &dir, "DIR", "the folder to try O_DIRECT in (default: the current one)", 0, 0, false },
        { "json", ZINF_ARG_FLAG, &o.json, NULL, "one JSON object", 0, 0, false },
        { "help", ZINF_ARG_FLAG, &help, NULL, "this text", 0, 0, false },
    };
    struct zinf_status st = { 0 };
    int rc = zinf_args_parse(args, sizeof(args) / sizeof(args[0]), NULL, argc, argv, &st);

    if (!rc && sets.nr && !config_path)
        rc = zinf_fail(&st, -EINVAL, "--set overrides a configuration: give --config FILE too");
    if (!rc && help)
        zinf_args_help("zinf doctor [--config FILE [--set KEY=VALUE]] [--path DIR] [--json]", args, sizeof(args) / sizeof(args[0]));
    if (rc || help) {
        zinf_args_free(&sets);
        return rc ? zinf_cmd_usage(&st) : 0;
    }
    if (config_path)        /* refused before anything is printed */
        rc = zinf_config_load(config_path, NULL, NULL, sets.items, sets.nr, NULL, &config, &st);
    if (!rc && o.json)
        zinf_json_open_object(&o.j, NULL);
    if (!rc)
        rc = look(&o, &config, config_path != NULL, dir, &st);
    if (o.json && !rc) {
        zinf_json_close_object(&o.j);
        if (o.j.failed)
            rc = zinf_fail(&st, -ENOMEM, "out of memory");
        else
            printf("%s\n", o.j.text);
    }
    zinf_json_out_free(&o.j);
    zinf_config_free(&config);
    zinf_args_free(&sets);
    return rc ? zinf_cmd_refuse(&st) : 0;
}
