//! `~/.config/layermark.toml`: what is usual, and that flags win over it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
};

use crate::common::{Lm, is_root, skipped};

/// With a configuration file.
fn with(text: &str) -> Lm {
    let lm = Lm::new();
    fs::create_dir(lm.dir.path().join("config")).expect("a directory");
    lm.file("config/layermark.toml", text)
}

#[test]
fn directory_budget_layers_and_label_are_usual_until_a_flag_names_others() {
    let lm = with("");
    let work = lm.work();
    let text =
        format!("dir = {work:?}\nbudget = \"9s\"\nlayers = [\"bind\"]\nlabel = \"build-7\"\n");
    let said = lm
        .file("config/layermark.toml", text)
        .args([
            "meta",
            "--op",
            "stat",
            "--files",
            "10",
            "--no-control",
            "--json",
        ])
        .run()
        .left_nothing();
    if said.stderr.contains("the right to mount") {
        return skipped("nothing can be mounted here");
    }
    let report = said.json();
    assert_eq!(report["dir"].as_str(), work.to_str(), "{}", said.stderr);
    assert_eq!(report["reproduce"]["plan"]["budget"], "9s");
    let layers = |report: &serde_json::Value| -> Vec<String> {
        let all = report["layers"].as_array().expect("layers").iter();
        all.map(|l| l["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(layers(&report), ["native", "bind"]);
    assert_eq!(report["machine"]["label"], "build-7");
    let flags =
        "meta --op stat --files 10 --no-control --json --blocks 1 --dir . -l native --label other";
    let said = said.then().args(flags.split(' ')).run();
    let report = said.json();
    assert_eq!(layers(&report), ["native"], "{}", said.stderr);
    assert_ne!(report["dir"].as_str(), work.to_str());
    assert!(report["reproduce"]["plan"]["budget"].is_null());
    assert_eq!(report["machine"]["label"], "other");
}

#[test]
fn each_value_is_shown_with_where_it_comes_from() {
    let said = with("budget = \"9s\"\n").args(["config", "--json"]).run();
    let shown = said.json();
    let path = said.dir.path().join("config/layermark.toml");
    assert_eq!(shown["path"].as_str(), path.to_str());
    assert_eq!(shown["exists"], true);
    let budget = &shown["values"]["budget"];
    assert_eq!(budget["value"], "9s");
    assert_eq!(budget["from"].as_str(), path.to_str());
    assert_eq!(shown["values"]["dir"]["value"], ".");
    assert_eq!(shown["values"]["dir"]["from"], "default");
    Lm::new()
        .args(["config"])
        .run()
        .code(0)
        .prints("layermark.toml (not there)");
}

#[test]
fn what_is_wrong_in_it_is_a_usage_error() {
    for command in [&["config"][..], &["meta", "-l", "native"]] {
        with("layer = [\"fuse\"]\n").args(command).run().fails(
            2,
            &[
                "layermark.toml",
                "unknown key `layer`",
                "did you mean `layers`?",
            ],
        );
    }
    // What measures nothing does not need it.
    with("layer = [\"fuse\"]\n").args(["layers"]).run().code(0);
}

/// A service has a home directory that is none; each command that measures was refused there.
#[test]
fn where_no_file_can_be_there_is_none() {
    let closed = tempfile::tempdir().expect("a directory");
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o000)).expect("its mode");
    let open = tempfile::tempdir().expect("a directory");
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
    for home in ["/dev/null".as_ref(), closed.path(), open.path()] {
        Lm::new()
            .env("XDG_CONFIG_HOME", "")
            .env("HOME", home)
            .args(["config"])
            .run()
            .code(0)
            .prints(".config/layermark.toml (not there)");
    }
    // Its owner without root cannot remove what he may not read.
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).expect("its mode");
}

/// A part of a file is another file.
#[test]
fn a_file_that_is_too_large_is_refused_and_not_cut() {
    let text = "# a comment\n".repeat(90_000);
    let said = with(&text).args(["config"]).run();
    said.fails(2, &["layermark.toml", "larger than 1024 KiB", "mv "]);
}

/// It names directories and layers, so what somebody else can write in it is not done.
#[test]
fn a_file_that_another_user_can_change_is_refused() {
    let lm = with("budget = \"9s\"\n");
    let path = lm.dir.path().join("config/layermark.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its mode");
    let said = lm.args(["config"]).run();
    let said = said.fails(2, &["another user can change it", "chmod go-w"]);
    if !is_root() {
        return skipped("only root can give a file to another user");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    // Who can change the directory can put another file there.
    let dir = said.dir.path().join("config");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("its mode");
    let said = said.then().args(["config"]).run();
    let said = said.fails(2, &["another user can change", "/config", "chmod go-w"]);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("its mode");
    chown(&path, Some(65_533), None).expect("its owner");
    let said = said.then().args(["config"]).run();
    said.fails(2, &["another user can change it", "chown"]);
}
