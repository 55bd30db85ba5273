#!/usr/bin/env python3
"""How near replays are to the programs that were recorded (docs/src/howto/replay.md): records each program, runs program and
replay in turn in each layer, and prints how far the replay's ratio is from the program's.

usage: scripts/replay-accuracy.py LAYERMARK DIR [-l LAYER]... [--only NAME,NAME] [--budget 60s] [--lot SEED] [--trees N]
       scripts/replay-accuracy.py LAYERMARK DIR --figures 30 [-l LAYER]... [--only NAME,NAME] [--trees N]

With --figures: the size of each recording, what strace cost a call, how many of so many repetitions natively and in each layer
had the same outcomes and left the same tree; and without --only, what a replay costs itself (a build for release).

DIR is on the disk to be measured. --lot draws three of the programs that were kept out while replays were made. Needs
root for most layers, and the programs themselves; one that is not installed is left out and named.
"""
import argparse, json, os, random, re, shlex, shutil, statistics, subprocess, tempfile, time, zipfile

PY = "/usr/bin/python3"
LAYERS = ["overlay:writecopy", "overlay:upper", "loop:ext4", "fuse"]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def text(r, n):
    return " ".join("".join(r.choice("abcdefghijklmnop") for _ in range(r.randint(3, 9))) for _ in range(n // 7))


def run(*words, cwd):
    subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def small(d, r, n):
    for i in range(n):
        write(f"{d}/small/d{i % 20}/s{i // 200}/f{i}", text(r, r.randint(200, 6000)))


def archive(d, r, n):
    small(d, r, n)
    run("tar", "-cf", "small.tar", "small", cwd=d)
    shutil.rmtree(f"{d}/small")


def git(d, r, n):
    small(d, r, n)
    me = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run("git", "init", "-q", "-b", "main", cwd=d)
    # A copy has other inodes and times of change: with these, git would read all files of a copy again.
    run("git", "config", "core.checkStat", "minimal", cwd=d)
    run("git", "config", "core.trustctime", "false", cwd=d)
    run("git", "add", "-A", cwd=d)
    run("git", *me, "commit", "-qm", "x", cwd=d)
    run("git", "checkout", "-qb", "other", cwd=d)
    for i in range(0, n, 4):
        write(f"{d}/small/d{i % 20}/s{i // 200}/f{i}", text(r, 900))
    run("git", *me, "commit", "-qam", "y", cwd=d)
    run("git", "checkout", "-q", "main", cwd=d)
    # Files as old as the index are read again each time.
    time.sleep(1.1)
    run("git", "update-index", "-q", "--really-refresh", cwd=d)
    os.utime(f"{d}/.git/index")
    run("git", "status", cwd=d)


def package(d, r, n):
    names = [f"m{i}" for i in range(n // 4)]
    write(f"{d}/pkg/__init__.py", "".join(f"import pkg.{m}\n" for m in names))
    for m in names:
        write(f"{d}/pkg/{m}.py", "".join(f"def f{j}(x):\n    return x + {j}\n" for j in range(r.randint(5, 40))))
    run(PY, "-m", "compileall", "-q", "pkg", cwd=d)


def sql(d, r, n):
    rows = "".join(f"begin;insert into t(b) values('{text(r, 100)}');commit;\n" for _ in range(n // 10))
    write(f"{d}/go.sql", f"create table t(a integer primary key, b text);\n{rows}")


def database(d, r, n):
    sql(d, r, n * 10)
    run("sqlite3", "db", "pragma synchronous=off", ".read go.sql", "delete from t where a % 2", cwd=d)


def sources(d, r, n):
    count = max(n // 50, 4)
    for i in range(count):
        write(f"{d}/h{i}.h", f"int f{i}(int);\n")
        write(f"{d}/s{i}.c", f'#include <stdio.h>\n#include "h{i}.h"\nint f{i}(int x){{return x*{i};}}\n')
    write(f"{d}/main.c", "int main(void){return 0;}\n")
    objects = " ".join(f"s{i}.o" for i in range(count)) + " main.o"
    write(f"{d}/Makefile", f"app: {objects}\n\tcc -o app {objects}\n%.o: %.c\n\tcc -O0 -c -o $@ $<\n")


def crate(d, r, n):
    write(f"{d}/Cargo.toml", '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n')
    mods = range(max(n // 100, 2))
    write(f"{d}/src/main.rs", "".join(f"mod m{i};\n" for i in mods) + "fn main() {" + "".join(f"m{i}::f();" for i in mods) + "}\n")
    for i in mods:
        write(f"{d}/src/m{i}.rs", f'pub fn f() {{ println!("{i}"); }}\n')


def npm(d, r, n):
    wanted = {}
    for i in range(n // 40):
        base = f"{d}/pk/package"
        write(f"{base}/package.json", json.dumps({"name": f"lmp{i}", "version": "1.0.0"}))
        for j in range(20):
            write(f"{base}/lib/f{j}.js", f"module.exports={j}; // {text(r, 900)}\n")
        os.makedirs(f"{d}/tgz", exist_ok=True)
        run("tar", "-czf", f"tgz/p{i}.tgz", "-C", "pk", "package", cwd=d)
        shutil.rmtree(f"{d}/pk")
        wanted[f"lmp{i}"] = f"file:tgz/p{i}.tgz"
    write(f"{d}/package.json", json.dumps({"name": "x", "version": "1.0.0", "dependencies": wanted}))
    run("npm", "install", "--offline", "--package-lock-only", cwd=d)


def words_file(d, r, n):
    write(f"{d}/words", "\n".join(text(r, 60) for _ in range(n * 20)) + "\n")


def wheel(d, r, n):
    info = "lmp-1.0.dist-info"
    parts = {f"lmp/m{i}.py": text(r, 900) for i in range(n // 4)}
    parts[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: lmp\nVersion: 1.0\n"
    parts[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    parts[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*parts, f"{info}/RECORD"])
    with zipfile.ZipFile(f"{d}/lmp-1.0-py3-none-any.whl", "w") as z:
        for name, body in parts.items():
            z.writestr(name, body)


def redis(d, r, n):
    write(f"{d}/load", "".join(f"SET k{i} {text(r, 100)[:60].replace(' ', '_')}\n" for i in range(n)))
    write(f"{d}/load.sh", """redis-server --port 0 --unixsocket r.sock --save '' --appendonly yes --appendfsync always >/dev/null &
until [ -S r.sock ] && redis-cli -s r.sock ping >/dev/null; do sleep 0.05; done
redis-cli -s r.sock <load >/dev/null
redis-cli -s r.sock shutdown nosave
wait
""")


def nginx(d, r, n):
    small(d, r, n)
    write(f"{d}/n.conf", """daemon off; worker_processes 1; pid n.pid; error_log error.log;
events {}
http { access_log access.log; server { listen unix:n.sock; root small; } }
""")
    write(f"{d}/serve.sh", """nginx -p . -c n.conf &
until [ -S n.sock ]; do sleep 0.05; done
find small -type f | sed 's,^small,url = "http://x,; s,$,",' | curl -s --unix-socket n.sock -K - >/dev/null
kill -QUIT $!
wait
""")


def cargo_command(home):
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    return f"env RUSTC={root}/bin/rustc CARGO_HOME={home}/cargo {root}/bin/cargo build --offline -q"


PROGRAMS = {
    "git status": (git, lambda _: "git status"),
    "git checkout": (git, lambda _: "git checkout -q other"),
    "untar": (archive, lambda _: "tar xf small.tar"),
    "rm -rf": (small, lambda _: "rm -rf small"),
    "grep -r": (small, lambda _: "grep -rl abc small"),
    "python imports": (package, lambda _: f"{PY} -c 'import pkg'"),
    "npm ci": (npm, lambda home: f"npm ci --offline --no-audit --no-fund --cache {home}/npm"),
    "SQLite": (sql, lambda _: "sqlite3 db '.read go.sql'"),
    "make -j2": (sources, lambda _: "make -s -j2"),
    "cargo build": (crate, cargo_command),
}
HELD_OUT = {
    "rsync": (small, lambda _: "rsync -a small/ copy"),
    "tar c": (small, lambda _: "tar cf out.tar small"),
    "find": (small, lambda _: "find small -type f -size +1k"),
    "sort": (words_file, lambda _: "sort -S 1M -T . -o sorted words"),
    "sqlite vacuum": (database, lambda _: "sqlite3 db vacuum"),
    "cp -a": (small, lambda _: "cp -a small copy"),
    "du": (small, lambda _: "du -s small"),
    "pip install": (wheel, lambda _: f"{PY} -m pip install -q --no-index --no-deps --no-compile --target out lmp-1.0-py3-none-any.whl"),
    "redis load": (redis, lambda _: "sh load.sh"),
    "nginx log": (nginx, lambda _: "sh serve.sh"),
}


def recorded(args, make, words, home):
    """The recording of a program, and what `record` said, by lines. The tree before is kept."""
    tree, before, file = (os.path.join(home, part) for part in ("tree", "before", "app.lmrec"))
    os.makedirs(tree)
    make(tree, random.Random(3), args.trees)
    subprocess.run(["cp", "-a", tree, before], check=True)
    record = [args.layermark, "record", "-o", file, "--", *shlex.split(words)]
    # As a step: of the environment only this.
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LANG": "C.UTF-8"}
    said = subprocess.run(record, cwd=tree, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if said.returncode != 0:
        return None, said.stderr.strip().splitlines()[-2:] or ["not recorded"]
    return file, said.stdout.splitlines()


def replayed(args, file, home, *more):
    """The report of a replay, or what was said in place of one."""
    replay = [args.layermark, "replay", file, "--json", "--no-control", *more]
    replay += ["--dir", args.dir, "--store", os.path.join(home, "store.db")]
    for layer in args.layer:
        replay += ["-l", layer]
    done = subprocess.run(replay, capture_output=True, text=True, cwd=home)
    try:
        report = json.loads(done.stdout)
        return (None, report["error"]) if "error" in report else (report, "")
    except ValueError:
        return None, done.stdout[-300:] + done.stderr[-300:]


def checked(args, make, command, home):
    """The rows of a program, and what `record` said."""
    words = command(home)
    file, said = recorded(args, make, words, home)
    if file is None:
        return None, said
    about = [line for line in said if line.startswith("time between calls:")]
    report, other = replayed(args, file, home, "--check", words, "--tree", os.path.join(home, "before"), "--budget", args.budget)
    return report, about + [other]


def figures(args, name, make, command, home, all_of):
    """Prints the size of a recording, what strace cost a call, and how many repetitions were identical."""
    file, said = recorded(args, make, command(home), home)
    if file is None:
        print(f"| {name} | | | | | {' '.join(said)[:300]} |", flush=True)
        return
    summary = next(line for line in said if line.startswith(f"{file}: "))
    calls = int(summary.removeprefix(f"{file}: ").split()[0])
    size = os.path.getsize(file) / 1000 / calls * 10_000
    traced = next((line for line in said if line.startswith("recording it: ")), "")
    cost = re.match(r"recording it: ([\d.]+) us more for each of (\d+)", traced)
    report, other = replayed(args, file, home, "--time", "io", "--blocks", str(args.figures))
    # One that differs is an error, and its layer has no more.
    rows = report["results"] if report else []
    same = {row["layer"]: row["trials"] for row in rows if not row.get("error")}
    wrong = [f"{row['layer']}: {row['error']}" for row in rows if row.get("error")] + [other]
    words = ", ".join(f"{layer} {count} of {args.figures}" for layer, count in same.items())
    print(f"| {name} | {calls} | {size:.0f} | {cost[1] if cost else ''} | {words} | {' '.join(wrong)[:300]} |", flush=True)
    all_of["KB for 10,000 calls"].append(size)
    if cost:
        all_of["us a call while recording"].append(float(cost[1]))
    wanted = args.figures * (1 + len(args.layer))
    all_of["repetitions that were not identical, or not made"].append(max(wanted - sum(same.values()), 0))


def all_figures(args, programs):
    print("| program | calls | KB for 10,000 | us a call while recording | identical repetitions | else |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    all_of = {what: [] for what in ("KB for 10,000 calls", "us a call while recording", "repetitions that were not identical, or not made")}
    for name, (make, command) in programs.items():
        with_home(args, name, lambda home: figures(args, name, make, command, home, all_of))
    for what, found in all_of.items():
        if found:
            print(f"{what}: median {statistics.median(found):.0f}, most {max(found):.0f} of {len(found)} programs")
    if not args.only:
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        subprocess.run(["cargo", "run", "-q", "--release", "--locked", "-p", "layermark-bench", "--", "replay", args.layermark], cwd=root)


def with_home(args, name, work):
    """Does something with a program in a directory of its own."""
    home = tempfile.mkdtemp(prefix="layermark-accuracy-", dir=args.dir)
    try:
        work(home)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"| {name} | | | | {e} |", flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def show(report, name, errors):
    for row in report.get("estimate_checks", []):
        gap, own, other = row["difference"], row["measured_ratio"], row["estimate_ratio"]
        if not gap:
            print(f"| {name} | {row['layer']} | | | {row['text']} |", flush=True)
            continue
        ends = gap["interval"]
        span = f" ({ends[0] * 100:+.0f} to {ends[1] * 100:+.0f})" if ends else ""
        print(f"| {name} | {row['layer']} | {own['estimate']:.2f} | {other['estimate']:.2f} | {gap['estimate'] * 100:+.0f} %{span} {row['verdict']} |", flush=True)
        errors.setdefault(row["layer"], []).append(abs(gap["estimate"]))
    for left in report.get("left_out", []):
        print(f"| {name} | {left['layer']} | | | {left['reason'][:150]} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("layermark")
    p.add_argument("dir")
    p.add_argument("-l", "--layer", action="append")
    p.add_argument("--only", default="")
    p.add_argument("--budget", default="60s")
    p.add_argument("--lot", type=int)
    p.add_argument("--trees", type=int, default=1000, help="files of a tree")
    p.add_argument("--figures", type=int, metavar="N", help="size, cost and N repetitions of each recording")
    args = p.parse_args()
    args.layer = args.layer or ([] if args.figures else LAYERS)
    args.layermark = os.path.abspath(args.layermark)
    programs = dict(PROGRAMS)
    if args.lot is not None:
        drawn = random.Random(args.lot).sample(sorted(HELD_OUT), 3)
        print(f"drawn with seed {args.lot}: {', '.join(drawn)}")
        programs = {name: HELD_OUT[name] for name in drawn}
    only = [name for name in args.only.split(",") if name]
    programs = {name: of for name, of in programs.items() if not only or name in only}
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    if args.figures:
        return all_figures(args, programs)
    print("| program | layer | program | estimate | apart |\n| --- | --- | --- | --- | --- |", flush=True)
    errors = {}

    def compare(home):
        report, about = checked(args, make, command, home)
        print(f"| {name} | | | | {' '.join(about)[:300 if report is None else None]} |", flush=True)
        if report is not None:
            show(report, name, errors)

    for name, (make, command) in programs.items():
        with_home(args, name, compare)
    for layer, all_of in errors.items():
        print(f"{layer}: mean {statistics.mean(all_of) * 100:.0f} %, worst {max(all_of) * 100:.0f} % of {len(all_of)}")


main()
