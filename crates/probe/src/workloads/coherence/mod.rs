//! `coherence`: how long a change takes until the other side of a shared directory sees it. One side
//! is the layer, the other is the directory of this host that has the same files.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{Context, FarEnd, NearEnd, Needs, ProbeError, Work, Workload, param};

mod far;
mod figures;
mod params;
mod protocol;
mod side;
#[cfg(test)]
mod tests;
mod work;

use params::CoherenceParams;

/// Space for the files of both sides, bytes.
const SPACE: u64 = 1 << 20;

/// The workload `coherence`.
pub struct Coherence;

impl Workload for Coherence {
    fn id(&self) -> &'static str {
        "coherence"
    }

    fn about(&self) -> &'static str {
        "when a change, or a lock, is seen on the other side of a shared directory: in the layer, on this host"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<CoherenceParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<CoherenceParams>(at)
    }

    fn needs(&self, _: &Point) -> Result<Needs, PointError> {
        Ok(Needs {
            space: SPACE,
            near: NearEnd::OtherSide,
            ..Needs::default()
        })
    }

    fn serve(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::Other::start(dir, param::read(at)?, context.far_end(self.id())?)?;
        Ok(Box::new(far))
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let peer = context.far_end(self.id())?;
        let work = work::CoherenceWork::prepare(dir, param::read(at)?, peer, context)?;
        Ok(Box::new(work))
    }
}
