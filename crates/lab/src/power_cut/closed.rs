//! Files that are closed, and a clean unmount at once: what a layer still had to store has to be there afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
};

use layermark_layers::{Content, End, Undo, in_words, volatile::PowerCutBase};
use layermark_model::{
    protocol::{FromProbe, ToProbe},
    witness::{Acknowledged, Checked, ClosedFiles, Survey},
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

impl Closed {
    fn checked(&self, survey: &Survey) -> Checked {
        witness::judge(CLOSE, self.run, &self.log, survey)
    }
}

impl Cutter<'_> {
    /// Writes and closes files in a layer that is unmounted when it ends, and looks for them. `None` for controls: what
    /// they do is known.
    pub(super) fn closed(&self, disk: &PowerCutBase) -> Option<ClosedFiles> {
        if self.layer.control.is_some() && !self.layer.named {
            return None;
        }
        let mut undo = Undo::patient();
        let (dir, at) = (disk.dir(), self.server());
        let closed = self.on_ground(&dir, &at, &mut undo, |ground, undo| {
            self.close(disk, ground, undo)
        });
        let looked = closed.and_then(|closed| {
            // What it still had to store was lost by the kill.
            if let Some(program) = undo.killed() {
                let why = "did not end in time after the unmount, and was killed";
                return Err(LayerFailure::new(format!("{program} {why}")));
            }
            self.look_for(disk, &closed)
        });
        Some(looked.unwrap_or_else(|why| ClosedFiles {
            why: Some(why.reason),
            ..ClosedFiles::default()
        }))
    }

    fn close(
        &self,
        disk: &PowerCutBase,
        ground: &Path,
        undo: &mut Undo,
    ) -> Result<Closed, LayerFailure> {
        let base = self.base(ground.join("closed"), Content::Left);
        fs::create_dir(&base.dir)
            .map_err(|e| LayerFailure::new(format!("{}: {e}", base.dir.display())))?;
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) =
            session::start(place.start(End::Far), self.request.silence, self.stop)?;
        let job = self.job(CLOSE, 0, &place.info().dir.join("witness"));
        let (run, inside) = (job.run, PathBuf::from(&job.dir));
        let served = inside.strip_prefix(ground);
        let served = served.ok().filter(|_| !self.layer.server.is_empty());
        let served = served.map(|inner| disk.dir().join("served").join(inner));
        let other = place
            .info()
            .other_side
            .as_ref()
            .map(|dir| dir.join("witness/close"));
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

    /// Looks behind the layer, where its files may have the same names, and if they are not all there, through the
    /// layer, mounted again: it may have stored them elsewhere, or in its own form.
    fn look_for(&self, disk: &PowerCutBase, closed: &Closed) -> Result<ClosedFiles, LayerFailure> {
        let behind = closed.behind.as_ref().filter(|dir| dir.is_dir());
        let behind = behind.and_then(|dir| {
            let site = Site {
                dir: dir.clone(),
                run: closed.run,
                record: RECORD as usize,
            };
            // What cannot be read there, the layer may still show.
            let survey = witness::look(CLOSE, &site).ok()?;
            Some(closed.checked(&survey))
        });
        if let Some(all) = behind.as_ref().filter(|b| b.missing.is_empty()) {
            return Ok(found(all, None));
        }
        let (dir, at) = (disk.dir(), self.server());
        let shown = self.on_ground(&dir, &at, &mut Undo::new(), |ground, undo| {
            self.look_again(ground, closed, undo)
        })?;
        Ok(found(&shown, behind.as_ref()))
    }

    /// Looks through the layer, mounted again.
    fn look_again(
        &self,
        ground: &Path,
        closed: &Closed,
        undo: &mut Undo,
    ) -> Result<Checked, LayerFailure> {
        let base = self.base(ground.join("closed"), Content::Survived);
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) =
            session::start(place.start(End::Far), self.request.silence, self.stop)?;
        let parent = closed.inside.parent().unwrap_or(Path::new("/"));
        let survey = match self.ask(&mut probe, &ToProbe::Look(self.job(CLOSE, 0, parent)))? {
            FromProbe::Surveyed { survey, .. } => survey,
            FromProbe::Error { message, .. } => return Err(LayerFailure::new(message)),
            _ => return Err(LayerFailure::new("the probe said something out of turn")),
        };
        probe.end();
        Ok(closed.checked(&survey))
    }
}

/// Lost is what the layer does not show when it is mounted again, and what is not there behind it either.
fn found(checked: &Checked, behind: Option<&Checked>) -> ClosedFiles {
    let is_lost = |sequence: u64| {
        checked.missing.contains(&sequence)
            && behind.is_none_or(|behind| behind.missing.contains(&sequence))
    };
    let lost = checked.missing.iter().filter(|n| is_lost(**n)).count();
    let broken = checked.broken().filter(|f| is_lost(f.sequence));
    let first = broken.min_by_key(|f| f.sequence);
    ClosedFiles {
        files: checked.acknowledged,
        lost: Some(lost as u64),
        why: first.map(|first| format!("in the layer, mounted again, {}", first.text)),
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::{Content as Held, Found};

    use super::*;

    const RUN: u64 = 7;

    /// Three files were closed, and these are there.
    fn there(blocks: &[u64]) -> Checked {
        let stamps = (1..=3).map(|sequence| witness::stamp(CLOSE, RUN, sequence));
        let log = stamps.map(|stamp| Acknowledged {
            sequence: stamp.sequence,
            block: stamp.block,
            generation: stamp.generation,
            ns: 0,
        });
        let closed = Closed {
            log: log.collect(),
            run: RUN,
            inside: PathBuf::new(),
            behind: None,
        };
        let found = blocks.iter().map(|block| Found {
            block: *block,
            content: Held::Whole(witness::stamp(CLOSE, RUN, block + 1)),
        });
        closed.checked(&Survey {
            found: found.collect(),
            ..Survey::default()
        })
    }

    /// rclone has them in its own directory until they are uploaded: behind it they were "lost".
    #[test]
    fn lost_is_only_what_the_layer_does_not_show_either() {
        let all = found(&there(&[0, 1, 2]), None);
        assert_eq!((all.files, all.lost, all.why), (3, Some(0), None));
        let absent = "in the layer, mounted again, its name is absent";
        let some = found(&there(&[0]), None);
        assert_eq!((some.files, some.lost), (3, Some(2)));
        assert_eq!(some.why.as_deref(), Some(absent));
        let shown = found(&there(&[0, 1, 2]), Some(&there(&[])));
        assert_eq!((shown.lost, shown.why), (Some(0), None));
        let nowhere = found(&there(&[0]), Some(&there(&[1])));
        assert_eq!(nowhere.lost, Some(1));
        assert_eq!(nowhere.why.as_deref(), Some(absent));
    }
}
