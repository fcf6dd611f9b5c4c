#!/bin/sh
# Makes the archive of one system in bin/dist, with the same bytes for the same source and the same compilers:
# dist.sh linux-amd64|linux-arm64|windows-amd64|darwin-arm64 VERSION TIME
set -eu
system=$1 version=$2 time=$3
cd "$(dirname "$0")/../.."
go=${GO:-go}
GOOS=${system%-*} GOARCH=${system#*-}

# compiler NAME PACKAGE looks for a C compiler.
compiler() {
	command -v "$1" >/dev/null || { echo "dist: $system: $1 not found (Debian, Ubuntu: apt-get install $2)" >&2; exit 1; }
}

exe='' format=tar.gz link='-Wl,--build-id=none' notices=''
case $system in
linux-amd64) triple=x86_64-linux-gnu package=gcc-x86-64-linux-gnu ;;
linux-arm64) triple=aarch64-linux-gnu package=gcc-aarch64-linux-gnu ;;
windows-amd64)
	exe=.exe format=zip notices=LICENSES.mingw-w64=/usr/share/doc/mingw-w64-common/copyright
	compiler x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
	CC=x86_64-w64-mingw32-gcc
	;;
darwin-arm64)
	[ "$(uname)" = Darwin ] || { echo "dist: $system: Apple's frameworks are found on a Mac alone" >&2; exit 1; }
	link='' CC=cc
	;;
*) echo "dist: found $system, wanted linux-amd64, linux-arm64, windows-amd64 or darwin-arm64" >&2 && exit 2 ;;
esac
if [ "$GOOS" = linux ]; then
	root=$(pwd)/bin/sysroot-$GOARCH
	compiler $triple-gcc $package
	tools/dist/sysroot.sh "$GOARCH" "$root"
	libraries=$root/usr/lib/$triple headers=$root/usr/include
	CC="$triple-gcc --sysroot=$root -nostdinc -isystem $($triple-gcc -print-file-name=include) -isystem $headers/$triple -isystem $headers"
	CC="$CC -B$root/usr/lib/gcc/$triple/10/ -B$libraries/ -L$libraries"
	link="$link -static-libgcc"
fi
export GOOS GOARCH CC CGO_ENABLED=1 CGO_CFLAGS=-O2 GOAMD64=v1 GOARM64=v8.0

name=gputrain-$version-$system
program=bin/dist/$system/gputrain$exe
mkdir -p "bin/dist/$system"
$go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X gputrain/run/train.version=$version -extldflags '$link'" -o "$program" ./cmd/gputrain
[ "$GOOS" = darwin ] || tools/dist/needs.sh "$program"

cd tools
unset GOOS GOARCH CC CGO_ENABLED CGO_CFLAGS
$go run ./dist -time "$time" "../bin/dist/$name.$format" "gputrain$exe=../$program" README.md=../README.md ARCHITECTURE.md=../ARCHITECTURE.md \
	CONTRIBUTING.md=../CONTRIBUTING.md docs=../docs tools/lab-book.md=lab-book.md LICENSES=../cmd/gputrain/LICENSES text=dist/text $notices
