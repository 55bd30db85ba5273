//! A layer on a server that is not ours, such as a directory on NFS. There is no process to end
//! when it does not answer, so calls into it are made by a thread that can be abandoned.

use std::{
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use layermark_layers::{BackingExtents, LayerError, Place, Wire};
use layermark_model::{CpuTime, DroppedCaches, Facts};
use layermark_probe::motion::{Motion, Who};

/// Interval of checks whether a call makes progress.
const TICK: Duration = Duration::from_millis(500);

/// File systems that are served by another machine or process.
const SERVED: [&str; 12] = [
    "9p", "afs", "autofs", "ceph", "cifs", "fuse", "fuseblk", "lustre", "nfs", "nfs4", "smb3",
    "virtiofs",
];

/// Whether a layer waits for a server that layermark has not started.
pub(crate) fn is_needed(place: &dyn Place, facts: &Facts) -> bool {
    place.on_this_host() && place.helpers().is_empty() && has_server(facts)
}

/// Whether a layer is served by another machine or process.
pub(crate) fn has_server(facts: &Facts) -> bool {
    let served = |fs: &str| SERVED.contains(&fs.split('.').next().unwrap_or_default());
    facts.mounts.iter().any(|m| served(&m.fs))
}

type Call = Box<dyn FnOnce(&mut dyn Place) + Send>;

/// The layer, as the thread sees it.
pub(crate) struct Aside {
    layer: String,
    dir: PathBuf,
    near_dir: Option<PathBuf>,
    near_on_this_host: bool,
    read_only: bool,
    calls: Sender<Call>,
    thread: i32,
    silence: Duration,
    /// A call has not returned.
    hangs: AtomicBool,
}

impl Aside {
    /// Hands `place` to a separate thread. A call may make no progress for `silence`.
    pub(crate) fn new(
        layer: String,
        mut place: Box<dyn Place>,
        silence: Duration,
    ) -> Result<Self, LayerError> {
        let (dir, read_only) = (place.dir().to_owned(), place.read_only());
        let near_dir = place.near_dir().map(Path::to_owned);
        let near_on_this_host = place.near_on_this_host();
        let (calls, made) = mpsc::channel::<Call>();
        let (tell, told) = mpsc::channel();
        let started = thread::Builder::new().name("aside".into()).spawn(move || {
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            while let Ok(call) = made.recv() {
                call(place.as_mut());
            }
        });
        let thread = started.and_then(|_| told.recv().map_err(std::io::Error::other));
        let thread = thread.map_err(|source| LayerError::Io {
            layer: layer.clone(),
            what: "start a thread for".into(),
            path: dir.clone(),
            source,
        })?;
        Ok(Self {
            layer,
            dir,
            near_dir,
            near_on_this_host,
            read_only,
            calls,
            thread,
            silence,
            hangs: AtomicBool::new(false),
        })
    }

    /// Calls, and waits for as long as something is done.
    fn call<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut dyn Place) -> T + Send + 'static,
    ) -> Result<T, LayerError> {
        let (tell, told) = mpsc::channel();
        let call = Box::new(move |place: &mut dyn Place| drop(tell.send(what(place))));
        if self.hangs.load(Ordering::Relaxed) || self.calls.send(call).is_err() {
            return Err(self.silent());
        }
        let tick = TICK.min(self.silence / 4);
        let mut quiet = Duration::ZERO;
        let mut motion: Option<Motion> = None;
        while quiet < self.silence {
            match told.recv_timeout(tick) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let who = Who::These(Vec::new(), self.thread);
            let motion = motion.get_or_insert_with(|| Motion::of(who));
            quiet = if motion.is_seen() {
                Duration::ZERO
            } else {
                quiet + tick
            };
        }
        self.hangs.store(true, Ordering::Relaxed);
        Err(self.silent())
    }

    fn silent(&self) -> LayerError {
        LayerError::Silent {
            layer: self.layer.clone(),
            path: self.dir.clone(),
            after: self.silence,
        }
    }

    fn asked<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut dyn Place) -> Result<T, LayerError> + Send + 'static,
    ) -> Result<T, LayerError> {
        self.call(what)?
    }
}

impl Place for Aside {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn near_dir(&self) -> Option<&Path> {
        self.near_dir.as_deref()
    }

    fn near_on_this_host(&self) -> bool {
        self.near_on_this_host
    }

    fn ground(&self) -> Option<(u64, i64)> {
        self.call(|place| place.ground()).ok().flatten()
    }

    fn start(&mut self) -> Result<Wire, LayerError> {
        self.asked(|place| place.start())
    }

    fn start_near(&mut self) -> Result<Wire, LayerError> {
        self.asked(|place| place.start_near())
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        self.asked(|place| place.facts())
    }

    fn backing_extents(&self, files: &[PathBuf]) -> Vec<BackingExtents> {
        let files = files.to_vec();
        self.call(move |place| place.backing_extents(&files))
            .unwrap_or_default()
    }

    fn keeps_time(&mut self) -> Result<(), LayerError> {
        self.asked(|place| place.keeps_time())
    }

    fn drop_caches(&mut self) -> Result<DroppedCaches, LayerError> {
        self.asked(|place| place.drop_caches())
    }

    fn refresh(&mut self) -> Result<(), LayerError> {
        self.asked(|place| place.refresh())
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        self.asked(|place| place.helper_cpu())
    }
}
