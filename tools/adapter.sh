#!/bin/sh
# Makes sure that an adapter is there, and that it is not a slow one only because a driver is missing: adapter.sh path/to/gputrain
set -eu
bin=$1
# The program knows what is missing and how this system installs it: a command, or nothing.
install=$("$bin" devices --missing)
if [ -n "$install" ]; then
	echo "gputrain: nothing better than OpenGL on the processor; installing Vulkan's software driver: $install" >&2
	DEBIAN_FRONTEND=noninteractive sh -c "$install" >/dev/null || echo "gputrain: that failed" >&2
fi
# Without any adapter this ends with what to install.
listed=$("$bin" devices)
if [ -n "$install" ] && [ -n "$("$bin" devices --missing)" ]; then
	echo "gputrain: still no Vulkan adapter; going on with OpenGL on the processor, which is slower (GPUTRAIN_ADAPTER=0 keeps it without asking)" >&2
fi
echo "$listed" | sed -n 's/^taken: /gputrain: adapter /p' >&2
