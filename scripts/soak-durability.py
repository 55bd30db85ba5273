#!/usr/bin/env python3
"""Power cuts with many seeds: how often was each liar caught, and did an honest layer or a promise lose anything?

First `layermark selftest durability` with each seed, without guests, and with the first seeds also all sequences of one
operation; then every preset natively and in honest layers, whose programs may not lose what they promise to keep. Prints
counts, and ends with 1 if one is wrong, or if no power was cut at all.
"""

import argparse
import collections
import json
import subprocess
import sys

HONEST = ["native", "overlay:upper", "loop:ext4", "loop:xfs", "loop:btrfs", "fuse"]
LIARS = [
    "overlay:volatile", "ext4 mounted nobarrier", "write_cache overridden", "FUSE with an empty fsync",
    "FUSE that flushes 200 ms later", "FUSE that flushes every 2nd time", "FUSE that flushes no size",
    "FUSE that flushes no names",
]
PRESETS = ["sqlite", "postgres", "redis", "git", "rename", "copy", "dpkg"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"error": done.stderr[-600:]}
    if "error" not in report:
        return report
    print("failed:", " ".join(command), report["error"], sep="\n", file=sys.stderr)
    return None


def selftest(program, seed, where, sequences):
    only = [word for name in LIARS + HONEST for word in ("--only", name)]
    small = ["--cuts", "6", "--records", "8", "--seed", str(seed), "--dir", where, "--json"]
    return run([program, "selftest", "durability"] + small + only + (["--sequences", "1"] if sequences else []))


def presets(program, seed, where):
    named = [word for name in PRESETS for word in ("--preset", name)]
    layers = [word for name in HONEST for word in ("-l", name)]
    small = "--time 500ms --cuts 4 --records 1 --blocks 8 --sessions 1 --no-control --json".split()
    return run([program, "durability", "--seed", str(seed), "--dir", where] + named + layers + small)


def nothing_cut(what, counts):
    """Whether of all that was asked for nothing was cut: that proves nothing."""
    if any(word != "not cut" for each in counts.values() for word in each):
        return False
    print(f"no power was cut under any {what}", file=sys.stderr)
    return True


def main():
    of = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    of.add_argument("layermark", help="the program")
    of.add_argument("--runs", type=int, default=20, help="seeds of the selftest (default: 20)")
    of.add_argument("--sequences", type=int, default=1, help="seeds with sequences of operations (default: 1)")
    of.add_argument("--presets", type=int, default=20, help="seeds of the presets (default: 20)")
    of.add_argument("--dir", default=".", help="where to work")
    args = of.parse_args()
    program, where = args.layermark, args.dir
    known, kept = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    wrong = 0
    for seed in range(1, args.runs + 1):
        report = selftest(program, seed, where, seed <= args.sequences)
        for layer in report["layers"] if report else []:
            word = {True: "as known", False: "WRONG", None: "not cut"}[layer["as_expected"]]
            known[f"{layer['known']}: {layer['name']}"][word] += 1
            wrong += word == "WRONG"
        wrong += report is None
    wrong += args.runs > 0 and nothing_cut("layer", known)
    for name, counts in sorted(known.items()):
        print(f"{name:<44} {dict(counts)}", flush=True)
    for seed in range(1, args.presets + 1):
        report = presets(program, seed, where)
        for cut in report.get("program_cuts", []) if report else []:
            if cut["promises"] == "kept" and cut["layer"] in HONEST:
                word = "LOST" if cut["losing"] else "not cut" if not cut["cuts"] else "kept"
                kept[f"{cut['program']} in {cut['layer']}"][word] += 1
                wrong += word == "LOST"
        wrong += report is None
    wrong += args.presets > 0 and nothing_cut("preset", kept)
    for name, counts in sorted(kept.items()):
        print(f"{name:<44} {dict(counts)}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
