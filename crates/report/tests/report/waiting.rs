//! Time that waited for a CPU: left out of a layer that only the kernel serves, and reported where a process
//! serves it.

use std::path::Path;

use layermark_model::{
    Cell, Device, Ledger, Pass, Priority, Run, Trial, TrialRecord, Turn, Waiting,
    flags::CONTAMINATED,
};
use layermark_report::{
    Report, ResultRow, Verdict,
    render::{self, Style},
};
use layermark_stats::{Pair, compare};
use layermark_testkit::sample::Sample;

const POINT: &str = "large read, warm";
const KERNEL: &str = "overlay:upper";
const SERVED: &str = "fuse";
const OPS: u64 = 20;
/// Runs of native against itself.
const RUNS: u64 = 400;

/// `SplitMix64` (Steele, Lea, Flood 2014).
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// What an operation does in a layer, nanoseconds on the average.
#[derive(Clone, Copy)]
struct Costs {
    op: f64,
    /// Waited for a CPU by the thread on the clock.
    waits: f64,
    /// And by threads of helpers.
    helpers: f64,
}

impl Costs {
    fn of(op: f64, waits: f64) -> Self {
        Self {
            op,
            waits,
            helpers: 0.0,
        }
    }
}

/// A trial of 25 turns. The scheduler takes the CPU away for milliseconds, so most turns wait for nothing and some
/// for much. Quiet, it is the same trial without the waiting.
fn trial(costs: Costs, apart: bool, block: u32, noise: &mut Noise, quiet: bool) -> Trial {
    let common = (0.05 * Noise(u64::from(block) * 77).normal()).exp();
    let block_noise = (0.01 * noise.normal()).exp();
    let mut turns = Vec::new();
    for round in 0..25 {
        let ns = costs.op * OPS as f64 * common * block_noise * (0.02 * noise.normal()).exp();
        // A quarter of the turns waits, four times as long each.
        let long = if noise.uniform() < 0.25 { 4.0 } else { 0.0 };
        let waited = costs.waits * OPS as f64 * long * 2.0 * noise.uniform();
        let waited_ns = if quiet { 0 } else { waited as u64 };
        turns.push(Turn {
            round,
            elapsed_ns: ns as u64 + waited_ns,
            ops: OPS,
            bytes: OPS * 4096,
            waited_ns: Some(waited_ns),
            kernel_waited_ns: None,
        });
    }
    let sum = |of: fn(&Turn) -> u64| turns.iter().map(of).sum::<u64>();
    let ops = sum(|t| t.ops);
    Trial {
        passes: vec![Pass {
            elapsed_ns: sum(|t| t.elapsed_ns),
            ops,
            bytes: sum(|t| t.bytes),
            waited_ns: Some(sum(|t| t.waited_ns.unwrap_or(0))),
            kernel_waited_ns: None,
        }],
        waiting: Some(Waiting {
            apart,
            disturbed: !quiet,
            helpers_ns: (costs.helpers > 0.0).then_some((costs.helpers * ops as f64) as u64),
            priority: (apart && !quiet).then_some(Priority::RealTime),
        }),
        resident: Some(1.0),
        turns,
        ..Trial::default()
    }
}

/// Twelve blocks natively, in an overlay and in a layer that a process serves.
fn run([native, kernel, served]: [Costs; 3], quiet: bool) -> (Run, Vec<TrialRecord>) {
    let sample = Sample {
        layers: vec![KERNEL, SERVED],
        points: vec![POINT],
        blocks: 12,
        control: false,
        ..Sample::default()
    };
    let (run, mut trials) = sample.build();
    let mut noise = Noise(5);
    for record in &mut trials {
        let (costs, apart) = [(native, true), (kernel, true), (served, false)][record.cell.layer];
        let made = trial(costs, apart, record.cell.block, &mut noise, quiet);
        record.trial = Some(made);
        record.flags = if quiet {
            Vec::new()
        } else {
            vec![CONTAMINATED.into()]
        };
    }
    (run, trials)
}

fn report(costs: [Costs; 3], quiet: bool) -> Report {
    let (run, trials) = run(costs, quiet);
    Report::build(&run, &trials)
}

