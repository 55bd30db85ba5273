//! A stored run of a fleet: its layers are compared by one host, and its section has them all.

use layermark_model::{
    Facts, FleetHost, FleetLayer, FleetOfRun, FleetPlace, FleetRun, HostOfTrial, LostHost, Mount,
    Run, RunStatus, TrialRecord,
};
use layermark_report::{FleetFound, Report, ResultRow, render};

use crate::made::Made;

/// Nanoseconds of the work of a host in a round.
const TURN: i64 = 200_000_000;

/// Six blocks of three hosts: alone on the share, on their own disks, and two and three at once, who are slowed as a
/// share is that serves two. Every host but the first of a block takes `others` times as long.
fn stored(others: f64, spread_ns: i64) -> (Run, Vec<TrialRecord>) {
    stored_blocks(6, others, spread_ns)
}

/// The same of so many blocks.
fn stored_blocks(blocks: u32, others: f64, spread_ns: i64) -> (Run, Vec<TrialRecord>) {
    let layers = ["dir:/share", "native", "dir:/share", "dir:/share"];
    let made = Made::new(&["native", "fuse", "bind", "fuse"], blocks)
        .points("read", &[4096], 1 << 20)
        .noise(0.01);
    let (mut run, trials) = made.cost(|_, _, _| 10.0).parts();
    let names = [
        "1 host on the share",
        "own disks",
        "2 hosts on the share",
        "3 hosts on the share",
    ];
    for (layer, (spec, name)) in run.layers.iter_mut().zip(layers.iter().zip(names)) {
        layer.spec = spec.parse().expect("a layer");
        name.clone_into(&mut layer.name);
    }
    let step = |place, hosts| FleetLayer { place, hosts };
    let host = |name: &str| FleetHost {
        name: name.into(),
        clock_error_s: Some(1e-4),
        ..FleetHost::default()
    };
    run.fleet = Some(Box::new(FleetOfRun {
        launcher: "ssh {host}".into(),
        asked: Some("n[1-3]".into()),
        exe: None,
        sbcast: None,
        share: "/share".into(),
        hosts: ["n1", "n2", "n3"].map(host).to_vec(),
        steps: vec![
            step(FleetPlace::Share, 1),
            step(FleetPlace::Own, 3),
            step(FleetPlace::Share, 2),
            step(FleetPlace::Share, 3),
        ],
        work: vec![[Some(256); 2]],
        groups: u64::from(blocks),
        sessions: 1,
    }));
    let mut all = Vec::new();
    for (round, trial) in trials.into_iter().enumerate() {
        let (hosts, slow): (u32, f64) = [(1, 1.0), (3, 1.0), (2, 1.0), (3, 1.5)][trial.cell.layer];
        for nth in 0..hosts {
            let host = (trial.cell.block + nth) as usize % 3;
            let mut record = trial.clone();
            let slow = if nth == 0 { slow } else { slow * others };
            for pass in record.trial.iter_mut().flat_map(|t| &mut t.passes) {
                pass.elapsed_ns = (pass.elapsed_ns as f64 * slow) as u64;
            }
            record.seq = all.len() as u64;
            record.host = Some(HostOfTrial {
                host,
                round: round as u64,
                began_ns: i64::from(nth) * spread_ns / 2,
                ended_ns: i64::from(nth) * spread_ns / 2 + TURN,
                clock_error_ns: Some(100_000),
                compared: nth == 0,
            });
            all.push(record);
        }
    }
    (run, all)
}

fn row<'a>(report: &'a Report, layer: &str) -> &'a ResultRow {
    let mut rows = report.results.iter();
    rows.find(|r| r.layer == layer).expect(layer)
}

#[test]
fn layers_are_compared_by_the_host_that_is_alone_once() {
    for others in [1.0, 7.0] {
        let (run, trials) = stored(others, 0);
        let report = Report::build(&run, &trials);
        let three = row(&report, "3 hosts on the share");
        let ratio = three.ratio.expect("a ratio").estimate;
        assert!((ratio - 1.5).abs() < 0.05, "{ratio}");
        assert_eq!((three.trials, three.blocks), (6, 6));
        assert_eq!(report.trials.len(), 6 * 9);
        let hosts = report
            .trials
            .iter()
            .filter(|t| t.host.as_deref() == Some("n2"));
        assert_eq!(hosts.count(), 6 * 3);
        // Rows of the section have all hosts.
        let found = report.fleet.as_ref().expect("a fleet's");
        let last = found.points[0].steps.last().expect("a step");
        assert_eq!((last.hosts, last.rounds, last.at_once), (3, 6, Some(true)));
        let fair = (last.fairness - 1.0).abs() < 0.01;
        assert_eq!(fair, others < 2.0, "{}", last.fairness);
        assert!(
            report.headline.contains(&found.answer),
            "{}",
            report.headline
        );
    }
}

