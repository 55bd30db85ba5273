#!/bin/sh
# Runs a command and counts the guests that it boots: `qemu-system-x86_64` is a script that notes who started it, in a
# mount namespace of the command's own. Ends with the number and what started each: under cargo-nextest its test. A second
# try of a guest that hung is counted too.
# usage: scripts/count-guests.sh COMMAND...
set -eu
[ $# -gt 0 ] || { echo "usage: $0 COMMAND..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "count-guests: only root may put another program in the place of QEMU" >&2; exit 1; }
qemu=$(command -v qemu-system-x86_64) || {
    echo "count-guests: qemu-system-x86_64 is missing; hint: apt-get install qemu-system-x86" >&2
    exit 1
}
# First in the path in which layermark looks for programs.
shown=/usr/local/sbin
[ "$qemu" != "$shown/qemu-system-x86_64" ] || { echo "count-guests: QEMU is in $shown itself" >&2; exit 1; }
dir=$(mktemp -d /var/tmp/count-guests.XXXXXX)
trap 'rm -rf "$dir"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
# Tests start guests as users without root too.
chmod 755 "$dir"
mkdir "$dir/bin"
cp -a "$shown/." "$dir/bin/"
: >"$dir/list"
chmod 666 "$dir/list"
cat >"$dir/bin/qemu-system-x86_64" <<IN
#!/bin/sh
case " \$* " in *" --version "*) exec $qemu "\$@" ;; esac
# Up to the test's program: its test where cargo-nextest says it, and the command below it.
pid=\$PPID test= command=
while [ "\${pid:-0}" -gt 1 ]; do
    line=\$(tr '\0' ' ' <"/proc/\$pid/cmdline")
    case \$line in
    */deps/*-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]*) break ;;
    *layermark*" "* | *conformance*" "*) command=\${command:-\$line} ;;
    esac
    test=\${test:-\$(tr '\0' '\n' <"/proc/\$pid/environ" | sed -n 's/^NEXTEST_TEST_NAME=//p')}
    pid=\$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/\$pid/status")
done 2>/dev/null
echo "\${test:+\$test: }\$command" >>"$dir/list"
exec $qemu "\$@"
IN
chmod 755 "$dir/bin/qemu-system-x86_64"
# layermark keeps whether KVM works with a QEMU of this age.
touch -r "$qemu" "$dir/bin/qemu-system-x86_64"
status=0
# shellcheck disable=SC2016 # of the inner shell
unshare -m --propagation private sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' sh "$dir/bin" "$shown" "$@" || status=$?
echo
echo "guests: $(wc -l <"$dir/list")"
# Without directories, which are other ones each time.
sed 's#/[^ ,]*/##g' "$dir/list" | sort | uniq -c | sort -rn | cut -c1-200
exit $status
