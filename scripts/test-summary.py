#!/usr/bin/env python3
"""Sums up test runs of cargo-nextest: how many, the ten slowest, why tests were skipped, and which were flaky.

A flaky test failed and passed when it was run again, which only CI does. tests/flaky.txt counts how often: a line
`NAME TIMES DATE`, at most five of them. A test that was flaky twice is mended before other work.

usage: scripts/test-summary.py JUNIT...     prints the summary
       scripts/test-summary.py --check      exit code 1 if tests/flaky.txt asks for work
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

FLAKY = Path(__file__).resolve().parent.parent / "tests" / "flaky.txt"
MOST_LINES, MOST_TIMES = 5, 1


def known():
    """How often each test in tests/flaky.txt was flaky."""
    lines = FLAKY.read_text(encoding="utf-8").splitlines() if FLAKY.exists() else []
    rows = [line.rsplit(maxsplit=2) for line in lines if line and not line.startswith("#")]
    return {name: int(times) for name, times, _date in rows}


def check():
    """Faults of tests/flaky.txt, one a line."""
    times = known()
    if len(times) > MOST_LINES:
        yield f"tests/flaky.txt has {len(times)} tests, at most {MOST_LINES} may wait to be mended"
    for name, count in times.items():
        if count > MOST_TIMES:
            yield f"{name} was flaky {count} times: mend it before other work, and remove its line from tests/flaky.txt"


def summary(paths):
    """The lines of the summary."""
    times, skipped, flaky, failed = [], Counter(), {}, []
    for path in paths:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            for case in suite.iter("testcase"):
                name = f"{suite.get('name')} {case.get('name')}"
                times.append((float(case.get("time", 0)), name))
                text = "".join(case.itertext())
                skipped.update(re.findall(r"^skipped: (.*)$", text, re.MULTILINE))
                again = case.find("flakyFailure")
                if again is not None:
                    flaky[name] = "".join(again.itertext()) + (again.get("message") or "")
                if case.find("failure") is not None:
                    failed.append(name)
    seconds = sum(time for time, _ in times)
    yield f"{len(times)} tests, {seconds:.0f} s of all together; slowest:"
    yield from (f"{time:7.1f} s  {name}" for time, name in sorted(times, reverse=True)[:10])
    yield from (f"skipped: {why}" + (f" ({n} tests)" if n > 1 else "") for why, n in sorted(skipped.items()))
    before = known()
    for name, why in flaky.items():
        count = before.get(name, 0) + 1
        yield f"flaky: {name} (so far {count} times; count it in tests/flaky.txt)"
        yield from (f"why: {line}" for line in why.splitlines()[:25] if line.strip())
    yield from (f"failed: {name}" for name in failed)


def main(args):
    if args == ["--check"]:
        faults = list(check())
        for fault in faults:
            print(f"flaky: {fault}")
        return 1 if faults else 0
    if not args:
        print(__doc__, file=sys.stderr)
        return 2
    for line in summary([path for path in args if Path(path).exists()]):
        print(line)
    return 0


sys.exit(main(sys.argv[1:]))