#[test]
fn a_knee_needs_hosts_that_worked_at_once() {
    let found = |spread: i64| {
        let (run, trials) = stored(1.0, spread);
        FleetFound::of(&FleetRun::of(&run, &trials).expect("a fleet's"))
    };
    let together = found(TURN / 4);
    let point = &together.points[0];
    assert!(
        point.knee.as_ref().is_some_and(|knee| knee.reached),
        "{point:?}"
    );
    assert_eq!(point.steps[0].at_once, None, "own disks");
    let apart = found(TURN / 2);
    let point = &apart.points[0];
    assert_eq!(point.knee, None);
    assert!(
        point
            .text
            .contains("3 hosts are not proved to have worked at once"),
        "{}",
        point.text
    );
    assert!(
        apart.answer.contains("No knee is known at 1 point"),
        "{}",
        apart.answer
    );
    // Whoever does not know the time that well does not know it either: as it was known in each round, not after the
    // last one.
    let at_once = |last_s: f64, of_turn: Option<u64>| {
        let (mut run, mut trials) = stored(1.0, 0);
        let fleet = run.fleet.as_mut().expect("a fleet's");
        fleet.hosts[1].clock_error_s = Some(last_s);
        for of in trials.iter_mut().filter_map(|t| t.host.as_mut()) {
            of.clock_error_ns = of_turn.filter(|_| of.host == 1);
        }
        let found = FleetFound::of(&FleetRun::of(&run, &trials).expect("a fleet's"));
        found.points[0].steps[3].at_once
    };
    assert_eq!(at_once(1e-4, Some(50_000_000)), Some(false));
    assert_eq!(at_once(0.05, Some(100_000)), Some(true));
    // An earlier version kept only the last one.
    assert_eq!(at_once(0.05, None), Some(false));
}

/// Two blocks of three hosts, six of two after a loss: the knee is read from these, and says so.
#[test]
fn a_curve_is_said_up_to_the_hosts_that_it_was_read_from() {
    let (mut run, mut trials) = stored_blocks(8, 1.0, 0);
    trials.retain(|t| t.cell.block < 2 || t.cell.layer != 3);
    let found = |run: &Run| FleetFound::of(&FleetRun::of(run, &trials).expect("a fleet's"));
    for lost in [1, 3] {
        let fleet = run.fleet.as_mut().expect("a fleet's");
        for host in &mut fleet.hosts[..lost] {
            host.lost = Some(LostHost {
                during: "it had its turn".into(),
                why: "its launcher ended".into(),
            });
        }
        let found = found(&run);
        let point = &found.points[0];
        let most = point.steps.last().expect("a step");
        assert_eq!((most.hosts, most.rounds), (3, 2));
        let (text, answer) = (&point.text, &found.answer);
        assert!(text.starts_with("no knee up to 2 hosts: "), "{text}");
        assert!(text.ends_with(" to 2 hosts"), "{text}");
        assert!(
            answer.starts_with("No knee up to 2 hosts at 1 point; "),
            "{answer}"
        );
    }
}

/// Multiplies the time of `n2` in these layers.
fn slow_down(trials: &mut [TrialRecord], layers: impl Fn(usize) -> bool) {
    for record in trials.iter_mut().filter(|t| layers(t.cell.layer)) {
        let is_slow = record.host.is_some_and(|of| of.host == 1);
        for pass in record.trial.iter_mut().flat_map(|t| &mut t.passes) {
            pass.elapsed_ns *= if is_slow { 2 } else { 1 };
        }
    }
}

/// Two blocks of three hosts, six of two after a loss: a host that was slow in these is named.
#[test]
fn the_slowest_host_is_that_of_most_blocks() {
    let (run, mut trials) = stored_blocks(8, 1.0, 0);
    trials.retain(|t| t.cell.block < 2 || t.cell.layer != 3);
    slow_down(&mut trials, |layer| layer == 2);
    let found = FleetFound::of(&FleetRun::of(&run, &trials).expect("a fleet's"));
    let slowest = found.points[0].slowest.as_ref().expect("a slow host");
    assert_eq!(slowest.name, "n2");
    assert!(slowest.ratio.estimate > 1.9, "{slowest:?}");
}

/// A change of one host's trials or facts.
type HostChange = fn(&mut FleetHost, &mut TrialRecord);

