//! `layermark serve` and `run --serve`: a web server for stored and running runs.
//!
//! Both start a thread that reads the store like any other process. It sleeps until a request
//! arrives. It uses hyper alone: six addresses need no router such as axum.

mod answer;
mod connections;
mod frame;
mod live;
mod pages;
mod token;

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
};
use layermark_report::Tally;
use layermark_store::Store;
use tokio::{
    runtime::Builder,
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
    time::timeout,
};

use self::{
    answer::{Answer, Events, Query, is_own_host, kept_token},
    live::{Live, View},
    token::Token,
};
use super::{stdout, stored};
use crate::{
    common_args::{LOOPBACK, StoreArg, parse_address},
    failure::Failure,
    say::say,
    signals,
};

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on: a port, or an address such as 127.0.0.1:8080; 0.0.0.0:8080 lets other
    /// machines in
    #[arg(default_value = LOOPBACK, value_name = "ADDR", value_parser = parse_address, hide_default_value = true)]
    pub addr: SocketAddr,
    #[command(flatten)]
    pub store: StoreArg,
}

/// Most pages over many runs that are made at once, of four pages in all.
const HEAVY: usize = 2;
/// How long such a page may wait for its turn.
const TURN: Duration = Duration::from_secs(30);
/// Time limit to send a request's head, and to receive a piece of a response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Within this time viewers learn that a run has ended.
const HEARD: Duration = Duration::from_millis(500);
/// How long the process waits for viewers to fetch the last page of a stopped run: on a busy machine it takes a while to make.
/// A second Ctrl-C ends this.
const FAREWELL: Duration = Duration::from_mins(1);
/// A viewer that made no request for this long is not waited for.
const LAST_PAGE: Duration = Duration::from_secs(4);

/// The served store and its settings.
struct Site {
    store: Option<PathBuf>,
    token: Token,
    /// Whether other machines can connect.
    public: bool,
    /// The token in browsers' cookies. It is valid only for this process, so that a later process
    /// on this port learns nothing useful.
    session: Token,
    /// Identifies this process to its open pages. Browsers never send it.
    sign: Token,
    heavy: Semaphore,
    live: Arc<Live>,
    tallies: Mutex<Tallies>,
}

/// Tallies of verdicts by run and number of trials.
type Tallies = BTreeMap<(String, u64), Option<Tally>>;

/// A listening server. It answers once it is started.
pub struct Server {
    listener: TcpListener,
    at: SocketAddr,
    site: Arc<Site>,
}

/// `layermark serve`
pub fn forever(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let server = Server::bind(args.addr, args.store.store.clone())?;
    // Reports an unreadable store here instead of in a browser.
    server.site.store()?;
    let mut signals = signals::caught().map_err(|e| Failure::failed(format!("signals: {e}")))?;
    server.start()?;
    stdout::print(&format!("{}\n", server.address("/")))?;
    say("ends with Ctrl-C");
    signals.forever().next();
    server.goodbye();
    Ok(ExitCode::SUCCESS)
}

impl Server {
    /// Listens. Fails before anything is measured if the port is taken.
    pub fn bind(at: SocketAddr, store: Option<PathBuf>) -> Result<Self, Failure> {
        let listen = || {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            let at = listener.local_addr()?;
            Ok((listener, at))
        };
        let (listener, at) = listen().map_err(|e| refused(at, &e))?;
        let random = |e: io::Error| Failure::failed(format!("random bytes from the kernel: {e}"));
        let token = Token::of_user().map_err(random)?;
        let (session, sign) = (
            Token::random().map_err(random)?,
            Token::random().map_err(random)?,
        );
        let public = !at.ip().is_loopback();
        if public {
            say(format!(
                "warning: {at} can be reached from other machines, and what is sent is not encrypted\n\
                 hint: serve on the loopback, and from elsewhere: ssh -L 8080:localhost:PORT HOST"
            ));
        }
        let site = Site {
            store,
            token,
            public,
            session,
            sign,
            heavy: Semaphore::new(HEAVY),
            live: Arc::default(),
            tallies: Mutex::default(),
        };
        Ok(Self {
            listener,
            at,
            site: Arc::new(site),
        })
    }

    /// Starts the thread that answers requests. It ends with the process.
    pub fn start(&self) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::failed(format!("the server at {}: {e}", self.at));
        let listener = self.listener.try_clone().map_err(failed)?;
        let site = Arc::clone(&self.site);
        let body = move || {
            // Lowers the priority of this thread and those it starts: the measurement comes first.
            let _ = rustix::process::nice(19);
            if let Err(e) = serve(listener, &site) {
                say(format!("warning: nothing is served any more: {e}"));
            }
        };
        let thread = thread::Builder::new().name("serve".into()).spawn(body);
        thread.map(drop).map_err(failed)
    }

    /// The URL to open in a browser.
    pub fn address(&self, path: &str) -> String {
        let ip = match self.at.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
            ip => ip,
        };
        let at = SocketAddr::new(ip, self.at.port());
        format!("http://{at}{path}?token={}", self.site.token.as_str())
    }

    /// Tells viewers that this process ends, so that their pages stop asking. Another process may
    /// listen on this port next.
    pub fn goodbye(&self) {
        self.site.live.leave();
        let begun = Instant::now();
        while begun.elapsed() < HEARD * 2 && self.site.live.is_watched(Duration::ZERO) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until viewers of a stopped run have its last page, unless `enough`.
    pub fn farewell(&self, enough: impl Fn() -> bool) {
        self.site.live.end();
        let begun = Instant::now();
        let asked = || self.site.live.is_watched(LAST_PAGE) && !enough();
        while begun.elapsed() < FAREWELL && asked() {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn refused(at: SocketAddr, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "take a free port: {}:0; or see who has this one: ss -ltnp sport = :{}",
            at.ip(),
            at.port()
        ),
        _ => "take an address of this machine: 127.0.0.1:8080".into(),
    };
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
        _ => error.to_string(),
    };
    Failure::failed(format!("cannot serve at {at}: {why}")).hint(hint)
}

