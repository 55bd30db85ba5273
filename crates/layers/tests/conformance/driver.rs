//! Runs every check in a process of its own and compares the machine before and after.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    os::unix::fs::PermissionsExt,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use layermark_layers::{ALL, listed};
use layermark_testkit::ssh::{self, SshServer};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FileType, Mode},
    mount,
};

use crate::{
    roots,
    state::{self, State},
    wanted::{Part, Wanted, lists},
};

/// Of one check; the longest, by a serial port, takes a minute.
const LIMIT: Duration = Duration::from_mins(10);

/// Specs beyond those that are listed.
const MORE: &[&str] = &[
    "mock",
    "overlay:writecopy,volatile=on",
    "overlay:upper,metacopy=on",
    "fuse,cache=always,writeback=on",
    "fuse,cache=none,threads=1",
    "fuse,passthrough=on",
    "loop:ext4,direct-io=off,size=96M",
    "image:squashfs,compression=zstd,direct-io=off",
    "image:erofs,compression=lz4",
    "image:squashfs,upper=on",
    "image:erofs,upper=on",
    "image:squashfuse,upper=on",
    "image:squashfuse,compression=xz,block=1M",
    "sshfs",
    "rclone",
    "rclone:cache=full,delay=1ms",
    "netns",
    "netns:mtu=9000,rate=1gbit",
    "exec:env",
    "exec:nice -n 0 env",
    "exec:sh -c 'echo welcome; printf \"no end of line\"; exec \"$0\" \"$@\" 2>&1'",
    "container:podman,at=volume",
    "container:podman,at=named,rm=on",
    "container:bubblewrap,at=volume",
    "container:nspawn,at=tmpfs",
    "exec:bwrap --dev-bind / / --proc /proc --unshare-pid --die-with-parent",
];

/// A root of this host with ports of it that the guest must not reach, a disk with a format and a queue of its own, a
/// share by memory, and one by the network. Guests boot in seconds, on a busy machine in many. A guest of QEMU has the
/// devices that it was booted with, so each disk and each share is a boot. What is true of any guest is checked in all of
/// them, and nowhere else.
const VMS: &[&str] = &[
    "vm:disk=ide,cache=none,aio=native,cpus=1,nic=rtl8139,backend=user,root=host",
    "vm:disk=virtio-scsi,fs=btrfs,format=qcow2,iothread=on,cache=writethrough,nic=e1000e",
    "vm:share=virtiofs,root={dir}",
    "vm:share=nfs,nic=e1000,delay=2ms,rate=1gbit",
];

/// With `LAYERMARK_GUESTS=all` (`make soak`) these too: then every kind of disk, format, file system, share, root, network
/// card and backend is there once. `durability_guests.rs` boots these shares always.
const MORE_VMS: &[&str] = &[
    "vm:disk=ahci,cache=directsync,aio=io_uring,accel=tcg,root=host,agent=serial",
    "vm:disk=nvme,fs=xfs,cache=unsafe,memory=256M,nic=vmxnet3,backend=socket",
    "vm:share=9p,cache=mmap,root={qcow2}",
    "vm:share=smb,root={raw},delay=2ms",
];

/// The default disk, without privilege. The second of these two guests is booted to be reached by the first.
const USERS_VM: &str = "vm:backend=socket,switch=lan";
/// The same without user namespaces, which only another user lacks.
const NOBODYS_VM: &str = "vm:nic=e1000,backend=user";

