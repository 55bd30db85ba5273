#!/usr/bin/env python3
"""Makes a wheel of an installed tree, so that pip and uvx give the command, and Python the reader of reports
(`python/layermark`). Nothing is compiled.

usage: SOURCE_DATE_EPOCH=SECONDS scripts/wheel.py TREE DIR VERSION ARCH SUMMARY LEVEL
"""
import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

# A static binary needs no libc of the machine, so it runs on both families of Linux.
TAGS = ("manylinux_2_17_{0}", "musllinux_1_1_{0}")


def main() -> None:
    tree, out = Path(sys.argv[1]), Path(sys.argv[2])
    version, arch, summary = sys.argv[3:6]
    platforms = [tag.format(arch) for tag in TAGS]
    info = f"layermark-{version}.dist-info"
    data = f"layermark-{version}.data"
    licences = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.txt"]
    files: dict[str, bytes] = {}
    doc = tree / "share/doc/layermark"
    # The files of `doc` have their own directories in a wheel.
    for path in sorted(p for p in tree.rglob("*") if p.is_file() and p.parent != doc):
        inside = path.relative_to(tree).as_posix()
        where = "scripts/" + path.name if inside.startswith("bin/") else "data/" + inside
        files[f"{data}/{where}"] = path.read_bytes()
    package = Path(__file__).parent.parent / "python/layermark"
    for path in sorted(p for p in package.iterdir() if p.suffix in {".py", ".typed"}):
        files[f"layermark/{path.name}"] = path.read_bytes()
    for name in licences:
        files[f"{info}/licenses/{name}"] = (doc / name).read_bytes()
    files[f"{info}/sboms/layermark.cdx.json"] = (doc / "layermark.cdx.json").read_bytes()
    head = [
        "Metadata-Version: 2.4",
        "Name: layermark",
        f"Version: {version}",
        f"Summary: {summary}",
        "License-Expression: MIT OR Apache-2.0",
        *(f"License-File: {name}" for name in licences),
        # Of the reader; the command needs no Python.
        "Requires-Python: >=3.9",
        "Provides-Extra: pandas",
        'Requires-Dist: pandas; extra == "pandas"',
        "Classifier: Environment :: Console",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Topic :: System :: Benchmark",
        "Description-Content-Type: text/markdown",
    ]
    readme = (doc / "README.md").read_text(encoding="utf-8")
    files[f"{info}/METADATA"] = ("\n".join(head) + "\n\n" + readme).encode()
    tags = "".join(f"Tag: py3-none-{p}\n" for p in platforms)
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: layermark\nRoot-Is-Purelib: false\n{tags}".encode()
    record = "".join(f"{name},{digest(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = out / f"layermark-{version}-py3-none-{'.'.join(platforms)}.whl"
    write(wheel, files, f"{data}/scripts/", int(sys.argv[6]))


def digest(content: bytes) -> str:
    packed = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + packed.rstrip(b"=").decode()


def write(wheel: Path, files: dict[str, bytes], programs: str, level: int) -> None:
    # ZIP has no time before 1980.
    moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as out:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.startswith(programs) else 0o100644) << 16
            out.writestr(entry, content)


main()
