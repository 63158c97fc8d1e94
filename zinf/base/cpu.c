/* zinf/base/cpu.c - feature bits of the processor and of the operating system's register saving. */
#define _GNU_SOURCE
#include "zinf/base/cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const isa_names[] = {
    [ZINF_ISA_SCALAR] = "scalar", [ZINF_ISA_AVX2] = "avx2", [ZINF_ISA_AVX512] = "avx512", [ZINF_ISA_NEON] = "neon",
};
enum { NR_ISAS = sizeof(isa_names) / sizeof(isa_names[0]) };

const char *zinf_isa_name(enum zinf_isa isa) { return isa_names[isa]; }

#if defined(__x86_64__)
/* Register state that the operating system saves (XCR0); 0 without XSAVE. */
static uint32_t xcr0(void)
{
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

static bool has_all(uint32_t reg, uint32_t bits) { return (reg & bits) == bits; }

static bool x86_available(enum zinf_isa isa)
{
    const uint32_t avx_state = 0x6, avx512_state = 0xe6;   /* XMM and YMM; and opmask, ZMM high halves, ZMM16-31 */
    uint32_t a, b, c, d, c1;

    if (!__get_cpuid(1, &a, &b, &c1, &d) || !has_all(c1, bit_AVX | bit_FMA | bit_F16C) || !has_all(xcr0(), avx_state))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, bit_AVX2))
        return false;
    return isa == ZINF_ISA_AVX2 ||
           (has_all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) && has_all(xcr0(), avx512_state));
}
#endif

bool zinf_isa_available(enum zinf_isa isa)
{
    switch (isa) {
    case ZINF_ISA_SCALAR:
        return true;
    case ZINF_ISA_AVX2:
    case ZINF_ISA_AVX512:
#if defined(__x86_64__)
        return x86_available(isa);
#else
        return false;
#endif
    case ZINF_ISA_NEON:
#if defined(__aarch64__)
        return true;
#else
        return false;
#endif
    }
    return false;
}

enum zinf_isa zinf_isa_best(void)
{
    static const enum zinf_isa order[] = { ZINF_ISA_AVX512, ZINF_ISA_AVX2, ZINF_ISA_NEON };

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (zinf_isa_available(order[i]))
            return order[i];
    return ZINF_ISA_SCALAR;
}

int zinf_isa_choose(enum zinf_isa *out, struct zinf_status *st)
{
    const char *name = getenv("ZINF_ISA");

    if (!name || !*name) {
        *out = zinf_isa_best();
        return 0;
    }
    for (int i = 0; i < NR_ISAS; i++) {
        if (strcmp(name, isa_names[i]) != 0)
            continue;
        if (!zinf_isa_available((enum zinf_isa)i))
            return zinf_fail(st, -EINVAL, "ZINF_ISA=%s: this processor does not have it; unset it to use %s", name,
                             zinf_isa_name(zinf_isa_best()));
        *out = (enum zinf_isa)i;
        return 0;
    }
    return zinf_fail(st, -EINVAL, "ZINF_ISA=%.64s is unknown: use scalar, avx2, avx512 or neon, or unset it", name);
}

uint32_t zinf_cpu_count(void)
{
    /* The kernel refuses a set smaller than its own, whose size it does not tell: grow until it fits. */
    for (int nr_cpus = 1024; nr_cpus <= 1 << 20; nr_cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(nr_cpus);
        size_t nbytes = CPU_ALLOC_SIZE(nr_cpus);
        int rc, count;

        if (!set)
            break;
        rc = sched_getaffinity(0, nbytes, set) ? errno : 0;
        count = rc ? 0 : CPU_COUNT_S(nbytes, set);
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
        if (rc != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (uint32_t)online : 1;
}

const char *zinf_cpu_model(char *buf, size_t buf_nbytes)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];

    snprintf(buf, buf_nbytes, "unknown");
    if (!f)
        return buf;
    while (fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(buf, buf_nbytes, "%s", colon);
        break;
    }
    fclose(f);
    return buf;
}
