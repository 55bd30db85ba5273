//! Prepares the files, runs the passes, and pays the debt.

use std::{
    ffi::{CString, OsStr},
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use layermark_model::{Pattern, TOGETHER, Trial, random_name};
use rustix::fs::{Mode, OFlags};

use super::{
    name, ops,
    params::{Cache, MetaOp, MetaParams, MetaSync},
};
use crate::{
    Context, ProbeError,
    buffer::Buffer,
    clock::Source,
    counters::Devices,
    data,
    error::{panicked, shown},
    limits::HEARTBEAT_NS,
    permutation::Permutation,
    run::{
        Extent, Mark, Passes, Repeat, Stretch,
        drive::{self, Done, LoopError, OpRange, Span},
        recorder::Recorder,
    },
    selftest,
    workloads::work_dir::WorkDir,
};

/// Number of files flushed at the same time.
const FLUSHERS: usize = 16;

/// A prepared point.
pub struct MetaWork {
    p: MetaParams,
    context: Context,
    clock: Option<Source>,
    paths: Vec<CString>,
    buffer: Buffer,
    recorder: Recorder,
    /// For the operations of a lead-in, which are discarded.
    spare: Recorder,
    /// Number of completed operations of the pass.
    at: u64,
    /// Whether the first pass has started.
    begun: bool,
    /// When the files were last looked at before the first pass.
    ready: Instant,
    /// The layer's directory.
    dir: PathBuf,
    /// For a point that writes: a different directory for each pass.
    work: Option<PassDir>,
    /// The shortest time to create a file in one of them, ns.
    least_ns: Option<u64>,
    /// Of a packaged file that is changed: other names of all, owner and group, permissions.
    first: FirstState,
}

/// Where a pass makes its files.
enum PassDir {
    /// A directory of its own.
    Own(WorkDir),
    /// The one in which all hosts make files, under names that begin so.
    Together(PathBuf, String),
}

impl PassDir {
    fn path(&self) -> &Path {
        match self {
            Self::Own(work) => work.path(),
            Self::Together(path, _) => path,
        }
    }
}

#[derive(Default)]
struct FirstState {
    others: Vec<CString>,
    owner: (u32, u32),
    mode: u32,
    /// Files that are changed now.
    changed: u64,
}

pub fn prepare(dir: &Path, p: MetaParams, context: &Context) -> Result<MetaWork, ProbeError> {
    let size = p.file_size.max(1);
    let pool = if p.op == MetaOp::SmallWrite {
        data::pool(size)
    } else {
        size
    };
    let mut buffer = Buffer::new(pool as usize);
    if p.op == MetaOp::SmallWrite {
        data::fill(
            Pattern::Random,
            buffer.bytes_mut(),
            pool as usize,
            data::derive(context.seed, "meta data"),
        );
    }
    let clock = p.latency.then(selftest::source);
    let dir = context.names_from(dir).to_owned();
    let context = context.clone();
    let mut made = MetaWork {
        p,
        context,
        clock,
        paths: Vec::new(),
        buffer,
        recorder: Recorder::new(),
        spare: Recorder::unused(),
        at: 0,
        begun: false,
        ready: Instant::now(),
        dir,
        work: None,
        least_ns: None,
        first: FirstState::default(),
    };
    made.first_state()?;
    made.ready = Instant::now();
    Ok(made)
}

impl MetaWork {
    /// Makes the files that must exist before the first pass.
    fn first_state(&mut self) -> Result<(), ProbeError> {
        if !self.p.op.packaged() {
            self.make()?;
            // Dirty data of other programs must not count as this point's debt.
            return if self.p.op.on_written() {
                Ok(()) // synced just now
            } else {
                self.sync_all()
            };
        }
        let root = self.dir.join("packaged").join(super::tree(&self.p).root);
        self.name_files(&root)?;
        // A missing file is detected here and not inside the clock. A cold point's cache is dropped
        // after this.
        for path in &self.paths {
            let path = Path::new(OsStr::from_bytes(path.as_bytes()));
            let found = fs::metadata(path).map_err(|e| {
                ProbeError::io("find the packaged file", path, &e)
                    .hint("the layer was set up without the files of this point")
            })?;
            if self.p.op != MetaOp::List && found.len() != self.p.file_size {
                return Err(ProbeError::new(format!(
                    "{} has {} bytes instead of {}: the layer does not show the packaged file",
                    shown(path),
                    found.len(),
                    self.p.file_size
                )));
            }
        }
        if self.p.op.first() {
            return self.first_time();
        }
        if self.p.cache == Cache::Warm {
            let all = OpRange::whole(self.p.files);
            self.drive(all, false, &mut |_| {})
                .map_err(|s| self.failed(&s))?;
        } else {
            for path in &self.paths {
                let path = Path::new(OsStr::from_bytes(path.as_bytes()));
                if let Ok(file) = File::open(path) {
                    crate::files::evict_synced(&file)
                        .map_err(|e| ProbeError::io("sync", path, &e))?;
                }
            }
        }
        Ok(())
    }

    /// Reads the files, which are not changed before the clock starts, and names them anew.
    fn first_time(&mut self) -> Result<(), ProbeError> {
        for (at, name) in self.paths.iter().enumerate() {
            let path = Path::new(OsStr::from_bytes(name.as_bytes()));
            let failed = |e| ProbeError::io("read", path, &e);
            fs::read(path).map_err(failed)?;
            if at == 0 {
                let m = fs::metadata(path).map_err(failed)?;
                self.first.owner = (m.uid(), m.gid());
                self.first.mode = m.mode() & 0o7777;
            }
            let mut other = name.as_bytes().to_vec();
            other.extend(b"-other");
            // It had no zero byte.
            self.first.others.extend(CString::new(other));
        }
        Ok(())
    }

    /// Makes packaged files as they were.
    fn undo_firsts(&mut self) {
        let done = std::mem::take(&mut self.first.changed);
        let step = ops::First {
            op: self.p.op,
            paths: &self.paths,
            others: &self.first.others,
            owner: self.first.owner,
        };
        step.undo(done, self.first.mode);
    }

    fn sync_all(&self) -> Result<(), ProbeError> {
        self.context.sync(&self.dir)
    }

    /// Restores the initial state of a pass, outside the clock: no files for create and
    /// small-write, all of them for unlink. These are on the disk, because a file that was never
    /// written back has no blocks to free and is much cheaper to remove.
    fn make(&mut self) -> Result<(), ProbeError> {
        self.leave();
        let work = if self.p.one_directory {
            self.together()?
        } else {
            let work = if self.p.op.on_written() {
                WorkDir::new(&self.dir)?
            } else {
                WorkDir::quick(&self.dir, &mut self.least_ns)?
            };
            for at in self.directories(work.path()) {
                fs::create_dir(&at).map_err(|e| ProbeError::io("make", &at, &e))?;
            }
            PassDir::Own(work)
        };
        let root = self.work.insert(work).path().to_owned();
        self.name_files(&root)?;
        if self.p.op.on_written() {
            let data = vec![0x5a; self.p.file_size as usize];
            for i in 0..self.p.files {
                let path = root.join(self.name(i));
                let made = fs::write(&path, &data);
                made.map_err(|e| ProbeError::io("make", &path, &e))?;
            }
            // Not file by file, because a layer may ignore that, and files that are not on the disk
            // are much cheaper to remove.
            self.sync_all()?;
        }
        Ok(())
    }

    /// The directory of all hosts with the subdirectories of a pass, which another host may have made.
    fn together(&self) -> Result<PassDir, ProbeError> {
        let root = self.dir.join(TOGETHER);
        for at in std::iter::once(root.clone()).chain(self.directories(&root)) {
            match fs::create_dir(&at) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(ProbeError::io("make", &at, &e));
                }
                _ => {}
            }
        }
        Ok(PassDir::Together(root, random_name("h")))
    }

    /// Path of file `i` below the root of the pass or of its packaged files.
    fn name(&self, i: u64) -> PathBuf {
        let path = PathBuf::from(name(&self.p, i));
        match (&self.work, path.file_name()) {
            (Some(PassDir::Together(_, prefix)), Some(file)) => {
                path.with_file_name(format!("{prefix}-{}", file.to_string_lossy()))
            }
            _ => path,
        }
    }

    fn directories(&self, root: &Path) -> impl Iterator<Item = PathBuf> {
        let root = root.to_owned();
        (0..self.p.files.div_ceil(self.p.per_directory)).map(move |d| root.join(format!("d{d}")))
    }

    /// Ends a pass. Its files stay, without their data, because an inode that was just deleted
    /// slows the creation of the next file.
    fn leave(&mut self) {
        let work = match self.work.take() {
            Some(PassDir::Own(work)) if !self.p.op.on_written() => work,
            Some(PassDir::Together(..)) => return self.remove_own(),
            _ => return,
        };
        if self.p.op == MetaOp::SmallWrite {
            let emptied = self.paths[..self.at as usize].iter().try_for_each(|path| {
                let path = Path::new(OsStr::from_bytes(path.as_bytes()));
                rustix::fs::open(path, OFlags::WRONLY | OFlags::TRUNC, Mode::empty()).map(drop)
            });
            if emptied.is_err() {
                return;
            }
        }
        work.leave(self.p.files);
    }

    /// Removes the files of a pass from the directory of all hosts, which otherwise grows from round to round.
    fn remove_own(&self) {
        for path in &self.paths {
            // Those that were not made, or were removed by the pass, are not there.
            let _ = fs::remove_file(OsStr::from_bytes(path.as_bytes()));
        }
    }

    /// Makes the paths of the files in the order of access. Neighbours in a directory are also
    /// neighbours on disk, and reading them in order would measure the readahead. So each file
    /// comes once, in random order.
    fn name_files(&mut self, root: &Path) -> Result<(), ProbeError> {
        let seed = data::derive(self.context.seed, "meta order");
        let order = Permutation::new(self.p.files, seed);
        self.paths.clear();
        for i in 0..self.p.files {
            let mut path = root.join(self.name(order.at(i)));
            if self.p.op == MetaOp::List {
                path.pop();
            }
            let named = ops::path(&path).map_err(|e| ProbeError::io("use", &path, &e))?;
            self.paths.push(named);
        }
        Ok(())
    }

    fn drive(
        &mut self,
        part: OpRange,
        counted: bool,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Done, LoopError> {
        let (paths, clock) = (&self.paths, self.clock);
        let recorder = if counted {
            &mut self.recorder
        } else {
            &mut self.spare
        };
        let size = self.p.file_size as usize;
        match self.p.op {
            MetaOp::OpenStat => {
                drive::drive(clock, part, recorder, beat, &mut ops::OpenStat(paths))
            }
            MetaOp::SmallRead => {
                let buffer = &mut self.buffer.bytes_mut()[..size];
                let mut step = ops::SmallRead { paths, buffer };
                drive::drive(clock, part, recorder, beat, &mut step)
            }
            MetaOp::SmallWrite | MetaOp::Create => {
                let size = if self.p.op == MetaOp::Create { 0 } else { size };
                let mut step = ops::SmallWrite {
                    paths,
                    pool: self.buffer.bytes(),
                    size,
                    sync: self.p.sync,
                };
                drive::drive(clock, part, recorder, beat, &mut step)
            }
            MetaOp::Stat => drive::drive(clock, part, recorder, beat, &mut ops::Stat(paths)),
            MetaOp::List => drive::drive(clock, part, recorder, beat, &mut ops::List::new(paths)),
            MetaOp::SetAttr => drive::drive(clock, part, recorder, beat, &mut ops::SetAttr(paths)),
            MetaOp::Unlink => drive::drive(clock, part, recorder, beat, &mut ops::Unlink(paths)),
            op => {
                let mut step = ops::First {
                    op,
                    paths,
                    others: &self.first.others,
                    owner: self.first.owner,
                };
                drive::drive(clock, part, recorder, beat, &mut step)
            }
        }
    }

    /// Flushes the files of the pass and their directories, many at a time, so that a journal
    /// commits them together. A flush of the whole file system would also pay for other layers that
    /// share it.
    fn flush(&self) -> Result<(), ProbeError> {
        let Some(work) = &self.work else {
            return Ok(());
        };
        let made = if self.p.op == MetaOp::Unlink {
            0
        } else {
            self.at
        };
        let files = self.paths[..made as usize].iter();
        let files = files.map(|p| Path::new(OsStr::from_bytes(p.as_bytes())).to_owned());
        let mut all: Vec<PathBuf> = files.collect();
        all.extend(self.directories(work.path()));
        let flush = |path: &PathBuf| {
            let flushed = File::open(path).and_then(|file| file.sync_all());
            flushed.map_err(|e| ProbeError::io("flush", path, &e))
        };
        thread::scope(|scope| {
            let share = |part: &'_ [PathBuf]| part.iter().try_for_each(flush);
            let parts = all.chunks(all.len().div_ceil(FLUSHERS).max(1));
            // Where there can be no more threads, this one flushes the part.
            let start = |part| {
                let thread = thread::Builder::new().spawn_scoped(scope, move || share(part));
                thread.map_err(|_| part)
            };
            let threads: Vec<_> = parts.map(start).collect();
            threads.into_iter().try_for_each(|thread| match thread {
                Ok(thread) => {
                    let end = thread.join();
                    end.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
                }
                Err(part) => share(part),
            })
        })
    }

    /// Whether a pass can continue with the files of the previous one.
    fn rolls(&self) -> bool {
        !self.p.op.writes() && !self.p.once()
    }

    fn failed(&self, stopped: &LoopError) -> ProbeError {
        let path = self
            .paths
            .get(stopped.at as usize)
            .map(|p| p.to_string_lossy().into_owned())
            .unwrap_or_default();
        ProbeError::io(self.p.op.id(), Path::new(&path), &stopped.error)
    }
}

