//! The study of launch times over made-up layers whose truth is known.

use crate::made::{Made, mark};
use layermark_report::{Conclusion, Holds, Report};

const PROGRAMS: [&str; 3] = ["shell", "node", "xterm"];

/// `fuse` is 3 times as slow cold and as native warm; the guests are 20 times as slow as native, and
/// the share is 1.5 times as slow as the disk.
pub fn report(blocks: u32) -> Report {
    let layers = ["native", "fuse", "vm,root=host", "vm:share=nfs,root=host"];
    let mut made = Made::new(&layers, blocks).study("launch-share");
    for guest in &layers[2..] {
        made = made.emulated(guest);
    }
    made.launches(&PROGRAMS)
        .cost(|layer, point, _| {
            let warm = point.text("cache") == "warm";
            let native = if warm { 4e3 } else { 10e3 };
            match layer {
                "fuse" if !warm => 3.0 * native,
                "vm,root=host" => 20.0 * native,
                "vm:share=nfs,root=host" => 30.0 * native,
                _ => native,
            }
        })
        .build()
}

#[track_caller]
fn about<'a>(report: &'a Report, words: &str) -> &'a Conclusion {
    let all = &report.study.as_ref().expect("a study").conclusions;
    let found = all.iter().find(|c| c.text.contains(words));
    found.unwrap_or_else(|| panic!("nothing of {words}: {all:#?}"))
}

#[test]
fn layers_are_compared_with_native_and_emulated_ones_with_each_other() {
    let report = report(10);
    let study = report.study.as_ref().expect("a study");
    let titles: Vec<&str> = study.tables.iter().map(|t| t.title.as_str()).collect();
    let (own, guests) = (" launches", " launches in guests");
    let wanted = [own, guests].map(|t| ["Cold", "Warm"].map(|s| format!("{s}{t}")));
    let wanted = [0, 1].map(|s| [&wanted[0][s], &wanted[1][s]]).concat();
    assert_eq!(titles, wanted);
    let guests = &study.tables[1];
    assert_eq!(guests.head[5], "time over vm,root=host (emulated CPU)");
    assert_eq!(guests.rows.len(), 2 * PROGRAMS.len());
    let share = &guests.rows[1];
    assert_eq!(share[1].text, "vm:share=nfs,root=host (emulated CPU)");
    assert!((share[3].value.expect("seconds") / 0.3 - 1.0).abs() < 0.05);
    assert!((share[5].value.expect("a ratio") / 1.5 - 1.0).abs() < 0.05);
    assert_eq!(guests.rows[0][5].value, None);
    let slow = about(&report, "cold launches from `fuse`");
    assert_eq!(slow.holds, Holds::No);
    assert!(
        slow.text
            .contains("3 of 3 programs slower, 0 quicker, 0 the same, 3.0")
    );
    assert_eq!(
        about(&report, "warm launches from `fuse`").holds,
        Holds::Yes
    );
    let nfs = format!("cold launches from {}", mark("vm:share=nfs,root=host"));
    let nfs = about(&report, &nfs);
    assert_eq!(nfs.holds, Holds::No);
    let against = format!("as from {} (emulated CPU)", mark("vm,root=host"));
    assert!(nfs.text.contains(&against), "{}", nfs.text);
    assert_eq!(
        about(&report, "a warm launch from `fuse`").holds,
        Holds::Yes
    );
    assert!(
        !study
            .conclusions
            .iter()
            .any(|c| c.text.contains("vm") && c.text.contains("native"))
    );
    for c in &study.conclusions {
        let known = c.evidence.iter().all(|id| report.result(id).is_some());
        assert!(known && !c.evidence.is_empty(), "{c:?}");
    }
}

/// The cells of a study's table in these columns.
fn column<'a>(report: &'a Report, table: &str, layer: &str, at: usize) -> Vec<&'a str> {
    let tables = &report.study.as_ref().expect("a study").tables;
    let table = tables.iter().find(|t| t.title == table).expect("a table");
    let of = table.rows.iter().filter(|r| r[1].text.starts_with(layer));
    of.map(|r| r[at].text.as_str()).collect()
}

#[test]
fn a_table_says_what_the_report_and_the_conclusions_say() {
    let report = report(10);
    for (table, state) in [("Cold launches", "cold"), ("Warm launches", "warm")] {
        let rows = report.results.iter();
        let rows = rows.filter(|r| r.layer == "fuse" && r.point["cache"] == state);
        let told: Vec<String> = rows
            .map(|r| layermark_report::ratio_with(&r.ratio.expect("a ratio")))
            .collect();
        assert_eq!(column(&report, table, "fuse", 5), told, "{state}");
    }
}

/// One program whose launches happen to be alike has its noise from the others, as in every report.
#[test]
fn guests_that_are_compared_with_each_other_lend_each_other_their_noise() {
    let layers = ["native", "vm,root=host", "vm:share=nfs,root=host"];
    let mut made = Made::new(&layers, 10).study("launch-share");
    for guest in &layers[1..] {
        made = made.emulated(guest);
    }
    let report = made
        .launches(&PROGRAMS)
        .cost(|layer, _, _| if layer.contains("share") { 30e3 } else { 20e3 })
        .change(|layer, point, block, trial| {
            if point.text("command") == "shell" {
                let share = 29_940_000 + 60_000 * u64::from(block % 3);
                let alone = 20_000_000;
                trial.passes[0].elapsed_ns = if layer.contains("share") {
                    share
                } else {
                    alone
                };
            }
        })
        .build();
    let ratios = column(&report, "Cold launches in guests", "vm:share", 5);
    assert_eq!(ratios.len(), PROGRAMS.len());
    assert!(
        ratios[0].starts_with("1.50x (1.49"),
        "an interval of some width: {ratios:?}"
    );
}

#[test]
fn too_few_launches_decide_nothing() {
    let report = report(2);
    let study = report.study.as_ref().expect("a study");
    assert!(study.conclusions.iter().all(|c| c.holds == Holds::Open));
}
