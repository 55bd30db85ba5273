//! What a point means: said once by its workload, stored and sent with the point. Nobody after the
//! workload looks a parameter up by its name.

use serde::{Deserialize, Serialize};

use crate::FigureTable;

/// What a point means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools)] // what points are or are not, each on its own
pub struct Meaning {
    /// What one operation is called, such as `rand-read`; of a launch its command.
    pub operation: String,
    /// What an operation acts on.
    pub target: Target,
    /// Which way data goes.
    pub direction: Direction,
    /// It changes data or names: a read-only layer leaves it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// It goes through its data in order, so that most of what it reads is read ahead.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// What is counted.
    pub unit: Unit,
    /// Operations under way at once, over all threads; 1 where the pace is set from outside.
    pub concurrency: u64,
    /// The pace is set from outside: what counts is the time that one operation takes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paced: bool,
    /// Data is flushed to the device inside the clock.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub flushes: bool,
    /// How durable a write is when its clock stops, in the workload's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// State of the caches that it asks for. Absent where nothing that is there before is read or
    /// changed, and where any state will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheState>,
    /// Whether it goes past the page cache. Absent where there is no such choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<bool>,
    /// How I/O is made, such as `pread`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// How it divides into turns of milliseconds; absent: a trial is one stretch of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divided: Option<Divided>,
    /// Quantities that points of a sweep may differ in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// Parameters that change nothing of what the clock sees: points that differ in these alone belong
    /// to one sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside_the_clock: Vec<String>,
    /// Parameters with several values that the user chooses between, such as commands: points that
    /// differ in these alone are compared with each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
    /// What it does, in words, part by part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Figures beside its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<FigureTable>>,
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
            sync: None,
            cache: None,
            direct: None,
            engine: None,
            divided: None,
            axes: Vec::new(),
            beside_the_clock: Vec::new(),
            alternatives: Vec::new(),
            parts: Vec::new(),
            figures: None,
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
    /// A file that the layer came with, which is changed for the first time.
    PackagedFile,
    /// Names and attributes.
    Names,
    /// A lock on a file.
    Lock,
    /// A program that is started.
    Program,
    /// The path between two ends of a connection.
    Network,
    /// Files and programs of users, each of whom has a script to do.
    Script,
}

/// Which way data goes.
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

/// What is counted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Operations a second.
    #[default]
    Operation,
    /// Bytes a second.
    Byte,
    /// Launches, each of which is an operation.
    Launch,
    /// Transactions a second: a request and its response.
    Transaction,
    /// Scripts an hour, each of which is an operation.
    Script,
}

impl Unit {
    /// The metric and its unit as the report names them.
    pub fn metric(self) -> (&'static str, &'static str) {
        match self {
            Self::Byte => ("throughput", "B/s"),
            Self::Operation | Self::Launch => ("rate", "ops/s"),
            Self::Transaction => ("rate", "trans/s"),
            Self::Script => ("rate", "scripts/h"),
        }
    }

    /// The time that the metric is over, seconds.
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
    /// The word that plans and reports have for it.
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
    /// Its data comes from memory and goes there.
    pub in_memory: bool,
    /// What a turn has used up no later turn finds again, as with a cold cache: nothing to spare
    /// for a lead-in.
    pub uses_up: bool,
    /// Bytes of files that it goes over again and again.
    pub working_set: u64,
    /// What a turn costs besides its time.
    pub cost: TurnCost,
    /// Bytes that a turn may move beside those that count, as its queue fills and drains.
    pub under_way: u64,
}

/// What a turn costs besides its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TurnCost {
    /// Nothing.
    Nothing,
    /// Files that are made or removed. What was removed slows what is made next on some file systems, so
    /// there should be few.
    Files,
    /// Threads that are started or woken, which takes some tenths of a millisecond.
    Threads,
}

impl TurnCost {
    /// Of work that so many threads do: one works in the probe's own.
    pub fn of_threads(threads: u64) -> Self {
        if threads > 1 {
            Self::Threads
        } else {
            Self::Nothing
        }
    }
}

impl Divided {
    /// Whether one thread does it again and again, so that all turns can be on one CPU.
    pub fn on_one_cpu(&self) -> bool {
        !self.uses_up && self.cost != TurnCost::Threads
    }
}

/// A quantity of a point, and the parameter that sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "SweepAxis")]
pub struct Axis {
    /// What it is.
    pub quantity: Quantity,
    /// The parameter's name.
    pub key: String,
    /// Its value; sizes are bytes.
    pub value: u64,
}

