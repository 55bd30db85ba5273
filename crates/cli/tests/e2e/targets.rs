//! `-o`: what it replaces and what it refuses, and that it is known before anything is measured.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    path::Path,
};

use layermark_testkit::fixtures;

use crate::common::{Lm, Said, history};

/// Refused with the hint, and nothing was measured.
#[track_caller]
fn refused(lm: Lm, name: &str, why: &str) -> Said {
    let said = lm
        .mock()
        .args(["-o", name])
        .run()
        .fails(2, &[name, why, "--force"]);
    assert!(history(said.dir.path()).is_empty(), "it was measured");
    said
}

fn read(said: &Said, name: &str) -> String {
    fs::read_to_string(said.dir.path().join(name)).expect(name)
}

#[test]
fn a_file_of_somebody_elses_is_kept() {
    for name in [
        "notes.md",
        "data.csv",
        "page.html",
        "x.json",
        "p.png",
        "b.xlsx",
        "i.iozone",
        "n.txt",
    ] {
        let mine = "name,layermark\nmine,1\n";
        let said = refused(
            Lm::new().file(name, mine),
            name,
            "no record that layermark wrote this file",
        );
        assert_eq!(read(&said, name), mine);
    }
    let lm = Lm::new().file("t.json", "{}").args([
        "launch",
        "--runs",
        "1",
        "--export-json",
        "t.json",
        "true",
    ]);
    let said = lm.run().fails(2, &["t.json", "--force"]);
    assert_eq!(read(&said, "t.json"), "{}");
}