#[test]
fn a_slow_host_is_named_with_what_is_different_about_it() {
    let because = |change: HostChange| {
        let (mut run, mut trials) = stored(1.0, 0);
        slow_down(&mut trials, |layer| layer == 3);
        let share = Facts {
            mounts: vec![Mount {
                fs: "nfs4".into(),
                options: "rw,vers=4.2".into(),
                ..Mount::default()
            }],
            ..Facts::default()
        };
        let machine = run.machine.clone();
        let fleet = run.fleet.as_mut().expect("a fleet's");
        for host in &mut fleet.hosts {
            (host.machine, host.share) = (Some(machine.clone()), Some(share.clone()));
        }
        for record in &mut trials {
            for pass in record.trial.iter_mut().flat_map(|t| &mut t.passes) {
                pass.waited_ns = Some(0);
            }
            if record.host.is_some_and(|of| of.host == 1) {
                change(&mut fleet.hosts[1], record);
            }
        }
        let found = FleetFound::of(&FleetRun::of(&run, &trials).expect("a fleet's"));
        let slowest = found.points[0].slowest.clone().expect("a slow host");
        assert_eq!(slowest.name, "n2");
        slowest.because
    };
    assert_eq!(because(|_, _| {}), None);
    let changes: [(HostChange, &str); 4] = [
        (
            |_, record| record.steal = 0.3,
            "its hypervisor took 30 % of its CPUs, and 0 % of the others'",
        ),
        (
            |_, record| {
                for pass in record.trial.iter_mut().flat_map(|t| &mut t.passes) {
                    pass.waited_ns = Some(pass.elapsed_ns / 4);
                }
            },
            "it waited for a CPU 25 % of the time, the others 0 %",
        ),
        (
            |host, _| {
                if let Some(share) = &mut host.share {
                    "rw,vers=3".clone_into(&mut share.mounts[0].options);
                }
            },
            "its share is mounted as nfs4 with rw,vers=3, that of the others as nfs4 with rw,vers=4.2",
        ),
        (
            |host, _| {
                if let Some(machine) = &mut host.machine {
                    machine.kernel = "5.10".into();
                }
            },
            "kernel: 5.10, of the others ",
        ),
    ];
    for (change, says) in changes {
        let because = because(change).unwrap_or_default();
        assert!(because.starts_with(says), "{because}");
    }
}

/// A host of a run that has not ended took no part to the end.
#[test]
fn a_host_took_part_for_as_long_as_the_run_lasted() {
    for (status, text, end) in [
        (RunStatus::Running, "takes part", Some("; in progress")),
        (
            RunStatus::Interrupted,
            "took part until the run was interrupted",
            Some("; interrupted"),
        ),
        (RunStatus::Done, "took part to the end", None),
    ] {
        let (mut run, trials) = stored(1.0, 0);
        run.status = status;
        let report = Report::build(&run, &trials);
        let continues = report.caveats.iter().any(|caveat| {
            caveat.contains("layermark fleet run --resume ") && caveat.contains(" continues it")
        });
        let is_cut = status == RunStatus::Interrupted;
        assert_eq!(continues, is_cut, "{:?}", report.caveats);
        let found = report.fleet.expect("a fleet's");
        assert!(found.hosts.iter().all(|h| h.text == text), "{found:?}");
        let said = ["; in progress", "; interrupted"];
        let said = said.into_iter().find(|end| found.answer.ends_with(end));
        assert_eq!(said, end, "{}", found.answer);
    }
}

/// The share has no room for what one of them writes: in the text as well.
#[test]
fn turns_that_failed_have_their_reason() {
    let (mut run, mut trials) = stored(1.0, 0);
    for record in trials.iter_mut().filter(|t| t.cell.layer != 1) {
        if record.host.is_some_and(|of| of.host == 1) {
            record.trial = None;
            record.error = Some(format!("no space {}", record.cell.block));
        }
    }
    let fleet = run.fleet.as_mut().expect("a fleet's");
    fleet.hosts[2].lost = Some(LostHost {
        during: "it had its turn".into(),
        why: "its launcher ended".into(),
    });
    let found = FleetFound::of(&FleetRun::of(&run, &trials).expect("a fleet's"));
    let failed: Vec<_> = found.hosts.iter().map(|h| h.failed_turns).collect();
    assert_eq!(failed, [0, 12, 0]);
    assert_eq!(found.hosts[1].error.as_deref(), Some("no space 0"));
    let report = Report::build(&run, &trials);
    let mut page = Vec::new();
    let format = render::ALL.iter().find(|f| f.id() == "html");
    format
        .expect("a page")
        .write(&report, &mut page)
        .expect("written");
    let page = String::from_utf8(page).expect("UTF-8");
    for says in [
        "12 turns failed; the first one: no space 0",
        "2 of 6",
        "0 of 6",
    ] {
        assert!(page.contains(says), "{says}");
    }
    // And what another one writes beside others.
    for record in trials.iter_mut().filter(|t| t.cell.layer > 1) {
        if record.host.is_some_and(|of| of.host == 2) {
            record.error = Some("no space".into());
        }
    }
    let found = FleetFound::of(&FleetRun::of(&run, &trials).expect("a fleet's"));
    assert_eq!(
        found.points[0].text,
        "no knee is known: in no round with 2 hosts at once did all of them do their part"
    );
}

