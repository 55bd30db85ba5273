//! Statements: what a report says, and in which order, is decided here, from one selection of rows.
//!
//! Each kind of sentence is an enum whose variants hold rows, names of layers and points, and numbers, and no text.
//! [`crate::words`] has the sentence of each variant. A new finding is a variant, its rule here and its words there.

use layermark_model::{LayerRun, LayerStatus, Run};

use crate::{
    group,
    types::{AlternativeRow, LockRow, ResultRow, Verdict},
};

pub mod advice;
pub mod alike;
pub mod caveats;
pub mod checks;
pub mod compare;
pub mod cost;
pub mod cut_levels;
pub mod depth;
pub mod durability;
pub mod estimate_checks;
pub mod everyday;
pub mod external;
pub mod fidelity;
pub mod figures;
pub mod findings;
pub mod fleet;
pub mod forecast;
pub mod gate;
pub mod headline;
pub mod in_short;
pub mod late;
pub mod left_out;
pub mod locks;
pub mod notes;
pub mod odd;
pub mod power_cuts;
pub mod programs;
pub mod remarks;
pub mod run_line;
pub mod safe;
pub mod scaling;
pub mod sequences;
pub mod series;
pub mod served;
pub mod stalls;
pub mod studies;
pub mod verdicts;
pub mod why;

/// Most findings.
pub const MOST: usize = 5;

/// The data that sentences are made from. It decides once which results the sentences cover: those
/// of the matrix. Disturbed results are included, and [`caveats`] gives their number next to the
/// headline.
pub struct Selection<'a> {
    /// The run.
    pub run: &'a Run,
    /// Results of all layers except the control.
    pub results: &'a [ResultRow],
    /// Results that are compared with others of their layer.
    pub alternatives: &'a [AlternativeRow],
    /// Whether locks exclude two clients.
    pub locks: &'a [LockRow],
    /// The answer of the study that the plan repeats.
    pub study: Option<&'a str>,
}

impl<'a> Selection<'a> {
    /// Results of the layers compared with the baseline, including those without a number.
    fn others(&self) -> impl Iterator<Item = &'a ResultRow> {
        self.results.iter().filter(|r| !self.is_baseline(&r.layer))
    }

    /// Cells of the matrix that have a number or a verdict.
    pub fn measured(&self) -> Vec<&'a ResultRow> {
        self.others().filter(|r| r.trials > 0).collect()
    }

    /// The measured results that have a verdict requested by the plan.
    pub fn asked(&self) -> Vec<&'a ResultRow> {
        let mut rows = self.measured();
        rows.retain(|r| r.verdict != Verdict::Descriptive);
        rows
    }

    /// A layer's results with a verdict requested by the plan.
    pub fn rows(&self, layer: &str) -> Vec<&'a ResultRow> {
        let mut rows = self.asked();
        rows.retain(|r| r.layer == layer);
        rows
    }

    /// Results with failed trials, with or without a number.
    pub fn failures(&self) -> Vec<&'a ResultRow> {
        let failed = self.results.iter().filter(|r| r.failed_trials > 0);
        failed.collect()
    }

    /// At how many points every trial of a layer failed.
    pub fn never_succeeded(&self, layer: &str) -> usize {
        let mut rows = self.failures();
        rows.retain(|r| r.layer == layer && r.trials == 0);
        rows.len()
    }

    /// Whether a layer is known to differ by more than delta at a point on which no verdict was asked.
    pub fn differs_unasked(&self, layer: &str) -> bool {
        let delta = self.run.plan.delta;
        let differs = |r: &ResultRow| r.ratio.is_some_and(|e| e.differs_by_more_than(delta));
        let mut rows = self.measured();
        rows.retain(|r| r.layer == layer && r.verdict == Verdict::Descriptive);
        rows.iter().any(|r| differs(r))
    }

    /// Names of the layers compared with the baseline that have results with a requested verdict.
    pub fn compared(&self) -> Vec<&'a str> {
        let asked = self.others().filter(|r| r.verdict != Verdict::Descriptive);
        group::distinct(asked.map(|row| row.layer.as_str()))
    }

    /// The layers that could be set up, except the control.
    pub fn ready(&self) -> impl Iterator<Item = &'a LayerRun> {
        let ready = self.run.layers.iter();
        ready.filter(|l| l.status == LayerStatus::Ready && !l.control)
    }

    /// Whether the layer is the baseline.
    pub fn is_baseline(&self, layer: &str) -> bool {
        self.run.baseline() == layer
    }

    /// The baseline's results whose flushes did not reach the device.
    pub fn baseline_skips(&self) -> impl Iterator<Item = &'a ResultRow> {
        let own = self.results.iter().filter(|r| self.is_baseline(&r.layer));
        own.filter(|r| r.durability.skips())
    }

    /// Whether the layer's data is in memory.
    pub fn in_memory(&self, layer: &str) -> bool {
        self.run
            .layers
            .iter()
            .any(|l| l.name == layer && l.facts.in_memory())
    }
}