const TRAPS: &[(&str, &str)] = &[
    ("direct-honoured", "fuse"),
    ("direct-dropped", "fuse,direct=drop"),
    ("direct-honoured", "fuse,passthrough=on"),
    ("direct-honoured", "loop:ext4"),
    ("direct-dropped", "loop:ext4,direct-io=off"),
    ("direct-dropped", "fuse:bindfs"),
    ("direct-dropped", "fuse:gocryptfs"),
    ("direct-dropped", "overlay:fuse"),
    ("direct-dropped", "sshfs"),
    ("volatile-shows", "overlay:volatile"),
    ("mount-lost", "tmpfs"),
    ("mount-lost", "overlay:upper"),
    ("mount-lost", "fuse"),
    ("mount-lost", "fuse:bindfs"),
    ("mount-lost", "sshfs"),
    ("mount-lost", "rclone"),
    ("mount-lost", "overlay:merged"),
    ("mount-lost", "bind:rw"),
    ("mount-lost", "bind:idmapped"),
    ("mount-lost", "loop:ext4"),
    ("mount-lost", "image:squashfs,upper=on"),
    ("overlay-residency", "overlay:upper"),
    ("overlay-residency", "overlay:writecopy"),
    ("cool-works", "native"),
    ("cool-works", "overlay:upper"),
    ("cool-works", "bind:idmapped"),
    ("refuses-writes", "bind:ro"),
    ("shifts-owners", "bind:idmapped"),
    ("cool-works", "fuse"),
    ("cool-works", "loop:xfs"),
    ("cool-cannot", "tmpfs"),
    ("volatile-again", "overlay:writecopy,volatile=on"),
    ("cool-works", "overlay:fuse"),
    ("copies-up", "overlay:writecopy"),
    ("copies-up", "image:squashfs,upper=on"),
    ("copies-up", "image:erofs,upper=on"),
    ("delay", "fuse,delay=0,cache=none"),
    ("delay", "fuse,delay=100us,cache=none"),
    ("delay", "fuse,delay=2ms,cache=none"),
    ("distant", "sshfs,delay=6ms,rate=100mbit"),
];

/// On a volatile disk.
const CUTS: &[(&str, &str)] = &[
    ("cut", "native"),
    ("cut", "bind:rw"),
    ("cut", "overlay:upper"),
    ("cut", "overlay:writecopy"),
    ("cut", "overlay:merged"),
    ("cut", "fuse"),
    ("cut", "fuse,cache=none"),
    ("cut", "loop:ext4,size=96M"),
    ("cut", "loop:btrfs,size=160M"),
    ("cut-loses", "overlay:volatile"),
    ("cut-loses", "fuse,fsync=drop"),
    ("cut-loses", "rclone"),
    ("cut-nobarrier", "native"),
    ("cut-write-through", "native"),
    ("cut-fails", "native"),
    ("cut-broken", "native"),
    ("cut-recovery", "native"),
    ("cut-early", "loop:ext4,size=96M"),
    ("cut-places", "native"),
    ("cut-held", "native"),
];

pub fn main(args: &[OsString]) -> ExitCode {
    if lists(args) {
        return ExitCode::SUCCESS;
    }
    let wanted = Wanted::of(args);
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    // A copy that a user without privilege may execute too, whatever the target directory.
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let exe = home.path().join("conformance");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    fs::hard_link(&exe, home.path().join("conformance-echo")).unwrap();
    let root = rustix::process::geteuid().is_root();
    let run = thread::scope(|scope| {
        let users = root.then(|| scope.spawn(|| as_users(home.path(), &exe, &wanted)));
        let mut run = all("", &home.path().join("work"), &exe, &wanted);
        if let Some(users) = users {
            run.add(users.join().unwrap());
        }
        run
    });
    run.finish()
}

/// `drive WHO DIR [NAMES]`: the checks as whoever we are.
pub fn drive(args: &[OsString]) -> ExitCode {
    let [who, dir, names @ ..] = args else {
        return ExitCode::FAILURE;
    };
    let wanted = Wanted::of(names);
    let exe = std::env::current_exe().unwrap();
    all(&who.to_string_lossy(), Path::new(dir), &exe, &wanted).finish()
}

/// Layers and guests, beside each other because they wait more than they work. Each looks for what is
/// left below a directory of its own.
fn all(who: &str, dir: &Path, exe: &Path, wanted: &Wanted) -> Run {
    // Without privilege a guest is the same but for its network.
    let (guests, more): (&[&str], &[&str]) = match who {
        "" if wanted.all_guests() => (MORE_VMS, VMS),
        "" => (VMS, &[]),
        "user" => (&[USERS_VM], &[]),
        _ => (&[NOBODYS_VM], &[]),
    };
    let guests = Mutex::new(guests.iter().chain(more));
    let new = |name: &str| Run::new(who, &dir.join(name), exe, wanted);
    let run_guests = |name| {
        let mut run = new(name);
        loop {
            let Some(spec) = guests.lock().unwrap().next() else {
                return run;
            };
            run.guest(spec);
        }
    };
    thread::scope(|scope| {
        let guests = wanted.has(Part::Guests);
        let some = guests.then(|| scope.spawn(|| run_guests("guests-1")));
        let others = guests.then(|| {
            scope.spawn(|| {
                let mut run = run_guests("guests-2");
                if who.is_empty() {
                    run.check("vm-fails", "vm");
                }
                run
            })
        });
        let mut run = new("layers");
        if wanted.has(Part::Layers) {
            run.layers();
        }
        for more in [some, others].into_iter().flatten() {
            run.add(more.join().unwrap());
        }
        run
    })
}

