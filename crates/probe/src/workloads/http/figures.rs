//! Figures of the workload `http`, as ab tells them.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen};
use serde::Serialize;

/// What requests to a web server came to in a trial. The names of the fields are those of the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HttpTrial {
    /// What the server calls itself: its name, and mostly its version.
    pub server: String,
    /// Length and hash of every body were compared with what was expected; else the status alone: a page
    /// that is made anew for each request.
    pub checked: bool,
    /// Requests under way at once.
    pub concurrency: u64,
    /// Requests a second that were due; 0: as many as possible.
    pub rate: u64,
    /// Requests that were due, and could not be begun before the time was over.
    pub unsent: u64,
    /// Connections that were made in the turns.
    pub connections: u64,
    /// CPU time of the server in the turns, nanoseconds. Absent for a URL of the user's, and where the
    /// kernel does not tell.
    pub far_cpu_ns: Option<u64>,
    /// Client and server are on the same machine.
    pub one_host: bool,
    /// CPUs that the client's threads were kept on; empty where the scheduler was free.
    pub near_cpus: Vec<u32>,
    /// Those of the server.
    pub far_cpus: Vec<u32>,
    /// Requests a second of the same client with a server in its own process.
    pub ceiling: Option<f64>,
}

/// Those of ab.
const PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// What is shown of a result.
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
        "As ab tells them: requests a second, microseconds of a request (mean), and from one answer to the next over all connections; bodies without headers, 10^6 bytes/s; microseconds within which a share of the requests was answered. CPU is microseconds a request: of the client, of the server, and of all CPUs of this machine.",
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
