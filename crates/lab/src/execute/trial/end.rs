//! The end of a trial: files are flushed, and the proof of what was done is collected.

use layermark_layers::KernelCaches;
use layermark_model::{
    DeviceBytes, DirectIo, Meaning, Point, Trial, Untraced, Waiting,
    flags::CONTAMINATED,
    protocol::{FromProbe, ToProbe},
};

use super::{
    Attempt, cooled,
    job::{ready, send_job},
    keeps_time,
};
use crate::{
    cpus,
    decide::flags::{self, TrialContext},
    execute::{
        others::{self, Own},
        remote_layer,
        session::{End, RunningLayer},
        talk::{hear, hear_from, say, say_to, unexpected},
        trial_request::{Failure, TrialRequest},
    },
};

impl Attempt {
    /// Collects the proof of what was done. What the layer does meanwhile does not count as cost of
    /// the trial.
    pub(crate) fn end(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
    ) -> Result<(), Failure> {
        ask_to_end(up, request)?;
        self.ended(up, request)
    }

    /// Waits for the proof, and judges it.
    pub(crate) fn ended(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
    ) -> Result<(), Failure> {
        let mut trial = match hear(up, request)? {
            FromProbe::Trial { id, trial } if id == request.id => *trial,
            other => return Err(unexpected(&other, "trial")),
        };
        let meaning = &request.point.meaning;
        self.made.usage = self.used.usage(&self.beside);
        self.made.usage.contaminated |= self.recent.is_contaminated();
        self.add_device_counts(&mut trial, meaning);
        self.add_lab_counts(&mut trial, up, request);
        self.add_busy(&mut trial);
        if trial.ns_per_op().is_none_or(|ns| ns <= 0.0) {
            let why = "the trial has no operation on its clock";
            return Err(Failure::work(why));
        }
        let context = TrialContext {
            reads: !meaning.changes,
            facts: &up.facts,
            backing: self.made.backing,
            cooled: &self.cooled,
            served: remote_layer::has_server(&up.facts),
        };
        self.made.flags = flags::of(meaning, &context, &trial);
        if self.made.usage.contaminated {
            self.made.flags.push(CONTAMINATED.to_owned());
        }
        let extra = request.point.needs.extra.as_ref();
        if let Some(extra) = extra.filter(|_| request.traces) {
            beside(up, request, extra, &mut trial)?;
        }
        self.made.trial = Some(trial);
        Ok(())
    }

    /// Adds what crossed the devices that this host counts.
    fn add_device_counts(&mut self, trial: &mut Trial, meaning: &Meaning) {
        if let Some((_, crossed)) = &self.below {
            // A device of the guest may be in this host's memory, so the devices of this host
            // count.
            trial.guest_device = trial.device.take();
            trial.device = *crossed;
            // A kernel that does not report what it has cached.
            if meaning.is_direct() && trial.direct.is_none() {
                trial.direct = trial.direct_io(None, meaning.direction);
            }
            self.made.usage.upkeep_ns = self.made.usage.upkeep_ns.saturating_sub(self.cpu_ns);
        }
        // The probe sees that its kernel cached nothing, but a program in user space may have.
        if let Some((_, read)) = &self.host
            && trial.direct == Some(DirectIo::Honoured)
            && (*read as f64) <= flags::SLACK * trial.bytes() as f64
        {
            trial.direct = Some(DirectIo::Ignored);
            let read = format!("{read} of {} bytes were read from a device", trial.bytes());
            trial.notes.push(read);
        }
        // Also read around the lead-ins, in which helpers and devices do the same work.
        self.made.usage.upkeep_ns = self.of_turns(self.made.usage.upkeep_ns);
        trial.own_device = self.own.as_ref().map(|(_, sum)| DeviceBytes {
            read: self.of_turns(sum.read),
            written: self.of_turns(sum.written),
            flushes: self.of_turns(sum.flushes),
        });
        trial.background = self.background;
    }

