//! `layermark history`: the runs and imports made so far.

pub mod trend;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use jiff::{Timestamp, tz::TimeZone};
use layermark_model::{Run, RunStatus, TrialRecord, plain};
use layermark_report::{TALLY_RULES, Tally, render};
use layermark_store::{Filter, ImportSummary, Store, Summary};
use serde_json::{Value, json};

use super::{
    stdout, stored,
    target::{Target, target},
};
use trend::Trend;

use crate::{
    common_args::{JsonArg, LONGEST_LABEL, StoreArg},
    failure::Failure,
    say::say,
};

/// Default of `--limit`: for the list, and for a trend.
const LISTED: u32 = 20;
const OF_A_TREND: u32 = 100;

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Only runs of this plan
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
    /// Only runs with this layer, at either end of a path, with any variant and options unless some are named
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<layermark_model::Spec>,
    /// Only runs of this host: one of a fleet's, or the machine with this --label
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
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

/// Prints the newest runs first.
pub fn show(args: &HistoryArgs) -> Result<ExitCode, Failure> {
    let mut store = stored::read_store(args.store.store.as_deref())?;
    let usual = if args.trend.is_some() {
        OF_A_TREND
    } else {
        LISTED
    };
    let limit = args.limit.unwrap_or(usual) as usize;
    let runs = store.list(Filter {
        plan: args.plan.clone(),
        layer: args.layer.clone(),
        host: args.host.clone(),
        since_ms: args.since,
        limit,
    })?;
    if let Some([point, layer]) = args.trend.as_deref() {
        let page = page(args)?;
        let trend = trend::of(&mut store, &runs, point, layer)?;
        return tell(&trend, page, args);
    }
    let by_name = args.plan.is_some() || args.host.is_some();
    let filtered = by_name || args.layer.is_some() || args.since.is_some();
    // An import has neither a plan nor layers of ours.
    let imports = if filtered {
        Vec::new()
    } else {
        store.list_imports(limit)?
    };
    let tallies = tallies(&mut store, &runs);
    let runs: Vec<(Summary, Option<Tally>)> = runs.into_iter().zip(tallies).collect();
    if args.json.json {
        let all = json!({
            "schema": "layermark.history/1",
            "runs": runs.iter().map(run_json).collect::<Vec<_>>(),
            "imports": imports.iter().map(import_json).collect::<Vec<_>>(),
        });
        stdout::print(&json_text(&all)?)?;
    } else if runs.is_empty() && imports.is_empty() {
        let what = if filtered {
            "no such run"
        } else {
            "no runs yet"
        };
        let hint = if filtered {
            "layermark history"
        } else {
            "layermark run"
        };
        say(format!("{what}\nhint: {hint}{}", store.option()));
    } else {
        stdout::print(&table(&runs, &imports))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the figure goes, if that is a page.
fn page(args: &HistoryArgs) -> Result<Option<Target>, Failure> {
    let Some(path) = &args.output else {
        return Ok(None);
    };
    let page = target(path, args.force)?;
    if page.format() != "html" {
        let text = format!(
            "-o {}: a figure over runs is written as a page only",
            path.display()
        );
        return Err(Failure::usage(text).hint("-o trend.html, or --json"));
    }
    Ok(Some(page))
}

/// Prints a trend, or writes its page.
fn tell(trend: &Trend, page: Option<Target>, args: &HistoryArgs) -> Result<ExitCode, Failure> {
    if let Some(page) = page {
        let bytes = render::trend_page(&trend.drawn());
        let written = page.fill(&|out| Ok(out.open("")?.write_all(&bytes)?))?;
        for path in written {
            say(format!("page: {}", path.display()));
        }
    } else if args.json.json {
        stdout::print(&json_text(&trend.json())?)?;
    } else {
        stdout::print(&trend.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json_text(value: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    Ok(text + "\n")
}

/// The tallies of the verdicts of these runs; `None` for a run that has none or cannot be read.
pub fn tallies(store: &mut Store, runs: &[Summary]) -> Vec<Option<Tally>> {
    // A store without kept tallies has no table of them.
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    let kept = store.tallies(TALLY_RULES, &ids).unwrap_or_default();
    let mut tally = |run: &Summary| {
        let known = kept.get(&(run.id.clone(), run.trials));
        let known = known.and_then(|text| serde_json::from_str(text).ok());
        // Another user of the store may have written it.
        let known = known.map(|tally: Tally| Tally {
            headline: tally.headline.map(|text| plain(&text).into_owned()),
            ..tally
        });
        let tally = known.or_else(|| {
            let (run, trials) = stored::load(store, &run.id).ok()?;
            Some(Tally::of(&run, &trials))
        });
        tally.filter(|tally: &Tally| tally.asked > 0)
    };
    runs.iter().map(&mut tally).collect()
}

/// Keeps the tally of a run that has ended, which takes all its trials to count, and its headline. Without it lists are
/// slower.
pub fn keep_tally(store: &mut Store, run: &Run, trials: &[TrialRecord], headline: &str) {
    let key = (run.id.clone(), trials.len() as u64);
    let tally = Tally {
        headline: Some(plain_words(headline)),
        ..Tally::of(run, trials)
    };
    if let Ok(text) = serde_json::to_string(&tally) {
        let _ = store.keep_tallies(TALLY_RULES, &[(key, text)]);
    }
}

/// A headline without the marks of names.
fn plain_words(headline: &str) -> String {
    headline.replace('`', "")
}

fn run_json((run, tally): &(Summary, Option<Tally>)) -> Value {
    let headline = tally.as_ref().and_then(|t| t.headline.clone());
    let verdicts = tally.as_ref().map(|t| {
        json!({ "asked": t.asked, "decided": t.decided(), "same": t.same, "slower": t.slower, "faster": t.faster })
    });
    json!({
        "run": run.id, "number": run.number, "plan": run.name, "label": run.label, "hosts": run.hosts, "started_ms": run.started_ms, "ended_ms": run.ended_ms,
        "status": run.status, "layers": run.layers, "points": run.points, "trials": run.trials, "verdicts": verdicts,
        "headline": headline,
    })
}

fn import_json(i: &ImportSummary) -> Value {
    json!({
        "import": i.id, "imported_ms": i.imported_ms, "file": i.file, "tool": i.tool, "points": i.points,
    })
}

fn table(runs: &[(Summary, Option<Tally>)], imports: &[ImportSummary]) -> String {
    let mut text = String::new();
    if !runs.is_empty() {
        let labels = labels(runs.iter().map(|(run, _)| run.label.as_deref()));
        let head = format!(
            "{:>4}  {:<26}  {:<16}  {:<11}  {:<16}  {}{:<37}  layers\n",
            "#",
            "run",
            "started",
            "status",
            "plan",
            labels("label"),
            "verdicts"
        );
        text += &head;
        let lines = runs.iter();
        text.extend(lines.map(|(run, tally)| line(run, tally.as_ref(), &labels)));
    }
    if !imports.is_empty() {
        let gap = if runs.is_empty() { "" } else { "\n" };
        let head = format!(
            "{gap}{:<26}  {:<16}  {:<18}  {:>6}  file\n",
            "import", "imported", "tool", "points"
        );
        text += &head;
        text.extend(imports.iter().map(import_line));
    }
    text
}

fn import_line(import: &ImportSummary) -> String {
    let (id, tool, points, file) = (&import.id, &import.tool, import.points, &import.file);
    let imported = time(import.imported_ms);
    format!("{id:<26}  {imported:<16}  {tool:<18}  {points:>6}  {file}\n")
}

/// A time in this machine's time zone.
pub fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| ms.to_string(),
        |t| {
            t.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        },
    )
}

/// The column of the labels of machines, which is left out if no run has one. A cell of it is made from its text.
fn labels<'a>(all: impl Iterator<Item = Option<&'a str>>) -> impl Fn(&str) -> String {
    let widest = all.flatten().map(|label| label.chars().count()).max();
    let width = widest.map(|widest| widest.clamp("label".len(), LONGEST_LABEL));
    move |text| {
        // Others may have written the store: a label is one line, and no longer than `--label` takes.
        let text = text.replace(char::is_control, " ");
        let text: String = text.chars().take(LONGEST_LABEL).collect();
        width.map_or_else(String::new, |width| format!("{text:<width$}  "))
    }
}

fn line(run: &Summary, tally: Option<&Tally>, labels: &impl Fn(&str) -> String) -> String {
    let started = time(run.started_ms);
    let status = status(run.status);
    let (number, id, plan, layers) = (run.number, &run.id, &run.name, run.layers.join(" "));
    let verdicts = tally.map_or_else(|| "-".into(), verdicts);
    let label = labels(run.label.as_deref().unwrap_or("-"));
    let line = format!(
        "{number:>4}  {id:<26}  {started:<16}  {status:<11}  {plan:<16}  {label}{verdicts:<37}  {layers}\n"
    );
    match tally.and_then(|t| t.headline.as_ref()) {
        Some(headline) => format!("{line}{:6}{headline}\n", ""),
        None => line,
    }
}

/// The state of a run, in one word.
pub fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Done => "done",
        RunStatus::Stopped => "stopped",
        RunStatus::Failed => "failed",
    }
}

