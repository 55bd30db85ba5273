//! `lock`: threads that contend for a lock on one file. Databases, mail stores and build tools rely
//! on locks, and shared folders are known to make them slow or unsafe.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};
use serde_json::{Map, Value};

use super::coherence::Coherence;
use crate::{Context, Needs, ProbeError, Work, Workload, param, run::Repeated};

mod contenders;
mod ops;
pub(super) mod params;
pub(super) mod sys;
#[cfg(test)]
mod tests;
mod work;

use params::LockParams;

/// The workload `lock`.
pub struct Lock;

impl Workload for Lock {
    fn id(&self) -> &'static str {
        "lock"
    }

    fn about(&self) -> &'static str {
        "threads that contend for a lock on a file, and whether it excludes a second client: flock, fcntl, OFD"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        let mut points = param::points::<LockParams>(settings, scale)?;
        points.extend(two_clients(settings, scale, &points)?);
        Ok(points)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<LockParams>(at)
    }

    fn needs(&self, _: &Point) -> Result<Needs, PointError> {
        Ok(Needs {
            space: BLOCK,
            ..Needs::default()
        })
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::LockWork::prepare(dir, param::read(at)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}

/// How long the other client tries to take a lock that is held.
const TRIES: &str = "1s";

/// Points of `coherence` for each kind of lock: the threads of a trial are all on one client, whose locks may be
/// unknown to others.
fn two_clients(
    settings: &Settings,
    scale: f64,
    points: &[Point],
) -> Result<Vec<Point>, PointError> {
    let mut kinds: Vec<Value> = Vec::new();
    for point in points {
        let kind = Value::from(param::read::<LockParams>(point)?.op.id());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let params = [
        ("op", kinds.into()),
        ("seen", "host".into()),
        ("wait", TRIES.into()),
    ];
    let both = Settings {
        workload: Coherence.id().into(),
        label: settings.label.as_ref().map(|l| format!("{l}, two clients")),
        params: Map::from_iter(params.map(|(name, value)| (name.to_owned(), value))),
    };
    Coherence.points(&both, scale)
}

/// Size of the file on the disk, bytes.
const BLOCK: u64 = 4096;
