//! Scripts an hour: their peak, and trials that must not be compared.

use layermark_model::{CpuUse, Point, Trial, UserScripts, Verified};
use layermark_report::{Report, Verdict, exporters};

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
    trial.scripts = Some(Box::new(UserScripts {
        own_ns: 20_000_000 * trial.ops(),
        programs: [("cc", compiler), ("sh", "1")]
            .map(|(name, hash)| (name.to_owned(), hash.to_owned()))
            .into(),
        ..UserScripts::default()
    }));
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
    let seen = |layer: &str| -> Vec<(u64, u64, bool, bool)> {
        let own = report.devload.iter().filter(|r| r.layer == layer);
        own.map(|r| {
            (
                r.users,
                (r.scripts_per_hour / 100.0).round() as u64,
                r.highest,
                r.peak,
            )
        })
        .collect()
    };
    let native = [
        (1, 36, false, false),
        (2, 60, true, true),
        (4, 48, false, false),
    ];
    assert_eq!(seen("native"), native);
    let overlay = [
        (1, 36, false, false),
        (2, 60, false, false),
        (4, 72, true, false),
    ];
    assert_eq!(seen("overlay:upper"), overlay);
    let row = &report.devload[0];
    assert!((row.cpu_in_commands - 0.98).abs() < 1e-9, "{row:?}");
    assert!(
        (row.cpu_s - 0.98).abs() < 1e-9 && (row.seconds - 1.0).abs() < 0.01,
        "{row:?}"
    );
    let four = report
        .devload
        .iter()
        .find(|r| r.users == 4)
        .expect("4 users");
    assert!((four.seconds - 3.0).abs() < 0.03, "{four:?}");
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
        line("overlay:upper", "4")[5].starts_with("0.67"),
        "{:?}",
        line("overlay:upper", "4")
    );
    assert_eq!(section.charts[0].series.len(), 2);
    let exporter = exporters::for_path("x.full.md".as_ref()).expect("Markdown");
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
    let native: Vec<_> = report
        .devload
        .iter()
        .filter(|r| r.layer == "native")
        .collect();
    let seen: Vec<_> = native.iter().map(|r| (r.highest, r.peak)).collect();
    assert_eq!(seen, [(false, false), (true, false), (false, false)]);
    assert_eq!(native[1].next_users, Some(4));
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
    assert!(text.ends_with("in all 54 trials that ask"), "{text}");
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
            "not all trials ran the same programs: the hashes of cc differ"
        );
        assert_eq!((row.blocks, row.effective_n, row.steady), (0, None, None));
    }
    let overlay = report.devload.iter().filter(|r| r.layer != "native");
    assert!(overlay.clone().count() > 0 && overlay.clone().all(|r| !r.highest));
    assert!(
        same_programs()
            .results
            .iter()
            .all(|r| r.untrusted.is_none())
    );
}
