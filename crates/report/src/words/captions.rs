//! Titles of sections, tables and charts, and what they show: captions that are the same in every report. Those that have
//! data in them are in the file of their subject.

/// A title, and what it is the title of.
#[derive(Debug, Clone, Copy)]
pub struct Caption {
    /// The title.
    pub title: &'static str,
    /// What is shown, or how to read it; may be empty.
    pub about: &'static str,
}

const fn caption(title: &'static str, about: &'static str) -> Caption {
    Caption { title, about }
}

const fn titled(title: &'static str) -> Caption {
    caption(title, "")
}

/// Alternatives of a layer.
pub const ALTERNATIVES: Caption = caption(
    "Compared with each other",
    "Within each layer, the time an operation takes over that of the reference, the first one, repeat by repeat. The rules for the words are those of layers against the baseline.",
);
/// Recommended record sizes.
pub const BUFFER: Caption = titled("Which record size to use");
/// Their table.
pub const BUFFER_SIZES: Caption = titled("Smallest record that is nearly as good as the best");
/// Gates and their outcomes.
pub const GATES: Caption = titled("Gates");
/// Two runs that are compared.
pub const BOTH_RUNS: Caption = titled("Both runs");
/// Power cuts under records.
pub const CUTS: Caption = caption(
    "Does it keep what it acknowledged?",
    "Each layer stood on a disk whose unflushed writes a power cut loses. Records were written and synced in it, and looked for after each cut, when the layer had been set up again on what survived.",
);
/// How files of a container were looked at.
pub const CUT_CONTAINER: &str =
    "A container is not started again: its files are read from the host.";
/// The claim about them.
pub const CUTS_CLAIM: &str = "keeps what fsync acknowledged";
/// The level that each layer reached.
pub const CUT_LEVELS: &str = "The level reached";
/// Records by writer.
pub const CUT_RECORDS: Caption = caption(
    "Records after all power cuts together",
    "Lost names of create-unsynced are permitted: POSIX promises a name after its directory was synced. A prepared block was made and flushed before the first record.",
);
/// Cuts that are not judged.
pub const NOT_JUDGED: &str =
    "Not judged: an error that may be this machine's says nothing of the layer.";
/// Flushes of a layer, from the writer to the disk.
pub const STOREYS: &str = "While all writers wrote, from the writer down to the disk. Only devices of this host count their flushes. A file system may flush more often than it is called, or once for several calls.";
/// Power cuts under programs.
pub const PROGRAMS: Caption = caption(
    "Does your program keep what it acknowledged?",
    "Each program worked alone in each layer, on a disk whose unflushed writes a power cut loses. It printed a line for each item that it had acknowledged, which was read outside the layer. After each cut its check looked for the items acknowledged before it.",
);
/// The claim about them.
pub const PROGRAMS_CLAIM: &str = "keeps what the program acknowledged";
/// What each lost.
pub const PROGRAM_ITEMS: Caption = caption(
    "Items that programs acknowledged",
    "The longest time is from the acknowledgement of the first lost item to that of the last one before the cut. Missing when killed: what the check missed when only the program had been killed and no power was cut.",
);
/// The first item that each lost.
pub const PROGRAM_FIRSTS: &str = "The first item that was lost";
/// Power cuts after sequences of operations.
pub const SEQUENCES: Caption = caption(
    "Does it keep sequences of operations?",
    "Each sequence was done in a directory of its own, on a disk whose unflushed writes a power cut loses. After each cut all of its files were looked at. `layermark durability reproducer SEQUENCE -l LAYER` prints one as a script; with `--after N` of its first operations, where it was lost when N of them were acknowledged.",
);
/// The claim about them.
pub const SEQUENCES_CLAIM: &str =
    "keeps what POSIX or fsync(2) promises after sequences of operations";
/// How many were cut in each layer.
pub const SEQUENCE_SUMS: Caption = caption(
    "Sequences of operations",
    "Left out: the layer refused a call, or did something else than other file systems before any cut. Unfinished: the run ended before it, or before all of its cuts. What is lost after a cut that POSIX and fsync(2) do not promise, and ext4, XFS and btrfs keep, is counted apart.",
);
/// What each layer lost.
pub const SEQUENCE_LOSSES: Caption = caption(
    "What was lost of sequences",
    "Survived of the rest: which writes that no flush covers were on the disk after the cut. The smallest sequence of each layer is first.",
);
/// Models of cost.
pub const COST: Caption =
    titled("What an operation costs, whatever its size, and what each byte adds");
