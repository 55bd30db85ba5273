//! A real probe on a real disk, natively and through another directory of it. This program is its
//! own probe: layers start it as `EXE probe`.

use std::{
    io::{stdin, stdout},
    os::unix::fs::FileExt,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use layermark_lab::{Ended, Event, Request, Stop};
use layermark_model::{Plan, RunStatus, flags::WRITE_BACK};
use layermark_store::Store;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("probe") {
        return match layermark_probe::serve(stdin().lock(), stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let tests: [(&str, fn()); 2] = [
        ("compares_two_directories", compares_two_directories),
        (
            "a_neighbours_write_back_is_told",
            a_neighbours_write_back_is_told,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn compares_two_directories() {
    // Not /tmp: that may be in memory, which the lab refuses for a disk.
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, other) = (temp.path().join("work"), temp.path().join("other"));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&other).unwrap();
    let mut store = Store::open(temp.path().join("store.db")).unwrap();
    let mut request = Request::new(plan(&other), &work, std::env::current_exe().unwrap());
    request.allow_tmpfs = true;
    request.silence = Duration::from_secs(20);

    let mut last = Vec::new();
    let outcome = layermark_lab::run(
        request,
        &mut store,
        &Stop::new(),
        &mut |event| match &event {
            Event::LayerFailed { .. } | Event::Warning { .. } => last.push(event.clone()),
            _ => {}
        },
    )
    .unwrap();
    assert!(
        matches!(outcome.ended, Ended::Settled | Ended::Budget),
        "{outcome:?}"
    );
    assert_eq!(
        (outcome.run.status, outcome.exit_code()),
        (RunStatus::Done, 0),
        "{last:?}"
    );

    let (run, trials) = store.load("last").unwrap();
    assert!(
        run.layers
            .iter()
            .all(|l| !l.facts.mounts.is_empty() && l.self_test.clock_ns > 0.0)
    );
    let errors: Vec<_> = trials.iter().filter_map(|t| t.error.as_deref()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for record in &trials {
        let trial = record.trial.as_ref().unwrap();
        assert!(trial.ns_per_op().unwrap() > 0.0);
        let waiting = trial.waiting.unwrap();
        assert!(waiting.apart && waiting.helpers_ns.is_none(), "{waiting:?}");
        assert!(
            (0.0..=1.0).contains(&record.foreign_cpu),
            "{}",
            record.foreign_cpu
        );
        let layer = &run.layers[record.cell.layer];
        let counts = layer.facts.devices.iter().any(|d| d.physical);
        assert_eq!(
            trial.background.is_some_and(|b| b.written.is_some()),
            counts,
            "control windows between the rounds"
        );
    }
    for (index, point) in run.points.iter().enumerate() {
        let value = |layer| {
            let trials = trials
                .iter()
                .filter(|t| (t.cell.layer, t.cell.point) == (layer, index));
            let values: Vec<f64> = trials
                .filter_map(|t| t.trial.as_ref()?.ns_per_op())
                .collect();
            layermark_stats::median(&values).unwrap()
        };
        // The same disk and file system; other programs may disturb a cold read ten times over.
        let ratio = value(1) / value(0);
        assert!((0.02..50.0).contains(&ratio), "{}: {ratio}", point.label);
        let resident = trials
            .iter()
            .filter(|t| t.cell.point == index)
            .filter_map(|t| t.trial.as_ref()?.resident);
        let in_memory = run.machine.base.starts_with("tmpfs");
        let resident: Vec<f64> = resident.filter(|_| !in_memory).collect();
        // The kernel may take a page back at any moment, so one trial decides nothing.
        if let Some(share) = layermark_stats::median(&resident) {
            let cold = point.text("cache") == "cold";
            assert!(
                if cold { share <= 0.05 } else { share >= 0.95 },
                "{}: {resident:?}",
                point.label
            );
        }
    }
    for dir in [&work, &other] {
        assert_eq!(
            std::fs::read_dir(dir).unwrap().count(),
            0,
            "{} is as it was",
            dir.display()
        );
    }
}

/// Somebody else writes to the disk while two layers read from memory.
fn a_neighbours_write_back_is_told() {
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, other) = (temp.path().join("work"), temp.path().join("other"));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&other).unwrap();
    let mut store = Store::open(temp.path().join("store.db")).unwrap();
    let text = format!(
        "name = 'real'\nlayers = ['native', 'dir:{}']\nblocks = 6\nseed = 1\nturn = '10ms'\nsessions = 1\n
         [[work]]\nworkload = 'file'\nop = 'read'\nfile_size = '1M'\n",
        other.display()
    );
    let plan = Plan::from_toml(&text).unwrap();
    let mut request = Request::new(plan, &work, std::env::current_exe().unwrap());
    request.allow_tmpfs = true;
    request.silence = Duration::from_secs(20);
    let (over, dir) = (AtomicBool::new(false), temp.path());
    let write = |name: String| {
        let file = std::fs::File::create(dir.join(name)).unwrap();
        let data = vec![7; 4 << 20];
        while !over.load(Ordering::Relaxed) {
            file.write_all_at(&data, 0).unwrap();
            file.sync_all().unwrap();
        }
    };
    std::thread::scope(|scope| {
        // Two for each CPU: beside other tests those on the CPU of the rounds get little of it.
        for number in 0..2 * std::thread::available_parallelism().unwrap().get() {
            let write = &write;
            scope.spawn(move || write(format!("neighbour{number}")));
        }
        let outcome = layermark_lab::run(request, &mut store, &Stop::new(), &mut |_| {});
        over.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    let (run, trials) = store.load("last").unwrap();
    if !run.layers[0].facts.devices.iter().any(|d| d.physical) {
        eprintln!("skipped: no disk below {}", temp.path().display());
        return;
    }
    assert!(trials.len() >= 4, "{}", trials.len());
    let told = trials.iter().filter(|t| {
        let foreign = t.trial.as_ref().unwrap().foreign_writes;
        foreign.is_some_and(|f| f.bytes > 0) && t.flags.iter().any(|f| f == WRITE_BACK)
    });
    assert!(told.count() * 2 > trials.len(), "{trials:#?}");
}

fn plan(other: &Path) -> Plan {
    let text = format!(
        "name = 'real'\nlayers = ['native', 'dir:{}']\nbudget = '4s'\nseed = 1\ncontrol = false\n
         [[work]]\nworkload = 'file'\nop = 'read'\nrecord = '4K'\nfile_size = '1M'\ncache = 'warm'\n
         [[work]]\nworkload = 'file'\nop = 'read'\nrecord = '64K'\nfile_size = '1M'\ncache = 'cold'\n
         [[work]]\nworkload = 'file'\nop = 'write'\nrecord = '64K'\nfile_size = '1M'\nsync = 'fsync'\n",
        other.display()
    );
    Plan::from_toml(&text).unwrap()
}
