//! `coherence`: how long a change takes until the other side of a shared directory sees it. One side
//! is the layer, the other is the directory of this host that has the same files.

use std::path::Path;

use layermark_model::{NearEnd, Needs, PointError};

use crate::{
    Context, FarEnd, ProbeError, Work,
    param::{self, Of, Params, Runs},
};

mod far;
mod figures;
pub(super) mod params;
mod protocol;
mod side;
#[cfg(test)]
mod tests;
mod work;

use params::CoherenceParams;

/// Space for the files of both sides, bytes.
const SPACE: u64 = 1 << 20;

/// The workload `coherence`.
pub static WORKLOAD: Of<CoherenceParams> = param::of();

impl Runs for CoherenceParams {
    const ABOUT: &'static str = "when a change, or a lock, is seen on the other side of a shared directory: in the layer, on this host";
    const EXAMPLES: [&'static str; 2] = [
        "layermark coherence -l fuse -l sshfs --wait 30s",
        "layermark coherence --op rename,notify --seen layer -l vm:share=virtiofs",
    ];

    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            space: SPACE,
            near: NearEnd::OtherSide,
            ..Needs::default()
        })
    }

    fn serve(self, dir: &Path, context: &Context) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::Other::start(dir, self, context.far_end(Self::ID)?)?;
        Ok(Box::new(far))
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let peer = context.far_end(Self::ID)?;
        let work = work::CoherenceWork::prepare(dir, self, peer, context)?;
        Ok(Box::new(work))
    }
}
