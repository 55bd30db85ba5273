//! The far end: starts the server for the near end, and reports its resource usage.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Mutex,
};

use layermark_model::random_name;

use super::{
    answer,
    hosted::{self, HostedServer, Site},
    near::Welcome,
    params::{HttpParams, Server},
    server::OwnServer,
};
use crate::{
    Context, ProbeError,
    programs::PATH,
    usage,
    workloads::ends::{
        control::{Request, admit, done, refuse, refuse_with, serve, unknown},
        lines::{Hidden, Lines},
        listening::{Listening, OpenConnections, no_listener},
        place::{self, Host, PinnedCpus},
    },
};

/// State shared by its threads.
struct HttpFarState {
    p: HttpParams,
    dir: PathBuf,
    seed: u64,
    at: SocketAddr,
    secret: Hidden,
    /// Held by the thread of the current trial.
    serving: Mutex<()>,
}

/// A running server.
enum Running {
    Own(#[allow(dead_code)] OwnServer),
    Hosted(Box<HostedServer>),
}

/// An error if the server that the point names is not installed here.
pub fn check_program(p: &HttpParams) -> Result<(), ProbeError> {
    match p.server {
        Server::Nginx | Server::Apache => hosted::find(p.server, PATH).map(drop),
        Server::Auto | Server::Own => Ok(()),
    }
}

/// Starts a far end.
pub fn start(dir: &Path, p: HttpParams, context: &Context) -> Result<Listening, ProbeError> {
    let peer = context.far_end("http")?;
    let at = peer.socket();
    // Checked now, for a clear error before the near end connects.
    check_program(&p)?;
    let listener = TcpListener::bind(at).map_err(|e| no_listener(at, &e))?;
    let state = HttpFarState {
        p,
        dir: dir.to_owned(),
        seed: context.seed,
        at,
        secret: peer.secret.clone().into(),
        serving: Mutex::default(),
    };
    // The near end detects failures.
    Listening::start(listener, move |stream, connections| {
        let _ = state.serve(stream, connections);
        Ok(())
    })
}

impl HttpFarState {
    /// A client that does not send the secret is disconnected without an answer.
    fn serve(&self, stream: TcpStream, connections: &OpenConnections) -> io::Result<()> {
        let mut lines = Lines::new(stream);
        let Some(host) = admit(&mut lines, &self.secret, &self.p) else {
            return Ok(());
        };
        if connections.is_ending() {
            return Ok(());
        }
        let Ok(_serving) = self.serving.try_lock() else {
            return refuse(&lines, "it serves another trial");
        };
        let (running, welcome) = match self.run(&host) {
            Ok(started) => started,
            Err(error) => return refuse_with(&lines, error),
        };
        done(&lines, welcome)?;
        serve(&mut lines, |lines, request| match request {
            Request::Count => done(lines, running.cpu_ns()),
            _ => unknown(lines),
        })
    }

    /// Starts the server on its CPUs, at a free port.
    fn run(&self, near: &Host) -> Result<(Running, Welcome), ProbeError> {
        let p = &self.p;
        let host = Host::here();
        let [_, cpus] = place::cpus(p.placement, p.concurrency as usize, near, &host);
        let pinned = PinnedCpus::on(&cpus).map_err(|e| ProbeError::new(format!("http: {e}")))?;
        let cpus = pinned.cpus();
        let file = answer::file(self.seed, p.body);
        let token = random_name("") + &random_name("");
        let server = match p.server {
            Server::Auto if hosted::find(Server::Nginx, PATH).is_ok() => Server::Nginx,
            Server::Auto => Server::Own,
            named => named,
        };
        let at = SocketAddr::new(self.at.ip(), 0);
        let (running, at) = if server == Server::Own {
            let own = OwnServer::start(at, &format!("/{token}"), file, &cpus);
            let own = own.map_err(|e| no_listener(at, &e))?;
            let at = own.at().map_err(|e| no_listener(at, &e))?;
            (Running::Own(own), at)
        } else {
            // It was free a moment ago. If it is taken meanwhile, the server reports that.
            let free = TcpListener::bind(at).and_then(|listener| listener.local_addr());
            let at = free.map_err(|e| no_listener(at, &e))?;
            let site = Site {
                at,
                name: &token,
                file: &file,
                processes: place::threads(&cpus),
                connections: p.concurrency,
            };
            let hosted = HostedServer::start(server, &self.dir, &site)?;
            (Running::Hosted(Box::new(hosted)), at)
        };
        let welcome = Welcome {
            host,
            port: at.port(),
            token: token.into(),
            cpus,
        };
        Ok((running, welcome))
    }
}

impl Running {
    /// CPU time so far, ns. Our own server is this process.
    fn cpu_ns(&self) -> Option<u64> {
        match self {
            Self::Own(_) => {
                let cpu = usage::now().cpu;
                Some(cpu.user_ns + cpu.sys_ns)
            }
            Self::Hosted(hosted) => hosted.cpu_ns(),
        }
    }
}
