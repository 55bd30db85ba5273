use layermark_model::{Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, NamedNetwork, OtherSide, PathEnd, PathEnds, Place,
    Programs, Undo,
    host::HostPlace,
    kind::LayerKind,
    needs,
    options::{bad, given},
};

mod boot;
mod cache;
mod card;
mod clock;
mod controller;
mod cycles;
mod disk;
mod guest;
mod initramfs;
mod kernel;
mod modules;
mod net;
mod options;
mod place;
mod root;
mod rootfs;
mod secrets;
mod share;
mod storage;

pub use guest::guest;

use boot::{Accel, Boot};
use kernel::Kernel;
use net::{Network, Wiring};
use options::{AgentPort, Backend, GuestAccel, VmOptions};
use place::VmPlace;
use root::Root;
use storage::GuestStorage;

/// A disk of a virtual machine, or a directory shared with it.
pub(crate) struct Vm;

/// How many times longer a trial takes where the guest's CPU is emulated. Eight blocks of the plan
/// `virtual-io-stack` take 15 minutes, 1.25 s a trial, of which 50 ms are planned.
const EMULATED: f64 = 25.0;

/// Modules for the port to the agent, unless it is a serial port.
const PORT: [&str; 2] = ["virtio_pci", "virtio_console"];

impl LayerKind for Vm {
    const ID: &'static str = "vm";
    type Options = VmOptions;

    fn describe(spec: &Spec, options: &VmOptions) -> LayerInfo {
        let storage = GuestStorage::of(spec, options);
        let mut info = LayerInfo::new(
            Group::Guests,
            About::of(
                "a virtual machine",
                ": its disk, a folder shared into it, or its network card (QEMU)",
            ),
        );
        info.path = PathEnds::any();
        if options.backend != Backend::Tap {
            info.path.with_host = PathEnd::No(net::UNREACHABLE);
        }
        if Wiring::of(spec, options, storage.networked()).is_none() {
            info.path.options = vec![("nic", options.nic.name.into())];
        }
        info.network = options.switch_name().map(|name| NamedNetwork {
            switch: name.into(),
            backend: options.backend.to_string(),
        });
        info.power_cut = storage.power_cut();
        if matches!(storage, GuestStorage::Share(_)) {
            info.other_side = OtherSide::Yes;
        }
        if options.root == "none" {
            info.programs = Programs::None(
                "the guest has no programs: add root=host for those of this machine",
            );
        }
        info
    }

    fn check(spec: &Spec, options: &VmOptions) -> Result<(), LayerError> {
        options.cpu_count(spec)?;
        options.memory_bytes(spec)?;
        Root::of(spec, options)?;
        let storage = GuestStorage::of(spec, options);
        if let Some(wiring) = Wiring::of(spec, options, storage.networked()) {
            wiring.check()?;
        }
        let distance = given(spec, &VmOptions::ROWS, &["delay", "rate"]);
        if let Some((option, given)) = distance.filter(|_| !storage.networked()) {
            let must = "is for shares over a network: share=nfs or share=smb".into();
            return Err(bad(spec, option, given, must));
        }
        storage.check()
    }

    fn slowdown(spec: &Spec, options: &VmOptions) -> f64 {
        // Where there is no kernel, nothing will be measured.
        let accels = || {
            let storage = GuestStorage::of(spec, options);
            let wiring = Wiring::of(spec, options, storage.networked());
            let root = Root::of(spec, options).ok()?;
            let inside = Inside::of(options, &storage, wiring.as_ref(), root.as_ref()).ok()?;
            Some(accels(options.accel, &inside.kernel).0)
        };
        if accels().is_some_and(|accels| accels == [Accel::Tcg]) {
            EMULATED
        } else {
            1.0
        }
    }

