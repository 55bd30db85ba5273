//! Leaves layers out when the minimum number of blocks of all layers would take longer than the
//! budget allows.

use std::time::Duration;

use layermark_model::{BASELINE, LayerRun, LayerStatus, Plan, Point, Spec};
use layermark_stats::FEWEST_BLOCKS;

use crate::{
    Catalog, LabError,
    decide::budget::{self, Clock},
};

/// The budget named for all layers is rounded up to whole steps of this, seconds.
const STEP_S: f64 = 10.0;

/// A clock that knows what the plan says of its trials, and which layers have to stay.
pub(crate) fn clock(
    plan: &Plan,
    layers: &[LayerRun],
    points: &[Point],
    catalog: Catalog,
) -> Result<Clock, LabError> {
    let guess = |point: &Point| Ok(budget::guess(catalog.needs(point)?.space));
    let guesses = points.iter().map(guess);
    let clock = Clock::new(plan.budget()?, guesses.collect::<Result<_, LabError>>()?);
    let slowdowns = layers.iter().map(|l| catalog.slowdown(&l.spec));
    let ready = |kept: &Spec| {
        let found = layers
            .iter()
            .position(|l: &LayerRun| l.spec.unlabelled() == *kept);
        found.filter(|at| *at != BASELINE && layers[*at].status == LayerStatus::Ready)
    };
    let keep = plan.keep.iter().filter_map(ready);
    Ok(clock.slowdowns(slowdowns.collect()).keep(keep.collect()))
}

/// Refuses a budget in which the layers that a plan keeps cannot be measured.
pub(crate) fn check(
    plan: &Plan,
    layers: &[LayerRun],
    points: &[Point],
    catalog: Catalog,
) -> Result<(), LabError> {
    let clock = clock(plan, layers, points, catalog)?;
    let blocks = fewest_blocks(plan);
    let does = |layer: usize, point: usize| {
        let skips = &layers[layer].skips;
        !skips.contains_key(&points[point].label)
    };
    let Some(takes) = clock.too_long(blocks, does) else {
        return Ok(());
    };
    Err(LabError::Budget {
        budget: plan.budget.clone().unwrap_or_default(),
        blocks,
        layers: clock.stay().map(|at| layers[at].name.clone()).collect(),
        needed: in_steps(takes),
    })
}

/// Blocks that are made whatever the budget.
pub(crate) fn fewest_blocks(plan: &Plan) -> u32 {
    plan.blocks.unwrap_or(u32::MAX).min(FEWEST_BLOCKS as u32)
}

/// Seconds, rounded up.
pub(crate) fn in_steps(time: Duration) -> u64 {
    ((time.as_secs_f64() / STEP_S).ceil() * STEP_S) as u64
}
