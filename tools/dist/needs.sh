#!/bin/sh
# Holds a program to the libraries that every system has, and on Linux to the version of glibc that docs/install.md names: needs.sh PROGRAM
set -eu
program=$1
limit=$(sed -n 's/.*glibc \(2\.[0-9]*\).*/\1/p' "$(dirname "$0")/../../docs/install.md" | head -1)
case $program in
*.exe)
	known='api-ms-win-core-synch-l1-2-0 bcryptprimitives d3dcompiler_47 gdi32 kernel32 msvcrt ntdll opengl32 user32 userenv ws2_32'
	needed=$(objdump -p "$program" | sed -n 's/.*DLL Name: \(.*\)\.dll/\1/p' | tr 'A-Z\n' 'a-z ')
	newest=''
	;;
*)
	known='ld-linux-aarch64.so.1 ld-linux-x86-64.so.2 libc.so.6 libdl.so.2 libm.so.6 libpthread.so.0 libresolv.so.2'
	needed=$(objdump -p "$program" | sed -n 's/^ *NEEDED *//p' | tr '\n' ' ')
	newest=$(objdump -T "$program" | grep -o 'GLIBC_2[.0-9]*' | sort -V | tail -1)
	[ "$(printf '%s\nGLIBC_%s\n' "$newest" "$limit" | sort -V | tail -1)" = "GLIBC_$limit" ] || {
		echo "needs: $program: found symbols of $newest, wanted none newer than GLIBC_$limit:" >&2
		objdump -T "$program" | grep "$newest" >&2
		exit 1
	}
	;;
esac
for library in $needed; do
	case " $known " in
	*" $library "*) ;;
	*) echo "needs: $program: found $library, wanted none but $known" >&2 && exit 1 ;;
	esac
done
echo "$program needs $needed$newest"
