//! Figures of the workload `net`, as netperf tells them.

use layermark_model::{
    Amount, CpuUse, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen, Quantity,
};
use serde::{Deserialize, Serialize};

/// What both ends of a connection did in a trial. The names of the fields are those of the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NetTrial {
    /// The end that was measured.
    pub near: NetEnd,
    /// The end that served it.
    pub far: NetEnd,
    /// CPU time of the far process in the turns.
    pub far_cpu: CpuUse,
    /// Both ends see the same machine.
    pub one_host: bool,
    /// Datagrams sent, or requests over UDP, those that were repeated among them, in the turns.
    pub sent: u64,
    /// Those that did not arrive, or had no answer in time.
    pub lost: u64,
    /// Shortest time in which the far process answered on the control connection, nanoseconds.
    pub round_trip_ns: u64,
    /// Operations a second of the same generator without a network: over socket pairs within its
    /// own process.
    pub ceiling: Option<f64>,
}

/// One end of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetEnd {
    /// `SO_SNDBUF` as the kernel says it, bytes: Linux doubles what it is asked for.
    pub send_buffer: u64,
    /// `SO_RCVBUF`.
    pub receive_buffer: u64,
    /// CPUs that its threads were kept on; empty where the scheduler was free.
    pub cpus: Vec<u32>,
}

/// What is shown of a result: of transactions, or of a stream.
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
        "As netperf tells them: 10^6 bit/s that the receiver has got, microseconds of a transaction, CPU as microseconds a KB (1,024 bytes) or a transaction. Near and far are the two processes, host is netperf's service demand: all CPUs of this machine, interrupts and hypervisors included. Buffers are SO_SNDBUF/SO_RCVBUF as the kernel says them; Linux doubles what is asked.",
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