/// A tally in words: `9/12: 5 slower, 4 same`.
pub fn verdicts(tally: &Tally) -> String {
    let counts = [
        (tally.slower, "slower"),
        (tally.faster, "faster"),
        (tally.same, "same"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = counts.map(|(n, word)| format!("{n} {word}")).collect();
    let joint = if words.is_empty() { "" } else { ": " };
    format!(
        "{}/{}{joint}{}",
        tally.decided(),
        tally.asked,
        words.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_have_labels_have_a_column() {
        let run = |label: Option<&str>| {
            let run = Summary {
                id: "01A".into(),
                number: 1,
                name: "card".into(),
                label: label.map(str::to_owned),
                hosts: Vec::new(),
                started_ms: 0,
                ended_ms: None,
                status: RunStatus::Done,
                layers: vec!["native".into()],
                points: 1,
                trials: 1,
            };
            (run, None)
        };
        let unnamed = table(&[run(None), run(None)], &[]);
        assert!(!unnamed.contains("label"), "{unnamed}");
        let named = table(&[run(Some("build-7 in the cellar")), run(None)], &[]);
        let lines: Vec<&str> = named.lines().collect();
        let at = |line: usize, word: &str| lines[line].find(word).expect(word);
        let column = at(0, "label");
        assert_eq!(at(1, "build-7 in the cellar"), column, "{named}");
        assert_eq!(&lines[2][column..=column], "-", "{named}");
        assert_eq!(
            [at(0, "layers"), at(1, "native")],
            [at(2, "native"); 2],
            "{named}"
        );
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
