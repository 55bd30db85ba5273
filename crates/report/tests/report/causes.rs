//! A cause is what the data of its own cell shows. Each of these was once given where it was not.

use layermark_model::{
    Amount, Debt, DeviceBytes, Figure, FigureTable, FigureUnit, Limit, Limited, Throttled, Trial,
    TrialRecord, flags,
};
use layermark_report::{
    Report, ResultRow,
    render::{self, Style, print_full},
};
use layermark_testkit::sample::Sample;

use crate::words::{made, times};

const OPEN: usize = 0;
const WARM_READ: usize = 2;
const FLUSHED_WRITE: usize = 3;
const FIRST_WRITE: usize = 4;

/// The trials of the first layer beside native at a point.
fn of(trials: &mut [TrialRecord], point: usize) -> impl Iterator<Item = &mut TrialRecord> {
    let cell = move |t: &&mut TrialRecord| (t.cell.layer, t.cell.point) == (1, point);
    trials.iter_mut().filter(cell)
}

fn row<'a>(report: &'a Report, layer: &str, point: usize) -> &'a ResultRow {
    let label = &Sample::default().points[point];
    let mut rows = report.results.iter();
    rows.find(|r| r.layer == layer && r.label == *label)
        .unwrap()
}

fn advice<'a>(report: &'a Report, begin: &str) -> &'a str {
    let mut all = report.advice.iter().map(|a| a.text.as_str());
    all.find(|text| text.starts_with(begin)).unwrap_or_default()
}

/// The page cache answered, and the file system's program used 16 ns of the 5 us that a read of 1 MiB
/// took longer.
#[test]
fn what_the_page_cache_answers_reaches_no_program() {
    let report = made(&["fuse"], |_, trials| {
        of(trials, WARM_READ).for_each(|t| t.upkeep_ns = 0);
    });
    let reasons = |point| &row(&report, "fuse", point).reasons;
    assert_eq!(*reasons(WARM_READ), [""; 0]);
    assert!(reasons(OPEN)[0].contains("program in user space"));
    let told = advice(&report, "Do fewer and larger operations through `fuse`");
    assert!(
        told.ends_with(" to 4 of the 5 operations where it is slower."),
        "{told}"
    );
}

#[test]
fn what_the_page_cache_answers_reaches_no_server() {
    let report = made(&["fuse"], |run, trials| {
        run.layers[1].facts.mounts[0].source = "box:/srv".into();
        of(trials, WARM_READ).for_each(|t| t.upkeep_ns = 0);
    });
    let reasons = |point| row(&report, "fuse", point).reasons.concat();
    assert_eq!(reasons(WARM_READ), "");
    assert!(reasons(OPEN).contains("lies on a server"));
}

/// Another file system in user space was so much cheaper that the program was no cause any more,
/// although it had used two thirds of the time.
#[test]
fn a_program_that_was_seen_at_work_needs_no_other_layer_to_agree() {
    let report = made(&["fuse", "loop:xfs"], |run, trials| {
        run.layers[2].facts = run.layers[1].facts.clone();
        of(trials, OPEN).for_each(|t| times(t, 3.0));
        of(trials, OPEN).for_each(|t| t.upkeep_ns *= 3);
    });
    let row = row(&report, "fuse", OPEN);
    assert_eq!(row.reasons.len(), 2, "{:?}", row.reasons);
}

/// `loop:ext4` removed 708 files in a trial and native 193: it left more bytes behind, and less time
/// an operation than native.
#[test]
fn what_is_left_to_write_explains_what_it_would_have_taken() {
    let left = |seconds: f64| {
        let report = made(&["overlay:upper"], |_, trials| {
            of(trials, FIRST_WRITE).for_each(|t| {
                times(t, 1e-4);
                let debt = Debt {
                    bytes: Some(104_000_000),
                    seconds,
                };
                t.trial.as_mut().unwrap().debt = Some(debt);
            });
        });
        row(&report, "overlay:upper", FIRST_WRITE).reasons.concat()
    };
    assert!(!left(1e-6).contains("clock stopped"), "{}", left(1e-6));
    let much = left(1.0);
    assert!(
        much.starts_with(
            "writing what it left when the clock stopped takes 50.0 ms an operation, natively "
        ),
        "{much}"
    );
}

