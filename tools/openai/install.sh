#!/bin/sh
# Installs OpenAI's client and a chat page for the tests, from npm into a folder: tools/openai/install.sh FOLDER
set -e
mkdir -p "$1"
cd "$1"
[ -f package.json ] || echo '{"private": true}' >package.json
npm install --silent --ignore-scripts --no-audit --no-fund openai@7.59.0 deep-chat@2.4.2
