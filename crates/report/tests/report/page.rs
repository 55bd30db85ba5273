//! The page: one file, no script, every number in its table is in the JSON.

use std::collections::{BTreeSet, HashSet};

use layermark_report::{Report, ResultRow, TrialRow, render};
use layermark_testkit::sample::{
    self,
    matrix::{IOZONE, Matrix, doubling},
};
use serde_json::Value;

fn full() -> (Report, String) {
    let (run, trials) = sample::full().build();
    let report = Report::build(&run, &trials);
    let mut out = Vec::new();
    render::for_path("x.html".as_ref())
        .unwrap()
        .write(&report, &mut out)
        .unwrap();
    (report, String::from_utf8(out).unwrap())
}

fn page(report: &Report) -> String {
    let mut out = Vec::new();
    render::for_path("x.html".as_ref())
        .unwrap()
        .write(report, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

/// Values of an attribute, in order.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(&start)
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(value, _)| value))
        .collect()
}

fn numbers(value: &Value, into: &mut HashSet<u64>) {
    match value {
        Value::Number(n) => {
            into.insert(n.as_f64().unwrap().to_bits());
        }
        Value::Array(items) => items.iter().for_each(|v| numbers(v, into)),
        Value::Object(map) => map.values().for_each(|v| numbers(v, into)),
        _ => {}
    }
}

#[test]
fn every_number_in_the_table_is_in_the_json() {
    let (report, html) = full();
    let mut known = HashSet::new();
    numbers(&serde_json::to_value(&report).unwrap(), &mut known);
    let table = html
        .split_once("<table class=\"results\">")
        .unwrap()
        .1
        .split_once("</table>")
        .unwrap()
        .0;
    let shown: Vec<&str> = table
        .split("<data value=\"")
        .skip(1)
        .map(|t| t.split_once('"').unwrap().0)
        .collect();
    assert!(shown.len() > 300, "{}", shown.len());
    for text in shown {
        let value: f64 = text.parse().unwrap();
        assert!(
            known.contains(&value.to_bits()),
            "{text} is not in the JSON"
        );
    }
}

#[test]
fn percentiles_stand_with_their_intervals() {
    let (report, html) = full();
    let row = report.results.iter().find(|r| r.latency_us.is_some());
    let row = row.unwrap();
    let found = row.latency_us.unwrap();
    let line = html
        .split_once(&format!("<tr id=\"{}\">", row.id))
        .unwrap()
        .1;
    let line = line.split_once("</tr>").unwrap().0;
    let tail = line.split_once("data-head=\"p99\">").unwrap().1;
    assert!(tail.starts_with(&format!("<data value=\"{}\">", found.p99.unwrap())));
    let span = tail.split_once("<span class=\"span\">").unwrap().1;
    let span = span.split_once("</span>").unwrap().0;
    assert!(span.contains(" to "), "{span}");
    let [low, high] = found.p99_interval.unwrap();
    assert!(low <= high && low < found.p99.unwrap() * 1.01);
}

#[test]
fn the_matrix_comes_first_and_each_cell_says_its_ratio_in_words() {
    let report = sample::card();
    let html = page(&report);
    let (before, rest) = html.split_once("<table class=\"heat\">").unwrap();
    let first = before.split_once("</h1>").unwrap().1;
    let (trust, first) = first.split_once("</p>").unwrap();
    assert!(
        trust.starts_with("<p class=\"believe ok\">")
            && trust.contains("7 checks passed, no warning"),
        "{trust}"
    );
    assert!(
        !first.contains("<h2") && !first.contains("<p"),
        "only the mark of trust is between headline and matrix: {first}"
    );
    let table = rest.split_once("</table>").unwrap().0;
    let cells: Vec<&str> = table.split("<td").skip(1).collect();
    // With native's column, for times and throughput.
    assert_eq!(cells.len(), report.points().len() * 11);
    assert_eq!(first.matches("type=\"radio\" name=\"unit\"").count(), 3);
    for class in ["r", "t", "v"] {
        let span = format!("<span class=\"{class}\">");
        assert_eq!(table.matches(&span).count(), cells.len(), "{class}");
    }
    assert_eq!(
        table.matches(" base\" data-head=\"native\"").count(),
        report.points().len()
    );
    for row in report.results.iter().filter(|r| r.layer == "fuse") {
        let link = format!("href=\"#{}\" title=\"", row.id);
        let cell = cells.iter().find(|c| c.contains(&link)).unwrap();
        let times = format!("slower: {} times native's time, ", ratio(row));
        assert!(cell.contains(&times), "{times}: {cell}");
    }
    assert!(table.contains("<th scope=\"row\">open and stat</th>"));
    assert!(table.contains("container:<wbr>podman,<wbr>userns=auto"));
    let words = table.matches("class=\"unseen\"").count();
    assert_eq!(words, cells.len());
}

fn ratio(row: &ResultRow) -> String {
    let ratio = row.ratio.unwrap().estimate;
    if ratio < 9.995 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.1}")
    }
}

#[test]
fn many_points_are_cut_to_those_with_the_largest_differences() {
    let (run, trials) = Matrix::default().build();
    let html = page(&Report::build(&run, &trials));
    let table = html.split_once("<table class=\"heat\">").unwrap().1;
    let table = table.split_once("</table>").unwrap().0;
    assert_eq!(table.matches("<th scope=\"row\">").count(), 20);
    assert!(table.contains("more operations: <a href=\"#results\">"));
}

