//! `layermark selftest durability`: layers that are known to lie have to be caught, honest ones acquitted.

use std::{fmt::Write as _, process::ExitCode, time::Instant};

use layermark_lab::{
    Stop,
    power_cut::{CutLayer, PowerCuts, power_cuts},
};
use layermark_layers::{janitor, sandbox, volatile::Lie};
use layermark_model::{
    Spec, random,
    witness::{WitnessControl, WitnessTrial},
};
use serde_json::json;

use crate::{
    args::SelftestArgs,
    commands::{measure::exe, output},
    failure::{Code, Failure},
    say::say,
    signals,
};

/// Layers whose fsync reaches the disk.
const HONEST: [&str; 8] = [
    "native",
    "overlay:upper",
    "loop:ext4",
    "loop:xfs",
    "loop:btrfs",
    "fuse",
    "vm:cache=none",
    "vm:cache=writeback",
];
/// Layers that skip flushes, and what is wrong below native.
const LIARS: [(&str, Option<Lie>, &str); 5] = [
    ("overlay:volatile", None, "overlay:volatile"),
    ("native", Some(Lie::NoBarrier), "ext4 mounted nobarrier"),
    ("native", Some(Lie::WriteThrough), "write_cache overridden"),
    ("fuse:fsync=drop", None, "FUSE with an empty fsync"),
    ("vm:cache=unsafe", None, "vm:cache=unsafe"),
];

/// A layer, the known answer, and the result.
struct Known {
    name: String,
    expected: WitnessControl,
    trials: Vec<WitnessTrial>,
    seconds: f64,
}

impl Known {
    fn sum(&self, of: impl Fn(&WitnessTrial) -> u64) -> u64 {
        self.trials.iter().map(of).max().unwrap_or(0)
    }

    fn uncut(&self) -> Option<&str> {
        self.trials.iter().find_map(|t| t.uncut.as_deref())
    }

    /// Whether the result is as expected; absent where no power was cut, and where nothing was lost but
    /// the layer was not set up again after each cut.
    fn as_expected(&self) -> Option<bool> {
        let lied = self.trials.iter().any(WitnessTrial::lied);
        let cut = self.uncut().is_none() && self.sum(|t| t.cuts) > 0;
        let known = cut && (lied || self.sum(|t| t.unrecovered) == 0);
        known.then_some(lied == (self.expected == WitnessControl::Liar))
    }

    fn line(&self) -> String {
        let expected = match self.expected {
            WitnessControl::Liar => "lies",
            WitnessControl::Honest => "honest",
        };
        let result = match (self.as_expected(), self.expected) {
            (None, _) if self.sum(|t| t.unrecovered) > 0 => {
                format!("cannot tell: it was not set up again: {}", self.why_not())
            }
            (None, _) => format!("not cut: {}", self.why_not()),
            (Some(true), WitnessControl::Liar) => "caught".into(),
            (Some(true), WitnessControl::Honest) => "acquitted".into(),
            (Some(false), WitnessControl::Liar) => "NOT CAUGHT".into(),
            (Some(false), WitnessControl::Honest) => "CONVICTED".into(),
        };
        let (losing, cuts) = (self.sum(|t| t.losing), self.sum(|t| t.cuts));
        format!(
            "{:<26} {expected:<8} {losing:>4} of {cuts:<6} {:>6.1} s  {result}",
            self.name, self.seconds
        )
    }

    fn why_not(&self) -> String {
        let unrecovered = self
            .trials
            .iter()
            .find_map(|t| t.unrecovered_why.as_deref());
        let why = self.uncut().or(unrecovered).unwrap_or("stopped");
        why.lines().next().unwrap_or_default().to_owned()
    }
}

pub fn run(args: &SelftestArgs) -> Result<ExitCode, Failure> {
    let exe = exe()?;
    // Held until the end: when we go, however we go, it removes the work directory.
    let _janitor = janitor::spawn(&exe)
        .map_err(|e| Failure::failed(format!("the watcher that cleans up: {e}")))?;
    sandbox::enter()?;
    let stop = Stop::new();
    let _signals = signals::connect(&stop).map_err(|e| Failure::failed(format!("signals: {e}")))?;
    let request = PowerCuts {
        dir: args.dir.clone(),
        exe,
        silence: layermark_lab::SILENCE,
        cuts: args.cuts,
        records: args.records,
        seed: args.seed.unwrap_or_else(random),
    };
    let mut all = Vec::new();
    for (spec, lie, name, expected) in known() {
        if stop.asked() || !args.only.is_empty() && !args.only.iter().any(|o| o == name) {
            continue;
        }
        let spec: Spec = spec
            .parse()
            .map_err(|e| Failure::failed(format!("{spec}: {e}")))?;
        let layer = CutLayer {
            lie,
            name: name.to_owned(),
            control: Some(expected),
            ..CutLayer::new(spec)
        };
        let since = Instant::now();
        let trials = power_cuts(&request, &[layer], &stop, &mut |text| say(text))?;
        all.push(Known {
            name: name.to_owned(),
            expected,
            trials,
            seconds: since.elapsed().as_secs_f64(),
        });
    }
    let wrong = all.iter().any(|k| k.as_expected() == Some(false));
    let proved = |control| {
        all.iter()
            .any(|k| k.expected == control && k.as_expected() == Some(true))
    };
    let both = proved(WitnessControl::Liar) && proved(WitnessControl::Honest);
    output::print(&if args.json.json {
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
            hint: Some("what each layer needs: layermark layers".into()),
            code: Code::Layer,
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn known() -> impl Iterator<Item = (&'static str, Option<Lie>, &'static str, WitnessControl)> {
    let liars = LIARS.map(|(spec, lie, name)| (spec, lie, name, WitnessControl::Liar));
    let honest = HONEST.map(|spec| (spec, None, spec, WitnessControl::Honest));
    liars.into_iter().chain(honest)
}

fn table(all: &[Known], seed: u64) -> String {
    let mut text = format!(
        "{:<26} {:<8} {:<14} {:>8}  result\n",
        "layer", "known to", "cuts with loss", "time"
    );
    for known in all {
        let _ = writeln!(text, "{}", known.line());
    }
    text + &format!("seed {seed}\n")
}

fn as_json(all: &[Known], seed: u64) -> Result<String, Failure> {
    let rows: Vec<_> = all
        .iter()
        .map(|k| json!({
            "name": k.name, "known": k.expected, "as_expected": k.as_expected(), "seconds": k.seconds, "trials": k.trials,
        }))
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "schema": "layermark.selftest/1", "seed": seed, "layers": rows,
    }));
    Ok(text.map_err(Failure::failed)? + "\n")
}
