//! Several runs against each other: the odd one is named, and what cannot be compared is not.

use layermark_model::{RunStatus, flags};
use layermark_report::{
    DurabilityVerdict, FleetCheck, HostOfCheck, HostWord, ManyRuns, Report, ResultRow, Standing,
    Standings, TrustItem, TrustState, WaitingRow,
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
        said.starts_with("b.lm is the odd one, most at ") && said.contains(" in fuse (+30 %)."),
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
        said.lines().next().unwrap().contains(" natively (+20 %)."),
        "{said}"
    );
}

#[test]
fn alike_and_split_runs_have_no_odd_one() {
    let alike = many(&[run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.0)]);
    assert!(
        text(&alike).starts_with(
            "All 3 runs are alike: each within 5 % of the mean of the others at 6 results."
        ),
        "{}",
        text(&alike)
    );
    let split = many(&[run("1", 1.0, 1.0), run("2", 1.3, 1.0), run("3", 1.7, 1.0)]);
    assert_eq!(standings(&split, "fuse", 0), [Standing::Split; 3]);
    let said = text(&split);
    assert!(
        said.starts_with("None is shown to be the odd one: at 1 of 6 results the runs differ, and no smaller group stands out from the rest."),
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

/// The row of a run at fuse's first point.
fn fuse(report: &mut Report) -> &mut ResultRow {
    let mut rows = report.results.iter_mut();
    rows.find(|r| r.layer == "fuse").expect("a row")
}

fn four() -> [Report; 4] {
    [1, 2, 3, 4].map(|id| run(&id.to_string(), 1.0, 1.0))
}

/// Why each run is not compared at fuse's first point.
fn because(many: &ManyRuns) -> Vec<Option<&str>> {
    let mut rows = many.results.iter().filter(|r| r.layer == "fuse");
    let row = rows.next().expect("a row");
    row.runs.iter().map(|v| v.because.as_deref()).collect()
}

#[test]
fn a_run_that_cannot_be_compared_says_why_and_the_others_are_compared() {
    type Change = fn(&mut ResultRow);
    let changes: [(Change, &str); 5] = [
        (|row| row.block_ratios.truncate(2), "it has too few repeats"),
        (
            |row| row.block_ratios.clear(),
            "the baseline was not measured there",
        ),
        (
            |row| row.steady = Some(false),
            "its ratio changed during the run",
        ),
        (
            |row| row.untrusted = Some("it came from memory".into()),
            "it came from memory",
        ),
        (
            |row| drop(row.point.insert("record".into(), 1.into())),
            "other work of the same name",
        ),
    ];
    for (change, why) in changes {
        // Also the run that is named first.
        for at in 0..4 {
            let mut runs = four();
            change(fuse(&mut runs[at]));
            let many = many(&runs);
            let mut expected = [None; 4];
            expected[at] = Some(why);
            assert_eq!(because(&many), expected);
            assert_eq!(many.runs[at].standings.not_compared, 1);
            let said = text(&many);
            assert!(
                said.starts_with(
                    "All 4 runs are alike: each within 5 % of the mean of the others at 6 results; 1 of these without some runs."
                ),
                "{said}"
            );
        }
    }
}

#[test]
fn where_fewer_than_three_runs_are_left_none_is_compared() {
    let mut runs = [run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.0)];
    fuse(&mut runs[1]).untrusted = Some("it came from memory".into());
    let one = many(&runs);
    let few = Some("fewer than three runs can be compared here");
    assert_eq!(because(&one), [few, Some("it came from memory"), few]);
    assert!(
        text(&one).starts_with(
            "All 3 runs are alike: each within 5 % of the mean of the others at 5 results; 1 more not compared."
        ),
        "{}",
        text(&one)
    );
    for row in &mut runs[1].results {
        row.untrusted = Some("it came from memory".into());
    }
    let none = text(&many(&runs));
    assert!(
        none.starts_with("No answer: the runs are compared at none of 6 results."),
        "{none}"
    );
    assert!(
        none.contains("b.lm: compared at none of 6 results: it came from memory."),
        "{none}"
    );
}

#[test]
fn noise_decides_nothing() {
    let noisy = |id: &str| {
        let made = Made::new(&LAYERS, 12).points("read", &[4096], 1 << 20);
        let mut report = made.noise(0.9).cost(|_, _, _| 10.0).build();
        report.run = id.into();
        report
    };
    let said = text(&many(&[noisy("1"), noisy("2"), noisy("3")]));
    assert!(
        said.starts_with("None is known to be odd: the runs are alike at 0 of 3 results, and the rest does not decide."),
        "{said}"
    );
}

#[test]
fn several_odd_runs_and_faster_ones_are_named() {
    let costs = [1.0, 1.3, 1.0, 1.6, 1.0];
    let runs: Vec<Report> = costs.iter().map(|c| run(&c.to_string(), *c, 1.0)).collect();
    let said = text(&many(&runs));
    assert!(
        said.starts_with("2 runs are odd: b.lm most at ")
            && said.contains(" in fuse (+30 %) and d.lm most at ")
            && said.contains(" in fuse (1.60x)."),
        "{said}"
    );
    let said = text(&many(&[
        run("1", 1.0, 1.0),
        run("2", 0.5, 1.0),
        run("3", 1.0, 1.0),
    ]));
    assert!(
        said.starts_with("b.lm is the odd one, most at ")
            && said.contains(" in fuse (2.0")
            && said.contains("x faster)."),
        "{said}"
    );
}

