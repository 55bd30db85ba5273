//! Boots QEMU with our agent: with KVM if it works, else with an emulated CPU.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Control, LayerError,
    agent::{
        client::{AgentClient, AgentError},
        protocol::{AgentReply, PORT},
    },
    child::{self, Change, Process, Tail},
    needs,
    vm::{cache, cycles, guest, initramfs, kernel::Kernel, net::Network},
};

/// The program, and its package in Debian.
pub(crate) const QEMU: (&str, &str) = ("qemu-system-x86_64", "qemu-system-x86");

/// Time limit of a boot. Booting takes 3 s on an idle machine, and took half a minute on one where
/// eight other processes wanted each CPU.
const LIMIT: Duration = Duration::from_secs(90);
/// Minimum time that a booting guest may make no progress, whatever `--silence` says.
const FLOOR: Duration = Duration::from_secs(5);
/// Time limit of a boot with KVM. It takes half a second; where KVM hangs, each first try costs
/// this.
const KVM_LIMIT: Duration = Duration::from_secs(5);

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accel {
    Kvm,
    Tcg,
}

impl Accel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Options of a boot.
pub(crate) struct Boot<'a> {
    /// The layer's name, for messages.
    pub(crate) layer: &'a str,
    /// A private directory of the guest. QEMU runs in it, so that no path of the user appears on
    /// its command line, where a comma has a meaning.
    pub(crate) dir: &'a Path,
    pub(crate) exe: &'a Path,
    pub(crate) kernel: &'a Kernel,
    /// Modules that the guest needs.
    pub(crate) modules: &'a [&'a str],
    /// Whether the agent is reached through a serial port.
    pub(crate) serial: bool,
    /// `q35` or `pc`.
    pub(crate) machine: &'a str,
    pub(crate) cpus: u32,
    /// Memory, MiB.
    pub(crate) memory: u64,
    /// Accelerators, in the order in which they are tried.
    pub(crate) accels: &'a [Accel],
    /// Devices and their dependencies: arguments of QEMU.
    pub(crate) devices: &'a [String],
    /// The network that its card is plugged into.
    pub(crate) network: Option<&'a Network>,
    /// Changes to the files of this host that QEMU sees.
    pub(crate) view: &'a dyn Fn() -> io::Result<Vec<Change>>,
    /// Starts the process that serves the devices, again for each attempt.
    pub(crate) server: &'a dyn Fn() -> Result<Option<Process>, LayerError>,
    /// How long it may make no progress.
    pub(crate) silence: Duration,
    /// When it has to be ready, even if it makes progress.
    pub(crate) until: Option<Instant>,
}

/// Why a boot failed.
struct BootFailure {
    error: Box<LayerError>,
    /// QEMU was running, and the guest was silent.
    silent: bool,
    /// QEMU crashed.
    crashed: bool,
}

impl From<LayerError> for BootFailure {
    fn from(error: LayerError) -> Self {
        Self {
            error: Box::new(error),
            silent: false,
            crashed: false,
        }
    }
}

/// A guest that answers.
pub(crate) struct Guest {
    pub(crate) agent: Arc<AgentClient>,
    pub(crate) accel: Accel,
    /// Version of the guest's kernel.
    pub(crate) kernel: String,
    /// Seconds from QEMU's start to the agent's first message.
    pub(crate) boot_s: f64,
    /// Bytes of its initramfs.
    pub(crate) initramfs: u64,
    /// First line of `qemu --version`.
    pub(crate) qemu: String,
    /// Why KVM was not used.
    pub(crate) no_kvm: Option<String>,
    /// Why the previous boot failed.
    pub(crate) hung: Option<String>,
    process: Process,
    console: Tail,
    /// The process that serves its devices; ends after the guest.
    server: Option<Process>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Ended first, so that no process is left that holds the connection and waits for a guest
        // that hangs.
        self.process.kill();
        self.agent.cut();
    }
}

impl Guest {
    /// QEMU's process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// The agent's first message. Waits up to `limit`, and longer while QEMU uses CPU time or the
    /// console prints something, but not after `until`. Gives up after `silence` without either.
    fn first_word(
        &self,
        limit: Duration,
        silence: Duration,
        until: Option<Instant>,
    ) -> Result<AgentReply, AgentError> {
        let life = || {
            let used = self.pid().and_then(|pid| child::cpu_ns(pid).ok());
            (used, self.console.lines())
        };
        let mut seen = life();
        self.agent.hello((silence, limit), || {
            let now = life();
            let in_time = until.is_none_or(|until| Instant::now() < until);
            std::mem::replace(&mut seen, now.clone()) != now && in_time
        })
    }

    /// Process id of the server of its devices.
    pub(crate) fn server(&self) -> Option<u32> {
        self.server.as_ref().and_then(Process::pid)
    }

