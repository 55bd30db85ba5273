//! The far end: the server, and the answers to the near end's requests.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};

use layermark_model::{protocol::Peer, random_name};
use layermark_sys::packages;

use super::{
    content::{Content, Sum, Tick, sum_of_file, touched},
    control::{BUSY, Welcome},
    params::{FtpOp, FtpParams, ServerChoice, Sink},
    server::{FILE, Site},
    session::Login,
    vsftpd::{self, Vsftpd},
};
use crate::{
    Context, FarEnd, ProbeError,
    programs::ELSEWHERE,
    usage,
    workloads::{
        ends::{
            control::{Answer, Request, admit, done, refuse, serve, unknown},
            lines::{Hidden, Lines},
            listening::{Listening, OpenConnections, no_listener},
            lock,
        },
        work_dir::WorkDir,
    },
};

/// A server that listens, and the control connection.
pub struct FtpFarEnd {
    control: Listening,
    /// Our own server.
    own: Option<Listening>,
    shared: Arc<FtpFarState>,
    /// Declared last, because the others use it.
    _work: WorkDir,
}

/// State for the control connection.
struct FtpFarState {
    p: FtpParams,
    secret: Hidden,
    welcome: Welcome,
    files: PathBuf,
    site: Option<Arc<Site>>,
    vsftpd: Mutex<Option<Vsftpd>>,
}

impl FtpFarEnd {
    pub fn start(
        dir: &Path,
        p: FtpParams,
        peer: &Peer,
        context: &Context,
    ) -> Result<Self, ProbeError> {
        let at = peer.socket();
        // Done first, so that a taken port is detected at once.
        let listener = TcpListener::bind(at).map_err(|e| no_listener(at, &e))?;
        let work = WorkDir::new(dir)?;
        let vsftpd = match program(&p, vsftpd::find())? {
            Some(program) => Some(Vsftpd::start(&program, work.path(), peer.address)?),
            None => None,
        };
        let files = match &vsftpd {
            Some(_) => vsftpd::files(work.path()),
            None => work.path().to_owned(),
        };
        let data = content(&p, &files, context.seed)?;
        let mut shared = FtpFarState {
            secret: peer.secret.clone().into(),
            welcome: Welcome {
                server: "layermark's own".into(),
                port: 0,
                login: Login {
                    user: random_name(""),
                    password: (random_name("") + &random_name("")).into(),
                    folder: String::new(),
                },
                file: data.as_ref().map(Content::sum),
            },
            files,
            site: None,
            vsftpd: Mutex::default(),
            p,
        };
        let own = match vsftpd {
            Some(vsftpd) => {
                shared.take(vsftpd);
                None
            }
            None => Some(shared.serve_ourselves(peer, data)?),
        };
        let shared = Arc::new(shared);
        let body = Arc::clone(&shared);
        // The near end reports a connection that fails.
        let control = Listening::start(listener, move |stream, _: &OpenConnections| {
            let _ = body.serve(stream);
            Ok(())
        })?;
        Ok(Self {
            control,
            own,
            shared,
            _work: work,
        })
    }
}

impl FarEnd for FtpFarEnd {
    fn port(&self) -> u16 {
        self.control.at.port()
    }

    fn end(&mut self) -> Result<(), ProbeError> {
        self.control.end()?;
        if let Some(own) = &mut self.own {
            own.end()?;
        }
        let vsftpd = lock(&self.shared.vsftpd).take();
        vsftpd.map_or(Ok(()), Vsftpd::end)
    }
}

/// vsftpd, if it is to serve the point.
pub fn program(p: &FtpParams, found: Option<PathBuf>) -> Result<Option<PathBuf>, ProbeError> {
    match p.server {
        ServerChoice::Own => Ok(None),
        ServerChoice::Auto => Ok(found.filter(|_| p.vsftpd_can())),
        ServerChoice::Vsftpd if found.is_none() => Err(ProbeError::new(
            "vsftpd is not installed where the far end is",
        )
        .hint(format!(
            "{}; {ELSEWHERE}; or use `server` = own",
            packages::install("vsftpd")
        ))),
        ServerChoice::Vsftpd => Ok(found),
    }
}

