//! The command line. A workload's own flags come from its parameters.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use layermark_model::{Profile, Settings, Spec};
use layermark_probe::{Workload, witness, workloads};
use layermark_report::exporters;

use crate::{
    commands::{compare, complete, serve::parse_address},
    examples,
    failure::Failure,
    launch,
    refused::refused,
    steps, workload_args,
};

/// What does a virtual layer cost an application's I/O, and can its answers be trusted?
#[derive(Debug, Parser)]
#[command(name = "layermark", version, propagate_version = true)]
#[command(
    after_help = "A layer is written name[:variant][,key=value]...: overlay:writecopy, loop:xfs,direct-io=off.\n\
    A path between two of them, for the workload `net`: client..server, such as vm:nic=e1000..vm.\n\
    `layermark layers` lists them.\n\
    Exit codes: 0 done; 1 a gate failed, acknowledged data was lost, or an error; 2 usage; 3 a layer could not be set up; 4 the result is not trustworthy;\n130 stopped."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Cmd,
}

#[derive(Debug, Subcommand)]
pub enum Cmd {
    /// Compare layers as a plan says; without one, twelve everyday operations in about two minutes
    Run(Box<RunArgs>),
    /// List what can be set up here, what is missing, and the command that installs it
    Layers {
        /// Only this layer, with its options
        #[arg(add = complete::layer_names())]
        layer: Option<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Compare two runs, and fail where something became slower
    Compare(Box<CompareArgs>),
    /// Report a run again, in any format
    Report {
        /// The run: its id or the beginning of it, `last`, `last~1`, or `#12`
        #[arg(default_value = "last", add = complete::runs())]
        run: String,
        /// Show an import next to it: its id, its first letters, or `last`; repeatable
        #[arg(long, value_name = "IMPORT", add = complete::imports())]
        beside: Vec<String>,
        #[command(flatten)]
        out: OutArgs,
    },
    /// Store results of fio, iozone, Iometer or hyperfine, for comparison with ours
    Import {
        /// Output of that program
        file: PathBuf,
        /// Its format [default: detected from the content]
        #[arg(long, value_name = "FORMAT", value_parser = import_format)]
        format: Option<String>,
        /// Report this run with the import: its id or the beginning of it, `last`, `last~1`, or `#12`
        #[arg(long, value_name = "RUN")]
        beside: Option<String>,
        #[command(flatten)]
        out: OutArgs,
    },
    /// Runs and imports made so far, newest first
    History(HistoryArgs),
    /// Browse stored and running runs in a browser
    Serve(ServeArgs),
    /// Find out whether layers keep what fsync acknowledged, up to a power cut
    Durability(Box<DurabilityArgs>),
    /// Show that layermark's own checks catch what they have to
    Selftest(SelftestArgs),
    /// Print a JSON schema
    Schema { what: SchemaOf },
    /// Print a shell's completions
    Completions { shell: clap_complete::Shell },
    /// Say where to read more
    Docs,
    /// Print the manual page, or write all pages into a directory
    Man { dir: Option<PathBuf> },
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The older run: its id or the beginning of it, `last~1`, `#12`, or a report in a JSON file
    #[arg(add = complete::reports())]
    pub old: String,
    /// The newer run, likewise [default: last]
    #[arg(add = complete::reports())]
    pub new: Option<String>,
    #[command(flatten)]
    pub gates: GateArgs,
    /// Refuse to compare runs of unlike machines or kernels
    #[arg(long)]
    pub same_machine: bool,
    /// Changes below this do not matter: 5% [default: that of the newer run]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub delta: Option<f64>,
    #[command(flatten)]
    pub out: OutArgs,
}

#[derive(Debug, Args)]
pub struct GateArgs {
    /// Exit with code 1 where a layer is slower: slower, slower=10%, 'fuse slower=3x at "small
    /// read"'; repeatable
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    /// Let --fail-if also fail where the data does not decide
    #[arg(long, requires = "fail_if")]
    pub fail_undecided: bool,
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Only runs of this plan
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
    /// Only runs with this layer, at either end of a path, with any variant and options unless some are named
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<layermark_model::Spec>,
    /// Only runs started since this day or time: 2026-11-02, or how long ago: 7d, 36h, 2w
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<i64>,
    /// At most this many [default: 20; 100 with --trend]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// How a point in a layer changed over these runs: its ratio, or the time of the baseline
    #[arg(long, num_args = 2, value_names = ["POINT", "LAYER"])]
    pub trend: Option<Vec<String>>,
    /// Write a page with the chart of --trend
    #[arg(
        short,
        long,
        value_name = "FILE.html",
        requires = "trend",
        conflicts_with = "json"
    )]
    pub output: Option<PathBuf>,
    /// Let -o replace a file that layermark did not write
    #[arg(long, requires = "output")]
    pub force: bool,
    #[command(flatten)]
    pub store: StoreArg,
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on: a port, or an address such as 127.0.0.1:8080; 0.0.0.0:8080 lets other
    /// machines in
    #[arg(default_value = LOOPBACK, value_name = "ADDR", value_parser = parse_address, hide_default_value = true)]
    pub addr: SocketAddr,
    #[command(flatten)]
    pub store: StoreArg,
}

