//! Whether an estimate says what a layer costs an operation.

use crate::types::{Estimate, EstimateCheck, EstimateVerdict};

/// What is said of an estimate in a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EstimateSaid<'a> {
    /// It is near enough.
    Explained(&'a EstimateCheck, Estimate),
    /// It is not, by this share.
    NotExplained(&'a EstimateCheck, Estimate),
    /// Its difference may be either.
    Undecided(&'a EstimateCheck, Estimate),
    /// The estimate or the operation has no ratio.
    NoRatio(&'a EstimateCheck),
}

impl<'a> EstimateSaid<'a> {
    /// What the data of a row says.
    pub fn of(row: &'a EstimateCheck) -> Self {
        let Some(difference) = row.difference else {
            return Self::NoRatio(row);
        };
        match row.verdict {
            EstimateVerdict::Explained => Self::Explained(row, difference),
            EstimateVerdict::NotExplained => Self::NotExplained(row, difference),
            EstimateVerdict::Undecided => Self::Undecided(row, difference),
        }
    }
}
