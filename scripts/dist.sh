#!/bin/sh
# Packs a built layermark into tar.gz, .deb, wheel, SBOM, recipes of package managers and SHA256SUMS. It builds nothing.
# The same binary and SOURCE_DATE_EPOCH (by default the time of the last commit) give the same bytes.
# usage: scripts/dist.sh BIN DIR [LEVEL]          LEVEL of compression, 1 to 9
set -eu
umask 022
[ $# = 2 ] || [ $# = 3 ] || {
    echo "usage: $0 BIN DIR [LEVEL]" >&2
    exit 2
}
level=${3:-9}
bin=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH

"$bin" --version >/dev/null
# Guests and containers do not have this machine's libraries.
if readelf -lW "$bin" | grep INTERP >/dev/null; then
    echo "dist: $bin is not static" >&2
    echo "hint: make build" >&2
    exit 1
fi
version=$("$bin" --version | cut -d ' ' -f 2)
arch=$(uname -m)
name=layermark-$version-$arch-linux
about=$(sed -n 's/^description = "\(.*\)"$/\1/p' crates/cli/Cargo.toml)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
tree=$stage/$name
strip -o "$stage/layermark" "$bin"
scripts/install.sh install "$stage/layermark" "$tree" >/dev/null
scripts/bill.py "$stage/layermark" "$tree/share/doc/layermark"
mkdir "$stage/out"

tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
    -C "$stage" -cf "$stage/out/$name.tar" "$name"
gzip "-${level}n" "$stage/out/$name.tar"
cp "$tree/share/doc/layermark/layermark.cdx.json" "$stage/out/layermark-$version.cdx.json"
scripts/wheel.py "$tree" "$stage/out" "$version" "$about" "$level"

# Debian keeps zsh functions of packages in another directory, and compresses manual pages.
list() { scripts/setup.sh --packages "$1" | sort -u | paste -sd , | sed 's/,/, /g'; }
deb=$stage/deb
mkdir -p "$deb/DEBIAN" "$deb/usr"
cp -r "$tree/." "$deb/usr"
mv "$deb/usr/share/zsh/site-functions" "$deb/usr/share/zsh/vendor-completions"
gzip -9n "$deb"/usr/share/man/man1/*
doc=$deb/usr/share/doc/layermark
{
    echo "layermark is licensed under either of MIT or Apache-2.0, at your choice."
    echo "What it contains of others: THIRD-PARTY.txt. Apache-2.0: LICENSE-APACHE. MIT:"
    echo
    cat "$doc/LICENSE-MIT"
} >"$doc/copyright"
cat >"$deb/DEBIAN/control" <<IN
Package: layermark
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The layermark authors
Section: utils
Priority: optional
Installed-Size: $(find "$deb/usr" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
Recommends: $(list LAYERS)
Suggests: $(list VM)
Description: $about
 Sets up layers over a directory of yours (overlay, FUSE, application images,
 loop disks, virtual machines, networks), does the same work natively and in
 each of them in turn, and reports a ratio with an interval, where the data
 was cached, and whether flushes reached the device.
IN
(cd "$deb" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group -Zxz "-z$level" --build "$deb" "$stage/out/layermark_${version}_$(dpkg --print-architecture).deb" >/dev/null

# Recipes for other package managers. RELEASE_URL is the address of the directory with these files.
sum=$(sha256sum "$stage/out/$name.tar.gz" | cut -d ' ' -f 1)
for recipe in Containerfile PKGBUILD layermark.rb; do
    sed -e "s|@NAME@|$name|g; s|@VERSION@|$version|g; s|@ARCH@|$arch|g; s|@ABOUT@|$about|g; s|@SHA256@|$sum|g" \
        -e "s|@URL@|${RELEASE_URL:-https://example.org/layermark}|g" "packaging/$recipe" >"$stage/out/$recipe"
done

(cd "$stage/out" && sha256sum -- * >SHA256SUMS)
rm -f "$out/Containerfile" "$out/PKGBUILD" "$out/layermark.rb" "$out"/layermark-*-linux.tar.gz "$out"/layermark-*.cdx.json "$out"/layermark_*.deb "$out"/layermark-*.whl "$out/SHA256SUMS"
mv "$stage"/out/* "$out"
(cd "$out" && du --apparent-size -h -- * | sed "s|\t|  $out/|")