/// The same checks as a user without any privilege: first with a `/dev/fuse` that users may open,
/// then where user namespaces are forbidden and nothing can be mounted.
fn as_users(home: &Path, exe: &Path, wanted: &Wanted) -> Run {
    let mut run = Run::new("", &home.join("users"), exe, wanted);
    for (mode, who) in [("as-user", "user"), ("as-nobody", "nobody")] {
        if !wanted.of_user(who) {
            continue;
        }
        let dir = home.join(mode);
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).unwrap();
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private"])
            .arg(exe)
            .arg(mode)
            .arg(&dir)
            .args(wanted.args())
            .stdout(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => run.count(mode, child),
            Err(e) => eprintln!("skipped: {mode}: unshare: {e}"),
        }
    }
    run
}

/// `as-user DIR`, in a mount namespace of its own: replaces `/dev/fuse` and drops all privilege.
pub fn become_user(args: &[OsString]) -> Result<(), String> {
    let flags = mount::MountFlags::empty();
    mount::mount("dev", "/mnt", "tmpfs", flags, None).map_err(say("mount"))?;
    let (all, number) = (Mode::from_raw_mode(0o666), rustix::fs::makedev(10, 229));
    let (cwd, kind) = (rustix::fs::CWD, FileType::CharacterDevice);
    rustix::fs::mknodat(cwd, "/mnt/fuse", kind, all, number).map_err(say("mknod"))?;
    rustix::fs::chmod("/mnt/fuse", all).map_err(say("chmod"))?;
    mount::mount_bind("/mnt/fuse", "/dev/fuse").map_err(say("bind"))?;
    drop_privilege(args, "user")
}

/// `as-nobody DIR`: whoever is in a changed root may not make a user namespace.
pub fn become_nobody(args: &[OsString]) -> Result<(), String> {
    mount::mount_bind_recursive("/", "/mnt").map_err(say("bind"))?;
    rustix::process::chroot("/mnt").map_err(say("chroot"))?;
    drop_privilege(args, "nobody")
}

