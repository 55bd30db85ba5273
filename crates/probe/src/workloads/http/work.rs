//! A trial at the near end.

use std::net::SocketAddr;

use layermark_model::{FigureValues, Trial};

use super::{
    answer::{self, Body, Expected},
    ceiling,
    client::{Client, ClientWork, Target, ask_once, question},
    figures::HttpTrial,
    link::Question,
    near::{self, peer_address},
    params::HttpParams,
    url::Url,
};
use crate::{
    Context, ProbeError,
    counters::Devices,
    run::{Extent, Mark, Passes, Repeat, Stretch},
    workloads::ends::{
        PATIENCE,
        control::{self, Control},
        error::PeerAddress,
        place::{self, Host, PinnedCpus},
    },
};

/// Duration of a pass, if a trial is one stretch of passes, nanoseconds.
const PASS_NS: u64 = 20_000_000;
/// Duration of the uncounted time before a stretch at a rate, nanoseconds.
const RAMP_NS: u64 = 50_000_000;

/// A prepared point.
pub struct HttpWork {
    p: HttpParams,
    context: Context,
    peer: PeerAddress,
    devices: Devices,
    /// Control connection to the far end, if layermark started the server.
    control: Option<Control>,
    client: Client,
    /// Number of requests with a correct answer, over all turns.
    answered: u64,
    http: HttpTrial,
    _pinned: PinnedCpus,
}

/// The address of the server, and the expected answer.
struct Endpoint {
    to: SocketAddr,
    control: Option<Control>,
    authority: String,
    path: String,
    /// The expected body, if layermark started the server.
    body: Option<Body>,
    far_host: Option<Host>,
    far_cpus: Vec<u32>,
}

impl HttpWork {
    /// Opens all connections, so that a turn opens none that are kept.
    pub fn prepare(p: HttpParams, context: &Context) -> Result<Self, ProbeError> {
        let host = Host::here();
        let endpoint = Endpoint::of(&p, context, &host)?;
        let far = endpoint.far_host.as_ref().unwrap_or(&host);
        let most = p.concurrency as usize;
        let [near_cpus, _] = place::cpus(p.placement, most, &host, far);
        let pinned = PinnedCpus::on(&near_cpus).map_err(|e| {
            ProbeError::new(format!("http: {e}"))
                .hint("use `placement` = free; `taskset -p $$` shows which CPUs are allowed")
        })?;
        let threads = place::threads(&near_cpus);
        let peer = peer_address(endpoint.to, PATIENCE);
        let no_question =
            |e| ProbeError::new(format!("http: cannot ask for {}: {e}", endpoint.path));
        let question =
            question(&endpoint.authority, &endpoint.path, p.keeps()).map_err(no_question)?;
        let (expected, server) = first(&question, endpoint.body, peer)?;
        let target = Target {
            to: endpoint.to,
            question,
            keeps: p.keeps(),
            expected,
            rate: p.rate,
        };
        let length = expected.body.map_or(p.body, |body| body.length);
        let cpus = place::of_ceiling(p.placement, most, &host, far);
        let client = Client::new(&target, p.concurrency, threads)
            .map_err(|e| peer.io("starting a runtime", &e))?;
        let mut work = Self {
            http: HttpTrial {
                server,
                checked: expected.body.is_some(),
                concurrency: p.concurrency,
                rate: p.rate,
                one_host: endpoint.to.ip().is_loopback()
                    || endpoint.far_host.is_some_and(|f| host.is(&f)),
                near_cpus: pinned.cpus(),
                far_cpus: endpoint.far_cpus,
                ceiling: ceiling::of(&p, length, &cpus),
                ..HttpTrial::default()
            },
            context: context.clone(),
            peer,
            devices: Devices::open(&context.devices),
            control: endpoint.control,
            client,
            answered: 0,
            _pinned: pinned,
            p,
        };
        // One request of each connection.
        work.obey(Extent::time(0, false), &mut |_| {})?;
        Ok(work)
    }