/// Native's data lies in memory too when nothing reads or writes a device.
#[test]
fn memory_explains_what_waits_for_a_device() {
    let report = made(&["tmpfs"], |_, trials| {
        of(trials, WARM_READ).for_each(|t| times(t, 0.5));
    });
    let reasons = |point| row(&report, "tmpfs", point).reasons.concat();
    assert_eq!(
        reasons(WARM_READ),
        "no reason was found in the data, so do not count on it"
    );
    assert!(reasons(FLUSHED_WRITE).contains("lies in memory"));
}

/// The finding and the layer's sentence are about the same flushes.
#[test]
fn a_sentence_sums_the_flushes_of_all_that_it_names() {
    let (mut run, mut trials) = Sample {
        layers: vec!["overlay:volatile"],
        points: vec!["random write, fsync each"],
        ..Sample::default()
    }
    .build();
    run.points.push(layermark_model::Point {
        label: "another".into(),
        ..run.points[0].clone()
    });
    let again: Vec<TrialRecord> = trials.clone();
    trials.extend(again.into_iter().map(|mut t| {
        t.cell.point = 1;
        t
    }));
    let report = Report::build(&run, &trials);
    let syncs = "for 4400 syncs";
    let finding = report.findings.iter().find(|f| f.text.contains("skips"));
    assert!(finding.unwrap().text.contains(syncs), "{finding:?}");
    let sentence = &report.verdicts[0].text;
    assert!(
        sentence.contains(&format!("0 device flushes {syncs}")),
        "{sentence}"
    );
}

/// `--full` was said to have "3 more findings", and had none.
#[test]
fn complete_reports_have_every_finding() {
    let layers = ["overlay:upper", "overlay:volatile", "fuse"];
    let report = made(&layers, |_, _| {});
    let mut terminal = Vec::new();
    print_full(&report, Style::default(), &mut terminal).unwrap();
    let mut markdown = Vec::new();
    let exporter = render::for_path("x.full.md".as_ref()).unwrap();
    exporter.write(&report, &mut markdown).unwrap();
    let plain = |text: Vec<u8>| {
        let text = String::from_utf8(text).unwrap().replace(['`', '\\'], "");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (terminal, markdown) = (plain(terminal), plain(markdown));
    assert!(report.findings.len() > 2);
    for finding in &report.findings {
        let text = finding.text.replace('`', "");
        assert!(terminal.contains(&text), "{text} is not in {terminal}");
        assert!(markdown.contains(&text), "{text} is not in {markdown}");
    }
}

/// "Look again with --profile standard" was said of runs with that profile.
#[test]
fn advice_asks_for_more_than_the_run_had() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials.iter_mut() {
            t.cell.session = t.cell.block % 3;
        }
        of(trials, WARM_READ).for_each(|t| times(t, 0.5));
    });
    assert_eq!(
        advice(&report, "Do not count on `overlay:upper`"),
        "Do not count on `overlay:upper` being faster than native at \u{201c}large read, warm\u{201d}: nothing in the data explains it. Look again with more sessions: --sessions 6."
    );
}

/// A larger budget was advised where one cell of eleven had a trial that nothing disturbed, and where
/// each had one.
#[test]
fn on_a_busy_machine_more_time_is_no_advice() {
    let quiet: [fn(&TrialRecord) -> bool; 3] = [
        |_| false,
        |t| t.cell.block == 0 && t.cell.point == OPEN,
        |t| t.cell.block == 0,
    ];
    for quiet in quiet {
        let report = made(&["overlay:upper"], |_, trials| {
            for t in trials.iter_mut() {
                let factor = [0.8, 1.3, 1.0, 1.4][t.cell.block as usize % 4];
                times(t, if t.cell.layer == 1 { factor } else { 1.0 });
                t.flags.clear();
                if !quiet(t) {
                    t.flags.push(flags::CONTAMINATED.into());
                }
            }
        });
        let told = advice(&report, "Not known for certain");
        assert!(
            told.ends_with("when nothing else runs on this machine."),
            "{told}"
        );
    }
}

/// "Because it is another file system" was a guess: it is what remains when the data shows nothing.
#[test]
fn another_file_system_is_told_beside_what_is_not_known() {
    let report = made(&["loop:xfs"], |_, trials| {
        of(trials, FIRST_WRITE).for_each(|t| {
            times(t, 0.3);
            t.trial.as_mut().unwrap().debt = None;
        });
    });
    let said = &report.verdicts[0].text;
    assert!(
        said.contains(", and it is another file system (xfs, natively ext4); nothing else in the data explains it"),
        "{said}"
    );
}

