//! `layermark selftest durability`: layers that are known to lie have to be caught, honest ones acquitted.

use std::{fmt::Write as _, fs, path::PathBuf, process::ExitCode, time::Instant};

use clap::{Args, ValueEnum};
use layermark_lab::{
    LabError, Stop,
    power_cut::{CutLayer, Cuts, PowerCuts, planned, power_cuts},
};
use layermark_layers::{janitor, sandbox, volatile::Lie};
use layermark_model::{
    PlanSequences, Spec, nearest, random,
    witness::{SequenceCut, UnseenCuts, WitnessControl, WitnessTrial, sequence::Basis},
};
use layermark_sys::packages;
use serde_json::json;

use crate::{
    commands::{dir_journal, measure::exe, stdout},
    common_args::JsonArg,
    failure::{Code, Failure},
    say::say,
    signals,
};

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
    /// Cut the power under all sequences of one operation as well, with 2 also under a sample of two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub sequences: Option<u32>,
    /// Seed of the moments and of what survives [default: drawn and printed]
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Layers whose fsync reaches the disk.
const HONEST: [&str; 12] = [
    "native",
    "overlay:upper",
    "loop:ext4",
    "loop:xfs",
    "loop:btrfs",
    "fuse",
    "vm:cache=none",
    "vm:cache=writeback",
    "vm:cache=writethrough",
    "vm:cache=directsync",
    "vm:share=virtiofs",
    "vm:share=9p",
];
/// Layers that skip flushes: their name, the layer, and what is wrong below it.
const LIARS: [(&str, &str, Below); 11] = [
    ("overlay:volatile", "overlay:volatile", Below::Disk),
    (
        "ext4 mounted nobarrier",
        "native",
        Below::Lying(Lie::NoBarrier),
    ),
    (
        "write_cache overridden",
        "native",
        Below::Lying(Lie::WriteThrough),
    ),
    ("FUSE with an empty fsync", "fuse:fsync=drop", Below::Disk),
    (
        "FUSE that flushes 200 ms later",
        "fuse:fsync=late",
        Below::Disk,
    ),
    (
        "FUSE that flushes every 2nd time",
        "fuse:fsync=second",
        Below::Disk,
    ),
    ("FUSE that flushes no size", "fuse:fsync=data", Below::Disk),
    (
        "FUSE that flushes no names",
        "fuse:fsync=files",
        Below::Disk,
    ),
    ("bindfs: directories unsynced", "native", Below::Bindfs),
    ("bindfs: fsync preloaded away", "native", Below::NoSync),
    ("vm:cache=unsafe", "vm:cache=unsafe", Below::Disk),
];

/// What a layer of the selftest stands on.
#[derive(Clone, Copy)]
enum Below {
    /// The disk that is cut.
    Disk,
    /// The same, with something wrong.
    Lying(Lie),
    /// Debian's bindfs, which does not implement fsync of directories.
    Bindfs,
    /// bindfs with an fsync that does nothing (libeatmydata).
    NoSync,
}

impl Below {
    fn lie(self) -> Option<Lie> {
        match self {
            Self::Lying(lie) => Some(lie),
            _ => None,
        }
    }

    /// The command of its file system, if it has one.
    fn server(self) -> Result<Vec<String>, String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        match self {
            Self::Disk | Self::Lying(_) => Ok(Vec::new()),
            Self::Bindfs => Ok(words("bindfs -f")),
            Self::NoSync => {
                let library = no_sync().ok_or_else(|| {
                    let install = packages::sudo_install("eatmydata");
                    format!("it lacks libeatmydata: {install}")
                })?;
                let preload = format!("LD_PRELOAD={}", library.display());
                Ok([vec!["env".into(), preload], words("bindfs -f")].concat())
            }
        }
    }
}

/// The library whose fsync does nothing.
fn no_sync() -> Option<PathBuf> {
    let dirs = fs::read_dir("/usr/lib").ok()?.flatten().map(|e| e.path());
    let mut found = dirs.map(|dir| dir.join("libeatmydata.so"));
    found.find(|path| path.is_file())
}

