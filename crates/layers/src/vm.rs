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
mod disk;
mod guest;
mod initramfs;
mod kernel;
mod link;
mod modules;
mod place;
mod talk;

pub use guest::guest;

use boot::{Accel, Boot};
use disk::Disk;
use kernel::Kernel;
use place::VmPlace;

/// A disk of a virtual machine.
pub(crate) struct Vm;

const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "disk",
        values: disk::NAMES,
        default: "virtio-blk",
        help: "controller of the virtual disk",
    },
    LayerOption {
        name: "cache",
        values: &[],
        default: "auto",
        help: "of the disk: writeback (auto), none, writethrough, directsync or unsafe, as QEMU means them",
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
        "a disk in a virtual machine (QEMU)"
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
        Disk::of(spec)?.check()
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let mut missing: Vec<Missing> = needs::program(boot::QEMU.0, boot::QEMU.1)
            .into_iter()
            .collect();
        if let Ok(disk) = Disk::of(spec) {
            missing.extend(disk.missing());
            missing.extend(kernel(spec, &modules(&disk)).err());
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
        let disk = Disk::of(spec)?;
        let dir = place::private(&name, &base.dir)?;
        let (image, mkfs) = disk.make(base, &dir)?;
        let modules = modules(&disk);
        let kernel = kernel(spec, &modules).map_err(|missing| LayerError::Missing {
            layer: name.clone(),
            missing: vec![missing],
        })?;
        let (accels, no_kvm) = accels(spec, &kernel);
        let mut guest = boot::boot(&Boot {
            layer: &name,
            dir: &dir,
            exe: &base.exe,
            kernel: &kernel,
            modules: &modules,
            machine: disk.machine(),
            cpus: cpus(spec)?,
            memory: memory(spec)? >> 20,
            accels: &accels,
            devices: &disk.devices(),
        })?;
        guest.no_kvm = guest.no_kvm.take().or(no_kvm);
        let host = facts_of(spec, base, &guest, &disk, &image)?.version("mkfs", mkfs);
        let mut place = VmPlace::new(guest, host, &base.exe, &base.packaged);
        place.mount(disk.mounting())?;
        place.package()?;
        Ok(Box::new(place))
    }
}

/// What is known on this host.
fn facts_of(
    spec: &Spec,
    base: &Base,
    guest: &boot::Guest,
    disk: &Disk<'_>,
    image: &Path,
) -> Result<HostPlace, LayerError> {
    let mut host = HostPlace::new(base, spec, base.dir.clone())
        .backing(image)
        .version("qemu", guest.qemu.clone())
        .note("cpus", cpus(spec)?.to_string())
        .note("memory", (memory(spec)? >> 20).to_string() + "M")
        .note("machine", disk.machine())
        .note("boot_s", format!("{:.2}", guest.boot_s))
        .note("initramfs_bytes", guest.initramfs.to_string());
    if let Some(pid) = guest.pid() {
        host = host.helper(pid);
    }
    if guest.accel == Accel::Tcg {
        host = host.note("cpu", "emulated CPU");
    }
    if let Some(why) = &guest.no_kvm {
        host = host.note("kvm", format!("not used: {why}"));
    }
    for (name, value) in disk.notes() {
        host = host.note(name, value);
    }
    Ok(host)
}

fn modules(disk: &Disk<'_>) -> Vec<&'static str> {
    let mut modules = AGENT.to_vec();
    modules.extend(disk.modules());
    modules
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
