#!/bin/sh
# Installs each package in a root with Debian's essential packages and Python, without a tool chain, and measures two
# layers there. The root is made once and kept in the cache directory. Packages for arm64 are looked at, and their program
# is run in QEMU's user emulation where it is installed.
# usage: scripts/test-dist.sh BIN [ARM64_BIN]
set -eu
PATH="$PATH:/usr/sbin:/sbin"
bin=$(realpath "${1:?usage: $0 BIN [ARM64_BIN]}")
arm=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
[ -x "$bin" ] || {
    echo "test-dist: $bin is not there; hint: make test-rust, or make test-dist BIN=FILE" >&2
    exit 1
}
skip() {
    echo "test-dist: skipped: $*" >&2
    exit 0
}
for program in mmdebstrap dpkg-deb strip python3 unshare; do
    command -v "$program" >/dev/null || skip "$program is missing; hint: scripts/setup.sh test"
done
if [ "$(id -u)" = 0 ]; then
    cache=/var/cache/layermark
    flags=-m
    owner=--same-owner
else
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/layermark
    flags=-Urm
    owner=--no-same-owner
fi
# shellcheck disable=SC2086 # none or one
unshare $flags true 2>/dev/null || skip "mount namespaces are forbidden here"
stage=$(mktemp -d /var/tmp/layermark-dist.XXXXXX)
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM

# 1. A root.
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
base=$cache/root-$suite.tar
if [ ! -s "$base" ]; then
    # shellcheck disable=SC2016 # apt's own variable
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | sed -n 1p)
    [ -n "$mirror" ] || skip "apt knows no mirror of $suite; hint: sudo apt-get update"
    echo "test-dist: making a root of $suite, once"
    mmdebstrap --quiet --variant=essential --include=mount,python3-venv "$suite" "$stage/root.tar" "$mirror" \
        >"$stage/log" 2>&1 || {
        cat "$stage/log" >&2
        skip "mmdebstrap could not make a root"
    }
    mkdir -p "$cache"
    mv "$stage/root.tar" "$base"
fi

# 2. Packages, twice: the same bytes.
begin() { begun=$(date +%s); }
passed() { echo "test-dist: $*: $(($(date +%s) - begun)) s"; }
bad() {
    echo "test-dist: $*" >&2
    exit 1
}
begin
version=$("$bin" --version | cut -d ' ' -f 2)
own=$(uname -m)
emulator=$(command -v qemu-aarch64-static) || emulator=
if [ -z "$arm" ]; then
    [ "$own" = aarch64 ] || echo "test-dist: skipped: packages for arm64: none were built; hint: make dist" >&2
elif [ -n "$emulator" ]; then
    said=$("$emulator" "$arm" --version) || bad "$arm does not run in $emulator"
    if [ "$said" != "layermark $version" ]; then
        echo "test-dist: skipped: packages for arm64: $arm is $said; hint: make dist" >&2
        arm=
    fi
fi
scripts/dist.sh -1 "$stage/dist" "$bin" ${arm:+"$arm"} >/dev/null
scripts/dist.sh -1 "$stage/again" "$bin" ${arm:+"$arm"} >/dev/null
cmp "$stage/dist/SHA256SUMS" "$stage/again/SHA256SUMS"
(cd "$stage/dist" && sha256sum --quiet -c SHA256SUMS)
rm -r "$stage/again"
passed "packed twice, the same bytes"

# 3. `make uninstall` removes every file of `make install`.
begin
scripts/install.sh install "$bin" "$stage/prefix" >/dev/null
for file in bin/layermark share/bash-completion/completions/layermark share/zsh/site-functions/_layermark \
    share/fish/vendor_completions.d/layermark.fish share/man/man1/layermark.1 share/man/man1/layermark-run.1; do
    [ -s "$stage/prefix/$file" ] || {
        echo "test-dist: not installed: $file" >&2
        exit 1
    }
done
scripts/install.sh uninstall "$stage/prefix" >/dev/null
left=$(find "$stage/prefix" ! -type d)
[ -z "$left" ] || {
    echo "test-dist: left behind: $left" >&2
    exit 1
}
passed "installed below a prefix and removed"

