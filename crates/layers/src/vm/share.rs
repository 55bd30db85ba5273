//! A directory of this host that is shared with a guest. Each protocol has its own file and a line
//! here.

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{FRESHER, Missing, Spec};

use crate::{
    Control, LayerError,
    agent::protocol::Mounting,
    child::Process,
    net::relay::{Distance, Relay},
    options::{bad, given},
    vm::{disk, net::Network, options::VmOptions},
};

mod nfs;
mod plan9;
mod smb;
mod virtiofs;

const PROTOCOLS: [&dyn ShareProtocol; 4] =
    [&virtiofs::Virtiofs, &plan9::Plan9, &nfs::Nfs, &smb::Smb];

/// Shared directory, next to the private directory in which QEMU runs.
pub(crate) const DIR: &str = "share";
/// The name by which the guest mounts it.
const TAG: &str = "layer";

/// A protocol for sharing.
trait ShareProtocol: Sync {
    /// Value of the option `share`.
    fn name(&self) -> &'static str;
    /// Modules of the guest.
    fn modules(&self) -> &'static [&'static str];
    /// Values of the option `cache`; `auto` means the first one.
    fn caches(&self) -> &'static [&'static str];
    /// What this host lacks.
    fn missing(&self) -> Vec<Missing>;
    /// Port of its server on the guest's network. `None`: the share has a device.
    fn port(&self) -> Option<u16> {
        None
    }
    /// QEMU's arguments for a guest with this many MiB.
    fn devices(&self, _memory: u64) -> Vec<String> {
        Vec::new()
    }
    /// Starts its server, if it has one.
    fn serve(&self, at: &Serve<'_>) -> Result<Option<Process>, LayerError>;
    /// How the guest mounts it; over a network from this port.
    fn mounting(&self, cache: &str, port: u16) -> Mounting;
    /// Name of the server, and the command that prints its version.
    fn server(&self) -> Option<(&'static str, Command)> {
        None
    }
    /// Whether the guest drops its caches of the files only when it mounts the share again.
    fn sticky(&self) -> bool {
        false
    }
}

/// The guest for which a server is started.
struct Serve<'a> {
    layer: &'a str,
    /// The private directory of the guest; the shared one is next to it.
    dir: &'a Path,
    cache: &'a str,
    network: Option<&'a Network>,
    /// Longest it may take to start.
    limit: Duration,
}

impl Serve<'_> {
    /// Waits until the server is ready.
    fn until(
        &self,
        name: &str,
        mut server: Process,
        ready: impl Fn(&Process) -> bool,
    ) -> Result<Option<Process>, LayerError> {
        let started = Instant::now();
        while !ready(&server) {
            if let Some(status) = server.wait(Duration::from_millis(2)) {
                return Err(LayerError::Program {
                    layer: self.layer.into(),
                    program: name.into(),
                    status,
                    tail: server.tail(),
                });
            }
            if started.elapsed() > self.limit {
                return Err(LayerError::Slow {
                    layer: self.layer.into(),
                    what: name.into(),
                    after: self.limit,
                    tail: server.tail(),
                });
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(Some(server))
    }
}

/// A shared directory as the user described it.
pub(crate) struct Share<'a> {
    spec: &'a Spec,
    options: &'a VmOptions,
    kind: &'static dyn ShareProtocol,
}

impl<'a> Share<'a> {
    /// `None`: the guest has a disk.
    pub(super) fn of(spec: &'a Spec, options: &'a VmOptions) -> Option<Self> {
        let kind = *PROTOCOLS.iter().find(|k| k.name() == options.share)?;
        Some(Self {
            spec,
            options,
            kind,
        })
    }

    fn cache(&self) -> &'a str {
        match &*self.options.cache {
            "auto" => self.kind.caches()[0],
            cache => cache,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LayerError> {
        if let Some((option, given)) = given(self.spec, &VmOptions::ROWS, disk::ONLY) {
            let must = "is for disks, and this is a shared folder".into();
            return Err(bad(self.spec, option, given, must));
        }
        self.distance()?;
        let cache = self.cache();
        if self.kind.caches().contains(&cache) {
            return Ok(());
        }
        let known = self.kind.caches().join(", ");
        let must = format!("is not one of {known} for {}", self.kind.name());
        Err(bad(self.spec, "cache", cache, must))
    }

    fn distance(&self) -> Result<Option<Distance>, LayerError> {
        Distance::of(self.spec, &self.options.delay, &self.options.rate)
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        self.kind.missing()
    }

    /// Modules that the guest needs.
    pub(crate) fn modules(&self) -> Vec<&'static str> {
        self.kind.modules().to_vec()
    }