    fn missing(spec: &Spec, options: &VmOptions) -> Vec<Missing> {
        if let Some(other) = needs::guest_cpu() {
            return vec![other];
        }
        let mut missing: Vec<Missing> = needs::program(boot::QEMU.0, boot::QEMU.1)
            .into_iter()
            .chain(needs::static_binary())
            .collect();
        let storage = GuestStorage::of(spec, options);
        missing.extend(storage.missing());
        let wiring = Wiring::of(spec, options, storage.networked());
        missing.extend(wiring.iter().flat_map(Wiring::missing));
        if let Ok(root) = Root::of(spec, options) {
            missing.extend(root.as_ref().and_then(Root::missing));
            missing.extend(Inside::of(options, &storage, wiring.as_ref(), root.as_ref()).err());
        }
        if options.accel == GuestAccel::Kvm {
            missing.extend(needs::device("/dev/kvm", "kvm"));
        }
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let name = spec.to_string();
        base.emptied(undo);
        let (storage, dir) = (GuestStorage::of(spec, &options), base.dir.join(place::DIR));
        if base.survived() {
            return Ok(Box::new(storage.survived(spec, base, &dir, undo)?));
        }
        base.make_dir(&dir)
            .map_err(LayerError::io(&name, "make", &dir))?;
        let host = storage.make(spec, base, &dir)?;
        let root = Root::of(spec, &options)?;
        let wiring = Wiring::of(spec, &options, storage.networked());
        let inside = Inside::of(&options, &storage, wiring.as_ref(), root.as_ref());
        let inside = inside.map_err(|missing| LayerError::Missing {
            layer: name.clone(),
            missing: vec![missing],
        })?;
        let (accels, no_kvm) = accels(options.accel, &inside.kernel);
        let (cpus, memory) = (options.cpu_count(spec)?, options.memory_bytes(spec)? >> 20);
        let network = wiring.map(|w| w.make()).transpose()?;
        let mut devices = storage.devices(memory);
        devices.extend(root.iter().flat_map(Root::devices));
        devices.extend(network.iter().flat_map(Network::devices));
        let mut guest = boot::boot(&Boot {
            layer: &name,
            dir: &dir,
            exe: &base.exe,
            kernel: &inside.kernel,
            modules: &inside.modules,
            serial: inside.serial,
            machine: storage.machine(),
            cpus,
            memory,
            accels: &accels,
            devices: &devices,
            network: network.as_ref(),
            view: &|| root.as_ref().map_or(Ok(Vec::new()), |root| root.view(&dir)),
            server: &|| storage.serve(&dir, network.as_ref(), base.silence),
            silence: base.silence,
            until: base.until,
        })?;
        guest.no_kvm = guest.no_kvm.take().or(no_kvm);
        let host = with_guest(host, &guest)
            .note("cpus", cpus.to_string())
            .note("memory", format!("{memory}M"))
            .note("root", &*options.root)
            .note("machine", storage.machine())
            .note("agent", inside.port());
        let mut place = VmPlace::new(guest, host, base);
        if let GuestStorage::Share(share) = &storage {
            place = place.shared(share.sticky());
        }
        furnish(&mut place, &storage, network, root.as_ref())?;
        Ok(Box::new(place))
    }
}

/// Prepares a running guest: network, files and mounts.
fn furnish(
    place: &mut VmPlace,
    storage: &GuestStorage<'_>,
    network: Option<Network>,
    root: Option<&Root<'_>>,
) -> Result<(), LayerError> {
    let relay = storage.relay(network.as_ref())?;
    if let Some(network) = network {
        place.connect(network)?;
    }
    if let Some(root) = root {
        place.enter(root.mounting())?;
    }
    place.mount(storage.mounting(relay.as_ref()))?;
    if let Some(relay) = relay {
        place.relayed(relay);
    }
    match storage {
        GuestStorage::Disk(_) => place.package(),
        GuestStorage::Share(_) => Ok(()),
    }
}

