//! Figures of the workload `ftp`: the phases of a transfer, and CPU at both ends.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen, Quantity};
use serde::Serialize;

/// Measurements of clients and server of FTP in a trial. Times are medians, in nanoseconds. The
/// fields have the names of the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FtpTrial {
    /// Name and version of the server.
    pub server: String,
    /// CPU time of the far process and its server in the turns.
    pub far_cpu_ns: u64,
    /// Time from connecting to the server's greeting, before the turns.
    pub connect_ns: u64,
    /// Time to the reply to the password.
    pub login_ns: u64,
    /// Time to the data connection of a transfer.
    pub passive_ns: u64,
    /// Time from the command to the first byte, or to the permission to send it.
    pub first_byte_ns: u64,
    /// Time from there to the last byte.
    pub data_ns: u64,
    /// Time from the last byte to the reply that the transfer is complete (226).
    pub complete_ns: u64,
    /// Bytes per second of the same clients with a server in their own process that discards the
    /// data. `None` if it was not measured.
    pub ceiling: Option<u64>,
}

/// The table of figures.
pub fn table() -> FigureTable {
    let phase = |name: &str, head: &str| {
        let value = Amount::Nanoseconds(format!("{name}_ns"));
        let source = FigureSource::Median(value);
        Figure::new(&format!("{name}_us"), FigureUnit::Time, source).head(head)
    };
    let cpu = |name: &str, head: &str, of: Amount| {
        Figure::per(name, FigureUnit::Microseconds, [of], [Amount::Kilobytes]).head(head)
    };
    FigureTable::new(
        "FTP",
        "A transfer begins with the request for its data connection and ends with the reply that it is complete (226). The phases are medians. Data connection, first byte, data and 226 belong to a transfer; connect and login happen once before. CPU is in microseconds per KB (1,024 bytes); far includes the server. The hash of every file was checked.",
    )
    .across(Quantity::DataSize)
    .with([
        Figure::new("file_size", FigureUnit::Size, FigureSource::Axis(Quantity::DataSize)).head("file"),
        Figure::new("clients", FigureUnit::Whole, FigureSource::Axis(Quantity::Threads)),
        Figure::last("server", FigureUnit::Text).head("server").note(
            NoteWhen::Differs,
            "The layers had different servers ({all}): a ratio also compares the servers. To have one for all: --server own.",
        ),
        Figure::new("mib_s", FigureUnit::Mebibytes, FigureSource::Rate).head("MiB/s"),
        Figure::new("p50_us", FigureUnit::Time, FigureSource::MedianLatency).head("p50"),
        Figure::new("p99_us", FigureUnit::Time, FigureSource::P99Latency).head("p99"),
        phase("connect", "connect"),
        phase("login", "login"),
        phase("passive", "data connection"),
        phase("first_byte", "first byte"),
        phase("data", "data"),
        phase("complete", "226"),
        cpu("near_cpu_us", "near us/KB", Amount::Cpu),
        cpu("far_cpu_us", "far us/KB", Amount::Nanoseconds("far_cpu_ns".into())),
        Figure::new("bytes_s", FigureUnit::Number, FigureSource::Rate),
    ])
    .with(Figure::ceiling("bytes_s", "the clients do with a server in their own process"))
}