/// Their table.
pub const COST_MODELS: Caption = titled("Fixed cost and cost of a byte");
/// Estimates beside what they estimate.
pub const ESTIMATES: Caption = caption(
    "Does the estimate say what the program loses?",
    "The program itself and its estimate were run in turn. Each has a ratio to the baseline, and the difference is how far the estimate's is from the program's. The estimate explains the program's loss if the whole interval of the difference is within the limit.",
);
/// Their table.
pub const ESTIMATE_TABLE: Caption = titled("Estimate and program");
/// Results of another program.
pub const IMPORTED: Caption = caption("", "Results of another program, read from its file.");
/// Results of two other programs.
pub const TWO_IMPORTS: Caption = caption("Operations of both", "Two results of other programs.");
/// Hosts of a check.
pub const HOSTS: Caption = titled("Where the hosts differ");
/// The rate of a share over its hosts.
pub const SHARE: Caption = titled("What the share gives to this many hosts at once");
/// Forecasts beside the times of a study.
pub const EXECUTION: Caption = caption(
    "Time of an execution",
    "In brackets: the forecast from the costs of its system calls.",
);
/// Forecasts of steps.
pub const FORECAST: Caption = titled("What the system calls of a step cost");
/// Their table.
pub const FORECAST_TABLE: Caption = titled("Forecast and measured time of steps");
/// Results of the workload `iops`.
pub const IOPS: Caption = caption(
    "I/Os a second",
    "As in Iometer: response times are milliseconds of single I/Os over all workers. MiB/s counts 1,048,576 bytes and MB/s 1,000,000. %CPU is of the whole machine, interrupts included.",
);
/// I/Os that were due at a given rate.
pub const RATED: &str =
    "The response counts from when an I/O was due, service from when it was handed over.";
/// Percentiles of response times.
pub const PERCENTILES: &str = "Milliseconds, from resamples of the repeats.";
/// Knees over queue depth.
pub const KNEES: Caption = caption(
    "Where a deeper queue stops paying",
    "The knee is where I/Os a second over the response time, Kleinrock's power, are greatest.",
);
/// Launches of programs.
pub const LAUNCHES: Caption = caption(
    "Launches",
    "From just before the process is created to the event. Runs before and after a step are counted separately. The first run is set apart if it was cold and the others were not.",
);
/// Their levels.
pub const LEVELS: Caption = titled("Levels of all series");
/// Locks of two clients.
pub const LOCKS: Caption = caption(
    "Do locks exclude two clients?",
    "One side of the layer's directory takes a lock and keeps it, and the other side, another client, \
     tries to take it. Until then the other side can take it, and lets it go again. Where the other side was \
     not asked, threads on one client may exclude each other and not those of another machine.",
);
/// Their table.
pub const LOCK_TABLE: Caption = titled("Locks of two clients");
/// Several runs against each other.
pub const ODD: Caption = caption(
    "Where the runs differ",
    "Each run's value over the mean of the others that are not odd; where runs are split, of all others.",
);
/// Results with several numbers of CPUs.
pub const SCALING: Caption = titled("Scaling with CPUs");
/// Reads over the distance of a seek.
pub const SEEK: Caption = caption(
    "Latency over the distance of a seek",
    "Time of a read that lies this far from the one before it.",
);
/// Their table.
pub const SEEK_TABLE: &str = "Centres of the measurements; the values are microseconds.";
/// What calls cost.
pub const CALLS: Caption = titled("What its calls cost");
/// A study's claims, and whether they hold.
pub const CLAIMS: Caption = titled("What holds here");

/// Checks.
pub const TRUST: &str = "Can it be trusted?";
/// A line for each layer.
pub const IN_SHORT: &str = "In short";
/// Findings.
pub const FINDINGS: &str = "Findings";
/// A paragraph for each layer.
pub const LAYERS: &str = "Layer by layer";
/// Advice.
pub const ADVICE: &str = "What to do";
/// What was not measured.
pub const LEFT_OUT: &str = "Left out";
/// Differences from iozone.
pub const FIDELITY: &str = "Where this differs from iozone on purpose";
/// All results.
pub const RESULTS: &str = "Results";
/// How to repeat the run.
pub const REPRODUCE: &str = "Make this run again";
/// How it was measured.
pub const METHOD: &str = "Method";
/// The machine and the layers.
pub const STACK: &str = "Machine and layers";
/// What measuring costs in each layer.
pub const SELF_TESTS: &str = "What measuring costs";
/// All trials.
pub const TRIALS: &str = "Every trial";

/// Histograms of latency.
pub const LATENCY: &str = "Latency of single operations";
/// Throughput over record size.
pub const RECORD_SIZES: &str = "Throughput over record size";
/// Throughput over file size and record.
pub const SURFACE: Caption = caption(
    "Throughput over file size and record",
    "A surface shows the shape; the tables have the numbers.",
);
/// Speeds during the run.
pub const DRIFT: &str = "Throughput during the run";
/// Times in their order.
pub const IN_ORDER: &str =
    "Each dot is a time; a line is the median of a level. Beside it, how often each time was met.";
/// The picture of a report without charts.
pub const NOTHING_DRAWN: &str = "Nothing to draw: no layer has a ratio";