    /// Makes the client work. An error ends the trial and reports all errors of the same turn.
    fn obey(
        &mut self,
        extent: Extent,
        beat: &mut dyn FnMut(u64),
    ) -> Result<ClientWork, ProbeError> {
        let worked = self.client.work(extent, &self.devices, beat);
        let worked = worked.map_err(|e| self.peer.io("in a turn", &e))?;
        self.answered += worked.stretch.ops;
        match worked.errors.error(self.peer, self.answered) {
            Some(error) => Err(error),
            None => Ok(worked),
        }
    }

    /// CPU time of the server so far, ns, if layermark started it.
    fn far_cpu(&mut self) -> Result<Option<u64>, ProbeError> {
        let control = self.control.as_mut();
        let counted = control.map(|control| control.ask::<Option<u64>>(&control::Request::Count));
        Ok(counted.transpose()?.flatten())
    }
}

impl Repeat for HttpWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        Passes {
            fixed: u64::from(self.p.rate > 0),
            ..Passes::default()
        }
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let timed = match extent {
            _ if !extent.is_pass() => extent,
            _ if self.p.rate > 0 => Extent::time(self.p.time * 1_000_000, true),
            _ => Extent::time(PASS_NS, true),
        };
        if self.p.rate > 0 {
            self.obey(Extent::time(RAMP_NS, false), beat)?;
        }
        let before = timed.counted.then(|| self.far_cpu()).transpose()?.flatten();
        let worked = self.obey(timed, beat)?;
        if timed.counted {
            let after = self.far_cpu()?;
            if let Some((before, after)) = before.zip(after) {
                *self.http.far_cpu_ns.get_or_insert_default() += after.saturating_sub(before);
            }
            self.http.connections += worked.connections;
            self.http.unsent += worked.unsent;
        }
        Ok(Stretch {
            over: extent.is_pass(),
            ..worked.stretch
        })
    }

    /// Nothing to flush.
    fn settle(&mut self, _: &mut Trial, _: Mark) -> Result<(), ProbeError> {
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let [response, service] = self.client.latencies();
        trial.latency = response.latency();
        trial.service = service.latency();
        if self.p.rate > 0 {
            trial.response_ns = trial.latency.as_ref().map(|l| l.mean);
        }
        if self.http.unsent > 0 {
            trial.notes.push(format!(
                "{} of {} requests that were due could not be begun in time: the rate was not reached",
                self.http.unsent,
                self.http.unsent + trial.ops()
            ));
        }
        trial.figures = FigureValues::of(&self.http);
        Ok(())
    }
}

impl Endpoint {
    fn of(p: &HttpParams, context: &Context, host: &Host) -> Result<Self, ProbeError> {
        if p.has_url() {
            let url = Url::parse(&p.url).map_err(|why| ProbeError::new(format!("http: {why}")))?;
            return Ok(Self {
                to: url.find(p.remote)?,
                control: None,
                authority: url.authority,
                path: url.path,
                body: None,
                far_host: None,
                far_cpus: Vec::new(),
            });
        }
        let peer = context.far_end("http")?;
        let (control, welcome) = near::connect(p, peer, host)?;
        let to = SocketAddr::new(peer.address, welcome.port);
        let token = String::from_utf8_lossy(welcome.token.as_bytes()).into_owned();
        Ok(Self {
            to,
            control: Some(control),
            authority: to.to_string(),
            path: format!("/{token}"),
            body: Some(Body::of(&answer::file(context.seed, p.body))),
            far_host: Some(welcome.host),
            far_cpus: welcome.cpus,
        })
    }
}

/// Makes two requests before the clock starts, to learn the expected answer and the server's name.
/// A page of the user's that differs between the two is checked only by its status.
fn first(
    question: &Question,
    known: Option<Body>,
    peer: PeerAddress,
) -> Result<(Expected, String), ProbeError> {
    let ask = || {
        let answered = ask_once(peer.to, question);
        answered.map_err(|wrong| wrong.error(peer))
    };
    let (one, two) = (ask()?, ask()?);
    if !one.status.is_success() {
        return Err(answer::Wrong::Status(one.status).error(peer));
    }
    let same = (one.status, one.body) == (two.status, two.body);
    let expected = Expected {
        status: one.status,
        body: known.or(same.then_some(one.body)),
    };
    let checked = expected.check(one.status, one.body);
    checked.map_err(|wrong| wrong.error(peer))?;
    Ok((expected, one.server()))
}