impl Drop for MetaWork {
    fn drop(&mut self) {
        self.undo_firsts();
        self.leave();
    }
}

impl Repeat for MetaWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        Passes {
            fixed: self.p.passes,
            // A file that is changed once is a pass and a turn of its own.
            most: if self.p.op.first() {
                self.p.files
            } else {
                u64::from(self.p.once())
            },
            ..Passes::default()
        }
    }

    /// The first pass uses the files of `prepare`.
    fn renew(&mut self, beat: &mut dyn FnMut(u64)) -> Result<(), ProbeError> {
        if self.begun && !self.p.op.packaged() {
            self.make()?;
        }
        self.begun = true;
        // The layers rest together: most of the time has passed when the first turn begins.
        loop {
            let left = self.p.rest().saturating_sub(self.ready.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_nanos(HEARTBEAT_NS)));
            beat(0);
        }
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let mut sum = Stretch::default();
        let mut span: Option<Span> = None;
        loop {
            let (from, so_far) = (self.at % self.p.files, sum.ops);
            let part = OpRange {
                from,
                to: if self.p.op.first() {
                    from + 1
                } else {
                    self.p.files
                },
                limit_ns: extent.ns - sum.elapsed_ns,
            };
            if self.p.op.first() {
                self.first.changed = from + 1;
            }
            let done = match self.drive(part, extent.counted, &mut |n| beat(so_far + n)) {
                Ok(done) => done,
                Err(stopped) => {
                    let failed = self.failed(&stopped);
                    // Files of the pass are removed now, because the disk may be full.
                    if let Some(PassDir::Together(..)) = self.work.take() {
                        self.remove_own();
                    }
                    return Err(failed);
                }
            };
            let all = span.get_or_insert(done.span);
            if so_far > 0 {
                all.join(done.span);
            }
            sum.elapsed_ns = all.net_ns();
            sum.waited_ns = all.waited.ns();
            self.at = done.next;
            sum.ops += done.ops;
            sum.over = done.next == part.to;
            let goes_on = !extent.is_pass() && self.rolls();
            if sum.elapsed_ns >= extent.ns || (sum.over && !goes_on) {
                break;
            }
        }
        sum.bytes = sum.ops * self.p.op.moves(self.p.file_size);
        if self.p.sync == MetaSync::Fsync {
            sum.syncs = sum.ops;
        }
        Ok(sum)
    }

    fn settle(&mut self, trial: &mut Trial, since: Mark) -> Result<(), ProbeError> {
        if !self.p.op.packaged() && self.p.sync == MetaSync::None {
            self.flush()?;
            // No other layer has written.
            if trial.turns.is_empty() {
                self.sync_all()?;
            }
            trial.debt = Some(since.debt(&Devices::open(&self.context.devices)));
        }
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.undo_firsts();
        // Encoding it takes a while, which does not count as debt.
        trial.latency = self.recorder.latency();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Workload, resident, workloads::meta::WORKLOAD};

    fn params(text: &str) -> MetaParams {
        let settings = layermark_model::Settings {
            workload: "meta".into(),
            label: None,
            params: serde_json::from_str(text).unwrap(),
        };
        let point = WORKLOAD.points(&settings, 1.0).unwrap().remove(0);
        point.typed().unwrap()
    }

    /// As two hosts in one directory of a share: neither finds a file of the other, and none is left.
    #[test]
    fn hosts_make_files_in_one_directory_under_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let together = dir.path().join(TOGETHER);
        let names = || {
            let of = |at: PathBuf| fs::read_dir(at).unwrap().count();
            ["d0", "d1"].map(|d| of(together.join(d)))
        };
        for (op, after) in [("create", 2), ("small-write", 2), ("unlink", 0)] {
            let text = format!(r#"{{"op": "{op}", "files": 150, "one_directory": true}}"#);
            let host = || prepare(dir.path(), params(&text), &Context::least()).unwrap();
            let mut both = [host(), host()];
            for work in &mut both {
                work.renew(&mut |_| {}).unwrap();
                assert_eq!(work.go(Extent::PASS, &mut |_| {}).unwrap().ops, 150, "{op}");
                work.flush().unwrap();
            }
            assert_eq!(names(), [100 * after, 50 * after], "{op}");
            drop(both);
            assert_eq!(names(), [0, 0], "{op}");
        }
    }

    #[test]
    fn files_that_rest_are_reported_as_progress() {
        let dir = tempfile::tempdir().unwrap();
        let p = params(r#"{"op": "create", "files": 1}"#);
        let mut work = prepare(dir.path(), p, &Context::least()).unwrap();
        work.p.rest = format!("{}ms", 3 * HEARTBEAT_NS / 2_000_000);
        let mut beats = 0;
        work.renew(&mut |_| beats += 1).unwrap();
        assert!(beats >= 2 && work.ready.elapsed() >= work.p.rest());
    }

    #[test]
    fn every_pass_removes_files_that_are_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let p = params(r#"{"op": "unlink", "files": 5}"#);
        let mut work = prepare(dir.path(), p, &Context::least()).unwrap();
        for pass in 1..=3 {
            let root = work.work.as_ref().unwrap().path();
            let file = File::open(root.join("d0/f4")).unwrap();
            match resident::unwritten(&file) {
                Some(pages) => assert_eq!(pages, 0, "before pass {pass}"),
                None => return eprintln!("skipped: cachestat(2) needs Linux 6.5"),
            }
            drop(file);
            work.renew(&mut |_| {}).unwrap();
            work.go(Extent::PASS, &mut |_| {}).unwrap();
            work.make().unwrap();
        }
    }

    /// Names, permissions and contents below a directory.
    fn state(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all.extend(state(&path));
            } else {
                let mode = fs::metadata(&path).unwrap().mode();
                let bytes = fs::read(&path).unwrap();
                all.push((path, mode, bytes));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn what_can_be_done_once_is_a_turn_and_is_undone_afterwards() {
        for (op, others, mode) in [
            ("first-chmod", 0, 0o600),
            ("first-chown", 0, 0o644),
            ("first-rename", 5, 0o644),
            ("first-link", 5, 0o644),
            ("first-open", 0, 0o644),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let settings = layermark_model::Settings {
                workload: "meta".into(),
                label: None,
                params: serde_json::from_value(
                    serde_json::json!({"op": op, "files": 5, "file_size": "8K"}),
                )
                .unwrap(),
            };
            let point = WORKLOAD.points(&settings, 1.0).unwrap().remove(0);
            let needs = &point.needs;
            assert!(needs.refresh && needs.space >= 5 * 8192 && point.meaning.changes);
            assert!(point.meaning.divided.is_some_and(|d| d.uses_up));
            let root = dir.path().join("packaged");
            let files: Vec<_> = needs.packaged_files().collect();
            crate::packaged::write(&root, &files, 3, &|| true).unwrap();
            for file in &files {
                let made = fs::Permissions::from_mode(0o644);
                fs::set_permissions(root.join(&file.path), made).unwrap();
            }
            let before = state(&root);
            let p = point.typed().unwrap();
            let mut work = prepare(dir.path(), p, &Context::least()).unwrap();
            assert_eq!(state(&root), before, "{op}: nothing before the clock");
            assert_eq!(work.passes().most, 5);
            for at in 1..=5 {
                work.renew(&mut |_| {}).unwrap();
                // However much time a turn has.
                let done = work
                    .go(Extent::time(u64::MAX / 2, true), &mut |_| {})
                    .unwrap();
                assert_eq!((done.ops, done.over), (1, true), "{op}: file {at}");
            }
            let changed = state(&root);
            let named = changed
                .iter()
                .filter(|f| f.0.to_string_lossy().ends_with("-other"));
            assert_eq!(named.count(), others, "{op}");
            assert!(changed.iter().all(|f| f.1 & 0o777 == mode), "{op}");
            let mut trial = Trial::default();
            work.settle(&mut trial, Mark::read(&Devices::open(&[])))
                .unwrap();
            work.end(&mut trial).unwrap();
            assert_eq!((state(&root), trial.debt), (before, None), "{op}");
        }
    }
}
