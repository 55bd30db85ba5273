//! A web server installed on this machine: nginx or Apache, with a configuration and a directory
//! made for the trial. A guard ends it with the probe.

use std::{
    cell::OnceCell,
    ffi::OsString,
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::BorrowedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mount::mount_bind,
};
use tempfile::TempDir;

use super::params::Server;
use crate::{
    ProbeError,
    clock::monotonic_ns,
    programs::{
        PATH,
        guard::{Guard, Guarded},
        last_output::capture_stderr,
        spawn::Program,
        sys,
        tree::Tree,
        user::{self, User},
        which,
    },
    workloads::ends::listening::no_listener,
};

/// How long a server may take to listen.
const UP: Duration = Duration::from_secs(20);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// Interval of checks whether it listens.
const LOOK: Duration = Duration::from_millis(5);
/// Path under which another user sees the directory, in a separate mount namespace, because only
/// root may enter those above it.
const SEEN: &str = "/tmp";
/// The user who serves instead of root.
const NOBODY: u32 = 65534;

/// Directories of Apache's modules in different distributions.
const MODULES: [&str; 4] = [
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/lib/httpd/modules",
    "/usr/lib64/apache2",
];

/// A running server.
pub struct HostedServer {
    // Ended before its directory is removed.
    _guard: Guard<Launch>,
    /// Name of its processes.
    name: OsString,
    pids: OnceCell<Vec<u32>>,
    _dir: TempDir,
}

/// The site to serve.
pub struct Site<'a> {
    pub at: SocketAddr,
    /// Name of the only file.
    pub name: &'a str,
    pub file: &'a [u8],
    /// Number of processes of nginx.
    pub processes: usize,
    pub connections: u64,
}

/// Command lines of a server, for the guard.
struct Launch {
    name: &'static str,
    commands: Vec<Vec<String>>,
    dir: PathBuf,
    at: SocketAddr,
    user: Option<User>,
}

/// The path of that server's program, searched in directories separated by colons.
pub fn find(server: Server, path: &str) -> Result<PathBuf, ProbeError> {
    let (names, package): (&[&str], _) = match server {
        Server::Apache => (&["apache2", "httpd"], "apache2-bin"),
        _ => (&["nginx"], "nginx-light"),
    };
    let found = names.iter().find_map(|name| which(name, path));
    found.ok_or_else(|| {
        let names = names.join(" or ");
        ProbeError::new(format!("http: {names} was not found in {path}")).hint(format!(
            "apt-get install {package}; in a guest, have the programs of this host: vm:root=host; or --server own"
        ))
    })
}

impl HostedServer {
    /// Starts it below `dir`, and waits until it listens.
    pub fn start(server: Server, dir: &Path, site: &Site<'_>) -> Result<Self, ProbeError> {
        let program = find(server, PATH)?;
        // nginx retries for seconds, and meanwhile another server's answer would be taken for its
        // own.
        let free = TcpListener::bind(site.at).map(drop);
        free.map_err(|e| no_listener(site.at, &e))?;
        let made = TempDir::with_prefix_in("http-", dir);
        let home = made.map_err(|e| ProbeError::io("make a directory in", dir, &e))?;
        let www = home.path().join("www");
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|e| ProbeError::io("write", path, &e))
        };
        fs::create_dir(&www).map_err(|e| ProbeError::io("make", &www, &e))?;
        write(&www.join(site.name), site.file)?;
        // Apache reads it as another user.
        let open = fs::Permissions::from_mode(0o755);
        let opened = fs::set_permissions(home.path(), open);
        opened.map_err(|e| ProbeError::io("open", home.path(), &e))?;
        let conf = if server == Server::Apache {
            ("httpd.conf", apache_conf(site))
        } else {
            ("nginx.conf", nginx_conf(site))
        };
        write(&home.path().join(conf.0), conf.1.as_bytes())?;
        let launch = if server == Server::Apache {
            Launch::apache(&program, home.path(), site)?
        } else {
            Launch::nginx(&program, home.path(), site)
        };
        Ok(Self {
            _guard: Guard::start(launch)?,
            name: program.file_name().unwrap_or_default().to_os_string(),
            pids: OnceCell::new(),
            _dir: home,
        })
    }

    /// Its processes. Searched for after the first answer, because Apache listens before it starts
    /// the process that serves.
    fn pids(&self) -> &[u32] {
        self.pids.get_or_init(|| {
            let is_server = |pid: &u32| {
                let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
                comm.is_ok_and(|comm| *comm.trim_end() == *self.name)
            };
            Tree::default().pids().filter(is_server).collect()
        })
    }

    /// CPU time of all its threads since it started, ns; `None` if the kernel does not report it.
    pub fn cpu_ns(&self) -> Option<u64> {
        let each = self.pids().iter().map(|pid| threads_ns(*pid));
        each.sum::<Option<u64>>().filter(|ns| *ns > 0)
    }
}

/// First field of `schedstat` of each thread (`Documentation/scheduler/sched-stats.rst`), summed
/// up, ns.
fn threads_ns(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ns = |task: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    tasks.flatten().map(ns).sum()
}

