use super::*;
use crate::{number, words::said};

/// Thirty launches of the 2014 study of application streaming, seconds.
const STUDY: [f64; 30] = [
    12.7, 6.2, 6.3, 6.1, 6.2, 6.1, 6.1, 6.2, 6.9, 6.1, 6.1, 6.5, 6.1, 6.0, 5.5, 3.5, 3.5, 3.5, 3.9,
    3.5, 3.5, 3.6, 3.6, 3.7, 3.5, 3.5, 3.8, 3.6, 3.6, 3.7,
];

/// Relative deviations of the study's runs 2 to 14 from their median: the spread of real launches.
fn spread() -> Vec<f64> {
    let level = stats::median(&STUDY[1..14]).unwrap();
    STUDY[1..14].iter().map(|x| x / level).collect()
}

/// Draws from the study's own spread; the same numbers on every machine.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as f64) / f64::from(1u32 << 31)
    }

    /// One of the study's deviations, slightly changed so that no two are equal.
    fn deviation(&mut self, of: &[f64]) -> f64 {
        let at = (self.next() * of.len() as f64) as usize;
        of[at.min(of.len() - 1)] * (1.0 + 0.01 * (self.next() - 0.5))
    }
}

#[test]
fn a_step_after_run_14_is_found_at_run_15_and_flat_series_have_none() {
    let spread = spread();
    let (mut found, mut false_steps) = (0, 0);
    for seed in 0..100 {
        let mut draw = Draw(seed * 7919 + 1);
        let mut series = |level: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..30)
                .map(|i| level(i) * draw.deviation(&spread))
                .collect()
        };
        let step = series(&|i| if i < 14 { 600.0 } else { 350.0 });
        let flat = series(&|_| 600.0);
        found += usize::from(cut(&step, &[], seed).steps == [14]);
        false_steps += usize::from(!cut(&flat, &[], seed).steps.is_empty());
    }
    assert!(found >= 95, "{found} of 100");
    assert!(false_steps <= 5, "{false_steps} of 100");
}

#[test]
fn a_first_launch_is_set_apart_by_its_counters_or_by_its_distance() {
    let mut ms = vec![100.0, 101.0, 99.0, 102.0, 98.0, 100.0, 101.0, 99.0];
    let mut warmth = vec![Warmth::Warm; 8];
    assert!(first_apart(&ms, &warmth).is_none());
    warmth[0] = Warmth::Cold;
    assert!(first_apart(&ms, &warmth).is_none(), "no slower");
    ms[0] = 112.0;
    assert!(first_apart(&ms, &warmth) == Some(FirstApart::Cold));
    assert!(
        first_apart(&ms, &[]).is_none(),
        "not far enough without proof"
    );
    assert!(first_apart(&ms, &[Warmth::Cold; 8]).is_none(), "all are");
    ms[0] = 150.0;
    assert!(first_apart(&ms, &[]) == Some(FirstApart::FarSlower));
    assert!(first_apart(&ms[..5], &[]).is_none(), "too few to tell");
}

/// The study, as if layermark had measured it.
#[test]
fn the_studys_thirty_times_give_its_cold_start_and_its_one_step() {
    let (run, trials) = layermark_testkit::sample::launches(&STUDY.map(|s| s * 1e3));
    let report = crate::Report::build(&run, &trials);
    let [series] = report.series.as_slice() else {
        panic!("{} series", report.series.len())
    };
    assert_eq!(series.runs.len(), 30);
    assert!(series.first_apart.is_some() && series.runs[0].level.is_none());
    let [step] = series.change_points.as_slice() else {
        panic!("{:?}", series.says)
    };
    assert_eq!(
        (step.at, step.before.from, step.before.to, step.after.to),
        (16, 2, 15, 30)
    );
    assert!(
        (step.before.median_ms - 6100.0).abs() < 101.0,
        "{}",
        step.before.median_ms
    );
    assert!(
        (step.after.median_ms - 3600.0).abs() < 101.0,
        "{}",
        step.after.median_ms
    );
    let [low, high] = step.interval.unwrap();
    assert!(
        low < -2500.0 && high > -2700.0 && high < -2300.0 && low > -2800.0,
        "{low} {high}"
    );
    assert_eq!(series.levels.len(), 2);
    assert!(
        series.says[1].starts_with("a step after run 15, at "),
        "{:?}",
        series.says
    );
    let [from, to] = [&step.before, &step.after].map(|level| number::time(level.typical_ms * 1e3));
    assert_eq!((from.as_str(), to.as_str()), ("6.15 s", "3.57 s"));
    let ended = format!("from {from} to {to} ");
    assert!(series.says[1].contains(&ended), "{:?}", series.says);
}

#[test]
fn what_made_it_slow_is_said_with_its_share() {
    let t = LaunchTrace {
        elapsed_ms: 1400.0,
        processes: 1,
        opened: 90,
        lookups: 1300,
        failed: 1204,
        failed_ms: 1100.0,
        lookup_ms: 20.0,
        reads: 10,
        read_bytes: 1000,
        read_ms: 1.0,
    };
    let said = said(&slow(&t).unwrap());
    assert_eq!(
        said,
        "when traced: 1,204 failed lookups, 914 us each: 1.10 s of 1.40 s"
    );
    let quick = LaunchTrace {
        failed_ms: 1.0,
        ..t
    };
    assert_eq!(slow(&quick), None);
}

/// The reason was kept with the trial, and the report had nothing.
#[test]
fn a_launch_that_could_not_be_traced_has_the_reason() {
    let (run, mut trials) = layermark_testkit::sample::launches(&[1400.0; 6]);
    let series = |trials: &[TrialRecord]| {
        let mut all = crate::Report::build(&run, trials).series;
        all.remove(0)
    };
    assert_eq!(series(&trials).not_traced, None, "it was not asked for");
    let trial = trials[0].trial.as_mut().expect("a trial");
    let untraced = Untraced {
        why: "strace is missing".into(),
        hint: Some("apt-get install strace".into()),
    };
    trial.untraced = Some(untraced.clone());
    let told = series(&trials);
    assert!(told.trace.is_none());
    assert_eq!(told.not_traced, Some(untraced));
    let said = told.says.last().expect("a sentence");
    let why = "strace is missing: apt-get install strace";
    assert_eq!(said, &format!("no launch was traced: {why}"));
}

#[test]
fn restarts_and_waits_are_said_where_they_matter() {
    let (run, mut trials) = layermark_testkit::sample::launches(&[1400.0; 6]);
    for t in &mut trials {
        let trial = t.trial.as_mut().unwrap();
        trial.restarted = Some(layermark_model::Restarted {
            ns: 400_000_000,
            ..Default::default()
        });
        trial.figures.set("io_wait_ns", 1_100_000_000_u64);
    }
    let says = |trials: &[TrialRecord]| crate::Report::build(&run, trials).series[0].says.clone();
    assert_eq!(
        says(&trials),
        [
            "the layer was set down and up again before each launch, in 400 ms",
            "waited for I/O: 1.10 s of 1.40 s"
        ]
    );
    trials[0].trial.as_mut().unwrap().restarted = None;
    for t in &mut trials {
        let trial = t.trial.as_mut().unwrap();
        trial.figures.set("io_wait_ns", 1_000_000_u64);
    }
    let few = "the layer was set down and up again before 5 of 6 launches, in 400 ms";
    assert_eq!(says(&trials), [few]);
}
