//! A layer inside a running guest.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use layermark_model::{CpuTime, DroppedCaches, Facts, GuestFacts};

use crate::{
    BackingExtents, Base, End, Kernel, KernelCaches, LayerError, Place, PlaceInfo, Wire,
    agent::{
        client::{AgentClient, AgentError},
        files,
        protocol::{AT, AgentReply, AgentRequest, Mounting},
    },
    host::{HostPlace, start_probe},
    net::{card_facts::CardFacts, relay::Relay},
    process_tree::{GuestWork, ProcessTree},
    vm::{
        boot::{Accel, Guest},
        clock::{self, Reading},
        net::{self, Network},
    },
};

/// Time limit for writing back and for receiving packaged files, as long as the guest's processes work. They
/// may be idle for `--silence`.
const SLOW: Duration = Duration::from_mins(5);
/// Time limit for its network card to appear and to detect a link, unless `--silence` is shorter.
const CABLED: Duration = Duration::from_mins(1);
/// Time limit of other requests, unless `--silence` is shorter.
const QUICK: Duration = Duration::from_secs(30);
/// Minimum of these limits: an emulated CPU is slow on a busy machine.
const FLOOR: Duration = Duration::from_secs(10);

/// A layer inside a guest.
pub(crate) struct VmPlace {
    layer: String,
    info: PlaceInfo,
    /// Path of the probe's program.
    exe: String,
    exe_path: PathBuf,
    guest: Mutex<Guest>,
    agent: Arc<AgentClient>,
    /// The network of its card; dropped after the guest.
    network: Option<Network>,
    /// What makes the server of its files distant; dropped after the guest.
    relay: Option<Relay>,
    /// The layer's files on this host: its image.
    host: HostPlace,
    /// How the guest mounts it.
    mounting: Option<Mounting>,
    /// The packaged files on this host.
    master: PathBuf,
    /// Whether the guest works in a directory of this host.
    shared: bool,
    /// Whether the guest drops its caches of that directory only when it mounts it again.
    sticky: bool,
    /// The processes that serve the guest's devices.
    process_tree: Mutex<ProcessTree>,
    /// Longest the guest may be silent.
    silence: Duration,
    /// Time limit of requests that should be quick.
    quick: Duration,
    started: Instant,
    /// Both clocks when the layer was set up, and at the latest check.
    clocks: Option<[Reading; 2]>,
}

impl VmPlace {
    pub(crate) fn new(guest: Guest, host: HostPlace, base: &Base) -> Self {
        let name = base.exe.file_name().unwrap_or_default();
        Self {
            layer: host.layer.clone(),
            info: PlaceInfo {
                kernel: Kernel::Started,
                helpers: host.info().helpers.clone(),
                ..PlaceInfo::elsewhere(AT.into())
            },
            exe: name.to_string_lossy().into_owned(),
            exe_path: base.exe.clone(),
            agent: guest.agent.clone(),
            process_tree: Mutex::new(ProcessTree::of(guest.server())),
            guest: Mutex::new(guest),
            host,
            network: None,
            relay: None,
            mounting: None,
            master: base.packaged.clone(),
            silence: base.silence.max(FLOOR),
            quick: QUICK.min(base.silence.max(FLOOR)),
            shared: false,
            sticky: false,
            started: Instant::now(),
            clocks: None,
        }
    }

    /// Marks the files as being on this host. With `sticky` the guest drops its caches of them only
    /// when it mounts them again.
    pub(crate) fn shared(mut self, sticky: bool) -> Self {
        (self.shared, self.sticky) = (true, sticky);
        self.info.other_side = Some(self.host.info().dir.clone());
        self
    }

    /// Keeps the relay through which the guest reaches the server of its files.
    pub(crate) fn relayed(&mut self, relay: Relay) {
        self.relay = Some(relay);
    }

    /// Reads both clocks, with the fastest of a few requests.
    fn read_clocks(&self) -> Result<Reading, LayerError> {
        const QUESTIONS: usize = 5;
        let mut best: Option<Reading> = None;
        for _ in 0..QUESTIONS {
            let before = self.started.elapsed();
            let answer = self.agent.ask(&AgentRequest::Time, self.quick);
            let took = self.started.elapsed().saturating_sub(before);
            let AgentReply::Time { ns } = answer.map_err(self.broken("tell the time"))? else {
                return Err(self.broken("tell the time")(AgentError::OutOfTurn));
            };
            let reading = Reading {
                host: before + took / 2,
                guest: Duration::from_nanos(ns),
                took,
            };
            if best.is_none_or(|b| took < b.took) {
                best = Some(reading);
            }
        }
        best.ok_or_else(|| self.broken("tell the time")(AgentError::OutOfTurn))
    }

