//! `layermark compare`: a run against an older one, or each of several runs against the others.

use std::{path::Path, process::ExitCode};

use clap::Args;
use layermark_model::StoreOption;
use layermark_report::{ImportComparison, ManyRuns, Report, TrustState, render};

use super::{complete, gate, output, stdout, stored, target};
use crate::{
    common_args::{GateArgs, OutArgs, share},
    failure::{Code, Failure},
};

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The older run: its id or the beginning of it, `last~1`, `#12`, a file x.lm or a report in x.json, or the id of an import
    #[arg(add = complete::reports())]
    pub old: String,
    /// The newer run, likewise [default: last]
    #[arg(add = complete::reports())]
    pub new: Option<String>,
    /// More runs, likewise: then each is compared with the others, and the odd one is named
    #[arg(add = complete::reports())]
    pub more: Vec<String>,
    #[command(flatten)]
    pub gates: GateArgs,
    /// Refuse to compare runs of unlike machines or kernels
    #[arg(long)]
    pub same_machine: bool,
    /// Changes below this do not matter: 5% [default: that of the newest run]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub delta: Option<f64>,
    #[command(flatten)]
    pub out: OutArgs,
}

/// Formats that can show a comparison of two runs. The others show one run.
pub const FORMATS: [&str; 6] = ["html", "json", "markdown", "junit", "csv", "terminal"];

/// Prints and writes the comparison of two runs; the exit code is 1 where a gate has failed.
pub fn runs(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if !args.more.is_empty() {
        return many(args);
    }
    let gates = gate::read(&args.gates)?;
    let targets = target::targets(&args.out)?;
    if let Some(other) = targets.iter().find(|t| !FORMATS.contains(&t.format())) {
        let text = format!(
            "-o: two runs have no report in the format {}",
            other.format()
        );
        return Err(
            Failure::usage(text).hint("-o x.html, x.json, x.md, x.junit.xml, x.csv or x.txt")
        );
    }
    if let Some(both) = imports(args) {
        return two_imports(&both, args, targets.is_empty());
    }
    let mut store = stored::Opened::new(args.out.store.store.as_deref());
    let mut report = |name: &str| report(name, &mut store);
    let (old, new) = (report(&args.old)?, report(newer(args))?);
    if old.run == new.run && args.new.is_none() {
        let text = format!("`{}` is the last run itself, {}", args.old, old.run);
        return Err(
            Failure::usage(text).hint(format!("layermark compare last~1 last{}", new.store))
        );
    }
    let delta = args.delta.unwrap_or(new.delta);
    let mut report = of_two(&old, &new, delta)?;
    if args.same_machine {
        same_machine(&report)?;
    }
    report.reproduce.command = command(args, &store.option());
    report.check_gates(&gates)?;
    report.hold_to(&gates, args.gates.fail_undecided);
    output::deliver(&report, None, &targets, args.out.stdout(), false)?;
    let gates = gate::outcome(&report);
    // As for a run: a gate cannot pass on untrusted figures.
    if !old.trustworthy() || !new.trustworthy() {
        return Ok(Code::Untrusted.into());
    }
    Ok(gates.unwrap_or(ExitCode::SUCCESS))
}

/// Compares each of several runs with the others, and prints which one is odd.
fn many(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let one_way = [
        (!args.gates.fail_if.is_empty(), "--fail-if"),
        (args.gates.fail_undecided, "--fail-undecided"),
        (args.same_machine, "--same-machine"),
        (!args.out.output.is_empty(), "-o"),
    ];
    let names = all_names(args);
    if let Some((_, flag)) = one_way.iter().find(|(given, _)| *given) {
        let text = format!("{flag} is for two runs: several are printed as text or --json");
        let hint = format!("layermark compare {} --json", shell_words::join(&names));
        return Err(Failure::usage(text).hint(hint));
    }
    let mut store = stored::Opened::new(args.out.store.store.as_deref());
    let reports: Vec<Report> = names
        .iter()
        .map(|name| report(name, &mut store))
        .collect::<Result<_, _>>()?;
    for (at, one) in reports.iter().enumerate() {
        if let Some(first) = reports[..at].iter().position(|other| other.run == one.run) {
            let (first, again) = (names[first], names[at]);
            let text = format!("`{first}` and `{again}` are one run, {}", one.run);
            return Err(Failure::usage(text).hint("name each run once: layermark history"));
        }
    }
    let runs: Vec<(&str, &Report)> = names.iter().copied().zip(&reports).collect();
    let newest = reports.iter().max_by(|a, b| a.started.cmp(&b.started));
    let delta = args.delta.or(newest.map(|run| run.delta));
    let many = ManyRuns::of(&runs, delta.unwrap_or_default()).ok_or_else(|| {
        Failure::usage("no point of a layer is in three of these runs")
            .hint("make the others with the plan of one of them: layermark run --replay RUN")
    })?;
    let mut text = Vec::new();
    if args.out.json.json {
        serde_json::to_writer_pretty(&mut text, &many).map_err(Failure::failed)?;
        text.push(b'\n');
    } else {
        let style = output::style(render::Unit::Ratio);
        render::print_odd(&many, style, &mut text).map_err(Failure::failed)?;
    }
    stdout::write(&text)?;
    if many.trustworthy() {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(Code::Untrusted.into())
    }
}

