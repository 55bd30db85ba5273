//! A layer's trial in progress, step by step.

use crate::execute::{
    cpu::Moment,
    layer_failure::LayerFailure,
    machine::Machine,
    session::RunningLayer,
    trial::Attempt,
    trial_request::{Failure, TrialRequest},
    turn::Length,
    watch::Watch,
};

/// A trial in progress.
pub(crate) struct ActiveTrial<'a> {
    pub request: &'a TrialRequest<'a>,
    pub attempt: Attempt,
    /// Whether its probe is at work on what was asked of it.
    pub asked: bool,
    /// Whether what it does now is done beside other layers.
    pub beside: bool,
}

impl<'a> ActiveTrial<'a> {
    pub(crate) fn new(request: &'a TrialRequest<'a>) -> Self {
        Self {
            request,
            attempt: Attempt::new(request.layer),
            asked: false,
            beside: false,
        }
    }

    fn is_cut_off(&self) -> bool {
        self.attempt.made.failure == Some(Failure::CutOff)
    }

    /// Whether it has not failed.
    pub(crate) fn is_well(&self) -> bool {
        self.attempt.made.failure.is_none()
    }

    /// Does a step of the trial. The processes that serve the layer are watched meanwhile.
    pub(crate) fn step(
        &mut self,
        what: &'static str,
        machine: &mut Machine,
        step: impl FnOnce(&mut Attempt, &mut RunningLayer, &TrialRequest<'_>) -> Result<(), Failure>,
    ) {
        self.watched(what, &machine.watch, &mut machine.layers, step);
    }

    /// Takes a turn of this length in a round. `moment` holds the last counters, and on return those
    /// after the turn.
    pub(crate) fn turn(
        &mut self,
        what: &'static str,
        machine: &mut Machine,
        round: (u32, Length),
        moment: &mut Moment,
    ) {
        let meter = &machine.meter;
        self.watched(
            what,
            &machine.watch,
            &mut machine.layers,
            |attempt, up, request| attempt.turn(up, request, round, (meter, moment)),
        );
    }

    fn watched(
        &mut self,
        what: &'static str,
        watch: &Watch,
        layers: &mut [Option<RunningLayer>],
        step: impl FnOnce(&mut Attempt, &mut RunningLayer, &TrialRequest<'_>) -> Result<(), Failure>,
    ) {
        let request = self.request;
        // What was asked of it may be done already: only who is still at work is cut in that.
        if request.stop.at_once() && !self.asked {
            self.attempt.made.failure = Some(Failure::CutOff);
        }
        let (begun, before) = (request.stop.now(), self.is_cut_off());
        // The time of what layers do beside each other is divided among them when all of it is done.
        let apart = !self.beside;
        if let Some(up) = &mut layers[self.request.layer] {
            let watching = watch.over(&up.info().helpers);
            self.attempt
                .step(up, |attempt, up| step(attempt, up, request));
            let watched: Result<(), LayerFailure> = watching.judge(Ok(()));
            if let Err(lost) = watched {
                self.attempt.lose(lost);
            }
        }
        if apart {
            self.attempt.made.took += request.stop.now() - begun;
        }
        if !before && self.is_cut_off() {
            self.attempt.made.cut_in = Some(what);
        }
    }
}
