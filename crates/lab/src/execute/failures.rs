//! What follows from a failed trial: the probe is started again, the layer is dropped, or the run ends.

use layermark_model::BASELINE;

use crate::{
    Event, LabError, check,
    execute::{drive::Lab, layer_failure::LayerFailure, trial_request::Failure},
};

/// How many times a failed probe is restarted per run.
pub(crate) const RESTARTS: u32 = 1;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Whether an error says that a disk is full or a quota used up.
pub(crate) fn is_no_room(errno: Option<i32>) -> bool {
    matches!(errno, Some(ENOSPC | EDQUOT))
}

/// A layer whose probe has failed again.
pub(crate) fn failed_again(reason: String) -> LayerFailure {
    let hint = "the kernel may say why: dmesg | tail; if it is only slow: --silence 5m";
    LayerFailure {
        hint: Some(hint.to_owned()),
        ..LayerFailure::new(reason)
    }
}

/// A layer whose probe has failed with `reason`, and cannot be restarted.
pub(crate) fn cannot_restart(reason: &str, lost: LayerFailure) -> LayerFailure {
    LayerFailure {
        reason: format!("{reason}, and {}", lost.reason),
        ..lost
    }
}

impl Lab<'_> {
    /// Does something about a failed trial.
    pub(crate) fn handle(
        &mut self,
        layer: usize,
        point: usize,
        failure: Failure,
    ) -> Result<(), LabError> {
        let text = failure.text().into_owned();
        match failure {
            Failure::Work { errno, .. } if is_no_room(errno) => self.full(layer, point, text),
            Failure::Work {
                errno: Some(EIO), ..
            } if self.progress.run.points[point].meaning.changes => {
                self.may_have_lost_writes(layer, &text)
            }
            Failure::Broken(reason) => self.revive(layer, reason),
            Failure::Lost(lost) => self.drop_layer(layer, lost),
            Failure::Work { .. } | Failure::CutOff => Ok(()),
        }
    }

    /// Restarts a failed probe, at most [`RESTARTS`] times. After that the layer is lost.
    fn revive(&mut self, layer: usize, reason: String) -> Result<(), LabError> {
        if self.progress.restarts[layer] >= RESTARTS {
            return self.drop_layer(layer, failed_again(reason));
        }
        self.progress.restarts[layer] += 1;
        let name = self.progress.run.layers[layer].name.clone();
        let brief = layermark_model::brief(&reason);
        self.out
            .warn(format!("{name}: {brief}; its probe is started again"), None);
        let revived = self.machine.restart(layer, &self.fixed);
        revived.or_else(|lost| self.drop_layer(layer, cannot_restart(&brief, lost)))
    }

    /// A layer may have little space of its own. If the full disk is the one below all layers,
    /// later results could not be trusted, so the run ends.
    fn full(&mut self, layer: usize, point: usize, message: String) -> Result<(), LabError> {
        let run = &self.progress.run;
        let needed = run.points[point].needs.space;
        let dir = std::path::PathBuf::from(&run.dir);
        // A baseline that the user names may have little space of its own as well.
        let named = run.plan.baseline.is_some();
        let spec = &run.layers[layer].spec;
        let baseline = !named && *spec == run.layers[BASELINE].spec;
        if baseline || spec.is_native() || !check::has_room(&dir, needed) {
            return Err(LabError::DiskFull {
                dir,
                message,
                run: run.id.clone(),
                store: self.out.store.option(),
            });
        }
        let hint = Some("make the files smaller: --scale 0.1".to_owned());
        self.drop_layer(
            layer,
            LayerFailure {
                hint,
                ..LayerFailure::new(format!("it is full: {message}"))
            },
        )
    }

    /// A layer that may have lost what was written to it. The kernel marks pages that it could not write as
    /// clean, so a second fsync would return 0 without them, and later trials would look right.
    fn may_have_lost_writes(&mut self, layer: usize, message: &str) -> Result<(), LabError> {
        let reason =
            format!("an operation failed with an I/O error, and is not tried again: {message}");
        let hint = "the kernel may say why: dmesg | tail".to_owned();
        self.drop_layer(
            layer,
            LayerFailure {
                hint: Some(hint),
                ..LayerFailure::new(reason)
            },
        )
    }

    /// Leaves a layer out from now on. Without the baseline the run ends with an error.
    pub(crate) fn drop_layer(&mut self, index: usize, lost: LayerFailure) -> Result<(), LabError> {
        self.machine.layers[index] = None;
        if lost.cut_off {
            return Err(self.cut_off());
        }
        let name = self.progress.lose(index, &lost);
        self.out.update(&self.progress.run)?;
        if index == BASELINE {
            return Err(LabError::Baseline {
                name,
                reason: lost.reason,
                hint: lost.hint,
            });
        }
        self.out.emit(Event::LayerFailed {
            name,
            reason: lost.reason,
            hint: lost.hint,
        });
        Ok(())
    }

    pub(crate) fn cut_off(&self) -> LabError {
        LabError::CutOff {
            run: self.progress.run.id.clone(),
            store: self.out.store.option(),
        }
    }
}
