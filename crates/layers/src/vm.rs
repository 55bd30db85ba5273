use std::path::{Path, PathBuf};

use layermark_model::{Missing, Spec, parse_size};

use crate::{
    Base, Layer, LayerError, LayerOption, Place, Undo,
    host::HostPlace,
    needs,
    options::{bad, value},
};

mod boot;
mod cache;
mod clock;
mod disk;
mod family;
mod guest;
mod initramfs;
mod kernel;
mod link;
mod modules;
mod net;
mod place;
mod root;
mod share;
mod talk;
mod world;

pub use guest::guest;

use boot::{Accel, Boot};
use disk::Disk;
use kernel::Kernel;
use net::Net;
use place::VmPlace;
use root::Root;
use share::Share;

/// A disk of a virtual machine, or a directory shared into it.
pub(crate) struct Vm;

const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "disk",
        values: disk::NAMES,
        default: "virtio-blk",
        help: "controller of the virtual disk",
    },
    LayerOption {
        name: "share",
        values: share::NAMES,
        default: "none",
        help: "instead of a disk, a directory of this host shared into the guest",
    },
    LayerOption {
        name: "cache",
        values: &[],
        default: "auto",
        help: "of a disk: writeback (auto), none, writethrough, directsync or unsafe, as QEMU means \
               them; of virtiofs: auto, none or always; of 9p: none (auto), loose or mmap; of nfs: \
               cto (auto), none or loose; of smb: strict (auto), none or loose",
    },
    LayerOption {
        name: "nic",
        values: net::CARD_NAMES,
        default: "virtio-net",
        help: "network card through which the guest reaches a share (nfs, smb)",
    },
    LayerOption {
        name: "aio",
        values: &["threads", "native", "io_uring"],
        default: "threads",
        help: "how QEMU reads and writes the image",
    },
    LayerOption {
        name: "format",
        values: &["raw", "qcow2"],
        default: "raw",
        help: "of the disk's image",
    },
    LayerOption {
        name: "fs",
        values: &["ext4", "xfs", "btrfs"],
        default: "ext4",
        help: "file system on the disk",
    },
    LayerOption {
        name: "iothread",
        values: &["off", "on"],
        default: "off",
        help: "on: the disk has a thread of its own in QEMU",
    },
    LayerOption {
        name: "size",
        values: &[],
        default: "auto",
        help: "size of the disk; auto has room for the packaged files and 4G more, or most of what is free",
    },
    LayerOption {
        name: "machine",
        values: &["auto", "q35", "pc"],
        default: "auto",
        help: "QEMU's machine type; auto: q35, or pc for disk=ide",
    },
    LayerOption {
        name: "cpus",
        values: &[],
        default: "auto",
        help: "virtual CPUs; auto: as many as this host has, but at most 2",
    },
    LayerOption {
        name: "memory",
        values: &[],
        default: "512M",
        help: "of the guest; it caches files in it",
    },
    LayerOption {
        name: "root",
        values: &[],
        default: "none",
        help: "programs of the guest: host (this host's files, read-only), DIR, or an image of a disk; \
               what is written there stays in its memory",
    },
    LayerOption {
        name: "accel",
        values: &["auto", "kvm", "tcg"],
        default: "auto",
        help: "what runs the guest; auto: KVM where it works, else an emulated CPU (tcg)",
    },
    LayerOption {
        name: "kernel",
        values: &[],
        default: "auto",
        help: "path of a bzImage; auto: the running one's, else the newest in /boot that has the modules",
    },
];

/// Modules that the agent needs.
const AGENT: [&str; 2] = ["virtio_pci", "virtio_console"];

