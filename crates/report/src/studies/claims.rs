//! Conclusions of the study of development machines, decided from the data. Which layers have a
//! ceiling, cost a constant, or acknowledge unfinished syncs; where to read, and where not to
//! write.

use std::collections::BTreeSet;

use layermark_model::Direction;
use layermark_stats::Verdict;

use super::{
    Data, conclusion,
    parts::{StudyPart, pairs},
    rows::{geometric_mean, ids, is_emulated, judged, layers, mark, request_size},
    syncs::{self, flushed, is_kept, is_lost},
};
use crate::{
    statements::studies::iozone_vm::{IozoneClaim, LibraryTimes, Than},
    types::{Conclusion, CostRow, Estimate, Holds, ResultRow, ServedBy},
};

/// All conclusions, for every layer except native.
pub fn conclusions(data: &Data, charts: &[StudyPart]) -> Vec<Conclusion> {
    let native = data.run.layers[data.baseline].name.as_str();
    let others: Vec<&str> = layers(data).into_iter().filter(|l| *l != native).collect();
    let each = |make: &dyn Fn(&str) -> Option<Conclusion>| -> Vec<Conclusion> {
        others.iter().filter_map(|l| make(l)).collect()
    };
    let mut all = each(&|l| ceiling(data, charts, native, l));
    all.extend(each(&|l| constant(data, l)));
    all.extend(each(&|l| caches(data, charts, l)));
    all.extend(syncs::conclusions(data, &others));
    all.extend(each(&|l| database(data, native, l)));
    all.extend(prefer(data, charts, &others));
    all.extend(
        ["read", "write"]
            .iter()
            .filter_map(|op| library(data, native, op)),
    );
    mark(data, &mut all);
    all
}

/// Mean of the results' ratios, if all have one.
fn mean_ratio(rows: &[&ResultRow]) -> Option<f64> {
    let ratios: Option<Vec<f64>> = rows.iter().map(|r| Some(r.ratio?.estimate)).collect();
    geometric_mean(&ratios?)
}

/// The result with the highest throughput.
fn best<'a>(rows: &[&'a ResultRow]) -> Option<&'a ResultRow> {
    let speed = |r: &&&ResultRow| r.value.unwrap_or(0.0);
    rows.iter()
        .filter(|r| r.value.is_some())
        .max_by(|a, b| speed(a).total_cmp(&speed(b)))
        .copied()
}

/// Whether a layer reaches half of native's best at some record size, for the chart where it is
/// furthest behind.
fn ceiling(data: &Data, charts: &[StudyPart], native: &str, layer: &str) -> Option<Conclusion> {
    let lowest = charts
        .iter()
        .filter_map(|p| {
            let (here, there) = (best(&p.of(layer))?, best(&p.of(native))?);
            Some((here.value? / there.value?, p, here, there))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (share, part, here, there) = lowest;
    let sure = here.interval.zip(there.interval);
    let below = sure.is_some_and(|(h, t)| h[1] < 0.5 * t[0]);
    let above = sure.is_some_and(|(h, t)| h[0] > 0.5 * t[1]) || share >= 0.5 && sure.is_none();
    let said = IozoneClaim::Ceiling(here, there, part.said());
    let (holds, evidence) = (Holds::when(above, below), ids([here, there]));
    Some(conclusion(&said, layer, holds, evidence, &data.names()))
}

/// Share of an operation's constant cost that does not matter.
const LITTLE: f64 = 0.1;

/// Whether there is no constant cost per operation, for the work where it is largest.
fn constant(data: &Data, layer: &str) -> Option<Conclusion> {
    let own = data.cost.iter().filter(|c| c.layer == layer);
    let surely = |c: &&CostRow| {
        c.extra_fixed_us
            .and_then(|e| Some((e.estimate, e.interval?)))
    };
    let known: Vec<_> = own.clone().filter_map(|c| Some((c, surely(&c)?))).collect();
    let most = known.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let of = |row: &CostRow, said, holds| {
        let said = IozoneClaim::Constant(layer, said);
        let evidence = row.evidence.clone();
        conclusion(&said, layer, holds, evidence, &data.names())
    };
    let Some((row, (_, [low, high]))) = most else {
        return Some(of(own.clone().next()?, None, Holds::Open));
    };
    // Yes: the possible extra cost is small compared with the cost itself.
    let little = |all: Estimate| *high <= LITTLE * all.estimate;
    let holds = !Holds::when(*low > 0.0, row.fixed_us.is_some_and(little));
    Some(of(row, Some(row), holds))
}

/// Whether a guest serves reads of a large file from its own memory, by the cached pages and not by
/// the time.
fn caches(data: &Data, charts: &[StudyPart], layer: &str) -> Option<Conclusion> {
    let of = data.run.layers.iter().find(|l| l.name == layer)?;
    of.facts.guest.as_ref()?;
    let part = charts.iter().find(|p| p.op == "rand-read" && !p.small)?;
    let rows = part.of(layer);
    let by = |served: ServedBy| rows.iter().filter(|r| r.served_by == Some(served)).count();
    let own = by(ServedBy::GuestMemory);
    let others = [
        ServedBy::HostMemory,
        ServedBy::ServerMemory,
        ServedBy::Device,
    ];
    let elsewhere: Vec<(ServedBy, usize)> = others
        .into_iter()
        .map(|s| (s, by(s)))
        .filter(|(_, n)| *n > 0)
        .collect();
    let known = own + others.into_iter().map(by).sum::<usize>();
    if rows.is_empty() {
        return None;
    }
    let said = IozoneClaim::Cached {
        layer,
        part: part.said(),
        own: [own, rows.len()],
        elsewhere,
    };
    let holds = Holds::when(2 * own > rows.len(), 2 * (known - own) >= rows.len());
    Some(conclusion(&said, layer, holds, ids(rows), &data.names()))
}

/// Whether a database can stay in the layer.
fn database(data: &Data, native: &str, layer: &str) -> Option<Conclusion> {
    let row = *flushed(data, layer).first()?;
    let of = |layer| {
        let mut rows = flushed(data, layer).into_iter();
        rows.find(|r| r.label == row.label)
    };
    let us = row.op_us?;
    let (slower, than, other) = if is_emulated(data, layer) {
        // Native's CPU is different, so the layer is compared with the other guests on an emulated
        // CPU.
        let guests = layers(data).into_iter().filter(|l| is_emulated(data, l));
        among_guests(data, row, guests.filter_map(of))
    } else {
        let there = of(native)?;
        let slower = match judged(data, &[row])[0] {
            Verdict::Slower => Holds::Yes,
            Verdict::Same | Verdict::Faster => Holds::No,
            _ => Holds::Open,
        };
        (slower, Than::Baseline(there.op_us?), there)
    };
    let loses = is_lost(data, row);
    let said = IozoneClaim::Database {
        layer,
        loses,
        us,
        than,
    };
    let holds = !if loses { Holds::Yes } else { slower };
    let evidence = ids([row, other]);
    Some(conclusion(&said, layer, holds, evidence, &data.names()))
}

/// Whether a guest's synced writes are slower than those of the fastest guest that flushes. Also returns that guest's row, or the guest's own without such a guest.
fn among_guests<'a>(
    data: &Data,
    row: &'a ResultRow,
    guests: impl Iterator<Item = &'a ResultRow>,
) -> (Holds, Than<'a>, &'a ResultRow) {
    let honest = guests.filter(|r| is_kept(data, r));
    let timed = honest.filter_map(|r| Some((r.op_us?, r)));
    let Some((least, best)) = timed.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return (Holds::Open, Than::Nothing, row);
    };
    if best.layer == row.layer {
        return (Holds::No, Than::Fastest, best);
    }
    let both = best.op_us_interval.zip(row.op_us_interval);
    let slower = Holds::when(both.is_some_and(|(best, own)| best[1] < own[0]), false);
    (slower, Than::Guest(&best.layer, least), best)
}

