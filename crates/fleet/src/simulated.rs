//! Hosts without machines: the coordinator, the frames and the orders are those of a fleet; what a host does is made up.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, BufReader, Write},
    os::fd::OwnedFd,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::{Duration, Instant},
};

use layermark_lab::Stop;
use layermark_model::{
    Cell, Facts, FleetPlace, FleetRun, Machine, Mount, ONE_PACKAGE, Pass, Plan, Point, Run,
    RunStatus, SelfTest, Spec, StoreOption, Trial, TrialRecord, Turn,
};

use crate::{
    check::{CheckRequest, check},
    coordinator::{ClockTrips, Fleet},
    frame,
    launchers::StartCommand,
    link::Link,
    protocol::{Answer, FromTask, Hello, Opened, OpenedLayer, Order, ToTasks, VERSION},
    round::RoundWork,
    storm::{StormBefore, StormEvent, StormRequest, storm},
};

/// What a made-up host does otherwise than it should.
type Fault = fn(task: u32, n: u64, order: &Order) -> Behaviour;

#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Good,
    Silent,
    Twice,
    Garbage,
    Unasked,
    OtherBinary,
    NoShare,
    Remounted,
    Unseen,
    NoRoom,
    LayerLost,
}

fn good(_: u32, _: u64, _: &Order) -> Behaviour {
    Behaviour::Good
}

/// Answers for all these tasks over one pipe, as a launcher does that starts them all.
fn tasks(
    orders: io::PipeReader,
    mut out: io::PipeWriter,
    all: u32,
    fault: Fault,
) -> io::Result<()> {
    let mut numbers = vec![0; all as usize];
    let mut say = |task: u32, n, answer, out: &mut dyn Write| {
        let message = serde_json::to_vec(&FromTask { n, answer })?;
        let next = &mut numbers[task as usize];
        out.write_all(&frame::cut(task, next, &message))
    };
    let hello = |task: u32| {
        let other = fault(task, 0, &Order::Clock) == Behaviour::OtherBinary;
        Answer::Hello(Box::new(Hello {
            protocol: VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            binary: if other { "other" } else { "own" }.into(),
            host: format!("h{task}"),
            boot: format!("boot {task}"),
        }))
    };
    for task in 0..all {
        say(task, 0, hello(task), &mut out)?;
    }
    for line in BufReader::new(orders).lines() {
        let order: ToTasks = serde_json::from_str(&line?)?;
        let is_for_all = order.to.is_empty();
        let to: Vec<u32> = if is_for_all {
            (0..all).collect()
        } else {
            order.to
        };
        for task in to {
            let answer = match &order.order {
                Order::Quit if is_for_all => return Ok(()),
                Order::Quit => {
                    fault(task, order.n, &order.order);
                    continue;
                }
                Order::Package(_) => Answer::Packaged {
                    name: format!("layermark-of-{task}"),
                },
                Order::Look(_) => Answer::Looked { seen: true },
                Order::Open(_) => opened(Ok(Facts::default())),
                Order::Prepare(_) => Answer::Ready,
                Order::Turn { .. } => Answer::Turned {
                    span_ns: [u64::from(task) * 1000, 5_000_000],
                },
                Order::Clock => Answer::Clock { ns: 0, wall_ms: 0 },
                Order::Finish => Answer::Finished(Box::new(trial())),
            };
            match fault(task, order.n, &order.order) {
                Behaviour::Silent => {}
                Behaviour::Garbage => {
                    out.write_all(format!("{task}: @lm {task} x\n").repeat(100_000).as_bytes())?;
                }
                Behaviour::Twice => {
                    let mut again = first_piece(task, order.n, answer.clone())?;
                    again.extend(first_piece(task, order.n, answer)?);
                    out.write_all(&again)?;
                }
                Behaviour::Unasked => say(task, order.n + 7, answer, &mut out)?,
                Behaviour::NoShare => say(task, order.n, opened(Err("no such share")), &mut out)?,
                Behaviour::Remounted => {
                    let share = mounted("rw,vers=4.2,clientaddr=10.0.0.8");
                    say(task, order.n, opened(Ok(share)), &mut out)?;
                }
                Behaviour::Unseen => {
                    say(task, order.n, Answer::Looked { seen: false }, &mut out)?;
                }
                Behaviour::NoRoom => say(task, order.n, no_room(), &mut out)?,
                Behaviour::LayerLost => say(task, order.n, layer_lost(), &mut out)?,
                Behaviour::Good | Behaviour::OtherBinary => say(task, order.n, answer, &mut out)?,
            }
        }
    }
    Ok(())
}

