#!/usr/bin/env python3
"""Power cuts with many seeds: how often was each liar caught, and did an honest layer or a promise lose anything?

A unit is `layermark selftest durability` with one seed, without guests, for the first seeds also with all sequences of one
operation; or one preset with one seed, natively and in honest layers, whose programs may not lose what they promise to keep.
Each unit that is done is a line of the file --state, and is not done again by the same program with the same arguments: run
the script as often as there is time, each time for the time of --for. Prints a table of all lines, and ends with 1 if one is wrong, or if no power was cut at all.
"""

import argparse
import collections
import hashlib
import json
import os
import subprocess
import sys
import time

HONEST = ["native", "overlay:upper", "loop:ext4", "loop:xfs", "loop:btrfs", "fuse"]
LIARS = [
    "overlay:volatile", "ext4 mounted nobarrier", "write_cache overridden", "FUSE with an empty fsync",
    "FUSE that flushes 200 ms later", "FUSE that flushes every 2nd time", "FUSE that flushes no size",
    "FUSE that flushes no names",
]
PRESETS = ["sqlite", "postgres", "redis", "git", "rename", "copy", "dpkg"]
# What is wrong: a liar that was not caught, an honest layer that was convicted, a promise that was not kept.
WRONG = ["WRONG", "LOST", "FAILED"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"error": done.stderr[-600:]}
    if "error" in report:
        print("failed:", " ".join(command), report["error"], sep="\n", file=sys.stderr)
        return None
    return report


def known(program, seed, where, sequences):
    """Rows of the selftest: each layer, and whether it was judged as it is known."""
    only = [word for name in LIARS + HONEST for word in ("--only", name)]
    small = ["--cuts", "6", "--records", "8", "--seed", str(seed), "--dir", where, "--json"]
    command = [program, "selftest", "durability"] + small + only + (["--sequences", "1"] if sequences else [])
    report = run(command)
    if report is None:
        return {"the selftest": "FAILED"}
    words = {True: "as known", False: "WRONG", None: "not cut"}
    with_sequences = " under sequences" if sequences else ""
    return {
        f"{layer['known']}: {layer['name']}{with_sequences}": words[layer["as_expected"]] for layer in report["layers"]
    }


def preset(program, seed, where, name):
    """Rows of a preset: each program that promises something in each honest layer, and whether it kept that."""
    layers = [word for layer in HONEST for word in ("-l", layer)]
    small = "--time 500ms --cuts 4 --records 1 --blocks 8 --sessions 1 --no-control --json".split()
    report = run([program, "durability", "--seed", str(seed), "--dir", where, "--preset", name] + layers + small)
    if report is None:
        return {f"preset {name}": "FAILED"}
    rows = {}
    for cut in report.get("program_cuts", []):
        if cut["promises"] == "kept" and cut["layer"] in HONEST:
            unjudged = cut["unrecovered"] + cut["unchecked"] + cut.get("unjudged", 0)
            kept = "partly judged" if unjudged else "kept"
            seen = "LOST" if cut["losing"] else kept if cut["cuts"] else "not cut"
            rows[f"{cut['program']} in {cut['layer']}"] = seen
    return rows


def units(args):
    """All that is asked for, in the order in which it is done: something of each kind early."""
    for seed in range(1, max(args.runs, args.presets) + 1):
        if seed <= args.runs:
            yield f"selftest {seed}", lambda seed=seed: known(args.layermark, seed, args.dir, seed <= args.sequences)
        if seed <= args.presets:
            for name in PRESETS:
                yield f"{name} {seed}", lambda seed=seed, name=name: preset(args.layermark, seed, args.dir, name)


def done_before(path, how):
    """Lines of the same program and arguments. A line that was not written to its end is left out."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.endswith("}\n")]
    return [line for line in lines if line.get("how") == how]


def how(args):
    """The program and what its units depend on."""
    with open(args.layermark, "rb") as file:
        program = hashlib.file_digest(file, "sha256").hexdigest()
    return {"program": program, "sequences": args.sequences, "dir": os.path.abspath(args.dir)}


def seconds(text):
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return float(text[:-1]) * unit if unit else float(text)


def table(lines):
    counts = collections.defaultdict(collections.Counter)
    for line in lines:
        for name, word in line["rows"].items():
            counts[name][word] += 1
    for name, words in sorted(counts.items()):
        said = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
        print(f"| {name} | {said} |")
    return {word for words in counts.values() for word in words}


def main():
    of = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    of.add_argument("layermark", help="the program")
    of.add_argument("--runs", type=int, default=20, help="seeds of the selftest (default: 20)")
    of.add_argument("--sequences", type=int, default=1, help="the first of them with sequences (default: 1)")
    of.add_argument("--presets", type=int, default=20, help="seeds of the presets (default: 20)")
    of.add_argument("--for", dest="time", type=seconds, default=None, metavar="TIME", help="begin nothing after 30m, 2h")
    of.add_argument("--state", default="soak-durability.jsonl", help="what was done (default: %(default)s)")
    of.add_argument("--dir", default=".", help="where to work")
    args = of.parse_args()
    begun, of_this = time.monotonic(), how(args)
    lines = done_before(args.state, of_this)
    before = {line["unit"] for line in lines}
    left = 0
    for unit, work in units(args):
        if unit in before:
            continue
        if args.time is not None and time.monotonic() - begun > args.time:
            left += 1
            continue
        since = time.monotonic()
        line = {"how": of_this, "unit": unit, "rows": work(), "seconds": round(time.monotonic() - since, 1)}
        lines.append(line)
        # One that failed is tried again the next time.
        if "FAILED" not in line["rows"].values():
            with open(args.state, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    words = table(lines)
    total = sum(line["seconds"] for line in lines)
    print(f"{len(lines)} units in {total:.0f} s, {left} left", file=sys.stderr)
    if not words - {"not cut"}:
        sys.exit("no power was cut")
    sys.exit(1 if words & set(WRONG) else 0)


if __name__ == "__main__":
    main()
