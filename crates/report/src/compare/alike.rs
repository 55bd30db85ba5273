//! The older of two runs, with the labels of the newer one.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use crate::{facts::sweep, types::Report};

/// The older run with the labels of the newer one: versions may word the label of the same work differently.
pub fn renamed<'a>(old: &'a Report, new: &Report) -> Cow<'a, Report> {
    let points = |of| -> BTreeSet<&str> { Report::points(of).into_iter().collect() };
    let (then, now) = (points(old), points(new));
    let mut was = by_work(old, &now);
    let is = by_work(new, &then).into_iter();
    let labels = is.filter_map(|(work, label)| Some((was.remove(&work)?, label)));
    let labels: BTreeMap<&str, &str> = labels.collect();
    if labels.is_empty() {
        return Cow::Borrowed(old);
    }
    let mut renamed = old.clone();
    for row in &mut renamed.results {
        if let Some(label) = labels.get(&*row.label) {
            (*label).clone_into(&mut row.label);
        }
    }
    Cow::Owned(renamed)
}

/// Labels that the other run does not have, by their work.
fn by_work<'a>(report: &'a Report, others: &BTreeSet<&str>) -> BTreeMap<(String, String), &'a str> {
    let own = report.results.iter();
    let own = own.filter(|r| !others.contains(&*r.label));
    own.map(|r| (sweep::work_key(&r), r.label.as_str()))
        .collect()
}
