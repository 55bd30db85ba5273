use std::convert::Infallible;

use layermark_testkit::sample::Sample;

use super::*;

fn running() -> (Run, Vec<TrialRecord>) {
    let (mut run, trials) = Sample::default().build();
    run.status = RunStatus::Running;
    (run, trials)
}

#[test]
fn looks_are_shared_until_the_next_is_due() {
    let live = Live::default();
    let (run, trials) = running();
    let mut looks = 0;
    let mut look = || {
        let load = || {
            looks += 1;
            Ok::<_, Infallible>((run.clone(), trials.clone()))
        };
        live.look(&run.id, load).unwrap()
    };
    let (first, second) = (look(), look());
    assert!(Arc::ptr_eq(&first, &second) && !first.over);
    assert!(first.rest() > Duration::from_secs(1));
    // The end of this process's own run is seen at once.
    live.end();
    assert!(!Arc::ptr_eq(&first, &look()));
    assert_eq!(looks, 2);
}

/// A view that had waited 15 s for a disk was shown for five minutes, while the run went on.
#[test]
fn what_a_view_waits_for_does_not_delay_the_next() {
    let (run, trials) = running();
    let load = || {
        // In place of a busy disk; twenty times as long would be twenty seconds.
        std::thread::sleep(Duration::from_secs(1));
        Ok::<_, Infallible>((run.clone(), trials.clone()))
    };
    let view = Live::default().look(&run.id, load).unwrap();
    assert!(view.rest() < Duration::from_secs(15), "{:?}", view.rest());
}

#[test]
fn no_verdict_or_ratio_rests_on_what_is_left_out() {
    let (run, mut trials) = running();
    assert!(
        trials
            .iter()
            .flat_map(|t| &t.trial)
            .any(|t| t.latency.is_some())
    );
    let whole = Report::build(&run, &trials);
    without_latency(&mut trials);
    let short = Report::build(&run, &trials);
    assert_eq!(whole.results.len(), short.results.len());
    for (a, b) in whole.results.iter().zip(&short.results) {
        assert_eq!(
            (a.verdict, a.ratio, a.probably),
            (b.verdict, b.ratio, b.probably),
            "{}",
            a.label
        );
    }
}

#[test]
fn viewers_are_counted_while_they_look() {
    let live = Arc::new(Live::default());
    let (one, two) = (live.viewer(), live.viewer());
    drop(one);
    assert!(live.is_watched(Duration::ZERO));
    drop(two);
    assert!(!live.is_watched(Duration::ZERO) && live.is_watched(Duration::from_mins(1)));
}

#[test]
fn a_verdict_is_told_once_and_again_when_it_changes() {
    let (run, trials) = running();
    let mut log = Log::default();
    let mut report = Report::build(&run, &trials);
    log.end(&report, 8);
    let told = log.lines.len();
    assert!(told > 0, "the sample has verdicts");
    assert!(log.lines.iter().all(|l| l.starts_with("By block 8: ")));
    log.end(&report, 9);
    assert_eq!(log.lines.len(), told);
    let row = report
        .results
        .iter_mut()
        .find(|r| r.verdict == Verdict::Slower);
    row.expect("the sample has a slower layer").verdict = Verdict::Undecided;
    log.end(&report, 10);
    assert_eq!(log.lines.len(), told + 1);
    assert!(
        log.lines[told].starts_with("By block 10: ") && log.lines[told].ends_with("is open again")
    );
}

#[test]
fn what_is_still_to_come_is_not_left_out_and_nothing_is_said_of_eight_blocks() {
    let (mut run, trials) = running();
    // Of the first block, its first trial.
    let begun = trials.into_iter().take(1).collect::<Vec<_>>();
    let said = |run: &Run| fragment(run, &begun, &mut Log::default()).into_string();
    let page = said(&run);
    assert!(!page.contains("the run ended before"), "{page}");
    assert!(
        page.contains("Nothing yet.") && !page.contains("eight"),
        "{page}"
    );
    run.status = RunStatus::Stopped;
    assert!(said(&run).contains("the run ended before"));
}

/// They were those of the report at each view, so that a run that was watched said something false more often than its report.
#[test]
fn words_are_given_at_looks_while_the_run_goes_on() {
    let (mut run, trials) = running();
    let of = |blocks: u32| {
        let first = trials.iter().filter(|t| t.cell.block < blocks);
        first.cloned().collect::<Vec<_>>()
    };
    let mut log = Log::default();
    let page = fragment(&run, &of(8), &mut log).into_string();
    // The eighth block may not be complete.
    assert!(
        page.contains("Nothing yet.") && page.contains("from 8 blocks on"),
        "{page}"
    );
    assert!(page.contains(" 0 of "), "{page}");
    let page = fragment(&run, &of(9), &mut log).into_string();
    assert!(
        page.contains("The words are those after 8 blocks."),
        "{page}"
    );
    let told = log.lines.len();
    assert!(told > 0 && !page.contains("Nothing yet."));
    fragment(&run, &of(10), &mut log);
    assert_eq!(log.lines.len(), told, "no look");
    run.status = RunStatus::Done;
    let whole = fragment(&run, &trials, &mut log).into_string();
    assert!(!whole.contains("The words are those"), "{whole}");
}

