#!/bin/sh
# Makes all archives again from a copy of the source in another folder, with nothing kept of the build but the sysroots, and compares them with those in
# bin/dist: again.sh VERSION TIME
set -eu
cd "$(dirname "$0")/../.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/source/bin"
git ls-files -co --exclude-standard | tar -cf - -T - | tar -xf - -C "$copy/source"
cp -a bin/sysroot-* "$copy/source/bin/"
GOCACHE=$copy/cache make --no-print-directory -C "$copy/source" dist "DIST_VERSION=$1" "DIST_TIME=$2"
cmp "$copy/source/bin/dist/SHA256SUMS" bin/dist/SHA256SUMS
echo "the same bytes"
