//! Parameters of the workload `http`.

use layermark_model::{
    Direction, Divided, Meaning, PointError, Quantity, Reach, Target, TurnCost, Unit, format_size,
};
use serde::{Deserialize, Serialize};

use super::figures;
use super::url::Url;
use crate::{
    param::{self, Means, Params, words},
    workloads::ends::place::Placement,
};

words! {
    /// Whether a connection is kept from one request to the next.
    pub enum Connections {
        /// `Connection: keep-alive`, as in wrk, and in ab with `-k`.
        KeepAlive = "keep-alive",
        /// A new connection for each request, as in ab.
        Close = "close",
    }
}

words! {
    /// The server program.
    pub enum Server {
        /// nginx if it is installed, else layermark's own.
        Auto = "auto",
        Nginx = "nginx",
        Apache = "apache",
        /// Layermark's own, from memory.
        Own = "own",
    }
}

type Row = param::Row<HttpParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpParams {
    /// URL of the user's own server; empty: a server is started at the far end.
    pub url: String,
    pub remote: bool,
    pub server: Server,
    /// Bytes; 0 with a URL.
    pub body: u64,
    /// Number of concurrent requests, each on its own connection.
    pub concurrency: u64,
    pub connection: Connections,
    /// Requests per second; 0: as many as possible.
    pub rate: u64,
    /// Duration of a trial at a rate, ms.
    pub time: u64,
    pub placement: Placement,
}

/// Largest body, bytes.
const LARGEST: u64 = 64 << 20;
/// Maximum number of concurrent requests.
const CONCURRENCY: u64 = 1024;
/// Highest rate.
const FASTEST: u64 = 10_000_000;
/// Longest trial at a rate, milliseconds.
const LONGEST: u64 = 3_600_000;

impl Params for HttpParams {
    const ID: &'static str = "http";
    const TABLE: &'static [Row] = &[
        Row::text("url", "")
            .list()
            .alternative(|_| true)
            .reaches(Reach::Network)
            .help("http://HOST[:PORT][/PATH] of a server of yours; several take turns and are compared with the first; without it one is started in each layer")
            .says(|p| (!p.url.is_empty()).then(|| p.url.clone())),
        Row::switch("remote", "false")
            .only("a URL", HttpParams::has_url)
            .help("allow a URL whose host is another machine"),
        Row::word("server", Server::WORDS, "auto")
            .list()
            .alternative(|_| true)
            .only("a server of ours (no URL)", |p| !p.has_url())
            .help("the program that serves in the layer; auto: nginx if it is installed there, else layermark's own")
            .says(|p| (p.server != Server::Auto).then(|| p.server.id().into())),
        Row::size("body", "1K")
            .list()
            .range(1, LARGEST)
            .only("a server of ours (no URL)", |p| !p.has_url())
            .help("bytes of the requested file")
            .says(|p| (p.body > 0).then(|| p.bodies()))
            .axis(Quantity::MessageSize, |p| p.body),
        Row::count("concurrency", "1,16")
            .list()
            .range(1, CONCURRENCY)
            .help("requests under way at once, each on a connection of its own, as ab -c and wrk -c")
            .says(|p| Some(p.at_once())),
        Row::word("connection", Connections::WORDS, "keep-alive")
            .list()
            .help("keep connections, or make one for each request")
            .label(|p| (p.connection == Connections::Close).then(|| p.connection_label()))
            .part(|p| Some(p.connection_label())),
        Row::count("rate", "0")
            .list()
            .range(0, FASTEST)
            .help("requests a second to begin, however fast the server is; latency counts from the moment a request was due; 0: each when the one before is answered")
            .says(|p| (p.rate > 0).then(|| p.rated()))
            .axis(Quantity::OfferedRate, |p| p.rate),
        Row::duration("time", "300ms")
            .range(50, LONGEST)
            .only("a `rate`", |p| p.rate > 0)
            .help("length of a trial at a rate"),
        Row::word("placement", Placement::WORDS, "other")
            .help("CPUs of the two ends on one machine: each on its own, the same, left to the scheduler")
            .says(|p| (p.placement != Placement::Other).then(|| p.placed())),
    ];

    fn check(&self) -> Result<(), PointError> {
        if self.has_url() {
            Url::parse(&self.url).map_err(|why| {
                PointError::of("http", "url", format!(" = {}: {why}", self.url))
                    .hint("layermark http http://127.0.0.1:8080/")
            })?;
        }
        Ok(())
    }
}

impl Means for HttpParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let paced = self.rate > 0;
        let said = Meaning {
            operation: "GET".into(),
            target: Target::Network,
            direction: Direction::Reads,
            unit: Unit::Transaction,
            concurrency: if paced { 1 } else { self.concurrency },
            paced,
            // Requests at a fixed rate cannot wait for other layers.
            divided: (!paced).then_some(Divided {
                in_memory: true,
                uses_up: false,
                working_set: 0,
                cost: TurnCost::Threads,
                under_way: 0,
            }),
            ..Meaning::default()
        };
        let said = said.part("op", "GET");
        Ok(self.described(said).figures(figures::table()))
    }
}

impl HttpParams {
    /// Whether it has one end, because the server is the user's.
    pub fn has_url(&self) -> bool {
        !self.url.is_empty()
    }

    pub fn keeps(&self) -> bool {
        self.connection == Connections::KeepAlive
    }

    fn bodies(&self) -> String {
        format!("{} body", format_size(self.body))
    }

    fn at_once(&self) -> String {
        format!("{} at once", self.concurrency)
    }

    fn connection_label(&self) -> String {
        self.connection.id().into()
    }

    fn rated(&self) -> String {
        format!("{} a second", self.rate)
    }

    fn placed(&self) -> String {
        format!("{} CPU", self.placement.id())
    }
}
