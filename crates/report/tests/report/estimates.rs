//! Estimates that contain a time of another place: the interval has what is not known of that time, and where the
//! operation was measured as well, the report says how far the estimate is from it.

use layermark_model::{
    AddedTime, CacheState, GuestFacts, Latency, Meaning, Run, Target, TrialRecord, Verified,
};
use layermark_report::{
    EstimateCheck, EstimateVerdict, Report, ResultRow, Verdict,
    render::{self, Style},
};
use layermark_testkit::sample::Sample;

const LAYER: &str = "overlay:upper";
const COMMAND: &str = "git status";
/// Native's time, ns an operation. Of the estimate's, this much was added.
const NATIVE: f64 = 1e6;
const ADDED: u64 = 800_000;

/// A run in which the layer takes so many times native's time, in the command and in its estimate. Blocks differ by
/// `noise`.
fn run(command: f64, estimate: f64, noise: f64, added: AddedTime) -> (Run, Vec<TrialRecord>) {
    let sample = Sample {
        layers: vec![LAYER],
        points: vec!["open and stat", "large read, warm"],
        blocks: 9,
        control: false,
        ..Sample::default()
    };
    let (mut run, mut trials) = sample.build();
    let said = Meaning {
        operation: COMMAND.into(),
        target: Target::Step,
        ..Meaning::default()
    };
    run.points[0].meaning = said.clone();
    run.points[1].meaning = Meaning {
        added: Some(added),
        estimates: Some(COMMAND.into()),
        ..said
    };
    for record in &mut trials {
        let ratio = match (record.cell.layer, record.cell.point) {
            (0, _) => 1.0,
            (_, 0) => command,
            _ => estimate,
        };
        // The layer is off by it in one direction, then in the other.
        let off = match (record.cell.layer, record.cell.block % 3) {
            (0, _) | (_, 0) => 0.0,
            (_, 1) => noise,
            _ => -noise,
        };
        let trial = record.trial.as_mut().unwrap();
        trial.latency = None::<Latency>;
        trial.passes[0].ops = 100;
        trial.passes[0].elapsed_ns = (100.0 * NATIVE * ratio * (1.0 + off)) as u64;
        record.flags.clear();
    }
    (run, trials)
}

fn report(command: f64, estimate: f64, noise: f64, spread_ns: u64) -> Report {
    let added = AddedTime {
        ns: ADDED,
        spread_ns,
        between: true,
    };
    let (run, trials) = run(command, estimate, noise, added);
    Report::build(&run, &trials)
}

fn estimated(report: &Report) -> &ResultRow {
    let mut rows = report.results.iter();
    rows.find(|r| r.layer == LAYER && r.meaning.estimates.is_some())
        .expect("the estimate")
}

fn only(report: &Report) -> &EstimateCheck {
    assert_eq!(
        report.estimate_checks.len(),
        1,
        "{:?}",
        report.estimate_checks
    );
    &report.estimate_checks[0]
}

#[test]
fn an_interval_has_what_is_not_known_of_the_added_time() {
    let row = |spread: u64| estimated(&report(1.5, 1.5, 0.0, spread)).clone();
    let exact = row(0).ratio.unwrap();
    assert!((exact.estimate - 1.5).abs() < 1e-6, "{exact:?}");
    let [low, high] = exact.interval.unwrap();
    assert!(high - low < 1e-6, "no noise: {exact:?}");
    // 0.2 ms of calls natively and 0.7 ms in the layer, with 0.6 to 1.0 ms: 1.7 / 1.2 to 1.3 / 0.8.
    let wide = row(200_000);
    let ratio = wide.ratio.unwrap();
    let [low, high] = ratio.interval.unwrap();
    assert!((ratio.estimate - 1.5).abs() < 1e-6, "{ratio:?}");
    assert!(
        (low - 1.7 / 1.2).abs() < 1e-6 && (high - 1.3 / 0.8).abs() < 1e-6,
        "{ratio:?}"
    );
    // The layer takes 0.5 ms more, however long the program computes, and is slower.
    let (a, b) = (row(0).extra_us.unwrap(), wide.extra_us.unwrap());
    assert_eq!(
        (a.estimate.to_bits(), a.interval),
        (b.estimate.to_bits(), b.interval)
    );
    assert_eq!(wide.verdict, Verdict::Slower);
    let average = ratio.average.unwrap().interval.unwrap();
    assert!(
        (average[1] - 1.3 / 0.8).abs() < 1e-6,
        "the average's too: {average:?}"
    );
}

