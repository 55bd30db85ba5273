//! Causes of a layer being faster or slower than the baseline, as far as the data shows them.

use layermark_model::{Facts, Point, Quantity, Target, Unit};

use crate::{
    facts::{
        limits, others,
        settings::{self, Having},
        storage, waiting,
    },
    types::{Cause, DurabilityVerdict, ResultRow, ServedBy, Sides, Verdict},
};

/// A result in a layer and in the baseline.
pub struct CausesOf<'a> {
    /// The point.
    pub point: &'a Point,
    /// In the layer.
    pub here: &'a ResultRow,
    /// In the baseline.
    pub native: &'a ResultRow,
    /// The layer's facts.
    pub facts: &'a Facts,
    /// The baseline's facts.
    pub native_facts: &'a Facts,
    /// Whether nothing should be faster than the baseline: it is native, or nothing but a file system of
    /// this kernel lies between it and its device.
    pub is_bare: bool,
    /// The other layers at the same point.
    pub others: Vec<(&'a ResultRow, &'a Facts)>,
    /// Smallest difference that counts, as a share of the baseline's time.
    pub delta: f64,
}

/// Causes of a result's verdict, strongest first; empty if the verdict needs none.
///
/// Each cause has a datum that the baseline lacks. If another layer has the same datum, the cause
/// explains at most what it costs there.
pub fn find(compared: &CausesOf) -> Vec<Cause> {
    // Nothing waits until a change of the other side is seen, so it is not a cost of each call.
    if compared.point.meaning.is_seeing() {
        return Vec::new();
    }
    match compared.here.leaning() {
        Verdict::Faster => faster(compared),
        Verdict::Slower => {
            let mut found = slower(compared);
            found.retain(|cause| !is_refuted(cause, compared));
            // It refers to the program that the other cause names.
            if !found.contains(&Cause::UserSpace) {
                found.retain(|c| !matches!(c, Cause::HelperCpu(_)));
            }
            found
        }
        _ => Vec::new(),
    }
}

/// A cause that costs another layer less than this share of a difference does not explain it.
const EXPLAINS: f64 = 0.5;

/// Whether a layer with the same datum is much cheaper at the same point.
fn is_refuted(cause: &Cause, compared: &CausesOf) -> bool {
    let Some(extra) = compared.here.extra_us.map(|e| e.estimate) else {
        return false;
    };
    // What its own program was seen to do needs no other layer to agree.
    if *cause == Cause::UserSpace && upkeep(compared.here) >= EXPLAINS * extra {
        return false;
    }
    compared.others.iter().any(|(row, facts)| {
        let cheaper = row.extra_us.is_some_and(|e| e.estimate < EXPLAINS * extra);
        cheaper && row.verdict != Verdict::Untrusted && has_datum(cause, row, facts, compared.point)
    })
}

/// Whether a layer has the datum that proves a cause.
fn has_datum(cause: &Cause, row: &ResultRow, facts: &Facts, point: &Point) -> bool {
    let at_least = |figure: Option<f64>, here: f64| figure.is_some_and(|f| f >= 0.9 * here);
    match cause {
        Cause::CopyUp => copied(point, row, facts),
        Cause::NetworkFileSystem { .. } => facts.network().is_some(),
        Cause::KernelWorkers(_) => row.kernel_workers.is_some_and(|n| n > 0),
        Cause::EmulatedCpu => facts.emulated_cpu(),
        Cause::UserSpace => facts.is_fuse(),
        Cause::Setting(setting) => setting.is_of(facts),
        Cause::CpuLimit(..) => limits::of_cpu(facts).is_some() && limits::stopped(row) > 0.0,
        Cause::SeccompFilters(sides) => facts.seccomp_filters() >= sides.here,
        Cause::OtherDevice(sides) => storage::physical(facts) == sides.here,
        Cause::OtherSource(sides) => row.served_by == Some(sides.here),
        Cause::WriteAmplification(sides) => at_least(row.written.map(|w| w.typical), sides.here),
        Cause::FlushesPerSync(sides) => at_least(flushes_per_sync(row), sides.here),
        _ => false,
    }
}

