#!/bin/bash
# Whether budgets are kept: runs commands of the docs with a budget and prints what each took beside what was
# promised. A command may be refused (exit code 2): that has to happen within two seconds.
#
# usage: benches/budgets.sh LAYERMARK quiet|busy|build [FILE]
#
# Quiet: at most 1.2 times the budget and 10 s. Busy, beside two busy loops, and beside `cargo build` in BUILD=DIR, a
# clone of this project, again and again: 1.5 times and 10 s. FILE has other commands, a line each; FIRST=N and LAST=N
# choose lines.
set -u
binary=$(realpath "$1")
mode=$2
file=${3:-}
work=$(realpath "$(mktemp -d -p .)")
export XDG_DATA_HOME="$work/data"
mkdir "$work/data" "$work/dir"
trap 'rm -rf "$work"' EXIT

commands() {
    if [ -n "$file" ]; then
        cat "$file"
        return
    fi
    cat <<'LIST'
run -l overlay:upper -l fuse --budget 60s
run -l overlay:writecopy -l fuse --budget 30s
run --budget 40s
run buffer-size --scale 0.1 --budget 20s
run iozone-vm --scale 0.05 --budget 60s
run container-mounts --budget 30s
run virtual-io-stack --scale 0.1 --budget 60s
steps --preset git,untar -l fuse -l overlay:writecopy --budget 20s
steps --preset git,untar -l overlay:upper -l fuse --budget 60s
meta --op create --op small-write --budget 12s
meta --op create,stat --files 20000 -l fuse -l overlay:upper --budget 15s
launch --budget 20s -- /bin/true
file --op append --record 4K --sync each -l overlay:upper --budget 10s
file --op rand-read --record 4K --file-size 256K -l fuse --budget 5s
db --op commit,read --journal wal --synchronous full,normal -l overlay:upper --budget 20s
devload --users 1,2 --budget 30s -l native -l overlay:upper
net --op rr,stream -l netns --budget 10s
iops --budget 20s -l fuse -l overlay:upper
file -l vm -l vm:share=9p --budget 20s
file --op append --record 4K --file-size 1M --sync each -l overlay:upper -l loop:xfs --budget 15s
file --op rewrite --record 8K --file-size 1M --sync odsync -l overlay:upper -l loop:xfs --budget 15s
file --op rand-write --record 4K --file-size 64M --sync each -l loop:ext4 -l loop:xfs -l loop:btrfs --budget 20s
file --op read --record 4K..1M --file-size 16M --cache cold -l image:erofs,compression=lz4 -l image:erofs --budget 20s
file --op seek-read --distance 64K,1M,16M --direct -l fuse --budget 15s
file --op write,read --engine sync,stdio -l overlay:upper --budget 15s
file --matrix iozone --max-file-size 4M -l overlay:upper --budget 20s
file --op append --record 4K --file-size 1M --sync each -l container:podman -l container:podman,at=volume --budget 20s
db -l overlay:upper -l overlay:volatile -l fuse -l loop:xfs --budget 30s
meta --op open-stat,small-read --cache cold -l image:erofs -l image:squashfs --budget 15s
meta --op small-read --file-size 4K -l overlay:writecopy --budget 10s
launch --budget 8s -l overlay:upper -l bind:rw -- /bin/true
launch --package --cache cold -l image:erofs -l overlay:writecopy --budget 20s -- git --version
launch --budget 10s -- git --version
lock --threads 1,2 -l overlay:upper -l fuse --budget 15s
http -l netns --concurrency 16 --budget 10s
ftp --op get --clients 1,4 --server own -l netns --budget 15s
iops --spec database --iodepth 8 --workers 2 --direct -l loop:xfs --budget 15s
net --op crr --placement same,other -l netns --budget 10s
devload --users 1 -l overlay:upper --budget 20s
run -l bind:rw --no-control --budget 25s
LIST
}

kept=0
count=0
busy_pids=""
printf '| command | budget, s | took, s | allowed, s | kept | exit code |\n| --- | --- | --- | --- | --- | --- |\n'
while read -r line; do
    [ -n "$line" ] || continue
    number=$((${number:-0} + 1))
    [ "$number" -ge "${FIRST:-1}" ] && [ "$number" -le "${LAST:-999}" ] || continue
    budget=$(sed -n 's/.*--budget \([0-9]*\)s.*/\1/p' <<<"$line")
    case "$mode" in
    busy)
        for _ in 1 2; do
            timeout 900 sh -c 'while :; do :; done' &
            busy_pids="$busy_pids $!"
        done
        sleep 1
        ;;
    build)
        # A process group of its own: the compilers end with it.
        (cd "$BUILD" && exec setsid timeout 900 sh -c \
            'while :; do touch crates/model/src/lib.rs; cargo build --locked -q; done') &
        busy_pids=" -$!"
        sleep 2
        ;;
    esac
    read -ra words <<<"$line"
    log="$work/log-$number"
    begun=$(date +%s.%N)
    (cd "$work/dir" && exec timeout 1200 "$binary" "${words[@]}") >"$log" 2>&1
    code=$?
    took=$(echo "$(date +%s.%N) - $begun" | bc)
    for pid in $busy_pids; do kill -- "$pid"; done
    busy_pids=""
    factor=1.2
    [ "$mode" = quiet ] || factor=1.5
    allowed=$(echo "$budget * $factor + 10" | bc)
    [ "$code" = 2 ] && allowed=2
    word=no
    [ "$(echo "$took <= $allowed" | bc)" = 1 ] && word=yes && kept=$((kept + 1))
    count=$((count + 1))
    printf '| `%s` | %s | %.1f | %.1f | %s | %s |\n' "$line" "$budget" "$took" "$allowed" "$word" "$code"
    [ -z "${LOGS:-}" ] || cp "$log" "$LOGS/$mode-$number.log"
done < <(commands)
wait
printf '\n%s of %s kept (%s)\n' "$kept" "$count" "$mode"
[ "$kept" = "$count" ]
