//! What is computed from the stored rounds, by this test and by the report: the control's turns count with native's, its
//! alarm is native against native, and the noise of a comparison is averaged with that of its operation.

use layermark_model::{BASELINE, Ledger};
use layermark_report::Report;
use layermark_stats::{Cell, Pair, Trimmed, compare_all};
use layermark_testkit::{fixtures::fixture, sample::Sample};

#[test]
fn a_reader_of_json_can_compute_the_ratio() {
    let kept = fixture("quiet").read();
    let report = Report::build(&kept.run, &kept.trials);
    let (mut with, mut without) = (0, 0);
    for row in report.results.iter().filter(|r| r.ratio.is_some()) {
        let ratio = row.ratio.as_ref().unwrap().estimate;
        let side = |at: usize| {
            let blocks = row.block_ratios.iter();
            let logs = blocks.map(|b| b.both.map_or(b.ratio, |both| both[at]).ln());
            Trimmed::of(&logs.collect::<Vec<f64>>()).unwrap().mean
        };
        let found = f64::midpoint(side(0), side(1)).exp();
        let what = (&row.layer, &row.label, ratio);
        assert!((found / ratio - 1.0).abs() < 1e-9, "{what:?}: {found}");
        let times = row.op_us.unwrap() / row.native_us.unwrap();
        assert!((times / ratio - 1.0).abs() < 1e-9, "{what:?}: {times}");
        for block in &row.block_ratios {
            let Some([native, control]) = block.both else {
                without += 1;
                continue;
            };
            with += 1;
            assert!((block.ratio / (native * control).sqrt() - 1.0).abs() < 1e-9);
        }
    }
    assert!(with > 80 && without > 40, "{with} {without}");
}

#[test]
fn the_alarm_is_as_it_was_without_the_controls_turns_in_the_ratios() {
    let kept = fixture("quiet").read();
    let report = Report::build(&kept.run, &kept.trials);
    // Nobody has told this ledger that there is a control.
    let mut ledger = Ledger::default();
    for record in &kept.trials {
        ledger.add(record);
    }
    let points = 0..kept.run.points.len();
    let layers = BASELINE + 1..kept.run.layers.len();
    let sites: Vec<(usize, usize)> = layers
        .flat_map(|layer| points.clone().map(move |point| (layer, point)))
        .collect();
    let cell = |site: &(usize, usize)| Cell {
        operation: site.1,
        blocks: ledger.pairs(*site, (BASELINE, site.1), Pair::of_rounds),
    };
    let cells: Vec<Cell<Pair>> = sites.iter().map(cell).collect();
    let expected = compare_all(&cells, 0.95, kept.run.seed);
    let control = kept.run.control().expect("a control");
    let rows = &report.control.as_ref().expect("a control").results;
    assert_eq!(rows.len(), kept.run.points.len());
    let mut narrower = 0;
    for ((layer, point), comparison) in sites.into_iter().zip(expected) {
        let (label, name) = (&kept.run.points[point].label, &kept.run.layers[layer].name);
        let all = if layer == control {
            rows
        } else {
            &report.results
        };
        let row = all.iter().find(|r| r.label == *label && r.layer == *name);
        let interval = row.and_then(|r| r.ratio?.interval).expect("an interval");
        let alone = comparison.and_then(|c| c.ratio_interval).expect("blocks");
        if layer == control {
            let bits = |ends: [f64; 2]| ends.map(f64::to_bits);
            assert_eq!(bits(interval), bits([alone.low, alone.high]), "{label}");
        } else if interval[1] / interval[0] < alone.high / alone.low {
            narrower += 1;
        }
    }
    assert!(narrower > 10, "{narrower} of 28: the control counts in 18");
}

#[test]
fn the_noise_of_a_comparison_is_averaged_with_that_of_its_operation() {
    let layers = ["a", "b", "c", "d", "e", "f", "g"];
    let (mut run, trials) = Sample {
        layers: vec!["overlay:upper"; layers.len()],
        points: vec!["open and stat", "random write, fsync each"],
        control: false,
        ..Sample::default()
    }
    .build();
    for (layer, name) in run.layers[BASELINE + 1..].iter_mut().zip(layers) {
        layer.name = name.into();
    }
    let report = Report::build(&run, &trials);
    let mut ledger = Ledger::default();
    for record in &trials {
        ledger.add(record);
    }
    let sites: Vec<(usize, usize)> = (BASELINE + 1..run.layers.len())
        .flat_map(|layer| (0..run.points.len()).map(move |point| (layer, point)))
        .collect();
    // The ends of each interval to the last bit, if the noise of these operations is averaged.
    let expected = |operation: &dyn Fn(usize) -> usize| -> Vec<[u64; 2]> {
        let cell = |site: &(usize, usize)| Cell {
            operation: operation(site.1),
            blocks: ledger.pairs(*site, (BASELINE, site.1), Pair::of_rounds),
        };
        let cells: Vec<Cell<Pair>> = sites.iter().map(cell).collect();
        let compared = compare_all(&cells, 0.95, run.seed).into_iter();
        let intervals = compared.map(|c| c.and_then(|c| c.ratio_interval).expect("blocks"));
        intervals
            .map(|i| [i.low, i.high].map(f64::to_bits))
            .collect()
    };
    let told: Vec<[u64; 2]> = sites
        .iter()
        .map(|(layer, point)| {
            let (name, label) = (&run.layers[*layer].name, &run.points[*point].label);
            let mut rows = report.results.iter();
            let row = rows.find(|r| r.layer == *name && r.label == *label);
            let ratio = row.and_then(|r| r.ratio.as_ref()).expect("a ratio");
            ratio.interval.expect("an interval").map(f64::to_bits)
        })
        .collect();
    assert_eq!(told, expected(&|point| point));
    let alike = expected(&|_| 0);
    assert!(told.iter().zip(&alike).all(|(told, alike)| told != alike));
}
