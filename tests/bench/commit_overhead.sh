#!/bin/sh
# tests/bench/commit_overhead.sh DIR DATA [ROUNDS] [STEPS] - tokens/s with a commit every step against none, on a real drive.
#
# About 300M parameters, 256 MiB of device memory, 1 GiB of RAM, 1,024 tokens per step. The two settings take turns; the first
# step of each run is left out; medians over all steps, their spread, and the ratio. Both must end with the same weights.
set -eu
[ $# -ge 2 ] || {
    echo "usage: commit_overhead DIR DATA [ROUNDS] [STEPS]; absolute paths" >&2
    exit 2
}
dir=$1 data=$2 rounds=${3:-2} steps=${4:-4}
# Bazel lays the files out as in the repository, the program where it was built.
here=$PWD
zinf=$here/zinf/cli/zinf
mkdir -p "$dir/drive"
head -c 1100 "$data" >"$dir/eval.txt"

run() { # NAME DURABILITY
    "$zinf" train --config "$here/tests/bench/commit_overhead.json" --model "$here/examples/models/byte-llama-300m.json" \
        --data "$data" --eval-data "$dir/eval.txt" --seq-len 256 --steps "$steps" --out "$dir/$1" --overwrite \
        --set "zinf.nvme_paths=[\"$dir/drive\"]" --set "zinf.durability=$2" --set zinf.keep_state=false >"$dir/$1.out" || {
        tail -n 3 "$dir/$1.out"
        exit 1
    }
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"tokens_per_s":\([0-9.e+]*\),.*/\1 \2/p' "$dir/$1/log.jsonl" |
        awk '$1 > 1 { print $2 }' >>"$dir/$2.rates"
    sed -n 's/.*"event":"end".*"flush_s":\([0-9.e+-]*\).*/\1/p' "$dir/$1/log.jsonl" >>"$dir/$2.flush"
}

rm -f "$dir/step.rates" "$dir/none.rates" "$dir/step.flush" "$dir/none.flush"
i=0
while [ $i -lt "$rounds" ]; do
    run a step
    run b none
    i=$((i + 1))
    cmp "$dir/a/model/model.safetensors" "$dir/b/model/model.safetensors"
done
for d in step none; do
    sort -g "$dir/$d.rates" | awk -v name=$d '{ v[NR] = $1 } END {
        printf "%-5s tokens/s median %.1f  min %.1f  max %.1f  over %d steps\n", name, (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR], NR }'
done
awk '{ print }' "$dir/step.flush" | sort -g | awk '{ v[NR] = $1 } END { printf "flush with commit, median %.2f s\n", v[int((NR + 1) / 2)] }'
m() { sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
awk -v a="$(m "$dir/step.rates")" -v b="$(m "$dir/none.rates")" 'BEGIN { printf "ratio step / none: %.3f\n", a / b }'