/// "It is another file system (fuse.pf, natively ext4); nothing else in the data explains it", in a row with 1988
/// flushes for 3321 syncs.
#[test]
fn a_program_above_the_same_directory_is_not_faster_for_being_one() {
    for (share, factor) in [(0.6, 0.7), (0.6, 1.6), (1.0, 0.7)] {
        let report = made(&["fuse"], |_, trials| {
            for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
                let trial = t.trial.as_mut().unwrap();
                let device = trial.device.as_mut().unwrap();
                if trial.syncs > 0 {
                    device.flushes = (trial.syncs as f64 * share) as u64;
                    times(t, factor);
                }
            }
        });
        let row = |layer: &str| {
            let mut rows = report.results.iter();
            let found = rows.find(|r| r.layer == layer && r.durability.syncs > 0);
            found.expect("a point that flushes")
        };
        let (here, native) = (row("fuse"), row("native"));
        assert_eq!(native.durability.words(), "flushes reached the device");
        let said = format!("{} {:?}", report.verdicts[0].text, here.reasons);
        assert!(!said.contains("another file system"), "{said}");
        let advice = |words: &str| {
            let mut all = report.advice.iter();
            all.any(|a| a.text.contains(words) && a.text.contains("layermark durability --server"))
        };
        let fewer = share < 1.0;
        assert_eq!(
            here.durability.words().contains("0.6 flushes a sync"),
            fewer
        );
        assert_eq!(said.contains("0.6"), fewer, "{said}");
        assert_eq!(advice("fewer flushes than the application asks"), fewer);
        assert_eq!(advice("and this flushes faster"), !fewer, "{said}");
    }
}

/// podman's root paid 197 ns for a filter that its volume has as well, for 43 ns.
#[test]
fn a_filter_costs_no_more_than_where_it_is_cheapest() {
    let report = made(&["overlay:upper", "loop:xfs"], |run, trials| {
        for layer in [1, 2] {
            let note = ("seccomp_filters".to_owned(), "1".to_owned());
            run.layers[layer].facts.notes.extend([note]);
        }
        of(trials, OPEN).for_each(|t| times(t, 1.15));
    });
    let reasons = |layer| row(&report, layer, OPEN).reasons.concat();
    let filter = "each system call passes 1 seccomp filter, natively none";
    assert_eq!(reasons("overlay:upper"), filter, "300 ns");
    assert_eq!(reasons("loop:xfs"), "", "1.5 us");
}

/// The store keeps the seconds, and the report makes the command, with the store's path.
#[test]
fn the_hint_of_a_layer_left_out_finds_its_run() {
    let report = made(&["fuse"], |run, _| {
        run.store = layermark_model::StoreOption::new("runs.db".as_ref());
        let layer = &mut run.layers[1];
        layer.status = layermark_model::LayerStatus::LeftOut;
        layer.enough_s = Some(150);
        let slow = layermark_model::LayerRun {
            hint: Some("make the files smaller".into()),
            ..layer.clone()
        };
        run.layers.push(slow);
    });
    let command = format!(
        "layermark run --replay {} --store runs.db --budget 150s",
        report.run
    );
    let smaller = format!("make the files smaller, or give it more time: {command}");
    let hints = report.left_out.iter().map(|left| left.hint.as_deref());
    assert_eq!(
        hints.collect::<Vec<_>>(),
        [Some(&*command), Some(&*smaller)]
    );
    let of_layers = report.layers.iter().filter(|layer| !layer.control);
    let of_layers = of_layers.map(|layer| layer.hint.as_deref());
    assert_eq!(
        of_layers.collect::<Vec<_>>(),
        [None, Some(&*command), Some(&*smaller)]
    );
}

/// "sshfs costs nothing measurable" was said of one that failed at 5 of 16 points.
#[test]
fn a_layer_that_fails_somewhere_is_not_said_to_cost_nothing() {
    let report = made(&["overlay:upper"], |_, trials| {
        of(trials, FIRST_WRITE).for_each(|t| {
            t.trial = None;
            t.error = Some("the change was not seen".into());
        });
    });
    let headline = &report.headline;
    assert!(
        headline.contains("`overlay:upper` failed at 1 of 5 operations"),
        "{headline}"
    );
    let free = ["costs nothing", "wherever that could be told"];
    for text in report.findings.iter().map(|f| &f.text).chain([headline]) {
        assert!(!free.iter().any(|words| text.contains(words)), "{text}");
    }
}

