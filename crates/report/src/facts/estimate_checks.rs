//! Estimates of an operation's time beside the operation itself: do they say what a layer costs it?

use layermark_model::Run;
use layermark_stats::{BoundedRatio, Interval, quotient};

use crate::{
    statements::estimate_checks::EstimateSaid,
    types::{Estimate, EstimateCheck, EstimateVerdict, ResultRow},
    words::{Names, Words},
};

/// A difference of at most this share is explained. Eight per cent is the mean error that replays of recordings are
/// made to keep to.
pub const WITHIN: f64 = 0.08;

/// A row for each estimate in each layer but the baseline, in the order of results. An estimate is compared with the
/// first result of its layer that does what it estimates, and is no estimate itself.
pub fn rows(run: &Run, results: &[ResultRow]) -> Vec<EstimateCheck> {
    let names = Names {
        baseline: run.baseline(),
    };
    let compared = results.iter().filter(|row| row.layer != run.baseline());
    let rows = compared.filter_map(|estimate| {
        let of = estimate.meaning.estimates.as_ref()?;
        let is_it = |row: &&ResultRow| {
            let meaning = &row.meaning;
            row.layer == estimate.layer
                && meaning.operation == *of
                && meaning.estimates.is_none()
                && !meaning.is_cold()
        };
        let measured = results.iter().find(is_it)?;
        Some(row(estimate, measured, &names))
    });
    rows.collect()
}

fn row(estimate: &ResultRow, measured: &ResultRow, names: &Names) -> EstimateCheck {
    let trusted = |row: &ResultRow| {
        row.ratio
            .filter(|_| row.untrusted.is_none() && row.withheld.is_none())
    };
    let (own, other) = (trusted(estimate), trusted(measured));
    let difference = own.zip(other).map(|(own, other)| difference(&own, &other));
    let mut row = EstimateCheck {
        layer: estimate.layer.clone(),
        estimate: estimate.id.clone(),
        measured: measured.id.clone(),
        estimate_us: estimate.op_us,
        measured_us: measured.op_us,
        estimate_ratio: own,
        measured_ratio: other,
        difference,
        within: WITHIN,
        verdict: verdict(difference.and_then(|d| d.interval)),
        text: String::new(),
    };
    row.text = EstimateSaid::of(&row).words(names).into();
    row
}

/// How far a ratio is from another one, as a share of that.
fn difference(ratio: &Estimate, of: &Estimate) -> Estimate {
    let known = |e: &Estimate| {
        let [low, high] = e.interval?;
        Some(BoundedRatio {
            value: e.estimate,
            interval: Interval { low, high },
        })
    };
    let found = known(ratio)
        .zip(known(of))
        .and_then(|(a, b)| quotient(a, b));
    let ends = found.map(|found| [found.interval.low - 1.0, found.interval.high - 1.0]);
    Estimate::new(ratio.estimate / of.estimate - 1.0, ends)
}

fn verdict(interval: Option<[f64; 2]>) -> EstimateVerdict {
    match interval {
        Some([low, high]) if low >= -WITHIN && high <= WITHIN => EstimateVerdict::Explained,
        Some([low, high]) if low > WITHIN || high < -WITHIN => EstimateVerdict::NotExplained,
        _ => EstimateVerdict::Undecided,
    }
}
