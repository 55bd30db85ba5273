#!/bin/bash
# Whether budgets are kept: runs commands of the docs with a budget and prints what each took beside what was
# promised. A command may be refused (exit code 2): that has to happen within two seconds.
#
# usage: benches/budgets.sh LAYERMARK quiet|busy [FILE]
#
# Quiet: at most 1.2 times the budget and 10 s. Busy, beside two busy loops: 1.5 times and 10 s. FILE has other
# commands, a line each; FIRST=N and LAST=N choose lines.
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
    if [ "$mode" = busy ]; then
        for _ in 1 2; do
            timeout 900 sh -c 'while :; do :; done' &
            busy_pids="$busy_pids $!"
        done
        sleep 1
    fi
    read -ra words <<<"$line"
    log="$work/log-$number"
    begun=$(date +%s.%N)
    (cd "$work/dir" && exec timeout 1200 "$binary" "${words[@]}") >"$log" 2>&1
    code=$?
    took=$(echo "$(date +%s.%N) - $begun" | bc)
    for pid in $busy_pids; do kill "$pid"; done
    busy_pids=""
    factor=1.2
    [ "$mode" = busy ] && factor=1.5
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
