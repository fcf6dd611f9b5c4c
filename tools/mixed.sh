#!/bin/sh
# Runs the tests of stages on adapters of several kinds, with SwiftShader among them where Chromium's package has it: mixed.sh [go test flags]
# The other tests leave it out: it is a slow adapter more for each of them.
set -eu
swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
wanted=1
if [ -f "$swiftshader" ]; then
	list=$swiftshader
	for icd in /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json; do
		[ -f "$icd" ] && list=$icd:$list
	done
	export VK_ICD_FILENAMES="$list" VK_DRIVER_FILES="$list"
	wanted=2
else
	echo "gputrain: no $swiftshader: mixed tests take the adapters that there are (Debian: apt-get install chromium-common)" >&2
fi
GPUTRAIN_REQUIRE_ADAPTER=$wanted exec "${GO:-go}" test -count=1 -timeout "${TEST_TIMEOUT:-30m}" -run Mixed "$@" ./pipeline
