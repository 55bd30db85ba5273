//! One layer that is up: it is built and proved, and its probe is ready.

mod proof;

use std::{mem, net::IpAddr, path::Path, time::Duration};

pub(crate) use layermark_layers::End;
use layermark_layers::{
    Base, Kernel, LayerError, Place, PlaceInfo, Undo, cpu_ns, served, spread, tell,
};
use layermark_model::{CpuTime, DELAY_UNKNOWN, Facts, Limited, NearEnd, SelfTest, Spec};

use layermark_probe::motion;
use layermark_sys::{cgroup::Throttles, fuse_servers, process::Schedstat};
use rustix::fs::{major, minor};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Catalog, Stop,
    ends::Ends,
    execute::{
        layer_failure::LayerFailure,
        limits, path,
        probe_client::ProbeClient,
        remote_layer::{self, Looks, RemoteLayer},
        watch::Watch,
    },
};

use proof::proof;
pub(crate) use proof::start;

/// How long a file system may take to report that its server has ended.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The near end of work with two ends.
struct Near {
    probe: ProbeClient,
    /// Directory in which it works.
    dir: String,
    /// Address of the far end.
    far: IpAddr,
}

/// A layer that is up. The fields are dropped in their order: probe, place, then the undo steps.
pub(crate) struct RunningLayer {
    pub probe: ProbeClient,
    near: Option<Near>,
    pub place: Box<dyn Place>,
    undo: Undo,
    looks: Looks,
    pub facts: Facts,
    /// It depends on a server that layermark has not started: see [`RemoteLayer`].
    pub remote: bool,
    pub self_test: SelfTest,
    /// Counters of the CPU quotas of its probe and helpers.
    pub throttles: Throttles,
    silence: Duration,
    /// Device number and type of the file system that the probe works on; `None` when this host
    /// cannot see it.
    ground: Option<(u64, i64)>,
}

impl RunningLayer {
    /// Sets a layer up in the directory of `base`, which it creates, and waits for its probes. A
    /// layer that `was_remote` the last time is built in a separate thread from the start.
    pub(crate) fn open(
        (spec, network): (&Spec, String),
        (base, catalog): (&Base, Catalog),
        (two_ends, was_remote): (bool, bool),
        silence: Duration,
        stop: &Stop,
        watch: &Watch,
    ) -> Result<Self, LayerFailure> {
        let build = {
            let (spec, base) = (spec.clone(), base.clone());
            move |undo: &mut Undo| {
                let layers = Ends::of(&spec, two_ends, &network, catalog)?;
                spread::create(&base.dir)
                    .map_err(|e| LayerFailure::new(format!("{}: {e}", base.dir.display())))?;
                layers.open(&base, undo, catalog)
            }
        };
        let mut undo = Undo::new();
        let was_remote = was_remote || remote_layer::is_on_a_server(spec, catalog, silence)?;
        let mut looks = Looks::default();
        let mut place: Box<dyn Place> = if was_remote {
            looks.apart(RemoteLayer::open(
                spec.to_string(),
                build,
                &mut undo,
                silence,
            )?)
        } else {
            build(&mut undo)?
        };
        let watching = watch.over(&place.info().helpers);
        let addresses = two_ends.then(|| place.link()).transpose()?;
        let mut facts = watching.judge(proof(place.as_ref(), &looks))?;
        let remote = remote_layer::is_needed(place.as_ref(), &facts);
        if remote && !was_remote {
            let until_now = mem::take(&mut undo);
            let keep = move |undo: &mut Undo| {
                *undo = until_now;
                Ok(place)
            };
            place = looks.apart(RemoteLayer::open(
                spec.to_string(),
                keep,
                &mut undo,
                silence,
            )?);
        }
        let started = start(place.start(End::Far), silence, stop);
        let (probe, self_test) = watching.judge(started)?;
        if self_test.delay_ns.is_none() {
            let (name, text) = DELAY_UNKNOWN;
            facts.notes.insert(name.into(), text.into());
        }
        let near = addresses.map(|[_, far]| {
            let dir = match &place.info().near {
                Some(near) => near.dir.clone(),
                None => path::other_dir(&base.dir)?,
            };
            let started = start(place.start(End::Near), silence, stop);
            let started = watching.judge(started).map_err(|lost| lost.at("near end"));
            Ok::<_, LayerFailure>(Near {
                probe: started?.0,
                dir: dir.to_string_lossy().into_owned(),
                far,
            })
        });
        let near = near.transpose()?;
        let ground = looks.ground(place.info());
        let servers = servers(place.info(), &facts, ground);
        let (mut limits, throttles) = limits::of(probe.pid(), &servers, &facts.devices);
        limits::add_quota(&mut limits, self_test.cpu_quota);
        facts.limits = limits;
        Ok(Self {
            probe,
            near,
            place,
            undo,
            looks,
            facts,
            remote,
            self_test,
            throttles,
            silence,
            ground,
        })
    }

