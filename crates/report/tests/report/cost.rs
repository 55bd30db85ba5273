//! Cost model, record size and the study made from made-up runs whose truth is known.

use crate::made::{Made, mark};
use layermark_report::{Holds, Report, render};

/// A layer that adds 118 us to an operation and 0.31 ns to a byte.
fn known(blocks: u32) -> Report {
    Made::new(&["native", "fuse"], blocks)
        .points(
            "read",
            &(12..=24).map(|e| 1u64 << e).collect::<Vec<_>>(),
            1 << 28,
        )
        .cost(|layer, _, record| {
            let native = 2.0 + 0.08e-3 * record;
            if layer == "fuse" {
                native + 118.0 + 0.31e-3 * record
            } else {
                native
            }
        })
        .build()
}

#[test]
fn the_cost_of_a_layer_is_a_constant_and_a_price_for_bytes() {
    let report = known(8);
    let fuse = report
        .cost
        .iter()
        .find(|c| c.layer == "fuse")
        .expect("a model");
    assert!(fuse.fits && fuse.worst < 0.05, "{fuse:#?}");
    for (read, truth) in [(fuse.extra_fixed_us, 118.0), (fuse.extra_ns_per_byte, 0.31)] {
        let read = read.expect("a difference");
        let [low, high] = read.interval.expect("8 blocks");
        assert!(
            low < truth && truth < high && high - low < 0.1 * truth,
            "{read:?}"
        );
    }
    assert!(
        fuse.text.contains("a constant 118 us") && fuse.text.contains("no record size helps"),
        "{}",
        fuse.text
    );
    assert!(
        fuse.text.contains("ns") && fuse.text.contains("more a byte"),
        "{}",
        fuse.text
    );
    // 0.39 ns a byte is 2.56 GB/s.
    assert!((fuse.ceiling.expect("bytes cost most") / 2.56e9 - 1.0).abs() < 0.05);
    assert_eq!(fuse.evidence.len(), 13);
    let native = report
        .cost
        .iter()
        .find(|c| c.layer == "native")
        .expect("a model");
    assert!(native.extra_fixed_us.is_none() && native.fixed_us.is_some());
}

#[test]
fn every_format_tells_the_cost() {
    let report = known(8);
    for (name, word) in [
        ("x.txt", "What an operation costs"),
        ("x.full.md", "## What an operation costs"),
        ("x.html", "Time an operation over record size: read"),
        ("x.json", "\"extra_fixed_us\""),
    ] {
        let mut out = Vec::new();
        render::for_path(name.as_ref())
            .unwrap()
            .write(&report, &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(word), "{name}");
        assert!(
            name == "x.json" || text.contains("118 \u{b5}s") || text.contains("118 us"),
            "{name}"
        );
    }
}

#[test]
fn a_step_in_the_costs_is_no_line() {
    // A cache that larger records do not fit in.
    let report = Made::new(&["native"], 8)
        .points(
            "read",
            &(12..=20).map(|e| 1u64 << e).collect::<Vec<_>>(),
            1 << 26,
        )
        .cost(|_, _, record| {
            if record > 100_000.0 {
                0.002 * record
            } else {
                0.0002 * record
            }
        })
        .build();
    let native = &report.cost[0];
    assert!(!native.fits && native.fixed_us.is_none() && native.ceiling.is_none());
    assert!(native.text.contains("no such model"), "{}", native.text);
}

#[test]
fn few_blocks_give_no_interval_and_few_sizes_no_model() {
    let report = known(3);
    let fuse = report
        .cost
        .iter()
        .find(|c| c.layer == "fuse")
        .expect("a model");
    assert!(fuse.extra_fixed_us.expect("a number").interval.is_none());
    assert!(report.buffer.iter().all(|b| b.wall.between.is_none()));
    let report = Made::new(&["native"], 8)
        .points("read", &[4096, 65536, 1 << 20], 1 << 26)
        .build();
    assert!(report.cost.is_empty() && report.buffer.is_empty());
    assert!(report.sections().is_empty());
}

/// A run that was stopped before its first write has no table of writes.
#[test]
fn an_operation_that_was_not_reached_has_no_table() {
    let report = Made::new(&["native", "tmpfs"], 8)
        .study("buffer-size")
        .points("read", &[1024, 4096], 1 << 28)
        .build();
    let study = report.study.as_ref().expect("the plan names it");
    let titles: Vec<&str> = study.tables.iter().map(|t| t.title.as_str()).collect();
    assert_eq!(titles, ["read, 256M: seconds for the file"]);
}

pub fn buffer_size() -> Report {
    made_buffer_size().build()
}

pub fn made_buffer_size() -> Made {
    let sizes: Vec<u64> = (5..=12).map(|e| 1u64 << e).collect();
    Made::new(&["native", "tmpfs"], 8)
        .study("buffer-size")
        .points("write", &sizes, 1 << 28)
        .points("read", &sizes, 1 << 28)
        // 5 % above the best is reached at 2048 natively, and at 512 in memory.
        .cost(|layer, _, record| {
            if layer == "native" {
                0.1 + 1e-3 * record
            } else {
                0.01 + 1e-3 * record
            }
        })
}

