//! Stores runs, their layers with facts, points, and every trial with its raw values.
//!
//! A trial is committed when [`Store::trial`] returns. So a crash or a kill loses no finished
//! trial; a power cut may lose those of the last second. Several processes may write at once. The
//! store is an `SQLite` file or a `PostgreSQL` server; every query works on both.

mod alive;
mod archive;
mod connect;
mod database;
mod directory;
mod error;
mod hosts;
mod imports;
mod list;
mod path;
mod read;
mod reading;
mod server;
mod tallies;
mod write;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_model::{Import, Run, RunStatus, StoreOption, TrialRecord};
use sqlx::{AnyConnection, Connection};
use tokio::runtime::Runtime;

use alive::Locks;
use connect::identity;
use database::Inner;
use path::Place;
use reading::Stamp;
use server::Server;

pub use archive::{Archive, ArchiveError, Wrong, is_archive};
pub use error::StoreError;
pub use imports::ImportSummary;
pub use list::{Filter, Summary};
pub use path::{default_path, shown};
pub use tallies::TallyKey;

/// What a power cut may lose: the first trial after this interval is synced to the disk. Syncing
/// every one would take longer than a short trial itself, and would load the measured disk.
const SYNC: Duration = Duration::from_secs(1);
/// A process that was killed may have a child that has not begun its program yet: that has the lock for so long, on a busy
/// machine.
const ENDING: Duration = Duration::from_secs(1);

/// An open store.
pub struct Store {
    /// A file, or the address of the server without its password.
    path: PathBuf,
    server: Option<Server>,
    runtime: Runtime,
    /// Device and inode of the file that is written; `None` if nothing is.
    file: Option<(u64, u64)>,
    /// The state of a file that is only read and that apparently nobody writes.
    stamp: Option<Stamp>,
    /// The runs that this process works on.
    held: BTreeSet<String>,
    /// Their locks if the store is a file and some are held.
    locks: Option<Locks>,
    /// How long to wait for a lost server.
    patience: Duration,
    /// How many times the connection to the server was restored.
    reconnected: u32,
    /// Whether other users had permissions on its files when it was opened.
    narrowed: bool,
    /// Whether other users can change the data that is read.
    shared: bool,
    /// The earlier path of the store, if its file was deleted and rewritten at `path`.
    lost: Option<PathBuf>,
    /// When a commit was last synced.
    synced: Option<Instant>,
    /// Whether commits are synced now.
    full: bool,
    // `None` only while it is being dropped, or after the server was lost.
    connection: Option<AnyConnection>,
}

impl Store {
    /// Opens the store at a path (or `sqlite:PATH`), and creates it with its directory (mode 0600
    /// and 0700) if it does not exist. Or opens the one on a server
    /// (`postgres://USER@HOST/DATABASE`), where the database must exist.
    ///
    /// A directory that other users can write to or replace is an error. Other users lose their
    /// permissions on the store's own files.
    ///
    /// It is also an error if a file or a database is not a layermark store, is damaged, or was
    /// written by a newer layermark. It is then left unchanged.
    pub fn open(at: impl AsRef<std::ffi::OsStr>) -> Result<Self, StoreError> {
        Self::open_with(at.as_ref(), None)
    }

    /// Opens a store with a maximum number of pages, which `SQLite` reports as a full disk. For
    /// tests.
    #[doc(hidden)]
    pub fn open_limited(at: impl AsRef<std::ffi::OsStr>, pages: u32) -> Result<Self, StoreError> {
        Self::open_with(at.as_ref(), Some(pages))
    }

