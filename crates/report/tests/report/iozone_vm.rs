//! The study of development machines over made-up layers whose truth is known.

use std::path::Path;

use crate::made::{Made, mark};
use layermark_model::witness::{
    GuestKilled, LostRecord, Outcome, WitnessControl, WitnessFinding, WitnessTrial,
};
use layermark_report::{Conclusion, Holds, Report, render};
use serde_json::json;

/// `share` adds 118 us to each operation; `liar` skips flushes; `loop` is as native.
pub fn report() -> Report {
    made().build()
}

pub fn made() -> Made {
    let small: Vec<u64> = (12..=16).map(|e| 1u64 << e).collect();
    let large: Vec<u64> = (12..=24).map(|e| 1u64 << e).collect();
    let mut made =
        Made::new(&["native", "fuse", "overlay:volatile", "loop:ext4"], 8).study("iozone-vm");
    for op in ["read", "write"] {
        made = made.points(op, &small, 64 << 10);
        made = made.points_with(op, &small, 64 << 10, &json!({"engine": "stdio"}));
    }
    for op in ["rand-read", "rand-write"] {
        made = made.points(op, &large, 64 << 20);
    }
    made.points_with("rand-write", &[4096], 4 << 20, &json!({"sync": "each"}))
        .cost(|layer, point, record| {
            let native = 1.0 + 0.1e-3 * record;
            let sync = if point.text("sync") == "each" {
                130.0
            } else {
                0.0
            };
            match layer {
                "fuse" => native + 118.0 + 0.5e-3 * record + sync,
                "overlay:volatile" => native,
                _ => native + sync,
            }
        })
        .change(|layer, point, _, trial| {
            if point.text("sync") == "each" {
                trial.syncs = trial.ops();
                let done = if layer == "overlay:volatile" {
                    0
                } else {
                    trial.ops()
                };
                trial.device = trial
                    .device
                    .map(|d| layermark_model::DeviceBytes { flushes: done, ..d });
                trial.idle_flushes = Some(0.0);
            }
        })
}

#[track_caller]
fn about<'a>(report: &'a Report, layer: &str, words: &str) -> &'a Conclusion {
    let all = &report
        .study
        .as_ref()
        .expect("the plan names it")
        .conclusions;
    let found = all
        .iter()
        .find(|c| c.text.contains(&mark(layer)) && c.text.contains(words));
    found.unwrap_or_else(|| panic!("nothing of {layer} and {words}: {all:#?}"))
}

#[test]
fn the_conclusions_follow_from_the_data() {
    let report = report();
    let fuse = about(&report, "fuse", "reaches half");
    assert_eq!(fuse.holds, Holds::No, "{fuse:?}");
    // 64 KB in 118 + 1 + 0.6 x 65.5 us.
    assert!(fuse.text.contains("at most 4"), "{}", fuse.text);
    assert_eq!(
        about(&report, "loop:ext4", "reaches half").holds,
        Holds::Yes
    );
    let constant = about(&report, "fuse", "a constant 11");
    assert_eq!(constant.holds, Holds::No, "{constant:?}");
    let liar = about(&report, "overlay:volatile", "flushes honestly");
    assert_eq!(liar.holds, Holds::No);
    assert!(
        liar.text.contains("0 device flushes for 8192 syncs"),
        "{}",
        liar.text
    );
    assert_eq!(
        about(&report, "loop:ext4", "flushes honestly").holds,
        Holds::Yes
    );
    assert_eq!(
        about(&report, "overlay:volatile", "keep the database in").holds,
        Holds::No
    );
    assert_eq!(
        about(&report, "fuse", "keep the database in").holds,
        Holds::No
    );
    assert_ne!(
        about(&report, "loop:ext4", "keep the database in").holds,
        Holds::No
    );
    assert_eq!(
        report.headline,
        "Acknowledged writes can be lost in `overlay:volatile`; keep databases off \
         `fuse` and `overlay:volatile`; a database can be in `loop:ext4`"
    );
    assert_eq!(
        about(&report, "fuse", "reads small files faster").holds,
        Holds::No
    );
    let study = report.study.as_ref().expect("a study");
    assert!(
        study
            .conclusions
            .iter()
            .any(|c| c.text.contains("for reading") && !c.text.contains("prefer `fuse`"))
    );
    assert_eq!(study.charts.len(), 4);
    // 4 KB in 1.41 us is 2.8 GB/s.
    let kilobytes = study.tables[0].rows[0][1].value.expect("a number");
    assert!((kilobytes / 2.837e6 - 1.0).abs() < 0.05, "{kilobytes}");
    for c in &study.conclusions {
        assert!(
            !c.evidence.is_empty() && c.evidence.iter().all(|id| report.result(id).is_some()),
            "{c:?}"
        );
    }
}