/// Default address: a free port that only this machine can reach.
const LOOPBACK: &str = "127.0.0.1:0";

/// Formats that have a JSON schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SchemaOf {
    /// Plan files
    Plan,
    /// `--json` and `report -o x.json`
    Report,
}

#[derive(Debug, Args)]
pub struct JsonArg {
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DurabilityArgs {
    #[command(subcommand)]
    pub by_hand: Option<ByHand>,
    /// Power cuts of each layer; 0 counts flushes only
    #[arg(long, value_name = "N", default_value_t = 38, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub cuts: u32,
    /// Records that each writer writes before the cuts
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub records: u64,
    /// A file system in user space to cut as well: its command without the directory that it serves and the
    /// mount point, which are added; it has to stay in the foreground, as `bindfs -f` does; repeatable
    #[arg(long = "server", value_name = "COMMAND")]
    pub servers: Vec<String>,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SelftestOf {
    /// Power cuts: layers that are known to lie, and honest ones
    Durability,
}

#[derive(Debug, Args)]
pub struct SelftestArgs {
    pub what: SelftestOf,
    /// Only the layer of this name in the table; repeatable
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Directory to work in
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// Power cuts of each layer
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub cuts: u32,
    /// Records that each writer writes before the cuts
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub records: u64,
    /// Seed of the moments and of what survives [default: drawn and printed]
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub json: JsonArg,
}

/// The halves of a power cut that is made by hand.
#[derive(Debug, Subcommand)]
pub enum ByHand {
    /// Write records below a directory until the power is cut, and log each one that was acknowledged
    Record(RecordArgs),
    /// After the power cut, look for every record that the log has
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The directory to test
    pub dir: PathBuf,
    /// The log: a file on a disk of another machine, or one that keeps its power; `-` is standard output, for ssh
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// A way of writing; repeatable [default: all]
    #[arg(long = "writer", value_name = "WRITER", value_parser = writer_names())]
    pub writers: Vec<String>,
    /// Stop after this many records of each writer [default: until the power is cut, or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: Option<u64>,
    /// Bytes of a record: whole pages of 4K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub record: String,
    /// Accept a log that a power cut may take as well, and replace a log that exists
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The directory that was tested
    pub dir: PathBuf,
    /// The log
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Names of the writers, for help and completion.
fn writer_names() -> clap::builder::PossibleValuesParser {
    use clap::builder::PossibleValue;
    let value = |w: &&'static dyn witness::Writer| PossibleValue::new(w.id()).help(w.about());
    witness::ALL.iter().map(value).collect::<Vec<_>>().into()
}

const STORE: &str = "Where runs are kept: a file, or a team's server, postgres://USER@HOST/DATABASE; its password is read \
    from PGPASSWORD or ~/.pgpass [default: layermark.db in the user's data directory]";

#[derive(Debug, Args)]
pub struct StoreArg {
    #[arg(long, value_name = "STORE", help = STORE)]
    pub store: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct OutArgs {
    #[arg(short, long = "output", value_name = "FILE", help = output_help())]
    pub output: Vec<PathBuf>,
    /// Print the whole report, not only the answer
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// What the matrix on the terminal shows
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["json", "full"])]
    pub show: ShowArg,
    /// Let -o replace a file that layermark did not write, what a symbolic link points to, and write into a FIFO
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub store: StoreArg,
}

fn output_help() -> String {
    output_help_of(|_| true)
}

/// Help of `-o` where it writes these formats.
fn output_help_of(has: impl Fn(&str) -> bool) -> String {
    let formats = exporters::ALL.iter().filter(|e| has(e.id()));
    let endings: Vec<&str> = formats
        .filter_map(|e| e.extensions().first().copied())
        .collect();
    format!(
        "Write the report to a file; its ending names the format ({}); `-` is short Markdown on standard output, `csv:-` another format; repeatable",
        endings.join(" ")
    )
}

/// What the cells of the matrix show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ShowArg {
    /// Time in the layer over native's
    #[default]
    Ratio,
    /// Time of an operation, with a column for native
    Time,
    /// Throughput or the workload's own unit, with a column for native
    Throughput,
}

/// What to print on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// The answer in at most 40 lines, with a matrix in this unit.
    Short(exporters::Unit),
    /// All of the report as text.
    Full,
    Json,
}

