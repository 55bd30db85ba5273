//! A layer on a server that layermark has not started, such as a directory on NFS. When the server
//! does not answer, no process can be ended to release the call. So calls into the layer are made
//! by a thread that can be abandoned.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use layermark_layers::{
    BackingExtents, End, KernelCaches, LayerError, Place, PlaceInfo, Storage, Undo, Wire, mounts,
    served,
};
use layermark_model::{CpuTime, DroppedCaches, Facts, Spec};
use layermark_probe::motion::{Motion, Who};

use crate::{Catalog, execute::layer_failure::LayerFailure};

/// Interval of checks whether a call makes progress.
const TICK: Duration = Duration::from_millis(500);

/// Whether a layer waits for a server that layermark has not started.
pub(crate) fn is_needed(place: &dyn Place, facts: &Facts) -> bool {
    place.info().on_this_host && place.info().helpers.is_empty() && has_server(facts)
}

/// Whether a layer works in a directory that another machine or process serves. Checked before the
/// layer is built, in a thread that can be abandoned.
pub(crate) fn is_on_a_server(
    spec: &Spec,
    catalog: Catalog,
    silence: Duration,
) -> Result<bool, LayerFailure> {
    let layer = catalog.describe(spec);
    let Some(Storage::Directory(dir)) = layer.map(|layer| layer.storage) else {
        return Ok(false);
    };
    let there = dir.clone();
    let silence = served::patience(silence);
    let worker = start(silence)?;
    let answer = worker.call(move |_| served::has_server(&there));
    answer.ok_or_else(|| {
        LayerFailure::new(format!("{} did not answer for {silence:?}", dir.display()))
    })
}

fn start(silence: Duration) -> Result<Worker, LayerFailure> {
    Worker::start(silence).map_err(|e| LayerFailure::new(format!("it cannot have a thread: {e}")))
}

/// Whether a layer is served by another machine or process.
pub(crate) fn has_server(facts: &Facts) -> bool {
    facts.mounts.iter().any(|m| served::is_served(&m.fs))
}

/// A layer and its undo steps, as the thread sees them.
#[derive(Default)]
struct Held {
    place: Option<Box<dyn Place>>,
    undo: Undo,
}

type Call = Box<dyn FnOnce(&mut Held) + Send>;

/// A thread that makes the calls. It can be abandoned with everything it holds.
struct Worker {
    calls: Sender<Call>,
    thread: i32,
    silence: Duration,
    /// Set while a call has not returned.
    hangs: Arc<AtomicBool>,
}

impl Worker {
    fn start(silence: Duration) -> std::io::Result<Self> {
        let (calls, made) = mpsc::channel::<Call>();
        let (tell, told) = mpsc::channel();
        let hangs = Arc::new(AtomicBool::new(false));
        let given_up = Arc::clone(&hangs);
        thread::Builder::new()
            .name("remote layer".into())
            .spawn(move || {
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
                let mut held = Held::default();
                while let Ok(call) = made.recv() {
                    call(&mut held);
                }
                if given_up.load(Ordering::Relaxed) {
                    held.undo.leave();
                }
            })?;
        Ok(Self {
            calls,
            thread: told.recv().map_err(std::io::Error::other)?,
            silence,
            hangs,
        })
    }

    /// Makes a call and waits for it while it makes progress. `None` when this call or an earlier
    /// one made no progress for too long.
    fn call<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Held) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = mpsc::channel();
        let call = Box::new(move |held: &mut Held| drop(tell.send(what(held))));
        if self.hangs.load(Ordering::Relaxed) || self.calls.send(call).is_err() {
            return None;
        }
        let tick = TICK.min(self.silence / 4);
        let mut quiet = Duration::ZERO;
        let mut motion: Option<Motion> = None;
        while quiet < self.silence {
            match told.recv_timeout(tick) {
                Ok(outcome) => return Some(outcome),
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
        served::give_up();
        None
    }

    /// Undoes the layer.
    fn undo(&self) -> std::io::Result<()> {
        let undone = self.call(|held| {
            held.place = None;
            // Each failed step is reported separately.
            held.undo.run();
        });
        undone.ok_or_else(|| {
            std::io::Error::other("it does not answer: what is there is removed when it does")
        })
    }
}

/// The layer as the rest of the lab sees it.
#[derive(Clone)]
pub(crate) struct RemoteLayer {
    layer: String,
    info: PlaceInfo,
    /// Number of its file system.
    device: Option<u64>,
    worker: Arc<Worker>,
}