/// One guest caches what it reads, the other asks the host each time.
#[test]
fn who_caches_is_decided_by_pages_and_emulation_is_said_beside_each_number() {
    let layers = ["native", "vm:share=9p,cache=loose", "vm:share=9p"];
    let mut made = Made::new(&layers, 8).study("iozone-vm");
    for layer in &layers[1..] {
        made = made.emulated(layer);
    }
    let report = made
        .points("rand-read", &[4096, 65536, 1 << 20], 64 << 20)
        .change(|layer, _, _, trial| {
            trial.resident = Some(if layer == "vm:share=9p" { 0.0 } else { 1.0 });
        })
        .build();
    let loose = about(&report, layers[1], "cached by the guest");
    assert_eq!(loose.holds, Holds::Yes, "{loose:?}");
    assert!(
        loose
            .text
            .contains("`vm:share=9p,cache=loose` (emulated CPU)"),
        "{}",
        loose.text
    );
    let none = about(&report, layers[2], "cached by the guest");
    assert_eq!(none.holds, Holds::No, "{none:?}");
    assert!(none.text.contains("from host memory at 3"), "{}", none.text);
    let study = report.study.as_ref().expect("the plan names it");
    let head = &study.tables[0].head;
    assert_eq!(
        head[1..3],
        ["native", "vm:share=9p,cache=loose (emulated CPU)"]
    );
    let series = &study.charts[0].series;
    assert!(
        series[2].name.ends_with("(emulated CPU)"),
        "{}",
        series[2].name
    );
    let mut txt = Vec::new();
    let exporter = render::for_path(Path::new("x.txt")).unwrap();
    exporter.write(&report, &mut txt).unwrap();
    let txt = String::from_utf8(txt).unwrap();
    let marked = txt
        .lines()
        .filter(|l| l.contains(']') && l.contains("(emulated CPU)  "));
    assert_eq!(marked.count(), 6, "{txt}");
    // Native is not.
    for conclusion in &study.conclusions {
        assert!(
            !conclusion.text.contains("`native` (emulated"),
            "{conclusion:?}"
        );
    }
}

/// Native's CPU is not the guests': a guest's database is compared with other places in guests.
#[test]
fn a_database_on_an_emulated_cpu_is_compared_with_other_guests() {
    let layers = ["native", "vm:share=9p", "vm:share=nfs", "vm:disk=ide"];
    let mut made = Made::new(&layers, 8).study("iozone-vm");
    for layer in &layers[1..] {
        made = made.emulated(layer);
    }
    let report = made
        .points_with("rand-write", &[4096], 4 << 20, &json!({"sync": "each"}))
        .cost(|layer, _, _| match layer {
            "native" => 100.0,
            "vm:share=9p" => 900.0,
            "vm:share=nfs" => 2400.0,
            _ => 905.0,
        })
        .change(|_, _, _, trial| {
            trial.syncs = trial.ops();
            let flushes = trial.ops();
            trial.device = trial
                .device
                .map(|d| layermark_model::DeviceBytes { flushes, ..d });
            trial.idle_flushes = Some(0.0);
        })
        .build();
    let says = |layer: &str| about(&report, layer, "keep the database in");
    assert_eq!(says("vm:share=9p").holds, Holds::Yes);
    assert!(says("vm:share=9p").text.contains("the least of all"));
    let nfs = says("vm:share=nfs");
    assert_eq!(nfs.holds, Holds::No);
    assert!(
        nfs.text.contains("2.4") && nfs.text.contains("in `vm:share=9p` (emulated CPU) "),
        "{}",
        nfs.text
    );
    assert_eq!(says("vm:disk=ide").holds, Holds::Open, "intervals overlap");
}

/// Where no guest flushes, none can be named to move to; that it should be moved is said all the same.
#[test]
fn a_database_in_the_only_guest_which_absorbs_flushes_should_move() {
    let report = Made::new(&["native", "vm:cache=unsafe"], 8)
        .study("iozone-vm")
        .emulated("vm:cache=unsafe")
        .points_with("rand-write", &[4096], 4 << 20, &json!({"sync": "each"}))
        .change(|layer, _, _, trial| {
            trial.syncs = trial.ops();
            let flushes = if layer == "native" { trial.ops() } else { 0 };
            trial.device = trial
                .device
                .map(|d| layermark_model::DeviceBytes { flushes, ..d });
            trial.idle_flushes = Some(0.0);
        })
        .build();
    let off = about(&report, "vm:cache=unsafe", "keep the database in");
    assert_eq!(off.holds, Holds::No);
    assert!(
        off.text.contains("loses what it has acknowledged"),
        "{}",
        off.text
    );
}

/// What four cuts did to 64 records of a layer.
fn cuts(layer: &str, losing: u64) -> WitnessTrial {
    let first = LostRecord {
        finding: WitnessFinding {
            outcome: Outcome::Lost,
            sequence: 3,
            block: 2,
            text: "it is absent".into(),
            permitted: false,
        },
        at_ms: 43_203_413,
        timeline: Vec::new(),
    };
    let is_guest = layer.starts_with("vm");
    WitnessTrial {
        layer: layer.into(),
        writer: "append".into(),
        control: match layer {
            "native" => Some(WitnessControl::Honest),
            "overlay:volatile" => Some(WitnessControl::Liar),
            _ => None,
        },
        records: 64,
        cuts: 4,
        losing,
        first: (losing > 0).then_some(first),
        flushes_below: Some(if losing > 0 { 0 } else { 90 }),
        guest_killed: is_guest.then_some(GuestKilled {
            lost: Some(0),
            why: None,
        }),
        ..WitnessTrial::default()
    }
}

