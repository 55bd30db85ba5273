//! `http`: requests to a web server over a path between two ends, or to a URL of the user's: closed
//! loop as in `ab`, open loop as in `wrk2`.

use std::{path::Path, time::Duration};

use layermark_model::{Meaning, Param, Point, PointError, Settings, Spec};

use crate::{Context, FarEnd, NearEnd, Needs, ProbeError, Work, Workload, param, run::Repeated};

mod alarm;
mod answer;
mod ceiling;
mod client;
mod far;
mod figures;
mod hosted;
mod link;
mod near;
mod params;
mod server;
#[cfg(test)]
mod tests;
mod url;
mod work;

use params::HttpParams;

/// The workload `http`.
pub struct Http;

impl Workload for Http {
    fn id(&self) -> &'static str {
        "http"
    }

    fn about(&self) -> &'static str {
        "a web server behind a path, or at a URL: requests a second and their latency, as ab, wrk and wrk2 do them"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<HttpParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<HttpParams>(at)
    }

    /// The user's own server is reached from this host, without a layer in between.
    fn in_layer(&self, at: &Point, layer: &Spec) -> Result<Point, PointError> {
        if layer.is_native() || self.needs(at)?.near.has_two() {
            return Ok(at.clone());
        }
        Err(PointError::new(format!(
            "http: a URL is requested from this host, not in {layer}"
        ))
        .hint("leave the layer out; without a URL a server is started in each layer"))
    }

    /// Space for the file that a server reads, and its logs.
    fn needs(&self, at: &Point) -> Result<Needs, PointError> {
        let p: HttpParams = param::read(at)?;
        Ok(Needs {
            space: p.body + (1 << 20),
            lasts: Duration::from_millis(if p.rate > 0 { p.time } else { 0 }),
            near: if p.has_url() {
                NearEnd::None
            } else {
                NearEnd::Path
            },
            ..Needs::default()
        })
    }

    fn check_programs(&self, at: &Point) -> Result<(), ProbeError> {
        far::check_program(&param::read(at)?)
    }

    fn serve(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::start(dir, param::read(at)?, context)?;
        Ok(Box::new(far))
    }

    fn prepare(
        &self,
        _: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::HttpWork::prepare(param::read(at)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
