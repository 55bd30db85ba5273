//! `net`: the cost of a path between two ends, as netperf measures it.

use std::path::Path;

use layermark_model::{NearEnd, Needs, PointError};

use crate::{
    Context, FarEnd, ProbeError, Work,
    param::{self, Of, Params, Runs},
    run::Repeated,
};

mod ceiling;
mod far;
mod far_trial;
mod figures;
mod lanes;
mod near;
mod params;
mod sockets;
#[cfg(test)]
mod tests;
mod traffic;
mod transactions;
mod unacknowledged;
mod work;

use params::NetParams;

/// The workload `net`.
pub static WORKLOAD: Of<NetParams> = param::of();

impl Runs for NetParams {
    const ABOUT: &'static str =
        "a path between two ends: transactions and streams over TCP and UDP, as netperf does them";
    const EXAMPLES: [&'static str; 2] = [
        "layermark net --op rr,stream -l netns",
        "layermark net --op stream --socket-buffer 32K,256K -l vm:nic=virtio-net",
    ];

    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            near: NearEnd::Path,
            ..Needs::default()
        })
    }

    fn serve(self, _: &Path, context: &Context) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::start(self, context.far_end(Self::ID)?)?;
        Ok(Box::new(far))
    }

    fn prepare(self, _: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::NetWork::prepare(self, context.far_end(Self::ID)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
