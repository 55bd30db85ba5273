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

/// All trials of a layer at a point take this many times as long, in these blocks.
fn slow(trials: &mut [TrialRecord], layer: usize, times: impl Fn(u32) -> f64) {
    for record in trials.iter_mut().filter(|t| t.cell.layer == layer) {
        let times = times(record.cell.block);
        let longer = |ns: &mut u64| *ns = (*ns as f64 * times) as u64;
        let Some(trial) = &mut record.trial else {
            continue;
        };
        let turns = trial.turns.iter_mut().map(|t| &mut t.elapsed_ns);
        let passes = trial.passes.iter_mut().map(|p| &mut p.elapsed_ns);
        turns.chain(passes).for_each(longer);
    }
}

/// A look that nobody took was left out, so that words depended on who had looked before.
#[test]
fn words_do_not_depend_on_who_looked_before() {
    let (run, trials) = sample();
    let mut kept = 0;
    // From the ninth block on layers take ever less time: some words would not be given at the level of the second look.
    for less in (0..20).map(|n| 1.0 / (1.0 + f64::from(n) / 50.0)) {
        let mut trials = trials.clone();
        for layer in 1..run.layers.len() {
            slow(
                &mut trials,
                layer,
                |block| if block < 8 { 1.0 } else { less },
            );
        }
        let [mut each, mut late, mut one] = [0; 3].map(|_| SoFar::default());
        for complete in 0..=11 {
            each.look(&run, &blocks(&trials, complete), complete as usize);
        }
        assert!(late.look(&run, &trials, 11) && !late.look(&run, &trials, 11));
        assert_eq!((late.cells(), late.blocks()), (each.cells(), Some(11)));
        assert!(one.next_look(&run, &trials, 11) && one.blocks() == Some(8));
        assert!(one.next_look(&run, &trials, 11) && !one.next_look(&run, &trials, 11));
        assert_eq!(one.cells(), each.cells());
        let index = Index::new(&run, &trials);
        let alpha = stats::look_alpha(11).unwrap();
        let sure = results::brief(&run, &index, BASELINE, Level { alpha });
        let sure = |cell: &EarlyCell| {
            let same = |row: &ResultRow| row.label == cell.point && row.layer == cell.layer;
            sure.iter()
                .any(|(.., row)| same(row) && row.verdict == cell.verdict)
        };
        kept += each.cells().iter().filter(|cell| !sure(cell)).count();
    }
    assert!(kept > 0, "no word was kept from an earlier look");
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
    slow(&mut trials, 1, |block| [4.0, 0.25][block as usize % 2]);
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
    let then = |so_far: &SoFar| Report::build(&run, &so_far.seen(&trials)).results;
    report.hold_back(&so_far, &then(&so_far));
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
    report.hold_back(&so_far, &then(&so_far));
    assert_eq!(decided(&report), so_far.cells().len());
    assert!((1..=all).contains(&so_far.cells().len()));
}

/// The page took a word away when later trials, which the terminal did not count, spoke against it.
#[test]
fn a_cell_with_a_word_is_shown_as_it_was_at_the_look() {
    let (run, trials) = sample();
    let mut so_far = SoFar::default();
    so_far.look(&run, &trials, 8);
    let then = Report::build(&run, &so_far.seen(&trials)).results;
    let mut later = trials;
    slow(&mut later, 1, |block| if block < 8 { 1.0 } else { 9.0 });
    let mut report = Report::build(&run, &later);
    let shown = |report: &Report| {
        let rows = report.results.iter().filter(|r| r.verdict.is_decided());
        let numbers = |r: &ResultRow| r.ratio.map(|ratio| (ratio.estimate, ratio.interval));
        let shown = rows.map(|r| (r.label.clone(), r.layer.clone(), r.verdict, numbers(r)));
        shown.collect::<Vec<_>>()
    };
    let at_look = so_far.cells().iter();
    let mut at_look: Vec<_> = at_look
        .map(|c| {
            (
                c.point.clone(),
                c.layer.clone(),
                c.verdict,
                c.ratio.map(|r| (r.estimate, r.interval)),
            )
        })
        .collect();
    let before = shown(&report);
    report.hold_back(&so_far, &then);
    let mut after = shown(&report);
    let by_name = |a: &(String, String, Verdict, _), b: &(String, String, Verdict, _)| {
        (&a.0, &a.1).cmp(&(&b.0, &b.1))
    };
    at_look.sort_by(by_name);
    after.sort_by(by_name);
    assert_eq!(after, at_look);
    assert_ne!(before, shown(&report));
}
