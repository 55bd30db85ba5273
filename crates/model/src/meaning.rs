//! The meaning of a point, declared by its workload, and stored and sent with the point. No other
//! code looks up a parameter by name.

use serde::{Deserialize, Serialize};

use crate::FigureTable;

/// What a point measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools)] // independent properties of a point
pub struct Meaning {
    /// Name of one operation, such as `rand-read`; for a launch, its command.
    pub operation: String,
    /// What an operation acts on.
    pub target: Target,
    /// Direction of the data.
    pub direction: Direction,
    /// It changes data or names, so a read-only layer skips it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// It accesses its data sequentially, so most of what it reads was read ahead.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// What is counted.
    pub unit: Unit,
    /// Operations in flight at once, over all threads; 1 at a fixed pace.
    pub concurrency: u64,
    /// The pace is set from outside: the result is the time of one operation, not the rate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paced: bool,
    /// Data is flushed to the device within the measured time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub flushes: bool,
    /// What it leaves must be what it leaves in the baseline ([`crate::Trial::outcome`]).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_outcome: bool,
    /// How durable a write is when its clock stops, in the workload's term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// The state of the caches that it requires. Absent if it reads and changes no earlier data, or
    /// accepts any state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheState>,
    /// How long nothing has used its files, milliseconds. Caches of names forget after a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rested_ms: Option<u64>,
    /// Whether it bypasses the page cache. Absent without such an option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<bool>,
    /// The I/O engine, such as `pread`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// How it divides into turns of milliseconds; absent: a trial is one uninterrupted stretch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divided: Option<Divided>,
    /// Quantities that the points of a sweep may differ in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// Parameters that do not affect the measured time. Points that differ only in these belong to
    /// one sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside_the_clock: Vec<String>,
    /// Parameters with several values that the user chooses between, such as commands. Points that
    /// differ only in these are compared with each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
    /// Its description in words, part by part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Figures besides its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<FigureTable>>,
    /// A part of the time of each operation that was not measured in the layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<AddedTime>,
    /// The operation whose time this one's time estimates. Points with that operation are its proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<String>,
}

/// A time that is added to each operation in each layer, because it is assumed to be the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AddedTime {
    /// Nanoseconds.
    pub ns: u64,
    /// How far it may be from the true one on either side, nanoseconds.
    pub spread_ns: u64,
    /// It passes between operations, where it was recorded. Runs before recordings of format 2 added it to the sum.
    #[serde(default)]
    pub between: bool,
}

impl Default for Meaning {
    fn default() -> Self {
        Self {
            operation: String::new(),
            target: Target::default(),
            direction: Direction::default(),
            changes: false,
            in_order: false,
            unit: Unit::default(),
            concurrency: 1,
            paced: false,
            flushes: false,
            same_outcome: false,
            sync: None,
            cache: None,
            rested_ms: None,
            direct: None,
            engine: None,
            divided: None,
            axes: Vec::new(),
            beside_the_clock: Vec::new(),
            alternatives: Vec::new(),
            parts: Vec::new(),
            figures: None,
            added: None,
            estimates: None,
        }
    }
}

/// What an operation acts on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The data of files.
    #[default]
    Data,
    /// A packaged file of the layer, changed for the first time.
    PackagedFile,
    /// Names and attributes.
    Names,
    /// A lock on a file.
    Lock,
    /// The start of a program.
    Program,
    /// A connection between two ends.
    Network,
    /// A directory that this host and the layer share.
    SharedDirectory,
    /// A lock in such a directory.
    SharedLock,
    /// Files and programs of users, each with a script.
    Script,
    /// A command that does a step of somebody's work, from start to end.
    Step,
}

/// Direction of the data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// No data is moved, or it is not counted.
    #[default]
    Neither,
    /// From the layer.
    Reads,
    /// To the layer.
    Writes,
    /// Some of the operations read, the others write.
    Both,
}

