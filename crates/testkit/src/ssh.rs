//! An SSH server for a test: on a free port of the loopback, with keys of its own, independent of the system's
//! server and of the user's configuration.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Name of the server in [`SshServer::config`].
pub const HOST: &str = "box";
/// The server by a name whose host key is not known.
pub const STRANGER: &str = "stranger";
/// The server with a key that it does not accept.
pub const LOCKED: &str = "locked";

const PROGRAM: &str = "/usr/sbin/sshd";

/// A server. It ends and its files are removed with the test, however that ends.
#[derive(Debug)]
pub struct SshServer {
    dir: PathBuf,
    /// A process that waits for the end of its standard input, which this process holds.
    guard: Child,
}

impl SshServer {
    /// Starts one. `None` where `OpenSSH` is not installed, or without root: the server logs in its own user.
    pub fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() || !rustix::process::geteuid().is_root() {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("layermark-ssh-").tempdir();
        let dir = dir.expect("a directory").keep();
        // The server wants this directory, which its package makes at boot.
        fs::create_dir_all("/run/sshd").expect("/run/sshd");
        for key in ["host", "client", "other"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"])
                .arg(dir.join(key))
                .status();
            assert!(made.is_ok_and(|status| status.success()), "ssh-keygen");
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
        let port = port.expect("a free port").port();
        for name in ["tmp", "cache"] {
            fs::create_dir(dir.join(name)).expect("a directory");
        }
        write_files(&dir, port);
        let text = r#""$0" -D -f "$1/sshd_config" -E "$1/log" & server=$!; cat; kill $server; rm -rf "$1""#;
        let guard = Command::new("sh")
            .args([
                "-c".as_ref(),
                text.as_ref(),
                PROGRAM.as_ref(),
                dir.as_os_str(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh");
        let server = Self { dir, guard };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let late = start.elapsed() > Duration::from_secs(30);
            assert!(!late, "no server: {}", server.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    /// A client's configuration that knows the server as [`HOST`], [`STRANGER`] and [`LOCKED`].
    pub fn config(&self) -> PathBuf {
        self.dir.join("config")
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Number of logins that were tried. A connection without one is not counted.
    pub fn logins(&self) -> usize {
        let log = self.log();
        let tried = |line: &&str| {
            line.contains("Accepted publickey") || line.contains("authenticating user")
        };
        log.lines().filter(tried).count()
    }

    /// Names of the files in the temporary directory (`tmp`) or the cache directory (`cache`) of its sessions.
    pub fn files(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join(directory)).expect("a directory");
        let names = entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned());
        names.collect()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn write_files(dir: &Path, port: u16) {
    let at = dir.display();
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/client.pub\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication yes\nLogLevel VERBOSE\n\
         SetEnv TMPDIR={at}/tmp XDG_CACHE_HOME={at}/cache\n"
    );
    let own = |host: &str, key: &str, known: &str| {
        format!("Host {host}\n  IdentityFile {at}/{key}\n  UserKnownHostsFile {known}\n")
    };
    let known = format!("{at}/known_hosts");
    let client = [
        own(HOST, "client", &known),
        own(STRANGER, "client", "/dev/null"),
        own(LOCKED, "other", &known),
        format!(
            "Host *\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentitiesOnly yes\n  \
             GlobalKnownHostsFile /dev/null\n  UpdateHostKeys no\n"
        ),
    ]
    .concat();
    let key = fs::read_to_string(dir.join("host.pub")).expect("a host key");
    for (name, text) in [
        ("sshd_config", server),
        ("config", client),
        ("known_hosts", format!("[127.0.0.1]:{port} {key}")),
    ] {
        fs::write(dir.join(name), text).expect("a file");
    }
}