/// The own directory is up, and the share with these facts, or not.
fn opened(share: Result<Facts, &str>) -> Answer {
    let layer = |facts: Result<Facts, &str>| OpenedLayer {
        spec: Spec::bare("native"),
        failed: facts.as_ref().err().map(|why| ((*why).to_owned(), None)),
        facts: facts.unwrap_or_default(),
        self_test: SelfTest::default(),
        read_only: false,
        setup_s: 0.0,
    };
    Answer::Opened(Box::new(Opened {
        machine: Machine::default(),
        layers: vec![layer(Ok(Facts::default())), layer(share)],
    }))
}

fn no_room() -> Answer {
    Answer::Failed {
        message: "cannot write /own/x: No space left on device (os error 28)".into(),
        hint: Some("make room".into()),
        no_room: true,
        lost: false,
    }
}

fn layer_lost() -> Answer {
    Answer::Failed {
        message: "/share does not answer".into(),
        hint: None,
        no_room: false,
        lost: true,
    }
}

/// A share that is mounted with these options.
fn mounted(options: &str) -> Facts {
    Facts {
        mounts: vec![Mount {
            fs: "nfs4".into(),
            options: options.into(),
            ..Mount::default()
        }],
        ..Facts::default()
    }
}

/// The first piece of a task, whatever it has said before.
fn first_piece(task: u32, n: u64, answer: Answer) -> io::Result<Vec<u8>> {
    let message = serde_json::to_vec(&FromTask { n, answer })?;
    Ok(frame::cut(task, &mut 0, &message))
}

/// A trial of the usual size.
fn trial() -> TrialRecord {
    let turns = (0..20).map(|round| Turn {
        round,
        elapsed_ns: 2_000_000,
        ops: 1000,
        bytes: 4_096_000,
        waited_ns: Some(17),
        kernel_waited_ns: None,
    });
    TrialRecord {
        trial: Some(Trial {
            passes: vec![Pass {
                elapsed_ns: 40_000_000,
                ops: 20_000,
                ..Pass::default()
            }],
            turns: turns.collect(),
            notes: vec!["x".repeat(2000)],
            ..Trial::default()
        }),
        ..TrialRecord::default()
    }
}

fn fleet(hosts: u32, silence: Duration, fault: Fault) -> Fleet {
    fleet_until(hosts, silence, fault, &Stop::new())
}

fn fleet_until(hosts: u32, silence: Duration, fault: Fault, stop: &Stop) -> Fleet {
    let (send, heard) = sync_channel(64);
    let mut fleet = Fleet::new(heard, silence, stop);
    let (orders, to_tasks) = io::pipe().unwrap();
    let (from_tasks, out) = io::pipe().unwrap();
    thread::Builder::new()
        .spawn(move || tasks(orders, out, hosts, fault))
        .unwrap();
    let all: Vec<(u32, Option<String>)> = (0..hosts).map(|task| (task, None)).collect();
    fleet
        .add(&all, |link| {
            Link::over(OwnedFd::from(to_tasks), from_tasks, link, &send)
        })
        .unwrap();
    drop(send);
    fleet.greet("own", Duration::from_mins(1));
    fleet
}

