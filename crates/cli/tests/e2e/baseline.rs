//! `--baseline LAYER`: the layers are compared with it, and every output has its name.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;

use layermark_testkit::{
    fixtures::fixture,
    ssh::{HOST, SshServer},
};

use crate::{
    common::{Lm, READ, Said, has_fuse, history, needs_root, skipped, trials_stored, wait_for},
    places::kill,
};

const BASELINE: &str = "overlay:upper";
const LAYER: &str = "fuse";

/// Whether the layers can be set up here; prints a reason otherwise.
fn can_run() -> bool {
    if !has_fuse() {
        skipped("there is no /dev/fuse here");
    }
    has_fuse()
}

fn measured(lm: Lm, layers: &[&str], baseline: &str) -> Said {
    lm.work_with(READ, layers)
        .args(["--baseline", baseline, "--blocks", "4", "--sessions", "1"])
        .args(["-o", "a.json", "-o", "a.full.md", "-o", "a.html"])
        .run()
        .code(0)
}

fn read(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).expect(file)
}

fn json(dir: &Path, file: &str) -> Value {
    serde_json::from_str(&read(dir, file)).expect(file)
}

/// Names of the layers in their order, the baseline in brackets.
fn layers(report: &Value) -> Vec<String> {
    let layers = report["layers"].as_array().expect("layers").iter();
    let name = |l: &Value| {
        let name = l["name"].as_str().expect("a name");
        if l["baseline"] == true {
            format!("[{name}]")
        } else {
            name.to_owned()
        }
    };
    layers.map(name).collect()
}

/// Lines that name `native`, but for the name of a field.
fn natives(text: &str) -> Vec<&str> {
    let named = |line: &&str| {
        let line = line.replace("native_", "").to_lowercase();
        let words = line.split(|c: char| !c.is_alphanumeric());
        words.into_iter().any(|w| w == "native" || w == "natively")
    };
    text.lines().filter(named).collect()
}

#[test]
fn the_baseline_is_measured_and_named_everywhere_and_native_is_not() {
    if !can_run() {
        return;
    }
    let said = measured(Lm::new(), &[LAYER], BASELINE);
    let dir = said.dir.path();
    let report = json(dir, "a.json");
    assert_eq!(layers(&report), [format!("[{BASELINE}]"), LAYER.into()]);
    assert_eq!(report["reproduce"]["plan"]["baseline"], BASELINE);
    for text in [&said.stdout, &said.stderr, &read(dir, "a.full.md")] {
        assert_eq!(natives(text), [""; 0], "{text}");
    }
    let full = read(dir, "a.full.md");
    assert!(
        full.contains("time in the layer / in overlay:upper"),
        "{full}"
    );
    assert!(!read(dir, "a.html").to_lowercase().contains("natively"));

    // It is kept by a repetition, and a run with another baseline is compared by its times.
    let said = said
        .then()
        .args(["run", "--replay", "last", "-o", "b.json"])
        .run();
    let said = said.code(0);
    assert_eq!(layers(&json(said.dir.path(), "b.json")), layers(&report));
    assert_eq!(history(said.dir.path()).len(), 2);
    let other = said.then().work_with(READ, &[BASELINE, LAYER]);
    let other = other.args(["--baseline", LAYER, "--blocks", "4", "--sessions", "1"]);
    let said = other
        .run()
        .code(0)
        .then()
        .args(["compare", "last~1", "last", "-o", "c.json"]);
    let compared = json(said.run().code(0).dir.path(), "c.json");
    let trust = compared["trust"].as_array().expect("trust").iter();
    let work = trust
        .clone()
        .find(|t| t["id"] == "work")
        .expect("a check of the work");
    assert_eq!(work["state"], "warn");
    let text = work["text"].as_str().expect("a text");
    assert!(
        text.contains("baseline `overlay:upper` then, `fuse` now"),
        "{text}"
    );
}

