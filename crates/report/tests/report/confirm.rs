//! A plan that names the points it asks a verdict on: the others are described.

use std::path::Path;

use crate::made::Made;
use layermark_report::{Report, Verdict, render};

const RECORDS: [u64; 6] = [4096, 8192, 16384, 32768, 65536, 131_072];
const ASKED: &str = "read 4096 of 1048576 {}";

/// `fuse` takes twice as long everywhere; six blocks.
fn report(confirm: &[&str]) -> Report {
    Made::new(&["native", "fuse"], 6)
        .points("read", &RECORDS, 1 << 20)
        .confirm(confirm)
        .cost(|layer, _, record| {
            let native = 1.0 + 1e-4 * record;
            if layer == "fuse" {
                2.0 * native
            } else {
                native
            }
        })
        .build()
}

fn written(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    let exporter = render::for_path(Path::new(name)).unwrap();
    exporter.write(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_plan_says_which_comparisons_are_decided() {
    let all = report(&[]);
    let fuse = |r: &Report| -> Vec<Verdict> {
        let rows = r.results.iter().filter(|row| row.layer == "fuse");
        rows.map(|row| row.verdict).collect()
    };
    // Signed-rank tests of six blocks could not decide six comparisons whatever they showed.
    assert_eq!(fuse(&all), [Verdict::Slower; 6]);
    assert!(all.trust.iter().all(|t| t.id != "family"));
    let one = report(&[ASKED]);
    let mut expected = [Verdict::Descriptive; 6];
    expected[0] = Verdict::Slower;
    assert_eq!(fuse(&one), expected);
}

#[test]
fn what_is_described_has_its_interval_and_no_word() {
    let report = report(&[ASKED]);
    let rows = report.results.iter().filter(|r| r.layer == "fuse");
    for row in rows.filter(|r| r.label != ASKED) {
        let [low, high] = row.ratio.unwrap().interval.unwrap();
        assert!(low > 1.9 && high < 2.1, "{row:?}");
        assert!(row.p.is_some() && row.p_adjusted.is_none() && row.more_blocks.is_none());
        assert_eq!(row.verdict.word(), "");
    }
    let family = report.trust.iter().find(|t| t.id == "family").unwrap();
    assert!(
        family.text.contains("a verdict on 1 operation") && family.text.contains("the other 5"),
        "{family:?}"
    );
    for name in ["r.txt", "r.html", "r.json", "r.full.md"] {
        // The terminal breaks lines.
        let text = written(&report, name);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("the other 5 have an interval"), "{name}");
        assert!(!text.contains("too noisy to tell at"), "{name}: {text}");
    }
    assert!(written(&report, "r.json").contains("\"verdict\": \"descriptive\""));
    assert!(report.headline.contains("fuse"), "{}", report.headline);
    let said: Vec<&str> = report.verdicts.iter().map(|v| v.text.as_str()).collect();
    assert!(said.len() == 1 && said[0].contains("2.0"), "{said:?}");
}

#[test]
fn a_family_that_was_not_measured_is_no_verdict() {
    let report = report(&["something else"]);
    assert!(report.verdicts.is_empty());
    assert!(
        report.headline.contains("a verdict was asked on"),
        "{}",
        report.headline
    );
}
