# tools/bazel_env.sh - sourced by the other scripts, in the workspace: finds the right Bazel and sensible limits.
#
# Sets BAZEL_JOBS and defines
#   zinf_bazel COMMAND ARGS...   Bazel, with a place for its files that this user may write
# Ends the script with one line when Bazel is not the one zinf builds with.

zinf_bazel_bin=""
zinf_bazel_seen=""
for zinf_candidate in "${BAZEL:-}" bazel /usr/bin/bazel; do
    [ -n "$zinf_candidate" ] && command -v "$zinf_candidate" >/dev/null 2>&1 || continue
    # Debian's says "bazel no_version".
    zinf_version=$("$zinf_candidate" --version 2>/dev/null </dev/null || true)
    case "$zinf_version" in
    "bazel no_version" | "bazel 4.2.3"*)
        zinf_bazel_bin=$zinf_candidate
        break
        ;;
    *) zinf_bazel_seen="$(command -v "$zinf_candidate") is '$zinf_version'; " ;;
    esac
done
if [ -z "$zinf_bazel_bin" ] || [ ! -d /usr/share/bazel/rules/java ] || [ ! -d /usr/share/bazel/rules/proto ]; then
    echo "$0: ${zinf_bazel_seen}zinf builds with Debian's bazel-bootstrap 4.2.3 and its rules:" \
        "run tools/install_deps, or set BAZEL" >&2
    exit 1
fi

# Bazel keeps its files under HOME, which a container may lack.
zinf_bazel_root=""
if [ -z "${HOME:-}" ] || [ ! -w "$HOME" ]; then
    zinf_bazel_root="${TMPDIR:-/var/tmp}/bazel-$(id -u)"
    HOME=${HOME:-$zinf_bazel_root}
    export HOME
fi
if [ -z "${USER:-}" ]; then
    USER=$(id -un 2>/dev/null || id -u)
    export USER
fi

zinf_bazel() {
    "$zinf_bazel_bin" ${zinf_bazel_root:+"--output_user_root=$zinf_bazel_root"} "$@"
}

# One compiler per processor and per GiB of memory.
BAZEL_JOBS=$(nproc 2>/dev/null || echo 1)
zinf_gib=$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null || true)
[ -n "$zinf_gib" ] && [ "$zinf_gib" -lt "$BAZEL_JOBS" ] && BAZEL_JOBS=$zinf_gib
[ "$BAZEL_JOBS" -ge 1 ] || BAZEL_JOBS=1