    /// Asks for what may take long, as long as QEMU and what serves its devices work.
    fn ask_long(&self, ask: &AgentRequest) -> Result<AgentReply, AgentError> {
        let pids = {
            let guest = self.lock();
            [guest.pid(), guest.server()]
        };
        let mut work = GuestWork::of(pids.into_iter().flatten());
        self.agent
            .ask_long(ask, (self.silence, SLOW), || work.is_seen())
    }

    fn lock(&self) -> MutexGuard<'_, Guest> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, what: &str) -> impl FnOnce(AgentError) -> LayerError {
        move |why| {
            let mut guest = self.lock();
            guest.error(&self.layer, what, &why)
        }
    }

    /// Connects the guest's network card, and checks which addresses it reaches.
    pub(crate) fn connect(&mut self, network: Network) -> Result<(), LayerError> {
        let (agent, qemu, quick) = (self.agent.clone(), self.lock().pid(), self.quick);
        // Stored before anything can fail, because it must be dropped after the guest.
        let network = self.network.insert(network);
        let address = network.guest();
        self.info.address = Some(address.into());
        let on = agent.order(&AgentRequest::Network { address }, CABLED.min(self.silence));
        let proved = on
            .map_err(|why| ("switch its network card on", why))
            .and_then(|()| {
                network
                    .check_vhost(qemu)
                    .and_then(|()| network.prove(|ask| agent.order(ask, quick)))
                    .map_err(|why| ("reach its network", why))
            });
        proved.map_err(|(what, why)| self.broken(what)(why))
    }

    /// Facts about the network. Its card must be the requested one.
    fn network_facts(
        &self,
        card: Option<CardFacts>,
    ) -> Result<impl Iterator<Item = (String, String)> + use<>, LayerError> {
        let notes = match (&self.network, card) {
            (None, _) => Vec::new(),
            (Some(network), Some(card)) if network.is_at(&card) => network.notes(&card),
            (Some(network), card) => {
                let why = format!("it has {card:?} for {}", network.card.name);
                return Err(self.broken("keep its network card")(AgentError::Failed(
                    why,
                )));
            }
        };
        let near = self.network.as_ref().map(Network::near_notes).transpose();
        let near = near.map_err(LayerError::io(
            &self.layer,
            "inspect the network of",
            Path::new(AT),
        ))?;
        let notes = notes.into_iter().map(|(name, v)| (name.to_owned(), v));
        Ok(notes.chain(near.unwrap_or_default()))
    }

    /// Makes a tree of files the root file system of the probe.
    pub(crate) fn enter(&self, from: Option<Mounting>) -> Result<(), LayerError> {
        self.agent
            .order(&AgentRequest::Rootfs(from), self.quick)
            .map_err(self.broken("take the root it was given"))
    }

    /// Mounts the layer in the guest.
    pub(crate) fn mount(&mut self, what: Mounting) -> Result<(), LayerError> {
        self.mounting = Some(what.clone());
        self.agent
            .order(&AgentRequest::Mount(what), self.quick)
            .map_err(self.broken("mount the layer"))
    }

    /// Copies the packaged files into the guest.
    pub(crate) fn package(&mut self) -> Result<(), LayerError> {
        let paths = files::list(&self.master);
        let paths = paths.map_err(LayerError::io(&self.layer, "read", &self.master))?;
        self.put(&paths)
    }

    fn put(&self, paths: &[String]) -> Result<(), LayerError> {
        for name in paths {
            let path = self.master.join(name);
            files::send(&self.agent, name, &path).map_err(LayerError::io(
                &self.layer,
                "bring into the guest",
                &path,
            ))?;
        }
        match self.ask_long(&AgentRequest::Seal) {
            Ok(AgentReply::Done) => Ok(()),
            Ok(_) => Err(AgentError::OutOfTurn),
            Err(why) => Err(why),
        }
        .map_err(self.broken("take in the packaged files"))
    }
}

