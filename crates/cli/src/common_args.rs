//! Arguments that several commands have.

use std::{
    ffi::OsStr,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, Parser, ValueEnum, parser::ValueSource};
use layermark_model::{Profile, Spec};
use layermark_report::render;

use crate::{
    commands::complete,
    config::Config,
    events::{EventsTarget, parse_target},
    failure::Failure,
};

#[derive(Debug, Args)]
pub struct JsonArg {
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
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
    #[arg(short, long = "output", value_name = "FILE", help = OUTPUT, long_help = output_help())]
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

const OUTPUT: &str = "Write a report in the format of its ending: x.html, x.md, x.csv, x.json, x.png; x.lm is the run itself; \
    repeatable";

fn output_help() -> String {
    output_help_of(|_| true) + "; x.lm is the run itself, to be kept or sent"
}

/// Help of `-o` where it writes these formats.
pub fn output_help_of(has: impl Fn(&str) -> bool) -> String {
    let formats = render::ALL.iter().filter(|e| has(e.id()));
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
    /// Time in the layer over the baseline's
    #[default]
    Ratio,
    /// Time of an operation, with a column for the baseline
    Time,
    /// Throughput or the workload's own unit, with a column for the baseline
    Throughput,
}

/// What to print on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// The answer in about 40 lines, with a matrix in this unit.
    Short(render::Unit),
    /// All of the report as text.
    Full,
    Json,
    /// Something else was printed.
    Nothing,
}

impl OutArgs {
    pub fn stdout(&self) -> Stdout {
        match (self.json.json, self.full) {
            (true, _) => Stdout::Json,
            (false, true) => Stdout::Full,
            (false, false) => Stdout::Short(match self.show {
                ShowArg::Ratio => render::Unit::Ratio,
                ShowArg::Time => render::Unit::Time,
                ShowArg::Throughput => render::Unit::Throughput,
            }),
        }
    }
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

// Flags of every command that measures. No doc comment: clap would show it as the commands' help.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// A layer to measure, and to compare with the baseline; repeatable [default: every layer this machine can set up]
    #[arg(short, long = "layer", value_name = "LAYER", add = complete::layers())]
    pub layers: Vec<Spec>,
    /// The layer that the others are compared with; it is measured even if no -l names it [default:
    /// the plan's, or native]
    #[arg(long, value_name = "LAYER", add = complete::layers())]
    pub baseline: Option<Spec>,
    /// Directory to work in; its file system and disk are the layer native
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// How thorough: sessions and precision
    #[arg(long, value_enum)]
    pub profile: Option<ProfileArg>,
    /// How long the run may take, from start to end: 90s, 2m [default: the plan's; 13s for one workload]
    ///
    /// What does not fit is refused before anything is measured, and what is still at work at the end is cut. The plan
    /// of one workload has no budget if --blocks, --precision or --profile is given.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Let a budget that is too short leave out layers that -l names, the last ones first
    #[arg(long)]
    pub drop: bool,
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
    /// Your name for this machine, which tells its runs from those of others
    #[arg(long, value_name = "NAME", value_parser = label)]
    pub label: Option<String>,
    /// Multiply file sizes and counts: 0.1 for a small run of a large plan
    #[arg(long)]
    pub scale: Option<f64>,
    /// Leave out the second measurement of the baseline that shows the method's own error
    #[arg(long)]
    pub no_control: bool,
    /// Accept a directory in memory (tmpfs) to work in
    #[arg(long)]
    pub allow_tmpfs: bool,
    /// Give up on a layer that makes no progress for this long
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = silence)]
    pub silence: std::time::Duration,
    /// Show the run live in a browser, then its report, until Ctrl-C: at this address or port
    /// [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = LOOPBACK, value_parser = parse_address)]
    pub serve: Option<SocketAddr>,
    /// Write each event of the run as a line of JSON: jsonl on standard error, jsonl:FILE to a new file
    #[arg(long, value_name = "jsonl[:FILE]", value_parser = parse_target)]
    pub events: Option<EventsTarget>,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub out: OutArgs,
    /// What the user's configuration file says.
    #[arg(skip)]
    pub usual: Config,
}

/// For clap, which knows the defaults.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    common: CommonArgs,
}

