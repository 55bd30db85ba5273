//! The agent: process 1 of a guest, started by the kernel command line that the host wrote.
//!
//! It loads modules, mounts what is measured, runs the probe and answers the host. A guest without
//! its host has no purpose: at the end of the line it switches itself off.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::Ipv4Addr,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use layermark_model::Cooled;

use crate::{
    child,
    host::{PACKAGED, sync},
    mounts,
    tree::{self, Seen},
    vm::{
        initramfs::{INIT, LIST},
        net,
        talk::{self, AT, Answer, Ask, Channel, Mounting, PIECE, PORT, ROOT_TAG},
        world,
    },
};

/// On the command line of every kernel that we boot, and on no other.
pub(crate) const WORD: &str = "layermark.guest";

/// How long devices may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

type Port = Arc<Mutex<File>>;

/// Serves the host until the line ends, then switches the machine off. Refuses to do so anywhere
/// but in a guest of ours, whatever its process id.
pub fn guest() -> io::Result<()> {
    // Anything may be process 1 of a container, so that is no proof. A guest of ours has no /proc
    // before this.
    if !Path::new("/proc/cmdline").exists() {
        mount("proc", "/proc")?;
    }
    let line = fs::read_to_string("/proc/cmdline")?;
    if !line.split_whitespace().any(|w| w == WORD) {
        return Err(io::Error::other("this is not a guest of layermark"));
    }
    if let Err(e) = agent() {
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

fn agent() -> io::Result<()> {
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
    let port = wait_for("the port to the host", find_port)?;
    let input = File::options().read(true).write(true).open(&port)?;
    let output: Port = Arc::new(Mutex::new(input.try_clone()?));
    let mut input = io::BufReader::with_capacity(2 * PIECE, input);
    let kernel = rustix::system::uname();
    tell(
        &output,
        &Answer::Ready {
            kernel: kernel.release().to_string_lossy().into_owned(),
            up_s: now().as_secs_f64(),
            refused,
        },
    )?;
    let mut agent = Agent {
        port: output,
        probe: None,
        file: None,
        failed: None,
        seen: Seen::new(),
        has_world: false,
    };
    while let Some((channel, bytes)) = talk::receive(&mut input)? {
        agent.hear(channel, &bytes)?;
    }
    Ok(())
}

fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn tell(port: &Port, answer: &Answer) -> io::Result<()> {
    talk::say(
        &mut *port.lock().unwrap_or_else(PoisonError::into_inner),
        answer,
    )
}

/// Loads what the list names; those optional ones that could not be.
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

fn find_port() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let ours = ports
        .flatten()
        .find(|e| fs::read_to_string(e.path().join("name")).is_ok_and(|n| n.trim() == PORT))?;
    Some(Path::new("/dev").join(ours.file_name())).filter(|p| p.exists())
}

/// The disk; memory devices and loops are none, nor is that of the probe's world.
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
    /// The file being received, and its bytes to come.
    file: Option<(File, u64)>,
    /// Why a file could not be written, told when they are sealed.
    failed: Option<String>,
    seen: Seen,
    /// The probe runs in a tree of files of the user's.
    has_world: bool,
}

