//! How a file that is overwritten was made, and what the kernel was told of its order.

use crate::common::Lm;
use serde_json::{Value, json};

const SMALL: [&str; 6] = ["--file-size", "256K", "--blocks", "2", "--json", "--op"];

/// The rows of these operations natively and in the upper layer, with these flags.
fn rows(ops: &str, flags: &[&str]) -> Vec<Value> {
    let said = Lm::new()
        .work_with(&["file"], &["overlay:upper"])
        .args(SMALL)
        .args([ops])
        .args(flags)
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    report["results"].as_array().expect("results").clone()
}

#[test]
fn what_made_a_file_is_told_in_every_layer() {
    for (flags, asked, made, label) in [
        (&[][..], 0, 4096, "rewrite 4K of 256K, warm"),
        (
            &["--fill-record", "64K"],
            65536,
            65536,
            "rewrite 4K of 256K, warm, made with 64K",
        ),
        (
            &["--record", "32"],
            0,
            rustix::param::page_size(),
            "rewrite 32 of 256K, warm",
        ),
    ] {
        let rows = rows("rewrite,read", flags);
        assert_eq!(rows.len(), 4, "{flags:?}");
        for row in &rows {
            if row["point"]["op"] == "read" {
                assert_eq!(row["filled_with"], json!(null), "{row:#}");
                assert_eq!(row["point"]["fill_record"], 0, "{row:#}");
                continue;
            }
            assert_eq!(row["label"], label);
            assert_eq!(row["point"]["fill_record"], asked, "{row:#}");
            assert_eq!(row["filled_with"], json!(made), "{row:#}");
        }
    }
}

#[test]
fn advice_is_given_unless_it_is_not_wanted() {
    for (ops, flags, none) in [
        ("read,rand-write", &[][..], [false, false]),
        ("read,rand-write", &["--no-advice"], [true, true]),
        // Nothing to be told of this one.
        ("read,stride-read", &["--no-advice"], [true, false]),
    ] {
        let rows = rows(ops, flags);
        let told: Vec<&Value> = rows.iter().map(|r| &r["point"]["no_advice"]).collect();
        // Two layers a point.
        let expected = none.map(Value::Bool);
        assert_eq!(
            told,
            [&expected[0], &expected[0], &expected[1], &expected[1]],
            "{flags:?}"
        );
    }
    let like = Lm::new()
        .work_with(&["file", "--like", "-i 2 -r 16 -s 64"], &["overlay:upper"])
        .args(["--json"])
        .run()
        .code(0);
    let report = like.json();
    let rows = report["results"].as_array().expect("results");
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["point"]["no_advice"], true, "{row:#}");
    }
}

#[test]
fn flags_without_effect_are_refused() {
    for (op, flags, name) in [
        ("read", &["--fill-record", "64K"][..], "`--fill-record`"),
        ("stride-read", &["--no-advice"], "`--no-advice`"),
    ] {
        Lm::new()
            .work_with(&["file"], &["overlay:upper"])
            .args(SMALL)
            .args([op])
            .args(flags)
            .run()
            .fails(2, &[name, "has no effect"])
            .left_nothing();
    }
}
