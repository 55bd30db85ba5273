//! `db`: transactions of an `SQLite` database. What mail clients, browsers, package managers and small servers
//! do, and what a layer with slow or missing flushes decides.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{Context, Needs, ProbeError, Work, Workload, param, run::Repeated};

mod figures;
mod params;
mod sql;
#[cfg(test)]
mod tests;
mod vfs;
mod work;

use params::DbParams;

/// The workload `db`.
pub struct Db;

impl Workload for Db {
    fn id(&self) -> &'static str {
        "db"
    }

    fn about(&self) -> &'static str {
        "transactions of an SQLite database: commits/s, syncs and flushes a commit"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<DbParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<DbParams>(at)
    }

    fn needs(&self, at: &Point) -> Result<Needs, PointError> {
        let p: DbParams = param::read(at)?;
        Ok(Needs {
            space: params::space(p.rows, p.row_size),
            ..Needs::default()
        })
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::DbWork::prepare(dir, param::read(at)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
