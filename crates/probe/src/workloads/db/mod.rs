//! `db`: transactions of an `SQLite` database. What mail clients, browsers, package managers and small servers
//! do, and what a layer with slow or missing flushes decides.

use std::path::Path;

use layermark_model::{Needs, PointError};

use crate::{
    Context, ProbeError, Work,
    param::{self, Of, Runs},
    run::Repeated,
};

mod figures;
mod params;
mod sql;
#[cfg(test)]
mod tests;
mod vfs;
mod work;

use params::DbParams;

/// The workload `db`.
pub static WORKLOAD: Of<DbParams> = param::of();

impl Runs for DbParams {
    const ABOUT: &'static str =
        "transactions of an SQLite database: commits/s, syncs and flushes a commit";
    const EXAMPLES: [&'static str; 2] = [
        "layermark db --op commit --journal wal -l overlay:upper",
        "layermark db --op commit,read --synchronous full,normal -l fuse --budget 1m",
    ];

    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            space: params::space(self.rows, self.row_size),
            ..Needs::default()
        })
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::DbWork::prepare(dir, self, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