#[test]
fn a_measured_time_has_no_added_one() {
    let report = report(1.5, 1.5, 0.0, 500_000);
    let own = report
        .results
        .iter()
        .find(|r| r.layer == LAYER && r.meaning.estimates.is_none());
    let [low, high] = own.unwrap().ratio.unwrap().interval.unwrap();
    assert!(high - low < 1e-6, "{low} {high}");
}

/// The words are those of the difference's interval, and the numbers those of the data.
#[test]
fn an_estimate_explains_the_program_or_is_said_not_to() {
    for (command, estimate, noise, spread, verdict, says) in [
        (
            2.0,
            2.04,
            0.0,
            0,
            EstimateVerdict::Explained,
            "`overlay:upper`: explained within 8 %: estimated 2.04x",
        ),
        (
            2.0,
            2.44,
            0.0,
            0,
            EstimateVerdict::NotExplained,
            "`overlay:upper`: not explained, by +22 % (+22 to +22 %): estimated 2.44x",
        ),
        (
            2.0,
            1.56,
            0.0,
            0,
            EstimateVerdict::NotExplained,
            "`overlay:upper`: not explained, by -22 % (-22 to -22 %): estimated 1.56x",
        ),
        // Noise, or what is not known of the added time, may make it either.
        (
            2.0,
            2.04,
            0.15,
            0,
            EstimateVerdict::Undecided,
            "`overlay:upper`: not decided whether it is explained within 8 %: estimated 2.0",
        ),
        (
            2.0,
            2.04,
            0.0,
            300_000,
            EstimateVerdict::Undecided,
            "`overlay:upper`: not decided whether it is explained within 8 %: estimated 2.0",
        ),
    ] {
        let report = report(command, estimate, noise, spread);
        let row = only(&report);
        assert_eq!(row.verdict, verdict, "{row:?}");
        assert!(row.text.starts_with(says), "{}", row.text);
        let difference = row.difference.unwrap();
        let [low, high] = difference.interval.unwrap();
        assert!(
            low <= difference.estimate && difference.estimate <= high,
            "{row:?}"
        );
        assert!(
            (difference.estimate - (estimate / command - 1.0)).abs() < 0.02,
            "{row:?}"
        );
        let ids = [&row.estimate, &row.measured].map(|id| report.result(id).unwrap());
        assert_eq!(ids.map(|r| r.layer.as_str()), [LAYER; 2]);
        assert_eq!(
            (row.estimate_us, row.measured_us),
            (ids[0].op_us, ids[1].op_us)
        );
    }
}

#[test]
fn a_result_that_is_not_trusted_decides_nothing() {
    let added = AddedTime {
        ns: ADDED,
        spread_ns: 0,
        between: true,
    };
    for (points, which) in [
        (&[0][..], "the program has"),
        (&[1], "the estimate has"),
        (&[0, 1], "neither the program nor its estimate has"),
    ] {
        let (run, mut trials) = run(2.0, 2.04, 0.0, added);
        let wrong = trials.iter_mut();
        for record in wrong.filter(|r| r.cell.layer != 0 && points.contains(&r.cell.point)) {
            record.trial.as_mut().unwrap().verified = Some(Verified {
                records: 10,
                bad: 1,
            });
        }
        let report = Report::build(&run, &trials);
        let row = only(&report);
        assert_eq!(row.verdict, EstimateVerdict::Undecided);
        assert_eq!(
            row.text,
            format!("`overlay:upper`: not decided: {which} no ratio that is trusted")
        );
        assert!(row.difference.is_none());
    }
}

