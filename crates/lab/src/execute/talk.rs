//! Messages to and from the probes of a layer, and how an answer becomes a failure.

use std::time::Duration;

use layermark_layers::in_words;
use layermark_model::protocol::{FromProbe, ToProbe};
use layermark_probe::from_elsewhere;

use crate::execute::{
    probe_client::Broken,
    session::{End, RunningLayer},
    trial_request::{Failure, TrialRequest},
};

/// A probe's connections close shortly before the process ends.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// Sends to the probe whose turn it is.
pub(crate) fn say(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
    message: &ToProbe,
) -> Result<(), Failure> {
    say_to(up, request, request.end(), message)
}

pub(crate) fn say_to(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
    end: End,
    message: &ToProbe,
) -> Result<(), Failure> {
    let sent = up.probes(end).0.send(message);
    sent.map_err(|e| broken(up, request, end, e))
}

/// Receives from the probe whose turn it is.
pub(crate) fn hear(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
) -> Result<FromProbe, Failure> {
    hear_from(up, request, request.end())
}

/// Receives the next line. An error that the probe reports is a failure of the work, unless the
/// other end has ended.
pub(crate) fn hear_from(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
    end: End,
) -> Result<FromProbe, Failure> {
    let (probe, other) = up.probes(end);
    let mut other = other.filter(|_| request.end() == End::Near);
    let said = probe.receive(request.stop, other.as_deref_mut());
    match said {
        Ok(FromProbe::Error {
            id,
            message,
            hint,
            errno,
            defect,
        }) if id.is_none_or(|id| id == request.id) => {
            let ended = other.and_then(|other| other.has_ended(LAST_MOMENT));
            if let Some(how) = ended {
                return Err(broken(up, request, end, Broken::OtherEnded(how)));
            }
            let container = up.facts.is_container();
            let guest = up.facts.guest.is_some();
            let hint = hint.map(|h| in_words(&from_elsewhere(&h, guest, container)));
            Err(Failure::Work {
                message: at(request, end).to_owned() + &in_words(&message),
                hint,
                errno,
                defect,
            })
        }
        said => said.map_err(|e| broken(up, request, end, e)),
    }
}

/// Name of the end in messages, for work with two ends.
fn at(request: &TrialRequest<'_>, end: End) -> &'static str {
    match (request.end(), end) {
        (End::Far, _) => "",
        (End::Near, End::Near) => "near end: ",
        (End::Near, End::Far) => "far end: ",
    }
}

/// The failure for a probe at this end that can no longer be used.
fn broken(up: &mut RunningLayer, request: &TrialRequest<'_>, end: End, e: Broken) -> Failure {
    let (end, e) = match e {
        Broken::CutOff => return Failure::CutOff,
        Broken::OtherEnded(how) => (end.other(), Broken::Ended(how)),
        e => (end, e),
    };
    let last_words = up.probes(end).0.last_words();
    Failure::Broken(format!("{}{e}{last_words}", at(request, end)))
}

/// The probe sent another message than expected.
pub(crate) fn unexpected(line: &FromProbe, wanted: &str) -> Failure {
    let what = match line {
        FromProbe::Hello { .. } => "hello",
        FromProbe::Ready { .. } => "ready for another job",
        FromProbe::Serving { .. } => "serving",
        FromProbe::Progress { .. } => "progress",
        FromProbe::Turned { .. } => "a turn that was not asked for",
        FromProbe::Settled { .. } => "settled out of turn",
        FromProbe::Trial { .. } => "the trial of another job",
        FromProbe::Error { .. } => "the error of another job",
        FromProbe::Prepared { .. } => "prepared",
        FromProbe::Acknowledged { .. } => "acknowledged",
        FromProbe::Surveyed { .. } => "surveyed",
        FromProbe::Program { .. } => "what a program did",
        FromProbe::Sequence { .. } => "what became of a sequence",
        FromProbe::Done => "done",
    };
    Failure::Broken(Broken::OutOfTurn(format!("{what} instead of {wanted}")).to_string())
}
