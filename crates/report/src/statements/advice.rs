//! Advice: rules over the results.

use layermark_model::{BASELINE, Spec};

use crate::{
    facts::storage,
    statements::{
        Selection,
        findings::layers_of,
        late::{Late, is_late},
        locks::OpenLocks,
        stalls,
    },
    types::{Cause, Distrust, DurabilityVerdict, ResultRow, ServedBy, Verdict},
};

/// A piece of advice, and the results behind it.
#[derive(Debug)]
pub struct Advice<'a> {
    /// What to do.
    pub what: Advised<'a>,
    /// The results.
    pub rows: Vec<&'a ResultRow>,
}

/// What to do. Layers are sorted, each once.
#[derive(Debug)]
pub enum Advised<'a> {
    /// The baseline skips flushes; whether it is a directory.
    OtherBaseline(bool),
    /// Layers that lose data.
    KeepNothing(Vec<&'a str>),
    /// Layers that answer fsync before the flush.
    KeepNothingLate(Vec<&'a str>),
    /// Layers whose flushes are too fast for any disk.
    Suspected(Vec<&'a str>),
    /// Layers with fewer flushes than calls, where the baseline has one for each.
    FewerFlushes(Vec<&'a str>),
    /// Layers served by a program that flush faster than the baseline; whether on its disk.
    FastFlush(Vec<&'a str>, bool),
    /// Layers whose flushes were counted beside those of others.
    BusyDisk(Vec<&'a str>),
    /// Layers whose data is in memory.
    Memory(Vec<&'a str>),
    /// Layers that copy files before they change them.
    CopyUp(Vec<&'a str>),
    /// The worst stalls of a layer.
    StallsHere(&'a ResultRow),
    /// The worst stalls of the baseline.
    StallsOfBaseline(&'a ResultRow),
    /// A layer with locks that exclude nobody.
    Locks(OpenLocks<'a>),
    /// A layer that shows changes late, and a spec of it that may show them sooner.
    Fresher(&'a str, Box<Spec>),
    /// A layer served by a program.
    FewerOperations(FewerOperations<'a>),
    /// A layer whose cold data was in this machine's memory.
    Cached(&'a str),
    /// A layer that is faster for no reason, where, and the sessions that would tell more.
    Unexplained(&'a str, Vec<&'a ResultRow>, u32),
    /// A layer that continues to write: bytes, if known, and seconds.
    Owes(&'a str, Option<f64>, f64),
    /// Undecided results, the least certain first, and whether other programs are the reason.
    NotKnown(Vec<&'a ResultRow>, bool),
    /// Caches could not be emptied.
    RunAsRoot,
    /// Layers below which no disk is known.
    NameTheDisk(Vec<&'a str>),
}

/// A layer served by a program that adds something to each operation.
#[derive(Debug)]
pub struct FewerOperations<'a> {
    /// The layer.
    pub layer: &'a str,
    /// The least that it adds, microseconds.
    pub least_us: f64,
    /// Operations to which it adds.
    pub adds: usize,
    /// Operations that are slower there.
    pub slower: usize,
}

/// All advice that the data calls for. `busy`: other programs disturbed the run.
pub fn advice<'a>(f: &Selection<'a>, busy: bool) -> Vec<Advice<'a>> {
    let mut advice: Vec<Advice> = Vec::new();
    advice.extend(baseline_skips(f));
    advice.extend(across(f, Advised::KeepNothing, |r| {
        r.durability.skips() && r.durability.verdict != DurabilityVerdict::Late
    }));
    advice.extend(across(f, Advised::KeepNothingLate, |r| {
        r.durability.verdict == DurabilityVerdict::Late
    }));
    advice.extend(suspected(f));
    advice.extend(fewer_flushes(f));
    let fast = [true, false].map(|on_disk| fast_flush(f, on_disk));
    advice.extend(fast.into_iter().flatten());
    advice.extend(busy_disk(f));
    advice.extend(across(f, Advised::Memory, |r| f.in_memory(&r.layer)));
    advice.extend(across(f, Advised::CopyUp, |r| {
        r.causes.contains(&Cause::CopyUp)
    }));
    advice.extend(stalling(f));
    for layer in f.compared() {
        let rows = f.rows(layer);
        advice.extend(OpenLocks::of(f, layer).map(|open| Advice {
            rows: open.rows.clone(),
            what: Advised::Locks(open),
        }));
        advice.extend(fresher(f, layer));
        advice.extend(fuse(f, layer, &rows));
        advice.extend(cached(f, layer, &rows));
        advice.extend(unexplained(f, layer, &rows));
        advice.extend(owes(layer, &rows));
    }
    advice.extend(undecided(f, busy));
    advice.extend(as_root(f));
    advice.extend(across(f, Advised::NameTheDisk, |r| {
        let unproved = matches!(reason(r), Some(Distrust::CacheUnproved(..)));
        unproved && lacks_proof(f, r) && !counts(f, r)
    }));
    advice
}

fn picked<'a>(rows: &[&'a ResultRow], keep: impl Fn(&ResultRow) -> bool) -> Vec<&'a ResultRow> {
    rows.iter().copied().filter(|r| keep(r)).collect()
}

/// The advice, if there is a result behind it.
fn from<'a>(
    rows: Vec<&'a ResultRow>,
    what: impl FnOnce(&[&'a ResultRow]) -> Advised<'a>,
) -> Option<Advice<'a>> {
    (!rows.is_empty()).then(|| Advice {
        what: what(&rows),
        rows,
    })
}

/// One piece of advice for all layers that match a rule.
fn across<'a>(
    f: &Selection<'a>,
    what: impl FnOnce(Vec<&'a str>) -> Advised<'a>,
    keep: impl Fn(&ResultRow) -> bool,
) -> Option<Advice<'a>> {
    let rows = picked(&f.measured(), keep);
    from(rows, |rows| what(layers_of(rows)))
}

fn baseline_skips<'a>(f: &Selection<'a>) -> Option<Advice<'a>> {
    let baseline = f.run.layers.get(BASELINE);
    let is_directory = baseline.is_some_and(|l| l.spec.is_native());
    from(f.baseline_skips().collect(), |_| {
        Advised::OtherBaseline(is_directory)
    })
}

/// Fewer flushes than the application asked for, at any speed, where the baseline has one for each.
fn fewer_flushes<'a>(f: &Selection<'a>) -> Option<Advice<'a>> {
    let natively = |row: &ResultRow| {
        let mut own = f.results.iter().filter(|r| f.is_baseline(&r.layer));
        own.find(|r| r.label == row.label)
    };
    let honoured = |n: &ResultRow| n.durability.verdict == DurabilityVerdict::Honoured;
    across(f, Advised::FewerFlushes, |r| {
        r.durability.per_sync.is_some() && natively(r).is_some_and(honoured)
    })
}

/// A program in user space that flushes faster than the baseline: counted flushes may be of another file, or come
/// after the answer. `on_disk`: it stores on the baseline's device, which only the kernel serves there, so its way
/// to the device is the longer one.
fn fast_flush<'a>(f: &Selection<'a>, on_disk: bool) -> Option<Advice<'a>> {
    let what = |layers| Advised::FastFlush(layers, on_disk);
    across(f, what, |r| {
        let faster = r.verdict == Verdict::Faster && r.meaning.flushes;
        let unexplained = faster && r.causes.first() == Some(&Cause::Unexplained);
        unexplained && is_fuse(f, &r.layer) && is_on_baselines_disk(f, &r.layer) == on_disk
    })
}

/// Whether a layer stores on a device that the baseline reaches through the kernel alone.
fn is_on_baselines_disk(f: &Selection, name: &str) -> bool {
    let Some(baseline) = f.run.layers.get(BASELINE) else {
        return false;
    };
    let mut layers = f.run.layers.iter().filter(|l| l.name == name);
    let on_it = layers.any(|l| storage::share_device(&l.facts, &baseline.facts));
    on_it && storage::flushes_directly(&baseline.facts)
}

/// Whether a program in user space serves a layer.
fn is_fuse(f: &Selection, name: &str) -> bool {
    let mut layers = f.run.layers.iter();
    layers.any(|l| l.name == name && l.facts.is_fuse())
}

/// The counted flushes may be those of other programs.
fn busy_disk<'a>(f: &Selection<'a>) -> Option<Advice<'a>> {
    across(f, Advised::BusyDisk, |r| {
        r.durability.verdict == DurabilityVerdict::CannotTell
            && r.durability.background.is_some()
            && r.durability.disturbed_by.is_empty()
    })
}

/// On any file system: nothing makes a flush several times faster than the device's.
fn suspected<'a>(f: &Selection<'a>) -> Option<Advice<'a>> {
    across(f, Advised::Suspected, |r| {
        r.durability.verdict == DurabilityVerdict::CannotTell
            && r.durability.suspicion.is_some()
            && !r.durability.skips()
            && !f.in_memory(&r.layer)
    })
}

