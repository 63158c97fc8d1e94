"""zinf_cc_test: one GoogleTest suite, built like every other.

    load("//tools:zinf_test.bzl", "zinf_cc_test")

    zinf_cc_test(
        name = "pool_test",                  # srcs defaults to ["pool_test.cc"]
        tags = ["race"],                     # threaded: also run under ThreadSanitizer
        deps = ["//zinf/base:pool"],         # @gtest//:main is added
    )

Tags that tools/test and .ci/run know:
  race      threaded; also runs under --config=tsan
  manual    long; only runs when named
  slow      left out of the --config=asan run, as every size above medium is
  nosan     says nothing more under a sanitizer; left out of the --config=asan run
size: small (60 s, the default), medium (300 s), large (900 s); three times that under a sanitizer.
"""

load("//tools:copts.bzl", "ZINF_CXX_COPTS")

def zinf_cc_test(name, srcs = None, deps = [], copts = [], size = "small", **kwargs):
    # linkstatic: the test links what the program links, and no shared library per target is built.
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        copts = ZINF_CXX_COPTS + copts,
        linkstatic = True,
        deps = deps + ["@gtest//:main"],
        **kwargs
    )

def zinf_skipped_test(name, reason, **kwargs):
    """Stands for a suite that this machine cannot build; counted as one skipped case."""
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["//tools:skipped_test.sh"],
        args = ["'%s'" % reason],
        **kwargs
    )