impl Place for VmPlace {
    fn info(&self) -> &PlaceInfo {
        &self.info
    }

    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        if end == End::Near {
            let network = self.network.as_ref();
            return start_probe(&self.layer, &self.exe_path, |command| {
                network.inspect(|network| network.enter(command));
            });
        }
        self.facts()?;
        self.agent
            .start(self.exe.clone(), self.quick)
            .map_err(self.broken("start the probe"))
    }

    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        let addresses = self.network.as_ref().and_then(Network::linked);
        let addresses = addresses.ok_or_else(|| net::UNREACHABLE.error(&self.layer))?;
        Ok(addresses.map(IpAddr::V4))
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        let answer = self.agent.ask(&AgentRequest::Facts, self.quick);
        let (inside, clock, card) = match answer.map_err(self.broken("tell its facts"))? {
            AgentReply::Facts { facts, clock, card } => (*facts, clock, card),
            _ => return Err(self.broken("tell its facts")(AgentError::OutOfTurn)),
        };
        let top = inside.mounts.first().cloned().unwrap_or_default();
        let expected = self.mounting.as_ref().map_or("nothing", |m| &m.fs);
        if top.at != Path::new(AT) || top.fs != expected {
            return Err(LayerError::NotMounted {
                layer: self.layer.clone(),
                path: AT.into(),
                expected: expected.into(),
                found: format!("on {} mounted at {}", top.fs, top.at.display()),
            });
        }
        let mut facts = self.host.facts()?;
        let network = self.network_facts(card)?;
        facts.notes.extend(network);
        facts.mounts = inside.mounts.into_iter().chain(facts.mounts).collect();
        let guest = self.lock();
        facts.guest = Some(GuestFacts {
            kernel: guest.kernel.clone(),
            accelerator: guest.accel.name().into(),
            emulated_cpu: guest.accel == Accel::Tcg,
            clock,
            devices: inside.devices,
        });
        Ok(facts)
    }

    fn backing_extents(&self, files: &[PathBuf]) -> Vec<BackingExtents> {
        Place::backing_extents(&self.host, files)
    }

    fn keeps_time(&mut self) -> Result<(), LayerError> {
        let now = self.read_clocks()?;
        let Some([first, last]) = self.clocks else {
            self.clocks = Some([now; 2]);
            return Ok(());
        };
        self.clocks = Some([first, now]);
        for from in [first, last] {
            let drift = clock::drift(from, now);
            if drift.abs() > clock::LIMIT {
                return Err(LayerError::Clock {
                    layer: self.layer.clone(),
                    percent: drift * 100.0,
                    over: now.host.saturating_sub(from.host),
                });
            }
        }
        Ok(())
    }

    fn drop_caches(&mut self, kernel: KernelCaches) -> Result<DroppedCaches, LayerError> {
        let answer = self.ask_long(&AgentRequest::DropCaches);
        let answer = answer.map_err(self.broken("drop its caches"))?;
        let AgentReply::DroppedCaches(mut cooled) = answer else {
            return Err(self.broken("drop its caches")(AgentError::OutOfTurn));
        };
        // Data that the guest wrote back is in this host's cache.
        let host = self.host.drop_caches(kernel)?;
        cooled.how.extend(host.how);
        cooled.complete &= host.complete;
        Ok(cooled)
    }

    fn refresh(&mut self, names: &[String]) -> Result<(), LayerError> {
        if self.shared {
            self.host.refresh(names)?;
            // The guest's cached data of them is out of date.
            let answer = self.ask_long(&AgentRequest::DropCaches);
            answer.map_err(self.broken("drop its caches"))?;
            return match self.mounting.clone().filter(|_| self.sticky) {
                Some(again) => self.mount(again),
                None => Ok(()),
            };
        }
        let answer = self.ask_long(&AgentRequest::Changed);
        match answer.map_err(self.broken("check its packaged files"))? {
            AgentReply::Changed { paths } => self.put(&paths),
            _ => Err(self.broken("check its packaged files")(
                AgentError::OutOfTurn,
            )),
        }
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        let mut process_tree = self
            .process_tree
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let host = self.host.helper_cpu()?;
        let network = self.network.as_ref().map_or(0, Network::cpu_ns);
        Ok(CpuTime {
            ns: host.ns + process_tree.cpu_ns() + network,
            within_ns: host.within_ns + network,
        })
    }
}

/// The private directory for QEMU, next to the layer's other files.
pub(crate) const DIR: &str = "vm";