    /// The error for a guest that did not carry out a request, with the last lines of its console.
    pub(crate) fn error(&mut self, layer: &str, what: &str, why: &AgentError) -> LayerError {
        let ended =
            matches!(why, AgentError::Gone).then(|| self.process.wait(Duration::from_secs(1)));
        let status = match ended.flatten() {
            Some(how) => format!("QEMU has ended: {how}"),
            None => why.to_string(),
        };
        LayerError::Guest {
            layer: layer.into(),
            what: what.into(),
            status,
            tail: [
                self.server.as_ref().map(Control::tail).unwrap_or_default(),
                self.process.tail(),
                self.console.lines(),
            ]
            .concat(),
        }
    }
}

/// Boots a guest and waits for its agent.
pub(crate) fn boot(boot: &Boot<'_>) -> Result<Guest, LayerError> {
    let io = |what: &str, path: &Path| LayerError::io(boot.layer, what, path);
    let archive = boot.dir.join("initramfs");
    let kernel = &boot.kernel;
    let modules = kernel
        .modules()
        .map_err(io("read the modules of", &kernel.modules))?
        .order(boot.modules);
    let size = initramfs::write(&archive, boot.exe, &modules)
        .map_err(io("make the guest's initramfs", &archive))?;
    let image = kernel
        .bootable(boot.dir)
        .map_err(io("unpack the kernel", &kernel.image))?;
    let qemu = child::run(
        boot.layer,
        needs::tool(boot.layer, QEMU.0, QEMU.1)?.arg("--version"),
    )?;
    let (last, earlier) = boot
        .accels
        .split_last()
        .ok_or_else(|| LayerError::BadValue {
            layer: boot.layer.into(),
            option: "accel".into(),
            value: String::new(),
            must: "names nothing to run the guest on".into(),
            nearest: None,
        })?;
    let (mut up, mut no_kvm) = (None, None);
    for accel in earlier {
        // KVM that hangs does so again.
        match twice(boot, &image, *accel, KVM_LIMIT, |why| why.crashed) {
            Ok(guest) => {
                up = Some(guest);
                break;
            }
            Err(failed) => {
                // The console is silent where KVM hangs.
                let why = match *failed.error {
                    LayerError::Guest { status, .. } => status,
                    other => other.to_string(),
                };
                remember_kvm(boot, &why);
                no_kvm = Some(why);
            }
        }
    }
    let mut guest = match up {
        Some(guest) => guest,
        None => twice(boot, &image, *last, LIMIT, |why| why.crashed || why.silent)
            .map_err(|failed| *failed.error)?,
    };
    if guest.accel == Accel::Kvm {
        remember_kvm(boot, "works");
    }
    guest.initramfs = size;
    guest.qemu = qemu;
    guest.no_kvm = no_kvm;
    Ok(guest)
}

/// Boots a guest, once more if it failed so, and reports that with the layer's facts. QEMU 7.2 was seen to fail an
/// assertion about a table of interrupts.
fn twice(
    boot: &Boot<'_>,
    image: &Path,
    accel: Accel,
    limit: Duration,
    again: impl Fn(&BootFailure) -> bool,
) -> Result<Guest, BootFailure> {
    match start(boot, image, accel, limit) {
        Err(failed) if again(&failed) => {
            let mut guest = start(boot, image, accel, limit)?;
            guest.hung = Some(failed.error.to_string());
            Ok(guest)
        }
        other => other,
    }
}

/// Name of the file that keeps the outcome of trying KVM with this kernel and this QEMU.
fn kvm_note(kernel: &Kernel) -> Option<String> {
    let host = rustix::system::uname();
    // QEMU is identified without running it. It is a program of the system's.
    let qemu = child::program(QEMU.0)?.metadata().ok()?;
    let key = format!(
        "{} {} {} {}",
        host.release().to_string_lossy(),
        kernel.key()?,
        qemu.len(),
        qemu.mtime()
    );
    let hash = xxhash_rust::xxh3::xxh3_64(key.as_bytes());
    Some(format!("kvm-{hash:016x}"))
}

fn remember_kvm(boot: &Boot<'_>, outcome: &str) {
    if let Some(name) = kvm_note(boot.kernel) {
        // Without the file, the next guest tries again.
        let _ = cache::store(&name, outcome.as_bytes());
    }
}

/// Accelerators to try, and the reason if KVM is not among them.
pub(crate) fn accels(kernel: &Kernel) -> (Vec<Accel>, Option<String>) {
    if let Err(e) = File::options().read(true).write(true).open("/dev/kvm") {
        return (vec![Accel::Tcg], Some(format!("/dev/kvm: {e}")));
    }
    let note = kvm_note(kernel).and_then(|name| cache::find(&name));
    let note = note.and_then(|path| fs::read_to_string(path).ok());
    match note.as_deref() {
        Some("works") | None => (vec![Accel::Kvm, Accel::Tcg], None),
        Some(why) => (vec![Accel::Tcg], Some(why.to_owned())),
    }
}

