//! Claims of a plan over made-up runs: what decides them, and what leaves them open.

use layermark_model::{Claim, Point, Trial};
use layermark_report::{Conclusion, Holds, Report, render::Style};

use crate::made::Made;

type Kept = fn(layer: &str, record: u64) -> bool;

const LAYERS: [&str; 3] = ["native", "tmpfs", "fuse"];
const RECORDS: [u64; 10] = [
    512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072, 262_144,
];

/// `tmpfs` and `fuse` take twice as long as native.
fn cost(layer: &str, _: &Point, _: f64) -> f64 {
    if layer == "native" { 10.0 } else { 20.0 }
}

fn later_slower(layer: &str, _: &Point, block: u32, trial: &mut Trial) {
    if layer == "fuse" && block >= 12 {
        trial.passes[0].elapsed_ns *= 3;
    }
}

fn made(layers: &[&str], records: &[u64]) -> Made {
    Made::new(layers, 12)
        .points("read", records, 1 << 20)
        .cost(cost)
        .noise(0.002)
}

/// The conclusions if only some trials are there.
fn conclusions(made: Made, claim: &str, kept: Kept) -> Vec<Conclusion> {
    let claim: Claim = toml::from_str(claim).unwrap_or_else(|e| panic!("{claim}: {e}"));
    let (mut run, mut trials) = made.parts();
    run.plan.claim = vec![claim];
    trials.retain(|t| {
        let (layer, point) = (&run.layers[t.cell.layer], &run.points[t.cell.point]);
        kept(&layer.name, point.number("record"))
    });
    let study = Report::build(&run, &trials).study.expect("claims");
    study.conclusions
}

fn of_fuse(made: Made, claim: &str, kept: Kept) -> Vec<Conclusion> {
    let all = conclusions(made, claim, kept).into_iter();
    all.filter(|c| matches!(c.layer.as_str(), "fuse" | "vm"))
        .collect()
}

/// What a row is about; the run; the claim; its trials; the answer; words that its sentence has, and one
/// that it has not.
type Row = (
    &'static str,
    Made,
    &'static str,
    Kept,
    Holds,
    &'static str,
    &'static str,
);

const ALL: Kept = |_, _| true;

/// Decides a claim of each row.
#[track_caller]
fn decide<const N: usize>(rows: [Row; N]) {
    for (what, made, claim, kept, holds, words, never) in rows {
        let said = of_fuse(made, &format!("says = 'x'\n{claim}"), kept);
        assert_eq!(said.len(), 1, "{what}: {said:#?}");
        let said = &said[0];
        assert_eq!(said.holds, holds, "{what}: {said:#?}");
        assert!(said.text.contains(words), "{what}: {said:#?}");
        assert!(!said.text.contains(never), "{what}: {said:#?}");
    }
}

#[test]
fn a_claim_is_decided_by_all_of_its_points() {
    let one: Kept = |layer, record| layer != "fuse" || record == 512;
    let other: Kept = |layer, record| layer != "native" || record == 512;
    let three = &RECORDS[..3];
    decide([
        (
            "one of ten, all",
            made(&LAYERS, &RECORDS),
            "holds = 'slower'",
            one,
            Holds::Open,
            "not measured: 9 operations",
            "mean",
        ),
        (
            "one of ten, most",
            made(&LAYERS, &RECORDS),
            "holds = 'slower'\nof = 'most'",
            one,
            Holds::Open,
            "not measured: 9 operations",
            "mean",
        ),
        (
            "one of ten, any",
            made(&LAYERS, &RECORDS),
            "holds = 'not slower'\nof = 'any'",
            one,
            Holds::Open,
            "not measured: 9 operations",
            "mean",
        ),
        (
            "native has one",
            made(&LAYERS, three),
            "holds = 'slower'",
            other,
            Holds::Open,
            "not measured: `read 1024 of 1048576 {}` and `read 2048 of",
            "mean",
        ),
    ]);
}

#[test]
fn a_claim_is_decided_by_its_own_comparison() {
    let three = &RECORDS[..3];
    decide([
        (
            "against another layer",
            made(&LAYERS, three),
            "holds = 'same'\nof = 'undisputed'\nlayers = ['fuse']\nagainst = 'tmpfs'\ntext = '{layer}: {verdicts}'",
            ALL,
            Holds::Yes,
            "the same at 3 of 3 operations",
            "slower",
        ),
        (
            "the ratio of that comparison",
            made(&["native", "fuse"], three),
            "holds = 'faster'\nof = 'undisputed'\nlayers = ['fuse']\nagainst = 'native'\ntext = '{layer}: {verdicts}'",
            ALL,
            Holds::No,
            "slower 2.00x at 1K",
            "faster",
        ),
        (
            "an emulated CPU",
            made(&["native", "vm"], three).emulated("vm"),
            "holds = 'not slower'",
            ALL,
            Holds::Open,
            "its CPU is emulated (TCG)",
            "no CPU",
        ),
        (
            "a proof",
            made(&["tmpfs", "fuse"], three),
            "holds = 'flushes'",
            ALL,
            Holds::Open,
            "in `fuse`",
            "native",
        ),
        (
            "no native",
            made(&["tmpfs", "fuse"], three),
            "holds = 'same'",
            ALL,
            Holds::Open,
            "in `fuse`: native was not measured",
            "tmpfs",
        ),
        (
            "no such layer",
            made(&LAYERS, three),
            "holds = 'same'\nagainst = 'vm:share=9p*'",
            ALL,
            Holds::Open,
            "`vm:share=9p*` was not measured",
            "native",
        ),
        (
            "several layers",
            made(&LAYERS, three),
            "holds = 'same'\nagainst = '*'",
            ALL,
            Holds::Open,
            "`*` is each of `native` and `tmpfs`",
            "mean",
        ),
        (
            "itself",
            made(&LAYERS, three),
            "holds = 'same'\nagainst_work = { cache = 'warm' }",
            ALL,
            Holds::Open,
            "without a counterpart: `read 512",
            "mean",
        ),
        (
            "several points",
            made(&LAYERS, three),
            "holds = 'same'\nagainst_work = { record = '<=2K' }",
            ALL,
            Holds::Open,
            "with several counterparts: `read 512",
            "mean",
        ),
    ]);
}

