#!/bin/sh
# Installs each package in a root with Debian's essential packages and Python, without a tool chain, and measures two
# layers there. The root is made once and kept in the cache directory.
# usage: scripts/test-dist.sh BIN
set -eu
PATH="$PATH:/usr/sbin:/sbin"
bin=$(realpath "${1:?usage: $0 BIN}")
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
begin
scripts/dist.sh "$bin" "$stage/dist" 1 >/dev/null
scripts/dist.sh "$bin" "$stage/again" 1 >/dev/null
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

# 4. Recipes have the sum of the archive, and no word is left to fill in. The archive is as they and
# cargo binstall say.
begin
sum=$(sha256sum "$stage"/dist/*.tar.gz | cut -d ' ' -f 1)
for recipe in PKGBUILD layermark.rb; do
    grep -q "$sum" "$stage/dist/$recipe"
done
if grep -n '@[A-Z]*@' "$stage/dist/Containerfile" "$stage/dist/PKGBUILD" "$stage/dist/layermark.rb"; then exit 1; fi
bash -eu -c '
    . "$1/dist/PKGBUILD"
    srcdir=$1/src pkgdir=$1/pkg
    mkdir "$srcdir" "$pkgdir"
    tar -xzf "$1/dist/${source[0]##*/}" -C "$srcdir"
    package
    [ "$("$pkgdir/usr/bin/layermark" --version)" = "layermark $pkgver" ]
    [ -s "$pkgdir/usr/share/man/man1/layermark.1" ] && [ -s "$pkgdir/usr/share/licenses/$pkgname/LICENSE-MIT" ]
' recipes "$stage"
if command -v ruby >/dev/null; then ruby -c "$stage/dist/layermark.rb" >/dev/null; fi
# A container from scratch has the archive and nothing else.
archive=$(sed -n 's|^ADD \(.*\) /$|\1|p' "$stage/dist/Containerfile")
mkdir "$stage/scratch"
tar -xzf "$stage/dist/$archive" -C "$stage/scratch"
entry=$(sed -n 's|^ENTRYPOINT \["\(.*\)"\]$|\1|p' "$stage/dist/Containerfile")
# shellcheck disable=SC2086 # none or one
unshare $flags --root "$stage/scratch" "$entry" --version >/dev/null
# binstall: {version} and {target-arch} of its metadata.
bindir=$(sed -n 's|^bin-dir = "\(.*\)"|\1|p' crates/cli/Cargo.toml)
version=$("$bin" --version | cut -d ' ' -f 2)
path=$(echo "$bindir" | sed "s|{ version }|$version|g; s|{ target-arch }|$(uname -m)|g; s|{ bin }|layermark|; s|{ binary-ext }||")
tar -tzf "$stage/dist/$archive" "$path" >/dev/null
rm -rf "$stage/src" "$stage/pkg" "$stage/scratch"
passed "recipes: PKGBUILD installs, a root from scratch runs, binstall finds the binary"

# 5. Each package in a separate root.
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

# in_root NAME ENDING INSTALL REMOVE: the commands run in the directory of the package.
in_root() {
    begin
    root=$stage/$1
    mkdir "$root"
    tar "$owner" --exclude='./dev/*' -xf "$base" -C "$root"
    cp "$stage"/dist/*."$2" "$root/root"
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
in_root tar.gz tar.gz \
    'tar -xzf layermark-*.tar.gz -C /usr/local --strip-components=1' \
    'rm /usr/local/bin/layermark; hash -r'
in_root deb deb \
    'dpkg -i layermark_*.deb; zcat /usr/share/man/man1/layermark.1.gz | grep -q layermark' \
    'dpkg -r layermark; hash -r'
# shellcheck disable=SC2016 # of the root's shell
in_root wheel whl \
    'python3 -m venv /opt/venv; PATH=/opt/venv/bin:$PATH; pip install --quiet --no-index layermark-*.whl' \
    'pip uninstall --quiet --yes layermark; hash -r'