#[test]
fn the_page_asks_for_nothing() {
    let (_, html) = full();
    assert!(
        html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"")
    );
    for bad in [
        "<script",
        "<link",
        "<img",
        "<iframe",
        "@import",
        "url(http",
        "javascript:",
        " on",
        "src=\"http",
        "href=\"http",
    ] {
        let found = if bad == " on" {
            attributes(&html, "onload").len() + attributes(&html, "onclick").len()
        } else {
            html.matches(bad).count()
        };
        assert_eq!(found, 0, "{bad}");
    }
    assert_eq!(html.matches("<h1").count(), 1);
}

#[test]
fn ids_are_unique_and_links_lead_somewhere() {
    let (_, html) = full();
    let ids = attributes(&html, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for attribute in ["aria-labelledby", "aria-describedby"] {
        for id in attributes(&html, attribute) {
            assert!(unique.contains(id), "{attribute} {id}");
        }
    }
    for link in attributes(&html, "href") {
        assert!(unique.contains(link.trim_start_matches('#')), "{link}");
    }
    for clip in html
        .split("url(#")
        .skip(1)
        .map(|t| t.split_once(')').unwrap().0)
    {
        assert!(unique.contains(clip), "{clip}");
    }
}

#[test]
fn each_chart_has_a_name_and_its_data() {
    let (report, html) = full();
    let charts = html.matches("class=\"chart\"").count();
    assert_eq!(
        charts,
        2 * report.points().len() + 1,
        "a forest and the latency of each operation, one family of sizes, and nothing drifts"
    );
    assert_eq!(html.matches("<figure>").count(), charts);
    for figure in html.split("<figure>").skip(1) {
        let figure = figure.split_once("</figure>").unwrap().0;
        assert!(
            figure.contains("role=\"img\"")
                && figure.contains("<title id=")
                && figure.contains("<desc id=")
        );
        assert!(figure.contains("<tbody><tr>"), "its data table has lines");
        assert!(
            !figure.contains("#000000")
                && !figure.contains("\"black\"")
                && !figure.contains("\"white\""),
            "colours follow the page"
        );
    }
}

#[test]
fn without_two_record_sizes_there_is_no_such_chart() {
    let (run, trials) = sample::Sample::default().build();
    let mut out = Vec::new();
    render::for_path("x.html".as_ref())
        .unwrap()
        .write(&Report::build(&run, &trials), &mut out)
        .unwrap();
    let html = String::from_utf8(out).unwrap();
    assert!(
        !html.contains("Throughput over record size")
            && html.contains("Latency of single operations")
    );
}

#[test]
fn a_matrix_is_a_table_for_each_test_and_layer() {
    let (run, trials) = Matrix {
        blocks: 14,
        ..Matrix::default()
    }
    .build();
    let report = Report::build(&run, &trials);
    let html = page(&report);
    assert_eq!(html.matches("class=\"small heat\"").count(), 4 * 3);
    assert!(html.contains("<td class=\"num s") && html.contains("<td class=\"num v5\""));
    assert!(html.contains("As a surface"));
    for row in &report.results {
        assert!(html.contains(&format!("id=\"{}\"", row.id)), "{}", row.id);
    }
}

/// Where a ratio is shown, so is that the average is another one.
#[test]
fn a_cell_with_stalls_is_marked_in_heat_maps_and_charts() {
    let (run, trials) = Matrix {
        blocks: 14,
        ..Matrix::default()
    }
    .build();
    let mut report = Report::build(&run, &trials);
    let shown = |report: &Report| {
        let html = page(report);
        let count = |what: &str| html.matches(what).count();
        (
            html.split("<span class=\"span\">")
                .skip(1)
                .filter(|t| t.split_once("</span>").unwrap().0.ends_with("x^"))
                .count(),
            count("^</td>"),
            count("marked ^ in the table"),
        )
    };
    let none = shown(&report);
    assert_eq!((none.0, none.2), (0, 0));
    let layers = &report.layers;
    let is_compared = |r: &ResultRow| {
        !layers
            .iter()
            .any(|l| l.name == r.layer && (l.baseline || l.control))
    };
    let at = report
        .results
        .iter()
        .position(|r| r.ratio.is_some() && is_compared(r));
    let row = &mut report.results[at.expect("a ratio")];
    row.flag_counts.insert("stalls".into(), row.trials);
    let marked = shown(&report);
    assert_eq!(marked.0, 1, "one cell of the heat map");
    assert_eq!(marked.2, 1, "the description of its chart");
    assert!(marked.1 > none.1, "the table of its chart");
}

#[test]
fn a_very_large_matrix_stays_small_enough_to_open() {
    let (run, trials) = Matrix {
        works: IOZONE.to_vec(),
        files: doubling(64 << 10, 512 << 20),
        records: doubling(4 << 10, 16 << 20),
        layers: vec!["fuse", "loop:xfs"],
        blocks: 1,
    }
    .build();
    let mut report = Report::build(&run, &trials);
    assert_eq!(report.results.len(), 3 * 1_638);
    let one = report.trials[0].clone();
    report.trials = (0..30_000)
        .map(|seq| TrialRow {
            seq,
            block: seq as u32 / 5_000,
            ..one.clone()
        })
        .collect();
    let html = page(&report);
    assert!(html.len() < 10 << 20, "{} bytes", html.len());
    let ids = attributes(&html, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for row in &report.results {
        assert!(unique.contains(row.id.as_str()), "{} is somewhere", row.id);
    }
    for link in attributes(&html, "href") {
        assert!(
            !link.starts_with('#') || unique.contains(&link[1..]),
            "{link}"
        );
    }
    assert!(html.contains("The first 4000 of 30000"));
}
