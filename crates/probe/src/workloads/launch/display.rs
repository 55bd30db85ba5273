//! A private X server without a screen, for programs with windows.
//!
//! Its socket, lock file and cookie are in memory, and only the guard and its children see them. If
//! nothing can be mounted, they are in `/tmp` as usual, and only the cookie keeps other users out.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, BufRead, BufReader, Write},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use layermark_model::random;
use layermark_sys::packages;
use rustix::mount::{MountFlags, mount};
use x11rb::rust_connection::{DefaultStream, RustConnection};

use crate::ProbeError;
use crate::programs::{
    sys,
    user::{self, User},
};

/// Directory of X sockets, in which clients search.
const SOCKETS: &str = "/tmp/.X11-unix";
/// How a client authenticates: 16 bytes that both sides know.
const COOKIE: &str = "MIT-MAGIC-COOKIE-1";

/// Xvfb; ended when dropped.
#[derive(Debug)]
pub struct Display {
    server: Child,
    number: u32,
    cookie: [u8; 16],
    authority: PathBuf,
}

impl Display {
    /// Starts a server with a screen of `size`, such as `1280x1024`, for clients of `user`, and
    /// waits until it is ready.
    pub fn start(size: &str, home: &Path, user: Option<User>) -> Result<Self, ProbeError> {
        let failed = |e: io::Error| ProbeError::io("prepare X sockets in", Path::new(SOCKETS), &e);
        let private = own_sockets().map_err(failed)?;
        let authority =
            if private { Path::new(SOCKETS) } else { home }.join("layermark.Xauthority");
        let halves = [random(), random()].map(u64::to_ne_bytes);
        let cookie = std::array::from_fn(|n| halves[n / 8][n % 8]);
        write_authority(&authority, &cookie, user)
            .map_err(|e| ProbeError::io("write", &authority, &e))?;
        // Some clients try an abstract socket of that number first, which may belong to a desktop
        // or, if it can be guessed, to any user.
        let number = 1000 + (random() & 0xffff) as u32;
        let server = serve(size, number, &authority, private).map_err(|e| {
            ProbeError::new(format!("a private X server (Xvfb) is needed: {e}"))
                .hint(packages::install("xvfb xfonts-base"))
        })?;
        let mut display = Self {
            server,
            number,
            cookie,
            authority,
        };
        display.wait()?;
        Ok(display)
    }

    /// Waits until the server has reported its display number, or has ended.
    fn wait(&mut self) -> Result<(), ProbeError> {
        let mut said = String::new();
        if let Some(out) = self.server.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut said);
        }
        if said.trim() == self.number.to_string() {
            return Ok(());
        }
        Err(
            ProbeError::new("a private X server (Xvfb) is needed: it ended at once")
                .hint(packages::install("xvfb xfonts-base")),
        )
    }

    /// `:7`
    pub fn name(&self) -> String {
        format!(":{}", self.number)
    }

    /// The file with the cookie, for clients.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// A connection for this process.
    pub fn connect(&self) -> Result<RustConnection, Box<dyn std::error::Error>> {
        let stream = UnixStream::connect(self.socket())?;
        let (stream, _) = DefaultStream::from_unix_stream(stream)?;
        let (name, cookie) = (COOKIE.into(), self.cookie.to_vec());
        Ok(RustConnection::connect_to_stream_with_auth_info(
            stream, 0, name, cookie,
        )?)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// The directory of X sockets, which a program with its own root must see.
    pub fn sockets() -> &'static Path {
        Path::new(SOCKETS)
    }

    fn socket(&self) -> PathBuf {
        Path::new(SOCKETS).join(format!("X{}", self.number))
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // SIGTERM lets it remove its socket and lock file.
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.server.wait();
        // Unless it was killed before.
        let lock = PathBuf::from(format!("/tmp/.X{}-lock", self.number));
        for left in [self.socket(), lock, self.authority.clone()] {
            let _ = fs::remove_file(left);
        }
    }
}

/// Hides the machine's X sockets behind an empty directory in memory, for this process and its
/// children only. Returns whether that was possible.
fn own_sockets() -> io::Result<bool> {
    let at = Path::new(SOCKETS);
    match DirBuilder::new().mode(0o1777).create(at) {
        Ok(()) => fs::set_permissions(at, Permissions::from_mode(0o1777))?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    let meta = fs::symlink_metadata(at)?;
    // An owner without an id here is root or another user outside the user namespace of an ordinary
    // user.
    if !meta.is_dir() || (meta.uid() != 0 && user::mapped(meta.uid())) {
        return Err(io::Error::other("it is not root's directory"));
    }
    if sys::own_mounts().is_err() {
        return Ok(false);
    }
    let all_may_write = Some(c"mode=1777");
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::empty(), all_may_write).is_ok())
}

/// A file of Xau(3): one cookie, for any host and display.
fn write_authority(at: &Path, cookie: &[u8; 16], user: Option<User>) -> io::Result<()> {
    const ANY_FAMILY: u16 = 0xffff;
    let mut entry = ANY_FAMILY.to_be_bytes().to_vec();
    for field in [&b""[..], b"", COOKIE.as_bytes(), cookie] {
        entry.extend((field.len() as u16).to_be_bytes());
        entry.extend(field);
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(at)?;
    file.write_all(&entry)?;
    match user {
        Some(User { uid, gid }) => fchown(&file, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn serve(size: &str, number: u32, authority: &Path, private: bool) -> io::Result<Child> {
    let mut command = Command::new("Xvfb");
    sys::end_with_us(&mut command);
    if private {
        sys::own_tmp(&mut command, SOCKETS);
    }
    let closed = ["-nolisten", "tcp", "-nolisten", "local", "-noreset"];
    command
        .arg(format!(":{number}"))
        .args(["-displayfd", "1", "-auth"])
        .arg(authority)
        .args(closed)
        .args(["-screen", "0", &format!("{size}x24")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}
