//! Power cuts: a layer stands on a disk of ours whose unflushed writes a cut loses. Writers write and sync
//! records in it. After each cut it is set up again on what survived, and every record is looked for.
//!
//! The disk logs what completes, so one stretch of writing is cut at many moments. The log of acknowledged
//! records is kept here, outside the layer. A record is requested only after the one before it was
//! acknowledged and the disk's log was marked, so at each moment at most one is under way.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use layermark_layers::{
    Base, Content, Layer, PowerCut, Undo,
    volatile::{DiskOptions, Lie, PowerCutBase},
    workdir::WorkDir,
};
use layermark_model::{
    Spec,
    protocol::{FromProbe, ToProbe},
    witness::{
        CutProgram, NOT_BEGUN, ProgramCut, SequenceCut, WitnessControl, WitnessTrial,
        sequence::Sequence,
    },
};

use stand::{CutDisk, Stand};

pub use sequences::planned;

use crate::{
    Catalog, LabError, Stop, check,
    execute::{layer_failure::LayerFailure, probe_client::ProbeClient},
};

mod after_cut;
mod closed;
mod ground;
mod program;
mod sequences;
mod stack;
mod stand;
mod states;
mod writers;

/// Size of the disk, bytes; it is sparse.
const DISK: u64 = 512 << 20;
/// The same for layers that need a large one.
const LARGE_DISK: u64 = 2 << 30;
/// Bytes of a record.
const RECORD: u64 = 4096;

/// What to do with every layer.
#[derive(Debug, Clone)]
pub struct PowerCuts {
    /// Where to work; a fresh directory is made below it.
    pub dir: PathBuf,
    /// The layermark binary, which layers start as `EXE probe`.
    pub exe: PathBuf,
    /// How long a probe may be silent before it is given up.
    pub silence: Duration,
    /// Power cuts of each layer.
    pub cuts: u32,
    /// Records of each writer before them.
    pub records: u64,
    /// Draws the moments, and which unflushed writes survive.
    pub seed: u64,
    /// Programs that are cut as well, each alone.
    pub programs: Vec<CutProgram>,
    /// Sequences of operations, each of which is cut in a directory of its own.
    pub sequences: Vec<Sequence>,
}

/// What power cuts did.
#[derive(Debug, Clone, Default)]
pub struct Cuts {
    /// A trial for each writer in each layer; of a layer that cannot be cut one that says why.
    pub writers: Vec<WitnessTrial>,
    /// The same for each program.
    pub programs: Vec<ProgramCut>,
    /// All sequences of each layer.
    pub sequences: Vec<SequenceCut>,
}

impl Cuts {
    /// Nobody looked after any cut, or tried to.
    fn is_empty(&self) -> bool {
        let writers = self.writers.iter();
        let writers = writers.map(|c| c.cuts + c.unseen.count());
        let programs = self.programs.iter();
        let programs = programs.map(|c| c.cuts + c.unseen.count() + c.unchecked);
        let sequences = self.sequences.iter();
        let sequences = sequences.map(|c| c.cuts + c.unseen.count());
        writers.chain(programs).chain(sequences).sum::<u64>() == 0
    }
}

/// Tells the user what is done.
pub type Tell = dyn Fn(String) + Sync;

/// A layer to cut.
#[derive(Debug, Clone)]
pub struct CutLayer {
    /// The layer.
    pub spec: Spec,
    /// Its name in the report.
    pub name: String,
    /// It is known to lie, or to be honest.
    pub control: Option<WitnessControl>,
    /// The user named it, so it is not only there as a control.
    pub named: bool,
    /// What is wrong below it.
    pub lie: Option<Lie>,
    /// A file system in user space between it and the disk: the command without the directory that it
    /// serves and the mount point. Empty: none.
    pub server: Vec<String>,
}

impl CutLayer {
    /// A layer that nothing is known of.
    pub fn new(spec: Spec) -> Self {
        Self {
            name: spec.to_string(),
            spec,
            control: None,
            named: false,
            lie: None,
            server: Vec::new(),
        }
    }

    /// A directory in a file system that the user's command serves.
    pub fn served(command: &[String]) -> Self {
        Self {
            name: command.join(" "),
            server: command.to_vec(),
            ..Self::new(Spec::bare("native"))
        }
    }
}

