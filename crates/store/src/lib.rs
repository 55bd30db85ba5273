//! Keeps runs, their layers with facts, points, and every trial with its raw values.
//!
//! A trial is committed when [`Store::trial`] returns, so a crash or a kill loses none that had
//! ended; a power cut may take those of the last second. Several processes may write at once. The queries are what both `SQLite` and `PostgreSQL`
//! take; today only `SQLite` is behind them.

mod connect;
mod error;
mod imports;
mod path;
mod read;
mod write;

use std::{
    future::{Future, poll_fn},
    path::{Path, PathBuf},
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use layermark_model::{Import, Run, RunStatus, TrialRecord};
use sqlx::{Connection, SqliteConnection};
use tokio::runtime::Runtime;

pub use error::StoreError;
pub use imports::ImportSummary;
pub use path::default_path;

/// What a power cut may take: trials are synced to the disk this long after the last one that was.
/// A sync of each would cost a matrix of short trials more time than they take, and load the disk
/// that is measured.
const SYNC: Duration = Duration::from_secs(1);

/// An open store.
pub struct Store {
    path: PathBuf,
    runtime: Runtime,
    /// When a commit was last synced.
    synced: Option<Instant>,
    /// Whether commits are synced now.
    full: bool,
    // `None` only while it is being dropped.
    connection: Option<SqliteConnection>,
}

/// One line of `layermark history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The run's id.
    pub id: String,
    /// Name of its plan.
    pub name: String,
    /// When it began, milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// When it ended; absent while it goes on or after a crash.
    pub ended_ms: Option<i64>,
    /// How it stands.
    pub status: RunStatus,
    /// Names of its layers, the baseline first.
    pub layers: Vec<String>,
    /// Points it measures.
    pub points: u64,
    /// Trials it has so far.
    pub trials: u64,
}

impl Store {
    /// Opens the store at a path (or `sqlite:PATH`), and creates it with its directory when there
    /// is none.
    ///
    /// A file that is not a layermark store, is damaged, or was written by a newer layermark is
    /// an error and is left as it is.
    pub fn open(at: impl AsRef<std::ffi::OsStr>) -> Result<Self, StoreError> {
        Self::open_with(at.as_ref(), None)
    }

    /// Opens a store that may not grow above so many pages, which to `SQLite` is a full disk: for
    /// tests of what follows.
    #[doc(hidden)]
    pub fn open_limited(at: impl AsRef<std::ffi::OsStr>, pages: u32) -> Result<Self, StoreError> {
        Self::open_with(at.as_ref(), Some(pages))
    }

    fn open_with(at: &std::ffi::OsStr, pages: Option<u32>) -> Result<Self, StoreError> {
        let path = path::from_url(at)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| StoreError::Directory {
                path: path.clone(),
                source,
            })?;
        let connection = runtime.block_on(connect::open(&path, pages))?;
        Ok(Self {
            path,
            runtime,
            synced: None,
            full: true,
            connection: Some(connection),
        })
    }

    /// Opens the store of this user: see [`default_path`].
    pub fn open_default() -> Result<Self, StoreError> {
        Self::open(default_path()?)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a run that begins, with its layers and points.
    pub fn begin(&mut self, run: &Run) -> Result<(), StoreError> {
        self.synced(true, async |c| write::begin(c, run).await)
    }

    /// Stores how a run and its layers stand now. Points never change.
    pub fn update(&mut self, run: &Run) -> Result<(), StoreError> {
        self.synced(true, async |c| write::update(c, run).await)
    }

    /// Stores a trial. When this returns it survives the end of this process, and with all before
    /// it a power cut too, unless one was synced less than a second ago.
    pub fn trial(&mut self, run_id: &str, record: &TrialRecord) -> Result<(), StoreError> {
        self.trial_beside(run_id, record, || ())
    }

    /// The same, with something that this thread does while another one writes.
    pub fn trial_beside<T>(
        &mut self,
        run_id: &str,
        record: &TrialRecord,
        beside: impl FnOnce() -> T,
    ) -> Result<T, StoreError> {
        let due = self.synced.is_none_or(|at| at.elapsed() >= SYNC);
        self.synced(due, async |c| {
            let mut stored = pin!(write::trial(c, run_id, record));
            // Asked once, it hands the work over.
            let at_once = poll_fn(|cx| Poll::Ready(stored.as_mut().poll(cx))).await;
            let done = beside();
            match at_once {
                Poll::Ready(stored) => stored?,
                Poll::Pending => stored.await?,
            }
            Ok(done)
        })
    }

    /// Reads a run by its id, the beginning of its id if no other run begins so, or `last`; with
    /// its trials in their order.
    pub fn load(&mut self, id: &str) -> Result<(Run, Vec<TrialRecord>), StoreError> {
        let id = self.with(async |c| read::find(c, id).await)?;
        self.with(async |c| {
            let run = read::run(c, &id).await?;
            let trials = read::trials(c, &id).await?;
            Ok((run, trials))
        })
    }

    /// The newest runs, the newest first, `limit` at most.
    pub fn list(&mut self, limit: usize) -> Result<Vec<Summary>, StoreError> {
        self.with(async |c| read::list(c, limit).await)
    }

    /// Stores results of another program.
    pub fn import(&mut self, import: &Import) -> Result<(), StoreError> {
        self.synced(true, async |c| imports::put(c, import).await)
    }

    /// Reads an import by its id, the beginning of its id if no other begins so, or `last`.
    pub fn load_import(&mut self, id: &str) -> Result<Import, StoreError> {
        let id = self.with(async |c| imports::find(c, id).await)?;
        self.with(async |c| imports::get(c, &id).await)
    }

    /// The newest imports, the newest first, `limit` at most.
    pub fn list_imports(&mut self, limit: usize) -> Result<Vec<ImportSummary>, StoreError> {
        self.with(async |c| imports::list(c, limit).await)
    }

    /// With a commit that is synced to the disk or not. Syncing the log takes all before it along.
    fn synced<T>(
        &mut self,
        full: bool,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, error::Inner>,
    ) -> Result<T, StoreError> {
        if self.full != full {
            self.with(async |c| write::synchronous(c, full).await)?;
            self.full = full;
        }
        let done = self.with(work)?;
        if full {
            self.synced = Some(Instant::now());
        }
        Ok(done)
    }

    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, error::Inner>,
    ) -> Result<T, StoreError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(StoreError::closed(&self.path));
        };
        self.runtime
            .block_on(work(connection))
            .map_err(|e| e.at(&self.path))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Folds the write-ahead log in. Everything is safe without it, so a failure is no news.
            let _ = self.runtime.block_on(connection.close());
        }
    }
}
