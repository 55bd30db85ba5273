//! Speed-up, efficiency and MP factor over numbers of CPUs.

use layermark_model::{LayerRun, Quantity, Run};
use layermark_stats::{Scaled, scaling};

use crate::{
    facts::{index::Index, sweep},
    group,
    statements::scaling::NotScaling,
    types::{ResultRow, ScalingRow},
    words::{Names, Words},
};

/// A row for each trusted result of work that was done with several numbers of CPUs, by layer.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<ScalingRow> {
    let layers = group::distinct(results.iter().map(|row| row.layer.as_str()));
    let trusted = |r: &&ResultRow| r.untrusted.is_none() && r.value.is_some();
    let of_layer = |layer: &&str| {
        let own = results.iter().filter(|r| r.layer == *layer).filter(trusted);
        sweep::over(own.map(|r| (r, r)), [Quantity::Cpus])
    };
    let sweeps = layers.iter().flat_map(of_layer);
    let several = sweeps.filter(sweep::Sweep::varies);
    several
        .flat_map(|sweep| {
            let all: Vec<&ResultRow> = sweep.members().copied().collect();
            of_sweep(run, index, &all)
        })
        .collect()
}

fn of_sweep(run: &Run, index: &Index, all: &[&ResultRow]) -> Vec<ScalingRow> {
    let mut rows: Vec<ScalingRow> = all.iter().filter_map(|r| row(run, index, r)).collect();
    let sound = rows.iter().filter(|r| r.not_scaling.is_none());
    let rates: Vec<(u32, f64)> = sound.map(|r| (r.cpus, r.value)).collect();
    let scaled = scaling(&rates).unwrap_or_default();
    for row in &mut rows {
        let its = |s: &&Scaled| s.cpus == row.cpus;
        if let Some(s) = scaled.iter().find(its) {
            row.speed_up = Some(s.speed_up);
            row.efficiency = Some(s.efficiency);
            row.mp_factor = s.mp_factor;
        }
    }
    rows
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<ScalingRow> {
    let cpus = result.meaning.cpus()?;
    let (layer, point) = run.site(&result.layer, &result.label)?;
    let trials = index.trials(layer, point).into_iter();
    // Guests can have any number of virtual CPUs.
    let had = trials.filter_map(|t| t.trial.as_ref()?.cpus);
    let here = had.chain([run.machine.cpus]).min()?;
    let both = cpus * guests(&run.layers[layer]);
    let not_scaling = if result.meaning.value(Quantity::OfferedRate).is_some() {
        Some(NotScaling::RateGiven)
    } else if here < cpus {
        Some(NotScaling::FewCpus(here))
    } else {
        let machine = run.machine.cpus;
        (machine < both).then_some(NotScaling::TwoGuests([both, machine]))
    };
    let names = Names {
        baseline: run.baseline(),
    };
    Some(ScalingRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        what: result.meaning.describe(&[Quantity::Cpus]),
        cpus,
        value: result.value?,
        unit: result.unit.clone(),
        interval: result.interval,
        speed_up: None,
        efficiency: None,
        mp_factor: None,
        ratio: result.ratio,
        not_scaling: not_scaling.map(|why| why.words(&names).into()),
    })
}

/// How many guests share this machine's CPUs.
fn guests(layer: &LayerRun) -> u32 {
    let near = layer.spec.near.as_ref();
    let two = near.is_some_and(|near| near.layer == layer.spec.layer);
    if two && layer.facts.guest.is_some() {
        2
    } else {
        1
    }
}
