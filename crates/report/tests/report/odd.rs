//! Several runs against each other: the odd one is named, and what cannot be compared is not.

use layermark_report::{
    DurabilityVerdict, ManyRuns, Report, Standing, Standings,
    render::{self, Style},
};
use serde_json::Value;

use crate::made::Made;

const LAYERS: [&str; 3] = ["native", "fuse", "bind"];

/// A run in which fuse takes `fuse` times as long at its first point, on a machine that takes `machine` times as long.
fn run(id: &str, fuse: f64, machine: f64) -> Report {
    let made = Made::new(&LAYERS, 12)
        .points("read", &[4096, 65536], 1 << 20)
        .noise(0.01);
    let made = made.cost(move |layer, point, _| {
        let odd = layer == "fuse" && point.number("record") == 4096;
        let own = if layer == "fuse" { 30.0 } else { 10.0 };
        machine * own * if odd { fuse } else { 1.0 }
    });
    let mut report = made.build();
    report.run = id.into();
    report
}

fn many(runs: &[Report]) -> ManyRuns {
    let names = ["a.lm", "b.lm", "c.lm", "d.lm", "e.lm"];
    let runs: Vec<(&str, &Report)> = names.into_iter().zip(runs).collect();
    ManyRuns::of(&runs, 0.05).expect("points in common")
}

fn text(many: &ManyRuns) -> String {
    let mut out = Vec::new();
    let style = Style {
        width: 200,
        ..Style::default()
    };
    render::print_odd(many, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn standings(many: &ManyRuns, layer: &str, at: usize) -> Vec<Standing> {
    let mut rows = many.results.iter().filter(|r| r.layer == layer);
    let row = rows.nth(at).expect("a point");
    row.runs.iter().map(|value| value.standing).collect()
}

#[test]
fn the_odd_run_is_named_with_its_point_and_its_layer() {
    use Standing::{Like, Odd};
    let many = many(&[run("1", 1.0, 1.0), run("2", 1.3, 1.0), run("3", 1.0, 1.0)]);
    assert_eq!(standings(&many, "fuse", 0), [Like, Odd, Like]);
    assert_eq!(standings(&many, "fuse", 1), [Like; 3]);
    assert_eq!(many.results.len(), 6, "the control is none");
    let ratio = many
        .results
        .iter()
        .find(|r| r.layer == "fuse")
        .unwrap()
        .runs[1]
        .ratio;
    let ratio = ratio.expect("compared");
    assert!((ratio.estimate - 1.3).abs() < 0.02, "{ratio:?}");
    let said = text(&many);
    assert!(
        said.starts_with("b.lm is the odd one, most at ") && said.contains(" in fuse by +30 %."),
        "{said}"
    );
    assert!(said.contains("a.lm: like the others at all 6."), "{said}");
    assert!(said.contains("b.lm: odd at "), "{said}");
    assert!(said.contains("; like the others at 5 of 6."), "{said}");
    assert!(said.contains("1.30x odd"), "{said}");
    let counts = Standings {
        like: 5,
        odd: 1,
        ..Standings::default()
    };
    assert_eq!(many.runs[1].standings, counts);
}

/// A machine that is slower makes no layer slower, and is odd itself.
#[test]
fn a_slower_machine_is_odd_natively_and_not_in_its_layers() {
    use Standing::{Like, Odd};
    let many = many(&[run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.2)]);
    assert_eq!(standings(&many, "native", 0), [Like, Like, Odd]);
    for at in 0..2 {
        assert_eq!(standings(&many, "fuse", at), [Like; 3]);
    }
    let said = text(&many);
    assert!(said.starts_with("c.lm is the odd one, most at "), "{said}");
    assert!(
        said.lines().next().unwrap().contains(" natively by +20 %"),
        "{said}"
    );
}

#[test]
fn alike_and_split_runs_have_no_odd_one() {
    let alike = many(&[run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.0)]);
    assert!(
        text(&alike)
            .starts_with("All 3 runs are alike: each within 5 % of the others at 6 results."),
        "{}",
        text(&alike)
    );
    let split = many(&[run("1", 1.0, 1.0), run("2", 1.3, 1.0), run("3", 1.7, 1.0)]);
    assert_eq!(standings(&split, "fuse", 0), [Standing::Split; 3]);
    let said = text(&split);
    assert!(
        said.starts_with("None is shown to be the odd one: at 1 of 6 results the runs differ"),
        "{said}"
    );
    assert!(said.contains("the runs differ at 1 of 6"), "{said}");
}

