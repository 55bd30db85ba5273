//! The storage of a guest: a disk, or a shared directory.

use std::{path::Path, time::Duration};

use layermark_model::{Missing, Spec};

use super::{
    disk::Disk,
    net::Network,
    options::VmOptions,
    share::{self, Share},
};
use crate::{
    Base, LayerError, PowerCut, Undo, agent::protocol::Mounting, child::Process, host::HostPlace,
    net::relay::Relay,
};

/// The storage in which the guest works.
pub(super) enum GuestStorage<'a> {
    Disk(Disk<'a>),
    Share(Share<'a>),
}

impl<'a> GuestStorage<'a> {
    pub(super) fn of(spec: &'a Spec, options: &'a VmOptions) -> Self {
        Share::of(spec, options).map_or(Self::Disk(Disk { spec, options }), Self::Share)
    }

    pub(super) fn check(&self) -> Result<(), LayerError> {
        match self {
            Self::Disk(disk) => disk.check(),
            Self::Share(share) => share.check(),
        }
    }

    pub(super) fn missing(&self) -> Vec<Missing> {
        match self {
            Self::Disk(disk) => disk.missing(),
            Self::Share(share) => share.missing(),
        }
    }

    pub(super) fn modules(&self) -> Vec<&'static str> {
        match self {
            Self::Disk(disk) => disk.modules(),
            Self::Share(share) => share.modules(),
        }
    }

    pub(super) fn machine(&self) -> &'a str {
        match self {
            Self::Disk(disk) => disk.machine(),
            Self::Share(share) => share.machine(),
        }
    }

    pub(super) fn devices(&self, memory: u64) -> Vec<String> {
        match self {
            Self::Disk(disk) => disk.devices(),
            Self::Share(share) => share.devices(memory),
        }
    }

    /// Whether it is reached over a network.
    pub(super) fn networked(&self) -> bool {
        match self {
            Self::Disk(_) => false,
            Self::Share(share) => share.networked(),
        }
    }

    pub(super) fn serve(
        &self,
        dir: &Path,
        network: Option<&Network>,
        silence: Duration,
    ) -> Result<Option<Process>, LayerError> {
        match self {
            Self::Disk(_) => Ok(None),
            Self::Share(share) => share.serve(dir, network, silence),
        }
    }

    /// See [`Share::relay`].
    pub(super) fn relay(&self, network: Option<&Network>) -> Result<Option<Relay>, LayerError> {
        match self {
            Self::Disk(_) => Ok(None),
            Self::Share(share) => share.relay(network),
        }
    }

    pub(super) fn mounting(&self, relay: Option<&Relay>) -> Mounting {
        match self {
            Self::Disk(disk) => disk.mounting(),
            Self::Share(share) => share.mounting(relay),
        }
    }

    /// See [`crate::LayerInfo::power_cut`].
    pub(super) fn power_cut(&self) -> PowerCut {
        let can = |alone| PowerCut::Yes {
            large_disk: true,
            unmounted: false,
            alone,
        };
        match self {
            Self::Disk(disk) => match disk.uncut() {
                Some(why) => PowerCut::No(why),
                None => can(disk.is_alone()),
            },
            Self::Share(_) => can(false),
        }
    }

    /// What a power cut left of it, read on this host: a guest would boot for seconds and read the same. `dir` is
    /// the private directory of QEMU.
    pub(super) fn survived(
        &self,
        spec: &Spec,
        base: &Base,
        dir: &Path,
        undo: &mut Undo,
    ) -> Result<HostPlace, LayerError> {
        match self {
            Self::Disk(disk) => disk.survived(base, dir, undo),
            Self::Share(_) => Ok(HostPlace::new(base, spec, base.dir.join(share::DIR))),
        }
    }

    /// Creates it on this host, next to the private directory `dir` of QEMU.
    pub(super) fn make(
        &self,
        spec: &Spec,
        base: &Base,
        dir: &Path,
    ) -> Result<HostPlace, LayerError> {
        let (host, notes) = match self {
            Self::Disk(disk) => {
                let (image, mkfs) = disk.make(base, dir)?;
                let host = HostPlace::new(base, spec, base.dir.clone());
                (host.backing(&image).version("mkfs", mkfs), disk.notes())
            }
            Self::Share(share) => {
                let at = base.dir.join(share::DIR);
                let mut host = HostPlace::new(base, spec, at.clone()).backing_dir(&at);
                base.make_dir(&at).map_err(host.io("make", &at))?;
                host.package()?;
                let host = match share.server() {
                    Some((name, mut command)) => {
                        host.version(name, crate::child::run(&spec.to_string(), &mut command)?)
                    }
                    None => host,
                };
                (host, share.notes())
            }
        };
        let note = |host: HostPlace, (name, value): (&str, String)| host.note(name, value);
        Ok(notes.into_iter().fold(host, note))
    }
}
