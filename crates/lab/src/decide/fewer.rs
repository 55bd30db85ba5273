//! What a plan says of its time: which layers stay, how long its trials take, and whether that fits.

use std::time::Duration;

use layermark_model::{BASELINE, LayerRun, LayerStatus, PackagedFile, Plan, Point, Spec};
use layermark_stats::FEWEST_BLOCKS;

use crate::{
    Catalog, LabError,
    decide::{
        budget::{Ask, Clock, Due, LEAST_BLOCKS},
        guess::{Guess, Slowdown, Speed, files_in, set_up_in, times},
    },
};

/// What a forecast is made from.
#[derive(Clone, Copy)]
pub(crate) struct ForecastInput<'a> {
    pub plan: &'a Plan,
    pub layers: &'a [LayerRun],
    pub points: &'a [Point],
    pub packaged: &'a [PackagedFile],
    pub catalog: Catalog,
    pub speed: Speed,
    /// The budget is the usual one of a command.
    pub usual: bool,
}

/// A clock that knows what the plan says of its trials, and which layers have to stay.
pub(crate) fn clock(known: &ForecastInput<'_>) -> Result<Clock, LabError> {
    let ForecastInput {
        plan,
        layers,
        points,
        catalog,
        speed,
        ..
    } = *known;
    let blocks = least_blocks(plan);
    let guess = |point: &Point| Guess::of(&point.needs, blocks, speed);
    let guesses = points.iter().map(guess).collect();
    let keep = plan
        .keep
        .iter()
        .filter_map(|kept| ready(layers, kept))
        .collect();
    let slowdowns = layers.iter().map(|l| slowdown(catalog, &l.spec));
    Ok(Clock::new(plan.budget()?, guesses)
        .slowdowns(slowdowns.collect())
        .set_ups(set_ups(known))
        .clean_ups(clean_ups(known))
        .keep(keep)
        .usual(known.usual))
}

/// The layer that a plan keeps, if it can be measured.
fn ready(layers: &[LayerRun], kept: &Spec) -> Option<usize> {
    let is_kept = |l: &LayerRun| !l.control && (l.spec == *kept || l.spec.unlabelled() == *kept);
    let found = layers.iter().position(is_kept);
    found.filter(|at| *at != BASELINE && layers[*at].status == LayerStatus::Ready)
}

fn slowdown(catalog: Catalog, spec: &Spec) -> Slowdown {
    Slowdown {
        work: catalog.slowdown(spec),
        files: catalog.most(spec, 1.0, |layer| files_in(layer.group)),
    }
}

/// What setting up takes, with the packaged files: their master copy is made once, and each layer gets a
/// copy.
fn set_ups(known: &ForecastInput<'_>) -> Vec<Duration> {
    let speed = known.speed;
    let bytes: u64 = known.packaged.iter().map(|file| file.size).sum();
    let packaged = times(speed.file, known.packaged.len() as u64)
        + Duration::from_secs_f64(bytes as f64 * speed.byte_s);
    let of = |(at, layer): (usize, &LayerRun)| {
        let own = known.catalog.most(&layer.spec, 0.0, |layer| {
            set_up_in(layer.group).as_secs_f64()
        });
        let copies = if at == BASELINE { 2 } else { 1 };
        Duration::from_secs_f64(own).mul_f64(speed.busy) + packaged * copies
    };
    known.layers.iter().enumerate().map(of).collect()
}

/// What it takes to remove at the end what each layer has then, and the master copy of packaged files.
fn clean_ups(known: &ForecastInput<'_>) -> Vec<Duration> {
    let packaged = known.packaged.len() as u64;
    let mut kept = packaged;
    for point in known.points {
        kept = kept.saturating_add(point.needs.first_files);
    }
    let of = |(at, layer): (usize, &LayerRun)| {
        let master = if at == BASELINE { packaged } else { 0 };
        let files = kept.saturating_add(master);
        let is_ready = layer.status == LayerStatus::Ready;
        times(known.speed.remove, if is_ready { files } else { 0 })
    };
    known.layers.iter().enumerate().map(of).collect()
}

/// Every point with the layers that do it. One that no layer but the baseline does is not measured.
fn due(known: &ForecastInput<'_>) -> Vec<Due> {
    let does = |layer: &LayerRun, point: &Point| {
        layer.status == LayerStatus::Ready && !layer.skips.contains_key(&point.label)
    };
    let layers = 0..known.layers.len();
    let due = known.points.iter().enumerate().map(|(at, point)| {
        let layers = layers.clone();
        Due {
            point: at,
            layers: layers.filter(|l| does(&known.layers[*l], point)).collect(),
            width: f64::INFINITY,
        }
    });
    due.filter(|due| due.layers.len() > 1 || known.layers.len() == 1)
        .collect()
}

/// Refuses a budget that is too small for what must not be left out. Otherwise returns the part of it that is
/// for work, without the time to clean up behind what will not be left out.
pub(crate) fn check(
    known: &ForecastInput<'_>,
    may_refuse: bool,
) -> Result<Option<Duration>, LabError> {
    let plan = known.plan;
    let mut clock = clock(known)?;
    let least = least_blocks(plan);
    let due = due(known);
    let ask = Ask {
        due: &due,
        wanted: fewest_blocks(plan),
        least,
        control: known.layers.iter().position(|l| l.control),
    };
    let too_small = clock.too_small(&ask).filter(|_| may_refuse);
    if let Some((takes, stay)) = too_small {
        let name = |at: usize| known.layers[at].name.clone();
        return Err(LabError::Budget {
            budget: plan.budget.clone().unwrap_or_default(),
            blocks: least,
            layers: stay.into_iter().map(name).collect(),
            needed: in_steps(takes),
        });
    }
    clock.leave_out(&clock.left_out(&ask).layers);
    Ok(clock.for_work())
}

/// Blocks that decide: nothing is left out for more.
pub(crate) fn fewest_blocks(plan: &Plan) -> u32 {
    plan.blocks.unwrap_or(u32::MAX).min(FEWEST_BLOCKS as u32)
}

/// Blocks that have to fit into the budget at least.
pub(crate) fn least_blocks(plan: &Plan) -> u32 {
    fewest_blocks(plan).min(LEAST_BLOCKS)
}

/// Seconds, rounded up to two places.
pub(crate) fn in_steps(time: Duration) -> u64 {
    let seconds = time.as_secs_f64();
    let step = match seconds {
        ..10.0 => 1.0,
        ..50.0 => 5.0,
        _ => 10.0,
    };
    ((seconds / step).ceil() * step).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_named_is_rounded_up() {
        let seconds = |ms| in_steps(Duration::from_millis(ms));
        let said = [1, 900, 3200, 9999, 10_001, 49_000, 61_000].map(seconds);
        assert_eq!(said, [1, 1, 4, 10, 15, 50, 70]);
    }
}
