//! The agent as a process of this host: a place that shares this kernel is looked into from here.
//!
//! Command lines are readable to all users, and a process can change its own. So the agent is the process that holds
//! what was sent over its connection: an open file with a secret name. Only root and its own user can see that name.
//! From then on nothing is found by its number: the process is a descriptor of its directory in `/proc`, which no
//! other process gets, and its work directory is a descriptor, too.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use layermark_model::{DroppedCaches, Facts, Spec};

use rustix::fs::{CWD, FsWord, Mode, OFlags, openat, readlinkat, stat, statfs};

use super::{MOUNTED, agent, limits};
use crate::{
    Base, KernelCaches, LayerError, Place, fd,
    host::HostPlace,
    keeper::{self, Spared},
};

/// Type of a tmpfs (`TMPFS_MAGIC` in `linux/magic.h`).
const TMPFS: FsWord = 0x0102_1994;

/// An agent that runs on this kernel, and its directory as this host sees it.
pub(super) struct Here {
    pub(super) pid: u32,
    process: AgentProcess,
    place: HostPlace,
    /// It removes its directory when the connection ends.
    _spared: Spared,
}

/// A process of this host that has proved to be the agent.
#[derive(Debug)]
struct AgentProcess {
    /// Its directory in `/proc`. Once the process has ended, nothing is found there.
    process: OwnedFd,
    /// Its work directory.
    dir: OwnedFd,
    /// The number of its own descriptor of the work directory.
    number: i32,
}

impl AgentProcess {
    /// The process with this number, if it holds the file of this secret name. `held`: numbers of its descriptors,
    /// see [`crate::agent::protocol::AgentReply::Entered`].
    fn of(pid: u32, secret: &str, held: [i32; 2]) -> Option<Self> {
        let [number, proof] = held;
        let process = fd::open_dir(CWD, format!("/proc/{pid}")).ok()?;
        let name = readlinkat(&process, format!("fd/{proof}"), Vec::new()).ok()?;
        if name.to_bytes() != format!("/memfd:{secret} (deleted)").as_bytes() {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&process, format!("fd/{number}"), flags, Mode::empty()).ok()?;
        Some(Self {
            process,
            dir,
            number,
        })
    }

    /// Its directory in `/proc`, such as `/proc/self/fd/9` for `/proc/4711`.
    fn path(&self) -> PathBuf {
        fd::path_of(&self.process)
    }

    /// Its work directory. No link on the way can be changed by others.
    fn dir(&self) -> PathBuf {
        fd::path_of(&self.dir).join(".")
    }

    /// The same, as a link of the process: by this its mounts can be found.
    fn its_dir(&self) -> PathBuf {
        self.path().join(format!("fd/{}", self.number))
    }

    /// Whether it runs this binary. It has told so itself, but that is its own word.
    fn runs(&self, binary: &Path) -> io::Result<bool> {
        let its = self.path().join("exe");
        let (a, b) = (stat(&its)?, stat(binary)?);
        if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) {
            return Ok(true);
        }
        let hash = |path: &Path| agent::hash(File::open(path)?);
        Ok(a.st_size == b.st_size && hash(&its)? == hash(binary)?)
    }
}

impl Here {
    /// The process that was started as `PROGRAM place TOKEN` and holds the secret, if this host has it and may look
    /// into it. Its data is on the disk of `below`, if that is given.
    pub(super) fn find(
        token: &str,
        base: &Base,
        spec: &Spec,
        (secret, held): (&str, Option<[i32; 2]>),
        below: Option<&Path>,
    ) -> Option<Self> {
        let held = held?;
        let (pid, process) = layermark_sys::process::all()
            .filter(|pid| is_agent(*pid, token))
            .find_map(|pid| Some((pid, AgentProcess::of(pid, secret, held)?)))?;
        let at = process.dir();
        // Files of a tmpfs cannot be made cold.
        let in_memory = statfs(&at).is_ok_and(|fs| fs.f_type == TMPFS);
        let mut place = HostPlace::new(base, spec, at).mounted_at(process.its_dir());
        if let Some(dir) = below {
            place = place.on_device_of(dir);
        }
        Some(Self {
            pid,
            process,
            place: if in_memory { place.in_memory() } else { place },
            _spared: keeper::spare(pid),
        })
    }

    /// Whether the agent runs this binary.
    pub(super) fn runs(&self, binary: &Path) -> io::Result<bool> {
        self.process.runs(binary)
    }

