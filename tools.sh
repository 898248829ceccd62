#!/bin/sh
# Installs the MongoDB Database Tools and mongosh into .tools/bin, for the tests marked "tools".
# The Database Tools are built from the newest source that Go can fetch and verify (tests/tools/go.sum).
set -eu
ROOT=$(pwd)
BIN=$ROOT/.tools/bin
SOURCE=100.10.0-20241209
MONGOSH=2.12.0
ESBUILD=0.28.2
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

# Packages that mongosh loads only where they are installed: native add-ons, and what other platforms need.
OPTIONAL="*.node @aws-sdk/credential-providers @babel/preset-typescript/package.json @mongodb-js/zstd aws4 bindings electron
    gcp-metadata get-console-process-list glibc-version interruptor ipv6-normalize kerberos macos-export-certificate-and-key
    mongodb-client-encryption mongodb-crypt-library-version native-machine-id os-dns-native snappy source-map
    win-export-certificate-and-key"

# Put mongosh into one file: see tests/tools/mongosh.cjs. Without dynamic imports, which such a file cannot make.
bundle() (
    set -f
    cd "$ROOT/.tools"
    npm install --prefix bundler --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "esbuild@$ESBUILD" &&
        bundler/node_modules/.bin/esbuild node_modules/@mongosh/cli-repl/lib/run.js --outfile=mongosh.js --bundle \
            --platform=node --target=node20 --supported:dynamic-import=false --minify-whitespace --charset=ascii \
            --log-level=error $(printf -- '--external:%s ' $OPTIONAL)
)

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
    bundle && install -m 755 tests/tools/mongosh.cjs "$BIN/mongosh" || ln -s ../node_modules/.bin/mongosh "$BIN/mongosh"
fi
echo "tools: Database Tools $SOURCE and mongosh $MONGOSH in .tools/bin"
