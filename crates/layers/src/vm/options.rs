//! Options of a guest.

use layermark_model::{Spec, parse_size};

use crate::{
    LayerError, LayerOption,
    net::relay,
    options::{bad, value},
};

/// Values of the option `disk`.
pub(super) const DISKS: &[&str] = &["virtio-blk", "virtio-scsi", "nvme", "ide", "ahci"];
/// Values of the option `share`.
pub(super) const SHARES: &[&str] = &["none", "virtiofs", "9p", "nfs", "smb"];
/// Values of the option `nic`.
pub(super) const CARDS: &[&str] = &["virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"];
/// Values of the option `backend`.
pub(super) const BACKENDS: &[&str] = &["tap", "user", "socket"];

pub(super) const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "disk",
        values: DISKS,
        default: "virtio-blk",
        help: "controller of the virtual disk",
    },
    LayerOption {
        name: "share",
        values: SHARES,
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
        help: "programs of the guest: host (this host's files, read-only and without secrets), DIR, or an \
               image of a disk; what is written there stays in its memory",
    },
    LayerOption {
        name: "secrets",
        values: &["off", "on"],
        default: "off",
        help: "on: root=host shares all files; off: not /home, /root, /run, /tmp, nor below /etc and /var what \
               not everybody may read (passwords, keys)",
    },
    LayerOption {
        name: "accel",
        values: &["auto", "kvm", "tcg"],
        default: "auto",
        help: "what runs the guest; auto: KVM where it works, else an emulated CPU (tcg)",
    },
    LayerOption {
        name: "nic",
        values: CARDS,
        default: "virtio-net",
        help: "network card; without nic, backend, switch and vhost a guest has none, but for a share over a \
               network (nfs, smb)",
    },
    LayerOption {
        name: "backend",
        values: BACKENDS,
        default: "tap",
        help: "what the card is plugged into; tap: a network namespace (root); user: a network that QEMU \
               plays; socket: a switch in layermark",
    },
    LayerOption {
        name: "switch",
        values: &[],
        default: "none",
        help: "a name; guests of a run with the same name and backend (tap, socket) reach each other",
    },
    LayerOption {
        name: "vhost",
        values: &["auto", "on", "off"],
        default: "auto",
        help: "on: this host's kernel moves the frames of virtio-net on a tap; auto: where it can",
    },
    LayerOption {
        help: "of nfs and smb: added to each round trip to the server, such as 6ms: half each way, by a relay in \
               layermark",
        ..relay::DELAY
    },
    LayerOption {
        help: "of nfs and smb: bits a second, each way, by that relay: 1mbit or more, such as 100mbit or 1gbit",
        ..relay::RATE
    },
    LayerOption {
        name: "agent",
        values: &["auto", "virtio", "serial"],
        default: "auto",
        help: "port by which layermark talks to the guest; auto: virtio-serial where the kernel has it, else a \
               serial port, which is slower",
    },
    LayerOption {
        name: "kernel",
        values: &[],
        default: "auto",
        help: "path of a bzImage; auto: the running one's, else the newest in /boot that has the modules",
    },
];

/// Number of virtual CPUs.
pub(super) fn cpus(spec: &Spec) -> Result<u32, LayerError> {
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

/// Memory, bytes.
pub(super) fn memory(spec: &Spec) -> Result<u64, LayerError> {
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