# 4. What the packages of each architecture say of themselves is so.
# of_arch ARCH DEBIAN MACHINE
of_arch() {
    begin
    name=layermark-$version-$1-linux
    unpacked=$stage/unpacked-$1
    mkdir "$unpacked"
    tar -xzf "$stage/dist/$name.tar.gz" -C "$unpacked"
    program=$unpacked/$name/bin/layermark
    readelf -hW "$program" | grep -q "Machine: *.*$3" || bad "$name.tar.gz: not a program for $1"
    ! readelf -lW "$program" | grep -q INTERP || bad "$name.tar.gz: not static"
    deb=$stage/dist/layermark_${version}_$2.deb
    [ "$(dpkg-deb -f "$deb" Architecture)" = "$2" ] || bad "$deb: another architecture"
    dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/bin/layermark | cmp - "$program"
    python3 - "$stage"/dist/layermark-"$version"-py3-none-*"_$1.whl" "$program" "$1" <<'IN' || bad "the wheel for $1"
import sys
import zipfile
from pathlib import Path

wheel, program, arch = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
tags = [f"manylinux_2_17_{arch}", f"musllinux_1_1_{arch}"]
with zipfile.ZipFile(wheel) as files:
    [inside] = [name for name in files.namelist() if name.endswith(".data/scripts/layermark")]
    [about] = [name for name in files.namelist() if name.endswith(".dist-info/WHEEL")]
    said = [line[5:] for line in files.read(about).decode().splitlines() if line.startswith("Tag: ")]
    assert said == [f"py3-none-{tag}" for tag in tags], said
    assert wheel.name.endswith("-" + ".".join(tags) + ".whl"), wheel.name
    assert files.read(inside) == program.read_bytes(), inside
IN
    python3 -c '
import hashlib, json, pathlib, sys
[product] = json.load(open(sys.argv[1]))["metadata"]["component"]["hashes"]
assert product["content"] == hashlib.sha256(pathlib.Path(sys.argv[2]).read_bytes()).hexdigest()
' "$stage/dist/$name.cdx.json" "$program" || bad "$name.cdx.json: of another program"
    # binstall: {version} and {target-arch} of its metadata.
    path=$(sed -n 's|^bin-dir = "\(.*\)"|\1|p' crates/cli/Cargo.toml |
        sed "s|{ version }|$version|g; s|{ target-arch }|$1|g; s|{ bin }|layermark|; s|{ binary-ext }||")
    [ "$unpacked/$path" = "$program" ] || bad "cargo binstall looks for $path"
    grep -q "pkg-url = .*/layermark-{ version }-{ target-arch }-linux.tar.gz" crates/cli/Cargo.toml ||
        bad "cargo binstall looks for another archive"
    passed "packages for $1 have its names and its program"
}
case $own in
x86_64) of_arch x86_64 amd64 X86-64 ;;
aarch64) of_arch aarch64 arm64 AArch64 ;;
esac
if [ -n "$arm" ]; then
    of_arch aarch64 arm64 AArch64
    if [ -n "$emulator" ]; then
        [ "$("$emulator" "$program" --version)" = "layermark $version" ] || bad "the packed program for arm64 does not run"
    else
        echo "test-dist: skipped: running the program for arm64: qemu-aarch64-static is missing; hint: scripts/setup.sh dist" >&2
    fi
fi