fn row<'a>(report: &'a Report, layer: &str) -> &'a ResultRow {
    let mut rows = report.results.iter();
    rows.find(|r| r.layer == layer).unwrap()
}

fn terminal(report: &Report) -> String {
    let mut out = Vec::new();
    let style = Style {
        width: 400,
        colour: false,
        ..Style::default()
    };
    render::print_full(report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn csv(report: &Report, name: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut out = Vec::new();
    let exporter = render::for_path(Path::new(name)).unwrap();
    exporter.write(report, &mut out).unwrap();
    let mut reader = csv::Reader::from_reader(&out[..]);
    reader.deserialize().map(Result::unwrap).collect()
}

const NATIVE: Costs = Costs {
    op: 100_000.0,
    waits: 110_000.0,
    helpers: 0.0,
};

#[test]
fn without_waiting_a_busy_machine_gives_the_quiet_ratio() {
    let costs = [
        NATIVE,
        Costs::of(108_000.0, 150_000.0),
        Costs::of(100_000.0, 0.0),
    ];
    let (quiet, busy) = (report(costs, true), report(costs, false));
    let [a, b] = [&quiet, &busy].map(|r| row(r, KERNEL));
    let [ra, rb] = [a, b].map(|r| r.ratio.unwrap());
    assert!((ra.estimate - rb.estimate).abs() < 1e-3, "{ra:?} {rb:?}");
    assert!((ra.estimate - 1.08).abs() < 0.02, "{ra:?}");
    assert_eq!(
        [a.verdict, b.verdict],
        [Verdict::Slower; 2],
        "the planted 8 %"
    );
    let waited = b.waiting.unwrap();
    assert!(waited.left_out && waited.share.unwrap() > 0.5, "{waited:?}");
    // With it nothing would be known.
    let with = waited.ratio_with.unwrap();
    let [low, high] = with.interval.unwrap();
    assert!(low < 1.0 && high > 1.08, "{with:?}");
    let shown = b.op_us.unwrap() / b.native_us.unwrap() / rb.estimate;
    assert!(
        (shown - 1.0).abs() < 0.01,
        "time / native's time is the ratio: {shown}"
    );
    // The baseline's own time, and the share of all of it.
    let native = row(&busy, "native");
    assert!(native.waiting.unwrap().left_out && native.op_us.unwrap() < 115.0);
    let value = b.value.unwrap() / (4096.0 * 1e6 / b.op_us.unwrap());
    assert!((value - 1.0).abs() < 1e-9, "the throughput too: {value}");
}

#[test]
fn a_report_says_once_what_its_times_are_without() {
    let costs = [
        NATIVE,
        Costs::of(108_000.0, 150_000.0),
        Costs::of(100_000.0, 0.0),
    ];
    let busy = report(costs, false);
    let said: Vec<&String> = busy
        .caveats
        .iter()
        .filter(|c| c.contains("are without"))
        .collect();
    assert_eq!(said.len(), 1, "{:?}", busy.caveats);
    let expected = "Times of one thread in layers that only the kernel serves are without 5";
    assert!(said[0].starts_with(expected) && said[0].ends_with("which waited for a CPU"));
    let quiet = report(costs, true);
    assert!(!quiet.caveats.iter().any(|c| c.contains("waited for a CPU")));
    let [with, without] = [&busy, &quiet].map(terminal);
    let beside = "with the time that waited for a CPU";
    assert!(with.contains(beside) && !without.contains(beside), "{with}");
}

#[test]
fn spreadsheets_have_the_waiting_and_both_ratios() {
    let costs = [
        NATIVE,
        Costs::of(108_000.0, 150_000.0),
        Costs {
            helpers: 9_000.0,
            ..Costs::of(100_000.0, 20_000.0)
        },
    ];
    let busy = report(costs, false);
    let lines = csv(&busy, "x.csv");
    let of = |layer: &str, column: &str| {
        let line = lines.iter().find(|l| l["layer"] == layer).unwrap();
        line[column].clone()
    };
    let number = |text: String| text.parse::<f64>().unwrap();
    assert_eq!(of(KERNEL, "waiting_left_out"), "true");
    assert_eq!(of(SERVED, "waiting_left_out"), "false");
    let ratio = row(&busy, KERNEL).waiting.unwrap().ratio_with.unwrap();
    let off = number(of(KERNEL, "ratio_with_waiting")) - ratio.estimate;
    assert!(off.abs() < 1e-12, "{off}");
    assert!(number(of(KERNEL, "waited")) > 0.5 && of(SERVED, "ratio_with_waiting").is_empty());
    assert!((number(of(SERVED, "helpers_waited_us")) - 9.0).abs() < 0.01);
    let trials = csv(&busy, "x.trials.csv");
    let kernels: Vec<_> = trials.iter().filter(|t| t["layer"] == KERNEL).collect();
    assert!(kernels.iter().all(|t| t["waiting_left_out"] == "true"));
    let others = trials.iter().filter(|t| t["layer"] == SERVED);
    assert!(kernels.iter().all(|t| t["priority"] == "real-time"));
    assert!(others.map(|t| &t["priority"]).all(String::is_empty));
    let waited: f64 = kernels.iter().map(|t| number(t["waited_us"].clone())).sum();
    assert!(
        (100.0..200.0).contains(&(waited / kernels.len() as f64)),
        "{waited}"
    );
}

/// Half of what a trial waited is that of the kernel's threads.
fn share(record: &mut TrialRecord) {
    let trial = record.trial.as_mut().unwrap();
    for turn in &mut trial.turns {
        turn.kernel_waited_ns = turn.waited_ns.map(|ns| ns / 2);
        turn.waited_ns = turn.waited_ns.map(|ns| ns - ns / 2);
    }
    let sum = |of: fn(&Turn) -> Option<u64>| Some(trial.turns.iter().filter_map(of).sum());
    trial.passes[0].waited_ns = sum(|t| t.waited_ns);
    trial.passes[0].kernel_waited_ns = sum(|t| t.kernel_waited_ns);
}

/// A flush is partly done by threads of the kernel. What these wait beside other programs is no more a cost of the layer than
/// what the thread on the clock waits. Here they wait for half of all waiting.
#[test]
fn waiting_of_the_kernels_threads_is_left_out_as_well() {
    let halved = |known: fn(usize) -> bool| {
        let costs = [NATIVE, Costs::of(108_000.0, 150_000.0), NATIVE];
        let (run, mut trials) = run(costs, false);
        let shared = trials.iter_mut().filter(|r| known(r.cell.layer));
        shared.for_each(share);
        Report::build(&run, &trials)
    };
    let costs = [NATIVE, Costs::of(108_000.0, 150_000.0), NATIVE];
    let (whole, shared) = (report(costs, false), halved(|_| true));
    let ratio = |report: &Report| row(report, KERNEL).ratio.unwrap().estimate;
    assert!((ratio(&whole) - ratio(&shared)).abs() < 1e-3);
    let waiting = row(&shared, KERNEL).waiting.unwrap();
    let all = row(&whole, KERNEL).waiting.unwrap();
    assert!(waiting.left_out && (waiting.us.unwrap() - all.us.unwrap()).abs() < 1e-3);
    assert!((waiting.kernel_us.unwrap() - all.us.unwrap() / 2.0).abs() < 0.01);
    let trials = csv(&shared, "x.trials.csv");
    let kernels = trials.iter().filter(|t| t["layer"] == KERNEL);
    let number = |text: &str| text.parse::<f64>().unwrap();
    for trial in kernels {
        assert!(number(&trial["kernel_waited_us"]) * 2.0 <= number(&trial["waited_us"]) + 0.01);
    }
    // On another device than native's, several of the threads that serve it may wait at once.
    let verdict = |op: f64, elsewhere: bool| {
        let costs = [NATIVE, Costs::of(op, 150_000.0), NATIVE];
        let (mut run, mut trials) = run(costs, false);
        run.layers[1]
            .facts
            .devices
            .extend(elsewhere.then(|| Device {
                number: "7:0".into(),
                ..Device::default()
            }));
        trials.iter_mut().for_each(share);
        let report = Report::build(&run, &trials);
        row(&report, KERNEL).clone()
    };
    for (op, word, stands) in [
        (70_000.0, Verdict::Faster, false),
        (108_000.0, Verdict::Slower, false),
        (200_000.0, Verdict::Slower, true),
    ] {
        assert_eq!(verdict(op, false).verdict, word);
        let withheld = verdict(op, true).withheld;
        assert_eq!(withheld.is_none(), stands, "{op}: {withheld:?}");
    }
    // A run that has it left out, and one that has not.
    let changed = shared.compare(&whole, 0.05).unwrap();
    let changed = row(&changed, KERNEL);
    let why = changed.untrusted.as_deref().unwrap();
    assert!(why.contains("threads of the kernel"), "{why}");
    // Where the layer's probe does not see them, native's are not left out beside it either.
    let blind = halved(|layer| layer == 0);
    let waiting = row(&blind, KERNEL).waiting.unwrap();
    assert!(waiting.left_out && waiting.kernel_us.is_none());
    assert!(ratio(&blind) < 0.95 * ratio(&shared), "{}", ratio(&blind));
}

/// 1 ms of which half waits, natively 0.1 ms: slower without any waiting too. A FUSE server's flushed writes got no word on a
/// machine that was hardly disturbed.
#[test]
fn a_served_layer_that_is_slower_without_its_waiting_is_slower() {
    let of = |op: f64| {
        let served = Costs {
            helpers: op / 2.0,
            ..Costs::of(op, 0.0)
        };
        let [native, kernel] = [100_000.0, 130_000.0].map(|op| Costs::of(op, 0.0));
        row(&report([native, kernel, served], false), SERVED).verdict
    };
    assert_eq!(of(1_000_000.0), Verdict::Slower);
    assert_eq!(of(180_000.0), Verdict::Undecided);
}

#[test]
fn a_served_layer_that_mostly_waits_gets_no_word_and_no_headline() {
    let served = Costs {
        helpers: 900_000.0,
        ..Costs::of(1_000_000.0, 1_900_000.0)
    };
    let busy = report([NATIVE, Costs::of(130_000.0, 140_000.0), served], false);
    let of_it = row(&busy, SERVED);
    assert_eq!(
        (of_it.verdict, of_it.probably, of_it.margin),
        (Verdict::Undecided, None, None)
    );
    let why = of_it.withheld.clone().unwrap();
    assert!(
        why.starts_with("of ") && why.ends_with("wait for a CPU: the machine is busy"),
        "{why}"
    );
    assert!(
        of_it.ratio.unwrap().interval.unwrap()[0] > 5.0,
        "the figure stays"
    );
    assert!(!of_it.waiting.unwrap().left_out);
    assert_eq!(of_it.word(), "waits for a CPU");
    assert!(
        busy.headline.contains(KERNEL) && !busy.headline.contains(SERVED),
        "{}",
        busy.headline
    );
    let sentence = busy.verdicts.iter().find(|v| v.layer == SERVED).unwrap();
    assert!(
        sentence.text.contains(&why) && !sentence.text.contains("slower"),
        "{}",
        sentence.text
    );
    let advice = busy
        .advice
        .iter()
        .find(|a| a.text.starts_with("Not known for certain"));
    assert!(advice.unwrap().text.contains("when nothing else runs"));
    assert!(terminal(&busy).contains(&why));
    let (run, mut trials) = run([NATIVE, NATIVE, served], false);
    trials.retain(|r| run.layers[r.cell.layer].name != KERNEL);
    let alone = Report::build(&run, &trials).headline;
    assert!(
        alone.ends_with("`fuse` waits too much for a CPU to tell"),
        "{alone}"
    );
    // Quiet, the same layer is slower.
    let quiet = report([NATIVE, Costs::of(130_000.0, 140_000.0), served], true);
    let of_it = row(&quiet, SERVED);
    assert_eq!((of_it.verdict, &of_it.withheld), (Verdict::Slower, &None));
}

#[test]
fn waiting_is_a_cause_of_a_served_layer_on_a_busy_machine() {
    let native = Costs::of(100_000.0, 1_000.0);
    let served = Costs {
        helpers: 60_000.0,
        ..Costs::of(400_000.0, 20_000.0)
    };
    let busy = report([native, native, served], false);
    let of_it = row(&busy, SERVED);
    assert_eq!(of_it.verdict, Verdict::Slower);
    let said = |r: &ResultRow| {
        r.reasons
            .iter()
            .any(|why| why.contains("wait for a CPU: the machine is busy"))
    };
    assert!(
        said(of_it) && !said(row(&busy, KERNEL)),
        "{:?}",
        of_it.reasons
    );
    assert!(!said(row(&report([native, native, served], true), SERVED)));
}

/// Reads from the page cache through FUSE take native's time. Beside busy loops one of two probes may get more CPU.
#[test]
fn a_word_that_more_cpu_explains_is_not_given_to_a_served_layer() {
    let native = Costs::of(100_000.0, 24_000.0);
    let served = Costs::of(101_000.0, 11_000.0);
    let (run, mut trials) = run([native, native, served], false);
    // All turns wait alike, so that the raw ratio is exact, and false.
    for record in &mut trials {
        let waits = [24_000, 24_000, 11_000][record.cell.layer] * OPS;
        let trial = record.trial.as_mut().unwrap();
        for turn in &mut trial.turns {
            turn.elapsed_ns = turn.net_ns().unwrap() + waits;
            turn.waited_ns = Some(waits);
        }
        let sum = |of: fn(&Turn) -> u64| trial.turns.iter().map(of).sum::<u64>();
        (trial.passes[0].elapsed_ns, trial.passes[0].waited_ns) =
            (sum(|t| t.elapsed_ns), Some(sum(|t| t.waited_ns.unwrap())));
    }
    let made = Report::build(&run, &trials);
    let of_it = row(&made, SERVED);
    assert!(
        of_it.ratio.unwrap().interval.unwrap()[1] < 1.0,
        "{:?}",
        of_it.ratio
    );
    assert_eq!(of_it.verdict, Verdict::Undecided);
    let why = of_it.withheld.as_deref().unwrap();
    assert!(
        why.starts_with("without what it waited for a CPU: 1.0"),
        "{why}"
    );
}

#[test]
fn a_run_that_waited_is_not_called_slower_than_another_for_that() {
    let quiet = report([NATIVE, NATIVE, Costs::of(400_000.0, 0.0)], true);
    let against = |op: f64, helpers: f64| {
        let served = Costs {
            helpers,
            ..Costs::of(op, op)
        };
        let busy = report([NATIVE, NATIVE, served], false);
        let change = busy.compare(&quiet, 0.05).unwrap();
        row(&change, SERVED).clone()
    };
    let waited = against(600_000.0, 600_000.0);
    assert!(
        waited.ratio.unwrap().interval.unwrap()[0] > 1.0,
        "{waited:?}"
    );
    assert_eq!(
        (waited.verdict, waited.probably),
        (Verdict::Undecided, None)
    );
    let why = waited.withheld.unwrap();
    assert!(why.starts_with("in the new run, of "), "{why}");
    let slower = against(8_000_000.0, 400_000.0);
    assert_eq!((slower.verdict, slower.withheld), (Verdict::Slower, None));
}

#[test]
fn older_runs_are_read_and_have_all_of_their_time() {
    let costs = [
        NATIVE,
        Costs::of(108_000.0, 150_000.0),
        Costs::of(100_000.0, 0.0),
    ];
    let (run, trials) = run(costs, false);
    let older = trials.iter().map(|record| {
        let mut record = serde_json::to_value(record).unwrap();
        let trial = record["trial"].as_object_mut().unwrap();
        trial.remove("waiting");
        for turn in trial["turns"].as_array_mut().unwrap() {
            turn.as_array_mut().unwrap().truncate(4);
        }
        trial["passes"][0]
            .as_object_mut()
            .unwrap()
            .remove("waited_ns");
        serde_json::from_value(record).unwrap()
    });
    let older: Vec<TrialRecord> = older.collect();
    let made = Report::build(&run, &older);
    let of_it = row(&made, KERNEL);
    assert_eq!((of_it.waiting, &of_it.withheld), (None, &None));
    assert!(
        of_it.average_us.unwrap() > 200.0,
        "with what waited: {:?}",
        of_it.average_us
    );
    assert!(!made.caveats.iter().any(|c| c.contains("are without")));
}

/// Of [`RUNS`] runs with ten blocks of a layer and native, the share whose interval holds the truth, and the median of the
/// intervals' half-widths, as ln(ratio). `make` gets the layer.
fn intervals(truth: f64, make: impl Fn(usize, u32, &mut Noise) -> Trial) -> (f64, f64) {
    let mut held = 0;
    let mut widths = Vec::new();
    for seed in 0..RUNS {
        let mut noise = Noise(seed * 1_000_003);
        let mut ledger = Ledger::default();
        for block in 0..10 {
            for layer in 0..2 {
                ledger.add(&TrialRecord {
                    cell: Cell {
                        session: 0,
                        block,
                        layer,
                        point: 0,
                    },
                    trial: Some(make(layer, block, &mut noise)),
                    ..TrialRecord::default()
                });
            }
        }
        let pairs = ledger.pairs((1, 0), (0, 0), Pair::of_rounds);
        let found = compare(&pairs, 0.95, seed).unwrap().ratio_interval.unwrap();
        held += u64::from(found.low <= truth && found.high >= truth);
        widths.push((found.high / found.low).ln() / 2.0);
    }
    widths.sort_by(f64::total_cmp);
    (held as f64 / RUNS as f64, widths[widths.len() / 2])
}

/// Intervals of native against itself, beside programs that take more than half of the time.
#[test]
fn intervals_without_waiting_hold_one_as_often_as_they_say() {
    let (share, _) = intervals(1.0, |_, block, noise| {
        trial(NATIVE, true, block, noise, false)
    });
    assert!((0.92..=0.98).contains(&share), "{share}");
}

/// A trial of 25 turns that last 5 ms or one operation, each of which is flushed. In some of them, at most the share
/// `starved`, the kernel's threads wait for 3 ms an operation, and the rest of it is two to four times as long as usual. How many
/// they are depends on the block, as beside other programs.
fn flushed(op: f64, starved: f64, block: u32, noise: &mut Noise) -> Trial {
    let mut made = trial(Costs::of(op, 0.0), true, block, noise, false);
    let common = (0.05 * Noise(u64::from(block) * 77).normal()).exp();
    let starved = starved * Noise(u64::from(block) * 91 + 5).uniform();
    for turn in &mut made.turns {
        let is_starved = noise.uniform() < starved;
        let longer = if is_starved {
            2.0 + 2.0 * noise.uniform()
        } else {
            1.0
        };
        let (mut ns, mut waited, mut ops) = (0.0, 0.0, 0);
        while ns < 5e6 {
            let wait = if is_starved {
                -3e6 * (1.0 - noise.uniform()).ln()
            } else {
                0.0
            };
            ns += op * common * longer * (0.1 * noise.normal()).exp() + wait;
            waited += wait;
            ops += 1;
        }
        turn.elapsed_ns = ns as u64;
        turn.kernel_waited_ns = Some(waited as u64);
        turn.ops = ops;
    }
    let sum = |of: fn(&Turn) -> u64| made.turns.iter().map(of).sum::<u64>();
    made.passes[0] = Pass {
        elapsed_ns: sum(|t| t.elapsed_ns),
        ops: sum(|t| t.ops),
        bytes: 0,
        waited_ns: Some(0),
        kernel_waited_ns: Some(sum(|t| t.kernel_waited_ns.unwrap())),
    };
    made
}

/// As many rounds are left out as other programs make useless, and neither a layer that costs the same nor one that costs
/// 8 % more is told wrong for that. Where all rounds count, intervals are too wide: nearly all hold the truth.
#[test]
fn intervals_of_the_rounds_that_worked_hold_the_truth() {
    for truth in [1.0, 1.08] {
        let (share, width) = intervals(truth, |layer, block, noise| {
            let op = if layer == 1 {
                truth * 80_000.0
            } else {
                80_000.0
            };
            flushed(op, 0.7, block, noise)
        });
        assert!((0.92..=0.98).contains(&share), "{truth}: {share}");
        // Quiet ones have 0.3 %.
        assert!(width < 0.01, "{truth}: {width}");
    }
}
