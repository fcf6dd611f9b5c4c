#!/usr/bin/env bash
# Trains the default model with what docs/benchmarks.md compares of optimizers' options, for its table and its picture:
#     tools/options.sh PROGRAM OUT [FLAGS OF COMPARE]
# Arguments behind OUT go to compare, such as --seeds 1. The same command again resumes.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: tools/options.sh PROGRAM OUT [FLAGS OF COMPARE]" >&2; exit 2; }
program=$1 out=$2
shift 2
mkdir -p "$out/files"
cat >"$out/files/run.yaml" <<-END
	train: {steps: 380, batch: 4, eval_every: 38, eval_tokens: 16384}
END
linear='schedule: {type: linear, learning_rate_end: 0}'
refresh='refresh: {anneal: true, flat_start: 50, decay: 0.02}'
ahead='lookahead: {scale: 1, decay: 0.98, from: 40}'
list=
# entrant writes the file of one; @SHARE behind its name makes a share of the steps.
entrant() {
	echo "optimizer: {$2}" >"$out/files/${1%@*}.yaml"
	list=$list${list:+,}$1=$out/files/${1%@*}.yaml
}
entrant adamw "name: adamw, learning_rate: 0.0015, $linear"
entrant quad_today "name: quad, learning_rate: 0.006, schedule: {learning_rate_end: 0.0006}, $refresh"
entrant quad "name: quad, learning_rate: 0.008, $linear, $refresh, parameters: {b1: 0.9}"
entrant quad_lookahead "name: quad, learning_rate: 0.008, $linear, $refresh, parameters: {b1: 0.9}, $ahead"
entrant quad_average "name: quad, learning_rate: 0.008, $linear, $refresh, parameters: {b1: 0.9}, average: {from: 280, horizon: 20, blend: 0.6}"
entrant quad_best "name: quad, learning_rate: 0.008, $linear, $refresh, parameters: {b1: 0.8}, $ahead"
entrant quad_best@0.9 "name: quad, learning_rate: 0.008, $linear, $refresh, parameters: {b1: 0.8}, $ahead"
entrant skew_best "name: skew, learning_rate: 0.008, $linear, $refresh, parameters: {b1: 0.8}, $ahead"
entrant muon "name: muon, learning_rate: 0.01, $linear"
entrant muon_normuon "name: muon, learning_rate: 0.01, $linear, parameters: {normuon_b2: 0.95}"
entrant soap "name: soap, learning_rate: 0.006, $linear"
exec "$program" compare "$out/files/run.yaml" --optimizers "$list" --seeds 3 --out "$out" "$@"
