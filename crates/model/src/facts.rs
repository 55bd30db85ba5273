use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::witness::{ProgramCut, SequenceCut, WitnessTrial};

/// Where a probe ran, read from the system itself and not from the requested options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Facts {
    /// The mount that the probe worked on, then the mounts below it.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Block devices below it, nearest first.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Image or lower files whose page cache must be emptied and checked as well.
    #[serde(default)]
    pub backing: Vec<PathBuf>,
    /// Versions of the programs and drivers in between.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Facts of the guest, if the probe ran in one. [`Facts::mounts`] then starts with the guest's
    /// mounts, and [`Facts::devices`] are the host's devices below the guest's disk or share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestFacts>,
    /// How far this kernel reads ahead of a program that reads in order, KiB: `read_ahead_kb` of the file system
    /// that has the data. Absent where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<u64>,
    /// Other facts, by name: `direct_io`, `writeback`, `compression`.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    /// Limits of the control groups of the probe, and of the programs that the layer needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// What power cuts did to it, a trial for each writer. The baseline's has those of layers that are
    /// only there because they are known to lie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_cuts: Vec<WitnessTrial>,
    /// What they did to the user's programs. The baseline's has those of layers that are only cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program_cuts: Vec<ProgramCut>,
    /// What they did to sequences of operations. The baseline's has those of layers that are only cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequence_cuts: Vec<SequenceCut>,
}

/// The note of a layer whose packaged files lie in the lower directory of an overlay.
pub const BELOW_OVERLAY: (&str, &str) = ("packaged_files", "in the lower directory");
/// The note of a layer whose own kernel keeps the files that the probe makes in memory, whatever its file system is called.
pub const KEPT_IN_MEMORY: (&str, &str) = ("storage", "memory of the layer's own kernel");
/// The note of a layer whose kernel does not count how long a thread waits for a CPU (`schedstat`).
pub const DELAY_UNKNOWN: (&str, &str) = ("waiting_for_cpu", "not counted by its kernel");

/// The note with the program that runs a container.
pub const CONTAINER: &str = "runtime";
/// The note with the model of a guest's disk.
pub const GUEST_DISK: &str = "disk";
/// The note with the model of a guest's network card.
pub const GUEST_NIC: &str = "nic";
/// How the names of notes begin that are of the near end of a path.
pub const NEAR: &str = "near_";
/// The note with what encrypts a layer's data.
pub const ENCRYPTION: &str = "encryption";
/// The note with the options with which a layer sees changes of the other side sooner, such as `cache=none`. Absent where
/// it has none.
pub const FRESHER: &str = "sees_changes_sooner_with";
/// The note with the number of seccomp filters that each system call of the probe passes. Absent without any.
pub const SECCOMP_FILTERS: &str = "seccomp_filters";
/// The note of a directory of the user with a second path: "1" if both are of one file system of this kernel, so that its
/// two sides are processes of one client, "2" otherwise.
pub const CLIENTS: &str = "clients";

impl Facts {
    /// Replaces what a layer is by what it is after it was set up again. What power cuts did to it stays.
    pub fn renew(&mut self, now: Self) {
        *self = Self {
            power_cuts: std::mem::take(&mut self.power_cuts),
            program_cuts: std::mem::take(&mut self.program_cuts),
            sequence_cuts: std::mem::take(&mut self.sequence_cuts),
            ..now
        };
    }

    /// The values of a note of both ends of a path, or of a layer.
    pub fn of_both_ends(&self, note: &str) -> impl Iterator<Item = &str> {
        let near = self.notes.get(&format!("{NEAR}{note}"));
        near.into_iter()
            .chain(self.notes.get(note))
            .map(String::as_str)
    }

    /// Whether a program runs it as a container ([`CONTAINER`]).
    pub fn is_container(&self) -> bool {
        self.notes.contains_key(CONTAINER)
    }

    /// Whether both sides of the directory are processes of one client ([`CLIENTS`]).
    pub fn one_client(&self) -> bool {
        self.notes.get(CLIENTS).is_some_and(|n| n == "1")
    }

    /// The probe's files are in memory: on a tmpfs, on devices backed by memory, or as the layer says
    /// ([`KEPT_IN_MEMORY`]).
    pub fn in_memory(&self) -> bool {
        let of_memory = |d: &Device| d.name.starts_with("ram") || d.name.starts_with("zram");
        let mut first = self.mounts.first().into_iter();
        self.says(KEPT_IN_MEMORY)
            || first.any(|m| matches!(m.fs.as_str(), "tmpfs" | "ramfs"))
            || (!self.devices.is_empty() && self.devices.iter().all(of_memory))
    }

