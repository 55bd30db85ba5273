//! Scaling with CPUs, on machines that have 2, 4 and 8 of them.

use layermark_model::Point;
use layermark_report::{Report, ScalingRow, render};
use serde_json::json;

use crate::made::Made;

/// Microseconds an operation: native scales as it should, a guest loses a tenth with each CPU and takes
/// twice the time with one.
fn cost(layer: &str, point: &Point, _: f64) -> f64 {
    let cpus = point.number("cpus") as f64;
    match layer {
        "native" => 8.0 / cpus,
        _ => 16.0 / (cpus * (1.1 - 0.1 * cpus)),
    }
}

fn report(machine: u32, cpus: &str) -> Report {
    Made::new(&["native", "vm"], 9)
        .work(&json!({"workload": "net", "op": "rr", "cpus": cpus}))
        .cost(cost)
        .noise(0.001)
        .cpus(machine)
        .change(|layer, point, _, trial| {
            // Native has as many as this machine.
            let asked = point.number("cpus") as u32;
            trial.cpus = Some(if layer == "native" {
                asked.min(8)
            } else {
                asked
            });
        })
        .build()
}

fn rows<'a>(report: &'a Report, layer: &str) -> Vec<&'a ScalingRow> {
    report.scaling.iter().filter(|r| r.layer == layer).collect()
}

#[track_caller]
fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a figure");
    assert!(
        (found / expected - 1.0).abs() < 0.01,
        "{found} is not {expected}"
    );
}

#[test]
fn each_number_of_cpus_is_set_against_one_and_against_native_with_as_many() {
    for (machine, cpus) in [(4, "1,2,3,4"), (8, "1,2,3,4,8")] {
        let report = report(machine, cpus);
        for (row, n) in rows(&report, "native")
            .iter()
            .zip([1.0, 2.0, 3.0, 4.0, 8.0])
        {
            near(row.speed_up, n);
            near(row.efficiency, 1.0);
            assert_eq!(
                (row.not_scaling.as_ref(), row.unit.as_str()),
                (None, "trans/s")
            );
            // From 4 to 8 there is no step of one CPU.
            let step = (2.0..8.0).contains(&n);
            assert_eq!(
                row.mp_factor.map(|f| (f * 100.0).round()),
                step.then_some(100.0)
            );
        }
        let up = |n: f64| n * (1.1 - 0.1 * n);
        for (row, n) in rows(&report, "vm").iter().zip([1.0, 2.0, 3.0, 4.0]) {
            near(row.speed_up, up(n));
            near(row.efficiency, up(n) / n);
            if n > 1.0 {
                near(row.mp_factor, up(n) - up(n - 1.0));
            }
            let ratio = row.ratio.expect("a ratio to native with as many");
            near(Some(ratio.estimate), 2.0 / (1.1 - 0.1 * n));
            assert!(ratio.interval.is_some());
        }
    }
}

#[test]
fn two_guests_need_twice_as_many() {
    let report = Made::new(&["native", "vm..vm"], 9)
        .work(&json!({"workload": "net", "op": "rr", "cpus": "1,2,4"}))
        .cost(cost)
        .noise(0.001)
        .emulated("vm..vm")
        .cpus(4)
        .build();
    let why = |row: &&ScalingRow| row.not_scaling.clone();
    assert!(rows(&report, "native").iter().find_map(why).is_none());
    let guests = rows(&report, "vm..vm");
    let not: Vec<Option<String>> = guests.iter().map(why).collect();
    let four = "two guests have 8, and this machine has 4".to_owned();
    assert_eq!(not, [None, None, Some(four)]);
}

#[test]
fn more_cpus_than_the_machine_has_are_no_scaling() {
    let report = report(2, "1,2,3,4");
    for layer in ["native", "vm"] {
        let known: Vec<bool> = rows(&report, layer)
            .iter()
            .map(|r| r.speed_up.is_some())
            .collect();
        assert_eq!(known, [true, true, false, false], "{layer}");
    }
    let section = report.sections();
    let section = section
        .iter()
        .find(|s| s.name == "scaling")
        .expect("a section");
    let note = &section.tables[0].note;
    assert!(
        note.contains("`vm` with 4 CPUs is no scaling: this machine has 2 of them."),
        "{note}"
    );
    let chart = &section.charts[0];
    let names: Vec<(&str, usize)> = chart
        .series
        .iter()
        .map(|s| (s.name.as_str(), s.points.len()))
        .collect();
    assert_eq!(names, [("native", 2), ("vm", 2), ("ideal", 2)]);
    let ideal = chart.series[2].model.as_deref();
    assert_eq!(ideal, Some(&[[1.0, 1.0], [2.0, 2.0]][..]));
    for id in ["html", "md", "terminal"] {
        let Some(exporter) = render::ALL.iter().find(|e| e.id() == id) else {
            continue;
        };
        let mut out = Vec::new();
        exporter.write(&report, &mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("MP factor"), "{id}");
    }
}

#[test]
fn without_one_cpu_there_is_no_speed_up_and_one_number_is_no_sweep() {
    let report_of = |cpus| report(8, cpus);
    assert!(report_of("2").scaling.is_empty());
    let report = report_of("2,4");
    assert!(
        report
            .scaling
            .iter()
            .all(|r| r.speed_up.is_none() && r.ratio.is_some() == (r.layer != "native"))
    );
    let section = report.sections();
    let section = section
        .iter()
        .find(|s| s.name == "scaling")
        .expect("a section");
    assert!(section.charts.is_empty());
}