#[test]
fn what_is_not_like_for_like_is_not_compared_and_said() {
    let mut runs = [1, 2, 3, 4].map(|id| run(&id.to_string(), 1.0, 1.0));
    // Of the fourth run, one result is not trusted, and another one of other work.
    let fuse: Vec<usize> = (0..runs[3].results.len())
        .filter(|at| runs[3].results[*at].layer == "fuse")
        .collect();
    runs[3].results[fuse[0]].untrusted = Some("it came from memory".into());
    runs[3].results[fuse[1]]
        .point
        .insert("record".into(), Value::from(1));
    // The third run skips flushes that the others keep.
    let bind = runs[0]
        .results
        .iter()
        .position(|r| r.layer == "bind")
        .unwrap();
    for (at, run) in runs.iter_mut().enumerate() {
        run.results[bind].durability.verdict = if at == 2 {
            DurabilityVerdict::Absorbed
        } else {
            DurabilityVerdict::Honoured
        };
    }
    runs[1].machine.kernel = "6.99".into();
    runs[1].machine.label = Some("build-7".into());
    let many = many(&runs);
    let because = |layer: &str, at: usize, run: usize| {
        let mut rows = many.results.iter().filter(|r| r.layer == layer);
        let value = &rows.nth(at).unwrap().runs[run];
        assert_eq!(value.standing, Standing::NotCompared);
        assert!(value.ratio.is_none() && value.p_adjusted.is_none());
        value.because.clone().unwrap()
    };
    assert_eq!(because("fuse", 0, 3), "it came from memory");
    assert_eq!(because("fuse", 1, 3), "other work of the same name");
    assert!(because("bind", 0, 2).contains("do not wait for the disk"));
    assert_eq!(many.runs[3].standings.not_compared, 2);
    let said = text(&many);
    assert!(
        said.contains("d.lm: like the others at all 4; not compared at 2."),
        "{said}"
    );
    assert!(
        said.contains("flushes do not wait for the disk in c.lm,"),
        "{said}"
    );
    assert!(said.contains("kernel: "), "{said}");
    assert!(said.contains("b.lm (build-7): like the others"), "{said}");
    assert!(said.contains("; 6.99 in b.lm."), "{said}");
}

#[test]
fn without_three_runs_of_a_point_there_is_no_answer() {
    let one = run("1", 1.0, 1.0);
    let two = run("2", 1.0, 1.0);
    let mut three = run("3", 1.0, 1.0);
    for row in &mut three.results {
        row.layer = format!("other-{}", row.layer);
    }
    let runs = [("a", &one), ("b", &two), ("c", &three)];
    assert!(ManyRuns::of(&runs, 0.05).is_none());
    assert!(ManyRuns::of(&[], 0.05).is_none());
}

/// Without a common baseline times are compared, and that is said.
#[test]
fn runs_of_other_baselines_are_compared_by_their_times() {
    let mut runs = [run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.2)];
    for layer in &mut runs[2].layers {
        layer.baseline = false;
    }
    let many = many(&runs);
    assert_eq!(many.baseline, None);
    assert_eq!(standings(&many, "fuse", 1)[2], Standing::Odd);
    let said = text(&many);
    assert!(
        said.contains("not all runs have the same baseline"),
        "{said}"
    );
}

#[test]
fn the_json_keeps_to_its_schema() {
    let schema = layermark_report::odd_schema();
    let many = many(&[run("1", 1.0, 1.0), run("2", 1.3, 1.0), run("3", 1.0, 1.0)]);
    let json = serde_json::to_value(&many).unwrap();
    assert!(jsonschema::is_valid(&schema, &json), "{json:#}");
    assert!(!jsonschema::is_valid(&schema, &serde_json::json!({})));
}
