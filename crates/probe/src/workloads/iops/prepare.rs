//! Lays out the file and fills the buffers before the clock starts.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use layermark_model::Pattern;
use rustix::fs::Advice;

use super::{
    draw::Draw,
    pace::Pace,
    packaged_name,
    params::{IopsParams, read_spec},
    spec::AccessSpec,
    worker::Worker,
};
use crate::{
    Context, ProbeError,
    buffer::{ALIGN, Buffer},
    counters::Devices,
    data, engines,
    files::{direct_refused, evict},
    queue, resident,
    run::{Mark, recorder, team::Team, waiting::Waited},
    workloads::work_dir::WorkDir,
};

/// Bytes of one write that lays the file out.
const LAID_OUT: u64 = 1 << 20;

/// Common parameters of all workers.
pub struct IopsJob {
    pub p: IopsParams,
    pub path: PathBuf,
    pub file: File,
    /// Bytes per place in a buffer.
    pub piece: usize,
}

/// A prepared point.
pub struct IopsWork {
    pub job: Arc<IopsJob>,
    pub spec: AccessSpec,
    pub context: Context,
    /// The layer's directory.
    pub dir: PathBuf,
    pub workers: Vec<(Worker, Buffer)>,
    /// A thread for each worker. Declared before the directory, because they have the file open.
    pub team: Team<Arc<IopsJob>>,
    /// The moment at which all workers had ended.
    pub stopped: Option<Mark>,
    /// Removed on drop, with the file in it.
    _work: Option<WorkDir>,
}

pub fn prepare(dir: &Path, p: IopsParams, context: &Context) -> Result<IopsWork, ProbeError> {
    if engines::find(&p.engine).is_some_and(engines::Engine::queues) {
        queue::available()?;
    }
    let spec = read_spec(&p.spec)?;
    let work = if spec.writes() {
        Some(WorkDir::new(dir)?)
    } else {
        None
    };
    let path = match &work {
        Some(work) => work.path().join("target"),
        None => dir.join("packaged").join(packaged_name(&p)),
    };
    if work.is_some() {
        let seed = data::derive(context.seed, "iops layout");
        lay_out(&path, p.file_size, seed).map_err(|e| ProbeError::io("write", &path, &e))?;
        // Dirty data must not be written back while the clock runs.
        context.sync(dir)?;
    }
    let file = open(&p, &spec, &path)?;
    let piece = spec.largest().next_multiple_of(ALIGN as u64);
    let workers: Vec<_> = (0..p.workers)
        .map(|index| worker(&p, &spec, context, index, piece))
        .collect();
    let job = Arc::new(IopsJob {
        p,
        path,
        file,
        piece: piece as usize,
    });
    let members = vec![Arc::clone(&job); workers.len()];
    Ok(IopsWork {
        job,
        spec,
        context: context.clone(),
        dir: dir.to_owned(),
        workers,
        team: Team::start(members, Devices::open(&context.devices), "workers")?,
        stopped: None,
        _work: work,
    })
}

/// Writes a new file full of data, because blocks that were never written would be read as zeros
/// without a transfer.
fn lay_out(path: &Path, size: u64, seed: u64) -> io::Result<()> {
    let mut pool = Buffer::new(LAID_OUT as usize);
    data::fill(Pattern::Random, pool.bytes_mut(), LAID_OUT as usize, seed);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut left = size;
    while left > 0 {
        let part = left.min(LAID_OUT);
        file.write_all(&pool.bytes()[..part as usize])?;
        left -= part;
    }
    file.sync_all()
}

fn open(p: &IopsParams, spec: &AccessSpec, path: &Path) -> Result<File, ProbeError> {
    let plain = File::open(path).map_err(|e| ProbeError::io("open", path, &e))?;
    let size = plain
        .metadata()
        .map_err(|e| ProbeError::io("inspect", path, &e))?
        .len();
    if size != p.file_size {
        return Err(ProbeError::new(format!(
            "{} has {size} bytes instead of {}: the layer does not show the packaged file",
            path.display(),
            p.file_size
        )));
    }
    if p.direct {
        evict(&plain).map_err(|e| ProbeError::io("sync", path, &e))?;
    } else {
        warm(plain).map_err(|e| ProbeError::io("read", path, &e))?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(spec.writes());
    options.custom_flags(if p.direct { libc::O_DIRECT } else { 0 });
    let file = options.open(path).map_err(|e| {
        let refused = direct_refused(path, "open", &e).filter(|_| p.direct);
        refused.unwrap_or_else(|| ProbeError::io("open", path, &e))
    })?;
    if !p.no_advice {
        // A refusal does not matter.
        let _ = rustix::fs::fadvise(&file, 0, None, advice(spec));
    }
    Ok(file)
}

/// The advice that fio gives for such a mix.
fn advice(spec: &AccessSpec) -> Advice {
    if spec.0.iter().any(|line| line.random > 0) {
        Advice::Random
    } else {
        Advice::Sequential
    }
}

/// Reads the file once, unless it is already cached completely.
fn warm(mut file: File) -> io::Result<()> {
    if resident::share_of(&file) != Some(1.0) {
        io::copy(&mut file, &mut io::sink())?;
    }
    Ok(())
}

fn worker(
    p: &IopsParams,
    spec: &AccessSpec,
    context: &Context,
    index: u64,
    piece: u64,
) -> (Worker, Buffer) {
    let seed = data::derive(context.seed, &format!("iops worker {index}"));
    let pool = if spec.writes() {
        data::pool(piece) / piece
    } else {
        1
    };
    let mut buffer = Buffer::new((piece * pool.max(p.iodepth)) as usize);
    if spec.writes() {
        data::fill(Pattern::Random, buffer.bytes_mut(), piece as usize, seed);
    }
    let worker = Worker {
        batch: p.batch,
        draw: Draw::new(spec, p.file_size, seed, index, p.workers),
        pace: Pace::new(p.rate, index, p.workers),
        response: recorder::Recorder::new(),
        service: (p.rate > 0).then(recorder::Recorder::new),
        ops: 0,
        bytes: 0,
        span: None,
        waited: Waited::default(),
        all_ops: 0,
        all_bytes: 0,
        spun: 0,
        kernel_workers: 0,
    };
    (worker, buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_random_line_makes_a_mix_random() {
        let told = |spec| advice(&read_spec(spec).unwrap());
        assert_eq!(told("4k-read"), Advice::Sequential);
        assert_eq!(told("4k-rand-read"), Advice::Random);
        let mix = "4K 100% read 0% random; 64K 100% read 1% random @20%";
        assert_eq!(told(mix), Advice::Random);
    }
}
