"""system_library: a library of this machine as a repository with one cc_library.

A small program that uses the library is compiled and linked. When that works the target carries the link flags and
-DZINF_HAVE_<X>=1 for everything that depends on it; when it does not, an optional library becomes an empty target with
-DZINF_HAVE_<X>=0 and a required one stops the build with the package to install. Headers are those of the compiler's
own search path, so nothing is copied or linked into the workspace.
"""

def find_cc(rctx):
    """The C compiler that Bazel's own toolchain will use: CC from --repo_env or the environment, else gcc, else cc."""
    for name in [rctx.os.environ.get("CC", ""), "gcc", "cc"]:
        path = rctx.which(name) if name and "/" not in name else (name or None)
        if path:
            return str(path)
    fail("no C compiler: install gcc, or set CC")

def _probe(rctx, cc):
    suffix = ".cc" if rctx.attr.language == "c++" else ".c"
    rctx.file("probe" + suffix, rctx.attr.probe)
    args = [cc, "probe" + suffix, "-o", "probe"] + rctx.attr.linkopts
    if rctx.attr.language == "c++":
        args += ["-std=c++17", "-lstdc++", "-lm"]
    return rctx.execute(args)

def _impl(rctx):
    result = _probe(rctx, find_cc(rctx))
    found = result.return_code == 0
    if not found and rctx.attr.required:
        fail("%s was not found: run tools/install_deps, or install %s (%s)" % (
            rctx.name,
            rctx.attr.package,
            result.stderr.strip().split("\n")[0],
        ))
    linkopts = repr(rctx.attr.linkopts if found else [])
    defines = repr(["%s=%d" % (rctx.attr.define, 1 if found else 0)] if rctx.attr.define else [])
    if not rctx.attr.sanitizers and found:
        # A sanitizer brings an allocator of its own.
        linkopts = 'select({"@//tools:sanitizer": [], "//conditions:default": %s})' % linkopts
        defines = 'select({"@//tools:sanitizer": ["%s=0"], "//conditions:default": %s})' % (rctx.attr.define, defines)
    rctx.file("BUILD", """cc_library(
    name = "%s",
    defines = %s,
    linkopts = %s,
    visibility = ["//visibility:public"],
)
""" % (rctx.attr.target, defines, linkopts))

system_library = repository_rule(
    implementation = _impl,
    attrs = {
        "define": attr.string(doc = "ZINF_HAVE_X; empty for a required library"),
        "language": attr.string(default = "c", values = ["c", "c++"]),
        "linkopts": attr.string_list(mandatory = True),
        "package": attr.string(mandatory = True, doc = "Debian's name, for the message"),
        "probe": attr.string(mandatory = True, doc = "a whole program"),
        "required": attr.bool(default = False),
        "sanitizers": attr.bool(default = True, doc = "False: left out under --config=asan and tsan"),
        "target": attr.string(mandatory = True),
    },
    configure = True,
    environ = ["CC", "PATH"],
    local = True,
)