/// Answers requests until the process ends.
fn serve(listener: TcpListener, site: &Arc<Site>) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let site = Arc::clone(site);
        let answer = move |request, port| {
            let site = Arc::clone(&site);
            async move {
                let answer = Site::answer(&site, &request, port).await;
                answer.send(&site.session, port)
            }
        };
        connections::accept(listener, PATIENCE, answer).await
    })
}

impl Site {
    async fn answer(self: &Arc<Self>, request: &Request<Incoming>, port: u16) -> Answer {
        if !is_own_host(request.headers(), self.public) {
            let why = "this is not an address of the server: open the one that it printed";
            return Answer::Refused(StatusCode::FORBIDDEN, why);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Answer::Refused(StatusCode::METHOD_NOT_ALLOWED, "pages are only read");
        }
        let path = request.uri().path().to_owned();
        let query = Query::of(request.uri().query());
        if query.get("token").is_some_and(|said| self.token.is(said)) {
            let rest = query.without_token();
            let joint = if rest.is_empty() { "" } else { "?" };
            // Not `//host` or `/\host`, which would lead to another site.
            return Answer::Welcome(format!(
                "/{}{joint}{rest}",
                path.trim_start_matches(['/', '\\'])
            ));
        }
        if !kept_token(request.headers(), port).any(|kept| self.session.is(kept)) {
            let why = "the token is missing, or of an earlier server: open the printed address";
            return Answer::Refused(StatusCode::FORBIDDEN, why);
        }
        if let Some(id) = path
            .strip_prefix("/run/")
            .and_then(|p| p.strip_suffix("/events"))
        {
            return Answer::Events(self.events(id.to_owned()));
        }
        let _viewer = self.live.viewer();
        let heavy = ["/trend", "/compare"].contains(&&*path);
        let turn = if heavy {
            let Ok(Ok(turn)) = timeout(TURN, self.heavy.acquire()).await else {
                let why = "other pages over many runs are being made: try again later";
                return Answer::Refused(StatusCode::SERVICE_UNAVAILABLE, why);
            };
            Some(turn)
        } else {
            None
        };
        let site = Arc::clone(self);
        let made = spawn_blocking(move || site.page(&path, &query)).await;
        drop(turn);
        match made {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => Answer::Failed(failure),
            Err(e) => Answer::Failed(Failure::failed(format!("this page: {e}"))),
        }
    }

    fn page(&self, path: &str, query: &Query) -> Result<Answer, Failure> {
        let run = path.strip_prefix("/run/");
        match path {
            "/" => self.history(query),
            "/compare" => self.compare(query),
            "/trend" => self.trend(query),
            "/live.js" => Ok(Answer::script()),
            "/style.css" => Ok(Answer::style()),
            _ => match run {
                Some(run) => self.run(run),
                None => Ok(Answer::Refused(
                    StatusCode::NOT_FOUND,
                    "there is no such page",
                )),
            },
        }
    }

    fn store(&self) -> Result<Store, Failure> {
        stored::read_store(self.store.as_deref())
    }

    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends views of a run until it ends or the client disconnects.
    fn events(self: &Arc<Self>, id: String) -> Events {
        let (to, events) = mpsc::channel(1);
        let site = Arc::clone(self);
        let viewer = site.live.viewer();
        tokio::spawn(async move {
            let mut last: Option<Arc<View>> = None;
            let hello = to.send(event("hello", site.sign.as_str()));
            if !matches!(timeout(PATIENCE, hello).await, Ok(Ok(()))) {
                return;
            }
            loop {
                if site.live.is_left() {
                    let _ =
                        timeout(HEARD, to.send(event("goodbye", "this server has ended"))).await;
                    return;
                }
                let (of, id) = (Arc::clone(&site), id.clone());
                let look = move || of.live.look(&id, || stored::load(&mut of.store()?, &id));
                // If the run is missing, the stream ends and the browser reconnects.
                let Ok(Ok(view)) = spawn_blocking(look).await else {
                    return;
                };
                if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &view)) {
                    let name = if view.over { "end" } else { "state" };
                    let sent = to.send(event(name, &view.html));
                    if !matches!(timeout(PATIENCE, sent).await, Ok(Ok(()))) || view.over {
                        return;
                    }
                }
                let rest = view.rest().clamp(Duration::from_millis(50), HEARD);
                last = Some(view);
                if timeout(rest, to.closed()).await.is_ok() {
                    return;
                }
            }
        });
        Events {
            events,
            _viewer: viewer,
        }
    }
}

/// A server-sent event: a name, and lines of data.
fn event(name: &str, data: &str) -> Bytes {
    let data = data.lines().collect::<Vec<_>>().join("\ndata: ");
    format!("retry: 1000\nevent: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_an_event_is_data() {
        let sent = event("state", "a\nevent: end\r\n\nb");
        let sent = std::str::from_utf8(&sent).unwrap();
        assert_eq!(
            sent,
            "retry: 1000\nevent: state\ndata: a\ndata: event: end\ndata: \ndata: b\n\n"
        );
    }
}