/// The configuration of nginx. A single process serves without changing its user; several share the
/// port.
fn nginx_conf(site: &Site<'_>) -> String {
    let shared = if site.processes > 1 { " reuseport" } else { "" };
    let (at, connections) = (site.at, 2 * site.connections + 64);
    // Otherwise root would give its directories to nobody, a user that most user namespaces lack.
    let user = if rustix::process::geteuid().is_root() {
        "user root root; "
    } else {
        ""
    };
    format!(
        "{user}daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ worker_connections {connections}; }}
http {{
  access_log off; default_type application/octet-stream; sendfile on; tcp_nopush on;
  keepalive_timeout 3600s; keepalive_requests 1000000000;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server {{ listen {at}{shared}; root www; }}
}}
"
    )
}

fn apache_conf(site: &Site<'_>) -> String {
    let at = site.at;
    let threads = site.connections.clamp(16, 1024);
    let modules = MODULES.into_iter().find(|dir| Path::new(dir).is_dir());
    let modules = modules.unwrap_or(MODULES[0]);
    let module = |name: &str| {
        format!(
            "<IfModule !{name}_module>\nLoadModule {name}_module {modules}/mod_{name}.so\n</IfModule>\n"
        )
    };
    let text = ["mpm_event", "unixd", "authz_core"].map(module).concat();
    text + &format!(
        "ServerName layermark
Listen {at}
DefaultRuntimeDir .
PidFile httpd.pid
Mutex sem
ErrorLog /dev/stderr
DocumentRoot www
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 3600
ServerLimit 1
StartServers 1
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {threads}
"
    )
}

impl Launch {
    fn nginx(program: &Path, dir: &Path, site: &Site<'_>) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut command = vec![text(program)];
        command.extend(["-e", "stderr", "-p"].map(str::to_owned));
        command.extend([text(dir), "-c".into(), "nginx.conf".into()]);
        Self {
            name: "nginx",
            commands: vec![command; site.processes.max(1)],
            dir: dir.to_owned(),
            at: site.at,
            user: None,
        }
    }

    /// Apache does not serve as root.
    fn apache(program: &Path, dir: &Path, site: &Site<'_>) -> Result<Self, ProbeError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let root = rustix::process::geteuid().is_root();
        if root && !user::mapped(NOBODY) {
            return Err(ProbeError::new(
                "http: Apache does not serve as root, and this user namespace has no other user",
            )
            .hint("--server nginx, or run layermark as root of the machine"));
        }
        let nobody = User {
            uid: NOBODY,
            gid: NOBODY,
        };
        if root {
            // It writes its process id there.
            let given = std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY));
            given.map_err(|e| ProbeError::io("give away", dir, &e))?;
        }
        let seen = if root { Path::new(SEEN) } else { dir };
        let mut command = vec![text(program), "-DFOREGROUND".into(), "-d".into()];
        command.extend([text(seen), "-f".into(), "httpd.conf".into()]);
        Ok(Self {
            name: "Apache",
            commands: vec![command],
            dir: dir.to_owned(),
            at: site.at,
            user: root.then_some(nobody),
        })
    }

    fn failed(&self, what: &str) -> ProbeError {
        ProbeError::new(format!("http: {} for {} {what}", self.name, self.at)).hint(format!(
            "does another program have the port: `ss -ltnp 'sport = :{}'`",
            self.at.port()
        ))
    }
}

impl Guarded for Launch {
    type Done = ();

    fn grace(&self) -> Duration {
        GRACE
    }

    fn prepare(&mut self, _: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let mut dir = self.dir.clone();
        if self.user.is_some() {
            let shown = sys::own_mounts().and_then(|()| Ok(mount_bind(&dir, SEEN)?));
            shown.map_err(|e| ProbeError::io("show to another user", &dir, &e))?;
            dir = SEEN.into();
        }
        let began = Instant::now();
        let mut started = Vec::new();
        for argv in &self.commands {
            let no_start = |e: std::io::Error| ProbeError::io("start", Path::new(&argv[0]), &e);
            let mut program = Program::new(argv, None, dir.clone()).map_err(no_start)?;
            program.env("PATH", PATH).user(self.user);
            let said = capture_stderr(&mut program).map_err(no_start)?;
            let process = program
                .prepared()
                .and_then(|ready| ready.start(monotonic_ns, &mut 0))
                .map_err(no_start)?;
            started.push((process, said));
        }
        loop {
            let mut fds = vec![PollFd::from_borrowed_fd(asker, PollFlags::RDHUP)];
            fds.extend(
                started
                    .iter()
                    .map(|(p, _)| PollFd::new(&p.pidfd, PollFlags::IN)),
            );
            // Interrupted: polled again.
            let _ = poll(&mut fds, Timespec::try_from(LOOK).ok().as_ref());
            let came = fds.iter().position(|fd| !fd.revents().is_empty());
            match came {
                Some(0) => return Err(ProbeError::new("cancelled")),
                Some(n) => {
                    let said = started[n - 1].1.text();
                    return Err(self.failed(&format!("ended before it listened{said}")));
                }
                None if TcpStream::connect_timeout(&self.at, LOOK * 20).is_ok() => return Ok(()),
                None if began.elapsed() >= UP => {
                    let said = started.first().map(|(_, said)| said.text());
                    let said = said.unwrap_or_default();
                    let seconds = UP.as_secs();
                    return Err(self.failed(&format!("does not listen after {seconds} s{said}")));
                }
                None => thread::sleep(LOOK),
            }
        }
    }

    fn work(&mut self, _: &mut Tree, _: BorrowedFd<'_>) -> Result<(), ProbeError> {
        Ok(())
    }
}