/// All runs as they are named.
fn all_names(args: &CompareArgs) -> Vec<&str> {
    let more = args.more.iter().map(String::as_str);
    [args.old.as_str(), newer(args)]
        .into_iter()
        .chain(more)
        .collect()
}

/// Both imports, if both names are of imports.
fn imports(args: &CompareArgs) -> Option<ImportComparison> {
    // `last` is a run, and a file is a report.
    let of_import = |name: &&str| !name.contains(['.', '/', '#', '~']) && *name != "last";
    let (old, new) = (args.old.as_str(), args.new.as_deref()?);
    let both = Some((old, new)).filter(|(old, new)| of_import(old) && of_import(new));
    let (old, new) = both?;
    // What is wrong with the store is told where the runs are looked for.
    let mut store = stored::read_store(args.out.store.store.as_deref()).ok()?;
    let (old, new) = (store.load_import(old).ok()?, store.load_import(new).ok()?);
    Some(ImportComparison::of(&old, &new))
}

/// Prints two imports next to each other. They have no verdict, so no gate can hold.
fn two_imports(
    both: &ImportComparison,
    args: &CompareArgs,
    no_file: bool,
) -> Result<ExitCode, Failure> {
    let gated = !args.gates.fail_if.is_empty() || args.same_machine;
    if gated || !no_file {
        let text = "two imports are printed as text or --json: they have no verdict for a gate, no machine, and no report for -o";
        return Err(Failure::usage(text).hint("layermark compare OLD NEW --json"));
    }
    if args.out.json.json {
        let text = serde_json::to_string_pretty(both).map_err(Failure::failed)?;
        stdout::print(&(text + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = Vec::new();
    render::print_imports(both, output::style(render::Unit::Ratio), &mut text)
        .map_err(Failure::failed)?;
    stdout::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The newer run, as it is named.
fn newer(args: &CompareArgs) -> &str {
    args.new.as_deref().unwrap_or("last")
}

/// Compares a run with an older one.
pub fn of_two(old: &Report, new: &Report, delta: f64) -> Result<Report, Failure> {
    let both = new.compare(old, delta);
    both.ok_or_else(|| nothing_in_common(old, new))
}

/// The report of a run in the store or in a file of its own, or one read from a JSON file.
fn report(name: &str, store: &mut stored::Opened) -> Result<Report, Failure> {
    // No run id contains `.` or `/`, so a file in the current directory cannot hide a run.
    if name.contains(['.', '/']) && !layermark_store::is_archive(Path::new(name)) {
        return from_file(name);
    }
    let kept = store.find(name)?;
    Ok(stored::build(&kept.run, &kept.trials))
}

fn from_file(path: &str) -> Result<Report, Failure> {
    let refused = |why: String| {
        Failure::usage(why)
            .hint("name a run of layermark history, or a file that this writes: layermark report RUN -o x.lm")
    };
    let text = layermark_import::read_text(Path::new(path)).map_err(|e| refused(e.to_string()))?;
    if text.trim().is_empty() {
        return Err(refused(format!("{path}: the file is empty")));
    }
    Report::from_json(text.as_bytes()).map_err(|why| refused(format!("{path}: {why}")))
}

fn nothing_in_common(old: &Report, new: &Report) -> Failure {
    /// How many points of each run are named.
    const NAMED: usize = 3;
    let has = |report: &Report| {
        let layers = report.layers.iter().filter(|l| !l.control);
        let layers: Vec<&str> = layers.map(|l| l.name.as_str()).collect();
        let points: Vec<String> = report.points().iter().map(|p| format!("\"{p}\"")).collect();
        let measured = match points.len() {
            0 => "nothing".into(),
            n if n > NAMED => format!("{} and {} more", points[..NAMED].join(", "), n - NAMED),
            _ => points.join(", "),
        };
        format!("run {} has {measured} in {}", report.run, layers.join(", "))
    };
    Failure::usage(format!(
        "the two runs have no point in common: {}; {}",
        has(old),
        has(new)
    ))
    .hint(format!(
        "make the newer one with the older one's plan: layermark run --replay {}{}",
        shell_words::quote(&old.run),
        old.store
    ))
}

/// Refuses to compare runs of unlike machines or kernels.
fn same_machine(report: &Report) -> Result<(), Failure> {
    let unlike = report
        .trust
        .iter()
        .filter(|t| ["machine", "kernel"].contains(&&*t.id) && t.state == TrustState::Warn);
    let unlike: Vec<&str> = unlike.map(|t| t.text.as_str()).collect();
    if unlike.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the runs are of unlike machines: {}",
        unlike.join("; ")
    ))
    .hint("compare them all the same: leave out --same-machine"))
}

/// The command line of this comparison, for the report.
fn command(args: &CompareArgs, store: &StoreOption) -> String {
    let mut words = vec![args.old.clone(), newer(args).to_owned()];
    if let Some(delta) = args.delta {
        words.extend(["--delta".to_owned(), delta.to_string()]);
    }
    format!("layermark compare {}{store}", shell_words::join(words))
}
