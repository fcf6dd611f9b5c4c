#!/bin/sh
# Installs llama.cpp for the tests, prebuilt for a processor, from npm into a folder: tools/llama/install.sh FOLDER
set -e
mkdir -p "$1"
cd "$1"
[ -f package.json ] || echo '{"private": true}' >package.json
npm install --silent --ignore-scripts --omit=optional --no-audit --no-fund node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1
