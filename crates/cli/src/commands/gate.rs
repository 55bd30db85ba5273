//! `--fail-if`: fails a build where a layer is too slow.

use std::process::ExitCode;

use layermark_model::{Gate, GateError, Run};
use layermark_report::{GateState, Report};

use crate::{
    common_args::GateArgs,
    failure::{Code, Failure},
    say::say,
};

/// At most this many results are listed; the rest are counted.
const LISTED: usize = 10;

/// Parses the gates from the flags.
pub fn read(args: &GateArgs) -> Result<Vec<Gate>, Failure> {
    let gates = args.fail_if.iter().map(|text| text.parse());
    Ok(gates.collect::<Result<_, GateError>>()?)
}

/// Refuses gates that name something not in a stored run.
pub fn check(gates: &[Gate], run: &Run) -> Result<(), Failure> {
    let layers = run.layers.iter().skip(1).filter(|l| !l.control);
    let layers: Vec<&str> = layers.map(|l| l.name.as_str()).collect();
    let points: Vec<&str> = run.points.iter().map(|p| p.label.as_str()).collect();
    Ok(gates
        .iter()
        .try_for_each(|gate| gate.check(&layers, &points))?)
}

/// Prints the results of a report's gates. Returns an exit code if one failed.
pub fn outcome(report: &Report) -> Option<ExitCode> {
    if report.gates.is_empty() {
        return None;
    }
    let count = |state: GateState| report.gates.iter().filter(|g| g.state == state).count();
    let failed = count(GateState::Failed);
    for (state, what) in [
        (GateState::Failed, "gate failed"),
        (GateState::Undecided, "gate cannot tell"),
    ] {
        let of_state = || report.gates.iter().filter(|g| g.state == state);
        for gate in of_state().take(LISTED) {
            let (layer, point, text) = (&gate.layer, &gate.point, &gate.text);
            say(format!(
                "{what}: {layer} at \"{point}\": {text} ({})",
                gate.gate
            ));
        }
        let more = of_state().count().saturating_sub(LISTED);
        if more > 0 {
            say(format!("{what}: and {more} more"));
        }
    }
    say(format!(
        "gates: {} passed, {failed} failed, {} cannot be told",
        count(GateState::Passed),
        count(GateState::Undecided)
    ));
    (failed > 0).then(|| Code::Failed.into())
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Self {
        Self::usage(&error).hint(error.hint())
    }
}
