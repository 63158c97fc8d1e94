"""Targets that need nvcc. Where it is missing they stand for themselves as one skipped test case (zinf_skipped_test).

    cuda_library(name = "add", src = "add.cu", hdrs = ["add.h"], deps = ["//zinf/base:dtype"])
    cuda_cc_test(name = "add_test", deps = [":add"])
"""

load("@cuda//:defs.bzl", "HAVE_NVCC", "NVCC")
load("//tools:zinf_test.bzl", "zinf_cc_test", "zinf_skipped_test")

# Real code for the architectures we test on; PTX of the last one for what comes later.
CUDA_ARCHS = ["80", "86", "89", "90"]

def _arch_flags():
    flags = ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in CUDA_ARCHS]
    return flags + ["-gencode=arch=compute_%s,code=compute_%s" % (CUDA_ARCHS[-1], CUDA_ARCHS[-1])]

def cuda_library(name, src, hdrs, textual_hdrs = [], deps = [], visibility = None):
    """One .cu and its C header. textual_hdrs: every other header the .cu includes. Nothing is made without nvcc."""
    if not HAVE_NVCC:
        return
    flags = ["-std=c++17", "-O2", "--fmad=false", "-Xcompiler", "-fPIC", "-I."] + _arch_flags()
    native.genrule(
        name = name + "_obj",
        srcs = [src] + hdrs + textual_hdrs,
        outs = [name + ".o"],
        cmd = "%s %s -c $(location %s) -o $@" % (NVCC, " ".join(flags), src),
    )
    native.cc_library(
        name = name,
        srcs = [name + ".o"],
        hdrs = hdrs,
        visibility = visibility,
        deps = deps + ["@cuda//:cudart_static"],
    )

def cuda_cc_test(name, tags = [], **kwargs):
    """zinf_cc_test for a suite that links a cuda_library."""
    if HAVE_NVCC:
        zinf_cc_test(name = name, tags = tags + ["cuda", "nosan"], **kwargs)
    else:
        zinf_skipped_test(name = name, reason = "nvcc was not found", tags = tags + ["cuda", "nosan"])
