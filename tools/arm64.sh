#!/bin/sh
# Runs the program of the archive for Linux on ARM under qemu, with Mesa's driver for ARM: twenty steps have the losses that they have on this processor, and
# what doctor gets done in a minute has no failure. All of doctor takes hours under qemu.
set -eu
cd "$(dirname "$0")/.."
program=$(pwd)/bin/dist/linux-arm64/gputrain
need() {
	[ -e "$1" ] || { echo "arm64: $1 not found (Debian, Ubuntu: dpkg --add-architecture arm64; apt-get update; apt-get install $2)" >&2; exit 1; }
}
need /usr/bin/qemu-aarch64 qemu-user
need /lib/ld-linux-aarch64.so.1 libc6:arm64
need /usr/lib/aarch64-linux-gnu/libvulkan.so.1 libvulkan1:arm64
need /usr/lib/aarch64-linux-gnu/libvulkan_lvp.so mesa-vulkan-drivers:arm64
export GALLIVM_PERF=nopt
qemu-aarch64 "$program" devices
GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_TEST_OTHER="qemu-aarch64 $program" "${GO:-go}" test -count=1 -vet=off -timeout 30m -v -run '^TestOtherSystem$' ./tests
said=$(timeout -s INT -k 60 "${SECONDS_OF_DOCTOR:-60}" qemu-aarch64 "$program" doctor --cases cmd/gputrain/doctor/cases/adamw_basic || true)
echo "$said"
if echo "$said" | grep -q FAIL || ! echo "$said" | grep -q '^  ok'; then
	echo "arm64: doctor has failed, or got nothing done" >&2
	exit 1
fi