#[test]
fn native_is_a_layer_like_others_and_a_label_names_the_baseline() {
    if !can_run() {
        return;
    }
    let own = format!("{BASELINE},label=own");
    let said = measured(Lm::new(), &["native", LAYER, &own], "own");
    let report = json(said.dir.path(), "a.json");
    assert_eq!(layers(&report), ["[own]", "native", LAYER]);
    let rows = report["results"].as_array().expect("results").iter();
    let of_native: Vec<&Value> = rows.filter(|r| r["layer"] == "native").collect();
    assert!(!of_native.is_empty());
    for row in of_native {
        assert_ne!(row["verdict"], "baseline");
        assert!(row["ratio"]["estimate"].is_number(), "{row}");
    }
}

#[test]
fn overlayfs_is_the_baseline_of_fuse_and_its_own_control() {
    if !can_run() {
        return;
    }
    let plan = r#"
name = "one"
layers = ["fuse"]
baseline = "overlay:upper"
blocks = 4
sessions = 1
[[work]]
workload = "meta"
op = "open-stat"
files = 200
"#;
    let said = Lm::new().plan(plan).args(["-o", "a.json"]).run().code(0);
    let report = json(said.dir.path(), "a.json");
    let control = "overlay:upper (control)";
    assert_eq!(layers(&report), ["[overlay:upper]", "fuse", control]);
    let text = report["control"]["text"].as_str().expect("a control");
    assert!(text.contains("`overlay:upper`"), "{text}");
    assert_eq!(natives(&said.stdout), [""; 0], "{}", said.stdout);
}

