use layermark_testkit::sample::Sample;

use super::*;

fn sample() -> (Run, Vec<TrialRecord>) {
    Sample::default().build()
}

fn blocks(trials: &[TrialRecord], n: u32) -> Vec<TrialRecord> {
    let first = trials.iter().filter(|t| t.cell.block < n);
    first.cloned().collect()
}

fn words(so_far: &SoFar) -> Vec<(String, String, Verdict)> {
    let cells = so_far.cells().iter();
    cells
        .map(|c| (c.point.clone(), c.layer.clone(), c.verdict))
        .collect()
}

/// The words of a report of these trials.
fn of_report(run: &Run, trials: &[TrialRecord]) -> Vec<(String, String, Verdict)> {
    let report = Report::build(run, trials);
    let rows = report.results.into_iter();
    let decided = rows.filter(|r| r.verdict.is_decided());
    decided.map(|r| (r.label, r.layer, r.verdict)).collect()
}

#[test]
fn words_are_those_of_the_report_and_only_at_looks() {
    let (run, trials) = sample();
    let mut so_far = SoFar::default();
    assert!(!so_far.look(&run, &trials, 7) && so_far.cells().is_empty());
    assert_eq!(so_far.blocks(), None);
    assert!(so_far.look(&run, &trials, 8));
    assert_eq!(so_far.blocks(), Some(8));
    let at_eight = words(&so_far);
    let report = of_report(&run, &blocks(&trials, 8));
    assert!(at_eight.len() > 5, "{at_eight:?}");
    assert!(
        at_eight.iter().all(|word| report.contains(word)),
        "{at_eight:?} {report:?}"
    );
    for complete in [8, 9, 10] {
        assert!(!so_far.look(&run, &trials, complete), "{complete}");
    }
    assert!(so_far.look(&run, &trials, 11));
    let report = of_report(&run, &trials);
    assert!(words(&so_far).iter().all(|word| report.contains(word)));
    // As the matrix shows it.
    let shown = |c: &EarlyCell| match c.verdict {
        Verdict::Same => c.shown == "=",
        Verdict::Slower => c.shown.contains('x') && !c.shown.contains("faster"),
        _ => c.shown.contains("faster") || c.shown.starts_with('#'),
    };
    assert!(so_far.cells().iter().all(shown), "{:?}", so_far.cells());
}

#[test]
fn trials_of_later_blocks_do_not_count() {
    let (run, trials) = sample();
    let [mut whole, mut part] = [SoFar::default(), SoFar::default()];
    whole.look(&run, &trials, 10);
    part.look(&run, &blocks(&trials, 8), 8);
    assert_eq!(whole.cells(), part.cells());
    assert_eq!(whole.blocks(), Some(8));
}

#[test]
fn a_word_is_taken_back_where_the_report_would_not_give_it() {
    let (run, mut trials) = sample();
    let mut so_far = SoFar::default();
    so_far.look(&run, &trials, 8);
    let of = |so_far: &SoFar, layer: &str| {
        let cells = so_far.cells().iter();
        let here = cells.filter(|c| c.layer == layer && c.point == "open and stat");
        here.count()
    };
    let layer = &run.layers[1].name;
    assert!(of(&so_far, layer) > 0);
    // Now it takes four times as long in each second block, and a quarter of the time in the others.
    for record in trials.iter_mut().filter(|t| t.cell.layer == 1) {
        let times = if record.cell.block % 2 == 0 {
            4.0
        } else {
            0.25
        };
        let longer = |ns: &mut u64| *ns = (*ns as f64 * times) as u64;
        if let Some(trial) = &mut record.trial {
            trial
                .turns
                .iter_mut()
                .for_each(|t| longer(&mut t.elapsed_ns));
            trial
                .passes
                .iter_mut()
                .for_each(|p| longer(&mut p.elapsed_ns));
        }
    }
    assert!(so_far.look(&run, &trials, 11));
    assert_eq!(of(&so_far, layer), 0, "{:?}", so_far.cells());
}

#[test]
fn a_report_of_a_run_that_goes_on_has_no_other_words() {
    let (run, trials) = sample();
    let decided = |report: &Report| {
        let rows = report.results.iter().filter(|r| r.verdict.is_decided());
        rows.count()
    };
    let mut so_far = SoFar::default();
    let mut report = Report::build(&run, &trials);
    let all = decided(&report);
    report.hold_back(&so_far);
    assert_eq!(decided(&report), 0);
    assert!(report.results.iter().all(|r| r.probably.is_none()));
    assert!(
        report
            .results
            .iter()
            .any(|r| r.verdict == Verdict::Baseline)
    );
    so_far.look(&run, &trials, 11);
    let mut report = Report::build(&run, &trials);
    report.hold_back(&so_far);
    assert_eq!(decided(&report), so_far.cells().len());
    assert!((1..=all).contains(&so_far.cells().len()));
}