/// Waiting for a CPU may explain that a run took longer than the others, or that these took longer than it.
#[test]
fn a_run_that_waited_for_a_cpu_is_not_odd() {
    let waiting = WaitingRow {
        share: Some(0.5),
        us: Some(20.0),
        whole_us: 40.0,
        ..WaitingRow::default()
    };
    for (cost, waits, expected) in [
        (1.3, None, Standing::Odd),
        (1.3, Some(1), Standing::Unknown),
        (1.3, Some(0), Standing::Odd),
        (0.7, None, Standing::Odd),
        (0.7, Some(1), Standing::Odd),
        (0.7, Some(0), Standing::Unknown),
    ] {
        let mut runs = [run("1", 1.0, 1.0), run("2", cost, 1.0), run("3", 1.0, 1.0)];
        if let Some(at) = waits {
            fuse(&mut runs[at]).waiting = Some(waiting);
        }
        let many = many(&runs);
        assert_eq!(standings(&many, "fuse", 0)[1], expected, "{cost} {waits:?}");
    }
}

#[test]
fn limits_of_the_runs_are_said() {
    let mut runs = four();
    for trial in &mut runs[0].trials {
        trial.flags.push(flags::CONTAMINATED.into());
    }
    runs[1].status = RunStatus::Stopped;
    runs[2].trust.push(TrustItem {
        id: "verified".into(),
        title: "Data".into(),
        state: TrustState::Warn,
        text: "a record was wrong".into(),
    });
    for trial in &mut runs[3].trials {
        trial.session = trial.block % 3;
    }
    let many = many(&runs);
    assert!(!many.trustworthy());
    let said = text(&many);
    for line in [
        "a.lm had other programs beside it, which disturbed 100 % of the measurements",
        "b.lm is not complete (stopped by the user).",
        "c.lm is not trustworthy: layermark report 3.",
        "layers were set up once in a.lm, b.lm and c.lm: ",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
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

fn check(runs: &[Report; 3]) -> FleetCheck {
    let names = ["n1", "n2", "n3"].into_iter().zip(runs);
    let hosts: Vec<HostOfCheck> = names
        .map(|(name, report)| HostOfCheck {
            name,
            lost: None,
            report: Some(report),
        })
        .collect();
    FleetCheck::of(&hosts, None, 0.05)
}

fn words(found: &FleetCheck) -> Vec<HostWord> {
    found.hosts.iter().map(|host| host.word).collect()
}

/// Two of three hosts had the share, and the third one was called like the others.
#[test]
fn a_host_without_results_that_others_have_is_not_like_them() {
    let mut runs = [run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.0)];
    let alike = check(&runs);
    assert_eq!(words(&alike), [HostWord::Like; 3], "{:?}", alike.hosts);
    runs[2].results.retain(|row| row.layer != "fuse");
    let found = check(&runs);
    assert_eq!(
        words(&found),
        [HostWord::CannotTell; 3],
        "{:?}",
        found.hosts
    );
    let text = "cannot tell: like the others at 4 results; 2 more could not be compared, because it or another host has none";
    assert_eq!(found.hosts[2].text, text);
    assert!(
        found
            .answer
            .starts_with("None of 3 hosts is known to be odd"),
        "{}",
        found.answer
    );
}

/// All hosts were called alike, because only their own disks had results.
#[test]
fn hosts_whose_share_is_full_are_not_alike() {
    let mut runs = [run("1", 1.0, 1.0), run("2", 1.0, 1.0), run("3", 1.0, 1.0)];
    let errors = ["Read-only file system", "No space left on device"];
    for (number, run) in runs.iter_mut().enumerate() {
        for row in run.results.iter_mut().filter(|row| row.layer == "fuse") {
            (row.op_us, row.ratio, row.trials) = (None, None, 0);
            row.error = Some(errors[number.min(1)].into());
        }
    }
    let found = check(&runs);
    assert_eq!(words(&found), [HostWord::CannotTell; 3], "{found:#?}");
    assert!(!found.failed());
    let says = "nothing could be measured on any host at 2 results";
    assert!(found.answer.ends_with(says), "{}", found.answer);
    assert_eq!(found.nothing.len(), 2, "{found:#?}");
    for text in &found.nothing {
        let says = text.starts_with("nothing could be measured on any host at ");
        assert!(
            says && text.ends_with(
                " in `fuse`: No space left on device (2 hosts); Read-only file system (1 host)"
            ),
            "{text}"
        );
    }
    let mut page = Vec::new();
    let style = Style {
        width: 200,
        ..Style::default()
    };
    render::print_fleet_check(&found, style, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("No space left on device"), "{page}");
}