impl OutArgs {
    pub fn stdout(&self) -> Stdout {
        match (self.json.json, self.full) {
            (true, _) => Stdout::Json,
            (false, true) => Stdout::Full,
            (false, false) => Stdout::Short(match self.show {
                ShowArg::Ratio => exporters::Unit::Ratio,
                ShowArg::Time => exporters::Unit::Time,
                ShowArg::Throughput => exporters::Unit::Throughput,
            }),
        }
    }
}

/// Flags that conflict with `--resume` and `--replay`: the earlier run has already fixed them.
const KEPT: [&str; 11] = [
    "layers",
    "dir",
    "profile",
    "precision",
    "blocks",
    "sessions",
    "turn",
    "delta",
    "seed",
    "scale",
    "no_control",
];

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A plan file, or the name of a plan that comes with layermark: card, fileio-appvirt, buffer-size, iozone-vm, iops, launch-share, virtual-io-stack
    #[arg(conflicts_with_all = ["resume", "replay"], add = complete::plans())]
    pub plan: Option<String>,
    /// Continue a run that was stopped or interrupted; with --budget, a total for all of it, also
    /// one that has finished
    #[arg(long, value_name = "RUN", conflicts_with_all = ["replay", "allow_tmpfs"], conflicts_with_all = KEPT, add = complete::runs())]
    pub resume: Option<String>,
    /// Repeat an earlier run's plan, seed and order as a new run. Leaves out the layers that its
    /// budget left out; with --budget, takes those that fit the new one
    #[arg(long, value_name = "RUN", conflicts_with_all = KEPT, add = complete::runs())]
    pub replay: Option<String>,
    /// An environment variable of launched programs that the plan or the earlier run names:
    /// NAME=VALUE, or NAME to copy it from layermark's own environment; repeatable
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Allow programs from a plan or a store that other users can change
    #[arg(long)]
    pub allow_programs: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

