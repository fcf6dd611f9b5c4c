#!/bin/sh
# Runs a command that runs programs for Windows by `wine64 PROGRAM.exe`, with the host's Vulkan driver and without a screen: with.sh COMMAND ... Their Windows
# is bin/wine, and is kept.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/lib/wine
for need in wine64:wine64 Xvfb:xvfb x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64; do
	command -v "${need%:*}" >/dev/null || { echo "wine: ${need%:*} not found (Debian, Ubuntu: apt-get install ${need#*:})" >&2; exit 1; }
done
# No offers to install Mono and Gecko. Its Direct3D 12 lists a card that is not there.
export PATH WINEPREFIX="$here/../../bin/wine" WINEARCH=win64 WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES='mscoree,mshtml,d3d12='
mkdir -p "$WINEPREFIX"
WINEPREFIX=$(cd "$WINEPREFIX" && pwd)
command -v wineserver >/dev/null && server=wineserver || server=/usr/lib/wine/wineserver64

# Its Vulkan wants a screen.
display=$(mktemp)
Xvfb -displayfd 3 -screen 0 640x480x24 -nolisten tcp 3>"$display" >/dev/null 2>&1 &
screen=$!
trap 'ended=$?; "$server" -k || true; kill $screen || true; rm -f "$display"; exit $ended' EXIT
until [ -s "$display" ] || ! kill -0 $screen 2>/dev/null; do sleep 0.05; done
DISPLAY=:$(cat "$display")
export DISPLAY
if [ ! -e "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" ]; then
	wine64 wineboot --init >/dev/null 2>&1
	x86_64-w64-mingw32-gcc -shared -O2 -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" "$here/bcryptprimitives.c" -ladvapi32
fi
"$@"
