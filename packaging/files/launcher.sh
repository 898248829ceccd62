#!/bin/sh
# Starts the self-contained build, or says in one sentence why it cannot run here.
needs=@GLIBC@
program=$0
while [ -h "$program" ]; do
    target=$(readlink "$program")
    case $target in
        /*) program=$target ;;
        *) program=${program%/*}/$target ;;
    esac
done
case $program in
    */*) folder=${program%/*} ;;
    *) folder=. ;;
esac
instead="Use tallyglass.pyz with Python 3.11 or newer, or install the wheel with pip or pipx."

refuse() {
    echo "tallyglass: $1 $instead" >&2
    exit 1
}

[ "$(uname -m)" = x86_64 ] || refuse "This build is for x86-64, and this machine is $(uname -m)."
[ -e /lib64/ld-linux-x86-64.so.2 ] || refuse "This build needs glibc $needs or newer, and this system has no glibc."
found=$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>/dev/null || /lib64/ld-linux-x86-64.so.2 --version 2>/dev/null || true)
# The first line ends with the version in all three, with a full stop in the last.
found=${found%%
*}
found=${found##* }
found=${found%.}
case $found in
    2.[0-9]*)
        minor=${found#2.}
        [ "${minor%%[!0-9]*}" -ge "${needs#2.}" ] ||
            refuse "This build needs glibc $needs or newer, and this system has $found."
        ;;
esac
[ -x "$folder/lib/tallyglass" ] || refuse "$folder/lib/tallyglass may not be executed: its file system is mounted noexec."
# The OpenSSL in this build looks for the certificates of authorities where Debian has them.
if [ -z "${SSL_CERT_FILE:-}${SSL_CERT_DIR:-}" ]; then
    for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
        /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/ssl/ca-bundle.pem; do
        if [ -r "$file" ]; then
            export SSL_CERT_FILE="$file"
            break
        fi
    done
fi
exec "$folder/lib/tallyglass" "$@"
