//! Figures of README and docs that come from a stored file: a file of `benches/results`, or a run that is kept. They are filled
//! in by `UPDATE_STORED=1 cargo test -p layermark-report --test report docs_figures`, and compared without it.

use std::{fmt::Write, fs, path::PathBuf};

use layermark_report::thousands;
use layermark_testkit::fixtures::fixture;
use serde_json::Value;

/// A figure in a page, between two texts.
struct Quoted {
    page: &'static str,
    before: &'static str,
    after: &'static str,
    /// The figure as it has to be written.
    figure: fn() -> String,
}

const QUOTED: &[Quoted] = &[
    Quoted {
        page: "README.md",
        before: "| CPU of a timed and recorded 4 KiB `pread` over a bare loop of system calls in C | ",
        after: " |\n",
        figure: || {
            let [own, fio] = own_and_fio(4096);
            format!("{own:.2}x (fio's `psync` engine: {fio:.1}x)")
        },
    },
    Quoted {
        page: "README.md",
        before: "| the same at 32 bytes | ",
        after: " |\n",
        figure: || {
            let [own, fio] = own_and_fio(32);
            format!("{own:.2}x (fio: {fio:.1}x)")
        },
    },
    Quoted {
        page: "README.md",
        before: "| start to first trial, five layers | ",
        after: " |\n",
        figure: || format!("{:.2} s", result("footprint", "seconds from start")),
    },
    Quoted {
        page: "README.md",
        before: "| peak memory of the lab, of a probe | ",
        after: " |\n",
        figure: || {
            let [lab, probe] = ["peak memory of the lab", "peak memory of the largest probe"]
                .map(|what| result("footprint", what));
            format!("{lab:.0} MiB, {probe:.0} MiB")
        },
    },
    Quoted {
        page: "README.md",
        before: "| the binary | ",
        after: " |\n",
        figure: || format!("{:.1} MB", result("footprint", "size of the binary")),
    },
    Quoted {
        page: "docs/src/method.md",
        before: "In a run that is kept for the tests, `overlay:volatile` has ",
        after: ": *absorbed*",
        figure: absorbed,
    },
    Quoted {
        page: "docs/src/accuracy.md",
        before: RESULTS,
        after: "<!-- end of results -->",
        figure: all_results,
    },
];

