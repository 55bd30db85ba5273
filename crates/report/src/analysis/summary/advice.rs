//! Advice: rules over the results, each with the results as evidence.

use layermark_model::BASELINE;

use crate::{
    analysis::{
        facts,
        summary::{Findings, LISTED, labels, locks, quoted, seeing, stalls, undecided::within},
    },
    code_span::code,
    number,
    types::{Advice, Cause, Distrust, DurabilityVerdict, ResultRow, ServedBy, Verdict},
};

/// All advice that the data calls for. `busy`: a caveat says that other programs disturbed the run.
pub fn give(f: &Findings, busy: bool) -> Vec<Advice> {
    let mut advice: Vec<Advice> = Vec::new();
    advice.extend(baseline_skips(f));
    advice.extend(flush(f));
    advice.extend(late(f));
    advice.extend(suspected(f));
    advice.extend(fewer_flushes(f));
    let fast = [true, false].map(|on_disk| fast_flush(f, on_disk));
    advice.extend(fast.into_iter().flatten());
    advice.extend(busy_disk(f));
    advice.extend(memory(f));
    advice.extend(copy_up(f));
    advice.extend(stalls::advice(f));
    for layer in f.compared() {
        let rows = f.rows(layer);
        advice.extend(locks::advice(f, layer));
        advice.extend(seeing::advice(f, layer));
        advice.extend(fuse(f, layer, &rows));
        advice.extend(cached(f, layer, &rows));
        advice.extend(unexplained(f, layer, &rows));
        advice.extend(owed(layer, &rows));
    }
    advice.extend(undecided(f, busy));
    advice.extend(untrusted(f));
    advice.extend(uncounted(f));
    advice
}

fn from(rows: &[&ResultRow], text: impl FnOnce(&[&ResultRow]) -> String) -> Option<Advice> {
    (!rows.is_empty()).then(|| Advice {
        text: text(rows),
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    })
}

fn picked<'a>(rows: &[&'a ResultRow], keep: impl Fn(&ResultRow) -> bool) -> Vec<&'a ResultRow> {
    rows.iter().copied().filter(|r| keep(r)).collect()
}

/// One piece of advice for all layers that match a rule.
fn across(
    f: &Findings,
    keep: impl Fn(&ResultRow) -> bool,
    text: impl FnOnce(String) -> String,
) -> Option<Advice> {
    let rows = picked(&f.measured(), keep);
    from(&rows, |rows| {
        let mut names: Vec<String> = rows.iter().map(|r| code(&r.layer)).collect();
        names.sort();
        names.dedup();
        text(number::list(&names))
    })
}

fn flush(f: &Findings) -> Option<Advice> {
    across(
        f,
        |r| r.durability.skips() && r.durability.verdict != DurabilityVerdict::Late,
        |layers| {
            format!(
                "Keep no data in {layers} that has to survive a power cut: flushes there do not reach the device."
            )
        },
    )
}

fn late(f: &Findings) -> Option<Advice> {
    across(
        f,
        |r| r.durability.verdict == DurabilityVerdict::Late,
        |layers| {
            format!(
                "Keep no data in {layers} that has to survive a power cut: fsync there is answered before the device is flushed. Cut its power to see what it loses: {CUT}"
            )
        },
    )
}

/// What proves or refutes what counting cannot.
const CUT: &str = "layermark durability -l LAYER, or for a program in user space layermark durability --server 'COMMAND'";

/// Fewer flushes than the application asked for, at any speed, where the baseline has one for each.
fn fewer_flushes(f: &Findings) -> Option<Advice> {
    let natively = |row: &ResultRow| {
        let mut own = f.results.iter().filter(|r| f.is_baseline(&r.layer));
        own.find(|r| r.label == row.label)
    };
    across(
        f,
        |r| {
            let honoured = |n: &ResultRow| n.durability.verdict == DurabilityVerdict::Honoured;
            r.durability.per_sync.is_some() && natively(r).is_some_and(honoured)
        },
        |layers| {
            format!(
                "Do not rely on fsync in {layers} before a power cut proves it: the device counts fewer flushes than the application asks for. {CUT}"
            )
        },
    )
}

/// A program in user space that flushes faster than the baseline: counted flushes may be of another file, or come
/// after the answer. `on_disk`: it stores on the baseline's device, which only the kernel serves there, so its way
/// to the device is the longer one.
fn fast_flush(f: &Findings, on_disk: bool) -> Option<Advice> {
    across(
        f,
        |r| {
            let faster = r.verdict == Verdict::Faster && r.meaning.flushes;
            let unexplained = faster && r.causes.first() == Some(&Cause::Unexplained);
            unexplained && is_fuse(f, &r.layer) && is_on_baselines_disk(f, &r.layer) == on_disk
        },
        |layers| {
            let baseline = f.baseline();
            if on_disk {
                format!(
                    "Do not rely on fsync in {layers} before a power cut proves it: a program in user space takes longer than the disk below it, and this flushes faster than {baseline} on the same disk. {CUT}"
                )
            } else {
                format!(
                    "Do not rely on fsync in {layers} before a power cut proves it: it is not proved, and faster than {baseline} for no reason that the data shows. {CUT}"
                )
            }
        },
    )
}