fn work() -> RoundWork {
    RoundWork {
        seq: 0,
        cell: Cell::default(),
        point: Point {
            workload: "w".into(),
            label: "p".into(),
            work: None,
            params: serde_json::Map::new(),
            meaning: layermark_model::Meaning::default(),
            needs: std::sync::Arc::default(),
        },
        seed: 1,
        ns: 0,
        lead_in_ns: 0,
        least: None,
    }
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// The figures are printed, for the docs: `cargo nextest run -p layermark-fleet simulated --no-capture`.
fn many(hosts: u32, most_memory: u64) {
    let before = resident();
    let begun = Instant::now();
    let mut fleet = fleet(hosts, Duration::from_mins(1), good);
    let greeted = begun.elapsed();
    let barrier = fleet.compare_clocks(ClockTrips::First);
    let all = fleet.up();
    assert_eq!(all.len(), hosts as usize);
    let begun = Instant::now();
    let made = fleet.round(&all, &work());
    let round = begun.elapsed();
    let whole = made.iter().filter(|m| m.turn.ops == 20_000);
    assert_eq!(whole.count(), hosts as usize);
    let used = resident().saturating_sub(before);
    println!(
        "{hosts} simulated hosts: greeted in {greeted:?}, barrier's round trip {:.2} ms, a round with all trials {round:?}, \
         memory +{:.1} MiB",
        barrier.round_trip_ns as f64 / 1e6,
        used as f64 / f64::from(1 << 20)
    );
    assert!(used < most_memory, "{used}");
    assert!(barrier.round_trip_ns < 5_000_000_000);
}

#[test]
fn simulated_hosts_1000() {
    many(1000, 64 << 20);
}

#[test]
fn simulated_hosts_10000() {
    many(10_000, 640 << 20);
}

/// The other hosts of a round are not affected by one that does this.
fn one_bad(fault: Fault, says: &str) {
    let mut fleet = fleet(3, Duration::from_millis(400), fault);
    let up = fleet.up();
    let made = fleet.round(&up, &work());
    let fine = made.iter().filter(|m| m.record.is_some());
    assert_eq!(fine.count(), 2, "{says}");
    let lost = fleet.hosts[1].lost.as_ref().expect(says);
    assert!(lost.why.contains(says), "{lost:?}");
    assert!(fleet.hosts[0].is_up() && fleet.hosts[2].is_up());
    // And the fleet goes on without it.
    let up = fleet.up();
    assert_eq!(up, [0, 2]);
    let again = fleet.round(&up, &work());
    assert!(again.iter().all(|m| m.record.is_some()));
}

#[test]
fn a_host_that_misbehaves_is_lost_and_the_others_go_on() {
    fn when(task: u32, order: &Order, bad: Behaviour) -> Behaviour {
        if task == 1 && matches!(order, Order::Turn { .. }) {
            bad
        } else {
            Behaviour::Good
        }
    }
    one_bad(|t, _, o| when(t, o, Behaviour::Silent), "did not answer");
    one_bad(|t, _, o| when(t, o, Behaviour::Twice), "answered twice");
    one_bad(|t, _, o| when(t, o, Behaviour::Unasked), "nobody had asked");
    one_bad(
        |t, _, o| when(t, o, Behaviour::Garbage),
        "no answer: `1: @lm 1 x`",
    );
}

/// Tasks of one launcher: it cannot be ended for one of them.
#[test]
fn a_lost_host_is_told_to_end() {
    static TOLD: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let mut fleet = fleet(3, Duration::from_millis(400), |task, _, order| {
        match (task, order) {
            (_, Order::Quit) => TOLD.lock().unwrap().push(task),
            (1, Order::Turn { .. }) => return Behaviour::Silent,
            _ => {}
        }
        Behaviour::Good
    });
    let up = fleet.up();
    fleet.round(&up, &work());
    // The others have answered after it was told.
    fleet.round(&[0, 2], &work());
    assert_eq!(*TOLD.lock().unwrap(), [1]);
}

#[test]
fn hosts_that_do_not_start_are_waited_for_until_the_user_stops_the_run() {
    let (send, heard) = sync_channel(1);
    let stop = Stop::new();
    let mut fleet = Fleet::new(heard, Duration::from_mins(1), &stop);
    let (_orders, to_tasks) = io::pipe().unwrap();
    let (from_tasks, _out) = io::pipe().unwrap();
    let link = |link| Link::over(OwnedFd::from(to_tasks), from_tasks, link, &send);
    fleet.add(&[(0, None)], link).unwrap();
    stop.ask();
    // Longer than any test.
    fleet.greet("own", Duration::from_hours(24));
    assert!(fleet.hosts[0].lost.is_some() && fleet.hosts[0].fault().is_none());
}

/// It says so for longer than one may take that says nothing.
#[test]
fn hosts_that_remove_their_files_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let done = dir.path().join("done");
    let work =
        "cat >&2; for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo \"@lm 0 $i. {}\"; done; : >\"$1\"";
    let words = ["sh", "-c", work, "sh", done.to_str().unwrap()];
    let command = StartCommand {
        words: words.map(Into::into).to_vec(),
        tasks: vec![(0, None)],
    };
    let (send, heard) = sync_channel(64);
    let mut fleet = Fleet::new(heard, Duration::from_hours(1), &Stop::new());
    let start = |link| Link::start(&command, link, &send);
    fleet.add(&command.tasks, start).unwrap();
    drop(send);
    drop(fleet);
    assert!(done.exists());
}

#[test]
fn a_host_with_another_binary_takes_no_part() {
    let fleet = fleet(3, Duration::from_secs(5), |task, _, _| {
        if task == 2 {
            Behaviour::OtherBinary
        } else {
            Behaviour::Good
        }
    });
    assert_eq!(fleet.up(), [0, 1]);
    let lost = fleet.hosts[2].lost.as_ref().unwrap();
    assert!(lost.why.contains("its binary is another one"), "{lost:?}");
}

/// A storm of one point.
fn request(blocks: u32) -> StormRequest {
    let plan = "name = 'p'\nlayers = ['native']\n[[work]]\nworkload = 'w'";
    StormRequest {
        plan: Plan::from_toml(plan).unwrap(),
        points: vec![work().point],
        launcher: "made up".into(),
        asked: Some("3".into()),
        exe: None,
        sbcast: None,
        dir: "/own".into(),
        share: "/share".into(),
        blocks,
        silence: Duration::from_secs(5),
        store: StoreOption::default(),
    }
}