/// Adds the host's facts about the guest.
fn with_guest(mut host: HostPlace, guest: &boot::Guest) -> HostPlace {
    host = host
        .version("qemu", guest.qemu.clone())
        .note("boot_s", format!("{:.2}", guest.boot_s))
        .note("initramfs_bytes", guest.initramfs.to_string());
    // The process that serves its devices is counted with its children, which come and go.
    if let Some(pid) = guest.pid() {
        host = host.helper(pid);
    }
    if guest.accel == Accel::Tcg {
        host = host.note("cpu", "emulated CPU");
    }
    if let Some(how) = &guest.hung {
        host = host.note("boot", format!("the second: {how}"));
    }
    if let Some(why) = &guest.no_kvm {
        host = host.note("kvm", format!("not used: {why}"));
    }
    host
}

/// Accelerators to boot with, and the reason if KVM is not among them.
fn accels(accel: GuestAccel, kernel: &Kernel) -> (Vec<Accel>, Option<String>) {
    match accel {
        GuestAccel::Kvm => (vec![Accel::Kvm], None),
        GuestAccel::Tcg => (vec![Accel::Tcg], None),
        GuestAccel::Auto => boot::accels(kernel),
    }
}

/// A guest's kernel, and the kind of port to its agent.
#[derive(Debug)]
struct Inside {
    kernel: Kernel,
    modules: Vec<&'static str>,
    /// Whether the agent is reached through a serial port.
    serial: bool,
}

impl Inside {
    fn of(
        options: &VmOptions,
        storage: &GuestStorage<'_>,
        wiring: Option<&Wiring<'_>>,
        root: Option<&Root<'_>>,
    ) -> Result<Self, Missing> {
        let mut modules = storage.modules();
        modules.extend(root.into_iter().flat_map(Root::modules));
        modules.extend(wiring.into_iter().flat_map(Wiring::modules));
        let with = |port: &[&'static str]| {
            let modules = [port, modules.as_slice()].concat();
            Ok(Self {
                kernel: kernel::choose(&options.kernel, &modules)?,
                modules,
                serial: port.is_empty(),
            })
        };
        match options.agent {
            AgentPort::Serial => with(&[]),
            AgentPort::Virtio => with(&PORT),
            AgentPort::Auto => with(&PORT).or_else(|lacks| with(&[]).map_err(|_| lacks)),
        }
    }

    /// For the facts.
    fn port(&self) -> &'static str {
        if self.serial {
            "serial port"
        } else {
            "virtio-serial"
        }
    }
}

#[cfg(test)]
#[path = "../../probe/tests/probe/circles.rs"]
mod circles;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    #[test]
    fn modules_form_no_circle() {
        let src = layermark_testkit::crate_dir(env!("CARGO_MANIFEST_DIR")).join("src");
        circles::assert_none(&src, &["vm"]);
    }

    #[test]
    fn a_kernel_without_virtio_serial_is_reached_by_a_serial_port() {
        let root = tempfile::tempdir().unwrap();
        let image = kernel::pretend(root.path(), "1.2.3", "ext4 virtio_pci virtio_blk");
        let inside = |image: &std::path::Path, agent: &str| {
            let text = format!("vm:kernel={},agent={agent}", image.display());
            let spec: Spec = text.parse().unwrap();
            let options = VmOptions::read(&spec).unwrap();
            Inside::of(&options, &GuestStorage::of(&spec, &options), None, None)
        };
        for agent in ["auto", "serial"] {
            let inside = inside(&image, agent).unwrap();
            assert_eq!(inside.port(), "serial port");
            assert!(!inside.modules.contains(&PORT[1]));
        }
        let lacks = inside(&image, "virtio").unwrap_err();
        assert!(lacks.what.contains("virtio_console"), "{lacks:?}");
        let image = kernel::pretend(
            root.path(),
            "1.2.4",
            "ext4 virtio_pci virtio_blk virtio_console",
        );
        assert_eq!(inside(&image, "auto").unwrap().port(), "virtio-serial");
    }
}
