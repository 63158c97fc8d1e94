"""cuda_toolkit: finds nvcc. @cuda//:defs.bzl says what was found; targets that need nvcc ask it (//tools:cuda.bzl)."""

def _impl(rctx):
    nvcc = None
    homes = [rctx.os.environ.get("CUDA_HOME", ""), rctx.os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for home in homes:
        if home and rctx.path(home + "/bin/nvcc").exists:
            nvcc = home + "/bin/nvcc"
            break
    if not nvcc:
        on_path = rctx.which("nvcc")
        nvcc = str(on_path.realpath) if on_path else None
    home = nvcc[:-len("/bin/nvcc")] if nvcc else ""
    headers = bool(home) and rctx.path(home + "/include/cuda_runtime.h").exists
    if headers:
        rctx.symlink(home + "/include", "include")

    # cudart is linked statically, so that one binary starts on a machine without CUDA.
    rctx.file("BUILD", """cc_library(
    name = "headers",
    hdrs = glob(["include/**"], allow_empty = True),
    defines = ["ZINF_HAVE_CUDA=%d"],
    includes = ["include"],
    visibility = ["//visibility:public"],
)

cc_library(
    name = "cudart_static",
    linkopts = %s,
    visibility = ["//visibility:public"],
    deps = [":headers"],
)
""" % (
        1 if headers else 0,
        repr(["-L%s/lib64" % home, "-lcudart_static", "-ldl", "-lrt", "-lpthread"] if headers else []),
    ))
    rctx.file("defs.bzl", """'''What was found on this machine.'''

HAVE_NVCC = %s
NVCC = "%s"
""" % (headers, nvcc or ""))

cuda_toolkit = repository_rule(
    implementation = _impl,
    configure = True,
    environ = ["CUDA_HOME", "CUDA_PATH", "PATH"],
    local = True,
)