/// Whether a layer stores on a device that the baseline reaches through the kernel alone.
fn is_on_baselines_disk(f: &Findings, name: &str) -> bool {
    let Some(baseline) = f.run.layers.get(BASELINE) else {
        return false;
    };
    let mut layers = f.run.layers.iter().filter(|l| l.name == name);
    let on_it = layers.any(|l| facts::share_device(&l.facts, &baseline.facts));
    on_it && facts::flushes_directly(&baseline.facts)
}

/// Whether a program in user space serves a layer.
fn is_fuse(f: &Findings, name: &str) -> bool {
    let mut layers = f.run.layers.iter();
    layers.any(|l| l.name == name && l.facts.is_fuse())
}

fn baseline_skips(f: &Findings) -> Option<Advice> {
    let rows: Vec<&ResultRow> = f.baseline_skips().collect();
    let baseline = f.run.layers.get(BASELINE);
    let (how, name) = if baseline.is_some_and(|l| l.spec.is_native()) {
        ("directory", "such as a volume: --dir DIRECTORY")
    } else {
        ("layer", "with --baseline LAYER")
    };
    from(&rows, |_| {
        format!(
            "Compare with a {how} whose flushes reach the device, {name}. In {} it is skipped here.",
            f.baseline()
        )
    })
}

/// The counted flushes may be those of other programs.
fn busy_disk(f: &Findings) -> Option<Advice> {
    across(
        f,
        |r| {
            r.durability.verdict == DurabilityVerdict::CannotTell
                && r.durability.background.is_some()
                && r.durability.disturbed_by.is_empty()
        },
        |layers| {
            format!(
                "Measure the flushes of {layers} again when the disk is quiet: other programs flushed it, so nothing tells whose were counted."
            )
        },
    )
}

/// On any file system: nothing makes a flush several times faster than the device's.
fn suspected(f: &Findings) -> Option<Advice> {
    across(
        f,
        |r| {
            r.durability.verdict == DurabilityVerdict::CannotTell
                && r.durability.suspicion.is_some()
                && !r.durability.skips()
                && !f.in_memory(&r.layer)
        },
        |layers| {
            format!(
                "Do not rely on fsync in {layers} before it is proved: it is several times faster than the disk below can be. Count its flushes while nothing else uses the disk, and cut its power: {CUT}"
            )
        },
    )
}

fn memory(f: &Findings) -> Option<Advice> {
    across(
        f,
        |r| f.in_memory(&r.layer),
        |layers| {
            format!(
                "Do not take {layers} for a disk: data in memory is lost after a restart and takes memory from programs."
            )
        },
    )
}

fn copy_up(f: &Findings) -> Option<Advice> {
    across(
        f,
        |r| r.causes.contains(&Cause::CopyUp),
        |layers| {
            format!(
                "Change large packaged files in {layers} rarely. Copying is cheap only where lower and upper directory are on one file system with reflinks (xfs, btrfs)."
            )
        },
    )
}

fn fuse(f: &Findings, layer: &str, rows: &[&ResultRow]) -> Option<Advice> {
    let through = is_fuse(f, layer) && !is_fuse(f, f.run.baseline());
    let slower = picked(rows, |r| {
        through && r.verdict == Verdict::Slower && !seeing::is_late(r)
    });
    // The amount is unknown if it changed during the run. What the page cache answers costs as much
    // in fewer operations.
    let rows = picked(&slower, |r| {
        r.extra_us.is_some() && r.causes.contains(&Cause::UserSpace)
    });
    from(&rows, |rows| {
        let least = rows
            .iter()
            .filter_map(|r| r.extra_us)
            .map(|e| e.estimate)
            .fold(f64::MAX, f64::min);
        let where_ = match (rows.len(), slower.len()) {
            (1, 1) => "the one operation".to_owned(),
            (n, all) if n == all => format!("each of the {n} operations"),
            (n, all) => format!("{n} of the {all} operations"),
        };
        format!(
            "Do fewer and larger operations through {}: it adds about {} or more to {where_} where it is slower.",
            code(layer),
            number::time(least)
        )
    })
}

fn cached(f: &Findings, layer: &str, rows: &[&ResultRow]) -> Option<Advice> {
    let wins = |r: &ResultRow| {
        !f.in_memory(layer)
            && r.verdict == Verdict::Faster
            && r.served_by == Some(ServedBy::HostMemory)
            && r.meaning.is_cold()
    };
    from(&picked(rows, wins), |_| {
        format!(
            "Do not read the cold figures of {} as the disk's: this machine's memory answered. Turn direct I/O on below it, or empty that cache too.",
            code(layer)
        )
    })
}

