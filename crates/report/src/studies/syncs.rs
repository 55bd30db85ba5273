//! Which layers flush honestly, and which acknowledge a sync that they have not done: by power cuts (L3) where the plan makes
//! them, else by the flushes that the device counted (L2).

use layermark_model::witness::WitnessTrial;
use layermark_stats::Verdict;

use super::{
    Data,
    rows::{ids, is_emulated, judged, usable},
};
use crate::{
    code_span::code,
    facts::power_cuts::{self, Sum, controls, controls_failed, killed, lie, sum},
    number as text,
    types::{Conclusion, DurabilityVerdict, Holds, ResultRow},
    words::Words,
};

/// Claim about flushes.
pub const HONEST: &str = "flushes honestly";

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
    /// It was not cut, not set up again, or the controls were wrong.
    Unknown,
}

fn cut(trials: &[WitnessTrial], layer: &str) -> Cut {
    let sum = sum(trials, layer);
    match () {
        () if controls_failed(trials).is_some() => Cut::Unknown,
        () if sum.worst.is_some() => Cut::Lost,
        () if sum.cuts > 0 && sum.unrecovered == 0 => Cut::Kept,
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
    let made = |what: String, holds, evidence| Conclusion {
        claim: HONEST.into(),
        layer: layer.into(),
        text: format!("{} {HONEST}: {what}", code(layer)),
        holds,
        evidence,
    };
    let sum = sum(trials, layer);
    let evidence = || ids(rows.first().copied());
    match cut(trials, layer) {
        Cut::Lost => {
            let mut what = String::from(lie(trials, layer)?.loss());
            if let Some(killed) = killed(&sum) {
                what = format!("{what}; {}", killed.words(&data.names()));
            }
            Some(made(what, Holds::No, evidence()))
        }
        Cut::Kept => Some(made(kept(data, &sum), Holds::Yes, evidence())),
        Cut::Unknown => {
            let (row, holds, what) = counted(data, &rows)?;
            let why = sum.uncut.or(sum.unrecovered_why);
            let why = why.map_or_else(String::new, |why| {
                format!("; power cuts say nothing: {why}")
            });
            Some(made(what + &why, holds, ids([row])))
        }
    }
}

fn kept(data: &Data, sum: &Sum) -> String {
    let mut what = format!(
        "0 of {} lost in {}",
        text::count(sum.records as usize, "acknowledged record"),
        text::count(sum.cuts as usize, "power cut")
    );
    if let Some(killed) = killed(sum) {
        what = format!("{what}; {}", killed.words(&data.names()));
    }
    what
}

/// By the flushes that the device counted.
fn counted<'a>(data: &Data, rows: &[&'a ResultRow]) -> Option<(&'a ResultRow, Holds, String)> {
    let with = |verdict: DurabilityVerdict| {
        rows.iter()
            .copied()
            .find(|r| r.durability.verdict == verdict)
    };
    let told = |r: &ResultRow| r.durability.because.clone().unwrap_or_default();
    let proof = |r: &ResultRow| match r.durability.flushes {
        Some(n) => format!("{n} device flushes for {} syncs", r.durability.syncs),
        None => told(r),
    };
    if let Some(row) = with(DurabilityVerdict::Absorbed) {
        let faster = row
            .ratio
            .filter(|_| judged(data, &[row]) == [Verdict::Faster]);
        let than = |ratio| text::of_baseline(ratio, &data.baseline_name());
        let win = faster.map_or_else(String::new, |e| match text::written(&e) {
            (_, "") => format!("; that is why it takes {}", than(e.estimate)),
            _ => format!("; that is why it is {}", than(e.estimate)),
        });
        return Some((row, Holds::No, format!("{}{win}", proof(row))));
    }
    if let Some(row) = with(DurabilityVerdict::Honoured) {
        return Some((row, Holds::Yes, proof(row)));
    }
    let row = with(DurabilityVerdict::CannotTell)?;
    Some((row, Holds::Open, told(row)))
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
    let names_of =
        |layers: &[&str]| text::list(&layers.iter().map(|l| code(l)).collect::<Vec<_>>());
    let emulated = if is_emulated(data, &fast.1.layer) == is_emulated(data, &honest.1.layer) {
        ""
    } else {
        " (their CPUs differ)"
    };
    Some(Conclusion {
        claim: "the fastest sync in a guest is one that is done".into(),
        layer: fast.1.layer.clone(),
        text: format!(
            "the fastest sync in a guest is one that is done: a synced write takes {} in {}, and {} in {}, the fastest guest that keeps its data{emulated}. Power cuts lost acknowledged data in {}, and none in {}. {}",
            text::time(fast.0),
            code(&fast.1.layer),
            text::time(honest.0),
            code(&honest.1.layer),
            names_of(&lost),
            names_of(&kept),
            controls(trials).words(&data.names())
        ),
        holds: !Holds::when(faster && emulated.is_empty(), slower),
        evidence: ids([fast.1, honest.1]),
    })
}
