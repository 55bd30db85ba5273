//! A block at one point, before it is run.

use layermark_model::{BASELINE, Meaning, Restarted};

use crate::{
    decide::share::{FULL_NS, share_ns},
    execute::{
        fixed::Fixed,
        machine::Machine,
        progress::Progress,
        trial_request::{Least, TrialRequest},
        turn::Length,
    },
};

/// What a block asks of layers at one point.
pub(crate) struct Block<'a> {
    /// Number of the block.
    pub number: u32,
    pub point: usize,
    pub meaning: Meaning,
    /// One for each layer, in the order of their first turns.
    pub requests: Vec<TrialRequest<'a>>,
    pub options: RoundOptions,
    pub first_round: u32,
    /// How the only layer was set up again for it.
    pub restarted: Option<Restarted>,
    /// Whether a rested round may follow, as far as earlier ones and the budget tell.
    pub may_rest: bool,
}

/// Options of the rounds: how layers take turns.
#[derive(Clone, Copy)]
pub(crate) struct RoundOptions {
    pub length: Length,
    /// How long each layer takes turns, nanoseconds.
    pub share_ns: u64,
    /// Whether all layers run on one CPU.
    pub one_cpu: bool,
    /// Whether that is another one in each round.
    pub cpu_per_round: bool,
    /// Whether their threads get a higher priority.
    pub raised: bool,
}

impl RoundOptions {
    /// One uninterrupted stretch.
    pub(crate) const WHOLE: Self = Self {
        length: Length::WHOLE,
        share_ns: FULL_NS,
        one_cpu: false,
        cpu_per_round: false,
        raised: false,
    };
}

impl Progress {
    /// How long each layer takes turns at a point of this block, nanoseconds. Where the plan sets the number of blocks,
    /// none is shorter than the others.
    pub(crate) fn share_ns(&self, point: usize) -> u64 {
        if self.run.plan.blocks.is_some() {
            return FULL_NS;
        }
        let layers = || self.compared().filter(|layer| *layer != BASELINE);
        // A point may have been left out of earlier blocks.
        let here = layers().filter(|layer| self.can(*layer, point));
        // The most of any layer: one that fails here has no blocks, and would keep those of the others short.
        let made = here.map(|layer| self.tally.blocks(layer, point)).max();
        // The baseline and its control have turns in a block as well.
        let all = 0..self.run.layers.len();
        let all: Vec<usize> = all.filter(|layer| self.can(*layer, point)).collect();
        let noise = self.tally.turn_ns(&all, point).map(|turn_ns| {
            let noise = layers().filter_map(|layer| self.tally.noise(layer, point, turn_ns));
            noise.collect::<Vec<_>>()
        });
        share_ns(made.unwrap_or(0), &noise.unwrap_or_default())
    }

    /// What this block asks at a point of those of these layers that are up.
    pub(crate) fn plan_block<'a>(
        &mut self,
        fixed: &Fixed<'a>,
        machine: &Machine,
        layers: &[usize],
        point: usize,
        options: RoundOptions,
    ) -> Block<'a> {
        let up = layers.iter().copied();
        let up: Vec<usize> = up.filter(|layer| machine.up(*layer).is_some()).collect();
        let at = &self.run.points[point];
        let request = |(id, &layer): (u64, &usize)| {
            let here = fixed.setup.in_layers.get(&(layer, point)).unwrap_or(at);
            let control = self.run.layers[layer].control;
            TrialRequest {
                id,
                layer,
                control,
                // The first time in this session, an extra traced trial shows which system calls the
                // point makes. The control would make the baseline's.
                traces: !control && self.extras.insert((self.session, layer, point)),
                point: here.clone(),
                cpus: at.meaning.cpus(),
                seed: fixed.schedule.work_seed(self.block),
                least: Least::USUAL,
                base: self.run.dir.clone(),
                env: fixed.setup.env.clone(),
                stop: fixed.stop,
            }
        };
        let requests = (self.seq..).zip(&up).map(request).collect();
        Block {
            number: self.block,
            point,
            meaning: self.run.points[point].meaning.clone(),
            requests,
            options,
            first_round: 0,
            restarted: None,
            may_rest: self.may_rest(&up, point),
        }
    }
}