/// Cuts the power of each layer, and hands on what that did before the next layer is set up. Of each layer that the run
/// ended before, it hands on that it was not begun.
pub fn power_cuts(
    request: &PowerCuts,
    layers: &[CutLayer],
    stop: &Stop,
    tell: &Tell,
    keep: &mut dyn FnMut(Cuts) -> Result<(), LabError>,
) -> Result<(), LabError> {
    // Left out where a disk of ours cannot be made at all.
    let missing = PowerCutBase::missing();
    let is_begun = missing.is_empty() && !stop.is_ending();
    let work = if is_begun {
        Some(WorkDir::create(&check::dir(&request.dir)?)?)
    } else {
        None
    };
    for (number, layer) in layers.iter().enumerate() {
        let home = work
            .as_ref()
            .map(|work| work.path().join(format!("disk-{number}")));
        let cutter = Cutter {
            request,
            layer,
            home: home.as_deref().unwrap_or(Path::new("")),
            stop,
            tell,
            silent: OnceLock::new(),
        };
        if stop.is_ending() {
            keep(cutter.not_begun())?;
            continue;
        }
        let Some(home) = &home else {
            let lacks: Vec<&str> = missing.iter().map(|m| m.what.as_str()).collect();
            let why = format!("the disk for power cuts lacks {}", lacks.join(", "));
            keep(cutter.uncut(&why))?;
            continue;
        };
        tell(format!("{}: power cuts", layer.name));
        let cuts = match cutter.go() {
            // It wrote, and the run ended before the first cut.
            Ok(cuts) if stop.is_ending() && cuts.is_empty() => cutter.not_begun(),
            Ok(cuts) => cuts,
            Err(_) if stop.at_once() => cutter.not_begun(),
            Err(lost) => {
                if let Some(hint) = &lost.hint {
                    tell(format!("warning: {}: {}", layer.name, lost.reason));
                    tell(format!("hint: {hint}"));
                }
                cutter.uncut(&lost.reason)
            }
        };
        let kept = keep(cuts);
        // Some hundred MiB; the work directory removes what cannot be removed now.
        let _ = fs::remove_dir_all(home);
        kept?;
    }
    Ok(())
}

/// A layer being cut.
struct Cutter<'a> {
    request: &'a PowerCuts,
    layer: &'a CutLayer,
    /// Directory of the disk.
    home: &'a Path,
    stop: &'a Stop,
    tell: &'a Tell,
    /// The user's file system did not answer once: it is not asked again.
    silent: OnceLock<LayerFailure>,
}