#[test]
fn too_few_blocks_and_other_work_decide_nothing() {
    let added = AddedTime {
        ns: ADDED,
        spread_ns: 0,
        between: true,
    };
    let (run, mut trials) = run(2.0, 2.04, 0.0, added);
    trials.retain(|r| r.cell.point != 0 || r.cell.layer == 0 || r.cell.block == 0);
    let few = Report::build(&run, &trials);
    assert_eq!(only(&few).verdict, EstimateVerdict::Undecided);
    assert!(
        only(&few).text.ends_with("+2.0 % (no interval)"),
        "{}",
        only(&few).text
    );
    // What the cold command takes is another question.
    let (mut run, trials) = self::run(2.0, 2.04, 0.0, added);
    run.points[0].meaning.cache = Some(CacheState::Cold);
    assert_eq!(Report::build(&run, &trials).estimate_checks, []);
    run.points[0].meaning = Meaning {
        operation: "git diff".into(),
        ..Meaning::default()
    };
    assert_eq!(
        Report::build(&run, &trials).estimate_checks,
        [],
        "another command"
    );
}

#[test]
fn every_format_for_readers_has_the_check() {
    let report = report(2.0, 2.44, 0.0, 0);
    let mut terminal = Vec::new();
    render::print(&report, Style::default(), &mut terminal).unwrap();
    let terminal = String::from_utf8(terminal).unwrap();
    let words: Vec<&str> = terminal.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("overlay:upper: not explained, by +22 % (+22 to +22 %)"),
        "{terminal}"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["estimate_checks"][0]["verdict"], "not explained");
    let without = {
        let (mut run, trials) = run(
            2.0,
            2.44,
            0.0,
            AddedTime {
                ns: ADDED,
                spread_ns: 0,
                between: true,
            },
        );
        run.points[1].meaning.estimates = None;
        serde_json::to_value(Report::build(&run, &trials)).unwrap()
    };
    assert!(without.get("estimate_checks").is_none());
}

/// An older version added the time between calls to the sum. The same recording in a newer one is not the same measure, and
/// the two were compared as if it were.
#[test]
fn a_replay_of_an_older_measure_is_not_compared() {
    let of = |between| {
        let added = AddedTime {
            ns: ADDED,
            spread_ns: 0,
            between,
        };
        let (run, trials) = run(2.0, 2.04, 0.0, added);
        Report::build(&run, &trials)
    };
    let compared = |old: &Report, new: &Report| {
        let report = new.compare(old, 0.05).expect("another point is alike");
        let rows = report.results.iter().filter(|r| r.meaning.added.is_some());
        (rows.count(), serde_json::to_string(&report).unwrap())
    };
    let says = "not the same measure: `";
    let (alike, text) = compared(&of(true), &of(true));
    assert!(alike > 0 && !text.contains(says), "{text}");
    for (then, run) in [(false, "the old run"), (true, "the new run")] {
        let (alike, text) = compared(&of(then), &of(!then));
        assert_eq!(alike, 0);
        let summed = format!("the time between calls was added to the sum in {run},");
        assert!(text.contains(says) && text.contains(&summed), "{text}");
    }
}

/// The time between the calls is that of this machine's CPU.
#[test]
fn an_estimate_on_an_emulated_cpu_lacks_what_the_program_computes() {
    let added = AddedTime {
        ns: ADDED,
        spread_ns: 0,
        between: true,
    };
    let (mut run, trials) = run(8.0, 2.0, 0.01, added);
    run.layers[1].facts.guest = Some(GuestFacts {
        emulated_cpu: true,
        ..GuestFacts::default()
    });
    let lacks = |run: &Run| {
        let said = Report::build(run, &trials).caveats;
        let emulated = said.iter().find(|c| c.contains("emulated CPU"));
        emulated
            .expect("a caveat")
            .contains("own computing takes longer")
    };
    assert!(lacks(&run));
    // Without `--check` as well.
    for point in &mut run.points {
        point.meaning.estimates = None;
    }
    assert!(lacks(&run));
    for point in &mut run.points {
        point.meaning.added = None;
    }
    assert!(!lacks(&run));
}
