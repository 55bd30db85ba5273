//! Prepares files and buffers before the clock starts.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use layermark_model::Verified;

use super::{
    fill,
    first_write::Replaced,
    job::FileJob,
    open::{advise, open, refused},
    params::{Cache, FileParams, Op},
    rates::Did,
    slot::ThreadSlot,
};
use crate::{
    Context, ProbeError,
    buffer::{TO_READ, TO_WRITE},
    counters::Devices,
    data, engines,
    error::shown,
    files::{evict, evict_synced},
    queue, resident,
    run::{recorder::Recorder, team::Team},
    selftest,
    workloads::work_dir::WorkDir,
};

/// Dirty bytes on the whole machine that are tolerated before a trial.
const FORGIVEN: u64 = 128 << 10;

/// A file is warmed with at most so many reads, unless each has [`WARM_READ_MAX`] bytes.
const WARM_READS: u64 = 2048;
/// Least bytes of such a read. The readahead makes larger pages of a file that is read in small pieces. Where many small ones
/// are in memory decides how fast they are read (docs/src/accuracy.md, "Tried and not taken").
const WARM_READ_MIN: u64 = 4 << 10;
/// Most bytes of one.
const WARM_READ_MAX: u64 = 1 << 20;

/// Observations of the trial so far, for the proofs after it.
#[derive(Default)]
pub struct TrialProofs {
    /// How evenly the threads progressed, pass by pass.
    pub threads: Vec<layermark_model::ThreadRates>,
    /// Time and bytes of each thread in all turns.
    pub each: Vec<Did>,
    /// Dirty bytes of the machine before the first pass.
    pub dirty: Option<u64>,
}

/// A prepared point.
pub struct FileWork {
    pub context: Context,
    pub job: FileJob,
    /// How many times a pass covers the files.
    pub rounds: u64,
    pub slots: Vec<ThreadSlot>,
    pub seen: TrialProofs,
    /// Present if there are several files.
    pub team: Option<Team<FileJob>>,
    /// The layer's directory.
    pub dir: PathBuf,
    /// Removed on drop; declared after `slots`, whose files are in it.
    _work: Option<WorkDir>,
}

pub fn prepare(dir: &Path, p: FileParams, context: &Context) -> Result<FileWork, ProbeError> {
    let engine = engines::find(&p.engine)
        .ok_or_else(|| ProbeError::new(format!("file: no engine `{}`", p.engine)))?;
    if engine.queues() {
        queue::available()?;
    }
    let touches = p.touches();
    let own = touches && p.op.writes() && !p.op.packaged();
    let dir = context.names_from(dir);
    let work = (own && !p.keep).then(|| WorkDir::new(dir)).transpose()?;
    let mut slots = Vec::new();
    for thread in 0..p.files_in_all() {
        let op = p.role(thread);
        let path = match &work {
            Some(work) if !op.packaged() => work.path().join(format!("file-{thread}")),
            None if own && !op.packaged() => dir.join(p.kept_name(thread)),
            _ => dir.join("packaged").join(p.packaged_name(thread)),
        };
        let seed = data::derive(context.seed, &format!("thread {thread}"));
        let len = buffer_len(&p, op) as usize;
        let buffer = if op.writes() {
            let mut buffer = TO_WRITE.buffer(context.seed, len);
            buffer.fill(p.pattern, p.record as usize, seed);
            buffer
        } else {
            TO_READ.buffer(context.seed, len)
        };
        slots.push(ThreadSlot {
            op,
            path,
            former: None,
            seed,
            buffer,
            recorder: if p.latency {
                Recorder::new()
            } else {
                Recorder::unused()
            },
            spare: Recorder::unused(),
            runner: engine.runner(),
            generation: 0,
            at: 0,
            file: None,
            replaced: None,
            checked: Verified::default(),
        });
    }
    if touches {
        for slot in &mut slots {
            prepare_file(&p, slot)?;
        }
    }
    let clock = p.latency.then(selftest::source);
    let leaves_debt = p.op.writes() && touches && !p.no_debt;
    let mut made = FileWork {
        job: FileJob::new(p, clock),
        rounds: 1,
        context: context.clone(),
        slots,
        seen: TrialProofs::default(),
        team: None,
        dir: dir.to_owned(),
        _work: work,
    };
    made.warm_up()?;
    if made.job.p.threads > 1 {
        let devices = Devices::open(&context.devices);
        let members = vec![made.job.clone(); made.slots.len()];
        made.team = Some(Team::start(members, devices, "threads")?);
    }
    if leaves_debt {
        // Dirty data of other programs must not count as this point's debt. Checking takes
        // microseconds; a flush without effect takes milliseconds.
        if crate::counters::dirty().is_none_or(|dirty| dirty > FORGIVEN) {
            context.sync(dir)?;
        }
    }
    Ok(made)
}

/// Readers use one record for each operation in flight, writers a pool of whole records.
fn buffer_len(p: &FileParams, op: Op) -> u64 {
    let unit = p.unit();
    let most = p.file_size / unit;
    if op.writes() {
        unit * (data::pool(unit) / unit).max(p.iodepth).min(most)
    } else {
        unit * p.iodepth.min(most)
    }
}

