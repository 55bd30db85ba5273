//! The words of a run that goes on: those that its report would have, and that are as sure.

use std::{borrow::Cow, collections::BTreeMap};

use layermark_model::{BASELINE, Run, TrialRecord, plain};
use layermark_stats::{self as stats, FEWEST_BLOCKS};

use crate::{
    facts::{
        index::Index,
        results::{self, Level},
    },
    page::cell::{MatrixCell, Unit},
    types::{Estimate, Report, ResultRow, Verdict},
};

/// Words so far, as they were at the last look.
///
/// They depend on the trials of the run alone, and not on who looked at it before: looks that nobody took are taken first, in
/// their order. So terminal and page show the same words.
///
/// A cell is given a word at a look (after 8, 11, 15, ... blocks of the run) if the report's rule gives that word at the level
/// of that look ([`stats::look_alpha`]). It keeps the word while the report's rule gives it at the report's own level. So the
/// chance that a run ever shows a wrong *slower* or *faster* is at most the chance that its report has one.
#[derive(Debug, Default)]
pub struct SoFar {
    /// Blocks at the last look.
    blocks: Option<usize>,
    /// The word that each cell was given, by point and layer.
    given: BTreeMap<[usize; 2], Verdict>,
    cells: Vec<EarlyCell>,
}

/// A cell that has a word.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlyCell {
    /// Label of its point.
    pub point: String,
    /// Name of its layer.
    pub layer: String,
    /// *same*, *slower* or *faster*.
    pub verdict: Verdict,
    /// The cell as the matrix of the report shows it: `1.80x`, `=`.
    pub shown: String,
    /// Time in the layer over the baseline's, at the look.
    pub ratio: Option<Estimate>,
}

impl SoFar {
    /// Takes all looks that are due at a run of which this many blocks are complete. Returns whether there was one.
    pub fn look(&mut self, run: &Run, trials: &[TrialRecord], complete: usize) -> bool {
        let mut any = false;
        while self.next_look(run, trials, complete) {
            any = true;
        }
        any
    }

    /// Takes the next look that is due, if any, at a run of which this many blocks are complete. Later trials do not count.
    /// Returns whether there was one.
    pub fn next_look(&mut self, run: &Run, trials: &[TrialRecord], complete: usize) -> bool {
        let mut due = stats::looks().take_while(|n| *n <= complete);
        let next = due.find(|n| self.blocks.is_none_or(|last| *n > last));
        let Some((blocks, alpha)) = next.and_then(|n| Some((n, stats::look_alpha(n)?))) else {
            return false;
        };
        let seen = of_blocks(trials, blocks);
        let index = Index::new(run, &seen);
        let at = |level| results::brief(run, &index, BASELINE, level);
        let both = at(Level { alpha }).into_iter().zip(at(Level::REPORT));
        let mut cells = Vec::new();
        for ((point, layer, sure), (.., row)) in both {
            let place = [point, layer];
            if sure.verdict.is_decided() && row.blocks >= FEWEST_BLOCKS {
                self.given.insert(place, sure.verdict);
            }
            if self.given.get(&place) != Some(&row.verdict) {
                // It has to be given again.
                self.given.remove(&place);
                continue;
            }
            let cell = MatrixCell::new(Some(&row), run.baseline());
            cells.push(EarlyCell {
                shown: cell.text(Unit::Ratio),
                verdict: row.verdict,
                ratio: row.ratio,
                point: row.label,
                layer: row.layer,
            });
        }
        (self.blocks, self.cells) = (Some(blocks), cells);
        true
    }

    /// Blocks at the last look; `None` before the first.
    pub fn blocks(&self) -> Option<usize> {
        self.blocks
    }

    /// The cells that have a word.
    pub fn cells(&self) -> &[EarlyCell] {
        &self.cells
    }

    /// The trials that the last look was at.
    pub fn seen<'a>(&self, trials: &'a [TrialRecord]) -> Cow<'a, [TrialRecord]> {
        of_blocks(trials, self.blocks.unwrap_or(0))
    }
}

impl Report {
    /// Shows the words of the last look, because the run goes on. `then` are the rows of a report of what
    /// it saw ([`SoFar::seen`]).
    ///
    /// A cell that was given a word is shown as it was at that look: its later trials count at the next one. The other rows
    /// are those of this report, without a word.
    pub fn hold_back(&mut self, so_far: &SoFar, then: &[ResultRow]) {
        let given: BTreeMap<[Cow<'_, str>; 2], Verdict> = so_far
            .cells
            .iter()
            .map(|cell| ([plain(&cell.point), plain(&cell.layer)], cell.verdict))
            .collect();
        let at_look: BTreeMap<_, &ResultRow> = then.iter().map(|row| (place(row), row)).collect();
        for row in &mut self.results {
            let at = place(row);
            let shown = at_look.get(&at).copied();
            if let Some(shown) = shown.filter(|row| given.get(&at) == Some(&row.verdict)) {
                *row = shown.clone();
                continue;
            }
            if row.verdict.is_decided() {
                row.verdict = Verdict::Undecided;
            }
            row.probably = None;
        }
    }
}

fn place(row: &ResultRow) -> [Cow<'_, str>; 2] {
    [plain(&row.label), plain(&row.layer)]
}

/// The trials of the first blocks.
fn of_blocks(trials: &[TrialRecord], blocks: usize) -> Cow<'_, [TrialRecord]> {
    let counts = |t: &TrialRecord| (t.cell.block as usize) < blocks;
    if trials.iter().all(counts) {
        return Cow::Borrowed(trials);
    }
    Cow::Owned(trials.iter().filter(|t| counts(t)).cloned().collect())
}

#[cfg(test)]
mod tests;
