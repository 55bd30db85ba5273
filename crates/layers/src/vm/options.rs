//! Options of a guest.

use layermark_model::{Spec, parse_size};

use super::{card::Card, controller::Controller};
use crate::{
    LayerError,
    loop_fs::LoopFsType,
    options::{bad, layer_options, option_words},
};

option_words! {
    /// What runs the guest.
    pub(crate) enum GuestAccel {
        Auto = "auto",
        Kvm = "kvm",
        Tcg = "tcg",
    }
}

option_words! {
    /// The network that QEMU plugs the card into.
    pub(crate) enum Backend {
        Tap = "tap",
        User = "user",
        Socket = "socket",
    }
}

option_words! {
    /// Whether this host's kernel moves frames.
    pub(crate) enum Vhost {
        Auto = "auto",
        On = "on",
        Off = "off",
    }
}

option_words! {
    /// The port to the agent.
    pub(crate) enum AgentPort {
        Auto = "auto",
        Virtio = "virtio",
        Serial = "serial",
    }
}

layer_options! {
    pub(crate) struct VmOptions {
        /// controller of the virtual disk
        disk: &'static Controller = "virtio-blk",
        /// instead of a disk, a directory of this host shared into the guest
        share: String = "none" ["none", "virtiofs", "9p", "nfs", "smb"],
        /// of a disk: writeback (auto), none, writethrough, directsync or unsafe, as QEMU means them; of virtiofs:
        /// auto, none or always; of 9p: none (auto), loose or mmap; of nfs: cto (auto), none or loose; of smb:
        /// strict (auto), none or loose
        cache: String = "auto",
        /// how QEMU reads and writes the image
        aio: String = "threads" ["threads", "native", "io_uring"],
        /// of the disk's image
        format: String = "raw" ["raw", "qcow2"],
        /// file system on the disk
        fs: &'static LoopFsType = "ext4",
        /// on: the disk has a thread of its own in QEMU
        iothread: bool = "off",
        /// size of the disk; auto has room for the packaged files and 4G more, or most of what is free
        size: String = "auto",
        /// QEMU's machine type; auto: q35, or pc for disk=ide
        machine: String = "auto" ["auto", "q35", "pc"],
        /// virtual CPUs; auto: as many as this host has, but at most 2
        cpus: String = "auto",
        /// of the guest; it caches files in it
        memory: String = "512M",
        /// programs of the guest: host (this host's files, read-only and without secrets), DIR, or an image of a
        /// disk; what is written there stays in its memory
        root: String = "none" reaches Path,
        /// on: root=host shares all files; off: not /home, /root, /run, /tmp, nor below /etc and /var what not
        /// everybody may read (passwords, keys)
        secrets: bool = "off" reaches Secrets,
        /// what runs the guest; auto: KVM where it works, else an emulated CPU (tcg)
        accel: GuestAccel = "auto",
        /// network card; without nic, backend, switch and vhost a guest has none, but for a share over a network
        /// (nfs, smb)
        nic: &'static Card = "virtio-net",
        /// what the card is plugged into; tap: a network namespace (root); user: a network that QEMU plays; socket:
        /// a switch in layermark
        backend: Backend = "tap",
        /// a name; guests of a run with the same name and backend (tap, socket) reach each other
        switch: String = "none",
        /// on: this host's kernel moves the frames of virtio-net on a tap; auto: where it can
        vhost: Vhost = "auto",
        /// of nfs and smb: added to each round trip to the server, such as 6ms: half each way, by a relay in
        /// layermark
        delay: String = "0",
        /// of nfs and smb: bits a second, each way, by that relay: 1mbit or more, such as 100mbit or 1gbit
        rate: String = "none",
        /// port by which layermark talks to the guest; auto: virtio-serial where the kernel has it, else a serial
        /// port, which is slower
        agent: AgentPort = "auto",
        /// path of a bzImage; auto: the running one's, else the newest in /boot that has the modules
        kernel: String = "auto" reaches Kernel,
    }
}

impl VmOptions {
    /// Number of virtual CPUs.
    pub(super) fn cpu_count(&self, spec: &Spec) -> Result<u32, LayerError> {
        if self.cpus == "auto" {
            return Ok(std::thread::available_parallelism().map_or(1, |n| n.get().min(2)) as u32);
        }
        if let Ok(n @ 1..=64) = self.cpus.parse() {
            return Ok(n);
        }
        let must = "is not a number from 1 to 64".into();
        Err(bad(spec, "cpus", &self.cpus, must))
    }

    /// Name of the switch that connects its guests.
    pub(super) fn switch_name(&self) -> Option<&str> {
        Some(&*self.switch).filter(|name| *name != "none")
    }

    /// Memory, bytes.
    pub(super) fn memory_bytes(&self, spec: &Spec) -> Result<u64, LayerError> {
        const LEAST: u64 = 256 << 20;
        let must = match parse_size(&self.memory) {
            Ok(bytes) if bytes >= LEAST => return Ok(bytes),
            Ok(_) => "is below 256M, the least a guest takes".into(),
            Err(e) => format!("cannot be read: {e}"),
        };
        Err(bad(spec, "memory", &self.memory, must))
    }
}
