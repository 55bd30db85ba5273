//! `net`: the cost of a path between two ends, as netperf measures it.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{Context, FarEnd, NearEnd, Needs, ProbeError, Work, Workload, param, run::Repeated};

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
pub struct Net;

impl Workload for Net {
    fn id(&self) -> &'static str {
        "net"
    }

    fn about(&self) -> &'static str {
        "a path between two ends: transactions and streams over TCP and UDP, as netperf does them"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<NetParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<NetParams>(at)
    }

    fn needs(&self, _: &Point) -> Result<Needs, PointError> {
        Ok(Needs {
            near: NearEnd::Path,
            ..Needs::default()
        })
    }

    fn serve(
        &self,
        _: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::start(param::read(at)?, context.far_end(self.id())?)?;
        Ok(Box::new(far))
    }

    fn prepare(
        &self,
        _: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::NetWork::prepare(param::read(at)?, context.far_end(self.id())?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