/// Unit of work.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Operations per second.
    #[default]
    Operation,
    /// Bytes per second.
    Byte,
    /// Launches; one launch is one operation.
    Launch,
    /// Transactions per second: a request and its response.
    Transaction,
    /// Scripts per hour; one script is one operation.
    Script,
}

impl Unit {
    /// The metric and its unit, as shown in the report.
    pub fn metric(self) -> (&'static str, &'static str) {
        match self {
            Self::Byte => ("throughput", "B/s"),
            Self::Operation | Self::Launch => ("rate", "ops/s"),
            Self::Transaction => ("rate", "trans/s"),
            Self::Script => ("rate", "scripts/h"),
        }
    }

    /// The metric's period, seconds.
    pub fn seconds(self) -> f64 {
        match self {
            Self::Byte | Self::Operation | Self::Launch | Self::Transaction => 1.0,
            Self::Script => 3600.0,
        }
    }
}

/// State of the caches before the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Everything was read once before.
    Warm,
    /// Emptied, as far as each layer allows.
    Cold,
}

impl CacheState {
    /// Its word in plans and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// How a point divides into turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Divided {
    /// Its data stays in memory.
    pub in_memory: bool,
    /// A turn uses up data that later turns cannot use again, as with a cold cache. So it has no
    /// lead-in.
    pub uses_up: bool,
    /// Total size of the files that it accesses repeatedly, bytes.
    pub working_set: u64,
    /// Cost of a turn besides its time.
    pub cost: TurnCost,
    /// Bytes that a turn may move without counting them, while its queue fills and drains.
    pub under_way: u64,
}

/// Cost of a turn besides its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TurnCost {
    /// Nothing.
    Nothing,
    /// Files that are created or removed. On some file systems removals slow down later creations,
    /// so turns should be few.
    Files,
    /// Threads that are started or woken, which takes some tenths of a millisecond.
    Threads,
    /// A program is executed from start to end, however long that takes. So is the lead-in.
    Execution,
}

impl TurnCost {
    /// Whether other tasks than the probe's own thread do the work.
    pub fn has_tasks(self) -> bool {
        matches!(self, Self::Threads | Self::Execution)
    }

    /// The cost with this many threads. One thread runs in the probe's own and costs nothing.
    pub fn of_threads(threads: u64) -> Self {
        if threads > 1 {
            Self::Threads
        } else {
            Self::Nothing
        }
    }
}

/// A quantity of a point, and the parameter that sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "SweepAxis")]
pub struct Axis {
    /// The quantity.
    pub quantity: Quantity,
    /// The parameter's name.
    pub key: String,
    /// Its value; sizes are bytes.
    pub value: u64,
}

/// A quantity that several workloads share, whatever each calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Bytes of one request.
    RequestSize,
    /// Bytes of the data set: the size of the file.
    DataSize,
    /// Requests in flight at once in each thread.
    QueueDepth,
    /// Threads that make requests.
    Threads,
    /// Requests started per second, regardless of how fast the layer is.
    OfferedRate,
    /// Bytes between two requests.
    Distance,
    /// Bytes of one message on a connection.
    MessageSize,
    /// Requested size of a socket's buffer, bytes.
    SocketBuffer,
    /// Users who work at the same time.
    Users,
    /// CPUs of the layer.
    Cpus,
}

impl Quantity {
    /// Place of its axis among those of a point.
    pub fn place(self) -> usize {
        match self {
            Self::RequestSize => 0,
            Self::DataSize => 1,
            Self::MessageSize => 2,
            Self::SocketBuffer => 3,
            Self::Threads => 4,
            Self::QueueDepth => 5,
            Self::OfferedRate => 6,
            Self::Distance => 7,
            Self::Users => 8,
            Self::Cpus => 9,
        }
    }
}

/// A part of a point's description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Part {
    /// The parameter that it describes.
    pub key: String,
    /// The text, such as `64M file`.
    pub text: String,
}