    /// Adds what the lab has observed in the turns.
    fn add_lab_counts(&self, trial: &mut Trial, up: &RunningLayer, request: &TrialRequest<'_>) {
        let meaning = &request.point.meaning;
        let own = meaning.changes.then(|| Own {
            files: request.point.needs.space,
            under_way: meaning.divided.map_or(0, |d| d.under_way),
        });
        // The amount that programs write is not known.
        if !meaning.runs_programs() {
            trial.foreign_writes = others::wrote(&self.written, own, trial);
        }
        trial.throttled = self.throttled;
        trial.cpus = request.cpus.map(|count| {
            if up.info().on_this_host {
                cpus::at_hand(count)
            } else {
                count
            }
        });
        trial.waiting = Some(Waiting {
            // The kernel counts what a quota has stopped as waiting, and that is the layer's cost.
            apart: up.has_only_this_kernel() && !self.may_be_throttled(up),
            disturbed: self.made.usage.contaminated,
            helpers_ns: self.helpers_waited_ns.map(|ns| self.of_turns(ns)),
            priority: self.priority,
        });
        trial.rested = self.rested;
    }

    /// Adds the busy time of all CPUs, without what a waiting probe has spun.
    fn add_busy(&self, trial: &mut Trial) {
        let spun = trial.spun_ns as f64 / 1e9 / self.made.usage.cpu_s.max(1e-9);
        let busy = (self.made.usage.busy - spun).max(0.0);
        trial.busy = Some(busy);
        let busy_ns = (busy * self.made.usage.cpu_s * 1e9) as u64;
        trial.busy_ns = Some(self.of_turns(busy_ns));
    }

    /// The part of `used_ns` that belongs to the counted time.
    fn of_turns(&self, used_ns: u64) -> u64 {
        of_turns(used_ns, self.elapsed_ns, self.uncounted_ns)
    }
}

/// The part of `used_ns` that belongs to the counted time.
fn of_turns(used_ns: u64, counted_ns: u64, uncounted_ns: u64) -> u64 {
    let all = u128::from(counted_ns) + u128::from(uncounted_ns);
    let part = (u128::from(used_ns) * u128::from(counted_ns)).checked_div(all);
    part.map_or(used_ns, |part| part as u64)
}

/// After the last turn: makes the probe flush its own files.
pub(crate) fn settle(up: &mut RunningLayer, request: &TrialRequest<'_>) -> Result<(), Failure> {
    keeps_time(up)?;
    // The far end must exist while the near one works.
    let ends: &[End] = match request.end() {
        End::Near => &[End::Near, End::Far],
        End::Far => &[End::Far],
    };
    ends.iter().try_for_each(|end| {
        say_to(up, request, *end, &ToProbe::Settle { id: request.id })?;
        match hear_from(up, request, *end)? {
            FromProbe::Settled { id } if id == request.id => Ok(()),
            other => Err(unexpected(&other, "settled")),
        }
    })
}

/// Asks the probe for the proof of what was done, which it begins to collect.
pub(crate) fn ask_to_end(up: &mut RunningLayer, request: &TrialRequest<'_>) -> Result<(), Failure> {
    say(up, request, &ToProbe::End { id: request.id })
}

/// Runs a trial that is not counted, for its additional facts. A failure is only a remark.
fn beside(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
    point: &Point,
    of: &mut Trial,
) -> Result<(), Failure> {
    let made = (|| {
        send_job(up, request, point, None)?;
        ready(up, request)?;
        cooled(up, point, KernelCaches::Now)?;
        let mut said = FromProbe::Ready { id: request.id };
        while let Some(next) = ToProbe::in_one_stretch(&said) {
            say(up, request, &next)?;
            said = hear(up, request)?;
        }
        match said {
            FromProbe::Trial { id, trial } if id == request.id => Ok(*trial),
            other => Err(unexpected(&other, "trial")),
        }
    })();
    match made {
        Ok(extra) => {
            of.figures.extend(extra.figures);
            Ok(())
        }
        Err(Failure::Work { message, hint, .. }) => {
            of.untraced = Some(Untraced { why: message, hint });
            Ok(())
        }
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_in_costs_what_the_same_time_of_a_turn_costs() {
        assert_eq!(of_turns(110, 1_000_000, 100_000), 100);
        assert_eq!(of_turns(110, 1_000_000, 0), 110);
        assert_eq!(of_turns(u64::MAX, u64::MAX, u64::MAX), u64::MAX / 2);
        assert_eq!(of_turns(110, 0, 0), 110);
    }
}