/// The device counts no flush of `cache=unsafe`, and cannot tell of 9p; the cuts decide both.
fn cut_report(change: impl FnOnce(&mut Vec<WitnessTrial>)) -> Report {
    let layers = ["native", "vm:disk=ide", "vm:cache=unsafe", "vm:share=9p"];
    let mut made = Made::new(&layers, 8).study("iozone-vm");
    for layer in &layers[1..] {
        made = made.emulated(layer);
    }
    let mut trials = vec![
        cuts("native", 0),
        cuts("vm:disk=ide", 0),
        cuts("vm:cache=unsafe", 3),
        cuts("vm:share=9p", 0),
        cuts("vm:cache=none", 0),
        cuts("overlay:volatile", 4),
    ];
    change(&mut trials);
    for trial in trials {
        made = made.power_cut(trial);
    }
    made.points_with("rand-write", &[4096], 4 << 20, &json!({"sync": "each"}))
        .cost(|layer, _, _| match layer {
            "native" => 100.0,
            "vm:cache=unsafe" => 300.0,
            _ => 3000.0,
        })
        .change(|layer, _, _, trial| {
            trial.syncs = trial.ops();
            let flushes = match layer {
                "vm:cache=unsafe" => 0,
                "vm:share=9p" => trial.ops() / 2,
                _ => trial.ops(),
            };
            trial.device = trial
                .device
                .map(|d| layermark_model::DeviceBytes { flushes, ..d });
            trial.idle_flushes = Some(0.0);
        })
        .build()
}

#[test]
fn power_cuts_decide_which_layers_flush_honestly() {
    let report = cut_report(|_| {});
    let says = |layer| about(&report, layer, "flushes honestly");
    let liar = says("vm:cache=unsafe");
    assert_eq!(liar.holds, Holds::No);
    for words in [
        "record 3 of `append`, fsync returned at 12:00:03.413 UTC, is lost after a power cut (it is absent)",
        "data was lost in 3 of 4 cuts",
        "64 records acknowledged, 0 flushes below",
        "0 lost when only the guest was killed",
    ] {
        assert!(liar.text.contains(words), "{words}: {}", liar.text);
    }
    // Also where flushes cannot tell, and of a layer that was only cut.
    for layer in ["vm:disk=ide", "vm:share=9p", "vm:cache=none"] {
        let honest = says(layer);
        assert_eq!(honest.holds, Holds::Yes, "{honest:?}");
        let words = "0 of 64 acknowledged records lost in 4 power cuts; 0 lost when only the guest";
        assert!(honest.text.contains(words), "{}", honest.text);
    }
    let here = about(&report, "vm:cache=unsafe", "keep the database");
    assert_eq!(here.holds, Holds::No);
    let fast = about(
        &report,
        "vm:cache=unsafe",
        "the fastest sync in a guest is one that is done",
    );
    assert_eq!(fast.holds, Holds::No, "{fast:?}");
    for words in [
        "a synced write takes 301 us in `vm:cache=unsafe` (emulated CPU), and 2.99 ms in `vm:disk=ide`",
        "the fastest guest that keeps its data. Power cuts",
        "lost acknowledged data in `vm:cache=unsafe` (emulated CPU), and none in `native`, ",
        "Controls: `native` (honest) lost data in 0 of 4 cuts; ",
        "`overlay:volatile` (lying) lost data in 4 of 4 cuts",
    ] {
        assert!(fast.text.contains(words), "{words}: {}", fast.text);
    }
}

#[test]
fn cuts_that_prove_nothing_leave_the_flushes_to_decide() {
    // A layer that was not set up again once is not acquitted.
    let report = cut_report(|trials| {
        let why = "it does not boot".to_owned();
        trials[1].unseen.add_unrecovered(why);
    });
    let ide = about(&report, "vm:disk=ide", "flushes honestly");
    let words = "8192 device flushes for 8192 syncs; power cuts say nothing: it does not boot";
    assert!(ide.text.contains(words), "{}", ide.text);
    // Nor is anything believed where the honest control lost data.
    let report = cut_report(|trials| *trials = vec![cuts("native", 1), cuts("vm:cache=unsafe", 4)]);
    let liar = about(&report, "vm:cache=unsafe", "flushes honestly");
    assert!(
        liar.text.contains("0 device flushes for 8192 syncs"),
        "{}",
        liar.text
    );
    let study = report.study.as_ref().expect("a study");
    assert!(
        !study
            .conclusions
            .iter()
            .any(|c| c.text.contains("a fast sync"))
    );
    assert!(!report.trustworthy());
}
