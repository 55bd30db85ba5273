use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, NamedNetwork, Place, Undo,
    host::HostPlace,
    needs,
    net::relay,
    options::{bad, value},
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
use options::{OPTIONS, cpus, memory};
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

impl Layer for Vm {
    fn id(&self) -> &'static str {
        "vm"
    }

    fn group(&self, _: &str) -> Group {
        Group::Guests
    }

    fn about(&self, _: &str) -> &'static str {
        "a disk of a virtual machine, or a folder shared into it (QEMU)"
    }

    fn options(&self) -> &'static [LayerOption] {
        OPTIONS
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        cpus(spec)?;
        memory(spec)?;
        Root::of(spec)?;
        let storage = GuestStorage::of(spec)?;
        if let Some(wiring) = Wiring::of(spec, storage.networked()) {
            wiring.check()?;
        }
        let distance = [relay::DELAY, relay::RATE].map(|option| option.name);
        let given = distance.into_iter().find(|o| spec.options.contains_key(*o));
        if let Some(option) = given.filter(|_| !storage.networked()) {
            let must = "is for shares over a network: share=nfs or share=smb".into();
            return Err(bad(spec, option, value(spec, OPTIONS, option), must));
        }
        storage.check()
    }

    fn linked(&self, spec: &Spec, switch: Option<&str>) -> Result<Spec, LayerError> {
        let mut spec = spec.clone();
        let storage = GuestStorage::of(&spec)?;
        if Wiring::of(&spec, storage.networked()).is_none() {
            let card = value(&spec, OPTIONS, "nic").to_owned();
            spec.options.insert("nic".into(), card);
        }
        if let Some(name) = switch {
            crate::net::join(&mut spec, name);
        } else if value(&spec, OPTIONS, "backend") != "tap" {
            return Err(net::unreachable(&spec.to_string()));
        }
        Ok(spec)
    }

    fn network(&self, spec: &Spec) -> Option<NamedNetwork> {
        let value = |name| value(spec, OPTIONS, name).to_owned();
        let switch = Some(value("switch")).filter(|s| s != "none")?;
        Some(NamedNetwork {
            switch,
            backend: value("backend"),
        })
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        None
    }

    fn has_other_side(&self, spec: &Spec) -> bool {
        matches!(GuestStorage::of(spec), Ok(GuestStorage::Share(_)))
    }

    fn lacks_programs(&self, spec: &Spec) -> Option<&'static str> {
        let bare = matches!(Root::of(spec), Ok(None));
        bare.then_some("the guest has no programs: add root=host for those of this machine")
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let mut missing: Vec<Missing> = needs::program(boot::QEMU.0, boot::QEMU.1)
            .into_iter()
            .chain(needs::static_binary())
            .collect();
        if let Ok(storage) = GuestStorage::of(spec) {
            missing.extend(storage.missing());
            if let Some(wiring) = Wiring::of(spec, storage.networked()) {
                missing.extend(wiring.missing());
            }
            if let Ok(root) = Root::of(spec) {
                missing.extend(root.as_ref().and_then(Root::missing));
                missing.extend(Inside::of(spec, &storage, root.as_ref()).err());
            }
        }
        if value(spec, OPTIONS, "accel") == "kvm" {
            missing.extend(needs::device("/dev/kvm", "kvm"));
        }
        missing
    }

    fn slowdown(&self, spec: &Spec) -> f64 {
        let inside = || {
            let storage = GuestStorage::of(spec).ok()?;
            let root = Root::of(spec).ok()?;
            Inside::of(spec, &storage, root.as_ref()).ok()
        };
        // Where there is no kernel, nothing will be measured.
        let emulated = |inside: Inside| accels(spec, &inside.kernel).0 == [Accel::Tcg];
        if inside().is_some_and(emulated) {
            EMULATED
        } else {
            1.0
        }
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let name = spec.to_string();
        base.emptied(undo);
        let storage = GuestStorage::of(spec)?;
        let dir = place::private(&name, base)?;
        let host = storage.make(spec, base, &dir)?;
        let root = Root::of(spec)?;
        let inside = Inside::of(spec, &storage, root.as_ref());
        let inside = inside.map_err(|missing| LayerError::Missing {
            layer: name.clone(),
            missing: vec![missing],
        })?;
        let (accels, no_kvm) = accels(spec, &inside.kernel);
        let memory = memory(spec)? >> 20;
        let wiring = Wiring::of(spec, storage.networked());
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
            cpus: cpus(spec)?,
            memory,
            accels: &accels,
            devices: &devices,
            network: network.as_ref(),
            view: &|| root.as_ref().map_or(Ok(Vec::new()), |root| root.view(&dir)),
            server: &|| storage.serve(&dir, network.as_ref(), base.silence),
            silence: base.silence,
        })?;
        guest.no_kvm = guest.no_kvm.take().or(no_kvm);
        let host = with_guest(host, spec, &guest)?
            .note("machine", storage.machine())
            .note("agent", inside.port());
        let mut place = VmPlace::new(guest, host, base);
        if let GuestStorage::Share(share) = &storage {
            place = place.shared(share.sticky());
        }
        furnish(
            &mut place,
            &storage,
            network,
            root.as_ref(),
            base.survived(),
        )?;
        Ok(Box::new(place))
    }
}

