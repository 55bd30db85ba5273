#!/usr/bin/env python3
"""Where the noise of a stored run is: in rounds, in blocks, or in set-ups (docs/src/accuracy.md).

usage: scripts/components.py STORE [RUN]     STORE: a layermark.db; RUN: an id, the newest run without one

For each point and layer, in per cent of the ratio: the standard deviation between blocks of one session, what its rounds alone
would give, what sessions add, and how often chance adds as much (2,000 permutations). At the end the median over the layers of
each point.
"""
import collections, json, math, random, sqlite3, statistics, sys

FEWEST_ROUNDS, FEWEST_BLOCKS = 4, 5


def trimmed(values):
    values = sorted(values)
    cut = len(values) // 5
    return statistics.mean(values[cut : len(values) - cut])


def read(store, run):
    """Labels of the points, names of the layers, and of each point, block and layer the time an operation by round."""
    db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    run = run or db.execute("select id from runs order by started_ms desc limit 1").fetchone()[0]
    points = json.loads(db.execute("select points from runs where id = ?", (run,)).fetchone()[0])
    layers = dict(db.execute("select idx, name from layers where run_id = ?", (run,)))
    turns, sessions = collections.defaultdict(dict), {}
    for (trial,) in db.execute("select trial from trials where run_id = ?", (run,)):
        trial = json.loads(trial)
        cell, made = trial["cell"], trial.get("trial") or {}
        sessions[cell["block"]] = cell["session"]
        # A block that is divided has native in each part, with rounds of its own.
        turn = ((t[0], t[1] / t[2]) for t in made.get("turns") or [] if t[2])
        turns[cell["point"], cell["block"], cell["layer"]].update(turn)
    return [point["label"] for point in points], layers, turns, sessions


def between_and_within(groups):
    """Mean squares between groups and within them."""
    values = [d for group in groups for d in group]
    middle, free = statistics.mean(values), len(values) - len(groups)
    within = sum((d - statistics.mean(g)) ** 2 for g in groups for d in g) / free
    between = sum(len(g) * (statistics.mean(g) - middle) ** 2 for g in groups) / (len(groups) - 1)
    return between, within


def by_chance(groups, between, within):
    draw, values, more = random.Random(1), [d for group in groups for d in group], 0
    for _ in range(2000):
        draw.shuffle(values)
        rest = iter(values)
        again = between_and_within([[next(rest) for _ in group] for group in groups])
        more += again[0] * within >= again[1] * between
    return more / 2000


def main():
    labels, layers, turns, sessions = read(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    print(f"{'':32} {'':22} {'ratio':>8} {'blocks':>8} {'rounds':>8} {'sessions':>8} {'chance':>7}")
    medians = {}
    for point, label in enumerate(labels):
        known = []
        for layer, name in layers.items():
            blocks, rounds = collections.defaultdict(list), []
            for block, session in sorted(sessions.items()):
                native, here = turns.get((point, block, 0), {}), turns.get((point, block, layer), {})
                ratios = [math.log(here[r] / native[r]) for r in here.keys() & native.keys()]
                if layer != 0 and len(ratios) >= FEWEST_ROUNDS:
                    blocks[session].append(trimmed(ratios))
                    rounds.append(statistics.variance(ratios) / len(ratios))
            groups, count = list(blocks.values()), len(rounds)
            if count < FEWEST_BLOCKS or count == len(groups):
                continue
            ratio = math.exp(statistics.mean(d for group in groups for d in group))
            added, chance = 0.0, ""
            if len(groups) > 1:
                between, within = between_and_within(groups)
                added = max(0.0, between - within) / (count / len(groups))
                chance = f"{by_chance(groups, between, within):7.3f}"
            else:
                within = statistics.variance(groups[0])
            parts = [100 * math.sqrt(part) for part in (within, statistics.median(rounds), added)]
            known.append(parts)
            print(f"{label:32} {name:22} {ratio:8.3f}", *(f"{part:6.1f} %" for part in parts), chance)
        if known:
            medians[label] = [statistics.median(part) for part in zip(*known)]
    for label, parts in medians.items():
        print(f"{label:32} {'median':22} {'':8}", *(f"{part:6.1f} %" for part in parts))


main()
