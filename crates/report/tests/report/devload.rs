//! Scripts an hour: their peak, and trials that must not be compared.

use layermark_model::{CpuUse, FigureValue, Point, Trial, Verified};
use layermark_report::{FigureRow, Report, Verdict, render};

use crate::made::Made;

/// Microseconds from the barrier to the last exit, over the number of users.
fn cost(layer: &str, point: &Point, _: f64) -> f64 {
    let seconds = match (layer, point.number("users")) {
        (_, 1) => 1.0,
        (_, 2) => 0.6,
        ("native", _) => 0.75,
        _ => 0.5,
    };
    seconds * 1e6
}

fn scripts(compiler: &str, trial: &mut Trial) {
    trial.cpu = CpuUse {
        user_ns: 900_000_000 * trial.ops(),
        sys_ns: 80_000_000 * trial.ops(),
    };
    trial.figures.set("own_ns", 20_000_000 * trial.ops());
    trial.figures.set("programs.cc", compiler);
    trial.figures.set("programs.sh", "1");
}

/// Figures of a layer, by the number of users.
fn rows<'a>(report: &'a Report, layer: &str) -> Vec<&'a FigureRow> {
    let all = report.figures.iter().flat_map(|g| &g.rows);
    all.filter(|r| r.layer == layer).collect()
}

fn peak(row: &FigureRow) -> &str {
    match row.values.get("peak") {
        Some(FigureValue::Text(text)) => text,
        _ => "",
    }
}

fn made() -> Made {
    Made::new(&["native", "overlay:upper"], 9)
        .scripts(&[1, 2, 4])
        .cost(cost)
        .noise(0.001)
}

fn same_programs() -> Report {
    made().change(|_, _, _, trial| scripts("2", trial)).build()
}

#[test]
fn the_peak_is_where_scripts_an_hour_are_most() {
    let report = same_programs();
    let number = |row: &FigureRow, name: &str| row.number(name).expect("a number");
    let seen = |layer: &str| -> Vec<(f64, f64, String)> {
        let own = rows(&report, layer).into_iter();
        own.map(|r| {
            let hundreds = (number(r, "scripts_per_hour") / 100.0).round();
            (number(r, "users"), hundreds, peak(r).to_owned())
        })
        .collect()
    };
    let none = String::new;
    let native = [
        (1.0, 36.0, none()),
        (2.0, 60.0, "peak".into()),
        (4.0, 48.0, none()),
    ];
    assert_eq!(seen("native"), native);
    let overlay = [
        (1.0, 36.0, none()),
        (2.0, 60.0, none()),
        (4.0, 72.0, "highest; more users may reach more".into()),
    ];
    assert_eq!(seen("overlay:upper"), overlay);
    let native = rows(&report, "native");
    let (one, four) = (native[0], native[2]);
    let close = |row, name, value: f64, by| (number(row, name) - value).abs() < by;
    assert!(close(one, "cpu_in_commands", 0.98, 1e-9), "{one:?}");
    assert!(close(one, "cpu_s", 0.98, 1e-9), "{one:?}");
    assert!(close(one, "seconds", 1.0, 0.01), "{one:?}");
    assert!(close(four, "seconds", 3.0, 0.03), "{four:?}");
    assert_eq!(report.results[0].unit, "scripts/h");
}

#[test]
fn the_table_tells_the_peak_in_words() {
    let section = same_programs().sections();
    let section = section
        .iter()
        .find(|s| s.name == "devload")
        .expect("a section");
    let table = &section.tables[0];
    assert_eq!(table.title, "Scripts an hour: cc, 40 jobs");
    assert!(
        table.note.starts_with("At least 98.0 % of the CPU time"),
        "{}",
        table.note
    );
    let line = |layer: &str, users: &str| -> Vec<&str> {
        let mut rows = table.rows.iter();
        let row = rows.find(|r| r[0].text == format!("`{layer}`") && r[1].text == users);
        row.expect("a row")
            .iter()
            .map(|c| c.text.as_str())
            .collect()
    };
    assert_eq!(line("native", "2")[6], "peak");
    assert_eq!(line("native", "4")[6], "");
    assert_eq!(
        line("overlay:upper", "4")[6],
        "highest; more users may reach more"
    );
    assert!(
        line("overlay:upper", "4")[5].starts_with("1.50x faster"),
        "{:?}",
        line("overlay:upper", "4")
    );
    assert_eq!(section.charts[0].series.len(), 2);
    let exporter = render::for_path("x.full.md".as_ref()).expect("Markdown");
    let mut out = Vec::new();
    exporter.write(&same_programs(), &mut out).expect("text");
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("Scripts an hour: cc, 40 jobs"), "{text}");
}

#[test]
fn a_peak_within_the_noise_is_not_decided() {
    let report = made()
        .noise(0.4)
        .change(|_, _, _, trial| scripts("2", trial))
        .build();
    let native = rows(&report, "native");
    let seen: Vec<&str> = native.iter().map(|r| peak(r)).collect();
    assert_eq!(seen, ["", "highest; not decided against 4 users", ""]);
    let sections = report.sections();
    let section = sections.iter().find(|s| s.name == "devload");
    let words: Vec<&str> = section.expect("a section").tables[0]
        .rows
        .iter()
        .map(|r| r[6].text.as_str())
        .collect();
    assert_eq!(words[1], "highest; not decided against 4 users");
}

#[test]
fn results_of_jobs_are_not_told_as_records_read_back() {
    let right = |_: &str, _: &Point, _: u32, trial: &mut Trial| {
        scripts("2", trial);
        trial.verified = Some(Verified {
            records: 40,
            bad: 0,
        });
    };
    let report = made().change(right).build();
    let verified = report.trust.iter().find(|t| t.id == "verified");
    // 9 blocks of 3 points in 2 layers.
    let wanted = "2160 results of jobs were right";
    assert_eq!(verified.expect("an item").text, wanted);
}

#[test]
fn scripts_ask_for_programs_in_memory() {
    let report = same_programs();
    let cache = report.trust.iter().find(|t| t.id == "cache");
    let text = &cache.expect("an item").text;
    assert!(text.ends_with("in all 54 measurements that ask"), "{text}");
}

#[test]
fn trials_that_ran_other_programs_are_not_compared() {
    let other = |layer: &str, _: &Point, _: u32, trial: &mut Trial| {
        scripts(if layer == "native" { "2" } else { "3" }, trial);
    };
    let report = made().change(other).build();
    for row in report.results.iter().filter(|r| r.layer != "native") {
        assert_eq!(
            (row.ratio, row.verdict),
            (None, Verdict::Untrusted),
            "{row:?}"
        );
        let why = row.untrusted.as_deref().expect("a reason");
        assert_eq!(
            why,
            "not all measurements ran the same programs: the hashes of cc differ"
        );
        assert_eq!((row.blocks, row.effective_n, row.steady), (0, None, None));
    }
    let overlay = rows(&report, "overlay:upper");
    assert!(!overlay.is_empty() && overlay.iter().all(|r| peak(r).is_empty()));
    assert!(
        same_programs()
            .results
            .iter()
            .all(|r| r.untrusted.is_none())
    );
}
