//! Sequences of operations on a disk that loses power, and the script and the plan that show a loss to others.

use std::{fs, thread, time::Duration};

use rustix::process::Pid;
use serde_json::Value;

use crate::{
    common::{self, Lm, Said, needs_root},
    places::has,
};

/// Few flushes are measured and few records written: the sequences are what is looked at.
const SMALL: &str =
    "--cuts 2 --records 1 --seed 3 --blocks 8 --sessions 1 --no-control --json --dir";

fn durability(layers: &[&str], more: &[&str]) -> Said {
    let lm = Lm::new();
    let work = lm.work();
    lm.args(["durability"])
        .args(layers.iter().flat_map(|layer| ["-l", layer]))
        .args(more)
        .args(SMALL.split(' '))
        .args([work])
        .run()
        .left_nothing()
}

fn cut<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let cuts = report["sequence_cuts"].as_array().expect("cuts");
    let found = cuts.iter().find(|c| c["layer"] == layer);
    found.unwrap_or_else(|| panic!("{layer}: {report:#}"))
}

/// Sequences that lost something that was promised so.
fn lost(cut: &Value, basis: &str) -> Vec<String> {
    let all = cut["lost"].as_array().map_or(&[][..], Vec::as_slice);
    let broken = |l: &&Value| {
        let things = l["things"].as_array().expect("things");
        things.iter().any(|thing| thing["basis"] == basis)
    };
    let text = |l: &Value| l["sequence"].as_str().expect("a text").to_owned();
    all.iter().filter(broken).map(text).collect()
}

fn number(cut: &Value, key: &str) -> u64 {
    let number = cut[key].as_u64();
    number.unwrap_or_else(|| panic!("{key}: {cut:#}"))
}

/// One for each operation, and each call that makes it durable.
const EACH: [&str; 16] = [
    "create a/g; fsync a",
    "mkdir a/d; fsync a",
    "link a/f b/g; fsync b",
    "symlink a/g; fsync a",
    "rename a/f b/f; fsync b",
    "rename b/d a/d; fsync a",
    "unlink a/f; fsync a",
    "rmdir b/d; fsync b",
    "truncate-down a/f; fsync a/f",
    "overwrite-unaligned a/f; fdatasync a/f",
    "append a/f; syncfs",
    "mmap-write a/f; msync a/f",
    "direct-write a/f; fsync a/f",
    "punch-hole a/f; fdatasync a/f",
    "setxattr a/f; fsync a/f",
    "create a/g; append a/g; fsync a/g; rename a/g b/f; fsync b",
];

