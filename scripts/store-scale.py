#!/usr/bin/env python3
"""How long `history`, `compare` and pages of `serve` take with 20,000 runs and ten million trials in PostgreSQL.

usage: scripts/store-scale.py BIN [--runs 20000] [--trials 10000000] [--times 5] [--dir DIR]

Starts a PostgreSQL of its own (socket and loopback, in a new directory below --dir), makes two runs with BIN, copies them
in SQL (without histograms: a trial has 0.8 kB) until there are so many, prints the median and the slowest of --times calls of each command, and removes the
database. A copied run has another id and another start, and the trials and the tally of the run that it is copied from.
"""

import argparse
import json
import os
import pathlib
import pwd
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PLAN = """name = 'scale'
layers = ['native', 'tmpfs']
turn = '20ms'
[[work]]
workload = 'file'
op = ['write', 'read']
record = '4K'
file_size = ['64K', '128K']
latency = false
"""
# Trials of a block: four points in both layers and the control.
A_BLOCK = 12
FREE = 0.15
# Each copy is a run of one of so many hosts.
HOSTS = 200


def programs():
    """The directory of PostgreSQL's programs, the newest version first."""
    all = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), reverse=True)
    if not all:
        sys.exit("error: PostgreSQL is not installed\nhint: apt-get install postgresql")
    return all[0].parent