/// The file to get.
fn content(p: &FtpParams, files: &Path, seed: u64) -> Result<Option<Content>, ProbeError> {
    if p.op == FtpOp::Put {
        return Ok(None);
    }
    let path = files.join(FILE);
    let done = Content::make(p.source, p.file_size, seed, &path).and_then(|data| {
        if path.exists() {
            // The server may run as another user.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(data)
    });
    let data = done.map_err(|e| ProbeError::io("make", &path, &e))?;
    Ok(Some(data))
}

impl FtpFarState {
    fn take(&mut self, vsftpd: Vsftpd) {
        self.welcome.server.clone_from(&vsftpd.version);
        self.welcome.port = vsftpd.port;
        self.welcome.login = vsftpd.login.clone();
        self.vsftpd = Mutex::new(Some(vsftpd));
    }

    /// Our own server, at a free port of the same address.
    fn serve_ourselves(
        &mut self,
        peer: &Peer,
        data: Option<Content>,
    ) -> Result<Listening, ProbeError> {
        let p = &self.p;
        let spare = match (p.op, p.sink) {
            (FtpOp::Put, Sink::Memory) => p.clients * p.transfers(),
            _ => 0,
        };
        let site = Arc::new(Site {
            login: self.welcome.login.clone(),
            content: data,
            sink: p.sink,
            length: p.file_size,
            dir: self.files.clone(),
            stored: Mutex::default(),
            spare: Mutex::new((0..spare).map(|_| touched(p.file_size)).collect()),
        });
        self.site = Some(Arc::clone(&site));
        let at = SocketAddr::new(peer.address, 0);
        let listener = TcpListener::bind(at).map_err(|e| no_listener(at, &e))?;
        let listening = Listening::start(listener, move |stream, _: &OpenConnections| {
            // The client detects any failure.
            let _ = site.serve(&stream);
            Ok(())
        })?;
        self.welcome.port = listening.at.port();
        Ok(listening)
    }

    /// A client that does not send the secret is disconnected without an answer.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut lines = Lines::new(stream);
        if admit(&mut lines, &self.secret, &self.p).is_none() {
            return Ok(());
        }
        done(&lines, &self.welcome)?;
        serve(&mut lines, |lines, request| match request {
            Request::Count => done(lines, self.cpu_ns()),
            Request::Check { names } => self.check(&names, lines),
            _ => unknown(lines),
        })
    }

    fn cpu_ns(&self) -> u64 {
        let own = usage::now().cpu;
        let server = lock(&self.vsftpd).as_ref().map_or(0, Vsftpd::cpu_ns);
        own.user_ns + own.sys_ns + server
    }

    /// Verifies the files that were put, and removes them.
    fn check(&self, names: &[String], lines: &Lines) -> io::Result<()> {
        let mut said = Instant::now();
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let tick = &mut || {
                if said.elapsed() >= BUSY {
                    // Sending the answer shows whether the near end is still connected.
                    let _ = lines.say(&Answer::<()>::Busy);
                    said = Instant::now();
                }
            };
            match self.sum(name, tick) {
                Ok(sum) => files.push(sum),
                Err(e) => {
                    let why = format!("it cannot read the uploaded file {name}: {e}");
                    return refuse(lines, why);
                }
            }
        }
        done(lines, files)
    }

    fn sum(&self, name: &str, tick: &mut Tick<'_>) -> io::Result<Sum> {
        if let Some(site) = &self.site {
            return site.take(name, tick);
        }
        // The near end has sent the secret; still, only plain names are accepted, no paths.
        let plain = Path::new(name)
            .file_name()
            .ok_or(io::ErrorKind::InvalidInput)?;
        sum_of_file(&self.files.join(plain), tick)
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::Settings;

    use super::*;
    use crate::{Workload, param, workloads::ftp::WORKLOAD};

    #[test]
    fn vsftpd_serves_where_it_is_and_can() {
        let p = |params: serde_json::Value| -> FtpParams {
            let settings: Settings = serde_json::from_value(params).unwrap();
            param::read(&WORKLOAD.points(&settings, 1.0).unwrap()[0]).unwrap()
        };
        let get = p(serde_json::json!({"workload": "ftp", "op": "get"}));
        let null = p(serde_json::json!({"workload": "ftp", "op": "get", "source": "null"}));
        let only = p(serde_json::json!({"workload": "ftp", "op": "get", "server": "vsftpd"}));
        let own = p(serde_json::json!({"workload": "ftp", "op": "get", "server": "own"}));
        let there = || Some(PathBuf::from("/usr/sbin/vsftpd"));
        assert_eq!(program(&get, there()).unwrap(), there());
        assert_eq!(program(&get, None).unwrap(), None);
        assert_eq!(program(&null, there()).unwrap(), None);
        assert_eq!(program(&own, there()).unwrap(), None);
        let e = program(&only, None).unwrap_err();
        assert!(e.message.contains("not installed"), "{}", e.message);
        assert!(e.hint.unwrap().contains("apt-get install vsftpd"));
    }
}
