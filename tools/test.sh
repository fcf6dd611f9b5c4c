#!/bin/sh
# Tests a package and says so when it begins, as `go test` is silent until the end: test.sh [go test flags] package. What `go vet` finds is told
# by `make check`, for all packages at once. A test program holds all of wgpu: without what debuggers read (-w), and by gold where the system has
# it, it links in half the time.
set -eu
for pkg; do :; done
echo "test    $pkg"
link=-w
if command -v ld.gold >/dev/null; then link="-w -extldflags=-fuse-ld=gold"; fi
exec "${GO:-go}" test -vet=off -ldflags="$link" -timeout "${TEST_TIMEOUT:-30m}" "$@"
