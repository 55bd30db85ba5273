//! A time, the baseline's time, a ratio and a difference beside each other: by their printed digits, time over
//! the baseline's time is the ratio, and time minus it the difference. In every format, of stored and of
//! random runs.

use layermark_model::{Pass, RunStatus, TrialRecord, Turn};
use layermark_report::{
    Report, Verdict,
    render::{self, Style},
};
use layermark_testkit::{
    fixtures,
    sample::{Sample, launches},
};
use proptest::prelude::*;

/// What a printed number may have been before it was rounded.
#[derive(Debug, Clone, Copy)]
struct Printed {
    low: f64,
    high: f64,
}

impl Printed {
    /// Of a number with a unit of time, in microseconds, or without a unit.
    fn read(text: &str) -> Self {
        let text = text.replace('\u{b5}', "u").replace('\u{2212}', "-");
        let (number, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let number = number.trim_start_matches('+');
        let scale = match unit.split_whitespace().next().unwrap_or("") {
            "ns" => 1e-3,
            "ms" => 1e3,
            "s" => 1e6,
            _ => 1.0,
        };
        let value: f64 = number.trim_end_matches('x').parse().expect(&text);
        let digits = number.trim_end_matches('x');
        let places = digits.split_once('.').map_or(0, |(_, after)| after.len());
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let power = if places > 0 {
            -i32::try_from(places).expect("few")
        } else if value == 0.0 {
            0
        } else {
            i32::try_from(zeros).expect("few")
        };
        // A little more, for the half that is rounded up.
        let half = 0.500_001 * 10f64.powi(power);
        Self {
            low: (value - half) * scale,
            high: (value + half) * scale,
        }
    }

    /// A ratio: `1.40`, `5.7`, `16.2x faster`.
    fn read_ratio(text: &str) -> Self {
        let number = text.split([' ', '[', '(']).next().unwrap_or_default();
        let read = Self::read(number);
        if text.contains("faster") {
            return Self {
                low: 1.0 / read.high,
                high: 1.0 / read.low.max(f64::MIN_POSITIVE),
            };
        }
        read
    }

    fn over(self, other: Self) -> Self {
        Self {
            low: self.low / other.high,
            high: self.high / other.low.max(f64::MIN_POSITIVE),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            low: self.low - other.high,
            high: self.high - other.low,
        }
    }

    fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Checks a line with a time, the baseline's time, a ratio and perhaps a difference.
fn check(what: &str, [time, baseline, ratio, extra]: [&str; 4]) {
    let [time_us, baseline_us] = [time, baseline].map(Printed::read);
    assert!(
        time_us.over(baseline_us).meets(Printed::read_ratio(ratio)),
        "{what}: {time} / {baseline} is not {ratio}"
    );
    assert!(
        extra.is_empty() || time_us.minus(baseline_us).meets(Printed::read(extra)),
        "{what}: {time} - {baseline} is not {extra}"
    );
}

fn exported(report: &Report, format: &str) -> String {
    let mut bytes = Vec::new();
    let exporter = render::ALL.iter().find(|e| e.id() == format);
    let exporter = exporter.expect("a format");
    exporter.write(report, &mut bytes).expect("a file");
    String::from_utf8(bytes).expect("text")
}

/// Columns of a line, which are two blanks apart.
fn columns(line: &str) -> Vec<&str> {
    let all = line.split("  ").map(str::trim);
    all.filter(|c| !c.is_empty()).collect()
}

/// Lines of the table of results and of the levels of launches, as a terminal of any width has them.
fn terminal(report: &Report, width: usize) -> usize {
    let mut out = Vec::new();
    let style = Style {
        width,
        ..Style::default()
    };
    render::print_full(report, style, &mut out).expect("a report");
    let text = String::from_utf8(out).expect("text");
    let with_times = text
        .lines()
        .any(|line| columns(line).contains(&"baseline's"));
    let mut checked = 0;
    for line in text.lines().filter(|l| with_times && l.contains(']')) {
        let cells = columns(line);
        let is_ratio = |c: &&str| c.ends_with(']') && c.contains(" [") && !c.contains('"');
        let Some(at) = cells.iter().position(is_ratio) else {
            continue;
        };
        if at >= 2 && cells.len() > at + 1 && Printed::is_time(cells[at - 1]) {
            let line = [cells[at - 2], cells[at - 1], cells[at], cells[at + 1]];
            check("terminal", line);
            checked += 1;
        }
    }
    checked
}

impl Printed {
    fn is_time(text: &str) -> bool {
        let units = [" ns", " us", " ms", " s"];
        units.iter().any(|unit| text.ends_with(unit))
    }
}

fn markdown(report: &Report) -> usize {
    let text = exported(report, "markdown_full").replace("\\[", "[");
    let mut checked = 0;
    let lines = text.lines();
    let table = lines.skip_while(|l| !l.starts_with("| operation | layer |"));
    for line in table.take_while(|l| l.starts_with('|')).skip(2) {
        // Names may have the sign of a cell, marked.
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let Some(at) = cells.iter().position(|c| c.ends_with(']')) else {
            continue;
        };
        if Printed::is_time(cells[at - 1]) {
            check(
                "markdown",
                [cells[at - 2], cells[at - 1], cells[at], cells[at + 1]],
            );
            checked += 1;
        }
    }
    checked
}

/// Each `<data value="...">text</data>` of a cell, of the typical numbers and of the averages.
fn data(cell: &str) -> Vec<&str> {
    let parts = cell.split("<data value=\"").skip(1);
    parts
        .filter_map(|part| part.split_once('>')?.1.split_once('<'))
        .map(|(text, _)| text)
        .collect()
}

fn html(report: &Report) -> usize {
    let text = exported(report, "html");
    let mut checked = 0;
    for row in text.split("<tr id=\"").skip(1) {
        let row = row.split("</tr>").next().unwrap_or_default();
        let cell = |head: &str| {
            let mut parts = row.split("<td");
            let cell = parts.find(|part| part.contains(&format!("data-head=\"{head}\"")));
            data(cell.unwrap_or_default())
        };
        let heads = ["Time an operation", "Baseline&#39;s", "Ratio", "Difference"];
        let [time, mut baseline, ratio, extra] = heads.map(cell);
        if baseline.is_empty() {
            baseline = cell("Baseline's");
        }
        if !baseline.is_empty() {
            let extra = extra.first().copied().unwrap_or_default();
            check("html", [time[0], baseline[0], ratio[0], extra]);
            checked += 1;
        }
    }
    checked
}

/// Tables besides the results that have a time, the baseline's time and a ratio.
fn sections(report: &Report) -> usize {
    let mut checked = 0;
    let text = exported(report, "csv_sections");
    let mut line: Vec<(String, String)> = Vec::new();
    let mut of = String::new();
    for record in text.lines().skip(1) {
        let cells = unquoted(record);
        let [_, section, table, row, column, shown, _] = &cells[..] else {
            continue;
        };
        let next = format!("{section} {table} {row}");
        if next != of {
            checked += usize::from(section_line(&of, &line));
            (of, line) = (next, Vec::new());
        }
        line.push((column.clone(), shown.clone()));
    }
    checked + usize::from(section_line(&of, &line))
}

fn section_line(of: &str, line: &[(String, String)]) -> bool {
    let cell = |head: &str| {
        let found = line.iter().find(|(column, _)| column == head);
        found.map_or("", |(_, text)| text.as_str())
    };
    let found = [cell("time"), cell("baseline's"), cell("ratio")];
    let whole = found.iter().all(|text| !text.is_empty());
    if whole {
        check(of, [found[0], found[1], found[2], ""]);
    }
    whole
}

/// Cells of a line of CSV.
fn unquoted(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut inside = false;
    for c in line.chars() {
        match c {
            '"' => inside = !inside,
            ',' if !inside => cells.push(String::new()),
            c => cells.last_mut().expect("a cell").push(c),
        }
    }
    cells
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// The numbers in JSON and CSV, and the sentences that have a ratio beside a difference.
fn numbers(report: &Report) -> usize {
    let mut checked = 0;
    for row in &report.results {
        let Some((ratio, native_us)) = row.ratio.zip(row.native_us) else {
            continue;
        };
        let op_us = row.op_us.expect("a time");
        assert!(close(op_us, native_us * ratio.estimate), "{row:?}");
        if let Some(average) = ratio.average {
            let both = row.average_us.zip(row.native_average_us);
            let (here, natively) = both.expect("both averages");
            assert!(close(here, natively * average.estimate), "{row:?}");
        }
        let extra = row.extra_us.expect("a difference").estimate;
        let of = if row.has_stalls() {
            row.average_us.expect("an average") - row.native_average_us.expect("an average")
        } else {
            op_us - native_us
        };
        assert!((extra - of).abs() <= 1e-6 * op_us.max(native_us), "{row:?}");
        if !row.meaning.paced && row.unit != "B/s" {
            let value = row.value.expect("a value");
            let each = row.meaning.under_way() * row.meaning.unit.seconds();
            assert!(close(value, each * 1e6 / op_us), "{row:?}");
        }
        checked += 1;
    }
    for told in report.findings.iter().filter(|f| f.evidence.len() == 1) {
        let row = report.results.iter().find(|r| r.id == told.evidence[0]);
        let row = row.expect("evidence");
        let Some((_, found)) = told.text.rsplit_once(": ") else {
            continue;
        };
        let Some((ratio, extra)) = found.trim_end_matches('.').split_once(", ") else {
            continue;
        };
        let usual = !row.has_stalls() && ratio.contains('x') && Printed::is_time(extra);
        if let Some(us) = row.native_us.filter(|_| usual) {
            let ratio = Printed::read_ratio(ratio);
            let more = Printed {
                low: us * (ratio.low - 1.0),
                high: us * (ratio.high - 1.0),
            };
            assert!(more.meets(Printed::read(extra)), "{}", told.text);
        }
    }
    checked
}

/// "1.4x faster" beside *too noisy*.
fn only_what_is_faster_is_called_so(report: &Report) {
    let rows = report.results.iter();
    for row in rows.filter(|r| r.verdict == Verdict::Undecided && r.probably.is_none()) {
        let line = |text: &str| text.contains(&row.label) && text.contains("too noisy");
        for format in ["markdown_full", "csv_sections"] {
            let text = exported(report, format);
            let bad = text.lines().find(|l| line(l) && l.contains("x faster ["));
            assert_eq!(bad, None);
        }
    }
    for width in [60, 100, 200] {
        let mut out = Vec::new();
        let style = Style {
            width,
            ..Style::default()
        };
        render::print_full(report, style, &mut out).expect("a report");
        let text = String::from_utf8(out).expect("text");
        let bad = |l: &&str| l.contains("x faster [") && l.contains("too noisy");
        assert_eq!(text.lines().find(bad), None);
    }
}

fn all_agree(report: &Report) -> [usize; 4] {
    let with = numbers(report);
    let found = [
        with,
        terminal(report, 200),
        markdown(report),
        sections(report),
    ];
    terminal(report, 100);
    html(report);
    only_what_is_faster_is_called_so(report);
    found
}

#[test]
fn what_stands_beside_a_ratio_agrees_with_it_in_every_stored_run() {
    let mut all = [0; 4];
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        if kept.run.status == RunStatus::Running {
            continue;
        }
        let report = Report::build(&kept.run, &kept.trials);
        let found = all_agree(&report);
        for (all, found) in all.iter_mut().zip(found) {
            *all += found;
        }
    }
    // None of the formats has only lines that this test does not understand.
    assert!(
        all[0] > 300 && all[1] > 300 && all[2] > 300 && all[3] > 0,
        "{all:?}"
    );
}

/// A program that starts in one time, and then in another.
#[test]
fn levels_of_launches_have_the_time_of_their_ratio() {
    let (run, trials) = launches(&[600.0; 12]);
    let report = Report::build(&run, &trials);
    all_agree(&report);
    let level = &report.series[0].levels[0];
    let row = &report.results[0];
    assert!(close(level.typical_ms * 1e3, row.op_us.unwrap()));
    let text = exported(&report, "terminal");
    assert!(text.contains("  time ") && !text.contains("median") && !text.contains("  mean "));
}

/// Trials of turns: `slow` of a hundred turns in the layer, and `natively` of native's, take `stall` times as
/// long, at places drawn from `seed`.
fn random(seed: u64, ratio: f64, noise: f64, slow: [u64; 2], stall: f64) -> Report {
    let sample = Sample {
        layers: vec!["fuse"],
        points: vec!["open and stat", "random write, fsync each"],
        blocks: 9,
        control: false,
        ..Sample::default()
    };
    let (run, mut trials) = sample.build();
    let mut state = seed;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    for TrialRecord { cell, trial, .. } in &mut trials {
        let trial = trial.as_mut().expect("a trial");
        let (usual, often) = match cell.layer {
            0 => (100.0, slow[1]),
            _ => (100.0 * ratio, slow[0]),
        };
        let turn = |round| {
            let stalled = if draw() * 100.0 < often as f64 {
                stall
            } else {
                1.0
            };
            let us = usual * stalled * (1.0 + noise * (draw() - 0.5));
            Turn {
                round,
                elapsed_ns: (us * 4e3) as u64,
                ops: 4,
                bytes: 4 * 4096,
                ..Turn::default()
            }
        };
        trial.turns = (0..20).map(turn).collect();
        trial.passes = vec![Pass {
            elapsed_ns: trial.turns.iter().map(|t| t.elapsed_ns).sum(),
            ops: 80,
            bytes: 80 * 4096,
            ..Pass::default()
        }];
    }
    Report::build(&run, &trials)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_stands_beside_a_ratio_agrees_with_it_in_random_runs(
        seed: u64, ratio in 0.2..8.0_f64, noise in 0.0..1.5_f64,
        slow in 0..40u64, natively in 0..40u64, stall in 1.0..60.0_f64,
    ) {
        let report = random(seed, ratio, noise, [slow, natively], stall);
        let found = all_agree(&report);
        prop_assert!(found[0] > 0 && found[1] >= found[0] && found[2] >= found[0]);
    }
}

/// A share of 15 ms beside 2.9 natively was 3.5x, and its average 5.5x without a sign.
#[test]
fn typical_and_average_have_a_line_each_where_they_differ() {
    let report = random(7, 3.5, 0.1, [8, 0], 20.0);
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "fuse")
        .expect("a row");
    let ratio = row.ratio.expect("a ratio");
    assert!((3.3..3.7).contains(&ratio.estimate), "{ratio:?}");
    assert!(ratio.average.is_some_and(|a| a.estimate > 6.0), "{ratio:?}");
    let text = exported(&report, "terminal");
    let line = text
        .lines()
        .find(|l| l.trim_start().starts_with("on average "));
    let cells = columns(line.expect("a second line"));
    check("average", [cells[1], cells[2], cells[3], cells[4]]);
    assert!(Printed::read_ratio(cells[3]).low > 6.0, "{cells:?}");
    let even = random(7, 3.5, 0.1, [0, 0], 20.0);
    assert!(!exported(&even, "terminal").contains("on average"));
}

/// An old time without its stalls stood beside a ratio of whole trials.
#[test]
fn times_of_two_runs_have_their_ratio() {
    for seed in 0..20 {
        let [old, new] = [0, 1].map(|n| random(2 * seed + n, 2.0, 0.3, [8, 8], 40.0));
        let both = new.compare(&old, 0.05).expect("points in common");
        let rows = both.results.iter().filter(|r| r.layer == "native");
        for row in rows {
            let (us, was) = (row.op_us.unwrap(), row.old_us.unwrap());
            let ratio = row.ratio.unwrap().estimate;
            assert!((us / was / ratio - 1.0).abs() < 1e-9, "{row:#?}");
            // With the stalls it is 400 us.
            assert!((60.0..170.0).contains(&was), "{was}");
        }
    }
}
