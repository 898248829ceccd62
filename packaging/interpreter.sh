#!/bin/sh
# Build the CPython of the self-contained packages into PREFIX: `sh packaging/interpreter.sh PREFIX`. It needs no newer
# glibc than GLIBC below: zig compiles it, since it can link against the symbols of any older glibc. The sources are those
# of Debian, with its security updates; OpenSSL, SQLite, zlib and libffi are linked statically. Needs root on Debian x86-64.
set -eu
GLIBC=2.17
SUITE=trixie
PYTHON=python3.13
ZIG=0.17.1
SOURCES="$PYTHON openssl sqlite3 zlib libffi"

[ ! -e "$1/components" ] || exit 0
if [ "$(id -u)" -ne 0 ] || [ "$(uname -m)" != x86_64 ] || ! grep -qx 'ID=debian' /etc/os-release; then
    echo "interpreter: not built; this needs root on Debian x86-64. The packages will need the glibc of this machine." >&2
    exit 0
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
work=$(mktemp -d)
log=$prefix/build.log
finish() {
    code=$?
    rm -rf "$work"
    [ "$code" -eq 0 ] || { tail -n 30 "$log"; echo "interpreter: failed; the log is $log"; } >&3
}
trap finish EXIT
echo "Building a CPython for glibc $GLIBC (once; takes about five minutes)" >&2
exec 3>&2 >"$log" 2>&1

export DEBIAN_FRONTEND=noninteractive
apt-get -o Acquire::Retries=3 update
apt-get -o Acquire::Retries=3 install -y --no-install-recommends \
    autoconf automake dpkg-dev libltdl-dev libtool make patch perl pkgconf tclsh
cd "$work"
mkdir -p apt/lists/partial apt/archives/partial bin lib "$prefix/licenses"
mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    sed -n -e 's/^URIs: *//p' -e 's/^deb \(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' | head -n 1)
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $SUITE main" >apt/list
set -- -o Acquire::Retries=3 -o APT::Sandbox::User=root -o Dir::Etc::sourcelist="$work/apt/list" \
    -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt"
apt-get "$@" update
# shellcheck disable=SC2086 # the list is meant to be split
apt-get "$@" source --download-only $SOURCES
for source in $SOURCES; do
    [ $source = $PYTHON ] && patches=--skip-patches || patches=
    dpkg-source --no-check $patches -x "${source}"_*.dsc $source
    echo "$source $(sed -n 's/^Version: //p' "${source}"_*.dsc)" >>components
    find $source -maxdepth 1 -name 'LICENSE*' -exec cp {} "$prefix/licenses/$source" \;
done
# Debian's other patches of CPython move what it installs.
(
    cd $PYTHON
    grep -E '^(CVE-|ssl-|dict-use-after-free|traverse-)' debian/patches/series >security
    while read -r name; do patch -p1 <"debian/patches/$name"; done <security
    # zig's linker has no -h, and zig takes no target where it compiles nothing.
    sed -i -e 's/-Wl,-h/-Wl,-soname,/' -e 's/-Wl,-soname,\$@ \$^/& -x c \/dev\/null/' Makefile.pre.in
)

python3 -m venv zig
zig/bin/python -m pip install --disable-pip-version-check "ziglang==$ZIG"
zig=$(zig/bin/python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
printf '#!/bin/sh\nexec %s cc -target x86_64-linux-gnu.%s "$@"\n' "$zig" "$GLIBC" >bin/cc
printf '#!/bin/sh\nexec %s ar "$@"\n' "$zig" >bin/ar
printf '#!/bin/sh\nexec %s ranlib "$@"\n' "$zig" >bin/ranlib
chmod +x bin/*
export PATH="$work/bin:$PATH" CC=cc AR=ar RANLIB=ranlib CFLAGS="-O2 -fPIC -Wno-date-time"
export ZIG_LOCAL_CACHE_DIR="$work/cache" ZIG_GLOBAL_CACHE_DIR="$work/cache" SOURCE_DATE_EPOCH=0
MAKEFLAGS="-s -j$(nproc)"
export MAKEFLAGS

cd "$work/zlib"
./configure --static --prefix="$work/lib"
make libz.a
make install
cd "$work/libffi"
autoreconf -fi
./configure --disable-shared --disable-docs --prefix="$work/lib"
make
make install
cd "$work/sqlite3"
./configure --disable-shared --disable-tcl --disable-readline --prefix="$work/lib"
make libsqlite3.la
make install
cd "$work/openssl"
./Configure linux-x86_64 no-shared no-tests no-docs no-apps no-module no-legacy \
    --prefix="$work/lib" --libdir=lib --openssldir=/etc/ssl
make build_libs
make install_dev
cd "$work/$PYTHON"
PKG_CONFIG_LIBDIR="$work/lib/lib/pkgconfig" ./configure --prefix="$prefix" --enable-shared --with-openssl="$work/lib" \
    --without-ensurepip --disable-test-modules CPPFLAGS="-I$work/lib/include" \
    LDFLAGS="-L$work/lib/lib -Wl,-rpath,$prefix/lib"
make
make install
find "$prefix" -type f -name '*.so*' -exec strip --strip-unneeded {} +
"$prefix/bin/python3" -c 'import ctypes, sqlite3, ssl, zlib'
cp "$work/components" "$prefix/components"