fn prepare_file(p: &FileParams, slot: &mut ThreadSlot) -> Result<(), ProbeError> {
    match slot.op {
        op if op.makes() => return Ok(()),
        op if op.packaged() => check_size(p, &slot.path)?,
        _ => fill::make_ready(p, slot).map_err(|e| ProbeError::io("write", &slot.path, &e))?,
    }
    drop_own_cache(p, slot)
}

fn check_size(p: &FileParams, path: &Path) -> Result<(), ProbeError> {
    let meta = std::fs::metadata(path).map_err(|e| {
        ProbeError::io("find the packaged file", path, &e)
            .hint("the layer was set up without the files of this point")
    })?;
    if meta.len() == p.file_size {
        return Ok(());
    }
    Err(ProbeError::new(format!(
        "{} has {} bytes instead of {}: the layer does not show the packaged file",
        shown(path),
        meta.len(),
        p.file_size
    )))
}

/// For a cold point, drops the pages that the program itself can drop from the cache. The lab drops
/// the rest between `ready` and the first turn.
fn drop_own_cache(p: &FileParams, slot: &ThreadSlot) -> Result<(), ProbeError> {
    if p.cache == Cache::Cold || p.direct {
        let path = &slot.path;
        let file = File::open(path).map_err(|e| ProbeError::io("open", path, &e))?;
        let evict = if slot.op.packaged() {
            evict_synced
        } else {
            evict
        };
        evict(&file).map_err(|e| ProbeError::io("sync", path, &e))?;
    }
    Ok(())
}

impl FileWork {
    /// Warms up before `ready`. Files of a cold point are not even opened.
    fn warm_up(&mut self) -> Result<(), ProbeError> {
        if self.job.p.cache == Cache::Cold {
            return Ok(());
        }
        if self.job.p.touches() && !self.job.p.op.makes() {
            for slot in &mut self.slots {
                let fail = |what: &str, e: &io::Error| ProbeError::io(what, &slot.path, e);
                let first = slot.op == Op::FirstWrite;
                let mut file = if first {
                    // Opening is part of this point's work, so this handle is closed before the
                    // clock starts.
                    File::open(&slot.path).map_err(|e| fail("open", &e))?
                } else {
                    open(&self.job.p, slot.op, &slot.path)
                        .map_err(|e| refused(&self.job.p, &slot.path, "open", &e))?
                };
                // A packaged file stays from block to block, and how fast it is read depends on the
                // memory that its pages have got. So each block gives it other pages.
                if !first && slot.op.packaged() {
                    evict_synced(&file).map_err(|e| fail("sync", &e))?;
                }
                if first || !self.job.p.direct {
                    warm(&mut file).map_err(|e| fail("read", &e))?;
                }
                if first {
                    let replaced = Replaced::read(&self.job.p, slot.seed, &file);
                    slot.replaced = Some(replaced.map_err(|e| fail("read", &e))?);
                }
                advise(&self.job.p, slot.op, &file);
                slot.file = Some(file);
            }
        }
        self.rehearse()
    }

    /// Before the first turn: opens the files of a cold point. Returns the share of the
    /// files in the cache just before it starts.
    pub fn look_at_caches(&mut self) -> Result<Option<f64>, ProbeError> {
        if self.job.p.owes() {
            self.seen.dirty = crate::counters::dirty();
        }
        if !self.job.p.touches() || self.job.p.op.makes() {
            return Ok(None);
        }
        let mut shares = Vec::new();
        for slot in &mut self.slots {
            if slot.op == Op::FirstWrite {
                // The file of a cold point is not even opened for this.
                shares.extend(slot.file.take().map(|file| resident::share_of(&file)));
                continue;
            }
            let file = if let Some(file) = slot.file.take() {
                file
            } else {
                let file = open(&self.job.p, slot.op, &slot.path)
                    .map_err(|e| refused(&self.job.p, &slot.path, "open", &e))?;
                advise(&self.job.p, slot.op, &file);
                file
            };
            // With O_DIRECT the cache before the trial does not matter, but it must be empty
            // afterwards.
            if !self.job.p.direct {
                shares.push(resident::share_of(&file));
            }
            slot.file = Some(file);
        }
        let known: Option<Vec<f64>> = shares.into_iter().collect();
        Ok(known
            .filter(|k| !k.is_empty())
            .map(|k| k.iter().sum::<f64>() / k.len() as f64))
    }
}

/// Reads the file once, unless it is already cached completely. Uses the measured descriptor,
/// because a FUSE file may lose its cache when it is opened again.
fn warm(file: &mut File) -> io::Result<()> {
    if resident::share_of(file) == Some(1.0) {
        return Ok(());
    }
    let size = file.metadata()?.len();
    let read = (size / WARM_READS).next_multiple_of(WARM_READ_MIN);
    let mut buffer = vec![0; read.clamp(WARM_READ_MIN, WARM_READ_MAX) as usize];
    while file.read(&mut buffer)? > 0 {}
    rustix::fs::seek(&*file, rustix::fs::SeekFrom::Start(0))?;
    Ok(())
}
