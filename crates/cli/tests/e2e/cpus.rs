//! `--cpus`: how many CPUs a layer has, for any workload.

use serde_json::Value;

use crate::common::{Lm, READ, result, skipped};

/// The rows of the table over CPUs.
fn scaling(report: &Value) -> Vec<(&str, u64, bool)> {
    let rows = report["scaling"].as_array().expect("scaling");
    rows.iter()
        .map(|r| {
            let layer = r["layer"].as_str().expect("a layer");
            let cpus = r["cpus"].as_u64().expect("CPUs");
            (layer, cpus, r["speed_up"].is_number())
        })
        .collect()
}

#[test]
fn a_program_is_kept_on_as_many_as_it_was_given() {
    let failed = |expected: u32| {
        let args = ["launch", "--blocks", "1", "--json", "--cpus", "1"];
        // What `nproc` prints is what a program may use.
        let program = format!("test $(nproc) = {expected}");
        let lm = Lm::new().work_with(&args, &["native"]);
        let said = lm.args(["--", "sh", "-c", &program]).run().left_nothing();
        let report = said.json();
        let row = &report["results"][0];
        assert_eq!(row["point"]["cpus"], 1, "{row:#}");
        row["failed_trials"].as_u64()
    };
    assert_eq!(failed(1), Some(0));
    assert!(failed(2) > Some(0));
}

#[test]
fn speed_up_is_told_up_to_the_cpus_of_this_machine() {
    let there = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    if there < 2 {
        return skipped("this machine has one CPU");
    }
    let cpus = format!("1,{there},{}", there + 1);
    let args = [
        READ,
        &["--threads", "2", "--blocks", "2", "--json", "--cpus", &cpus],
    ]
    .concat();
    let said = Lm::new().work_with(&args, &["tmpfs"]).run().left_nothing();
    let report = said.json();
    let of = |layer| {
        [
            (layer, 1, true),
            (layer, there, true),
            (layer, there + 1, false),
        ]
    };
    assert_eq!(scaling(&report), [of("native"), of("tmpfs")].concat());
    let label = report["results"][0]["label"]
        .as_str()
        .expect("a label")
        .to_owned();
    assert!(label.ends_with(", 1 CPU"), "{label}");
    let row = result(&report, &label, "tmpfs");
    assert!(row["ratio"]["estimate"].as_f64() > Some(0.0), "{row:#}");
}

#[test]
fn both_ends_of_a_network_and_wrong_numbers() {
    let args = [
        "net", "--op", "rr", "--blocks", "1", "--json", "--cpus", "1",
    ];
    let report = Lm::new()
        .work_with(&args, &["native"])
        .run()
        .left_nothing()
        .json();
    assert_eq!(report["results"][0]["failed_trials"], 0, "{report:#}");
    for (cpus, words) in [("0x", "cpus"), ("65", "between 1 and 64"), ("1.5", "cpus")] {
        let args = [READ, &["--cpus", cpus]].concat();
        Lm::new()
            .work_with(&args, &["native"])
            .run()
            .fails(2, &[words]);
    }
}
