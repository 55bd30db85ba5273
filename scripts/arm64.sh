#!/bin/sh
# Builds for arm64 on a machine of another architecture, and runs unit tests in QEMU's user emulation.
# usage: scripts/arm64.sh build             prints the path of the release binary; on stderr, what is missing for it
#        scripts/arm64.sh test [ARG...]     unit tests of model, stats, report and probe; ARGs are cargo-nextest's
set -eu
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static

# lack WHAT COMMAND
lack() { echo "arm64: skipped: $1 is missing; hint: $2" >&2; }
packages="scripts/setup.sh dist"
if ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    lack aarch64-linux-gnu-gcc "$packages"
    exit 0
elif [ ! -e /usr/aarch64-linux-gnu/include/stdio.h ]; then
    lack "the C library for arm64" "$packages"
    exit 0
elif [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    lack "Rust's library for arm64" "rustup target add $target"
    exit 0
fi

case "${1:-}" in
build)
    cargo build --release --locked -p layermark --target "$target" >&2
    echo "${CARGO_TARGET_DIR:-target}/$target/release/layermark"
    ;;
test)
    shift
    command -v qemu-aarch64-static >/dev/null || {
        lack qemu-aarch64-static "$packages"
        exit 0
    }
    PATH="$(scripts/tool.sh cargo-nextest):$PATH" exec cargo nextest run --locked --target "$target" --profile arm64 --lib \
        -p layermark-model -p layermark-stats -p layermark-report -p layermark-probe "$@"
    ;;
*)
    sed -n 's/^# usage: *//p; s/^#        //p' "$0" >&2
    exit 2
    ;;
esac