/// Kinds of work that the report's sentences name, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkGroup {
    /// Reads data.
    Reading,
    /// Reads and writes data in turn.
    Mixed,
    /// Writes data and does not wait for the device.
    Writing,
    /// Writes data and waits for the device.
    Flushing,
    /// Changes a packaged file of the layer.
    Changing,
    /// Names and attributes: open, stat, create, unlink.
    Names,
    /// Locks and unlocks a file.
    Locking,
    /// Starts a program.
    Launching,
    /// Sends and receives.
    Networking,
    /// Sees the changes of another side.
    Seeing,
    /// Runs the scripts of users.
    Scripts,
    /// Runs commands.
    Commands,
    /// A stored point of a workload that this version does not know.
    Unknown,
}

impl WorkGroup {
    /// Completes a sentence: `the same as native for ...`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Mixed => "reading and writing",
            Self::Writing => "writing",
            Self::Flushing => "writing with a flush",
            Self::Changing => "changing packaged files",
            Self::Names => "names and attributes",
            Self::Locking => "locking",
            Self::Launching => "launching",
            Self::Networking => "the network",
            Self::Seeing => "seeing changes of the other side",
            Self::Scripts => "users' scripts",
            Self::Commands => "commands",
            Self::Unknown => "unknown work",
        }
    }
}

impl Meaning {
    /// Adds a quantity, unless it is 0.
    #[must_use]
    pub fn axis(mut self, quantity: Quantity, key: &str, value: u64) -> Self {
        if value > 0 {
            let key = key.to_owned();
            self.axes.push(Axis {
                quantity,
                key,
                value,
            });
        }
        self
    }

    /// Adds a part of the description, unless the text is empty.
    #[must_use]
    pub fn part(mut self, key: &str, text: impl Into<String>) -> Self {
        let (key, text) = (key.to_owned(), text.into());
        if !text.is_empty() {
            self.parts.push(Part { key, text });
        }
        self
    }

    /// Declares its figures.
    #[must_use]
    pub fn figures(mut self, table: FigureTable) -> Self {
        self.figures = Some(Box::new(table));
        self
    }

    /// Adds a part of the description if `worth`.
    #[must_use]
    pub fn part_if(self, worth: bool, key: &str, text: impl Into<String>) -> Self {
        if worth { self.part(key, text) } else { self }
    }

    /// The axis of a quantity; `None` if the point has none.
    pub fn find(&self, quantity: Quantity) -> Option<&Axis> {
        self.axes.iter().find(|a| a.quantity == quantity)
    }

    /// The value of a quantity, if above 0.
    pub fn value(&self, quantity: Quantity) -> Option<u64> {
        self.find(quantity).map(|a| a.value)
    }

    /// How many CPUs the layer has; `None`: all of the machine.
    pub fn cpus(&self) -> Option<u32> {
        u32::try_from(self.value(Quantity::Cpus)?).ok()
    }

    /// A description in words, without the given quantities: `read, 64M file, warm`.
    pub fn describe(&self, without: &[Quantity]) -> String {
        self.describe_if(|key| {
            let mut set = without.iter().filter_map(|q| self.find(*q));
            !set.any(|axis| axis.key == key)
        })
    }

    /// A description of what it has in common with its alternatives.
    pub fn describe_common(&self) -> String {
        self.describe_if(|key| !self.alternatives.iter().any(|a| a == key))
    }

    fn describe_if(&self, told: impl Fn(&str) -> bool) -> String {
        let parts = self.parts.iter().filter(|part| told(&part.key));
        let texts: Vec<&str> = parts.map(|p| p.text.as_str()).collect();
        texts.join(", ")
    }

    /// Whether it counts requests for data, of which a queue keeps several under way: what Iometer measures.
    pub fn is_of_requests(&self) -> bool {
        let has_queue = self.value(Quantity::QueueDepth).is_some();
        has_queue && self.target == Target::Data && self.unit == Unit::Operation
    }