fn faster(compared: &CausesOf) -> Vec<Cause> {
    let (here, native) = (compared.here, compared.native);
    let mut found = Vec::new();
    if here.durability.verdict == DurabilityVerdict::Absorbed {
        let counted = &here.durability;
        found.push(Cause::SkippedFlush {
            flushes: counted.flushes.unwrap_or(0),
            syncs: counted.syncs,
            natively: counted.reference_flushes,
        });
    }
    if here.durability.verdict == DurabilityVerdict::Late {
        found.push(Cause::LateFlush);
    }
    let in_memory = compared.facts.in_memory() && !compared.native_facts.in_memory();
    if in_memory && waits_for_a_device(compared) {
        found.push(Cause::Memory);
        return found;
    }
    found.extend(other_device(compared));
    found.extend(other_source(here, native, Verdict::Faster));
    found.extend(debt(here, native));
    // Fewer bytes cross the device than in the baseline.
    let fewer = here.device_share.zip(native.device_share);
    let fewer = fewer.filter(|_| is_silent(here) && is_silent(native));
    if let Some(with) = storage::compression(compared.facts)
        && fewer.is_some_and(|(a, b)| a < 0.9 * b)
    {
        found.push(Cause::Compression(with.into()));
    }
    let read_ahead = settings::read_ahead(&compared.in_layer(), false);
    found.extend(read_ahead.map(Cause::Setting));
    found.extend(other_flushes(here, native, "fewer"));
    found.extend(baselines_own(compared).map(|cause| Cause::OfBaseline(Box::new(cause))));
    // Another file system does not explain a flush that is several times faster.
    if let Some(how) = &here.durability.suspicion
        && here.durability.verdict == DurabilityVerdict::CannotTell
    {
        found.insert(0, Cause::SuspectedFlush(how.clone()));
    }
    if found.is_empty() && is_small(here, compared.delta) {
        return vec![Cause::Small(compared.delta)];
    }
    let (fs, native_fs) = (
        storage::file_system(compared.facts),
        storage::file_system(compared.native_facts),
    );
    // A program in user space stands above the same directory, and adds its own time.
    let kernels = !fs.is_empty() && !compared.facts.is_fuse();
    if found.is_empty() && kernels && fs != native_fs && !compared.point.meaning.only_reads() {
        found.push(Cause::OtherFileSystem(Sides {
            here: fs.into(),
            native: native_fs.into(),
        }));
    }
    // Another layer than the baseline may well be faster than it.
    if found.is_empty() && compared.is_bare {
        found.push(Cause::Unexplained);
    }
    found
}

/// It leaves so much to write that this is most of what it gains.
fn debt(here: &ResultRow, native: &ResultRow) -> Option<Cause> {
    let (a, b) = (
        here.write_back_debt?.us_per_op,
        native.write_back_debt?.us_per_op,
    );
    let gain = -here.extra_us?.estimate;
    (gain > 0.0 && a - b >= EXPLAINS * gain)
        .then_some(Cause::WriteBackDebt(Sides { here: a, native: b }))
}

/// What makes the baseline slow and is not true of the layer. Native has nothing of this kind.
fn baselines_own(compared: &CausesOf) -> Option<Cause> {
    let (here, there) = (compared.facts, compared.native_facts);
    let copies =
        |facts: &Facts| compared.point.meaning.target == Target::PackagedFile && facts.copies_up();
    if copies(there) && !copies(here) {
        return Some(Cause::CopyUp);
    }
    let cached = answered_by_cache(compared.native);
    let network = there.network();
    let network = network.filter(|_| !cached && here.network().is_none());
    let network = network.map(|mount| Cause::NetworkFileSystem {
        fs: mount.fs.clone(),
        source: mount.source.clone(),
    });
    let emulated = there.emulated_cpu() && !here.emulated_cpu();
    let user_space = !cached && there.is_fuse() && !here.is_fuse();
    let setting = || {
        let having = compared.in_baseline();
        let mut options = settings::mount_options(&having).into_iter();
        let found = options.next().or_else(|| settings::encrypts(&having));
        found.map(Cause::Setting)
    };
    network
        .or(emulated.then_some(Cause::EmulatedCpu))
        .or(user_space.then_some(Cause::UserSpace))
        .or_else(setting)
}

impl<'a> CausesOf<'a> {
    /// The layer as the side that may have a setting.
    fn in_layer(&self) -> Having<'a> {
        Having {
            facts: self.facts,
            row: self.here,
            without: self.native_facts,
        }
    }

    /// The baseline as that side.
    fn in_baseline(&self) -> Having<'a> {
        Having {
            facts: self.native_facts,
            row: self.native,
            without: self.facts,
        }
    }
}

/// Whether a layer is faster by so little that nobody would count on it: no alarm without a reason.
fn is_small(here: &ResultRow, delta: f64) -> bool {
    let ratio = here.ratio.filter(|_| !here.has_stalls());
    ratio.is_some_and(|r| r.estimate >= 1.0 / (1.0 + delta))
}

