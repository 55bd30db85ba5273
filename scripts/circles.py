#!/usr/bin/env python3
"""Lists circles of files: files of a crate that need one another. Tests are left out.

Usage: scripts/circles.py [CRATE]...    by default all in crates/
       scripts/circles.py --check       fails if a crate has more than it may have
"""

import pathlib
import re
import sys

# Circles that there are. A crate that is not named has none.
MOST = {"cli": 2, "import": 1, "report": 1, "store": 1}


def module(path):
    """The path of a file's module, such as ('run', 'team')."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def expand(text):
    """Paths of a `use` tree: a::{b, c::{d, e}} is a::b, a::c::d, a::c::e."""
    found = re.fullmatch(r"([^{]*)\{(.*)\}", text, re.S)
    if not found:
        return [text]
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(found[2]):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            parts.append(found[2][start:at])
            start = at + 1
    parts.append(found[2][start:])
    return [found[1] + path for part in parts if part.strip() for path in expand(part.strip())]


def uses(source, own):
    """Absolute paths of what a file uses of its own crate."""
    source = source.split("#[cfg(test)]")[0]
    source = re.sub(r"//.*", "", source)
    trees = re.findall(r"\buse\s+((?:crate|self|super)\b[^;]*);", source)
    paths = [path for tree in trees for path in expand(re.sub(r"\s+", " ", tree))]
    paths += re.findall(r"\b((?:crate|self|super)(?:::\w+)+)", re.sub(r"\buse\s[^;]*;", "", source))
    for path in paths:
        parts, at = [p.strip() for p in path.split(" as ")[0].split("::")], list(own)
        while parts and parts[0] in ("crate", "self", "super"):
            first = parts.pop(0)
            at = [] if first == "crate" else at[:-1] if first == "super" else at
        yield tuple(at + parts)


def graph(root):
    """The files of a crate, and those that each one uses."""
    paths = [p for p in root.rglob("*.rs") if p.stem != "tests" and "tests" not in p.relative_to(root).parts]
    files = {module(p.relative_to(root)): p for p in paths}
    arrows = {}
    for own, path in files.items():
        arrows[own] = set()
        for used in uses(path.read_text(), own):
            while used not in files and used:
                used = used[:-1]
            # An item of an enclosing module may be one that it only passes on, so only modules count.
            if used in files and used != own and used != ():
                arrows[own].add(used)
    return files, arrows


def circles(arrows):
    """Strongly connected components of several files (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(at):
        index[at] = low[at] = len(index)
        stack.append(at)
        for to in arrows[at]:
            if to not in index:
                visit(to)
            if to in stack:
                low[at] = min(low[at], low[to])
        if low[at] == index[at]:
            members = []
            while not members or members[-1] != at:
                members.append(stack.pop())
            if len(members) > 1:
                found.append(sorted("/".join(m) for m in members))

    for at in arrows:
        if at not in index:
            visit(at)
    return found


def main():
    top = pathlib.Path(__file__).parent.parent / "crates"
    check = sys.argv[1:] == ["--check"]
    names = sys.argv[1:] if not check else []
    total, failed, read = 0, False, 0
    for name in names or sorted(p.name for p in top.iterdir() if (p / "src").is_dir()):
        files, arrows = graph(top / name / "src")
        read += sum(map(len, arrows.values()))
        found = sorted(circles(arrows), key=len)
        total += len(found)
        if check and len(found) <= MOST.get(name, 0):
            continue
        for members in found:
            print(f"{name}: {len(members)} files: {' '.join(members)}")
        if check:
            failed = True
            print(f"error: {name} has {len(found)} circles of files, and may have {MOST.get(name, 0)}")
            print("hint: move what both files need into a file of its own")
    if not read:
        sys.exit("error: no file uses another one: nothing was read")
    if not check:
        print(f"{total} circles")
    sys.exit(failed)


if __name__ == "__main__":
    main()
