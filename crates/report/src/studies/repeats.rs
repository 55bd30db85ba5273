//! The repeats of a point in a layer, for a study with three of them.

use layermark_model::TrialRecord;

use super::Data;
use crate::{
    facts::data_source::ReadSigns,
    statements::studies::fileio_appvirt::{AgainstNative, MeanOfRepeats},
    types::{ResultRow, ServedBy, Verdict},
};

/// Seconds for the whole file, for each repeat.
pub struct Repeats<'a> {
    /// Their result.
    pub row: &'a ResultRow,
    /// Seconds and where a read came from, in the order of measurement.
    pub all: Vec<(f64, Option<ServedBy>)>,
}

impl<'a> Repeats<'a> {
    /// The repeats of a result; `None` if no trial has a number.
    pub fn of(data: &Data<'a>, row: &'a ResultRow) -> Option<Self> {
        let (layer, at) = data.run.site(&row.layer, &row.label)?;
        let (said, facts) = (&row.meaning, &data.run.layers[layer].facts);
        let one = |record: &TrialRecord| {
            let trial = record.trial.as_ref()?;
            let seconds = trial.elapsed_ns() as f64 / 1e9 / trial.passes.len() as f64;
            Some((seconds, ReadSigns::of(said, facts, &[record]).label(said)))
        };
        let all: Vec<_> = data
            .index
            .trials(layer, at)
            .into_iter()
            .filter_map(one)
            .collect();
        (!all.is_empty()).then_some(Self { row, all })
    }

    /// Where most repeats were served from.
    pub fn source(&self) -> Option<ServedBy> {
        let count = |s: &Option<ServedBy>| self.all.iter().filter(|(_, of)| of == s).count();
        self.all
            .iter()
            .map(|(_, s)| s)
            .max_by_key(|s| count(s))
            .copied()
            .flatten()
    }

    /// Repeats served from the same place as most. A read from memory among reads from the device
    /// is left out.
    pub fn alike(&self) -> Vec<f64> {
        let source = self.source();
        let like = self.all.iter().filter(|(_, s)| *s == source);
        like.map(|(seconds, _)| *seconds).collect()
    }

    /// Number of repeats served from another place.
    pub fn set_apart(&self) -> usize {
        self.all.len() - self.alike().len()
    }

    /// Arithmetic mean of the alike repeats, as in the study.
    pub fn mean(&self) -> f64 {
        let alike = self.alike();
        alike.iter().sum::<f64>() / alike.len() as f64
    }

    /// Smallest and largest of the alike repeats.
    pub fn range(&self) -> [f64; 2] {
        let fold = |all: Vec<f64>| {
            all.iter()
                .fold([f64::MAX, f64::MIN], |[a, b], s| [a.min(*s), b.max(*s)])
        };
        fold(self.alike())
    }

    /// Mean and range.
    pub fn said(&self) -> MeanOfRepeats {
        MeanOfRepeats {
            mean: self.mean(),
            range: self.range(),
        }
    }

    /// The verdict against native.
    pub fn against_native(&self) -> AgainstNative {
        match (self.row.leaning(), self.row.ratio) {
            (Verdict::Slower, Some(ratio)) => AgainstNative::Slower(ratio.estimate),
            (Verdict::Faster, Some(ratio)) => AgainstNative::Faster(ratio.estimate),
            (Verdict::Same, _) => AgainstNative::No,
            _ => AgainstNative::Open,
        }
    }
}
