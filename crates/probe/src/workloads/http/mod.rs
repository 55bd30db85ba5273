//! `http`: requests to a web server over a path between two ends, or to a URL of the user's: closed
//! loop as in `ab`, open loop as in `wrk2`.

use std::{path::Path, time::Duration};

use layermark_model::{NearEnd, Needs, PointError, Spec};

use crate::{
    Context, FarEnd, ProbeError, Work,
    param::{self, Of, Runs},
    run::Repeated,
};

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
pub static WORKLOAD: Of<HttpParams> = param::of();

impl Runs for HttpParams {
    const ABOUT: &'static str = "a web server behind a path, or at a URL: requests a second and their latency, as ab, wrk and wrk2 do them";
    const EXAMPLES: [&'static str; 2] = [
        "layermark http --concurrency 4 -l netns",
        "layermark http http://127.0.0.1:8080/ --concurrency 64 --budget 10s",
    ];

    /// The user's own server is reached from this host, without a layer in between.
    fn in_layer(self, layer: &Spec) -> Result<Self, PointError> {
        if layer.is_native() || !self.has_url() {
            return Ok(self);
        }
        let what = format!(" is requested from this host, not in {layer}");
        Err(PointError::of("http", "url", what)
            .hint("leave the layer out; without a URL a server is started in each layer"))
    }

    /// Space for the file that a server reads, and its logs.
    fn needs(&self) -> Result<Needs, PointError> {
        let p = self;
        Ok(Needs {
            space: p.body + (1 << 20),
            lasts: Duration::from_millis(if p.rate > 0 { p.time } else { 0 }),
            per_layer: p.has_url(),
            near: if p.has_url() {
                NearEnd::None
            } else {
                NearEnd::Path
            },
            ..Needs::default()
        })
    }

    fn check_programs(&self) -> Result<(), ProbeError> {
        far::check_program(self)
    }

    fn serve(self, dir: &Path, context: &Context) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::start(dir, self, context)?;
        Ok(Box::new(far))
    }

    fn prepare(self, _: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::HttpWork::prepare(self, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
