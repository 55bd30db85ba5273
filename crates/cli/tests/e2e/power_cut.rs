//! `layermark durability`: layers on a disk that loses what was not flushed.

use serde_json::Value;

use crate::common::{Lm, Said, needs_root, skipped};

fn durability(layers: &[&str], more: &[&str]) -> Said {
    let lm = Lm::new();
    let work = lm.work();
    let layers = layers.iter().flat_map(|l| ["-l", l]);
    lm.args(["durability", "--no-control", "--seed", "3", "--blocks", "8"])
        .args(["--sessions", "1", "--records", "8"])
        .args(more)
        .args(["--dir"])
        .args([work])
        .args(layers)
        .run()
        .left_nothing()
}

fn trials<'a>(report: &'a Value, layer: &str) -> Vec<&'a Value> {
    let all = report["power_cuts"].as_array().expect("power cuts");
    all.iter().filter(|t| t["layer"] == layer).collect()
}

#[test]
fn a_liar_is_convicted_and_an_honest_layer_is_acquitted() {
    if !needs_root() {
        return;
    }
    let said = durability(
        &["overlay:volatile", "overlay:upper"],
        &["--cuts", "6", "--json"],
    );
    let report = said.json();
    assert_eq!(said.code, Some(1), "{report:#}");
    for layer in ["native", "overlay:upper"] {
        let honest = trials(&report, layer);
        assert_eq!(honest.len(), 8, "{report:#}");
        for trial in honest {
            assert_eq!(
                (&trial["cuts"], &trial["losing"]),
                (&6.into(), &0.into()),
                "{trial:#}"
            );
        }
    }
    let convicted = trials(&report, "overlay:volatile");
    assert!(
        convicted.iter().any(|t| t["losing"].as_u64() > Some(0)),
        "{report:#}"
    );
    let headline = report["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("`overlay:volatile` lies: record "),
        "{headline}"
    );
    // The user named the liar, so no other one was cut as a control.
    for control in [
        "`native` (honest) lost data in 0 of 6 cuts",
        "`overlay:volatile` (lying) lost data in ",
    ] {
        assert!(headline.contains(control), "{headline}");
    }
}

/// podman mounts the root of a container with `--rm` so that fsync does nothing.
#[test]
fn the_root_of_a_container_started_with_rm_is_convicted_and_without_it_acquitted() {
    if !needs_root() || !has("podman") || !has("crun") {
        return;
    }
    let (liar, honest) = ("container:podman,rm=on", "container:podman");
    let volume = "container:crun,at=volume";
    let said = durability(&[liar, honest, volume], &["--cuts", "4", "--json"]);
    let report = said.json();
    assert_eq!(said.code, Some(1), "{report:#}");
    let losing = |layer: &str| {
        let each = trials(&report, layer).into_iter();
        each.map(|t| {
            assert_eq!(
                (&t["cuts"], t.get("guest_killed")),
                (&4.into(), None),
                "{t:#}"
            );
            t["losing"].as_u64().expect("a number")
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(losing(honest), [0; 8], "{report:#}");
    assert_eq!(losing(volume), [0; 8], "{report:#}");
    assert!(losing(liar).into_iter().sum::<u64>() > 0, "{report:#}");
    let headline = report["headline"].as_str().expect("a headline");
    assert!(
        headline.starts_with("`container:podman,rm=on` lies: record "),
        "{headline}"
    );
}

/// Whether it is installed.
fn has(program: &str) -> bool {
    let found = std::process::Command::new(program)
        .arg("--version")
        .output()
        .is_ok();
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

#[test]
fn both_controls_are_cut_beside_an_honest_layer() {
    if !needs_root() {
        return;
    }
    let said = durability(&["tmpfs"], &["--cuts", "2", "--full"]);
    let said = said.prints("Does it keep what it acknowledged?");
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    let text = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Controls: native (honest) lost data in 0 of 2 cuts; ",
        "overlay:volatile (lying) lost data in 2 of 2 cuts.",
        "a power cut leaves none of them",
    ] {
        assert!(
            text.replace('`', "").contains(words),
            "{words}: {}",
            said.stdout
        );
    }
}

#[test]
fn what_cannot_be_cut_is_told_to_need_a_real_power_cut() {
    let lm = Lm::new();
    let other = crate::common::disk_dir();
    let work = lm.work();
    let said = lm
        .args([
            "durability",
            "--no-control",
            "--blocks",
            "8",
            "--sessions",
            "1",
            "--full",
        ])
        .args(["--cuts", "1", "--records", "2", "-l"])
        .args([format!("dir:{}", other.path().display())])
        .args(["--dir"])
        .args([work])
        .run();
    let text = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("needs a real power cut: layermark durability record"),
        "{}{}",
        said.stdout,
        said.stderr
    );
}

#[test]
fn a_layer_has_to_be_named() {
    Lm::new()
        .args(["durability"])
        .run()
        .fails(2, &["durability: no layer", "layermark durability -l"]);
}

#[test]
fn the_selftest_tells_a_liar_from_an_honest_layer() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args([
            "selftest",
            "durability",
            "--cuts",
            "3",
            "--records",
            "8",
            "--json",
        ])
        .args(["--only", "native", "--only", "ext4 mounted nobarrier"])
        .args(["--only", "write_cache overridden", "--dir"])
        .args([work])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let rows = report["layers"].as_array().unwrap();
    let all: Vec<_> = rows
        .iter()
        .map(|r| (&r["known"], &r["as_expected"]))
        .collect();
    let (liar, honest, yes) = (
        Value::from("liar"),
        Value::from("honest"),
        Value::from(true),
    );
    assert_eq!(
        all,
        [(&liar, &yes), (&liar, &yes), (&honest, &yes)],
        "{report:#}"
    );
}

#[test]
fn a_layer_that_the_selftest_does_not_have_is_refused_with_the_nearest() {
    Lm::new()
        .args(["selftest", "durability", "--only", "overlay:volatil"])
        .run()
        .fails(
            2,
            &[
                "`--only` = overlay:volatil",
                "did you mean `overlay:volatile`?",
            ],
        );
}

/// Writable loop devices that say they have no cache.
fn denied() -> Vec<String> {
    let all = std::fs::read_dir("/sys/block").unwrap().flatten();
    let denied = all.filter(|e| {
        let is = |file: &str, wanted: &str| {
            std::fs::read_to_string(e.path().join(file)).is_ok_and(|text| text.trim() == wanted)
        };
        is("ro", "0") && is("queue/write_cache", "write through")
    });
    let names = denied.map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("loop")).collect()
}

#[test]
fn a_killed_selftest_gives_loop_devices_their_caches_back() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let lm = lm
        .args([
            "selftest",
            "durability",
            "--only",
            "write_cache overridden",
            "--dir",
        ])
        .args([work]);
    // A free device that was read-only last may say so without having been denied anything.
    let before = denied();
    let new = || !denied().iter().all(|name| before.contains(name));
    let (mut child, _home) = lm.start();
    crate::common::wait_for("a device without a cache", || new().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    crate::common::wait_for("its cache", || (!new()).then_some(()));
}
