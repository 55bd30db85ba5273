//! vsftpd, with a configuration and a directory made for the trial. It ends with the process that
//! started it.

use std::{
    fs,
    io::{self, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use layermark_model::random_name;
use rustix::fs::{MemfdFlags, memfd_create};

use super::{replies::Replies, session::Login};
use crate::{
    ProbeError,
    programs::{
        PATH,
        daemon::{Daemon, Served},
        guard::Guard,
        user::{self, User},
        which,
    },
    workloads::ends::{PATIENCE, listening::no_listener},
};

/// Maximum number of attempts, in case another program takes the free port.
const ATTEMPTS: u32 = 5;
/// Its root directory, within its home. It refuses a root that the client may change.
const ROOT: &str = "root";
/// Directory that a client sees before login, within its home.
const EMPTY: &str = "empty";
/// Directory of the files, within the root.
const FILES: &str = "files";
/// Accounts under which it may run, if it can change to one: that of its package, or else nobody.
const ACCOUNTS: [&str; 2] = ["ftp", "nobody"];

/// A server that answers.
pub struct Vsftpd {
    guard: Guard<Served>,
    pub port: u16,
    pub version: String,
    pub login: Login,
}

/// The path of vsftpd, if it is installed.
pub fn find() -> Option<PathBuf> {
    which("vsftpd", PATH)
}

/// The directory of the files.
pub fn files(home: &Path) -> PathBuf {
    home.join(ROOT).join(FILES)
}

impl Vsftpd {
    /// Starts it in its directory, at a free port of an address.
    pub fn start(program: &Path, home: &Path, address: IpAddr) -> Result<Self, ProbeError> {
        let fail = |e: io::Error| ProbeError::io("make the server's files in", home, &e);
        let password = random_name("") + &random_name("");
        let greeting = random_name("layermark-");
        let account = account();
        lay_out(home, &password, account).map_err(fail)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let at = free_port(address)?;
            let text = configuration(at, home, &greeting, account)?;
            fs::write(home.join("vsftpd.conf"), text).map_err(fail)?;
            match daemon(program, home, at, greeting.clone()).start() {
                Err(e) if e.errno == Some(libc::EADDRINUSE) && attempt < ATTEMPTS => {}
                guard => {
                    return Ok(Self {
                        guard: guard?,
                        port: at.port(),
                        version: version(program),
                        login: Login {
                            // Any other user would need an account of this machine.
                            user: "ftp".into(),
                            password: password.into(),
                            folder: format!("{FILES}/"),
                        },
                    });
                }
            }
        }
    }

    /// CPU time of all its processes, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.guard.cpu_ns()
    }

    /// Ends it. Fails if it had already ended.
    pub fn end(self) -> Result<(), ProbeError> {
        self.guard.end()
    }
}

fn daemon(program: &Path, home: &Path, at: SocketAddr, greets: String) -> Daemon {
    // It reports errors in its configuration or directory with code 500.
    let answers = move |at| match greeting(at) {
        said if said.ends_with(&greets) => Ok(true),
        said if said.starts_with("500 ") => Err(said),
        _ => Ok(false),
    };
    Daemon {
        name: "ftp: vsftpd",
        commands: vec![vec![
            program.to_string_lossy().into_owned(),
            "vsftpd.conf".into(),
        ]],
        dir: home.to_owned(),
        at,
        user: None,
        answers: Box::new(answers),
        hint: "see whether it runs here at all, or use `server` = own".into(),
    }
}

/// An account of this machine.
type Account = (&'static str, User);

/// Makes its files in its directory.
fn lay_out(home: &Path, password: &str, account: Option<Account>) -> io::Result<()> {
    let path = home.join("passwords");
    let mut private = fs::File::options();
    let mut file = private
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{password}")?;
    fs::create_dir(home.join(EMPTY))?;
    let files = files(home);
    fs::create_dir_all(&files)?;
    Daemon::give(account.map(|(_, user)| user), &files)
}

/// If it cannot change to an account, it runs as this user.
fn account() -> Option<Account> {
    let mut found = ACCOUNTS
        .iter()
        .filter_map(|name| Some((*name, user::find(name).ok()?)));
    found.find(|(_, user)| user::mapped(user.uid))
}

/// The configuration. vsftpd changes its directory before it enters others, so all paths are
/// absolute.
fn configuration(
    at: SocketAddr,
    home: &Path,
    greeting: &str,
    account: Option<Account>,
) -> Result<String, ProbeError> {
    let (port, address) = (at.port(), at.ip());
    let listen = match address {
        IpAddr::V4(_) => format!("listen=YES\nlisten_address={address}"),
        IpAddr::V6(_) => format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={address}"),
    };
    let account = match account {
        Some((name, _)) => format!("ftp_username={name}"),
        None => "run_as_launching_user=YES".into(),
    };
    let home_text = home.to_str().filter(|path| !path.contains('\n'));
    let home = home_text.ok_or_else(|| {
        ProbeError::new(format!("vsftpd cannot be told of {}", home.display()))
            .hint("choose another place with --dir, or use `server` = own")
    })?;
    Ok(format!(
        "{listen}\nlisten_port={port}\n{account}\nftpd_banner={greeting}\nbackground=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\nsecure_email_list_enable=YES\nemail_password_file=passwords\n\
         anon_root={home}/{ROOT}\nsecure_chroot_dir={home}/{EMPTY}\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_world_readable_only=NO\nport_enable=NO\nxferlog_enable=NO\ndirmessage_enable=NO\n\
         idle_session_timeout=3600\n"
    ))
}

fn free_port(address: IpAddr) -> Result<SocketAddr, ProbeError> {
    let at = SocketAddr::new(address, 0);
    let free = TcpListener::bind(at).and_then(|l| l.local_addr());
    free.map_err(|e| no_listener(at, &e))
}

/// `vsftpd 3.0.3`: it prints its version to its standard input.
fn version(program: &Path) -> String {
    let ask = || -> io::Result<String> {
        let said = fs::File::from(memfd_create("version", MemfdFlags::CLOEXEC)?);
        let mut ask = Command::new(program);
        ask.arg("-v")
            .env_clear()
            .stdin(said.try_clone()?)
            .stdout(said.try_clone()?)
            .stderr(Stdio::null())
            .status()?;
        let mut text = String::new();
        let mut said = said;
        io::Seek::rewind(&mut said)?;
        io::Read::read_to_string(&mut said, &mut text)?;
        Ok(text)
    };
    let text = ask().unwrap_or_default();
    match text.split_once("version ") {
        Some((_, version)) => format!("vsftpd {}", version.trim()),
        None => "vsftpd".into(),
    }
}

/// The greeting of a server; empty if none answers.
fn greeting(at: SocketAddr) -> String {
    let connect = || -> io::Result<Replies> {
        let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Replies::new(stream))
    };
    let Ok(mut replies) = connect() else {
        return String::new();
    };
    let said = match replies.next() {
        Ok(_) => replies.text(),
        Err(_) => String::new(),
    };
    let _ = replies.say(&["QUIT"]);
    said
}