impl Layer for Vm {
    fn id(&self) -> &'static str {
        "vm"
    }

    fn about(&self) -> &'static str {
        "a disk of a virtual machine, or a folder shared into it (QEMU)"
    }

    fn options(&self) -> &'static [LayerOption] {
        OPTIONS
    }

    /// None: booting and emulated CPUs would take most of the card's two minutes.
    fn default_specs(&self) -> &'static [&'static str] {
        &[]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        cpus(spec)?;
        memory(spec)?;
        Root::of(spec)?;
        Kind::of(spec)?.check()
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let mut missing: Vec<Missing> = needs::program(boot::QEMU.0, boot::QEMU.1)
            .into_iter()
            .collect();
        if let Ok(kind) = Kind::of(spec) {
            missing.extend(kind.missing());
            if let Ok(modules) = modules(spec, &kind) {
                missing.extend(kernel(spec, &modules).err());
            }
        }
        if value(spec, OPTIONS, "accel") == "kvm" {
            missing.extend(needs::device("/dev/kvm", "kvm"));
        }
        missing
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let name = spec.to_string();
        base.emptied(undo);
        let kind = Kind::of(spec)?;
        let dir = place::private(&name, &base.dir)?;
        let host = kind.make(spec, base, &dir)?;
        let root = Root::of(spec)?;
        let modules = modules(spec, &kind)?;
        let kernel = kernel(spec, &modules).map_err(|missing| LayerError::Missing {
            layer: name.clone(),
            missing: vec![missing],
        })?;
        let (accels, no_kvm) = accels(spec, &kernel);
        let memory = memory(spec)? >> 20;
        let net = kind.networked().then(|| Net::new(&name)).transpose()?;
        let mut devices = kind.devices(memory);
        devices.extend(root.iter().flat_map(Root::devices));
        let mut guest = boot::boot(&Boot {
            layer: &name,
            dir: &dir,
            exe: &base.exe,
            kernel: &kernel,
            modules: &modules,
            machine: kind.machine(),
            cpus: cpus(spec)?,
            memory,
            accels: &accels,
            devices: &devices,
            net: net.as_ref(),
            server: &|| kind.serve(&dir, net.as_ref()),
        })?;
        guest.no_kvm = guest.no_kvm.take().or(no_kvm);
        let host = with_guest(host, spec, &guest)?.note("machine", kind.machine());
        let place = VmPlace::new(guest, host, &base.exe, &base.packaged);
        let mut place = match &kind {
            Kind::Disk(_) => place,
            Kind::Share(share) => place.shared(share.sticky()),
        };
        if net.is_some() {
            place.connect(net::GUEST)?;
        }
        if let Some(root) = root {
            place.enter(root.mounting())?;
        }
        place.mount(kind.mounting())?;
        if let Kind::Disk(_) = kind {
            place.package()?;
        }
        Ok(Box::new(place))
    }
}

