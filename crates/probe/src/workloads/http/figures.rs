//! Figures of the workload `http`, as ab reports them.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen};
use serde::Serialize;

/// Measurements of requests to a web server in a trial. The fields have the names of the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HttpTrial {
    /// The server's name, usually with its version.
    pub server: String,
    /// Whether length and hash of every body were compared with the expected ones. Otherwise only
    /// the status was, because the page is generated for each request.
    pub checked: bool,
    /// Number of concurrent requests.
    pub concurrency: u64,
    /// Requests per second that were due; 0: as many as possible.
    pub rate: u64,
    /// Requests that were due, but could not be started before the time was over.
    pub unsent: u64,
    /// Number of connections made in the turns.
    pub connections: u64,
    /// CPU time of the server in the turns, nanoseconds. Absent for a URL of the user's, and if the
    /// kernel does not report it.
    pub far_cpu_ns: Option<u64>,
    /// Whether client and server are on the same machine.
    pub one_host: bool,
    /// CPUs to which the client's threads were bound; empty: left to the scheduler.
    pub near_cpus: Vec<u32>,
    /// CPUs to which the server was bound.
    pub far_cpus: Vec<u32>,
    /// Requests per second of the same client with a server in its own process.
    pub ceiling: Option<f64>,
}

/// The percentiles that ab prints.
const PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// The table of figures.
pub fn table() -> FigureTable {
    let us = FigureUnit::Microseconds;
    let within = |percent: u32| {
        let name = format!("within_{percent}_us");
        Figure::new(&name, us, FigureSource::Within(percent))
            .head(&format!("{percent} %"))
            .optional()
    };
    let cpu = |name: &str, head: &str, of: Amount| {
        Figure::per(name, us, [of], [Amount::Operations]).head(head)
    };
    let over_time = |name: &str, unit, of| Figure::per(name, unit, [of], [Amount::Seconds]);
    let checked = FigureSource::Least(Amount::Value("checked".into()));
    FigureTable::new(
        "Web servers",
        "As in ab: requests per second, microseconds per request (mean), and from one answer to the next over all connections. Bodies without headers, 10^6 bytes/s. Percentiles: microseconds within which this share of the requests was answered. CPU is in microseconds per request: of the client, of the server, and of all CPUs of this machine.",
    )
    .with([
        Figure::last("server", FigureUnit::Name).head("server").note(
            NoteWhen::Differs,
            "Not the same server everywhere ({all}): a ratio also compares the two. To have one, --server own, or root=host for a guest.",
        ),
        Figure::new("requests_s", FigureUnit::Whole, FigureSource::Rate).head("requests/s"),
        Figure::new("request_us", us, FigureSource::MeanLatency).head("us/request"),
        Figure::new("across_us", us, FigureSource::Every).head("us across"),
        over_time("body_mb_s", FigureUnit::Megabytes, Amount::Bytes).head("MB/s"),
    ])
    .with(PERCENTS.map(within))
    .with([
        cpu("near_cpu_us", "client CPU", Amount::Cpu),
        cpu("far_cpu_us", "server CPU", Amount::Nanoseconds("far_cpu_ns".into())),
        cpu("host_cpu_us", "host CPU", Amount::HostCpu),
        Figure::new("requests", FigureUnit::Whole, FigureSource::Sum(Amount::Operations)),
        Figure::last("concurrency", FigureUnit::Whole),
        Figure::last("rate", FigureUnit::Whole),
        Figure::last("one_host", FigureUnit::Whole),
        Figure::sum("connections"),
        over_time("operations_s", FigureUnit::Number, Amount::Operations),
    ])
    .with(Figure::ceiling("operations_s", "the client does with a server in its own process"))
    .with([
        Figure::sum("unsent").note(
            NoteWhen::Above(0),
            "{layer}: {unsent} requests that were due at {rate} a second could not be begun in time.",
        ),
        Figure::new("checked", FigureUnit::Whole, checked).note(
            NoteWhen::Zero,
            "{layer}: the page is not the same twice, so only its status was checked.",
        ),
    ])
}