/// Native changes its files in place, so it is not asked. What takes longer elsewhere is not a copy for that.
#[test]
fn a_file_is_changed_in_place_or_that_is_not_known() {
    let said = conclusions(
        made(&LAYERS, &RECORDS[..1]),
        "says = 'x'\nholds = 'in place'",
        ALL,
    );
    let layers: Vec<&str> = said.iter().map(|c| c.layer.as_str()).collect();
    assert_eq!(layers, ["tmpfs", "fuse"]);
    for said in said {
        assert_eq!(said.holds, Holds::Open, "{said:#?}");
        let why = "; nothing shows that the file was copied";
        assert!(said.text.ends_with(why), "{said:#?}");
    }
}

#[test]
fn a_claim_about_layers_that_are_not_there_says_so() {
    let claim = "says = 'x'\nholds = 'same'\nlayers = ['vm:*']";
    let said = conclusions(made(&LAYERS, &RECORDS[..1]), claim, ALL);
    let texts: Vec<&str> = said.iter().map(|c| c.text.as_str()).collect();
    let none = "x: none of its layers was measured";
    assert_eq!(texts, [none]);
}

#[test]
fn a_ratio_is_told_of_the_points_that_have_one() {
    let no_last: Kept = |layer, record| layer != "fuse" || record != 8192;
    let three = &RECORDS[..3];
    let five = &RECORDS[..5];
    decide([
        (
            "a late change",
            Made::change(made(&LAYERS, three).blocks(24), later_slower),
            "holds = 'time <= 9'\nlayers = ['fuse']\nagainst = 'tmpfs'",
            ALL,
            Holds::Open,
            "the ratio changes late in the run",
            "few blocks",
        ),
        (
            "a part of the ratios",
            made(&LAYERS, five),
            "holds = 'time <= 9'",
            no_last,
            Holds::Open,
            "2.00x, at 4 of 5 operations; not measured: `read 8192",
            "mean",
        ),
        (
            "every ratio",
            made(&LAYERS, five),
            "holds = 'time <= 9'",
            ALL,
            Holds::Yes,
            "in the mean",
            "not measured",
        ),
        (
            "two operations",
            made(&LAYERS, five).points("write", three, 1 << 20),
            "holds = 'time <= 9'",
            ALL,
            Holds::Yes,
            "x, at 8 operations",
            "mean",
        ),
    ]);
}

/// The claim is the head of a column: it has the layer's name as the plan writes it.
#[test]
fn what_was_not_measured_names_the_layer_of_the_plan() {
    let claim = "says = 'faster than {against}'\nholds = 'faster'\nagainst = 'tmpfs'\n\
                 layers = ['fuse']\nwork = { label = 'none' }";
    let said = of_fuse(made(&LAYERS, &RECORDS[..1]), claim, |_, _| true);
    assert_eq!(said[0].claim, "faster than tmpfs");
    let wrong = claim.replace("{against}", "{n}");
    let e = toml::from_str::<Claim>(&wrong).expect_err("a figure");
    assert!(e.to_string().contains("`says` cannot have `{n}`"), "{e}");
}

#[test]
fn the_times_that_decide_claims_are_on_the_first_screen() {
    let claim = |n: u64| {
        let text = format!("says = 'costs nothing at {n}'\nholds = 'slower'");
        toml::from_str::<Claim>(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let shown = |claims: u64, points: &[u64]| {
        let (mut run, trials) = made(&LAYERS, points).parts();
        run.plan.claim = (0..claims).map(claim).collect();
        let mut out = Vec::new();
        let report = Report::build(&run, &trials);
        layermark_report::render::print(&report, Style::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = shown(2, &RECORDS[..3]);
    let row = |line: &str| line.matches("2.0x").count() == 2;
    assert_eq!(text.lines().filter(|l| row(l)).count(), 3, "{text}");
    assert!(text.lines().count() <= 40, "{text}");
    let text = shown(24, &RECORDS);
    assert!(!text.lines().any(row), "{text}");
    assert!(text.contains("the times: --full"), "{text}");
}

/// Claims are in words of good: what does not hold is the news.
#[test]
fn what_does_not_hold_is_told_first() {
    let claim = |most: &str| {
        let text = format!("says = 'takes {most} times as long at most'\nholds = 'time <= {most}'");
        toml::from_str(&text).unwrap()
    };
    let cost = |layer: &str, _: &Point, _: f64| if layer == "fuse" { 20.0 } else { 10.0 };
    let (mut run, trials) = made(&LAYERS, &RECORDS[..3]).cost(cost).parts();
    run.plan.claim = vec![claim("9"), claim("1.5")];
    let mut out = Vec::new();
    let report = Report::build(&run, &trials);
    layermark_report::render::print(&report, Style::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let at = |word: &str| text.find(&format!("\n  {word}: ")).expect(&text);
    assert!(at("no") < at("yes"), "{text}");
}