/// What the guest works on.
enum Kind<'a> {
    Disk(Disk<'a>),
    Share(Share<'a>),
}

impl<'a> Kind<'a> {
    fn of(spec: &'a Spec) -> Result<Self, LayerError> {
        match Share::of(spec) {
            Some(share) => Ok(Self::Share(share)),
            None => Ok(Self::Disk(Disk::of(spec)?)),
        }
    }

    fn check(&self) -> Result<(), LayerError> {
        match self {
            Self::Disk(disk) => disk.check(),
            Self::Share(share) => share.check(),
        }
    }

    fn missing(&self) -> Vec<Missing> {
        match self {
            Self::Disk(disk) => disk.missing(),
            Self::Share(share) => share.missing(),
        }
    }

    fn modules(&self) -> Vec<&'static str> {
        match self {
            Self::Disk(disk) => disk.modules(),
            Self::Share(share) => share.modules(),
        }
    }

    fn machine(&self) -> &'a str {
        match self {
            Self::Disk(disk) => disk.machine(),
            Self::Share(share) => share.machine(),
        }
    }

    fn devices(&self, memory: u64) -> Vec<String> {
        match self {
            Self::Disk(disk) => disk.devices(),
            Self::Share(share) => share.devices(memory),
        }
    }

    /// Whether it is reached over a network.
    fn networked(&self) -> bool {
        match self {
            Self::Disk(_) => false,
            Self::Share(share) => share.networked(),
        }
    }

    fn serve(
        &self,
        dir: &Path,
        net: Option<&Net>,
    ) -> Result<Option<crate::child::Process>, LayerError> {
        match self {
            Self::Disk(_) => Ok(None),
            Self::Share(share) => share.serve(dir, net),
        }
    }

    fn mounting(&self) -> talk::Mounting {
        match self {
            Self::Disk(disk) => disk.mounting(),
            Self::Share(share) => share.mounting(),
        }
    }

    /// Makes what it is on this host, beside the private directory `dir` of QEMU.
    fn make(&self, spec: &Spec, base: &Base, dir: &Path) -> Result<HostPlace, LayerError> {
        let (host, notes) = match self {
            Self::Disk(disk) => {
                let (image, mkfs) = disk.make(base, dir)?;
                let host = HostPlace::new(base, spec, base.dir.clone());
                (host.backing(&image).version("mkfs", mkfs), disk.notes())
            }
            Self::Share(share) => {
                let at = base.dir.join(share::DIR);
                let host = HostPlace::new(base, spec, at.clone()).behind(&at);
                std::fs::create_dir(&at).map_err(host.io("make", &at))?;
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

/// Adds what is known of the guest on this host.
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
    // What serves its devices is counted with its children, which come and go.
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

fn cpus(spec: &Spec) -> Result<u32, LayerError> {
    match value(spec, OPTIONS, "cpus") {
        "auto" => Ok(std::thread::available_parallelism().map_or(1, |n| n.get().min(2)) as u32),
        text => match text.parse() {
            Ok(n @ 1..=64) => Ok(n),
            _ => Err(bad(
                spec,
                "cpus",
                text,
                "is not a number from 1 to 64".into(),
            )),
        },
    }
}

/// Bytes.
fn memory(spec: &Spec) -> Result<u64, LayerError> {
    const LEAST: u64 = 256 << 20;
    let text = value(spec, OPTIONS, "memory");
    match parse_size(text) {
        Ok(bytes) if bytes >= LEAST => Ok(bytes),
        Ok(_) => Err(bad(
            spec,
            "memory",
            text,
            "is below 256M, the least a guest takes".into(),
        )),
        Err(e) => Err(bad(spec, "memory", text, format!("cannot be read: {e}"))),
    }
}

/// Everything that the guest's kernel has to have.
fn modules(spec: &Spec, kind: &Kind<'_>) -> Result<Vec<&'static str>, LayerError> {
    let mut modules = AGENT.to_vec();
    modules.extend(kind.modules());
    modules.extend(Root::of(spec)?.iter().flat_map(Root::modules));
    Ok(modules)
}

/// What to boot on, and why KVM is left out of it.
fn accels(spec: &Spec, kernel: &Kernel) -> (Vec<Accel>, Option<String>) {
    match value(spec, OPTIONS, "accel") {
        "kvm" => (vec![Accel::Kvm], None),
        "tcg" => (vec![Accel::Tcg], None),
        _ => boot::accels(kernel),
    }
}

/// The first kernel that has all these modules.
fn kernel(spec: &Spec, modules: &[&str]) -> Result<Kernel, Missing> {
    let lacks = |what: String| Missing {
        what,
        hint: "sudo apt-get install linux-image-amd64, or fetch it without installing: \
               scripts/fetch-kernel.sh"
            .into(),
        installable: true,
    };
    let kernels = match value(spec, OPTIONS, "kernel") {
        "auto" => Kernel::all(),
        path => match Kernel::named(&PathBuf::from(path)) {
            Ok(kernel) => vec![kernel],
            Err(e) => {
                return Err(Missing {
                    installable: false,
                    ..lacks(format!("the kernel {path}: {e}"))
                });
            }
        },
    };
    let mut lacking = None;
    for kernel in kernels {
        match kernel
            .modules()
            .map(|m| m.lacking(modules).map(str::to_owned))
        {
            Ok(None) => return Ok(kernel),
            Ok(Some(module)) => {
                lacking.get_or_insert(format!("the module {module} in kernel {}", kernel.release));
            }
            Err(e) => {
                let dir = kernel.modules.display();
                lacking.get_or_insert(format!("modules of the kernel ({dir}: {e})"));
            }
        }
    }
    Err(lacks(
        lacking.unwrap_or_else(|| "a kernel for guests".into()),
    ))
}