// Flags of every command that measures. No doc comment: clap would show it as the commands' help.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// A layer to compare with native; repeatable [default: every layer this machine can set up]
    #[arg(short, long = "layer", value_name = "LAYER", add = complete::layers())]
    pub layers: Vec<Spec>,
    /// Directory to work in; its file system and disk are the native baseline
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// How thorough: sessions and precision
    #[arg(long, value_enum)]
    pub profile: Option<ProfileArg>,
    /// Time to spend on trials: 90s, 2m. To make 8 blocks it may take 1.5 times as long, or measure
    /// fewer layers [default: the plan's; 13s for one workload, unless --blocks, --precision or
    /// --profile is given]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Stop a point when its ratio is known with this precision: 5%, 0.02
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// Make exactly this many blocks, at any precision
    #[arg(long, visible_alias = "runs", value_name = "N", short_alias = 'r')]
    pub blocks: Option<u32>,
    /// How many times to set the layers up afresh [default: the profile's; at least 3 where it takes under a second]
    #[arg(long, value_name = "N")]
    pub sessions: Option<u32>,
    /// Length of a turn: 5ms [default: 2ms; 10ms for large files in memory, iops and guests]
    #[arg(long, value_name = "TIME")]
    pub turn: Option<String>,
    /// Differences below this do not matter: 5%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub delta: Option<f64>,
    /// Seed of order, data and offsets [default: drawn and recorded]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Multiply file sizes and counts: 0.1 for a small run of a large plan
    #[arg(long)]
    pub scale: Option<f64>,
    /// Leave out the second native layer that shows the method's own error
    #[arg(long)]
    pub no_control: bool,
    /// Accept a directory in memory (tmpfs) as the baseline
    #[arg(long)]
    pub allow_tmpfs: bool,
    /// Give up on a layer that makes no progress for this long
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = silence)]
    pub silence: std::time::Duration,
    /// Show the run live in a browser, then its report, until Ctrl-C: at this address or port
    /// [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = LOOPBACK, value_parser = parse_address)]
    pub serve: Option<SocketAddr>,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub out: OutArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProfileArg {
    Quick,
    Standard,
    Thorough,
}

impl From<ProfileArg> for Profile {
    fn from(arg: ProfileArg) -> Self {
        match arg {
            ProfileArg::Quick => Self::Quick,
            ProfileArg::Standard => Self::Standard,
            ProfileArg::Thorough => Self::Thorough,
        }
    }
}

/// Parses `--silence`. A probe reports each second, so a shorter limit would give up on working
/// probes.
fn silence(text: &str) -> Result<std::time::Duration, String> {
    let limit = layermark_model::parse_duration(text).map_err(|e| e.to_string())?;
    if limit.as_secs() < 1 {
        return Err("it has to be 1s or more: a probe at work reports each second".to_owned());
    }
    Ok(limit)
}

/// Parses a day (its start in local time) or a time ago, as milliseconds since 1970 UTC.
fn since(text: &str) -> Result<i64, String> {
    let now = jiff::Zoned::now();
    let day = || {
        let day: jiff::civil::Date = text.parse().ok()?;
        day.to_zoned(now.time_zone().clone()).ok()
    };
    let ago = || {
        let span: jiff::Span = text.parse().ok().filter(|s: &jiff::Span| s.is_positive())?;
        now.checked_sub(span).ok()
    };
    let then = day().or_else(ago);
    let then = then.ok_or("write a day such as 2026-11-02, or a time such as 7d or 36h")?;
    Ok(then.timestamp().as_millisecond())
}

/// Parses a share: `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    let share = number
        .trim()
        .parse::<f64>()
        .map_err(|_| "write a share such as 5% or 0.05".to_owned())?
        * factor;
    if share > 0.0 && share < 1.0 {
        Ok(share)
    } else {
        Err("write a share above 0 % and below 100 %".to_owned())
    }
}

/// The parsed command line.
pub enum Parsed {
    /// A command of [`Cli`].
    Cli(Box<Cli>),
    /// One workload with its own flags.
    Workload(Settings, Box<CommonArgs>),
    /// `layermark launch`, and the file for its times in hyperfine's format.
    Launch(Settings, Box<CommonArgs>, Option<PathBuf>),
}