/// Prepares a running guest: network, files and mounts.
fn furnish(
    place: &mut VmPlace,
    storage: &GuestStorage<'_>,
    network: Option<Network>,
    root: Option<&Root<'_>>,
    survived: bool,
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
        GuestStorage::Disk(_) if !survived => place.package(),
        _ => Ok(()),
    }
}

/// Adds the host's facts about the guest.
fn with_guest(
    mut host: HostPlace,
    spec: &Spec,
    guest: &boot::Guest,
) -> Result<HostPlace, LayerError> {
    host = host
        .version("qemu", guest.qemu.clone())
        .note("cpus", cpus(spec)?.to_string())
        .note("memory", (memory(spec)? >> 20).to_string() + "M")
        .note("root", value(spec, OPTIONS, "root"))
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
    Ok(host)
}

/// Accelerators to boot with, and the reason if KVM is not among them.
fn accels(spec: &Spec, kernel: &Kernel) -> (Vec<Accel>, Option<String>) {
    match value(spec, OPTIONS, "accel") {
        "kvm" => (vec![Accel::Kvm], None),
        "tcg" => (vec![Accel::Tcg], None),
        _ => boot::accels(kernel),
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
        spec: &Spec,
        storage: &GuestStorage<'_>,
        root: Option<&Root<'_>>,
    ) -> Result<Self, Missing> {
        let mut modules = storage.modules();
        modules.extend(root.into_iter().flat_map(Root::modules));
        let wiring = Wiring::of(spec, storage.networked());
        modules.extend(wiring.iter().flat_map(Wiring::modules));
        let with = |port: &[&'static str]| {
            let modules = [port, modules.as_slice()].concat();
            Ok(Self {
                kernel: kernel::choose(spec, &modules)?,
                modules,
                serial: port.is_empty(),
            })
        };
        match value(spec, OPTIONS, "agent") {
            "serial" => with(&[]),
            "virtio" => with(&PORT),
            _ => with(&PORT).or_else(|lacks| with(&[]).map_err(|_| lacks)),
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

    #[test]
    fn modules_form_no_circle() {
        let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        circles::assert_none(&src, &["vm"]);
    }

    #[test]
    fn a_kernel_without_virtio_serial_is_reached_by_a_serial_port() {
        let root = tempfile::tempdir().unwrap();
        let image = kernel::pretend(root.path(), "1.2.3", "ext4 virtio_pci virtio_blk");
        let inside = |agent: &str| {
            let text = format!("vm:kernel={},agent={agent}", image.display());
            let spec: Spec = text.parse().unwrap();
            Inside::of(&spec, &GuestStorage::of(&spec).unwrap(), None)
        };
        for agent in ["auto", "serial"] {
            let inside = inside(agent).unwrap();
            assert_eq!(inside.port(), "serial port");
            assert!(!inside.modules.contains(&PORT[1]));
        }
        let lacks = inside("virtio").unwrap_err();
        assert!(lacks.what.contains("virtio_console"), "{lacks:?}");
        let image = kernel::pretend(
            root.path(),
            "1.2.4",
            "ext4 virtio_pci virtio_blk virtio_console",
        );
        let spec: Spec = format!("vm:kernel={}", image.display()).parse().unwrap();
        let inside = Inside::of(&spec, &GuestStorage::of(&spec).unwrap(), None).unwrap();
        assert_eq!(inside.port(), "virtio-serial");
    }
}