/// A layer, the known answer, and the result.
struct KnownAnswer {
    name: String,
    expected: WitnessControl,
    trials: Vec<WitnessTrial>,
    sequences: Vec<SequenceCut>,
    seconds: f64,
}

impl KnownAnswer {
    fn sum(&self, of: impl Fn(&WitnessTrial) -> u64) -> u64 {
        self.trials.iter().map(of).max().unwrap_or(0)
    }

    fn uncut(&self) -> Option<&str> {
        self.trials.iter().find_map(|t| t.uncut.as_deref())
    }

    /// Whether the result is as expected; absent where no power was cut, and where nothing was lost but
    /// the layer was not set up again or not judged after each cut, or no power was cut under its sequences.
    fn as_expected(&self) -> Option<bool> {
        let lied = self.trials.iter().any(WitnessTrial::lied)
            || self.sequences.iter().any(SequenceCut::lied);
        let cut = self.uncut().is_none() && self.sum(|t| t.cuts) > 0;
        let mut sequences = self.sequences.iter();
        let all = sequences.all(|s| s.uncut.is_none() && s.cuts > 0);
        let known = cut && (lied || all && self.unrecovered() + self.unjudged() == 0);
        known.then_some(lied == (self.expected == WitnessControl::Liar))
    }

    /// Cuts after which the layer was not set up again.
    fn unrecovered(&self) -> u64 {
        let sequences = self.sequences.iter().map(|s| s.unseen.unrecovered);
        self.sum(|t| t.unseen.unrecovered) + sequences.sum::<u64>()
    }

    /// Cuts that are not judged because this machine failed.
    fn unjudged(&self) -> u64 {
        let sequences = self.sequences.iter().map(|s| s.unseen.unjudged);
        self.sum(|t| t.unseen.unjudged) + sequences.sum::<u64>()
    }

    fn line(&self) -> String {
        let expected = match self.expected {
            WitnessControl::Liar => "lies",
            WitnessControl::Honest => "honest",
        };
        let result = match (self.as_expected(), self.expected) {
            (None, _) if self.unrecovered() > 0 => {
                format!("cannot tell: it was not set up again: {}", self.why_not())
            }
            (None, _) if self.unjudged() > 0 => {
                format!("cannot tell: this machine failed: {}", self.why_not())
            }
            (None, _) => format!("not cut: {}", self.why_not()),
            (Some(true), WitnessControl::Liar) => "caught".into(),
            (Some(true), WitnessControl::Honest) => "acquitted".into(),
            (Some(false), WitnessControl::Liar) => "NOT CAUGHT".into(),
            (Some(false), WitnessControl::Honest) => "CONVICTED".into(),
        };
        let (losing, cuts) = (self.sum(|t| t.losing), self.sum(|t| t.cuts));
        let of = self.sequences.iter().map(|s| s.sequences).sum::<u64>();
        let sequences = if of > 0 {
            let lost: u64 = self.sequences.iter().map(|s| s.losing(Basis::Posix)).sum();
            format!("  {lost} of {of} sequences lost")
        } else {
            String::new()
        };
        format!(
            "{:<32} {expected:<8} {losing:>4} of {cuts:<6} {:>6.1} s  {result}{sequences}",
            self.name, self.seconds
        )
    }

    fn why_not(&self) -> String {
        let writers = self.trials.iter().map(|t| &t.unseen);
        let mut unseen = writers.chain(self.sequences.iter().map(|s| &s.unseen));
        let unseen = unseen.find_map(UnseenCuts::why);
        let mut sequences = self.sequences.iter();
        let uncut = sequences.find_map(|s| s.uncut.as_deref().or(s.left_out_why.as_deref()));
        let why = self.uncut().or(unseen).or(uncut);
        let why = why.unwrap_or("stopped");
        layermark_model::brief(why)
    }
}