    /// Whether the guest reaches it over a network.
    pub(crate) fn networked(&self) -> bool {
        self.kind.port().is_some()
    }

    /// Starts a relay between the guest and its server, if the user wants the server to be distant.
    pub(crate) fn relay(&self, network: Option<&Network>) -> Result<Option<Relay>, LayerError> {
        let (Some(distance), Some(port), Some(network)) =
            (self.distance()?, self.kind.port(), network)
        else {
            return Ok(None);
        };
        let relay = network.relay(distance, port).map_err(LayerError::io(
            &self.spec.to_string(),
            "start a relay to",
            Path::new(self.kind.name()),
        ));
        relay.map(Some)
    }

    /// See [`ShareProtocol::sticky`].
    pub(crate) fn sticky(&self) -> bool {
        self.kind.sticky()
    }

    /// Machine type; any type supports shares.
    pub(crate) fn machine(&self) -> &'a str {
        match &*self.options.machine {
            "auto" => "q35",
            machine => machine,
        }
    }

    /// QEMU's arguments for a guest with this many MiB.
    pub(crate) fn devices(&self, memory: u64) -> Vec<String> {
        self.kind.devices(memory)
    }

    /// Starts the server for one guest that works in `dir`. It must be ready within `silence`.
    pub(crate) fn serve(
        &self,
        dir: &Path,
        network: Option<&Network>,
        silence: Duration,
    ) -> Result<Option<Process>, LayerError> {
        /// A server takes half a second on a machine that is not busy.
        const FLOOR: Duration = Duration::from_secs(10);
        self.kind.serve(&Serve {
            layer: &self.spec.to_string(),
            dir,
            cache: self.cache(),
            network,
            limit: silence.max(FLOOR),
        })
    }

    /// How the guest mounts it, through this relay if there is one.
    pub(crate) fn mounting(&self, relay: Option<&Relay>) -> Mounting {
        let port = relay.map(|relay| relay.port).or(self.kind.port());
        self.kind.mounting(self.cache(), port.unwrap_or_default())
    }

    /// Name of the server, and the command that prints its version.
    pub(crate) fn server(&self) -> Option<(&'static str, Command)> {
        self.kind.server()
    }

    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        let mut notes = Distance::notes(self.spec, &VmOptions::ROWS);
        notes.extend([
            ("share", self.kind.name().into()),
            ("share_cache", self.cache().into()),
        ]);
        // The default keeps less than the others, and `none` nothing.
        let usual = self.kind.caches()[0];
        let fresher = match self.cache() {
            "none" => None,
            cache if cache == usual => Some("none"),
            _ => Some(usual),
        };
        notes.extend(fresher.map(|cache| (FRESHER, format!("cache={cache}"))));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    #[test]
    fn each_way_is_listed_with_a_cache_of_its_own() {
        let names: Vec<&str> = PROTOCOLS.iter().map(|k| k.name()).collect();
        let row = VmOptions::ROWS.iter().find(|row| row.name == "share");
        assert_eq!(names, row.unwrap().values[1..]);
        for kind in PROTOCOLS {
            let spec: Spec = format!("vm:share={}", kind.name()).parse().unwrap();
            let options = VmOptions::read(&spec).unwrap();
            let share = Share::of(&spec, &options).unwrap();
            share.check().unwrap();
            assert!(kind.caches().contains(&share.cache()));
            assert_eq!(share.networked(), matches!(kind.name(), "nfs" | "smb"));
            let mounting = share.mounting(None);
            assert!(mounting.source.is_some() && !mounting.fs.is_empty());
        }
    }

    #[test]
    fn options_of_others_are_refused() {
        for (text, says) in [
            ("vm:share=nfs,cache=strict", "cto, none, loose"),
            ("vm:share=smb,cache=cto", "strict, none, loose"),
            ("vm:share=nfs,fs=xfs", "for disks"),
            ("vm:share=9p,delay=6ms", "share=nfs or share=smb"),
            ("vm:rate=100mbit", "share=nfs or share=smb"),
            ("vm:share=nfs,delay=6", "at most 200ms"),
            ("vm:share=smb,rate=1", "1mbit"),
        ] {
            let e = crate::check(&text.parse().unwrap()).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{text}: {e}");
        }
        crate::check(&"vm:share=smb,nic=e1000,cache=none".parse().unwrap()).unwrap();
    }
}
