#!/usr/bin/env python3
"""How often `layermark fleet check` names a host that was made slower, and how often it names one of three good ones.

usage: scripts/soak-fleet.py BIN [--checks 20] [--slow 10] [--plant syscalls|quota] [--kinds clean,planted]
           [--delta 5%] [--budget 25s] [--point POINT]... [--dir DIR]

Three hosts of this machine take turns. One of them is planted:
  syscalls  each of its system calls runs a filter of so many instructions that its operations take --slow % longer.
            The length is found by checks before the count begins.
  quota     its processes have a CPU quota (cgroup v2) of 100 - --slow % of one CPU.
--delta has to be below --slow: a check does not mention a smaller difference. A line for each check is printed as it
ends, then the tally. Nothing else should run: the load is printed beside each check.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

HOSTS = ["n1", "n2", "n3"]
SLOW = "n2"
# The longest filter of the kernel, and most instructions of all filters of a process, with room for their own cost.
LONGEST, MOST = 4096, 30000


def filters(length):
    """Instructions that load an argument again and again, so that the kernel cannot know the answer beforehand."""
    load, allow = struct.pack("HBBI", 0x20, 0, 0, 16), struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    while length > 0:
        part = min(length, LONGEST - 1)
        yield load * part + allow
        length -= part


def plant(length):
    """Gives this process, and all that it starts, filters of so many instructions."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    for code in filters(length):
        kept = ctypes.create_string_buffer(code, len(code))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)), 16)
        if libc.prctl(22, 2, program, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
            raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def start(words):
    """The launcher of one host: HOST HOW COMMAND..."""
    host, how, command = words[0], words[1], words[2:]
    kind, _, value = how.partition("=")
    if host == SLOW and kind == "syscalls" and int(value):
        plant(int(value))
    if host == SLOW and kind == "quota":
        pathlib.Path(value, "cgroup.procs").write_text(str(os.getpid()))
    os.execvp(command[0], command)


def check(options, how):
    """Words of the hosts, and the planted host's ratio: the median over its results."""
    with tempfile.TemporaryDirectory(prefix="layermark-soak-", dir=options.dir) as home:
        launcher = f"{sys.executable} {os.path.abspath(__file__)} --host {{host}} {how}"
        command = [options.bin, "fleet", "check", "--launcher", launcher, "--hosts", ",".join(HOSTS), "--dir", home]
        command += ["--json", "--budget", options.budget, "--delta", options.delta]
        for point in options.point:
            command += ["--point", point]
        env = {**os.environ, "XDG_DATA_HOME": os.path.join(home, "data")}
        said = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if said.returncode not in (0, 1):
        sys.exit(f"rc {said.returncode}: {said.stderr}")
    answer = json.loads(said.stdout)
    words = {host["name"]: host["word"] for host in answer["hosts"]}
    if set(words) != set(HOSTS) or "lost" in words.values():
        sys.exit(f"a host is lost: {answer['hosts']}")
    results = (answer.get("compared") or {}).get("results", [])
    ratios = [of["ratio"]["estimate"] for result in results for of in result["runs"][1:2] if of.get("ratio")]
    return words, statistics.median(ratios) if ratios else float("nan")


def calibrated(options):
    """Instructions that make operations of the planted host take --slow % longer."""
    length = 400
    for _ in range(3):
        _, ratio = check(options, f"syscalls={length}")
        print(f"{length} instructions: {100 * (ratio - 1):+.1f} %", flush=True)
        length = round(min(MOST, max(20, length * options.slow / 100 / max(ratio - 1, 0.005))))
    return length


def cgroup(options):
    """A control group with a CPU quota."""
    root = pathlib.Path("/sys/fs/cgroup")
    if (root / "unified").is_dir():
        root /= "unified"
    (root / "cgroup.subtree_control").write_text("+cpu")
    group = pathlib.Path(tempfile.mkdtemp(prefix="layermark-soak-", dir=root))
    (group / "cpu.max").write_text(f"{1000 * (100 - options.slow)} 100000")
    return group


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=os.path.abspath)
    parser.add_argument("--checks", type=int, default=20)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--plant", choices=["syscalls", "quota"], default="syscalls")
    parser.add_argument("--kinds", default="clean,planted")
    parser.add_argument("--delta", default="5%")
    parser.add_argument("--budget", default="25s")
    parser.add_argument("--point", action="append", default=[])
    parser.add_argument("--dir", default="/var/tmp")
    options = parser.parse_args()
    how = {"clean": "syscalls=0"}
    group = None
    kinds = options.kinds.split(",")
    if "planted" in kinds and options.plant == "quota":
        group = cgroup(options)
        how["planted"] = f"quota={group}"
    elif "planted" in kinds:
        how["planted"] = f"syscalls={calibrated(options)}"
    tallies = []
    try:
        for kind in kinds:
            good, ratios = 0, []
            for number in range(1, options.checks + 1):
                words, ratio = check(options, how[kind])
                named = sorted(host for host, word in words.items() if word == "odd")
                good += named == ([SLOW] if kind == "planted" else [])
                ratios.append(ratio)
                load = os.getloadavg()[0]
                print(f"{kind} {number}: odd {named or 'none'}, {SLOW} {100 * (ratio - 1):+.1f} %, load {load:.1f}, {words}", flush=True)
            wanted = f"{SLOW}, and no other, was named" if kind == "planted" else "no host was named"
            spread = f"{100 * (min(ratios) - 1):+.1f} to {100 * (max(ratios) - 1):+.1f} %" if ratios else "not known"
            tallies.append(f"{kind} ({how[kind].split('=')[0]}): {wanted} in {good} of {options.checks}; {SLOW} was {spread}")
    finally:
        if group:
            group.rmdir()
    print("\n".join(tallies))


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--host":
        start(sys.argv[2:])
    main()