pub fn run(args: &SelftestArgs) -> Result<ExitCode, Failure> {
    for only in &args.only {
        if !known().any(|(name, ..)| name == only) {
            return Err(unknown(only));
        }
    }
    let exe = exe()?;
    // Held until the end: when we go, however we go, it removes the work directory.
    let _janitor = janitor::spawn(&exe, dir_journal::open())
        .map_err(|e| Failure::failed(format!("the watcher that cleans up: {e}")))?;
    sandbox::enter()?;
    let stop = Stop::new();
    let _signals = signals::connect(&stop).map_err(|e| Failure::failed(format!("signals: {e}")))?;
    let seed = args.seed.unwrap_or_else(random);
    let sequences = args.sequences.map(|operations| PlanSequences {
        operations,
        sample: PlanSequences::SAMPLE,
        only: Vec::new(),
    });
    let request = PowerCuts {
        dir: args.dir.clone(),
        exe,
        silence: layermark_lab::SILENCE,
        cuts: args.cuts,
        records: args.records,
        seed,
        programs: Vec::new(),
        sequences: sequences.map_or_else(Vec::new, |plan| planned(&plan, seed)),
    };
    let mut all = Vec::new();
    for (name, spec, below, expected) in known() {
        if stop.asked() || !args.only.is_empty() && !args.only.iter().any(|o| o == name) {
            continue;
        }
        let mut spec: Spec = spec
            .parse()
            .map_err(|e| Failure::failed(format!("{spec}: {e}")))?;
        let kind = layermark_layers::find(&spec.layer);
        if kind.is_some_and(|layer| layer.options().iter().any(|o| o.name == "cpus")) {
            // Two emulated CPUs take longer to start than one, and do no more here.
            spec.options.insert("cpus".into(), "1".into());
        }
        let since = Instant::now();
        let cuts = match below.server() {
            Ok(server) => {
                let layer = CutLayer {
                    lie: below.lie(),
                    server,
                    name: name.to_owned(),
                    control: Some(expected),
                    ..CutLayer::new(spec)
                };
                cut(&request, layer, &stop)?
            }
            Err(lacks) => Cuts {
                writers: vec![WitnessTrial {
                    layer: name.to_owned(),
                    uncut: Some(lacks),
                    ..WitnessTrial::default()
                }],
                ..Cuts::default()
            },
        };
        all.push(KnownAnswer {
            name: name.to_owned(),
            expected,
            trials: cuts.writers,
            sequences: cuts.sequences,
            seconds: since.elapsed().as_secs_f64(),
        });
    }
    let wrong = all.iter().any(|k| k.as_expected() == Some(false));
    let proved = |control| {
        all.iter()
            .any(|k| k.expected == control && k.as_expected() == Some(true))
    };
    let both = proved(WitnessControl::Liar) && proved(WitnessControl::Honest);
    stdout::print(&if args.json.json {
        as_json(&all, request.seed)?
    } else {
        table(&all, request.seed)
    })?;
    if stop.asked() {
        return Ok(Code::Stopped.into());
    }
    if wrong {
        return Err(
            Failure::failed("the power cuts did not tell liars from honest layers").hint(format!(
                "please report it with: layermark selftest durability --seed {}",
                request.seed
            )),
        );
    }
    if !both && args.only.is_empty() {
        return Err(Failure {
            message: "no liar, or no honest layer, could be cut here".into(),
            param: None,
            hint: Some("what each layer needs: layermark layers".into()),
            code: Code::Layer,
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// What power cuts do to one layer.
fn cut(request: &PowerCuts, layer: CutLayer, stop: &Stop) -> Result<Cuts, LabError> {
    let mut cuts = Cuts::default();
    power_cuts(request, &[layer], stop, &|text| say(text), &mut |done| {
        cuts = done;
        Ok(())
    })?;
    Ok(cuts)
}

/// No layer of the table has this name.
fn unknown(name: &str) -> Failure {
    let near = nearest(name, known().map(|(name, ..)| name));
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let names: Vec<&str> = known().map(|(name, ..)| name).collect();
    Failure::usage(format!("`--only` = {name}: not a layer of the selftest"))
        .hint(format!("{near}its layers: {}", names.join("; ")))
}

fn known() -> impl Iterator<Item = (&'static str, &'static str, Below, WitnessControl)> {
    let liars = LIARS.map(|(name, spec, below)| (name, spec, below, WitnessControl::Liar));
    let honest = HONEST.map(|spec| (spec, spec, Below::Disk, WitnessControl::Honest));
    liars.into_iter().chain(honest)
}

fn table(all: &[KnownAnswer], seed: u64) -> String {
    let mut text = format!(
        "{:<32} {:<8} {:<14} {:>8}  result\n",
        "layer", "known to", "cuts with loss", "time"
    );
    for known in all {
        let _ = writeln!(text, "{}", known.line());
    }
    text + &format!("seed {seed}\n")
}

fn as_json(all: &[KnownAnswer], seed: u64) -> Result<String, Failure> {
    let rows: Vec<_> = all
        .iter()
        .map(|k| json!({
            "name": k.name, "known": k.expected, "as_expected": k.as_expected(), "seconds": k.seconds, "trials": k.trials,
            "sequences": k.sequences,
        }))
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "schema": "layermark.selftest/1", "seed": seed, "layers": rows,
    }));
    Ok(text.map_err(Failure::failed)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(expected: WitnessControl, losing: u64, unrecovered: u64) -> KnownAnswer {
        let trial = WitnessTrial {
            cuts: 10 - unrecovered,
            losing,
            unseen: UnseenCuts {
                unrecovered,
                unrecovered_why: (unrecovered > 0).then(|| "mount: it is broken".into()),
                ..UnseenCuts::default()
            },
            ..WitnessTrial::default()
        };
        KnownAnswer {
            name: "x".into(),
            expected,
            trials: vec![trial],
            sequences: Vec::new(),
            seconds: 1.0,
        }
    }

    #[test]
    fn a_layer_that_was_not_always_set_up_again_is_not_acquitted() {
        use WitnessControl::{Honest, Liar};
        assert_eq!(known(Honest, 0, 0).as_expected(), Some(true));
        let open = known(Honest, 0, 3);
        assert_eq!(open.as_expected(), None);
        let line = open.line();
        assert!(
            line.contains("cannot tell: it was not set up again: mount: it is broken"),
            "{line}"
        );
        assert!(!line.contains("acquitted"), "{line}");
        let mut open = known(Honest, 0, 0);
        open.trials[0].unseen = UnseenCuts {
            unjudged: 3,
            unjudged_why: Some("no loop device".into()),
            ..UnseenCuts::default()
        };
        assert_eq!(open.as_expected(), None);
        let line = open.line();
        let why = "cannot tell: this machine failed: no loop device";
        assert!(line.contains(why), "{line}");
        assert_eq!(known(Liar, 0, 3).as_expected(), None);
        // What it lost after the other cuts convicts it.
        assert_eq!(known(Liar, 2, 3).as_expected(), Some(true));
        assert_eq!(known(Honest, 2, 3).as_expected(), Some(false));
        assert_eq!(known(Honest, 0, 10).as_expected(), None);
    }

    /// They were asked for, and none was done.
    #[test]
    fn a_layer_whose_sequences_were_not_cut_is_not_acquitted() {
        use WitnessControl::{Honest, Liar};
        let with = |control, losing, sequences| KnownAnswer {
            sequences: vec![sequences],
            ..known(control, losing, 0)
        };
        let cut = SequenceCut {
            sequences: 179,
            cuts: 716,
            ..SequenceCut::default()
        };
        let ended = SequenceCut {
            uncut: Some("after 119 of 179 sequences: the probe ended".into()),
            ..cut.clone()
        };
        let none = SequenceCut::default();
        assert_eq!(with(Honest, 0, cut).as_expected(), Some(true));
        let open = with(Honest, 0, ended.clone());
        assert_eq!(open.as_expected(), None);
        let line = open.line();
        assert!(line.contains("not cut: after 119 of 179"), "{line}");
        assert_eq!(with(Honest, 0, none).as_expected(), None);
        // Its writers lost something.
        assert_eq!(with(Liar, 2, ended).as_expected(), Some(true));
    }
}
