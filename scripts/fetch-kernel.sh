#!/bin/sh
# Puts Debian's full kernel into a cache directory, without installing it. Guests of `vm` layers boot it.
# Cloud kernels lack 9p, AHCI, e1000 and more; most containers have no kernel.
set -eu
# Others must not be able to change what root boots.
umask 022
PATH="$PATH:/usr/sbin:/sbin"
if [ "$(id -u)" = 0 ]; then
    cache=/var/cache/layermark
else
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/layermark
fi
for found in "$cache"/kernel/lib/modules/*/modules.dep /var/cache/layermark/kernel/lib/modules/*/modules.dep; do
    [ -e "$found" ] && exit 0
done
for program in apt-get dpkg-deb depmod; do
    command -v "$program" >/dev/null || {
        echo "fetch-kernel: $program is missing; virtual machines need a kernel in /boot then" >&2
        echo "hint: sudo apt-get install kmod, or: sudo apt-get install linux-image-amd64" >&2
        exit 1
    }
done
package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
[ -n "$package" ] || {
    echo "fetch-kernel: apt knows no linux-image-amd64; hint: sudo apt-get update" >&2
    exit 1
}
echo "fetch-kernel: $package (70 MB)" >&2
mkdir -p "$cache"
stage=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
(cd "$stage" && apt-get download -qq "$package" 2>/dev/null)
dpkg-deb -x "$stage"/linux-image-*.deb "$stage/kernel"
# Debian 13 and newer have the modules below /usr/lib.
[ -d "$stage/kernel/lib" ] || mv "$stage/kernel/usr/lib" "$stage/kernel/lib"
rm -rf "$stage/kernel/usr"
release=$(ls "$stage/kernel/lib/modules")
depmod -b "$stage/kernel" "$release"
chmod 755 "$stage/kernel"
rm -rf "$cache/kernel"
mv "$stage/kernel" "$cache/kernel"
