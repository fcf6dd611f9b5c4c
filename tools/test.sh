#!/bin/sh
# Tests a package and says so when it begins, as `go test` is silent until the end: test.sh [go test flags] package. What `go vet` finds is told
# by `make check`, for all packages at once. Without what debuggers read (-w) a test program links in two thirds of the time.
set -eu
for pkg; do :; done
echo "test    $pkg"
exec "${GO:-go}" test -vet=off -ldflags=-w -timeout "${TEST_TIMEOUT:-30m}" "$@"