class Server:
    """A server that ends with this program."""

    def __init__(self, dir):
        self.dir, self.bin = dir, programs()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # It refuses to be root.
        self.user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if self.user:
            os.chown(dir, self.user.pw_uid, self.user.pw_gid)
        self.run("initdb", "-D", dir / "data", "-U", "owner", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        options = f"-k {dir} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -c max_wal_size=2GB"
        self.run("pg_ctl", "-D", dir / "data", "-w", "-l", dir / "log", "-o", options, "start")
        # Other users of the machine reach the port, and not the socket.
        secret = secrets.token_hex(16)
        self.sql(f"ALTER ROLE owner PASSWORD '{secret}'", "postgres")
        self.sql("CREATE DATABASE runs", "postgres")
        self.url = f"postgres://owner:{secret}@127.0.0.1:{self.port}/runs"

    def run(self, program, *words, **more):
        user = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        words = [self.bin / program, *words]
        done = subprocess.run(words, cwd=self.dir, capture_output=True, text=True, **user, **more)
        if done.returncode:
            sys.exit(f"error: {program}: {done.stderr or done.stdout}")
        return done.stdout

    def sql(self, text, database="runs"):
        words = ["-h", str(self.dir), "-p", str(self.port), "-U", "owner", "-d", database, "-v", "ON_ERROR_STOP=1", "-Atqc"]
        return self.run("psql", *words, text)

    def stop(self):
        self.run("pg_ctl", "-D", self.dir / "data", "-w", "-m", "immediate", "stop")


def fill(server, runs, each):
    """Copies the two runs that are there. Each odd copy is of the first, each even one of the second."""
    first, second = server.sql("SELECT id FROM runs ORDER BY started_ms").split()
    server.sql("ALTER TABLE trials SET UNLOGGED")
    source = f"CASE WHEN n % 2 = 1 THEN '{first}' ELSE '{second}' END"
    copy = "'01' || lpad(n::text, 24, '0')"
    server.sql(
        f"""CREATE TEMP TABLE copies AS SELECT n, {copy} AS id, {source} AS source FROM generate_series(1, {runs - 2}) AS n;
        INSERT INTO runs SELECT c.id, r.name, r.started_ms - (1 + {runs} - c.n) * 60000, r.ended_ms - (1 + {runs} - c.n) * 60000,
            r.status, r.point_count, replace(r.run, r.id, c.id), r.points FROM copies c JOIN runs r ON r.id = c.source;
        INSERT INTO layers SELECT c.id, l.idx, l.name, l.spec, l.control FROM copies c JOIN layers l ON l.run_id = c.source;
        INSERT INTO hosts SELECT 'n' || n % {HOSTS}, id FROM copies;
        INSERT INTO tallies SELECT c.id, {each}, t.rules, t.tally FROM copies c JOIN tallies t ON t.run_id = c.source;
        CREATE TABLE original AS SELECT * FROM trials;
        ALTER TABLE trials DROP CONSTRAINT trials_pkey, DROP CONSTRAINT trials_run_id_fkey;
        INSERT INTO trials SELECT c.id, o.seq, o.trial FROM copies c JOIN original o ON o.run_id = c.source AND o.seq < {each};
        DROP TABLE original;
        ALTER TABLE trials ADD PRIMARY KEY (run_id, seq);"""
    )
    # As autovacuum does it in a store that grows.
    server.sql("VACUUM ANALYZE")


def timed(what, times, call):
    took = []
    for _ in range(times):
        begun = time.monotonic()
        call()
        took.append(time.monotonic() - begun)
    print(f"{what:<44} {statistics.median(took):6.2f} s, slowest {max(took):.2f} s", flush=True)


def main():
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("bin", type=os.path.abspath)
    about.add_argument("--runs", type=int, default=20_000)
    about.add_argument("--trials", type=int, default=10_000_000)
    about.add_argument("--times", type=int, default=5)
    about.add_argument("--dir", default="/var/tmp")
    args = about.parse_args()
    disk = shutil.disk_usage(args.dir)
    # With its index.
    if disk.free - args.trials * 1000 < disk.total * FREE:
        sys.exit(f"error: {args.dir}: {disk.free >> 30} GiB free, and {FREE:.0%} stay free\nhint: --trials 1000000")
    with tempfile.TemporaryDirectory(prefix="layermark-scale-", dir=args.dir) as dir:
        os.chmod(dir, 0o711)
        home = pathlib.Path(dir, "home")
        database = pathlib.Path(dir, "pg")
        home.mkdir()
        database.mkdir()
        server = Server(database)
        try:
            measure(args, server, home)
        finally:
            server.stop()


def measure(args, server, home):
    env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home)}

    def lm(*words):
        done = subprocess.run([args.bin, *words, "--store", server.url], env=env, cwd=home, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"error: layermark {' '.join(words)}: {done.stderr}")
        return done.stdout

    each = -(-args.trials // args.runs)
    (home / "scale.toml").write_text(PLAN)
    for seed in ("1", "2"):
        lm("run", "scale.toml", "--blocks", str(-(-each // A_BLOCK)), "--seed", seed, "--dir", str(home), "--json")
    begun = time.monotonic()
    fill(server, args.runs, each)
    runs, trials = server.sql("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM trials)").strip().split("|")
    size = int(server.sql("SELECT pg_database_size('runs')")) >> 20
    print(f"{runs} runs, {trials} trials, {size} MiB, filled in {time.monotonic() - begun:.0f} s", flush=True)
    newest = [run["run"] for run in json.loads(lm("history", "--limit", "4", "--json"))["runs"]]
    old, new = newest[3], newest[2]
    timed("history", args.times, lambda: lm("history"))
    timed("history --plan scale", args.times, lambda: lm("history", "--plan", "scale"))
    timed("history --layer tmpfs", args.times, lambda: lm("history", "--layer", "tmpfs"))
    timed("history --layer fuse (none has it)", args.times, lambda: lm("history", "--layer", "fuse"))
    timed("history --host n7", args.times, lambda: lm("history", "--host", "n7"))
    timed("compare of two copies", args.times, lambda: lm("compare", old, new, "--json"))
    timed("compare last~1 last", args.times, lambda: lm("compare", "last~1", "last", "--json"))
    far = [f"#{args.runs // 4}", f"#{args.runs // 4 * 3}"]
    timed("compare " + " ".join(far), args.times, lambda: lm("compare", *far, "--json"))
    timed("report of a copy", args.times, lambda: lm("report", new, "--json"))
    serve = subprocess.Popen([args.bin, "serve", "127.0.0.1:0", "--store", server.url], env=env, cwd=home,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = next(word for line in serve.stdout for word in line.split() if word.startswith("http://"))
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(address).read()
        base = address.split("?")[0].rstrip("/")
        pages = ["/", "/?limit=200", "/?host=n7", f"/run/{new}", f"/compare?old={old}&new={new}"]
        for page in pages:
            text = page.replace(old, "OLD").replace(new, "NEW")
            timed(f"serve {text}", args.times, lambda: opener.open(base + page).read())
    finally:
        serve.terminate()
        serve.wait()


main()