struct Probe {
    child: Arc<Mutex<Child>>,
    stdin: Option<ChildStdin>,
    watch: Option<JoinHandle<()>>,
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
            Channel::Probe => self.feed(bytes),
            Channel::File => self.store(bytes),
            Channel::Errors | Channel::Ended => {}
        }
        Ok(())
    }

    fn answer(&mut self, ask: Ask) -> Option<Answer> {
        let done = |result: io::Result<()>| match result {
            Ok(()) => Answer::Done,
            Err(e) => Answer::Failed(e.to_string()),
        };
        Some(match ask {
            Ask::Network { address } => done(network(address)),
            Ask::World(from) => done(self.enter_world(from.as_ref())),
            Ask::Mount(what) => done(self.mount_layer(&what)),
            Ask::Start { name } => done(self.start(&name)),
            Ask::Kill => {
                self.end_probe();
                Answer::Done
            }
            Ask::Time => Answer::Time {
                ns: now().as_nanos() as u64,
            },
            Ask::Facts => facts().unwrap_or_else(|e| Answer::Failed(e.to_string())),
            Ask::Cool => cool().map_or_else(|e| Answer::Failed(e.to_string()), Answer::Cooled),
            Ask::Changed { known } => self
                .changed(&known)
                .unwrap_or_else(|e| Answer::Failed(e.to_string())),
            Ask::Put { path, size } => {
                if let Err(e) = self.begin(&path, size) {
                    self.failed.get_or_insert(format!("write {path}: {e}"));
                }
                return None;
            }
            Ask::Seal => done(self.seal()),
        })
    }

    fn enter_world(&mut self, from: Option<&Mounting>) -> io::Result<()> {
        world::make(from)
            .map_err(|e| io::Error::new(e.kind(), format!("make the root of the probe: {e}")))?;
        self.has_world = true;
        Ok(())
    }

    fn mount_layer(&self, what: &Mounting) -> io::Result<()> {
        if mounts::holding(Path::new(AT))?.at == Path::new(AT) {
            if self.has_world {
                world::hide_layer()?;
            }
            mounts::unmount_now(Path::new(AT))?;
        }
        mount_at(what)
    }

    /// What the probe does not take any more is lost with it.
    fn feed(&mut self, bytes: &[u8]) {
        let Some(probe) = &mut self.probe else { return };
        if bytes.is_empty() {
            probe.stdin = None;
        } else if let Some(stdin) = &mut probe.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    fn start(&mut self, name: &str) -> io::Result<()> {
        self.end_probe();
        let mut command = if self.has_world {
            world::show_layer()?;
            let mut command = Command::new(world::PROGRAM);
            child::in_root(&mut command, world::WORLD);
            command
        } else {
            Command::new(Path::new("/").join(INIT))
        };
        let mut child = command
            .arg0(name)
            .arg("probe")
            .env_clear()
            .env("PATH", child::PROGRAM_PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let output = child.stdout.take().map(|o| self.pump(Channel::Probe, o));
        let errors = child.stderr.take().map(|e| self.pump(Channel::Errors, e));
        let child = Arc::new(Mutex::new(child));
        let (watched, port) = (child.clone(), self.port.clone());
        let watch = thread::spawn(move || {
            for pump in [output, errors].into_iter().flatten() {
                let _ = pump.join();
            }
            let how = end_of(&watched);
            let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = talk::send(&mut *port, Channel::Ended, how.as_bytes());
        });
        self.probe = Some(Probe {
            child,
            stdin,
            watch: Some(watch),
        });
        Ok(())
    }

    /// Carries what the probe says to the host, to its end.
    fn pump(&self, channel: Channel, mut from: impl Read + Send + 'static) -> JoinHandle<()> {
        let port = self.port.clone();
        thread::spawn(move || {
            let mut piece = vec![0; PIECE];
            loop {
                let got = from.read(&mut piece).unwrap_or(0);
                if got == 0 && channel == Channel::Errors {
                    return;
                }
                let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
                if talk::send(&mut *port, channel, &piece[..got]).is_err() || got == 0 {
                    return;
                }
            }
        })
    }

    fn end_probe(&mut self) {
        let Some(mut probe) = self.probe.take() else {
            return;
        };
        drop(probe.stdin.take());
        // It may have ended already.
        let _ = probe
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .kill();
        if let Some(watch) = probe.watch.take() {
            let _ = watch.join();
        }
    }

    fn begin(&mut self, path: &str, size: u64) -> io::Result<()> {
        self.file = None;
        let path = packaged().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let is_file = path.symlink_metadata().is_ok_and(|m| m.is_file());
        if !is_file {
            tree::remove(&path)?;
        }
        // Not truncated: what was there stays where it lies on the disk.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        file.set_len(size)?;
        self.file = (size > 0).then_some((file, size));
        Ok(())
    }

    fn store(&mut self, bytes: &[u8]) {
        let Some((file, left)) = &mut self.file else {
            return;
        };
        if let Err(e) = file.write_all(bytes) {
            self.failed
                .get_or_insert(format!("write a packaged file: {e}"));
            self.file = None;
            return;
        }
        *left = left.saturating_sub(bytes.len() as u64);
        if *left == 0 {
            self.file = None;
        }
    }

    fn seal(&mut self) -> io::Result<()> {
        if let Some(why) = self.failed.take() {
            return Err(io::Error::other(why));
        }
        fs::create_dir_all(packaged())?;
        sync(Path::new(AT))?;
        self.seen = tree::see(&packaged())?;
        Ok(())
    }

    fn changed(&mut self, known: &[String]) -> io::Result<Answer> {
        fs::create_dir_all(packaged())?;
        prune(&packaged(), Path::new(""), known)?;
        let now = tree::see(&packaged())?;
        let same = |path: &&String| {
            let path = packaged().join(path);
            now.contains_key(&path) && now.get(&path) == self.seen.get(&path)
        };
        let paths = known.iter().filter(|p| !same(p)).cloned().collect();
        Ok(Answer::Changed { paths })
    }
}

/// Removes what lies below `root`/`dir` and is not `known`.
fn prune(root: &Path, dir: &Path, known: &[String]) -> io::Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        let holds = |name: &String| Path::new(name).starts_with(&path);
        if entry.file_type()?.is_dir() && known.iter().any(holds) {
            prune(root, &path, known)?;
        } else if !known.iter().any(|name| Path::new(name) == path) {
            tree::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Waits without holding the lock for long: somebody may have to kill it.
fn end_of(child: &Mutex<Child>) -> String {
    loop {
        let mut held = child.lock().unwrap_or_else(PoisonError::into_inner);
        match held.try_wait() {
            Ok(Some(status)) if status.core_dumped() => return format!("{status}"),
            Ok(Some(status)) => return child::ending(status),
            Ok(None) => {}
            Err(e) => return format!("cannot wait for it: {e}"),
        }
        drop(held);
        thread::sleep(Duration::from_millis(1));
    }
}

fn packaged() -> PathBuf {
    Path::new(AT).join(PACKAGED)
}

fn network(address: Ipv4Addr) -> io::Result<()> {
    let card = wait_for("the network card", net::first_card)?;
    net::set_up("lo", None)?;
    net::set_up(&card, Some(address))?;
    wait_for("its carrier", || net::has_carrier(&card).then_some(()))
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

fn facts() -> io::Result<Answer> {
    let facts = mounts::facts_of(Path::new(AT))?;
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Ok(Answer::Facts {
        facts: Box::new(facts),
        clock: fs::read_to_string(clock)?.trim().to_owned(),
    })
}

fn cool() -> io::Result<Cooled> {
    sync(Path::new(AT))?;
    fs::write("/proc/sys/vm/drop_caches", "3")?;
    Ok(Cooled {
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

    #[test]
    fn only_known_files_stay() {
        let home = tempfile::tempdir().unwrap();
        for name in ["a/b", "a/x", "c", "d/e"] {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let known = ["a/b", "c", "gone"].map(String::from);
        prune(home.path(), Path::new(""), &known).unwrap();
        let left = tree::see(home.path()).unwrap();
        let mut left: Vec<_> = left.keys().collect();
        left.sort();
        assert_eq!(left, [&home.path().join("a/b"), &home.path().join("c")]);
    }
}
