//! Files that are closed, and a clean unmount at once: what a layer still had to store has to be there afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
};

use layermark_layers::{Content, Undo, in_words, volatile::PowerCutBase};
use layermark_model::{
    protocol::{FromProbe, ToProbe},
    witness::{Acknowledged, ClosedFiles, Survey},
};
use layermark_probe::witness::{self, CLOSE, Site};

use super::{Cutter, RECORD};
use crate::execute::{layer_failure::LayerFailure, session};

/// What was closed in a layer, and where its files are.
struct Closed {
    log: Vec<Acknowledged>,
    run: u64,
    /// Where the layer shows them, from the directory that it stands below.
    inside: PathBuf,
    /// A directory with the same files, behind the layer.
    behind: Option<PathBuf>,
}

impl Cutter<'_> {
    /// Writes and closes files in the layer, unmounts it, and looks for them. `None` where nothing is unmounted: a
    /// guest is killed, a container has its files on this host, and what controls do is known.
    pub(super) fn closed(&self, disk: &PowerCutBase) -> Option<ClosedFiles> {
        let unmounted = !matches!(self.layer.spec.layer.as_str(), "vm" | "container");
        if !unmounted || self.layer.control.is_some() && !self.layer.named {
            return None;
        }
        let mut undo = Undo::new();
        let closed = self.close(disk, &mut undo);
        undo.run();
        let looked = closed.and_then(|closed| {
            let mut undo = Undo::new();
            let looked = self.look_for(disk, &closed, &mut undo);
            undo.run();
            looked
        });
        Some(looked.unwrap_or_else(|why| ClosedFiles {
            why: Some(why.reason),
            ..ClosedFiles::default()
        }))
    }

    fn close(&self, disk: &PowerCutBase, undo: &mut Undo) -> Result<Closed, LayerFailure> {
        let ground = self.ground(disk.dir(), undo)?;
        let base = self.base(ground.join("closed"), Content::Left);
        fs::create_dir(&base.dir)
            .map_err(|e| LayerFailure::new(format!("{}: {e}", base.dir.display())))?;
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) = session::start(place.start(), self.request.silence, self.stop)?;
        let job = self.job(CLOSE, 0, &place.dir().join("witness"));
        let (run, inside) = (job.run, PathBuf::from(&job.dir));
        let served = inside.strip_prefix(&ground);
        let served = served.ok().filter(|_| !self.layer.server.is_empty());
        let served = served.map(|inner| disk.dir().join("served").join(inner));
        let other = place.other_side().map(|dir| dir.join("witness/close"));
        let failed = |message: &str| LayerFailure::new(in_words(message));
        match self.ask(&mut probe, &ToProbe::Witness(job))? {
            FromProbe::Error { message, .. } => return Err(failed(&message)),
            FromProbe::Prepared { .. } => {}
            _ => return Err(failed("the probe said something out of turn")),
        }
        let mut log = Vec::new();
        for _ in 0..self.request.records {
            match self.ask(&mut probe, &ToProbe::Write { id: 0 })? {
                FromProbe::Acknowledged { stamp, .. } => log.push(Acknowledged {
                    sequence: stamp.sequence,
                    block: stamp.block,
                    generation: stamp.generation,
                    ns: 0,
                }),
                FromProbe::Error { message, .. } => return Err(failed(&message)),
                _ => return Err(failed("the probe said something out of turn")),
            }
        }
        probe.end();
        Ok(Closed {
            log,
            run,
            inside,
            behind: served.or(other),
        })
    }

    /// Looks through the layer, mounted again, and behind it, where its files have the same names.
    fn look_for(
        &self,
        disk: &PowerCutBase,
        closed: &Closed,
        undo: &mut Undo,
    ) -> Result<ClosedFiles, LayerFailure> {
        if let Some(dir) = closed.behind.as_ref().filter(|dir| dir.is_dir()) {
            let site = Site {
                dir: dir.clone(),
                run: closed.run,
                record: RECORD as usize,
            };
            let survey = witness::look(CLOSE, &site).map_err(|e| LayerFailure::new(e.message))?;
            return Ok(found(closed, &survey, "behind the layer"));
        }
        let ground = self.ground(disk.dir(), undo)?;
        let base = self.base(ground.join("closed"), Content::Survived);
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) = session::start(place.start(), self.request.silence, self.stop)?;
        let parent = closed.inside.parent().unwrap_or(Path::new("/"));
        let survey = match self.ask(&mut probe, &ToProbe::Look(self.job(CLOSE, 0, parent)))? {
            FromProbe::Surveyed { survey, .. } => survey,
            FromProbe::Error { message, .. } => return Err(LayerFailure::new(message)),
            _ => return Err(LayerFailure::new("the probe said something out of turn")),
        };
        probe.end();
        drop(probe);
        drop(place);
        Ok(found(closed, &survey, "in the layer, mounted again"))
    }
}

fn found(closed: &Closed, survey: &Survey, place: &str) -> ClosedFiles {
    let checked = witness::judge(CLOSE, closed.run, &closed.log, survey);
    ClosedFiles {
        files: closed.log.len() as u64,
        lost: Some(checked.missing.len() as u64),
        why: checked
            .first()
            .map(|first| format!("{place}, {}", first.text)),
    }
}
