//! Parameters of the workload `ftp`.

use layermark_model::{
    Direction, Divided, Meaning, PointError, Quantity, Target, TurnCost, Unit, format_size,
};
use serde::{Deserialize, Serialize};

use super::figures;
use crate::{
    limits,
    param::{self, Means, Params, Values, words},
};

words! {
    /// Direction of a transfer.
    pub enum FtpOp {
        /// From the far end.
        Get = "get",
        /// To the far end.
        Put = "put",
    }
}

words! {
    /// Source of the sender's data.
    pub enum Source {
        /// A file at the server, memory at the client.
        Auto = "auto",
        /// One block, sent repeatedly.
        Null = "null",
        /// All of it in memory.
        Memory = "memory",
        /// A file, which was just written.
        File = "file",
    }
}

words! {
    /// Destination of the receiver's data.
    pub enum Sink {
        /// A file at the server, nothing at the client.
        Auto = "auto",
        /// Nowhere: it is hashed as it arrives.
        Null = "null",
        /// All of it in memory.
        Memory = "memory",
        /// A new file.
        File = "file",
        /// A new file, flushed inside the clock.
        Fsync = "fsync",
    }
}

words! {
    /// The server at the far end.
    pub enum ServerChoice {
        /// vsftpd if it is installed and suitable, else layermark's own.
        Auto = "auto",
        Vsftpd = "vsftpd",
        /// The server of layermark.
        Own = "own",
    }
}

type Row = param::Row<FtpParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtpParams {
    pub op: FtpOp,
    pub file_size: u64,
    pub clients: u64,
    pub source: Source,
    pub sink: Sink,
    pub server: ServerChoice,
}

/// Maximum number of clients.
const CLIENTS: u64 = 64;
/// Maximum total size of the files of one stretch, bytes, unless a single file is larger.
const STRETCH: u64 = 64 << 20;
/// Maximum number of files of one stretch, or one for each client.
const STRETCH_FILES: u64 = 64;
/// Transfers per client in a stretch, if no data is kept.
const UNKEPT: u64 = 4096;

impl Params for FtpParams {
    const ID: &'static str = "ftp";
    const TABLE: &'static [Row] = &[
        Row::word("op", FtpOp::WORDS, "get,put")
            .list()
            .help("get: from the far end; put: to it")
            .says(|p| Some(p.op.id().into())),
        Row::size("file_size", "16M")
            .list()
            .range(1, limits::FILE_SIZE)
            .help("bytes of a file; a transfer is one operation; made smaller by --scale")
            .says(|p| Some(p.file()))
            .axis(Quantity::DataSize, |p| p.file_size),
        Row::count("clients", "1")
            .list()
            .range(1, CLIENTS)
            .help("clients at once, each on a thread and a control connection of its own")
            .says(|p| (p.clients > 1).then(|| p.clients()))
            .axis(Quantity::Threads, |p| p.clients),
        Row::word("source", Source::WORDS, "auto")
            .list()
            .help("where the sender has the data from; auto: a file at the server, memory at the client")
            .label(|p| (p.source != p.op.source()).then(|| p.from()))
            .part(|p| Some(p.from())),
        Row::word("sink", Sink::WORDS, "auto")
            .list()
            .help("where the receiver leaves it; fsync: in a file that is flushed; auto: a file at the server, nowhere at the client")
            .label(|p| (p.sink != p.op.sink()).then(|| p.to()))
            .part(|p| Some(p.to())),
        Row::word("server", ServerChoice::WORDS, "auto")
            .list()
            .alternative(|_| true)
            .help("auto: vsftpd where it is installed and can do it, else layermark's own")
            .says(|p| (p.server != ServerChoice::Auto).then(|| p.served())),
    ];

    fn derive(mut self, _: &Values) -> Result<Vec<Self>, PointError> {
        if self.source == Source::Auto {
            self.source = self.op.source();
        }
        if self.sink == Sink::Auto {
            self.sink = self.op.sink();
        }
        Ok(vec![self])
    }

    fn scale(&mut self, scale: f64, _: &Values) {
        self.file_size = param::scaled(self.file_size, scale).max(1);
    }

    fn check(&self) -> Result<(), PointError> {
        if self.server == ServerChoice::Vsftpd && !self.vsftpd_can() {
            return Err(PointError::of(
                "ftp",
                "server",
                format!(
                    " = vsftpd: it has only files, and `{}` = {} would be at its end",
                    if self.op == FtpOp::Get {
                        "source"
                    } else {
                        "sink"
                    },
                    if self.op == FtpOp::Get {
                        self.source.id()
                    } else {
                        self.sink.id()
                    },
                ),
            )
            .hint("leave that to `auto`, or use `server` = own"));
        }
        let memory = self.memory();
        if memory > limits::BUFFERS {
            let what = format!(
                ": {} with {} would need {} of memory at one end",
                self.file(),
                self.clients(),
                format_size(memory)
            );
            return Err(PointError::of("ftp", "clients", what)
            .hint(format!(
                "up to {} are allowed: use a smaller `file_size`, or `source` and `sink` that are not memory",
                format_size(limits::BUFFERS)
            )));
        }
        Ok(())
    }
}