#[test]
fn each_operation_is_kept_natively_and_lost_by_a_liar() {
    if !needs_root() {
        return;
    }
    let only = EACH.map(|text| ["--sequence", text]);
    let said = durability(&["overlay:volatile"], only.as_flattened()).code(1);
    let report = said.json();
    let native = cut(&report, "native");
    assert_eq!(lost(native, "posix"), [""; 0], "{native:#}");
    assert_eq!(lost(native, "linux"), [""; 0], "{native:#}");
    let counts = ["sequences", "left_out", "cuts", "unrecovered"].map(|key| number(native, key));
    // The last has three operations, and five cuts.
    assert_eq!(counts, [16, 0, 65, 0], "{native:#}");
    // Linux alone promises attributes, and what syncfs flushed.
    let liar = cut(&report, "overlay:volatile");
    // The journal may be committed by itself meanwhile, which keeps one or two.
    let posix = lost(liar, "posix").len();
    assert!((10..=14).contains(&posix), "{liar:#}");
    let told = said.then().args(["report", "last", "--full"]).run().stdout;
    let words: Vec<&str> = told.split_whitespace().collect();
    let told = words.join(" ").replace('`', "");
    for words in [
        &format!(
            "overlay:volatile loses what POSIX or fsync(2) promises after {posix} of 16 sequences of operations"
        ),
        "native keeps what POSIX or fsync(2) promises after each of 16 sequences of operations (65 cuts)",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// Each has a sequence by which it is caught, and that a liar of another kind keeps.
#[test]
fn each_kind_of_liar_is_caught_by_a_sequence_and_an_honest_layer_by_none() {
    if !needs_root() {
        return;
    }
    let name = "create a/g; fsync a";
    let size = "append a/f; fsync a/f";
    let data = "overwrite a/f; fsync a/f";
    let both = "append a/f; fsync a/f; append b/f; fsync b/f";
    let only = [name, size, data, both].map(|text| ["--sequence", text]);
    let only = only.as_flattened();
    let layers = [
        ("fuse", vec![]),
        ("fuse:fsync=drop", vec![both, data, name, size]),
        ("fuse:fsync=late", vec![both, data, size]),
        ("fuse:fsync=data", vec![both, size]),
        ("fuse:fsync=files", vec![name]),
    ];
    let names: Vec<&str> = layers.iter().map(|(name, _)| *name).collect();
    let mut of = names.clone();
    of.push("fuse:fsync=second");
    let report = durability(&of, only).code(1).json();
    for (layer, expected) in layers {
        let cut = cut(&report, layer);
        let found = lost(cut, "posix");
        // One of them may be kept by a commit of the journal that nobody asked for.
        assert_eq!(found.is_empty(), expected.is_empty(), "{layer}: {cut:#}");
        let all = found.iter().all(|text| expected.contains(&text.as_str()));
        assert!(all, "{layer}: {found:?}");
    }
    let second = lost(cut(&report, "fuse:fsync=second"), "posix");
    assert!(
        second.contains(&both.to_owned()) && second.len() < 4,
        "{second:?}"
    );
}

/// A sequence of two is made smaller until nothing can be left out.
#[test]
fn what_is_lost_is_shrunk_to_the_operations_that_lose_it() {
    if !needs_root() {
        return;
    }
    let long = "overwrite b/f; fsync b/f; create a/g; fsync a";
    let report = durability(&["fuse:fsync=files"], &["--sequence", long]);
    let report = report.code(1).json();
    let cut = cut(&report, "fuse:fsync=files");
    assert_eq!(lost(cut, "posix"), [long], "{cut:#}");
    assert_eq!(
        cut["smallest"]["sequence"], "create a/g; fsync a",
        "{cut:#}"
    );
    let thing = &cut["smallest"]["things"][0];
    assert_eq!(
        (&thing["path"], &thing["found"]),
        (&"a/g".into(), &"absent".into())
    );
}

/// The script and the plan are what another person runs: both show the loss in a liar and none in an honest layer.
#[test]
fn the_reproducer_of_a_loss_shows_it_by_itself() {
    if !needs_root() {
        return;
    }
    let sequence = "create a/g; fsync a/g; fsync a";
    let refused = Lm::new()
        .args(["durability", "reproducer", sequence])
        .run()
        .code(2);
    assert!(
        refused.stderr.contains("follows no operation"),
        "{}",
        refused.stderr
    );
    // A layer that is not there was written into the script.
    let known = "append a/f; fsync a/f";
    Lm::new()
        .args(["durability", "reproducer", known, "-l", "fuze"])
        .run()
        .fails(2, &["unknown layer `fuze`", "did you mean `fuse`"]);
    Lm::new()
        .args(["durability", "reproducer", "create a/g"])
        .run()
        .fails(2, &["`SEQUENCE` = create a/g", "durability reproducer '"]);
    // Nothing could be seen to be lost by it.
    let refused = Lm::new()
        .args(["durability", "reproducer", "link a/f b/g; fdatasync b/g"])
        .run()
        .code(2);
    assert!(
        refused
            .stderr
            .contains("nothing that it changes has to be there"),
        "{}",
        refused.stderr
    );
    let sequence = "append a/f; fsync a/f";
    for (layer, code) in [("fuse:fsync=drop", 1), ("fuse", 0)] {
        let said = Lm::new()
            .args(["durability", "reproducer", sequence, "-l", layer])
            .run()
            .code(0);
        let script = said.stdout;
        assert!(script.lines().count() < 20, "{script}");
        // By itself it calls `layermark durability`; here with less to measure.
        let halves = ["run", "check"].map(|half| format!("set -- {half}; {script}"));
        let [run, check] = &halves;
        let said = durability(&[layer], &["--run", run, "--check", check]);
        let report = said.json();
        let cuts = report["program_cuts"].as_array().expect("cuts of programs");
        let of = |layer: &str| cuts.iter().find(|c| c["layer"] == layer).expect("a layer");
        assert_eq!(number(of("native"), "losing"), 0, "{report:#}");
        assert_eq!(number(of(layer), "losing") > 0, code == 1, "{report:#}");
        assert_eq!(number(of(layer), "items"), 1, "{report:#}");
        let plan = Lm::new()
            .args(["durability", "reproducer", sequence, "-l", layer, "--plan"])
            .run()
            .code(0)
            .stdout;
        let lm = Lm::new();
        let file = lm.dir.path().join("reproducer.toml");
        fs::write(&file, plan).expect("a plan");
        let work = lm.work();
        let said = lm
            .args(["run", "--no-control", "--json"])
            .args([&file])
            .args(["--dir"])
            .args([work])
            .run()
            .left_nothing();
        let report = said.code(code).json();
        let found = lost(cut(&report, layer), "posix");
        assert_eq!(
            found.len(),
            usize::try_from(code).expect("0 or 1"),
            "{report:#}"
        );
    }
}

#[test]
fn sequences_that_cannot_be_done_are_refused() {
    let refused = |args: &[&str]| {
        let args = [&["durability", "-l", "overlay:upper"], args].concat();
        Lm::new().args(args).run().code(2).stderr
    };
    let e = refused(&["--sequence", "create a/f; fsync a"]);
    assert!(
        e.contains("`create a/f` cannot be done there") && e.contains("hint:"),
        "{e}"
    );
    assert!(refused(&["--sequences", "3"]).contains("1..=2"));
    assert!(refused(&["--cuts", "0", "--sequences", "1"]).contains("`--cuts 0`"));
}

/// Ctrl-C while the power is cut under sequences: what was looked at is in the report, which says what was not.
#[test]
fn a_run_that_is_stopped_during_its_sequences_keeps_what_was_cut() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let (mut child, dir) = lm
        .args(["durability", "-l", "native", "--sequences", "1"])
        .args(SMALL.split(' '))
        .args([work])
        .start();
    let pid = Pid::from_child(&child);
    let stderr = child.stderr.as_mut().expect("its messages");
    layermark_testkit::heard(stderr, "native: power cuts under 179 sequences");
    // Some of them are cut.
    thread::sleep(Duration::from_secs(2));
    common::interrupt(&mut child, pid);
    let said = Said::from(common::output(child), dir).left_nothing();
    let report = said.json();
    let stopped = cut(&report, "native");
    let [done, left, cuts] = ["sequences", "unfinished", "cuts"].map(|key| number(stopped, key));
    assert_eq!(done + left, 179, "{stopped:#}");
    assert!(done > 0 && left > 0, "{stopped:#}");
    // Each sequence of one operation that was begun was cut to its end.
    assert_eq!(cuts, 4 * done, "{stopped:#}");
    let of = |key: &str| {
        let all = report[key].as_array().expect("cuts").iter();
        let mut liar = all.filter(|c| c["layer"] == "overlay:volatile");
        let liar = liar.next().unwrap_or_else(|| panic!("{key}: {report:#}"));
        assert_eq!(liar["not_begun"], true, "{liar:#}");
        assert_eq!(liar["uncut"], "not done before the run ended", "{liar:#}");
    };
    of("power_cuts");
    of("sequence_cuts");
    // The liar was not cut: nothing is acquitted.
    let told = said.then().args(["report", "last", "--full"]).run().stdout;
    let words: Vec<&str> = told.split_whitespace().collect();
    let told = words.join(" ").replace('`', "");
    let words = format!("the run ended before all cuts of {left} of 179 sequences");
    assert!(told.contains(&words), "{words}: {told}");
    assert!(
        told.contains(
            "cannot be decided: what native keeps of sequences of operations is not proved"
        ),
        "{told}"
    );
}

/// The files of a container are read from the host after a cut. podman mounts the root of one with `--rm` so that fsync
/// does nothing.
#[test]
fn a_container_keeps_sequences_and_one_whose_fsync_does_nothing_does_not() {
    if !needs_root() || !has("podman") || !has("crun") {
        return;
    }
    let all = ["create a/g; fsync a", "append a/f; fsync a/f"];
    let only = all.map(|text| ["--sequence", text]);
    let layers = ["container:crun", "container:podman,rm=on"];
    let report = durability(&layers, only.as_flattened()).code(1).json();
    for (layer, losing) in layers.into_iter().zip([0, 2]) {
        let cut = cut(&report, layer);
        assert_eq!(lost(cut, "posix").len(), losing, "{cut:#}");
        let counts = ["sequences", "left_out", "unrecovered"];
        assert_eq!(counts.map(|key| number(cut, key)), [2, 0, 0], "{cut:#}");
        assert!(cut["unjudged"].is_null(), "{cut:#}");
        assert!(losing > 0 || number(cut, "cuts") == 8, "{cut:#}");
    }
}
