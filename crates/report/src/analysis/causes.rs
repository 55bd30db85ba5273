//! Why a layer is faster or slower than native, as far as the data tells.

use layermark_model::{Facts, Point};

use crate::{
    analysis::{
        durability::SUSPECTED,
        facts,
        points::{self, Kind},
    },
    number,
    types::{DurabilityVerdict, ResultRow, ServedBy, Verdict},
};

/// The data lies in memory.
pub const MEMORY: &str = "its data lies in memory, not on a disk";
/// A lower file is copied before it is changed.
pub const COPY_UP: &str = "copy-up, the whole file is copied before its first byte changes";
/// The guest's instructions are run by a program.
pub const EMULATED: &str = "emulated CPU, which makes every instruction dearer";
/// Said when nothing explains a win.
pub const NONE: &str = "no reason was found in the data, so do not count on it";

/// A reason without its figures, which differ from result to result: tells reasons apart.
pub fn stem(reason: &str) -> &str {
    reason
        .split(|c: char| c.is_ascii_digit())
        .next()
        .unwrap_or_default()
}

/// A result in a layer and natively.
pub struct Sides<'a> {
    /// The point.
    pub point: &'a Point,
    /// In the layer.
    pub here: &'a ResultRow,
    /// Natively.
    pub native: &'a ResultRow,
    /// The layer's facts.
    pub facts: &'a Facts,
    /// Native's facts.
    pub native_facts: &'a Facts,
}

/// Reasons for the verdict of a result, the strongest first; empty where none is called for.
pub fn find(sides: &Sides) -> Vec<String> {
    match sides.here.leaning() {
        Verdict::Faster => faster(sides),
        Verdict::Slower => slower(sides),
        _ => Vec::new(),
    }
}

fn faster(sides: &Sides) -> Vec<String> {
    let (here, native) = (sides.here, sides.native);
    let mut found = Vec::new();
    if here.durability.verdict == DurabilityVerdict::Absorbed {
        let (flushes, syncs) = (here.durability.flushes.unwrap_or(0), here.durability.syncs);
        found.push(format!(
            "it skips fsync ({flushes} device flushes for {syncs} syncs)"
        ));
    }
    if sides.facts.in_memory() && !sides.native_facts.in_memory() {
        found.push(MEMORY.into());
        return found;
    }
    found.extend(other_device(sides));
    found.extend(other_source(here, native));
    let owed = |row: &ResultRow| row.write_back_debt.and_then(|d| d.bytes);
    if let (Some(a), Some(b)) = (owed(here), owed(native))
        && a > 1.5 * b.max(1.0)
        && a > 65_536.0
    {
        found.push(format!(
            "it had {} still to write when the clock stopped, native {}",
            number::bytes(a),
            number::bytes(b)
        ));
    }
    if let Some(with) = facts::compression(sides.facts) {
        found.push(format!(
            "it compresses ({with}), so less crosses the device"
        ));
    }
    found.extend(other_flushes(here, native, "fewer"));
    // Another file system is no reason for a flush that is several times faster.
    if let Some(how) = &here.durability.suspicion
        && here.durability.verdict == DurabilityVerdict::CannotTell
    {
        found.insert(0, format!("{SUSPECTED}: {how}"));
    }
    let (fs, native_fs) = (
        facts::file_system(sides.facts),
        facts::file_system(sides.native_facts),
    );
    if found.is_empty()
        && !fs.is_empty()
        && fs != native_fs
        && points::kind(sides.point) != Kind::Reading
    {
        found.push(format!("it is another file system ({fs}, natively {native_fs}); nothing else in the data explains it"));
    }
    if found.is_empty() {
        found.push(NONE.into());
    }
    found
}

fn slower(sides: &Sides) -> Vec<String> {
    let (here, native) = (sides.here, sides.native);
    let mut found = Vec::new();
    if copied(sides) {
        found.push(COPY_UP.into());
    }
    if sides.facts.emulated_cpu() {
        found.push(EMULATED.into());
    }
    found.extend(other_device(sides));
    found.extend(other_source(here, native));
    found.extend(other_flushes(here, native, "more"));
    if points::kind(sides.point) != Kind::Reading
        && let (Some(a), Some(b)) = (here.device_share, native.device_share)
        && a > 1.5 * b
        && a > 0.1
    {
        found.push(format!(
            "it writes {} bytes to the device for each byte of the application, native {}",
            number::sig3(a),
            number::sig3(b)
        ));
    }
    if facts::is_fuse(sides.facts) {
        found.push("each call goes through a program in user space".into());
        let upkeep = here.cpu_us_per_op.map_or(0.0, |c| c.upkeep);
        if upkeep > 0.0 {
            let cpu = number::time(upkeep);
            found.push(format!("that program uses {cpu} of CPU an operation"));
        }
    }
    found
}

/// Nothing copies a file faster than this, bytes a microsecond: 20 GB/s.
const FASTEST_COPY: f64 = 20_000.0;

/// The layer copies lower files before it changes them, and what it cost is enough for a copy: a
/// file that lies in the upper directory already, or a reflink, is not copied.
fn copied(sides: &Sides) -> bool {
    let least = sides.point.number("file_size") as f64 / FASTEST_COPY;
    let extra = sides.here.extra_us.map_or(0.0, |e| e.estimate);
    points::changes_packaged(sides.point) && facts::copies_up(sides.facts) && extra >= least
}

fn other_device(sides: &Sides) -> Option<String> {
    let (here, native) = (
        facts::physical(sides.facts),
        facts::physical(sides.native_facts),
    );
    let apart = !here.is_empty() && !native.is_empty() && !here.iter().any(|d| native.contains(d));
    apart.then(|| {
        format!(
            "it stands on another device ({}, natively {})",
            here.join(" and "),
            native.join(" and ")
        )
    })
}

fn other_source(here: &ResultRow, native: &ResultRow) -> Option<String> {
    let (from, natively) = (here.served_by?, native.served_by?);
    let known = from != ServedBy::Unknown && natively != ServedBy::Unknown;
    (known && from != natively).then(|| {
        format!(
            "it read from {}, native from {}",
            from.word(),
            natively.word()
        )
    })
}

/// The devices were told to flush clearly more, or less, often for each call.
fn other_flushes(here: &ResultRow, native: &ResultRow, which: &str) -> Option<String> {
    let each = |row: &ResultRow| {
        let syncs = row.durability.syncs;
        row.durability
            .flushes
            .filter(|_| syncs > 0)
            .map(|n| n as f64 / syncs as f64)
    };
    let (a, b) = (each(here)?, each(native)?);
    let differs = if which == "more" {
        a > 1.3 * b && a > 0.5
    } else {
        a < b / 1.3 && here.durability.verdict != DurabilityVerdict::Absorbed
    };
    differs.then(|| {
        format!(
            "it flushes the device {} times a sync, native {}",
            number::sig3(a),
            number::sig3(b)
        )
    })
}
