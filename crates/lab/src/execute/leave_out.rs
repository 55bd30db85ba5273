//! Leaves layers out during a run.

use std::time::Duration;

use layermark_model::LayerStatus;

use crate::{
    Event, LabError,
    decide::fewer::{fewest_blocks, in_steps},
    execute::drive::Lab,
};

/// Layers are left out only before this many blocks. The first block makes files that later ones
/// use, so only the second one shows how long a block takes.
const CHOICES: u32 = 3;

impl Lab<'_> {
    /// Leaves layers out when the minimum number of blocks of all would take more than one and a
    /// half times the budget. Reports and stores that. `spent` is time that is not on the clock
    /// yet.
    ///
    /// Called before anything is set up, after each set-up, after each point of the first block,
    /// and after the first two blocks.
    pub(crate) fn within_budget(&mut self, spent: Duration) -> Result<(), LabError> {
        let Some(budget) = self.clock.budget() else {
            return Ok(());
        };
        if !self.setup.may_leave_out || self.block >= CHOICES {
            return Ok(());
        }
        let fewest = self.fewest_blocks();
        let first = self.block <= 1 && !self.clock.knows_nothing();
        let to_come = if first {
            // If the first block took more than half of that, nothing would be left for the others.
            fewest / 2
        } else {
            fewest.saturating_sub(self.block)
        };
        let control = self.run.layers.iter().position(|l| l.control);
        let due = self.due();
        let out = self.clock.left_out(to_come, spent, &due, control);
        if out.is_empty() {
            return Ok(());
        }
        for layer in &out {
            self.running[*layer] = None;
            self.run.layers[*layer].status = LayerStatus::LeftOut;
        }
        self.forecast.leave_out(&out);
        let needed = self.budget_for_all(spent);
        let s = if fewest == 1 { "" } else { "s" };
        let why = format!("{fewest} block{s} of all layers would take about {needed} s");
        let command = |store: &str| {
            format!(
                "layermark run --replay {}{store} --budget {needed}s",
                self.run.id
            )
        };
        // What is stored does not name the store, which may be moved.
        let hint = command("");
        let full = command(&self.store.option().to_string());
        let all = self.run.layers.iter_mut();
        for layer in all.filter(|l| l.status == LayerStatus::LeftOut) {
            layer.reason = Some(format!(
                "{why}, and the budget is {} s",
                budget.as_secs_f64()
            ));
            layer.hint = Some(hint.clone());
        }
        self.store.update(&self.run)?;
        let names = out.iter().map(|l| self.run.layers[*l].name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        (self.on_event)(Event::Warning {
            text: format!("left out, because {why}: {names}"),
            hint: Some(format!("for all of them: {full}")),
        });
        Ok(())
    }

    /// Whether a layer is left out for the budget.
    pub(crate) fn is_left_out(&self, layer: usize) -> bool {
        self.run.layers[layer].status == LayerStatus::LeftOut
    }

    /// Number of blocks that are run whatever the budget.
    pub(crate) fn fewest_blocks(&self) -> u32 {
        fewest_blocks(&self.run.plan)
    }

    /// Seconds needed for the minimum number of blocks of all layers, as far as known now.
    fn budget_for_all(&self, spent: Duration) -> u64 {
        let layers = self.run.layers.iter().enumerate();
        let layers = layers.filter(|(_, l)| l.status != LayerStatus::Failed);
        let points = 0..self.run.points.len();
        let cells = layers.flat_map(|(layer, _)| points.clone().map(move |point| (layer, point)));
        let block = cells
            .map(|(layer, point)| self.clock.estimate(layer, point))
            .sum();
        in_steps(spent + self.clock.needed(self.fewest_blocks(), block))
    }
}
