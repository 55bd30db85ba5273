//! Three or more runs: each is compared with the others, and the odd one is named.

use std::collections::HashSet;

use layermark_stats::{self as stats, BlockValue};

use super::{Blocks, Times, alike, are_apart, values};
use crate::{
    facts::{LEVEL, sweep, waiting},
    plain,
    statements::odd::{NotAmong, OddAnswer, RunSays, Unlike},
    types::{
        DurabilityVerdict, Estimate, ManyRuns, Report, ResultAmong, ResultRow, RunAmong, Standing,
        Standings, ValueAmong, Verdict,
    },
    words::{NO_NAMES, Names, Words},
};

impl ManyRuns {
    /// Compares each of these runs, with its name, with the others. `None` if no point of a layer is in at least three
    /// of them. Differences below `delta` do not matter.
    pub fn of(runs: &[(&str, &Report)], delta: f64) -> Option<Self> {
        let (_, first) = runs.first()?;
        let reports: Vec<_> = runs.iter().map(|(_, r)| alike::renamed(r, first)).collect();
        let reports: Vec<&Report> = reports.iter().map(AsRef::as_ref).collect();
        let baseline = common_baseline(&reports);
        let cells = cells(&reports, baseline);
        if cells.is_empty() {
            return None;
        }
        let found = compared(&reports, &cells, baseline, delta);
        let results = cells.iter().zip(&found);
        let results: Vec<ResultAmong> = results.map(|(cell, found)| cell.among(found)).collect();
        let names = Names::of(baseline);
        let each = runs.iter().enumerate().map(|(at, (name, report))| {
            let standings = Standings::of(&results, at);
            let reasons = cells.iter().zip(&found);
            let reasons = reasons.filter_map(|(cell, found)| cell.not_among(at, found));
            let says = RunSays::of(&results, at, standings, reasons);
            RunAmong {
                name: (*name).to_owned(),
                run: report.run.clone(),
                plan: report.label.clone(),
                started: report.started.clone(),
                status: report.status,
                trustworthy: report.trustworthy(),
                machine: report.machine.clone(),
                standings,
                text: says.words(&names).into(),
            }
        });
        let each: Vec<RunAmong> = each.collect();
        let unlike = Unlike::all(runs, baseline).into_iter();
        let unlike = unlike.chain(skipping(runs, &cells));
        let unlike = unlike.map(|one| one.words(&names).into()).collect();
        let answer = OddAnswer::of(&each, &results, delta);
        Some(plain::texts(Self {
            schema: Self::SCHEMA.into(),
            baseline: baseline.map(str::to_owned),
            delta,
            level: LEVEL,
            answer: answer.words(&names).capitalised().into(),
            runs: each,
            results,
            unlike,
        }))
    }
}

/// Name of the baseline of all runs.
fn common_baseline<'a>(runs: &[&'a Report]) -> Option<&'a str> {
    let of = |run: &'a Report| run.layers.iter().find(|l| l.baseline);
    let name = of(runs.first()?)?.name.as_str();
    let all = runs
        .iter()
        .all(|run| of(run).is_some_and(|l| l.name == name));
    all.then_some(name)
}

/// A point in a layer, with the row of each run that has it.
struct OddCell<'a> {
    rows: Vec<Option<&'a ResultRow>>,
    /// Why a run's row is not compared.
    apart: Vec<Option<NotAmong<'a>>>,
    blocks: Blocks,
    first: &'a ResultRow,
}

/// Cells with rows of three runs, in the order of the first run that has each. Results for which a run was asked to give
/// no verdict are left out.
fn cells<'a>(runs: &[&'a Report], baseline: Option<&str>) -> Vec<OddCell<'a>> {
    let mut known = HashSet::new();
    let rows = runs.iter().flat_map(|run| own_rows(run));
    let first = rows.filter(|row| known.insert((&row.layer, &row.label)));
    let cells = first.map(|row| OddCell::of(row, runs, baseline));
    let enough = |cell: &OddCell| cell.rows.iter().flatten().count() >= stats::MIN_RUNS;
    let judged = |cell: &OddCell| {
        let mut rows = cell.rows.iter().flatten();
        !rows.any(|row| row.verdict == Verdict::Descriptive)
    };
    cells.filter(|c| enough(c) && judged(c)).collect()
}

/// Measured rows of all layers but the control.
fn own_rows(run: &Report) -> impl Iterator<Item = &ResultRow> {
    let control = run.layers.iter().find(|l| l.control).map(|l| &l.name);
    let rows = run.results.iter().filter(|row| row.op_us.is_some());
    rows.filter(move |row| Some(&row.layer) != control)
}

