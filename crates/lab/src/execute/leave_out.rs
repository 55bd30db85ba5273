//! Leaves layers and points out during a run, because the budget is too short for all of them.

use std::{collections::BTreeMap, time::Duration};

use layermark_model::{BASELINE, Cut, LayerStatus};

use crate::{
    LabError,
    decide::{
        budget::{Ask, Omitted},
        fewer::{fewest_blocks, in_steps, least_blocks},
    },
    execute::{drive::Lab, layer_failure::LayerFailure, outcome::BlockOutcome},
};

/// Nothing is left out from this block on. The first block makes files that later ones use, so only
/// the second one shows how long a block takes.
const CHOICES: u32 = 3;

/// Fewest trials of a layer that all failed before it is given up.
const HOPELESS: usize = 3;

/// What makes a set-up shorter.
const SMALLER: &str = "make the files that it takes in smaller: --scale 0.1";

impl Lab<'_> {
    /// Tells the clock how long the run has taken.
    pub(crate) fn tick(&mut self) {
        self.progress
            .clock
            .pass_to(self.fixed.stop.now() - self.fixed.setup.begun);
    }

    /// Leaves out what does not fit into the budget. Reports and stores that.
    ///
    /// Called before anything is set up, after each set-up, after each point of the first block,
    /// and after the first two blocks.
    pub(crate) fn within_budget(&mut self) -> Result<(), LabError> {
        let Some(budget) = self.progress.clock.budget() else {
            return Ok(());
        };
        self.tick();
        if !self.fixed.setup.may_leave_out || self.progress.block >= CHOICES {
            return Ok(());
        }
        let Omitted { layers, mut points } = self.progress.clock.left_out(&Ask {
            due: &self.progress.due(&self.fixed),
            wanted: self.to_come_of(fewest_blocks(&self.progress.run.plan)),
            least: self.to_come_of(least_blocks(&self.progress.run.plan)),
            control: self.progress.run.layers.iter().position(|l| l.control),
        });
        if self.progress.clock.knows_nothing() {
            // Points are tried first. The time tells how many fit.
            points.clear();
        }
        let budget = budget.as_secs_f64();
        if !layers.is_empty() {
            let blocks = fewest_blocks(&self.progress.run.plan);
            let needed = self.budget_for_all(blocks);
            let s = if blocks == 1 { "" } else { "s" };
            let why = format!("{blocks} block{s} of all layers would take about {needed} s");
            let reason = format!("{why}, and the budget is {budget} s");
            self.leave_layers_out(&layers, &reason, None, needed)?;
            let names = layers
                .iter()
                .map(|l| self.progress.run.layers[*l].name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            self.tell_left_out(&format!("left out, because {why}: {names}"), needed);
        }
        if !points.is_empty() {
            let blocks = least_blocks(&self.progress.run.plan);
            let needed = self.budget_for_all(blocks);
            let s = if blocks == 1 { "" } else { "s" };
            let why = format!("{blocks} block{s} of all points would take about {needed} s");
            self.leave_points_out(&points, &format!("{why}, and the budget is {budget} s"))?;
            let labels = points
                .iter()
                .map(|p| self.progress.run.points[*p].label.as_str());
            let labels = labels.collect::<Vec<_>>().join("`, `");
            self.tell_left_out(&format!("left out, because {why}: `{labels}`"), needed);
        }
        Ok(())
    }

    /// Blocks to come of a number in all.
    fn to_come_of(&self, blocks: u32) -> u32 {
        if self.progress.block <= 1 && !self.progress.clock.knows_nothing() {
            // If the first block took more than half of that, nothing would be left for the others.
            blocks.div_ceil(2)
        } else {
            blocks.saturating_sub(self.progress.block)
        }
    }

    /// Leaves a layer out whose set-up would begin when half of the budget is spent on set-ups.
    pub(crate) fn leave_time_for_rounds(&mut self, index: usize) -> Result<(), LabError> {
        let Some(budget) = self
            .progress
            .clock
            .budget()
            .filter(|_| !self.fixed.setup.usual_budget)
        else {
            return Ok(());
        };
        let ready = self.progress.run.layers[index].status == LayerStatus::Ready;
        let others = self
            .machine
            .layers
            .iter()
            .skip(BASELINE + 1)
            .any(Option::is_some);
        if !ready || !others || self.progress.clock.spent() <= budget / 2 {
            return Ok(());
        }
        let up = self.machine.layers.iter().filter(|up| up.is_some()).count() as u32;
        // One that was named stays while there is time for it, and as much for rounds.
        let each = self.progress.clock.spent() / up;
        let named = self.progress.clock.stay().any(|layer| layer == index);
        if named
            && self
                .progress
                .clock
                .left()
                .is_some_and(|left| each * 2 <= left)
        {
            return Ok(());
        }
        let ready = self
            .progress
            .run
            .layers
            .iter()
            .filter(|l| l.status == LayerStatus::Ready);
        let set_ups = each * ready.count() as u32;
        let needed = in_steps(set_ups.max(self.progress.clock.spent()) * 2);
        let why = format!(
            "half of the budget of {} s was spent when {up} layers were up",
            budget.as_secs_f64()
        );
        // Each set-up takes as long with more time.
        self.leave_layers_out(&[index], &why, Some(SMALLER), needed)?;
        let name = self.progress.run.layers[index].name.clone();
        let command = self.progress.replay(needed);
        self.out.warn(
            format!("left out, because {why}: {name}"),
            Some(format!("{SMALLER}, or for all of them: {command}")),
        );
        Ok(())
    }

    fn leave_layers_out(
        &mut self,
        layers: &[usize],
        reason: &str,
        hint: Option<&str>,
        enough_s: u64,
    ) -> Result<(), LabError> {
        for layer in layers {
            self.machine.layers[*layer] = None;
            let layer = &mut self.progress.run.layers[*layer];
            layer.status = LayerStatus::LeftOut;
            layer.reason = Some(reason.to_owned());
            layer.hint = hint.map(str::to_owned);
            layer.enough_s = Some(enough_s);
        }
        self.progress.clock.leave_out(layers);
        self.progress.forecast.leave_out(layers);
        let control = self.progress.run.control();
        self.progress.tally.set_control(control);
        self.out.update(&self.progress.run)
    }

    fn leave_points_out(&mut self, points: &[usize], reason: &str) -> Result<(), LabError> {
        for point in points {
            let label = &self.progress.run.points[*point].label;
            for layer in &mut self.progress.run.layers {
                let skip = layer.skips.entry(label.clone());
                skip.or_insert_with(|| reason.to_owned());
            }
        }
        self.progress.forecast.leave_points_out(points);
        self.out.update(&self.progress.run)
    }

    fn tell_left_out(&mut self, text: &str, needed: u64) {
        let command = self.progress.replay(needed);
        let hint = format!("for all of them: {command}");
        self.out.warn(text.to_owned(), Some(hint));
    }

    /// Seconds needed for this many blocks of all that was asked for, as far as known now.
    fn budget_for_all(&self, blocks: u32) -> u64 {
        let layers = self.progress.run.layers.iter().enumerate();
        let layers = layers.filter(|(_, l)| l.status != LayerStatus::Failed);
        let layers = layers.map(|(layer, _)| layer);
        let points = 0..self.progress.run.points.len();
        let cells = |layer| points.clone().map(move |point| (layer, point));
        let block = layers
            .clone()
            .flat_map(cells)
            .map(|(layer, point)| self.progress.clock.estimate(layer, point))
            .sum();
        in_steps(self.progress.clock.needed(blocks, block, layers))
    }

    /// Records what was at work when the time was over.
    pub(crate) fn note_cut_of(&mut self, outcome: &BlockOutcome) {
        if !self.fixed.stop.is_over() || self.fixed.stop.asked() {
            return;
        }
        let (layer, during) = outcome.cut_in().unzip();
        let run = &self.progress.run;
        self.cut(
            Some(run.points[outcome.point].label.clone()),
            layer.map(|layer| run.layers[layer].name.clone()),
            during.unwrap_or("another layer was to work"),
        );
    }

    /// The same before there was a trial.
    pub(crate) fn note_cut(&mut self) {
        if self.progress.run.cut.is_none() {
            self.cut(None, None, "the layers were set up");
        }
    }

    fn cut(&mut self, point: Option<String>, layer: Option<String>, during: &str) {
        self.tick();
        let least = least_blocks(&self.progress.run.plan);
        let enough = Duration::from_secs(self.budget_for_all(least));
        let at_s = self.progress.clock.spent().as_secs();
        self.progress.run.cut = Some(Cut {
            at_s,
            block: self
                .machine
                .layers
                .iter()
                .any(Option::is_some)
                .then_some(self.progress.block + 1),
            point,
            layer,
            during: during.to_owned(),
            // It was not enough until now.
            enough_s: in_steps(enough.max(Duration::from_secs(at_s * 2))),
        });
    }

    /// Gives a layer up whose first trials have all failed for one reason, in more than one operation if
    /// the plan has several. The time goes to the others.
    pub(crate) fn give_hopeless_up(&mut self) -> Result<(), LabError> {
        for layer in BASELINE + 1..self.progress.run.layers.len() {
            if self.machine.layers[layer].is_none() {
                continue;
            }
            let Some(failed) = self.progress.tally.only_failed(layer) else {
                continue;
            };
            let operation =
                |point: &usize| self.progress.run.points[*point].meaning.operation.as_str();
            let tried: BTreeMap<&str, usize> =
                failed.points.iter().map(|p| (operation(p), *p)).collect();
            let can = (0..self.progress.run.points.len()).filter(|p| self.progress.can(layer, *p));
            let can: Vec<usize> = can.collect();
            let untried = can.iter().any(|p| !tried.contains_key(operation(p)));
            // A single point is given up by itself.
            if failed.count < HOPELESS || untried && tried.len() < 2 || can.len() < 2 {
                continue;
            }
            let reason = format!(
                "its first {} trials failed for one reason: {}",
                failed.count, failed.reason
            );
            self.drop_layer(layer, LayerFailure::new(reason))?;
        }
        Ok(())
    }
}
