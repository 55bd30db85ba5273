#!/usr/bin/env python3
"""Writes what a layermark binary is made of: a bill of materials (CycloneDX 1.6) and the licences of others.

usage: SOURCE_DATE_EPOCH=SECONDS scripts/bill.py BIN TARGET DIR
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INTRO = """layermark contains the work of others, under the licences below: the Rust crates listed here, SQLite (public
domain), Rust's standard library (MIT OR Apache-2.0) and the GNU C Library (LGPL-2.1-or-later; linked
statically: relink layermark from its sources with another one by `make build`). Charts have letters of DejaVu Sans.
"""


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def crates(target: str) -> tuple[dict, dict]:
    """The crates that are in a binary for this target by their id, and those that each of them uses."""
    # `cargo metadata` has the features of the whole workspace including tests, `cargo tree` only those of the binary.
    # So this lists fewer crates than cargo-cyclonedx, which includes sqlx's drivers of unused databases.
    tree = run("cargo", "tree", "--locked", "-p", "layermark", "-e", "normal,no-proc-macro", "--target", target, "--prefix", "none", "-f", "{p}")
    inside = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    known = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    found = {p["id"]: p for p in known["packages"] if (p["name"], "v" + p["version"]) in inside}
    uses = {}
    for node in known["resolve"]["nodes"]:
        if node["id"] in found:
            normal = (d["pkg"] for d in node["deps"] if any(k["kind"] is None for k in d["dep_kinds"]))
            uses[node["id"]] = sorted(purl(found[i]) for i in normal if i in found)
    return found, uses


def purl(crate: dict) -> str:
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def licence(crate: dict) -> str:
    return (crate["license"] or "see its licence file").replace("/", " OR ")


def component(crate: dict, sums: dict) -> dict:
    made = {
        "type": "library",
        "bom-ref": purl(crate),
        "name": crate["name"],
        "version": crate["version"],
        "purl": purl(crate),
        "licenses": [{"expression": licence(crate)}] if crate["license"] else [{"license": {"name": licence(crate)}}],
    }
    if found := sums.get((crate["name"], crate["version"])):
        made["hashes"] = [{"alg": "SHA-256", "content": found}]
    if crate["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    return made


def bill(binary: Path, found: dict, uses: dict) -> dict:
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    entry = r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"'
    sums = {(name, version): checksum for name, version, checksum in re.findall(entry, lock)}
    linked = binary.read_bytes()
    content = hashlib.sha256(linked).hexdigest()
    # What `ldd --version` of the library prints is in each program that it is linked to.
    libc = re.search(rb"GNU C Library .*? version ([0-9.]+[0-9])", linked)
    own = next(c for c in found.values() if c["name"] == "layermark")
    product = {**component(own, {}), "type": "application", "hashes": [{"alg": "SHA-256", "content": content}]}
    # Added by the linker; not crates.
    others = [("rust-std", run("rustc", "--version").split()[1], "MIT OR Apache-2.0"),
              ("glibc", libc[1].decode() if libc else "unknown", "LGPL-2.1-or-later")]
    extra = [{"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version,
              "licenses": [{"expression": terms}]} for name, version, terms in others]
    refs = [e["bom-ref"] for e in extra]
    depends = [{"ref": purl(found[i]), "dependsOn": on + (refs if found[i] is own else [])} for i, on in uses.items()]
    moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment), "component": product},
        "components": [component(c, sums) for c in by_name(found) if c is not own] + extra,
        "dependencies": sorted(depends, key=lambda d: d["ref"]) + [{"ref": ref} for ref in refs],
    }


def by_name(found: dict) -> list:
    return sorted(found.values(), key=lambda c: (c["name"], c["version"]))


def notices(found: dict) -> str:
    """Each crate with its licence, then each licence text once, with the crates it came with."""
    others = [c for c in by_name(found) if c["source"]]
    texts: dict[str, list[str]] = {}
    for crate in others:
        folder = Path(crate["manifest_path"]).parent
        files = (f for f in sorted(folder.iterdir()) if f.is_file() and re.match(r"(?i)(un)?licen[cs]e|copying|notice", f.name))
        for text in {f.read_text(encoding="utf-8", errors="replace").strip() for f in files}:
            texts.setdefault(text, []).append(f"{crate['name']} {crate['version']}")
    listed = "".join(f"{c['name']} {c['version']}: {licence(c)}\n" for c in others)
    line = "\n" + "-" * 80 + "\n"
    ordered = sorted((", ".join(names), text) for text, names in texts.items())
    return INTRO + "\n" + listed + "".join(f"{line}{names}\n\n{text}\n" for names, text in ordered)


def main() -> None:
    binary, target, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    found, uses = crates(target)
    (out / "layermark.cdx.json").write_text(json.dumps(bill(binary, found, uses), indent=1) + "\n", encoding="utf-8")
    (out / "THIRD-PARTY.txt").write_text(notices(found), encoding="utf-8")


main()
