//! The agent: process 1 of a guest, started by the kernel command line that the host wrote.
//!
//! It loads modules, mounts the layer, runs the probe and answers the host. When the connection to
//! its host ends, it powers the guest off.

use std::{
    fs::{self, File},
    io,
    net::Ipv4Addr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use layermark_model::DroppedCaches;

use crate::{
    agent::protocol::{self, AT, AgentReply, AgentRequest, Channel, LONGEST, Mounting, ROOT_TAG},
    agent::{Packaged, Port, Probe},
    child,
    host::sync,
    kernel_caches, mounts,
    net::{
        card_facts::{self, CardFacts},
        echo,
    },
    vm::{
        card,
        initramfs::{INIT, LIST},
        rootfs,
    },
};

mod port;

/// A word on the command line of every kernel that layermark boots, and of no other.
pub(crate) const WORD: &str = "layermark.guest";
/// A word on the command line when the host is reached through a serial port.
pub(crate) const SERIAL: &str = "layermark.serial";

/// How long devices may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves the host until the connection ends, then powers the machine off. Refuses to run anywhere
/// but in a guest of layermark, whatever its process id.
pub fn guest() -> io::Result<()> {
    // Being process 1 proves nothing: in a container it may be any program. A guest of layermark
    // has no /proc before this.
    if !Path::new("/proc/cmdline").exists() {
        mount("proc", "/proc")?;
    }
    let line = fs::read_to_string("/proc/cmdline")?;
    if !line.split_whitespace().any(|w| w == WORD) {
        return Err(io::Error::other("this is not a guest of layermark"));
    }
    if let Err(e) = agent(&line) {
        // On the console, which the host shows.
        eprintln!("layermark guest: {e}");
    }
    rustix::fs::sync();
    Ok(rustix::system::reboot(
        rustix::system::RebootCommand::PowerOff,
    )?)
}

fn mount(fs: &str, at: &str) -> io::Result<()> {
    mounts::mount(Path::new(fs), Path::new(at), fs, false, b"")
        .map_err(|e| io::Error::new(e.kind(), format!("mount {at}: {e}")))
}

fn agent(command_line: &str) -> io::Result<()> {
    mount("sysfs", "/sys")?;
    // With device nodes, so not by the function that forbids them.
    rustix::mount::mount(
        "dev",
        "/dev",
        "devtmpfs",
        rustix::mount::MountFlags::empty(),
        None,
    )?;
    mount("tmpfs", "/tmp")?;
    let refused = load_modules()?;
    let (mut input, output) = port::open(command_line)?;
    let port: Port = Arc::new(Mutex::new(output));
    let kernel = rustix::system::uname();
    tell(
        &port,
        &AgentReply::Ready {
            kernel: kernel.release().to_string_lossy().into_owned(),
            up_s: now().as_secs_f64(),
            refused,
        },
    )?;
    let mut agent = Agent {
        port,
        probe: None,
        packaged: Packaged::below(AT),
        card: None,
        has_rootfs: false,
    };
    while let Some((channel, bytes)) = protocol::receive(&mut input)? {
        agent.hear(channel, &bytes)?;
    }
    Ok(())
}

fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn tell(port: &Port, answer: &AgentReply) -> io::Result<()> {
    protocol::say(
        &mut *port.lock().unwrap_or_else(PoisonError::into_inner),
        answer,
    )
}

/// Loads the modules of the list. Returns the optional ones that could not be loaded.
fn load_modules() -> io::Result<Vec<String>> {
    let mut refused = Vec::new();
    for line in fs::read_to_string(Path::new("/").join(LIST))?.lines() {
        let (optional, line) = line.strip_prefix('?').map_or((false, line), |l| (true, l));
        let (file, path) = line.split_once(' ').unwrap_or((line, line));
        match load_module(&Path::new("/").join(file)) {
            Err(e) if optional => refused.push(format!("{path}: {e}")),
            Err(e) => return Err(io::Error::new(e.kind(), format!("module {path}: {e}"))),
            Ok(()) => {}
        }
    }
    Ok(refused)
}

#[allow(unsafe_code)]
fn load_module(path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = File::open(path)?;
    // SAFETY: the parameters are a string that ends with a zero byte and a number.
    let result =
        unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(()),
        e if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        e => Err(e),
    }
}

fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = find() {
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            let text = format!("{what} did not appear in {PATIENCE:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The layer's disk: not a memory or loop device, and not the disk of the probe's root.
fn find_disk() -> Option<PathBuf> {
    let disks = fs::read_dir("/sys/block").ok()?;
    let is_root = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("serial")).is_ok_and(|s| s.trim() == ROOT_TAG)
    };
    let names = disks
        .flatten()
        .filter(|e| !is_root(e))
        .map(|e| e.file_name());
    let disk = names
        .filter(|n| {
            let name = n.to_string_lossy();
            ["vd", "sd", "nvme", "hd"]
                .iter()
                .any(|p| name.starts_with(p))
        })
        .min()?;
    Some(Path::new("/dev").join(disk)).filter(|p| p.exists())
}

struct Agent {
    port: Port,
    probe: Option<Probe>,
    packaged: Packaged,
    /// The network card that is switched on.
    card: Option<String>,
    /// Whether the probe runs in the user's tree of files.
    has_rootfs: bool,
}