# 5. Recipes have the sum of each archive, and no word is left to fill in. The archive is as they say.
begin
for archive in "$stage"/dist/*.tar.gz; do
    sum=$(sha256sum "$archive" | cut -d ' ' -f 1)
    for recipe in PKGBUILD layermark.rb; do
        grep -q "$sum" "$stage/dist/$recipe" || bad "$recipe has no sum of ${archive##*/}"
        grep -qE "${archive##*/}|pkgver-$(echo "${archive##*/}" | cut -d - -f 3-)" "$stage/dist/$recipe" ||
            bad "$recipe does not name ${archive##*/}"
    done
done
if grep -nE '@[A-Za-z0-9_]+' "$stage/dist/Containerfile" "$stage/dist/PKGBUILD" "$stage/dist/layermark.rb"; then
    bad "words of the recipes are left"
fi
for arch in $own ${arm:+aarch64}; do
    CARCH=$arch bash -eu -c '
        . "$1/dist/PKGBUILD"
        [[ " ${arch[*]} " == *" $CARCH "* ]]
        srcdir=$1/src pkgdir=$1/pkg
        mkdir "$srcdir" "$pkgdir"
        declare -n source=source_$CARCH sums=sha256sums_$CARCH
        archive=$1/dist/${source[0]##*/}
        echo "${sums[0]}  $archive" | sha256sum --quiet -c
        tar -xzf "$archive" -C "$srcdir"
        package
        cmp "$pkgdir/usr/bin/layermark" "$1/unpacked-$CARCH/layermark-$pkgver-$CARCH-linux/bin/layermark"
        [ -s "$pkgdir/usr/share/man/man1/layermark.1" ] && [ -s "$pkgdir/usr/share/licenses/$pkgname/LICENSE-MIT" ]
    ' recipes "$stage"
    rm -rf "$stage/src" "$stage/pkg"
done
if command -v ruby >/dev/null; then ruby -c "$stage/dist/layermark.rb" >/dev/null; fi
# A container from scratch has the archive and nothing else.
sed -n "s|^ARG ARCH=.*|ARCH=$own|p; s|^ADD \(.*\) /$|archive=\1|p; s|^ENV .* PATH=\(.*\)|inside=\1|p; s|^ENTRYPOINT \[\"\(.*\)\"\]$|entry=\1|p" \
    "$stage/dist/Containerfile" >"$stage/container"
# shellcheck source=/dev/null
. "$stage/container"
mkdir "$stage/scratch"
# shellcheck disable=SC2154 # of the file
tar -xzf "$stage/dist/$archive" -C "$stage/scratch"
# shellcheck disable=SC2086,SC2154 # none or one; of the file
unshare $flags --root "$stage/scratch" "$inside/$entry" --version >/dev/null
rm -rf "$stage/scratch"
passed "recipes: PKGBUILD installs, a root from scratch runs"

# 6. Each package in a separate root.
layers="-l overlay:writecopy"
if [ -w /dev/fuse ]; then
    layers="$layers -l fuse"
else
    echo "test-dist: skipped: fuse: /dev/fuse is missing or may not be opened" >&2
fi
cat >"$stage/enter.sh" <<'IN'
set -eu
mount --bind "$1" "$1"
for dir in dev proc sys; do mount --rbind "/$dir" "$1/$dir"; done
cd "$1"
pivot_root . mnt
cd /
umount -l /mnt
exec env -i PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root sh -eu /root/steps
IN
cat >"$stage/check.py" <<'IN'
import json
import sys

report = json.load(open(sys.argv[1], encoding="utf-8"))
layers = [word for word in sys.argv[2:] if word != "-l"]
measured = {row["layer"] for row in report["results"] if row.get("ratio")}
missing = [layer for layer in layers if layer not in measured]
if missing or report.get("left_out"):
    sys.exit(f"test-dist: not measured: {missing}; left out: {report.get('left_out')}")
IN

# in_root NAME FILE INSTALL REMOVE: the commands run in the directory of the package.
in_root() {
    begin
    root=$stage/$1
    mkdir "$root"
    tar "$owner" --exclude='./dev/*' -xf "$base" -C "$root"
    # shellcheck disable=SC2086 # a pattern
    cp "$stage/dist/"$2 "$root/root"
    mkdir "$root/work"
    cat >"$root/root/steps" <<IN
for tool in cargo rustc cc; do
    if command -v \$tool; then echo "the root has \$tool" >&2; exit 1; fi
done
cd /root
$3
layermark --version
layermark run $layers --blocks 1 --no-control --dir /work -o report.json
test -z "\$(ls -A /work)"
$4
if command -v layermark; then echo "layermark is still there" >&2; exit 1; fi
IN
    # shellcheck disable=SC2086 # none or one
    unshare $flags --propagation private sh "$stage/enter.sh" "$root" >"$stage/log" 2>&1 || {
        cat "$stage/log" >&2
        echo "test-dist: failed: $1" >&2
        exit 1
    }
    # shellcheck disable=SC2086 # a list of words
    python3 "$stage/check.py" "$root/root/report.json" $layers
    rm -rf "$root"
    passed "$1 installed, measured with $layers, removed"
}
in_root tar.gz "layermark-*-$own-linux.tar.gz" \
    'tar -xzf layermark-*.tar.gz -C /usr/local --strip-components=1' \
    'rm /usr/local/bin/layermark; hash -r'
in_root deb "layermark_*_$(dpkg --print-architecture).deb" \
    'dpkg -i layermark_*.deb; zcat /usr/share/man/man1/layermark.1.gz | grep -q layermark' \
    'dpkg -r layermark; hash -r'
# shellcheck disable=SC2016 # of the root's shell
in_root wheel "layermark-*_$own.whl" \
    'python3 -m venv /opt/venv; PATH=/opt/venv/bin:$PATH; pip install --quiet --no-index layermark-*.whl' \
    'pip uninstall --quiet --yes layermark; hash -r'
