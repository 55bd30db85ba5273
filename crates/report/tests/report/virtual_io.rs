//! The study of emulated and paravirtual I/O over made-up guests whose truth is known.

use layermark_model::Point;
use layermark_report::{Conclusion, Holds, Report};
use serde_json::json;

use crate::made::{Made, mark};

const EMULATED: &str = "vm:disk=ide,nic=e1000";
const PARAVIRTUAL: &str = "vm:disk=virtio-blk,nic=virtio-net";
const LAYERS: [&str; 5] = [
    "native",
    EMULATED,
    PARAVIRTUAL,
    "vm:nic=e1000..vm:nic=e1000",
    "vm..vm",
];

/// Streams as in the study: paravirtual carries 3x of emulated at 32K, 2x at 256K, as much as native there,
/// and a fifth more from guest to guest. With 4 CPUs it does 1.3x the scripts.
fn cost(layer: &str, point: &Point, _: f64) -> f64 {
    let small = point.number("socket_buffer") == 32 << 10;
    match (layer, point.workload == "net") {
        ("vm..vm", true) => 8.0,
        ("native", true) => 10.0,
        (PARAVIRTUAL, true) if small => 15.0,
        (PARAVIRTUAL, true) => 10.0,
        (_, true) if small => 45.0,
        (_, true) => 20.0,
        (EMULATED, false) => 13e5,
        _ => 10e5,
    }
}

pub fn made(blocks: u32, scripts: bool) -> Made {
    let made = Made::new(&LAYERS, blocks)
        .study("virtual-io-stack")
        .work(&json!({
            "workload": "net", "op": "stream", "socket_buffer": ["32K", "256K"]
        }));
    let made = if scripts {
        made.work(&json!({"workload": "devload", "users": 4, "cpus": [2, 4]}))
    } else {
        made
    };
    made.cost(cost).noise(0.002).change(|layer, _, _, trial| {
        let cost = if layer == "native" { 1 } else { 3 };
        trial.busy_ns = Some(cost * trial.elapsed_ns());
    })
}

#[track_caller]
fn about<'a>(report: &'a Report, claim: &str) -> &'a Conclusion {
    let all = &report.study.as_ref().expect("a study").conclusions;
    let found: Vec<_> = all.iter().filter(|c| c.claim.starts_with(claim)).collect();
    assert_eq!(found.len(), 1, "{claim}: {all:#?}");
    found[0]
}

const CLAIMS: [&str; 9] = [
    "32 KB sockets, guest and host: paravirtual carries",
    "256 KB sockets, guest and host: paravirtual carries",
    "256 KB sockets, guest and host: paravirtual is nearly native",
    "256 KB sockets, guest to guest",
    "FTP get",
    "FTP put",
    "web server: paravirtual serves",
    "web server: paravirtual is equal",
    "SDET",
];

fn holds(report: &Report) -> [Holds; 9] {
    CLAIMS.map(|claim| about(report, claim).holds)
}

#[test]
fn each_claim_has_its_answer_with_interval_and_cost() {
    let report = made(10, true).cpus(4).build();
    let (yes, no, open) = (Holds::Yes, Holds::No, Holds::Open);
    assert_eq!(
        holds(&report),
        [yes, no, yes, yes, open, open, open, open, yes]
    );
    let small = about(&report, CLAIMS[0]);
    let words = format!("{} over {}: 3.00x (", mark(PARAVIRTUAL), mark(EMULATED));
    assert!(small.text.contains(&words), "{}", small.text);
    assert!(
        small.text.contains("of this host's CPU a KB against"),
        "{}",
        small.text
    );
    assert_eq!((small.layer.as_str(), small.evidence.len()), (EMULATED, 2));
    assert!(about(&report, "FTP get").text.ends_with(": not measured"));
    let study = report.study.as_ref().expect("a study");
    for c in &study.conclusions {
        assert!(
            c.evidence.iter().all(|id| report.result(id).is_some()),
            "{c:#?}"
        );
        assert!(!c.text.contains("TCG"), "{}", c.text);
    }
    let titles: Vec<&str> = study.tables.iter().map(|t| t.title.as_str()).collect();
    assert_eq!(titles.len(), 10);
    assert_eq!(titles[0], "The three stacks, one guest: throughput");
    assert_eq!(titles[5], "The three stacks, guest to guest: throughput");
    let row = |table: usize| {
        let cells = study.tables[table].rows[0].iter();
        cells.map(|c| c.text.as_str()).collect::<Vec<_>>()
    };
    let head = &study.tables[0].head;
    assert_eq!(
        (head[0].as_str(), head[1].as_str(), head.len()),
        ("work", "native", 4)
    );
    assert!(head[2].starts_with("emulated ") && head[3].starts_with("paravirtual "));
    // The highest is the longest, and each stack has its ratios.
    let lengths: Vec<usize> = row(1)[1..].iter().map(|bar| bar.chars().count()).collect();
    assert_eq!(lengths, [12, 3, 8], "{:?}", row(1));
    assert!(row(2)[3].starts_with("3.00x"), "{:?}", row(2));
    assert!(row(3)[3].starts_with("0.67x"), "{:?}", row(3));
    assert_eq!((row(2)[2], row(3)[1]), ("1", "1"));
}

#[test]
fn what_was_not_measured_or_cannot_be_here_is_not_decided() {
    let report = made(10, false).cpus(4).build();
    assert_eq!(about(&report, "SDET").holds, Holds::Open);
    assert!(about(&report, "SDET").text.ends_with("not measured"));
    let report = made(10, true).cpus(2).build();
    let sdet = about(&report, "SDET");
    assert_eq!(sdet.holds, Holds::Open);
    assert!(
        sdet.text.contains("1.30x") && sdet.text.contains("this machine has 2 CPUs"),
        "{}",
        sdet.text
    );
    let few = made(2, false).build();
    assert!(holds(&few).iter().all(|h| *h == Holds::Open));
    assert!(
        about(&few, CLAIMS[0])
            .text
            .ends_with("too few repeats for an interval")
    );
    assert_eq!(about(&few, "FTP get").layer, EMULATED);
}

/// Guests on an emulated CPU are named as such, and never set against native.
#[test]
fn an_emulated_cpu_is_named_wherever_it_matters() {
    let made = LAYERS[1..]
        .iter()
        .fold(made(10, true), |made, layer| made.emulated(layer));
    let report = made.cpus(4).build();
    let (yes, no, open) = (Holds::Yes, Holds::No, Holds::Open);
    assert_eq!(
        holds(&report),
        [yes, no, open, open, open, open, open, open, yes]
    );
    let study = report.study.as_ref().expect("a study");
    for c in study.conclusions.iter().filter(|c| !c.evidence.is_empty()) {
        let guests = c.text.matches("`vm").count();
        assert_eq!(
            c.text.matches("(emulated CPU)").count(),
            guests,
            "{}",
            c.text
        );
        if c.layer == "native" {
            assert!(c.text.contains("its CPU is emulated (TCG)"), "{}", c.text);
        }
    }
    for table in &study.tables {
        for (at, layer) in table.head[1..].iter().enumerate() {
            assert_eq!(layer.ends_with("(emulated CPU)"), at > 0, "{layer}");
        }
    }
}
