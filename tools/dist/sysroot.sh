#!/bin/sh
# Unpacks Debian 11's glibc 2.31, its headers and what its gcc links into programs (a newer gcc's own needs a newer glibc), for linking programs that run on systems as old: sysroot.sh amd64|arm64 DIR. A folder that is there
# already stays. Packages come from Debian by apt, which checks their signatures, and are held to these versions and checksums.
set -eu
arch=$1 dir=$2
[ ! -e "$dir/done" ] || exit 0
wanted=$(grep "_$arch.deb\$" <<'EOF'
e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3  libc6-dev_2.31-13+deb11u11_amd64.deb
05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282  libc6_2.31-13+deb11u11_amd64.deb
3b711374092b84e732c4e73cf33e02cff02e34a5f105eb6467de8d9038e4cd9d  libgcc-10-dev_10.2.1-6_amd64.deb
e3be603bd12377bb90fcfb0f2048ca3a81c886e49d6f09945b82159d1c54f7b2  linux-libc-dev_5.10.223-1_amd64.deb
28d478134722dcd4b0bd2045a199301d18713bf95947b9fce66634e7aeacab2e  libc6-dev_2.31-13+deb11u11_arm64.deb
baaa9aa184e2f21738c5819055e6740cc5b22f198e3f416e33f82b40ff6933d8  libc6_2.31-13+deb11u11_arm64.deb
80fc73d339ada2e194175afe83cd89014565242153b6e3c2128849d8817da367  libgcc-10-dev_10.2.1-6_arm64.deb
8b6374a64412d33eac61d74f77b8f932da4b8a707ea8a614791e2a35b8917618  linux-libc-dev_5.10.223-1_arm64.deb
EOF
) || { echo "sysroot: found $arch, wanted amd64 or arm64" >&2; exit 2; }
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for need in apt-get:apt dpkg-deb:dpkg $keys:debian-archive-keyring; do
	command -v "${need%%:*}" >/dev/null || [ -e "${need%%:*}" ] || { echo "sysroot: ${need%%:*} not found (Debian, Ubuntu: apt-get install ${need#*:})" >&2; exit 1; }
done
mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial"
cd "$dir"
here=$(pwd)
echo "deb [signed-by=$keys] http://deb.debian.org/debian bullseye main" >apt/sources.list
apt() {
	apt-get -qq -o "Dir::Etc::sourcelist=$here/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$here/apt" -o Dir::State::status=/dev/null \
		-o "Dir::Cache=$here/apt" -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o APT::Sandbox::User=root "$@"
}
apt update
apt download libc6 libc6-dev libgcc-10-dev linux-libc-dev
echo "$wanted" | sha256sum --quiet -c
for deb in *.deb; do dpkg-deb -x "$deb" .; done
# Links that begin at the root would lead into this system.
find . -type l -lname '/*' | while read -r link; do ln -sfnr "$here$(readlink "$link")" "$link"; done
rm -rf apt ./*.deb
touch done