fn slower(compared: &CausesOf) -> Vec<Cause> {
    let (here, native) = (compared.here, compared.native);
    let mut found = Vec::new();
    if copied(compared.point, here, compared.facts) && !compared.native_facts.copies_up() {
        found.push(Cause::CopyUp);
    }
    let cached = answered_by_cache(here);
    let network = compared.facts.network();
    let apart = !cached && compared.native_facts.network().is_none();
    if let Some(mount) = network.filter(|_| apart) {
        found.push(Cause::NetworkFileSystem {
            fs: mount.fs.clone(),
            source: mount.source.clone(),
        });
    }
    if let Some(threads) = here.kernel_workers.filter(|n| *n > 0)
        && native.kernel_workers == Some(0)
    {
        found.push(Cause::KernelWorkers(threads));
    }
    if compared.facts.emulated_cpu() && !compared.native_facts.emulated_cpu() {
        found.push(Cause::EmulatedCpu);
    }
    let having = compared.in_layer();
    let options = settings::mount_options(&having).into_iter();
    found.extend(options.map(Cause::Setting));
    found.extend(limits::cause([here, native], compared.facts));
    // A layer above another file system reads ahead there as well.
    let above = compared.facts.is_fuse() || compared.facts.devices.iter().any(|d| d.own);
    let read_ahead = settings::read_ahead(&having, true).map(Cause::Setting);
    found.extend(read_ahead.clone().filter(|_| !above));
    found.extend(other_device(compared));
    found.extend(other_source(here, native, Verdict::Slower));
    found.extend(other_flushes(here, native, "more"));
    found.extend(more_bytes(here, native));
    if compared.facts.is_fuse() && !compared.native_facts.is_fuse() {
        let upkeep = upkeep(here);
        let extra = here.extra_us.map_or(0.0, |e| e.estimate);
        let busy = upkeep > HELPER_FROM * extra && upkeep > 0.0;
        if busy || !cached {
            found.push(Cause::UserSpace);
        }
        if busy {
            found.push(Cause::HelperCpu(upkeep));
        }
    }
    found.extend(read_ahead.filter(|_| above));
    found.extend(settings::compresses(&having).map(Cause::Setting));
    found.extend(settings::encrypts(&having).map(Cause::Setting));
    found.extend(more_filters(compared));
    found.extend(waits_for_cpu(here));
    found
}

/// On a busy machine, requests to a process that serves the layer wait for a CPU again and again.
fn waits_for_cpu(here: &ResultRow) -> Option<Cause> {
    let waited = here.waiting.filter(|w| !w.left_out)?;
    let (whole_us, waits_us) = (waited.whole_us, waited.all_us());
    let extra = here.extra_us.map_or(0.0, |e| e.estimate);
    let counts = waits_us > HELPER_FROM * extra && waiting::is_busy(here);
    counts.then_some(Cause::WaitsForCpu { whole_us, waits_us })
}

/// It writes clearly more bytes to its device, in most trials, and its operations wait for them.
fn more_bytes(here: &ResultRow, native: &ResultRow) -> Option<Cause> {
    let (here, native) = (here.written?, native.written?);
    let least = here.quartiles[0];
    (least > 1.5 * native.quartiles[1] && least > 0.1).then_some(Cause::WriteAmplification(Sides {
        here: here.typical,
        native: native.typical,
    }))
}

/// Whether the device bytes of a result are not those of other programs. Older runs did not look.
fn is_silent(row: &ResultRow) -> bool {
    row.device_others
        .is_none_or(|share| share <= others::SILENT)
}

/// CPU time of the layer's program, microseconds an operation.
fn upkeep(row: &ResultRow) -> f64 {
    row.cpu_us_per_op.map_or(0.0, |c| c.upkeep)
}

/// From this share of its pages on, a file is in the page cache.
const CACHED: f64 = 0.9;

/// Whether it reads a file that is open and whose data the page cache above the layer has: nothing
/// reaches a program or a server.
fn answered_by_cache(row: &ResultRow) -> bool {
    let near = matches!(
        row.served_by,
        Some(ServedBy::HostMemory | ServedBy::GuestMemory)
    );
    let cached = row.resident.is_some_and(|share| share > CACHED);
    row.meaning.unit == Unit::Byte && near && cached && !row.meaning.is_direct()
}

/// Upper bound of what seccomp filters cost an operation of a few system calls, microseconds. podman's cost 0.2 to
/// 0.3 a call, those of systemd-nspawn 0.1.
const FILTERS_MOST: f64 = 2.0;

fn more_filters(compared: &CausesOf) -> Option<Cause> {
    let [here, native] = [compared.facts, compared.native_facts].map(Facts::seccomp_filters);
    let extra = compared.here.extra_us?.estimate;
    (here > native && extra < FILTERS_MOST).then_some(Cause::SeccompFilters(Sides { here, native }))
}

/// CPU time of a layer's program is reported from this share of the difference on.
const HELPER_FROM: f64 = 0.1;
/// Device bytes per written byte from which a write waits for a device.
const SOME: f64 = 0.05;
/// Upper bound of the speed of a file copy, bytes per microsecond: 20 GB/s.
const FASTEST_COPY: f64 = 20_000.0;

