//! Time that waited for a CPU: how much of a result it is, and when it takes a verdict away.
//!
//! In a layer that only the kernel serves it is left out of every time of a single thread. Where a process
//! serves the layer, each request waits several times, so it is neither left out nor taken for a cost.

use layermark_model::{ClockTime, Trial, TrialRecord, flags};

use crate::{
    facts::limits,
    types::{Estimate, ResultRow, Verdict, WaitedIn, WaitingRow, Withheld},
};

/// From this share of the time on, waiting takes the words *slower* and *faster* away.
const MOST: f64 = 1.0 / 3.0;
/// From this share of the rest of the time on, what threads of the kernel waited for a device of the layer's own may be more
/// than the thread on the clock waited for them.
const OVERLAP: f64 = 0.1;
/// Below this share it changes no verdict: requests to a server wait for it on a quiet machine too.
const LITTLE: f64 = 0.01;
/// From this share of all times that it is left out of, the report says so.
pub const TOLD: f64 = 0.02;

/// Waiting in these trials, whose time of an operation counts `under_way` times. `None` if nothing is known. That of
/// the kernel's threads counts where it is left out of `time`.
pub fn of<'a>(
    records: impl Iterator<Item = &'a TrialRecord>,
    under_way: f64,
    time: ClockTime,
) -> Option<WaitingRow> {
    let trials: Vec<_> = records.filter_map(|r| r.trial.as_ref()).collect();
    let sum = |of: &dyn Fn(&Trial) -> Option<u64>| {
        let all: Option<u64> = trials.iter().map(|t| of(t)).sum();
        all.map(|ns| ns as f64)
    };
    let elapsed = sum(&|t| Some(t.elapsed_ns()))?;
    let ops = sum(&|t| Some(t.ops()))?;
    let own = sum(&|t| t.waited_ns());
    let kernel = sum(&|t| Some(t.kernel_waited_ns().unwrap_or(0)));
    let kernel = kernel.filter(|_| time == ClockTime::Clear);
    let waited = own.map(|ns| ns + kernel.unwrap_or(0.0));
    let helpers = sum(&|t| t.waiting?.helpers_ns);
    if elapsed <= 0.0 || ops <= 0.0 || waited.or(helpers).is_none() {
        return None;
    }
    let us = |ns: f64| ns / ops * under_way / 1e3;
    Some(WaitingRow {
        share: waited.map(|ns| ns / elapsed),
        us: waited.map(us),
        kernel_us: kernel.map(us),
        helpers_us: helpers.map(|ns| ns / ops / 1e3),
        whole_us: us(elapsed),
        left_out: time != ClockTime::Raw,
        ratio_with: None,
    })
}

/// Why a result of a layer that a process serves is not called slower or faster beside other programs. Too much of
/// its time was waiting, so that it may not have been slower without any of it, or the word does not hold without the
/// probe's waiting. `without` is the ratio without that.
/// On a quiet machine the probe and the server wait for each other alone, and that is the layer's cost.
pub fn refusal(
    row: &ResultRow,
    native: Option<&WaitingRow>,
    without: Option<&Estimate>,
) -> Option<Withheld> {
    let leaning = row.leaning();
    let here = row.waiting.as_ref().filter(|w| !w.left_out)?;
    if !matches!(leaning, Verdict::Slower | Verdict::Faster) || !is_disturbed(row) {
        return None;
    }
    let waited = match (leaning, row.ratio.and_then(|ratio| ratio.interval)) {
        (Verdict::Slower, Some([low, _])) => explains(row, low),
        _ => Some(*here).filter(|waited| waited.all_share() > MOST),
    };
    if let Some(waited) = waited {
        return Some(waits(WaitedIn::Layer, &waited, is_busy(row)));
    }
    let native = native.filter(|w| w.all_share() > MOST);
    if let Some(native) = native {
        return Some(waits(WaitedIn::Baseline, native, is_busy(row)));
    }
    let little = here.all_share() < LITTLE;
    let holds = |[low, high]: [f64; 2]| match leaning {
        Verdict::Slower => low > 1.0,
        _ => high < 1.0,
    };
    let without = without.filter(|e| !little && !e.interval.is_some_and(holds))?;
    Some(Withheld::Without(*without))
}

/// What threads of the kernel waited that is left out of a time, over the rest of it.
pub fn kernel_share(waited: &WaitingRow) -> f64 {
    let known = waited.kernel_us.zip(waited.us).filter(|_| waited.left_out);
    known.map_or(0.0, |(kernel_us, us)| kernel_us / (waited.whole_us - us))
}

/// Whether it is more than a little.
pub fn is_much(share: f64) -> bool {
    share > OVERLAP
}

/// Why a result of a layer on other devices than the baseline's has no word. Threads of the kernel serve each device, and
/// several of them may wait at the same time: without the sum of it a time may be too short. Where one file system is below
/// both, that is the same on both sides.
pub fn overlaps(row: &ResultRow, native: Option<&WaitingRow>) -> Option<Withheld> {
    let [low, high] = row.ratio?.interval?;
    let (here, native) = (row.waiting?, native.copied().unwrap_or_default());
    let [own, natively] = [&here, &native].map(kernel_share);
    let place = match row.leaning() {
        Verdict::Faster if is_much(own) && high * (1.0 + own) >= 1.0 => WaitedIn::Layer,
        Verdict::Slower if is_much(natively) && low <= 1.0 + natively => WaitedIn::Baseline,
        Verdict::Same if is_much(own) => WaitedIn::Layer,
        Verdict::Same if is_much(natively) => WaitedIn::Baseline,
        _ => return None,
    };
    let waited = if place == WaitedIn::Layer {
        here
    } else {
        native
    };
    Some(waits(place, &waited, true))
}

/// Why a change from an old run to a new one may be nothing but waiting, in a layer that a process serves: the run
/// that took longer waited for more than a third of its time, and would not have taken longer without that.
pub fn of_change(change: &ResultRow, old: &ResultRow, new: &ResultRow) -> Option<Withheld> {
    let [low, high] = change.ratio?.interval?;
    let (place, row, least) = match change.leaning() {
        Verdict::Slower => (WaitedIn::NewRun, new, low),
        Verdict::Faster => (WaitedIn::OldRun, old, 1.0 / high),
        _ => return None,
    };
    let waited = explains(row, least)?;
    Some(waits(place, &waited, is_busy(row)))
}

/// The waiting of a result that took at least so many times as long as another, if it is more than a third of the time
/// and it would not have taken longer without that. None if waiting is left out.
pub fn explains(row: &ResultRow, least: f64) -> Option<WaitingRow> {
    let waited = row.waiting.filter(|w| !w.left_out)?;
    let share = waited.all_share();
    (share > MOST && least * (1.0 - share) <= 1.0).then_some(waited)
}

fn waits(place: WaitedIn, waited: &WaitingRow, busy: bool) -> Withheld {
    Withheld::Waits {
        place,
        whole_us: waited.whole_us,
        waits_us: waited.all_us(),
        busy,
    }
}

/// Whether other programs used the CPUs during more than a few trials of a row.
fn is_disturbed(row: &ResultRow) -> bool {
    let disturbed = row.flag_counts.get(flags::CONTAMINATED).copied();
    10 * disturbed.unwrap_or(0) > row.trials
}

/// Whether other programs used the CPUs during most trials of a row.
pub fn is_busy(row: &ResultRow) -> bool {
    let disturbed = row.flag_counts.get(flags::CONTAMINATED).copied();
    // Who was stopped by a quota has waited for that as well.
    2 * disturbed.unwrap_or(0) > row.trials && limits::stopped(row) <= 0.0
}
