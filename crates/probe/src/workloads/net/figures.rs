//! Figures of the workload `net`, as netperf reports them.

use layermark_model::{
    Amount, CpuUse, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen, Quantity,
};
use serde::{Deserialize, Serialize};

/// Measurements of both ends of a connection in a trial. The fields have the names of the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NetTrial {
    /// The end that was measured.
    pub near: NetEnd,
    /// The end that served it.
    pub far: NetEnd,
    /// CPU time of the far process in the turns.
    pub far_cpu: CpuUse,
    /// Whether both ends see the same machine.
    pub one_host: bool,
    /// Number of datagrams sent in the turns, or of requests over UDP, including repeated ones.
    pub sent: u64,
    /// Number of those that did not arrive, or had no answer in time.
    pub lost: u64,
    /// Shortest time in which the far process answered on the control connection, ns.
    pub round_trip_ns: u64,
    /// Operations per second of the same generator without a network: over socket pairs within its
    /// own process.
    pub ceiling: Option<f64>,
}

/// One end of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetEnd {
    /// `SO_SNDBUF` as the kernel reports it, bytes: Linux doubles the requested size.
    pub send_buffer: u64,
    /// `SO_RCVBUF`.
    pub receive_buffer: u64,
    /// CPUs to which its threads were bound; empty: left to the scheduler.
    pub cpus: Vec<u32>,
}

/// The table of figures, for transactions or for streams.
pub fn table(transacts: bool) -> FigureTable {
    let (rate, per, lost) = if transacts {
        let rate = Figure::new("trans_s", FigureUnit::Whole, FigureSource::Rate).head("trans/s");
        let lost = "{layer}: {lost} of {sent} requests had no answer in time and were repeated.";
        (rate, "us/trans", lost)
    } else {
        let rate = Figure::new("mbit_s", FigureUnit::Megabits, FigureSource::Rate);
        let lost = "{layer}: {lost} of {sent} datagrams were lost.";
        (rate.head("10^6 bit/s"), "us/KB", lost)
    };
    let cpu = |name: &str, end: &str, of: Vec<Amount>| {
        let unit = if transacts {
            Amount::Operations
        } else {
            Amount::Kilobytes
        };
        Figure::per(name, FigureUnit::Microseconds, of, [unit]).head(&format!("{end} {per}"))
    };
    let far = ["far_cpu.user_ns", "far_cpu.sys_ns"].map(|name| Amount::Nanoseconds(name.into()));
    let latency = [
        Figure::new(
            "p50_us",
            FigureUnit::Microseconds,
            FigureSource::MedianLatency,
        )
        .head("p50 us"),
        Figure::new("p99_us", FigureUnit::Microseconds, FigureSource::P99Latency).head("p99 us"),
    ];
    let value = |name: &str| vec![Amount::Value(name.into())];
    FigureTable::new(
        "The network",
        "As in netperf: 10^6 bit/s received, microseconds per transaction, CPU in microseconds per KB (1,024 bytes) or per transaction. Near and far are the two processes. Host is netperf's service demand: all CPUs of this machine, including interrupts and hypervisors. Buffers are SO_SNDBUF/SO_RCVBUF as the kernel reports them; Linux doubles the requested size.",
    )
    .across(Quantity::SocketBuffer)
    .with([
        Figure::new("socket_buffer", FigureUnit::Size, FigureSource::Axis(Quantity::SocketBuffer))
            .head("buffers asked"),
        rate,
    ])
    .with(latency.into_iter().filter(|_| transacts))
    .with([
        cpu("near_cpu_us", "near", vec![Amount::Cpu]),
        cpu("far_cpu_us", "far", far.into()),
        cpu("service_demand_us", "host", vec![Amount::HostCpu]),
        Figure::last("near.send_buffer", FigureUnit::Kib),
        Figure::last("near.receive_buffer", FigureUnit::Kib),
        Figure::text("near_buffers", "{near.send_buffer}/{near.receive_buffer}").head("near buffers"),
        Figure::last("far.send_buffer", FigureUnit::Kib),
        Figure::last("far.receive_buffer", FigureUnit::Kib),
        Figure::text("far_buffers", "{far.send_buffer}/{far.receive_buffer}").head("far buffers"),
        Figure::last("near.cpus", FigureUnit::Cpus),
        Figure::last("far.cpus", FigureUnit::Cpus),
        Figure::text("cpus", "{near.cpus} {far.cpus}").head("CPUs"),
        Figure::last("one_host", FigureUnit::Whole),
        Figure::per("operations_s", FigureUnit::Number, [Amount::Operations], [Amount::Seconds]),
    ])
    .with(Figure::ceiling("operations_s", "the generator does without a network"))
    .with([
        Figure::sum("sent"),
        Figure::sum("lost").note(NoteWhen::Above(0), lost),
        Figure::per("lost_percent", FigureUnit::Percent, value("lost"), value("sent"))
            .head("lost %")
            .optional(),
    ])
}