    /// How long to wait for a lost server.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Sets how long to wait for a lost server: a minute otherwise.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn open_with(at: &std::ffi::OsStr, pages: Option<u32>) -> Result<Self, StoreError> {
        let place = path::place(at)?;
        let runtime = runtime(&place)?;
        match place {
            Place::File(path) => {
                let (path, directory) = directory::hold(&path)?;
                let narrowed = directory.narrow();
                let connection = runtime.block_on(connect::open(&path, &directory, pages))?;
                let file = identity(&path);
                let mut store = Self::around(Place::File(path), runtime, connection);
                (store.file, store.narrowed) = (file, narrowed);
                Ok(store)
            }
            Place::Server(server) => {
                let connection = runtime.block_on(server.open())?;
                Ok(Self::around(Place::Server(server), runtime, connection))
            }
        }
    }

    /// Opens a store for reading and writes nothing. So it works on a full disk, on a read-only
    /// medium, and for a user of a server without write permission. A missing store is an empty
    /// one. A file of an older format is converted in memory.
    pub fn open_read(at: impl AsRef<std::ffi::OsStr>) -> Result<Self, StoreError> {
        let mut place = path::place(at.as_ref())?;
        let runtime = runtime(&place)?;
        // Other users of a server can write to it.
        let mut shared = true;
        let (connection, stamp) = match &mut place {
            Place::File(path) => {
                let (real, safe) = directory::look(path)?;
                *path = real;
                shared = !safe || directory::is_shared(path);
                runtime.block_on(reading::open(path, safe))?
            }
            Place::Server(server) => (runtime.block_on(server.open_read())?, None),
        };
        let mut store = Self::around(place, runtime, connection);
        (store.stamp, store.shared) = (stamp, shared);
        Ok(store)
    }

    fn around(place: Place, runtime: Runtime, connection: AnyConnection) -> Self {
        let (path, server) = match place {
            Place::File(path) => (path, None),
            Place::Server(server) => (server.shown.clone(), Some(server)),
        };
        Self {
            path,
            server,
            runtime,
            file: None,
            stamp: None,
            held: BTreeSet::new(),
            locks: None,
            patience: connect::BUSY,
            reconnected: 0,
            narrowed: false,
            shared: false,
            lost: None,
            synced: None,
            full: true,
            connection: Some(connection),
        }
    }

    /// Opens the store of this user: see [`default_path`].
    pub fn open_default() -> Result<Self, StoreError> {
        Self::open(default_path()?)
    }

    /// Its location: a file, or the address of a server without its password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How commands name this store.
    pub fn option(&self) -> StoreOption {
        path::option(&self.path)
    }

    /// Whether other users could have written the data: their file, a file that they can write or
    /// replace, or a server. Known only for a store opened for reading.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether other users had permissions on the store's file, which were removed when it was
    /// opened.
    pub fn narrowed(&self) -> bool {
        self.narrowed
    }

    /// Marks a run as worked on by this process, until the store is closed or the run has ended. It may work on several.
    /// Without file locks this does nothing.
    pub fn hold(&mut self, run: &str) -> Result<(), StoreError> {
        if self.held.contains(run) {
            return Ok(());
        }
        let taken = if self.server.is_some() {
            self.with(async |c| server::hold(c, run).await)?
        } else {
            match self.lock(run) {
                Ok(taken) => taken,
                Err(_) => return Ok(()),
            }
        };
        if !taken {
            return Err(StoreError::AtWork {
                run: run.to_owned(),
                path: self.path.clone(),
            });
        }
        self.held.insert(run.to_owned());
        Ok(())
    }

    /// Locks a run of a file. False if another process works on it, for longer than one that was killed.
    fn lock(&mut self, run: &str) -> std::io::Result<bool> {
        let locks = match self.locks.take() {
            Some(locks) => locks,
            None => Locks::open(&self.path)?,
        };
        let locks = self.locks.insert(locks);
        let started = Instant::now();
        loop {
            let taken = locks.hold(run)?;
            if taken || started.elapsed() > ENDING {
                return Ok(taken);
            }
            std::thread::sleep(ENDING / 50);
        }
    }

    fn let_go(&mut self, run: &str) {
        if !self.held.remove(run) {
            return;
        }
        if let Some(locks) = &self.locks {
            locks.release(run);
        } else {
            // A lost server has released the run by itself.
            let _ = self.with(async |c| server::release(c, run).await);
        }
    }

    /// Stores a new run with its layers and points, and locks it.
    pub fn begin(&mut self, run: &Run) -> Result<(), StoreError> {
        self.hold(&run.id)?;
        self.synced(true, async |c| write::begin(c, run).await)?;
        self.index_hosts();
        Ok(())
    }

    /// Adds this run, and some that earlier versions made, to the index of hosts. Without it lists by host are slower, so an
    /// error is none of the run's.
    fn index_hosts(&mut self) {
        let _ = self.synced(true, async |c| hosts::add_missing(c).await);
    }

    /// Adds hosts of a run that goes on to the index of hosts: one that had not started may have its name only now.
    pub fn add_hosts(&mut self, run: &Run) {
        let _ = self.synced(true, async |c| hosts::update(c, run).await);
    }

    /// Stores the current state of a run and its layers. Points never change.
    pub fn update(&mut self, run: &Run) -> Result<(), StoreError> {
        self.synced(true, async |c| write::update(c, run).await)?;
        self.let_go_if_ended(run);
        Ok(())
    }

    fn let_go_if_ended(&mut self, run: &Run) {
        if run.status != RunStatus::Running {
            self.let_go(&run.id);
        }
    }

    /// Stores the current state of a run whose layers may have become more.
    pub fn update_with_layers(&mut self, run: &Run) -> Result<(), StoreError> {
        self.synced(true, async |c| write::update_with_layers(c, run).await)?;
        self.let_go_if_ended(run);
        Ok(())
    }

    /// Stores trials that began together on several hosts, in one commit: all of them, or none. Those that are
    /// stored already stay, so a call that has failed can be repeated with more trials.
    pub fn trials(&mut self, run_id: &str, records: &[TrialRecord]) -> Result<(), StoreError> {
        let due = self.synced.is_none_or(|at| at.elapsed() >= SYNC);
        self.synced(due, async |c| write::trials(c, run_id, records).await)
    }

    /// Stores a trial. When this returns, the trial survives the end of this process. It also
    /// survives a power cut, with all trials before it, unless one was synced less than a second
    /// ago.
    pub fn trial(&mut self, run_id: &str, record: &TrialRecord) -> Result<(), StoreError> {
        let due = self.synced.is_none_or(|at| at.elapsed() >= SYNC);
        self.synced(due, async |c| write::trial(c, run_id, record).await)
    }

    /// Stores a run of another store as a whole, or nothing of it.
    pub fn add(&mut self, archive: &Archive) -> Result<(), StoreError> {
        let Archive {
            run,
            trials,
            imports,
        } = archive;
        self.synced(true, async |c| {
            let mut tx = c.begin().await?;
            write::begin(&mut tx, run).await?;
            for record in trials {
                write::trial(&mut tx, &run.id, record).await?;
            }
            for import in imports {
                // It may have come with another run.
                if !imports::has(&mut tx, &import.id).await? {
                    imports::put(&mut tx, import).await?;
                }
            }
            Ok(tx.commit().await?)
        })?;
        self.index_hosts();
        Ok(())
    }

    /// Reads a run with its trials in order. `id` is its id, a unique prefix of it, `last`,
    /// `last~1`, or `#12`, its [`Summary::number`].
    pub fn load(&mut self, id: &str) -> Result<(Run, Vec<TrialRecord>), StoreError> {
        let found = self.read(async |c| {
            let id = list::find(c, id).await?;
            let run = read::run(c, &id).await?;
            let trials = read::trials(c, &id).await?;
            Ok((run, trials))
        });
        let (mut run, trials) = match found {
            Err(StoreError::NotFound { id, path })
                if !id.starts_with("last") && self.load_import(&id).is_ok() =>
            {
                return Err(StoreError::IsImport { id, path });
            }
            found => found?,
        };
        run.status = self.status(run.status, &run.id);
        run.store = self.option();
        Ok((run, trials))
    }

    /// The state of a stored run: a run that is stored as running, but has no process, was
    /// interrupted.
    fn status(&mut self, stored: RunStatus, run: &str) -> RunStatus {
        if stored != RunStatus::Running {
            return stored;
        }
        let held = match self.server {
            None => alive::is_held(&self.path, run),
            // If unknown, a process may work on it.
            Some(_) => self
                .with(async |c| server::is_held(c, run).await)
                .unwrap_or(true),
        };
        if held { stored } else { RunStatus::Interrupted }
    }

    /// The newest runs that match a filter, newest first.
    pub fn list(&mut self, filter: impl Into<Filter>) -> Result<Vec<Summary>, StoreError> {
        let filter = filter.into();
        let mut runs = self.read(async |c| list::list(c, &filter).await)?;
        for run in &mut runs {
            run.status = self.status(run.status, &run.id);
        }
        Ok(runs)
    }

    /// The tallies of verdicts of these runs that were kept under these rules, by run and its number of trials then.
    pub fn tallies(
        &mut self,
        rules: &str,
        runs: &[&str],
    ) -> Result<HashMap<TallyKey, String>, StoreError> {
        self.read(async |c| tallies::of(c, rules, runs).await)
    }

    /// Keeps tallies of verdicts, in place of earlier ones of the same runs. They can be computed again, so this
    /// does not wait for the disk.
    pub fn keep_tallies(
        &mut self,
        rules: &str,
        tallies: &[(TallyKey, String)],
    ) -> Result<(), StoreError> {
        self.synced(false, async |c| tallies::put(c, rules, tallies).await)
    }

    /// Stores results of another program.
    pub fn import(&mut self, import: &Import) -> Result<(), StoreError> {
        self.synced(true, async |c| imports::put(c, import).await)
    }

    /// Reads an import by its id, a unique prefix of it, or `last`.
    pub fn load_import(&mut self, id: &str) -> Result<Import, StoreError> {
        self.read(async |c| {
            let id = imports::find(c, id).await?;
            imports::get(c, &id).await
        })
    }

    /// The newest imports, newest first, at most `limit`.
    pub fn list_imports(&mut self, limit: usize) -> Result<Vec<ImportSummary>, StoreError> {
        self.read(async |c| imports::list(c, limit).await)
    }

    /// Writes with a commit that is synced to the disk or not. Syncing the log includes all earlier
    /// commits. A server syncs each commit as its owner configured it.
    fn synced(
        &mut self,
        full: bool,
        mut work: impl AsyncFnMut(&mut AnyConnection) -> Result<(), Inner>,
    ) -> Result<(), StoreError> {
        if self.server.is_some() {
            let before = self.reconnected;
            let done = self.with(async |c| server::write(work(c)).await);
            // The connection was lost after the server had stored it, before the reply.
            return match done {
                Err(e) if e.is_duplicate() && self.reconnected != before => Ok(()),
                done => done,
            };
        }
        let done = self.commit(full, work);
        if done.is_err() {
            // A transaction that could not be committed stays open until it is rolled back.
            let _ = self.with(async |c| write::rollback(c).await);
        }
        done?;
        if full {
            self.synced = Some(Instant::now());
        }
        self.keep()
    }

    fn commit(
        &mut self,
        full: bool,
        work: impl AsyncFnMut(&mut AnyConnection) -> Result<(), Inner>,
    ) -> Result<(), StoreError> {
        if self.full != full {
            self.with(async |c| write::synchronous(c, full).await)?;
            self.full = full;
        }
        self.with(work)
    }

    /// The earlier path of the store, if its file was deleted or replaced since the last call. All
    /// of its data is at [`Self::path`] now.
    pub fn lost(&mut self) -> Option<PathBuf> {
        self.lost.take()
    }

    /// If the file was deleted, writes all data to a new one next to it. The open file can still be
    /// read, but only until this process ends.
    fn keep(&mut self) -> Result<(), StoreError> {
        if !self.is_gone() {
            return Ok(());
        }
        let old = self.path.clone();
        let gone = |reason: String| StoreError::Gone { path: old, reason };
        let mut copy = || -> Result<PathBuf, String> {
            let to = new_beside(&self.path).map_err(|e| e.to_string())?;
            let copy = self.with(async |c| write::copy(c, &to).await);
            copy.map_err(|e| e.to_string()).map(|()| to)
        };
        let to = copy().map_err(gone)?;
        let (to, directory) = directory::hold(&to)?;
        let opened = connect::open(&to, &directory, None);
        let connection = self.runtime.block_on(opened)?;
        self.forget();
        self.connection = Some(connection);
        self.full = true;
        self.file = identity(&to);
        self.lost = Some(std::mem::replace(&mut self.path, to));
        self.locks = None;
        for run in std::mem::take(&mut self.held) {
            self.hold(&run)?;
        }
        Ok(())
    }

    fn is_gone(&self) -> bool {
        self.file.is_some() && identity(&self.path) != self.file
    }

    /// Drops a connection without closing it. On close, `SQLite` would delete the log by its name,
    /// which another store may use by now.
    fn forget(&mut self) {
        std::mem::forget(self.connection.take());
    }

    /// Repeats a read if another process wrote to the file meanwhile.
    fn read<T>(
        &mut self,
        mut work: impl AsyncFnMut(&mut AnyConnection) -> Result<T, Inner>,
    ) -> Result<T, StoreError> {
        loop {
            let done = self.with(async |c| work(c).await);
            if self.stamp.as_ref().is_none_or(|s| s.holds(&self.path)) {
                return done;
            }
            let (_, safe) = directory::look(&self.path)?;
            let opened = self.runtime.block_on(reading::open(&self.path, safe));
            let (connection, stamp) = opened?;
            self.connection = Some(connection);
            self.stamp = stamp;
        }
    }

    /// Does the work. Repeats it if the connection to a server was lost.
    fn with<T>(
        &mut self,
        mut work: impl AsyncFnMut(&mut AnyConnection) -> Result<T, Inner>,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        // After one long wait without success, a server is only tried once.
        let patient = self.connection.is_some();
        loop {
            let done = match self.connection.as_mut() {
                Some(connection) => self
                    .runtime
                    .block_on(work(connection))
                    .map_err(|e| e.at(&self.path)),
                None => match self.reconnect() {
                    Ok(()) => continue,
                    Err(e) => Err(e),
                },
            };
            match done {
                Err(e) if self.server.is_some() && e.is_lost() => {
                    self.connection = None;
                    if !patient || started.elapsed() >= self.patience {
                        return Err(self.lost_server(e));
                    }
                    std::thread::sleep(server::PAUSE);
                }
                done => return done,
            }
        }
    }

    fn lost_server(&self, error: StoreError) -> StoreError {
        match (error, self.held.first()) {
            (StoreError::Unreachable { path, reason }, Some(run)) => StoreError::Lost {
                run: run.clone(),
                path,
                reason,
            },
            (error, _) => error,
        }
    }

    /// Reconnects to the server and locks the runs again. The server may still attribute them to
    /// the lost connection.
    fn reconnect(&mut self) -> Result<(), StoreError> {
        let Some(server) = &self.server else {
            return Err(StoreError::closed(&self.path));
        };
        let connection = self.runtime.block_on(async {
            let mut connection = server.connect().await?;
            for run in &self.held {
                let taken = server::hold(&mut connection, run).await;
                if !taken.map_err(|e| e.at(&self.path))? {
                    return Err(StoreError::AtWork {
                        run: run.clone(),
                        path: self.path.clone(),
                    });
                }
            }
            Ok(connection)
        })?;
        self.connection = Some(connection);
        self.reconnected += 1;
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_gone() {
            return self.forget();
        }
        if let Some(connection) = self.connection.take() {
            // Merges the write-ahead log. A failure is ignored, because all data is safe without
            // it.
            let _ = self.runtime.block_on(connection.close());
        }
    }
}

