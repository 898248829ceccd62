#!/bin/sh
# Builds the MongoDB Database Tools into .tools/bin with the Go client, for the tests marked "tools".
set -eu
VERSION=100.18.0
BIN=$(pwd)/.tools/bin
ADVICE="Install MongoDB Database Tools 100.15 or newer from MongoDB's packages, and put them on PATH."

if [ -x "$BIN/mongodump" ] && [ -x "$BIN/mongorestore" ] && [ -x "$BIN/bsondump" ]; then
    echo "tools: $BIN has them"
    exit 0
fi
if ! command -v go >/dev/null 2>&1; then
    echo "tools: no Go client here. $ADVICE" >&2
    exit 1
fi
mkdir -p "$BIN"
for tool in mongodump mongorestore bsondump; do
    work=$(mktemp -d)
    if GOBIN=$work go install -ldflags "-X main.VersionStr=$VERSION" "github.com/mongodb/mongo-tools/$tool/main@$VERSION"; then
        mv "$work/main" "$BIN/$tool"
        rmdir "$work"
    else
        rmdir "$work"
        echo "tools: the Go client could not fetch or build $tool $VERSION. $ADVICE" >&2
        exit 1
    fi
done
echo "tools: built $VERSION into $BIN"
