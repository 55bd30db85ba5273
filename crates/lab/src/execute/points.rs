//! The points of a block: which are due, with which layers, and what follows from each outcome.

use std::time::Duration;

use layermark_model::{BASELINE, Restarted, TurnCost};

use crate::{
    Ended, Event, LabError, MAX_BLOCKS,
    decide::budget::Due,
    execute::{
        block::{Block, RoundOptions},
        drive::Lab,
        outcome::BlockOutcome,
        placement::{fits_one_cpu, has_one_thread},
        run_block::run_block,
        turn::Length,
    },
    resolve,
};

/// Shorter trials are stored while the probe prepares the next one. After longer ones there is time
/// to store them at once.
const SHORT: Duration = Duration::from_millis(50);

/// Results of more trials than this are not emitted at looks: reading them takes seconds, and no terminal has room for them.
const MOST_TOLD: u64 = 20_000;

impl Lab<'_> {
    /// The points of the current block. Returns the reason if the run is over.
    pub(crate) fn next_due(&mut self) -> Result<Result<Vec<Due>, Ended>, LabError> {
        if self.fixed.stop.asked() {
            return Ok(Err(Ended::Stopped));
        }
        self.tick();
        if self.progress.block > 0 {
            self.within_budget()?;
        }
        let progress = &mut self.progress;
        let mut due = progress.due(&self.fixed);
        if due.is_empty() && progress.go_on() {
            due = progress.due(&self.fixed);
        }
        if due.is_empty() {
            return Ok(Err(Ended::Settled));
        }
        let (made, plan) = (progress.block, &progress.run.plan);
        if plan.blocks.is_some_and(|n| made >= n) {
            return Ok(Err(Ended::Settled));
        }
        // A budget is a limit of its own.
        let most = if progress.clock.budget().is_some() {
            resolve::MOST
        } else {
            MAX_BLOCKS
        };
        if plan.blocks.is_none() && made >= most {
            return Ok(Err(Ended::Cap));
        }
        let due = progress.clock.fit(made, due);
        Ok(if due.is_empty() {
            Err(Ended::Budget)
        } else {
            Ok(due)
        })
    }

    /// Runs the current block. Returns the reason if the run is over.
    pub(crate) fn make_block(&mut self, due: &[Due]) -> Result<Option<Ended>, LabError> {
        let (to_come, open) = self.progress.to_come(due);
        self.progress.forecast.renew(to_come, open);
        let ended = self.groups(due);
        self.progress.store_owed(&mut self.out)?;
        if let Some(ended) = ended? {
            return Ok(Some(ended));
        }
        for event in self.progress.look() {
            self.out.emit(event);
        }
        self.progress.block += 1;
        self.tell_results();
        self.machine.meter.refresh();
        Ok(None)
    }

    /// Emits all results so far at a look, before the next block begins.
    fn tell_results(&mut self) {
        let (run, blocks) = (&self.progress.run, self.progress.block);
        let wanted = self.fixed.setup.looks && layermark_stats::is_look(blocks as usize);
        if !wanted || self.progress.seq > MOST_TOLD {
            return;
        }
        // A store that cannot be read is an error when the next trial is stored.
        if let Ok((_, trials)) = self.out.store.load(&run.id) {
            self.out.emit(Event::Looked {
                run: Box::new(run.clone()),
                trials,
                blocks,
            });
        }
    }

    /// Runs all points in order. Returns the reason if the run is over.
    fn groups(&mut self, due: &[Due]) -> Result<Option<Ended>, LabError> {
        let mut any = false;
        for due in due {
            if self.progress.block == 0 {
                self.within_budget()?;
            }
            self.tick();
            if self.fixed.stop.is_spent() {
                return Ok(Some(Ended::Budget));
            }
            let (progress, mut due) = (&self.progress, due.clone());
            due.layers
                .retain(|l| !progress.is_left_out(*l) && progress.can(*l, due.point));
            // What is known not to be ready before it is cut is not begun.
            let clock = &progress.clock;
            let cost = clock.block_cost(std::slice::from_ref(&due));
            let timed = due.layers.iter().all(|l| clock.has_timed(*l, due.point));
            if timed && self.fixed.stop.left().is_some_and(|left| cost > left) {
                continue;
            }
            any = true;
            if self.group(&due)? {
                return Ok(Some(Ended::Stopped));
            }
            self.give_hopeless_up()?;
            self.progress.still_comparable()?;
        }
        Ok((!any).then_some(Ended::Budget))
    }

    /// Runs all trials at one point. Returns whether the user has asked to stop.
    fn group(&mut self, due: &Due) -> Result<bool, LabError> {
        let (progress, stop) = (&self.progress, self.fixed.stop);
        let tried = progress.tally.tried(progress.block, due.point);
        if due.layers.iter().all(|l| tried.contains(l)) {
            // Run before the run was resumed.
            return Ok(false);
        }
        let at = &progress.run.points[due.point];
        let Some(divided) = at.meaning.divided else {
            let mut layers = due.layers.clone();
            if at.meaning.same_outcome && !progress.outcomes.contains_key(&due.point) {
                // The others are compared with the baseline.
                layers.sort_by_key(|layer| *layer != BASELINE);
            }
            for layer in layers {
                if stop.asked() {
                    return Ok(true);
                }
                self.alone(layer, due.point)?;
            }
            return Ok(false);
        };
        let (one_cpu, one_thread) = (fits_one_cpu(at), has_one_thread(at));
        let asked = progress.run.plan.turn()?;
        let share_ns = progress.share_ns(due.point);
        let mut round = 0;
        for part in self.parts_that_fit(due, divided) {
            if stop.asked() {
                return Ok(true);
            }
            let machine = &self.machine;
            let guest = part.iter().any(|layer| machine.is_guest(*layer));
            let mut length = Length::of(divided, guest, asked);
            let had_one_round = self.progress.tally.had_one_round(due.point);
            if divided.cost == TurnCost::Execution && had_one_round {
                // The executions take long, and so does a lead-in. Without one, a second round would come after
                // another pause than the first.
                (length.lead_in_ns, length.most_rounds) = (0, 1);
            }
            let one_cpu = one_cpu && !part.iter().any(|l| machine.is_served(*l));
            let options = RoundOptions {
                length,
                share_ns,
                one_cpu,
                // How long a device takes depends on the CPU that its interrupts go to: a block on one CPU would be fast or slow
                // by that.
                cpu_per_round: !divided.in_memory,
                raised: one_thread && part.iter().all(|l| machine.may_raise(*l)),
            };
            round = self.together(&part, due.point, options, round, None)?;
        }
        Ok(stop.asked())
    }

    /// Runs a trial in one stretch.
    fn alone(&mut self, layer: usize, point: usize) -> Result<(), LabError> {
        let needs = &self.progress.run.points[point].needs;
        let (refresh, restart) = (needs.refresh, needs.restart);
        if refresh || restart {
            // The layer is mounted again first, and may be lost.
            self.progress.store_owed(&mut self.out)?;
        }
        let restarted = if restart {
            self.set_up_again(layer)?
        } else {
            None
        };
        self.together(&[layer], point, RoundOptions::WHOLE, 0, restarted)?;
        Ok(())
    }

    /// Runs a block at one point in layers that are ready together. Returns the number of the next round.
    fn together(
        &mut self,
        layers: &[usize],
        point: usize,
        options: RoundOptions,
        first_round: u32,
        restarted: Option<Restarted>,
    ) -> Result<u32, LabError> {
        let block = Block {
            first_round,
            restarted,
            ..self
                .progress
                .plan_block(&self.fixed, &self.machine, layers, point, options)
        };
        let (progress, out) = (&mut self.progress, &mut self.out);
        // The trials of the last point are stored while the probe prepares this one.
        let outcome = run_block(&self.fixed, &mut self.machine, &block, &mut || {
            progress.store_owed(out)
        })?;
        if let Some(later) = &outcome.rested {
            let layers: Vec<usize> = block.requests.iter().map(|r| r.layer).collect();
            progress.add_rested(&layers, point, later);
        }
        let next_round = outcome.next_round;
        self.take(outcome)?;
        Ok(next_round)
    }

    /// Counts the outcome of a block and handles its errors.
    fn take(&mut self, outcome: BlockOutcome) -> Result<(), LabError> {
        let point = outcome.point;
        if outcome.is_cut_off() {
            // A trial that was cut off is not a result.
            self.note_cut_of(&outcome);
            return Err(self.cut_off());
        }
        let counted = self.progress.count(outcome);
        if !counted.failures.is_empty() || counted.took >= SHORT {
            self.progress.store_owed(&mut self.out)?;
        }
        for (layer, failure) in counted.failures {
            self.handle(layer, point, failure)?;
        }
        Ok(())
    }
}