impl<'a> OddCell<'a> {
    fn of(first: &'a ResultRow, runs: &[&'a Report], baseline: Option<&str>) -> Self {
        let row = |run: &&'a Report| {
            let mut rows = own_rows(run);
            rows.find(|r| r.layer == first.layer && r.label == first.label)
        };
        let rows: Vec<Option<&ResultRow>> = runs.iter().map(row).collect();
        let blocks = match baseline {
            Some(name) if name == first.layer => Blocks::Baseline,
            Some(_) => Blocks::Ratios,
            None => Blocks::Times,
        };
        let usual = usual_work(&rows).unwrap_or(first);
        let flushed = rows.iter().flatten().any(|row| keeps(row));
        let apart = rows.iter().map(|row| {
            let Some(row) = row else {
                return Some(NotAmong::NotMeasured);
            };
            let untrusted = row.untrusted.as_deref().or(row.withheld.as_deref());
            if let Some(why) = untrusted {
                Some(NotAmong::Untrusted(why))
            } else if sweep::other_work(usual, *row).is_some() {
                Some(NotAmong::OtherWork)
            } else if row.steady == Some(false) {
                Some(NotAmong::Unsteady)
            } else if flushed && row.durability.skips() {
                Some(NotAmong::SkipsFlush)
            } else if blocks == Blocks::Ratios && row.block_ratios.is_empty() {
                Some(NotAmong::NoBaseline)
            } else if blocks == Blocks::Ratios && are_apart(usual, row) {
                Some(NotAmong::OtherTimes)
            } else {
                None
            }
        });
        Self {
            apart: apart.collect(),
            rows,
            blocks,
            first,
        }
    }

    /// Values of each run that is compared.
    fn values(&self, runs: &[&Report]) -> Vec<Vec<BlockValue>> {
        let both = || runs.iter().copied().zip(&self.rows);
        let known: Vec<(&Report, &ResultRow)> = both()
            .filter_map(|(run, row)| Some((run, (*row)?)))
            .collect();
        let times = Times::of(&known);
        let each = both().zip(&self.apart);
        let each = each.map(|((run, row), apart)| match (row, apart) {
            (Some(row), None) => values(self.blocks, run, row, times),
            _ => Vec::new(),
        });
        each.collect()
    }

    /// The words of all runs.
    fn among(&self, found: &[Option<stats::AmongRuns>]) -> ResultAmong {
        let each = self.rows.iter().zip(found).enumerate();
        let runs = each.map(|(run, (row, of))| ValueAmong {
            us: row.and_then(|row| row.op_us),
            standing: of.map_or(Standing::NotCompared, |f| self.standing(run, &f)),
            ratio: of.map(|f| Estimate::new(f.ratio, f.interval.map(|i| [i.low, i.high]))),
            p_adjusted: of.map(|f| f.p_adjusted),
            because: self
                .not_among(run, found)
                .map(|why| why.words(&NO_NAMES).into()),
        });
        ResultAmong {
            layer: self.first.layer.clone(),
            point: self.first.label.clone(),
            runs: runs.collect(),
        }
    }

    /// Why a run is not compared. `None` if it is.
    fn not_among(&self, run: usize, found: &[Option<stats::AmongRuns>]) -> Option<NotAmong<'a>> {
        let too_few = if found.iter().any(Option::is_some) {
            NotAmong::FewBlocks
        } else {
            NotAmong::FewRuns
        };
        let none = found[run].is_none();
        none.then(|| self.apart[run].unwrap_or(too_few))
    }

    fn standing(&self, run: usize, found: &stats::AmongRuns) -> Standing {
        let waits = |at: usize, least: f64| {
            self.rows[at].is_some_and(|row| waiting::explains(row, least).is_some())
        };
        match (found.oddness, found.interval) {
            // The run that took longer may have waited for a CPU. That does not make a layer slower.
            (stats::Oddness::Odd, Some(i)) => {
                let explained = if i.low > 1.0 {
                    waits(run, i.low)
                } else {
                    let mut others = (0..self.rows.len()).filter(|at| *at != run);
                    others.any(|at| waits(at, 1.0 / i.high))
                };
                if explained {
                    Standing::Unknown
                } else {
                    Standing::Odd
                }
            }
            (stats::Oddness::Like, _) => Standing::Like,
            (stats::Oddness::Split, _) => Standing::Split,
            (stats::Oddness::Odd | stats::Oddness::Unknown, _) => Standing::Unknown,
        }
    }
}

/// Runs whose flushes do not wait for the disk where those of others do.
fn skipping<'a>(runs: &[(&'a str, &'a Report)], cells: &[OddCell]) -> Option<Unlike<'a>> {
    let skips = |run: usize| {
        let mut cells = cells.iter();
        cells.any(|cell| cell.apart[run] == Some(NotAmong::SkipsFlush))
    };
    let names = runs.iter().enumerate().filter(|(at, _)| skips(*at));
    let names: Vec<&str> = names.map(|(_, (name, _))| *name).collect();
    (!names.is_empty()).then_some(Unlike::SkipsFlush(names))
}

/// The row with whose work most rows agree, the first of several.
fn usual_work<'a>(rows: &[Option<&'a ResultRow>]) -> Option<&'a ResultRow> {
    let rows: Vec<&ResultRow> = rows.iter().copied().flatten().collect();
    let agreeing = |one: &&ResultRow| {
        let same = |other: &&&ResultRow| sweep::other_work(*one, **other).is_none();
        rows.iter().filter(same).count()
    };
    rows.iter().copied().rev().max_by_key(agreeing)
}

fn keeps(row: &ResultRow) -> bool {
    row.durability.verdict == DurabilityVerdict::Honoured
}

/// Compares the runs in all cells. The baseline is a family of its own, as in [`Report::compare`].
fn compared(
    runs: &[&Report],
    cells: &[OddCell],
    baseline: Option<&str>,
    delta: f64,
) -> Vec<Vec<Option<stats::AmongRuns>>> {
    let mut found = vec![Vec::new(); cells.len()];
    for of_baseline in [false, true] {
        let is_one = |cell: &OddCell| (baseline == Some(&*cell.first.layer)) == of_baseline;
        let family: Vec<usize> = (0..cells.len()).filter(|at| is_one(&cells[*at])).collect();
        let values: Vec<_> = family.iter().map(|at| cells[*at].values(runs)).collect();
        let words = stats::odd_runs(&values, delta, LEVEL);
        for (at, words) in family.into_iter().zip(words) {
            found[at] = words;
        }
    }
    found
}