/// Makes the layer slower at the flushed write, where its device writes six bytes for each one.
fn writes_six(t: &mut TrialRecord) {
    times(t, 1.5);
    let trial = t.trial.as_mut().unwrap();
    let bytes = trial.bytes();
    trial.device.as_mut().unwrap().written = 6 * bytes;
}

/// Another program that writes, in turns and windows alike, a third of what the layer's device does.
fn writes_beside(t: &mut TrialRecord) {
    let trial = t.trial.as_mut().unwrap();
    let bytes = 2 * trial.bytes();
    trial.device.as_mut().unwrap().written += bytes;
    let window = trial.background.as_mut().unwrap();
    window.written = Some(bytes * window.ns / trial.passes[0].elapsed_ns);
}

const SIX: &str =
    "it writes 6.00 bytes to its device for each byte of the application, native 1.00";

/// "438 bytes to the device for each byte" were those of another program; the layer's own device had 6.0.
#[test]
fn bytes_are_a_cause_where_nobody_else_writes() {
    let told = |change: fn(&mut TrialRecord), others: fn(&mut TrialRecord)| {
        let report = made(&["overlay:upper"], |_, trials| {
            of(trials, FLUSHED_WRITE).for_each(change);
            let native = |t: &&mut TrialRecord| t.cell.layer == 0;
            let at = |t: &&mut TrialRecord| t.cell.point == FLUSHED_WRITE;
            trials.iter_mut().filter(at).filter(native).for_each(others);
        });
        let row = row(&report, "overlay:upper", FLUSHED_WRITE);
        let share = row.device_share.map(f64::round);
        (row.reasons.concat(), share)
    };
    let nothing = |_: &mut TrialRecord| {};
    assert_eq!(told(writes_six, nothing), (SIX.into(), Some(6.0)));
    let busy = |t: &mut TrialRecord| {
        writes_six(t);
        writes_beside(t);
    };
    assert_eq!(told(busy, nothing), (String::new(), None));
    assert_eq!(told(writes_six, writes_beside), (String::new(), Some(6.0)));
    let looked_by_nobody = |t: &mut TrialRecord| {
        writes_six(t);
        t.trial.as_mut().unwrap().background = None;
    };
    let older = told(looked_by_nobody, nothing);
    assert_eq!(older, (String::new(), Some(6.0)));
    let in_a_burst = |t: &mut TrialRecord| match t.cell.block {
        0..3 => {
            writes_six(t);
            let device = &mut t.trial.as_mut().unwrap().device;
            device.as_mut().unwrap().written *= 40;
        }
        _ => times(t, 1.5),
    };
    assert_eq!(told(in_a_burst, nothing).0, "", "in no window by chance");
}

/// No other program writes to a loop device over the layer's image, whatever the disk below does.
#[test]
fn the_bytes_of_a_layers_own_device_are_its_own() {
    let report = made(&["loop:xfs"], |_, trials| {
        of(trials, FLUSHED_WRITE).for_each(|t| {
            writes_six(t);
            let trial = t.trial.as_mut().unwrap();
            trial.own_device = trial.device;
            writes_beside(t);
            writes_beside(t);
        });
    });
    let row = row(&report, "loop:xfs", FLUSHED_WRITE);
    assert_eq!(row.reasons.concat(), SIX);
    assert!(row.device_share.is_some_and(|s| (s - 6.0).abs() < 1e-9));
}

/// What another program read made "mixed" of a file that was in memory: "it read from mixed".
#[test]
fn bytes_that_others_read_are_no_other_source() {
    let told = |in_windows: u64| {
        let report = made(&["fuse"], |_, trials| {
            of(trials, WARM_READ).for_each(|t| {
                t.upkeep_ns = 0;
                let trial = t.trial.as_mut().unwrap();
                trial.resident = None;
                let half = trial.bytes() / 2;
                trial.device.as_mut().unwrap().read = half;
                let window = trial.background.as_mut().unwrap();
                window.read = Some(in_windows);
            });
        });
        row(&report, "fuse", WARM_READ).reasons.concat()
    };
    assert!(told(0).contains("it read from mixed"), "{}", told(0));
    assert!(!told(1 << 30).contains("mixed"), "{}", told(1 << 30));
}

