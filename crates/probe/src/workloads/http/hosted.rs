//! A web server installed on this machine: nginx or Apache, with a configuration and a directory
//! made for the trial. A guard ends it with the probe.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use layermark_sys::packages;

use super::params::Server;
use crate::{
    ProbeError,
    programs::{
        ELSEWHERE, PATH,
        daemon::{Daemon, SEEN, Served},
        guard::Guard,
        user::{self, User},
        which,
    },
    workloads::ends::listening::no_listener,
};

/// How long an attempt to connect may take.
const LISTENS: Duration = Duration::from_millis(100);
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
    guard: Guard<Served>,
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
            "{}; {ELSEWHERE}; or --server own",
            packages::install(package)
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
        let daemon = if server == Server::Apache {
            apache(&program, home.path(), site)?
        } else {
            nginx(&program, home.path(), site)
        };
        Ok(Self {
            guard: daemon.start()?,
            _dir: home,
        })
    }

    /// CPU time of all its processes since it started, ns; `None` if the kernel does not report it.
    pub fn cpu_ns(&self) -> Option<u64> {
        Some(self.guard.cpu_ns()).filter(|ns| *ns > 0)
    }
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

fn nginx(program: &Path, dir: &Path, site: &Site<'_>) -> Daemon {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut command = vec![text(program)];
    command.extend(["-e", "stderr", "-p"].map(str::to_owned));
    command.extend([text(dir), "-c".into(), "nginx.conf".into()]);
    Daemon {
        name: "http: nginx",
        commands: vec![command; site.processes.max(1)],
        ..daemon(dir, site)
    }
}

/// Apache does not serve as root.
fn apache(program: &Path, dir: &Path, site: &Site<'_>) -> Result<Daemon, ProbeError> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let root = rustix::process::geteuid().is_root();
    if root && !user::mapped(NOBODY) {
        return Err(ProbeError::new(
            "http: Apache does not serve as root, and this user namespace has no other user",
        )
        .hint("--server nginx, or run layermark as root of the machine"));
    }
    let user = root.then_some(User {
        uid: NOBODY,
        gid: NOBODY,
    });
    // It writes its process id there.
    let given = Daemon::give(user, dir);
    given.map_err(|e| ProbeError::io("give away", dir, &e))?;
    let seen = if root { Path::new(SEEN) } else { dir };
    let mut command = vec![text(program), "-DFOREGROUND".into(), "-d".into()];
    command.extend([text(seen), "-f".into(), "httpd.conf".into()]);
    Ok(Daemon {
        name: "http: Apache",
        commands: vec![command],
        user,
        ..daemon(dir, site)
    })
}

/// What both have in common.
fn daemon(dir: &Path, site: &Site<'_>) -> Daemon {
    let port = site.at.port();
    Daemon {
        name: "",
        commands: Vec::new(),
        dir: dir.to_owned(),
        at: site.at,
        user: None,
        answers: Box::new(|at| Ok(TcpStream::connect_timeout(&at, LISTENS).is_ok())),
        hint: format!("does another program have the port: `ss -ltnp 'sport = :{port}'`"),
    }
}
