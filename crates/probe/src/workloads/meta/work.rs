//! Files made ready, the passes, and what is owed after them.

use std::{
    ffi::{CString, OsStr},
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use layermark_model::{Debt, DeviceBytes, Pass, Trial};

use super::{
    PER_DIRECTORY, name, ops, packaged_root,
    params::{Cache, MetaParams, Op, Sync},
};
use crate::{
    Beat, Context, ProbeError, Work,
    buffer::Buffer,
    clock::{Source, monotonic_ns},
    counters,
    data::{self, Pattern},
    drive::{self, Done, Stopped},
    limits::{BEAT_NS, PASSES},
    permutation::Permutation,
    recorder::Recorder,
    selftest, usage,
    workloads::work_dir::WorkDir,
};

/// Data that small writes go through before it repeats, bytes.
const POOL: u64 = 1 << 20;

/// A point made ready.
pub struct MetaWork {
    p: MetaParams,
    context: Context,
    clock: Option<Source>,
    paths: Vec<CString>,
    buffer: Buffer,
    recorder: Recorder,
    /// When the last clock stopped, and the devices' counters then.
    stopped: (u64, Option<DeviceBytes>),
    dir: PathBuf,
    work: Option<WorkDir>,
}

pub fn prepare(dir: &Path, p: MetaParams, context: &Context) -> Result<MetaWork, ProbeError> {
    let work = if p.op.writes() {
        Some(WorkDir::new(dir)?)
    } else {
        None
    };
    let root = work.as_ref().map_or_else(
        || dir.join("packaged").join(packaged_root(&p)),
        |w| w.path().to_owned(),
    );
    // Neighbours in a directory are also neighbours on disk, and reading them in order would
    // measure the read-ahead: each file once, in random order.
    let order = Permutation::new(p.files, data::derive(context.seed, "meta order"));
    let mut paths = Vec::with_capacity(p.files as usize);
    for i in 0..p.files {
        let path = root.join(name(order.at(i)));
        paths.push(ops::path(&path).map_err(|e| ProbeError::io("use", &path, &e))?);
    }
    let size = p.file_size.max(1);
    let pool = if p.op == Op::SmallWrite {
        size * POOL.div_ceil(size)
    } else {
        size
    };
    let mut buffer = Buffer::new(pool as usize);
    if p.op == Op::SmallWrite {
        Pattern::Random.fill(
            buffer.bytes_mut(),
            pool as usize,
            data::derive(context.seed, "meta data"),
        );
    }
    let clock = p.latency.then(selftest::source);
    let (context, dir) = (context.clone(), dir.to_owned());
    let mut made = MetaWork {
        p,
        context,
        clock,
        paths,
        buffer,
        recorder: Recorder::new(),
        stopped: (0, None),
        dir,
        work,
    };
    made.first_state()?;
    Ok(made)
}

impl MetaWork {
    /// What is there before the first pass.
    fn first_state(&mut self) -> Result<(), ProbeError> {
        if self.p.op.writes() {
            self.renew()?;
            // What others left unwritten must not be counted as this point's debt.
            return if self.p.op == Op::Unlink {
                Ok(()) // synced just now
            } else {
                self.sync_all()
            };
        }
        // A missing file is found here and not inside the clock. A cold point's cache is emptied
        // after this.
        for path in &self.paths {
            let path = Path::new(OsStr::from_bytes(path.as_bytes()));
            let found = fs::metadata(path).map_err(|e| {
                ProbeError::io("find the packaged file", path, &e)
                    .hint("the layer was set up without the files of this point")
            })?;
            if found.len() != self.p.file_size {
                return Err(ProbeError::new(format!(
                    "{} has {} bytes instead of {}: the layer does not show the packaged file",
                    path.display(),
                    found.len(),
                    self.p.file_size
                )));
            }
        }
        if self.p.cache == Cache::Warm {
            self.drive(&mut |_| {}).map_err(|s| self.failed(&s))?;
            self.recorder.clear();
        } else {
            for path in &self.paths {
                if let Ok(file) = File::open(Path::new(OsStr::from_bytes(path.as_bytes()))) {
                    crate::workloads::file::evict(&file);
                }
            }
        }
        Ok(())
    }

    fn sync_all(&self) -> Result<(), ProbeError> {
        self.context.sync(&self.dir)
    }

    /// The state that a pass starts from, outside the clock: no files for create and
    /// small-write, all of them for unlink, and on the disk: a file that was never written back
    /// has no blocks to give up and is far cheaper to remove.
    fn renew(&mut self) -> Result<(), ProbeError> {
        let Some(work) = &self.work else {
            return Ok(());
        };
        let root = work.path();
        let renew = || -> io::Result<()> {
            for d in 0..self.p.files.div_ceil(PER_DIRECTORY) {
                let dir = root.join(format!("d{d}"));
                if dir.exists() {
                    fs::remove_dir_all(&dir)?;
                }
                fs::create_dir(&dir)?;
            }
            if self.p.op == Op::Unlink {
                let data = vec![0x5a; self.p.file_size as usize];
                for i in 0..self.p.files {
                    fs::write(root.join(name(i)), &data)?;
                }
            }
            Ok(())
        };
        renew().map_err(|e| ProbeError::io("make the files in", root, &e))?;
        if self.p.op == Op::Unlink {
            self.sync_all()?;
        }
        Ok(())
    }

    fn more(&self, trial: &Trial) -> bool {
        let done = trial.passes.len() as u64;
        if self.p.cache == Cache::Cold {
            return done == 0;
        }
        if self.p.passes > 0 {
            return done < self.p.passes;
        }
        let short = u128::from(trial.elapsed_ns()) < self.context.min.as_nanos();
        done == 0 || (done < PASSES && (short || trial.ops() < self.context.min_ops))
    }

    fn drive(&mut self, beat: &mut dyn FnMut(u64)) -> Result<Done, Stopped> {
        let (paths, recorder, clock, n) =
            (&self.paths, &mut self.recorder, self.clock, self.p.files);
        let size = self.p.file_size as usize;
        match self.p.op {
            Op::OpenStat => drive::drive(clock, n, recorder, beat, &mut ops::OpenStat(paths)),
            Op::SmallRead => {
                let buffer = &mut self.buffer.bytes_mut()[..size];
                drive::drive(
                    clock,
                    n,
                    recorder,
                    beat,
                    &mut ops::SmallRead { paths, buffer },
                )
            }
            Op::SmallWrite | Op::Create => {
                let size = if self.p.op == Op::Create { 0 } else { size };
                let mut step = ops::SmallWrite {
                    paths,
                    pool: self.buffer.bytes(),
                    size,
                    sync: self.p.sync,
                };
                drive::drive(clock, n, recorder, beat, &mut step)
            }
            Op::Unlink => drive::drive(clock, n, recorder, beat, &mut ops::Unlink(paths)),
        }
    }

    fn pass(&mut self, trial: &mut Trial, beat: &mut Beat<'_>) -> Result<(), ProbeError> {
        let moved = if matches!(self.p.op, Op::SmallRead | Op::SmallWrite) {
            self.p.file_size
        } else {
            0
        };
        let (ops, bytes) = (trial.ops(), trial.bytes());
        let devices = counters::sum(&self.context.devices);
        let cpu = usage::now();
        let done = self
            .drive(&mut |n| beat(ops + n, bytes + n * moved))
            .map_err(|s| self.failed(&s))?;
        let end_ns = monotonic_ns();
        usage::add_since(&mut trial.cpu, cpu);
        self.stopped = (end_ns, counters::sum(&self.context.devices));
        if let (Some(before), Some(after)) = (devices, self.stopped.1) {
            let crossed = counters::between(before, after);
            let sum = trial.device.get_or_insert_default();
            sum.read += crossed.read;
            sum.written += crossed.written;
            sum.flushes += crossed.flushes;
        }
        let elapsed_ns = (end_ns - done.start_ns)
            .saturating_sub(done.paused_ns)
            .max(1);
        trial.passes.push(Pass {
            elapsed_ns,
            ops: self.p.files,
            bytes: self.p.files * moved,
        });
        if self.p.sync == Sync::Fsync {
            trial.syncs += self.p.files;
        }
        Ok(())
    }

    fn failed(&self, stopped: &Stopped) -> ProbeError {
        let path = self
            .paths
            .get(stopped.at as usize)
            .map(|p| p.to_string_lossy().into_owned())
            .unwrap_or_default();
        ProbeError::io(self.p.op.id(), Path::new(&path), &stopped.error)
    }
}

impl Work for MetaWork {
    fn run(&mut self, beat: &mut Beat<'_>) -> Result<Trial, ProbeError> {
        let mut trial = Trial::default();
        let mut last_beat = monotonic_ns();
        while self.more(&trial) {
            if !trial.passes.is_empty() {
                self.renew()?;
            }
            self.pass(&mut trial, beat)?;
            if monotonic_ns() - last_beat >= BEAT_NS {
                beat(trial.ops(), trial.bytes());
                last_beat = monotonic_ns();
            }
        }
        Ok(trial)
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        if self.p.op.writes() && self.p.sync == Sync::None {
            self.sync_all()?;
            let (stopped_ns, before) = self.stopped;
            let seconds = (monotonic_ns() - stopped_ns) as f64 / 1e9;
            let bytes = counters::written(before, counters::sum(&self.context.devices));
            trial.debt = Some(Debt { bytes, seconds });
        }
        // Encoding it takes a while, which is no debt.
        trial.latency = self.recorder.latency();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Workload, resident, workloads::meta::Meta};
    use std::time::Duration;

    #[test]
    fn every_pass_removes_files_that_are_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let settings = layermark_model::Settings {
            workload: "meta".into(),
            label: None,
            params: serde_json::from_str(r#"{"op": "unlink", "files": 5}"#).unwrap(),
        };
        let point = Meta.points(&settings, 1.0).unwrap().remove(0);
        let context = Context {
            seed: 1,
            min: Duration::ZERO,
            min_ops: 1,
            devices: Vec::new(),
            below: Vec::new(),
            env: layermark_model::Environment::new(),
        };
        let mut work = prepare(dir.path(), point.typed().unwrap(), &context).unwrap();
        for pass in 1..=3 {
            let file = File::open(dir.path().join("work/d0/f4")).unwrap();
            match resident::unwritten(&file) {
                Some(pages) => assert_eq!(pages, 0, "before pass {pass}"),
                None => return eprintln!("skipped: cachestat(2) needs Linux 6.5"),
            }
            drop(file);
            work.pass(&mut Trial::default(), &mut |_, _| {}).unwrap();
            work.renew().unwrap();
        }
    }
}
