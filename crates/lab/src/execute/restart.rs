//! Removes a layer and sets it up again between two trials, as one restarts a service to have it
//! cold.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use layermark_layers::{Base, Content, in_facts, workdir::WorkDir};
use layermark_model::Restarted;

use crate::{
    LabError,
    execute::{drive::Lab, layer_failure::LayerFailure},
};

impl Lab<'_> {
    /// Unwinds a layer and builds it again with the same files. `None` when it cannot be torn down,
    /// or is lost.
    pub(crate) fn set_up_again(&mut self, index: usize) -> Result<Option<Restarted>, LabError> {
        let base = self.base(index);
        let Some(up) = self.running[index].take_if(|up| up.is_set_up(&base.dir)) else {
            return Ok(None);
        };
        let started = Instant::now();
        let before = up.mount_number();
        drop(up);
        let opened = std::fs::remove_dir(&base.dir)
            .map_err(|e| LayerFailure::new(format!("{}: {e}", base.dir.display())))
            .and_then(|()| self.open(index, &base));
        let up = match opened {
            Ok(up) => up,
            Err(lost) => {
                let why = format!("it could not be set up again: {}", lost.reason);
                self.drop_layer(
                    index,
                    LayerFailure {
                        reason: why,
                        cut_off: lost.cut_off || self.stop.is_over(),
                        ..lost
                    },
                )?;
                return Ok(None);
            }
        };
        let after = up.mount_number();
        if before.is_some() && before == after {
            let why = "it was removed and set up again, but its mount is the same";
            self.drop_layer(index, LayerFailure::new(why))?;
            return Ok(None);
        }
        self.run.layers[index].facts = in_facts(up.facts.clone());
        self.running[index] = Some(up);
        // A file system may have kernel threads of its own.
        self.meter.refresh();
        Ok(Some(Restarted {
            ns: started.elapsed().as_nanos() as u64,
            mount_before: before,
            mount_after: after,
        }))
    }

    /// The base directory and options with which a layer of this session is built.
    pub(crate) fn base(&self, index: usize) -> Base {
        let work = self.work.as_ref().map(WorkDir::path);
        let work = work.unwrap_or(Path::new(""));
        let left = self.stop.left();
        Base {
            dir: work.join(format!("s{}-{index}", self.session)),
            packaged: work.join("packaged"),
            exe: self.setup.exe.clone(),
            // A layer that takes longer to answer has missed the end.
            silence: self.setup.silence.min(left.unwrap_or(Duration::MAX)),
            until: left.and_then(|left| Instant::now().checked_add(left)),
            content: Content::Fresh,
        }
    }
}
