//! Packaged files of a driven host: its master copies, and the package of all hosts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use layermark_layers::{Storage, workdir::WorkDir};
use layermark_model::{Environment, Point, Spec, random};
use layermark_probe::{Placed, Purpose, packaged};

use super::{DrivenHost, StepError};
use crate::{
    LabError,
    check::{self, Disk},
};

/// Points with what they need, and what is copied to `packaged/` for them.
pub(super) struct PointFiles {
    points: Vec<Point>,
    placed: Vec<Placed>,
}

impl PointFiles {
    fn of(&self) -> (&[Point], &[Placed]) {
        (&self.points, &self.placed)
    }
}

impl DrivenHost {
    /// Puts the packaged files of these points into a new directory below `dir`, for all hosts. Returns its name. One that
    /// was made before is removed.
    ///
    /// # Errors
    ///
    /// If there is no room, or they cannot be made.
    pub fn package(&mut self, dir: &Path, points: &[Point]) -> Result<String, StepError> {
        self.package = None;
        let files = self.files(points)?;
        check::room_for(Disk::Named(dir), files.of(), 1)?;
        check::room_for(Disk::Base(&self.dir), files.of(), 1)?;
        let name = format!("package-{}", self.sessions);
        self.sessions += 1;
        let master = self.packaged(&name, &files)?;
        let work = WorkDir::shared(dir).map_err(LabError::from)?;
        work.package(&master).map_err(LabError::from)?;
        // Otherwise it goes with the directory of this host.
        let _ = fs::remove_dir_all(&master);
        let name = work.named().file_name();
        let name = name.map(|name| name.to_string_lossy().into_owned());
        self.package = Some(work);
        Ok(name.unwrap_or_default())
    }

    /// Whether the package with this name, which another host has made, is seen in `dir`. Waits a while for it.
    ///
    /// # Errors
    ///
    /// If nothing can be made in `dir`.
    pub fn sees_package(dir: &Path, name: &str) -> Result<bool, StepError> {
        let seen = WorkDir::is_seen(dir, name).map_err(LabError::from)?;
        Ok(seen)
    }

    /// Checks that the files of all hosts that share a layer's directory have room in it, and the master copy of the
    /// packaged files in this host's own, unless it is there already.
    pub(super) fn has_room(
        &self,
        spec: &Spec,
        files: &PointFiles,
        sharing: u32,
        has_master: bool,
    ) -> Result<(), StepError> {
        let masters = u64::from(!has_master);
        let storage = self.catalog.describe(spec).map(|info| info.storage);
        match storage {
            Some(Storage::Directory(dir)) => {
                check::room_for(Disk::Named(&dir), files.of(), sharing.into())?;
                check::room_for(Disk::Base(&self.dir), files.of(), masters)?;
            }
            _ => check::room_for(Disk::Base(&self.dir), files.of(), 1 + masters)?,
        }
        Ok(())
    }

    /// The files of these points.
    pub(super) fn files(&self, points: &[Point]) -> Result<PointFiles, StepError> {
        let points = points.iter().map(|at| self.read(at));
        let points: Vec<Point> = points.collect::<Result<_, _>>()?;
        let placed = check::placed(&points, &Environment::new(), self.catalog)?;
        Ok(PointFiles { points, placed })
    }

    /// Makes a master copy of packaged files.
    pub(super) fn packaged(&self, name: &str, files: &PointFiles) -> Result<PathBuf, StepError> {
        let master = self.work.path().join(name);
        let go_on = || !self.stop.at_once();
        let wrote = fs::create_dir(&master).and_then(|()| {
            packaged::write(&master, &check::packaged(&files.points), random(), &go_on)?;
            packaged::place(&master, &files.placed, &go_on)
        });
        wrote.map_err(|source| {
            let dir = master.clone();
            LabError::Packaged { dir, source }
        })?;
        Ok(master)
    }

    /// A point with what it needs, which does not travel with it.
    pub(super) fn read(&self, point: &Point) -> Result<Point, LabError> {
        let workload = self.catalog.workload(&point.workload)?;
        Ok(workload.read(point, Purpose::Run)?)
    }
}
