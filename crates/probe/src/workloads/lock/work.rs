//! A trial: the file, the turns, and the proof that the locks are exclusive.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use layermark_model::{Defect, Trial, Verified};

use super::{
    contenders::{Contenders, Open, What},
    kind::LockOp,
    ops::counter,
    params::LockParams,
    sys,
};
use crate::{
    Context, ProbeError,
    counters::Devices,
    run::{Extent, Mark, Passes, Repeat, Stretch},
    workloads::work_dir::WorkDir,
};

/// How long the threads increment the number in the file, before the first turn and after the last.
const PROOF_NS: u64 = 20_000_000;

/// A prepared point.
pub struct LockWork {
    p: LockParams,
    context: Context,
    path: PathBuf,
    /// The expected number in the file.
    counted: u64,
    /// Declared before the directory, because they have the file open.
    contenders: Contenders,
    _work: WorkDir,
}

impl LockWork {
    /// Makes the file and starts the threads. Also checks, outside the clock, that the layer has
    /// such locks and that they are exclusive.
    pub fn prepare(dir: &Path, p: LockParams, context: &Context) -> Result<Self, ProbeError> {
        Self::with(dir, p, context, open)
    }

    /// Like [`Self::prepare`], with another way to open the file.
    pub(super) fn with(
        dir: &Path,
        p: LockParams,
        context: &Context,
        open: Open,
    ) -> Result<Self, ProbeError> {
        let work = WorkDir::new(dir)?;
        let path = work.path().join("locked");
        let made = std::fs::write(&path, 0u64.to_le_bytes());
        made.map_err(|e| ProbeError::io("make", &path, &e))?;
        let contenders = Contenders::start(&p, &path, Devices::open(&context.devices), open)?;
        let mut made = Self {
            p,
            context: context.clone(),
            path,
            counted: 0,
            contenders,
            _work: work,
        };
        made.prove()?;
        // Dirty data must not be written back in a turn.
        context.sync(dir)?;
        Ok(made)
    }

    /// Makes all threads increment the number in the file. It must then be the number of
    /// increments.
    fn prove(&mut self) -> Result<Verified, ProbeError> {
        let extent = Extent::time(PROOF_NS, false);
        let added = self.contenders.work((What::Count, extent), &mut |_| {});
        let added = added?.ops;
        self.counted += added;
        let found = File::open(&self.path).and_then(|file| counter(&file));
        let found = found.map_err(|e| ProbeError::io("read", &self.path, &e))?;
        if found == self.counted {
            return Ok(Verified {
                records: added,
                bad: 0,
            });
        }
        let (op, lost) = (self.p.op.id(), self.counted.abs_diff(found));
        let error = ProbeError::new(format!(
            "the layer breaks {op} locks: of {added} updates of a number, made under the lock by {} threads, \
             {lost} were lost in {}",
            self.p.threads,
            self.path.display()
        ));
        Err(error.shows(Defect::Breaks).hint(
            "programs that rely on these locks destroy each other's data here: try another `op`, or keep \
             such files elsewhere",
        ))
    }
}

/// Each contender opens the file itself.
fn open(op: LockOp, path: &Path) -> io::Result<File> {
    if let Err(e) = sys::own_descriptors()
        && op == LockOp::Fcntl
    {
        let text = format!("threads cannot own process locks each for itself: unshare: {e}");
        return Err(io::Error::new(e.kind(), text));
    }
    File::options().read(true).write(true).open(path)
}

impl Repeat for LockWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        Passes::default()
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let done = self.contenders.work((What::Lock, extent), beat)?;
        Ok(Stretch {
            over: extent.is_pass(),
            ..done
        })
    }

    /// Locks leave nothing to write.
    fn settle(&mut self, _: &mut Trial, _: Mark) -> Result<(), ProbeError> {
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        trial.latency = self.contenders.latency();
        trial.verified = Some(self.prove()?);
        Ok(())
    }
}