/// The layer that reads best, among those that keep written data.
fn prefer(data: &Data, charts: &[StudyPart], others: &[&str]) -> Option<Conclusion> {
    let keeps = |layer: &&&str| {
        let of = data.run.layers.iter().find(|l| l.name == ***layer);
        of.is_some_and(|l| !l.facts.in_memory())
    };
    let is_read = |row: &&ResultRow| row.meaning.direction == Direction::Reads;
    let all: Vec<(&str, Vec<&ResultRow>)> = others
        .iter()
        .filter(keeps)
        .map(|layer| {
            (
                *layer,
                charts
                    .iter()
                    .flat_map(|p| p.of(layer))
                    .filter(is_read)
                    .collect(),
            )
        })
        .collect();
    // Only work that all of them did is compared.
    let labels = |rows: &[&ResultRow]| {
        rows.iter()
            .map(|r| r.label.clone())
            .collect::<BTreeSet<_>>()
    };
    let common = all
        .iter()
        .map(|(_, rows)| labels(rows))
        .reduce(|a, b| &a & &b)?;
    let mut order: Vec<(f64, &str, Vec<&ResultRow>)> = all
        .into_iter()
        .filter_map(|(layer, rows)| {
            let rows: Vec<&ResultRow> = rows
                .into_iter()
                .filter(|r| common.contains(&r.label))
                .collect();
            Some((mean_ratio(&rows)?, layer, rows))
        })
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, second) = (order.first()?, order.get(1)?);
    // A mean of ratios orders them. The intervals of most reads must confirm that one is better.
    let surely = |better: &[&ResultRow], worse: &[&ResultRow]| {
        let pairs = better.iter().zip(worse);
        pairs
            .filter(|(b, w)| match (b.op_us_interval, w.op_us_interval) {
                (Some(b), Some(w)) => b[1] < w[0],
                _ => false,
            })
            .count()
    };
    let (wins, losses) = (surely(&first.2, &second.2), surely(&second.2, &first.2));
    let last = &order[order.len() - 1];
    let said = IozoneClaim::Reading([first, second, last].map(|of| (of.1, of.0)));
    let holds = Holds::when(2 * wins > first.2.len() && losses == 0, false);
    let evidence = ids(first.2.iter().copied().chain(second.2.iter().copied()));
    Some(conclusion(&said, first.1, holds, evidence, &data.names()))
}

/// Whether the C library's buffer makes a difference in the baseline.
fn library(data: &Data, native: &str, op: &str) -> Option<Conclusion> {
    let pairs = pairs(data, native, op);
    let mut slower = Vec::new();
    let mut evidence = Vec::new();
    for (call, stream) in &pairs {
        evidence.extend([call.id.clone(), stream.id.clone()]);
        let (Some(c), Some(s)) = (call.op_us_interval, stream.op_us_interval) else {
            continue;
        };
        if s[0] > c[1] || s[1] < c[0] {
            let ratio = stream.op_us? / call.op_us?;
            slower.push((ratio, request_size(call)));
        }
    }
    if pairs.is_empty() {
        return None;
    }
    let known = pairs
        .iter()
        .all(|(c, s)| c.op_us_interval.is_some() && s.op_us_interval.is_some());
    let holds = Holds::when(known && slower.is_empty(), known);
    let times = match slower.is_empty() {
        _ if !known => LibraryTimes::Unknown,
        true => LibraryTimes::Same(pairs.len()),
        false => LibraryTimes::Apart(slower),
    };
    let said = IozoneClaim::Library(op, times);
    Some(conclusion(&said, native, holds, evidence, &data.names()))
}
