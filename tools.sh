#!/bin/sh
# Installs the MongoDB Database Tools and mongosh into .tools/bin, for the tests marked "tools".
# The Database Tools are built from the newest source that Go can fetch and verify (tests/tools/go.sum).
set -eu
ROOT=$(pwd)
BIN=$ROOT/.tools/bin
SOURCE=100.10.0-20241209
MONGOSH=2.12.0
ADVICE="Install the MongoDB Database Tools and mongosh from MongoDB's packages, and put them on PATH."

# Registries sometimes fail: try three times.
retry() {
    "$@" || { sleep 5; "$@"; } || { sleep 20; "$@"; }
}

missing() {
    echo "tools: $1 is not installed. $ADVICE" >&2
    exit 1
}

build() {
    go build -C "$ROOT/tests/tools" -mod=readonly -o "$BIN/$1" \
        -ldflags "-X main.VersionStr=$SOURCE" "github.com/mongodb/mongo-tools/$1/main"
}

mkdir -p "$BIN"
for tool in mongodump mongorestore bsondump; do
    [ -x "$BIN/$tool" ] && continue
    command -v go >/dev/null || missing "go"
    retry build "$tool" || { echo "tools: $tool could not be fetched or built. $ADVICE" >&2; exit 1; }
done
if ! [ -e "$BIN/mongosh" ]; then
    command -v npm >/dev/null || missing "npm"
    retry npm install --prefix "$ROOT/.tools" --no-save --no-audit --no-fund --ignore-scripts --omit=optional \
        --loglevel=error "mongosh@$MONGOSH" || { echo "tools: mongosh could not be fetched. $ADVICE" >&2; exit 1; }
    ln -s ../node_modules/.bin/mongosh "$BIN/mongosh"
fi
echo "tools: Database Tools $SOURCE and mongosh $MONGOSH in .tools/bin"
