#!/bin/sh
# Brings a newer Mesa than the system's, beside it: mesa.sh TREE. TREE gets mesa-vulkan-drivers of Debian 13's backports and the libraries that it wants, libc
# among them, by an apt that has a state of its own there. Nothing is installed and no root is needed: programs run by TREE's own loader (matrix.sh, isa -mesa).
# It reads 75 MB in all, and does nothing where TREE has the drivers.
set -eu
tree=$1
[ ! -f "$tree/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so" ] || exit 0
fail() { echo "mesa: $1" >&2; exit 1; }
[ "$(uname -sm)" = "Linux x86_64" ] || fail "found $(uname -sm), wanted Linux x86_64"
command -v apt-get >/dev/null || fail "found no apt-get"
rm -rf "$tree.part"
mkdir -p "$tree.part/apt/lists/partial" "$tree.part/apt/archives/partial" "$tree.part/usr/lib64"
new=$(readlink -f "$tree.part") && apt=$new/apt
trap 'rm -rf "$new"' EXIT
for suite in trixie trixie-backports; do
	echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
done >"$apt/sources"
: >"$apt/status"
get() {
	apt-get -qq -o "Dir::Etc::SourceList=$apt/sources" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o "Dir::State=$apt" -o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o "Dir::Cache::Archives=$apt/archives" \
		-o APT::Architecture=amd64 -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Languages=none "$@" >"$apt/log" 2>&1 ||
		fail "$(grep -m1 '^[EW]: [^U]' "$apt/log" || echo "apt-get $1 failed")"
}
get update
get install --download-only --no-install-recommends -t trixie-backports mesa-vulkan-drivers
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$new"; done
ln -s usr/lib64 "$new/lib64"
rm -rf "$apt"
mv "$new" "$tree"