/// The worst stalls: in the layer, and in the baseline itself. Where other programs disturbed every trial, a long
/// operation may be theirs.
fn stalling<'a>(f: &Selection<'a>) -> Vec<Advice<'a>> {
    let all = stalls::rows(f);
    let worst = |layer: bool, what: fn(&'a ResultRow) -> Advised<'a>| {
        let rows = picked(&all, |r| {
            let average = r.ratio.and_then(|e| Some(e.average?.estimate > e.estimate));
            average == Some(layer) && !r.disturbed()
        });
        let what = what(stalls::worst(&rows)?);
        Some(Advice { what, rows })
    };
    let both = [
        worst(true, Advised::StallsHere),
        worst(false, Advised::StallsOfBaseline),
    ];
    both.into_iter().flatten().collect()
}

/// The layer with the options that keep less in its caches, to be measured.
fn fresher<'a>(f: &Selection<'a>, layer: &'a str) -> Option<Advice<'a>> {
    let late = Late::of(f, layer)?;
    let run = f.run.layers.iter().find(|l| l.name == layer)?;
    let mut spec = run.spec.clone();
    for (name, value) in run.facts.fresher()? {
        spec.options.insert(name.into(), value.into());
    }
    from(late.rows(), |_| Advised::Fresher(layer, Box::new(spec)))
}

