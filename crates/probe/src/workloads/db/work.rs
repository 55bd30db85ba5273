//! A trial: the database, the turns, and the integrity check.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use layermark_model::{FigureValues, Trial, Verified};

use super::{
    figures::DbTrial,
    params::DbParams,
    sql::{self, Table},
};
use crate::{
    Context, ProbeError,
    counters::Devices,
    run::{
        Extent, Mark, Passes, Repeat, Stretch,
        drive::{self, OpRange},
        recorder::Recorder,
    },
    selftest,
    workloads::work_dir::WorkDir,
};

/// Transactions per pass, if a trial is one stretch of passes.
const PASS: u64 = 20;

/// A prepared point.
pub struct DbWork {
    p: DbParams,
    context: Context,
    path: PathBuf,
    devices: Devices,
    recorder: Recorder,
    /// Recorder for lead-ins.
    uncounted: Recorder,
    /// Declared before the directory, because it has files open.
    table: Table,
    next: u64,
    done: DbTrial,
    work: WorkDir,
}

impl DbWork {
    /// Makes the database and writes it to the disk.
    pub fn prepare(dir: &Path, p: DbParams, context: &Context) -> Result<Self, ProbeError> {
        let work = WorkDir::new(dir)?;
        let path = work.path().join("table.db");
        let table = Table::make(&path, &p, context.seed)?;
        // Dirty data must not be written back in a turn.
        context.sync(dir)?;
        Ok(Self {
            p,
            context: context.clone(),
            path,
            devices: Devices::open(&context.devices),
            recorder: Recorder::new(),
            uncounted: Recorder::unused(),
            table,
            next: 0,
            done: DbTrial::default(),
            work,
        })
    }

    /// A transaction that failed.
    fn failed(&self, cause: &io::Error) -> ProbeError {
        let doing = format!("run a transaction ({}) in", self.p.op.id());
        match cause.get_ref().and_then(|e| e.downcast_ref()) {
            Some(of_sqlite) => sql::error(&doing, &self.path, of_sqlite),
            None => ProbeError::io(&doing, &self.path, cause),
        }
    }

    /// The files of the database and its journals that exist.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let name = self.path.clone().into_os_string();
        ["", "-wal", "-journal"].into_iter().map(move |ending| {
            let mut name = name.clone();
            name.push(ending);
            PathBuf::from(name)
        })
    }
}

impl DbTrial {
    fn add(&mut self, more: Self) {
        self.commits += more.commits;
        self.committed_bytes += more.committed_bytes;
        self.syncs += more.syncs;
        self.written_bytes += more.written_bytes;
        self.checkpoints += more.checkpoints;
        self.checkpoint_ns = self.checkpoint_ns.max(more.checkpoint_ns);
    }
}

impl Repeat for DbWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        Passes::default()
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let part = OpRange {
            from: self.next,
            to: self.next.saturating_add(extent.ops(PASS)),
            limit_ns: extent.ns,
        };
        let (source, recorder) = if extent.counted {
            (Some(selftest::source()), &mut self.recorder)
        } else {
            (None, &mut self.uncounted)
        };
        self.table.done = DbTrial::default();
        let driven = drive::drive(source, part, recorder, beat, &mut self.table);
        let driven = driven.map_err(|e| self.failed(&e.error))?;
        let ops = driven.ops;
        self.next = driven.next;
        let done = self.table.done;
        if extent.counted {
            self.done.add(done);
        }
        Ok(Stretch {
            elapsed_ns: driven.span.net_ns(),
            waited_ns: driven.span.waited.ns(),
            ops,
            bytes: ops * self.p.rows_an_op() * self.p.row_size,
            syncs: done.syncs,
            over: extent.is_pass(),
            ..Stretch::default()
        })
    }

    /// Without `synchronous` the changes are still in memory.
    fn settle(&mut self, trial: &mut Trial, since: Mark) -> Result<(), ProbeError> {
        for path in self.files() {
            match File::open(&path).and_then(|file| file.sync_all()) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ProbeError::io("write back", &path, &e));
                }
                _ => {}
            }
        }
        self.context.sync_below(self.work.path())?;
        trial.debt = Some(since.debt(&self.devices));
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        trial.latency = self.recorder.latency();
        trial.figures = FigureValues::of(&self.done);
        let checked = self.table.check().map_err(|why| {
            let path = self.path.display();
            ProbeError::new(format!("db: the database {path} is damaged: {why}"))
                .hint("the layer changes or loses data: do not keep a database here")
        })?;
        trial.verified = Some(Verified {
            records: checked,
            bad: 0,
        });
        Ok(())
    }
}