fn unexplained(f: &Findings, layer: &str, rows: &[&ResultRow]) -> Option<Advice> {
    from(
        &picked(rows, |r| {
            let flushes = r.meaning.flushes && is_fuse(f, layer);
            r.verdict == Verdict::Faster
                && r.causes.first() == Some(&Cause::Unexplained)
                && !flushes
        }),
        |rows| {
            format!(
                "Do not count on {} being faster than {} at {}: nothing in the data explains it. Look again with more sessions: --sessions {}.",
                code(layer),
                f.baseline(),
                labels(rows),
                2 * sessions(rows)
            )
        },
    )
}

/// How many times the layers were set up.
fn sessions(rows: &[&ResultRow]) -> u32 {
    let blocks = rows.iter().flat_map(|r| &r.block_ratios);
    blocks.map(|b| b.session + 1).max().unwrap_or(1)
}

fn owed(layer: &str, rows: &[&ResultRow]) -> Option<Advice> {
    let large = |r: &ResultRow| r.write_back_debt.is_some_and(|d| d.seconds >= 1.0);
    from(&picked(rows, large), |rows| {
        let worst = rows
            .iter()
            .filter_map(|r| r.write_back_debt)
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let owed = worst
            .map(|d| {
                format!(
                    "{} took {} more",
                    d.bytes
                        .map_or_else(|| "an unknown amount".into(), number::bytes),
                    number::time(d.seconds * 1e6)
                )
            })
            .unwrap_or_default();
        format!(
            "Writes to {} continue after the application has ended ({owed}): flush before you switch off or take a snapshot.",
            code(layer)
        )
    })
}

fn undecided(f: &Findings, busy: bool) -> Option<Advice> {
    let mut rows = f.asked();
    rows.retain(|r| r.verdict == Verdict::Undecided);
    // The least certain results come first.
    let margin = |r: &ResultRow| r.margin.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| margin(b).total_cmp(&margin(a)));
    from(&rows, |rows| {
        let cell = |r: &&ResultRow| {
            let how = match (r.probably, r.steady, r.margin) {
                _ if r.withheld.is_some() => r.word().into(),
                (Some(_), ..) => r.word().into(),
                (_, Some(false), _) => layermark_model::flags::UNSTEADY.into(),
                (.., Some(margin)) => within(margin),
                _ => "no interval yet".into(),
            };
            format!("{} in {} ({how})", quoted(r), code(&r.layer))
        };
        let mut cells: Vec<String> = rows.iter().take(LISTED).map(cell).collect();
        if rows.len() > LISTED {
            cells.push(format!("{} more", rows.len() - LISTED));
        }
        format!(
            "Not known for certain: {}. To know more, {}.",
            number::list(&cells),
            // More time on a busy machine gives more trials that are disturbed.
            if busy
                || rows.iter().any(|r| r.withheld.is_some())
                || 2 * rows.iter().filter(|r| r.disturbed()).count() > rows.len()
            {
                "measure again when nothing else runs on this machine"
            } else {
                "give it a larger --budget, or fewer layers"
            }
        )
    })
}

fn untrusted(f: &Findings) -> Option<Advice> {
    let unable = f.run.machine.privilege != "root";
    let rows: Vec<&ResultRow> = f.results.iter().collect();
    let rows = picked(&rows, |r| unable && lacks_proof(f, r) && counts(f, r));
    from(&rows, |_| {
        "Run as root where caches have to be cold: without it they cannot be emptied everywhere."
            .into()
    })
}

/// What would prove the cold reads of a layer below which nothing is known.
fn uncounted(f: &Findings) -> Option<Advice> {
    let unproved = |r: &ResultRow| matches!(r.distrust, Some(Distrust::CacheUnproved(..)));
    across(
        f,
        |r| unproved(r) && lacks_proof(f, r) && !counts(f, r),
        |layers| {
            format!(
                "To prove cold reads in {layers}, name a directory on the disk that its data comes from: -l dir:PATH,below=DIRECTORY. Without it nothing tells a disk from the memory of what serves it."
            )
        },
    )
}

/// Whether the state of its caches is what is not trusted, and could be another.
fn lacks_proof(f: &Findings, row: &ResultRow) -> bool {
    let cache = matches!(
        row.distrust,
        Some(Distrust::Cache(_) | Distrust::CacheUnproved(..))
    );
    cache && !f.in_memory(&row.layer)
}

/// Whether the layer is known to lie on a device.
fn counts(f: &Findings, row: &ResultRow) -> bool {
    let mut layers = f.run.layers.iter();
    layers.any(|l| l.name == row.layer && !facts::physical(&l.facts).is_empty())
}
