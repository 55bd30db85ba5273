//! `layermark lock`: every kind of lock in a layer, proved to exclude; and what cannot be done is said.

use crate::common::{Lm, is_root, result, skipped};

#[test]
fn locks_are_timed_and_proved_in_a_layer() {
    let layers: &[&str] = if is_root() {
        &["bind:idmapped", "bind:ro"]
    } else {
        &["bind:rw", "bind:ro"]
    };
    let args = ["lock", "--threads", "1,2", "--blocks", "1", "--json"];
    let said = Lm::new().work_with(&args, layers).run().left_nothing();
    if said.stderr.contains("the right to mount") {
        return skipped("nothing can be mounted here");
    }
    let report = said.json();
    for kind in ["flock", "fcntl", "ofd"] {
        for threads in ["1 thread", "2 threads"] {
            let row = result(&report, &format!("{kind} lock, {threads}"), layers[0]);
            assert!(row["value"].as_f64() > Some(0.0), "{row:#}");
            assert_eq!(
                (&row["metric"], &row["unit"]),
                (&"rate".into(), &"ops/s".into())
            );
        }
    }
    let trust = report["trust"].as_array().expect("trust");
    let verified = trust
        .iter()
        .find(|t| t["id"] == "verified")
        .expect("a proof");
    assert_eq!(verified["state"], "ok", "{verified:#}");
    let left_out = report["left_out"].as_array().expect("left out");
    let why = left_out
        .iter()
        .find(|l| l["layer"] == "bind:ro")
        .expect("bind:ro");
    assert_eq!(why["reason"], "the layer is read-only", "{why:#}");
}

/// Our own file system keeps locks in the kernel of its one client; a bind mount has those of the directory below.
#[test]
fn two_clients_are_asked_where_a_layer_has_two_sides() {
    let args = ["lock", "--threads", "1", "--blocks", "3", "--json"];
    let layers = ["bind:rw", "fuse", "overlay:upper"];
    let said = Lm::new().work_with(&args, &layers).run().left_nothing();
    if said.stderr.contains("the right to mount") || said.stderr.contains("/dev/fuse") {
        return skipped("nothing can be mounted here");
    }
    let report = said.json();
    let rows = report["locks"].as_array().expect("locks");
    let verdicts = |layer: &str| -> Vec<(&str, &str)> {
        let own = rows.iter().filter(|r| r["layer"] == layer);
        own.map(|r| {
            let text = |key: &str| r[key].as_str().expect("a text");
            assert!(!text("because").is_empty(), "{r:#}");
            (text("kind"), text("verdict"))
        })
        .collect()
    };
    for layer in ["native", "bind:rw"] {
        let all = ["fcntl", "flock", "ofd"].map(|kind| (kind, "excludes"));
        assert_eq!(verdicts(layer), all, "{layer}");
    }
    let none = ["fcntl", "flock", "ofd"].map(|kind| (kind, "does-not-exclude"));
    assert_eq!(verdicts("fuse"), none);
    assert!(
        verdicts("overlay:upper").is_empty(),
        "this kernel keeps its locks, and it has one side"
    );
    let headline = report["headline"].as_str().expect("a headline");
    assert!(
        headline.contains("`fuse` does not exclude the other side by fcntl, flock and ofd locks"),
        "{headline}"
    );
    let left_out = report["left_out"].as_array().expect("left out");
    let one_sided = left_out.iter().any(|l| {
        l["layer"] == "overlay:upper"
            && l["reason"]
                .as_str()
                .is_some_and(|r| r.contains("no second directory"))
    });
    assert!(one_sided, "{left_out:#?}");
}

#[test]
fn a_kind_that_does_not_exist_is_a_usage_error() {
    Lm::new()
        .work_with(&["lock", "--op", "fcnlt"], &["native"])
        .run()
        .fails(2, &["fcnlt", "fcntl"]);
}
