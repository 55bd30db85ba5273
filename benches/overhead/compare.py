#!/usr/bin/env python3
"""CPU time an operation of the probe, every operation timed and recorded, against bare.c.

Usage: compare.py BARE PROBE... [-- ROUNDS]     (about 40 s with the default of 25 rounds)
BARE is the compiled bare.c; PROBE is the command that speaks the probe's protocol, such as
`target/release/layermark probe`. Both read the same cached file on a tmpfs, in turn, at 4 KiB and
32 bytes. Printed for each: the median of the rounds' ratios (user + system CPU time), the medians
in nanoseconds, and the limit; exit code 1 where a limit is not held.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

LIMITS = {4096: 1.05, 32: 1.10}
SIZE = 4 << 20
SECONDS = 0.12


def bare(program, path, record, *how):
    line = subprocess.run(
        [program, path, str(record), str(SECONDS), *how], check=True, capture_output=True, text=True
    ).stdout
    return float(dict(part.split("=") for part in line.split())["cpu_ns"])


class Probe:
    def __init__(self, command, directory):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.directory = directory
        self.id = 0
        self.hello = self.hear()

    def hear(self):
        while True:
            event = json.loads(self.process.stdout.readline())
            if event["type"] == "error":
                sys.exit(f"probe: {event['message']}")
            if event["type"] != "progress":
                return event

    def say(self, event):
        self.process.stdin.write(json.dumps(event) + "\n")
        self.process.stdin.flush()

    def trial(self, record, engine, latency):
        self.id += 1
        params = {
            "op": "read", "record": record, "file_size": SIZE, "threads": 1, "sync": "none", "cache": "warm",
            "direct": False, "engine": engine, "passes": 0, "verify": False, "latency": latency, "pattern": "random",
        }
        self.say({
            "type": "job", "id": self.id, "dir": self.directory, "seed": 1, "min_ms": int(SECONDS * 1000),
            "min_ops": 200, "devices": [], "point": {"workload": "file", "label": "bench", "params": params},
        })
        self.hear()
        self.say({"type": "go", "id": self.id})
        trial = self.hear()["trial"]
        ops = sum(p["ops"] for p in trial["passes"])
        return (trial["cpu"]["user_ns"] + trial["cpu"]["sys_ns"]) / ops


def main():
    arguments = sys.argv[1:]
    rounds = 25
    if "--" in arguments:
        at = arguments.index("--")
        rounds = int(arguments[at + 1])
        arguments = arguments[:at]
    if len(arguments) < 2:
        sys.exit(__doc__)
    program, command = arguments[0], arguments[1:]
    failed = False
    # Both on one CPU: where the scheduler puts them is not what is compared.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.mkdir(f"{directory}/packaged")
        path = f"{directory}/packaged/data-{SIZE}-0"
        with open(path, "wb") as out:
            out.write(os.urandom(SIZE))
        probe = Probe(command, directory)
        cost = probe.hello["self_test"]
        print(f"clock {cost['clock_ns']:.1f} ns, loop {cost['loop_ns']:.1f} ns, null {cost['null_ns']:.1f} ns")
        for record, limit in LIMITS.items():
            ways = {"recorded": ("pread", True), "no latency": ("pread", False)}
            ratios = {way: [] for way in ways}
            costs = {way: [] for way in ways}
            base, libc = [], []
            for _ in range(rounds):
                base.append(bare(program, path, record))
                libc.append(bare(program, path, record, "libc"))
                for way, how in ways.items():
                    costs[way].append(probe.trial(record, *how))
                # The bare loop on both sides, so that drift in a round cancels.
                around = (base[-1] + bare(program, path, record)) / 2
                for way in ways:
                    ratios[way].append(costs[way][-1] / around)
            for way in ways:
                ratio = statistics.median(ratios[way])
                line = (f"{record:5} bytes, {way:10}: {ratio:.3f} x bare ({statistics.median(costs[way]):.0f} ns"
                        f" against {statistics.median(base):.0f} ns CPU an operation)")
                if way == "recorded":
                    held = ratio <= limit
                    failed |= not held
                    line += f", limit {limit:.2f}: {'held' if held else 'NOT HELD'}"
                print(line, flush=True)
            print(f"{record:5} bytes, bare loop through the C library: {statistics.median(libc):.0f} ns", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
