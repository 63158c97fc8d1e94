"""zinf_static_library: one archive that holds a cc_library and everything of ours below it."""

def _impl(ctx):
    objects = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                # The same objects position-independent or not; pic links into programs and shared libraries alike.
                found = library.pic_objects or library.objects
                objects += found if found else []
    ctx.actions.run_shell(
        inputs = objects,
        outputs = [ctx.outputs.out],
        # Objects of different folders may share a name, which q (append, do not replace) allows.
        command = "rm -f $1 && out=$1 && shift && ar qcDS $out \"$@\" && ranlib -D $out",
        arguments = [ctx.outputs.out.path] + [o.path for o in objects],
        mnemonic = "ZinfArchive",
    )
    return [DefaultInfo(files = depset([ctx.outputs.out]))]

zinf_static_library = rule(
    implementation = _impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "out": attr.output(mandatory = True),
    },
)
