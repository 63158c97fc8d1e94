"""zinf_public_headers: the headers of a library, with all they include, as files (what an application is given)."""

def _impl(ctx):
    return [DefaultInfo(files = ctx.attr.lib[CcInfo].compilation_context.headers, runfiles = ctx.runfiles(
        transitive_files = ctx.attr.lib[CcInfo].compilation_context.headers,
    ))]

zinf_public_headers = rule(
    implementation = _impl,
    attrs = {"lib": attr.label(mandatory = True, providers = [CcInfo])},
)
