#!/bin/sh
# Builds Mesa's stand-ins for kernel drivers (drm-shims), on which the drivers compile without a card: shims.sh OUT [all]. OUT gets Intel's, with all
# also NVIDIA's, Adreno's and Apple's, which want a newer Mesa than Debian 12 has (isa -mesa). The drivers themselves are the system's, but for AMD's with
# matrix units, which OUT gets out of Debian 12's backports (radv). It takes a minute of a core. On Debian 12 it needs
#   apt-get install curl gcc ninja-build python3-mako python3-yaml python3-ply flex bison pkg-config zlib1g-dev libzstd-dev libexpat1-dev
#   apt-get install -t bookworm-backports meson libdrm-dev
# The newer Mesa is that of a tree: tools/mesa.sh DIR, then GPUTRAIN_ISA_MESA=DIR make isa.
set -eu
version=25.0.7
mkdir -p "$1"
out=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
mesa=$out/mesa-$version
PATH=/usr/bin:/bin:$PATH # the system's Python has the modules
if [ ! -d "$mesa" ]; then
	curl -fsSL "http://deb.debian.org/debian/pool/main/m/mesa/mesa_$version.orig.tar.xz" | tar xJ -C "$out"
fi
# RADV of that version still has the null device of the installed one.
if [ ! -f "$out/radv/libvulkan_radeon.so" ]; then
	package=$out/mesa-vulkan-drivers.deb
	curl -fsSL -o "$package" "http://deb.debian.org/debian/pool/main/m/mesa/mesa-vulkan-drivers_$version-2~bpo12+1_amd64.deb"
	mkdir -p "$out/radv"
	dpkg-deb --fsys-tarfile "$package" | tar xO ./usr/lib/x86_64-linux-gnu/libvulkan_radeon.so >"$out/radv/libvulkan_radeon.so"
fi
# Meson enters src/intel for its tools alone: no driver, no LLVM.
[ -f "$out/build/build.ninja" ] || meson setup "$out/build" "$mesa" -Dbuildtype=release -Dplatforms= -Dvulkan-drivers= -Dgallium-drivers= -Dglx=disabled \
	-Degl=disabled -Dgbm=disabled -Dgles1=disabled -Dgles2=disabled -Dopengl=false -Dllvm=disabled -Dvideo-codecs= -Dtools=drm-shim,intel >"$out/meson.log"
ninja -C "$out/build" src/intel/tools/libintel_noop_drm_shim.so >"$out/ninja.log"
cp "$out/build/src/intel/tools/libintel_noop_drm_shim.so" "$out"
[ "${2:-}" = all ] || exit 0
# The others are a file each. Turnip 26 believes that it has VM_BIND where setting that parameter does not fail.
sed 's/\[DRM_MSM_SET_PARAM\] = msm_ioctl_noop/[DRM_MSM_SET_PARAM] = msm_ioctl_set_param/
s/^static ioctl_fn_t driver_ioctls/static int\nmsm_ioctl_set_param(int fd, unsigned long request, void *arg)\n{\n   return ((struct drm_msm_param *)arg)->param >= 0x16 ? -EINVAL : 0;\n}\n\n&/' \
	"$mesa/src/freedreno/drm-shim/freedreno_noop.c" >"$out/freedreno_noop.c"
sed 's#"../../gallium/#"gallium/#' "$mesa/src/nouveau/drm-shim/nouveau_noop.c" >"$out/nouveau_noop.c"
cp "$here/shims/asahi_noop.c" "$out"
for name in nouveau freedreno asahi; do
	# shellcheck disable=SC2046
	cc -shared -fPIC -O1 -std=gnu11 -fvisibility=hidden -D_GNU_SOURCE -DHAVE_PTHREAD -DHAVE_STRUCT_TIMESPEC -DUTIL_ARCH_LITTLE_ENDIAN=1 \
		-DUTIL_ARCH_BIG_ENDIAN=0 -I"$mesa/include" -I"$mesa/include/drm-uapi" -I"$mesa/src" -I"$mesa/src/nouveau" -I"$mesa/src/nouveau/headers" \
		$(pkg-config --cflags libdrm) -o "$out/lib${name}_noop_drm_shim.so" "$out/${name}_noop.c" \
		-Wl,--start-group "$out/build/src/drm-shim/libdrm_shim.a" "$out"/build/src/util/*.a "$out"/build/src/util/blake3/*.a "$out"/build/src/c11/impl/*.a \
		-Wl,--end-group -ldrm -lz -lzstd -lm -lpthread -ldl
done
