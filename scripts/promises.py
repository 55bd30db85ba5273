#!/usr/bin/env python3
"""The promises of README.md and docs/src/security.md, each with the tests that guard it.

usage: scripts/promises.py --table    prints them as Markdown, a page of the book (`make docs`)
       scripts/promises.py --check    prints each fault; exit code 1 if there is one

A promise is a bullet, a row of a table, a paragraph, or a line of shell with a comment, below a heading; a list after
"Not promised:" is none. A table with a column `test` names the tests of its rows, each by the end of its path. Those of
all others are in tests/promises.toml, whose head says how. They are looked for in the sources, and nothing is compiled.
So are the end-to-end tests that `make check` takes, in .config/nextest.toml, and those that `make test` leaves to
`make soak`, among which no promise may have its guard.
"""
import re
import signal
import sys
import tomllib
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DATA = "tests/promises.toml"
CHECKED = ".config/nextest.toml"
PAGES = ("README.md", "docs/src/security.md")
OTHERS = ("Not promised", "Reporting a fault")


class Promise(NamedTuple):
    page: str
    line: int
    heading: str
    text: str
    table: str = ""  # the head of the table that it is a row of
    tests: list[str] | None = None  # as the page names them, or None where the data file has to


def read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[tuple[int, str, str, list[str]]]:
    """First line, heading, kind (text, bullet, table, code) and lines of each block."""
    heading, kind, start, lines = "", "", 0, []
    for number, line in enumerate(read(page).splitlines() + [""], 1):
        if kind == "code" or line.startswith("```"):
            begins = ("end" if kind == "code" else "code") if line.startswith("```") else ""
        elif line.startswith("#") or not line.strip():
            begins = "end"
        elif re.match(r" *- ", line):
            begins = "bullet"
        elif line.startswith("|"):
            begins = "" if kind == "table" else "table"
        else:
            begins = "" if kind else "text"
        if begins:
            if kind:
                yield start, heading, kind, lines
            kind, start, lines = begins.removeprefix("end"), number, []
            heading = line[3:] if line.startswith("## ") else heading
        lines.append(line)


def rows(page: str, start: int, heading: str, lines: list[str]) -> Iterator[Promise]:
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    head, above = cells[0], []
    # What stands behind a promise, such as the attack that it withstands, is none of its text.
    end = head.index("promise") + 1 if "promise" in head else [*head, "test"].index("test")
    for number, row in enumerate(cells[2:], start + 2):
        text, said = ": ".join(filter(None, row[:end])), dict(zip(head, row)).get("test", "")
        # A flag says where a test is.
        tests = above if said == "all of the above" else re.findall(r"`([^`-][^`]*)`", said)
        above = above + [test for test in tests if test not in above]
        yield Promise(page, number, heading, text, ": ".join(head), tests if "test" in head else None)


def promises(page: str) -> Iterator[Promise]:
    promised, last = True, ""
    for start, heading, kind, lines in blocks(page):
        text = " ".join(" ".join(lines).split())
        if kind != "bullet" or heading != last:
            promised, last = text != "Not promised:", heading
        if not heading or heading in OTHERS or not promised:
            continue
        if kind == "table":
            yield from rows(page, start, heading, lines)
        elif kind == "code":
            for number, line in enumerate(lines[1:], start + 1):
                if lines[0] == "```sh" and " # " in line:
                    yield Promise(page, number, heading, " ".join(line.split()))
        else:
            yield Promise(page, start, heading, text.removeprefix("- "))


def functions(source: str) -> Iterator[str]:
    """Tests of a file, each with the modules of the file that it is in."""
    inside, marked = [], False
    for line in source.splitlines():
        indent, line = len(line) - len(line.lstrip()), line.strip()
        if inside and line.startswith("}") and indent == inside[-1][0]:
            inside.pop()
        elif found := re.match(r"(?:pub(?:\(\w+\))? )?mod (\w+) \{", line):
            inside.append((indent, found[1]))
        elif found := re.match(r"(?:async )?fn (\w+)", line):
            if marked:
                yield "::".join([name for _, name in inside] + [found[1]])
            marked = False
        marked = (marked or line == "#[test]") and not line.startswith("#[ignore")
    # Of a macro, which may put them into modules of its own.
    for names in re.findall(r"^\w+!\(([\w\s,]+)\);", source, re.M):
        yield from (f"*::{name}" for name in re.findall(r"\w+", names))


