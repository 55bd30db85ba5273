#!/usr/bin/env bash
# Measures the stored runs of crates/testkit/fixtures again, or those that are named: as root, on a quiet machine, a few
# minutes. `LIST=1` prints the commands instead.
# usage: scripts/fixtures.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=" $* "
fixtures=crates/testkit/fixtures
if [ -z "${LIST-}" ]; then
    # The binary of the end-to-end tests, which has the scripted layer `mock`.
    cargo test --workspace --locked --quiet --test e2e --no-run
    cargo build --workspace --locked --quiet --example keep
    built=${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)/debug
    layermark=$PWD/$built/layermark
    keep=$PWD/$built/examples/keep
    # On a disk, as tmpfs has no flushes.
    base=$(mktemp -d /var/tmp/layermark-fixtures-XXXXXX)
    trap 'rm -rf "$base"' EXIT
fi

# measure NAME ARGUMENT...: measures with these arguments, and keeps the run as NAME. $how is what happens meanwhile.
measure() {
    local name=$1 how=${how-} command argument dir code=0 loops=()
    shift
    [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || return 0
    command=layermark
    for argument; do
        [[ $argument != *" "* ]] || argument=\"$argument\"
        command+=" $argument"
    done
    command+=${how:+ ($how)}
    if [ -n "${LIST-}" ]; then
        printf '%-20s %s\n' "$name" "$command"
        return
    fi
    echo "$name: $command"
    dir=$base/$name
    mkdir -p "$dir/work"
    case $how in
    "beside two busy loops")
        for _ in 1 2; do
            timeout 300 sh -c 'while :; do :; done' &
            loops+=($!)
        done
        ;;
    "interrupted after 3 s") set -- --signal INT 3 "$layermark" "$@" ;;
    "killed after 3 s") set -- --signal KILL 3 "$layermark" "$@" ;;
    esac
    case $how in
    *after*) set -- timeout "$@" ;;
    *) set -- "$layermark" "$@" ;;
    esac
    XDG_DATA_HOME=$dir "$@" --dir "$dir/work" >"$dir/out" 2>&1 || code=$?
    [ ${#loops[@]} = 0 ] || kill "${loops[@]}"
    # A run that failed, was stopped or cannot be trusted is stored too; a command that is refused stores none.
    if [ "$code" = 2 ] || [ ! -e "$dir/layermark/layermark.db" ]; then
        cat "$dir/out"
        echo "$name: exit code $code" >&2
        exit 1
    fi
    beside "$name" "$dir"
    # Names of this machine are no part of what is tested.
    "$keep" "$dir/layermark/layermark.db" "$command" | sed "s|$base|/fixtures|g" >"$dir/kept"
    mv "$dir/kept" "$fixtures/$name.jsonl"
}

# What another program measured, in the same store.
beside() {
    [ "$1" != beside ] ||
        XDG_DATA_HOME=$2 "$layermark" import crates/import/tests/fixtures/iozone-3.489-R.txt >>"$2/out"
}

one_read="--op read --record 4K --file-size 64K"
short="--sessions 1 --no-control"
# shellcheck disable=SC2086 # lists of words
{
    # Exact figures of layers that run a script: what tests of formats, stores and targets look at.
    measure scripted file $one_read --no-control --seed 3 --blocks 9 -l mock -l mock:ns=1500
    measure scripted-later file $one_read --no-control --seed 5 --blocks 9 -l mock -l mock:ns=1500
    measure charted file --op read,write --record 4K --file-size 64K --no-control --blocks 9 -l mock -l mock:ns=1500 -l mock:ns=3000
    measure failed-layers file $one_read $short --blocks 6 -l mock -l mock:ns=1500 -l mock:fail-open=on -l mock:die-after=4,ns=2000
    measure nothing-measured file $one_read $short --blocks 9 -l mock -l mock:fail-open=on
    measure failed-trials file --op write --record 4K --file-size 64K --sync fsync $short --blocks 4 -l mock -l mock:error-after=3,ns=1500 -l mock:read-only=on

    # States of a run, and of the machine.
    measure quiet run card --scale 0.1 --blocks 6 --sessions 1 -l overlay:upper -l fuse
    how="beside two busy loops" measure busy file --op write,read,rand-write --record 4K --file-size 1M --sessions 1 --blocks 6 -l overlay:upper
    how="interrupted after 3 s" measure stopped meta --op stat,create,unlink --no-control --blocks 90 -l overlay:upper
    how="killed after 3 s" measure killed meta --op stat,create,unlink --no-control --blocks 90 -l overlay:upper

    # Each workload.
    measure file file --op write,read --record 4K --file-size 1M --sync fsync $short --blocks 6 -l overlay:upper -l overlay:volatile -l tmpfs
    measure sweep file --op write,read --record 4K..64K --file-size 256K..1M $short --blocks 3 -l fuse
    measure iops iops --iodepth 1,4 --read 100,67 --random 100 --size 4K --file-size 2M --time 200ms --ramp 50ms $short --blocks 3 -l overlay:upper
    measure meta meta --op stat,open-stat,list,create,unlink --files 100 $short --blocks 6 -l overlay:upper -l fuse
    measure lock lock --threads 1,2 $short --blocks 4 -l bind:rw -l bind:ro
    measure db db --op commit,read --journal wal,rollback $short --blocks 4 -l overlay:upper -l overlay:volatile
    measure steps steps --preset untar,rm,grep --files 60 --trace $short --blocks 4 -l overlay:upper -l fuse
    measure launch launch --runs 6 --trace $short -l overlay:upper /bin/true "ls /"
    measure net net --op rr,stream,udp-stream --socket-buffer 32K $short --blocks 3 -l netns
    measure http http --body 1K,64K $short --blocks 3 -l netns
    measure ftp ftp --file-size 64K,256K $short --blocks 3 -l netns
    measure devload devload --scale 0.1 --users 1,2 $short --blocks 3 -l overlay:upper
    measure durability durability --cuts 3 --records 4 --seed 3 $short --blocks 4 -l overlay:volatile -l overlay:upper
    measure sequences durability --cuts 2 --records 1 --seed 3 $short --blocks 4 --sequence "create a/g; fsync a" --sequence "append a/f; fsync a/f" --sequence "overwrite a/f; fsync a/f; rename a/f b/g; fsync b" --sequence "append b/f; syncfs" -l overlay:upper -l fuse -l fuse:fsync=data
    # shellcheck disable=SC2016 # Its own shell expands these.
    measure own-program durability --cuts 6 --records 1 --time 600ms --seed 3 $short --blocks 4 --run 'i=0; while i=$((i+1)); do echo $i > item-$i; sync item-$i .; echo ack $i; sleep 0.02; done' --check 'while read -r i; do [ -s item-$i ] || echo lost $i; done' -l overlay:upper -l overlay:volatile
    measure coherence coherence --op append,create,notify --wait 2s $short --blocks 1 -l fuse:cache=auto -l fuse:cache=none

    # Plans: those that repeat a study, and those with claims.
    measure buffer-size run buffer-size --scale 0.01 --blocks 4 -l overlay:upper -l tmpfs
    measure fileio-appvirt run fileio-appvirt --scale 0.02 -l overlay:writecopy -l image:erofs
    measure iozone-vm run iozone-vm --scale 0.1 --blocks 2 -l mock -l mock:ns=1500
    measure launch-share run launch-share --blocks 3 -l overlay:upper -l tmpfs
    measure virtual-io-stack run virtual-io-stack --scale 0.05 --blocks 2 -l overlay:upper -l tmpfs
    measure daily run daily --scale 0.2 --blocks 3 -l overlay:upper -l fuse
    measure flush-cost run flush-cost --scale 0.1 --blocks 3 -l overlay:upper -l overlay:volatile
    measure overlay-copy-up run overlay-copy-up --scale 0.1 --blocks 3
    measure fuse-fast17 run fuse-fast17 --scale 0.05 --blocks 3

    # A gate that holds, and one that breaks: the second layer waits in each request. And two runs to compare.
    measure gate-held file $one_read $short --blocks 8 -l fuse:cache=none
    measure gate-broken file $one_read $short --blocks 8 -l fuse:cache=none,delay=2ms
    measure compare-old file $one_read $short --blocks 8 -l fuse:cache=none,label=share
    measure compare-new file $one_read $short --blocks 8 -l fuse:cache=none,delay=2ms,label=share
    measure beside file $one_read $short --blocks 6 -l overlay:upper
}