/// A look was taken only when the page was viewed, so that what it said depended on who had viewed it, and when.
#[test]
fn a_page_says_the_same_whoever_viewed_it_before() {
    let sample = Sample {
        blocks: 12,
        ..Sample::default()
    };
    let (mut run, trials) = sample.build();
    run.status = RunStatus::Running;
    let of = |blocks: u32| {
        let first = trials.iter().filter(|t| t.cell.block < blocks);
        first.cloned().collect::<Vec<_>>()
    };
    let last = trials.iter().map(|t| t.cell.block + 1).max().unwrap();
    assert!(last >= 12, "two looks and a block: {last}");
    let mut watched = Log::default();
    for blocks in 1..=last {
        fragment(&run, &of(blocks), &mut watched);
    }
    let [mut late, mut terminal] = [Log::default(), Log::default()];
    let page = |run: &Run, log: &mut Log| fragment(run, &trials, log).into_string();
    assert_eq!(page(&run, &mut watched), page(&run, &mut late));
    let told = |line: &str| late.lines.iter().any(|l| l.starts_with(line));
    assert!(
        told("By block 8: ") && !told("By block 12: "),
        "{:?}",
        late.lines
    );
    // And as the terminal, which looks when a block is complete.
    for blocks in 1..last {
        terminal.so_far.look(&run, &of(blocks), blocks as usize);
    }
    assert_eq!(terminal.so_far.cells(), late.so_far.cells());
    // The page of a run that is over tells the same story to who sees it then only.
    run.status = RunStatus::Done;
    assert_eq!(page(&run, &mut watched), page(&run, &mut Log::default()));
}

#[test]
fn the_end_is_told_with_how_the_run_stands() {
    let (mut run, trials) = running();
    let said = |run: &Run| fragment(run, &trials, &mut Log::default()).into_string();
    assert!(said(&run).contains("results decided") && !said(&run).contains("--resume"));
    run.status = RunStatus::Stopped;
    assert!(said(&run).contains("<b>stopped</b>") && said(&run).contains("--resume"));
    run.status = RunStatus::Done;
    assert!(said(&run).contains("<b>done</b>") && !said(&run).contains("--resume"));
}

#[test]
fn time_left_is_what_the_budget_or_the_blocks_leave() {
    let (mut run, mut trials) = running();
    for (n, trial) in trials.iter_mut().enumerate() {
        trial.at_ms = 1000 * n as u64;
    }
    trials.truncate(11);
    run.plan.budget = Some("60s".into());
    let seconds =
        |left: Option<(Duration, Duration)>| left.map(|(g, l)| (g.as_secs(), l.as_secs()));
    assert_eq!(seconds(left(&run, &trials, 3)), Some((10, 50)));
    run.plan.budget = None;
    run.plan.blocks = Some(8);
    assert_eq!(seconds(left(&run, &trials, 3)), Some((10, 22)));
    run.plan.blocks = None;
    assert_eq!(left(&run, &trials, 3), None);
    assert_eq!(left(&run, &[], 0), None);
}

#[test]
fn the_hosts_of_a_fleet_are_told_with_what_each_has_done() {
    use layermark_model::{FleetHost, HostOfTrial, LostHost};
    let (mut run, mut trials) = running();
    trials.truncate(5);
    for (n, trial) in trials.iter_mut().enumerate() {
        trial.host = Some(HostOfTrial {
            host: n % 2,
            round: n as u64 / 2,
            began_ns: 0,
            ended_ns: 1,
            clock_error_ns: None,
            compared: true,
        });
    }
    trials[1].error = Some("no".into());
    let said = |run: &Run| fragment(run, &trials, &mut Log::default()).into_string();
    assert!(!said(&run).contains("<h2>Hosts</h2>"));
    let host = |name: &str, lost: Option<&str>| FleetHost {
        name: name.into(),
        lost: lost.map(|why| LostHost {
            during: "it had its turn".into(),
            why: why.into(),
        }),
        ..FleetHost::default()
    };
    run.fleet = Some(Box::new(FleetOfRun {
        launcher: "slurm -p 'a b'".into(),
        asked: Some("n[1-2]".into()),
        hosts: vec![host("n1", None), host("n2", Some("<b>gone</b>"))],
        ..FleetOfRun::default()
    }));
    let page = said(&run);
    let row = |cells: &str| assert!(page.contains(cells), "{cells}: {page}");
    row("<td><code>n1</code></td><td>3</td><td>0</td><td>takes part</td>");
    row(
        "<td><code>n2</code></td><td>2</td><td>1</td><td>lost while it had its turn: &lt;b&gt;gone&lt;/b&gt;</td>",
    );
    run.status = RunStatus::Stopped;
    let page = said(&run);
    assert!(page.contains("<td>0</td><td>took part</td>"), "{page}");
    let id = &run.id;
    assert!(
        page.contains(&format!("layermark fleet run --resume {id} --launcher ")),
        "{page}"
    );
    // In a store that others may write to, the launcher could be a command of theirs.
    run.store = StoreOption::Store("postgres://db/team".into());
    let page = said(&run);
    assert!(
        page.contains("--launcher LAUNCHER --hosts HOSTS --store ") && !page.contains("slurm"),
        "{page}"
    );
}