impl RemoteLayer {
    /// Builds a layer in a separate thread, since its server may have died after it was built the
    /// last time. A call may make no progress for `silence`. The undo step is added to `undo`.
    pub(crate) fn open(
        layer: String,
        build: impl FnOnce(&mut Undo) -> Result<Box<dyn Place>, LayerFailure> + Send + 'static,
        undo: &mut Undo,
        silence: Duration,
    ) -> Result<Self, LayerFailure> {
        let worker = Arc::new(start(silence)?);
        let undoing = Arc::clone(&worker);
        undo.push(format!("set up {layer}"), move || undoing.undo());
        let seen = worker.call(|held| {
            let place = build(&mut held.undo)?;
            let info = place.info().clone();
            let ground = info.seen_at.as_deref().and_then(mounts::ground);
            let seen = (info, ground.map(|(device, _)| device));
            held.place = Some(place);
            Ok::<_, LayerFailure>(seen)
        });
        let silent = || {
            LayerFailure::new(format!(
                "it did not answer for {silence:?} while it was set up"
            ))
        };
        let (info, device) = seen.ok_or_else(silent)??;
        Ok(Self {
            layer,
            info,
            device,
            worker,
        })
    }

    fn asked<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut dyn Place) -> Result<T, LayerError> + Send + 'static,
    ) -> Result<T, LayerError> {
        let call = move |held: &mut Held| Some(what(held.place.as_mut()?.as_mut()));
        let outcome = self.worker.call(call).flatten();
        outcome.unwrap_or_else(|| {
            served::lose(&self.info.dir, self.device);
            Err(LayerError::Silent {
                layer: self.layer.clone(),
                path: self.info.dir.clone(),
                after: self.worker.silence,
            })
        })
    }
}

impl Place for RemoteLayer {
    fn info(&self) -> &PlaceInfo {
        &self.info
    }

    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        self.asked(move |place| place.start(end))
    }

    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        self.asked(|place| place.link())
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        self.asked(|place| place.facts())
    }

    fn backing_extents(&self, files: &[PathBuf]) -> Vec<BackingExtents> {
        let files = files.to_vec();
        self.asked(move |place| Ok(place.backing_extents(&files)))
            .unwrap_or_default()
    }

    fn keeps_time(&mut self) -> Result<(), LayerError> {
        self.asked(|place| place.keeps_time())
    }

    fn drop_caches(&mut self, kernel: KernelCaches) -> Result<DroppedCaches, LayerError> {
        self.asked(move |place| place.drop_caches(kernel))
    }

    fn refresh(&mut self, names: &[String]) -> Result<(), LayerError> {
        let names = names.to_vec();
        self.asked(move |place| place.refresh(&names))
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        self.asked(|place| place.helper_cpu())
    }
}

/// Looks at the directory of a layer, by its thread if its server may not answer.
#[derive(Default)]
pub(crate) struct Looks(Option<RemoteLayer>);

impl Looks {
    /// From now on, the thread of this layer looks at it.
    pub(crate) fn apart(&mut self, layer: RemoteLayer) -> Box<dyn Place> {
        self.0 = Some(layer.clone());
        Box::new(layer)
    }

    /// What is seen of `dir`; `None` if it does not answer.
    fn at<T: Send + 'static>(&self, dir: &Path, look: fn(&Path) -> Option<T>) -> Option<T> {
        let Some(layer) = &self.0 else {
            return look(dir);
        };
        let dir = dir.to_owned();
        layer.asked(move |_| Ok(look(&dir))).ok().flatten()
    }

    /// Device number and type of the file system in which the probe works; `None` if this host cannot see it.
    pub(crate) fn ground(&self, info: &PlaceInfo) -> Option<(u64, i64)> {
        self.at(info.seen_at.as_deref()?, mounts::ground)
    }

    /// Id of the mount on which the probe works; `None` if this host has none there.
    pub(crate) fn mount_number(&self, info: &PlaceInfo) -> Option<u64> {
        let dir = info.on_this_host.then_some(&info.dir)?;
        self.at(dir, mounts::number)
    }

    /// The probe's directory without symbolic links, if this host can see it.
    pub(crate) fn real_dir(&self, info: &PlaceInfo) -> Option<PathBuf> {
        if info.on_this_host {
            self.at(&info.dir, |dir| std::fs::canonicalize(dir).ok())
        } else {
            Some(info.dir.clone())
        }
    }
}