fn fuse<'a>(f: &Selection, layer: &'a str, rows: &[&'a ResultRow]) -> Option<Advice<'a>> {
    let through = is_fuse(f, layer) && !is_fuse(f, f.run.baseline());
    let slower = picked(rows, |r| {
        through && r.verdict == Verdict::Slower && !is_late(r)
    });
    // The amount is unknown if it changed during the run. What the page cache answers costs as much
    // in fewer operations.
    let rows = picked(&slower, |r| {
        r.extra_us.is_some() && r.causes.contains(&Cause::UserSpace)
    });
    from(rows, |rows| {
        let extra = rows.iter().filter_map(|r| r.extra_us);
        Advised::FewerOperations(FewerOperations {
            layer,
            least_us: extra.map(|e| e.estimate).fold(f64::MAX, f64::min),
            adds: rows.len(),
            slower: slower.len(),
        })
    })
}

fn cached<'a>(f: &Selection, layer: &'a str, rows: &[&'a ResultRow]) -> Option<Advice<'a>> {
    let wins = picked(rows, |r| {
        !f.in_memory(layer)
            && r.verdict == Verdict::Faster
            && r.served_by == Some(ServedBy::HostMemory)
            && r.meaning.is_cold()
    });
    from(wins, |_| Advised::Cached(layer))
}

fn unexplained<'a>(f: &Selection, layer: &'a str, rows: &[&'a ResultRow]) -> Option<Advice<'a>> {
    let rows = picked(rows, |r| {
        let flushes = r.meaning.flushes && is_fuse(f, layer);
        r.verdict == Verdict::Faster && r.causes.first() == Some(&Cause::Unexplained) && !flushes
    });
    from(rows, |rows| {
        Advised::Unexplained(layer, rows.to_vec(), 2 * sessions(rows))
    })
}

/// How many times the layers were set up.
fn sessions(rows: &[&ResultRow]) -> u32 {
    let blocks = rows.iter().flat_map(|r| &r.block_ratios);
    blocks.map(|b| b.session + 1).max().unwrap_or(1)
}

fn owes<'a>(layer: &'a str, rows: &[&'a ResultRow]) -> Option<Advice<'a>> {
    let large = |r: &ResultRow| r.write_back_debt.is_some_and(|d| d.seconds >= 1.0);
    let rows = picked(rows, large);
    let debts = rows.iter().filter_map(|r| r.write_back_debt);
    let worst = debts.max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    from(rows, |_| Advised::Owes(layer, worst.bytes, worst.seconds))
}

fn undecided<'a>(f: &Selection<'a>, busy: bool) -> Option<Advice<'a>> {
    let mut rows = f.asked();
    rows.retain(|r| r.verdict == Verdict::Undecided);
    // The least certain results come first.
    let margin = |r: &ResultRow| r.margin.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| margin(b).total_cmp(&margin(a)));
    from(rows, |rows| {
        // More time on a busy machine gives more trials that are disturbed.
        let busy = busy
            || rows.iter().any(|r| r.withheld.is_some())
            || 2 * rows.iter().filter(|r| r.disturbed()).count() > rows.len();
        Advised::NotKnown(rows.to_vec(), busy)
    })
}

fn as_root<'a>(f: &Selection<'a>) -> Option<Advice<'a>> {
    let unable = f.run.machine.privilege != "root";
    let rows = f.results.iter();
    let rows = rows.filter(|r| unable && lacks_proof(f, r) && counts(f, r));
    from(rows.collect(), |_| Advised::RunAsRoot)
}

/// Why it, or the baseline beside it, is not trusted.
fn reason(row: &ResultRow) -> Option<&Distrust> {
    row.distrust.as_ref().map(Distrust::reason)
}

/// Whether the state of its caches is what is not trusted, and could be another.
fn lacks_proof(f: &Selection, row: &ResultRow) -> bool {
    let cache = matches!(
        reason(row),
        Some(Distrust::Cache(_) | Distrust::CacheUnproved(..))
    );
    cache && !f.in_memory(&row.layer)
}

/// Whether the layer is known to lie on a device.
fn counts(f: &Selection, row: &ResultRow) -> bool {
    let mut layers = f.run.layers.iter();
    layers.any(|l| l.name == row.layer && !storage::physical(&l.facts).is_empty())
}