impl FtpOp {
    /// Default source.
    fn source(self) -> Source {
        match self {
            Self::Get => Source::File,
            Self::Put => Source::Memory,
        }
    }

    /// Default destination.
    fn sink(self) -> Sink {
        match self {
            Self::Get => Sink::Null,
            Self::Put => Sink::File,
        }
    }
}

impl Sink {
    /// Whether data is kept after a transfer.
    pub fn keeps(self) -> bool {
        !matches!(self, Self::Null | Self::Auto)
    }

    pub fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Fsync)
    }
}

impl Means for FtpParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let said = Meaning {
            operation: self.op.id().into(),
            target: Target::Network,
            direction: match self.op {
                FtpOp::Get => Direction::Reads,
                FtpOp::Put => Direction::Writes,
            },
            changes: self.sink.is_file(),
            unit: Unit::Byte,
            concurrency: self.clients,
            divided: Some(Divided {
                in_memory: true,
                uses_up: false,
                working_set: self.memory(),
                // Threads of the far end.
                cost: TurnCost::Threads,
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(self.described(said).figures(figures::table()))
    }
}

impl FtpParams {
    /// Transfers per client in a stretch. Their data is kept until the clock has stopped.
    pub fn transfers(&self) -> u64 {
        if !self.sink.keeps() {
            return UNKEPT;
        }
        let files = (STRETCH / self.file_size).clamp(1, STRETCH_FILES);
        (files / self.clients).max(1)
    }

    /// Bytes of all files kept in a stretch.
    pub fn left(&self) -> u64 {
        let files = self.clients * self.transfers();
        self.file_size.saturating_mul(files)
    }

    /// Memory at the end that needs more of it, bytes.
    pub fn memory(&self) -> u64 {
        let source = match self.source {
            Source::Memory => self.file_size,
            _ => 0,
        };
        let sink = match self.sink {
            Sink::Memory => self.left(),
            _ => 0,
        };
        source.max(sink)
    }

    /// Bytes of files at both ends together.
    pub fn space(&self) -> u64 {
        let source = match self.source {
            Source::File => self.file_size,
            _ => 0,
        };
        let sink = if self.sink.is_file() { self.left() } else { 0 };
        source.saturating_add(sink)
    }

    /// Whether vsftpd supports this source or sink.
    pub fn vsftpd_can(&self) -> bool {
        match self.op {
            FtpOp::Get => self.source == Source::File,
            FtpOp::Put => self.sink == Sink::File,
        }
    }

    fn file(&self) -> String {
        format!("{} file", format_size(self.file_size))
    }

    fn clients(&self) -> String {
        match self.clients {
            1 => "1 client".into(),
            n => format!("{n} clients"),
        }
    }

    fn from(&self) -> String {
        format!("from {}", self.source.id())
    }

    fn to(&self) -> String {
        format!("to {}", self.sink.id())
    }

    fn served(&self) -> String {
        match self.server {
            ServerChoice::Own => "own server".into(),
            other => other.id().into(),
        }
    }
}