#[test]
fn a_baseline_that_is_none_is_refused() {
    let with = |baseline: &str| {
        let lm = Lm::new().work_with(READ, &["tmpfs"]);
        lm.args(["--baseline", baseline]).run()
    };
    with("fus").fails(2, &["fus"]).left_nothing();
    with("overlay:lowre").fails(2, &["lowre"]).left_nothing();
    let twice = Lm::new().args(["run", "--replay", "last", "--baseline", "fuse"]);
    let said = twice.run().code(2);
    assert!(
        said.stderr.contains("cannot be used with"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_command_of_another_users_baseline_runs_only_when_it_is_allowed() {
    let plan =
        "name = 'x'\nlayers = ['fuse']\nbaseline = 'exec:env true'\n[[work]]\nworkload = 'file'\n";
    let lm = Lm::new().plan(plan);
    let path = lm.dir.path().join("plan.toml");
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("chmod");
    lm.run()
        .fails(2, &["can be changed by other users", "env true"])
        .left_nothing();
}

/// A run that was killed goes on with its baseline.
#[test]
fn a_resumed_run_keeps_its_baseline() {
    if !can_run() {
        return;
    }
    let lm = Lm::new().work_with(READ, &[LAYER]);
    let (mut child, home) = lm
        .args(["--baseline", BASELINE, "--blocks", "30", "--sessions", "1"])
        .start();
    wait_for("trials", || (trials_stored(home.path()) >= 4).then_some(()));
    kill(child.id());
    child.wait().expect("a child");
    let resume = ["run", "--resume", "last", "-o", "a.json"];
    let said = Lm::with(home.path()).args(resume).run().code(0);
    let report = json(home.path(), "a.json");
    assert_eq!(report["status"], "done");
    assert_eq!(layers(&report), [format!("[{BASELINE}]"), LAYER.into()]);
    for text in [&said.stdout, &said.stderr] {
        assert_eq!(natives(text), [""; 0], "{text}");
    }
    let rows = report["results"].as_array().expect("results").iter();
    let of_layer = |name: &str| rows.clone().find(|r| r["layer"] == name).expect("a row");
    assert_eq!(of_layer(BASELINE)["verdict"], "baseline");
    assert_eq!(of_layer(LAYER)["trials"], 30, "{report:#}");
}

/// `history` draws the runs with one baseline, and says how many had another.
#[test]
fn a_trend_is_of_one_baseline() {
    let mut kept = fixture("quiet").read();
    let label = kept.run.points[0].label.clone();
    let mut again = |id: &str, baseline: &str| {
        kept.run.id = format!("01M8G9Z2MVEE9YJYP80SAHXX{id}");
        kept.run.started_ms += 1000;
        baseline.clone_into(&mut kept.run.layers[0].name);
        kept.clone()
    };
    let runs = [("0A", BASELINE), ("0B", "native"), ("0C", BASELINE)];
    let lm = Lm::new().keeping_runs(runs.map(|(id, baseline)| again(id, baseline)));
    let trend = ["history", "--trend", &label, LAYER];
    let said = lm.args(trend).args(["--json"]).run().code(0);
    let told = said.json();
    assert_eq!(told["baseline"], BASELINE);
    let numbers: Vec<_> = told["runs"].as_array().expect("runs").iter().collect();
    let numbers: Vec<_> = numbers.into_iter().map(|run| &run["number"]).collect();
    assert_eq!(numbers, [1, 3], "{told:#}");
    assert_eq!(told["left_out"]["other_work"], 1, "{told:#}");
    let said = said.then().args(trend).run().code(0);
    let said = said.prints("1 run with other work or another baseline left out");
    assert_eq!(natives(&said.stdout), [""; 0], "{}", said.stdout);
}

/// A directory of another machine is the baseline of another one there.
#[test]
fn a_directory_of_another_machine_is_the_baseline() {
    if !needs_root() {
        return;
    }
    let Some(server) = SshServer::start() else {
        return skipped("openssh-server is not installed");
    };
    let lm = Lm::new();
    let (config, work) = (server.config(), lm.work());
    let place = |name| {
        let (dir, config) = (work.display(), config.display());
        format!("ssh:{HOST}:{dir},config={config},label={name}")
    };
    let [disk, share] = ["disk", "share"].map(place);
    let said = measured(lm, &[&share, "tmpfs"], &disk).left_nothing();
    let report = json(said.dir.path(), "a.json");
    assert_eq!(layers(&report), ["[disk]", "share", "tmpfs"]);
    for text in [&said.stdout, &read(said.dir.path(), "a.full.md")] {
        assert_eq!(natives(text), [""; 0], "{text}");
    }
    let rows = report["results"].as_array().expect("results").iter();
    for row in rows.filter(|row| row["layer"] != "disk") {
        assert!(row["ratio"]["estimate"].is_number(), "{row:#}");
    }
    assert_eq!(server.logins(), 2, "{}", server.log());
}

/// The baseline is cut like the others. `native` remains the honest control of the disk that is cut, and is not
/// measured.
#[test]
fn cuts_are_made_of_the_baseline_too() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args([
            "durability",
            "-l",
            "overlay:volatile",
            "--baseline",
            BASELINE,
        ])
        .args([
            "--cuts",
            "3",
            "--records",
            "8",
            "--blocks",
            "4",
            "--sessions",
            "1",
        ])
        .args(["--no-control", "--seed", "3", "--json", "--dir"])
        .args([work])
        .run()
        .left_nothing();
    let report = said.json();
    assert_eq!(said.code, Some(1), "{report:#}\n{}", said.stderr);
    assert_eq!(
        layers(&report),
        [format!("[{BASELINE}]"), "overlay:volatile".into()]
    );
    let cuts = report["power_cuts"].as_array().expect("power cuts").iter();
    let losing = |layer: &str| {
        let its = cuts.clone().filter(|cut| cut["layer"] == layer);
        its.map(|cut| cut["losing"].as_u64().expect("a number"))
            .collect::<Vec<_>>()
    };
    let honest = losing(BASELINE);
    assert!(
        !honest.is_empty() && honest.iter().all(|n| *n == 0),
        "{report:#}"
    );
    let lost = losing("overlay:volatile");
    assert!(lost.iter().sum::<u64>() > 0, "{report:#}");
    let headline = report["headline"].as_str().expect("a headline");
    for words in [
        "`overlay:volatile` lies: record ",
        "`native` (honest) lost data in 0 of 3 cuts",
    ] {
        assert!(headline.contains(words), "{headline}");
    }
    let rows = report["results"].as_array().expect("results").iter();
    assert!(
        rows.clone().all(|row| row["layer"] != "native"),
        "{report:#}"
    );
}