/// The async runtime of a store's connection.
fn runtime(place: &Place) -> Result<Runtime, StoreError> {
    sqlx::any::install_default_drivers();
    let path = match place {
        Place::File(path) => path,
        Place::Server(server) => &server.shown,
    };
    let failed = |source| StoreError::Directory {
        path: path.clone(),
        source,
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)
}

/// Creates an empty file `NAME-2.db`, `NAME-3.db`, ... next to a store, and its directory if that
/// is gone.
fn new_beside(path: &Path) -> Result<PathBuf, StoreError> {
    let mut number = 2;
    loop {
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{number}.db"));
        let (new, directory) = directory::hold(&path.with_file_name(name))?;
        match directory.create() {
            Ok(true) => return Ok(new),
            Ok(false) => number += 1,
            Err(e) => {
                return Err(StoreError::Directory {
                    path: new,
                    source: e.into(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A power cut may lose what was stored within a second of the last sync, and no more.
    #[test]
    fn a_trial_is_synced_unless_one_was_within_a_second() {
        let home = tempfile::tempdir().unwrap();
        let mut store = Store::open(home.path().join("s.db")).unwrap();
        let (run, trials) = layermark_testkit::sample::full().build();
        store.begin(&run).unwrap();
        assert!(store.full && store.synced.is_some(), "a run is synced");
        store.synced = Some(Instant::now() + 3600 * SYNC);
        store.trial(&run.id, &trials[0]).unwrap();
        assert!(!store.full);
        store.synced = Instant::now().checked_sub(SYNC);
        let before = store.synced;
        store.trial(&run.id, &trials[1]).unwrap();
        assert!(store.full && store.synced > before);
    }
}
