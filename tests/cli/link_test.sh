#!/bin/sh
# tests/cli/link_test.sh - a C program outside Bazel, compiled and linked with the two lines of the README, trains.
set -eu
root=$PWD
if [ "${1:-}" = sanitized ]; then
    exec tools/skipped_test.sh "the libraries are built with a sanitizer"
fi
cc=""
for candidate in cc gcc clang; do
    command -v "$candidate" >/dev/null 2>&1 && cc=$candidate && break
done
if [ -z "$cc" ]; then
    exec tools/skipped_test.sh "no C compiler on the PATH"
fi

work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/link-XXXXXX")
trap 'rm -rf "$work"' EXIT
cat >"$work/my.c" <<'C'
#include <stdio.h>
#include "zinf/zinf.h"

int main(int argc, char **argv)
{
    struct zinf_trainer_opts o = { .config_path = argv[1], .model = argv[2], .data = argv[3], .seq_len = 32 };
    const char *sets[] = { argv[4] };
    struct zinf_status st = { 0 };
    struct zinf_trainer *t;
    struct zinf_step step;
    int rc;

    if (argc < 6)
        return 2;
    o.sets = sets;
    o.nr_sets = 1;
    rc = zinf_trainer_open(&o, &t, &st);
    for (int i = 0; i < 2 && !rc; i++)
        rc = zinf_trainer_step(t, &step, &st);
    if (!rc)
        rc = zinf_trainer_export(t, argv[5], &st);
    if (rc)
        fprintf(stderr, "%s\n", st.text);
    else
        printf("zinf %s: loss %.6f after %d steps\n", zinf_version(), step.loss, (int)step.step);
    zinf_trainer_close(rc ? NULL : t);
    return rc ? 1 : 0;
}
C
i=0
while [ $i -lt 400 ]; do
    echo "line $i of a text that is long enough"
    i=$((i + 1))
done >"$work/text.txt"

# The commands as the README has them: their words after the compiler's name, here with this test's paths.
line() {
    sed -n "s/^    gcc \(-I\. my\.c .*\) -o my  *# $1\$/\1/p" README.md
}
for kind in static shared; do
    words=$(line $kind)
    if [ -z "$words" ]; then
        echo "README.md has no line 'gcc -I. my.c ... -o my  # $kind'" >&2
        exit 1
    fi
    words=$(printf '%s\n' "$words" | sed "s|my\.c|$work/my.c|; s|bazel-bin/|$root/|g; s|-Lbazel-bin|-L$root|; s|\$PWD/bazel-bin|$root|")
    # OpenBLAS is compiled in where it is found.
    if ! echo 'int main(void) { return 0; }' | "$cc" -xc - -lopenblas -o "$work/probe" 2>"$work/probe.log"; then
        words=$(printf '%s\n' "$words" | sed 's/ -lopenblas//')
    fi
    set -- $words
    echo "$cc -I. ... ($kind): $*"
    "$cc" -std=c11 -Wall -Wextra -Werror "$@" -o "$work/$kind"
    mkdir -p "$work/drive"
    "$work/$kind" examples/configs/byte-llama-nvme.json examples/models/byte-llama-tiny.json "$work/text.txt" \
        "zinf.nvme_paths=[\"$work/drive\"]" "$work/$kind.model" >"$work/$kind.out"
    cat "$work/$kind.out"
    [ -s "$work/$kind.model/model.safetensors" ]
done
cmp "$work/static.out" "$work/shared.out"
cmp "$work/static.model/model.safetensors" "$work/shared.model/model.safetensors"
# The shared library gives away what its list says and nothing else.
if command -v nm >/dev/null 2>&1; then
    nm -D --defined-only libzinf.so | awk '{ print $3 }' | grep -v '^zinf_' && { echo "libzinf.so exports other names" >&2; exit 1; }
fi
exit 0