/// A store in memory that takes so many rounds.
struct Kept {
    rounds: usize,
    run: Option<Run>,
    trials: Vec<TrialRecord>,
    /// How hosts are not as they were.
    differ: Vec<String>,
}

impl Kept {
    fn take(&mut self, event: &StormEvent<'_>) -> Result<(), &'static str> {
        match event {
            StormEvent::Begun(run) | StormEvent::Changed(run) => self.run = Some((*run).clone()),
            StormEvent::Trials(run, records) => {
                assert_eq!(*run, self.run.as_ref().unwrap().id);
                self.rounds = self.rounds.checked_sub(1).ok_or("killed")?;
                self.trials.extend_from_slice(records);
            }
            StormEvent::Differs(host, how) => self.differ.push(format!("{host}: {how}")),
            StormEvent::Barrier(_) | StormEvent::Round(..) => {}
        }
        Ok(())
    }

    /// Runs a storm into it, or goes on with the one in it.
    fn storm(&mut self, fleet: &mut Fleet, blocks: u32) -> Result<FleetRun, &'static str> {
        let before = self.run.clone().map(|run| StormBefore {
            run,
            trials: self.trials.clone(),
        });
        let request = request(blocks);
        storm(fleet, (&request, before), &Stop::new(), &mut |event| {
            self.take(&event)
        })
    }
}

fn kept(rounds: usize) -> Kept {
    Kept {
        rounds,
        run: None,
        trials: Vec::new(),
        differ: Vec::new(),
    }
}

