#!/bin/sh
# Runs the tests of matrix units on lavapipe of a newer Mesa, which has them, the doctor, and a short training that is killed and resumed: matrix.sh TREE, of
# mesa-vulkan-drivers of Debian 13's backports with their libraries (mesa.sh). The programs run by the tree's own loader, as the driver wants its libraries.
set -eu
tree=$(readlink -f "$1")
libraries=$tree/usr/lib/x86_64-linux-gnu
[ -f "$libraries/libvulkan_lvp.so" ] || { echo "matrix: found no lavapipe in $libraries, wanted a tree as mesa.sh brings" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/lvp.json" <<END
{"file_format_version": "1.0.1", "ICD": {"api_version": "1.4.0", "library_path": "$libraries/libvulkan_lvp.so"}}
END
export VK_ICD_FILENAMES="$folder/lvp.json" VK_DRIVER_FILES="$folder/lvp.json" NODEVICE_SELECT=1 GPUTRAIN_ADAPTER=vulkan: GPUTRAIN_CACHE="$folder"
export GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_REQUIRE_MATRIX=1
export GALLIVM_PERF="${GALLIVM_PERF:-nopt}" # kernels of attention take minutes to compile otherwise
export LP_NUM_THREADS=0 GOGC=400             # as in `make test`
run() { "$tree/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$@"; }
"${GO:-go}" build -o "$folder/gputrain" ./cmd/gputrain
run "$folder/gputrain" devices | tee "$folder/devices"
grep -q '8x8x8 by 8 invocations' "$folder/devices" || { echo "matrix: devices shows no units of 8x8x8" >&2; exit 1; }
for package in gpu graph/compile; do
	"${GO:-go}" test -c -o "$folder/${package##*/}.test" "./$package"
	(cd "$package" && run "$folder/${package##*/}.test" -test.short -test.v -test.run '^Test(Matrix(Functions|Modules|Units|UnitsOfExperts|ProductsOfUnits|TilesOfUnits)|AttentionOfUnits)$')
done

# Of the doctor what rounds to f16, with units and without; the rest is not of units, and takes minutes.
run "$folder/gputrain" doctor --adapter vulkan: --only f16 >"$folder/doctor" 2>&1 || { cat "$folder/doctor"; exit 1; }
grep 'f16\|failed' "$folder/doctor"
grep -q 'ok  kernel/graph matmul f16 by matrix units' "$folder/doctor" || { echo "matrix: doctor shows no check of products by units" >&2; exit 1; }

# Products of 64 and more are by units, and attention of heads of 32. Once whole; once killed after its first checkpoint, and resumed: the same weights and losses; then without units: refused.
training() {
	run "$folder/gputrain" train --adapter vulkan: --run-dir "$folder/$1" --progress plain --set train.products=f16 --set device.matrix="$2" \
		--set data.text=docs/run-file.md --set model.layers=1 --set model.width=64 --set model.heads=2 --set model.context=64 --set train.batch=1 \
		--set train.steps=40 --set train.save_every=10 --set train.eval_every=0 --set train.sample_every=0 >"$folder/$1.out" 2>&1
}
results() { (cd "$folder/$1" && sha256sum checkpoints/step-00000040/model.safetensors | cut -c1-64 && sed -n 's/.*"step":\([0-9]*\),"loss":\([0-9.]*\).*/\1 \2/p' metrics.jsonl); }
training whole auto || { cat "$folder/whole.out"; exit 1; }
grep 'products of f16 are made by matrix units of 8x8x8' "$folder/whole.out"
if grep 'attention is made by f32' "$folder/whole.out"; then echo "matrix: attention is not by units" >&2; exit 1; fi
training killed auto &
while ! [ -d "$folder/killed/checkpoints/step-00000010" ]; do sleep 0.05; done
pkill -9 -f "run-dir $folder/killed" || true
wait || true
training killed auto || { cat "$folder/killed.out"; exit 1; }
grep '^resumed from' "$folder/killed.out" || { echo "matrix: the training had ended before it was killed" >&2; exit 1; }
[ "$(results whole)" = "$(results killed)" ] || { echo "matrix: the training that was killed and resumed ended with other bits" >&2; exit 1; }
if training killed off; then echo "matrix: resumed without the units" >&2; exit 1; fi
grep 'device.matrix' "$folder/killed.out"
echo "matrix: killed and resumed to the same bits, and refused without units"
