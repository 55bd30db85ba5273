#!/usr/bin/env python3
"""How near replays are to the programs that were recorded (docs/src/howto/replay.md): records each program, runs program and
replay in turn in each layer, and prints how far the replay's ratio is from the program's.

usage: scripts/replay-accuracy.py LAYERMARK DIR [-l LAYER]... [--only NAME,NAME] [--budget 60s] [--lot SEED] [--trees N]

DIR is on the disk to be measured. --lot draws three of the programs that were kept out while replays were made. Needs
root for most layers, and the programs themselves; one that is not installed is left out and named.
"""
import argparse, json, os, random, shlex, shutil, statistics, subprocess, tempfile, time, zipfile

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


def checked(args, name, make, command, home):
    """The rows of a program, and what `record` said."""
    tree, before, file = (os.path.join(home, part) for part in ("tree", "before", "app.lmrec"))
    os.makedirs(tree)
    make(tree, random.Random(3), args.trees)
    subprocess.run(["cp", "-a", tree, before], check=True)
    words = command(home)
    record = [args.layermark, "record", "-o", file, "--", *shlex.split(words)]
    # As a step: of the environment only this.
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LANG": "C.UTF-8"}
    said = subprocess.run(record, cwd=tree, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if said.returncode != 0:
        return None, said.stderr.strip().splitlines()[-1:] or ["not recorded"]
    about = [line for line in said.stdout.splitlines() if line.startswith("time between calls:")]
    replay = [args.layermark, "replay", file, "--check", words, "--tree", before, "--json", "--no-control"]
    replay += ["--dir", args.dir, "--store", os.path.join(home, "store.db"), "--budget", args.budget]
    for layer in args.layer:
        replay += ["-l", layer]
    done = subprocess.run(replay, capture_output=True, text=True, cwd=home)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return None, about + [done.stdout[-300:] + done.stderr[-300:]]
    return report, about


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
    args = p.parse_args()
    args.layer = args.layer or LAYERS
    args.layermark = os.path.abspath(args.layermark)
    programs = dict(PROGRAMS)
    if args.lot is not None:
        drawn = random.Random(args.lot).sample(sorted(HELD_OUT), 3)
        print(f"drawn with seed {args.lot}: {', '.join(drawn)}")
        programs = {name: HELD_OUT[name] for name in drawn}
    only = [name for name in args.only.split(",") if name]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs\n| program | layer | program | estimate | apart |\n| --- | --- | --- | --- | --- |", flush=True)
    errors = {}
    for name, (make, command) in programs.items():
        if only and name not in only:
            continue
        home = tempfile.mkdtemp(prefix="layermark-accuracy-", dir=args.dir)
        try:
            report, about = checked(args, name, make, command, home)
            if report is None:
                print(f"| {name} | | | | {' '.join(about)[:300]} |", flush=True)
            else:
                print(f"| {name} | | | | {' '.join(about)} |", flush=True)
                show(report, name, errors)
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"| {name} | | | | {e} |", flush=True)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    for layer, all_of in errors.items():
        print(f"{layer}: mean {statistics.mean(all_of) * 100:.0f} %, worst {max(all_of) * 100:.0f} % of {len(all_of)}")


main()