/// "8.07 flushes a commit" were those of all programs.
#[test]
fn a_table_leaves_out_what_the_device_did_for_others() {
    let table = |change: fn(&mut Trial)| {
        let report = made(&["overlay:upper"], |run, trials| {
            let figure = Figure::per(
                "flushes_a_commit",
                FigureUnit::Number,
                [Amount::DeviceFlushes],
                [Amount::Operations],
            );
            let table = FigureTable::new("Databases", "").with([figure.head("flushes a commit")]);
            run.points[FLUSHED_WRITE].meaning.figures = Some(Box::new(table));
            for t in trials.iter_mut().filter(|t| t.cell.point == FLUSHED_WRITE) {
                let trial = t.trial.as_mut().unwrap();
                trial.figures.set("commits", 1_u64);
                trial.device.as_mut().unwrap().flushes = trial.ops();
            }
            let own = of(trials, FLUSHED_WRITE).filter_map(|t| t.trial.as_mut());
            own.for_each(change);
        });
        let sections = report.sections();
        let databases = sections.iter().find(|s| s.title == "Databases").unwrap();
        let table = &databases.tables[0];
        let cell = |row: usize| table.rows[row][1].text.clone();
        (cell(0), cell(1), table.note.clone())
    };
    let one = "1.00".to_owned();
    let (native, layer, note) = table(|_| {});
    assert_eq!((&native, &layer, note.as_str()), (&one, &one, ""));
    let (native, layer, note) = table(|trial| trial.background.as_mut().unwrap().flushes = 500);
    assert_eq!((&native, layer.as_str()), (&one, ""));
    assert_eq!(
        note,
        "What the device counted is left out in `overlay:upper`: it was also in use while no layer worked."
    );
    let (_, layer, note) = table(|trial| {
        trial.background.as_mut().unwrap().flushes = 500;
        trial.own_device = Some(DeviceBytes {
            flushes: 4 * trial.ops(),
            ..DeviceBytes::default()
        });
    });
    assert_eq!((layer.as_str(), note.as_str()), ("4.00", ""));
}

/// A server with 5 % of a CPU was 3.5 times slower in turns and "changed during the run".
#[test]
fn a_quota_is_a_cause_where_it_stopped_the_layer() {
    let quota = || Limit {
        helper: true,
        of: Limited::Cpu,
        rate: 0.05,
        device: None,
        file: "cpu.max".into(),
        uncounted: false,
    };
    let told = |times: u64| {
        let report = made(&["fuse"], |run, trials| {
            run.layers[1].facts.limits = vec![quota()];
            for t in of(trials, OPEN) {
                let ns = 1_000_000 * times;
                t.trial.as_mut().unwrap().throttled = Some(Throttled { times, ns });
            }
        });
        let reasons = row(&report, "fuse", OPEN).reasons.concat();
        let caveats = report.caveats.join("; ");
        (reasons, caveats)
    };
    let (reasons, caveats) = told(3);
    assert!(
        reasons.starts_with(
            "its program may use 0.05 CPUs (cpu.max), and was stopped 33 times in its turns"
        ),
        "{reasons}"
    );
    assert!(
        caveats.contains(
            "Limits that refill: the program of `fuse` may use 0.05 CPUs (cpu.max); they refill between short turns, so work without pauses may be slower than shown"
        ),
        "{caveats}"
    );
    let (reasons, caveats) = told(0);
    let said = reasons + &caveats;
    assert!(!said.contains("cpu.max"), "never stopped: {said}");
}

/// A rate that the baseline has as well explains no difference, and is a caveat for what waits for it.
#[test]
fn a_limit_of_io_is_a_caveat_where_an_operation_waits_for_it() {
    let told = |layers: std::ops::Range<usize>, of_what: Limited| {
        let report = made(&["overlay:upper"], |run, trials| {
            let limit = Limit {
                helper: false,
                of: of_what,
                rate: 10e6,
                device: Some("vda".into()),
                file: "io.max".into(),
                uncounted: false,
            };
            for layer in &mut run.layers[layers.clone()] {
                layer.facts.limits = vec![limit.clone()];
            }
            of(trials, FLUSHED_WRITE).for_each(|t| times(t, 1.5));
        });
        // That the layer came near it is not known, so it is no cause.
        let reasons = row(&report, "overlay:upper", FLUSHED_WRITE)
            .reasons
            .concat();
        assert!(!reasons.contains("may write"), "{reasons}");
        report.caveats.join("; ")
    };
    let caveats = told(1..2, Limited::WrittenBytes);
    let words = "may write 10.0 MB/s to vda (io.max)";
    let of_one = format!("the probe of `overlay:upper` {words}");
    assert!(caveats.contains(&of_one), "{caveats}");
    let caveats = told(0..3, Limited::WrittenBytes);
    assert!(
        caveats.contains(&format!("each probe {words}")),
        "{caveats}"
    );
}