#[test]
fn links_fifos_and_devices_are_refused_unless_forced() {
    let lm = Lm::new().file("victim", "theirs");
    let dir = lm.dir.path().to_owned();
    symlink("victim", dir.join("l.html")).unwrap();
    let said = refused(lm, "l.html", "symbolic link to victim");
    assert_eq!(read(&said, "victim"), "theirs");
    symlink("/dev/null", dir.join("n.html")).unwrap();
    let said = refused(said.then(), "n.html", "symbolic link to /dev/null");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("f.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let said = refused(said.then(), "f.json", "FIFO");
    let forced = ["-o", "l.html", "-o", "n.html", "-o", "f.json", "--force"];
    let fifo = dir.join("f.json");
    let reader = std::thread::spawn(move || fs::read_to_string(fifo));
    let stored = said.then().keeping(&["scripted"]);
    let said = stored.args(["report"]).args(forced).run().code(0);
    assert!(read(&said, "victim").starts_with("<!DOCTYPE html>"));
    assert!(dir.join("l.html").is_symlink() && dir.join("n.html").is_symlink());
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let report: serde_json::Value = serde_json::from_str(&reader.join().unwrap().unwrap()).unwrap();
    assert_eq!(report["schema"], "layermark.report/1");
    assert!(
        fs::symlink_metadata(dir.join("f.json"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
}

#[test]
fn an_own_file_is_replaced_and_keeps_its_mode() {
    let names = [
        "r.html",
        "r.json",
        "r.csv",
        "r.wide.csv",
        "r.md",
        "r.txt",
        "r.xlsx",
        "r.iozone",
        "r.svg",
        "r.png",
    ];
    let outputs: Vec<&str> = names.iter().flat_map(|n| ["-o", n]).collect();
    let lm = Lm::stored(&["scripted"]).file("empty.md", "");
    let said = lm.args(["report"]).args(&outputs).run().code(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let html = said.dir.path().join("r.html");
    fs::set_permissions(&html, fs::Permissions::from_mode(0o600)).unwrap();
    let files = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let before = files(said.dir.path());
    let said = said
        .then()
        .args(["report"])
        .args(&outputs)
        .args(["-o", "empty.md"])
        .run()
        .code(0);
    assert_eq!(mode(&html), 0o600);
    assert_eq!(
        files(said.dir.path()),
        before,
        "the same files, and no temporary one"
    );
    assert!(read(&said, "empty.md").starts_with("<!-- layermark "));
}

#[test]
fn a_report_is_known_by_its_content() {
    let lm = Lm::stored(&["scripted"]);
    let said = lm.args(["report", "-o", "r.html"]).run().code(0);
    let dir = said.dir.path().to_owned();
    let at = |name: &str| dir.join(name);
    fs::rename(at("r.html"), at("moved.html")).unwrap();
    // Of a run in another store.
    fixtures::store(&at("other.db"), &["scripted-later"]);
    let other = ["report", "--store", "other.db", "-o", "moved.html"];
    let said = said.then().args(other).run().code(0);
    let mut text = read(&said, "moved.html");
    text.push(' ');
    fs::write(at("moved.html"), &text).unwrap();
    let report = |said: Said, more: &[&str]| {
        let args = ["report", "-o", "moved.html"];
        said.then().args(args).args(more).run()
    };
    let said = report(said, &[]);
    let said = said.fails(2, &["no record that layermark wrote this file", "--force"]);
    assert_eq!(read(&said, "moved.html"), text);
    let said = report(said, &["--force"]).code(0);
    let said = report(said, &[]).code(0);
    // Without the record, as for a file of an earlier version.
    fs::remove_file(at("data/layermark/written")).unwrap();
    report(said, &[]).fails(2, &["no record", "--force"]);
}

#[test]
fn the_record_of_reports_stays_small_and_is_no_link() {
    let lm = Lm::stored(&["scripted"]);
    let said = lm.args(["report", "-o", "first.md"]).run().code(0);
    let data = said.dir.path().join("data/layermark");
    let record = data.join("written");
    let known = read(&said, "data/layermark/written");
    let old = format!("1 {}\n", "0".repeat(64)).repeat(20_000);
    fs::write(&record, format!("{old}{known}")).unwrap();
    let args = ["report", "-o", "r.csv"];
    let said = said.then().args(args).run().code(0);
    assert!(fs::metadata(&record).unwrap().len() < 1 << 20);
    let said = said.then().args(args).run().code(0);
    let victim = data.join("victim");
    fs::write(&victim, "theirs").unwrap();
    fs::remove_file(&record).unwrap();
    symlink(&victim, &record).unwrap();
    let said = said.then().args(["report", "-o", "r.md"]).run().code(0);
    assert_eq!(read(&said, "data/layermark/victim"), "theirs");
}

/// Names of charts are known only when they are drawn.
#[test]
fn a_part_goes_beside_a_file_of_somebody_elses() {
    let lm = Lm::stored(&["charted"]);
    let said = lm.args(["report", "-o", "c.svg"]).run().code(0);
    let own: Vec<String> = said
        .stderr
        .lines()
        .filter_map(|l| l.strip_prefix("report: "))
        .map(str::to_owned)
        .collect();
    assert!(own.len() > 1, "{own:?}");
    fs::write(said.dir.path().join(&own[0]), "mine").unwrap();
    let said = said.then().args(["report", "-o", "c.svg"]).run().code(0);
    let beside = own[0].replace(".svg", "-2.svg");
    assert_eq!(read(&said, &own[0]), "mine");
    assert!(read(&said, &beside).contains("</svg>") && said.stderr.contains(&beside));
}

#[test]
fn standard_output_takes_one_report_in_any_format() {
    let lm = Lm::stored(&["scripted"]);
    let said = lm.args(["report", "-o", "-"]).run().code(0);
    assert!(said.stdout.starts_with("<!-- layermark ") && said.stdout.contains("\n# "));
    assert!(!said.stdout.contains("%]  difference"), "{}", said.stdout);
    let said = said.then().args(["report", "-o", "json:-"]).run().code(0);
    assert_eq!(said.json()["schema"], "layermark.report/1");
    let said = said
        .then()
        .args(["report", "-o", "trials.csv:-"])
        .run()
        .code(0);
    assert!(said.stdout.starts_with("seq,session,block"));
    for (args, why) in [
        (vec!["-o", "-", "-o", "csv:-"], "takes one report"),
        (vec!["-o", "-", "--json"], "takes one report"),
        (vec!["-o", "svg:-"], "several files"),
        (vec!["-o", "pdf:-"], "no format"),
    ] {
        Lm::with(said.dir.path())
            .args(["report"])
            .args(args)
            .run()
            .fails(2, &[why]);
    }
}

#[test]
fn any_letter_may_stand_in_a_name() {
    for name in ["\u{1e9e}.svg", "\u{130}.md", "\u{1f600}.JSON"] {
        let lm = Lm::stored(&["scripted"]);
        let said = lm.args(["report", "-o", name]).run().code(0);
        assert!(said.stderr.contains("report: "), "{}", said.stderr);
    }
}

#[test]
fn what_a_program_says_does_not_drive_the_terminal() {
    let names = [
        "r.html",
        "r.csv",
        "r.trials.csv",
        "r.md",
        "r.txt",
        "r.json",
        "r.iozone",
        "c.svg",
        "r.sections.csv",
    ];
    let outputs = names.iter().flat_map(|n| ["-o", n]);
    let loud = r"printf '\033[31mred\033[0m \033]0;title\007 \302\233 bell\n' >&2; exit 3";
    let said = Lm::new()
        .args(["launch", "--runs", "2"])
        .args(outputs)
        .args(["--", "sh", "-c", loud, "a\u{1b}[2J\u{202e}b"])
        .run();
    let bad = |text: &str| {
        text.chars()
            .find(|c| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}')
    };
    assert_eq!(bad(&said.stderr), None, "{}", said.stderr);
    assert_eq!(bad(&said.stdout), None, "{}", said.stdout);
    let mut seen = 0;
    for entry in fs::read_dir(said.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(bad(&text), None, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= names.len(), "{}", said.stderr);
}