/// A quantity that workloads have in common, whatever each calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Bytes of one request.
    RequestSize,
    /// Bytes of the data set: of the file that is gone over.
    DataSize,
    /// Requests under way at once in each thread.
    QueueDepth,
    /// Threads that make requests.
    Threads,
    /// Requests a second that are begun, whatever the layer can do.
    OfferedRate,
    /// Bytes from one request to the next.
    Distance,
    /// Bytes of one message on a connection.
    MessageSize,
    /// Bytes of a socket's buffer, as asked for.
    SocketBuffer,
    /// Users who work at the same time.
    Users,
    /// CPUs that the layer has.
    Cpus,
}

/// A part of what a point does, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Part {
    /// The parameter that it tells of.
    pub key: String,
    /// The words, such as `64M file`.
    pub text: String,
}

/// The kinds of work that words are made for, in the order they are told.
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
    /// Changes a file that the layer came with.
    Changing,
    /// Names and attributes: open, stat, create, unlink.
    Names,
    /// Locks and unlocks a file.
    Locking,
    /// Starts a program.
    Launching,
    /// Sends and receives.
    Networking,
    /// Does the scripts of users.
    Scripts,
    /// Of a stored point whose workload this version does not know.
    Unknown,
}

impl WorkGroup {
    /// `the same as native for ...`.
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
            Self::Scripts => "users' scripts",
            Self::Unknown => "unknown work",
        }
    }
}

impl Meaning {
    /// Adds a quantity. 0 is none.
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

    /// Adds a part of the description. Empty text is none.
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

    /// Adds a part of the description where it is worth a word.
    #[must_use]
    pub fn part_if(self, worth: bool, key: &str, text: impl Into<String>) -> Self {
        if worth { self.part(key, text) } else { self }
    }

    /// The quantity and the parameter that sets it; `None` where the point has none.
    pub fn find(&self, quantity: Quantity) -> Option<&Axis> {
        self.axes.iter().find(|a| a.quantity == quantity)
    }

    /// The value of a quantity; above 0.
    pub fn value(&self, quantity: Quantity) -> Option<u64> {
        self.find(quantity).map(|a| a.value)
    }

    /// How many CPUs the layer has; `None`: all there are.
    pub fn cpus(&self) -> Option<u32> {
        u32::try_from(self.value(Quantity::Cpus)?).ok()
    }

    /// What it does, in words, without what these quantities say: `read, 64M file, warm`.
    pub fn describe(&self, without: &[Quantity]) -> String {
        self.describe_if(|key| {
            let mut set = without.iter().filter_map(|q| self.find(*q));
            !set.any(|axis| axis.key == key)
        })
    }

    /// What it has in common with its alternatives, in words.
    pub fn describe_common(&self) -> String {
        self.describe_if(|key| !self.alternatives.iter().any(|a| a == key))
    }

    fn describe_if(&self, told: impl Fn(&str) -> bool) -> String {
        let parts = self.parts.iter().filter(|part| told(&part.key));
        let texts: Vec<&str> = parts.map(|p| p.text.as_str()).collect();
        texts.join(", ")
    }

    /// How many times the time of one operation of all each of them waits (Little's law).
    pub fn under_way(&self) -> f64 {
        self.concurrency.max(1) as f64
    }

    /// The kind of work.
    pub fn group(&self) -> WorkGroup {
        match (self.target, self.direction) {
            (Target::Program, _) => WorkGroup::Launching,
            (Target::Script, _) => WorkGroup::Scripts,
            (Target::PackagedFile, _) => WorkGroup::Changing,
            (Target::Names, _) => WorkGroup::Names,
            (Target::Lock, _) => WorkGroup::Locking,
            (Target::Network, _) => WorkGroup::Networking,
            (Target::Data, Direction::Reads) => WorkGroup::Reading,
            (Target::Data, Direction::Both) => WorkGroup::Mixed,
            (Target::Data, Direction::Writes) if self.flushes => WorkGroup::Flushing,
            (Target::Data, Direction::Writes) => WorkGroup::Writing,
            (Target::Data, Direction::Neither) => WorkGroup::Unknown,
        }
    }

    /// Its caches are emptied before the clock starts.
    pub fn is_cold(&self) -> bool {
        self.cache == Some(CacheState::Cold)
    }

    /// It goes past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct == Some(true)
    }

    /// It starts programs, which do what they like.
    pub fn runs_programs(&self) -> bool {
        matches!(self.target, Target::Program | Target::Script)
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
