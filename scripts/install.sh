#!/bin/sh
# Installs or removes a built layermark below a prefix: the program, completions, manual pages and licences.
# usage: scripts/install.sh install BIN PREFIX
#        scripts/install.sh uninstall PREFIX
set -eu
umask 022
usage() {
    sed -n 's/^# usage: *//p; s/^#        //p' "$0" >&2
    exit 2
}

# Completions: the directory of each shell below a prefix.
completions() {
    echo "bash share/bash-completion/completions/layermark"
    echo "zsh share/zsh/site-functions/_layermark"
    echo "fish share/fish/vendor_completions.d/layermark.fish"
}

install_all() {
    bin=$1 prefix=$2
    [ -x "$bin" ] || {
        echo "install: $bin is no program; hint: make build" >&2
        exit 1
    }
    mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/doc/layermark"
    install -m 755 "$bin" "$prefix/bin/layermark"
    completions | while read -r shell file; do
        mkdir -p "$prefix/${file%/*}"
        "$bin" completions "$shell" >"$prefix/$file"
    done
    # As root, `man DIR` refuses a directory that its group may write to, as that of /usr/local often is.
    pages=$(mktemp -d)
    "$bin" man "$pages"
    install -m 644 "$pages"/*.1 "$prefix/share/man/man1"
    rm -rf "$pages"
    from=$(dirname "$0")/..
    install -m 644 "$from/README.md" "$from/LICENSE-MIT" "$from/LICENSE-APACHE" "$prefix/share/doc/layermark"
}

uninstall_all() {
    prefix=$1
    rm -f "$prefix/bin/layermark" "$prefix/share/man/man1/layermark.1" "$prefix"/share/man/man1/layermark-*.1
    completions | while read -r _ file; do rm -f "$prefix/$file"; done
    for file in README.md LICENSE-MIT LICENSE-APACHE; do rm -f "$prefix/share/doc/layermark/$file"; done
    rmdir "$prefix/share/doc/layermark" 2>/dev/null || true
}

case "${1:-} $#" in
"install 3")
    install_all "$2" "$3"
    echo "installed: $3/bin/layermark"
    case ":$PATH:" in
    *":$3/bin:"*) ;;
    *) echo "hint: it is not in PATH yet: export PATH=\"$3/bin:\$PATH\"" ;;
    esac
    ;;
"uninstall 2")
    uninstall_all "$2"
    echo "removed from $2; stored runs and reports stay: ${XDG_DATA_HOME:-$HOME/.local/share}/layermark"
    ;;
*) usage ;;
esac
