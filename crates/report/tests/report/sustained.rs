//! Work without pauses: where it is slower than in turns, that is a finding.

use layermark_model::{Limit, Limited, Run, Sustained, TrialRecord, Turn};
use layermark_report::Report;
use layermark_testkit::sample::Sample;

const POINT: &str = "random write, fsync each";
const LAYER: &str = "overlay:upper";
const NATIVE_US: u64 = 100;

/// A run whose layer takes these times without pauses, microseconds a write of 4 KiB.
fn run<const N: usize>(layer_us: [u64; N], limits: Vec<Limit>) -> (Run, Vec<TrialRecord>) {
    let sample = Sample {
        layers: vec![LAYER],
        points: vec![POINT],
        control: false,
        ..Sample::default()
    };
    let (mut run, trials) = sample.build();
    run.layers[1].facts.limits = limits;
    let stretches = |us: [u64; N]| {
        let turn = |(round, us): (u32, u64)| Turn {
            round,
            elapsed_ns: 1000 * us * 1000,
            ops: 1000,
            bytes: 1000 * 4096,
            ..Turn::default()
        };
        (0..).zip(us).map(turn).collect()
    };
    run.sustained = [[NATIVE_US; N], layer_us]
        .into_iter()
        .enumerate()
        .map(|(layer, us)| Sustained {
            layer,
            point: 0,
            apart: false,
            disturbed: false,
            throttled: None,
            stretches: stretches(us),
        })
        .collect();
    (run, trials)
}

fn finding<const N: usize>(layer_us: [u64; N], limits: Vec<Limit>) -> Option<String> {
    let (run, trials) = run(layer_us, limits);
    finding_of(&run, &trials)
}

fn finding_of(run: &Run, trials: &[TrialRecord]) -> Option<String> {
    let found = Report::build(run, trials).findings.into_iter();
    found
        .map(|f| f.text)
        .find(|text| text.contains("at a stretch"))
}

fn limit(of: Limited, rate: f64) -> Limit {
    Limit {
        helper: false,
        of,
        rate,
        device: Some("vda".into()),
        file: "io.max".into(),
        uncounted: false,
    }
}

/// The turns are without what threads of the kernel waited beside other programs, and so are the stretches.
#[test]
fn a_stretch_is_not_longer_for_what_the_kernels_threads_waited() {
    let with = |disturbed, known| {
        let (mut run, trials) = run([460, 480], Vec::new());
        for (of, waited_us) in run.sustained.iter_mut().zip([0, 360]) {
            (of.apart, of.disturbed) = (true, disturbed);
            for turn in &mut of.stretches {
                turn.waited_ns = Some(0);
                turn.kernel_waited_ns =
                    (known || of.layer > 0).then_some(turn.ops * waited_us * 1000);
            }
        }
        finding_of(&run, &trials)
    };
    assert_eq!(with(true, true), None);
    assert!(
        with(false, true).is_some(),
        "on a quiet machine it is the layer's cost"
    );
    assert!(with(true, false).is_some(), "native's is not known");
}

#[test]
fn a_limit_that_shows_only_without_pauses_is_the_finding() {
    let text = finding([460, 480], vec![limit(Limited::WrittenBytes, 10e6)]);
    let text = text.expect("a finding");
    assert!(text.starts_with("`overlay:upper` at "), "{text}");
    let words =
        "4.60x native's time over 470 ms at a stretch: it may write 10.0 MB/s to vda (io.max).";
    assert!(text.ends_with(words), "{text}");
}

#[test]
fn a_limit_that_was_not_met_is_no_reason() {
    let high = limit(Limited::WrittenBytes, 100e6);
    let reads = limit(Limited::ReadBytes, 1e6);
    for limits in [vec![], vec![high, reads]] {
        let text = finding([460, 480], limits).expect("a finding");
        assert!(text.ends_with("at a stretch: why is not proved."), "{text}");
    }
}

#[test]
fn what_takes_the_time_of_its_turns_or_was_slow_once_is_no_finding() {
    let (run, trials) = run([NATIVE_US; 2], Vec::new());
    let report = Report::build(&run, &trials);
    let row = report
        .results
        .iter()
        .find(|r| r.layer == LAYER)
        .expect("a row");
    let ratios = &row.sustained.as_ref().expect("stretches").ratios;
    assert_eq!(ratios, &[1.0, 1.0]);
    assert_eq!(finding([NATIVE_US; 2], Vec::new()), None);
    let disturbed = [NATIVE_US, 900];
    assert_eq!(
        finding(disturbed, vec![limit(Limited::WrittenBytes, 1e6)]),
        None
    );
    let once = [900];
    assert_eq!(finding(once, vec![limit(Limited::WrittenBytes, 1e6)]), None);
}