/// The line before the table of all results.
const RESULTS: &str = "<!-- results: filled in by UPDATE_STORED=1 cargo test -p layermark-report --test report docs_figures -->\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn results(name: &str) -> Value {
    let path = root().join(format!("benches/results/{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn claims(of: &Value) -> &[Value] {
    of["claims"].as_array().expect("claims")
}

/// The value of the claim that begins so.
fn result(name: &str, what: &str) -> f64 {
    let file = results(name);
    let mut found = claims(&file)
        .iter()
        .filter(|c| c["what"].as_str().is_some_and(|w| w.starts_with(what)));
    let claim = found
        .next()
        .unwrap_or_else(|| panic!("{name}.json has no `{what}`"));
    assert!(
        found.next().is_none(),
        "`{what}` is not the only one in {name}.json"
    );
    claim["value"].as_f64().expect("a number")
}

/// What a recorded `pread` of so many bytes costs here and in fio, over a C loop.
fn own_and_fio(bytes: u32) -> [f64; 2] {
    [
        format!("CPU of a recorded pread of {bytes} B"),
        format!("the same for fio's psync engine at {bytes} B"),
    ]
    .map(|what| result("overhead", &what))
}

/// The device's flushes, and the flushes that were requested, at the commits of `flush-cost`.
fn absorbed() -> String {
    let kept = fixture("flush-cost").read();
    let place = |all: Vec<&str>, name: &str| all.iter().position(|n| *n == name).expect(name);
    let layer = place(
        kept.run.layers.iter().map(|l| l.name.as_str()).collect(),
        "overlay:volatile",
    );
    let point = place(
        kept.run.points.iter().map(|p| p.label.as_str()).collect(),
        "commit, wal, 1000 rows",
    );
    let trials = kept
        .trials
        .iter()
        .filter(|t| (t.cell.layer, t.cell.point) == (layer, point));
    let trials: Vec<_> = trials.filter_map(|t| t.trial.as_ref()).collect();
    let syncs: u64 = trials.iter().map(|t| t.syncs).sum();
    let flushes: u64 = trials
        .iter()
        .map(|t| t.device.expect("counted").flushes)
        .sum();
    format!(
        "{flushes} flushes for {} syncs\n(`{}`)",
        thousands(syncs as f64),
        kept.command
    )
}

/// A number with four digits that count, and at most three behind the point.
fn short(x: f64) -> String {
    if x.fract() == 0.0 {
        return format!("{x:.0}");
    }
    let behind = (3.0 - x.abs().log10().floor()).clamp(0.0, 3.0) as usize;
    format!("{x:.behind$}")
}

/// A limit, and whether it is held, as `layermark-bench` decides it.
fn limit(claim: &Value, value: f64) -> String {
    let Some(limit) = claim["at_most"].as_f64() else {
        return String::new();
    };
    let low = claim["interval"][0].as_f64().unwrap_or(value);
    let held = if value <= limit {
        ""
    } else if low <= limit {
        ": open"
    } else {
        ": not held"
    };
    let text = short(limit);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{held}")
}

/// The table of all files in `benches/results`.
fn all_results() -> String {
    let dir = fs::read_dir(root().join("benches/results")).expect("results");
    let names = dir.filter_map(|f| f.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter_map(|n| Some(n.strip_suffix(".json")?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    let mut table =
        "| `layermark-bench` | what | measured | limit |\n| --- | --- | --- | --- |\n".to_owned();
    for name in names {
        let file = results(&name);
        for (at, claim) in claims(&file).iter().enumerate() {
            let command = if at == 0 {
                format!("`{name}`")
            } else {
                String::new()
            };
            let value = claim["value"].as_f64().expect("a number");
            let ends = [0, 1].map(|end| claim["interval"][end].as_f64().map(short));
            let interval = match ends {
                [Some(low), Some(high)] => format!(" [{low}, {high}]"),
                _ => String::new(),
            };
            let what = claim["what"].as_str().expect("a text");
            assert!(!what.contains('|'), "{what}");
            let (value, limit) = (short(value), limit(claim, value));
            writeln!(
                table,
                "| {command} | {what} | {value}{interval} | {limit} |"
            )
            .expect("a string");
        }
    }
    table.replace("|  |", "| |")
}

#[test]
fn figures_are_those_of_the_stored_files() {
    let update = std::env::var_os("UPDATE_STORED").is_some();
    let mut stale = String::new();
    for Quoted {
        page,
        before,
        after,
        figure,
    } in QUOTED
    {
        let path = root().join(page);
        let text = fs::read_to_string(&path).expect("a page");
        let mut parts = text.split(before);
        let (Some(head), Some(rest), None) = (parts.next(), parts.next(), parts.next()) else {
            panic!("{page} does not have once: {before}");
        };
        let (now, tail) = rest
            .split_once(after)
            .unwrap_or_else(|| panic!("{page}: no `{after}`"));
        let figure = figure();
        if now == figure {
            continue;
        }
        if update {
            fs::write(&path, format!("{head}{before}{figure}{after}{tail}")).expect("a page");
        } else {
            writeln!(
                stale,
                "{page}: {before}\n  has {now}\n  and the file {figure}"
            )
            .expect("a string");
        }
    }
    assert!(stale.is_empty(), "UPDATE_STORED=1 fills them in:\n{stale}");
}

#[test]
fn numbers_are_written_short() {
    let written = [0.0, 0.047_66, 1.0462, 24.119, 141.83, 1234.5, -0.2889].map(short);
    assert_eq!(
        written,
        ["0", "0.048", "1.046", "24.12", "141.8", "1234", "-0.289"]
    );
    assert_eq!(
        [7.0, 9573.0, 361_452.0, 1_000_000.0].map(thousands),
        ["7", "9,573", "361,452", "1,000,000"]
    );
    let of = |value: f64, low: f64, at_most: f64| {
        let claim = serde_json::json!({"at_most": at_most, "interval": [low, 9.0]});
        limit(&claim, value)
    };
    assert_eq!(
        [
            of(1.0, 0.9, 1.05),
            of(1.06, 1.04, 1.05),
            of(1.07, 1.06, 0.099_999_999_999_9)
        ],
        ["1.05", "1.05: open", "0.1: not held"]
    );
}