/// The whole command line, with a subcommand for each workload.
pub fn command() -> Command {
    let workloads = workloads::ALL.iter().map(|w| workload_command(*w));
    let of_two = output_help_of(|id| compare::FORMATS.contains(&id));
    Cli::command()
        .mut_subcommand("compare", |c| c.mut_arg("output", |arg| arg.help(of_two)))
        .subcommands(workloads)
        .mut_subcommands(examples::with)
}

/// Parses the arguments. For help and versions, clap prints them and ends the process.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let line: Vec<OsString> = line.into_iter().collect();
    let asked = line.get(1).map(|word| word.to_string_lossy());
    if let Some(workload) = asked.as_deref().and_then(workloads::find) {
        workload_args::check_values(workload, &line[2..])?;
    }
    let matches = command()
        .try_get_matches_from(&line)
        .map_err(|e| refused(&e, asked.as_deref(), &line))?;
    if let Some((name, sub)) = matches.subcommand()
        && let Some(workload) = workloads::find(name)
    {
        let mut common =
            CommonArgs::from_arg_matches(sub).map_err(|e| refused(&e, Some(name), &line))?;
        if name == "launch" {
            let mut made = workload_args::settings(workload, sub);
            launch::settings(sub, &mut made)?;
            launch::defaults(&mut common);
            let times = sub.get_one::<String>("export-json").map(PathBuf::from);
            return Ok(Parsed::Launch(made, Box::new(common), times));
        }
        let mut settings = workload_args::settings(workload, sub);
        if name == "steps" {
            steps::settings(sub, &mut settings)?;
            launch::defaults(&mut common);
        }
        workload_args::of_url(&settings, &mut common)?;
        return Ok(Parsed::Workload(settings, Box::new(common)));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|e| refused(&e, None, &line))?;
    Ok(Parsed::Cli(Box::new(cli)))
}

/// A hint: the command that prints the flags of another one.
pub fn help_of(name: Option<&str>) -> String {
    let known = name.filter(|name| command().find_subcommand(name).is_some());
    known.map_or("layermark --help".into(), |name| {
        format!("layermark {name} --help")
    })
}

fn workload_command(workload: &'static dyn Workload) -> Command {
    let command = Command::new(workload.id())
        .about(workload.about())
        .args(workload_args::flags(workload))
        .next_help_heading("Measuring and reporting");
    let command = CommonArgs::augment_args(command);
    match workload.id() {
        "launch" => launch::augment(command),
        "steps" => steps::augment(command),
        _ => command,
    }
}

/// Parses an `import` format. The help lists them.
fn import_format(text: &str) -> Result<String, String> {
    let mut ids = layermark_import::formats::ALL.iter().map(|f| f.id());
    if ids.clone().any(|id| id == text) {
        return Ok(text.to_owned());
    }
    let known = ids.by_ref().collect::<Vec<_>>().join(", ");
    Err(format!("known are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn shares_are_read_as_percent_or_number() {
        assert!((share("5%").unwrap() - 0.05).abs() < 1e-12);
        assert!((share("0.02").unwrap() - 0.02).abs() < 1e-12);
        for bad in ["", "x", "0", "100%", "-1%", "nan"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_days_or_how_long_ago() {
        let hours = |text: &str| {
            let then = since(text).unwrap();
            (jiff::Timestamp::now().as_millisecond() - then) / 3_600_000
        };
        assert_eq!((hours("36h"), hours("90min")), (36, 1));
        // A day on which clocks change has one hour more or less.
        assert!((167..=169).contains(&hours("7d")) && (335..=337).contains(&hours("2w")));
        assert!(hours("2026-01-01") > hours("2026-01-02"));
        for bad in ["", "x", "-7d", "7", "2026-13-01"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