    /// Operations in flight: each takes this many times the interval between completions (Little's
    /// law).
    pub fn under_way(&self) -> f64 {
        self.concurrency.max(1) as f64
    }

    /// The kind of work.
    pub fn group(&self) -> WorkGroup {
        match (self.target, self.direction) {
            (Target::Program, _) => WorkGroup::Launching,
            (Target::Script, _) => WorkGroup::Scripts,
            (Target::Step, _) => WorkGroup::Commands,
            (Target::PackagedFile, _) => WorkGroup::Changing,
            (Target::Names, _) => WorkGroup::Names,
            (Target::Lock, _) => WorkGroup::Locking,
            (Target::Network, _) => WorkGroup::Networking,
            (Target::SharedDirectory | Target::SharedLock, _) => WorkGroup::Seeing,
            (Target::Data, Direction::Reads) => WorkGroup::Reading,
            (Target::Data, Direction::Both) => WorkGroup::Mixed,
            (Target::Data, Direction::Writes) if self.flushes => WorkGroup::Flushing,
            (Target::Data, Direction::Writes) => WorkGroup::Writing,
            (Target::Data, Direction::Neither) => WorkGroup::Unknown,
        }
    }

    /// Its time is how long the other side of a shared directory takes to see a change.
    pub fn is_seeing(&self) -> bool {
        self.group() == WorkGroup::Seeing
    }

    /// The caches are emptied before the clock starts.
    pub fn is_cold(&self) -> bool {
        self.cache == Some(CacheState::Cold)
    }

    /// It bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct == Some(true)
    }

    /// It starts programs, whose actions are unknown.
    pub fn runs_programs(&self) -> bool {
        matches!(self.target, Target::Program | Target::Script | Target::Step)
    }

    /// The program of a step: its operation is the command.
    pub fn program(&self) -> Option<&str> {
        let command = (self.target == Target::Step).then_some(&self.operation)?;
        command.split_whitespace().next()
    }

    /// Whether the state of its caches is proved by the faults and blocks of the program that it starts, and
    /// not by the bytes that crossed a device.
    pub fn proves_cache_by_faults(&self) -> bool {
        matches!(self.target, Target::Program | Target::Step)
    }

    /// It reads data and writes none.
    pub fn only_reads(&self) -> bool {
        self.group() == WorkGroup::Reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_has_a_program() {
        let of = |target, operation: &str| {
            let meaning = Meaning {
                target,
                operation: operation.into(),
                ..Meaning::default()
            };
            meaning.program().map(str::to_owned)
        };
        let git = of(Target::Step, "git -C work status");
        assert_eq!(git.as_deref(), Some("git"));
        assert_eq!(of(Target::Step, "gitk").as_deref(), Some("gitk"));
        assert_eq!(of(Target::Step, ""), None);
        assert_eq!(of(Target::Data, "git"), None);
    }

    #[test]
    fn a_description_leaves_out_what_a_sweep_varies() {
        let said = Meaning::default()
            .axis(Quantity::RequestSize, "record", 4096)
            .axis(Quantity::QueueDepth, "iodepth", 0)
            .part("op", "read")
            .part("record", "4K records")
            .part("cache", "")
            .part_if(false, "threads", "1 threads");
        assert_eq!(said.describe(&[]), "read, 4K records");
        let without = [Quantity::RequestSize, Quantity::QueueDepth];
        assert_eq!(said.describe(&without), "read");
        assert_eq!(said.value(Quantity::RequestSize), Some(4096));
        assert_eq!(said.value(Quantity::QueueDepth), None);
    }

    #[test]
    fn what_is_missing_in_stored_text_is_as_if_not_said() {
        let read: Meaning = serde_json::from_str("{}").unwrap();
        assert_eq!(read, Meaning::default());
        assert_eq!(read.concurrency, 1);
        assert_eq!(read.group(), WorkGroup::Unknown);
    }
}
