//! `ftp`: files between two ends, over FTP.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{Context, FarEnd, NearEnd, Needs, ProbeError, Work, Workload, param, run::Repeated};

mod ceiling;
mod content;
mod control;
mod far;
mod figures;
mod params;
mod replies;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod vsftpd;
mod work;

use params::FtpParams;

/// The workload `ftp`.
pub struct Ftp;

impl Workload for Ftp {
    fn id(&self) -> &'static str {
        "ftp"
    }

    fn about(&self) -> &'static str {
        "files over FTP between two ends: get and put, with vsftpd or a server of our own"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<FtpParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<FtpParams>(at)
    }

    /// Space for both ends, which may be on one disk.
    fn needs(&self, at: &Point) -> Result<Needs, PointError> {
        Ok(Needs {
            space: param::read::<FtpParams>(at)?.space(),
            near: NearEnd::Path,
            ..Needs::default()
        })
    }

    fn check_programs(&self, at: &Point) -> Result<(), ProbeError> {
        far::program(&param::read(at)?, vsftpd::find()).map(drop)
    }

    fn serve(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far =
            far::FtpFarEnd::start(dir, param::read(at)?, context.far_end(self.id())?, context)?;
        Ok(Box::new(far))
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let (p, peer) = (param::read::<FtpParams>(at)?, context.far_end(self.id())?);
        let ceiling = ceiling::of(&p, dir, context);
        let work = work::FtpWork::connect(dir, p, peer, context)?;
        Ok(Box::new(Repeated::new(work.ceiling(ceiling))))
    }
}
