//! Compares alternatives (commands, engines, servers) with the first of them, within each layer.

use layermark_model::{Run, Site};
use layermark_stats::{self as stats, Judgement};

use crate::{
    facts::{LEVEL, index::Index, judged, sweep},
    types::{AlternativeRow, ResultRow},
};

/// A result and its reference.
struct ComparedPair<'a> {
    here: (Site, &'a ResultRow),
    reference: (Site, &'a ResultRow),
}

/// A row for each result except the references, by layer.
///
/// Pairs are blocks, in which every point has one turn. The statistic and the verdicts are those of
/// layers against the baseline. The comparisons are a family of their own, so the number of measured
/// layers does not affect them.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<AlternativeRow> {
    let groups = sweep::alternatives(run);
    let layers = (0..run.layers.len()).filter(|l| !run.layers[*l].control);
    let compared: Vec<ComparedPair> = layers
        .flat_map(|layer| {
            groups
                .iter()
                .flat_map(move |group| of_group(run, results, layer, group))
        })
        .collect();
    let pairs = compared
        .iter()
        .map(|c| index.pairs_of(c.here.0, c.reference.0).into());
    let comparisons = stats::compare_all(&pairs.collect::<Vec<_>>(), LEVEL, run.seed);
    let words = stats::judge(&comparisons, run.plan.delta);
    let all = compared.iter().zip(comparisons.iter().zip(&words));
    all.map(|(c, (comparison, word))| row(c, comparison.as_ref(), word))
        .collect()
}

/// Members of a group that have a number in the layer, and the first of them.
fn of_group<'a>(
    run: &Run,
    results: &'a [ResultRow],
    layer: usize,
    group: &[usize],
) -> Vec<ComparedPair<'a>> {
    let found = |point: &usize| {
        let (layer_name, label) = (&run.layers[layer].name, &run.points[*point].label);
        let its = |r: &&ResultRow| r.layer == *layer_name && r.label == *label;
        let row = results.iter().find(its).filter(|r| r.value.is_some())?;
        Some(((layer, *point), row))
    };
    let mut members = group.iter().filter_map(found);
    let Some(reference) = members.next() else {
        return Vec::new();
    };
    members
        .map(|here| ComparedPair { here, reference })
        .collect()
}

fn row(
    pair: &ComparedPair,
    comparison: Option<&stats::Comparison>,
    word: &Judgement,
) -> AlternativeRow {
    let (here, reference) = (pair.here.1, pair.reference.1);
    let mut judged = judged::judged(comparison, Some(word), here.meaning.under_way());
    if here.untrusted.is_some() || reference.untrusted.is_some() {
        judged.distrust();
    }
    AlternativeRow {
        result: here.id.clone(),
        reference: reference.id.clone(),
        layer: here.layer.clone(),
        what: here.meaning.describe_common(),
        blocks: comparison.map_or(0, |c| c.n),
        comparison: judged,
    }
}
