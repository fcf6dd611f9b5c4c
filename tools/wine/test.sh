#!/bin/sh
# Tests what is the system's on Windows, by wine: locks, clocks and files, and the program of the archive: it is stopped by Ctrl-C, killed, resumed, refused
# a run that another trains, given strange paths and held files, and leaves the bits that it leaves on Linux.
set -eu
cd "$(dirname "$0")/../.."
go=${GO:-go}
program=$(pwd)/bin/dist/windows-amd64/gputrain.exe
tests=$(pwd)/bin/windows
mkdir -p "$tests"
windows() { env GOOS=windows GOARCH=amd64 CGO_ENABLED=1 CC=x86_64-w64-mingw32-gcc CGO_CFLAGS=-O2 GOAMD64=v1 "$@"; }
windows "$go" test -c -vet=off -ldflags=-w -o "$tests/system.exe" ./internal/system
windows "$go" test -c -vet=off -ldflags=-w -o "$tests/tests.exe" ./tests
export GPUTRAIN_REQUIRE_ADAPTER=1 GALLIVM_PERF=nopt
(cd internal/system && ../../tools/wine/with.sh wine64 "$tests/system.exe")
(cd tests && GPUTRAIN_TEST_PROGRAM="Z:$program" ../tools/wine/with.sh wine64 "$tests/tests.exe" -test.timeout 20m \
	-test.run 'Console|OnWindows|OfWindows|HeldFiles|KilledAtRandom')
GPUTRAIN_TEST_OTHER="wine64 $program" tools/wine/with.sh "$go" test -count=1 -vet=off -timeout 20m -run '^TestOtherSystem$' ./tests
