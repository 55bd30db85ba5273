//! `ftp`: files between two ends, over FTP.

use std::path::Path;

use layermark_model::{NearEnd, Needs, PointError};

use crate::{
    Context, FarEnd, ProbeError, Work,
    param::{self, Of, Params, Runs},
    run::Repeated,
};

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
pub static WORKLOAD: Of<FtpParams> = param::of();

impl Runs for FtpParams {
    const ABOUT: &'static str =
        "files over FTP between two ends: get and put, with vsftpd or a server of our own";
    const EXAMPLES: [&'static str; 2] = [
        "layermark ftp --op get --file-size 4M -l netns",
        "layermark ftp --op get,put --server own -l netns --budget 1m",
    ];

    /// Space for both ends, which may be on one disk.
    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            space: self.space(),
            near: NearEnd::Path,
            ..Needs::default()
        })
    }

    fn check_programs(&self) -> Result<(), ProbeError> {
        far::program(self, vsftpd::find()).map(drop)
    }

    fn serve(self, dir: &Path, context: &Context) -> Result<Box<dyn FarEnd>, ProbeError> {
        let far = far::FtpFarEnd::start(dir, self, context.far_end(Self::ID)?, context)?;
        Ok(Box::new(far))
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let peer = context.far_end(Self::ID)?;
        let ceiling = ceiling::of(&self, dir, context);
        let work = work::FtpWork::connect(dir, self, peer, context)?;
        Ok(Box::new(Repeated::new(work.ceiling(ceiling))))
    }
}