    /// The layer compresses its data, so fewer bytes cross the device than are read.
    pub fn compressed(&self) -> bool {
        let with = self.notes.get("compression");
        with.is_some_and(|c| !matches!(c.as_str(), "" | "none" | "off"))
    }

    /// The layer put the packaged files below an overlay ([`BELOW_OVERLAY`]), so that the first write to one copies
    /// it. What is made through an overlay, as in a container's root, lies in its upper directory and is not copied.
    pub fn copies_up(&self) -> bool {
        self.says(BELOW_OVERLAY)
    }

    fn says(&self, (name, text): (&str, &str)) -> bool {
        self.notes.get(name).is_some_and(|said| said == text)
    }

    /// Every instruction of the probe was emulated. Its times say nothing about a real CPU, and
    /// must not be compared with those of a guest on one.
    pub fn emulated_cpu(&self) -> bool {
        self.guest.as_ref().is_some_and(|g| g.emulated_cpu)
    }

    /// The mount, at or below the layer, whose data lies on a server.
    pub fn network(&self) -> Option<&Mount> {
        self.mounts.iter().find(|m| m.is_network())
    }

    /// Calls pass through a program in user space.
    pub fn is_fuse(&self) -> bool {
        self.mounts.first().is_some_and(Mount::is_fuse)
    }

    /// The options with which it sees changes of the other side sooner ([`FRESHER`]). `None` where it has none.
    pub fn fresher(&self) -> Option<Vec<(&str, &str)>> {
        let options = self.notes.get(FRESHER)?.split(',');
        options.map(|option| option.split_once('=')).collect()
    }

    /// How many seccomp filters each system call of the probe passes ([`SECCOMP_FILTERS`]).
    pub fn seccomp_filters(&self) -> u32 {
        let note = self.notes.get(SECCOMP_FILTERS);
        note.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Whether there are no facts.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The virtual machine that the probe ran in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GuestFacts {
    /// Version of its kernel.
    pub kernel: String,
    /// How its instructions ran: `kvm` or `tcg`.
    pub accelerator: String,
    /// Its instructions were emulated (TCG).
    pub emulated_cpu: bool,
    /// Its kernel's clock source, such as `tsc`.
    pub clock: String,
    /// The guest's own block devices below the layer. Their numbers are not the host's.
    #[serde(default)]
    pub devices: Vec<Device>,
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Mount {
    /// Where it is mounted.
    pub at: PathBuf,
    /// File system type, such as `ext4`.
    pub fs: String,
    /// Device, image or server.
    pub source: String,
    /// Mount and super block options, comma separated.
    pub options: String,
}

impl Mount {
    /// Its options, as the kernel separates them.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        self.options.split(',')
    }

    /// Its options but for those that have the address of this machine, which no two have in common (nfs(5)).
    pub fn common_options(&self) -> String {
        let of_machine = |option: &&str| option.starts_with("clientaddr=");
        let common = self.options().filter(|option| !of_machine(option));
        common.collect::<Vec<_>>().join(",")
    }

    /// Whether it has this option.
    pub fn has_option(&self, option: &str) -> bool {
        self.options().any(|own| own == option)
    }

    /// How it compresses what is written (btrfs), and the option that says so; `None` if nothing does.
    pub fn compression(&self) -> Option<(&str, &str)> {
        let mut all = self.options().filter_map(|option| {
            let (name, how) = option.split_once('=').unwrap_or((option, ""));
            let is_one = matches!(name, "compress" | "compress-force");
            (is_one && !matches!(how, "no" | "none")).then_some((how, option))
        });
        all.next()
    }

    /// Whether a program in user space serves it.
    pub fn is_fuse(&self) -> bool {
        self.fs.starts_with("fuse")
    }

    fn is_network(&self) -> bool {
        const KINDS: [&str; 8] = [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "ceph",
            "glusterfs",
            "lustre",
            "afs",
        ];
        let kind = self.fs.strip_prefix("fuse.").unwrap_or(&self.fs);
        KINDS.contains(&kind) || names_a_host(&self.source)
    }
}

/// Whether a source names a host: `host:/path`, `user@host:`, `//host/share` or a URL.
fn names_a_host(source: &str) -> bool {
    if source.starts_with("//") || source.contains("://") {
        return true;
    }
    let end = source.find(":/").or_else(|| source.find(":~"));
    let end = end.or_else(|| source.strip_suffix(':').map(str::len));
    end.is_some_and(|end| end > 0 && !source[..end].contains(['/', ' ', '=']))
}

/// A block device below a layer, from sysfs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Device {
    /// Kernel name, such as `vda` or `loop0`.
    pub name: String,
    /// `major:minor`.
    pub number: String,
    /// `queue/write_cache`: `write back` or `write through`; empty when unknown.
    pub write_cache: String,
    /// `queue/fua`: the device takes forced unit access.
    pub fua: bool,
    /// `queue/rotational`.
    pub rotational: bool,
    /// The device stores bytes itself; loop devices over a file do not.
    pub physical: bool,
    /// The device is the layer's own, so no other program uses it: a loop device over its image.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

/// A limit of a control group. It refills while its processes rest, so short turns may not show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limit {
    /// Whether it limits only a program that the layer needs, and not the probe.
    #[serde(default)]
    pub helper: bool,
    /// What is limited.
    pub of: Limited,
    /// CPUs (0.05 is 5 % of one), bytes per second or operations per second.
    pub rate: f64,
    /// Kernel name of the limited device, such as `vda`; absent for a CPU quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The file of the group that holds it, such as `cpu.max`.
    pub file: String,
    /// Whether nobody counts how often it stops the layer: its group is not seen from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
}

impl Limit {
    /// A CPU quota that a probe found itself: of a control group that is not seen from here.
    pub fn of_probe(rate: f64) -> Self {
        Self {
            helper: false,
            of: Limited::Cpu,
            rate,
            device: None,
            file: "a control group of the probe".into(),
            uncounted: true,
        }
    }
}

/// What a control group limits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Limited {
    /// CPU time.
    Cpu,
    /// Bytes read from a device.
    ReadBytes,
    /// Bytes written to a device.
    WrittenBytes,
    /// Reads of a device.
    Reads,
    /// Writes to a device.
    Writes,
}