#[cfg(test)]
mod tests {
    use rustix::{
        event::{PollFd, PollFlags, poll},
        process::{PidfdFlags, Signal},
    };

    use super::*;

    fn daemon(home: &Path, at: SocketAddr) -> Option<Daemon> {
        let Some(program) = find() else {
            eprintln!("skipped: vsftpd is not installed: scripts/setup.sh test");
            return None;
        };
        lay_out(home, "password", account()).unwrap();
        let text = configuration(at, home, "hello", account()).unwrap();
        fs::write(home.join("vsftpd.conf"), text).unwrap();
        Some(super::daemon(&program, home, at, "hello".into()))
    }

    #[test]
    fn a_port_that_another_has_taken_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let Some(daemon) = daemon(dir.path(), taken.local_addr().unwrap()) else {
            return;
        };
        // No server accepts connections there, so none sends a greeting.
        let e = daemon.start().err().unwrap();
        assert!(e.message.contains("could not bind"), "{}", e.message);
        assert_eq!(e.errno, Some(libc::EADDRINUSE));
        assert!(e.hint.unwrap().contains("`server` = own"));
    }

    #[test]
    fn what_it_needs_and_has_not_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = free_port("127.0.0.1".parse().unwrap()).unwrap();
        let Some(daemon) = daemon(dir.path(), at) else {
            return;
        };
        fs::remove_dir(dir.path().join(EMPTY)).unwrap();
        let e = daemon.start().err().unwrap();
        assert!(e.message.contains("answered \"500 OOPS"), "{}", e.message);
    }

    /// The first descendant of a process that is vsftpd.
    fn server_below(pid: u32) -> Option<i32> {
        let below = layermark_sys::process::children(pid);
        below.into_iter().find_map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let found = (name.trim() == "vsftpd").then_some(pid.cast_signed());
            found.or_else(|| server_below(pid))
        })
    }

    #[test]
    fn a_server_that_was_killed_is_told() {
        let Some(program) = find() else {
            return eprintln!("skipped: vsftpd is not installed: scripts/setup.sh test");
        };
        let dir = tempfile::tempdir().unwrap();
        let address = "127.0.0.1".parse().unwrap();
        let server = Vsftpd::start(&program, dir.path(), address).unwrap();
        let pid = server_below(server.guard.pid()).expect("a server");
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // Its port is closed a moment before it has ended.
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        rustix::process::pidfd_send_signal(&process, Signal::KILL).unwrap();
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
        let e = server.end().unwrap_err();
        assert!(
            e.message.starts_with("ftp: vsftpd ended by itself"),
            "{}",
            e.message
        );
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = free_port("127.0.0.1".parse().unwrap()).unwrap();
        let Some(daemon) = daemon(dir.path(), at) else {
            return;
        };
        let guard = daemon.start().unwrap();
        assert_eq!(greeting(at), "220 hello");
        assert!(guard.cpu_ns() > 0);
        guard.end().unwrap();
        assert!(TcpStream::connect(at).is_err(), "it still listens");
    }

    #[test]
    fn its_password_is_for_its_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        lay_out(dir.path(), "secret", account()).unwrap();
        let file = dir.path().join("passwords");
        assert_eq!(fs::read_to_string(&file).unwrap(), "secret\n");
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }

    #[test]
    fn no_line_of_a_path_becomes_one_of_its_configuration() {
        let at = "127.0.0.1:2121".parse().unwrap();
        let text = |path: &str| configuration(at, Path::new(path), "hello", None);
        let whole = text("/a b").unwrap();
        assert!(
            whole.lines().any(|line| line == "anon_root=/a b/root"),
            "{whole}"
        );
        assert!(text("/a\nlocal_enable=YES").is_err());
    }

    #[test]
    fn its_version_is_found() {
        let Some(program) = find() else {
            return eprintln!("skipped: vsftpd is not installed: scripts/setup.sh test");
        };
        let version = version(&program);
        let number = version.strip_prefix("vsftpd ").unwrap();
        assert!(
            number.starts_with(|c: char| c.is_ascii_digit()),
            "{version}"
        );
    }
}