impl Cutter<'_> {
    /// Why nothing was cut, as a result.
    fn uncut(&self, why: &str) -> Cuts {
        let trial = WitnessTrial {
            layer: self.layer.name.clone(),
            control: self.layer.control,
            named: self.layer.named,
            uncut: Some(why.into()),
            ..WitnessTrial::default()
        };
        // Where writers are not asked for, they were cut before.
        let writers = (self.request.records > 0).then_some(trial);
        Cuts {
            writers: writers.into_iter().collect(),
            programs: self.uncut_programs(why),
            sequences: self.uncut_sequences(why).into_iter().collect(),
        }
    }

    /// The run ended before this layer.
    fn not_begun(&self) -> Cuts {
        let mut cuts = self.uncut(NOT_BEGUN);
        let writers = cuts.writers.iter_mut().map(|c| &mut c.unseen);
        let programs = cuts.programs.iter_mut().map(|c| &mut c.unseen);
        let sequences = cuts.sequences.iter_mut().map(|c| &mut c.unseen);
        for unseen in writers.chain(programs).chain(sequences) {
            unseen.not_begun = true;
        }
        cuts
    }

    /// Cuts the layer, and makes what its sequences lost smaller.
    fn go(&self) -> Result<Cuts, LayerFailure> {
        let mut cuts = self.once()?;
        for cut in &mut cuts.sequences {
            self.shrink(cut);
        }
        Ok(cuts)
    }

    fn once(&self) -> Result<Cuts, LayerFailure> {
        let layer = self.kind()?;
        let (large_disk, unmounted, alone) = match layer.describe(&self.layer.spec)?.power_cut {
            PowerCut::No(why) => return Err(LayerFailure::new(format!("cannot be cut: {why}"))),
            PowerCut::Yes {
                large_disk,
                unmounted,
                alone,
            } => (large_disk, unmounted, alone),
        };
        if let Some(missing) = layer.missing(&self.layer.spec).first() {
            return Err(LayerFailure::new(format!("it lacks {}", missing.what)));
        }
        let io = |e: std::io::Error| LayerFailure::new(format!("{}: {e}", self.home.display()));
        fs::create_dir_all(self.home.join("packaged")).map_err(io)?;
        let disk_home = self.home.join("disk");
        fs::create_dir(&disk_home).map_err(io)?;
        let mut undo = Undo::new();
        let options = DiskOptions {
            size: if large_disk { LARGE_DISK } else { DISK },
            lie: self.layer.lie,
        };
        let mut disk = PowerCutBase::create(&disk_home, &self.request.exe, options, &mut undo)?;
        let is_asked = unmounted && self.request.records > 0;
        let closed = is_asked.then(|| self.closed(&disk)).flatten();
        let mut written = self.write(&mut disk)?;
        let programs = std::mem::take(&mut written.programs);
        // A server of the user's may have one cache, socket or port for all of its mounts.
        let alone = alone || !self.layer.server.is_empty();
        let cut_disk = CutDisk::new(&disk, disk.history()?, self.home, alone);
        let mut writers = self.cut(&cut_disk, &written);
        if let Some(first) = writers.first_mut() {
            first.closed = closed;
        }
        let programs = self.cut_programs(&cut_disk, programs);
        let sequences = written.sequences.take();
        if let Some(runs) = sequences.as_ref().filter(|runs| !runs.is_empty()) {
            (self.tell)(format!("{}: {runs}", self.layer.name));
        }
        let sequences = sequences.map(|runs| self.cut_sequences(&cut_disk, runs));
        drop(disk);
        undo.run();
        Ok(Cuts {
            writers,
            programs,
            sequences: sequences.into_iter().collect(),
        })
    }

    fn base(&self, dir: PathBuf, content: Content) -> Base {
        Base {
            dir,
            packaged: self.home.join("packaged"),
            exe: self.request.exe.clone(),
            silence: self.request.silence,
            until: None,
            content,
        }
    }

    fn kind(&self) -> Result<&'static dyn Layer, LayerFailure> {
        let kind = Catalog::default().layer(&self.layer.spec.layer);
        kind.ok_or_else(|| LayerFailure::new("no such layer"))
    }

    fn ask(&self, probe: &mut ProbeClient, message: &ToProbe) -> Result<FromProbe, LayerFailure> {
        let broken = |probe: &ProbeClient, e: crate::execute::probe_client::Broken| {
            LayerFailure::new(format!("{e}{}", probe.last_words()))
        };
        if let Err(e) = probe.send(message) {
            return Err(broken(probe, e));
        }
        probe.receive(self.stop, None).map_err(|e| broken(probe, e))
    }
}

/// Makes what is on the disk durable.
fn flush_all(disk: &PowerCutBase) -> Result<(), LayerFailure> {
    let flushed = File::open(disk.dir()).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    flushed.map_err(|e| LayerFailure::new(format!("{}: {e}", disk.dir().display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The run ended while the writers wrote: their rows said that nothing was lost in 0 cuts, and no later run cut them.
    #[test]
    fn cuts_are_empty_until_one_was_tried() {
        let written = || WitnessTrial {
            records: 40,
            ..WitnessTrial::default()
        };
        let cuts = Cuts {
            writers: vec![written(), written()],
            programs: vec![ProgramCut::default()],
            sequences: vec![SequenceCut::default()],
        };
        assert!(cuts.is_empty());
        let mut unjudged = written();
        unjudged.unseen.add_unjudged("no memory".into());
        let tried = Cuts {
            writers: vec![written(), unjudged],
            ..cuts.clone()
        };
        assert!(!tried.is_empty());
        let tried = Cuts {
            programs: vec![ProgramCut {
                unchecked: 1,
                ..ProgramCut::default()
            }],
            ..cuts
        };
        assert!(!tried.is_empty());
    }
}
