#!/bin/sh
# Runs the tests of matrix units on lavapipe of a newer Mesa, which has them: matrix.sh TREE, of a system of Debian 13 with mesa-vulkan-drivers of its
# backports. The programs run by the tree's own loader, as the driver wants its libraries.
set -eu
tree=$1
libraries=$tree/usr/lib/x86_64-linux-gnu
[ -f "$libraries/libvulkan_lvp.so" ] || { echo "matrix: found no lavapipe in $libraries, wanted a tree as debootstrap makes (CONTRIBUTING.md)" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/lvp.json" <<END
{"file_format_version": "1.0.1", "ICD": {"api_version": "1.4.0", "library_path": "$libraries/libvulkan_lvp.so"}}
END
export VK_ICD_FILENAMES="$folder/lvp.json" VK_DRIVER_FILES="$folder/lvp.json" NODEVICE_SELECT=1 GPUTRAIN_ADAPTER=vulkan: GPUTRAIN_CACHE="$folder"
export GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_REQUIRE_MATRIX=1
run() { "$tree/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$@"; }
"${GO:-go}" build -o "$folder/gputrain" ./cmd/gputrain
run "$folder/gputrain" devices | tee "$folder/devices"
grep -q '8x8x8 by 8 invocations' "$folder/devices" || { echo "matrix: devices shows no units of 8x8x8" >&2; exit 1; }
for package in gpu graph/compile; do
	"${GO:-go}" test -c -o "$folder/${package##*/}.test" "./$package"
	(cd "$package" && run "$folder/${package##*/}.test" -test.short -test.v -test.run '^TestMatrix(Functions|Modules|Units|ProductsOfUnits)$')
done
