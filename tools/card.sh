#!/bin/sh
# card.sh measures a card with a built gputrain, on a machine that need not have Go:
#
#     tools/card.sh PROGRAM OUT [SECONDS [NAME=COMMAND ...]]
#
# It runs `doctor`, `bench --card` and `bench lora`, then each COMMAND in the shell ("$PROGRAM" is the program), inside SECONDS (560), and prints a table last.
# What has no time left is named there. OUT gets log.txt, clocks.csv (NVIDIA), and the card's page and figures. Where Vulkan's loader is missing, LOADERS is
# a folder of Debian packages with it (libvulkan1 and what it needs), which are unpacked into /, as root.
set -u
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
PROGRAM=$1 out=$2 seconds=${3:-560}
shift $(($# < 3 ? $# : 3))
export PROGRAM
[ -x "$PROGRAM" ] || { echo "card: $PROGRAM: found no program there" >&2; exit 2; }
mkdir -p "$out" || exit 2
begun=$(date +%s)
log=$out/log.txt table=$out/.table
: >"$log"
: >"$table"

if ! ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
    for deb in "${LOADERS:-.gl}"/*.deb; do
        [ -e "$deb" ] && dpkg -x "$deb" /
    done
    ldconfig 2>/dev/null
fi
nvidia=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
[ -z "${VK_DRIVER_FILES:-}" ] && [ -z "$(ls /usr/share/vulkan/icd.d /etc/vulkan/icd.d 2>/dev/null)" ] && [ -e "$nvidia" ] && export VK_DRIVER_FILES=$nvidia

clocks=
if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv -lms 250 >"$out/clocks.csv" 2>/dev/null &
    clocks=$!
fi
# ended keeps the table, whatever ends the script.
ended() {
    [ -n "$clocks" ] && kill "$clocks" 2>/dev/null
    echo
    printf '%-24s %8s %6s  %s\n' WHAT SECONDS EXIT 'LAST LINE'
    cat "$table"
    sed -n '/^## Training steps/,/^### /p' "$out/card.md" 2>/dev/null | grep '^|' | head -20
    rm -f "$table"
}
trap ended EXIT
trap 'exit 130' INT TERM

# step NAME SECONDS COMMAND... runs a command for so long at most. The first signal is the one at which bench writes what it has.
step() {
    name=$1 most=$2
    shift 2
    left=$((begun + seconds - $(date +%s)))
    if [ "$left" -lt 5 ]; then
        printf '%-24s %8s %6s  %s\n' "$name" - - 'no time left' >>"$table"
        return
    fi
    [ "$left" -lt "$most" ] && most=$left
    echo "== $name" | tee -a "$log"
    from=$(date +%s)
    timeout -s INT -k 5 "$most" "$@" >"$out/.step" 2>&1
    code=$?
    cat "$out/.step" >>"$log"
    printf '%-24s %8d %6d  %s\n' "$name" $(($(date +%s) - from)) "$code" "$(grep -v '^$' "$out/.step" | tail -1 | cut -c1-100)" | tee -a "$table"
    rm -f "$out/.step"
}

step devices 20 "$PROGRAM" devices
step doctor 90 "$PROGRAM" doctor
step card 400 "$PROGRAM" bench --card --out "$out" --progress plain
step lora 60 "$PROGRAM" bench lora
for variant; do
    step "${variant%%=*}" 120 sh -c "${variant#*=}"
done