class Tests:
    """All Rust tests, by program and path as cargo-nextest names them."""
    def __init__(self) -> None:
        self.all: set[tuple[str, str]] = set()
        self.own: dict[str, str] = {}  # sources of programs that run their tests themselves
        for manifest in ROOT.glob("crates/*/Cargo.toml"):
            told, crate = tomllib.loads(read(manifest)), manifest.parent
            name, src = told["package"]["name"], crate / "src"
            self.add(name if (src / "lib.rs").exists() else f"{name}::bin/{name}", src, False)
            own = [test["name"] for test in told.get("test", ()) if test.get("harness") is False]
            for path in crate.glob("tests/*"):
                self.add(f"{name}::{path.stem}", path, path.stem in own)

    def add(self, program: str, path: Path, own: bool) -> None:
        files = sorted(path.rglob("*.rs")) if path.is_dir() else [path] * (path.suffix == ".rs")
        if own:
            self.own[program] = "".join(map(read, files))
        for file in () if own else files:
            modules = [*file.with_suffix("").relative_to(path.with_suffix("")).parts]
            if modules and modules[-1] in ("mod", "main", "lib"):
                modules.pop()
            self.all |= {(program, "::".join([*modules, test])) for test in functions(read(file))}

    def ending(self, end: str) -> list[str]:
        """Whole names of what a page names by the end of its path."""
        found = [f"{program} {path}" for program, path in sorted(self.all) if f"::{path}".endswith(f"::{end}")]
        return found or [end] * self.has(end)

    def has(self, name: str) -> bool:
        first, _, rest = name.partition(" ")
        if first == "make":
            return f"\n{rest}: " in read("Makefile")
        if "/" in first and (ROOT / first).is_file():
            # A script, or a file of the browser's tests with the name of one.
            return not rest or f"test('{rest}'" in read(first)
        if first in self.own:
            # A function, or a kind of check and the layer that it is made in, if not in every one.
            source = self.own[first]
            return bool(rest) and all(f'"{word}"' in source or f"fn {word}(" in source for word in rest.split(" ", 1))
        return not self.all.isdisjoint({(first, rest), (first, re.sub(r"\b\w+::(\w+)$", r"*::\1", rest))})


def guarded() -> tuple[list[tuple[Promise, list[str]]], list[str]]:
    """Each promise with its tests, and what is wrong."""
    tests, data, found, faults = Tests(), tomllib.loads(read(DATA)), [], []
    entries = {(page, at, begin): told[begin] for page in data for at, told in data[page].items() for begin in told}
    unused = set(entries)
    for promise in (promise for page in PAGES for promise in promises(page)):
        where = f"{promise.page}:{promise.line}"
        if promise.tests is not None:
            ends = {end: tests.ending(end) for end in promise.tests}
            names = sum(ends.values(), [])
            faults += [f"{where}: {len(ends[end])} tests have the name {end}" for end in ends if len(ends[end]) != 1]
        else:
            here = {entry for entry in entries if entry[:2] == (promise.page, promise.heading)}
            whole = {entry for entry in here if promise.table.startswith(entry[2])}
            own = whole | {entry for entry in here if promise.text.startswith(entry[2])}
            if len(own) > 1 or not own <= unused | whole:
                faults.append(f"{where}: needs one entry in {DATA}, which no other begins with: {promise.text}")
            unused -= own
            names = next((entries[entry] for entry in own), [])
            if isinstance(names, str):
                continue
            faults += [f"{where}: there is no test {name}" for name in names if not tests.has(name)]
        if not names:
            faults.append(f"{where}: no test guards: {promise.text}")
        found.append((promise, names))
    faults += [f"{CHECKED}: there is no test {name}" for name in re.findall(r"test\(=(\w+::[\w:]+)\)", read(CHECKED))
               if not tests.has(f"layermark::e2e {name}")]
    faults += left_out(tests, found)
    return found, faults + [f"{DATA}: nothing begins so: {': '.join(entry)}" for entry in sorted(unused)]


def left_out(tests: Tests, found: list[tuple[Promise, list[str]]]) -> Iterator[str]:
    """What is wrong with the tests that only `make soak` runs."""
    words = tomllib.loads(read(CHECKED))["profile"]["default"]["default-filter"]
    for like in re.findall(r"not test\(/(.+?)/\)\n", words):
        if not any(re.search(like, path) for _, path in tests.all):
            yield f"{CHECKED}: there is no test like {like}"
        for promise, names in found:
            guards = [test for test in names if re.search(like, test.partition(" ")[2])]
            yield from (f"{CHECKED}: `make test` leaves out {test}, which guards: {promise.text}" for test in guards)


def main() -> int:
    if sys.argv[1:] not in (["--table"], ["--check"]):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    found, faults = guarded()
    if sys.argv[1] == "--check":
        print("".join(f"promises: {fault}\n" for fault in faults), end="")
        return min(len(faults), 1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print("# Promises and their tests\n\nWhat README.md and docs/src/security.md promise, and the tests that guard each. A "
          "promise without a test fails\n`make lint`.")
    last = None
    for promise, names in found:
        if (promise.page, promise.heading) != last:
            last = promise.page, promise.heading
            print(f"\n## {': '.join(last)}\n\n| promise | tests |\n| --- | --- |")
        # Links are relative to the page that has the promise.
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"(?<!\\)\|", r"\|", promise.text))
        print(f"| {text} | {', '.join(f'`{name}`' for name in names)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
