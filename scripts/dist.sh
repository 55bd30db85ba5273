#!/bin/sh
# Packs built binaries of layermark into tar.gz, .deb, wheel and SBOM of each architecture, recipes of package managers and
# SHA256SUMS. It builds nothing. The same binaries and SOURCE_DATE_EPOCH (by default the time of the last commit) give the
# same bytes.
# usage: scripts/dist.sh [-LEVEL] DIR BIN [OTHER]
#        LEVEL of compression, 1 to 9; BIN runs on this machine, OTHER is of the same version for another architecture
set -eu
umask 022
level=9
case "${1:-}" in -[1-9])
    level=${1#-}
    shift
    ;;
esac
[ $# = 2 ] || [ $# = 3 ] || {
    sed -n 's/^# usage: *//p; s/^#        //p' "$0" >&2
    exit 2
}
mkdir -p "$1"
out=$(realpath "$1")
shift
# Paths of the binaries, before the directory is another one.
own=$(realpath "$1")
other=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH

fail() {
    echo "dist: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
version=$("$own" --version | cut -d ' ' -f 2)
about=$(sed -n 's/^description = "\(.*\)"$/\1/p' crates/cli/Cargo.toml)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$stage/out"

# Sets `arch` to the kernel's name of a binary's architecture, `debian` to Debian's, and `cross` to how tools for it begin.
names_of() {
    case $(readelf -hW "$1" | sed -n 's/^ *Machine: *//p') in
    *X86-64*) arch=x86_64 debian=amd64 ;;
    AArch64) arch=aarch64 debian=arm64 ;;
    *) fail "$1 is not a program for x86-64 or arm64" "make build" ;;
    esac
    cross=$arch-linux-gnu-
    [ "$arch" != "$(uname -m)" ] || cross=
}

# The tree of one architecture. What the program prints is the same for all.
install_tree() {
    bin=$1
    # Guests and containers do not have this machine's libraries.
    if readelf -lW "$bin" | grep INTERP >/dev/null; then fail "$bin is not static" "make build"; fi
    "${cross}strip" -o "$stage/layermark" "$bin"
    scripts/install.sh install "$own" "$tree" >/dev/null
    install -m 755 "$stage/layermark" "$tree/bin/layermark"
    scripts/bill.py "$stage/layermark" "$arch-unknown-linux-gnu" "$tree/share/doc/layermark"
}

# Debian keeps zsh functions of packages in another directory, and compresses manual pages.
list() { scripts/setup.sh --packages "$1" | sort -u | paste -sd , | sed 's/,/, /g'; }
pack_deb() {
    deb=$stage/deb-$arch
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
Architecture: $debian
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
    # Guests have an x86-64 CPU and run this program.
    [ "$arch" = x86_64 ] || sed -i '/^Suggests: /d' "$deb/DEBIAN/control"
    (cd "$deb" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zxz "-z$level" --build "$deb" "$stage/out/layermark_${version}_$debian.deb" >/dev/null
}

# Edits of the recipes. What is between `@ARCH begin` and `@ARCH end` is left out if that architecture is not packed.
edits=
packed=
for bin in "$own" ${other:+"$other"}; do
    names_of "$bin"
    name=layermark-$version-$arch-linux
    tree=$stage/$name
    [ ! -e "$tree" ] || fail "both programs are for $arch" "$0 DIR BIN"
    if [ "$bin" != "$own" ] && command -v "qemu-$arch-static" >/dev/null; then
        said=$("qemu-$arch-static" "$bin" --version)
        [ "$said" = "layermark $version" ] || fail "$bin is $said, and $own is $version" "make dist"
    fi
    install_tree "$bin"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        -C "$stage" -cf "$stage/out/$name.tar" "$name"
    gzip "-${level}n" "$stage/out/$name.tar"
    cp "$tree/share/doc/layermark/layermark.cdx.json" "$stage/out/$name.cdx.json"
    scripts/wheel.py "$tree" "$stage/out" "$version" "$arch" "$about" "$level"
    pack_deb
    sum=$(sha256sum "$stage/out/$name.tar.gz" | cut -d ' ' -f 1)
    edits="$edits /@$arch begin\$/d; /@$arch end\$/d; s|@SHA256_$arch@|$sum|g;"
    packed="$packed '$arch'"
done

# Recipes for other package managers. RELEASE_URL is the address of the directory with these files.
names_of "$own"
for recipe in Containerfile PKGBUILD layermark.rb; do
    sed -e "$edits" -e '/@[a-z0-9_]* begin$/,/@[a-z0-9_]* end$/d' \
        -e "s|@VERSION@|$version|g; s|@ARCH@|$arch|g; s|@ARCHES@|${packed# }|g; s|@ABOUT@|$about|g" \
        -e "s|@URL@|${RELEASE_URL:-https://example.org/layermark}|g" "packaging/$recipe" >"$stage/out/$recipe"
done

(cd "$stage/out" && sha256sum -- * >SHA256SUMS)
rm -f "$out/Containerfile" "$out/PKGBUILD" "$out/layermark.rb" "$out"/layermark-*-linux.tar.gz "$out"/layermark-*.cdx.json "$out"/layermark_*.deb "$out"/layermark-*.whl "$out/SHA256SUMS"
mv "$stage"/out/* "$out"
(cd "$out" && du --apparent-size -h -- * | sed "s|\t|  $out/|")