fn say(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> String {
    move |e| format!("{what}: {e}")
}

fn drop_privilege(args: &[OsString], who: &str) -> Result<(), String> {
    let (dir, names) = args.split_first().ok_or("no directory given")?;
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let exe = exe
        .strip_prefix("/mnt")
        .map_or(exe.clone(), |p| Path::new("/").join(p));
    let ids = [
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--",
    ];
    let failed = Command::new("setpriv")
        .args(ids)
        .arg(exe)
        .args(["drive", who])
        .arg(dir)
        .args(names)
        .exec();
    Err(format!("setpriv: {failed}"))
}

/// Before all reasons of failures, and on both sides of a name, as libtest prints them.
const FAILURES: &str = "failures:";
const RULE: &str = "----";

struct Run {
    who: String,
    dir: PathBuf,
    exe: PathBuf,
    wanted: Wanted,
    passed: usize,
    skipped: usize,
    /// Each with its reason.
    failed: Vec<(String, String)>,
}

impl Run {
    fn new(who: &str, dir: &Path, exe: &Path, wanted: &Wanted) -> Self {
        fs::create_dir_all(dir).unwrap();
        Self {
            who: who.into(),
            dir: dir.into(),
            exe: exe.into(),
            wanted: wanted.clone(),
            passed: 0,
            skipped: 0,
            failed: Vec::new(),
        }
    }

    fn layers(&mut self) {
        let user_dir = self.dir.join("a directory of the user's");
        fs::create_dir(&user_dir).unwrap();
        fs::write(user_dir.join("precious"), b"x").unwrap();
        let named = format!("dir:{}", user_dir.display());
        let mut specs: Vec<String> = ALL
            .iter()
            .flat_map(|l| listed(*l))
            .map(|spec| spec.to_string())
            .chain(MORE.iter().map(|s| (*s).to_owned()))
            .collect();
        specs.push(named);
        let rootfs = |runtime| format!("container:{runtime},rootfs={}", user_dir.display());
        specs.extend(["podman", "crun", "nspawn", "bubblewrap"].map(rootfs));
        let server = SshServer::start();
        match &server {
            Some(server) => {
                let config = server.config();
                specs.push(format!("ssh:{},config={}", ssh::HOST, config.display()));
            }
            None => eprintln!("skipped: ssh: not root, or openssh-server is not installed"),
        }
        for spec in &specs {
            self.check("conform", spec);
            self.check("half-way", spec);
            self.killed(spec);
        }
        for spec in [
            "native",
            "overlay:upper",
            "loop:ext4",
            "image:erofs",
            "fuse",
            "bind:ro",
        ] {
            self.check("full", spec);
        }
        self.check("no-idmaps", "bind:idmapped");
        if rustix::process::geteuid().is_root() {
            self.check("no-user-namespaces", "bind:idmapped");
            self.in_private_home("bind:idmapped");
        }
        for (trap, spec) in TRAPS {
            self.check(trap, spec);
        }
        if rustix::process::geteuid().is_root() {
            for (cut, spec) in CUTS {
                self.check(cut, spec);
            }
            self.killed_in("cut-hang", "native");
            self.killed_in("cut-hang", "loop:ext4,size=96M");
        }
        assert!(user_dir.join("precious").exists());
    }

    /// The binary is below a directory of another user that only that user may search.
    fn in_private_home(&mut self, spec: &str) {
        let home = tempfile::tempdir_in(self.dir.parent().unwrap()).unwrap();
        let exe = home.path().join("conformance");
        fs::copy(&self.exe, &exe).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
        let mut run = Run::new(&self.who, &self.dir, &exe, &self.wanted);
        run.check("private-home", spec);
        self.add(run);
    }

    fn guest(&mut self, spec: &str) {
        if !self.wanted.matches(&self.named("conform-vm", spec)) {
            return;
        }
        let home = self.dir.parent().unwrap_or(&self.dir);
        match roots::named(spec, home, &self.exe) {
            Ok(spec) => self.check("conform-vm", &spec),
            Err(why) => {
                self.skipped += 1;
                eprintln!("skipped: {spec}: {why}");
            }
        }
    }

    /// Counts what another has found.
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failed.extend(other.failed);
    }

    /// The name of a check: who makes it, what is done, and where.
    fn named(&self, mode: &str, spec: &str) -> String {
        match self.who.as_str() {
            "" => format!("{mode} {spec}"),
            who => format!("{who} {mode} {spec}"),
        }
    }

    fn command(&self, mode: &str, spec: &str) -> Command {
        let mut command = Command::new(&self.exe);
        command
            .arg("inside")
            .arg(mode)
            .arg(spec)
            .arg(&self.dir)
            .arg(&self.exe);
        command
    }

    fn check(&mut self, mode: &str, spec: &str) {
        let name = self.named(mode, spec);
        if !self.wanted.matches(&name) {
            return;
        }
        let (before, start) = (State::of(&self.dir), Instant::now());
        let (status, said, errors) = self.within_limit(self.command(mode, spec)).unwrap();
        if let Some(why) = said.lines().find(|l| l.starts_with("skipped: ")) {
            self.skipped += 1;
            println!("test {name} ... {why}");
            return;
        }
        for line in said.lines().filter(|l| l.starts_with("told: ")) {
            eprintln!("test {name} {line}");
        }
        let outcome = if status.success() && said.ends_with("ok\n") {
            before.comes_back(&self.dir)
        } else {
            Err(format!("{status}\n{said}{errors}"))
        };
        if std::env::var_os("SAY").is_some() {
            eprintln!("{said}");
        }
        self.note(&name, start, outcome);
    }

    /// Runs it to its end; how it ended, what it printed, and its errors. What hangs is killed.
    fn within_limit(&self, mut command: Command) -> io::Result<(ExitStatus, String, String)> {
        // Not pipes: whoever is left behind could hold them open.
        let (mut out, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null());
        command.stdout(out.try_clone()?).stderr(errors.try_clone()?);
        let (mut child, start) = (command.spawn()?, Instant::now());
        let mut hung = String::new();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > LIMIT {
                hung = self.hung();
                child.kill()?;
                break child.wait()?;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let [said, errors] = [&mut out, &mut errors].map(read_again);
        Ok((status, said?, errors? + &hung))
    }

    fn hung(&self) -> String {
        format!("no end after {LIMIT:?}:\n{}", state::waiting(&self.dir))
    }

    /// The first line that it prints.
    fn first_line(&self, child: &mut Child) -> io::Result<String> {
        let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut first = [PollFd::new(&out, PollFlags::IN)];
        let limit = LIMIT.try_into().map_err(io::Error::other)?;
        if poll(&mut first, Some(&limit))? == 0 {
            return Ok(self.hung());
        }
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(line)
    }

    /// SIGKILL while the layer is up and a probe runs in it.
    fn killed(&mut self, spec: &str) {
        self.killed_in("hang", spec);
    }

    /// SIGKILL in a check that does not end.
    fn killed_in(&mut self, mode: &str, spec: &str) {
        let killed = format!("killed {mode}").replace("killed hang", "killed");
        let name = self.named(&killed, spec);
        if !self.wanted.matches(&name) {
            return;
        }
        let (before, start) = (State::of(&self.dir), Instant::now());
        let mut child = self
            .command(mode, spec)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = self.first_line(&mut child).unwrap();
        if line.starts_with("skipped: ") {
            child.wait().unwrap();
            self.skipped += 1;
            print!("test {name} ... {line}");
            return;
        }
        let up = State::of(&self.dir) != before;
        child.kill().unwrap();
        child.wait().unwrap();
        let outcome = match (line.as_str(), up) {
            ("up\n", true) => before.comes_back(&self.dir),
            _ => Err(format!("it did not come up: {line}")),
        };
        self.note(&name, start, outcome);
    }

    fn note(&mut self, name: &str, start: Instant, outcome: Result<(), String>) {
        let took = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok <{took:.1}s>");
            }
            Err(e) => {
                println!("test {name} ... FAILED <{took:.1}s>");
                self.failed.push((name.into(), e));
            }
        }
    }

    /// Passes on what a program like this one says, and counts what it has found.
    fn count(&mut self, mode: &str, mut child: Child) {
        let start = Instant::now();
        let said = child.stdout.take().expect("a pipe");
        let mut failed: Vec<(String, String)> = Vec::new();
        let lines = BufReader::new(said).lines().map_while(Result::ok);
        for line in lines.filter(|l| l != FAILURES && !l.starts_with("test result: ")) {
            let name = line.strip_prefix(RULE).and_then(|l| l.strip_suffix(RULE));
            if let Some(name) = name {
                failed.push((name.trim().to_owned(), String::new()));
            } else if let Some((_, why)) = failed.last_mut() {
                why.extend([&line, "\n"]);
            } else {
                self.passed += usize::from(line.contains(" ... ok <"));
                self.skipped += usize::from(line.contains(" ... skipped: "));
                println!("{line}");
            }
        }
        let status = child.wait().unwrap();
        if failed.is_empty() && !status.success() {
            self.note(mode, start, Err(status.to_string()));
        }
        self.failed.extend(failed);
    }

    fn finish(self) -> ExitCode {
        // A part of a name may be one of a test of another program.
        let some = self.passed + self.skipped > 0 || matches!(self.wanted, Wanted::Containing(_));
        let good = self.failed.is_empty() && some;
        let word = if good { "ok" } else { "FAILED" };
        if !self.failed.is_empty() {
            println!("\n{FAILURES}");
        }
        for (name, why) in &self.failed {
            println!("\n{RULE} {name} {RULE}\n{why}");
        }
        println!(
            "\ntest result: {word}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out",
            self.passed,
            self.failed.len(),
            self.skipped
        );
        if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn read_again(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