#[test]
fn a_clock_that_ran_away_is_named() {
    let (mut run, trials) = stored(1.0, 0);
    let fleet = run.fleet.as_mut().expect("a fleet's");
    fleet.hosts[2].clock_drift_s = Some(0.0042);
    fleet.hosts[0].clock_drift_s = Some(0.0004);
    let report = Report::build(&run, &trials);
    let unlike = report.fleet.expect("a fleet's").unlike.join("\n");
    assert!(
        unlike.contains("the clock of `n3` ran away by 4.20 ms"),
        "{unlike}"
    );
    assert!(!unlike.contains("n1` ran"), "{unlike}");
}

#[test]
fn a_group_that_was_cut_off_counts_as_it_was_made_last() {
    let (mut run, mut trials) = stored(1.0, 0);
    run.status = RunStatus::Stopped;
    let again = trials.iter().filter(|t| t.cell.block == 5).cloned();
    let mut again: Vec<TrialRecord> = again.collect();
    // The first time, two rounds of the block were made.
    trials.retain(|t| t.cell.block < 5 || t.cell.layer < 2);
    for record in &mut again {
        record.cell.session = 1;
        record.seq += 1000;
        if let Some(of) = &mut record.host {
            of.round += 1000;
        }
    }
    trials.extend(again);
    let of = FleetRun::of(&run, &trials).expect("a fleet's");
    assert!(of.stopped);
    assert_eq!(of.rounds.iter().filter(|r| r.block == 5).count(), 4);
    let report = Report::build(&run, &trials);
    assert_eq!(row(&report, "2 hosts on the share").blocks, 6);
}

/// A heading stood above nothing.
#[test]
fn a_point_that_no_round_was_made_of_has_no_table() {
    let tables = |run: &Run, trials: &[TrialRecord]| {
        let report = Report::build(run, trials);
        let found = report.fleet.as_ref().expect("a fleet's");
        let html = render::ALL.iter().find(|f| f.id() == "html");
        let mut page = Vec::new();
        let written = html.expect("a page").write(&report, &mut page);
        written.expect("written");
        let page = String::from_utf8(page).expect("UTF-8");
        (found.points.len(), page.matches("starts within").count())
    };
    let (mut run, trials) = stored(1.0, 0);
    let (one, of_one) = tables(&run, &trials);
    let mut next = run.points[0].clone();
    "next".clone_into(&mut next.label);
    run.points.push(next);
    assert_eq!((one, tables(&run, &trials)), (1, (2, of_one)));
    assert!(of_one > 0);
}

#[test]
fn every_format_has_the_answer() {
    let (run, trials) = stored(1.0, 0);
    let report = Report::build(&run, &trials);
    let answer = &report.fleet.as_ref().expect("a fleet's").points[0].text;
    for id in ["html", "json", "xlsx", "csv"] {
        let format = render::ALL.iter().find(|f| f.id() == id);
        let Some(format) = format else {
            panic!(
                "no format {id}: {:?}",
                render::ALL.iter().map(|f| f.id()).collect::<Vec<_>>()
            );
        };
        let mut bytes = Vec::new();
        format.write(&report, &mut bytes).expect(id);
        assert!(!bytes.is_empty(), "{id}");
        if ["html", "json"].contains(&id) {
            let text = String::from_utf8(bytes).expect("UTF-8");
            let knee = answer.split(':').next().expect("words");
            assert!(text.contains(knee), "{id}: {knee}");
        }
    }
    assert!(
        report
            .reproduce
            .command
            .contains("layermark fleet run plan.toml --seed 3")
    );
    assert!(
        report
            .reproduce
            .replay
            .contains("--launcher 'ssh {host}' --hosts 'n[1-3]'"),
        "{}",
        report.reproduce.replay
    );
}