/// A block is a round of the schedule: the same word for the size of a `read` was misread.
#[test]
fn the_study_of_buffer_sizes_has_records() {
    let study = buffer_size().study.expect("the plan names it");
    let mut texts = vec![study.about.clone()];
    texts.extend(study.conclusions.iter().map(|c| c.text.clone()));
    texts.extend(study.tables.iter().flat_map(|t| t.head.clone()));
    let charts = study.charts.iter();
    texts.extend(charts.flat_map(|c| [c.title.clone(), c.x.label.clone()]));
    assert!(texts.len() > 10);
    for text in texts {
        assert!(!text.contains("block"), "{text}");
    }
}

/// "Use 4096 bytes" was said where 4096 was the largest size, and 512K four times as fast.
#[test]
fn the_best_of_the_sizes_is_a_lower_bound_if_it_is_the_largest() {
    let limit = "or more (no larger size was measured)";
    let report = made_buffer_size()
        .cost(|_, _, record| 10.0 + 1e-3 * record)
        .build();
    assert!(report.headline.contains(limit), "{}", report.headline);
    let conclusions = |report: &Report| {
        let study = report.study.as_ref().unwrap();
        let texts: Vec<&str> = study.conclusions.iter().map(|c| c.text.as_str()).collect();
        texts.join("\n")
    };
    assert!(conclusions(&report).contains(limit));
    let report = buffer_size();
    assert!(!report.headline.contains(limit), "{}", report.headline);
}

#[test]
fn the_study_of_buffer_sizes_recommends_and_says_what_holds() {
    let report = buffer_size();
    let native = report
        .buffer
        .iter()
        .find(|b| b.layer == "native")
        .expect("native");
    assert_eq!((native.wall.record, native.wall.best), (2048, 4096));
    let [low, high] = native.wall.between.expect("8 blocks");
    assert!((1024..=2048).contains(&low) && (2048..=4096).contains(&high));
    let study = report.study.as_ref().expect("the plan names it");
    assert_eq!(
        (study.tables.len(), study.charts.len(), study.files.len()),
        (2, 4, 4)
    );
    let lines: Vec<&str> = study.files[0].text.lines().collect();
    assert_eq!(lines.len(), 8);
    let first = lines[0]
        .strip_prefix("block=32 size=268435456 time=")
        .expect(lines[0]);
    let (time, clock) = first.split_once(" clock=").expect("a CPU time");
    // 8,388,608 blocks of 0.132 us.
    assert!(
        (time.parse::<f64>().unwrap() / 1.107 - 1.0).abs() < 0.05,
        "{time}"
    );
    assert!(clock.strip_suffix('s').unwrap().parse::<f64>().unwrap() > 0.1);
    let holds = |layer: &str, what: &str| {
        let found = study.conclusions.iter().find(|c| {
            c.text.contains(&mark(layer)) && c.text.contains(what) && c.text.contains("write")
        });
        found.expect("a conclusion").holds
    };
    assert_ne!(holds("native", "throughput"), Holds::Yes);
    assert_eq!(holds("tmpfs", "throughput"), Holds::Yes);
    for c in &study.conclusions {
        assert!(c.evidence.iter().all(|id| report.result(id).is_some()) && !c.evidence.is_empty());
    }
}

/// The headline of a study said "use 2048 bytes" beside its own claim, "cannot be decided".
#[test]
fn the_headline_of_buffer_sizes_decides_what_its_claims_decide() {
    let report = |at_1024: f64| {
        let records: Vec<u64> = (5..=12).map(|e| 1u64 << e).collect();
        let mut made = Made::new(&["native", "fuse"], 12).study("buffer-size");
        for op in ["write", "read"] {
            made = made.points(op, &records, 1 << 20);
        }
        made = match at_1024 {
            at if at > 1.2 => made.cost(|_, _, r| r * 1e-3 * if r < 2048.0 { 1.5 } else { 1.0 }),
            at if at > 1.0 => made.cost(|_, _, r| {
                let more = if r < 1024.0 { 0.5 } else { 0.0 };
                r * 1e-3 * (1.0 + more + if r < 2048.0 { 0.052 } else { 0.0 })
            }),
            _ => made.cost(|_, _, r| r * 1e-3),
        };
        let report = made.noise(0.03).build();
        let study = report.study.as_ref().expect("the plan names it");
        let native = study.conclusions.iter().filter(|c| c.layer == "native");
        let wall = native.filter(|c| c.claim.contains("throughput"));
        let wall = wall.map(|c| c.holds);
        (report.headline.to_lowercase(), wall.collect::<Vec<Holds>>())
    };
    let (said, claims) = report(1.5);
    assert!(claims.contains(&Holds::No), "{claims:?}");
    assert!(
        said.contains("use 2048") && said.contains("; 1024 costs"),
        "{said}"
    );
    let (said, claims) = report(1.05);
    assert!(
        claims.contains(&Holds::Open) && !claims.contains(&Holds::No),
        "{claims:?}"
    );
    assert!(
        said.contains("not decided whether 1024 bytes are enough"),
        "{said}"
    );
    assert!(!said.contains("use "), "{said}");
    let (said, claims) = report(1.0);
    assert!(claims.iter().all(|c| *c == Holds::Yes), "{claims:?}");
    assert!(said.contains("are enough: within 5 %"), "{said}");
}
