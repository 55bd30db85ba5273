//! A `PostgreSQL` server for a test: in a temporary directory, on a free port of the loopback,
//! independent of the system's server.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// The user who may log in over the loopback.
pub const USER: &str = "team";
/// The user's password, which no output may contain.
pub const PASSWORD: &str = "s3cret-Pw";

/// User id of the server if the test runs as root, which it refuses: `nobody`.
const NOBODY: u32 = 65534;

/// A server. It ends and its files are removed with the test, however that ends.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    dir: PathBuf,
    /// Its port on the loopback.
    pub port: u16,
    /// A process that waits for the end of its standard input, which this process holds.
    guard: Child,
}

impl Server {
    /// Starts one. `None` where `PostgreSQL` is not installed.
    pub fn start() -> Option<Self> {
        let programs = programs()?;
        let dir = tempfile::Builder::new()
            .prefix("layermark-pg-")
            .tempdir()
            .expect("a directory")
            .keep();
        if rustix::process::geteuid().is_root() {
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("chown");
        }
        fs::write(dir.join("password"), PASSWORD).expect("a password file");
        let text = r#"cat; "$0/pg_ctl" -D "$1/data" -m immediate stop; cd /; rm -rf "$1""#;
        let guard = as_nobody(Path::new("sh"), &dir)
            .args([
                "-c".as_ref(),
                text.as_ref(),
                programs.as_os_str(),
                dir.as_os_str(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let server = Self {
            programs,
            dir,
            port: port.expect("a free port").port(),
            guard,
        };
        server.run(
            "initdb",
            &[
                "-D",
                "data",
                "-U",
                "owner",
                "--auth-local=trust",
                "--no-sync",
                "-E",
                "UTF8",
                "--auth-host=scram-sha-256",
                "--locale=C.UTF-8",
            ],
        );
        server.begin("");
        server.sql(
            "postgres",
            &format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"),
        );
        Some(server)
    }

    /// Starts it the first time, or after [`Server::stop`], with additional options of `postgres`.
    pub fn begin(&self, more: &str) {
        let options = format!(
            "-k {} -p {} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=40 \
             -c shared_buffers=8MB {more}",
            self.dir.display(),
            self.port
        );
        self.run(
            "pg_ctl",
            &["-D", "data", "-w", "-l", "log", "-o", &options, "start"],
        );
    }

    /// Stops it at once, as after a power failure.
    pub fn stop(&self) {
        self.run("pg_ctl", &["-D", "data", "-w", "-m", "immediate", "stop"]);
    }

    /// Makes a database owned by the user. Returns its URL, with the password.
    pub fn database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("runs{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {USER}"));
        self.url(&name)
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// Directory of its socket.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The result of a statement, run by the server's owner; `database` is a name or a URL.
    pub fn sql(&self, database: &str, text: &str) -> String {
        let database = database.rsplit('/').next().unwrap_or_default();
        let dir = self.dir.display().to_string();
        let port = self.port.to_string();
        self.run(
            "psql",
            &[
                "-X",
                "-A",
                "-t",
                "-q",
                "-h",
                &dir,
                "-p",
                &port,
                "-U",
                "owner",
                "-d",
                database,
                "-v",
                "ON_ERROR_STOP=1",
                "-c",
                text,
            ],
        )
    }

    /// The whole content of a database, as text.
    pub fn dump(&self, database: &str) -> String {
        let database = database.rsplit('/').next().unwrap_or_default();
        let dir = self.dir.display().to_string();
        let port = self.port.to_string();
        self.run(
            "pg_dump",
            &["-h", &dir, "-p", &port, "-U", "owner", database],
        )
    }

    /// Ends all connections of the user.
    pub fn disconnect(&self) {
        let all = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'"
        );
        self.sql("postgres", &all);
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        // The server keeps the output open, so a pipe would not end.
        let out = tempfile::tempfile().expect("a file");
        let copy = || out.try_clone().expect("a descriptor");
        let status = as_nobody(&self.programs.join(program), &self.dir)
            .args(args)
            .stdin(Stdio::null())
            .stdout(copy())
            .stderr(copy())
            .status();
        let text = std::io::Seek::rewind(&mut &out).and_then(|()| std::io::read_to_string(&out));
        let text = text.expect("its output");
        assert!(status.is_ok_and(|s| s.success()), "{program}: {text}");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn as_nobody(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("LC_ALL", "C.UTF-8");
    for name in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"] {
        command.env_remove(name);
    }
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Directory of the newest installed version: in Debian it is not in `PATH`.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let found = versions.filter_map(|v| Some(v.ok()?.path().join("bin")));
    found.filter(|bin| bin.join("initdb").exists()).max()
}
