//! Whether the other layers' effect in the same round narrows a ratio, in the runs that are kept.
//!
//! It is a covariate that the layer cannot move. What its turns have in common with the layer's is taken out of each round by least
//! squares. But its own mean is not known, only that of the same rounds, so the means stay as they were. Blocks that are odd and
//! blocks that are even show it: how far their estimates differ is what an interval is about.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{BASELINE, TrialRecord};
use layermark_stats::{mean, median, trimmed_mean};
use layermark_testkit::fixtures;

/// Fewest blocks, and rounds of one.
const FEWEST: usize = 4;

/// Logarithms of nanoseconds an operation, by round.
type Turns = BTreeMap<u32, f64>;
/// A block at a point: the turns of each layer.
type Block = BTreeMap<usize, Turns>;

/// In each round of a block, the logarithm of the layer's ratio to native, and that of the mean of the others'.
type Rounds = Vec<[f64; 2]>;

/// A layer at a point.
struct Cell {
    /// How far the estimates of odd and even blocks differ.
    plain: f64,
    /// The same without what the covariate explains.
    adjusted: f64,
    /// The part of the rounds' variance that it explains.
    explained: f64,
}

fn turns(record: &TrialRecord) -> Option<Turns> {
    let turns = record.trial.as_ref()?.turns.iter().filter(|t| t.ops > 0);
    let cost = |ns: u64, ops: u64| (ns as f64 / ops as f64).ln();
    Some(
        turns
            .map(|t| (t.round, cost(t.elapsed_ns, t.ops)))
            .collect(),
    )
}

fn rounds(block: &Block, layer: usize, layers: &BTreeSet<usize>) -> Rounds {
    let others = layers.iter().filter(|l| **l != layer);
    let beside: Vec<&Turns> = others.filter_map(|l| block.get(l)).collect();
    let (Some(own), Some(native)) = (block.get(&layer), block.get(&BASELINE)) else {
        return Vec::new();
    };
    let round = |(round, cost): (&u32, &f64)| {
        let native = native.get(round)?;
        let others: Option<Vec<f64>> = beside
            .iter()
            .map(|turns| turns.get(round).copied())
            .collect();
        Some([cost - native, mean(&others?)? - native])
    };
    own.iter().filter_map(round).collect()
}

/// The estimate of some blocks, without `slope` times what the covariate is off its own estimate.
fn estimate(blocks: &[&Rounds], slope: f64) -> Option<f64> {
    let of = |at: usize| -> Option<f64> {
        let each = blocks
            .iter()
            .map(|rounds| trimmed_mean(&rounds.iter().map(|r| r[at]).collect::<Vec<_>>()));
        trimmed_mean(&each.collect::<Option<Vec<f64>>>()?)
    };
    let middle = of(1)?;
    let each = blocks.iter().map(|rounds| {
        let left = rounds
            .iter()
            .map(|[own, others]| own - slope * (others - middle));
        trimmed_mean(&left.collect::<Vec<_>>())
    });
    trimmed_mean(&each.collect::<Option<Vec<f64>>>()?)
}

fn cell(blocks: &[Rounds]) -> Option<Cell> {
    let [mut both, mut own, mut others] = [0.0; 3];
    for rounds in blocks {
        let middle = |at: usize| mean(&rounds.iter().map(|r| r[at]).collect::<Vec<_>>());
        let centre = [middle(0)?, middle(1)?];
        for round in rounds {
            let off = [round[0] - centre[0], round[1] - centre[1]];
            both += off[0] * off[1];
            own += off[0].powi(2);
            others += off[1].powi(2);
        }
    }
    let half = |first: usize, slope: f64| {
        let of: Vec<&Rounds> = blocks.iter().skip(first).step_by(2).collect();
        estimate(&of, slope)
    };
    let differ = |slope: f64| Some((half(0, slope)? - half(1, slope)?).abs());
    let found = Cell {
        plain: differ(0.0)?,
        adjusted: differ(both / others)?,
        explained: both * both / (own * others),
    };
    // Scripted layers have no noise.
    (found.plain > 1e-9 && found.explained.is_finite()).then_some(found)
}

fn cells(kept: &fixtures::Kept) -> Vec<Cell> {
    let mut points: BTreeMap<usize, BTreeMap<u32, Block>> = BTreeMap::new();
    for record in &kept.trials {
        let block = points.entry(record.cell.point).or_default();
        let block = block.entry(record.cell.block).or_default();
        let own = block.entry(record.cell.layer).or_default();
        own.extend(turns(record).into_iter().flatten());
    }
    let control = kept.run.control();
    let compared = (BASELINE + 1..kept.run.layers.len()).filter(|l| Some(*l) != control);
    let compared: BTreeSet<usize> = compared.collect();
    let mut all = Vec::new();
    for blocks in points.values() {
        for layer in &compared {
            // Those that take turns with this one.
            let meets = |other: &usize| {
                let first = blocks.values().next();
                let sides = first.and_then(|b| Some((b.get(layer)?, b.get(other)?)));
                sides.is_some_and(|(a, b)| a.keys().filter(|r| b.contains_key(r)).count() >= FEWEST)
            };
            let layers: BTreeSet<usize> = compared.iter().copied().filter(|l| meets(l)).collect();
            if layers.len() < 2 {
                continue;
            }
            let of = blocks.values().map(|block| rounds(block, *layer, &layers));
            let of: Vec<Rounds> = of.filter(|rounds| rounds.len() >= FEWEST).collect();
            if of.len() >= FEWEST {
                all.extend(cell(&of));
            }
        }
    }
    all
}

#[test]
fn the_other_layers_of_a_round_do_not_narrow_a_ratio() {
    let all: Vec<Cell> = fixtures::ALL
        .iter()
        .flat_map(|f| cells(&f.read()))
        .collect();
    let of = |number: fn(&Cell) -> f64| all.iter().map(number).collect::<Vec<f64>>();
    let middle = |number: fn(&Cell) -> f64| median(&of(number)).expect("cells");
    let squares = |number: fn(&Cell) -> f64| of(number).iter().map(|x| x * x).sum::<f64>();
    let narrower = (squares(|c| c.adjusted) / squares(|c| c.plain)).sqrt();
    let ratio = middle(|c| c.adjusted / c.plain);
    println!(
        "{} cells: odd and even blocks differ by {ratio:.2} times as much with the covariate (median), {narrower:.2} (root of the mean square); it explains {:.0} % of the variance of rounds; were its mean known, the error would be {:.2} times as large",
        all.len(),
        100.0 * middle(|c| c.explained),
        middle(|c| (1.0 - c.explained).sqrt()),
    );
    assert!(all.len() >= 25, "{}", all.len());
    // A gain of 10 % in the width of intervals was asked for.
    assert!(ratio > 0.9 && narrower > 0.9, "{ratio} {narrower}");
}
