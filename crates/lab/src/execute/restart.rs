//! Removes a layer and sets it up again between two trials, as one restarts a service to have it
//! cold.

use std::time::Instant;

use layermark_layers::in_facts;
use layermark_model::Restarted;

use crate::{
    LabError,
    execute::{drive::Lab, layer_failure::LayerFailure},
};

impl Lab<'_> {
    /// Unwinds a layer and builds it again with the same files. `None` when it cannot be torn down,
    /// or is lost.
    pub(crate) fn set_up_again(&mut self, index: usize) -> Result<Option<Restarted>, LabError> {
        let base = self.machine.base(&self.fixed, self.progress.session, index);
        let Some(up) = self.machine.layers[index].take_if(|up| up.is_set_up(&base.dir)) else {
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
                        cut_off: lost.cut_off || self.fixed.stop.is_over(),
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
        let facts = &mut self.progress.run.layers[index].facts;
        facts.renew(in_facts(up.facts.clone()));
        self.machine.layers[index] = Some(up);
        // A file system may have kernel threads of its own.
        self.machine.meter.refresh();
        Ok(Some(Restarted {
            ns: started.elapsed().as_nanos() as u64,
            mount_before: before,
            mount_after: after,
        }))
    }
}
