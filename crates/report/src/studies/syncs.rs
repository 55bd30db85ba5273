//! Which layers flush honestly, and which acknowledge a sync that they have not done: by power cuts (L3) where the plan makes
//! them, else by the flushes that the device counted (L2).

use layermark_model::witness::WitnessTrial;
use layermark_stats::Verdict;

use super::{
    Data, conclusion,
    rows::{ids, is_emulated, judged, usable},
};
use crate::{
    facts::power_cuts::{self, controls, controls_failed, killed, lie, sum, unseen_liar},
    statements::studies::iozone_vm::{CountedFlushes, FastSync, IozoneClaim, SyncProof},
    types::{Conclusion, DurabilityVerdict, Holds, ResultRow},
};

/// A conclusion for each layer, and those that were only cut; then whether a fast sync is one that was not
/// done.
pub fn conclusions(data: &Data, others: &[&str]) -> Vec<Conclusion> {
    let trials = power_cuts::of(data.run);
    let cut = power_cuts::layers(&trials).into_iter();
    // The controls have a sentence of their own.
    let only_cut = cut.filter(|l| {
        let of = sum(&trials, l);
        (of.control.is_none() || of.named) && !data.run.layers.iter().any(|own| own.name == **l)
    });
    let all = others.iter().copied().chain(only_cut);
    let mut made: Vec<Conclusion> = all.filter_map(|l| acknowledged(data, &trials, l)).collect();
    made.extend(fast_sync(data, &trials));
    made
}

/// Results with a flush after every record.
pub fn flushed<'a>(data: &Data<'a>, layer: &str) -> Vec<&'a ResultRow> {
    let rows = data.results.iter();
    rows.filter(|r| r.layer == layer && usable(r) && r.meaning.flushes)
        .collect()
}

/// What power cuts say of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Lost,
    Kept,
    /// It was not cut, not set up again, or the controls were wrong or, of the liar, not judged.
    Unknown,
}

fn cut(trials: &[WitnessTrial], layer: &str) -> Cut {
    let sum = sum(trials, layer);
    match () {
        () if controls_failed(trials).is_some() => Cut::Unknown,
        () if sum.worst.is_some() => Cut::Lost,
        () if unseen_liar(trials).is_some() => Cut::Unknown,
        () if sum.cuts > 0 && sum.unrecovered == 0 && sum.unjudged == 0 => Cut::Kept,
        () => Cut::Unknown,
    }
}

/// Whether a layer keeps what it has acknowledged: by power cuts, else by counted flushes.
pub fn is_kept(data: &Data, row: &ResultRow) -> bool {
    match cut(&power_cuts::of(data.run), &row.layer) {
        Cut::Kept => true,
        Cut::Lost => false,
        Cut::Unknown => row.durability.verdict == DurabilityVerdict::Honoured,
    }
}

/// Whether a layer loses what it has acknowledged: by power cuts, else by counted flushes.
pub fn is_lost(data: &Data, row: &ResultRow) -> bool {
    match cut(&power_cuts::of(data.run), &row.layer) {
        Cut::Lost => true,
        Cut::Kept => false,
        Cut::Unknown => row.durability.verdict == DurabilityVerdict::Absorbed,
    }
}

/// Whether syncs are done, and not only acknowledged.
fn acknowledged(data: &Data, trials: &[WitnessTrial], layer: &str) -> Option<Conclusion> {
    let rows = flushed(data, layer);
    let made = |proof, holds, evidence| {
        let said = IozoneClaim::Honest(layer, proof);
        Some(conclusion(&said, layer, holds, evidence, &data.names()))
    };
    let sum = sum(trials, layer);
    let evidence = || ids(rows.first().copied());
    match cut(trials, layer) {
        Cut::Lost => {
            let lost = SyncProof::Lost(Box::new(lie(trials, layer)?), killed(&sum));
            made(lost, Holds::No, evidence())
        }
        Cut::Kept => {
            let kept = SyncProof::Kept {
                records: sum.records,
                cuts: sum.cuts,
                killed: killed(&sum),
            };
            made(kept, Holds::Yes, evidence())
        }
        Cut::Unknown => {
            let (holds, flushes) = counted(data, &rows)?;
            let evidence = ids([flushes.row]);
            let uncut = sum.uncut.or(sum.unrecovered_why).or(sum.unjudged_why);
            made(SyncProof::Counted(flushes, uncut), holds, evidence)
        }
    }
}

/// By the flushes that the device counted.
fn counted<'a>(data: &Data, rows: &[&'a ResultRow]) -> Option<(Holds, CountedFlushes<'a>)> {
    use DurabilityVerdict::{Absorbed, CannotTell, Honoured};
    let with = |verdict| {
        let mut rows = rows.iter().copied();
        rows.find(|r| r.durability.verdict == verdict)
    };
    let of = |(verdict, holds)| {
        let row = with(verdict)?;
        let is_faster = || judged(data, &[row]) == [Verdict::Faster];
        let flushes = CountedFlushes {
            row,
            counted: verdict != CannotTell,
            faster: row.ratio.filter(|_| verdict == Absorbed && is_faster()),
        };
        Some((holds, flushes))
    };
    let order = [
        (Absorbed, Holds::No),
        (Honoured, Holds::Yes),
        (CannotTell, Holds::Open),
    ];
    order.into_iter().find_map(of)
}

/// Whether a fast sync is done: not if the guests that lose data when the power is cut are those whose
/// syncs are fast. The study suspected that its guest was faster than the host for this reason.
fn fast_sync(data: &Data, trials: &[WitnessTrial]) -> Option<Conclusion> {
    let is_guest = |name: &str| {
        let of = data.run.layers.iter().find(|l| l.name == name);
        of.is_some_and(|l| l.facts.guest.is_some())
    };
    let names = power_cuts::layers(trials);
    let with = |wanted: Cut| -> Vec<&str> {
        let asked = |l: &&str| !sum(trials, l).is_only_liar();
        let found = names.iter().copied().filter(asked);
        found.filter(|l| cut(trials, l) == wanted).collect()
    };
    let (lost, kept) = (with(Cut::Lost), with(Cut::Kept));
    let timed = |layers: &[&str]| {
        let guests = layers.iter().filter(|l| is_guest(l));
        let rows = guests.filter_map(|l| flushed(data, l).first().copied());
        let timed = rows.filter_map(|r| Some((r.op_us?, r)));
        timed.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (fast, honest) = (timed(&lost)?, timed(&kept)?);
    let both = fast.1.op_us_interval.zip(honest.1.op_us_interval);
    let faster = both.is_some_and(|(fast, honest)| fast[1] < honest[0]);
    let slower = both.is_some_and(|(fast, honest)| honest[1] < fast[0]);
    let is_on_emulated = |row: &ResultRow| is_emulated(data, &row.layer);
    let cpus_differ = is_on_emulated(fast.1) != is_on_emulated(honest.1);
    let said = IozoneClaim::FastSync(Box::new(FastSync {
        fast: (&fast.1.layer, fast.0),
        honest: (&honest.1.layer, honest.0),
        cpus_differ,
        lost,
        kept,
        controls: controls(trials),
    }));
    let holds = !Holds::when(faster && !cpus_differ, slower);
    let evidence = ids([fast.1, honest.1]);
    Some(conclusion(
        &said,
        &fast.1.layer,
        holds,
        evidence,
        &data.names(),
    ))
}
