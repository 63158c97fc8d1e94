#!/bin/sh
# tests/cli/shakespeare_test.sh [--steps N] - the real thing: real text, 5M parameters, state on NVMe; learns, and `none` gives
# the same bytes. ZINF_DATA names the text. Fewer steps than the full 1,500 check everything but the loss.
#
#   bazel test //tests/cli:shakespeare_test --test_env=ZINF_DATA=/path/to/text.txt [--test_arg=--steps --test_arg=20]
set -eu
full=1500
steps=$full
if [ $# -ge 2 ] && [ "$1" = --steps ]; then
    steps=$2
elif [ $# != 0 ]; then
    echo "usage: shakespeare_test.sh [--steps N]" >&2
    exit 2
fi
if [ -z "${ZINF_DATA:-}" ]; then
    exec tools/skipped_test.sh "ZINF_DATA names no text"
fi
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/shakespeare-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/drive"

# run NAME [OPTIONS]: 1,024 tokens per step
run() {
    name=$1
    shift
    zinf/cli/zinf train --config examples/configs/byte-llama-nvme.json --model examples/models/byte-llama-5m.json \
        --data "$ZINF_DATA" --seq-len 256 --steps "$steps" --out "$work/$name" \
        --set "zinf.nvme_paths=[\"$work/drive\"]" --set steps_per_print=100 "$@"
}
run nvme
run none --set zero_optimization.offload_optimizer.device=none --set zero_optimization.offload_param.device=none \
    --set zinf.device_memory=128MiB
zinf/cli/zinf report --same-weights "$work/nvme" "$work/none"
cmp "$work/nvme/model/model.safetensors" "$work/none/model/model.safetensors"

loss=$(sed -n 's/^{"event":"end".*"eval_loss":\([0-9.]*\).*/\1/p' "$work/nvme/log.jsonl")
echo "validation loss $loss nats/byte after $steps steps"
if [ -z "$loss" ]; then
    echo "the log has no evaluation" >&2
    exit 1
fi
if [ "$steps" -ge "$full" ]; then
    awk -v loss="$loss" 'BEGIN { exit !(loss < 1.95) }' || { echo "that is not below 1.95" >&2; exit 1; }
fi