impl CommonArgs {
    /// Takes the usual directory where no flag names one, and keeps the rest for the plan.
    pub fn usual_dir(&mut self, config: Config, matches: &ArgMatches) {
        let given = matches.value_source("dir") == Some(ValueSource::CommandLine);
        if let Some(dir) = config.dir.as_ref().filter(|_| !given) {
            self.dir.clone_from(dir);
        }
        self.label = self.label.take().or_else(|| config.label.clone());
        self.usual = config;
    }

    /// Takes the usual values of a command for one workload where no flag gives them, its layers if it can have any.
    pub fn usual_from(&mut self, config: Config, matches: &ArgMatches, layers: bool) {
        self.usual_dir(config, matches);
        if layers && self.layers.is_empty() {
            self.layers.clone_from(&self.usual.layers);
        }
        self.usual_budget();
    }

    /// Takes the usual budget where no flag says how long a run may take.
    pub fn usual_budget(&mut self) {
        let free = self.blocks.is_none() && self.precision.is_none() && self.profile.is_none();
        if free && self.budget.is_none() {
            self.budget.clone_from(&self.usual.budget);
        }
    }

    /// As if no flag was given but `--dir`, for a command without these flags.
    pub fn usual(dir: &Path) -> Result<Self, Failure> {
        let line = [
            OsStr::new("layermark"),
            OsStr::new("--dir"),
            dir.as_os_str(),
        ];
        let alone = Alone::try_parse_from(line).map_err(Failure::usage)?;
        Ok(alone.common)
    }
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
pub fn silence(text: &str) -> Result<std::time::Duration, String> {
    let limit = layermark_model::parse_duration(text).map_err(|e| e.to_string())?;
    if limit.as_secs() < 1 {
        return Err("it has to be 1s or more: a probe at work reports each second".to_owned());
    }
    Ok(limit)
}

/// Characters of a name for a machine, at most.
pub const LONGEST_LABEL: usize = 40;

/// Parses a name for a machine.
pub fn label(text: &str) -> Result<String, String> {
    const LONGEST: usize = LONGEST_LABEL;
    let odd = layermark_model::plain(text) != text || text.contains('\n');
    if text.trim().is_empty() || text.chars().count() > LONGEST || odd {
        return Err(format!(
            "write a name of at most {LONGEST} characters on one line"
        ));
    }
    Ok(text.trim().to_owned())
}

/// Parses a share: `5%` or `0.05`.
pub fn share(text: &str) -> Result<f64, String> {
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

/// Default address: a free port that only this machine can reach.
pub const LOOPBACK: &str = "127.0.0.1:0";

/// Parses an address to listen on: `8080`, `127.0.0.1:8080`, `[::1]:8080`, `0.0.0.0`.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    let port = |text: &str| text.parse::<u16>().ok();
    let of_localhost = || match text.strip_prefix("localhost")? {
        "" => Some(0),
        rest => port(rest.strip_prefix(':')?),
    };
    let found = text.parse().ok();
    let found = found.or_else(|| Some((text.parse::<IpAddr>().ok()?, 0).into()));
    let found = found.or_else(|| Some((local, port(text).or_else(of_localhost)?).into()));
    found.ok_or_else(|| "write an address such as 127.0.0.1:8080, or a port".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_percent_or_number() {
        assert!((share("5%").unwrap() - 0.05).abs() < 1e-12);
        assert!((share("0.02").unwrap() - 0.02).abs() < 1e-12);
        for bad in ["", "x", "0", "100%", "-1%", "nan"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_label_is_a_short_name_on_one_line() {
        assert_eq!(label(" build 7 ").unwrap(), "build 7");
        assert!(label(&"a".repeat(40)).is_ok());
        for bad in ["", "  ", "a\nb", "\u{1b}[31m", &"a".repeat(41)] {
            assert!(label(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_address_is_on_the_loopback_unless_it_says_otherwise() {
        for (text, at) in [
            ("8080", "127.0.0.1:8080"),
            ("127.0.0.1", "127.0.0.1:0"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost", "127.0.0.1:0"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:8080", "[::1]:8080"),
            ("::1", "[::1]:0"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
        ] {
            assert_eq!(
                parse_address(text).map(|a| a.to_string()),
                Ok(at.to_owned())
            );
        }
        for wrong in [
            "",
            "x",
            "70000",
            "127.0.0.1:x",
            "example.org:80",
            "localhostx:80",
            "/run",
        ] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }
}
