#!/bin/sh
# Tests a package and says so when it begins, as `go test` is silent until the end: test.sh package [go test flags]
set -eu
pkg=$1
shift
echo "test    $pkg"
exec "${GO:-go}" test -timeout "${TEST_TIMEOUT:-30m}" "$@" "$pkg"
