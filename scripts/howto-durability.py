#!/usr/bin/env python3
"""The figures of docs/src/howto/durability.md for SQLite, PostgreSQL and Redis.

usage: scripts/howto-durability.py LAYERMARK [--dir DIR] [--build WORDS] [--write]

Runs the commands that stand in the page and have --preset, and prints the table after each, with the sentence that says
where and when they were measured. With --write they take the place of those in the page. Prints what the reports say of
each program as well: the page may say nothing else.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys

PAGE = pathlib.Path(__file__).parent.parent / "docs/src/howto/durability.md"
# A command in a fence of its own, and the table after it.
MEASURED = re.compile(r"```sh\n(layermark durability --preset (\w+) [^\n]*)\n```\n\n((?:\|[^\n]*\n)+)")
SENTENCE = re.compile(r"Measured on .*?\n\n", re.DOTALL)
# Extents of a loss that need no number.
WHOLE = {"all": "loses all", "last": "loses the last one"}
ITEMS = {"sqlite": "transactions", "postgres": "transactions", "redis": "keys"}


def run(program, command, where):
    words = [program] + shlex.split(command)[1:] + ["--json", "--dir", where]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{command}: {done.stderr[-600:]}")
    if "error" in report:
        sys.exit(f"{command}: {report['error']}")
    return report


def said(cut, items):
    """What became of a program's items in a layer."""
    if cut.get("uncut") or not cut["cuts"]:
        return f"not cut: {cut.get('uncut') or 'nobody could look'}"
    open_cuts = cut["unrecovered"] + cut["unchecked"] + cut.get("unjudged", 0)
    if not cut["losing"]:
        late = cut["ahead"] > 0.1 * cut["items"]
        why = f"{cut['ahead']} of {cut['items']} lines were read late" if late else ""
        why = why or (f"{open_cuts} cuts are not judged" if open_cuts else "")
        return "loses nothing, *not proved*: " + why if why else "keeps all"
    if cut["extent"] in WHOLE:
        return WHOLE[cut["extent"]]
    return f"loses up to {cut['window_ns'] / 1e9:.2f} s, at most {cut['most_lost']:,} {items}"


def table(report, preset):
    cuts, items = report["program_cuts"], ITEMS[preset]
    layers = list(dict.fromkeys(cut["layer"] for cut in cuts))
    head = [f"`{preset}`", f"{items} in 3 s, native"] + [layer if layer == "native" else f"`{layer}`" for layer in layers]
    lines = [f"| {' | '.join(head)} |", "| --- | --: |" + " --- |" * len(layers)]
    for name in dict.fromkeys(cut["program"] for cut in cuts):
        of = {cut["layer"]: cut for cut in cuts if cut["program"] == name}
        count = of["native"]["items"]
        cells = [name.removeprefix(f"{preset} "), f"{count:,}"] + [said(of[layer], items) for layer in layers]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def speeds(report):
    """Cuts a minute in each layer, with recovery and the check."""
    of = {}
    for cut in report["program_cuts"]:
        cuts, ns = of.get(cut["layer"], (0, 0))
        of[cut["layer"]] = (cuts + cut["cuts"], ns + cut.get("cuts_ns", 0))
    return {layer: round(cuts * 60e9 / ns) for layer, (cuts, ns) in of.items() if ns}


def cpu():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layermark", help="the program")
    parser.add_argument("--dir", default=".", help="where to work: a directory on a disk")
    parser.add_argument("--build", default="", help="what the program is, such as `a build for tests`")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    args = parser.parse_args()
    page, loads = PAGE.read_text(encoding="utf-8"), [os.getloadavg()[0]]
    found = list(MEASURED.finditer(page))
    if {match[2] for match in found} != set(ITEMS):
        sys.exit(f"{PAGE}: a command and a table for each of {', '.join(ITEMS)}")
    a_minute = {}
    for match in found:
        report = run(args.layermark, match[1], args.dir)
        loads.append(os.getloadavg()[0])
        made = table(report, match[2])
        all_speeds = speeds(report)
        a_minute[match[2]] = all_speeds.get("native", 0)
        said_speeds = ", ".join(f"{layer} {speed:,}" for layer, speed in all_speeds.items())
        print(f"{match[1]}\n\n{made}\n{report['headline']}\ncuts a minute: {said_speeds}\n")
        page = page.replace(match[3], made, 1)
    natively = ", ".join(f"{speed:,} of `{preset}`" for preset, speed in a_minute.items())
    today, build = datetime.date.today(), f", with {args.build}" if args.build else ""
    sentence = (
        f"Measured on {today.day} {today:%B %Y} by `scripts/howto-durability.py`, on a virtual machine with {os.cpu_count()} CPUs\n"
        f"({cpu()}, Linux {platform.release()}) whose load was {min(loads):.1f} to {max(loads):.1f}{build}. Times and numbers are\n"
        "those of this run. At most 10,000 items are read of a program, which is then stopped. Natively so many cuts a minute were\n"
        f"recovered and checked: {natively}.\n\n"
    )
    print(sentence)
    if args.write:
        page, many = SENTENCE.subn(sentence, page, count=1)
        if not many:
            sys.exit(f"{PAGE}: no sentence that begins with `Measured on`")
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
