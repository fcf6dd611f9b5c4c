#!/bin/sh
# Tests packages and says so when it begins, as `go test` is silent until the end: test.sh [go test flags] packages. What `go vet` finds is told
# by `make check`, for all packages at once. A test program holds all of wgpu: without what debuggers read (-w), and by gold where the system has
# it, it links in half the time.
set -eu
n=0
for arg; do
	case $arg in -*) ;; *) n=$((n + 1)) pkg=$arg ;; esac
done
if [ $n = 1 ]; then echo "test    $pkg"; else echo "test    $n other packages"; fi
link=-w
if command -v ld.gold >/dev/null; then link="-w -extldflags=-fuse-ld=gold"; fi
exec "${GO:-go}" test -p 2 -vet=off -ldflags="$link" -timeout "${TEST_TIMEOUT:-30m}" "$@"