    /// The lowest devices of the layer. Counters of stacked devices would count bytes twice.
    pub(crate) fn physical(&self) -> Vec<String> {
        let lowest = self.facts.devices.iter().filter(|d| d.physical);
        lowest.map(|d| d.number.clone()).collect()
    }

    /// The layer's own devices, which no other program uses.
    pub(crate) fn own_devices(&self) -> Vec<String> {
        let own = self.facts.devices.iter().filter(|d| d.own);
        own.map(|d| d.number.clone()).collect()
    }

    /// The probe at an end, and the one at the other end, if there is one.
    pub(crate) fn probes(&mut self, end: End) -> (&mut ProbeClient, Option<&mut ProbeClient>) {
        match (end, &mut self.near) {
            (End::Near, Some(near)) => (&mut near.probe, Some(&mut self.probe)),
            (_, near) => (&mut self.probe, near.as_mut().map(|near| &mut near.probe)),
        }
    }

    /// Directory of the probe at an end. `None`: the near end is to be on the other side of the layer's
    /// directory, and this host has none.
    pub(crate) fn dir(&self, end: End, near: NearEnd) -> Option<String> {
        let path = |dir: &Path| dir.to_string_lossy().into_owned();
        match (end, &self.near) {
            (End::Near, _) if near.is_other_side() => self.info().other_side.as_deref().map(path),
            (End::Near, Some(near)) => Some(near.dir.clone()),
            _ => Some(path(&self.info().dir)),
        }
    }

    /// What it is.
    pub(crate) fn info(&self) -> &PlaceInfo {
        self.place.info()
    }

    /// Whether a process serves it, on this host or elsewhere.
    pub(crate) fn is_served(&self) -> bool {
        !self.info().helpers.is_empty() || remote_layer::has_server(&self.facts)
    }

    /// Whether nothing but this host's kernel serves its probe. What that waits for a CPU is then no part of the
    /// layer's cost.
    pub(crate) fn has_only_this_kernel(&self) -> bool {
        self.info().kernel == Kernel::OfHost && !self.is_served()
    }

    /// Whether its probe or a helper has a quota of CPU time.
    pub(crate) fn has_cpu_quota(&self) -> bool {
        self.facts.limits.iter().any(|l| l.of == Limited::Cpu)
    }

    /// How long threads of the processes that serve it have waited for a CPU since they started, ns, over all
    /// threads. `None` if there are none, or the kernel does not count it.
    pub(crate) fn helpers_waited_ns(&self) -> Option<u64> {
        let each = self.info().helpers.iter().copied();
        let each = each.filter_map(Schedstat::of_threads);
        let each = each.filter(Schedstat::is_counted).map(|s| s.wait_ns);
        each.reduce(|a, b| a + b)
    }

    /// The address at which the far end listens.
    pub(crate) fn far_address(&self) -> Option<IpAddr> {
        self.near.as_ref().map(|near| near.far)
    }

    /// CPU time of the layer's helpers. For the near end, the far end and the servers it has
    /// started count as well, since they serve the work.
    pub(crate) fn upkeep(&self, of: End) -> Result<CpuTime, LayerError> {
        let mut time = self.place.helper_cpu()?;
        if of == End::Near && self.info().on_this_host {
            // It may have ended; its next use will detect that.
            time.ns += self.probe.pid().map_or(0, |pid| {
                cpu_ns(pid).unwrap_or(0) + motion::descendants_cpu_ns(pid)
            });
        }
        Ok(time)
    }

    /// Asks its probes to end.
    pub(crate) fn quit(&mut self) {
        if let Some(near) = &mut self.near {
            near.probe.quit();
        }
        self.probe.quit();
    }

    /// Ends its probes. Returns whether they have ended.
    pub(crate) fn end_probes(&mut self) -> bool {
        let near = self.near.as_mut().is_none_or(|near| near.probe.end());
        let ended = self.probe.end() && near;
        if !ended {
            self.lose();
        }
        ended
    }

    /// Ends its probes because one has failed. If a server of others does not answer either, other layers
    /// on it would fail in the same way, and each would be waited for.
    pub(crate) fn end_failed(&mut self) {
        if self.end_probes() && self.remote && !self.answers(LAST_WORD) {
            self.lose();
        }
    }

    /// Records that its directory does not answer. If no process of ours serves it, others below the
    /// same server are not waited for.
    fn lose(&self) {
        let info = self.info();
        if info.on_this_host && info.helpers.is_empty() {
            let device = self.ground.filter(|_| self.remote);
            served::lose(&info.dir, device.map(|(number, _)| number));
        }
    }