/// A requirement of a layer that the host lacks, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Missing {
    /// What is lacking, such as `mkfs.xfs` or `root`.
    pub what: String,
    /// The command that gets it.
    pub hint: String,
    /// Installing a package as root is enough.
    pub installable: bool,
}

/// How far a layer's caches were emptied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DroppedCaches {
    /// Methods used, such as `drop_caches` or `fadvise`.
    pub how: Vec<String>,
    /// `false` if something prevented it, such as missing privileges.
    pub complete: bool,
}

/// CPU time of a layer's own helpers on the host, nanoseconds since they started.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CpuTime {
    /// User and kernel mode together.
    pub ns: u64,
    /// The part of `ns` in threads of layermark itself, whose own CPU time includes it too.
    pub within_ns: u64,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Facts, Mount, names_a_host};
    use crate::witness::WitnessTrial;

    /// Set up again by `--resume`, a layer had lost its power cuts.
    #[test]
    fn a_layer_that_is_set_up_again_keeps_its_power_cuts() {
        let mut facts = Facts {
            power_cuts: vec![WitnessTrial::default()],
            read_ahead_kb: Some(128),
            ..Facts::default()
        };
        facts.renew(Facts::default());
        assert_eq!((facts.power_cuts.len(), facts.read_ahead_kb), (1, None));
    }

    #[test]
    fn the_address_of_a_client_is_no_difference_between_mounts() {
        let mount = Mount {
            at: PathBuf::from("/shared"),
            fs: "nfs4".into(),
            source: "nas:/srv".into(),
            options: "rw,vers=4.2,clientaddr=10.0.0.7,addr=10.0.0.1".into(),
        };
        assert_eq!(mount.common_options(), "rw,vers=4.2,addr=10.0.0.1");
    }

    #[test]
    fn a_source_that_names_a_host_is_a_network() {
        for source in [
            "box:/srv",
            "me@box:",
            "me@box:~/x",
            "[::1]:/srv",
            "//box/share",
            "https://box/dav",
        ] {
            assert!(names_a_host(source), "{source}");
        }
        for source in [
            "/dev/vda",
            "overlay",
            "/srv/a:/srv/b",
            "pool/data",
            "",
            "bindfs",
        ] {
            assert!(!names_a_host(source), "{source}");
        }
    }
}