/// Whether the layer copied a packaged file before changing it. The file must lie below an overlay, and the cost must
/// suffice for a copy: a reflink is none.
fn copied(point: &Point, row: &ResultRow, facts: &Facts) -> bool {
    let said = &point.meaning;
    let least = said.value(Quantity::DataSize).unwrap_or(0) as f64 / FASTEST_COPY;
    let extra = row.extra_us.map_or(0.0, |e| e.estimate);
    said.target == Target::PackagedFile && facts.copies_up() && extra >= least
}

fn other_device(compared: &CausesOf) -> Option<Cause> {
    let (here, native) = (
        storage::physical(compared.facts),
        storage::physical(compared.native_facts),
    );
    let apart = !here.is_empty() && !native.is_empty() && !here.iter().any(|d| native.contains(d));
    let named = |devices: Vec<&str>| devices.into_iter().map(str::to_owned).collect();
    (apart && waits_for_a_device(compared)).then(|| {
        Cause::OtherDevice(Sides {
            here: named(here),
            native: named(native),
        })
    })
}

/// Whether the operation waits for a device, here or in the baseline. An operation served from memory does
/// not depend on the device below.
fn waits_for_a_device(compared: &CausesOf) -> bool {
    let meaning = &compared.point.meaning;
    let moved = |row: &ResultRow| match row.served_by {
        Some(from) => matches!(from, ServedBy::Device | ServedBy::Mixed),
        None => row.device_share.is_some_and(|share| share > SOME),
    };
    meaning.flushes
        || meaning.is_cold()
        || meaning.is_direct()
        || moved(compared.here)
        || moved(compared.native)
}

/// It read from a more distant place (slower) or a nearer one (faster) than the baseline.
fn other_source(here: &ResultRow, native: &ResultRow, verdict: Verdict) -> Option<Cause> {
    let distance = |from: ServedBy| match from {
        ServedBy::GuestMemory => Some(0),
        ServedBy::HostMemory => Some(1),
        ServedBy::ServerMemory => Some(2),
        ServedBy::Mixed => Some(3),
        ServedBy::Device => Some(4),
        ServedBy::Unknown => None,
    };
    let (from, there) = (here.served_by?, native.served_by?);
    let (a, b) = (distance(from)?, distance(there)?);
    // It was the device, or partly, by bytes that may be another program's.
    let by_bytes = |row: &ResultRow, from| {
        matches!(from, ServedBy::Device | ServedBy::Mixed) && !is_silent(row)
    };
    if by_bytes(here, from) || by_bytes(native, there) {
        return None;
    }
    let explains = match verdict {
        Verdict::Slower => a > b,
        _ => a < b,
    };
    explains.then_some(Cause::OtherSource(Sides {
        here: from,
        native: there,
    }))
}

/// Flushes of the devices per call.
fn flushes_per_sync(row: &ResultRow) -> Option<f64> {
    let syncs = row.durability.syncs;
    // Flushes of other programs are not a cause.
    let own = row.durability.background.is_none_or(|others| others < 1.0);
    let flushes = row.durability.flushes.filter(|_| syncs > 0 && own);
    let share = flushes.map(|flushes| flushes as f64 / syncs as f64);
    row.durability.per_sync.or(share)
}

/// The devices received clearly more, or fewer, flushes per call.
fn other_flushes(here: &ResultRow, native: &ResultRow, which: &str) -> Option<Cause> {
    let (a, b) = (flushes_per_sync(here)?, flushes_per_sync(native)?);
    let differs = if which == "more" {
        a > 1.3 * b && a > 0.5
    } else {
        let fewer = here.durability.per_sync.is_some() && native.durability.per_sync.is_none();
        (fewer || a < b / 1.3) && !here.durability.skips()
    };
    differs.then_some(Cause::FlushesPerSync(Sides { here: a, native: b }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DebtRow, Estimate};

    /// With stalls a layer may be faster and take longer on the average: it gains nothing.
    #[test]
    fn a_debt_explains_a_gain_alone() {
        let owes = |us_per_op, extra| ResultRow {
            write_back_debt: Some(DebtRow {
                bytes: None,
                seconds: 1.0,
                us_per_op,
            }),
            extra_us: Some(Estimate {
                estimate: extra,
                interval: None,
                average: None,
            }),
            ..ResultRow::default()
        };
        let native = owes(1.0, 0.0);
        let explains = |us, extra| debt(&owes(us, extra), &native).is_some();
        assert!(explains(6.0, -10.0));
        assert!(!explains(5.0, -10.0), "less than half of it");
        assert!(!explains(6.0, 10.0));
    }
}