    /// Facts as this host sees them, with those of the agent that are about itself.
    pub(super) fn facts(&self, inside: Facts) -> Result<Facts, LayerError> {
        let (process, root) = (self.process.path(), self.process.path().join("root"));
        let mut facts = self.place.facts()?;
        for mount in &mut facts.mounts {
            if let Ok(below) = mount.at.strip_prefix(&root) {
                mount.at = Path::new("/").join(below);
            } else if fs::read_link(&root).is_ok_and(|root| root.starts_with(&mount.at)) {
                // A chroot: its root is a directory within the mount.
                mount.at = "/".into();
            }
        }
        facts.notes.extend(inside.notes);
        facts.notes.extend(limits::of(&process));
        facts
            .notes
            .insert("kernel".into(), "shared with this host".into());
        Ok(facts)
    }

    /// The network namespace of the agent.
    pub(super) fn network(&self) -> io::Result<OwnedFd> {
        Ok(File::open(self.process.path().join("ns/net"))?.into())
    }

    /// The path by which this host sees its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.place.info().dir
    }

    pub(super) fn drop_caches(
        &mut self,
        kernel: KernelCaches,
    ) -> Result<DroppedCaches, LayerError> {
        self.place.drop_caches(kernel)
    }
}

/// Whether a process was started as `PROGRAM place TOKEN`, or [`MOUNTED`] with one more word. The command that
/// leads to it has other arguments.
fn is_agent(pid: u32, token: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|b| *b == 0).skip(1);
    if [words.next(), words.next()] != [Some(&b"place"[..]), Some(token.as_bytes())] {
        return false;
    }
    let rest: Vec<&[u8]> = words.collect();
    rest == [b""] || rest == [MOUNTED.as_bytes(), b""]
}

#[cfg(test)]
mod tests {
    use std::{
        os::fd::AsRawFd,
        process::{Command, Stdio},
    };

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn the_agent_is_who_holds_the_secret() {
        let dir = tempfile::tempdir().unwrap();
        let held = fd::open_dir(CWD, dir.path()).unwrap();
        let proof = memfd_create("s3cret", MemfdFlags::CLOEXEC).unwrap();
        let numbers = [held.as_raw_fd(), proof.as_raw_fd()];
        let own = std::process::id();
        let agent = AgentProcess::of(own, "s3cret", numbers).unwrap();
        let id = |path: &Path| stat(path).map(|s| (s.st_dev, s.st_ino)).unwrap();
        assert_eq!(id(&agent.dir()), id(dir.path()));
        assert_eq!(id(&agent.its_dir()), id(dir.path()));
        assert!(agent.runs(&std::env::current_exe().unwrap()).unwrap());
        assert!(!agent.runs(Path::new("/bin/sh")).unwrap());
        // Another name, descriptors in another order, and what is not a directory.
        assert!(AgentProcess::of(own, "secret", numbers).is_none());
        assert!(AgentProcess::of(own, "s3cret", [numbers[1], numbers[0]]).is_none());
        assert!(AgentProcess::of(own, "s3cret", [numbers[1]; 2]).is_none());
        // Whatever becomes of the path, the directory stays the same.
        let id_before = id(dir.path());
        fs::rename(dir.path(), dir.path().with_extension("moved")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path()).unwrap();
        assert_eq!(id(&agent.dir()), id_before);
        fs::remove_file(dir.path()).unwrap();
        fs::rename(dir.path().with_extension("moved"), dir.path()).unwrap();
    }

    /// A process with the agent's arguments and all that is public about it.
    #[test]
    fn a_twin_is_not_the_agent_and_a_process_that_ended_is_nobody() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("place"), "echo ready; read wait").unwrap();
        let mut twin = Command::new("sh")
            .args(["place", "t0ken"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 5];
        io::Read::read_exact(twin.stdout.as_mut().unwrap(), &mut ready).unwrap();
        assert!(is_agent(twin.id(), "t0ken"));
        let process = fd::open_dir(CWD, format!("/proc/{}", twin.id())).unwrap();
        let base = Base {
            dir: dir.path().into(),
            packaged: dir.path().into(),
            exe: "/nonexistent".into(),
            silence: std::time::Duration::ZERO,
            content: crate::Content::Fresh,
            until: None,
        };
        let spec = Spec::bare("exec");
        let found = Here::find("t0ken", &base, &spec, ("s3cret", Some([1, 0])), None);
        assert!(found.is_none());
        twin.kill().unwrap();
        twin.wait().unwrap();
        let links = readlinkat(&process, "cwd", Vec::new());
        assert!(links.is_err(), "{links:?}");
    }
}