    /// Why it is known not to answer, without asking it: others on the same server did not.
    pub(crate) fn is_lost(&self) -> Option<&'static str> {
        if served::is_lost() {
            return Some("the directory that the run works in does not answer");
        }
        let lost = |(device, _)| served::has_lost(device);
        let lost = self.ground.is_some_and(lost);
        lost.then_some("its server has not answered another layer")
    }

    /// Restarts the probe after it failed.
    pub(crate) fn restart(&mut self, stop: &Stop) -> Result<(), LayerFailure> {
        // Two probes at once would work on the same files.
        if !self.end_probes() {
            return Err(LayerFailure::new(
                "its probe cannot be ended: it waits in the kernel, or its agent or server is stopped",
            ));
        }
        if self.is_lost().is_some() || !self.answers(LAST_WORD) {
            self.lose();
            let dir = self.info().dir.display();
            return Err(LayerFailure::new(format!("{dir} does not answer either")));
        }
        let (probe, self_test) = start(self.place.start(End::Far), self.silence, stop)?;
        self.probe = probe;
        self.self_test = self_test;
        if let Some(near) = &mut self.near {
            let started = start(self.place.start(End::Near), self.silence, stop);
            near.probe = started.map_err(|lost| lost.at("near end"))?.0;
        }
        Ok(())
    }

    /// Whether its file system answers within `limit`, where this host can see it.
    fn answers(&self, limit: Duration) -> bool {
        !self.info().on_this_host || served::answers(&self.info().dir, limit)
    }

    /// Whether it can be torn down; a directory of the disk below cannot.
    pub(crate) fn is_set_up(&self, base: &Path) -> bool {
        let below = |m: &layermark_model::Mount| m.at.starts_with(base);
        !self.info().on_this_host || self.facts.mounts.first().is_some_and(below)
    }

    /// Id of the mount that the probe works on; `None` when this host cannot see it.
    pub(crate) fn mount_number(&self) -> Option<u64> {
        self.looks.mount_number(self.info())
    }

    /// Restores packaged files with these names, for which a layer may mount itself again.
    pub(crate) fn refresh(&mut self, names: &[String]) -> Result<(), LayerFailure> {
        self.place.refresh(names)?;
        let now = self.looks.ground(self.info());
        if now != self.ground {
            self.still_there()?;
            self.ground = now;
        }
        Ok(())
    }

    /// A check after each trial that takes some microseconds: whether the directory is still on the
    /// same file system. If not, the full proof finds the reason.
    pub(crate) fn check_mount(&self) -> Result<(), LayerFailure> {
        if self.looks.ground(self.info()) == self.ground {
            return Ok(());
        }
        self.still_there()?;
        Err(self.changed())
    }

    fn changed(&self) -> LayerFailure {
        LayerFailure::new(format!(
            "what is mounted at {} has changed while it was measured",
            self.info().dir.display()
        ))
    }

    /// Checks that the measured layer is still the one that was set up.
    pub(crate) fn still_there(&self) -> Result<(), LayerFailure> {
        let now = proof(self.place.as_ref(), &self.looks)?;
        let top = |facts: &Facts| {
            facts
                .mounts
                .first()
                .map(|m| (m.at.clone(), m.fs.clone(), m.source.clone()))
        };
        if top(&now) != top(&self.facts) {
            return Err(self.changed());
        }
        Ok(())
    }
}

impl Drop for RunningLayer {
    /// A layer that does not answer is abandoned, so that its undo steps cannot block for ever.
    fn drop(&mut self) {
        // What the probe waits for must be ended too, if possible.
        let ended = self.end_probes();
        let limit = if self.remote {
            // The server of another may have been waited for already.
            served::patience(self.silence)
        } else {
            self.silence
        };
        // What a probe waits for in vain is not waited for by others.
        let may_answer = ended || !self.info().on_this_host;
        if may_answer && self.is_lost().is_none() && self.answers(limit) {
            return;
        }
        let helpers = self.info().helpers.clone();
        end_all(&helpers);
        if helpers.is_empty() || self.is_lost().is_some() || !self.answers(LAST_WORD) {
            // A server that does not even end waits for the directory of the run.
            served::lose(&self.info().dir, None);
            let dir = self.info().dir.display();
            tell(format!(
                "{dir} does not answer: what is there is removed when it does"
            ));
            self.undo.leave();
        }
    }
}

/// Processes on this host whose limits of CPU time and transfers hold for the layer: its helpers, or the server that
/// somebody else has started for a file system in user space.
fn servers(info: &PlaceInfo, facts: &Facts, ground: Option<(u64, i64)>) -> Vec<u32> {
    let is_fuse = info.on_this_host && facts.is_fuse();
    if !info.helpers.is_empty() || !is_fuse {
        return info.helpers.clone();
    }
    // The number of a connection is that of its device, without a major number (fs/fuse/inode.c).
    let device = ground.map(|(device, _)| device);
    let connection = device.filter(|device| major(*device) == 0);
    connection.map_or_else(Vec::new, |device| fuse_servers::of(minor(device).into()))
}

/// Ends processes that serve a layer.
fn end_all(helpers: &[u32]) {
    for pid in helpers {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
