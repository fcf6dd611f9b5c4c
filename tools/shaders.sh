#!/bin/sh
# Validates every generated shader with naga and tint, where they are installed: shaders.sh path/to/gputrain
set -eu
bin=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$bin" doctor --shaders "$dir" >/dev/null
found=
for validator in naga tint; do
	if ! command -v "$validator" >/dev/null; then
		continue
	fi
	# Debian has a game called tint; the compiler knows --format.
	if [ "$validator" = tint ] && ! tint --help 2>&1 | grep -q -- --format; then
		continue
	fi
	found=$validator
	for f in "$dir"/*.wgsl; do
		"$validator" "$f" >/dev/null
	done
	echo "$validator: $(ls "$dir" | wc -l) shaders valid"
done
[ -n "$found" ] || echo "shaders: neither naga nor tint is installed; $(ls "$dir" | wc -l) shaders were compiled by the driver in the tests only" >&2