#[test]
fn a_storm_that_was_killed_goes_on_with_the_groups_that_are_missing() {
    let mut kept = kept(7);
    let fleet_of = |kept: &mut Kept| {
        let mut fleet = fleet(3, Duration::from_secs(5), good);
        kept.storm(&mut fleet, 3)
    };
    assert_eq!(fleet_of(&mut kept), Err("killed"));
    // A group has four rounds: own disks, 1, 2 and 3 hosts. The second one was not whole.
    let run = kept.run.clone().unwrap();
    assert_eq!(run.status, RunStatus::Running);
    assert_eq!(run.fleet.as_ref().unwrap().groups, 1);
    let names: Vec<&str> = run.layers.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "1 host on the share",
            "own disks",
            "2 hosts on the share",
            "3 hosts on the share"
        ]
    );
    kept.rounds = usize::MAX;
    let whole = fleet_of(&mut kept).unwrap();
    let run = kept.run.clone().unwrap();
    assert_eq!(run.status, RunStatus::Done);
    assert_eq!(run.fleet.as_ref().unwrap().sessions, 2);
    assert_eq!(run.machine.label.as_deref(), Some("h0, h1, h2"));
    // What is told from memory is what the store has.
    assert_eq!(FleetRun::of(&run, &kept.trials), Some(whole.clone()));
    for block in 0..3 {
        let of = whole.rounds.iter().filter(|r| r.block == block);
        let mut hosts: Vec<usize> = of.map(|r| r.turns.len()).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, [1, 2, 3, 3], "block {block}");
    }
    let mut seqs: Vec<u64> = kept.trials.iter().map(|t| t.seq).collect();
    let all = seqs.len();
    seqs.dedup();
    assert_eq!(seqs.len(), all, "each trial has a number of its own");
    let sessions = |block| {
        let of = kept.trials.iter().filter(move |t| t.cell.block == block);
        of.map(|t| t.cell.session)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(sessions(0).into_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(sessions(1).into_iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(sessions(2).into_iter().collect::<Vec<_>>(), [1]);
}

/// A host alone does 20000 operations in 5 ms.
#[test]
fn the_work_of_each_host_takes_as_long_as_a_turn_of_the_plan() {
    let work = |turn: Option<&str>| {
        let mut request = request(1);
        request.plan.turn = turn.map(Into::into);
        let mut kept = kept(usize::MAX);
        let mut fleet = fleet(2, Duration::from_secs(5), good);
        let take = &mut |event: StormEvent<'_>| kept.take(&event);
        storm(&mut fleet, (&request, None), &Stop::new(), take).unwrap();
        kept.run.unwrap().fleet.unwrap().work
    };
    // Own directories and the share.
    let same = |ops| vec![[Some(ops); 2]];
    assert_eq!(work(None), same(800_000));
    assert_eq!(work(Some("20ms")), same(80_000));
    // At least what it did once.
    assert_eq!(work(Some("1ms")), same(20_000));
}

/// In the last round of the first group, while a host is at work.
#[test]
fn a_group_that_was_stopped_at_once_is_made_again_and_no_host_is_blamed() {
    static AT_WORK: AtomicBool = AtomicBool::new(false);
    let stop = Stop::new();
    let mut cut = fleet_until(
        3,
        Duration::from_mins(1),
        |task, _, order| {
            let its_turn = task == 1 && matches!(order, Order::Turn { .. });
            if its_turn && AT_WORK.load(Ordering::SeqCst) {
                Behaviour::Silent
            } else {
                Behaviour::Good
            }
        },
        &stop,
    );
    let mut kept = kept(usize::MAX);
    let run = storm(&mut cut, (&request(2), None), &stop, &mut |event| {
        if let StormEvent::Round(1, _, _, FleetPlace::Share, 3) = event {
            AT_WORK.store(true, Ordering::SeqCst);
            stop.ask();
            stop.ask();
        }
        kept.take(&event)
    });
    let run = run.unwrap();
    assert!(run.stopped && cut.hosts[1].lost.is_some());
    assert!(
        run.hosts.iter().all(|h| h.lost.is_none()),
        "{:?}",
        run.hosts
    );
    let stored = kept.run.clone().unwrap();
    assert_eq!(stored.status, RunStatus::Stopped);
    assert_eq!(stored.fleet.unwrap().groups, 0);
    let mut again = fleet(3, Duration::from_secs(5), good);
    let run = kept.storm(&mut again, 2).unwrap();
    assert_eq!(run.rounds.len(), 2 * 4);
    let mut turns = run.rounds.iter().flat_map(|r| &r.turns);
    assert!(turns.all(|t| t.error.is_none()), "{:?}", run.rounds);
}

#[test]
fn hosts_that_are_gone_are_lost_and_new_ones_take_no_part() {
    let mut kept = kept(4);
    let mut three = fleet(3, Duration::from_secs(5), good);
    assert_eq!(kept.storm(&mut three, 2), Err("killed"));
    kept.rounds = usize::MAX;
    let mut two = fleet(2, Duration::from_secs(5), good);
    // How far a clock ran away before is kept, and each turn knows its own error.
    let before = kept.run.as_mut().unwrap().fleet.as_mut().unwrap();
    before.hosts[0].clock_drift_s = Some(5000.0);
    let run = kept.storm(&mut two, 2).unwrap();
    assert_eq!(run.hosts[0].clock_drift_s, Some(5000.0));
    let mut turns = run.rounds.iter().flat_map(|r| &r.turns);
    assert!(turns.all(|t| t.clock_error_ns.is_some()));
    let lost: Vec<Option<&str>> = run
        .hosts
        .iter()
        .map(|h| h.lost.as_ref().map(|l| l.why.as_str()))
        .collect();
    assert_eq!(lost, [None, None, Some("no task on it has started again")]);
    assert!(
        run.rounds
            .iter()
            .filter(|r| r.block == 1)
            .all(|r| r.turns.len() < 3)
    );
    let mut four = fleet(4, Duration::from_secs(5), good);
    let run = kept.storm(&mut four, 3).unwrap();
    assert_eq!(run.hosts.len(), 3);
    assert!(
        run.hosts.iter().all(|h| h.lost.is_none()),
        "{:?}",
        run.hosts
    );
    let why = four.hosts[3].lost.as_ref().unwrap();
    assert_eq!(why.why, "it is not a host of this run");
}

/// Slurm names no host before it has started.
#[test]
fn a_host_that_never_started_can_take_part_when_a_run_goes_on() {
    fn late(task: u32, _: u64, _: &Order) -> Behaviour {
        if task == 1 {
            Behaviour::OtherBinary
        } else {
            Behaviour::Good
        }
    }
    let mut kept = kept(3);
    let mut two = fleet(3, Duration::from_secs(5), late);
    assert_eq!(kept.storm(&mut two, 2), Err("killed"));
    let hosts = &kept.run.as_ref().unwrap().fleet.as_ref().unwrap().hosts;
    assert_eq!(hosts[1].name, "task 1");
    kept.rounds = usize::MAX;
    // It is lost again: the reason is that of now.
    let mut again = fleet(3, Duration::from_secs(5), late);
    let run = kept.storm(&mut again, 1).unwrap();
    let lost = run.hosts[1].lost.as_ref().unwrap();
    assert!(lost.why.contains("its binary is another one"), "{lost:?}");
    let mut three = fleet(3, Duration::from_secs(5), good);
    let run = kept.storm(&mut three, 2).unwrap();
    let names: Vec<&str> = run.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["h0", "h1", "h2"]);
    assert!(
        run.hosts.iter().all(|h| h.lost.is_none()),
        "{:?}",
        run.hosts
    );
    let mut second = run.rounds.iter().filter(|r| r.block == 1);
    assert!(second.any(|r| r.place == FleetPlace::Share && r.turns.len() == 3));
}

#[test]
fn another_machine_under_the_name_of_a_host_takes_no_part_and_other_changes_are_said() {
    let mut kept = kept(4);
    let mut first = fleet(3, Duration::from_secs(5), good);
    assert_eq!(kept.storm(&mut first, 2), Err("killed"));
    kept.rounds = usize::MAX;
    let hosts = &mut kept.run.as_mut().unwrap().fleet.as_mut().unwrap().hosts;
    hosts[0].machine.as_mut().unwrap().kernel = "5.10".into();
    hosts[0].share = Some(mounted("rw,vers=4.1,clientaddr=10.0.0.7"));
    hosts[1].machine.as_mut().unwrap().cpu = "Z80".into();
    hosts[2].share = Some(mounted("rw"));
    let mut again = fleet(3, Duration::from_secs(5), |task, _, order| {
        match (task, order) {
            (0, Order::Open(_)) => Behaviour::Remounted,
            (2, Order::Open(_)) => Behaviour::NoShare,
            _ => Behaviour::Good,
        }
    });
    let run = kept.storm(&mut again, 2).unwrap();
    assert_eq!(
        kept.differ,
        [
            "h0: kernel 5.10 then,  now",
            "h0: its share was mounted as nfs4 with rw,vers=4.1, and is as nfs4 with rw,vers=4.2"
        ]
    );
    let why = |host: usize| run.hosts[host].lost.as_ref().map(|lost| lost.why.as_str());
    assert_eq!(why(0), None);
    assert_eq!(why(1), Some("it is another machine: CPU Z80 then,  now"));
    assert_eq!(why(2), Some("no such share"));
    // What was measured before was measured on these.
    assert_eq!(run.hosts[1].machine.as_ref().unwrap().cpu, "Z80");
    assert_eq!(run.hosts[2].share, Some(mounted("rw")));
}

/// A check of one point, with a share. Returns the hosts' runs.
fn checked(fleet: &mut Fleet) -> Vec<Option<Run>> {
    let of_storm = request(1);
    let request = CheckRequest {
        plan: of_storm.plan,
        points: of_storm.points,
        dir: of_storm.dir,
        share: Some(of_storm.share),
        budget: Duration::ZERO,
        seed: 1,
        silence: of_storm.silence,
        store: of_storm.store,
    };
    let runs = check(fleet, &request, &Stop::new(), &mut |_| Ok::<(), ()>(()));
    runs.unwrap()
}

#[test]
fn a_host_of_a_check_without_the_share_is_lost_with_the_reason() {
    let mut one = fleet(3, Duration::from_secs(5), |task, _, order| {
        match (task, order) {
            (1, Order::Open(_)) => Behaviour::NoShare,
            _ => Behaviour::Good,
        }
    });
    let runs = checked(&mut one);
    let lost = one.hosts[1].lost.as_ref().unwrap();
    assert_eq!(
        (&*lost.during, &*lost.why),
        ("the share was set up", "no such share")
    );
    let status = |run: &Option<Run>| run.as_ref().map(|run| run.status);
    let of: Vec<_> = runs.iter().map(status).collect();
    let (done, failed) = (Some(RunStatus::Done), Some(RunStatus::Failed));
    assert_eq!(of, [done, failed, done]);
    // A path that no host has: nothing is measured.
    let mut none = fleet(3, Duration::from_secs(5), |_, _, order| match order {
        Order::Open(_) => Behaviour::NoShare,
        Order::Prepare(_) => Behaviour::Silent,
        _ => Behaviour::Good,
    });
    checked(&mut none);
    let why = |host: &crate::coordinator::Host| host.lost.as_ref().map(|lost| lost.why.clone());
    assert!(
        none.hosts
            .iter()
            .all(|host| why(host).as_deref() == Some("no such share"))
    );
}

/// What hosts were told about packages: who has made one, which name all were told, and in which layers they worked.
static PACKAGES: Mutex<(Vec<u32>, Vec<String>, BTreeSet<usize>)> =
    Mutex::new((Vec::new(), Vec::new(), BTreeSet::new()));

#[test]
fn one_host_makes_the_package_of_all_and_another_one_if_it_is_lost() {
    fn first_dies(task: u32, n: u64, order: &Order) -> Behaviour {
        let mut seen = PACKAGES.lock().unwrap();
        match order {
            Order::Package(_) => seen.0.push(task),
            Order::Open(open) if task == 2 => {
                let last = open.layers.last().unwrap();
                seen.1.push(last.spec.options["packaged"].clone());
                // The files of the package are in own directories too, and not on the share once more.
                let points = open.layers.iter().map(|l| l.points.len());
                assert_eq!(points.collect::<Vec<_>>(), [1, 0, 0]);
            }
            Order::Prepare(prepare) => drop(seen.2.insert(prepare.cell.layer)),
            _ => {}
        }
        if task == 0 && n > 60 {
            Behaviour::Silent
        } else {
            Behaviour::Good
        }
    }
    let mut fleet = fleet(3, Duration::from_millis(400), first_dies);
    let mut request = request(3);
    let params = &mut request.points[0].params;
    params.insert(ONE_PACKAGE.into(), true.into());
    let mut kept = kept(usize::MAX);
    let run = storm(&mut fleet, (&request, None), &Stop::new(), &mut |event| {
        kept.take(&event)
    });
    let run = run.unwrap();
    assert!(run.hosts[0].lost.is_some() && run.hosts[1].lost.is_none());
    let seen = PACKAGES.lock().unwrap();
    assert_eq!(seen.0, [0, 1]);
    assert_eq!(seen.1, ["layermark-of-0", "layermark-of-1"]);
    assert_eq!(seen.2.iter().copied().collect::<Vec<_>>(), [0, 2]);
}

/// A storm whose only point has one package for all hosts.
fn package_storm(fleet: &mut Fleet, blocks: u32) -> (FleetRun, Kept) {
    let mut request = request(blocks);
    let params = &mut request.points[0].params;
    params.insert(ONE_PACKAGE.into(), true.into());
    let mut kept = kept(usize::MAX);
    let run = storm(fleet, (&request, None), &Stop::new(), &mut |event| {
        kept.take(&event)
    });
    (run.unwrap(), kept)
}

/// The first one makes its package in a directory of its own.
#[test]
fn a_host_with_another_share_that_makes_the_package_is_the_only_one_that_is_lost() {
    fn apart(task: u32, _: u64, order: &Order) -> Behaviour {
        match order {
            Order::Look(look) if (look.name == "layermark-of-0") != (task == 0) => {
                Behaviour::Unseen
            }
            _ => Behaviour::Good,
        }
    }
    let mut fleet = fleet(4, Duration::from_secs(5), apart);
    let (run, kept) = package_storm(&mut fleet, 2);
    let lost = run.hosts[0].lost.as_ref().unwrap();
    let says = "it does not see the package that h2 has put into /share, where 3 hosts see it: ";
    assert!(lost.why.starts_with(says), "{lost:?}");
    assert!(
        lost.why
            .ends_with("hint: compare what is mounted there: findmnt -T /share"),
        "{lost:?}"
    );
    assert!(run.hosts[1..].iter().all(|h| h.lost.is_none()));
    assert_eq!(kept.run.unwrap().status, RunStatus::Done);
    let mut all = run.rounds.iter().flat_map(|r| &r.turns);
    assert!(all.all(|t| t.error.is_none() && t.host != 0));
}

/// The first nine have directories of their own at that path.
#[test]
fn hosts_without_the_share_at_the_head_of_the_list_do_not_decide_who_goes_on() {
    const APART: u32 = 9;
    fn head(task: u32, _: u64, order: &Order) -> Behaviour {
        let Order::Look(look) = order else {
            return Behaviour::Good;
        };
        let maker = look.name.rsplit_once('-').unwrap().1;
        let of_share = maker.parse::<u32>().unwrap() >= APART;
        if task >= APART && of_share {
            Behaviour::Good
        } else {
            Behaviour::Unseen
        }
    }
    let mut fleet = fleet(29, Duration::from_secs(5), head);
    let (run, _) = package_storm(&mut fleet, 1);
    let up: Vec<bool> = run.hosts.iter().map(|h| h.lost.is_none()).collect();
    let (apart, sharing) = up.split_at(APART as usize);
    assert!(apart.iter().all(|up| !up) && sharing.iter().all(|up| *up));
    let lost = run.hosts[0].lost.as_ref().unwrap();
    assert!(lost.why.contains("where 20 hosts see it"), "{lost:?}");
}

/// Each has a directory of its own: one goes on.
#[test]
fn hosts_that_share_nothing_do_not_all_make_a_package() {
    fn alone(_: u32, _: u64, order: &Order) -> Behaviour {
        match order {
            Order::Look(_) => Behaviour::Unseen,
            _ => Behaviour::Good,
        }
    }
    let mut fleet = fleet(20, Duration::from_secs(5), alone);
    let (run, _) = package_storm(&mut fleet, 1);
    let up: Vec<bool> = run.hosts.iter().map(|h| h.lost.is_none()).collect();
    assert_eq!(up.iter().position(|up| *up), Some(0));
    assert_eq!(up.iter().filter(|up| **up).count(), 1);
    let lost = run.hosts[19].lost.as_ref().unwrap();
    let says = "it does not see the package that h0 has put into /share: that is another";
    assert!(lost.why.starts_with(says), "{lost:?}");
}

#[test]
fn a_group_whose_package_was_lost_is_made_again() {
    fn dies_at_work(task: u32, _: u64, order: &Order) -> Behaviour {
        // In its second block, the others work with it on the share.
        match order {
            Order::Prepare(prepare)
                if task == 0 && prepare.cell.block == 1 && prepare.cell.layer == 2 =>
            {
                Behaviour::Silent
            }
            _ => Behaviour::Good,
        }
    }
    let mut fleet = fleet(3, Duration::from_millis(400), dies_at_work);
    let (run, kept) = package_storm(&mut fleet, 3);
    assert!(run.hosts[0].lost.is_some());
    let hosts = |block| {
        let of = run.rounds.iter().filter(move |r| r.block == block);
        let mut all: Vec<usize> = of.map(|r| r.turns.len()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(hosts(0), [1, 2, 3, 3]);
    // Own disks, then one and two hosts on the share.
    assert_eq!((hosts(1), hosts(2)), (vec![1, 2, 2], vec![1, 2, 2]));
    let mut turns = run.rounds.iter().flat_map(|r| &r.turns);
    assert!(turns.all(|t| t.error.is_none()), "{:?}", run.rounds);
    let stored = kept.run.unwrap();
    let of_fleet = stored.fleet.as_ref().unwrap();
    assert_eq!((of_fleet.groups, of_fleet.sessions), (3, 2));
    // What was measured before the loss is stored, and does not count.
    assert!(kept.trials.iter().any(|t| t.error.is_some()));
    assert_eq!(FleetRun::of(&stored, &kept.trials), Some(run));
}

#[test]
fn a_host_is_lost_when_its_own_disk_is_full_and_not_when_the_share_is() {
    fn full(layer: usize, order: &Order) -> Behaviour {
        match order {
            Order::Prepare(prepare) if prepare.cell.layer == layer && prepare.cell.block == 1 => {
                Behaviour::NoRoom
            }
            _ => Behaviour::Good,
        }
    }
    let own = |task, _, order: &Order| match task {
        1 => full(0, order),
        _ => Behaviour::Good,
    };
    let run = kept(usize::MAX).storm(&mut fleet(3, Duration::from_secs(5), own), 3);
    let run = run.unwrap();
    let lost = run.hosts[1].lost.as_ref().unwrap();
    assert_eq!(lost.during, "its files were made");
    assert_eq!(
        lost.why,
        "its own disk has no room: cannot write /own/x: No space left on device (os error 28); hint: make room"
    );
    let mut others = run.rounds.iter().flat_map(|r| &r.turns);
    assert!(others.all(|t| t.host == 1 || t.error.is_none()));
    assert!(run.hosts[0].lost.is_none() && run.hosts[2].lost.is_none());
    let shared = |task, _, order: &Order| match task {
        1 => full(1, order),
        _ => Behaviour::Good,
    };
    let run = kept(usize::MAX).storm(&mut fleet(3, Duration::from_secs(5), shared), 2);
    let run = run.unwrap();
    assert!(run.hosts.iter().all(|h| h.lost.is_none()));
    let failed = run.rounds.iter().flat_map(|r| &r.turns);
    assert!(failed.filter(|t| t.error.is_some()).all(|t| t.host == 1));
}

/// The share of one goes away: no round fails because of it any more.
#[test]
fn a_host_whose_layer_was_lost_takes_no_part_any_more() {
    let gone = |task, _, order: &Order| match order {
        Order::Turn { .. } if task == 1 => Behaviour::LayerLost,
        _ => Behaviour::Good,
    };
    let mut fleet = fleet(3, Duration::from_secs(5), gone);
    let run = kept(usize::MAX).storm(&mut fleet, 3).unwrap();
    let lost = run.hosts[1].lost.as_ref().unwrap();
    assert_eq!(
        (&*lost.during, &*lost.why),
        ("it had its turn", "/share does not answer")
    );
    // The rounds of the point that was under way had counted with it.
    let later = run.rounds.iter().filter(|r| r.block > 0);
    let mut later = later.flat_map(|r| &r.turns);
    assert!(later.all(|t| t.host != 1 && t.error.is_none()));
}

#[test]
fn after_a_loss_all_hosts_at_once_are_a_layer_of_their_own() {
    let mut kept = kept(usize::MAX);
    let mut fleet = fleet(4, Duration::from_millis(400), |task, n, _| {
        if task == 3 && n > 60 {
            Behaviour::Silent
        } else {
            Behaviour::Good
        }
    });
    let run = kept.storm(&mut fleet, 3).unwrap();
    assert!(run.hosts[3].lost.is_some());
    let stored = kept.run.unwrap();
    let last = stored.layers.last().unwrap();
    assert_eq!(last.name, "3 hosts on the share");
    // Only the trials of the host that is alone in a round of the group compare layers.
    let of = |block| kept.trials.iter().filter(move |t| t.cell.block == block);
    for block in 0..3 {
        let compared = of(block).filter(|t| t.is_compared());
        let hosts: std::collections::BTreeSet<_> =
            compared.filter_map(|t| Some(t.host?.host)).collect();
        assert_eq!(hosts.len(), 1, "block {block}");
    }
}