fn start(
    boot: &Boot<'_>,
    image: &Path,
    accel: Accel,
    limit: Duration,
) -> Result<Guest, BootFailure> {
    let io = |e| LayerError::io(boot.layer, "start", Path::new(QEMU.0))(e);
    let (ours, theirs) = UnixStream::pair().map_err(io)?;
    let server = (boot.server)()?;
    let started = Instant::now();
    let mut command = needs::tool(boot.layer, QEMU.0, QEMU.1)?;
    command
        .current_dir(boot.dir)
        .args(arguments(boot, image, accel))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(network) = boot.network {
        network.enter(&mut command);
    }
    let view = (boot.view)().map_err(LayerError::io(
        boot.layer,
        "find what a guest may see of",
        Path::new("/"),
    ))?;
    if !view.is_empty() {
        child::with_view(&mut command, view);
    }
    let mut process = Process::start_with(&mut command).map_err(io)?;
    // It holds the other end of our socket, which must close when QEMU ends.
    drop(command);
    let console = match process.child().stdout.take() {
        Some(out) => Tail::of(out).map_err(io)?,
        None => Tail::default(),
    };
    let mut guest = Guest {
        agent: AgentClient::new(ours, boot.silence.max(FLOOR)).map_err(io)?,
        accel,
        kernel: String::new(),
        boot_s: 0.0,
        initramfs: 0,
        qemu: String::new(),
        no_kvm: None,
        hung: None,
        process,
        console,
        server,
    };
    match guest.first_word(limit, boot.silence.max(FLOOR), boot.until) {
        Ok(AgentReply::Ready { kernel, .. }) => {
            guest.kernel = kernel;
            guest.boot_s = started.elapsed().as_secs_f64();
            Ok(guest)
        }
        Ok(_) => Err(guest
            .error(boot.layer, "boot", &AgentError::OutOfTurn)
            .into()),
        Err(e) => Err(BootFailure {
            error: Box::new(guest.error(boot.layer, "boot", &e)),
            silent: matches!(e, AgentError::Silent(_)),
            crashed: guest.process.crashed(),
        }),
    }
}

/// Of the guest's kernel.
fn command_line(accel: Accel, serial: bool) -> String {
    // The kernel checks its timer interrupt against the cycle counter. If it comes late, the kernel
    // panics or continues without it. On an emulated machine it comes late whenever the host is
    // busy.
    // Debian's kernel tests its ciphers at each boot: a fifth of what it takes on an emulated CPU.
    let common = "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check tsc=reliable clocksource=tsc";
    // QEMU translates code for the address that it has. With addresses drawn for each process, the pages of
    // a library get thousands of translations, all of which it goes through at each write of a byte once the
    // kernel uses such a page for something else. A launch of `sh` after `devload` took 150 s so, and 0.2 s without.
    let emulated = match accel {
        Accel::Kvm => String::new(),
        Accel::Tcg => {
            let cycles = cycles::khz().map(|khz| format!(" tsc_early_khz={khz}"));
            format!(" norandmaps{}", cycles.unwrap_or_default())
        }
    };
    let port = if serial { guest::SERIAL } else { "" };
    format!(
        "{common}{emulated} {} {port} rdinit=/{} -- guest",
        guest::WORD,
        initramfs::INIT
    )
}

fn arguments(boot: &Boot<'_>, image: &Path, accel: Accel) -> Vec<OsString> {
    let command_line = command_line(accel, boot.serial);
    let accel = match accel {
        Accel::Kvm => "kvm",
        Accel::Tcg => "tcg,thread=multi",
    };
    // `max` enables every feature of the accelerator; with KVM those of the host.
    let mut arguments: Vec<OsString> = [
        // Forbids what a guest that has broken out of QEMU would need: other programs, another
        // user, obsolete system calls.
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-nic",
        "none",
        "-machine",
        boot.machine,
        "-accel",
        accel,
        "-cpu",
        "max",
        // The socket to the host is its standard input, the console its output.
        "-chardev",
        "socket,id=agent,fd=0",
        "-chardev",
        "file,id=console,path=/dev/stdout",
        "-serial",
        "chardev:console",
        "-initrd",
        "initramfs",
    ]
    .map(OsString::from)
    .to_vec();
    // Names the guest in the list of processes. A comma must be doubled.
    let mut name = OsString::from("layermark ");
    name.push(boot.dir.to_string_lossy().replace(',', ",,"));
    for (option, value) in [
        ("-name", name),
        ("-smp", boot.cpus.to_string().into()),
        ("-m", format!("{}M", boot.memory).into()),
        ("-kernel", image.into()),
        ("-append", command_line.into()),
    ] {
        arguments.extend([option.into(), value]);
    }
    let agent = if boot.serial {
        // The second serial port, after the console.
        vec!["-serial".into(), "chardev:agent".into()]
    } else {
        let port = format!("virtserialport,chardev=agent,name={PORT}");
        let bus = "virtio-serial-pci".into();
        vec!["-device".into(), bus, "-device".into(), port]
    };
    arguments.extend(agent.iter().chain(boot.devices).map(OsString::from));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_an_emulated_guest_have_one_address() {
        for (accel, fixed) in [(Accel::Kvm, false), (Accel::Tcg, true)] {
            let line = command_line(accel, false);
            let has = |word: &str| line.split(' ').any(|w| w == word);
            assert_eq!(has("norandmaps"), fixed, "{line}");
            assert!(has("clocksource=tsc") && has(guest::WORD), "{line}");
        }
    }
}
