#!/bin/sh
# Validates every shader that the doctor compiles with naga and tint, where they are installed: shaders.sh path/to/gputrain
set -eu
bin=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$bin" doctor --shaders "$dir" >/dev/null
count=$(ls "$dir" | wc -l)
found=
if command -v naga >/dev/null; then
	for f in "$dir"/*.wgsl; do
		naga "$f" >/dev/null || { echo "naga: $f" >&2; exit 1; }
	done
	found=1
	echo "naga: $count shaders valid"
fi
# Debian has a game called tint; the compiler knows --format.
if command -v tint >/dev/null && tint --help 2>&1 | grep -q -- --format; then
	for f in "$dir"/*.wgsl; do
		tint --format wgsl "$f" >/dev/null || { echo "tint: $f" >&2; exit 1; }
	done
	found=1
	echo "tint: $count shaders valid"
fi
[ -n "$found" ] || echo "shaders: neither naga nor tint is installed; $count shaders were compiled by the driver alone" >&2
