#!/usr/bin/env python3
"""Power cuts with many seeds: how often was each liar caught, and did an honest layer or a promise lose anything?

A unit is `layermark selftest durability` with one seed, for the first seeds also with all sequences of one operation; or all
presets with one seed in all honest layers, of which the programs are run that promise to keep what they acknowledge. Each unit
that is done is a line of the file --state, with the program's version, and is not done again by the same program with the same
arguments: run the script as often as there is time, each time for the time of --for. Prints tables of all lines. Ends with 1
if a liar was not caught, an honest layer was convicted or a promise was broken, and if no power was cut at all.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
import tomllib

HONEST = ["native", "overlay:upper", "loop:ext4", "loop:xfs", "loop:btrfs", "fuse"]
LIARS = [
    "overlay:volatile", "ext4 mounted nobarrier", "write_cache overridden", "FUSE with an empty fsync",
    "FUSE that flushes 200 ms later", "FUSE that flushes every 2nd time", "FUSE that flushes no size",
    "FUSE that flushes no names", "vm:cache=unsafe",
]
# The liar of each report, in which a program has to lose something.
CONTROL = "overlay:volatile"
PRESETS = pathlib.Path(__file__).parent.parent / "crates/cli/src/commands/durability/presets"


def promising():
    """The presets, and those of their programs that promise to keep what they acknowledge."""
    presets = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(PRESETS.glob("*.toml"))}
    variants = [v for preset in presets.values() for v in preset["variant"]]
    return list(presets), [v["name"] for v in variants if v["promises"] == "kept"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"error": done.stderr[-600:]}
    if "error" in report or done.returncode == 130:
        print("failed:", " ".join(command), report.get("error", "it was stopped"), sep="\n", file=sys.stderr)
        return None
    return report


def most(rows, key):
    """Each writer counts the same cuts."""
    return max((row.get(key, 0) for row in rows), default=0)


def first(rows, *keys):
    return next((row[key] for key in keys for row in rows if row.get(key)), "")


def row(kind, name, layer, said, cuts):
    """What is said of a layer, by what, and the cuts that it rests on."""
    counts = {key: most(cuts, key) for key in ["cuts", "losing", "unrecovered", "unjudged", "unchecked", "cuts_ns"]}
    why = first(cuts, "uncut", "unrecovered_why", "unjudged_why", "unchecked_why")
    return {"kind": kind, "name": name, "layer": layer, "said": said, "why": why, **counts}


def known(program, seed, where, sequences):
    """Rows of the selftest: whether each layer was judged as it is known."""
    only = [word for name in LIARS + HONEST for word in ("--only", name)]
    small = ["--cuts", "6", "--records", "8", "--seed", str(seed), "--dir", where, "--json"]
    command = [program, "selftest", "durability"] + small + only + (["--sequences", "1"] if sequences else [])
    report = run(command)
    if report is None:
        return None
    by = "writers and sequences" if sequences else "writers"
    words = {True: "right", False: "WRONG", None: "open"}
    return [
        row(layer["known"], by, layer["name"], words[layer["as_expected"]], layer["trials"] + layer["sequences"])
        for layer in report["layers"]
    ]


def presets(program, seed, where):
    """Rows of the presets: whether each program kept what it promises in each honest layer, and lost it in the liar."""
    names, programs = promising()
    flags = [("--preset", names), ("--only", programs), ("-l", HONEST)]
    what = [word for flag, values in flags for value in values for word in (flag, value)]
    small = "--time 300ms --cuts 4 --records 1 --blocks 8 --sessions 1 --no-control --json".split()
    report = run([program, "durability", "--seed", str(seed), "--dir", where] + what + small)
    if report is None:
        return None
    rows = []
    for cut in report["program_cuts"]:
        is_liar = cut["layer"] == CONTROL
        lost = cut["losing"] > 0
        if not cut["cuts"]:
            said = "open"
        elif lost != is_liar or cut["lost_when_killed"] or cut.get("blind"):
            said = "WRONG"
        elif not lost and (cut["unrecovered"] + cut["unchecked"] + cut.get("unjudged", 0) or cut["ahead"] > 0.1 * cut["items"]):
            # Not judged, or not proved: a tenth of the lines was read late.
            said = "open"
        else:
            said = "right"
        rows.append(row("liar" if is_liar else "program", cut["program"], cut["layer"], said, [cut]))
    return rows


def units(args):
    """All that is asked for, in the order in which it is done: something of each kind early."""
    for seed in range(1, max(args.runs, args.presets) + 1):
        if seed <= args.runs:
            yield f"selftest {seed}", lambda seed=seed: known(args.layermark, seed, args.dir, seed <= args.sequences)
        if seed <= args.presets:
            yield f"presets {seed}", lambda seed=seed: presets(args.layermark, seed, args.dir)


def done_before(path, how):
    """Lines of the same program and arguments. A line that was not written to its end is left out."""
    if not os.path.exists(path):
        return []
    lines = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
    return [line for line in lines if line.get("how") == how]


def add(path, line):
    """Adds a line, behind one that was not written to its end as well."""
    with open(path, "a+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        begin = b"" if file.read() in (b"", b"\n") else b"\n"
        file.write(begin + json.dumps(line).encode() + b"\n")


def how(args):
    """The program and what its units depend on."""
    with open(args.layermark, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    version = subprocess.run([args.layermark, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return {"version": version, "sha256": digest, "sequences": args.sequences, "dir": os.path.abspath(args.dir)}


def seconds(text):
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return float(text[:-1]) * unit if unit else float(text)


def of(rows):
    """`20 of 20`, and what is left open."""
    words = collections.Counter(row["said"] for row in rows)
    text = f"{words['right']} of {words['right'] + words['WRONG']}"
    return text + (f", {words['open']} open" if words["open"] else "")


def tables(rows):
    """What was said of each layer, and of each program in each layer."""
    by = collections.defaultdict(list)
    for one in rows:
        by[one["kind"], one["name"], one["layer"]].append(one)
    writers = sorted({(kind, name) for kind, name, _ in by if name.startswith("writers")}, reverse=True)
    for kind, name in writers:
        word = {"liar": "caught", "honest": "acquitted"}[kind]
        print(f"\n| {kind} layer, by {name} | {word} | cuts with loss |\n| --- | --: | --: |")
        for layer in LIARS + HONEST:
            if found := by.get((kind, name, layer)):
                print(f"| {layer} | {of(found)} | {sum(r['losing'] for r in found)} of {sum(r['cuts'] for r in found)} |")
    programs = list(dict.fromkeys(name for kind, name, _ in by if kind == "program"))
    if programs:
        print(f"\n| kept in | {' | '.join(HONEST)} | caught in {CONTROL} |")
        print(f"| --- |{' --: |' * (len(HONEST) + 1)}")
        for name in programs:
            cells = [of(by["program", name, layer]) for layer in HONEST] + [of(by["liar", name, CONTROL])]
            print(f"| {name} | {' | '.join(cells)} |")
        print(f"\n| cuts a minute, with recovery and check | {' | '.join(HONEST)} |\n| --- |{' --: |' * len(HONEST)}")
        for name in programs:
            print(f"| {name} | {' | '.join(a_minute(by['program', name, layer]) for layer in HONEST)} |")


def a_minute(rows):
    ns = sum(row["cuts_ns"] for row in rows)
    return f"{sum(row['cuts'] for row in rows) * 60e9 / ns:,.0f}" if ns else ""


def counts(rows):
    """All cuts, and those that nobody could judge, with a reason of each kind."""
    print(f"\n{sum(r['cuts'] for r in rows)} cuts after which somebody looked", end="")
    kinds = [("unrecovered", "not set up again"), ("unjudged", "not judged: this machine's"), ("unchecked", "check failed")]
    for key, words in kinds:
        those = [r for r in rows if r[key]]
        why = f" ({those[0]['layer']}: {those[0]['why']})" if those else ""
        print(f"; {sum(r[key] for r in rows)} {words}{why}", end="")
    print()
    for one in rows:
        if one["said"] == "WRONG" or (one["said"] == "open" and not one["cuts"]):
            what = "WRONG" if one["said"] == "WRONG" else "not cut"
            print(f"{what}: {one['name']} in {one['layer']}: {one['losing']} of {one['cuts']} cuts lost {one['why']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layermark", help="the program")
    parser.add_argument("--runs", type=int, default=20, help="seeds of the selftest (default: 20)")
    parser.add_argument("--sequences", type=int, default=1, help="the first of them with sequences (default: 1)")
    parser.add_argument("--presets", type=int, default=20, help="seeds of the presets (default: 20)")
    parser.add_argument("--for", dest="time", type=seconds, default=None, metavar="TIME", help="begin nothing after 30m, 2h")
    parser.add_argument("--state", default="soak-durability.jsonl", help="what was done (default: %(default)s)")
    parser.add_argument("--dir", default=".", help="where to work")
    args = parser.parse_args()
    begun, of_this = time.monotonic(), how(args)
    lines = done_before(args.state, of_this)
    before = {line["unit"] for line in lines}
    left, failed = 0, 0
    for unit, work in units(args):
        if unit in before:
            continue
        if args.time is not None and time.monotonic() - begun >= args.time:
            left += 1
            continue
        since, load = time.monotonic(), os.getloadavg()[0]
        try:
            rows = work()
        except KeyboardInterrupt:
            rows, args.time = None, 0
        # It is tried again the next time.
        if rows is None:
            failed += 1
            continue
        line = {"how": of_this, "unit": unit, "rows": rows, "load": load, "seconds": round(time.monotonic() - since, 1)}
        lines.append(line)
        add(args.state, line)
    rows = [one for line in lines for one in line["rows"]]
    total, loads = sum(line["seconds"] for line in lines), [line["load"] for line in lines] or [0]
    print(f"{of_this['version']}, sha256 {of_this['sha256'][:12]}: {len(lines)} units in {total:.0f} s, {left} left, {failed} failed")
    print(f"load {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} CPUs")
    tables(rows)
    counts(rows)
    if not sum(one["cuts"] for one in rows):
        sys.exit("no power was cut")
    sys.exit(1 if failed or any(one["said"] == "WRONG" for one in rows) else 0)


if __name__ == "__main__":
    main()