impl Agent {
    fn hear(&mut self, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        match channel {
            Channel::Control => {
                let ask = serde_json::from_slice(bytes)?;
                if let Some(answer) = self.answer(ask) {
                    tell(&self.port, &answer)?;
                }
            }
            Channel::Probe => {
                if let Some(probe) = &mut self.probe {
                    probe.feed(bytes);
                }
            }
            Channel::File => self.packaged.store(bytes),
            Channel::Errors | Channel::Ended => {}
        }
        Ok(())
    }

    fn answer(&mut self, ask: AgentRequest) -> Option<AgentReply> {
        let done = |result: io::Result<()>| match result {
            Ok(()) => AgentReply::Done,
            Err(e) => AgentReply::Failed(e.to_string()),
        };
        Some(match ask {
            AgentRequest::Enter { .. } => AgentReply::Failed("a guest mounts its layer".into()),
            AgentRequest::Network { address } => done(self.connect(address)),
            AgentRequest::Reach { to } => done(echo::reach(to)),
            AgentRequest::Ping { to } => done(echo::ping(to)),
            AgentRequest::Rootfs(from) => done(self.enter_rootfs(from.as_ref())),
            AgentRequest::Mount(what) => done(self.mount_layer(&what)),
            AgentRequest::Start { name } => done(self.start(&name)),
            AgentRequest::Kill => {
                self.probe = None;
                AgentReply::Done
            }
            AgentRequest::Time => AgentReply::Time {
                ns: now().as_nanos() as u64,
            },
            AgentRequest::Facts => self
                .facts()
                .unwrap_or_else(|e| AgentReply::Failed(e.to_string())),
            AgentRequest::DropCaches => drop_caches().map_or_else(
                |e| AgentReply::Failed(e.to_string()),
                AgentReply::DroppedCaches,
            ),
            AgentRequest::Changed => match self.packaged.changed() {
                // A longer list would not fit into a frame.
                Ok(paths) if paths.iter().map(String::len).sum::<usize>() > LONGEST / 2 => {
                    AgentReply::Failed(format!("{} packaged files have changed", paths.len()))
                }
                Ok(paths) => AgentReply::Changed { paths },
                Err(e) => AgentReply::Failed(e.to_string()),
            },
            AgentRequest::Put {
                path,
                size,
                runs,
                modified,
            } => {
                self.packaged.begin(&path, size, runs, modified);
                return None;
            }
            AgentRequest::Make {
                path,
                link,
                modified,
            } => {
                self.packaged.make(&path, link.as_deref(), modified);
                return None;
            }
            AgentRequest::Seal => done(self.packaged.seal()),
        })
    }

    fn enter_rootfs(&mut self, from: Option<&Mounting>) -> io::Result<()> {
        rootfs::make(from)
            .map_err(|e| io::Error::new(e.kind(), format!("make the root of the probe: {e}")))?;
        self.has_rootfs = true;
        Ok(())
    }

    fn mount_layer(&self, what: &Mounting) -> io::Result<()> {
        if mounts::holding(Path::new(AT))?.at == Path::new(AT) {
            if self.has_rootfs {
                rootfs::hide_layer()?;
            }
            mounts::unmount_now(Path::new(AT))?;
        }
        mount_at(what)
    }

    fn start(&mut self, name: &str) -> io::Result<()> {
        // There is at most one.
        self.probe = None;
        let mut command = if self.has_rootfs {
            rootfs::show_layer()?;
            let mut command = Command::new(rootfs::PROGRAM);
            child::in_root(&mut command, rootfs::ROOTFS);
            command
        } else {
            Command::new(Path::new("/").join(INIT))
        };
        self.probe = Some(Probe::start(&self.port, command.arg0(name))?);
        Ok(())
    }

    fn connect(&mut self, address: Ipv4Addr) -> io::Result<()> {
        let name = wait_for("the network card", card::first)?;
        card::switch_on(&name, address)?;
        wait_for("its carrier", || {
            card_facts::has_carrier(&name).then_some(())
        })?;
        self.card = Some(name);
        Ok(())
    }

    fn facts(&self) -> io::Result<AgentReply> {
        let facts = mounts::facts_of(Path::new(AT))?;
        Ok(AgentReply::Facts {
            facts: Box::new(facts),
            clock: layermark_sys::clocksource()?,
            card: self.card.as_deref().map(CardFacts::of).transpose()?,
        })
    }
}

fn mount_at(what: &Mounting) -> io::Result<()> {
    let source = match &what.source {
        Some(source) => PathBuf::from(source),
        None => wait_for("the disk", find_disk)?,
    };
    let options = what.options.as_bytes();
    mounts::mount(&source, Path::new(AT), &what.fs, false, options).map_err(|e| {
        let text = format!("mount {} ({}) at {AT}: {e}", source.display(), what.fs);
        io::Error::new(e.kind(), text)
    })
}

fn drop_caches() -> io::Result<DroppedCaches> {
    sync(Path::new(AT))?;
    kernel_caches::drop_all()?;
    Ok(DroppedCaches {
        how: vec!["guest: syncfs".into(), "guest: drop_caches".into()],
        complete: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_guest_of_ours_is_left_alone() {
        let e = guest().unwrap_err();
        assert!(e.to_string().contains("not a guest"), "{e}");
    }
}
